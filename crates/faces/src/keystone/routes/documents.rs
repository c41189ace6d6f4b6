//! What is written down of the table: an OpenAPI document and a page. A test holds both to it; `UPDATE_EXPECT=1` writes them
//! anew.

use super::{V3, V3Need, V3Route};
use enfilade_passage::rule_named;
use expect_test::expect_file;
use serde_json::{Map, Value, json};

fn parameters(route: &V3Route) -> Vec<Value> {
    let in_path = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let text = json!({ "type": "string" });
    let mut all: Vec<Value> = in_path
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": text.clone() }))
        .collect();
    let is_about_a_token = route.path == "/auth/tokens" && route.need == V3Need::Session;
    if is_about_a_token {
        all.push(
            json!({ "name": "X-Subject-Token", "in": "header", "required": true, "schema": text.clone() }),
        );
    }
    for (method, path, names) in [
        ("GET", "/auth/tokens", ["nocatalog", "allow_expired"].as_slice()),
        ("POST", "/auth/tokens", &["nocatalog"]),
        ("DELETE", "/auth/tokens", &["cascade"]),
        ("GET", "/OS-REVOKE/events", &["since"]),
        ("GET", "/users/{user_id}/application_credentials", &["name"]),
    ] {
        if (route.method, route.path) == (method, path) {
            all.extend(
                names.iter().map(|name| json!({ "name": name, "in": "query", "schema": text.clone() })),
            );
        }
    }
    all
}

fn answers(route: &V3Route) -> Value {
    let status = match (route.method, route.path) {
        ("POST", _) => "201",
        ("DELETE", _) => "204",
        _ => "200",
    };
    let mut answers = Map::new();
    answers.insert(status.to_owned(), json!({ "description": route.says }));
    for (status, says, counts) in [
        ("400", "the body or a parameter cannot be read", route.method == "POST"),
        ("401", "no credential, or one that is good no longer", !route.path.is_empty()),
        ("403", "the session's roles do not allow it", route.need == V3Need::Session),
        ("404", "what is asked about is not there, or is good no longer", route.need == V3Need::Session),
        (
            "429",
            "too many attempts from this address failed",
            route.need == V3Need::Nobody && !route.path.is_empty(),
        ),
        ("503", "too busy, or the facts cannot be read", true),
    ] {
        if counts {
            let body = json!({ "application/json": { "schema": { "$ref": "#/components/schemas/Error" } } });
            answers.insert(status.to_owned(), json!({ "description": says, "content": body }));
        }
    }
    Value::Object(answers)
}

fn openapi() -> Value {
    let mut paths = Map::new();
    for route in V3 {
        let mut call = json!({
            "summary": route.says, "operationId": format!("{}_{}", route.method.to_ascii_lowercase(), route.relation()),
            "parameters": parameters(route), "responses": answers(route),
        });
        if let (V3Need::Session, Some(map)) = (route.need, call.as_object_mut()) {
            map.insert("security".to_owned(), json!([{ "token": [] }]));
        }
        let path = paths.entry(format!("/v3{}", route.path)).or_insert_with(|| json!({}));
        path[route.method.to_ascii_lowercase()] = call;
    }
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Enfilade: Identity v3", "version": "3.14" },
        "paths": paths,
        "components": {
            "securitySchemes": { "token": { "type": "apiKey", "in": "header", "name": "X-Auth-Token" } },
            "schemas": { "Error": {
                "type": "object",
                "properties": { "error": { "type": "object", "properties": {
                    "code": { "type": "integer" }, "message": { "type": "string" }, "title": { "type": "string" },
                } } },
            } },
        },
    })
}

fn page() -> String {
    let mut text = "# The calls of Identity v3\n\nWritten from `crates/faces/src/keystone/routes.rs`, as [identity-v3.openapi.json](identity-v3.openapi.json) is; who may is \
                    in [keystone.md](keystone.md).\n\n| call | any of | for |\n|---|---|---|\n"
        .to_owned();
    for route in V3 {
        let needs = match route.need {
            V3Need::Nobody => "nothing".to_owned(),
            V3Need::Session => match rule_named(route.rule) {
                Some(rule) => rule.who.iter().map(|who| who.says()).collect::<Vec<_>>().join(", "),
                None => "a session".to_owned(),
            },
        };
        text.push_str(&format!("| `{} /v3{}` | {needs} | {} |\n", route.method, route.path, route.says));
    }
    text
}

