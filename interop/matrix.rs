//! The authorization of Identity v3. Every kind of caller sends every call of the table, and the result is compared with a second implementation of
//! the rules.

use crate::server::{Server, WITHOUT_PENALTIES};
use enfilade_keystone::{V3, V3Need, V3Route};
use enfilade_passage::{KnownTo, Lending, ScopeTypes, Who, rule_named};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

/// A client with one connection that stays open.
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn new(server: &Server) -> Self {
        Client { stream: BufReader::new(TcpStream::connect(&server.plain).unwrap()) }
    }

    /// Sends a request. Returns the status, an issued token (if any), and the body.
    pub(crate) fn call(
        &mut self,
        token: &str,
        method: &str,
        path: &str,
        body: &Value,
    ) -> (u16, Option<String>, Value) {
        self.call_about(token, "", method, path, body)
    }

    /// Like [`Client::call`], with a token in `X-Subject-Token`.
    fn call_about(
        &mut self,
        token: &str,
        about: &str,
        method: &str,
        path: &str,
        body: &Value,
    ) -> (u16, Option<String>, Value) {
        let content = if body.is_null() { String::new() } else { body.to_string() };
        let header = |name: &str, token: &str| match token {
            "" => String::new(),
            token => format!("{name}: {token}\r\n"),
        };
        let auth = header("X-Auth-Token", token) + &header("X-Subject-Token", about);
        let length = content.len();
        let request =
            format!("{method} {path} HTTP/1.1\r\nHost: x\r\n{auth}Content-Length: {length}\r\n\r\n{content}");
        self.stream.get_mut().write_all(request.as_bytes()).unwrap();
        let (mut status, mut length, mut subject, mut line) = (0, 0, None, String::new());
        loop {
            line.clear();
            self.stream.read_line(&mut line).unwrap();
            let text = line.trim_end();
            if text.is_empty() {
                break;
            }
            if let Some(rest) = text.strip_prefix("HTTP/1.1 ") {
                status = rest[..3].parse().unwrap();
            } else if let Some(bytes) = text.strip_prefix("content-length: ") {
                length = bytes.parse().unwrap();
            } else if let Some(token) = text.strip_prefix("x-subject-token: ") {
                subject = Some(token.to_owned());
            }
        }
        let mut content = vec![0; if method == "HEAD" { 0 } else { length }];
        self.stream.read_exact(&mut content).unwrap();
        (status, subject, serde_json::from_slice(&content).unwrap_or_default())
    }

    pub(crate) fn made(&mut self, token: &str, path: &str, what: &str, body: Value) -> String {
        let (status, _, answer) = self.call(token, "POST", path, &json!({ what: body }));
        assert_eq!(status, 201, "{path}: {answer}");
        answer[what]["id"].as_str().unwrap().to_owned()
    }

    pub(crate) fn login(&mut self, identity: &Value, scope: Value) -> Option<String> {
        let body = json!({ "auth": { "identity": identity, "scope": scope } });
        self.call("", "POST", "/v3/auth/tokens", &body).1
    }
}

pub(crate) fn password(user: &str, password: &str) -> Value {
    json!({ "methods": ["password"], "password": { "user": { "id": user, "password": password } } })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    Nothing,
    Project,
    /// The domain that contains all records of the test.
    Domain,
    OtherDomain,
    System,
}

/// A caller, with the properties that the rules use.
struct Actor {
    name: String,
    /// The user of the session.
    user: String,
    token: String,
    role: usize,
    on: On,
    is_owner: bool,
    is_lent: bool,
    has_rules: bool,
    /// Whether the session was made with an application credential.
    by_credential: bool,
}

/// Each role implies the roles before it.
const ROLES: [&str; 4] = ["reader", "member", "manager", "admin"];

impl Actor {
    fn has(&self, role: &str) -> bool {
        self.role > ROLES.iter().position(|one| *one == role).unwrap()
    }
}

/// The server, and the records that calls use.
struct Cloud {
    server: Server,
    client: Client,
    admin: String,
    domain: String,
    project: String,
    user: String,
    /// The user who is added to the group and removed from it.
    leaver: String,
    group: String,
    role: String,
    blob: String,
    actors: Vec<Actor>,
}

