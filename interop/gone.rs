//! A right ends with the commit that removes it. A session that was issued before this commit does not get the right back.

use crate::curl::{PROPFIND_0, curl};
use crate::server::{Server, WITHOUT_PENALTIES};
use enfilade_facts::vocabulary::{ProjectId, UserId};
use enfilade_identity::fernet::payload::Audit;
use enfilade_identity::fernet::{KeyRing, frame};
use enfilade_identity::{Claim, Methods, Scope};
use serde_json::{Value, json};
use std::time::{Duration, SystemTime};

pub(crate) struct Cloud {
    pub(crate) server: Server,
    admin: String,
}

impl Cloud {
    pub(crate) fn start() -> Self {
        Self::on(Server::start_with(&[WITHOUT_PENALTIES]))
    }

    pub(crate) fn on(server: Server) -> Self {
        let url = server.url("");
        let output = server.cli_output(&["bootstrap", "--password-stdin", "--public-url", &url], "pw");
        assert!(output.status.success());
        let mut cloud = Cloud { server, admin: String::new() };
        cloud.admin = cloud.login("admin", "default", "pw", project("admin", "default")).unwrap();
        cloud
    }

    pub(crate) fn login(&self, user: &str, domain: &str, password: &str, scope: Value) -> Option<String> {
        let user = json!({ "name": user, "domain": { "id": domain }, "password": password });
        self.issue(json!({ "methods": ["password"], "password": { "user": user } }), scope)
    }

    pub(crate) fn issue(&self, identity: Value, scope: Value) -> Option<String> {
        let mut auth = json!({ "identity": identity });
        if !scope.is_null() {
            auth["scope"] = scope;
        }
        let body = json!({ "auth": auth }).to_string();
        let ask = || curl(&self.server, "", "/v3/auth/tokens", &["-d", &body]);
        let mut answer = ask();
        // On a busy machine, the answer is 503 if a slow hash found no free slot in time.
        for _ in 0..20 {
            if answer.status != 503 {
                break;
            }
            std::thread::sleep(Duration::from_millis(500));
            answer = ask();
        }
        let token = answer.head.iter().find_map(|line| line.strip_prefix("x-subject-token: "));
        token.map(|token| token.trim().to_owned())
    }

    pub(crate) fn call(&self, token: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let header = format!("X-Auth-Token: {token}");
        let text = body.to_string();
        let mut arguments = vec!["--request", method, "--header", &header];
        if !body.is_null() {
            arguments.extend(["--header", "Content-Type: application/json", "--data", &text]);
        }
        let answer = curl(&self.server, "", path, &arguments);
        (answer.status, serde_json::from_str(&answer.text()).unwrap_or_default())
    }

    /// A call by the administrator with a new login, because a change may have ended the administrator's session.
    pub(crate) fn change(&self, method: &str, path: &str, body: &Value) -> Value {
        let admin = self.login("admin", "default", "pw", project("admin", "default")).unwrap();
        let (status, answer) = self.call(&admin, method, path, body);
        assert!((200..300).contains(&status), "{method} {path}: {status} {answer}");
        answer
    }

    pub(crate) fn make(&self, what: &str, body: Value) -> String {
        let answer = self.change("POST", &format!("/v3/{what}s"), &json!({ what: body }));
        answer[what]["id"].as_str().unwrap().to_owned()
    }

    pub(crate) fn role(&self, name: &str) -> String {
        let answer = self.change("GET", &format!("/v3/roles?name={name}"), &Value::Null);
        answer["roles"][0]["id"].as_str().unwrap().to_owned()
    }

    /// The session of a token. Returns `None` if the token is invalid.
    pub(crate) fn stands(&self, token: &str) -> Option<Value> {
        let header = format!("X-Auth-Token: {token}");
        let subject = format!("X-Subject-Token: {token}");
        let answer = curl(&self.server, "", "/v3/auth/tokens", &["-H", &header, "-H", &subject]);
        match answer.status {
            200 => Some(serde_json::from_str::<Value>(&answer.text()).unwrap()["token"].clone()),
            401 | 404 => None,
            other => panic!("{other}: {}", answer.text()),
        }
    }

