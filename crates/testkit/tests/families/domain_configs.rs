//! Configurations of domains.

use crate::world::{NOBODY, Row, World, none};
use enfilade_admin::LimitModel;
use enfilade_facts::Read;
use enfilade_facts::tables::DomainConfig;
use serde_json::{Value, json};

#[tokio::test]
#[rustfmt::skip]
async fn configurations_of_domains() {
    let config = |config: Value| json!({ "config": config });
    let new = || {
        config(json!({
            "ldap": { "url": "ldap://x", "password": "hunter2" }, "identity": { "driver": "ldap" },
        }))
    };
    let at = |rest: &str| -> &'static str { format!("/v3/domains/default/config{rest}").leak() };
    let nobodys: &'static str = format!("/v3/domains/{NOBODY}/config").leak();
    let rows: Vec<Row> = vec![
        ("admin", "GET", at(""), none(), 404, &["any options"]),
        ("admin", "PUT", at(""), new(), 201, &["\"url\":\"ldap://x\"", "\"driver\":\"ldap\"", "!hunter2", "!password"]),
        ("admin", "PUT", at(""), new(), 200, &["!hunter2"]),
        ("admin", "GET", at(""), none(), 200, &["{\"config\":{\"identity\":{\"driver\":\"ldap\"},\"ldap\":{\"url\":\"ldap://x\"}}}"]),
        ("admin", "GET", at("/ldap"), none(), 200, &["{\"config\":{\"ldap\":{\"url\":\"ldap://x\"}}}"]),
        ("admin", "GET", at("/ldap/url"), none(), 200, &["{\"config\":{\"url\":\"ldap://x\"}}"]),
        ("admin", "GET", at("/ldap/password"), none(), 404, &["!hunter2"]),
        ("admin", "GET", at("/ldap/user"), none(), 404, &["option user in group ldap"]),
        ("admin", "GET", at("/ldap/colour"), none(), 403, &["colour"]),
        ("admin", "GET", at("/sql"), none(), 403, &["sql"]),
        ("admin", "PATCH", at(""), config(json!({ "ldap": { "user": "cn=x" } })), 200, &["ldap://x", "cn=x", "!hunter2"]),
        ("admin", "PATCH", at("/ldap"), config(json!({ "ldap": { "page_size": 5 } })), 200, &["\"page_size\":5"]),
        ("admin", "PATCH", at("/ldap"), config(json!({ "identity": { "driver": "sql" } })), 403, &["identity.driver"]),
        ("admin", "PATCH", at("/ldap/url"), config(json!({ "url": "ldap://y" })), 200, &["ldap://y", "!ldap://x"]),
        ("admin", "PATCH", at("/ldap/url"), config(json!({ "user": "cn=y" })), 403, &["ldap.user"]),
        ("admin", "PATCH", at("/ldap/suffix"), config(json!({ "suffix": "x" })), 404, &["suffix"]),
        ("admin", "PATCH", at("/ldap/password"), config(json!({ "password": "hunter3" })), 200, &["!hunter3", "!hunter2"]),
        ("admin", "PATCH", at(""), config(json!({})), 403, &["config"]),
        ("admin", "PATCH", at(""), config(json!({ "ldap": "x" })), 403, &["ldap"]),
        ("admin", "PATCH", at(""), config(json!({ "ldap": { "colour": 1 } })), 403, &["colour"]),
        ("admin", "PATCH", at(""), config(json!({ "sql": { "x": 1 } })), 403, &["sql"]),
        ("admin", "PUT", nobodys, new(), 404, &["domain"]),
        ("admin", "GET", nobodys, none(), 404, &["domain"]),
        ("member", "GET", at(""), none(), 403, &["not authorized"]),
        ("clerk", "GET", at(""), none(), 403, &["not authorized"]),
        ("member", "PUT", at(""), new(), 403, &["not authorized"]),
        ("admin", "DELETE", at("/ldap/password"), none(), 204, &[]),
        ("admin", "DELETE", at("/ldap/password"), none(), 404, &["password"]),
        ("admin", "DELETE", at("/ldap"), none(), 204, &[]),
        ("admin", "GET", at(""), none(), 200, &["{\"config\":{\"identity\":{\"driver\":\"ldap\"}}}"]),
        ("admin", "DELETE", at(""), none(), 204, &[]),
        ("admin", "DELETE", at(""), none(), 204, &[]),
        ("admin", "GET", at(""), none(), 404, &[]),
        ("admin", "GET", "/v3/domains/config/default", none(), 200, &["inetOrgPerson", "\"driver\":\"sql\"", "!\"password\""]),
        ("admin", "GET", "/v3/domains/config/identity/default", none(), 200, &["{\"config\":{\"identity\":{\"driver\":\"sql\",\"list_limit\":null}}}"]),
        ("admin", "GET", "/v3/domains/config/ldap/url/default", none(), 200, &["{\"config\":{\"url\":\"ldap://localhost\"}}"]),
        ("admin", "GET", "/v3/domains/config/ldap/password/default", none(), 403, &["secret"]),
        ("admin", "GET", "/v3/domains/config/sql/default", none(), 403, &["sql"]),
        ("member", "GET", "/v3/domains/config/default", none(), 403, &[]),
        ("member", "GET", at("/security_compliance"), none(), 200, &["\"password_regex\":null", "password_regex_description"]),
        ("member", "GET", at("/security_compliance/password_regex"), none(), 200, &["{\"config\":{\"password_regex\":null}}"]),
        ("member", "GET", at("/security_compliance/minimum"), none(), 403, &["password_regex"]),
        ("member", "GET", "/v3/domains/<elsewhere>/config/security_compliance", none(), 403, &["default domain"]),
        // The configuration of a domain is deleted together with the domain.
        ("admin", "PUT", "/v3/domains/<elsewhere>/config", new(), 201, &[]),
        ("admin", "PATCH", "/v3/domains/<elsewhere>", json!({ "domain": { "enabled": false } }), 200, &[]),
        ("admin", "DELETE", "/v3/domains/<elsewhere>", none(), 204, &[]),
    ];
    let mut world = World::new(LimitModel::Flat).await;
    world.hold(&rows).await;
    let left = world.house.facts().read(|view| view.list::<DomainConfig>(&[])).unwrap().unwrap();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn a_configuration_that_is_too_large_is_refused_with_the_limit() {
    let world = World::new(LimitModel::Flat).await;
    let token = world.login("admin").await;
    let headers = [("x-auth-token", token.as_str()), ("content-type", "application/json")];
    let options = [
        "url",
        "user",
        "suffix",
        "query_scope",
        "user_tree_dn",
        "user_filter",
        "user_objectclass",
        "user_id_attribute",
        "user_name_attribute",
        "user_mail_attribute",
        "group_tree_dn",
    ];
    let path = "/v3/domains/default/config";
    let (last, first) = options.split_last().unwrap();
    let mut method = "PUT";
    for option in first {
        let body = json!({ "config": { "ldap": { *option: "x".repeat(100_000) } } });
        let (status, _, text) = world.ask(&headers, method, path, &body.to_string()).await;
        assert!(matches!(status, 200 | 201), "{option}: {status} {text}");
        method = "PATCH";
    }
    let body = json!({ "config": { "ldap": { *last: "x".repeat(100_000) } } });
    let (status, answered, text) = world.ask(&headers, "PATCH", path, &body.to_string()).await;
    let told: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((status, &told["error"]["code"]), (413, &json!(413)), "{text}");
    assert!(told["error"]["message"].as_str().unwrap().contains("1048576"), "{text}");
    assert!(!answered.contains_key("retry-after"), "another try would not help");
    let (status, _, text) = world.ask(&headers, "GET", &format!("{path}/ldap/{last}"), "").await;
    assert_eq!(status, 404, "{text}");
}
