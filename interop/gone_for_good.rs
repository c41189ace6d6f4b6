//! A session that lost a right does not get it back when the right is granted again in any way. A trust that was delegated further ends if any user
//! or any trust of its chain is disabled or deleted.

use crate::gone::{Cloud, enabled, project};
use serde_json::{Value, json};

const NOTHING: Value = Value::Null;

/// A user, a project, and the groups and roles by which the user can have a role on the project.
struct Ways<'a> {
    cloud: &'a Cloud,
    name: String,
    user: String,
    project: String,
    /// Three groups: the user is in the first two; the first group is in the third.
    groups: [String; 3],
    crew: String,
    roles: [String; 2],
}

/// Two domains.
struct Tenant {
    /// The domain of the project and of all groups except one.
    domain: String,
    /// The domain of the remaining group.
    crews: String,
    reader: String,
}

impl Tenant {
    fn new(cloud: &Cloud) -> Self {
        Tenant {
            domain: cloud.make("domain", json!({ "name": "tenant" })),
            crews: cloud.make("domain", json!({ "name": "crews" })),
            reader: cloud.role("reader"),
        }
    }

    /// Creates the records for one case. The user also has the role `reader`. Therefore only the loss of the tested role can end a session.
    fn ways<'a>(&self, cloud: &'a Cloud, case: usize) -> Ways<'a> {
        let domain = &self.domain;
        let name = |what: &str| format!("{what}{case}");
        let user = cloud.make("user", json!({ "name": name("u"), "password": "pw", "domain_id": domain }));
        let project = cloud.make("project", json!({ "name": name("p"), "domain_id": domain }));
        let group = |what: &str, domain: &str| {
            cloud.make("group", json!({ "name": name(what), "domain_id": domain }))
        };
        let groups = ["inner", "other", "outer"].map(|what| group(what, domain));
        let crew = group("crew", &self.crews);
        for group in [&groups[0], &groups[1], &crew] {
            cloud.change("PUT", &format!("/v3/groups/{group}/users/{user}"), &NOTHING);
        }
        let (inner, outer) = (format!("@{}@tenant", name("inner")), format!("{}@tenant", name("outer")));
        cloud.server.cli(&["group", "member", "add", &outer, &inner]);
        let role = cloud.make("role", json!({ "name": name("role") }));
        let lead = cloud.make("role", json!({ "name": name("lead") }));
        cloud.change("PUT", &format!("/v3/projects/{project}/users/{user}/roles/{}", self.reader), &NOTHING);
        Ways { cloud, name: name("u"), user, project, groups, crew, roles: [role, lead] }
    }
}

impl Ways<'_> {
    fn on_project(&self, who: &str, id: &str, role: &str) -> String {
        format!("/v3/projects/{}/{who}/{id}/roles/{role}", self.project)
    }

    fn give(&self, way: &str, tenant: &Tenant) {
        let [role, lead] = &self.roles;
        let path = match way {
            "by a group" => self.on_project("groups", &self.groups[0], role),
            "by another group" => self.on_project("groups", &self.groups[1], role),
            "by a group in a group" => self.on_project("groups", &self.groups[2], role),
            "by a group of another domain" => self.on_project("groups", &self.crew, role),
            "from the domain" => {
                let domain = &tenant.domain;
                let user = &self.user;
                format!("/v3/OS-INHERIT/domains/{domain}/users/{user}/roles/{role}/inherited_to_projects")
            }
            "by a role that implies it" => {
                self.cloud.change("PUT", &format!("/v3/roles/{lead}/implies/{role}"), &NOTHING);
                self.on_project("users", &self.user, lead)
            }
            _ => self.on_project("users", &self.user, role),
        };
        self.cloud.change("PUT", &path, &NOTHING);
    }

    fn take(&self, what: &str, tenant: &Tenant) {
        let [role, lead] = &self.roles;
        let number = self.name.trim_start_matches('u');
        let path = match what {
            "the group's role" => self.on_project("groups", &self.groups[0], role),
            "the group" => format!("/v3/groups/{}", self.groups[0]),
            "the outer group" => format!("/v3/groups/{}", self.groups[2]),
            "the group out of the group" => {
                let (outer, inner) = (format!("outer{number}@tenant"), format!("@inner{number}@tenant"));
                self.cloud.server.cli(&["group", "member", "remove", &outer, &inner]);
                return;
            }
            "the group's domain" => {
                let path = format!("/v3/domains/{}", tenant.crews);
                self.cloud.change("PATCH", &path, &enabled("domain", false));
                return;
            }
            "the role on the domain" => {
                let (domain, user) = (&tenant.domain, &self.user);
                format!("/v3/OS-INHERIT/domains/{domain}/users/{user}/roles/{role}/inherited_to_projects")
            }
            "the implication" => format!("/v3/roles/{lead}/implies/{role}"),
            "the role that implies it" => self.on_project("users", &self.user, lead),
            "the implying role itself" => format!("/v3/roles/{lead}"),
            _ => self.on_project("users", &self.user, role),
        };
        self.cloud.change("DELETE", &path, &NOTHING);
    }

    fn login(&self, tenant: &Tenant) -> String {
        self.cloud
            .login(&self.name, &tenant.domain, "pw", project(&self.project_name(), &tenant.domain))
            .unwrap()
    }

    fn project_name(&self) -> String {
        self.name.replace('u', "p")
    }

    fn has(&self, token: &str) -> bool {
        let roles = self.cloud.stands(token).map(|token| token["roles"].clone());
        let has = |role: &Value| role["id"] == self.roles[0].as_str();
        roles.is_some_and(|roles| roles.as_array().unwrap().iter().any(has))
    }
}

