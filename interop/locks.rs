//! A lock never gives rights: the server checks the rights of the lock's owner at each use of the lock.

use crate::curl::{PROPFIND_0, curl};
use crate::server::Server;
use serde_json::Value;

pub(crate) const LOCK: &str = "<D:lockinfo xmlns:D='DAV:'><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype><D:owner>me</D:owner></D:lockinfo>";

pub(crate) fn lock(server: &Server, login: &str, path: &str, depth: &str) -> (u16, String) {
    let depth = format!("Depth: {depth}");
    let answer = curl(server, login, path, &["--request", "LOCK", "--data", LOCK, "--header", &depth]);
    let token = answer.head.iter().find_map(|line| line.strip_prefix("lock-token: "));
    (answer.status, token.unwrap_or_default().to_owned())
}

pub(crate) fn unlock(server: &Server, login: &str, path: &str, token: &str) -> u16 {
    let header = format!("Lock-Token: {token}");
    curl(server, login, path, &["--request", "UNLOCK", "--header", &header]).status
}

fn refresh(server: &Server, login: &str, path: &str, token: &str) -> u16 {
    let header = format!("If: ({token})");
    curl(server, login, path, &["--request", "LOCK", "--header", &header]).status
}

pub(crate) fn put(server: &Server, login: &str, path: &str) -> u16 {
    curl(server, login, path, &["--request", "PUT", "--data", "x"]).status
}

pub(crate) fn open(server: &Server) {
    server.cli(&["acl", "set", "main", "/", "allow authenticated full inherit=files,dirs", "--recursive"]);
}

#[test]
fn whoever_may_no_longer_change_something_keeps_no_lock_on_it() {
    let server = Server::start();
    let (alice, bob) =
        (server.add_user("alice", "DatastorePowerUser"), server.add_user("bob", "DatastorePowerUser"));
    open(&server);
    assert_eq!(put(&server, &alice, "/dav/main/file"), 201);
    let (status, token) = lock(&server, &bob, "/dav/main/file", "0");
    assert_eq!((status, refresh(&server, &bob, "/dav/main/file", &token)), (200, 200));
    server.cli(&["acl", "set", "main", "/file", "allow alice@local full", "allow bob@local read"]);
    assert_eq!(refresh(&server, &bob, "/dav/main/file", &token), 403);
    // Bob does not see locks of hidden entries.
    server.cli(&["acl", "set", "main", "/file", "allow alice@local full"]);
    // The condition with the lock token is false.
    assert_eq!(refresh(&server, &bob, "/dav/main/file", &token), 412);
    assert_eq!(unlock(&server, &bob, "/dav/main/file", &token), 409);
    assert_eq!(put(&server, &alice, "/dav/main/file"), 204);
}

#[test]
fn the_operator_ends_a_lock() {
    let server = Server::start();
    let (alice, bob) =
        (server.add_user("alice", "DatastorePowerUser"), server.add_user("bob", "DatastorePowerUser"));
    open(&server);
    assert_eq!(put(&server, &alice, "/dav/main/file"), 201);
    assert_eq!(lock(&server, &bob, "/dav/main/file", "0").0, 200);
    assert_eq!(put(&server, &alice, "/dav/main/file"), 423);
    let ended = &server.cli(&["datastore", "unlock", "main", "/file"])[0];
    assert_eq!(
        (ended["path"].as_str(), ended["user"].as_str()),
        (Some("/file"), Some("bob@local")),
        "{ended}"
    );
    assert_eq!(put(&server, &alice, "/dav/main/file"), 204);
    assert_eq!(server.cli(&["datastore", "unlock", "main", "/file"]), Vec::<Value>::new());
    let log = server.cli(&["facts", "log"]);
    assert!(log.iter().any(|row| row.to_string().contains("datastore unlock main /file")), "{log:?}");
    let refused = server.cli_output(&["datastore", "unlock", "gone", "/file"], "");
    assert!(!refused.status.success(), "there is no such datastore");
}