fn cloud() -> Cloud {
    let server = Server::start_with(&[WITHOUT_PENALTIES]);
    let output = server.cli_output(&["bootstrap", "--password-stdin", "--public-url", &server.url("")], "pw");
    assert!(output.status.success());
    let mut client = Client::new(&server);
    let identity = json!({ "methods": ["password"], "password": { "user": { "name": "admin", "domain": { "id": "default" }, "password": "pw" } } });
    let admin = client
        .login(&identity, json!({ "project": { "name": "admin", "domain": { "id": "default" } } }))
        .unwrap();
    let kept = json!({ "immutable": true });
    let domain = client.made(&admin, "/v3/domains", "domain", json!({ "name": "tenant", "options": kept }));
    let other = client.made(&admin, "/v3/domains", "domain", json!({ "name": "elsewhere" }));
    let project = client.made(
        &admin,
        "/v3/projects",
        "project",
        json!({ "name": "p", "domain_id": domain, "options": kept }),
    );
    let user = client.made(
        &admin,
        "/v3/users",
        "user",
        json!({ "name": "ann", "domain_id": domain, "password": "pw", "options": kept }),
    );
    let leaver = json!({ "name": "leaver", "domain_id": domain, "options": kept });
    let leaver = client.made(&admin, "/v3/users", "user", leaver);
    let group = client.made(
        &admin,
        "/v3/groups",
        "group",
        json!({ "name": "g", "domain_id": domain, "options": kept }),
    );
    let role_id = |client: &mut Client, name: &str| {
        let found = client.call(&admin, "GET", &format!("/v3/roles?name={name}"), &Value::Null).2;
        found["roles"][0]["id"].as_str().unwrap().to_owned()
    };
    let role = role_id(&mut client, "reader");
    let blob = client.made(
        &admin,
        "/v3/credentials",
        "credential",
        json!({ "type": "cert", "blob": "x", "user_id": user }),
    );
    let mut actors = Vec::new();
    let scopes = [
        (On::Project, format!("/v3/projects/{project}"), json!({ "project": { "id": project } })),
        (On::Domain, format!("/v3/domains/{domain}"), json!({ "domain": { "id": domain } })),
        (On::OtherDomain, format!("/v3/domains/{other}"), json!({ "domain": { "id": other } })),
        (On::System, "/v3/system".to_owned(), json!({ "system": { "all": true } })),
    ];
    let somebody = |user: &str, name: String, token: Option<String>, role: usize, on: On| Actor {
        token: token.unwrap_or_else(|| panic!("{name} gets no token")),
        name,
        user: user.to_owned(),
        role,
        on,
        is_owner: false,
        is_lent: false,
        has_rules: false,
        by_credential: false,
    };
    for (rank, name) in ROLES.iter().enumerate() {
        let id = role_id(&mut client, name);
        for (on, path, scope) in &scopes {
            let who = format!("{name} on {on:?}");
            let body = json!({ "name": format!("{name}-{on:?}"), "domain_id": other, "password": "pw" });
            let maker = client.made(&admin, "/v3/users", "user", body);
            let (status, ..) =
                client.call(&admin, "PUT", &format!("{path}/users/{maker}/roles/{id}"), &Value::Null);
            assert_eq!(status, 204, "{who}");
            let token = client.login(&password(&maker, "pw"), scope.clone());
            actors.push(somebody(&maker, who.clone(), token.clone(), rank + 1, *on));
            if *on != On::Project {
                continue;
            }
            // Lent sessions: by application credentials (restricted, unrestricted, and with access rules), and by a trust.
            let rules = json!([{ "service": "identity", "method": "GET", "path": "/v3/users" }]);
            for (kind, unrestricted, rules) in [
                ("restricted", false, Value::Null),
                ("unrestricted", true, Value::Null),
                ("for requests", false, rules),
            ] {
                let mut given = json!({ "name": kind.replace(' ', "-"), "unrestricted": unrestricted, "secret": "a long secret" });
                if !rules.is_null() {
                    given["access_rules"] = rules.clone();
                }
                let path = format!("/v3/users/{maker}/application_credentials");
                let credential =
                    client.made(token.as_deref().unwrap(), &path, "application_credential", given);
                let identity = json!({ "methods": ["application_credential"], "application_credential": { "id": credential, "secret": "a long secret" } });
                let lent = client.login(&identity, Value::Null);
                let mut actor = somebody(&maker, format!("{who}, {kind}"), lent, rank + 1, *on);
                (actor.is_lent, actor.has_rules) = (!unrestricted, !rules.is_null());
                actor.by_credential = true;
                actors.push(actor);
            }
            let trust = json!({ "trustor_user_id": maker, "trustee_user_id": user, "project_id": project, "impersonation": false, "roles": [{ "name": name }] });
            let trust = client.made(token.as_deref().unwrap(), "/v3/OS-TRUST/trusts", "trust", trust);
            let lent = client.login(&password(&user, "pw"), json!({ "OS-TRUST:trust": { "id": trust } }));
            let mut actor = somebody(&user, format!("{who}, by a trust"), lent, rank + 1, *on);
            (actor.is_lent, actor.is_owner) = (true, true);
            actors.push(actor);
        }
    }
    let own = client.login(&password(&user, "pw"), json!({ "unscoped": {} }));
    let mut own = somebody(&user, "the user".to_owned(), own, 0, On::Nothing);
    own.is_owner = true;
    actors.push(own);
    Cloud { server, client, admin, domain, project, user, leaver, group, role, blob, actors }
}

