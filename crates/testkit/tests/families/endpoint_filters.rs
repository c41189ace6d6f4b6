//! Endpoint filters, and the catalog that contains the selected endpoints.

use crate::world::{Row, World, catalog, none};
use enfilade_admin::LimitModel;
use enfilade_facts::Read;
use enfilade_facts::tables::{EndpointFilter, EndpointGroup, GroupFilters, GroupRegion, RegionId};
use serde_json::{Value, json};

#[test]
fn a_dump_tells_endpoints_without_a_region_from_those_of_any_region() {
    for region in [None, Some(GroupRegion::Without), Some(GroupRegion::Named(RegionId("east".to_owned())))] {
        let filters = GroupFilters { region, ..GroupFilters::default() };
        let group = EndpointGroup { name: "g".to_owned(), description: None, filters };
        let text = serde_json::to_string(&group).unwrap();
        assert_eq!(serde_json::from_str::<EndpointGroup>(&text).unwrap(), group, "{text}");
    }
}

#[tokio::test]
#[rustfmt::skip]
async fn the_catalog_follows_the_filters_of_the_project() {
    let group = |body: Value| json!({ "endpoint_group": body });
    let filters = |filters: Value| group(json!({ "name": "g", "filters": filters }));
    let at = |rest: &str| -> &'static str { format!("/v3/OS-EP-FILTER/{rest}").leak() };
    let seen = "/v3/auth/catalog";
    let (single, grouped) =
        (at("projects/<a>/endpoints/<public>"), at("endpoint_groups/<group>/projects/<a>"));
    let patch = at("endpoint_groups/<group>");
    let disabled = json!({ "endpoint": { "enabled": false } });
    let mut world = World::new(LimitModel::Flat).await;
    world.hold(&catalog()).await;
    let rows: Vec<Row> = vec![
        ("member", "GET", seen, none(), 200, &["<public>", "<admins>", "<other-one>"]),
        ("admin", "GET", single, none(), 404, &["not found"]),
        ("admin", "DELETE", single, none(), 404, &[]),
        ("member", "PUT", single, none(), 403, &["not authorized"]),
        ("admin", "PUT", single, none(), 204, &[]),
        ("admin", "PUT", single, none(), 409, &[]),
        ("admin", "GET", single, none(), 204, &[]),
        ("admin", "PUT", at("projects/<a>/endpoints/<first>"), none(), 404, &["endpoint"]),
        ("admin", "PUT", at("projects/<first>/endpoints/<public>"), none(), 404, &["project"]),
        // A service without any selected endpoint is left out. Other projects see the whole catalog.
        ("member", "GET", seen, none(), 200, &["<public>", "!<admins>", "!<second>"]),
        ("other", "GET", seen, none(), 200, &["<public>", "<admins>", "<other-one>"]),
        ("clerk", "GET", seen, none(), 200, &["<public>", "<admins>", "<other-one>"]),
        ("admin", "POST", at("endpoint_groups"), filters(json!({})), 400, &["filters"]),
        ("admin", "POST", at("endpoint_groups"), group(json!({ "name": "g" })), 400, &["filters"]),
        ("admin", "POST", at("endpoint_groups"), filters(json!({ "enabled": true })), 400, &["enabled"]),
        ("admin", "POST", at("endpoint_groups"), filters(json!({ "interface": "x" })), 400, &["interface"]),
        ("admin", "POST", at("endpoint_groups"), filters(json!({ "service_id": 1 })), 400, &["service_id"]),
        ("admin", "POST", at("endpoint_groups"), group(json!({ "filters": { "region_id": "east" } })), 400, &["name"]),
        ("member", "POST", at("endpoint_groups"), filters(json!({ "interface": "admin" })), 403, &[]),
        ("admin", "POST", at("endpoint_groups -> group"), filters(json!({ "interface": "admin" })), 201, &["\"filters\":{\"interface\":\"admin\"}", "/v3/OS-EP-FILTER/endpoint_groups/", "\"description\":null"]),
        ("admin", "GET", at("endpoint_groups?name=none"), none(), 200, &["\"endpoint_groups\":[]"]),
        ("admin", "PUT", grouped, none(), 204, &[]),
        ("admin", "PUT", grouped, none(), 409, &[]),
        ("admin", "GET", grouped, none(), 200, &["project_endpoint_group", "<group>", "<a>"]),
        ("member", "GET", seen, none(), 200, &["<public>", "<admins>", "!<other-one>"]),
        ("admin", "GET", at("projects/<a>/endpoints"), none(), 200, &["<public>", "<admins>", "!<other-one>"]),
        ("admin", "GET", at("projects/<b>/endpoints"), none(), 200, &["\"endpoints\":[]"]),
        ("admin", "GET", at("projects/<a>/endpoint_groups"), none(), 200, &["<group>"]),
        ("admin", "GET", at("endpoints/<public>/projects"), none(), 200, &["<a>", "!<b>"]),
        ("admin", "GET", at("endpoint_groups/<group>/projects"), none(), 200, &["<a>", "!<b>"]),
        // The list is read in pages, like other lists.
        ("admin", "PUT", at("projects/<b>/endpoints/<public>"), none(), 204, &[]),
        ("admin", "GET", at("endpoints/<public>/projects"), none(), 200, &["<a>", "<b>", "\"next\":null"]),
        ("admin", "GET", at("endpoints/<public>/projects?limit=1"), none(), 200, &["limit=1&marker="]),
        ("admin", "GET", at("endpoints/<public>/projects?marker=x"), none(), 404, &["marker"]),
        ("admin", "DELETE", at("projects/<b>/endpoints/<public>"), none(), 204, &[]),
        ("admin", "GET", at("endpoint_groups/<group>/endpoints"), none(), 200, &["<admins>", "!<public>"]),
        ("member", "GET", at("projects/<a>/endpoints"), none(), 403, &[]),
        // A change of the endpoint group changes the catalog.
        ("admin", "PATCH", patch, group(json!({ "filters": { "interface": "public", "service_id": "<second>" } })), 200, &[]),
        ("member", "GET", seen, none(), 200, &["<public>", "!<admins>", "<other-one>"]),
        ("admin", "PATCH", patch, group(json!({ "filters": { "region_id": null } })), 200, &["\"region_id\":null"]),
        ("member", "GET", seen, none(), 200, &["<public>", "!<admins>", "<other-one>"]),
        // If the filters select no endpoint, the project sees the whole catalog (as in Keystone).
        ("admin", "PATCH", patch, group(json!({ "filters": { "region_id": "none" } })), 200, &[]),
        ("admin", "DELETE", single, none(), 204, &[]),
        ("member", "GET", seen, none(), 200, &["<public>", "<admins>", "<other-one>"]),
        // A selected endpoint that is disabled is not shown, and endpoints that are not selected are not shown either.
        ("admin", "PUT", single, none(), 204, &[]),
        ("admin", "PATCH", "/v3/endpoints/<public>", disabled, 200, &[]),
        ("member", "GET", seen, none(), 200, &["\"catalog\":[]"]),
        // A filter is deleted together with the endpoint, the group or the project.
        ("admin", "DELETE", "/v3/endpoints/<public>", none(), 204, &[]),
        ("member", "GET", seen, none(), 200, &["<admins>", "<other-one>"]),
        ("admin", "PUT", at("projects/<far>/endpoints/<admins>"), none(), 204, &[]),
        ("admin", "DELETE", "/v3/projects/<far>", none(), 204, &[]),
        ("admin", "DELETE", grouped, none(), 204, &[]),
        ("admin", "DELETE", grouped, none(), 404, &["not found"]),
        ("admin", "PUT", grouped, none(), 204, &[]),
        ("admin", "DELETE", patch, none(), 204, &[]),
        ("admin", "GET", at("projects/<a>/endpoint_groups"), none(), 200, &["\"endpoint_groups\":[]"]),
    ];
    world.hold(&rows).await;
    let left = world.house.facts().read(|view| view.list::<EndpointFilter>(&[])).unwrap().unwrap();
    assert!(left.is_empty(), "{left:?}");
}
