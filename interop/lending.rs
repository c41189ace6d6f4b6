//! A lent session never has more rights than the lender gave. After the lender has ended the lent credential, nothing that was created with it works.

use crate::curl::curl;
use crate::matrix::{Client, password};
use crate::server::{Server, WITHOUT_PENALTIES};
use serde_json::{Value, json};

/// A cloud with `alice`, who is a reader of the project `a` and an administrator of the project `b`, and `mallory`, who has no role.
struct Cloud {
    server: Server,
    client: Client,
    admin: String,
    alice: String,
    mallory: String,
    a: String,
    b: String,
}

/// The body of a login of the administrator by password, for this scope.
fn administrator(scope: Value) -> Value {
    let user = json!({ "name": "admin", "domain": { "id": "default" }, "password": "pw" });
    json!({ "auth": { "identity": { "methods": ["password"], "password": { "user": user } }, "scope": scope } })
}

fn cloud() -> Cloud {
    let server = Server::start_with(&[WITHOUT_PENALTIES]);
    let output = server.cli_output(&["bootstrap", "--password-stdin", "--public-url", &server.url("")], "pw");
    assert!(output.status.success());
    let mut client = Client::new(&server);
    let scope = json!({ "project": { "name": "admin", "domain": { "id": "default" } } });
    let admin = client.call("", "POST", "/v3/auth/tokens", &administrator(scope)).1.unwrap();
    let mut user = |name: &str| {
        let body = json!({ "name": name, "domain_id": "default", "password": "pw" });
        client.made(&admin, "/v3/users", "user", body)
    };
    let (alice, mallory) = (user("alice"), user("mallory"));
    let mut project = |name: &str| {
        let body = json!({ "name": name, "domain_id": "default" });
        client.made(&admin, "/v3/projects", "project", body)
    };
    let (a, b) = (project("a"), project("b"));
    let mut cloud = Cloud { server, client, admin, alice, mallory, a, b };
    let (a, b, alice) = (cloud.a.clone(), cloud.b.clone(), cloud.alice.clone());
    cloud.grant(&a, &alice, "reader");
    cloud.grant(&b, &alice, "admin");
    cloud
}

fn on(project: &str) -> Value {
    json!({ "project": { "id": project } })
}

impl Cloud {
    fn role(&mut self, name: &str) -> String {
        let found = self.client.call(&self.admin, "GET", &format!("/v3/roles?name={name}"), &Value::Null).2;
        found["roles"][0]["id"].as_str().unwrap().to_owned()
    }

    fn grant(&mut self, project: &str, user: &str, role: &str) {
        let path = format!("/v3/projects/{project}/users/{user}/roles/{}", self.role(role));
        assert_eq!(self.client.call(&self.admin, "PUT", &path, &Value::Null).0, 204);
    }

    /// A session of a user by password.
    fn session(&mut self, user: &str, scope: Value) -> String {
        self.client.login(&password(user, "pw"), scope).unwrap()
    }

    /// Creates an application credential in a session. Returns its id, and the body of its login.
    fn credential(&mut self, by: &str, given: Value) -> (String, Value) {
        let path = format!("/v3/users/{}/application_credentials", self.alice);
        let body = json!({ "application_credential": given });
        let (status, _, made) = self.client.call(by, "POST", &path, &body);
        assert_eq!(status, 201, "{made}");
        let made = &made["application_credential"];
        let lent = json!({ "id": made["id"], "secret": made["secret"] });
        let identity = json!({ "methods": ["application_credential"], "application_credential": lent });
        (made["id"].as_str().unwrap().to_owned(), identity)
    }

    /// Creates alice's unrestricted application credential for project `a`. Returns its id, the body of its login, and a session.
    fn unrestricted(&mut self) -> (String, Value, String) {
        let alice = self.alice.clone();
        let scope = on(&self.a);
        let own = self.session(&alice, scope);
        let (id, identity) = self.credential(&own, json!({ "name": "free", "unrestricted": true }));
        let lent = self.client.login(&identity, Value::Null).unwrap();
        (id, identity, lent)
    }

