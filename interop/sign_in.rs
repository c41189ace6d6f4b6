//! Signing in with a browser to applications behind real proxies such as nginx. curl has the role of the browser: it handles cookies like a browser,
//! including the rules for the prefix `__Host-`.

use crate::curl::curl;
use crate::decision_listener::Asker;
use crate::decisions::{PROXIES, World};
use crate::proxy::Proxy;
use crate::second_factors::{passcode, require_passcode};
use crate::server::Scratch;
use std::path::PathBuf;
use std::process::Command;

const SIGN_IN: &str = "https://login.example.com";
const ENVIRONMENT: [(&str, &str); 1] = [("ENFILADE_DECISIONS__SIGN_IN", SIGN_IN)];
const PASSWORD: &str = "correct horse";
const NAVIGATES: [&str; 2] = ["Accept: text/html,*/*;q=0.8", "Sec-Fetch-Mode: navigate"];

/// A browser with its cookies.
struct Browser<'w> {
    world: &'w World,
    proxy: &'w Proxy,
    directory: Scratch,
}

/// A response.
struct Page {
    status: u16,
    head: String,
    body: String,
}

impl Page {
    fn header(&self, name: &str) -> &str {
        let find = |line: &str| {
            line.split_once(':')
                .filter(|(found, _)| found.eq_ignore_ascii_case(name))
                .map(|(found, _)| found.len())
        };
        let value = |line| find(line).map(|length| line[length + 1..].trim());
        self.head.lines().find_map(value).unwrap_or_default()
    }

    /// The value of a hidden field of the form.
    fn field(&self, name: &str) -> String {
        let begin = format!("name=\"{name}\" value=\"");
        let rest = self.body.split_once(&begin).map(|(_, rest)| rest).unwrap_or_default();
        rest.split('"').next().unwrap_or_default().replace("&amp;", "&")
    }
}

impl<'w> Browser<'w> {
    fn new(world: &'w World, proxy: &'w Proxy) -> Self {
        Browser { world, proxy, directory: Scratch::new() }
    }

    fn port(&self) -> &str {
        self.proxy.address.rsplit_once(':').unwrap().1
    }

    /// A URL of the application's host.
    fn at(&self, target: &str) -> String {
        format!("https://wiki.example.com:{}{target}", self.port())
    }

    fn jar(&self) -> PathBuf {
        self.directory.path().join("cookies")
    }

