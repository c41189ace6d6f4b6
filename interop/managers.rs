//! A manager of a domain can change a user or a group only if a manager of this domain may give all rights of the user or group.

use crate::gone::Cloud;
use serde_json::{Value, json};

struct Tenant {
    cloud: Cloud,
    domain: String,
    other: String,
    /// The id of a project in the domain `tenant`.
    own: String,
    foreign: String,
    /// A user of another domain, who has a role on a project of this domain.
    guest: String,
}

/// Creates two domains with a project each, the manager `boss` of the first domain, and the guest.
fn tenant() -> Tenant {
    let cloud = Cloud::start();
    let domain = cloud.make("domain", json!({ "name": "tenant" }));
    let other = cloud.make("domain", json!({ "name": "elsewhere" }));
    let own = cloud.make("project", json!({ "name": "own", "domain_id": domain }));
    let foreign = cloud.make("project", json!({ "name": "foreign", "domain_id": other }));
    cloud.make("role", json!({ "name": "operator" }));
    let mut tenant = Tenant { cloud, domain, other, own, foreign, guest: String::new() };
    let boss = tenant.user("boss", &tenant.domain);
    tenant.give(&format!("domains/{}/users/{boss}/roles", tenant.domain), "manager");
    tenant.guest = tenant.user("guest", &tenant.other);
    tenant.give(&format!("projects/{}/users/{}/roles", tenant.own, tenant.guest), "member");
    tenant
}

/// A right of a user or group: a role that a call of the Identity API assigns, a role on a path, a membership in a group of the other domain, or a
/// trust.
#[derive(Clone, Copy, Debug)]
enum Holds {
    Grant(&'static str, &'static str),
    Path(&'static str),
    ForeignGroup,
    Trust,
}

/// Each right, and whether a manager of `tenant` may give it.
const HOLDS: [(Holds, bool); 14] = [
    (Holds::Grant("projects/OWN/WHO/roles/ROLE", "member"), true),
    (Holds::Grant("domains/DOMAIN/WHO/roles/ROLE", "manager"), true),
    (Holds::Grant("OS-INHERIT/domains/DOMAIN/WHO/roles/ROLE/inherited_to_projects", "reader"), true),
    (Holds::Grant("projects/OWN/WHO/roles/ROLE", "admin"), false),
    (Holds::Grant("projects/OWN/WHO/roles/ROLE", "operator"), false),
    (Holds::Grant("OS-INHERIT/projects/OWN/WHO/roles/ROLE/inherited_to_projects", "admin"), false),
    (Holds::Grant("projects/FOREIGN/WHO/roles/ROLE", "reader"), false),
    (Holds::Grant("OS-INHERIT/projects/FOREIGN/WHO/roles/ROLE/inherited_to_projects", "reader"), false),
    (Holds::Grant("domains/OTHER/WHO/roles/ROLE", "reader"), false),
    (Holds::Grant("OS-INHERIT/domains/OTHER/WHO/roles/ROLE/inherited_to_projects", "member"), false),
    (Holds::Grant("system/WHO/roles/ROLE", "reader"), false),
    (Holds::Path("/datastore/main"), false),
    (Holds::ForeignGroup, false),
    (Holds::Trust, false),
];

impl Tenant {
    fn user(&self, name: &str, domain: &str) -> String {
        self.cloud.make("user", json!({ "name": name, "domain_id": domain, "password": "pw" }))
    }

    fn group(&self, name: &str, domain: &str) -> String {
        self.cloud.make("group", json!({ "name": name, "domain_id": domain }))
    }

    fn put(&self, path: &str) {
        self.cloud.change("PUT", &format!("/v3/{path}"), &Value::Null);
    }

    fn give(&self, path: &str, role: &str) {
        self.put(&format!("{path}/{}", self.cloud.role(role)));
    }

    /// Gives the right to the user or group `who` (`users/ID`, `groups/ID`) with this name. Returns false if a group cannot have this right.
    fn hold(&self, holds: Holds, who: &str, name: &str) -> bool {
        let (kind, id) = who.split_once('/').unwrap();
        match holds {
            Holds::Grant(path, role) => {
                let role = self.cloud.role(role);
                let names = [
                    ("DOMAIN", &self.domain),
                    ("OTHER", &self.other),
                    ("OWN", &self.own),
                    ("FOREIGN", &self.foreign),
                    ("ROLE", &role),
                ];
                let path = path.replace("WHO", who);
                self.put(&names.iter().fold(path, |path, (name, value)| path.replace(name, value)));
            }
            Holds::Path(path) => {
                let ugid = format!("{}{name}@tenant", if kind == "groups" { "@" } else { "" });
                let server = &self.cloud.server;
                server.cli(&["role", "assign", "--path", path, "--auth-id", &ugid, "DatastoreReader"]);
            }
            Holds::ForeignGroup if kind == "users" => {
                let group = self.group(&format!("of-{name}"), &self.other);
                self.put(&format!("groups/{group}/users/{id}"));
            }
            Holds::Trust if kind == "users" => {
                let scope = json!({ "project": { "id": self.own } });
                let guest = self.cloud.login("guest", &self.other, "pw", scope).unwrap();
                let trust = json!({
                    "trustor_user_id": self.guest, "trustee_user_id": id, "project_id": self.own,
                    "impersonation": true, "roles": [{ "name": "member" }],
                });
                let (status, said) =
                    self.cloud.call(&guest, "POST", "/v3/OS-TRUST/trusts", &json!({ "trust": trust }));
                assert_eq!(status, 201, "{said}");
            }
            Holds::ForeignGroup | Holds::Trust => return false,
        }
        true
    }

