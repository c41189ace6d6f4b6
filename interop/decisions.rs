//! Real proxies (nginx, HAProxy, Caddy, Envoy, Traefik) in front of an application. Each proxy runs with the output of `enfilade integrate`, and asks
//! the real server before it forwards a request.

use crate::proxy::{Proxy, nginx_around};
use crate::server::{Scratch, Server, WITHOUT_PENALTIES, free_port};
use crate::terms::Authority;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

/// The proxies, by the name of the product in `enfilade integrate`.
pub(crate) const PROXIES: [&str; 6] = ["nginx", "haproxy", "caddy", "envoy", "envoy --grpc", "traefik"];

pub(crate) const HOST: &str = "wiki.example.com";

/// A request that the application got.
#[derive(Clone, Debug)]
pub(crate) struct Got {
    method: String,
    pub(crate) target: String,
    headers: BTreeMap<String, Vec<String>>,
}

impl Got {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("-", |values| &values[0])
    }
}

/// A small application that answers every request with 200, and keeps what it got.
pub(crate) struct Application {
    address: String,
    got: Arc<Mutex<Vec<Got>>>,
}

impl Application {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let got = Arc::<Mutex<Vec<Got>>>::default();
        let keeps = Arc::clone(&got);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let keeps = Arc::clone(&keeps);
                std::thread::spawn(move || serve(stream.unwrap(), &keeps));
            }
        });
        Application { address, got }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// What the application got since the last call.
    pub(crate) fn take(&self) -> Vec<Got> {
        std::mem::take(&mut self.got.lock().unwrap())
    }
}

/// Serves the requests of one connection, until the client closes it.
fn serve(mut stream: TcpStream, got: &Mutex<Vec<Got>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    loop {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            match line.trim_end() {
                "" if lines.is_empty() => {}
                "" => break,
                line => lines.push(line.to_owned()),
            }
        }
        let mut first = lines[0].split(' ').map(str::to_owned);
        let (method, target) = (first.next().unwrap(), first.next().unwrap());
        let mut headers = BTreeMap::<String, Vec<String>>::new();
        for line in &lines[1..] {
            let (name, value) = line.split_once(':').unwrap();
            headers.entry(name.to_ascii_lowercase()).or_default().push(value.trim().to_owned());
        }
        let length = headers.get("content-length").map_or(0, |values| values[0].parse().unwrap());
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        got.lock().unwrap().push(Got { method, target, headers });
        if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_err() {
            return;
        }
    }
}

/// A server with the application `wiki`, and the logins of its users.
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) application: Application,
    directory: Scratch,
    /// The address of the decision listener, as in the configuration of the server.
    listen: String,
    pub(crate) logins: BTreeMap<&'static str, String>,
}

