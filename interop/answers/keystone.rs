//! Identity v3: logins, reads and lists by every caller, and every call that changes something.

use super::client::{Ask, Got};
use super::keystone_bodies::{BODIES, LOGINS, QUERIES};
use super::keystone_calls::{CHANGES, READS};
use super::world::{Way, World};
use serde_json::{Value, json};

/// Sessions: the name of the caller, the user of the session, and its scope.
const SESSIONS: [(&str, &str, &str); 12] = [
    ("member's session", "alice", r#"{"project":{"id":"{{project p}}"}}"#),
    ("unscoped session", "alice", r#""unscoped""#),
    ("nobody's session", "carol", r#""unscoped""#),
    ("reader's session", "bob", r#"{"project":{"id":"{{project p}}"}}"#),
    ("group's session", "bob", r#"{"project":{"id":"{{project inner}}"}}"#),
    ("manager's session", "manager", r#"{"domain":{"id":"{{domain corp}}"}}"#),
    ("domain reader's session", "reader", r#"{"domain":{"id":"{{domain corp}}"}}"#),
    ("system reader's session", "sysreader", r#"{"system":{"all":true}}"#),
    ("service's session", "service", r#"{"project":{"id":"{{project admin}}"}}"#),
    ("admin's session", "admin", r#"{"project":{"id":"{{project admin}}"}}"#),
    ("system admin's session", "admin", r#"{"system":{"all":true}}"#),
    ("guest's session", "guest", r#"{"project":{"id":"{{project q}}"}}"#),
];

/// The callers who send reading requests. The first callers have no rights.
const READERS: [&str; 14] = [
    "anonymous",
    "bad session",
    "alice",
    "unscoped session",
    "nobody's session",
    "reader's session",
    "member's session",
    "manager's session",
    "domain reader's session",
    "system reader's session",
    "service's session",
    "admin's session",
    "credential's session",
    "trustee's session",
];

/// The callers who send changing requests.
const CHANGERS: [&str; 8] = [
    "anonymous",
    "nobody's session",
    "member's session",
    "manager's session",
    "system reader's session",
    "credential's session",
    "trustee's session",
    "admin's session",
];

/// Creates the sessions that the requests to all faces use.
pub(super) fn come_in(world: &mut World) {
    world.group("keystone sessions");
    for (caller, user, scope) in SESSIONS {
        let body = password(user, scope);
        let got = world.ask("anonymous", caller, Ask::new("POST", "/v3/auth/tokens").body(body));
        admit(world, caller, &got);
    }
    world.house.admit("bad session", &[("X-Auth-Token", "gAAAAABnothing")]);
    let credential = json!({ "application_credential": { "name": "ci", "roles": [{ "name": "member" }], "description": "for tests" } });
    let path = "/v3/users/{{user alice}}/application_credentials";
    let got =
        world.ask("member's session", "application credential", Ask::new("POST", path).json(&credential));
    world.house.name_made("application credential", &got, "application_credential");
    let secret = got.json()["application_credential"]["secret"].as_str().unwrap().to_owned();
    world.house.name("secret of the credential", &secret);
    let identity = json!({ "methods": ["application_credential"], "application_credential": { "id": "{{application credential}}", "secret": "{{secret of the credential}}" } });
    let body = json!({ "auth": { "identity": identity } });
    let got = world.ask(
        "anonymous",
        "credential's session",
        Ask::new("POST", "/v3/auth/tokens").body(body.to_string()),
    );
    admit(world, "credential's session", &got);
    let trust = made_trust();
    let got = world.ask("member's session", "trust", Ask::new("POST", "/v3/OS-TRUST/trusts").json(&trust));
    world.house.name_made("trust", &got, "trust");
    let body = password("bob", r#"{"OS-TRUST:trust":{"id":"{{trust}}"}}"#);
    let got = world.ask("anonymous", "trustee's session", Ask::new("POST", "/v3/auth/tokens").body(body));
    admit(world, "trustee's session", &got);
    // The requests to `/ec2tokens` and `/s3tokens` name this EC2 key. Its access key is fixed, because these requests must be the same in each run.
    let blob = json!({ "access": "an-access-key", "secret": "a secret of nobody" }).to_string();
    let key = json!({ "credential": { "type": "ec2", "blob": blob, "project_id": "{{project p}}", "user_id": "{{user alice}}" } });
    let got = world.ask("member's session", "EC2 key", Ask::new("POST", "/v3/credentials").json(&key));
    world.house.name_made("credential", &got, "credential");
    let form = "username=admin@Default&password=the password of admin".replace(' ', "+");
    let ask = Ask::new("POST", "/api2/json/access/ticket")
        .with("Content-Type", "application/x-www-form-urlencoded")
        .body(form);
    let got = world.ask("anonymous", "login ticket", ask);
    let data = got.json()["data"].clone();
    let text = |name: &str| data[name].as_str().unwrap_or_default().to_owned();
    let cookie = format!("PBSAuthCookie={}", text("ticket"));
    let csrf = text("CSRFPreventionToken");
    world.house.name("ticket", &text("ticket"));
    world.house.admit("ticket", &[("Cookie", &cookie), ("CSRFPreventionToken", &csrf)]);
    world.house.admit("ticket without CSRF token", &[("Cookie", &cookie)]);
    world.house.admit("password", &[("Authorization", &basic("alice@corp:the password of alice"))]);
}

pub(super) fn password(user: &str, scope: &str) -> String {
    format!(
        r#"{{"auth":{{"identity":{{"methods":["password"],"password":{{"user":{{"id":"{{{{user {user}}}}}","password":"the password of {user}"}}}}}},"scope":{scope}}}}}"#
    )
}

fn made_trust() -> Value {
    json!({ "trust": {
        "trustor_user_id": "{{user alice}}", "trustee_user_id": "{{user bob}}", "project_id": "{{project p}}",
        "impersonation": false, "roles": [{ "name": "member" }],
    } })
}

/// The text in base64, as in the field `Authorization` (RFC 7617).
pub(super) fn basic(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut said = "Basic ".to_owned();
    for three in text.as_bytes().chunks(3) {
        let bits =
            three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for at in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * at) & 63) as usize];
            said.push(if at > three.len() { '=' } else { char::from(digit) });
        }
    }
    said
}

/// From now on, the caller with this name sends the token of the answer.
fn admit(world: &mut World, caller: &str, got: &Got) {
    let token = got
        .field("x-subject-token")
        .unwrap_or_else(|| panic!("{caller}: {}", String::from_utf8_lossy(&got.body)));
    world.house.name(&format!("token of {caller}"), token);
    world.house.admit(caller, &[("X-Auth-Token", token)]);
}

pub(super) fn ask(world: &mut World) {
    world.group("keystone login bodies");
    for (name, body) in LOGINS {
        world.ask("anonymous", name, Ask::new("POST", "/v3/auth/tokens").body(*body));
    }
    reads(world);
    lists(world);
    subjects(world);
}

pub(super) fn change(world: &mut World) {
    changes(world);
    bodies(world);
}

fn reads(world: &mut World) {
    for path in READS {
        let group = path.split('/').nth(1).unwrap_or("v3").split('?').next().unwrap_or_default();
        world.group(&format!("keystone reads {group}"));
        for caller in READERS {
            world.ask(caller, &format!("{path} {caller}"), Ask::new("GET", &format!("/v3{path}")));
        }
        world.ask("admin's session", &format!("HEAD {path}"), Ask::new("HEAD", &format!("/v3{path}")));
        world.ask_by(
            Way::Http2,
            "admin's session",
            &format!("HTTP/2 {path}"),
            Ask::new("GET", &format!("/v3{path}")),
        );
        if path.contains("{{") {
            for (kind, absent) in [("absent", "0000000000000000000000000000ffff"), ("no id", "no-id")] {
                let target = with_absent(path, absent);
                for caller in ["admin's session", "member's session", "domain reader's session"] {
                    world.ask(
                        caller,
                        &format!("{kind} {path} {caller}"),
                        Ask::new("GET", &format!("/v3{target}")),
                    );
                }
            }
        }
    }
}

/// The path, with its last id replaced by another id.
fn with_absent(path: &str, absent: &str) -> String {
    let begin = path.rfind("{{").unwrap();
    let end = begin + path[begin..].find("}}").unwrap() + 2;
    format!("{}{absent}{}", &path[..begin], &path[end..])
}

fn lists(world: &mut World) {
    world.group("keystone queries");
    for (path, queries) in QUERIES {
        for query in *queries {
            for caller in ["admin's session", "domain reader's session"] {
                let target = format!("{path}?{query}");
                world.ask(caller, &format!("{target} {caller}"), Ask::new("GET", &format!("/v3{target}")));
            }
        }
    }
}

/// Sends requests about other tokens (`X-Subject-Token`).
fn subjects(world: &mut World) {
    world.group("keystone subjects");
    for about in [
        "member's session",
        "unscoped session",
        "system admin's session",
        "credential's session",
        "trustee's session",
        "guest's session",
    ] {
        for caller in [
            "anonymous",
            "nobody's session",
            "member's session",
            "system reader's session",
            "service's session",
            "admin's session",
            "credential's session",
            "guest's session",
        ] {
            for (method, query) in
                [("GET", ""), ("HEAD", ""), ("GET", "?nocatalog"), ("GET", "?allow_expired=1")]
            {
                let ask = Ask::new(method, &format!("/v3/auth/tokens{query}"));
                let ask = ask.with("X-Subject-Token", &format!("{{{{token of {about}}}}}"));
                world.ask(caller, &format!("{method}{query} {about} for {caller}"), ask);
            }
        }
    }
    let long = "g".repeat(600);
    for (what, value) in [
        ("none", ""),
        ("garbage", "x"),
        ("of no key", "gAAAAABnothing"),
        ("long", long.as_str()),
        ("cut", "gAAAAA"),
    ] {
        for method in ["GET", "HEAD", "DELETE"] {
            let ask = Ask::new(method, "/v3/auth/tokens").with("X-Subject-Token", value);
            world.ask("admin's session", &format!("{method} {what}"), ask);
        }
    }
    for method in ["GET", "HEAD", "DELETE"] {
        world.ask("admin's session", &format!("{method} without"), Ask::new(method, "/v3/auth/tokens"));
    }
    for caller in ["nobody's session", "reader's session", "admin's session"] {
        let token = victim_token(world);
        for again in ["first", "again"] {
            let ask = Ask::new("DELETE", "/v3/auth/tokens").with("X-Subject-Token", &token);
            world.ask(caller, &format!("DELETE {again} by {caller}"), ask);
        }
    }
}

fn victim_token(world: &mut World) -> String {
    let got = world
        .quietly("anonymous", Ask::new("POST", "/v3/auth/tokens").body(password("ann", r#""unscoped""#)));
    let token = got.field("x-subject-token").unwrap().to_owned();
    world.know(token.trim_end_matches('='), "a token of ann's");
    token
}

/// Sends every call that changes something, as every caller. The records that a request uses are created for it, or are left by a refused request
/// with the same method and path.
fn changes(world: &mut World) {
    for (method, path, body) in CHANGES {
        let group = path.split('/').nth(1).unwrap_or_default();
        world.group(&format!("keystone changes {group}"));
        let mut fresh = false;
        for caller in CHANGERS {
            let used = format!("{path} {body}");
            if !fresh {
                make_victims(world, &used);
            }
            let ask = Ask::new(method, &format!("/v3{path}"));
            let ask =
                if body.is_empty() { ask } else { ask.with("Content-Type", "application/json").body(*body) };
            let got = world.ask(caller, &format!("{method} {path} {caller}"), ask.clone());
            fresh = !(200..300).contains(&got.status);
            if caller == "admin's session" {
                world.ask(caller, &format!("{method} {path} once more"), ask);
                make_victims(world, &used);
                if path.contains("{{") {
                    let target = with_absent(path, "0000000000000000000000000000ffff");
                    let ask = Ask::new(method, &format!("/v3{target}")).body(*body);
                    world.ask(caller, &format!("{method} {target} of what is absent, for {path}"), ask);
                }
            }
        }
    }
}

/// Records that a changing request needs: name, creator (the administrator or alice), path, kind, and body of the request that creates the record. If
/// the path contains `NAME`, PUT creates the record. In the path and in the body, `NAME` stands for a new name.
const VICTIMS: [(&str, &str, &str, &str, &str); 21] = [
    (
        "new user",
        "admin's session",
        "/v3/users",
        "user",
        r#"{"user":{"name":"NAME","domain_id":"{{domain corp}}"}}"#,
    ),
    (
        "new project",
        "admin's session",
        "/v3/projects",
        "project",
        r#"{"project":{"name":"NAME","domain_id":"{{domain corp}}","tags":["old"]}}"#,
    ),
    (
        "new group",
        "admin's session",
        "/v3/groups",
        "group",
        r#"{"group":{"name":"NAME","domain_id":"{{domain corp}}"}}"#,
    ),
    (
        "new domain",
        "admin's session",
        "/v3/domains",
        "domain",
        r#"{"domain":{"name":"NAME","enabled":false}}"#,
    ),
    ("new role", "admin's session", "/v3/roles", "role", r#"{"role":{"name":"NAME"}}"#),
    (
        "new service",
        "admin's session",
        "/v3/services",
        "service",
        r#"{"service":{"type":"new","name":"NAME"}}"#,
    ),
    (
        "new endpoint",
        "admin's session",
        "/v3/endpoints",
        "endpoint",
        r#"{"endpoint":{"service_id":"00000000000000000000000000005001","interface":"admin","url":"http://new.example/NAME"}}"#,
    ),
    ("new region", "admin's session", "/v3/regions", "region", r#"{"region":{"id":"NAME"}}"#),
    (
        "new registered limit",
        "admin's session",
        "/v3/registered_limits",
        "registered_limits",
        r#"{"registered_limits":[{"service_id":"00000000000000000000000000005001","resource_name":"NAME","default_limit":5}]}"#,
    ),
    (
        "new limit",
        "admin's session",
        "/v3/limits",
        "limits",
        r#"{"limits":[{"project_id":"{{project p}}","service_id":"00000000000000000000000000005001","resource_name":"NAME","resource_limit":5}]}"#,
    ),
    (
        "new policy",
        "admin's session",
        "/v3/policies",
        "policy",
        r#"{"policy":{"type":"application/json","blob":"NAME"}}"#,
    ),
    (
        "new endpoint group",
        "admin's session",
        "/v3/OS-EP-FILTER/endpoint_groups",
        "endpoint_group",
        r#"{"endpoint_group":{"name":"NAME","filters":{"interface":"public"}}}"#,
    ),
    (
        "new identity provider",
        "admin's session",
        "/v3/OS-FEDERATION/identity_providers/NAME",
        "identity_provider",
        r#"{"identity_provider":{"domain_id":"{{domain corp}}"}}"#,
    ),
    (
        "new mapping",
        "admin's session",
        "/v3/OS-FEDERATION/mappings/NAME",
        "mapping",
        r#"{"mapping":{"rules":[{"local":[],"remote":[{"type":"REMOTE_USER"}]}]}}"#,
    ),
    (
        "new service provider",
        "admin's session",
        "/v3/OS-FEDERATION/service_providers/NAME",
        "service_provider",
        r#"{"service_provider":{"auth_url":"https://new.example/v3","sp_url":"https://new.example/sp"}}"#,
    ),
    (
        "new consumer",
        "admin's session",
        "/v3/OS-OAUTH1/consumers",
        "consumer",
        r#"{"consumer":{"description":"NAME"}}"#,
    ),
    (
        "new credential",
        "admin's session",
        "/v3/credentials",
        "credential",
        r#"{"credential":{"type":"cert","blob":"NAME","user_id":"{{user alice}}"}}"#,
    ),
    (
        "new application credential",
        "member's session",
        "/v3/users/{{user alice}}/application_credentials",
        "application_credential",
        r#"{"application_credential":{"name":"NAME","roles":[{"name":"member"}]}}"#,
    ),
    (
        "new trust",
        "member's session",
        "/v3/OS-TRUST/trusts",
        "trust",
        r#"{"trust":{"trustor_user_id":"{{user alice}}","trustee_user_id":"{{user bob}}","project_id":"{{project p}}","impersonation":true,"roles":[{"name":"member"}]}}"#,
    ),
    (
        "new EC2 key",
        "member's session",
        "/v3/users/{{user alice}}/credentials/OS-EC2",
        "credential",
        r#"{"tenant_id":"{{project p}}"}"#,
    ),
    (
        "new access rule",
        "member's session",
        "/v3/users/{{user alice}}/application_credentials",
        "application_credential",
        r#"{"application_credential":{"name":"NAME","access_rules":[{"service":"compute","method":"GET","path":"/NAME"}]}}"#,
    ),
];

/// Creates the records that a request uses, each with a new name.
fn make_victims(world: &mut World, used: &str) {
    for (what, caller, path, kind, body) in VICTIMS {
        if !used.contains(&format!("{{{{{what}}}}}")) {
            continue;
        }
        let name = world.house.next_name();
        if what == "new limit" {
            // A limit needs a registered limit of the same resource.
            let (_, _, path, _, body) =
                VICTIMS.iter().find(|(what, ..)| *what == "new registered limit").unwrap();
            let ask = Ask::new("POST", path)
                .with("Content-Type", "application/json")
                .body(body.replace("NAME", &name));
            world.quietly(caller, ask);
        }
        let method = if path.contains("NAME") { "PUT" } else { "POST" };
        let ask = Ask::new(method, &path.replace("NAME", &name))
            .with("Content-Type", "application/json")
            .body(body.replace("NAME", &name));
        let got = world.quietly(caller, ask);
        assert_eq!(got.status, 201, "{what}: {}", String::from_utf8_lossy(&got.body));
        let made = &got.json()[kind];
        let id = match what {
            "new EC2 key" => &made["access"],
            "new registered limit" | "new limit" => &made[0]["id"],
            "new access rule" => &made["access_rules"][0]["id"],
            _ => &made["id"],
        };
        let id = id.as_str().unwrap().to_owned();
        world.know(&id, &format!("{what} {name}"));
        world.house.name(what, &id);
        if what == "new access rule" {
            // The access rule can be deleted only when no credential has it.
            let credential = made["id"].as_str().unwrap();
            let path = format!("/v3/users/{{{{user alice}}}}/application_credentials/{credential}");
            world.quietly(caller, Ask::new("DELETE", &path));
        }
    }
}

/// Sends requests that create or change records, with valid and invalid bodies.
fn bodies(world: &mut World) {
    for (method, path, caller, bodies) in BODIES {
        world.group(&format!("keystone bodies {method} {}", path.replace("{{", "").replace("}}", "")));
        for (nth, body) in bodies.iter().enumerate() {
            make_victims(world, &format!("{path} {body}"));
            let ask =
                Ask::new(method, &format!("/v3{path}")).with("Content-Type", "application/json").body(*body);
            let short: String = body.chars().take(60).collect();
            world.ask(caller, &format!("{nth} {short}"), ask);
        }
    }
}

/// Checks that every call of `identity-v3.openapi.json` was requested.
pub(super) fn covers_the_document(asked: &[(String, String)]) {
    let document = include_str!("../../docs/identity-v3.openapi.json");
    let document: Value = serde_json::from_str(document).unwrap();
    let is_of = |template: &str, target: &str| {
        let (template, target): (Vec<_>, Vec<_>) =
            (template.split('/').collect(), target.split('/').collect());
        let fits = |(part, given): (&&str, &&str)| part.starts_with('{') || part == given;
        template.len() == target.len() && template.iter().zip(&target).all(fits)
    };
    let mut missing = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys().filter(|method| *method != "parameters") {
            let method = method.to_uppercase();
            if !asked.iter().any(|(verb, target)| *verb == method && is_of(path, target)) {
                missing.push(format!("{method} {path}"));
            }
        }
    }
    assert!(
        missing.is_empty(),
        "no request tests these calls of the Identity API: add them to keystone_calls.rs: {missing:#?}"
    );
}
