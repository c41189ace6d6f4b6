//! The commands for Fernet keys, in a directory with the layout of `keystone-manage`.

use crate::server::Server;
use serde_json::Value;

fn numbers(server: &Server) -> Vec<u64> {
    server.cli(&["keys", "list"]).iter().map(|key| key["key"].as_u64().unwrap()).collect()
}

#[test]
fn keys_are_made_rotated_and_not_dropped_while_tokens_need_them() {
    let server = Server::start();
    // The first start created the keys.
    assert_eq!(server.cli(&["keys", "init"])[0]["made"], false);
    std::fs::remove_dir_all(server.data().join("keys/fernet")).unwrap();
    let missing = server.cli_output(&["keys", "list"], "");
    assert!(String::from_utf8(missing.stderr).unwrap().contains("run `enfilade keys init`"));
    assert_eq!(server.cli(&["keys", "init"])[0]["made"], true);
    assert_eq!(server.cli(&["keys", "init"])[0]["made"], false);
    assert_eq!(numbers(&server), [0, 1]);
    assert_eq!(server.cli(&["keys", "rotate"])[0]["primary"], 2);
    assert_eq!(numbers(&server), [0, 1, 2]);
    // At most three keys are kept. Key 1 signed tokens until now, so it is still needed.
    let refused = server.cli_output(&["keys", "rotate"], "");
    let why = String::from_utf8(refused.stderr).unwrap();
    assert!(why.contains("key 1 is needed for another 49 hours") && why.contains("max_active_keys"), "{why}");
    assert_eq!(numbers(&server), [0, 1, 2]);
    assert_eq!(server.cli(&["keys", "rotate", "--force"])[0]["dropped"], serde_json::json!([1]));
    let listed = server.cli(&["keys", "list"]);
    let uses: Vec<&str> = listed.iter().map(|key| key["use"].as_str().unwrap()).collect();
    assert_eq!((numbers(&server), uses), (vec![0, 2, 3], vec!["staged", "secondary", "primary"]));
    assert!(listed[1]["needed_until"].as_i64().unwrap() > listed[2]["since"].as_i64().unwrap());
    assert_eq!(server.cli(&["keys", "check"])[0]["problems"], serde_json::json!([]));
    let directory = server.data().join("keys/fernet");
    std::fs::write(directory.join("foo"), "").unwrap();
    std::fs::remove_file(directory.join("0")).unwrap();
    let wrong = server.cli_output(&["keys", "check"], "");
    assert!(!wrong.status.success());
    let said: Value = serde_json::from_slice(&wrong.stdout).unwrap();
    assert_eq!(said["problems"].as_array().unwrap().len(), 2, "{said}");
}
