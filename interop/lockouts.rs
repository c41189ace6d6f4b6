//! Locks after failed logins, users who did not log in for too long, and the regular expression for passwords, on every face.

use crate::curl::{PROPFIND_0, curl};
use crate::server::Server;
use serde_json::{Value, json};

const RIGHT: &str = "correct horse 1";

/// A server with this configuration, and a user `ann` with a password and a role on the datastore.
fn server(config: &str) -> Server {
    let mut server = Server::start();
    server.configure(config);
    server.kill_and_restart();
    server.add_user("ann", "DatastoreReader");
    assert!(passwd(&server, RIGHT).is_ok());
    server
}

fn passwd(server: &Server, password: &str) -> Result<(), String> {
    let output =
        server.cli_output(&["user", "passwd", "ann@local", "--password-stdin"], &format!("{password}\n"));
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(()) } else { Err(why) }
}

fn basic(server: &Server, password: &str) -> u16 {
    curl(server, &format!("ann@local:{password}"), "/dav/main/", &PROPFIND_0).status
}

fn ticket(server: &Server, password: &str) -> u16 {
    let form =
        ["--data-urlencode", "username=ann@local", "--data-urlencode", &format!("password={password}")];
    curl(server, "", "/api2/json/access/ticket", &form).status
}

fn identity(server: &Server, password: &str) -> (u16, String) {
    let user = json!({ "name": "ann", "domain": { "name": "local" }, "password": password });
    let body = json!({ "auth": { "identity": { "methods": ["password"], "password": { "user": user } } } });
    let answer = curl(server, "", "/v3/auth/tokens", &["--data", &body.to_string()]);
    (answer.status, answer.text())
}

fn change_own(server: &Server, old: &str, new: &str) -> u16 {
    let body = json!({ "user": { "original_password": old, "password": new } }).to_string();
    let path = format!("/v3/users/{}/password", ann(server)["id"].as_str().unwrap());
    curl(server, "", &path, &["--data", &body]).status
}

fn ann(server: &Server) -> Value {
    let users = server.cli(&["user", "list"]);
    users.into_iter().find(|user| user["user"] == "ann@local").unwrap()
}

#[test]
fn failures_on_all_faces_count_together_and_the_lock_holds_on_all() {
    let config = "[identity]\npenalties = false\nlockout_failures = 4\nlockout_duration = '1h'\n";
    let mut server = server(config);
    assert_eq!((basic(&server, RIGHT), ticket(&server, RIGHT), identity(&server, RIGHT).0), (207, 200, 201));
    let (status, wrong) = identity(&server, "wrong");
    assert_eq!((status, basic(&server, "wrong"), ticket(&server, "wrong")), (401, 401, 401));
    assert_eq!(change_own(&server, "wrong", "other"), 401);
    let is_locked = |server: &Server| {
        assert_eq!((basic(server, RIGHT), ticket(server, RIGHT)), (401, 401));
        assert_eq!(identity(server, RIGHT), (401, wrong.clone()), "a lock looks like a wrong password");
        assert_eq!(change_own(server, RIGHT, "other"), 401);
        assert_eq!(ann(server)["locked"], true);
    };
    is_locked(&server);
    assert!(server.log().contains("\"ID30\""), "{}", server.log());
    // A restart does not end the lock of the account.
    server.kill_and_restart();
    is_locked(&server);
    server.cli(&["user", "enable", "ann@local"]);
    assert_eq!(ann(&server)["locked"], false);
    assert_eq!((basic(&server, RIGHT), ticket(&server, RIGHT), identity(&server, RIGHT).0), (207, 200, 201));
    // Without `lockout_failures`, a lock ends when the server is restarted.
    (0..4).for_each(|_| assert_eq!(basic(&server, "wrong"), 401));
    is_locked(&server);
    server.configure("[identity]\npenalties = false\n");
    server.kill_and_restart();
    crate::server::until("the lock ends", &server, || basic(&server, RIGHT) == 207);
}

#[test]
fn the_server_writes_logins_and_new_users_are_active() {
    let server = server("[identity]\npenalties = false\ninactive_days = 90\n");
    assert_eq!((ann(&server)["inactive"].clone(), basic(&server, RIGHT)), (json!(false), 207));
    // A user without a record of the last login gets a record at the start of a server or at the next login. This user was created after the start.
    let id = ann(&server)["id"].clone();
    let is_written = || {
        let dump = server.cli(&["facts", "dump"]);
        dump.iter().any(|row| {
            row["table"] == "activities"
                && row["key"] == id
                && row["row"]["active_on"].as_i64() > Some(20_000)
        })
    };
    crate::server::until("the login is written", &server, is_written);
}

#[test]
fn a_regular_expression_is_asked_of_everybody_and_shown_to_clients() {
    let server = server(
        "[identity]\npenalties = false\n[passwords]\nregex = '^(?=.*[0-9])(?=.*[a-z]).{8,}$'\nregex_description = 'At least 8 characters, one letter and one digit.'\n",
    );
    let why = passwd(&server, "letters only").unwrap_err();
    assert!(why.contains("At least 8 characters, one letter and one digit."), "{why}");
    assert_eq!(change_own(&server, RIGHT, "letters only"), 400);
    assert_eq!(change_own(&server, RIGHT, "digits 1 and letters"), 204);
    assert_eq!((basic(&server, RIGHT), basic(&server, "digits 1 and letters")), (401, 207));
}
