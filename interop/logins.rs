//! A failed login does not show whether the account exists: the answer has the same bytes after the same delay for known and unknown names and ids,
//! in every spelling. A reader of one domain learns nothing about other domains.

use crate::curl::{command, curl};
use crate::gone::{Cloud, enabled, project};
use crate::server::Server;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn password(user: Value, password: &str) -> Value {
    let mut user = user;
    user["password"] = password.into();
    json!({ "methods": ["password"], "password": { "user": user } })
}

fn credential(given: Value, secret: &str) -> Value {
    let mut given = given;
    given["secret"] = secret.into();
    json!({ "methods": ["application_credential"], "application_credential": given })
}

fn body(identity: &Value) -> String {
    json!({ "auth": { "identity": identity } }).to_string()
}

/// A user by name, in two spellings: with the id and with the name of the domain.
fn named(name: &str, domain: (&str, &str)) -> [Value; 2] {
    let of = |how: &str, domain: &str| json!({ "name": name, "domain": { how: domain } });
    [of("id", domain.0), of("name", domain.1)]
}

/// Creates an application credential of a user who has a role only at this moment.
fn made_by(cloud: &Cloud, name: &str) -> Value {
    let user = name.split('!').next().unwrap();
    let role = |verb: &str| {
        cloud.server.cli(&["role", verb, "--project", "admin", "--auth-id", user, "reader"]);
    };
    role("assign");
    let made = cloud.server.cli(&["token", "create", name, "--project", "admin"])[0].clone();
    role("remove");
    made
}

/// Logins that are refused: users and credentials in every state and every spelling, with a wrong secret, or with the right secret of a disabled or
/// deleted account.
fn refused(cloud: &Cloud) -> Vec<(String, Value)> {
    let domain = cloud.make("domain", json!({ "name": "tenant" }));
    let closed = cloud.make("domain", json!({ "name": "closed" }));
    let user = |name: &str, domain: &str| {
        cloud.make("user", json!({ "name": name, "domain_id": domain, "password": "right" }))
    };
    let (known, disabled, deleted) =
        (user("known", &domain), user("disabled", &domain), user("deleted", &domain));
    let inside = user("inside", &closed);
    let made = |name: &str| made_by(cloud, name);
    let (of_known, of_disabled, of_deleted) =
        (made("known@tenant!c"), made("disabled@tenant!c"), made("deleted@tenant!c"));
    let gone = made("known@tenant!gone");
    cloud.server.cli(&["token", "delete", "known@tenant!gone"]);
    cloud.change("PATCH", &format!("/v3/users/{disabled}"), &enabled("user", false));
    cloud.change("DELETE", &format!("/v3/users/{deleted}"), &Value::Null);
    cloud.change("PATCH", &format!("/v3/domains/{closed}"), &enabled("domain", false));
    let nobody = "0123456789abcdef0123456789abcdef";
    let mut cases = Vec::new();
    let mut add = |what: &str, identity: Value| cases.push((what.to_owned(), identity));
    for (what, name, id, in_domain, secret) in [
        ("a known user", "known", known.as_str(), (domain.as_str(), "tenant"), "wrong"),
        ("an unknown user", "ghost", nobody, (&domain, "tenant"), "wrong"),
        ("a disabled user", "disabled", &disabled, (&domain, "tenant"), "wrong"),
        ("a disabled user, right", "disabled", &disabled, (&domain, "tenant"), "right"),
        ("a deleted user, right", "deleted", &deleted, (&domain, "tenant"), "right"),
        ("a user of a disabled domain, right", "inside", &inside, (&closed, "closed"), "right"),
        ("a user of no domain", "known", "no id at all", (nobody, "nowhere"), "wrong"),
    ] {
        for user in named(name, in_domain).into_iter().chain([json!({ "id": id })]) {
            add(&format!("{what}: {user}"), password(user, secret));
        }
    }
    let secret = |made: &Value| made["value"].as_str().unwrap().to_owned();
    for (what, name, user, id, secret) in [
        ("a known credential", "c", "known", &of_known["id"], "wrong".to_owned()),
        ("an unknown credential", "d", "known", &json!(nobody), "wrong".to_owned()),
        ("a credential of nobody", "c", "ghost", &json!("no id at all"), "wrong".to_owned()),
        ("a credential of a disabled user, right", "c", "disabled", &of_disabled["id"], secret(&of_disabled)),
        ("a credential of a deleted user, right", "c", "deleted", &of_deleted["id"], secret(&of_deleted)),
        ("a deleted credential, right", "gone", "known", &gone["id"], secret(&gone)),
    ] {
        let by_name = named(user, (&domain, "tenant")).map(|user| json!({ "name": name, "user": user }));
        for given in by_name.into_iter().chain([json!({ "id": id })]) {
            add(&format!("{what}: {given}"), credential(given, &secret));
        }
    }
    cases
}