impl World {
    pub(crate) fn new(environment: &[(&str, &str)]) -> Self {
        let directory = Scratch::new();
        let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        let authority = Authority::new("house");
        let bundle = |name: &str, is_client| {
            let (certificate, key) = authority.give(name, is_client);
            format!("{certificate}{key}")
        };
        std::fs::write(at("ca.pem"), &authority.pem).unwrap();
        std::fs::write(at("server.pem"), bundle("localhost,127.0.0.1", false) + &authority.pem).unwrap();
        std::fs::write(at("client.pem"), bundle("traefik", true)).unwrap();
        let list = format!("{} [verify optional ca-file {}]\n", at("server.pem"), at("ca.pem"));
        std::fs::write(at("list"), list).unwrap();
        let listen = format!("unix:{},localhost:{}", at("decisions.sock"), free_port());
        let own = [
            ("ENFILADE_DECISIONS__LISTEN", listen.as_str()),
            ("ENFILADE_TLS__CRT_LIST", &at("list")),
            WITHOUT_PENALTIES,
        ];
        let prepare = |data: &Path| {
            std::fs::create_dir_all(data.join("tls")).unwrap();
            std::fs::copy(at("ca.pem"), data.join("tls/localhost.crt")).unwrap();
        };
        let server = Server::start_on(prepare, &[&own, environment].concat());
        server.cli(&["user", "add", "proxy@local"]);
        server.cli(&["token", "create", "proxy@local!traefik", "--certificate", &at("client.pem")]);
        server.cli(&["role", "assign", "--path", "/system/decisions", "--auth-id", "proxy@local", "Audit"]);
        let application = Application::start();
        server.cli(&[
            "application",
            "create",
            "wiki",
            "--host",
            HOST,
            "--public",
            "/static",
            "--open",
            "/hooks",
            "--administer",
            "/admin",
            "--pass-preflight",
            "yes",
        ]);
        server.cli(&["application", "create", "blog", "--host", "blog.example.com", "--public", "/"]);
        let mut logins = BTreeMap::new();
        server.cli(&["group", "add", "staff"]);
        for (user, role) in [
            ("reader", Some("ApplicationReader")),
            ("writer", Some("ApplicationUser")),
            ("admin", Some("ApplicationAdmin")),
            ("nobody", None),
        ] {
            let name = format!("{user}-x@local");
            server.cli(&["user", "add", &name]);
            server.cli(&["group", "member", "add", "staff", &name]);
            if let Some(role) = role {
                server.cli(&["role", "assign", "--path", "/application/wiki", "--auth-id", &name, role]);
            }
            logins.insert(user, server.add_token(&format!("{name}!t")));
        }
        server.cli(&[
            "role",
            "assign",
            "--path",
            "/application/wiki/private",
            "--auth-id",
            "writer-x@local",
            "NoAccess",
        ]);
        World { server, application, directory, listen, logins }
    }

    /// The socket of the decision listener.
    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("decisions.sock")
    }

    /// Starts a proxy with the output of `enfilade integrate`.
    fn proxy(&self, kind: &str) -> Proxy {
        self.proxy_with(kind, true)
    }

    pub(crate) fn proxy_with(&self, kind: &str, with_tls: bool) -> Proxy {
        self.proxy_for(kind, "wiki", &["--upstream", &self.application.address], with_tls)
    }

    /// Starts a proxy in front of an application, with further arguments of `enfilade integrate`.
    pub(crate) fn proxy_for(&self, kind: &str, application: &str, more: &[&str], with_tls: bool) -> Proxy {
        let address = format!("127.0.0.1:{}", free_port());
        let directory = self.directory.path().join(format!("{kind}-{application}"));
        std::fs::create_dir(&directory).unwrap();
        let at_root = |name: &str| self.directory.path().join(name).to_str().unwrap().to_owned();
        let (at, bundle) = (directory.to_str().unwrap(), &at_root("server.pem"));
        let (client, ca) = (at_root("client.pem"), at_root("ca.pem"));
        // HAProxy reads the key from the file of the certificate.
        let certificate = ["--certificate", bundle, "--key", bundle];
        let certificate = if kind == "haproxy" { &certificate[..2] } else { &certificate };
        let mut arguments = vec!["integrate"];
        arguments.extend(kind.split(' '));
        arguments.extend(["--application", application]);
        arguments.extend(more);
        arguments.extend(["--listen", &address, "--directory", at]);
        match with_tls {
            true => arguments.extend(certificate),
            false => arguments.push("--no-tls"),
        }
        if kind == "traefik" {
            arguments.extend(["--client-certificate", &client, "--client-key", &client, "--ca", &ca]);
        }
        let output =
            self.server.cli_output_with(&[("ENFILADE_DECISIONS__LISTEN", &self.listen)], &arguments, "");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let printed = |file: &str| std::fs::read_to_string(directory.join(file)).unwrap();
        let file = match kind {
            "nginx" => {
                let text =
                    nginx_around(&directory, &format!("include \"{at}/enfilade-{application}.conf\";"));
                std::fs::write(directory.join("nginx.conf"), text).unwrap();
                "nginx.conf"
            }
            "haproxy" => "haproxy.cfg",
            "caddy" => {
                let options = "{\nadmin off\nauto_https disable_redirects\n}\n";
                std::fs::write(directory.join("Caddyfile"), format!("{options}{}", printed("Caddyfile")))
                    .unwrap();
                "Caddyfile"
            }
            "traefik" => {
                let text = format!(
                    "entryPoints:\n  web:\n    address: \"{address}\"\nproviders:\n  file:\n    filename: {at}/enfilade-{application}.yml\n"
                );
                std::fs::write(directory.join("traefik.yml"), text).unwrap();
                "traefik.yml"
            }
            _ => "envoy.yaml",
        };
        Proxy::start(kind, &directory, file, address)
    }

    /// Sends a request through a proxy. Returns the status, and what the application got.
    fn ask(&self, proxy: &Proxy, case: &Case<'_>) -> (u16, Vec<Got>) {
        self.application.take();
        let port = proxy.address.rsplit_once(':').unwrap().1;
        let mut curl = Command::new("curl");
        curl.args([
            "--silent",
            "--show-error",
            "--insecure",
            "--max-time",
            "60",
            "--path-as-is",
            "--globoff",
        ]);
        curl.args(["--resolve", &format!("{HOST}:{port}:127.0.0.1"), "--request", case.method]);
        curl.args(["--output", "/dev/null", "--write-out", "%{http_code}"]);
        if case.method == "HEAD" {
            curl.arg("--head");
        }
        curl.arg(if case.is_http2 { "--http2" } else { "--http1.1" });
        match case.who {
            "" => {}
            who => drop(curl.args(["--user", self.logins.get(who).map_or(who, String::as_str)])),
        }
        for header in case.headers {
            curl.args(["--header", &header.replace("PORT", port)]);
        }
        let output = curl.arg(format!("https://{HOST}:{port}{}", case.target)).output().unwrap();
        let status = String::from_utf8(output.stdout).unwrap();
        (status.parse().unwrap_or(0), self.application.take())
    }
}

