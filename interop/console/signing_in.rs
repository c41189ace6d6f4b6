//! Signing in to the console, signing out, and the effect of the console's cookie.

use super::{Browser, PASSWORD, server, set_password};
use crate::curl::{PROPFIND_0, curl};

#[test]
fn browsers_are_led_to_the_console_and_other_clients_keep_the_versions() {
    let server = server();
    let browser = Browser::new(&server);
    let page = browser.open("/");
    assert_eq!((page.status, page.header("location")), (303, "/console/"), "{}", page.head);
    assert_eq!(browser.open("/console").header("location"), "/console/");
    for arguments in [&[][..], &["--header", "Accept: application/json"]] {
        let versions = curl(&server, "", "/", arguments);
        assert!(versions.status == 300 && versions.text().contains("v3"), "{versions:?}");
    }
    let page = browser.open("/console/account?x=1");
    assert_eq!((page.status, page.header("location")), (303, "/console/sign-in?to=/console/account%3Fx%3D1"));
    // A program does not get the sign-in page.
    assert_eq!(browser.send("/console/files/main/a", &["--request", "PUT"]).status, 403);
    for path in ["/console/assets/console.css", "/console/nothing"] {
        assert_eq!(browser.open(path).status, 303, "{path}");
    }
    // Browsers may cache the files of the page for a long time, because the URLs of the files contain a digest.
    let form = browser.open("/console/sign-in");
    let text = form.text();
    let urls: Vec<&str> = text.split('"').filter(|part| part.starts_with("/console/assets/")).collect();
    assert_eq!(urls.len(), 3, "{text}");
    let mut first_load = form.body.len();
    for url in urls {
        let file = browser.open(url);
        assert!(
            file.status == 200 && file.header("cache-control").contains("immutable"),
            "{url}: {}",
            file.head
        );
        first_load += file.body.len();
    }
    assert!(first_load < 100_000, "{first_load} bytes");
}

