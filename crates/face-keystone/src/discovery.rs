//! The API versions.

use super::json_home::home;
use super::{ApiResponse, Body};
use enfilade_faces::{Connection, list};
use hyper::StatusCode;
use hyper::header::{ACCEPT, HOST};
use hyper::http::request::Parts;
use serde_json::{Value, json};

/// The base URL with which the client reached this server.
pub(super) fn base(head: &Parts, connection: &Connection) -> String {
    let scheme = if connection.is_https { "https" } else { "http" };
    let host = head.uri.authority().map(|authority| authority.as_str());
    let host = host.or_else(|| head.headers.get(HOST).and_then(|host| host.to_str().ok()));
    // Only a `Host` that consists of a host and an optional port is copied into the response.
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