    fn send(&self, url: &str, arguments: &[&str]) -> Page {
        let own = self.world.server.url("");
        let own = own.trim_start_matches("https://");
        let jar = self.jar();
        let jar = jar.to_str().unwrap();
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--insecure", "--include", "--max-time", "60", "--http1.1"]);
        curl.args(["--path-as-is", "--globoff", "--cookie", jar, "--cookie-jar", jar]);
        curl.args(["--connect-to", &format!("login.example.com:443:{own}")]);
        for host in ["wiki", "blog"] {
            curl.args(["--resolve", &format!("{host}.example.com:{}:127.0.0.1", self.port())]);
        }
        let output = curl.args(arguments).arg(url).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| {
            panic!("{url}: {}\n{}", String::from_utf8_lossy(&output.stderr), self.world.server.log())
        });
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Page { status, head: head.to_owned(), body: body.to_owned() }
    }

    /// Opens a page, as if a person had clicked a link.
    fn open(&self, url: &str) -> Page {
        self.send(url, &["--header", NAVIGATES[0], "--header", NAVIGATES[1]])
    }

    /// Opens a page and follows all redirects. Returns the last URL and the page.
    fn visit(&self, url: &str) -> (String, Page) {
        let mut url = url.to_owned();
        for _ in 0..8 {
            let page = self.open(&url);
            if page.status != 303 {
                return (url, page);
            }
            url = absolute(&url, page.header("location"));
        }
        panic!("too many redirects, at last to {url}\n{}", self.world.server.log());
    }

    /// Sends the form of the sign-in page.
    fn submit(&self, form: &Page, user: &str, password: &str, passcode: &str) -> Page {
        let fields = [
            ("host", form.field("host")),
            ("state", form.field("state")),
            ("to", form.field("to")),
            ("receipt", form.field("receipt")),
            ("user", user.to_owned()),
            ("password", password.to_owned()),
            ("passcode", passcode.to_owned()),
        ];
        let fields: Vec<String> = fields
            .iter()
            .filter(|(name, value)| !value.is_empty() || *name == "passcode")
            .flat_map(|(name, value)| ["--data-urlencode".to_owned(), format!("{name}={value}")])
            .collect();
        let mut arguments = vec!["--header", "Origin: https://login.example.com"];
        arguments.extend(fields.iter().map(String::as_str));
        self.send(&format!("{SIGN_IN}/.enfilade/sign-in"), &arguments)
    }

    /// Signs in from the application's page, and returns to this page.
    fn sign_in(&self, user: &str, target: &str) -> Page {
        let (_, form) = self.visit(&self.at(target));
        let done = self.submit(&form, user, PASSWORD, "");
        assert_eq!(done.status, 303, "{}\n{}", done.body, self.world.server.log());
        self.visit(done.header("location")).1
    }

    /// The value of a cookie.
    fn cookie(&self, host: &str, name: &str) -> String {
        let jar = std::fs::read_to_string(self.jar()).unwrap_or_default();
        let fields = |line: &str| line.split('\t').map(str::to_owned).collect::<Vec<_>>();
        let lines = jar.lines().map(fields);
        let is_it = |fields: &Vec<String>| {
            fields.len() == 7 && fields[0].trim_start_matches("#HttpOnly_") == host && fields[5] == name
        };
        lines.into_iter().find(is_it).map(|fields| fields[6].clone()).unwrap_or_default()
    }
}

fn absolute(base: &str, location: &str) -> String {
    match location.starts_with('/') {
        true => format!("{}{location}", base.split('/').take(3).collect::<Vec<_>>().join("/")),
        false => location.to_owned(),
    }
}

fn world() -> World {
    world_with(&[])
}

fn world_with(more: &[(&str, &str)]) -> World {
    let world = World::new(&[&ENVIRONMENT, more].concat());
    for user in ["writer-x@local", "nobody-x@local"] {
        let set = world.server.cli_output(&["user", "passwd", user, "--password-stdin"], PASSWORD);
        assert!(set.status.success(), "{}", String::from_utf8_lossy(&set.stderr));
    }
    world
}

/// Starts a proxy, and sets its port as the port of the application, so that browsers return to the proxy.
fn proxy_of(world: &World, kind: &str) -> Proxy {
    let proxy = world.proxy_with(kind, true);
    let port = proxy.address.rsplit_once(':').unwrap().1;
    world.server.cli(&["application", "set", "wiki", "--port", port]);
    proxy
}

