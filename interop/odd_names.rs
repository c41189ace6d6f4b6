//! Names that are any text: users, groups, projects, roles and application credentials with blanks, other scripts, quotes and invisible characters,
//! through Identity v3, the command line and WebDAV.

use crate::curl::{PROPFIND_0, curl};
use crate::server::{Server, WITHOUT_PENALTIES};
use serde_json::{Value, json};

const PASSWORD: &str = "the administrator's";

struct Cloud {
    server: Server,
    token: String,
}

impl Cloud {
    fn start() -> Self {
        let mut cloud = Cloud { server: Server::start_with(&[WITHOUT_PENALTIES]), token: String::new() };
        let url = cloud.server.url("/v3");
        let made =
            cloud.server.cli_output(&["bootstrap", "--password-stdin", "--public-url", &url], PASSWORD);
        assert!(made.status.success(), "{made:?}");
        let scope = json!({ "project": { "name": "admin", "domain": { "name": "Default" } } });
        cloud.token = cloud.login("admin", "Default", PASSWORD, &scope).expect("the administrator logs in");
        cloud
    }

    /// The status and the body of a request.
    fn call(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        let token = format!("X-Auth-Token: {}", self.token);
        let body = body.map(Value::to_string);
        let mut arguments = vec!["--request", method, "--header", &token];
        arguments.extend(
            body.iter().flat_map(|body| ["--header", "Content-Type: application/json", "--data", body]),
        );
        let answer = curl(&self.server, "", &format!("/v3{path}"), &arguments);
        (answer.status, serde_json::from_slice(&answer.body).unwrap_or_default())
    }

    fn made(&self, path: &str, body: &Value) -> Value {
        let (status, answer) = self.call("POST", path, Some(body));
        assert_eq!(status, 201, "{body}: {answer}");
        answer.as_object().unwrap().values().next().unwrap().clone()
    }

    /// The token of a login with a password by name, if it succeeds.
    fn login(&self, user: &str, domain: &str, password: &str, scope: &Value) -> Option<String> {
        let user = json!({ "name": user, "domain": { "name": domain }, "password": password });
        let identity = json!({ "methods": ["password"], "password": { "user": user } });
        self.issue(&json!({ "auth": { "identity": identity, "scope": scope } }))
    }

    fn issue(&self, body: &Value) -> Option<String> {
        let body = body.to_string();
        let answer = curl(&self.server, "", "/v3/auth/tokens", &["--data", &body]);
        let subject = answer.head.iter().find_map(|line| line.strip_prefix("x-subject-token: "));
        subject.map(str::to_owned)
    }

    /// The ids of the records of a kind with this name.
    fn with_name(&self, many: &str, filter: &str, name: &str) -> Vec<String> {
        let name: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let (status, answer) = self.call("GET", &format!("/{many}?name={name}{filter}"), None);
        assert_eq!(status, 200, "{answer}");
        let ids = answer[many].as_array().unwrap().iter();
        ids.map(|row| row["id"].as_str().unwrap().to_owned()).collect()
    }
}

fn names() -> Vec<String> {
    let mut names = [
        "alice@example.com",
        "Jürgen Groß",
        "CORP\\svc backup",
        "\"quoted\" it's",
        "<script>alert(1)</script>",
        "a:b/c,d#e",
        "@leading!bang",
        "100%25",
        "a\u{200b}b",
        "\u{202e}gnp.exe",
        "e\u{301}",
    ]
    .map(str::to_owned)
    .to_vec();
    names.push("名".repeat(255));
    names.push("\u{10348}".repeat(255));
    names
}

