//! The API versions, and the JSON-home document.

use super::routes::V3;
use super::{ApiResponse, Body};
use enfilade_faces::{Connection, list};
use hyper::StatusCode;
use hyper::header::{ACCEPT, HOST};
use hyper::http::request::Parts;
use serde_json::{Map, Value, json};

/// The base URL by which the client reached this server.
pub(super) fn base(head: &Parts, connection: &Connection) -> String {
    let scheme = if connection.is_https { "https" } else { "http" };
    let host = head.uri.authority().map(|authority| authority.as_str());
    let host = host.or_else(|| head.headers.get(HOST).and_then(|host| host.to_str().ok()));
    // A `Host` that is not a plain host and port is not copied into the response.
    let is_plain = |host: &&str| host.bytes().all(|b| b.is_ascii_alphanumeric() || b".-:[]".contains(&b));
    format!("{scheme}://{}", host.filter(is_plain).unwrap_or("localhost"))
}

fn described(base: &str) -> Value {
    json!({
        "id": "v3.14", "status": "stable", "updated": "2020-04-07T00:00:00Z",
        "links": [{ "rel": "self", "href": format!("{base}/v3/") }],
        "media-types": [{ "base": "application/json", "type": "application/vnd.openstack.identity-v3+json" }],
    })
}

pub(super) fn versions(base: &str) -> ApiResponse {
    ApiResponse::json(StatusCode::MULTIPLE_CHOICES, &json!({ "versions": { "values": [described(base)] } }))
}

pub(super) fn version(head: &Parts, base: &str) -> ApiResponse {
    let wants_home = list(&head.headers, ACCEPT)
        .is_some_and(|kinds| kinds.split(',').any(|kind| kind.trim() == "application/json-home"));
    match wants_home {
        true => ApiResponse {
            body: Body::from(home().to_string()),
            ..ApiResponse::json(StatusCode::OK, &Value::Null)
        },
        false => ApiResponse::json(StatusCode::OK, &json!({ "version": described(base) })),
    }
}

/// The JSON-home document (draft-nottingham-json-home-03), in Keystone's form.
fn home() -> Value {
    const DOCS: &str = "https://docs.openstack.org/api/openstack-identity/3";
    let mut resources = Map::new();
    for route in V3.iter().filter(|route| !route.path.is_empty()) {
        let relation = route.relation();
        let (group, relation) = match relation.strip_prefix("OS-REVOKE_") {
            Some(events) => ("/ext/OS-REVOKE/1.0", events.to_owned()),
            None => ("", relation.clone()),
        };
        let names = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        let variables: Map<_, _> =
            names.map(|name| (name.to_owned(), json!(format!("{DOCS}/param/{name}")))).collect();
        let entry = match variables.is_empty() {
            true => json!({ "href": route.path }),
            false => json!({ "href-template": route.path, "href-vars": variables }),
        };
        resources.insert(format!("{DOCS}{group}/rel/{}", relation), entry);
    }
    json!({ "resources": resources })
}
