//! The OpenAPI document that is generated from the table. A test compares the stored document with the table. If `UPDATE_EXPECT=1` is set, the test
//! replaces the stored document.

use super::super::resource::Resource as _;
use super::super::schema::{Schema, Type};
use super::{NOT_SERVED, V3, V3Need, V3Route, is_below};
use enfilade_facts::tables::{
    Blob, Consumer, Domain, Endpoint, EndpointGroup, Group, IdentityProvider, Limit, Mapping, NamedRole,
    Policy, Project, Protocol, Region, RegisteredLimit, Service, ServiceProvider, User,
};
use enfilade_passage::rule_named;
use expect_test::expect_file;
use serde_json::{Map, Value, json};

fn parameters(route: &V3Route) -> Vec<Value> {
    let in_path = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let text = json!({ "type": "string" });
    let mut all: Vec<Value> = in_path
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": text.clone() }))
        .collect();
    if route.path == "/OS-OAUTH1/request_token" {
        let schema = text.clone();
        all.push(
            json!({ "name": "Requested-Project-Id", "in": "header", "required": true, "schema": schema }),
        );
    }
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
    let lists_scopes = ["/OS-FEDERATION/projects", "/OS-FEDERATION/domains"].contains(&route.path);
    if route.method == "GET" && kind(route.path).is_some() && !route.path.ends_with('}') && !lists_scopes {
        let number = json!({ "type": "integer", "minimum": 1 });
        all.push(json!({ "name": "limit", "in": "query", "schema": number }));
        all.push(json!({ "name": "marker", "in": "query", "schema": text.clone() }));
    }
    all
}

/// The kinds of resources. For each kind, the name of its collection in paths.
const SCHEMAS: [(&str, Schema); 24] = [
    ("domains", Domain::SCHEMA),
    ("projects", Project::SCHEMA),
    ("users", User::SCHEMA),
    ("groups", Group::SCHEMA),
    ("roles", NamedRole::SCHEMA),
    ("services", Service::SCHEMA),
    ("endpoints", Endpoint::SCHEMA),
    ("regions", Region::SCHEMA),
    ("credentials", Blob::SCHEMA),
    ("registered_limits", RegisteredLimit::SCHEMA),
    ("limits", Limit::SCHEMA),
    ("policies", Policy::SCHEMA),
    ("endpoint_groups", EndpointGroup::SCHEMA),
    ("identity_providers", IdentityProvider::SCHEMA),
    ("protocols", Protocol::SCHEMA),
    ("mappings", Mapping::SCHEMA),
    ("service_providers", ServiceProvider::SCHEMA),
    ("consumers", Consumer::SCHEMA),
    (
        "access_tokens",
        Schema {
            one: "access_token",
            many: "access_tokens",
            attributes: &[
                ("id", Type::Text, Type::None),
                ("consumer_id", Type::Text, Type::None),
                ("authorizing_user_id", Type::Text, Type::None),
                ("project_id", Type::Text, Type::None),
                ("expires_at", Type::Text, Type::None),
                ("links", Type::Object, Type::None),
            ],
        },
    ),
    (
        "application_credentials",
        Schema {
            one: "application_credential",
            many: "application_credentials",
            attributes: &[
                ("id", Type::Text, Type::None),
                ("name", Type::Text, Type::Text),
                ("project_id", Type::Text, Type::None),
                ("roles", Type::List, Type::None),
                ("unrestricted", Type::Flag, Type::Flag),
                ("expires_at", Type::TextOrNull, Type::TextOrNull),
                ("links", Type::Object, Type::None),
                ("description", Type::None, Type::TextOrNull),
            ],
        },
    ),
    (
        "access_rules",
        Schema {
            one: "access_rule",
            many: "access_rules",
            attributes: &[
                ("id", Type::Text, Type::None),
                ("service", Type::Text, Type::None),
                ("method", Type::Text, Type::None),
                ("path", Type::Text, Type::None),
                ("links", Type::Object, Type::None),
            ],
        },
    ),
    (
        "trusts",
        Schema {
            one: "trust",
            many: "trusts",
            attributes: &[
                ("id", Type::Text, Type::None),
                ("trustor_user_id", Type::Text, Type::Text),
                ("trustee_user_id", Type::Text, Type::Text),
                ("project_id", Type::Text, Type::TextOrNull),
                ("impersonation", Type::Flag, Type::Flag),
                ("roles", Type::List, Type::List),
                ("expires_at", Type::TextOrNull, Type::TextOrNull),
                ("links", Type::Object, Type::None),
            ],
        },
    ),
    (
        "OS-EC2",
        Schema {
            one: "credential",
            many: "credentials",
            attributes: &[
                ("access", Type::Text, Type::None),
                ("secret", Type::Text, Type::None),
                ("user_id", Type::Text, Type::None),
                ("tenant_id", Type::TextOrNull, Type::None),
                ("trust_id", Type::TextOrNull, Type::None),
                ("links", Type::Object, Type::None),
            ],
        },
    ),
    (
        "role_assignments",
        Schema {
            one: "role_assignment",
            many: "role_assignments",
            attributes: &[
                ("role", Type::Object, Type::None),
                ("scope", Type::Object, Type::None),
                ("links", Type::Object, Type::None),
            ],
        },
    ),
];