    fn trust(&mut self, by: &str, project: &str, role: &str, more: &Value) -> (u16, Value) {
        let mut trust = json!({
            "trustor_user_id": self.alice, "trustee_user_id": self.mallory, "project_id": project,
            "impersonation": true, "roles": [{ "name": role }],
        });
        for (name, value) in more.as_object().into_iter().flatten() {
            trust[name] = value.clone();
        }
        let (status, _, made) =
            self.client.call(by, "POST", "/v3/OS-TRUST/trusts", &json!({ "trust": trust }));
        (status, made["trust"].clone())
    }

    fn status(&mut self, token: &str, method: &str, path: &str, body: &Value) -> u16 {
        self.client.call(token, method, path, body).0
    }

    /// Logs in as mallory with a trust. Returns the token of the session, if the server issues one.
    fn comes_in_by(&mut self, trust: &Value) -> Option<String> {
        let mallory = self.mallory.clone();
        self.client.login(&password(&mallory, "pw"), json!({ "OS-TRUST:trust": { "id": trust["id"] } }))
    }
}

#[test]
fn an_unrestricted_credential_lends_on_what_it_has_and_no_more() {
    let mut cloud = cloud();
    let (_, _, lent) = cloud.unrestricted();
    let (a, b) = (cloud.a.clone(), cloud.b.clone());
    assert_eq!(cloud.trust(&lent, &b, "admin", &Value::Null).0, 403, "another project");
    assert_eq!(cloud.trust(&lent, &b, "reader", &Value::Null).0, 403, "another project");
    assert_eq!(cloud.trust(&lent, &a, "admin", &Value::Null).0, 403, "another role");
    let (status, trust) = cloud.trust(&lent, &a, "reader", &Value::Null);
    assert_eq!(status, 201);
    assert!(cloud.comes_in_by(&trust).is_some());
}

#[test]
fn what_a_credential_made_ends_with_it() {
    let mut cloud = cloud();
    let (id, _, lent) = cloud.unrestricted();
    let a = cloud.a.clone();
    let more = json!({ "allow_redelegation": true, "redelegation_count": 2 });
    let (_, trust) = cloud.trust(&lent, &a, "reader", &more);
    let by_trust = cloud.comes_in_by(&trust).unwrap();
    let (_, on) = cloud.trust(&by_trust, &a, "reader", &Value::Null);
    let by_on = cloud.comes_in_by(&on).unwrap();
    let keys = format!("/v3/users/{}/credentials/OS-EC2", cloud.alice);
    assert_eq!(cloud.status(&lent, "POST", &keys, &json!({ "tenant_id": a })), 201);
    let (_, child) = cloud.credential(&lent, json!({ "name": "child", "unrestricted": true }));
    let by_child = cloud.client.login(&child, Value::Null).unwrap();
    let (_, grandchild) = cloud.credential(&by_child, json!({ "name": "grandchild" }));
    // The lists show which credentials may create credentials, and which credential created which.
    let access = cloud.server.cli(&["user", "access", "alice@Default"])[0].clone();
    let gives = |name: &str, kind: &str| {
        let mut ways = access["ways"].as_array().unwrap().iter();
        let is_it = |way: &&Value| way["way"] == kind && (name.is_empty() || way["name"] == name);
        ways.find(is_it).unwrap()["gives"].as_str().unwrap().to_owned()
    };
    let credential = "application credential";
    assert!(
        gives("alice@Default!free", credential)
            .ends_with("; unrestricted: it can create credentials and trusts")
    );
    assert!(gives("alice@Default!child", credential).ends_with("; created with alice@Default!free"));
    let narrow = gives("alice@Default!grandchild", credential);
    assert!(narrow.ends_with("; created with alice@Default!child") && !narrow.contains("unrestricted"));
    assert!(gives("", "EC2 key").ends_with("; created with alice@Default!free"));
    assert!(gives("", "trust to another user").ends_with("; created with alice@Default!free"));
    let listed = cloud.server.cli(&["token", "list", "alice@Default"]);
    let row = |name: &str| listed.iter().find(|row| row["tokenid"] == name).unwrap();
    assert_eq!(row("alice@Default!free")["unrestricted"], true);
    assert_eq!(row("alice@Default!child")["created_with"], "alice@Default!free");
    let by_grandchild = cloud.client.login(&grandchild, Value::Null).unwrap();
    let tokens = [&by_trust, &by_on, &by_child, &by_grandchild];
    for token in tokens {
        assert_eq!(cloud.status(token, "GET", "/v3/auth/catalog", &Value::Null), 200);
    }
    let alice = cloud.alice.clone();
    let own = cloud.session(&alice, json!({ "unscoped": {} }));
    let path = format!("/v3/users/{alice}/application_credentials/{id}");
    assert_eq!(cloud.status(&own, "DELETE", &path, &Value::Null), 204);
    for token in tokens {
        assert_eq!(cloud.status(token, "GET", "/v3/auth/catalog", &Value::Null), 401);
    }
    for identity in [&child, &grandchild] {
        assert_eq!(cloud.client.login(identity, Value::Null), None);
    }
    assert_eq!([&trust, &on].map(|trust| cloud.comes_in_by(trust)), [None, None]);
    // No list contains the deleted credentials, trusts and keys any more.
    let path = format!("/v3/users/{alice}/application_credentials");
    let rows = cloud.client.call(&own, "GET", &path, &Value::Null).2;
    assert_eq!(rows["application_credentials"], json!([]), "{rows}");
    for (path, what) in [
        (format!("/v3/OS-TRUST/trusts?trustor_user_id={alice}"), "trusts"),
        (format!("/v3/users/{alice}/credentials/OS-EC2"), "credentials"),
    ] {
        let rows = cloud.client.call(&own, "GET", &path, &Value::Null).2;
        assert_eq!(rows[what], json!([]), "{rows}");
    }
}