/// A request, and its expected result.
struct Case<'c> {
    /// The name of a login, a login, or an empty text for a request without a login.
    who: &'c str,
    method: &'c str,
    target: &'c str,
    headers: &'c [&'c str],
    is_http2: bool,
    expected: Expected,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// The application gets the request, with this name in the header `Remote-User`. The name is empty for a request without a user.
    Passes(&'static str),
    /// The application does not get the request, and the client gets this status.
    Refused(u16),
    /// The application does not get the request. The proxies answer with different statuses.
    RefusedSomehow,
    /// The application does not get the request, or gets it with this path. The server judged the same path: Traefik resolves the segments `.` and
    /// `..`, and removes `X-Forwarded-Prefix`.
    RefusedOr(&'static str),
    /// The application does not get the request, or gets it without the header for a change of the protocol: Envoy removes this header.
    NoTunnel,
    /// The application does not get the request. Caddy answers with status 200 and an empty body, because no site has the host.
    NotPassed,
}
use Expected::{NoTunnel, NotPassed, Passes, Refused, RefusedOr, RefusedSomehow};

const fn case<'c>(who: &'c str, method: &'c str, target: &'c str, expected: Expected) -> Case<'c> {
    Case { who, method, target, headers: &[], is_http2: false, expected }
}

const fn with<'c>(case: Case<'c>, headers: &'c [&'c str]) -> Case<'c> {
    Case { headers, ..case }
}

const WRITER: Expected = Passes("writer-x@local!t");
const READER: Expected = Passes("reader-x@local!t");
const ADMIN: Expected = Passes("admin-x@local!t");
const EVERYBODY: Expected = Passes("");

const PREFLIGHT: [&str; 2] = ["Origin: https://other.example", "Access-Control-Request-Method: PUT"];