/// The schema of an object in a response: the attributes that every response has.
fn shown(schema: &Schema) -> Value {
    object(schema.attributes.iter().map(|(name, shown, _)| (*name, *shown)), true)
}

/// The schema of an object in a request.
fn taken(schema: &Schema) -> Value {
    object(schema.attributes.iter().map(|(name, _, taken)| (*name, *taken)), false)
}

fn object<'a>(attributes: impl IntoIterator<Item = (&'a str, Type)>, needed: bool) -> Value {
    let (mut properties, mut names) = (Map::new(), Vec::new());
    for (name, its) in attributes {
        let schema = match its {
            Type::None => continue,
            Type::Text => json!({ "type": "string" }),
            Type::TextOrNull => json!({ "type": ["string", "null"] }),
            Type::Flag => json!({ "type": "boolean" }),
            Type::Number => json!({ "type": "integer" }),
            Type::NumberOrNull => json!({ "type": ["integer", "null"] }),
            Type::Texts => json!({ "type": "array", "items": { "type": "string" } }),
            Type::List => json!({ "type": "array", "items": { "type": "object" } }),
            Type::Object => json!({ "type": "object" }),
        };
        properties.insert(name.to_owned(), schema);
        names.push(name);
    }
    match needed {
        true => json!({ "type": "object", "properties": properties, "required": names }),
        false => json!({ "type": "object", "properties": properties }),
    }
}

/// The kind of resource of a path. The last segment of the path that is not a parameter is the name of the collection.
fn kind(path: &str) -> Option<&'static (&'static str, Schema)> {
    let words: Vec<&str> =
        path.split('/').filter(|part| !part.is_empty() && !part.starts_with('{')).collect();
    let last = words.last()?;
    SCHEMAS.iter().find(|(collection, _)| collection == last)
}

/// Whether the creator of a record chooses its id in the path.
fn has_chosen_id(path: &str) -> bool {
    path == "/regions/{region_id}" || path.starts_with("/OS-FEDERATION/")
}

/// Whether a path is about the configuration of a domain.
fn is_config(path: &str) -> bool {
    path.starts_with("/domains/config/") || path.starts_with("/domains/{domain_id}/config")
}