    /// The Fernet keys of the server. With these keys, the test creates tokens like another server.
    fn ring(&self) -> KeyRing {
        let keys = std::fs::read_dir(self.server.data().join("keys/fernet")).unwrap();
        let read = |entry: std::fs::DirEntry| {
            let number = entry.file_name().to_str()?.parse::<u32>().ok()?;
            Some((number, base64(&std::fs::read_to_string(entry.path()).unwrap())))
        };
        let keys: Vec<(u32, [u8; 32])> = keys.filter_map(|entry| read(entry.unwrap())).collect();
        KeyRing::new(&keys.iter().map(|(number, key)| (*number, key)).collect::<Vec<_>>()).unwrap()
    }

    /// A token of another server with the same keys: issued `made_in` seconds from now, with this lifetime in seconds.
    fn foreign(&self, user: &str, project: &str, made_in: i64, lifetime: i64, own: u8) -> String {
        let issued_at = now() + made_in;
        let claim = Claim {
            user: user.parse::<UserId>().unwrap(),
            methods: Methods::PASSWORD,
            scope: Scope::Project(project.parse::<ProjectId>().unwrap()),
            lent: None,
            issued_at,
            expires_at: issued_at + lifetime,
            audit: Audit { own: [own; 16], chain: None },
        };
        frame::seal(&self.ring(), u64::try_from(issued_at).unwrap(), [3; 16], &claim.to_payload()).unwrap()
    }
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    i64::try_from(since.as_secs()).unwrap()
}

fn base64(text: &str) -> [u8; 32] {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let digits = text.trim().trim_end_matches('=').bytes();
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0_u32, 0);
    for digit in digits {
        bits = bits << 6 | u32::try_from(alphabet.iter().position(|known| *known == digit).unwrap()).unwrap();
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 255).unwrap());
        }
    }
    bytes.try_into().unwrap()
}

pub(crate) fn project(name: &str, domain: &str) -> Value {
    json!({ "project": { "name": name, "domain": { "id": domain } } })
}

pub(crate) fn enabled(what: &str, is_so: bool) -> Value {
    json!({ what: { "enabled": is_so } })
}

/// A user of one domain has a role by a group of another domain. The groups of a disabled or deleted domain grant nothing from the commit of this
/// change on, even before their records are deleted in the background.
#[test]
fn the_groups_of_a_deleted_domain_grant_nothing() {
    let cloud = Cloud::start();
    let domain = cloud.make("domain", json!({ "name": "tenant" }));
    let group = cloud.make("group", json!({ "name": "crew", "domain_id": domain }));
    // The background job first deletes the users of a domain, 64 in each commit. With this number of users, the job takes some time.
    for n in 0..200 {
        let output = cloud.server.cli_output(&["user", "add", &format!("u{n}@tenant")], "");
        assert!(output.status.success());
    }
    let ann = cloud.make("user", json!({ "name": "ann", "password": "anns", "domain_id": "default" }));
    let bare = cloud.make("project", json!({ "name": "bare", "domain_id": "default" }));
    let member = cloud.role("member");
    cloud.change("PUT", &format!("/v3/groups/{group}/users/{ann}"), &Value::Null);
    cloud.change("PUT", &format!("/v3/projects/{bare}/groups/{group}/roles/{member}"), &Value::Null);
    let token = cloud.login("ann", "default", "anns", project("bare", "default")).unwrap();
    assert!(cloud.stands(&token).is_some());
    let place = format!("/v3/domains/{domain}");
    cloud.change("PATCH", &place, &enabled("domain", false));
    assert!(cloud.stands(&token).is_none(), "a group of a disabled domain grants nothing");
    cloud.change("DELETE", &place, &Value::Null);
    assert!(cloud.stands(&token).is_none());
    assert!(cloud.login("ann", "default", "anns", project("bare", "default")).is_none());
}