#[test]
fn a_user_has_any_name_on_every_face() {
    let cloud = Cloud::start();
    let realm = "Größe & Söhne GmbH";
    let domain =
        cloud.made("/domains", &json!({ "domain": { "name": realm } }))["id"].as_str().unwrap().to_owned();
    let here = format!("&domain_id={domain}");
    let (mut spellings, mut ids) = (Vec::new(), Vec::new());
    for name in names() {
        let user = json!({ "user": { "name": format!(" {name}\t"), "domain_id": domain, "password": "a long enough password" } });
        let made = cloud.made("/users", &user);
        assert_eq!(made["name"], name.as_str(), "blanks at the ends are removed, as Keystone does");
        let id = made["id"].as_str().unwrap().to_owned();
        assert_eq!(cloud.call("POST", "/users", Some(&user)).0, 409, "{name}");
        assert_eq!(cloud.with_name("users", &here, &name), [id.as_str()], "{name}");
        assert!(cloud.login(&name, realm, "a long enough password", &json!("unscoped")).is_some(), "{name}");
        assert!(
            cloud.login(&format!("{name}x"), realm, "a long enough password", &json!("unscoped")).is_none()
        );
        ids.push(id);
    }
    // Names are compared byte for byte: the other way to write `é` is another name.
    let composed = json!({ "user": { "name": "\u{e9}", "domain_id": domain } });
    cloud.made("/users", &composed);
    for name in ["", " ", "a\nb", "\u{7f}", &"a".repeat(256)] {
        let user = json!({ "user": { "name": name, "domain_id": domain } });
        assert_eq!(cloud.call("POST", "/users", Some(&user)).0, 400, "{name:?}");
    }
    // The command line lists a spelling for each, which names the user everywhere.
    for row in cloud.server.cli(&["user", "list"]) {
        let userid = row["userid"].as_str().unwrap().to_owned();
        if userid.ends_with("@%Gr%C3%B6%C3%9Fe%20%26%20S%C3%B6hne%20GmbH") {
            assert!(userid.bytes().all(|byte| byte.is_ascii_graphic()), "{userid}");
            spellings.push(userid);
        }
    }
    assert_eq!(spellings.len(), ids.len() + 1);
    for spelling in &spellings {
        cloud.server.cli(&[
            "role",
            "assign",
            "--path",
            "/datastore/main",
            "--auth-id",
            spelling,
            "DatastoreReader",
        ]);
        assert!(!cloud.server.cli(&["user", "access", spelling]).is_empty());
        let login = format!("{spelling}:a long enough password");
        assert_eq!(curl(&cloud.server, &login, "/dav/main/", &PROPFIND_0).status, 207, "{spelling}");
        let made = cloud.server.cli(&["token", "create", &format!("{spelling}!my%20laptop")]);
        let login = format!("{spelling}!my%20laptop:{}", made[0]["value"].as_str().unwrap());
        assert_eq!(curl(&cloud.server, &login, "/dav/main/", &PROPFIND_0).status, 207, "{spelling}");
        cloud.server.cli(&["explain", spelling, "main", "/"]);
    }
    for id in &ids {
        assert_eq!(cloud.call("DELETE", &format!("/users/{id}"), None).0, 204);
    }
    let again = json!({ "user": { "name": "Jürgen Groß", "domain_id": domain } });
    assert_ne!(
        cloud.made("/users", &again)["id"],
        ids[1].as_str(),
        "a later user of this name is another user"
    );
}

#[test]
fn groups_projects_and_roles_have_any_name() {
    let cloud = Cloud::start();
    for name in names() {
        let short: String = name.chars().take(64).collect();
        for (one, many, name) in
            [("group", "groups", &name), ("role", "roles", &name), ("project", "projects", &short)]
        {
            let body = json!({ one: { "name": name } });
            let made = cloud.made(&format!("/{many}"), &body);
            assert_eq!(made["name"], name.as_str());
            assert_eq!(cloud.call("POST", &format!("/{many}"), Some(&body)).0, 409, "{name}");
            assert_eq!(cloud.with_name(many, "", name), [made["id"].as_str().unwrap()], "{many} {name}");
        }
        // A group of another domain than `local` is written with its domain.
        let group = cloud.server.cli(&["group", "list"]).into_iter().last().unwrap();
        assert!(group["group"].as_str().unwrap().is_ascii(), "{group}");
    }
    for (one, many, name) in [
        ("project", "projects", "a".repeat(65)),
        ("domain", "domains", "a".repeat(65)),
        ("group", "groups", "a".repeat(256)),
        ("role", "roles", " ".to_owned()),
    ] {
        assert_eq!(
            cloud.call("POST", &format!("/{many}"), Some(&json!({ one: { "name": name } }))).0,
            400,
            "{many}"
        );
    }
}