#[test]
fn a_person_signs_in_with_a_browser_behind_every_proxy() {
    let world = world();
    for kind in PROXIES {
        let proxy = proxy_of(&world, kind);
        let browser = Browser::new(&world, &proxy);
        let log = || world.server.log();
        // A client of an API, or the script of a page, gets a status instead of a redirect.
        for headers in [&["Accept: application/json"][..], &[NAVIGATES[0], "Sec-Fetch-Mode: cors"]] {
            let arguments: Vec<&str> = headers.iter().flat_map(|header| ["--header", *header]).collect();
            let page = browser.send(&browser.at("/page"), &arguments);
            assert_eq!(page.status, 401, "{kind} {headers:?}\n{}", log());
            assert!(page.header("www-authenticate").starts_with("Basic"), "{kind}: {}", page.head);
        }
        // A browser is redirected to the sign-in page, and then back to the page that it opened.
        let (url, form) = browser.visit(&browser.at("/a%20page?x=1&y=%2F"));
        assert!(url.starts_with(&format!("{SIGN_IN}/.enfilade/sign-in?")), "{kind}: {url}\n{}", log());
        assert!(form.status == 200 && form.body.contains("wiki"), "{kind}: {}", form.body);
        assert!(browser.submit(&form, "writer-x", "wrong", "").status == 403);
        let done = browser.submit(&form, "writer-x", PASSWORD, "");
        assert_eq!(done.status, 303, "{kind}: {}", done.body);
        world.application.take();
        let (url, page) = browser.visit(done.header("location"));
        assert_eq!(
            (page.status, url),
            (200, browser.at("/a%20page?x=1&y=%2F")),
            "{kind}: {}\n{}",
            page.head,
            log()
        );
        let got = world.application.take();
        assert_eq!(got.len(), 1, "{kind}: {got:?}");
        assert_eq!(got[0].header("remote-user"), "writer-x@local", "{kind}: {got:?}");
        assert_eq!(got[0].header("remote-groups"), "staff@local", "{kind}: {got:?}");
        // The application gets its own cookies, but no cookies of this server.
        let own = browser.cookie("wiki.example.com", "__Host-enfilade");
        assert_eq!(own.len(), 75, "{kind}: {own}");
        let bare = Browser::new(&world, &proxy);
        let cookies = format!("a=b; __Host-enfilade={own}; c=d; __Host-enfilade-start=x");
        let page = bare.send(&bare.at("/page"), &["--cookie", &cookies]);
        let got = world.application.take();
        assert_eq!((page.status, got.len()), (200, 1), "{kind}: {}\n{}", page.head, log());
        let said = got[0].header("cookie");
        assert!(said.contains("a=b") && said.contains("c=d") && !said.contains("nfilade"), "{kind}: {said}");
        let page = bare.send(&bare.at("/static/a"), &["--cookie", &format!("__Host-enfilade={own}")]);
        let got = world.application.take();
        assert!(page.status == 200 && !got[0].header("cookie").contains("nfilade"), "{kind}: {got:?}");
        // A request with a cookie and another credential is refused. A request with two cookies is refused, too.
        let basic = world.logins["writer"].as_str();
        let twice = format!("__Host-enfilade={own}; __Host-enfilade={own}");
        for arguments in [&["--user", basic][..], &["--cookie", &twice]] {
            let client = if arguments[0] == "--cookie" { &bare } else { &browser };
            let page = client.send(&client.at("/page"), arguments);
            assert!(page.status >= 400 && world.application.take().is_empty(), "{kind}: {}", page.head);
        }
        // If a request has a cookie and a header with a credential, the configuration of the application can say which of the two is used.
        for (choice, user) in [("cookie", "writer-x@local"), ("header", "writer-x@local!t")] {
            world.server.cli(&["application", "set", "wiki", "--if-both", choice]);
            let page = browser.send(&browser.at("/page"), &["--user", basic]);
            let got = world.application.take();
            assert_eq!((page.status, got.len()), (200, 1), "{kind} {choice}: {}\n{}", page.head, log());
            assert_eq!(got[0].header("remote-user"), user, "{kind} {choice}: {got:?}");
        }
        world.server.cli(&["application", "set", "wiki", "--if-both", "none"]);
        // Requests to the paths of the sign-in never reach the application.
        for target in [
            "/.enfilade/x",
            "/.enfilade/decide",
            "/.enfilade/../page",
            "/.enfilade/%2e%2e/page",
            "/decide/envoy/../../.enfilade/x",
            "/decide/envoy/%2e%2e/%2e%2e/.enfilade/x",
        ] {
            let page = browser.open(&browser.at(target));
            let got = world.application.take();
            // Traefik resolves the segments `..` before it asks.
            let is_resolved = kind == "traefik" && got.iter().all(|got| got.target == "/page");
            assert!(page.status >= 400 && got.is_empty() || is_resolved, "{kind} {target}: {}", page.head);
        }
        // The roles decide about a known user, so there is no redirect.
        assert_eq!(browser.open(&browser.at("/admin")).status, 403, "{kind}");
        // Signing out ends the session at once.
        let asked = browser.open(&browser.at("/.enfilade/sign-out"));
        assert!(asked.status == 200 && asked.body.contains("Sign out"), "{kind}: {}", asked.body);
        let forged = ["--request", "POST", "--header", "Origin: https://evil.example"];
        assert_eq!(browser.send(&browser.at("/.enfilade/sign-out"), &forged).status, 403, "{kind}");
        assert_eq!(browser.open(&browser.at("/page")).status, 200, "{kind}\n{}", log());
        let origin = format!("Origin: {}", browser.at(""));
        let out = ["--request", "POST", "--header", &origin];
        let page = browser.send(&browser.at("/.enfilade/sign-out"), &out);
        assert_eq!(page.status, 200, "{kind}: {}\n{}", page.body, log());
        let page = bare.send(
            &bare.at("/page"),
            &["--header", NAVIGATES[0], "--cookie", &format!("__Host-enfilade={own}")],
        );
        assert_eq!(page.status, 303, "{kind}: {}\n{}", page.head, log());
        let (url, _) = browser.visit(&browser.at("/page"));
        assert!(url.starts_with(SIGN_IN), "{kind}: the sign-in ended, too: {url}");
    }
    let log = world.server.log();
    assert!(log.contains("\"face\":\"sign-in\"") && !log.contains(PASSWORD), "{log}");
}

