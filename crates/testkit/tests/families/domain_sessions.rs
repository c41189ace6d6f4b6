//! Sessions for a domain: even an administrator's session for a domain does not reach records of the whole cloud.

use crate::world::{Row, World, none};
use enfilade_admin::LimitModel;
use serde_json::json;

#[tokio::test]
#[rustfmt::skip]
async fn an_administrator_of_a_domain() {
    let domain = |name: &str| json!({ "domain": { "name": name } });
    let on_domain = "/v3/domains/default/users/<clerk>/roles/<admins>";
    let (system, projects) = ("/v3/system/users/<clerk>/roles/<admins>", "/v3/users/<member>/projects");
    let registered = json!({ "registered_limits": [{ "service_id": "<service>", "region_id": none(), "resource_name": "volumes", "default_limit": 10 }] });
    let limit = |project: &str| json!({ "limits": [{ "project_id": project, "service_id": "<service>", "resource_name": "volumes", "resource_limit": 7 }] });
    let rows: Vec<Row> = vec![
        ("admin", "GET", "/v3/roles?name=admin -> admins", none(), 200, &[]),
        ("admin", "PUT", "/v3/projects/<far>/users/<member>/roles/<admins>", none(), 204, &[]),
        // `clerk` is a reader of the domain.
        ("clerk", "GET", "/v3/domains", none(), 200, &["\"id\":\"default\"", "!<elsewhere>"]),
        ("clerk", "GET", projects, none(), 200, &["<a>", "!<far>"]),
        ("clerk", "POST", "/v3/projects", json!({ "project": { "name": "new" } }), 403, &[]),
        // `admin` is an administrator of the domain.
        ("admin", "PUT", on_domain, none(), 204, &[]),
        ("clerk", "POST", "/v3/projects", json!({ "project": { "name": "new" } }), 201, &[]),
        ("clerk", "GET", "/v3/domains", none(), 200, &["\"id\":\"default\"", "!<elsewhere>"]),
        ("clerk", "GET", "/v3/projects", none(), 200, &["<a>", "!<far>"]),
        ("clerk", "GET", "/v3/projects?domain_id=<elsewhere>", none(), 200, &["\"projects\":[]"]),
        ("clerk", "GET", "/v3/role_assignments", none(), 200, &["<a>", "!<far>"]),
        ("clerk", "GET", projects, none(), 200, &["<a>", "<far>"]),
        ("clerk", "GET", "/v3/projects/<far>", none(), 200, &[]),
        ("clerk", "GET", "/v3/roles", none(), 200, &["<admins>"]),
        ("clerk", "POST", "/v3/domains", domain("new"), 403, &["not authorized"]),
        ("clerk", "PATCH", "/v3/domains/default", domain("new"), 403, &["not authorized"]),
        ("clerk", "GET", "/v3/services", none(), 403, &["not authorized"]),
        ("clerk", "POST", "/v3/roles", json!({ "role": { "name": "new" } }), 403, &["not authorized"]),
        ("clerk", "PUT", system, none(), 403, &["not authorized"]),
        ("clerk", "GET", "/v3/users/<clerk>/application_credentials", none(), 403, &["not authorized"]),
        ("clerk", "GET", "/v3/OS-TRUST/trusts", none(), 403, &["not authorized"]),
        // As in Keystone, an administrator of a domain lists all limits.
        ("admin", "POST", "/v3/services -> service", json!({ "service": { "type": "volume" } }), 201, &[]),
        ("admin", "POST", "/v3/registered_limits", registered, 201, &[]),
        ("admin", "POST", "/v3/limits -> near", limit("<a>"), 201, &[]),
        ("admin", "POST", "/v3/limits -> distant", limit("<far>"), 201, &[]),
        ("admin", "GET", "/v3/limits", none(), 200, &["<near>", "<distant>"]),
        ("clerk", "GET", "/v3/limits", none(), 200, &["<near>", "<distant>"]),
        // Roles of a domain are shown only to administrators and readers of the system.
        ("admin", "POST", "/v3/roles -> local", json!({ "role": { "name": "local", "domain_id": "default" } }), 201, &[]),
        ("admin", "GET", "/v3/roles/<local>", none(), 200, &["<local>"]),
        ("admin", "GET", "/v3/roles?domain_id=default", none(), 200, &["<local>"]),
        ("clerk", "GET", "/v3/roles/<local>", none(), 403, &["get_domain_role"]),
        ("clerk", "GET", "/v3/roles?domain_id=default", none(), 403, &["not authorized"]),
        ("admin", "GET", "/v3/domains", none(), 200, &["\"id\":\"default\"", "<elsewhere>"]),
        ("admin", "PUT", system, none(), 204, &[]),
    ];
    World::new(LimitModel::Flat).await.hold(&rows).await;
}
