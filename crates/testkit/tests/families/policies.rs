//! Policies, and the endpoints, services and regions that they are for.

use crate::world::{Row, World, catalog, none};
use enfilade_admin::LimitModel;
use enfilade_facts::Read;
use enfilade_facts::tables::PolicyAssociation;
use serde_json::{Value, json};

#[tokio::test]
#[rustfmt::skip]
async fn policies_of_endpoints() {
    let policy = |body: Value| json!({ "policy": body });
    let new = || policy(json!({ "type": "application/json", "blob": "{}", "note": "kept" }));
    let of = |endpoint: &str| -> &'static str {
        format!("/v3/endpoints/<{endpoint}>/OS-ENDPOINT-POLICY/policy").leak()
    };
    let at = |policy: &str, rest: &str| -> &'static str {
        format!("/v3/policies/<{policy}>/OS-ENDPOINT-POLICY/{rest}").leak()
    };
    let in_region = |policy: &str, region: &str| at(policy, &format!("services/<first>/regions/{region}"));
    let mut world = World::new(LimitModel::Flat).await;
    world.hold(&catalog()).await;
    let rows: Vec<Row> = vec![
        ("admin", "POST", "/v3/policies -> one", new(), 201, &["\"note\":\"kept\"", "\"blob\":\"{}\"", "/v3/policies/"]),
        ("admin", "POST", "/v3/policies -> two", new(), 201, &[]),
        ("admin", "POST", "/v3/policies", policy(json!({ "type": "x" })), 400, &["blob"]),
        ("admin", "POST", "/v3/policies", policy(json!({ "type": "x", "blob": {} })), 400, &["blob"]),
        ("admin", "PATCH", "/v3/policies/<one>", policy(json!({})), 400, &["policy"]),
        ("admin", "PATCH", "/v3/policies/<one>", policy(json!({ "blob": "new" })), 200, &["new", "kept"]),
        ("member", "POST", "/v3/policies", new(), 403, &["not authorized"]),
        ("member", "GET", "/v3/policies", none(), 403, &["not authorized"]),
        ("admin", "GET", "/v3/policies?type=none", none(), 200, &["\"policies\":[]"]),
        ("admin", "GET", of("public"), none(), 404, &["No policy"]),
        ("admin", "PUT", in_region("one", "east"), none(), 204, &[]),
        ("admin", "GET", in_region("one", "east"), none(), 204, &[]),
        ("admin", "GET", in_region("one", "inner"), none(), 404, &[]),
        ("admin", "GET", at("one", "services/<first>"), none(), 404, &[]),
        // The policy of a region also applies to the regions in it.
        ("admin", "GET", of("admins"), none(), 200, &["<one>"]),
        ("admin", "GET", at("one", "endpoints"), none(), 200, &["<public>", "<admins>", "!<other-one>"]),
        // The policy of the endpoint itself takes precedence over the policy of its region, and the policy of its region over the policy of its
        // service.
        ("admin", "PUT", at("two", "endpoints/<admins>"), none(), 204, &[]),
        ("admin", "PUT", at("two", "services/<first>"), none(), 204, &[]),
        ("admin", "GET", of("admins"), none(), 200, &["<two>"]),
        ("admin", "GET", of("public"), none(), 200, &["<one>"]),
        ("admin", "GET", of("other-one"), none(), 404, &[]),
        // A region, service or endpoint has only one policy.
        ("admin", "PUT", in_region("two", "east"), none(), 204, &[]),
        ("admin", "GET", in_region("one", "east"), none(), 404, &[]),
        ("admin", "DELETE", in_region("one", "east"), none(), 204, &[]),
        ("admin", "GET", in_region("two", "east"), none(), 204, &[]),
        ("admin", "DELETE", in_region("two", "east"), none(), 204, &[]),
        ("admin", "GET", in_region("two", "east"), none(), 404, &[]),
        ("admin", "PUT", in_region("two", "none"), none(), 404, &["region"]),
        ("admin", "PUT", at("two", "endpoints/<first>"), none(), 404, &["endpoint"]),
        ("admin", "PUT", at("first", "services/<first>"), none(), 404, &["policy"]),
        ("member", "PUT", at("two", "services/<first>"), none(), 403, &[]),
        ("member", "GET", of("public"), none(), 403, &[]),
        // An association is deleted together with each record to which it refers.
        ("admin", "DELETE", "/v3/policies/<two>", none(), 204, &[]),
        ("admin", "GET", of("public"), none(), 404, &["No policy"]),
        ("admin", "PUT", at("one", "endpoints/<public>"), none(), 204, &[]),
        ("admin", "PUT", at("one", "services/<second>"), none(), 204, &[]),
        ("admin", "PUT", in_region("one", "inner"), none(), 204, &[]),
        ("admin", "DELETE", "/v3/services/<second>", none(), 204, &[]),
        ("admin", "DELETE", "/v3/endpoints/<public>", none(), 204, &[]),
        ("admin", "DELETE", "/v3/endpoints/<admins>", none(), 204, &[]),
        ("admin", "DELETE", "/v3/regions/east", none(), 204, &[]),
    ];
    world.hold(&rows).await;
    let left = world.house.facts().read(|view| view.list::<PolicyAssociation>(&[])).unwrap().unwrap();
    assert!(left.is_empty(), "{left:?}");
}