#[test]
fn one_sign_in_is_enough_for_all_applications_and_its_cookies_are_for_nothing_else() {
    let world = world();
    let proxy = proxy_of(&world, "nginx");
    let browser = Browser::new(&world, &proxy);
    assert_eq!(browser.sign_in("writer-x@local", "/page").status, 200);
    let (wiki, sign_in) = (
        browser.cookie("wiki.example.com", "__Host-enfilade"),
        browser.cookie("login.example.com", "__Host-enfilade-sign-in"),
    );
    // The application `blog` gets a session without a second sign-in. No proxy serves `blog`, so the test itself sends the subrequests to the
    // listener.
    let mut asker = Asker::connect(&world.socket());
    let own = [
        "X-Forwarded-Proto: https",
        "X-Forwarded-For: 192.0.2.7",
        "X-Forwarded-Host: blog.example.com:7",
        "X-Enfilade-Application: blog",
    ];
    let started = asker.send("GET /.enfilade/start?to=/x", &own, "");
    let state = started.headers["set-cookie"].split([';', '=']).nth(1).unwrap().to_owned();
    let to = browser.open(&started.headers["location"]);
    let back = to.header("location").to_owned();
    assert!(back.starts_with("https://blog.example.com/.enfilade/finish?code="), "{}", to.body);
    let target = back.trim_start_matches("https://blog.example.com").to_owned();
    let cookie = format!("Cookie: __Host-enfilade-start={state}");
    // The code is valid for this browser, for this host, and for one use. An attempt of another browser uses the code up, too.
    let with = |lines: &[&str], more: &str| -> Vec<String> {
        lines.iter().map(|line| (*line).to_owned()).chain([more.to_owned()]).collect()
    };
    let other_browser = format!("Cookie: __Host-enfilade-start={}", "0".repeat(64));
    let wiki_host = [
        "X-Forwarded-Proto: https",
        "X-Forwarded-For: 192.0.2.7",
        "X-Forwarded-Host: wiki.example.com",
        "X-Enfilade-Application: wiki",
    ];
    let right = with(&own, &cookie);
    let shown = |asker: &mut Asker, target: &str, lines: &[String]| {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        asker.send(&format!("GET {target}"), &lines, "")
    };
    let mut target = target;
    for lines in [with(&own, "X-Nothing: 1"), with(&own, &other_browser), with(&wiki_host, &cookie)] {
        let told = shown(&mut asker, &target, &lines);
        assert!(told.status == 403 && !told.headers.contains_key("set-cookie"), "{lines:?}: {}", told.body);
        let told = shown(&mut asker, &target, &right);
        assert!(told.status == 403 && !told.headers.contains_key("set-cookie"), "{lines:?}: {}", told.body);
        let to = browser.open(&started.headers["location"]);
        target = to.header("location").trim_start_matches("https://blog.example.com").to_owned();
    }
    let told = shown(&mut asker, &target, &right);
    assert_eq!((told.status, told.headers["location"].as_str()), (303, "/x"), "{}", told.body);
    let blog = told.headers["set-cookie"].split([';', '=']).nth(1).unwrap().to_owned();
    assert_eq!(shown(&mut asker, &target, &right).status, 403, "the code was exchanged twice");
    // A request in the background of a browser gets no code.
    let hidden = ["--header", "Sec-Fetch-Mode: no-cors"];
    let page = browser.send(&started.headers["location"], &hidden);
    assert!(page.status == 200 && page.body.contains("<form"), "{}", page.head);

    // Each cookie is valid only for its application.
    let mut ask = |application: &str, cookie: &str| {
        let lines = [
            "X-Forwarded-Method: POST".to_owned(),
            "X-Forwarded-Proto: https".to_owned(),
            format!("X-Forwarded-Host: {application}.example.com"),
            "X-Forwarded-Uri: /page".to_owned(),
            "X-Forwarded-For: 192.0.2.7".to_owned(),
            format!("X-Enfilade-Application: {application}"),
            format!("Cookie: __Host-enfilade={cookie}"),
        ];
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        asker.send("GET /decide/caddy", &lines, "").status
    };
    assert_eq!(ask("wiki", &wiki), 200);
    assert_eq!(ask("blog", &blog), 403, "the user is known, and has no role there");
    for (application, cookie) in [("wiki", &blog), ("blog", &wiki), ("wiki", &sign_in), ("blog", &sign_in)] {
        assert_eq!(ask(application, cookie), 401, "{application}");
    }
    // The cookies are not valid elsewhere, neither as a cookie nor as a token.
    for cookie in [&wiki, &blog, &sign_in] {
        for name in ["__Host-enfilade", "__Host-enfilade-sign-in", "PBSAuthCookie", "__Host-PBSAuthCookie"] {
            for path in ["/dav/main/", "/v3/auth/tokens", "/api2/json/access/users", "/whoami"] {
                let cookie = format!("Cookie: {name}={cookie}");
                let answer = curl(&world.server, "", path, &["--header", &cookie]);
                assert!([400, 401].contains(&answer.status), "{path} {name}: {answer:?}");
            }
        }
        for header in [format!("Authorization: Bearer {cookie}"), format!("X-Auth-Token: {cookie}")] {
            for path in ["/dav/main/", "/v3/auth/tokens", "/whoami"] {
                let answer = curl(&world.server, "", path, &["--header", &header]);
                assert_eq!(answer.status, 401, "{path} {header}: {answer:?}");
            }
        }
    }
    // If the sign-in ends, the sessions of all applications end with the next request.
    world.server.cli(&["user", "disable", "writer-x@local"]);
    assert_eq!((ask("wiki", &wiki), ask("blog", &blog)), (401, 401));
    world.server.cli(&["user", "enable", "writer-x@local"]);
    assert_eq!((ask("wiki", &wiki), ask("blog", &blog)), (401, 401), "disabling ended the sessions");
    let again = Browser::new(&world, &proxy);
    assert_eq!(again.sign_in("writer-x@local", "/page").status, 200);
    let wiki = again.cookie("wiki.example.com", "__Host-enfilade");
    assert_eq!(ask("wiki", &wiki), 200);
    // The command for one session ends all sessions of the sign-in, because these sessions have the same audit id.
    let sessions = world.server.cli(&["session", "list"]);
    let own = sessions.last().unwrap()["audit_id"].as_str().unwrap().to_owned();
    world.server.cli(&["revoke", "session", &own]);
    assert_eq!(ask("wiki", &wiki), 401, "{sessions:?}");
    let (url, _) = again.visit(&again.at("/page"));
    assert!(url.starts_with(SIGN_IN), "{url}");
    let dump = world.server.cli(&["facts", "dump"]);
    let rows: Vec<_> = dump.iter().filter(|row| row["table"] == "browser-sessions").collect();
    assert!(rows.len() >= 4 && rows.iter().all(|row| row.to_string().contains("redacted")), "{rows:?}");
}

