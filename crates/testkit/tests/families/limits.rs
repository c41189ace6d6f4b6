//! Registered limits, and the limits of projects and domains.

use crate::world::{NOBODY, Row, World, none};
use enfilade_admin::LimitModel;
use enfilade_facts::Read;
use enfilade_facts::tables::Limit;
use serde_json::{Value, json};

fn registered(resource: &str, region: Value, limit: i64) -> Value {
    json!({ "service_id": "<service>", "region_id": region, "resource_name": resource, "default_limit": limit })
}

/// A request body with limits of `volumes`. For each limit, `all` contains the field for the owner's id, the owner's id, and the limit.
fn limits(all: &[(&str, &str, i64)]) -> Value {
    let limit = |(field, id, limit): &(&str, &str, i64)| json!({ *field: id, "service_id": "<service>", "resource_name": "volumes", "resource_limit": limit });
    json!({ "limits": all.iter().map(limit).collect::<Vec<_>>() })
}

#[tokio::test]
#[rustfmt::skip]
async fn registered_limits() {
    let one = |row: Value| json!({ "registered_limits": [row] });
    let with = |name: &str, value: Value| {
        let mut row = registered("x", none(), 1);
        row[name] = value;
        one(row)
    };
    let mut without = registered("x", none(), 1);
    without.as_object_mut().unwrap().remove("default_limit");
    let (collection, own) = ("/v3/registered_limits", "/v3/registered_limits/<volumes>");
    let path_of_nobody = format!("{collection}/{NOBODY}");
    let path_of_nobody: &'static str = path_of_nobody.leak();
    let patch = |body: Value| json!({ "registered_limit": body });
    let rows: Vec<Row> = vec![
        ("admin", "POST", "/v3/services -> service", json!({ "service": { "type": "volume" } }), 201, &[]),
        ("admin", "POST", "/v3/regions", json!({ "region": { "id": "east" } }), 201, &[]),
        ("admin", "POST", "/v3/registered_limits -> volumes", json!({ "registered_limits": [registered("volumes", none(), 10), registered("volumes", json!("east"), 5)] }), 201, &["\"default_limit\":10", "\"region_id\":\"east\"", "\"description\":null", "!previous"]),
        ("admin", "POST", collection, one(registered("volumes", none(), 10)), 409, &["volumes"]),
        ("admin", "POST", collection, json!({ "registered_limits": [registered("twice", none(), 1), registered("twice", none(), 2)] }), 409, &["twice"]),
        ("admin", "GET", collection, none(), 200, &["!twice"]),
        ("admin", "POST", collection, json!({}), 400, &["registered_limits"]),
        ("admin", "POST", collection, json!({ "registered_limits": [] }), 400, &["registered_limits"]),
        ("admin", "POST", collection, json!({ "registered_limits": [1] }), 400, &["registered_limits"]),
        ("admin", "POST", collection, one(without), 400, &["default_limit"]),
        ("admin", "POST", collection, with("default_limit", json!(-2)), 400, &["default_limit"]),
        ("admin", "POST", collection, with("default_limit", json!(2_147_483_648_i64)), 400, &["default_limit"]),
        ("admin", "POST", collection, with("default_limit", json!("1")), 400, &["default_limit"]),
        ("admin", "POST", collection, with("resource_name", json!("")), 400, &["resource_name"]),
        ("admin", "POST", collection, with("service_id", json!(NOBODY)), 400, &["service_id"]),
        ("admin", "POST", collection, with("region_id", json!("none")), 400, &["region_id"]),
        ("admin", "POST", collection, with("colour", json!("blue")), 400, &["colour"]),
        ("member", "POST", collection, one(registered("x", none(), 1)), 403, &["not authorized"]),
        ("member", "GET", "/v3/registered_limits?region_id=east", none(), 200, &["\"default_limit\":5", "!:10"]),
        ("member", "GET", "/v3/registered_limits?resource_name=none", none(), 200, &["\"registered_limits\":[]"]),
        ("member", "GET", own, none(), 200, &["\"default_limit\":10", "/v3/registered_limits/<volumes>"]),
        ("member", "GET", path_of_nobody, none(), 404, &[]),
        ("admin", "PATCH", own, patch(json!({ "default_limit": 20, "description": "words" })), 200, &["20", "words"]),
        ("admin", "PATCH", own, patch(json!({ "region_id": "east" })), 409, &[]),
        ("admin", "PATCH", own, patch(json!({ "resource_name": "volumes" })), 200, &[]),
        ("admin", "PATCH", own, patch(json!({ "links": {} })), 400, &["links"]),
        ("member", "PATCH", own, patch(json!({ "default_limit": 1 })), 403, &[]),
        ("admin", "DELETE", "/v3/services/<service>", none(), 403, &["registered limit"]),
        ("admin", "DELETE", "/v3/regions/east", none(), 403, &["registered limit"]),
        ("member", "DELETE", own, none(), 403, &[]),
        ("admin", "DELETE", own, none(), 204, &[]),
        ("admin", "GET", own, none(), 404, &[]),
    ];
    World::new(LimitModel::Flat).await.hold(&rows).await;
}

