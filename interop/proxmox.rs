//! The API of Proxmox Backup Server, used by proxmoxer and by curl.

use crate::curl::curl;
use crate::server::{Server, WITHOUT_PENALTIES};
use std::path::Path;
use std::process::Command;

/// The directory of the Python clients and their dependencies. These packages are downloaded once.
pub(crate) fn python_path() -> std::path::PathBuf {
    from_pypi("requirements.txt", "target/interop-python")
}

/// A directory with the packages that this file of requirements lists. The packages are downloaded once.
pub(crate) fn from_pypi(requirements: &str, place: &str) -> std::path::PathBuf {
    // One test installs the packages, and the other tests wait.
    static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _turn = TURN.lock();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (wanted, place) = (root.join("interop").join(requirements), root.join(place));
    let mark = place.join("requirements.txt");
    let is_there = || std::fs::read(&mark).is_ok_and(|there| there == std::fs::read(&wanted).unwrap());
    if !is_there() {
        let mut pip = Command::new("pip3");
        pip.args(["install", "--quiet", "--disable-pip-version-check", "--upgrade", "--target"]);
        let status = pip.arg(&place).arg("--requirement").arg(&wanted).status();
        assert!(status.is_ok_and(|status| status.success()), "{pip:?} failed: install pip (python3-pip)");
        std::fs::copy(&wanted, &mark).unwrap();
    }
    place
}

#[test]
fn proxmoxer_drives_datastores_their_status_and_maintenance() {
    let server = Server::start_with(&[WITHOUT_PENALTIES]);
    drive_datastores(&server, &server, &[]);
}

/// Runs the script about datastores. `home` serves the datastores, and follows the edited files.
pub(crate) fn drive_datastores(server: &Server, home: &Server, more: &[&str]) {
    let login = home.add_token("admin@local!script");
    let (token, secret) = login.split_once(':').unwrap();
    let port = server.address.rsplit(':').next().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop/proxmox_datastores.py");
    let output = Command::new("python3")
        .arg(script)
        .args([port, server.certificate().to_str().unwrap(), token, secret])
        .arg(home.data().join("datastores/made"))
        .args(more)
        .env("PYTHONPATH", python_path())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}\n{}", server.log());
    let file = std::fs::read_to_string(home.data().join("datastore.cfg")).unwrap();
    assert!(file.contains("datastore: main") && !file.contains("tank"), "{file}");
}

#[test]
fn proxmoxer_works_with_users_tokens_and_roles() {
    // In the first round, users and tokens are in the facts. In the second round, they are in edited files.
    for with_files in [false, true] {
        let server = Server::start_with(&[WITHOUT_PENALTIES]);
        if with_files {
            for (name, text) in [("user.cfg", "user: kept@pbs\n\n"), ("token.shadow", "{}"), ("acl.cfg", "")]
            {
                std::fs::write(server.data().join(name), text).unwrap();
            }
            server.cli(&["user", "list"]);
            server.cli(&["user", "remove", "kept@pbs"]);
        }
        let login = server.add_token("admin@local!script");
        let (token, secret) = login.split_once(':').unwrap();
        let port = server.address.rsplit(':').next().unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop/proxmox_client.py");
        let output = Command::new("python3")
            .arg(script)
            .args([port, server.certificate().to_str().unwrap(), token, secret])
            .env("PYTHONPATH", python_path())
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "with files: {with_files}\n{errors}\n{}", server.log());
        let files = ["user.cfg", "token.shadow", "acl.cfg"]
            .map(|name| std::fs::read_to_string(server.data().join(name)));
        assert!(files.iter().flatten().all(|text| !text.contains("bob")), "{files:?}");
        let log = server.log();
        assert!(log.contains("\"face\":\"proxmox\"") && !log.contains("a long password"), "{log}");
        let changes = server.cli(&["facts", "log"]);
        let by_script = |change: &&serde_json::Value| change["who"] == "admin@local!script";
        assert!(changes.iter().filter(by_script).count() > 8, "{changes:#?}");
    }
}

