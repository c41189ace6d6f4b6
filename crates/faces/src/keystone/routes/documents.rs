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