#[test]
fn what_a_session_lost_does_not_come_back_another_way() {
    let cloud = Cloud::start();
    let tenant = Tenant::new(&cloud);
    let ways = ["directly", "by another group", "from the domain", "by a role that implies it"];
    let cases = [
        ("directly", "the role", "by another group"),
        ("directly", "the role", "from the domain"),
        ("directly", "the role", "by a role that implies it"),
        ("by a group", "the group's role", "directly"),
        ("by a group", "the group's role", "by another group"),
        ("by a group", "the group's role", "from the domain"),
        ("by a group", "the group's role", "by a role that implies it"),
        ("by a group", "the group", "directly"),
        ("by a group in a group", "the outer group", "directly"),
        ("by a group in a group", "the outer group", "by a role that implies it"),
        ("by a group in a group", "the group out of the group", "directly"),
        ("by a group in a group", "the group out of the group", "by another group"),
        ("by a group in a group", "the group", "directly"),
        ("from the domain", "the role on the domain", "directly"),
        ("from the domain", "the role on the domain", "by another group"),
        ("by a role that implies it", "the implication", "directly"),
        ("by a role that implies it", "the implication", "by another group"),
        ("by a role that implies it", "the role that implies it", "directly"),
        ("by a role that implies it", "the implying role itself", "directly"),
        ("by a group of another domain", "the group's domain", "directly"),
    ];
    assert!(ways.iter().all(|way| cases.iter().any(|(_, _, again)| again == way)));
    let mut back = Vec::new();
    for (number, (way, what, again)) in cases.into_iter().enumerate() {
        let world = tenant.ways(&cloud, number);
        world.give(way, &tenant);
        let token = world.login(&tenant);
        assert!(world.has(&token), "{way}");
        world.take(what, &tenant);
        assert!(!world.has(&token), "{way}: {what} taken");
        world.give(again, &tenant);
        if world.has(&token) {
            back.push((way, what, again));
        }
        assert!(world.has(&world.login(&tenant)), "{way}, {what} taken, {again}: a new session");
    }
    assert!(back.is_empty(), "given, taken, given again: {back:#?}");
}

