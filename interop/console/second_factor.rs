//! The second factor of a user: set-up in the console, signing in, removal, and reset by an administrator.

use super::{Browser, PASSWORD, Page, set_password};
use crate::curl::{PROPFIND_0, curl};
use crate::server::{Server, WITHOUT_PENALTIES};
use enfilade_testkit::authenticator::code_at;
use serde_json::{Value, json};
use std::time::SystemTime;

/// The code of the step that is `steps` steps after the present one.
fn code(secret: &str, steps: i64) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    code_at(secret, i64::try_from(now).unwrap() + 30 * steps)
}

fn server() -> Server {
    let server = Server::start_with(&[WITHOUT_PENALTIES]);
    for (name, role) in [("alice", "DatastorePowerUser"), ("bob", "DatastoreReader")] {
        server.add_user(name, role);
        set_password(&server, &format!("{name}@local"));
    }
    server
}

/// The text of the element with this id.
fn element(page: &Page, id: &str) -> String {
    let text = page.text();
    let begin = format!("id=\"{id}\">");
    let rest = text.split_once(&begin).unwrap_or_else(|| panic!("no #{id}: {text}")).1;
    rest.split('<').next().unwrap_or_default().to_owned()
}

/// The value of a hidden field.
fn hidden(page: &Page, name: &str) -> String {
    let text = page.text();
    let begin = format!("name=\"{name}\" value=\"");
    let rest = text.split_once(&begin).unwrap_or_else(|| panic!("no {name}: {text}")).1;
    rest.split('"').next().unwrap_or_default().to_owned()
}

/// Sets up a second factor. Returns its secret and the recovery codes. Uses the code of the present step.
fn enrol(browser: &Browser<'_>) -> (String, Vec<String>) {
    let page = browser.act("/console/account/begin-second-factor", &[("present", PASSWORD)]);
    assert_eq!(page.status, 200, "{}", page.text());
    let secret = element(&page, "secret");
    let done = browser.act("/console/account/confirm-second-factor", &[("code", &code(&secret, 0))]);
    assert_eq!(done.status, 200, "{}", done.text());
    let codes = element(&done, "recovery-codes").lines().map(str::to_owned).collect();
    (secret, codes)
}

/// Sends the password, and then the code.
fn sign_in_with(browser: &Browser<'_>, user: &str, code: &str) -> Page {
    let asked = browser.submit("/console/sign-in", &[("user", user), ("password", PASSWORD)]);
    assert!(asked.status == 200 && asked.header("set-cookie").is_empty(), "{}", asked.text());
    let receipt = hidden(&asked, "receipt");
    let fields = [("user", user), ("receipt", receipt.as_str()), ("passcode", code)];
    browser.submit("/console/sign-in", &fields)
}

fn shown(server: &Server, user: &str) -> Value {
    server.cli(&["user", "second-factor", user, "show"])[0].clone()
}