#[test]
fn a_credential_with_fewer_rights_does_not_take_the_lock_of_another() {
    let server = Server::start();
    let alice = server.add_user("alice", "DatastorePowerUser");
    open(&server);
    assert_eq!(put(&server, &alice, "/dav/main/file"), 201);
    let narrow = server.cli(&["token", "create", "alice@local!narrow", "--own-roles"]);
    let narrow = format!("alice@local!narrow:{}", narrow[0]["value"].as_str().unwrap());
    server.cli(&[
        "role",
        "assign",
        "--path",
        "/datastore/main",
        "--auth-id",
        "alice@local!narrow",
        "DatastoreReader",
    ]);
    let (status, token) = lock(&server, &alice, "/dav/main/file", "0");
    assert_eq!(status, 200);
    assert_eq!(unlock(&server, &narrow, "/dav/main/file", &token), 403);
    assert_eq!(refresh(&server, &narrow, "/dav/main/file", &token), 403);
    assert_eq!(unlock(&server, &alice, "/dav/main/file", &token), 204);
}

#[test]
fn a_lock_of_a_tree_takes_the_right_to_change_all_of_it() {
    let server = Server::start();
    let alice = server.add_user("alice", "DatastorePowerUser");
    let backup = server.add_user("backup", "DatastoreBackup");
    let bob = server.add_user("bob", "DatastorePowerUser");
    open(&server);
    for (method, path) in [("MKCOL", "dir"), ("MKCOL", "dir/sub"), ("PUT", "dir/sub/file"), ("PUT", "top")] {
        let body = if method == "PUT" { vec!["--data", "x"] } else { vec![] };
        let made =
            curl(&server, &alice, &format!("/dav/main/{path}"), &[vec!["--request", method], body].concat());
        assert_eq!(made.status, 201, "{path}");
    }
    assert_eq!(lock(&server, &backup, "/dav/main/", "infinity").0, 403, "this user may not overwrite files");
    let (status, token) = lock(&server, &bob, "/dav/main/dir", "infinity");
    assert_eq!(status, 200);
    assert_eq!(put(&server, &alice, "/dav/main/dir/sub/file"), 423);
    assert_eq!(unlock(&server, &bob, "/dav/main/dir", &token), 204);
    // A file in the directory, which only alice may write.
    for acl in [vec!["allow alice@local full"], vec!["allow alice@local full", "allow bob@local read"]] {
        server.cli(&[vec!["acl", "set", "main", "/dir/sub/file"], acl].concat());
        assert_eq!(lock(&server, &bob, "/dav/main/dir", "infinity").0, 403);
        assert_eq!(lock(&server, &bob, "/dav/main/", "infinity").0, 403);
    }
    assert_eq!(put(&server, &alice, "/dav/main/dir/sub/file"), 204);
    // A lock of depth 0 on the directory needs no right on its members.
    assert_eq!(lock(&server, &bob, "/dav/main/dir", "0").0, 200);
}

#[test]
fn only_whoever_took_a_lock_is_shown_its_token() {
    let server = Server::start();
    let (alice, bob) =
        (server.add_user("alice", "DatastorePowerUser"), server.add_user("bob", "DatastorePowerUser"));
    open(&server);
    let (status, token) = lock(&server, &alice, "/dav/main/file", "0");
    assert_eq!(status, 201);
    let token = token.trim_matches(['<', '>']).to_owned();
    open(&server);
    for (login, shown) in [(&alice, true), (&bob, false)] {
        for asked in [&PROPFIND_0[..], &["--request", "PROPFIND", "--header", "Depth: 1"]] {
            let path = if asked == PROPFIND_0 { "/dav/main/file" } else { "/dav/main/" };
            let text = curl(&server, login, path, asked).text();
            assert!(text.contains("<D:activelock>") && text.contains("<D:lockroot>"), "{text}");
            assert_eq!((text.contains(&token), text.contains("locktoken")), (shown, shown), "{text}");
        }
    }
}