/// Ann lends a role to bea, and bea lends it to cyn. Cyn's session ends when one of the three users or one of the two trusts is disabled or deleted.
#[test]
fn a_trust_that_was_lent_on_ends_with_each_link() {
    let cloud = Cloud::start();
    let work = cloud.make("project", json!({ "name": "work", "domain_id": "default" }));
    let other = cloud.make("domain", json!({ "name": "other" }));
    let member = cloud.role("member");
    let user = |name: String, domain: &str| {
        let id = cloud.make("user", json!({ "name": name, "password": "pw", "domain_id": domain }));
        (name, domain.to_owned(), id)
    };
    let lend = |by: &str, from: &str, to: &str, count: u8| {
        let trust = json!({
            "trustor_user_id": from, "trustee_user_id": to, "project_id": work, "impersonation": true,
            "roles": [{ "name": "member" }], "allow_redelegation": count > 0, "redelegation_count": count,
        });
        let (status, made) = cloud.call(by, "POST", "/v3/OS-TRUST/trusts", &json!({ "trust": trust }));
        assert_eq!(status, 201, "{made}");
        made["trust"]["id"].as_str().unwrap().to_owned()
    };
    let by = |who: &(String, String, String), trust: &str| {
        cloud.login(&who.0, &who.1, "pw", json!({ "OS-TRUST:trust": { "id": trust } }))
    };
    for (case, what) in ["disabled", "another password", "deleted", "out of a group", "domain disabled"]
        .into_iter()
        .enumerate()
    {
        let ann = user(format!("ann{case}"), "default");
        let bea = user(format!("bea{case}"), &other);
        let cyn = user(format!("cyn{case}"), "default");
        let group = cloud.make("group", json!({ "name": format!("g{case}"), "domain_id": "default" }));
        let in_group = format!("/v3/groups/{group}/users/{}", bea.2);
        cloud.change("PUT", &in_group, &NOTHING);
        cloud.change("PUT", &format!("/v3/projects/{work}/users/{}/roles/{member}", ann.2), &NOTHING);
        let own = cloud.login(&ann.0, "default", "pw", project("work", "default")).unwrap();
        let first = lend(&own, &ann.2, &bea.2, 1);
        let second = lend(&by(&bea, &first).unwrap(), &ann.2, &cyn.2, 0);
        let token = by(&cyn, &second).unwrap();
        assert!(cloud.stands(&token).is_some());
        let path = format!("/v3/users/{}", bea.2);
        // The first value says whether the trust permits a new session after the change. The second value says whether it does so after the user or
        // the domain is enabled again.
        let (meanwhile, later) = match what {
            "disabled" => {
                cloud.change("PATCH", &path, &enabled("user", false));
                (false, true)
            }
            "another password" => {
                cloud.change("PATCH", &path, &json!({ "user": { "password": "next" } }));
                (true, true)
            }
            "deleted" => {
                cloud.change("DELETE", &path, &NOTHING);
                (false, false)
            }
            "out of a group" => {
                cloud.change("DELETE", &in_group, &NOTHING);
                (true, true)
            }
            _ => {
                cloud.change("PATCH", &format!("/v3/domains/{other}"), &enabled("domain", false));
                (false, true)
            }
        };
        assert!(cloud.stands(&token).is_none(), "{what}");
        assert_eq!(by(&cyn, &second).is_some(), meanwhile, "{what}: a new session");
        match what {
            "disabled" => drop(cloud.change("PATCH", &path, &enabled("user", true))),
            "domain disabled" => {
                cloud.change("PATCH", &format!("/v3/domains/{other}"), &enabled("domain", true));
            }
            "deleted" => {
                // No trust names the deleted trust any more.
                let trusts = cloud.change("GET", "/v3/OS-TRUST/trusts", &NOTHING);
                assert!(!trusts.to_string().contains(&second), "{trusts}");
            }
            _ => {}
        }
        assert!(cloud.stands(&token).is_none(), "{what}, undone");
        assert_eq!(by(&cyn, &second).is_some(), later, "{what}, undone: a new session");
    }
}