#[test]
fn what_is_written_down_is_the_table() {
    let document = serde_json::to_string_pretty(&openapi()).unwrap();
    expect_file!["../../../../../docs/identity-v3.openapi.json"].assert_eq(&format!("{document}\n"));
    expect_file!["../../../../../docs/identity-v3.md"].assert_eq(&page());
}

/// Every rule Keystone 30 routes by, as it prints them.
const KEYSTONE: &str = include_str!("keystone-30.txt");

/// What is not here of it, by how its paths begin, and why.
const ELSEWHERE: [(&str, &str); 18] = [
    ("/static/", "not applicable: pages of its own"),
    ("/v3/OS-EP-FILTER", "planned: every project sees the whole catalog"),
    ("/v3/OS-FEDERATION", "planned: nobody comes in by another identity provider yet"),
    ("/v3/auth/OS-FEDERATION", "planned: nobody comes in by another identity provider yet"),
    ("/v3/OS-OAUTH1", "not applicable: OAuth 1.0a; application credentials and trusts lend what it lent"),
    (
        "/v3/users/{}/OS-OAUTH1",
        "not applicable: OAuth 1.0a; application credentials and trusts lend what it lent",
    ),
    ("/v3/OS-OAUTH2", "planned: client credentials; an application credential is taken as it is"),
    ("/v3/OS-SIMPLE-CERT", "not applicable: there are no PKI tokens"),
    ("/v3/auth/tokens/OS-PKI", "not applicable: there are no PKI tokens"),
    ("/v3/domains/config", "not applicable: a domain has no driver of its own to configure"),
    ("/v3/domains/{}/config", "not applicable: a domain has no driver of its own to configure"),
    ("/v3/ec2tokens", "planned: EC2 keys are kept, signatures by them are not checked yet"),
    ("/v3/s3tokens", "planned: EC2 keys are kept, signatures by them are not checked yet"),
    ("/v3/endpoints/{}/OS-ENDPOINT-POLICY", "not applicable: policies of other services are not kept here"),
    ("/v3/policies", "not applicable: policies of other services are not kept here"),
    ("/v3/limits", "planned: limits of other services"),
    ("/v3/registered_limits", "planned: limits of other services"),
    (
        "/v3/users/{}/tokens",
        "not applicable: never documented; `openstack token revoke`, or disable the user",
    ),
];

fn plain(path: &str) -> String {
    let parts = path.split('/').map(|part| if part.starts_with(['<', '{']) { "{}" } else { part });
    parts.collect::<Vec<_>>().join("/")
}

fn rules() -> String {
    let ours: Vec<(String, &str)> =
        V3.iter().map(|route| (plain(&format!("/v3{}", route.path)), route.method)).collect();
    let mut text = "| rule | here |\n|---|---|\n".to_owned();
    for line in KEYSTONE.lines() {
        let (methods, path) = line.split_once(' ').unwrap();
        let plain_path = plain(path);
        let has = |method: &str| {
            let is = |one: &str| ours.iter().any(|(path, method)| *path == plain_path && *method == one);
            path == "/" || is(method) || method == "HEAD" && is("GET")
        };
        let missing: Vec<&str> = methods.split(',').filter(|method| !has(method)).collect();
        let reason =
            ELSEWHERE.iter().find(|(begin, _)| plain_path.starts_with(begin)).map(|(_, reason)| *reason);
        let here = match (missing.as_slice(), reason) {
            ([], _) => "implemented".to_owned(),
            // Its framework answers these on every path of a kind, with 405.
            (some, _) if some.len() < methods.split(',').count() => {
                format!("implemented but for {}", some.join(", "))
            }
            (_, Some(reason)) => reason.to_owned(),
            (_, None) => panic!("`{line}` has no row: implement it, or say in ELSEWHERE why it is not here"),
        };
        let path = path.replace('<', "{").replace('>', "}").replace("string:", "").replace("path:", "");
        text.push_str(&format!("| `{methods} {path}` | {here} |\n"));
    }
    text
}

const RULES_BEGIN: &str = "<!-- the rules, written by the test `every_rule_has_its_row` -->\n";

#[test]
fn every_rule_has_its_row() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/keystone.md");
    let text = std::fs::read_to_string(&page).unwrap();
    let (before, written) = text.split_once(RULES_BEGIN).expect("docs/keystone.md has its mark");
    let expected = rules();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&page, format!("{before}{RULES_BEGIN}{expected}")).unwrap();
    } else {
        assert_eq!(written, expected, "run with UPDATE_EXPECT=1");
    }
}