/// The status and the schema of a successful response.
fn good(route: &V3Route) -> (u16, Option<Value>) {
    let ends_with_one = route.path.ends_with('}');
    let many = |name: &str, items: Value| {
        let properties = json!({ name: { "type": "array", "items": items }, "links": { "type": "object" } });
        json!({ "type": "object", "properties": properties, "required": [name, "links"] })
    };
    let one = |name: &str, schema: Value| json!({ "type": "object", "properties": { name: schema }, "required": [name] });
    let is_membership = route.path.starts_with("/groups/{group_id}/users/");
    let is_delegated = route.path.starts_with("/OS-TRUST") || route.path.contains("/OS-OAUTH1/");
    let is_grant = route.path.contains("}/roles/{role_id}") && !is_delegated;
    let is_tag = route.path.contains("/tags");
    let has_associations =
        route.path.contains("OS-ENDPOINT-POLICY/") || route.path.starts_with("/OS-EP-FILTER/projects/");
    let is_association = has_associations && ends_with_one
        || route.path.starts_with("/OS-EP-FILTER/endpoint_groups/{endpoint_group_id}/projects/");
    let is_batch = ["/registered_limits", "/limits"].contains(&route.path) && route.method == "POST";
    match (route.method, route.path) {
        ("GET", "") => (200, None),
        ("HEAD", path) => (if path.contains("/implies/") { 204 } else { 200 }, None),
        ("DELETE", _) | ("POST", "/users/{user_id}/password") => (204, None),
        ("PUT" | "GET", _) if is_membership || is_grant => (204, None),
        ("GET", "/OS-EP-FILTER/endpoint_groups/{endpoint_group_id}/projects/{project_id}") => {
            (200, Some(object([("project_endpoint_group", Type::Object)], true)))
        }
        ("PUT" | "GET", _) if is_association => (204, None),
        ("GET", "/endpoints/{endpoint_id}/OS-ENDPOINT-POLICY/policy") => {
            (200, Some(one("policy", shown(&Policy::SCHEMA))))
        }
        ("GET", "/limits/model") => (200, Some(object([("model", Type::Object)], true))),
        // The status for a new configuration is 201, and the status for a replaced configuration is 200.
        ("GET" | "PUT" | "PATCH", path) if is_config(path) => {
            (if route.method == "PUT" { 201 } else { 200 }, Some(object([("config", Type::Object)], true)))
        }
        ("POST", path) if is_batch => {
            let Some((_, schema)) = kind(path) else { return (201, None) };
            let list = json!({ "type": "array", "items": shown(schema) });
            let name = schema.many;
            (201, Some(json!({ "type": "object", "properties": { name: list }, "required": [name] })))
        }
        ("GET" | "PUT", path) if is_tag && !path.ends_with('}') => {
            (200, Some(object([("tags", Type::Texts)], true)))
        }
        ("GET", _) if is_tag => (204, None),
        ("PUT", _) if is_tag => (201, None),
        ("GET", "/role_inferences") => (200, Some(object([("role_inferences", Type::List)], true))),
        ("GET" | "PUT", path) if path.contains("/implies") => (
            if route.method == "PUT" { 201 } else { 200 },
            Some(object([("role_inference", Type::Object), ("links", Type::Object)], true)),
        ),
        ("GET", "/OS-FEDERATION/projects" | "/OS-FEDERATION/domains") => {
            (200, Some(json!({ "type": "object" })))
        }
        ("GET", path) if path.starts_with("/auth/") || path.starts_with("/OS-REVOKE") => {
            (200, Some(json!({ "type": "object" })))
        }
        ("POST", "/ec2tokens" | "/s3tokens") => (200, Some(object([("token", Type::Object)], true))),
        ("POST", "/OS-OAUTH1/request_token" | "/OS-OAUTH1/access_token") => (201, None),
        ("PUT", "/OS-OAUTH1/authorize/{request_token_id}") => {
            (200, Some(object([("token", Type::Object)], true)))
        }
        ("POST", CLIENT_CREDENTIALS) => {
            let told =
                [("access_token", Type::Text), ("token_type", Type::Text), ("expires_in", Type::Number)];
            (200, Some(object(told, true)))
        }
        ("POST", "/auth/tokens") => (201, Some(object([("token", Type::Object)], true))),
        (method, path) => {
            let status = if matches!(method, "POST" | "PUT") { 201 } else { 200 };
            let lists_roles = path.ends_with("/roles") || path.ends_with("inherited_to_projects");
            let schema = match kind(path) {
                _ if method == "GET" && lists_roles && path != "/roles" => many(
                    "roles",
                    object([("id", Type::Text), ("name", Type::TextOrNull), ("links", Type::Object)], true),
                ),
                Some((_, schema)) if method == "GET" && !ends_with_one => many(schema.many, shown(schema)),
                Some((_, schema)) => one(schema.one, shown(schema)),
                None => json!({ "type": "object" }),
            };
            (status, Some(schema))
        }
    }
}

/// The path of the only call that answers with the errors of OAuth 2.0. The body of its request is a form.
const CLIENT_CREDENTIALS: &str = "/OS-OAUTH2/token";