/// A token is refused if its issue time is more than 5 s in the future. A token that was revoked before its issue time stays revoked.
#[test]
fn a_token_from_the_future_is_none_and_a_revoked_one_stays_revoked() {
    let cloud = Cloud::start();
    let ann = cloud.make("user", json!({ "name": "ann", "password": "anns", "domain_id": "default" }));
    let bare = cloud.make("project", json!({ "name": "bare", "domain_id": "default" }));
    let member = cloud.role("member");
    cloud.change("PUT", &format!("/v3/projects/{bare}/users/{ann}/roles/{member}"), &Value::Null);
    for (made_in, lifetime, stands) in [
        (0, 3_600, true),
        (3, 3_600, true),
        (180, 3_600, false),
        (1_000_000, 3_600, false),
        (-10, 30 * 86_400, true),
        (-10, 366 * 86_400, false),
    ] {
        let token = cloud.foreign(&ann, &bare, made_in, lifetime, 1);
        assert_eq!(cloud.stands(&token).is_some(), stands, "made in {made_in} s for {lifetime} s");
    }
    // The issue time of this token is three seconds in the future, and the token is revoked now.
    let token = cloud.foreign(&ann, &bare, 3, 3_600, 2);
    assert_eq!(delete(&cloud, &token), 204);
    assert!(cloud.stands(&token).is_none());
    std::thread::sleep(std::time::Duration::from_secs(4));
    assert!(cloud.stands(&token).is_none(), "the token must stay revoked when its issue time has passed");
}

fn delete(cloud: &Cloud, token: &str) -> u16 {
    let (mine, subject) = (format!("X-Auth-Token: {token}"), format!("X-Subject-Token: {token}"));
    let arguments = ["-X", "DELETE", "-H", &mine, "-H", &subject];
    curl(&cloud.server, "", "/v3/auth/tokens", &arguments).status
}

/// Removes each right on which a session depends, and gives it back. The old session stays invalid, and a new session has the right.
#[test]
fn an_old_session_does_not_come_back_with_what_it_rested_on() {
    let cloud = Cloud::start();
    let domain = cloud.make("domain", json!({ "name": "tenant" }));
    let other = cloud.make("domain", json!({ "name": "other" }));
    let ann = cloud.make("user", json!({ "name": "ann", "password": "anns", "domain_id": domain }));
    let work = cloud.make("project", json!({ "name": "work", "domain_id": domain }));
    let inner = cloud.make("project", json!({ "name": "inner", "domain_id": domain, "parent_id": work }));
    let group = cloud.make("group", json!({ "name": "crew", "domain_id": other }));
    let (member, reader) = (cloud.role("member"), cloud.role("reader"));
    let own = cloud.make("role", json!({ "name": "own", "domain_id": domain }));
    let implies = format!("/v3/roles/{own}/implies/{reader}");
    cloud.change("PUT", &implies, &Value::Null);
    let of_ann = format!("/v3/projects/{work}/users/{ann}/roles/{member}");
    let in_group = format!("/v3/groups/{group}/users/{ann}");
    let of_group = format!("/v3/projects/{inner}/groups/{group}/roles/{own}");
    for path in [&of_ann, &in_group, &of_group] {
        cloud.change("PUT", path, &Value::Null);
    }
    let scope = |name: &str| project(name, &domain);
    let login = |name: &str| cloud.login("ann", &domain, "anns", scope(name)).unwrap();
    let place = |kind: &str, id: &str| format!("/v3/{kind}s/{id}");
    for (what, path, name) in [
        ("user", place("user", &ann), "work"),
        ("domain", place("domain", &domain), "work"),
        ("domain", place("domain", &other), "inner"),
        ("project", place("project", &inner), "inner"),
    ] {
        let token = login(name);
        assert!(cloud.stands(&token).is_some());
        cloud.change("PATCH", &path, &enabled(what, false));
        assert!(cloud.stands(&token).is_none(), "{path} disabled");
        cloud.change("PATCH", &path, &enabled(what, true));
        assert!(cloud.stands(&token).is_none(), "{path} enabled again");
        assert!(cloud.stands(&login(name)).is_some(), "{path}");
    }
    for (path, name) in [(&of_ann, "work"), (&in_group, "inner"), (&of_group, "inner"), (&implies, "inner")] {
        let token = login(name);
        assert!(cloud.stands(&token).is_some());
        cloud.change("DELETE", path, &Value::Null);
        assert!(cloud.stands(&token).is_none(), "{path} taken");
        cloud.change("PUT", path, &Value::Null);
        assert!(cloud.stands(&token).is_none(), "{path} given again");
        assert!(cloud.stands(&login(name)).is_some(), "{path}");
    }
    // Roles on other projects do not change.
    cloud.change("PUT", &format!("/v3/projects/{inner}/users/{ann}/roles/{member}"), &Value::Null);
    let (here, there) = (login("work"), login("inner"));
    cloud.change("DELETE", &of_ann, &Value::Null);
    assert!(cloud.stands(&here).is_none() && cloud.stands(&there).is_some());
}