/// The cases that every proxy must handle in the same way.
const CASES: &[Case<'_>] = &[
    // The rights of each user.
    case("", "GET", "/", Refused(401)),
    case("writer-x@local:wrong", "GET", "/", Refused(401)),
    case("stranger@local!t:wrong", "GET", "/", Refused(401)),
    case("nobody", "GET", "/", Refused(403)),
    case("reader", "GET", "/page?a=b", READER),
    case("reader", "HEAD", "/page", READER),
    case("reader", "POST", "/page", Refused(403)),
    case("reader", "DELETE", "/page", Refused(403)),
    case("writer", "POST", "/page", WRITER),
    case("writer", "PUT", "/page", WRITER),
    case("writer", "GET", "/private", Refused(403)),
    case("writer", "GET", "/private/a", Refused(403)),
    case("writer", "GET", "/privately", WRITER),
    case("admin", "GET", "/private", ADMIN),
    // Public paths, and paths for administrators.
    case("", "GET", "/static/style.css", EVERYBODY),
    case("", "POST", "/static/style.css", Refused(401)),
    case("writer-x@local:wrong", "GET", "/static/style.css", EVERYBODY),
    case("", "GET", "/staticfoo", Refused(401)),
    case("", "POST", "/hooks/1", EVERYBODY),
    case("writer", "GET", "/admin", Refused(403)),
    case("writer", "GET", "/admin/", Refused(403)),
    case("writer", "GET", "/%61dmin/x", Refused(403)),
    case("admin", "POST", "/admin/x", ADMIN),
    case("", "GET", "/static", EVERYBODY),
    // Preflight requests.
    with(case("", "OPTIONS", "/page", EVERYBODY), &PREFLIGHT),
    case("", "OPTIONS", "/page", Refused(401)),
    with(case("", "PUT", "/page", Refused(401)), &PREFLIGHT),
    // Paths that the application could read differently from the server.
    case("writer", "GET", "/a/../admin", RefusedSomehow),
    case("writer", "GET", "/a/%2e%2e/admin", RefusedSomehow),
    case("writer", "GET", "//admin", RefusedSomehow),
    case("writer", "GET", "/a%2fadmin", RefusedSomehow),
    case("writer", "GET", "/a%5cadmin", RefusedSomehow),
    case("writer", "GET", "/./admin", RefusedSomehow),
    case("writer", "GET", "/a;b", RefusedSomehow),
    case("writer", "GET", "/static/../page", RefusedOr("/page")),
    case("writer", "GET", "/a%00b", RefusedSomehow),
    case("writer", "GET", "/a%0ab", RefusedSomehow),
    case("writer", "GET", "/a%zz", RefusedSomehow),
    case("", "GET", "/static/..%2fadmin", RefusedSomehow),
    case("writer", "GET", "/a%20b/%C3%A4", WRITER),
    case("writer", "GET", "/a%3Bb", WRITER),
    // COPY and MOVE change two paths.
    with(case("writer", "MOVE", "/a", WRITER), &["Destination: https://wiki.example.com:PORT/b"]),
    with(case("writer", "COPY", "/a", WRITER), &["Destination: /b"]),
    with(case("reader", "COPY", "/a", Refused(403)), &["Destination: /b"]),
    with(case("writer", "MOVE", "/a", Refused(403)), &["Destination: https://wiki.example.com:PORT/admin/b"]),
    with(case("writer", "MOVE", "/a", Refused(403)), &["Destination: /private/b"]),
    case("writer", "MOVE", "/a", RefusedSomehow),
    with(case("writer", "MOVE", "/a", RefusedSomehow), &["Destination: https://evil.example/b"]),
    with(case("writer", "MOVE", "/a", RefusedSomehow), &["Destination: /a/../admin"]),
    // Headers that a client could forge.
    with(case("reader", "GET", "/page", READER), &["Remote-User: admin-x@local", "Remote-Groups: admins"]),
    with(case("", "GET", "/static/a", EVERYBODY), &["Remote-User: admin-x@local", "Remote-Roles: Admin"]),
    with(case("reader", "POST", "/page", Refused(403)), &["X-Forwarded-Method: GET"]),
    with(case("reader", "GET", "/admin", Refused(403)), &["X-Forwarded-Uri: /static"]),
    with(
        case("", "GET", "/page", Refused(401)),
        &["X-Forwarded-Uri: /static/a", "X-Forwarded-Host: wiki.example.com"],
    ),
    with(case("reader", "GET", "/page", READER), &["X-Forwarded-For: 203.0.113.9", "X-Real-IP: 203.0.113.9"]),
    with(
        case("reader", "GET", "/page", READER),
        &[
            "X-Forwarded-Host: evil.example",
            "X-Forwarded-Uri: /evil",
            "X-Forwarded-Method: DELETE",
            "Forwarded: for=203.0.113.9",
        ],
    ),
    // A client declares headers of the proxy as headers of the connection. The proxy must not remove its headers for this reason.
    with(case("reader", "GET", "/page", READER), &["Connection: Remote-User, Remote-Groups, Remote-Roles"]),
    with(case("reader", "GET", "/page", RefusedSomehow), &["X-HTTP-Method-Override: DELETE"]),
    with(case("reader", "GET", "/page", RefusedSomehow), &["X-Original-URL: /admin"]),
    with(case("reader", "GET", "/page", RefusedSomehow), &["X-Rewrite-URL: /admin"]),
    with(case("reader", "GET", "/page", RefusedSomehow), &["X-Auth-Token: x"]),
    // Cookies of the application reach the application.
    with(case("reader", "GET", "/page", READER), &["Cookie: session=1; PBSAuthCookie=x"]),
    // A request that opens a WebSocket counts as a change.
    with(
        case("reader", "GET", "/socket", RefusedSomehow),
        &[
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        ],
    ),
    with(case("writer", "GET", "/page", NoTunnel), &["Connection: Upgrade", "Upgrade: h2c"]),
    with(case("", "GET", "/static/x", NoTunnel), &["Connection: Upgrade", "Upgrade: h2c"]),
    with(case("", "POST", "/hooks/x", NoTunnel), &["Connection: Upgrade", "Upgrade: h2c, websocket"]),
    with(
        case("writer", "GET", "/socket", WRITER),
        &[
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        ],
    ),
    // The host of another application, which is public, does not give access to this application.
    with(case("", "GET", "/admin/secret", NotPassed), &["Host: blog.example.com"]),
    with(case("writer", "GET", "/admin/secret", NotPassed), &["Host: blog.example.com:PORT"]),
    // Requests with two destinations, and trees with parts that the user may not change.
    with(case("writer", "MOVE", "/x", RefusedSomehow), &["Destination: /admin", "Destination: /b"]),
    with(case("writer", "MOVE", "/x", RefusedSomehow), &["Destination: /b", "Destination: /admin"]),
    case("writer", "DELETE", "/", Refused(403)),
    with(case("writer", "COPY", "/", Refused(403)), &["Destination: /mine"]),
    with(case("writer", "PROPFIND", "/", Refused(403)), &["Depth: infinity"]),
    with(case("writer", "PROPFIND", "/", WRITER), &["Depth: 1"]),
    case("writer", "GET", "/ADMIN", Refused(403)),
    with(case("reader", "GET", "/page", RefusedOr("/page")), &["X-Forwarded-Prefix: /admin"]),
    // Unknown methods.
    case("admin", "BREW", "/page", RefusedSomehow),
    Case { is_http2: true, ..case("writer", "GET", "/page", WRITER) },
    Case { is_http2: true, ..case("nobody", "GET", "/page", Refused(403)) },
    Case { is_http2: true, ..case("writer", "GET", "/a/%2e%2e/admin", RefusedSomehow) },
];