/// Keys, credentials and trusts that were created with an old secret end when the secret is replaced.
#[test]
fn what_was_made_with_an_old_secret_ends_with_it() {
    let cloud = Cloud::start();
    let work = cloud.make("project", json!({ "name": "work", "domain_id": "default" }));
    let ann = cloud.make("user", json!({ "name": "ann", "password": "pw", "domain_id": "default" }));
    let bea = cloud.make("user", json!({ "name": "bea", "password": "pw", "domain_id": "default" }));
    let member = cloud.role("member");
    cloud.change("PUT", &format!("/v3/projects/{work}/users/{ann}/roles/{member}"), &NOTHING);
    let own = cloud.login("ann", "default", "pw", project("work", "default")).unwrap();
    let credentials = format!("/v3/users/{ann}/application_credentials");
    let create = |by: &str, name: &str| {
        let body = json!({ "application_credential": { "name": name, "unrestricted": true } });
        let (status, made) = cloud.call(by, "POST", &credentials, &body);
        (status, made["application_credential"].clone())
    };
    let by = |id: &Value, secret: &Value| {
        let credential = json!({ "id": id, "secret": secret });
        let identity = json!({ "methods": ["application_credential"], "application_credential": credential });
        cloud.issue(identity, NOTHING)
    };
    let lend = |token: &str| {
        let trust = json!({
            "trustor_user_id": ann, "trustee_user_id": bea, "project_id": work, "impersonation": true,
            "roles": [{ "name": "member" }],
        });
        cloud.call(token, "POST", "/v3/OS-TRUST/trusts", &json!({ "trust": trust }))
    };
    let keys = format!("/v3/users/{ann}/credentials/OS-EC2");
    let key = |token: &str| cloud.call(token, "POST", &keys, &json!({ "tenant_id": work })).0;
    let made = |names: [&str; 3]| {
        let own = cloud.login("ann", "default", "pw", project("work", "default")).unwrap();
        let trusts = format!("/v3/OS-TRUST/trusts?trustor_user_id={ann}");
        let places = [(credentials.as_str(), names[0]), (&keys, names[1]), (&trusts, names[2])];
        places.map(|(path, name)| cloud.call(&own, "GET", path, &NOTHING).1[name].as_array().unwrap().len())
    };
    let names = ["application_credentials", "credentials", "trusts"];
    let (status, first) = create(&own, "ci");
    assert_eq!(status, 201);
    let (id, mut secret) = (first["id"].clone(), first["secret"].clone());
    for grace in ["0s", "600s"] {
        let token = by(&id, &secret).unwrap();
        let (status, child) = create(&token, "child");
        assert_eq!(status, 201);
        assert_eq!(key(&token), 201);
        let (status, trust) = lend(&token);
        assert_eq!(status, 201, "{trust}");
        let scope = json!({ "OS-TRUST:trust": { "id": trust["trust"]["id"] } });
        let tokens = [
            by(&child["id"], &child["secret"]).unwrap(),
            cloud.login("bea", "default", "pw", scope.clone()).unwrap(),
        ];
        assert!(tokens.iter().all(|token| cloud.stands(token).is_some()));
        assert_eq!(made(names), [2, 1, 1]);
        let next = cloud.server.cli(&["token", "regenerate", "ann@Default!ci", "--grace", grace])[0].clone();
        // The command names the credential, the key and the trust that it deleted.
        let deleted = next["also_deleted"].as_array().unwrap();
        let child_deleted = json!("application credential ann@Default!child");
        assert!(deleted.len() == 3 && deleted.contains(&child_deleted), "{next}");
        assert!(tokens.iter().all(|token| cloud.stands(token).is_none()), "grace {grace}");
        assert!(by(&child["id"], &child["secret"]).is_none(), "grace {grace}");
        assert!(cloud.login("bea", "default", "pw", scope).is_none(), "grace {grace}");
        assert_eq!(made(names), [1, 0, 0], "grace {grace}");
        // During the grace period, sessions of the old and of the new secret cannot create credentials, keys or trusts. All these sessions end with
        // the grace period.
        let sessions = [by(&id, &secret), by(&id, &next["value"])];
        assert_eq!(sessions[0].is_some(), grace != "0s");
        if grace != "0s" {
            for token in sessions.iter().flatten() {
                let statuses = [create(token, "more").0, key(token), lend(token).0];
                assert_eq!(statuses, [403; 3], "grace {grace}");
            }
            cloud.server.cli(&["token", "set", "ann@Default!ci", "--end-grace"]);
            assert!(sessions.iter().flatten().all(|token| cloud.stands(token).is_none()));
            assert_eq!(key(&by(&id, &next["value"]).unwrap()), 201);
        }
        secret = next["value"].clone();
    }
}