/// Whether a call concerns the domain, the project or the user of the test, by its path.
struct About {
    domain: bool,
    project: bool,
    user: bool,
}

fn about(route: &V3Route) -> About {
    let has = |word: &str| route.path.contains(word);
    let is_about_domain = |path: &str| ["/users", "/groups", "/projects"].contains(&path);
    let is_role_path = has("{role_id}") || has("/roles");
    About {
        domain: has("{domain_id}")
            || has("{project_id}")
            || has("{group_id}")
            || has("{user_id}") && !is_role_path
            || route.method == "POST" && is_about_domain(route.path),
        project: has("{project_id}"),
        user: has("{user_id}") && !is_role_path && !has("{group_id}")
            || has("{credential_id}") && !has("OS-EC2")
            || route.path == "/credentials",
    }
}

/// Whether the rule does not permit the scope of the actor's token.
fn is_beyond_scope(actor: &Actor, rule: &str) -> bool {
    match rule_named(rule).unwrap().scopes {
        ScopeTypes::Any => false,
        ScopeTypes::ProjectOrSystem => matches!(actor.on, On::Domain | On::OtherDomain),
        ScopeTypes::Project => matches!(actor.on, On::Domain | On::OtherDomain | On::System),
    }
}

/// Whether the call is about a record that does not exist in this test.
fn is_of_absent(route: &V3Route) -> bool {
    let is_role = route.path.starts_with("/roles/") && route.method != "GET";
    is_role || route.path.starts_with("/limits/") || route.path.ends_with("OS-EC2/{credential_id}")
}

/// Whether the call is not refused: the rule permits it, or the caller may see that the record is absent.
fn may(actor: &Actor, route: &V3Route) -> bool {
    let known_to = rule_named(route.rule).unwrap().known_to.filter(|_| is_of_absent(route));
    let is_known = match known_to {
        Some(KnownTo::Readers(rule)) => allows(actor, route, rule),
        everybody => everybody.is_some(),
    };
    is_known || allows(actor, route, route.rule)
}

/// Whether the rule permits the call. This is the second implementation of the rules.
fn allows(actor: &Actor, route: &V3Route, name: &str) -> bool {
    let rule = rule_named(name).unwrap();
    if actor.has_rules || is_beyond_scope(actor, name) {
        return false;
    }
    // No credential created the records of this test, and a credential creates keys only for its own user.
    let is_one_thing = route.path.contains("{credential_id}") || name == "ec2_create_credential";
    let is_refused = match rule.lending {
        Lending::Sessions | Lending::Reads | Lending::Manages => false,
        Lending::People => actor.is_lent || actor.by_credential,
        Lending::Keys => actor.is_lent || actor.by_credential && is_one_thing,
        Lending::Credentials | Lending::Trusts => actor.is_lent || actor.by_credential,
    };
    if is_refused {
        return false;
    }
    let about = about(route);
    let in_domain = actor.on == On::Domain && about.domain;
    // A list of credentials without a user shows the credentials of the caller.
    let lists_own = route.path == "/credentials" && route.method == "GET";
    rule.who.iter().any(|who| match who {
        // An unscoped session has no catalog.
        Who::Anybody => route.path != "/auth/catalog" || actor.on != On::Nothing,
        Who::Admin => actor.has("admin"),
        Who::SystemReader => actor.has("reader") && actor.on == On::System,
        Who::SystemAdmin => actor.has("admin") && actor.on == On::System,
        Who::DomainManager => actor.has("manager") && in_domain,
        // A manager may not change the user of this test, because the user has roles by trusts that a manager may not give.
        Who::BoundedManager => {
            actor.has("manager") && in_domain && !route.path.starts_with("/users/{user_id}")
        }
        Who::DomainReader => actor.has("reader") && in_domain,
        Who::AnyDomainManager => actor.has("manager") && matches!(actor.on, On::Domain | On::OtherDomain),
        Who::AnyDomainReader => actor.has("reader") && matches!(actor.on, On::Domain | On::OtherDomain),
        Who::DomainMember => in_domain,
        Who::ProjectMember => actor.on == On::Project && about.project,
        Who::InDomain => actor.on == On::Project && about.domain,
        Who::Service | Who::Redelegator => false,
        Who::Owner => actor.is_owner && about.user || lists_own,
    })
}