/// While a credential is disabled or expired, the credentials that it created are invalid, too.
#[test]
fn what_a_credential_made_is_good_while_that_is() {
    let mut cloud = cloud();
    let (_, _, lent) = cloud.unrestricted();
    let (_, child) = cloud.credential(&lent, json!({ "name": "child" }));
    let by_child = cloud.client.login(&child, Value::Null).unwrap();
    let asked = |cloud: &mut Cloud| cloud.status(&by_child, "GET", "/v3/auth/catalog", &Value::Null);
    assert_eq!(asked(&mut cloud), 200);
    cloud.server.cli(&["token", "set", "alice@Default!free", "--disable"]);
    assert_eq!(asked(&mut cloud), 401);
    assert_eq!(cloud.client.login(&child, Value::Null), None);
    cloud.server.cli(&["token", "set", "alice@Default!free", "--enable"]);
    assert!(cloud.client.login(&child, Value::Null).is_some());
    cloud.server.cli(&["token", "set", "alice@Default!free", "--expires", "2001-09-09"]);
    assert_eq!(cloud.client.login(&child, Value::Null), None);
}

#[test]
fn a_credential_sees_and_changes_the_keys_it_made_and_no_others() {
    let mut cloud = cloud();
    let (alice, a, b) = (cloud.alice.clone(), cloud.a.clone(), cloud.b.clone());
    let own = cloud.session(&alice, on(&b));
    let keys = format!("/v3/users/{alice}/credentials/OS-EC2");
    let key = cloud.client.call(&own, "POST", &keys, &json!({ "tenant_id": b })).2["credential"].clone();
    let (access, secret) = (key["access"].as_str().unwrap(), key["secret"].as_str().unwrap());
    let rows = cloud.client.call(&own, "GET", "/v3/credentials", &Value::Null).2;
    let id = rows["credentials"][0]["id"].as_str().unwrap().to_owned();
    let (_, _, lent) = cloud.unrestricted();
    let made = cloud.client.call(&lent, "POST", &keys, &json!({ "tenant_id": a })).2["credential"].clone();
    for path in [keys.clone(), "/v3/credentials".to_owned(), format!("/v3/credentials?user_id={alice}")] {
        let (status, _, seen) = cloud.client.call(&lent, "GET", &path, &Value::Null);
        assert_eq!((status, seen["credentials"].as_array().unwrap().len()), (200, 1), "{path}: {seen}");
        assert!(seen.to_string().contains(made["access"].as_str().unwrap()), "{path}: {seen}");
    }
    let blob = json!({ "access": access, "secret": "chosen" }).to_string();
    let ours = format!("{keys}/{access}");
    for (method, path, body) in [
        ("GET", format!("/v3/credentials/{id}"), Value::Null),
        ("PATCH", format!("/v3/credentials/{id}"), json!({ "credential": { "blob": blob } })),
        ("DELETE", format!("/v3/credentials/{id}"), Value::Null),
        ("GET", ours.clone(), Value::Null),
        ("DELETE", ours.clone(), Value::Null),
    ] {
        let (status, _, said) = cloud.client.call(&lent, method, &path, &body);
        assert!(status == 403 && !said.to_string().contains(secret), "{method} {path}: {status} {said}");
    }
    // A lent credential cannot create a second factor.
    let other = json!({ "credential": { "type": "totp", "blob": "x", "user_id": alice } });
    assert_eq!(cloud.status(&lent, "POST", "/v3/credentials", &other), 403);
    let theirs = format!("{keys}/{}", made["access"].as_str().unwrap());
    assert_eq!(cloud.status(&lent, "DELETE", &theirs, &Value::Null), 204);
    assert_eq!(cloud.status(&own, "GET", &ours, &Value::Null), 200);
}