#[test]
fn the_page_for_signing_in_leads_only_to_applications_and_takes_only_its_own_form() {
    let world = world();
    let proxy = proxy_of(&world, "nginx");
    let browser = Browser::new(&world, &proxy);
    let page = |query: &str| browser.open(&format!("{SIGN_IN}/.enfilade/sign-in{query}"));
    let state = "0".repeat(64);
    assert_eq!(page("").status, 200);
    for query in [
        "?host=evil.example&state=STATE&to=/",
        "?host=wiki.example.com.evil.example&state=STATE",
        "?host=wiki.example.com@evil.example&state=STATE",
        "?host=wiki.example.com%2F.evil.example&state=STATE",
        "?host=&state=STATE",
        "?host=wiki.example.com&state=",
        "?host=wiki.example.com&state=<script>",
        "?host=wiki.example.com",
        "?host=wiki.example.com:9999&state=STATE",
    ] {
        let found = page(&query.replace("STATE", &state));
        assert!(found.status == 400 && !found.body.contains("<form"), "{query}: {}", found.body);
    }
    let form = page(&format!("?host=wiki.example.com&state={state}&to=//evil.example"));
    assert_eq!(form.status, 200);
    for (name, expected) in [
        ("content-security-policy", "frame-ancestors 'none'"),
        ("content-security-policy", "form-action 'self' https://wiki.example.com:PORT;"),
        ("content-security-policy", "default-src 'none'"),
        ("cache-control", "no-store"),
        ("x-content-type-options", "nosniff"),
    ] {
        let expected = expected.replace("PORT", browser.port());
        assert!(form.header(name).contains(&expected), "{name}: {}", form.head);
    }
    let evil = "\"><script>alert(1)</script>";
    let back = browser.submit(&form, evil, "wrong", "");
    assert!(back.status == 403 && !back.body.contains("<script"), "{}", back.body);
    // The target was not a path of the host, so the server replaced the target by the root.
    let done = browser.submit(&form, "writer-x", PASSWORD, "");
    assert!(done.status == 303 && done.header("location").ends_with("&to=/"), "{}", done.head);
    let cookie = done.header("set-cookie");
    for part in ["__Host-enfilade-sign-in=", "; Path=/", "; Secure", "; HttpOnly", "; SameSite=Lax"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.contains("Domain"), "{cookie}");
    // A browser that is signed in sees the name of its user, and can sign out.
    let page = page("");
    assert!(page.body.contains("writer-x@local") && page.body.contains("Sign out"), "{}", page.body);
    // A form of another site, or without `Origin`, is refused.
    let data = format!("user=writer-x&password={}", PASSWORD.replace(' ', "+"));
    for origin in
        ["Origin: https://evil.example", "Origin: null", "X-Nothing: 1", "Origin: http://login.example.com"]
    {
        let arguments = ["--header", origin, "--data", &data];
        let page = browser.send(&format!("{SIGN_IN}/.enfilade/sign-in"), &arguments);
        assert!(page.status == 403 && page.header("set-cookie").is_empty(), "{origin}: {}", page.head);
    }
    // The cookie does not prevent a login with another credential at the same host.
    let own = ["--header", "Cookie: __Host-enfilade-sign-in=x", "--user", "writer-x@local:correct horse"];
    assert_eq!(browser.send(&format!("{SIGN_IN}/whoami"), &own).status, 200);
    let taken = world.server.cli_output_with(
        &ENVIRONMENT,
        &["application", "create", "evil", "--host", "login.example.com"],
        "",
    );
    let said = String::from_utf8_lossy(&taken.stderr).into_owned();
    assert!(!taken.status.success() && said.contains("page for signing in"), "{said}");
    // The number of codes is limited, even for a signed-in browser.
    let link = format!("{SIGN_IN}/.enfilade/sign-in?host=wiki.example.com&state={state}");
    let statuses: Vec<u16> =
        (0..125).map(|_| browser.open(&link).status).take_while(|it| *it != 429).collect();
    assert!((1..125).contains(&statuses.len()) && statuses.iter().all(|it| *it == 303), "{statuses:?}");
    // A browser cannot sign in with an API token.
    let (login, secret) = world.logins["writer"].rsplit_once(':').unwrap();
    assert_eq!(browser.submit(&form, login, secret, "").status, 403);
}