#[test]
fn every_proxy_gives_the_same_answer_to_every_case() {
    let world = World::new(&[]);
    for kind in PROXIES {
        let proxy = world.proxy(kind);
        for case in CASES {
            check(&world, kind, &proxy, case);
        }
        // With many additional headers, a request of a user without rights is refused, too. HAProxy refuses requests with more headers than its
        // limit. The number of headers is limited, because the client of this test fails if it sends too many.
        for count in [60, 95, 97, 100] {
            let many: Vec<String> = (0..count).map(|nth| format!("a{nth}: 1")).collect();
            let many: Vec<&str> = many.iter().map(String::as_str).collect();
            let (status, got) =
                world.ask(&proxy, &with(case("nobody", "GET", "/page", RefusedSomehow), &many));
            assert!(status >= 400 && got.is_empty(), "{kind}: {status}");
            check(&world, kind, &proxy, &case("reader", "GET", "/page", READER));
        }
        // A header of 10 kB, which is longer than the limit of this server: the request is refused, or the server judges it.
        let long = format!("X-Long: {}", "a".repeat(10_000));
        let (status, got) =
            world.ask(&proxy, &with(case("nobody", "GET", "/page", RefusedSomehow), &[&long]));
        assert!(status >= 400 && got.is_empty(), "{kind}: {status}");
        // The next request obeys each change of rights: a deleted token, an expired token, and the role NoAccess.
        let login = world.server.add_token("writer-x@local!gone");
        let asks = |expected| check(&world, kind, &proxy, &case(&login, "GET", "/page", expected));
        asks(Passes("writer-x@local!gone"));
        world.server.cli(&["token", "delete", "writer-x@local!gone"]);
        asks(Refused(401));
        let login = world.server.add_token("writer-x@local!late");
        world.server.cli(&["token", "set", "writer-x@local!late", "--expires", "2001-09-09"]);
        check(&world, kind, &proxy, &case(&login, "GET", "/page", Refused(401)));
        world.server.cli(&["token", "delete", "writer-x@local!late"]);
        let assign = |verb: &str, role: &str| {
            world.server.cli(&[
                "role",
                verb,
                "--path",
                "/application/wiki",
                "--auth-id",
                "writer-x@local",
                role,
            ]);
        };
        assign("assign", "NoAccess");
        check(&world, kind, &proxy, &case("writer", "GET", "/page", Refused(403)));
        assign("remove", "NoAccess");
        check(&world, kind, &proxy, &case("writer", "GET", "/page", WRITER));
    }
    let log = world.server.log();
    assert!(log.contains("\"face\":\"decision\"") && !log.contains("203.0.113.9"), "{log}");
}