#[test]
fn what_was_lent_changes_no_account_and_gives_nobody_a_role() {
    let mut cloud = cloud();
    let (alice, mallory, a, b) =
        (cloud.alice.clone(), cloud.mallory.clone(), cloud.a.clone(), cloud.b.clone());
    let own = cloud.session(&alice, on(&b));
    let mut lent = Vec::new();
    for (name, unrestricted) in [("narrow", false), ("free", true)] {
        let (_, identity) = cloud.credential(&own, json!({ "name": name, "unrestricted": unrestricted }));
        lent.push((name, cloud.client.login(&identity, Value::Null).unwrap()));
    }
    let (_, trust) = cloud.trust(&own, &b, "admin", &Value::Null);
    lent.push(("trust", cloud.comes_in_by(&trust).unwrap()));
    let role = cloud.role("admin");
    let group = cloud.client.made(
        &cloud.admin.clone(),
        "/v3/groups",
        "group",
        json!({ "name": "g", "domain_id": "default" }),
    );
    for (name, token) in &lent {
        // The lent session can make the calls that its roles permit.
        let body = json!({ "project": { "name": format!("by-{name}"), "domain_id": "default" } });
        assert_eq!(cloud.status(token, "POST", "/v3/projects", &body), 201, "{name}");
        assert_eq!(cloud.status(token, "GET", "/v3/users", &Value::Null), 200, "{name}");
        let user = |field: &str, value: Value| json!({ "user": { field: value } });
        for (method, path, body) in [
            ("PATCH", format!("/v3/users/{alice}"), user("password", json!("chosen"))),
            ("PATCH", format!("/v3/users/{mallory}"), user("password", json!("chosen"))),
            ("PATCH", format!("/v3/users/{alice}"), user("options", json!({ "lock_password": true }))),
            ("PATCH", format!("/v3/users/{alice}"), user("enabled", json!(false))),
            (
                "POST",
                "/v3/users".to_owned(),
                json!({ "user": { "name": "eve", "domain_id": "default", "password": "pw" } }),
            ),
            ("PUT", format!("/v3/projects/{b}/users/{mallory}/roles/{role}"), Value::Null),
            ("PUT", format!("/v3/projects/{a}/users/{mallory}/roles/{role}"), Value::Null),
            ("PUT", format!("/v3/system/users/{mallory}/roles/{role}"), Value::Null),
            ("PUT", format!("/v3/groups/{group}/users/{mallory}"), Value::Null),
        ] {
            assert_eq!(cloud.status(token, method, &path, &body), 403, "{method} {path} by {name}");
        }
    }
    // In a session by password, alice may make these calls.
    let path = format!("/v3/projects/{b}/users/{mallory}/roles/{role}");
    assert_eq!(cloud.status(&own, "PUT", &path, &Value::Null), 204);
    let body = json!({ "user": { "password": "chosen" } });
    assert_eq!(cloud.status(&own, "PATCH", &format!("/v3/users/{mallory}"), &body), 200);
}