/// Sessions of an application credential end when its secret is replaced, and when it is disabled.
#[test]
fn the_sessions_of_a_secret_end_with_it() {
    let cloud = Cloud::start();
    let by = |value: &Value, secret: &str| {
        let credential = json!({ "id": value["id"], "secret": secret });
        let identity = json!({ "methods": ["application_credential"], "application_credential": credential });
        cloud.issue(identity, Value::Null)
    };
    let made = cloud.server.cli(&["token", "create", "admin@Default!ci", "--project", "admin"])[0].clone();
    let secret = made["value"].as_str().unwrap().to_owned();
    let token = by(&made, &secret).unwrap();
    assert!(cloud.stands(&token).is_some());
    let next = cloud.server.cli(&["token", "regenerate", "admin@Default!ci"])[0].clone();
    assert!(cloud.stands(&token).is_none(), "regenerated");
    let next = next["value"].as_str().unwrap().to_owned();
    assert!(by(&made, &secret).is_none());
    let token = by(&made, &next).unwrap();
    assert!(cloud.stands(&token).is_some());
    cloud.server.cli(&["token", "set", "admin@Default!ci", "--disable"]);
    assert!(cloud.stands(&token).is_none());
    cloud.server.cli(&["token", "set", "admin@Default!ci", "--enable"]);
    assert!(cloud.stands(&token).is_none(), "disabled and enabled");
    assert!(cloud.stands(&by(&made, &next).unwrap()).is_some());
}

/// Roles on a removed datastore do not apply to a new datastore with the same name.
#[test]
fn the_roles_on_a_datastore_go_with_it() {
    for files in [false, true] {
        let server = Server::start();
        if files {
            std::fs::write(server.data().join("acl.cfg"), "").unwrap();
            server.cli(&["role", "list"]);
        }
        let login = server.add_user("jo", "DatastoreReader");
        let status = || curl(&server, &login, "/dav/store/", &PROPFIND_0).status;
        let make = |place: &str| {
            let place = server.data().join("datastores").join(place);
            server.cli(&["datastore", "create", "--path", place.to_str().unwrap(), "store"]);
        };
        make("x");
        server.cli(&[
            "role",
            "assign",
            "--path",
            "/datastore/store",
            "--auth-id",
            "jo@local",
            "DatastoreReader",
        ]);
        server.cli(&[
            "role",
            "assign",
            "--path",
            "/datastore/store/deep",
            "--auth-id",
            "jo@local",
            "DatastoreReader",
        ]);
        assert_eq!(status(), 207);
        server.cli(&["datastore", "remove", "store"]);
        make("y");
        assert_eq!(status(), 404, "acl.cfg: {files}");
        let left = server.cli(&["role", "list"]);
        assert!(!left.iter().any(|row| row.to_string().contains("/datastore/store")), "{left:?}");
    }
}