fn check(world: &World, kind: &str, proxy: &Proxy, case: &Case<'_>) {
    let Case { who, method, target, headers, expected, .. } = case;
    let (status, got) = world.ask(proxy, case);
    let what = format!("{kind}: {who} {method} {target} {headers:?}: {status} {got:?}");
    match expected {
        Passes(user) => {
            assert_eq!((status, got.len()), (200, 1), "{what}\n{}", world.server.log());
            let got = &got[0];
            assert_eq!((got.method.as_str(), got.target.as_str()), (*method, *target), "{what}");
            // A proxy may omit an empty header.
            let said = got.header("remote-user");
            assert!(said == *user || user.is_empty() && said == "-", "{what}");
            let groups = got.header("remote-groups");
            assert!(
                groups == "staff@local" || user.is_empty() && (groups.is_empty() || groups == "-"),
                "{what}"
            );
            assert_eq!((got.header("authorization"), got.header("x-auth-token")), ("-", "-"), "{what}");
            // Headers with which a client describes its own request do not reach the application.
            for (name, truth) in [
                ("x-forwarded-method", *method),
                ("x-forwarded-uri", target),
                ("x-forwarded-for", "127.0.0.1"),
                ("forwarded", "-"),
                ("x-real-ip", "-"),
            ] {
                assert!(["-", truth].contains(&got.header(name)), "{name}: {what}");
            }
            assert!(
                got.header("x-forwarded-host")
                    .split(':')
                    .next()
                    .is_some_and(|host| ["-", HOST].contains(&host)),
                "{what}"
            );
            assert!(
                got.headers.iter().all(|(name, values)| !name.starts_with("remote-") || values.len() == 1),
                "{what}"
            );
        }
        Refused(expected) => {
            assert_eq!((status, got.len()), (*expected, 0), "{what}\n{}", world.server.log())
        }
        NoTunnel => assert!(got.iter().all(|got| got.header("upgrade") == "-"), "{what}"),
        NotPassed => assert!(got.is_empty(), "{what}\n{}", world.server.log()),
        RefusedOr(path) if kind == "traefik" && !got.is_empty() => {
            let judged = format!("\"path\":\"{HOST}{path}\"");
            assert!(got[0].target == *path && world.server.log().contains(&judged), "{what}");
            assert_eq!(got[0].header("x-forwarded-prefix"), "-", "{what}");
        }
        RefusedSomehow | RefusedOr(_) => {
            assert!((400..600).contains(&status) && got.is_empty(), "{what}\n{}", world.server.log());
        }
    }
}
