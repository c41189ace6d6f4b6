//! Texts with as many characters as Keystone allows, with blanks at their ends, and a parameter with a percent-encoded name.

use crate::world::{Row, World, none};
use enfilade_admin::LimitModel;
use serde_json::json;

#[tokio::test]
#[rustfmt::skip]
async fn characters_count_and_not_bytes() {
    let project = |tag: &str| json!({ "project": { "name": "tagged", "tags": [tag] } });
    let credential = |kind: &str| json!({ "credential": { "type": kind, "blob": "x", "user_id": "<admin>" } });
    let service = |kind: &str, name: &str| json!({ "service": { "type": kind, "name": name } });
    let (longest, longer) = ("名".repeat(255), "名".repeat(256));
    let rows: Vec<Row> = vec![
        ("admin", "POST", "/v3/projects", project(&longer), 400, &["255 characters"]),
        ("admin", "POST", "/v3/projects", project(""), 400, &["255 characters"]),
        ("admin", "POST", "/v3/projects", project(&longest), 201, &["名名"]),
        ("admin", "PUT", "/v3/projects/<a>/tags", json!({ "tags": [" red ", "red"] }), 200, &["\"tags\":[\"red\"]"]),
        ("admin", "PUT", "/v3/projects/<a>/tags/%20blue%20", none(), 201, &[]),
        ("admin", "GET", "/v3/projects/<a>/tags", none(), 200, &["[\"red\",\"blue\"]"]),
        ("admin", "POST", "/v3/credentials", credential(&longer), 400, &["255 characters"]),
        ("admin", "POST", "/v3/credentials", credential(&longest), 201, &["名名"]),
        ("admin", "POST", "/v3/services", service(&longer, "a"), 400, &["the service type's name"]),
        ("admin", "POST", "/v3/services", service("a", &longer), 400, &["the service's name"]),
        ("admin", "POST", "/v3/services", service(&longest, &longest), 201, &["名名"]),
        ("admin", "POST", "/v3/services", service(" ", "a"), 400, &["the service type's name"]),
        ("admin", "POST", "/v3/services", service(" a ", " b "), 201, &["\"type\":\" a \"", "\"name\":\" b \""]),
    ];
    World::new(LimitModel::Flat).await.hold(&rows).await;
}

#[tokio::test]
#[rustfmt::skip]
async fn inherited_assignments_are_listed_alone() {
    const ALONE: &[&str] = &["\"domain\":{\"id\":\"<elsewhere>\"", "!\"project\":{\"id\":\"<a>\""];
    const OTHERS: &[&str] = &["\"project\":{\"id\":\"<a>\"", "!\"domain\":{\"id\":\"<elsewhere>\""];
    let below = "/v3/OS-INHERIT/domains/<elsewhere>/users/<member>/roles/<readers>/inherited_to_projects";
    let rows: Vec<Row> = vec![
        ("admin", "GET", "/v3/roles?name=reader -> readers", none(), 200, &[]),
        ("admin", "PUT", below, none(), 204, &[]),
        // Clients percent-encode the colon.
        ("admin", "GET", "/v3/role_assignments?user.id=<member>&scope.OS-INHERIT%3Ainherited_to=projects", none(), 200, ALONE),
        ("admin", "GET", "/v3/role_assignments?user.id=<member>&scope.OS-INHERIT:inherited_to=projects", none(), 200, ALONE),
        ("admin", "GET", "/v3/role_assignments?user.id=<member>&scope.OS-INHERIT:inherited_to=none", none(), 200, OTHERS),
    ];
    World::new(LimitModel::Flat).await.hold(&rows).await;
}