#[test]
fn who_does_not_get_in_is_answered_alike() {
    let cloud = Cloud::start();
    let cases = refused(&cloud);
    let mut expected = None;
    for (what, identity) in &cases {
        let answer = curl(&cloud.server, "", "/v3/auth/tokens", &["-d", &body(identity)]);
        let id = |line: &String| !line.to_ascii_lowercase().starts_with("x-openstack-request-id:");
        let head: Vec<String> = answer.head.iter().filter(|line| id(line)).cloned().collect();
        assert_eq!(answer.status, 401, "{what}");
        let seen = (head, answer.text());
        assert_eq!(*expected.get_or_insert_with(|| seen.clone()), seen, "{what}");
    }
    assert!(cases.len() > 35, "{}", cases.len());
}

/// Failures are counted by the text that the client sent. The second failure with the same text waits three seconds, and the first failure with
/// another text waits one second. Therefore the delay does not reveal whether two texts name the same user, or whether the user exists.
#[test]
fn failures_are_counted_by_what_was_said() {
    let cloud = Cloud::on(Server::start());
    let ids = ["known", "other"]
        .map(|name| cloud.make("user", json!({ "name": name, "domain_id": "default", "password": "right" })));
    let made = made_by(&cloud, "known@Default!c");
    let nobody = "0123456789abcdef0123456789abcdef";
    let default = ("default", "Default");
    let by_name = |name: &str, at: usize| password(named(name, default)[at].clone(), "wrong");
    let by_id = |id: &str| password(json!({ "id": id }), "wrong");
    let of = |user: &str, name: &str| {
        credential(json!({ "name": name, "user": named(user, default)[0] }), "wrong")
    };
    let by_credential = |id: &str| credential(json!({ "id": id }), "wrong");
    let asks = [
        ("known, both spellings", by_name("known", 0), by_name("known", 1), 1),
        ("unknown, both spellings", by_name("ghost", 0), by_name("ghost", 1), 1),
        ("known, id and name", by_id(&ids[1]), by_name("other", 0), 1),
        ("unknown, id and name", by_id(nobody), by_name("spirit", 0), 1),
        ("known credential, id and name", by_credential(made["id"].as_str().unwrap()), of("known", "c"), 1),
        ("unknown credential, id and name", by_credential(nobody), of("ghost", "c"), 1),
        ("unknown, the same", by_name("shade", 0), by_name("shade", 0), 3),
    ];
    std::thread::scope(|scope| {
        for (at, (what, first, second, seconds)) in asks.iter().enumerate() {
            let server = &cloud.server;
            scope.spawn(move || {
                // Each thread uses a separate address, because the server would block a common address.
                let from = format!("127.0.1.{}", at + 1);
                let ask = |identity: &Value| loop {
                    let mut curl = command(server, "");
                    let status = ["--output", "/dev/null", "--write-out", "%{http_code}"];
                    curl.args(["--interface", &from, "-d", &body(identity)]).args(status);
                    let began = Instant::now();
                    let output = curl.arg(server.url("/v3/auth/tokens")).output().unwrap();
                    // The answer is 503 if too many passwords are hashed at the same time.
                    match String::from_utf8(output.stdout).unwrap().as_str() {
                        "401" => return began.elapsed(),
                        "503" => std::thread::sleep(Duration::from_millis(200)),
                        other => panic!("{what}: {other}"),
                    }
                };
                let (first, second) = (ask(first), ask(second));
                assert!(first >= Duration::from_secs(1), "{what}: {first:?}");
                assert!(second >= Duration::from_secs(*seconds), "{what}: {second:?}");
            });
        }
    });
    // On a busy machine, the maximum of a delay cannot be measured. Therefore the counts are compared: only a repeated text is counted twice.
    let counted = cloud.server.cli(&["penalties", "list"]);
    let twice = counted.iter().filter(|one| one["failures"].as_u64() > Some(1));
    let mut twice: Vec<&str> = twice.map(|one| one["subject"].as_str().unwrap()).collect();
    twice.retain(|subject| subject.parse::<std::net::IpAddr>().is_err());
    twice.sort_unstable();
    // The id `nobody` was sent both as the id of a user and as the id of a credential.
    assert_eq!(twice, [nobody, "shade@default"], "{counted:?}");
}

