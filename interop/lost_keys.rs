//! The server reports if a key is lost, or if a restore replaced the key by another key. The server never creates a new key without a message.

use crate::curl::curl;
use crate::server::{Server, serving, until};
use serde_json::Value;
use std::path::Path;

const MISSING: &str = "token-hash.key` is missing";
const ANOTHER: &str = "token-hash.key` is not the key of the API tokens";
const NEXT: [&str; 2] = ["restore `keys/` from the backup", "enfilade keys init --accept-loss"];

/// The error of a command, which the command must have refused.
fn refused(output: &std::process::Output) -> String {
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{said}");
    said
}

fn says_that_the_key_is(server: &Server, what: &str) {
    let serve = serving(&server.data(), &[]).output().unwrap();
    let commands = [
        &["token", "create", "alice@local!other"][..],
        &["token", "regenerate", "alice@local!test"],
        &["doctor"],
        &["keys", "check"],
        &["keys", "init"],
    ];
    let outputs = commands.map(|command| server.cli_output(command, ""));
    for output in outputs.iter().chain([&serve]) {
        let said = refused(output);
        assert!([what, NEXT[0], NEXT[1], "1 API tokens"].iter().all(|part| said.contains(part)), "{said}");
    }
    // Commands that do not need the key work.
    assert_eq!(server.cli(&["user", "list"]).len(), 2);
}

fn status(server: &Server, login: &str) -> u16 {
    curl(server, login, "/whoami", &[]).status
}

#[test]
fn a_lost_key_of_tokens_is_not_replaced_until_the_loss_is_accepted() {
    let mut server = Server::start();
    let key = server.data().join("keys/token-hash.key");
    let made = std::fs::read(&key).unwrap();
    let login = server.add_user("alice", "DatastoreReader");
    server.stop();
    std::fs::remove_file(&key).unwrap();
    says_that_the_key_is(&server, MISSING);
    assert!(!key.exists(), "no command made another one");
    write_key(&key, &[7; 32]);
    says_that_the_key_is(&server, ANOTHER);
    write_key(&key, &made);
    server.kill_and_restart();
    assert_eq!(status(&server, &login), 200);
    server.stop();
    std::fs::remove_file(&key).unwrap();
    let accepted = server.cli(&["keys", "init", "--accept-loss"]);
    assert_eq!(accepted[0]["tokens_refused"], 1, "{accepted:?}");
    assert_eq!(accepted[0]["refused"][0], "alice@local!test", "{accepted:?}");
    let doctor = |server: &Server| {
        String::from_utf8(server.cli_output(&["doctor"], "").stdout)
            .unwrap()
            .contains("token alice@local!test")
    };
    assert!(doctor(&server), "the token is refused, and nothing says so");
    server.kill_and_restart();
    assert_eq!(status(&server, &login), 401);
    let new = server.cli(&["token", "regenerate", "alice@local!test"]);
    assert_eq!(status(&server, &format!("alice@local!test:{}", new[0]["value"].as_str().unwrap())), 200);
    assert!(!doctor(&server));
    assert_eq!(server.cli(&["keys", "init", "--accept-loss"])[0]["tokens_refused"], 0);
    // Another key changes which tokens are accepted. Therefore the message must not say that nothing changed.
    server.stop();
    write_key(&key, &[7; 32]);
    let mut command = std::process::Command::new(crate::server::BINARY);
    let told =
        command.arg("--data").arg(server.data()).args(["keys", "init", "--accept-loss"]).output().unwrap();
    let told = String::from_utf8(told.stdout).unwrap();
    assert!(
        told.contains("token-hash.key` is the key of API tokens from now on. 1 API token is refused"),
        "{told}"
    );
    assert!(!told.contains("nothing changed"), "{told}");
}

#[test]
fn facts_that_are_restored_without_their_key_say_so() {
    let (server, other) = (Server::start(), Server::start());
    let login = server.add_user("alice", "DatastoreReader");
    let backup = server.scratch.path().join("backup");
    let backup = backup.to_str().unwrap();
    server.cli(&["facts", "backup", backup]);
    let restored = other.cli_output(&["facts", "restore", backup, "--force", "--accept-rollback"], "");
    let said = String::from_utf8_lossy(&restored.stderr).into_owned();
    assert!(restored.status.success() && said.contains(ANOTHER), "{said}");
    let key = |server: &Server| server.data().join("keys/token-hash.key");
    write_key(&key(&other), &std::fs::read(key(&server)).unwrap());
    let mut other = other;
    other.kill_and_restart();
    assert_eq!(status(&other, &login), 200);
}

#[test]
fn lost_keys_of_sessions_are_told() {
    let mut server = Server::start();
    let body = format!(
        r#"{{"auth":{{"identity":{{"methods":["password"],"password":{{"user":{{"name":"admin","domain":{{"name":"local"}},"password":"{}"}}}}}}}}}}"#,
        server.password
    );
    let answer = curl(&server, "", "/v3/auth/tokens", &["-H", "Content-Type: application/json", "-d", &body]);
    assert_eq!(answer.status, 201);
    server.stop();
    std::fs::remove_dir_all(server.data().join("keys/fernet")).unwrap();
    std::fs::remove_dir_all(server.data().join("keys/tickets")).unwrap();
    assert!(!server.log().contains("are missing"), "{}", server.log());
    server.kill_and_restart();
    for said in ["which ends all sessions except those of browsers", "every client does one full handshake"] {
        until("it is logged", &server, || server.log().contains(said));
    }
    let doctor = String::from_utf8(server.cli_output(&["doctor"], "").stdout).unwrap();
    let mut findings = doctor.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let found = findings.find(|finding| finding["what"] == "keys of sessions").unwrap();
    let says = found["says"].as_str().unwrap();
    assert!(found["state"] == "error" && says.contains("only if the keys are lost"), "{found}");
}

fn write_key(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).unwrap();
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
}
