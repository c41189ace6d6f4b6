//! Users, groups, projects, roles and application credentials with unusual names: blanks, other scripts, quotes and invisible characters, through
//! Identity v3, the command line and WebDAV.

use crate::curl::{PROPFIND_0, curl};
use crate::server::{BINARY, Server, WITHOUT_PENALTIES, until};
use serde_json::{Value, json};

const PASSWORD: &str = "the administrator's";
const LONG: &str = "a long enough password";

/// Each byte percent-encoded.
fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

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

    /// The token of a login with a name and a password, if the login succeeds.
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

    /// The id of the domain `local`, which every server has.
    fn local(&self) -> String {
        self.with_name("domains", "", "local").pop().unwrap()
    }

    /// Creates a user of the domain `local` with the role DatastoreReader. Returns the user's id.
    fn add_user(&self, name: &str, spelling: &str) -> String {
        let user = json!({ "user": { "name": name, "domain_id": self.local(), "password": LONG } });
        let made = self.made("/users", &user);
        let path = ["role", "assign", "--path", "/datastore/main", "--auth-id"];
        self.server.cli(&[&path[..], &[spelling, "DatastoreReader"]].concat());
        made["id"].as_str().unwrap().to_owned()
    }

    /// The ids of the records of a kind with this name.
    fn with_name(&self, many: &str, filter: &str, name: &str) -> Vec<String> {
        let name = encoded(name);
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
    // Names are compared byte for byte: the decomposed form of `é` is another name.
    let composed =
        json!({ "user": { "name": "\u{e9}", "domain_id": domain, "password": "a long enough password" } });
    cloud.made("/users", &composed);
    for name in ["", " ", "a\nb", "\u{7f}", &"a".repeat(256)] {
        let user = json!({ "user": { "name": name, "domain_id": domain } });
        assert_eq!(cloud.call("POST", "/users", Some(&user)).0, 400, "{name:?}");
    }
    // For each user, the command line lists a spelling that names the user everywhere.
    for row in cloud.server.cli(&["user", "list"]) {
        let userid = row["user"].as_str().unwrap().to_owned();
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
        // A group is written with its domain, unless the domain is `local`.
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

#[test]
fn no_user_is_taken_for_a_group() {
    let cloud = Cloud::start();
    let staff = "%40staff@%local";
    cloud.server.cli(&["group", "add", "staff"]);
    cloud.add_user("@staff", staff);
    cloud.made("/users", &json!({ "user": { "name": "bob", "domain_id": cloud.local(), "password": LONG } }));
    cloud.server.cli(&["group", "member", "add", "staff", "bob@local"]);
    let listed: Vec<Value> = cloud.server.cli(&["user", "list"]);
    assert!(listed.iter().any(|row| row["user"] == staff), "{listed:?}");
    assert!(listed.iter().all(|row| !row["user"].as_str().unwrap().starts_with('@')), "{listed:?}");
    // The role belongs to the user, and no member of the group has it.
    for (login, status) in [(staff, 207), ("@staff@local", 207), ("bob@local", 404)] {
        let login = format!("{login}:{LONG}");
        assert_eq!(curl(&cloud.server, &login, "/dav/main/", &PROPFIND_0).status, status, "{login}");
    }
}

#[test]
fn tickets_work_for_any_name() {
    let cloud = Cloud::start();
    for (name, spelling) in [
        ("Jürgen Groß", "J%C3%BCrgen%20Gro%C3%9F@%local"),
        ("a#b", "a#b@local"),
        ("a%23b", "a%23b@local"),
        ("ä", "ä@local"),
        ("@x", "%40x@%local"),
    ] {
        cloud.add_user(name, spelling);
        let login = |password: &str| {
            let (name, password) = (format!("username={spelling}"), format!("password={password}"));
            let form = ["--data-urlencode", &name, "--data-urlencode", &password];
            let answer = curl(&cloud.server, "", "/api2/json/access/ticket", &form);
            assert_eq!(answer.status, 200, "{spelling}: {answer:?}");
            serde_json::from_slice::<Value>(&answer.body).unwrap()["data"].clone()
        };
        let made = login(LONG);
        assert_eq!(made["username"], spelling);
        let ticket = made["ticket"].as_str().unwrap().to_owned();
        assert!(ticket.is_ascii() && login(&ticket)["ticket"] == ticket.as_str(), "{ticket}");
        // Some clients send a ticket unchanged, and some clients percent-encode it.
        for ticket in [ticket.clone(), encoded(&ticket), ticket.replace('%', "%25")] {
            let cookie = format!("Cookie: PBSAuthCookie={ticket}");
            let path = format!("/api2/json/access/users/{}/token", encoded(spelling));
            let answer = curl(&cloud.server, "", &path, &["--header", &cookie]);
            assert_eq!(answer.status, 200, "{ticket}: {answer:?}");
        }
    }
}

#[test]
fn the_longest_names_fit_into_each_request() {
    let cloud = Cloud::start();
    let (long, realm, token) = ("\u{10348}".repeat(255), "\u{10348}".repeat(64), "名".repeat(255));
    let domain = cloud.made("/domains", &json!({ "domain": { "name": realm } }))["id"].clone();
    cloud.made("/users", &json!({ "user": { "name": long, "domain_id": domain, "password": LONG } }));
    let user = format!("{}@%{}", encoded(&long), encoded(&realm));
    let full = format!("{user}!{}", encoded(&token));
    let made = cloud.server.cli(&["token", "create", &full]);
    let secret = made[0]["value"].as_str().unwrap();
    assert_eq!(curl(&cloud.server, &format!("{full}:{secret}"), "/whoami", &[]).status, 200);
    let header = format!("Authorization: PBSAPIToken={full}:{secret}");
    assert_eq!(curl(&cloud.server, "", "/whoami", &["--header", &header]).status, 200);
    // The answer of the Proxmox API contains the name of the token as the client sent it.
    let login = format!("{user}:{LONG}");
    let path = format!("/api2/json/access/users/{}/token/{}", user.replace('%', "%25"), encoded(&token));
    let answer = curl(&cloud.server, &login, &path, &[]);
    let told: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    assert_eq!((answer.status, &told["data"]["token-name"]), (200, &json!(token)), "{told}");
    assert_eq!(told["data"]["tokenid"].as_str().unwrap(), full);
    // The change log contains the whole name.
    let log = cloud.server.cli(&["facts", "log", "--last", "1"]);
    assert_eq!(log[0]["what"], format!("token create {full}"));
}

#[test]
fn application_credentials_projects_regions_and_roles_are_found_by_any_name() {
    let cloud = Cloud::start();
    let user = cloud.add_user("Jürgen Groß", "J%C3%BCrgen%20Gro%C3%9F@%local");
    let project =
        cloud.made("/projects", &json!({ "project": { "name": "50@%ab", "domain_id": cloud.local() } }));
    let id = project["id"].as_str().unwrap();
    // A command names a project in two spellings: by its name, which looks like a project in a domain, and with its domain.
    for name in ["50@%ab", "50@%ab@local", "50%40%25ab@%local"] {
        let set = cloud.server.cli(&["project", "set", name, "--description", name]);
        assert_eq!(set[0]["project"], id, "{name}");
    }
    let member = cloud.with_name("roles", "", "member").pop().unwrap();
    let grant = format!("/projects/{id}/users/{user}/roles/{member}");
    assert_eq!(cloud.call("PUT", &grant, None).0, 204);
    let scope = json!({ "project": { "id": id } });
    let token = cloud.login("Jürgen Groß", "local", LONG, &scope).expect("the user logs in to the project");
    let cloud = Cloud { token, ..cloud };
    let path = format!("/users/{user}/application_credentials");
    for name in [" mein Schlüssel ", "a+b", "a b"] {
        let made = cloud.made(&path, &json!({ "application_credential": { "name": name } }));
        let log = cloud.server.cli(&["facts", "log", "--last", "1"]);
        assert_eq!(log[0]["who"], "J%C3%BCrgen%20Gro%C3%9F@%local");
        let (_, found) = cloud.call("GET", &format!("{path}?name={}", encoded(name)), None);
        let found = found["application_credentials"].as_array().unwrap();
        assert_eq!((found.len(), &found[0]["id"]), (1, &made["id"]), "{name}: {found:?}");
    }
    let administrator = json!({ "project": { "name": "admin", "domain": { "name": "Default" } } });
    let token = cloud.login("admin", "Default", PASSWORD, &administrator).unwrap();
    let cloud = Cloud { token, ..cloud };
    for (id, status) in
        [("r".repeat(255), 201), ("r".repeat(256), 400), ("名".repeat(163), 201), ("名".repeat(164), 400)]
    {
        let region = json!({ "region": { "id": id, "colour": "blue" } });
        let (found, answer) = cloud.call("POST", "/regions", Some(&region));
        assert_eq!(found, status, "{id}: {answer}");
        if status == 201 {
            let (_, answer) = cloud.call("GET", &format!("/regions/{}", encoded(&id)), None);
            assert_eq!(answer["region"]["colour"], "blue", "{answer}");
        }
    }
    // Like Keystone, the server keeps blanks at both ends of a role's name.
    assert_eq!(cloud.made("/roles", &json!({ "role": { "name": " a " } }))["name"], " a ");
    assert_eq!(cloud.with_name("roles", "", "a"), Vec::<String>::new());
    assert_eq!(cloud.with_name("roles", "", " a ").len(), 1);
    assert_eq!(cloud.server.cli(&["facts", "check"])[0]["sound"], true);
}

#[test]
fn each_spelling_of_a_name_has_the_same_delay() {
    let server = Server::start();
    for login in ["ä@pam", "%C3%A4@%pam"] {
        assert_eq!(curl(&server, &format!("{login}:wrong"), "/whoami", &[]).status, 401);
    }
    let user = json!({ "name": "ä", "domain": { "name": "pam" }, "password": "wrong" });
    let body = json!({ "auth": { "identity": { "methods": ["password"], "password": { "user": user } } } });
    assert_eq!(curl(&server, "", "/v3/auth/tokens", &["--data", &body.to_string()]).status, 401);
    let listed = server.cli(&["penalties", "list"]);
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!((&listed[0]["subject"], &listed[0]["failures"]), (&json!("%C3%A4@%pam"), &json!(3)));
    until("the log has three failed logins of one name", &server, || {
        server.log().matches("\"authid\":\"%C3%A4@%pam\"").count() == 3
    });
    server.cli(&["penalties", "clear", "ä@pam"]);
    assert!(server.cli(&["penalties", "list"]).is_empty());
}

#[test]
fn commands_to_copy_name_any_domain() {
    let cloud = Cloud::start();
    let (realm, user) = ("it's & co", "a@%it%27s%20%26%20co");
    let domain = cloud.made("/domains", &json!({ "domain": { "name": realm } }))["id"].clone();
    cloud.made("/users", &json!({ "user": { "name": "a", "domain_id": domain, "password": LONG } }));
    for (what, name, next) in [
        ("domain", realm, r"enfilade domain disable 'it'\''s & co'"),
        ("user", user, &format!("enfilade user passwd {user}")),
    ] {
        let mut command = std::process::Command::new(BINARY);
        command.arg("--data").arg(cloud.server.data()).args(["revoke", what, name, "--everything"]);
        let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
        assert!(said.contains(next), "{said}");
    }
    let set = cloud.server.cli_output(&["user", "passwd", user, "--password-stdin"], LONG);
    assert!(set.status.success(), "{set:?}");
}