fn asked_for(route: &V3Route) -> Option<Value> {
    if route.path == CLIENT_CREDENTIALS {
        let form = object([("grant_type", Type::Text)], true);
        let content = json!({ "application/x-www-form-urlencoded": { "schema": form } });
        return Some(json!({ "required": true, "content": content }));
    }
    let schema = match (route.method, route.path) {
        ("POST", "/auth/tokens") => object([("auth", Type::Object)], true),
        ("POST", "/users/{user_id}/password") => {
            let user = object([("original_password", Type::Text), ("password", Type::Text)], true);
            json!({ "type": "object", "properties": { "user": user }, "required": ["user"] })
        }
        ("POST", "/ec2tokens" | "/s3tokens") => object([("credentials", Type::Object)], true),
        ("POST", path) if path.ends_with("OS-EC2") => object([("tenant_id", Type::TextOrNull)], false),
        ("PUT", "/OS-OAUTH1/authorize/{request_token_id}") => object([("roles", Type::List)], true),
        ("PUT", path) if path.ends_with("/tags") => object([("tags", Type::Texts)], true),
        ("PUT" | "PATCH", path) if is_config(path) => object([("config", Type::Object)], true),
        ("POST", path @ ("/registered_limits" | "/limits")) => {
            let (_, schema) = kind(path)?;
            let name = schema.many;
            let list = json!({ "type": "array", "items": taken(schema), "minItems": 1 });
            json!({ "type": "object", "properties": { name: list }, "required": [name] })
        }
        ("POST" | "PATCH" | "PUT", path) if route.method != "PUT" || has_chosen_id(path) => {
            let (_, schema) = kind(path)?;
            let name = schema.one;
            json!({ "type": "object", "properties": { name: taken(schema) }, "required": [name] })
        }
        _ => return None,
    };
    Some(json!({ "required": true, "content": { "application/json": { "schema": schema } } }))
}

fn operation(route: &V3Route) -> String {
    let path = route.path.trim_matches('/').replace(['/', '{', '}'], "_");
    format!("{}_{path}", route.method.to_ascii_lowercase())
}

/// The OpenAPI links from a created resource to the calls about this resource. The path of such a call consists of the path of the creating request
/// and the id of the resource. Further parts without a parameter can follow.
fn links(route: &V3Route) -> Map<String, Value> {
    let made = if route.method == "POST" { kind(route.path) } else { None };
    let Some((collection, Schema { one: name, .. })) = made.filter(|_| route.need == V3Need::Session) else {
        return Map::new();
    };
    let own = format!("{}/{{", route.path);
    let of_it = V3.iter().filter(|other| other.path.starts_with(&own));
    let mut links = Map::new();
    for other in of_it {
        let names: Vec<&str> =
            other.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).collect();
        let given = route.path.split('/').filter(|part| part.starts_with('{')).count();
        let [.., last] = names.as_slice() else { continue };
        if names.len() != given + 1 {
            continue;
        }
        // A request of these kinds creates several records, and its response contains a list. So the response has no links.
        if ["limits", "registered_limits"].contains(collection) {
            continue;
        }
        let id = if *collection == "OS-EC2" { "access" } else { "id" };
        let mut parameters = Map::new();
        for before in names.iter().take(given) {
            parameters.insert((*before).to_owned(), json!(format!("$request.path.{before}")));
        }
        parameters.insert((*last).to_owned(), json!(format!("$response.body#/{name}/{id}")));
        let operation = operation(other);
        links.insert(operation.clone(), json!({ "operationId": operation, "parameters": parameters }));
    }
    links
}

