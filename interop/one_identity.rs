//! A user who was created with OpenStack's client can use files. After the role was removed, the next request is refused.

use crate::curl::{PROPFIND_0, curl};
use crate::server::{Server, WITHOUT_PENALTIES};
use serde_json::{Value, json};

struct Api<'s> {
    server: &'s Server,
}

impl Api<'_> {
    /// A token for a project. Returns `None` if the login is refused.
    fn token(&self, user: &str, domain: &str, password: &str, project: &str) -> Option<String> {
        let user = json!({ "name": user, "domain": { "name": domain }, "password": password });
        let scope = json!({ "project": { "name": project, "domain": { "name": domain } } });
        let body = json!({ "auth": { "identity": { "methods": ["password"], "password": { "user": user } }, "scope": scope } });
        let answer = curl(self.server, "", "/v3/auth/tokens", &["-d", &body.to_string()]);
        answer
            .head
            .iter()
            .find_map(|line| line.strip_prefix("x-subject-token: ").map(|token| token.trim().to_owned()))
    }

    fn call(&self, token: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let header = format!("X-Auth-Token: {token}");
        let text = body.to_string();
        let mut arguments = vec!["--request", method, "--header", &header];
        if !body.is_null() {
            arguments.extend(["--header", "Content-Type: application/json", "--data", &text]);
        }
        let answer = curl(self.server, "", path, &arguments);
        (answer.status, serde_json::from_str(&answer.text()).unwrap_or_default())
    }
}

#[test]
fn who_is_made_by_one_door_is_known_at_all() {
    let server = Server::start_with(&[WITHOUT_PENALTIES]);
    let output = server.cli_output(&["bootstrap", "--password-stdin", "--public-url", &server.url("")], "pw");
    assert!(output.status.success());
    let api = Api { server: &server };
    let admin = api.token("admin", "Default", "pw", "admin").unwrap();
    let made = |path: &str, what: &str, body: Value| {
        let (status, answer) = api.call(&admin, "POST", path, &json!({ what: body }));
        assert_eq!(status, 201, "{path}: {answer}");
        answer[what]["id"].as_str().unwrap().to_owned()
    };
    let domain = made("/v3/domains", "domain", json!({ "name": "tenant" }));
    let project = made("/v3/projects", "project", json!({ "name": "backups", "domain_id": domain }));
    let user = made("/v3/users", "user", json!({ "name": "ann", "domain_id": domain, "password": "anns" }));
    let group = made("/v3/groups", "group", json!({ "name": "crew", "domain_id": domain }));
    let (_, roles) = api.call(&admin, "GET", "/v3/roles?name=member", &Value::Null);
    let member = roles["roles"][0]["id"].as_str().unwrap();
    server.cli(&["datastore", "set", "main", "--project", &project]);

    // The user gets a role by a group.
    assert!(api.token("ann", "tenant", "anns", "backups").is_none());
    let in_group = format!("/v3/groups/{group}/users/{user}");
    let role = format!("/v3/projects/{project}/groups/{group}/roles/{member}");
    assert_eq!(api.call(&admin, "PUT", &in_group, &Value::Null).0, 204);
    assert_eq!(api.call(&admin, "PUT", &role, &Value::Null).0, 204);
    let ann = api.token("ann", "tenant", "anns", "backups").unwrap();
    let header = std::cell::RefCell::new(format!("X-Auth-Token: {ann}"));
    let dav = |arguments: &[&str]| {
        let header = header.borrow();
        curl(&server, "", "/dav/main/file", &[&["--header", header.as_str()], arguments].concat()).status
    };
    assert_eq!(dav(&["--upload-file", "/etc/hostname"]), 201);
    assert_eq!(dav(&PROPFIND_0), 207);
    // The same user exists for the command line and for ACLs.
    let known = server.cli(&["user", "list"]);
    let known = known.iter().flat_map(|row| row.as_array().cloned().unwrap_or_else(|| vec![row.clone()]));
    assert!(known.clone().any(|row| row["user"] == "ann@tenant"), "{:?}", known.collect::<Vec<_>>());
    server.cli(&["acl", "set", "main", "/file", "allow ann@tenant read"]);
    assert_eq!(dav(&["--upload-file", "/etc/hostname"]), 403);
    assert_eq!(dav(&[]), 200);
    let token = server.add_token("ann@tenant!laptop");
    assert_eq!(curl(&server, &token, "/whoami", &[]).status, 200);

    // After a right is removed, the next request of the session is refused, and the session stays invalid when the right is given again.
    let refused = |what: &str| assert!([401, 403, 404].contains(&dav(&PROPFIND_0)), "{what}");
    let gives = |path: &str| assert_eq!(api.call(&admin, "PUT", path, &Value::Null).0, 204);
    for path in [&role, &in_group] {
        assert_eq!(api.call(&admin, "DELETE", path, &Value::Null).0, 204);
        refused(path);
        gives(path);
        refused("the session from before");
        let ann = api.token("ann", "tenant", "anns", "backups").unwrap();
        *header.borrow_mut() = format!("X-Auth-Token: {ann}");
        assert_eq!(dav(&PROPFIND_0), 207, "{path}");
    }
    let disable = |is_so: bool, path: &str, what: &str| {
        let body = json!({ what: { "enabled": !is_so } });
        assert_eq!(api.call(&admin, "PATCH", path, &body).0, 200);
    };
    disable(true, &format!("/v3/projects/{project}"), "project");
    refused("a disabled project");
    disable(false, &format!("/v3/projects/{project}"), "project");
    disable(true, &format!("/v3/domains/{domain}"), "domain");
    refused("a disabled domain");
    assert_eq!(curl(&server, &token, "/whoami", &[]).status, 401);
    assert_eq!(api.call(&admin, "DELETE", &format!("/v3/domains/{domain}"), &Value::Null).0, 204);
    assert_eq!(api.call(&admin, "GET", &format!("/v3/users/{user}"), &Value::Null).0, 404);
    // Dependent records are deleted in the background.
    let is_gone =
        || !String::from_utf8(server.cli_output(&["user", "list"], "").stdout).unwrap().contains("ann");
    assert!(
        (0..100).any(|_| is_gone() || (std::thread::sleep(std::time::Duration::from_millis(100)), false).1)
    );
}