#[test]
fn nobody_uses_up_a_trust_that_is_anothers() {
    let mut cloud = cloud();
    let (alice, a) = (cloud.alice.clone(), cloud.a.clone());
    let own = cloud.session(&alice, on(&a));
    let (status, _) = cloud.trust(&own, &a, "reader", &json!({ "trustee_user_id": "ab".repeat(16) }));
    assert_eq!(status, 404, "there is no such trustee");
    let (_, trust) = cloud.trust(&own, &a, "reader", &json!({ "remaining_uses": 1 }));
    // Alice is the trustor. Only the trustee can use the trust; even the administrator cannot use it.
    let scope = json!({ "OS-TRUST:trust": { "id": trust["id"] } });
    assert_eq!(cloud.client.login(&password(&alice, "pw"), scope.clone()), None);
    let (status, ..) = cloud.client.call("", "POST", "/v3/auth/tokens", &administrator(scope));
    assert!([401, 403].contains(&status), "{status}");
    assert!(cloud.comes_in_by(&trust).is_some(), "the refused logins must not use up the trust");
    assert!(cloud.comes_in_by(&trust).is_none(), "the trust could be used only once");
}

#[test]
fn a_member_of_a_project_is_told_of_what_is_beneath_where_they_have_a_role() {
    let mut cloud = cloud();
    let (alice, mallory, a) = (cloud.alice.clone(), cloud.mallory.clone(), cloud.a.clone());
    let admin = cloud.admin.clone();
    let mut beneath = |name: &str| {
        let body = json!({ "name": name, "domain_id": "default", "parent_id": a });
        cloud.client.made(&admin, "/v3/projects", "project", body)
    };
    let (open, secret) = (beneath("open"), beneath("secret-name"));
    cloud.grant(&open, &alice, "reader");
    cloud.grant(&secret, &mallory, "reader");
    let own = cloud.session(&alice, on(&a));
    for what in ["subtree_as_list", "subtree_as_ids"] {
        let path = format!("/v3/projects/{a}?{what}=1");
        let (status, _, seen) = cloud.client.call(&own, "GET", &path, &Value::Null);
        let seen = seen.to_string();
        assert!(status == 200 && seen.contains(&open), "{what}: {seen}");
        assert!(!seen.contains(&secret) && !seen.contains("secret-name"), "{what}: {seen}");
        let whole = cloud.client.call(&admin, "GET", &path, &Value::Null).2.to_string();
        assert!(whole.contains(&open) && whole.contains(&secret), "{what}: {whole}");
    }
    let path = format!("/v3/role_assignments?scope.project.id={a}&include_subtree=1&include_names=1");
    assert_eq!(cloud.status(&own, "GET", &path, &Value::Null), 403);
    let whole = cloud.client.call(&admin, "GET", &path, &Value::Null).2.to_string();
    assert!(whole.contains("secret-name"), "{whole}");
}

#[test]
fn a_session_for_the_system_leads_to_nothing_else() {
    let mut cloud = cloud();
    let body = administrator(json!({ "system": { "all": true } }));
    let system = cloud.client.call("", "POST", "/v3/auth/tokens", &body).1.unwrap();
    let again = json!({ "methods": ["token"], "token": { "id": system } });
    let a = cloud.a.clone();
    for scope in [on(&a), json!({ "domain": { "id": "default" } }), json!({ "unscoped": {} }), Value::Null] {
        assert_eq!(cloud.client.login(&again, scope.clone()), None, "{scope}");
    }
    assert!(cloud.client.login(&again, json!({ "system": { "all": true } })).is_some());
}

