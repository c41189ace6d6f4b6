//! For records that the caller may not see, Identity v3 gives the same answer as for records that do not exist.

use crate::curl::{Answer, curl};
use crate::gone::Cloud;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A call: method, path, the name of a record, and body. The id of the record replaces `ID` in the path.
type Row = (&'static str, &'static str, &'static str, Value);

struct World {
    cloud: Cloud,
    /// Ids by name.
    ids: BTreeMap<&'static str, String>,
}

impl World {
    fn id(&self, name: &str) -> &str {
        &self.ids[name]
    }

    fn user(&self, name: &str, domain: &str) -> String {
        self.cloud.make("user", json!({ "name": name, "domain_id": domain, "password": "pw" }))
    }

    fn give(&self, path: &str, role: &str) {
        self.cloud.change("PUT", &format!("/v3/{path}/roles/{}", self.cloud.role(role)), &Value::Null);
    }

    fn token(&self, user: &str, domain: &str, scope: Value) -> String {
        self.cloud.login(user, self.id(domain), "pw", scope).unwrap()
    }

    fn filled(&self, text: &str) -> String {
        self.ids.iter().fold(text.to_owned(), |text, (name, id)| text.replace(&format!("<{name}>"), id))
    }
}

/// `ann` has a role on a project of the domain `tenant`, and `guest` has a role on a project of the domain `elsewhere`. Neither user has a right in
/// the domain of the other user.
fn world() -> World {
    let cloud = Cloud::start();
    let mut world = World { cloud, ids: BTreeMap::new() };
    for name in ["tenant", "elsewhere"] {
        let id = world.cloud.make("domain", json!({ "name": name }));
        world.ids.insert(name, id);
    }
    for (name, domain) in [("own", "tenant"), ("foreign", "elsewhere")] {
        let id = world.cloud.make("project", json!({ "name": name, "domain_id": world.id(domain) }));
        world.ids.insert(name, id);
    }
    for (name, domain) in [
        ("ann", "tenant"),
        ("boss", "tenant"),
        ("clerk", "tenant"),
        ("chief", "tenant"),
        ("auditor", "tenant"),
        ("guest", "elsewhere"),
        ("other", "elsewhere"),
    ] {
        let id = world.user(name, world.id(domain));
        world.ids.insert(name, id);
    }
    for (name, domain) in [("crew", "tenant"), ("strangers", "elsewhere")] {
        let id = world.cloud.make("group", json!({ "name": name, "domain_id": world.id(domain) }));
        world.ids.insert(name, id);
    }
    for (name, domain) in [("operator", None), ("local role", Some(world.id("elsewhere").to_owned()))] {
        let id = world.cloud.make("role", json!({ "name": name, "domain_id": domain }));
        world.ids.insert(name, id);
    }
    for name in ["reader", "member"] {
        let id = world.cloud.role(name);
        world.ids.insert(name, id);
    }
    for (path, role) in [
        ("projects/<own>/users/<ann>", "member"),
        ("projects/<foreign>/users/<ann>", "reader"),
        ("projects/<foreign>/users/<guest>", "member"),
        ("domains/<tenant>/users/<boss>", "manager"),
        ("domains/<tenant>/users/<clerk>", "reader"),
        ("domains/<tenant>/users/<chief>", "admin"),
        ("system/users/<auditor>", "reader"),
    ] {
        world.give(&world.filled(path), role);
    }
    let guest = world.token("guest", "elsewhere", json!({ "project": { "id": world.id("foreign") } }));
    let trust = json!({ "trust": {
        "trustor_user_id": world.id("guest"), "trustee_user_id": world.id("other"),
        "project_id": world.id("foreign"), "impersonation": false, "roles": [{ "name": "member" }],
    } });
    let (status, made) = world.cloud.call(&guest, "POST", "/v3/OS-TRUST/trusts", &trust);
    assert_eq!(status, 201, "{made}");
    world.ids.insert("trust", made["trust"]["id"].as_str().unwrap().to_owned());
    let blob = json!({ "credential": { "type": "cert", "blob": "x", "user_id": world.id("guest") } });
    let (status, made) = world.cloud.call(&guest, "POST", "/v3/credentials", &blob);
    assert_eq!(status, 201, "{made}");
    world.ids.insert("blob", made["credential"]["id"].as_str().unwrap().to_owned());
    let keys = world.filled("/v3/users/<guest>/credentials/OS-EC2");
    let (status, made) =
        world.cloud.call(&guest, "POST", &keys, &json!({ "tenant_id": world.id("foreign") }));
    assert_eq!(status, 201, "{made}");
    world.ids.insert("key", made["credential"]["access"].as_str().unwrap().to_owned());
    world
}

/// The response without its variable parts: the id of the request, and the requested id.
fn answer(world: &World, token: &str, row: &Row, id: &str) -> (u16, Vec<String>, String) {
    let (method, path, _, body) = row;
    let header = format!("X-Auth-Token: {token}");
    let path = world.filled(path).replace("ID", id);
    let text = world.filled(&body.to_string()).replace("ID", id);
    let mut arguments = vec!["--request", method, "--header", &header];
    if *method == "HEAD" {
        arguments = vec!["--head", "--header", &header];
    }
    if !body.is_null() {
        arguments.extend(["--header", "Content-Type: application/json", "--data", &text]);
    }
    let Answer { status, head, body } = curl(&world.cloud.server, "", &path, &arguments);
    let is_alike = |line: &String| !line.to_ascii_lowercase().starts_with("x-openstack-request-id");
    let body = String::from_utf8(body).unwrap().replace(id, "ID");
    (status, head.into_iter().filter(is_alike).collect(), body)
}

#[test]
fn what_may_not_be_known_is_answered_as_what_is_absent() {
    let world = world();
    let on = |project: &str| json!({ "project": { "id": world.id(project) } });
    let on_domain = json!({ "domain": { "id": world.id("tenant") } });
    let trust = |role: Value| {
        json!({ "trust": {
            "trustor_user_id": "<ann>", "trustee_user_id": "<guest>", "project_id": "<own>",
            "impersonation": false, "roles": [role],
        } })
    };
    let key = json!({ "credential": {
        "type": "ec2", "project_id": "ID", "blob": "{\"access\":\"taken-by-ann\",\"secret\":\"s\"}",
    } });
    let none = || Value::Null;
    // The third column names the hidden record.
    let everybody: Vec<Row> = vec![
        ("GET", "/v3/OS-TRUST/trusts/ID", "trust", none()),
        ("DELETE", "/v3/OS-TRUST/trusts/ID", "trust", none()),
        ("GET", "/v3/OS-TRUST/trusts/ID/roles", "trust", none()),
        ("GET", "/v3/OS-TRUST/trusts/ID/roles/<reader>", "trust", none()),
        ("GET", "/v3/users/<guest>/credentials/OS-EC2/ID", "key", none()),
        ("DELETE", "/v3/users/<guest>/credentials/OS-EC2/ID", "key", none()),
    ];
    let ann: Vec<Row> = vec![
        ("GET", "/v3/users/<ann>/credentials/OS-EC2/ID", "key", none()),
        ("DELETE", "/v3/users/<ann>/credentials/OS-EC2/ID", "key", none()),
        ("DELETE", "/v3/groups/ID", "strangers", none()),
        ("GET", "/v3/OS-TRUST/trusts?trustor_user_id=ID", "guest", none()),
        ("POST", "/v3/OS-TRUST/trusts", "operator", trust(json!({ "id": "ID" }))),
        ("POST", "/v3/OS-TRUST/trusts", "=operator", trust(json!({ "name": "ID" }))),
        ("POST", "/v3/users/<ann>/credentials/OS-EC2", "admin's", json!({ "tenant_id": "ID" })),
        ("POST", "/v3/credentials", "admin's", key),
        ("GET", "/v3/credentials/ID", "blob", none()),
        ("DELETE", "/v3/credentials/ID", "blob", none()),
        ("GET", "/v3/credentials?user_id=ID", "guest", none()),
        ("GET", "/v3/users/ID", "guest", none()),
        ("GET", "/v3/users/ID/projects", "guest", none()),
        ("GET", "/v3/users/ID/groups", "guest", none()),
        ("GET", "/v3/users/ID/application_credentials", "guest", none()),
        ("GET", "/v3/users/ID/credentials/OS-EC2", "guest", none()),
        ("GET", "/v3/groups/ID", "strangers", none()),
        ("GET", "/v3/projects/ID", "admin's", none()),
        ("GET", "/v3/domains/ID", "elsewhere", none()),
        ("POST", "/v3/users", "elsewhere", json!({ "user": { "name": "new", "domain_id": "ID" } })),
        ("POST", "/v3/projects", "admin's", json!({ "project": { "name": "new", "parent_id": "ID" } })),
    ];
    let manager: Vec<Row> = vec![
        ("PUT", "/v3/groups/<crew>/users/ID", "guest", none()),
        ("DELETE", "/v3/groups/<crew>/users/ID", "guest", none()),
        ("HEAD", "/v3/groups/<crew>/users/ID", "guest", none()),
        ("PUT", "/v3/groups/ID/users/<ann>", "strangers", none()),
        ("PATCH", "/v3/users/ID", "guest", json!({ "user": { "password": "taken" } })),
        ("DELETE", "/v3/users/ID", "guest", none()),
        ("PATCH", "/v3/groups/ID", "strangers", json!({ "group": { "name": "taken" } })),
        ("DELETE", "/v3/groups/ID", "strangers", none()),
        ("PUT", "/v3/projects/<own>/users/ID/roles/<reader>", "guest", none()),
        ("DELETE", "/v3/projects/<own>/users/ID/roles/<reader>", "guest", none()),
        ("HEAD", "/v3/projects/<own>/users/ID/roles/<reader>", "guest", none()),
        ("GET", "/v3/projects/<own>/users/ID/roles", "guest", none()),
        ("PUT", "/v3/projects/<own>/groups/ID/roles/<reader>", "strangers", none()),
        ("PUT", "/v3/projects/ID/users/<ann>/roles/<reader>", "foreign", none()),
        ("PUT", "/v3/domains/ID/users/<ann>/roles/<reader>", "elsewhere", none()),
        ("PUT", "/v3/domains/<tenant>/users/ID/roles/<reader>", "guest", none()),
        ("PUT", "/v3/projects/<own>/users/<ann>/roles/ID", "operator", none()),
        ("POST", "/v3/users", "elsewhere", json!({ "user": { "name": "new", "domain_id": "ID" } })),
        ("POST", "/v3/groups", "elsewhere", json!({ "group": { "name": "new", "domain_id": "ID" } })),
        ("POST", "/v3/projects", "elsewhere", json!({ "project": { "name": "new", "domain_id": "ID" } })),
        ("POST", "/v3/projects", "foreign", json!({ "project": { "name": "new", "parent_id": "ID" } })),
        (
            "POST",
            "/v3/projects",
            "foreign",
            json!({ "project": { "name": "new", "domain_id": "<tenant>", "parent_id": "ID" } }),
        ),
        (
            "PUT",
            "/v3/OS-INHERIT/domains/<tenant>/users/ID/roles/<reader>/inherited_to_projects",
            "guest",
            none(),
        ),
    ];
    let reader: Vec<Row> = vec![
        ("GET", "/v3/users/ID", "guest", none()),
        ("GET", "/v3/users/ID/projects", "guest", none()),
        ("GET", "/v3/groups/ID/users", "strangers", none()),
        ("HEAD", "/v3/groups/<crew>/users/ID", "guest", none()),
        ("HEAD", "/v3/projects/<own>/users/ID/roles/<reader>", "guest", none()),
        ("HEAD", "/v3/projects/<own>/users/<ann>/roles/ID", "local role", none()),
        ("HEAD", "/v3/domains/<tenant>/groups/<crew>/roles/ID", "local role", none()),
        ("DELETE", "/v3/groups/ID", "strangers", none()),
        ("GET", "/v3/projects/<own>/groups/ID/roles", "strangers", none()),
        ("GET", "/v3/users?marker=ID", "guest", none()),
    ];
    let admins = world.cloud.change("GET", "/v3/projects?name=admin", &Value::Null);
    let admins = admins["projects"][0]["id"].as_str().unwrap();
    let mut wrong = Vec::new();
    for (who, token, rows) in [
        ("ann", world.token("ann", "tenant", on("own")), ann),
        ("the manager", world.token("boss", "tenant", on_domain.clone()), manager),
        ("the reader", world.token("clerk", "tenant", on_domain.clone()), reader),
        ("the administrator of the domain", world.token("chief", "tenant", on_domain), Vec::new()),
    ] {
        for row in everybody.iter().chain(&rows) {
            let (hidden, absent) = match row.2 {
                "=operator" => ("operator", "operatoz".to_owned()),
                "admin's" => (admins, "0123456789abcdef".repeat(2)),
                "blob" => (world.id("blob"), "0123456789abcdef".repeat(4)),
                name => (world.id(name), "0123456789abcdef".repeat(2)),
            };
            let [hidden, absent] = [hidden, &absent].map(|id| answer(&world, &token, row, id));
            if hidden != absent || !(400..500).contains(&hidden.0) {
                wrong.push(format!("{who}: {} {}\n  hidden {hidden:?}\n  absent {absent:?}", row.0, row.1));
            }
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// A refused caller learns that a record is absent only in two cases: the caller may see all records of the kind, or the record is a role or a
/// domain, as in Keystone.
#[test]
fn a_refused_caller_is_told_what_it_could_read() {
    let world = world();
    let on_domain = || json!({ "domain": { "id": world.id("tenant") } });
    let own = json!({ "project": { "id": world.id("own") } });
    let tokens: BTreeMap<&str, String> = [
        ("auditor", json!({ "system": { "all": true } })),
        ("chief", on_domain()),
        ("boss", on_domain()),
        ("clerk", on_domain()),
        ("ann", own),
    ]
    .map(|(who, scope)| (who, world.token(who, "tenant", scope)))
    .into();
    let none = || Value::Null;
    let role = || json!({ "role": { "description": "new" } });
    let user = |domain: Value| json!({ "user": { "name": "new", "domain_id": domain } });
    let absent = "0123456789abcdef".repeat(2);
    let mut wrong = Vec::new();
    // The last two columns are the statuses for the record and for an absent record.
    for (who, method, path, name, body, expected) in [
        ("auditor", "PATCH", "/v3/domains/ID", "elsewhere", json!({ "domain": {} }), [403, 404]),
        ("auditor", "DELETE", "/v3/domains/ID", "elsewhere", none(), [403, 404]),
        ("auditor", "DELETE", "/v3/groups/ID", "strangers", none(), [403, 404]),
        ("auditor", "PATCH", "/v3/roles/ID", "operator", role(), [403, 404]),
        ("auditor", "DELETE", "/v3/roles/ID", "local role", none(), [403, 404]),
        ("auditor", "DELETE", "/v3/OS-TRUST/trusts/ID", "trust", none(), [403, 404]),
        ("auditor", "DELETE", "/v3/users/<guest>/credentials/OS-EC2/ID", "key", none(), [403, 404]),
        // In Keystone, these calls refuse the caller before they look for the record.
        ("auditor", "PATCH", "/v3/groups/ID", "strangers", json!({ "group": {} }), [403, 403]),
        ("auditor", "DELETE", "/v3/users/ID", "guest", none(), [403, 403]),
        ("chief", "PATCH", "/v3/domains/ID", "elsewhere", json!({ "domain": {} }), [403, 404]),
        ("chief", "PATCH", "/v3/roles/ID", "operator", role(), [403, 404]),
        ("chief", "DELETE", "/v3/roles/ID", "local role", none(), [403, 404]),
        ("chief", "GET", "/v3/OS-TRUST/trusts/ID", "trust", none(), [403, 403]),
        ("boss", "DELETE", "/v3/OS-TRUST/trusts/ID", "trust", none(), [403, 403]),
        ("ann", "GET", "/v3/OS-TRUST/trusts/ID", "trust", none(), [404, 404]),
        ("ann", "DELETE", "/v3/OS-TRUST/trusts/ID", "trust", none(), [404, 404]),
        // A manager can show only the roles that a manager may assign. For another role the status is 403 and not 404: the list of roles, which the
        // manager can read, contains this role anyway.
        ("boss", "GET", "/v3/roles/ID", "member", none(), [200, 404]),
        ("boss", "GET", "/v3/roles/ID", "operator", none(), [403, 404]),
        ("boss", "PATCH", "/v3/roles/ID", "operator", role(), [403, 404]),
        // The ids of roles and domains are no secret.
        ("boss", "GET", "/v3/roles/ID", "local role", none(), [403, 404]),
        ("clerk", "DELETE", "/v3/roles/ID", "operator", none(), [403, 404]),
        ("ann", "GET", "/v3/roles/ID", "operator", none(), [403, 404]),
        ("ann", "PATCH", "/v3/domains/ID", "elsewhere", json!({ "domain": {} }), [403, 404]),
        ("clerk", "DELETE", "/v3/domains/ID", "elsewhere", none(), [403, 404]),
        ("clerk", "HEAD", "/v3/projects/<own>/users/<ann>/roles/ID", "local role", none(), [403, 403]),
        ("clerk", "HEAD", "/v3/projects/<own>/users/<ann>/roles/ID", "operator", none(), [404, 403]),
        ("boss", "DELETE", "/v3/groups/ID", "strangers", none(), [403, 403]),
        ("boss", "POST", "/v3/users", "guest", user(none()), [403, 403]),
        (
            "ann",
            "POST",
            "/v3/users/<ann>/credentials/OS-EC2",
            "tenant",
            json!({ "tenant_id": "ID" }),
            [403, 403],
        ),
    ] {
        let answers = [world.id(name), absent.as_str()]
            .map(|id| answer(&world, &tokens[who], &(method, path, name, body.clone()), id).0);
        if answers != expected {
            wrong.push(format!("{who}: {method} {path} {name}: {answers:?}, expected {expected:?}"));
        }
    }
    // No record can have the id `no-group`, so the answer reveals nothing.
    for (method, expected) in [("DELETE", 404), ("GET", 403)] {
        assert_eq!(world.cloud.call(&tokens["clerk"], method, "/v3/groups/no-group", &none()).0, expected);
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// As in Keystone, a session for the system creates no trusts and no application credentials. An administrator finds an EC2 key also by the path of
/// another user.
#[test]
fn delegation_is_for_projects_and_administrators_find_every_key() {
    let world = world();
    let auditor = world.token("auditor", "tenant", json!({ "system": { "all": true } }));
    let (trusts, credentials) = ("/v3/OS-TRUST/trusts", "/v3/users/<auditor>/application_credentials");
    let trust = json!({ "trust": {
        "trustor_user_id": world.id("auditor"), "trustee_user_id": world.id("guest"),
        "project_id": world.id("own"), "impersonation": false, "roles": [{ "name": "member" }],
    } });
    let credential = json!({ "application_credential": { "name": "new" } });
    assert_eq!(world.cloud.call(&auditor, "POST", trusts, &trust).0, 403);
    assert_eq!(world.cloud.call(&auditor, "POST", &world.filled(credentials), &credential).0, 403);
    let ann = world.token("ann", "tenant", json!({ "project": { "id": world.id("own") } }));
    let at_ann = world.filled("/v3/users/<ann>/credentials/OS-EC2/<key>");
    assert_eq!(world.cloud.call(&ann, "DELETE", &at_ann, &Value::Null).0, 404);
    world.cloud.change("DELETE", &at_ann, &Value::Null);
    let at_guest = world.filled("/v3/users/<guest>/credentials/OS-EC2");
    assert_eq!(world.cloud.change("GET", &at_guest, &Value::Null)["credentials"], json!([]));
}

/// A reader of one domain learns nothing about another domain from the memberships of users.
#[test]
fn a_reader_of_a_domain_is_told_of_this_domain() {
    let world = world();
    for path in [
        "/v3/groups/<crew>/users/<ann>",
        "/v3/groups/<strangers>/users/<ann>",
        "/v3/groups/<crew>/users/<guest>",
    ] {
        world.cloud.change("PUT", &world.filled(path), &Value::Null);
    }
    let clerk = world.token("clerk", "tenant", json!({ "domain": { "id": world.id("tenant") } }));
    let ann = world.token("ann", "tenant", json!({ "project": { "id": world.id("own") } }));
    for (token, path, what, expected) in [
        (&clerk, "/v3/users/<ann>/projects", "projects", vec!["own"]),
        (&clerk, "/v3/users/<ann>/groups", "groups", vec!["crew"]),
        (&clerk, "/v3/groups/<crew>/users", "users", vec!["ann"]),
        (&ann, "/v3/users/<ann>/projects", "projects", vec!["foreign", "own"]),
        (&ann, "/v3/users/<ann>/groups", "groups", vec!["crew", "strangers"]),
    ] {
        let (status, said) = world.cloud.call(token, "GET", &world.filled(path), &Value::Null);
        let mut names: Vec<&str> =
            said[what].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
        names.sort_unstable();
        assert_eq!((status, names), (200, expected), "{path}");
    }
}