#[test]
fn a_person_signs_in_and_out_and_a_session_that_was_ended_is_out_at_the_next_click() {
    let server = server();
    let browser = Browser::new(&server);
    let form = browser.open("/console/sign-in?to=/console/account");
    assert!(
        form.status == 200 && form.text().contains("name=\"to\" value=\"/console/account\""),
        "{}",
        form.text()
    );
    for (user, password) in [("alice", "wrong"), ("nobody", PASSWORD), ("", "")] {
        let again = browser.submit("/console/sign-in", &[("user", user), ("password", password)]);
        assert!(again.status == 403 && again.text().contains("is wrong, or the account is locked"), "{user}");
        assert!(again.header("set-cookie").is_empty() && again.header("www-authenticate").is_empty());
    }
    // A token cannot sign in, even if it has all roles of its owner.
    let token = server.add_token("alice@local!laptop");
    let (name, secret) = token.split_once(':').unwrap();
    assert_eq!(browser.submit("/console/sign-in", &[("user", name), ("password", secret)]).status, 403);
    let fields = [("user", "alice"), ("password", PASSWORD), ("to", "/console/account")];
    let done = browser.submit("/console/sign-in", &fields);
    assert_eq!((done.status, done.header("location")), (303, "/console/account"));
    for part in ["__Host-enfilade-console=", "; Path=/", "; Secure", "; HttpOnly", "; SameSite=Lax"] {
        assert!(done.header("set-cookie").contains(part), "{}", done.head);
    }
    // The sign-in does not redirect to other places.
    for to in ["https://evil.example/", "//evil.example", "/dav/", "/console/../dav/", "/console/sign-in"] {
        let done = Browser::new(&server).submit("/console/sign-in", &[fields[0], fields[1], ("to", to)]);
        assert_eq!((done.status, done.header("location")), (303, "/console/"), "{to}");
    }
    let page = browser.open("/console/");
    let text = page.text();
    assert!(
        page.status == 200 && text.contains("alice@local") && text.contains("/console/files/main/"),
        "{text}"
    );
    for (name, part) in [
        ("content-security-policy", "default-src 'none'; script-src 'self'; style-src 'self'"),
        ("content-security-policy", "frame-ancestors 'none'"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cache-control", "no-store"),
    ] {
        assert!(page.header(name).contains(part), "{name}: {}", page.head);
    }
    assert!(!text.contains("<style") && !text.contains("style=") && !text.contains("onclick"), "{text}");
    // The page does not offer pages of administrators to other users.
    assert!(!text.contains("Administration"), "{text}");
    // A new sign-in ends the session that the browser had.
    let before = browser.cookie();
    browser.sign_in("alice");
    let after = browser.cookie();
    assert_ne!(before, after);
    let with = |cookie: &str| {
        let cookie = format!("__Host-enfilade-console={cookie}");
        Browser::new(&server).send("/console/", &["--cookie", &cookie]).status
    };
    assert_eq!((with(&before), with(&after)), (303, 200));
    // A session id that the server did not issue is refused.
    assert_eq!(with(&after.replace(|c: char| c.is_ascii_digit(), "0")), 303);
    let csrf = page_csrf(&browser);
    let out = browser.submit("/console/sign-out", &[("csrf", &csrf)]);
    assert!(out.status == 200 && out.text().contains("You are signed out"), "{}", out.text());
    assert_eq!((with(&after), browser.open("/console/").status), (303, 303));
    // A command that ends the sessions of a user also ends the sessions in the console.
    for command in [&["session", "end", "alice@local"][..], &["user", "disable", "alice@local"]] {
        browser.sign_in("alice");
        assert_eq!(browser.open("/console/").status, 200);
        server.cli(command);
        assert_eq!(browser.open("/console/").status, 303, "{command:?}");
    }
    server.cli(&["user", "enable", "alice@local"]);
    let log = server.log();
    assert!(
        log.contains("\"face\":\"console\"") && !log.contains(PASSWORD) && !log.contains(&after),
        "{log}"
    );
}

fn page_csrf(browser: &Browser<'_>) -> String {
    let csrf = browser.open("/console/").csrf();
    assert_eq!(csrf.len(), 64, "{csrf}");
    csrf
}

#[test]
fn the_cookie_is_a_credential_for_the_console_alone_and_no_other_page_can_use_it() {
    let server = server();
    let browser = Browser::new(&server);
    browser.sign_in("alice");
    let cookie = browser.cookie();
    for name in [
        "__Host-enfilade-console",
        "__Host-enfilade",
        "__Host-enfilade-sign-in",
        "PBSAuthCookie",
        "__Host-PBSAuthCookie",
    ] {
        let cookie = format!("Cookie: {name}={cookie}");
        for path in
            ["/dav/main/", "/dav/", "/whoami", "/api2/json/access/users", "/v3/auth/tokens", "/v3/users"]
        {
            let answer = curl(&server, "", path, &["--header", &cookie]);
            assert!([400, 401].contains(&answer.status), "{name} {path}: {answer:?}");
        }
    }
    let token = format!("X-Auth-Token: {cookie}");
    assert_eq!(curl(&server, "", "/v3/users", &["--header", &token]).status, 401);
    // Credentials of other kinds do not open the console.
    let login = server.add_token("alice@local!x");
    assert_eq!(curl(&server, &login, "/console/", &[]).status, 303);
    // The cookie has no effect on other requests of the same browser.
    let cookie = format!("Cookie: __Host-enfilade-console={cookie}");
    let arguments = [&PROPFIND_0[..], &["--header", &cookie]].concat();
    assert_eq!(curl(&server, &login, "/dav/main/", &arguments).status, 207);
    // A form needs the token of the session, and must come from a page of this host.
    let csrf = page_csrf(&browser);
    let own = browser.origin();
    let other = Browser::new(&server);
    other.sign_in("bob");
    let of_bob = page_csrf(&other);
    let send = |headers: &[&str], field: &str| {
        let mut arguments = vec!["--data-urlencode", field];
        headers.iter().for_each(|header| arguments.extend(["--header", header]));
        browser.send("/console/sign-out", &arguments).status
    };
    let good = format!("csrf={csrf}");
    for (headers, field) in [
        (&[own.as_str()][..], "csrf=".to_owned()),
        (&[own.as_str()], "x=y".to_owned()),
        (&[own.as_str()], format!("csrf={of_bob}")),
        (&[], good.clone()),
        (&["Origin: null"], good.clone()),
        (&["Origin: https://evil.example"], good.clone()),
        (&[&own.replace("https", "http")], good.clone()),
        (&[&format!("{own}0")], good.clone()),
        (&[own.as_str(), "Origin: https://evil.example"], good.clone()),
    ] {
        // A request with two `Origin` headers is malformed.
        let expected = if headers.len() > 1 { 400 } else { 403 };
        assert_eq!(send(headers, &field), expected, "{headers:?} {field}");
    }
    assert_eq!(browser.open("/console/").status, 200, "nothing ended the session");
    // A page of another site may link to a page of the console, but cannot embed or load a page of the console.
    for (site, mode, dest, status) in [
        ("cross-site", "navigate", "document", 200),
        ("cross-site", "navigate", "iframe", 403),
        ("same-site", "no-cors", "image", 403),
        ("cross-site", "cors", "empty", 403),
        ("same-origin", "cors", "empty", 200),
        ("none", "navigate", "document", 200),
    ] {
        let headers = [("Site", site), ("Mode", mode), ("Dest", dest)]
            .map(|(name, value)| format!("Sec-Fetch-{name}: {value}"));
        let arguments: Vec<&str> = headers.iter().flat_map(|header| ["--header", header]).collect();
        assert_eq!(browser.send("/console/", &arguments).status, status, "{headers:?}");
    }
    assert_eq!(send(&[own.as_str()], &good), 200);
    // The sign-in form is also refused if a page of another site sends it.
    let forged = ["--data-urlencode", "user=alice", "--data-urlencode", "password=correct horse"];
    assert_eq!(browser.send("/console/sign-in", &forged).status, 403);
}

#[test]
fn an_account_that_needs_a_passcode_needs_it_in_the_console() {
    let server = server();
    set_password(&server, "bob@local");
    let browser = Browser::new(&server);
    crate::second_factors::require_passcode(&server, "bob@local");
    // The page asks for the code only after the right password.
    let wrong = browser.submit("/console/sign-in", &[("user", "bob"), ("password", "wrong")]);
    assert!(wrong.status == 403 && !wrong.text().contains("passcode"), "{}", wrong.text());
    let again = browser.submit("/console/sign-in", &[("user", "bob"), ("password", PASSWORD)]);
    assert!(again.status == 200 && again.text().contains("name=\"passcode\""), "{}", again.text());
    let wrong = [("user", "bob"), ("password", PASSWORD), ("passcode", "000000")];
    assert_eq!(browser.submit("/console/sign-in", &wrong).status, 403);
    assert!(browser.cookie().is_empty());
    let passcode = crate::second_factors::passcode();
    let right = [("user", "bob"), ("password", PASSWORD), ("passcode", passcode.as_str())];
    assert_eq!(browser.submit("/console/sign-in", &right).status, 303);
    // A passcode works once.
    assert_eq!(Browser::new(&server).submit("/console/sign-in", &right).status, 403);
}