/// If `marker` names a record of another domain, the answer is the same as for a record that does not exist.
#[test]
fn a_marker_says_nothing_of_other_domains() {
    let cloud = Cloud::start();
    let [own, other] = ["own", "other"].map(|name| cloud.make("domain", json!({ "name": name })));
    let manager = cloud.make("user", json!({ "name": "manager", "domain_id": own, "password": "pw" }));
    let role = cloud.role("manager");
    cloud.change("PUT", &format!("/v3/domains/{own}/users/{manager}/roles/{role}"), &Value::Null);
    let token = cloud.login("manager", &own, "pw", json!({ "domain": { "id": own } })).unwrap();
    let nobody = "0123456789abcdef0123456789abcdef";
    for what in ["user", "project", "group"] {
        let [seen, hidden] =
            [&own, &other].map(|domain| cloud.make(what, json!({ "name": "x", "domain_id": domain })));
        let list = |marker: &str| {
            let path = format!("/v3/{what}s?domain_id={own}&marker={marker}");
            let (status, answer) = cloud.call(&token, "GET", &path, &Value::Null);
            (status, answer.to_string().replace(marker, "MARKER"))
        };
        assert_eq!(list(&seen).0, 200, "{what}");
        assert_eq!(list(nobody).0, 404, "{what}");
        assert_eq!(list(&hidden), list(nobody), "{what}");
    }
}

#[test]
fn names_have_no_control_characters() {
    let cloud = Cloud::start();
    let admin = cloud.login("admin", "default", "pw", project("admin", "default")).unwrap();
    for name in ["ad\u{7}min", "a\nb", "\u{1b}[2J", "a\u{7f}b", "a\u{9b}b"] {
        for what in ["user", "project", "group", "role", "domain"] {
            let body = json!({ what: { "name": name } });
            let (status, answer) = cloud.call(&admin, "POST", &format!("/v3/{what}s"), &body);
            assert_eq!(status, 400, "{what} {name:?}: {answer}");
        }
        let output = cloud.server.cli_output(&["user", "add", &format!("{name}@local")], "");
        assert!(!output.status.success(), "{name:?}");
    }
}

/// `alice@local!evil@local` is the name of a user, not of a token of alice.
#[test]
fn whose_token_it_is_is_not_read_from_the_first_letters() {
    let server = Server::start();
    let alice = server.add_user("alice", "DatastoreReader");
    server.cli(&[
        "role",
        "assign",
        "--path",
        "/datastore/main",
        "--auth-id",
        "alice@local!test",
        "DatastoreReader",
    ]);
    let other = "alice@local!evil@local";
    server.cli(&["user", "add", other]);
    server.cli(&["role", "assign", "--path", "/datastore/main", "--auth-id", other, "DatastoreReader"]);
    let header = format!("Authorization: PBSAPIToken={alice}");
    let answer = curl(&server, "", "/api2/json/access/acl", &["-H", &header]);
    let text = answer.text();
    assert!(text.contains("alice@local!test") && !text.contains("evil"), "{text}");
}
