//! Projects that act as domains, changed credentials, and regions.

use crate::world::{NOBODY, Row, World, endpoint, none};
use enfilade_admin::LimitModel;
use serde_json::{Value, json};

#[tokio::test]
#[rustfmt::skip]
async fn projects_that_act_as_domains() {
    let project = |body: Value| json!({ "project": body });
    let new = |more: Value| {
        let mut body = json!({ "name": "dom", "is_domain": true, "colour": "blue" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        project(body)
    };
    let own = "/v3/projects/<dom>";
    let rows: Vec<Row> = vec![
        ("admin", "POST", "/v3/projects", new(json!({ "parent_id": "<a>" })), 400, &["parent_id"]),
        ("admin", "POST", "/v3/projects", new(json!({ "domain_id": "default" })), 400, &["domain_id"]),
        ("member", "POST", "/v3/projects", new(json!({})), 403, &["not authorized"]),
        ("admin", "POST", "/v3/projects -> dom", new(json!({ "description": "words" })), 201, &["\"is_domain\":true", "\"domain_id\":null", "\"parent_id\":null", "blue", "words", "/v3/projects/"]),
        ("admin", "POST", "/v3/projects", new(json!({})), 409, &["dom"]),
        ("admin", "GET", "/v3/domains/<dom>", none(), 200, &["\"name\":\"dom\"", "blue", "!is_domain"]),
        ("admin", "GET", own, none(), 200, &["\"name\":\"dom\"", "\"is_domain\":true"]),
        ("admin", "GET", "/v3/projects", none(), 200, &["<a>", "!<dom>"]),
        ("admin", "GET", "/v3/projects?is_domain=true", none(), 200, &["<dom>", "\"id\":\"default\"", "!<a>"]),
        ("admin", "GET", "/v3/projects?is_domain=true&name=dom", none(), 200, &["<dom>", "!\"id\":\"default\""]),
        ("clerk", "GET", "/v3/projects?is_domain=true", none(), 200, &["\"projects\":[]"]),
        ("clerk", "GET", "/v3/projects/default", none(), 403, &[]),
        ("member", "GET", own, none(), 403, &[]),
        ("admin", "PATCH", own, project(json!({ "name": "renamed" })), 200, &["renamed", "\"is_domain\":true"]),
        ("admin", "PATCH", own, project(json!({ "is_domain": false })), 400, &["is_domain"]),
        ("admin", "PATCH", own, project(json!({ "parent_id": "<a>" })), 400, &["parent_id"]),
        ("admin", "PATCH", "/v3/projects/<a>", project(json!({ "is_domain": true })), 400, &["is_domain"]),
        ("member", "PATCH", own, project(json!({ "name": "mine" })), 403, &[]),
        ("admin", "DELETE", own, none(), 403, &["disable"]),
        ("admin", "PATCH", own, project(json!({ "enabled": false })), 200, &["\"enabled\":false"]),
        ("member", "DELETE", own, none(), 403, &[]),
        ("admin", "DELETE", own, none(), 204, &[]),
        ("admin", "GET", own, none(), 404, &["project"]),
        ("admin", "GET", "/v3/domains/<dom>", none(), 404, &[]),
    ];
    World::new(LimitModel::Flat).await.hold(&rows).await;
}

#[tokio::test]
#[rustfmt::skip]
async fn changed_credentials_and_regions() {
    let credential = |body: Value| json!({ "credential": body });
    let blob = |text: &str| credential(json!({ "blob": text }));
    let key = credential(json!({
        "type": "ec2", "user_id": "<admin>", "project_id": "<a>", "blob": r#"{"access":"k","secret":"s"}"#,
    }));
    let all = credential(json!({
        "type": "ec2", "user_id": "<admin>", "project_id": "<a>", "blob": r#"{"access":"k","secret":"third"}"#,
    }));
    let own = "/v3/credentials/<key>";
    let region = |parent: &str| json!({ "region": { "parent_region_id": parent } });
    let moved = |to: Value| json!({ "endpoint": to });
    let rows: Vec<Row> = vec![
        ("admin", "POST", "/v3/credentials -> key", key, 201, &[]),
        ("admin", "PATCH", own, blob(r#"{"access":"l","secret":"second"}"#), 200, &["<key>", "second"]),
        ("admin", "GET", own, none(), 200, &["second"]),
        // The client `openstack` sends all attributes.
        ("admin", "PATCH", own, all, 200, &["third"]),
        ("admin", "PATCH", own, credential(json!({})), 400, &["blob"]),
        ("admin", "PATCH", own, blob("x"), 400, &["blob"]),
        ("admin", "PATCH", own, blob(r#"{"access":"k"}"#), 400, &["secret"]),
        ("admin", "PATCH", own, blob(r#"{"access":"k","secret":"s","trust_id":"x"}"#), 400, &["trust_id"]),
        ("admin", "PATCH", own, credential(json!({ "type": "cert", "blob": "x" })), 400, &["type"]),
        ("admin", "PATCH", own, credential(json!({ "project_id": "<b>", "blob": "x" })), 400, &["project_id"]),
        ("admin", "PATCH", own, credential(json!({ "user_id": "<member>", "blob": "x" })), 400, &["user_id"]),
        ("member", "PATCH", own, blob(r#"{"access":"k","secret":"s"}"#), 403, &["!third"]),
        ("admin", "PUT", "/v3/regions/lost", region("none"), 404, &["none"]),
        ("admin", "PUT", "/v3/regions/east", json!({ "region": {} }), 201, &["\"id\":\"east\""]),
        ("admin", "PUT", "/v3/regions/inner", region("east"), 201, &[]),
        ("admin", "PUT", "/v3/regions/inner", region("east"), 409, &[]),
        ("admin", "PUT", "/v3/regions/x", json!({ "region": { "id": "y" } }), 400, &["id"]),
        ("admin", "PATCH", "/v3/regions/east", region("inner"), 400, &[]),
        ("admin", "GET", "/v3/regions?parent_region_id=east", none(), 200, &["inner", "!\"id\":\"east\""]),
        ("admin", "POST", "/v3/services -> service", json!({ "service": { "type": "volume" } }), 201, &[]),
        ("admin", "POST", "/v3/endpoints -> endpoint", endpoint("<service>", "public", json!("inner")), 201, &[]),
        ("admin", "DELETE", "/v3/regions/east", none(), 403, &["endpoints"]),
        // A missing region is created only for the old attribute `region`, and not for `region_id`.
        ("admin", "PATCH", "/v3/endpoints/<endpoint>", moved(json!({ "region_id": "west" })), 404, &["west"]),
        // A refused request creates no region.
        ("admin", "PATCH", "/v3/endpoints/<endpoint>", moved(json!({ "region": "half", "url": "ftp://x" })), 400, &["URL"]),
        ("admin", "PATCH", "/v3/endpoints/<endpoint>", moved(json!({ "region": "half", "service_id": NOBODY })), 404, &["service"]),
        ("admin", "POST", "/v3/endpoints", moved(json!({ "region": "half", "service_id": NOBODY, "interface": "public", "url": "https://x" })), 404, &["service"]),
        ("admin", "POST", "/v3/endpoints", moved(json!({ "region": "half", "interface": "public", "url": "https://x" })), 400, &["service_id"]),
        ("admin", "GET", "/v3/regions/half", none(), 404, &["region"]),
        ("admin", "PATCH", "/v3/endpoints/<endpoint>", moved(json!({ "region": "west" })), 200, &["\"region_id\":\"west\""]),
        ("admin", "GET", "/v3/regions/west", none(), 200, &[]),
        ("admin", "PATCH", "/v3/endpoints/<endpoint>", moved(json!({ "region": "south", "region_id": null })), 200, &["\"region_id\":\"south\""]),
        ("admin", "PATCH", "/v3/endpoints/<endpoint>", moved(json!({ "region": "lost", "region_id": "west" })), 200, &["\"region_id\":\"west\""]),
        ("admin", "GET", "/v3/regions/lost", none(), 404, &[]),
        ("member", "PATCH", "/v3/endpoints/<endpoint>", moved(json!({ "region": "north" })), 403, &[]),
        ("admin", "GET", "/v3/regions/north", none(), 404, &[]),
        ("admin", "DELETE", "/v3/endpoints/<endpoint>", none(), 204, &[]),
        ("admin", "DELETE", "/v3/regions/east", none(), 204, &[]),
        ("admin", "GET", "/v3/regions/inner", none(), 404, &[]),
    ];
    World::new(LimitModel::Flat).await.hold(&rows).await;
}

#[tokio::test]
async fn a_bad_token_in_a_login() {
    let world = World::new(LimitModel::Flat).await;
    let login = |identity: Value| json!({ "auth": { "identity": identity } }).to_string();
    let exchange = |token: &str| login(json!({ "methods": ["token"], "token": { "id": token } }));
    let user = json!({ "name": "admin", "domain": { "id": "default" }, "password": "wrong" });
    let wrong = login(json!({ "methods": ["password"], "password": { "user": user } }));
    let token = world.login("admin").await;
    let headers = [("content-type", "application/json")];
    for (body, expected) in [(exchange(&token), 201), (exchange("gAAAAABnothing"), 404), (wrong, 401)] {
        let (status, answered, text) = world.ask(&headers, "POST", "/v3/auth/tokens", &body).await;
        assert_eq!(status, expected, "{body}: {text}");
        assert_eq!(answered.contains_key("www-authenticate"), status == 401, "{body}");
    }
    let subject = [("x-auth-token", token.as_str()), ("x-subject-token", token.as_str())];
    assert_eq!(world.ask(&subject, "DELETE", "/v3/auth/tokens", "").await.0, 204);
    assert_eq!(world.ask(&headers, "POST", "/v3/auth/tokens", &exchange(&token)).await.0, 404, "revoked");
}