#[test]
fn a_user_with_a_second_factor_needs_it_here_too() {
    let world = world();
    let proxy = proxy_of(&world, "nginx");
    let browser = Browser::new(&world, &proxy);
    require_passcode(&world.server, "writer-x@local");
    let (_, form) = browser.visit(&browser.at("/page"));
    let asked = browser.submit(&form, "writer-x", PASSWORD, "");
    assert!(asked.status == 200 && asked.body.contains("name=\"passcode\""), "{}", asked.body);
    assert!(asked.header("set-cookie").is_empty(), "{}", asked.head);
    let passcode = passcode();
    // A right passcode or a right password alone is not enough, and the page does not say which of the two was wrong.
    let wrong = browser.submit(&form, "writer-x", PASSWORD, "000000");
    let other = browser.submit(&form, "writer-x", "wrong", &passcode);
    for page in [&wrong, &other] {
        assert!(page.status == 403 && page.header("set-cookie").is_empty(), "{}", page.head);
        assert!(page.body.contains("The user name, the password or the code is wrong"), "{}", page.body);
    }
    // The second form sends the receipt for the password in place of the password.
    let wrong = browser.submit(&asked, "writer-x", "", "000000");
    assert!(wrong.status == 403 && wrong.body.contains("The code is wrong"), "{}", wrong.body);
    let other = browser.submit(&wrong, "nobody-x", "", &passcode);
    assert!(other.status == 403 && other.header("set-cookie").is_empty(), "{}", other.head);
    let done = browser.submit(&wrong, "writer-x", "", &format!(" {} {} ", &passcode[..3], &passcode[3..]));
    assert_eq!(done.status, 303, "{}\n{}", done.body, world.server.log());
    assert_eq!(browser.visit(done.header("location")).1.status, 200);
    // A passcode is valid only once.
    let another = Browser::new(&world, &proxy);
    let (_, form) = another.visit(&another.at("/page"));
    assert_eq!(another.submit(&form, "writer-x", PASSWORD, &passcode).status, 403);
}