impl Cloud {
    fn path(&self, route: &V3Route) -> String {
        let nobody = "00000000000000000000000000000001";
        let mut path = format!("/v3{}", route.path);
        for (name, value) in [
            ("domain_id", self.domain.as_str()),
            ("project_id", &self.project),
            // A user who is removed from a group loses all sessions.
            ("user_id", if route.path.starts_with("/groups/") { &self.leaver } else { &self.user }),
            ("group_id", &self.group),
            ("role_id", &self.role),
            ("prior_role_id", &self.role),
            ("implied_role_id", nobody),
            ("credential_id", &self.blob),
            ("value", "tag"),
        ] {
            path = path.replace(&format!("{{{name}}}"), value);
        }
        // Other records need not exist, because the rules do not use them.
        let parts = path.split('/').map(|part| if part.starts_with('{') { nobody } else { part });
        let path = parts.collect::<Vec<_>>().join("/");
        // All callers share the roles. Therefore changes use the id of a role that does not exist.
        if route.path.starts_with("/roles/") && route.method != "GET" {
            path.replace(&self.role, nobody)
        } else {
            path
        }
    }

    /// A body with the attributes that the rules use, but without an attribute that the call needs to succeed.
    fn body(&self, route: &V3Route) -> Value {
        let what =
            route.path.trim_start_matches('/').split('/').next().unwrap_or_default().trim_end_matches('s');
        match (route.method, route.path) {
            ("POST", "/users" | "/groups" | "/projects") => json!({ what: { "domain_id": self.domain } }),
            ("POST", "/credentials") => json!({ "credential": { "user_id": self.user } }),
            ("POST" | "PATCH", _) => json!({}),
            ("PUT", path) if path.ends_with("/tags") => json!({}),
            _ => Value::Null,
        }
    }
}

/// Whether a response is a refusal by the rules, not another error.
fn is_refused((status, _, body): &(u16, Option<String>, Value)) -> bool {
    let message = body["error"]["message"].as_str().unwrap_or_default();
    // The answer for a trust of other users is the same as for an absent trust.
    let is_absent = *status == 404 && message.starts_with("Could not find trust");
    // An answer to HEAD has only a status.
    let is_forbidden = body.is_null() || message.starts_with("You are not authorized");
    *status == 401 || is_absent || *status == 403 && is_forbidden
}

/// Whether a call needs a new record for each caller.
fn needs_fixture(route: &V3Route) -> bool {
    let begins = ["/auth/tokens", "/OS-REVOKE", "/OS-TRUST"];
    begins.iter().any(|path| route.path.starts_with(path)) || route.path.contains("application_credentials")
}

