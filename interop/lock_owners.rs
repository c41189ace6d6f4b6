//! A lock is valid as long as its owner may change the locked resource.

use crate::curl::curl;
use crate::gone::{Cloud, enabled, project};
use crate::locks::{LOCK, lock, open, put, unlock};
use crate::server::Server;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const ROLE: &str = "DatastorePowerUser";

fn role(server: &Server, what: &str, path: &str, authid: &str) {
    server.cli(&["role", what, "--path", path, "--auth-id", authid, ROLE]);
}

/// A change of bob's rights after bob took a lock, and the status for another writer.
type Case = (&'static str, fn(&Server), u16);

const CASES: [Case; 8] = [
    ("nothing", |_| {}, 423),
    ("disabled", |server| drop(server.cli(&["user", "disable", "bob@local"])), 204),
    ("deleted", |server| drop(server.cli(&["user", "remove", "bob@local"])), 204),
    ("expired", |server| drop(server.cli(&["user", "set", "bob@local", "--expires", "2001-09-09"])), 204),
    ("without the role", |server| role(server, "remove", "/datastore/main", "bob@local"), 204),
    (
        "with the role on the file alone",
        |server| {
            role(server, "remove", "/datastore/main", "bob@local");
            role(server, "assign", "/datastore/main/dir/file", "bob@local");
        },
        423,
    ),
    (
        "with the role by a group alone",
        |server| {
            server.cli(&["group", "add", "crew@local"]);
            server.cli(&["group", "member", "add", "crew@local", "bob@local"]);
            role(server, "remove", "/datastore/main", "bob@local");
            role(server, "assign", "/datastore/main", "@crew@local");
        },
        423,
    ),
    (
        "with an ACL that lets bob read",
        |server| {
            let lines = ["allow alice@local full", "allow bob@local read"];
            server.cli(&[vec!["acl", "set", "main", "/dir/file"], lines.to_vec()].concat());
        },
        204,
    ),
];

#[test]
fn a_lock_of_a_user_who_lost_the_right_keeps_nobody_out() {
    for (what, happens, expected) in CASES {
        let server = Server::start();
        let (alice, bob) = (server.add_user("alice", ROLE), server.add_user("bob", ROLE));
        open(&server);
        assert_eq!(curl(&server, &alice, "/dav/main/dir", &["--request", "MKCOL"]).status, 201);
        assert_eq!(put(&server, &alice, "/dav/main/dir/file"), 201);
        let (status, token) = lock(&server, &bob, "/dav/main/dir/file", "0");
        assert_eq!(status, 200);
        happens(&server);
        for (path, depth) in [("/dav/main/dir/file", "0"), ("/dav/main/dir", "1")] {
            let depth = format!("Depth: {depth}");
            let shown = curl(&server, &alice, path, &["--request", "PROPFIND", "--header", &depth]).text();
            assert_eq!(shown.contains("activelock>"), expected == 423, "{what}: {shown}");
        }
        assert!(!server.log().contains(r#""verb":"end lock""#), "{what}: showing a lock ended it");
        // Three requests that conflict with bob's lock: a lock on the directory, and two requests about the
        // file.
        assert_eq!(
            lock(&server, &alice, "/dav/main/dir", "infinity").0,
            if expected == 204 { 200 } else { 423 },
            "{what}"
        );
        let (dir, mine) = lock(&server, &alice, "/dav/main/dir/file", "0");
        if expected == 204 {
            assert_eq!(dir, 423, "{what}: alice has a lock on the whole directory");
            assert_eq!(mine, "");
            // The log line is written a moment after the answer.
            let began = Instant::now();
            while !server.log().contains(r#""verb":"end lock""#) && began.elapsed() < Duration::from_secs(10)
            {
                std::thread::sleep(Duration::from_millis(20));
            }
            let log = server.log();
            assert_eq!(log.matches(r#""verb":"end lock""#).count(), 1, "{what}: {log}");
        } else {
            assert_eq!(put(&server, &alice, "/dav/main/dir/file"), 423, "{what}");
            assert_eq!(unlock(&server, &bob, "/dav/main/dir/file", &token), 204, "{what}");
            assert_eq!(put(&server, &alice, "/dav/main/dir/file"), 204, "{what}");
        }
    }
}

#[test]
fn a_file_or_tree_with_such_a_lock_is_written_moved_and_deleted() {
    let server = Server::start();
    let (alice, bob) = (server.add_user("alice", ROLE), server.add_user("bob", ROLE));
    open(&server);
    let to = "Destination: /dav/main/away";
    for (method, more, made) in [
        ("PUT", vec!["--data", "y"], 201),
        ("PROPPATCH", vec!["--data", PROPERTY], 204),
        ("MOVE", vec!["--header", to], 204),
        ("DELETE", vec![], 201),
    ] {
        role_once(&server, "assign");
        assert_eq!(put(&server, &alice, "/dav/main/file"), made);
        assert_eq!(lock(&server, &bob, "/dav/main/file", "0").0, 200);
        let change =
            || curl(&server, &alice, "/dav/main/file", &[vec!["--request", method], more.clone()].concat());
        let locked = change();
        assert!(locked.status == 423 || locked.text().contains(" 423 "), "{method}: {}", locked.text());
        role_once(&server, "remove");
        let done = change();
        assert!(
            [201, 204, 207].contains(&done.status) && !done.text().contains(" 423 "),
            "{method}: {}",
            done.text()
        );
    }
}

const PROPERTY: &str = "<D:propertyupdate xmlns:D='DAV:'><D:set><D:prop><x xmlns='urn:x'>y</x></D:prop></D:set></D:propertyupdate>";

fn role_once(server: &Server, what: &str) {
    role(server, what, "/datastore/main", "bob@local");
}

#[test]
fn an_owner_who_lost_the_right_gives_the_lock_back() {
    let server = Server::start();
    let (alice, bob) = (server.add_user("alice", ROLE), server.add_user("bob", ROLE));
    open(&server);
    assert_eq!(put(&server, &alice, "/dav/main/file"), 201);
    let (_, token) = lock(&server, &bob, "/dav/main/file", "0");
    server.cli(&["acl", "set", "main", "/file", "allow alice@local full", "allow bob@local read"]);
    assert_eq!(unlock(&server, &bob, "/dav/main/file", &token), 204);
    assert_eq!(unlock(&server, &bob, "/dav/main/file", &token), 409);
    let shown = curl(&server, &alice, "/dav/main/file", &crate::curl::PROPFIND_0);
    assert!(!shown.text().contains("activelock"), "{}", shown.text());
}

/// The owner of the lock is a session for the datastore's project, issued for a password or for a trust. The lock is valid as long as the user can
/// get such a session.
#[test]
fn a_lock_of_a_session_for_a_project_counts_while_such_a_session_can_be() {
    let cloud = Cloud::start();
    let server = &cloud.server;
    let user =
        |name: &str| cloud.make("user", json!({ "name": name, "password": "pw", "domain_id": "default" }));
    let (ann, bea) = (user("ann"), user("bea"));
    let tank = cloud.make("project", json!({ "name": "tank", "domain_id": "default" }));
    let member = cloud.role("member");
    let grant = format!("/v3/projects/{tank}/users/{ann}/roles/{member}");
    let grant = |method: &str| drop(cloud.change(method, &grant, &Value::Null));
    grant("PUT");
    let carl = server.add_user("carl", ROLE);
    open(server);
    server.cli(&["datastore", "set", "main", "--project", &tank]);
    let write = || put(server, &carl, "/dav/main/file");
    assert_eq!(write(), 201);
    let take = |token: &str| {
        let token = format!("X-Auth-Token: {token}");
        curl(server, "", "/dav/main/file", &["--request", "LOCK", "--header", &token, "--data", LOCK]).status
    };
    let in_person = || cloud.login("ann", "default", "pw", project("tank", "default")).unwrap();
    let lend = || {
        let trust = json!({
            "trustor_user_id": ann, "trustee_user_id": bea, "project_id": tank, "impersonation": false,
            "roles": [{ "id": member }],
        });
        let (status, made) =
            cloud.call(&in_person(), "POST", "/v3/OS-TRUST/trusts", &json!({ "trust": trust }));
        assert_eq!(status, 201, "{made}");
        let id = made["trust"]["id"].as_str().unwrap().to_owned();
        let bea = json!({ "id": bea, "password": "pw" });
        let identity = json!({ "methods": ["password"], "password": { "user": bea } });
        let session = cloud.issue(identity, json!({ "OS-TRUST:trust": { "id": id } })).unwrap();
        (id, session)
    };
    assert_eq!((take(&in_person()), write()), (200, 423));
    grant("DELETE");
    assert_eq!(write(), 204, "the owner lost the role on the project");
    grant("PUT");
    let (trust, session) = lend();
    assert_eq!((take(&session), write()), (200, 423), "the owner has nothing but the trust");
    let (status, gone) =
        cloud.call(&in_person(), "DELETE", &format!("/v3/OS-TRUST/trusts/{trust}"), &Value::Null);
    assert_eq!(status, 204, "{gone}");
    assert_eq!(write(), 204, "the trust is gone");
    let (_, session) = lend();
    assert_eq!((take(&session), write()), (200, 423));
    cloud.change("PATCH", &format!("/v3/users/{ann}"), &enabled("user", false));
    assert_eq!(write(), 204, "the user who lent it is disabled");
    cloud.change("PATCH", &format!("/v3/users/{ann}"), &enabled("user", true));
    assert_eq!((take(&in_person()), write()), (200, 423));
    cloud.change("PATCH", &format!("/v3/projects/{tank}"), &enabled("project", false));
    assert_eq!(write(), 204, "the project is disabled");
}