#[test]
fn a_person_sets_up_a_second_factor_and_the_password_alone_is_refused_everywhere() {
    let server = server();
    let token = server.add_token("alice@local!laptop");
    let browser = Browser::new(&server);
    browser.sign_in("alice");
    assert_eq!(shown(&server, "alice@local")["second_factor"], false);
    let wrong = browser.act("/console/account/begin-second-factor", &[("present", "wrong")]);
    assert!(
        wrong.status == 422 && wrong.text().contains("the present password is wrong"),
        "{}",
        wrong.text()
    );
    let page = browser.act("/console/account/begin-second-factor", &[("present", PASSWORD)]);
    let (text, secret) = (page.text(), element(&page, "secret"));
    assert!(secret.len() == 32 && text.contains("<svg class=\"qr\"") && !text.contains("style="), "{text}");
    let address = element(&page, "address");
    assert!(address.starts_with("otpauth://totp/127.0.0.1:alice@local?secret="), "{address}");
    assert!(address.contains(&secret) && page.header("cache-control") == "no-store", "{address}");
    // The second factor has no effect before the first right code.
    let wrong = browser.act("/console/account/confirm-second-factor", &[("code", "000000")]);
    assert!(wrong.status == 422 && wrong.text().contains("the code is wrong"), "{}", wrong.text());
    // Another session of the user does not get the secret.
    let other = Browser::new(&server);
    other.sign_in("alice");
    let wrong = other.act("/console/account/confirm-second-factor", &[("code", "000000")]);
    assert!(wrong.status == 422 && !wrong.text().contains(&secret), "{}", wrong.text());
    let done = browser.act("/console/account/confirm-second-factor", &[("code", &code(&secret, 0))]);
    assert_eq!(done.status, 200, "{}", done.text());
    let recovery: Vec<String> = element(&done, "recovery-codes").lines().map(str::to_owned).collect();
    assert_eq!(recovery.len(), 10, "{recovery:?}");
    // All sessions ended, because the user had signed in to them with the password alone.
    assert_eq!([&browser, &other].map(|browser| browser.open("/console/").status), [303, 303]);

    let basic = curl(&server, &format!("alice@local:{PASSWORD}"), "/dav/main/", &PROPFIND_0);
    assert!(basic.status == 401 && basic.text().contains("use an API token"), "{}", basic.text());
    let password = format!("password={PASSWORD}");
    let form = ["--data-urlencode", "username=alice@local", "--data-urlencode", &password];
    assert_eq!(curl(&server, "", "/api2/json/access/ticket", &form).status, 401);
    let user = json!({ "name": "alice", "domain": { "name": "local" }, "password": PASSWORD });
    let login = json!({ "auth": { "identity": { "methods": ["password"], "password": { "user": user } } } });
    let login = curl(&server, "", "/v3/auth/tokens", &["--data", &login.to_string()]);
    assert!(login.status == 401 && login.text().contains("totp"), "{}", login.text());
    assert_eq!(curl(&server, &token, "/dav/main/", &PROPFIND_0).status, 207);

    // After a wrong password, the page does not show whether the user has a second factor.
    let wrong = browser.submit("/console/sign-in", &[("user", "alice"), ("password", "wrong")]);
    assert!(wrong.status == 403 && !wrong.text().contains("passcode"), "{}", wrong.text());
    let wrong = sign_in_with(&browser, "alice", "000000");
    assert!(wrong.status == 403 && wrong.text().contains("The code is wrong"), "{}", wrong.text());
    assert!(!hidden(&wrong, "receipt").is_empty() && browser.cookie().is_empty());
    // The receipt is not accepted as a credential of other requests, and only its user can use it.
    let receipt = format!("X-Auth-Token: {}", hidden(&wrong, "receipt"));
    assert_eq!(curl(&server, "", "/v3/users", &["--header", &receipt]).status, 401);
    let next = code(&secret, 1);
    let fields = [("user", "bob"), ("receipt", &*hidden(&wrong, "receipt")), ("passcode", next.as_str())];
    assert_eq!(browser.submit("/console/sign-in", &fields).status, 403);
    assert_eq!(sign_in_with(&browser, "alice", &next).status, 303);
    assert_eq!(browser.open("/console/account").status, 200);
    // A code of the app and a recovery code are accepted only once. The test sends fewer than five wrong codes, because the server checks no code
    // after the fifth wrong code.
    let other = Browser::new(&server);
    assert_eq!(sign_in_with(&other, "alice", &next).status, 403);
    assert_eq!(sign_in_with(&other, "alice", &recovery[0].replace(' ', "-")).status, 303);
    assert_eq!(sign_in_with(&Browser::new(&server), "alice", &recovery[0]).status, 403);
    assert_eq!(shown(&server, "alice@local")["recovery_codes"], 9);

    keeps_secrets(&server, &secret, &recovery);
    let remove = "/console/account/remove-second-factor";
    let fields = |code| [("present", PASSWORD), ("code", code)];
    let wrong = browser.act(remove, &[("present", "wrong"), ("code", &recovery[1])]);
    assert!(
        wrong.status == 422 && wrong.text().contains("the present password is wrong"),
        "{}",
        wrong.text()
    );
    assert_eq!(browser.act(remove, &fields("000000")).status, 422);
    let done = browser.act(remove, &fields(&recovery[1]));
    assert_eq!((done.status, done.header("location")), (303, "/console/account?done=factor-removed"));
    assert_eq!(shown(&server, "alice@local")["second_factor"], false);
    assert_eq!(browser.open("/console/account").status, 200, "no session ended");
    Browser::new(&server).sign_in("alice");
}

/// Checks that neither the store nor the log nor a dump contains the secret or a recovery code in clear.
fn keeps_secrets(server: &Server, secret: &str, recovery: &[String]) {
    let dump = |arguments: &[&str]| {
        let rows = server.cli(arguments);
        rows.into_iter().find(|row| row["table"] == "second-factors").unwrap()["row"].clone()
    };
    let (without, with) = (dump(&["facts", "dump"]), dump(&["facts", "dump", "--secrets"]));
    assert_eq!((&without["secret"], &without["recovery"][0]), (&json!("redacted"), &json!("redacted")));
    assert!(with["secret"].as_str().unwrap().len() == 96 && with != without, "{with}");
    let store = std::fs::read(server.data().join("facts/data.mdb")).unwrap();
    let log = server.log();
    for text in recovery.iter().map(|code| code.replace(' ', "")).chain([secret.to_owned()]) {
        assert!(!log.contains(&text) && !with.to_string().contains(&text), "{text}");
        assert!(!store.windows(text.len()).any(|window| window == text.as_bytes()), "{text}");
    }
}