fn answers(route: &V3Route) -> Value {
    let mut answers = Map::new();
    let (status, schema) = good(route);
    let mut told = json!({ "description": route.says });
    if let Some(schema) = schema {
        told["content"] = json!({ "application/json": { "schema": schema } });
    }
    let links = links(route);
    if !links.is_empty() {
        told["links"] = Value::Object(links);
    }
    if route.method == "PUT" && is_config(route.path) {
        // The response for a configuration that replaces another configuration.
        answers.insert("200".to_owned(), told.clone());
    }
    answers.insert(status.to_string(), told);
    let is_public = route.need == V3Need::Nobody;
    for (status, says, counts) in [
        ("400", "the body or a parameter is malformed or invalid", true),
        ("401", "no valid credential", !route.path.is_empty()),
        (
            "403",
            "the session's roles or the state of the resource do not allow the call",
            !route.path.is_empty(),
        ),
        ("404", "the resource does not exist, or the token is no longer valid", !route.path.is_empty()),
        ("409", "the name or id is taken", matches!(route.method, "POST" | "PUT" | "PATCH")),
        (
            "413",
            "the body is larger than 112 KiB, or the record would be larger than 1 MiB",
            matches!(route.method, "POST" | "PUT" | "PATCH"),
        ),
        ("414", "the URL is longer than 8 KiB", true),
        ("429", "too many attempts from this address failed", is_public && !route.path.is_empty()),
        ("431", "the headers are longer than 32 KiB", true),
        (
            "501",
            "the request uses a feature of trusts that is not implemented",
            route.path.starts_with("/OS-TRUST") && route.method == "POST",
        ),
        ("503", "the server is overloaded, or the facts cannot be read", true),
    ] {
        if counts {
            let schema = match route.path {
                CLIENT_CREDENTIALS => {
                    object([("error", Type::Text), ("error_description", Type::Text)], true)
                }
                _ => json!({ "$ref": "#/components/schemas/Error" }),
            };
            let body = json!({ "application/json": { "schema": schema } });
            answers.insert(status.to_owned(), json!({ "description": says, "content": body }));
        }
    }
    Value::Object(answers)
}

fn openapi() -> Value {
    let mut paths = Map::new();
    for route in V3.iter() {
        let mut call = json!({
            "summary": route.says, "operationId": operation(route),
            "parameters": parameters(route), "responses": answers(route),
        });
        if let Some(body) = asked_for(route) {
            call["requestBody"] = body;
        }
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
                "type": "object", "required": ["error"],
                "properties": { "error": { "type": "object", "required": ["code", "message", "title"], "properties": {
                    "code": { "type": "integer" }, "message": { "type": "string" }, "title": { "type": "string" },
                } } },
            } },
        },
    })
}

#[test]
fn every_call_for_a_session_has_a_rule() {
    for route in V3.iter() {
        let has_rule = rule_named(route.rule).is_some();
        assert_eq!(has_rule, route.need == V3Need::Session, "{} {}", route.method, route.path);
    }
}

#[test]
fn what_is_written_down_is_the_table() {
    let document = serde_json::to_string_pretty(&openapi()).unwrap();
    expect_file!["../../../../docs/identity-v3.openapi.json"].assert_eq(&format!("{document}\n"));
}

/// All routing rules of Keystone 30, as Keystone prints them.
const KEYSTONE: &str = include_str!("keystone-30.txt");

/// Routing rules of Keystone for which this server answers 404. Each entry contains a prefix of paths, and the reason.
const ELSEWHERE: [(&str, &str); 3] = [
    ("/static/", "Keystone's own pages"),
    ("/v3/auth/tokens/OS-PKI", "PKI tokens are not supported"),
    (
        "/v3/users/{}/tokens",
        "Keystone does not document this call; run `openstack token revoke`, or disable the user",
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
        let elsewhere = ELSEWHERE.iter().find(|(begin, _)| plain_path.starts_with(begin));
        let not_served = || {
            let path = path.strip_prefix("/v3")?;
            NOT_SERVED.iter().find(|(above, _)| is_below(above, path))
        };
        let reason = elsewhere.or_else(not_served).map(|(_, reason)| *reason);
        let here = match (missing.as_slice(), reason) {
            ([], _) => "implemented".to_owned(),
            // Some rules that Keystone prints contain methods that Keystone itself answers only with an error. This server does not have these methods.
            (some, _) if some.len() < methods.split(',').count() => {
                format!("implemented, except {}", some.join(", "))
            }
            (_, Some(reason)) => format!("not served: {reason}"),
            (_, None) => {
                panic!("`{line}` has no row: implement it, or give the reason in NOT_SERVED or ELSEWHERE")
            }
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
    let (before, written) = text.split_once(RULES_BEGIN).expect("docs/keystone.md has no line `RULES_BEGIN`");
    let expected = rules();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&page, format!("{before}{RULES_BEGIN}{expected}")).unwrap();
    } else {
        assert_eq!(written, expected, "run with UPDATE_EXPECT=1");
    }
}
