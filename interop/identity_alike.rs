//! For records that the caller may not see, Identity v3 gives the same answer as for absent ones.

use crate::curl::{Answer, curl};
use crate::gone::Cloud;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A call; `ID` is replaced by the id of the record.
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

/// `ann` has a role on a project of the domain `tenant`, `guest` has one on a project of the domain `elsewhere`. None of them has a right in the
/// other domain.
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
    let operator = world.cloud.make("role", json!({ "name": "operator" }));
    world.ids.insert("operator", operator);
    let reader = world.cloud.role("reader");
    world.ids.insert("reader", reader);
    for (path, role) in [
        ("projects/<own>/users/<ann>", "member"),
        ("projects/<foreign>/users/<ann>", "reader"),
        ("projects/<foreign>/users/<guest>", "member"),
        ("domains/<tenant>/users/<boss>", "manager"),
        ("domains/<tenant>/users/<clerk>", "reader"),
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
    // The requests of ann; the third column names the hidden record.
    let ann: Vec<Row> = vec![
        ("GET", "/v3/OS-TRUST/trusts/ID", "trust", none()),
        ("DELETE", "/v3/OS-TRUST/trusts/ID", "trust", none()),
        ("GET", "/v3/OS-TRUST/trusts/ID/roles", "trust", none()),
        ("GET", "/v3/OS-TRUST/trusts/ID/roles/<reader>", "trust", none()),
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
        ("GET", "/v3/roles/ID", "operator", none()),
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
        ("GET", "/v3/projects/<own>/groups/ID/roles", "strangers", none()),
        ("GET", "/v3/users?marker=ID", "guest", none()),
    ];
    let admins = world.cloud.change("GET", "/v3/projects?name=admin", &Value::Null);
    let admins = admins["projects"][0]["id"].as_str().unwrap();
    let mut wrong = Vec::new();
    for (who, token, rows) in [
        ("ann", world.token("ann", "tenant", on("own")), ann),
        ("the manager", world.token("boss", "tenant", on_domain.clone()), manager),
        ("the reader", world.token("clerk", "tenant", on_domain), reader),
    ] {
        for row in &rows {
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

/// A reader of one domain learns nothing about another domain through memberships of users.
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