#[test]
fn an_administrator_resets_a_second_factor_and_no_session_or_token_ends() {
    let server = server();
    let token = server.add_token("bob@local!laptop");
    server.cli(&["user", "add", "root@local"]);
    set_password(&server, "root@local");
    server.cli(&["role", "assign", "--path", "/", "--auth-id", "root@local", "Admin"]);
    let (root, bob) = (Browser::new(&server), Browser::new(&server));
    root.sign_in("root@local");
    for how in ["console", "command"] {
        bob.sign_in("bob");
        let (secret, _) = enrol(&bob);
        assert_eq!(sign_in_with(&bob, "bob", &code(&secret, 1)).status, 303, "{how}");
        let page = root.open("/console/users?user=bob%40local");
        assert!(page.text().contains("10 recovery codes left"), "{}", page.text());
        match how {
            "console" => {
                let fields = [("name", "bob@local")];
                assert_eq!(bob.act("/console/users/reset-second-factor", &fields).status, 403);
                assert_eq!(root.act("/console/users/reset-second-factor", &fields).status, 303);
            }
            _ => drop(server.cli(&["user", "second-factor", "bob@local", "reset"])),
        }
        assert_eq!(shown(&server, "bob@local")["second_factor"], false);
        assert_eq!(bob.open("/console/account").status, 200, "{how}: the session stays");
        assert_eq!(curl(&server, &token, "/dav/main/", &PROPFIND_0).status, 207, "{how}");
        assert_eq!(curl(&server, &format!("bob@local:{PASSWORD}"), "/dav/main/", &PROPFIND_0).status, 207);
    }
    let again = server.cli_output(&["user", "second-factor", "bob@local", "reset"], "");
    assert!(!again.status.success());
}

/// API tokens and sessions of other kinds cannot set up or remove a second factor. Only the console has these actions, and the console accepts only
/// its own cookie.
#[test]
fn only_a_person_in_the_console_changes_the_second_factor() {
    let server = server();
    let token = server.add_token("alice@local!laptop");
    let password = format!("alice@local:{PASSWORD}");
    for action in
        ["begin-second-factor", "confirm-second-factor", "remove-second-factor", "new-recovery-codes"]
    {
        for login in [&token, &password] {
            let path = format!("/console/account/{action}");
            let origin = format!("Origin: {}", server.url(""));
            let fields = ["--header", &origin, "--data-urlencode", &format!("present={PASSWORD}")];
            let answer = curl(&server, login, &path, &fields);
            assert!([303, 403].contains(&answer.status), "{action}: {answer:?}");
        }
    }
    let browser = Browser::new(&server);
    browser.sign_in("alice");
    // A page of another site cannot send the form.
    let forged = ["--data-urlencode", "present=correct horse"];
    assert_eq!(browser.send("/console/account/begin-second-factor", &forged).status, 403);
    assert_eq!(shown(&server, "alice@local")["second_factor"], false);
    let pending = server.cli(&["facts", "dump"]).into_iter().any(|row| row["table"] == "second-factors");
    assert!(!pending);
}

#[test]
fn new_recovery_codes_replace_the_earlier_codes() {
    let server = server();
    let browser = Browser::new(&server);
    browser.sign_in("alice");
    let (secret, old) = enrol(&browser);
    assert_eq!(sign_in_with(&browser, "alice", &code(&secret, 1)).status, 303);
    let renew = |present: &str, code: &str| {
        browser.act("/console/account/new-recovery-codes", &[("present", present), ("code", code)])
    };
    assert_eq!([renew("wrong", &old[0]).status, renew(PASSWORD, "000000").status], [422, 422]);
    let page = renew(PASSWORD, &old[0]);
    assert_eq!(page.status, 200, "{}", page.text());
    let new: Vec<String> = element(&page, "recovery-codes").lines().map(str::to_owned).collect();
    assert!(new.len() == 10 && new.iter().all(|code| !old.contains(code)), "{new:?}");
    assert_eq!(shown(&server, "alice@local")["recovery_codes"], 10);
    let other = Browser::new(&server);
    assert_eq!(sign_in_with(&other, "alice", &old[1]).status, 403);
    assert_eq!(sign_in_with(&other, "alice", &new[0]).status, 303);
    assert_eq!(browser.open("/console/account").status, 200, "no session ended");
}