#[test]
fn everybody_may_what_the_rules_say() {
    let mut cloud = cloud();
    let (mut asked, mut wrong) = (0, Vec::new());
    for route in V3.iter().filter(|route| route.need == V3Need::Session) {
        let (path, body) = (cloud.path(route), cloud.body(route));
        let nobody = cloud.client.call("", route.method, &path, &body);
        assert_eq!(nobody.0, 401, "{} {path}: {}", route.method, nobody.2);
        if needs_fixture(route) {
            continue;
        }
        for at in 0..cloud.actors.len() {
            let actor = &cloud.actors[at];
            let answer = cloud.client.call(&actor.token, route.method, &path, &body);
            asked += 1;
            if is_refused(&answer) == may(actor, route) || answer.0 >= 500 {
                wrong.push(format!("{} {path} by {}: {} {}", route.method, actor.name, answer.0, answer.2));
            }
            // A deleted record is created again for the next caller.
            if route.rule == "delete_credential" && answer.0 == 204 {
                let body = json!({ "type": "cert", "blob": "x", "user_id": cloud.user });
                cloud.blob = cloud.client.made(&cloud.admin, "/v3/credentials", "credential", body);
                return_to(&mut cloud, route, at, &mut wrong);
                break;
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {asked} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(asked > 2_500, "{asked}");
}

/// The records of a call, created for each caller, because the call may delete them.
struct Fixture {
    /// A token of the user.
    subject: String,
    /// An application credential of the user.
    credential: String,
    /// A trust from the first actor to the user.
    trust: String,
}

impl Cloud {
    fn fixture(&mut self) -> Fixture {
        let subject = self.client.login(&password(&self.user, "pw"), json!({ "unscoped": {} })).unwrap();
        let (trustor, token) = (&self.actors[0].user, &self.actors[0].token);
        let trust = json!({
            "trustor_user_id": trustor, "trustee_user_id": self.user, "project_id": self.project,
            "impersonation": false, "roles": [{ "name": "reader" }],
        });
        let trust = self.client.made(token, "/v3/OS-TRUST/trusts", "trust", trust);
        let scope = json!({ "project": { "id": self.project } });
        let own = self.client.login(&password(&self.user, "pw"), scope).unwrap();
        let name = format!("c{}", &subject[subject.len() - 20..]).replace(['=', '-', '_'], "x");
        let path = format!("/v3/users/{}/application_credentials", self.user);
        let credential = self.client.made(&own, &path, "application_credential", json!({ "name": name }));
        Fixture { subject, credential, trust }
    }
}

/// Whether the caller may make a call that needs a [`Fixture`], by `docs/keystone.md` and Keystone's policies.
fn may_by_its_own(actor: &Actor, route: &V3Route, trustor: &str) -> bool {
    if is_beyond_scope(actor, route.rule) {
        return false;
    }
    let (is_bound, is_free) = (actor.has_rules, !actor.has_rules && !actor.is_lent);
    let sees_all = !is_bound && (actor.has("admin") || actor.has("reader") && actor.on == On::System);
    let is_trustor = actor.user == trustor;
    match (route.method, route.path) {
        ("GET" | "HEAD", "/auth/tokens") => actor.is_owner || sees_all,
        ("DELETE", "/auth/tokens") => actor.is_owner || !is_bound && actor.has("admin"),
        ("GET", "/OS-REVOKE/events") => !is_bound && actor.has("admin"),
        ("POST", path) if path.ends_with("application_credentials") => is_free && actor.is_owner,
        // A credential may delete only credentials that it created. It created none of the credentials in this test.
        ("DELETE", path) if path.contains("application_credentials") => {
            is_free && !actor.by_credential && (actor.is_owner || actor.has("admin"))
        }
        ("GET", path) if path.contains("application_credentials") => sees_all || !is_bound && actor.is_owner,
        ("GET", "/OS-TRUST/trusts") => sees_all,
        ("GET", _) => sees_all || !is_bound && (actor.is_owner || is_trustor),
        // Only the trustor creates a trust.
        ("POST", _) => is_free && actor.is_owner,
        ("DELETE", _) => is_free && !actor.by_credential && (is_trustor || actor.has("admin")),
        other => panic!("this function has no rule for the call {other:?}"),
    }
}

#[test]
fn everybody_may_what_the_rules_say_of_sessions_credentials_and_trusts() {
    let mut cloud = cloud();
    let path = format!("/v3/projects/{}/users/{}/roles/{}", cloud.project, cloud.user, cloud.role);
    assert_eq!(cloud.client.call(&cloud.admin, "PUT", &path, &Value::Null).0, 204);
    let trustor = cloud.actors[0].user.clone();
    let (mut asked, mut wrong) = (0, Vec::new());
    for route in V3.iter().filter(|route| route.need == V3Need::Session && needs_fixture(route)) {
        for at in 0..cloud.actors.len() {
            let Fixture { subject, credential, trust } = cloud.fixture();
            let path = format!("/v3{}", route.path)
                .replace("{user_id}", &cloud.user)
                .replace("{application_credential_id}", &credential)
                .replace("{trust_id}", &trust)
                .replace("{role_id}", &cloud.role);
            let user = &cloud.user;
            let body = match (route.method, route.path) {
                ("POST", "/OS-TRUST/trusts") => json!({ "trust": {
                    "trustor_user_id": user, "trustee_user_id": trustor, "project_id": cloud.project,
                    "impersonation": false, "roles": [{ "name": "reader" }],
                } }),
                ("POST", _) => json!({ "application_credential": { "name": format!("new{asked}") } }),
                _ => Value::Null,
            };
            let actor = &cloud.actors[at];
            let may = may_by_its_own(actor, route, &trustor);
            let token = actor.token.clone();
            let answer = cloud.client.call_about(&token, &subject, route.method, &path, &body);
            asked += 1;
            if is_refused(&answer) == may || answer.0 >= 500 {
                let actor = &cloud.actors[at];
                wrong.push(format!("{} {path} by {}: {} {}", route.method, actor.name, answer.0, answer.2));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {asked} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(asked > 400, "{asked}");
}

/// Repeats the call for the remaining callers, each with a new credential.
fn return_to(cloud: &mut Cloud, route: &V3Route, after: usize, wrong: &mut Vec<String>) {
    for at in after + 1..cloud.actors.len() {
        let path = cloud.path(route);
        let actor = &cloud.actors[at];
        let answer = cloud.client.call(&actor.token, route.method, &path, &Value::Null);
        if is_refused(&answer) == may(actor, route) {
            wrong.push(format!("{} {path} by {}: {} {}", route.method, actor.name, answer.0, answer.2));
        }
        if answer.0 == 204 {
            let body = json!({ "type": "cert", "blob": "x", "user_id": cloud.user });
            cloud.blob = cloud.client.made(&cloud.admin, "/v3/credentials", "credential", body);
        }
    }
}

/// All facts that admit a user or grant a right.
fn powers(server: &Server) -> Vec<String> {
    let output = server.cli_output(&["facts", "dump"], "");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let powers = "users credentials delegations grants memberships trusts blobs consumers request-tokens access-tokens \
                  assignments roles";
    let is_power = |line: &&str| {
        let row: Value = serde_json::from_str(line).unwrap_or_default();
        powers.split(' ').any(|table| row["table"] == table)
    };
    text.lines().filter(is_power).map(str::to_owned).collect()
}

#[test]
fn no_call_makes_more_of_a_narrow_credential() {
    let mut cloud = cloud();
    let before = powers(&cloud.server);
    assert!(before.len() > 40, "{}", before.len());
    let narrow: Vec<usize> = (0..cloud.actors.len())
        .filter(|at| cloud.actors[*at].is_lent && cloud.actors[*at].role < 4)
        .collect();
    assert!(narrow.len() >= 9);
    for at in narrow {
        let token = cloud.actors[at].token.clone();
        for route in V3.iter().filter(|route| route.need == V3Need::Session && route.path != "/auth/tokens") {
            let path = cloud.path(route);
            let (id, project) = (cloud.user.clone(), cloud.project.clone());
            // These bodies contain all attributes that the call needs to succeed.
            let body = match route.method {
                "POST" | "PATCH" | "PUT" => json!({
                    "user": { "name": "more", "password": "pw", "domain_id": cloud.domain, "enabled": true },
                    "group": { "name": "more", "domain_id": cloud.domain }, "project": { "name": "more", "domain_id": cloud.domain },
                    "credential": { "type": "ec2", "blob": "{\"access\":\"a\",\"secret\":\"s\"}", "user_id": id, "project_id": project },
                    "tenant_id": project, "role": { "name": "more" }, "domain": { "name": "more" },
                    "application_credential": { "name": "more", "unrestricted": true, "roles": [] },
                    "trust": { "trustor_user_id": id, "trustee_user_id": id, "project_id": project, "impersonation": true, "roles": [{ "name": "reader" }] },
                }),
                _ => Value::Null,
            };
            let (status, _, answer) = cloud.client.call(&token, route.method, &path, &body);
            assert!(status < 500, "{} {path}: {status} {answer}", route.method);
        }
        for scope in [
            json!({ "project": { "id": cloud.project } }),
            json!({ "domain": { "id": cloud.domain } }),
            json!({ "system": { "all": true } }),
            json!({ "unscoped": {} }),
            Value::Null,
        ] {
            let identity = json!({ "methods": ["token"], "token": { "id": token } });
            let again = cloud.client.login(&identity, scope.clone());
            assert_eq!(again, None, "{} {scope}", cloud.actors[at].name);
        }
    }
    let after = powers(&cloud.server);
    let new: Vec<&String> = after.iter().filter(|line| !before.contains(line)).collect();
    assert!(new.is_empty(), "{new:#?}");
    assert_eq!(before.len(), after.len());
}