#[test]
fn a_credential_for_certain_requests_is_told_of_no_realm() {
    let mut cloud = cloud();
    let (alice, a) = (cloud.alice.clone(), cloud.a.clone());
    let own = cloud.session(&alice, on(&a));
    let rules = json!([{ "service": "object-store", "method": "GET", "path": "/x" }]);
    let (_, ruled) = cloud.credential(&own, json!({ "name": "ruled", "access_rules": rules }));
    let (_, plain) = cloud.credential(&own, json!({ "name": "plain" }));
    let api_token = cloud.server.add_token("alice@Default!api");
    for (identity, name) in [(&ruled, "ruled"), (&plain, "plain")] {
        let token = cloud.client.login(identity, Value::Null).unwrap();
        let header = format!("X-Auth-Token: {token}");
        let secret = identity["application_credential"]["secret"].as_str().unwrap();
        let login = format!("alice@Default!{name}:{secret}");
        for path in ["domains", "users", "acl"] {
            let path = format!("/api2/json/access/{path}");
            assert_eq!(curl(&cloud.server, "", &path, &["-H", &header]).status, 403, "{name} {path}");
            assert_eq!(curl(&cloud.server, &login, &path, &[]).status, 403, "{name} {path}");
        }
    }
    assert_eq!(curl(&cloud.server, &api_token, "/api2/json/access/domains", &[]).status, 200);
    // `user access` reports that a credential with access rules gives no access to files.
    let access = &cloud.server.cli(&["user", "access", "alice@Default"])[0];
    for (name, opens) in [("ruled", false), ("plain", true)] {
        let name = format!("alice@Default!{name}");
        let way = access["ways"].as_array().unwrap().iter().find(|way| way["name"] == name).unwrap();
        assert_eq!(!way["gives"].as_str().unwrap().contains("no access to files"), opens, "{way}");
    }
}

#[test]
fn an_api_token_with_roles_of_its_own_changes_nobodys_account_and_roles() {
    let server = Server::start_with(&[WITHOUT_PENALTIES]);
    let made = server.cli(&["token", "create", "admin@local!narrow", "--own-roles"]);
    server.cli(&["role", "assign", "--path", "/", "--auth-id", "admin@local!narrow", "Admin"]);
    let narrow = format!("admin@local!narrow:{}", made[0]["value"].as_str().unwrap());
    server.cli(&["user", "add", "bob@local"]);
    let call = |method: &str, path: &str, data: &str| {
        let path = format!("/api2/json/access/{path}");
        let data: &[&str] = if data.is_empty() { &[] } else { &["--data", data] };
        curl(&server, &narrow, &path, &[&["-X", method], data].concat()).status
    };
    assert_eq!(call("GET", "users", ""), 200);
    assert_eq!(call("GET", "acl", ""), 200);
    for (method, path, data) in [
        ("POST", "users", "userid=eve@local&password=a long password"),
        ("PUT", "users/admin@local", "password=a long password"),
        ("PUT", "users/bob@local", "enable=0"),
        ("POST", "users/admin@local/token/more", ""),
        ("PUT", "users/admin@local/token/narrow", "regenerate=1"),
        ("PUT", "acl", "path=/&role=Admin&auth-id=bob@local"),
        ("PUT", "acl", "path=/&role=Admin&auth-id=admin@local!narrow&delete=1"),
    ] {
        assert_eq!(call(method, path, data), 403, "{method} {path}");
    }
    // The token can use its other administrative rights.
    let store = server.data().join("datastores/made");
    let data = format!("name=made&path={}", store.display());
    let made = curl(&server, &narrow, "/api2/json/config/datastore", &["-X", "POST", "--data", &data]);
    assert_eq!(made.status, 200, "{}", made.text());
}

#[test]
fn the_roles_every_cloud_has_stay_what_they_are() {
    let mut cloud = cloud();
    let admin = cloud.admin.clone();
    for role in ["admin", "manager", "member", "reader", "service"] {
        let path = format!("/v3/roles/{}", cloud.role(role));
        let shown = cloud.client.call(&admin, "GET", &path, &Value::Null).2;
        assert_eq!(shown["role"]["options"]["immutable"], true, "{shown}");
        assert_eq!(cloud.status(&admin, "DELETE", &path, &Value::Null), 403, "{role}");
        let body = json!({ "role": { "name": "other" } });
        assert_eq!(cloud.status(&admin, "PATCH", &path, &body), 403, "{role}");
    }
}