#[test]
fn a_sign_in_lasts_as_long_as_the_limit_says() {
    let world = world_with(&[("ENFILADE_LIMITS__BROWSER_SESSION_SECONDS", "4")]);
    let proxy = proxy_of(&world, "nginx");
    let browser = Browser::new(&world, &proxy);
    assert_eq!(browser.sign_in("writer-x@local", "/page").status, 200, "{}", world.server.log());
    let own = browser.cookie("wiki.example.com", "__Host-enfilade");
    std::thread::sleep(std::time::Duration::from_secs(5));
    // The session has ended, even if the browser still sends the cookie.
    let bare = Browser::new(&world, &proxy);
    let cookie = format!("__Host-enfilade={own}");
    let page = bare.send(&bare.at("/page"), &["--header", NAVIGATES[0], "--cookie", &cookie]);
    assert_eq!(page.status, 303, "{}", page.head);
    let (url, _) = browser.visit(&browser.at("/page"));
    assert!(url.starts_with(SIGN_IN), "{url}");
}

#[test]
fn without_the_setting_nobody_signs_in_with_a_browser() {
    let world = World::new(&[]);
    let proxy = proxy_of(&world, "nginx");
    let browser = Browser::new(&world, &proxy);
    assert_eq!(browser.open(&browser.at("/page")).status, 401);
    for target in ["/.enfilade/start", "/.enfilade/finish?code=x", "/.enfilade/sign-out"] {
        assert_eq!(browser.open(&browser.at(target)).status, 404, "{target}");
    }
    let answer = curl(&world.server, "", "/.enfilade/sign-in", &[]);
    assert_eq!(answer.status, 404);
}
