//! Federation: identity providers, protocols, mappings and service providers.

use crate::world::{NOBODY, Row, World, none};
use enfilade_admin::LimitModel;
use enfilade_facts::Read;
use enfilade_facts::tables::{Protocol, RemoteIdOwner};
use serde_json::{Value, json};

const OWN: &str = "/v3/OS-FEDERATION/identity_providers/acme";
const OTHER: &str = "/v3/OS-FEDERATION/identity_providers/other%20one+%C3%BC";
const SAML: &str = "/v3/OS-FEDERATION/identity_providers/acme/protocols/saml2";
const PROTOCOLS: &str = "/v3/OS-FEDERATION/identity_providers/acme/protocols";
const MAPPING: &str = "/v3/OS-FEDERATION/mappings/people";
const SERVICE: &str = "/v3/OS-FEDERATION/service_providers/beta";

fn provider(body: Value) -> Value {
    json!({ "identity_provider": body })
}

fn protocol(body: Value) -> Value {
    json!({ "protocol": body })
}

fn rules() -> Value {
    json!([{ "local": [{ "user": { "name": "{0}" } }], "remote": [{ "type": "REMOTE_USER" }] }])
}

fn mapping(body: Value) -> Value {
    json!({ "mapping": body })
}

#[tokio::test]
#[rustfmt::skip]
async fn identity_providers() {
    let all = "/v3/OS-FEDERATION/identity_providers";
    let long: &'static str = format!("{all}/{}", "x".repeat(65)).leak();
    let rows: Vec<Row> = vec![
        ("member", "PUT", OWN, provider(json!({})), 403, &["not authorized"]),
        ("admin", "PUT", OWN, provider(json!({ "unknown": 1 })), 400, &["unknown"]),
        ("admin", "PUT", OWN, provider(json!({ "id": "acme" })), 400, &["id"]),
        ("admin", "PUT", OWN, provider(json!({ "enabled": "x" })), 400, &["enabled"]),
        ("admin", "PUT", OWN, provider(json!({ "authorization_ttl": -1 })), 400, &["authorization_ttl"]),
        ("admin", "PUT", OWN, provider(json!({ "remote_ids": ["a", "a"] })), 400, &["remote_ids"]),
        ("admin", "PUT", OWN, provider(json!({ "remote_ids": [""] })), 400, &["remote id"]),
        ("admin", "PUT", OWN, provider(json!({ "domain_id": NOBODY })), 404, &["domain"]),
        ("admin", "PUT", long, provider(json!({})), 400, &["identity provider"]),
        ("admin", "PUT", "/v3/OS-FEDERATION/identity_providers/a%2Fb", provider(json!({})), 400, &["identity provider"]),
        ("admin", "GET", all, none(), 200, &["\"identity_providers\":[]"]),
        // If no domain is given, the provider gets a new domain.
        ("admin", "PUT", OWN, provider(json!({ "remote_ids": ["urn:b", "urn:a"], "description": "words" })), 201, &[
            "\"id\":\"acme\"", "\"enabled\":false", "\"remote_ids\":[\"urn:a\",\"urn:b\"]", "words", "\"authorization_ttl\":null",
            "/v3/OS-FEDERATION/identity_providers/acme/protocols\"", "/v3/OS-FEDERATION/identity_providers/acme\"",
        ]),
        ("admin", "GET", "/v3/domains", none(), 200, &["the users of the identity provider acme"]),
        ("admin", "PUT", OWN, provider(json!({})), 409, &["acme"]),
        ("admin", "PUT", OTHER, provider(json!({ "remote_ids": ["urn:a"] })), 409, &["urn:a"]),
        ("admin", "PUT", OTHER, provider(json!({ "domain_id": "<elsewhere>", "enabled": true, "remote_ids": null, "authorization_ttl": 5 })), 201, &[
            "\"id\":\"other one+ü\"", "<elsewhere>", "\"remote_ids\":[]", "\"authorization_ttl\":5", "/identity_providers/other%20one",
        ]),
        ("admin", "GET", OTHER, none(), 200, &["other one+ü"]),
        ("admin", "GET", "/v3/OS-FEDERATION/identity_providers?enabled=true", none(), 200, &["other one", "!acme"]),
        ("admin", "GET", "/v3/OS-FEDERATION/identity_providers?id=acme", none(), 200, &["acme", "!other one"]),
        ("admin", "GET", "/v3/OS-FEDERATION/identity_providers?limit=1", none(), 200, &["acme", "!other one", "marker=acme"]),
        ("admin", "PATCH", OWN, provider(json!({})), 400, &["identity_provider"]),
        ("admin", "PATCH", OWN, provider(json!({ "domain_id": "<elsewhere>" })), 400, &["domain_id"]),
        ("admin", "PATCH", OTHER, provider(json!({ "remote_ids": ["urn:b"] })), 409, &["urn:b"]),
        ("admin", "PATCH", OWN, provider(json!({ "remote_ids": ["urn:a", "urn:c"], "enabled": true })), 200, &["\"remote_ids\":[\"urn:a\",\"urn:c\"]", "\"enabled\":true", "words"]),
        // A remote id that was removed can be used again.
        ("admin", "PATCH", OTHER, provider(json!({ "remote_ids": ["urn:b"] })), 200, &["urn:b"]),
        ("admin", "PATCH", OTHER, provider(json!({ "authorization_ttl": null })), 200, &["\"authorization_ttl\":null", "urn:b"]),
        ("member", "GET", OWN, none(), 403, &["!acme"]),
        ("clerk", "GET", all, none(), 403, &[]),
        ("member", "PATCH", OWN, provider(json!({ "enabled": false })), 403, &[]),
        ("member", "DELETE", OWN, none(), 403, &[]),
        ("admin", "PATCH", "/v3/OS-FEDERATION/identity_providers/none", provider(json!({ "enabled": false })), 404, &["none"]),
        ("admin", "DELETE", "/v3/OS-FEDERATION/identity_providers/none", none(), 404, &["none"]),
        // The providers of a domain are deleted together with the domain.
        ("admin", "PATCH", "/v3/domains/<elsewhere>", json!({ "domain": { "enabled": false } }), 200, &[]),
        ("admin", "DELETE", "/v3/domains/<elsewhere>", none(), 204, &[]),
        ("admin", "GET", OTHER, none(), 404, &[]),
        ("admin", "DELETE", OWN, none(), 204, &[]),
        ("admin", "GET", OWN, none(), 404, &["acme"]),
    ];
    let mut world = World::new(LimitModel::Flat).await;
    world.hold(&rows).await;
    let left = world.house.facts().read(|view| view.list::<RemoteIdOwner>(&[])).unwrap().unwrap();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
#[rustfmt::skip]
async fn protocols_and_mappings() {
    let people = || protocol(json!({ "mapping_id": "people" }));
    let absent = "/v3/OS-FEDERATION/identity_providers/none/protocols/saml2";
    let rows: Vec<Row> = vec![
        ("member", "PUT", MAPPING, mapping(json!({ "rules": rules() })), 403, &["not authorized"]),
        ("admin", "PUT", MAPPING, mapping(json!({})), 400, &["rules"]),
        ("admin", "PUT", MAPPING, mapping(json!({ "rules": [] })), 400, &["rules"]),
        ("admin", "PUT", MAPPING, mapping(json!({ "rules": rules(), "schema_version": "9" })), 400, &["schema_version"]),
        ("admin", "PUT", MAPPING, mapping(json!({ "rules": rules(), "id": "people", "other": 1 })), 201, &["\"id\":\"people\"", "\"schema_version\":\"1.0\"", "REMOTE_USER", "!other", "/v3/OS-FEDERATION/mappings/people"]),
        ("admin", "PUT", MAPPING, mapping(json!({ "rules": rules() })), 409, &["people"]),
        ("admin", "GET", MAPPING, none(), 200, &["REMOTE_USER", "!other"]),
        ("admin", "PATCH", MAPPING, mapping(json!({ "schema_version": "2.0" })), 400, &["rules"]),
        ("admin", "PATCH", MAPPING, mapping(json!({ "rules": rules(), "schema_version": "2.0" })), 200, &["\"schema_version\":\"2.0\""]),
        // A mapping without a version has the default version, also after a change.
        ("admin", "PATCH", MAPPING, mapping(json!({ "rules": rules() })), 200, &["\"schema_version\":\"1.0\""]),
        ("admin", "GET", "/v3/OS-FEDERATION/mappings", none(), 200, &["people"]),
        ("member", "GET", MAPPING, none(), 403, &[]),
        ("admin", "PUT", SAML, people(), 404, &["identity provider"]),
        ("admin", "PUT", OWN, provider(json!({})), 201, &[]),
        ("admin", "PUT", OTHER, provider(json!({})), 201, &[]),
        ("admin", "GET", PROTOCOLS, none(), 200, &["\"protocols\":[]"]),
        ("admin", "PUT", SAML, protocol(json!({})), 400, &["mapping_id"]),
        ("admin", "PUT", SAML, protocol(json!({ "mapping_id": "none" })), 400, &["none"]),
        ("admin", "PUT", SAML, protocol(json!({ "mapping_id": "people", "x": 1 })), 400, &["x"]),
        ("member", "PUT", SAML, people(), 403, &["not authorized"]),
        ("admin", "PUT", SAML, protocol(json!({ "mapping_id": "people", "remote_id_attribute": "Issuer" })), 201, &[
            "\"id\":\"saml2\"", "\"mapping_id\":\"people\"", "!Issuer", "!idp_id", "/identity_providers/acme/protocols/saml2\"", "\"identity_provider\":\"",
        ]),
        ("admin", "PUT", SAML, people(), 409, &["saml2"]),
        ("admin", "GET", PROTOCOLS, none(), 200, &["saml2", "\"remote_id_attribute\":\"Issuer\"", "\"idp_id\":\"acme\""]),
        ("admin", "GET", "/v3/OS-FEDERATION/identity_providers/other%20one+%C3%BC/protocols", none(), 200, &["\"protocols\":[]"]),
        ("admin", "GET", "/v3/OS-FEDERATION/identity_providers/none/protocols", none(), 200, &["\"protocols\":[]"]),
        ("admin", "PATCH", SAML, protocol(json!({ "remote_id_attribute": "Entity" })), 400, &["mapping_id"]),
        ("admin", "PATCH", SAML, protocol(json!({ "mapping_id": "none" })), 400, &["none"]),
        ("admin", "PATCH", SAML, protocol(json!({ "mapping_id": "people", "remote_id_attribute": "Entity" })), 200, &["people"]),
        ("admin", "GET", PROTOCOLS, none(), 200, &["Entity"]),
        ("admin", "GET", SAML, none(), 200, &["people"]),
        ("admin", "GET", absent, none(), 404, &["protocol"]),
        ("admin", "DELETE", absent, none(), 404, &["protocol"]),
        ("member", "GET", SAML, none(), 403, &[]),
        ("member", "DELETE", SAML, none(), 403, &[]),
        // As in Keystone, a mapping that a protocol uses can be deleted.
        ("member", "DELETE", MAPPING, none(), 403, &[]),
        ("admin", "DELETE", MAPPING, none(), 204, &[]),
        ("admin", "GET", MAPPING, none(), 404, &["people"]),
        ("admin", "GET", SAML, none(), 200, &["people"]),
        ("admin", "PUT", MAPPING, mapping(json!({ "rules": rules() })), 201, &[]),
        ("admin", "DELETE", SAML, none(), 204, &[]),
        ("admin", "GET", SAML, none(), 404, &[]),
        ("admin", "PUT", SAML, people(), 201, &[]),
        ("admin", "DELETE", OWN, none(), 204, &[]),
        ("admin", "GET", SAML, none(), 404, &[]),
    ];
    let mut world = World::new(LimitModel::Flat).await;
    world.hold(&rows).await;
    let left = world.house.facts().read(|view| view.list::<Protocol>(&[])).unwrap().unwrap();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
#[rustfmt::skip]
async fn service_providers_are_in_tokens() {
    let service = |body: Value| json!({ "service_provider": body });
    let urls = || json!({ "auth_url": "https://beta/v3", "sp_url": "https://beta/sp" });
    let disabled = || service(json!({ "enabled": false }));
    let all = "/v3/OS-FEDERATION/service_providers";
    let mut world = World::new(LimitModel::Flat).await;
    let rows: Vec<Row> = vec![
        ("member", "PUT", SERVICE, service(urls()), 403, &["not authorized"]),
        ("admin", "PUT", SERVICE, service(json!({ "auth_url": "https://beta/v3" })), 400, &["sp_url"]),
        ("admin", "PUT", SERVICE, service(json!({ "auth_url": "beta", "sp_url": "https://beta" })), 400, &["auth_url"]),
        ("admin", "PUT", SERVICE, service(json!({ "auth_url": "x:y", "sp_url": "x:y", "other": 1 })), 400, &["other"]),
        ("admin", "PUT", SERVICE, service(urls()), 201, &["\"id\":\"beta\"", "\"enabled\":false", "\"description\":null", "\"relay_state_prefix\":\"ss:mem:\"", "/v3/OS-FEDERATION/service_providers/beta"]),
        ("admin", "PUT", SERVICE, service(urls()), 409, &["beta"]),
    ];
    world.hold(&rows).await;
    assert!(!world.token("member").await.contains("service_providers"), "the provider is disabled");
    let rows: Vec<Row> = vec![
        ("admin", "PATCH", SERVICE, service(json!({})), 400, &["service_provider"]),
        ("admin", "PATCH", SERVICE, service(json!({ "id": "x" })), 400, &["id"]),
        ("admin", "PATCH", SERVICE, service(json!({ "enabled": true, "relay_state_prefix": "x", "description": "words" })), 200, &["\"enabled\":true", "\"relay_state_prefix\":\"x\"", "words"]),
        ("member", "GET", "/v3/auth/catalog", none(), 200, &["!service_providers"]),
        ("admin", "GET", "/v3/OS-FEDERATION/service_providers?enabled=true", none(), 200, &["\"id\":\"beta\""]),
        ("admin", "GET", "/v3/OS-FEDERATION/service_providers?enabled=false", none(), 200, &["\"service_providers\":[]"]),
        ("admin", "GET", SERVICE, none(), 200, &["words"]),
        ("member", "GET", all, none(), 403, &[]),
        ("member", "PATCH", SERVICE, disabled(), 403, &[]),
        ("member", "DELETE", SERVICE, none(), 403, &[]),
    ];
    world.hold(&rows).await;
    let expected = r#""service_providers":[{"auth_url":"https://beta/v3","id":"beta","sp_url":"https://beta/sp"}]"#;
    let token = world.token("member").await;
    assert!(token.contains(expected), "{token}");
    let rows: Vec<Row> = vec![
        ("admin", "PATCH", SERVICE, disabled(), 200, &["\"enabled\":false"]),
        ("admin", "PATCH", SERVICE, service(json!({ "enabled": true })), 200, &[]),
        ("admin", "DELETE", SERVICE, none(), 204, &[]),
        ("admin", "GET", SERVICE, none(), 404, &["beta"]),
    ];
    world.hold(&rows).await;
    assert!(!world.token("member").await.contains("service_providers"), "the provider is deleted");
}

#[tokio::test]
#[rustfmt::skip]
async fn nobody_signs_in_by_federation() {
    let websso = "/v3/auth/OS-FEDERATION/websso/saml2?origin=https://x";
    let rows: Vec<Row> = vec![
        ("member", "GET", "/v3/OS-FEDERATION/identity_providers/acme/protocols/saml2/auth", none(), 501, &["users that are stored on this server"]),
        ("member", "POST", "/v3/OS-FEDERATION/identity_providers/acme/protocols/saml2/auth", none(), 501, &["users that are stored on this server"]),
        ("member", "GET", websso, none(), 501, &["users that are stored on this server"]),
        ("member", "POST", "/v3/auth/OS-FEDERATION/identity_providers/acme/protocols/saml2/websso", none(), 501, &["users that are stored on this server"]),
        ("member", "POST", "/v3/auth/OS-FEDERATION/saml2", json!({}), 501, &["users that are stored on this server"]),
        ("member", "POST", "/v3/auth/OS-FEDERATION/saml2/ecp", json!({}), 501, &["users that are stored on this server"]),
        ("member", "GET", "/v3/OS-FEDERATION/saml2/metadata", none(), 501, &["users that are stored on this server"]),
        ("member", "GET", "/v3/OS-FEDERATION/nothing", none(), 404, &[]),
        ("member", "POST", "/v3/OS-FEDERATION/identity_providers", json!({}), 405, &[]),
        // These are the older names of two calls.
        ("member", "GET", "/v3/OS-FEDERATION/projects", none(), 200, &["<a>", "!<b>"]),
        ("clerk", "GET", "/v3/OS-FEDERATION/domains", none(), 200, &["\"id\":\"default\""]),
    ];
    World::new(LimitModel::Flat).await.hold(&rows).await;
}