#[test]
fn a_user_administers_what_is_theirs_with_a_password_and_nothing_else() {
    let server = Server::start_with(&[WITHOUT_PENALTIES]);
    let added = server.cli_output(&["user", "add", "bob@local", "--password-stdin"], "a long password\n");
    assert!(added.status.success());
    let (bob, users) = ("bob@local:a long password", "/api2/json/access/users");
    let call = |path: &str, arguments: &[&str]| curl(&server, bob, &format!("{users}/{path}"), arguments);
    let made = call("bob@local/token/own", &["-X", "POST"]);
    assert_eq!(made.status, 200, "{}", made.text());
    let made: serde_json::Value = serde_json::from_slice(&made.body).unwrap();
    let token = format!("bob@local!own:{}", made["data"]["value"].as_str().unwrap());
    assert_eq!(call("bob@local/token/own", &[]).status, 200);
    assert_eq!(call("bob@local", &[]).status, 200);
    // A token cannot administer its owner. A user can neither administer another user nor change or delete the user's own entry.
    let by_token =
        |path: &str, method: &str| curl(&server, &token, &format!("{users}/{path}"), &["-X", method]).status;
    assert_eq!((by_token("bob@local/token/other", "POST"), by_token("bob@local", "GET")), (403, 403));
    assert_eq!((call("admin@local", &[]).status, call("bob@local", &["-X", "DELETE"]).status), (403, 403));
    assert_eq!(call("bob@local", &["-X", "PUT", "--data", "enable=1"]).status, 403);
    // Errors name the parameter. An unauthenticated client gets no details.
    let wrong = call("bob@local/token/x", &["-X", "POST", "--data", "expire=soon"]);
    assert_eq!(
        (wrong.status, wrong.text().as_str()),
        (400, "parameter 'expire': expected seconds since the epoch")
    );
    assert_eq!(curl(&server, "", users, &[]).status, 401);
    assert_eq!(curl(&server, "", "/api2/json/ping", &[]).text(), "{\"data\":{\"pong\":true}}");
    assert_eq!(curl(&server, bob, "/api2/json/nodes", &[]).status, 404);
    assert_eq!(curl(&server, bob, users, &["-X", "DELETE"]).status, 405);
    // A page of another site cannot use the password that a browser remembers.
    for header in ["Sec-Fetch-Site: cross-site", "Origin: https://elsewhere.example.org", "Origin: null"] {
        let called = call("bob@local/token/csrf", &["-X", "POST", "-H", header]);
        assert_eq!(called.status, 403, "{header}");
    }
    let own = format!("Origin: https://{}", server.address);
    assert_eq!(
        call("bob@local/token/page", &["-X", "POST", "-H", &own, "-H", "Sec-Fetch-Site: same-origin"]).status,
        200
    );
    let separator = ["-H", "Authorization: PBSAPIToken=bob@local!own=secret"];
    let said = curl(&server, "", users, &separator);
    assert_eq!((said.status, said.text().contains("there is `=` between token and secret")), (400, true));
}

#[test]
fn proxmoxer_works_with_a_password_and_tickets() {
    let server = Server::start_with(&[WITHOUT_PENALTIES]);
    let port = server.address.rsplit(':').next().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop/proxmox_tickets.py");
    let output = Command::new("python3")
        .arg(script)
        .args([port, server.certificate().to_str().unwrap(), "admin@local", &server.password])
        .env("PYTHONPATH", python_path())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}\n{}", server.log());
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let ticket = told["ticket"].as_str().unwrap();
    let (log, cookie) = (server.log(), format!("Cookie: PBSAuthCookie={ticket}"));
    assert!(log.contains("ID22") && !log.contains(ticket) && !log.contains(&server.password), "{log}");
    let status = |path: &str, arguments: &[&str]| {
        curl(&server, "", path, &[&["-H", &cookie], arguments].concat()).status
    };
    assert_eq!(status("/api2/json/access/users", &[]), 200);
    assert_eq!(status("/api2/json/access/users", &["-d", "userid=eve@local"]), 401, "no CSRF token");
    // Cookies are accepted only on the API that issues them.
    assert_eq!(status("/whoami", &[]), 401);
    assert_eq!(status("/dav/main/", &[]), 401);
    // A second credential in the same request is refused.
    assert_eq!(status("/api2/json/access/users", &["-u", &format!("admin@local:{}", server.password)]), 400);
    // The session of the ticket has all rights of its user.
    let token = format!("X-Auth-Token: {}", ticket.rsplit(':').next().unwrap());
    let mount =
        || curl(&server, "", "/dav/main/", &["-H", &token, "-X", "PROPFIND", "-H", "Depth: 0"]).status;
    assert_eq!(mount(), 207);
    server.cli(&["session", "end", "admin@local"]);
    assert_eq!((status("/api2/json/access/users", &[]), mount()), (401, 401));
    // A refused login gets no ticket. A ticket is valid only for its user.
    let login = |user: &str, password: &str| {
        let (user, password) = (format!("username={user}"), format!("password={password}"));
        let arguments = ["--data-urlencode", &user, "--data-urlencode", &password];
        curl(&server, "", "/api2/json/access/ticket", &arguments)
    };
    assert_eq!(login("admin@local", ticket).status, 401);
    let again = login("admin@local", &server.password);
    assert_eq!(again.status, 200, "a login in the second in which the old sessions ended: {}", again.text());
    let again: serde_json::Value = serde_json::from_str(&again.text()).unwrap();
    server.cli(&["user", "add", "fred@local"]);
    assert_eq!(login("fred@local", again["data"]["ticket"].as_str().unwrap()).status, 400);
    server.cli(&["user", "disable", "admin@local", "--force"]);
    assert_eq!(login("admin@local", &server.password).status, 401);
}