#[tokio::test]
#[rustfmt::skip]
async fn limits_of_projects_and_domains() {
    let mut world = World::new(LimitModel::Flat).await;
    let new = json!({ "registered_limits": [registered("volumes", none(), 10)] });
    let other = json!({ "limits": [{ "project_id": "<a>", "service_id": "<service>", "resource_name": "none", "resource_limit": 1 }] });
    let both = json!({ "limits": [{ "project_id": "<a>", "domain_id": "default", "service_id": "<service>", "resource_name": "volumes", "resource_limit": 1 }] });
    let neither =
        json!({ "limits": [{ "service_id": "<service>", "resource_name": "volumes", "resource_limit": 1 }] });
    let (collection, own) = ("/v3/limits", "/v3/limits/<own>");
    let path_of_nobody: &'static str = format!("{collection}/{NOBODY}").leak();
    let patch = |body: Value| json!({ "limit": body });
    let rows: Vec<Row> = vec![
        ("member", "GET", "/v3/limits/model", none(), 200, &["{\"model\":{", "\"name\":\"flat\""]),
        ("admin", "POST", "/v3/services -> service", json!({ "service": { "type": "volume" } }), 201, &[]),
        ("admin", "POST", collection, limits(&[("project_id", "<a>", 7)]), 403, &["no corresponding registered limit"]),
        ("admin", "POST", "/v3/registered_limits -> registered", new, 201, &[]),
        ("admin", "POST", "/v3/limits -> own", limits(&[("project_id", "<a>", 7)]), 201, &["\"resource_limit\":7", "\"domain_id\":null", "\"service_id\":\"<service>\"", "\"region_id\":null"]),
        ("admin", "POST", collection, limits(&[("project_id", "<a>", 8)]), 409, &["volumes"]),
        ("admin", "POST", collection, limits(&[("project_id", "<b>", 1), ("project_id", "<b>", 2)]), 409, &[]),
        ("admin", "POST", collection, other, 403, &["registered limit"]),
        ("admin", "POST", collection, both, 400, &["project_id"]),
        ("admin", "POST", collection, neither, 400, &["project_id"]),
        ("admin", "POST", collection, limits(&[("project_id", NOBODY, 1)]), 400, &["project_id"]),
        ("admin", "POST", collection, limits(&[("domain_id", NOBODY, 1)]), 400, &["domain_id"]),
        ("admin", "POST", collection, limits(&[("project_id", "<b>", -2)]), 400, &["resource_limit"]),
        ("member", "POST", collection, limits(&[("project_id", "<b>", 1)]), 403, &["not authorized"]),
        // If the id of a domain is given as the id of a project, the limit is for the domain.
        ("admin", "POST", "/v3/limits -> of-domain", limits(&[("project_id", "default", 9)]), 201, &["\"domain_id\":\"default\"", "\"project_id\":null"]),
        ("admin", "POST", collection, limits(&[("domain_id", "default", 9)]), 409, &[]),
        ("admin", "POST", "/v3/limits -> far-away", limits(&[("project_id", "<far>", 3)]), 201, &[]),
        ("admin", "PATCH", "/v3/registered_limits/<registered>", json!({ "registered_limit": { "description": "x" } }), 403, &[]),
        ("admin", "DELETE", "/v3/registered_limits/<registered>", none(), 403, &[]),
        ("member", "GET", collection, none(), 200, &["<own>", "!<of-domain>", "!<far-away>"]),
        ("clerk", "GET", collection, none(), 200, &["<own>", "<of-domain>", "!<far-away>"]),
        ("other", "GET", collection, none(), 200, &["\"limits\":[]"]),
        ("admin", "GET", collection, none(), 200, &["<own>", "<of-domain>", "<far-away>"]),
        ("admin", "GET", "/v3/limits?project_id=<a>", none(), 200, &["<own>", "!<of-domain>", "!<far-away>"]),
        ("admin", "GET", "/v3/limits?domain_id=default", none(), 200, &["!<own>", "<of-domain>", "!<far-away>"]),
        ("admin", "GET", "/v3/limits?project_id=x", none(), 200, &["\"limits\":[]"]),
        ("admin", "GET", "/v3/limits?resource_name=none", none(), 200, &["\"limits\":[]"]),
        ("admin", "GET", "/v3/limits?limit=1", none(), 200, &["marker="]),
        ("member", "GET", "/v3/limits?project_id=<far>", none(), 200, &["\"limits\":[]"]),
        ("member", "GET", own, none(), 200, &["\"resource_name\":\"volumes\"", "/v3/limits/<own>"]),
        ("clerk", "GET", own, none(), 200, &[]),
        ("clerk", "GET", "/v3/limits/<of-domain>", none(), 200, &[]),
        ("clerk", "GET", "/v3/limits/<far-away>", none(), 403, &[]),
        ("other", "GET", own, none(), 403, &[]),
        ("member", "GET", "/v3/limits/<of-domain>", none(), 403, &[]),
        ("member", "GET", path_of_nobody, none(), 403, &[]),
        ("admin", "GET", path_of_nobody, none(), 404, &[]),
        ("admin", "PATCH", own, patch(json!({ "resource_limit": 0, "description": "words" })), 200, &["\"resource_limit\":0", "words", "\"resource_name\":\"volumes\""]),
        ("admin", "PATCH", own, patch(json!({ "description": null })), 200, &["\"resource_limit\":0", "\"description\":null"]),
        ("admin", "PATCH", own, patch(json!({ "service_id": "<service>" })), 400, &["service_id"]),
        ("member", "PATCH", own, patch(json!({ "resource_limit": 1 })), 403, &[]),
        // The limits of a project are deleted together with the project.
        ("admin", "DELETE", "/v3/projects/<far>", none(), 204, &[]),
        ("admin", "GET", collection, none(), 200, &["<own>", "!<far-away>"]),
        ("member", "DELETE", own, none(), 403, &[]),
        ("admin", "DELETE", own, none(), 204, &[]),
        ("admin", "DELETE", "/v3/limits/<of-domain>", none(), 204, &[]),
        ("admin", "DELETE", "/v3/registered_limits/<registered>", none(), 204, &[]),
        ("admin", "DELETE", "/v3/services/<service>", none(), 204, &[]),
    ];
    world.hold(&rows).await;
    let left = world.house.facts().read(|view| view.list::<Limit>(&[])).unwrap().unwrap();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
#[rustfmt::skip]
async fn limits_of_two_levels() {
    let new = json!({ "registered_limits": [registered("volumes", none(), 10)] });
    let patch = |limit: i64| json!({ "limit": { "resource_limit": limit } });
    let project = |name: &str, parent: &str| json!({ "project": { "name": name, "parent_id": parent } });
    let collection = "/v3/limits";
    let rows: Vec<Row> = vec![
        ("member", "GET", "/v3/limits/model", none(), 200, &["\"name\":\"strict_two_level\""]),
        ("admin", "POST", "/v3/services -> service", json!({ "service": { "type": "volume" } }), 201, &[]),
        ("admin", "POST", "/v3/registered_limits", new, 201, &[]),
        // If the domain has no limit, the default counts.
        ("admin", "POST", collection, limits(&[("project_id", "<a>", 11)]), 403, &["Invalid resource limit", "parent"]),
        ("admin", "POST", "/v3/limits -> domain", limits(&[("domain_id", "default", 8)]), 201, &[]),
        ("admin", "POST", collection, limits(&[("project_id", "<a>", 9)]), 403, &["parent"]),
        ("admin", "POST", collection, limits(&[("project_id", "<a>", -1)]), 403, &["parent"]),
        ("admin", "POST", "/v3/limits -> project", limits(&[("project_id", "<a>", 8)]), 201, &[]),
        ("admin", "PATCH", "/v3/limits/<domain>", patch(7), 403, &["project below"]),
        ("admin", "PATCH", "/v3/limits/<project>", patch(9), 403, &["parent"]),
        ("admin", "PATCH", "/v3/limits/<domain>", patch(-1), 200, &[]),
        ("admin", "PATCH", "/v3/limits/<project>", patch(100), 200, &[]),
        // A limit of the domain in the same request counts.
        ("admin", "POST", collection, limits(&[("domain_id", "<elsewhere>", 20), ("project_id", "<far>", 21)]), 403, &[]),
        ("admin", "GET", "/v3/limits?domain_id=<elsewhere>", none(), 200, &["\"limits\":[]"]),
        ("admin", "POST", collection, limits(&[("domain_id", "<elsewhere>", 20), ("project_id", "<far>", 15)]), 201, &[]),
        ("admin", "POST", "/v3/projects -> inner", project("inner", "<a>"), 201, &[]),
        // The limits of a project and of a project in it are compared, too.
        ("admin", "POST", "/v3/limits -> in-project", limits(&[("project_id", "<inner>", 50)]), 201, &[]),
        ("admin", "PATCH", "/v3/limits/<in-project>", patch(101), 403, &["larger than that of the parent"]),
        ("admin", "PATCH", "/v3/limits/<in-project>", patch(-1), 403, &["parent"]),
        ("admin", "PATCH", "/v3/limits/<project>", patch(49), 403, &["smaller than that of a project below"]),
        ("admin", "PATCH", "/v3/limits/<project>", patch(50), 200, &[]),
        ("admin", "DELETE", "/v3/limits/<project>", none(), 204, &[]),
        ("admin", "POST", collection, limits(&[("project_id", "<a>", 49)]), 403, &["project below"]),
        ("admin", "POST", "/v3/limits -> of-a", limits(&[("project_id", "<a>", 50)]), 201, &[]),
        ("admin", "POST", "/v3/projects", project("innermost", "<inner>"), 403, &["too deep"]),
        // The limit of a project can be deleted although the limit of a project below it exceeds the default. After that, the limit of the project
        // below can be changed only to a value within the default.
        ("admin", "DELETE", "/v3/limits/<of-a>", none(), 204, &[]),
        ("admin", "PATCH", "/v3/limits/<in-project>", patch(11), 403, &["larger than that of the parent"]),
        ("admin", "PATCH", "/v3/limits/<in-project>", patch(6), 200, &[]),
        // The limit of a project below a project is also compared with the limit of the domain, when either of the two limits is changed.
        ("admin", "PATCH", "/v3/limits/<domain>", patch(5), 403, &["smaller than that of a project below"]),
        ("admin", "PATCH", "/v3/limits/<domain>", patch(6), 200, &[]),
        ("admin", "PATCH", "/v3/limits/<in-project>", patch(7), 403, &["larger than that of the domain"]),
        ("admin", "PATCH", "/v3/limits/<domain>", patch(7), 200, &[]),
        ("admin", "PATCH", "/v3/limits/<in-project>", patch(7), 200, &[]),
        ("admin", "PATCH", "/v3/limits/<domain>", patch(8), 200, &[]),
    ];
    World::new(LimitModel::StrictTwoLevel).await.hold(&rows).await;
}