    /// Calls as the manager, with a new login.
    fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, String) {
        let scope = json!({ "domain": { "id": self.domain } });
        let boss = self.cloud.login("boss", &self.domain, "pw", scope).unwrap();
        let (status, said) = self.cloud.call(&boss, method, &format!("/v3/{path}"), body);
        (status, said["error"]["message"].as_str().unwrap_or_default().to_owned())
    }

    /// Makes a call, and returns an error if the response is not as expected.
    fn wrong(&self, method: &str, path: &str, body: &Value, may: bool, about: &str) -> Option<String> {
        let (status, why) = self.ask(method, path, body);
        let is_right = match may {
            true => (200..300).contains(&status),
            false => status == 403 && why.contains("that a manager of its domain may not assign"),
        };
        (!is_right).then(|| format!("{about}: {method} {path} {body}: {status} {why}"))
    }
}

#[test]
fn a_manager_changes_nobody_who_holds_more_than_a_manager_may_give() {
    let tenant = tenant();
    let mut wrong = Vec::new();
    let leaver = tenant.user("leaver", &tenant.domain);
    for (n, (holds, may)) in HOLDS.into_iter().enumerate() {
        // For a user, the right belongs to the user, to a group of the user, or to a group that contains this group.
        for depth in 0..3 {
            let name = format!("u{n}-{depth}");
            let user = tenant.user(&name, &tenant.domain);
            let mut who = (format!("users/{user}"), name.clone());
            for level in 0..depth {
                let name = format!("g{n}-{depth}-{level}");
                let group = tenant.group(&name, &tenant.domain);
                match level {
                    0 => tenant.put(&format!("groups/{group}/users/{user}")),
                    _ => {
                        let (inner, outer) = (format!("@{}@tenant", who.1), format!("{name}@tenant"));
                        tenant.cloud.server.cli(&["group", "member", "add", &outer, &inner]);
                    }
                }
                who = (format!("groups/{group}"), name);
            }
            if !tenant.hold(holds, &who.0, &who.1) {
                continue;
            }
            let about = format!("{holds:?} at depth {depth}");
            let path = format!("users/{user}");
            for body in [
                json!({ "password": "taken" }),
                json!({ "enabled": false }),
                json!({ "name": format!("{name}x") }),
            ] {
                wrong.extend(tenant.wrong("PATCH", &path, &json!({ "user": body }), may, &about));
            }
            wrong.extend(tenant.wrong("DELETE", &path, &Value::Null, may, &about));
        }
        // For a group: the right belongs to the group, or to a group that contains it.
        for depth in 0..2 {
            let name = format!("h{n}-{depth}");
            let group = tenant.group(&name, &tenant.domain);
            let mut who = (format!("groups/{group}"), name.clone());
            if depth == 1 {
                let outer = tenant.group(&format!("{name}-outer"), &tenant.domain);
                let inner = format!("@{name}@tenant");
                tenant.cloud.server.cli(&["group", "member", "add", &format!("{name}-outer@tenant"), &inner]);
                who = (format!("groups/{outer}"), format!("{name}-outer"));
            }
            if !tenant.hold(holds, &who.0, &who.1) {
                continue;
            }
            let about = format!("{holds:?} of a group at depth {depth}");
            let member = format!("groups/{group}/users/{leaver}");
            wrong.extend(tenant.wrong("PUT", &member, &Value::Null, may, &about));
            wrong.extend(tenant.wrong("DELETE", &member, &Value::Null, may, &about));
            let named = json!({ "group": { "name": format!("{name}x") } });
            wrong.extend(tenant.wrong("PATCH", &format!("groups/{group}"), &named, may, &about));
            wrong.extend(tenant.wrong("DELETE", &format!("groups/{group}"), &Value::Null, may, &about));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// `acl.cfg` assigns roles to names, also to names that no user has yet.
#[test]
fn a_manager_takes_no_name_that_acl_cfg_gives_a_role_to() {
    let tenant = tenant();
    let acl = tenant.cloud.server.data().join("acl.cfg");
    std::fs::write(acl, "acl:1:/:ghost@tenant:Admin\nacl:1:/:known@tenant:Admin\n").unwrap();
    tenant.cloud.server.cli(&["user", "list"]);
    let plain = tenant.user("plain", &tenant.domain);
    let known = tenant.user("known", &tenant.domain);
    let user = |name: &str| json!({ "user": { "name": name, "domain_id": tenant.domain, "password": "pw" } });
    let named = |name: &str| json!({ "user": { "name": name } });
    let mut wrong = Vec::new();
    for (method, path, body, may) in [
        ("POST", "users".to_owned(), user("ghost"), false),
        ("POST", "users".to_owned(), user("nobody"), true),
        ("PATCH", format!("users/{plain}"), named("ghost"), false),
        ("PATCH", format!("users/{plain}"), named("plainer"), true),
        ("PATCH", format!("users/{known}"), json!({ "user": { "password": "taken" } }), false),
        ("PATCH", format!("users/{known}"), named("other"), false),
    ] {
        wrong.extend(tenant.wrong(method, &path, &body, may, "acl.cfg"));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
