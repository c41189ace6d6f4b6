//! Reads records that only services and the catalog of a project need: limits, policies and endpoint filters.

use super::super::cloud::Api;
use super::{Asked, domain, id, text, unknown};
use enfilade_admin::Imported;
use enfilade_admin::keystone::{CloudRecord, ServiceRecord};
use enfilade_faces::percent::push_name;
use enfilade_facts::tables::{
    EndpointFilterKey, EndpointGroup, Limit, LimitOwner, Policy, PolicyAssociation, PolicyTarget, RegionId,
    RegisteredLimit, Selected,
};
use enfilade_facts::vocabulary::{EndpointGroupId, EndpointId, PolicyId, RegisteredLimitId, ServiceId};
use serde_json::Value;

/// Adds the limits, policies and endpoint filters. The caller has already added the projects, regions, services and endpoints.
pub(super) async fn for_services(api: &mut Api, asked: &mut Asked) -> anyhow::Result<()> {
    limits(api, asked).await?;
    policies(api, asked).await?;
    endpoint_filters(api, asked).await
}

/// The rows of a list. `None` if Keystone refuses to show the list. Then the report contains the refusal.
pub(super) async fn shown(
    api: &mut Api,
    asked: &mut Asked,
    path: &str,
    many: &str,
    kind: &'static str,
) -> anyhow::Result<Option<Vec<Value>>> {
    match api.list_if_served(path, many).await? {
        Ok(rows) => Ok(Some(rows)),
        Err(refused) => {
            asked.left.push(unknown(kind, &refused));
            Ok(None)
        }
    }
}

/// The rows of a list. Keystone shows the complete list only to a session for the system. If Keystone does not issue such a session, or refuses to
/// show the list, the report contains the reason. Then the result contains only the rows that Keystone shows to the session of the login.
pub(super) async fn shown_for_system(
    api: &mut Api,
    asked: &mut Asked,
    path: &str,
    many: &str,
    kind: &'static str,
) -> anyhow::Result<Option<Vec<Value>>> {
    match api.list_for_system(path, many).await? {
        Ok(rows) => Ok(Some(rows)),
        Err(refused) => {
            let why = format!(
                "some records may be missing: Keystone shows all records of this kind only to a session for the system, and refused such a session \
                 or the list ({refused}); import again with `system_scope: all` instead of the project in clouds.yaml"
            );
            asked.left.push(Imported::left(kind, "", why));
            shown(api, asked, path, many, kind).await
        }
    }
}

fn limit_value(row: &Value, name: &str) -> Option<i32> {
    i32::try_from(row.get(name)?.as_i64()?).ok().filter(|limit| *limit >= -1)
}

async fn limits(api: &mut Api, asked: &mut Asked) -> anyhow::Result<()> {
    let kind = "registered limit";
    let registered =
        shown(api, asked, "registered_limits", "registered_limits", kind).await?.unwrap_or_default();
    asked.each(kind, &registered, |row| {
        let registered = RegisteredLimit {
            service: id(row, "service_id")?,
            region: text(row, "region_id").map(RegionId),
            resource: text(row, "resource_name")?,
            default: limit_value(row, "default_limit")?,
            description: text(row, "description"),
        };
        Some(CloudRecord::ForServices(ServiceRecord::RegisteredLimit(id(row, "id")?, registered)))
    });
    // Each limit belongs to a registered limit. So without registered limits there are no limits.
    if registered.is_empty() {
        return Ok(());
    }
    if let Ok(Some(body)) = api.find("limits/model").await? {
        asked.limit_model = body.get("model").and_then(|model| text(model, "name"));
    }
    let rows = shown_for_system(api, asked, "limits", "limits", "limit").await?.unwrap_or_default();
    // A limit refers to its registered limit by service, region and resource.
    let registered_for = |row: &Value| -> Option<RegisteredLimitId> {
        let place = |row: &Value| ["service_id", "region_id", "resource_name"].map(|name| text(row, name));
        id(registered.iter().find(|registered| place(registered) == place(row))?, "id")
    };
    asked.each("limit", &rows, |row| {
        let owner = match text(row, "project_id") {
            Some(_) => LimitOwner::Project(id(row, "project_id")?),
            None => LimitOwner::Domain(domain(row, "domain_id")?),
        };
        let limit = Limit {
            registered: registered_for(row)?,
            owner,
            value: limit_value(row, "resource_limit")?,
            description: text(row, "description"),
        };
        Some(CloudRecord::ForServices(ServiceRecord::Limit(id(row, "id")?, limit)))
    });
    Ok(())
}

/// The targets that a policy can have: each endpoint, each service, and each service in each region.
fn targets(things: &[CloudRecord]) -> Vec<PolicyTarget> {
    let mut targets = Vec::new();
    for thing in things {
        match thing {
            CloudRecord::Endpoint(id, _) => targets.push(PolicyTarget::Endpoint(*id)),
            CloudRecord::Service(id, _) => {
                targets.push(PolicyTarget::Service(*id));
                targets.extend(regions(things).map(|region| PolicyTarget::InRegion(*id, region.clone())));
            }
            _ => {}
        }
    }
    targets
}

fn regions(things: &[CloudRecord]) -> impl Iterator<Item = &RegionId> {
    things.iter().filter_map(|thing| match thing {
        CloudRecord::Region(id, _) => Some(id),
        _ => None,
    })
}

fn path_of(policy: &PolicyId, target: &PolicyTarget) -> String {
    let of_service = |id: &ServiceId| format!("policies/{policy}/OS-ENDPOINT-POLICY/services/{id}");
    match target {
        PolicyTarget::Endpoint(id) => format!("policies/{policy}/OS-ENDPOINT-POLICY/endpoints/{id}"),
        PolicyTarget::Service(id) => of_service(id),
        PolicyTarget::InRegion(id, region) => {
            let mut path = format!("{}/regions/", of_service(id));
            push_name(&mut path, &region.0);
            path
        }
    }
}

/// Adds the policies, and their associations with endpoints, services and regions. Keystone has no list of associations, so the import asks for each
/// possible association.
async fn policies(api: &mut Api, asked: &mut Asked) -> anyhow::Result<()> {
    let rows = shown(api, asked, "policies", "policies", "policy").await?.unwrap_or_default();
    asked.each("policy", &rows, |row| {
        let blob = match row.get("blob")? {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let policy = Policy { kind: row.get("type")?.as_str()?.to_owned(), blob };
        Some(CloudRecord::ForServices(ServiceRecord::Policy(id(row, "id")?, policy)))
    });
    let targets = if rows.is_empty() { Vec::new() } else { targets(&asked.things) };
    for policy in rows.iter().filter_map(|row| id::<PolicyId>(row, "id")) {
        for target in &targets {
            match api.find(&path_of(&policy, target)).await? {
                Ok(None) => {}
                Ok(Some(_)) => {
                    let record = ServiceRecord::Association(target.clone(), PolicyAssociation { policy });
                    asked.things.push(CloudRecord::ForServices(record));
                }
                Err(refused) => {
                    asked.left.push(unknown("policy association", &refused));
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

async fn endpoint_filters(api: &mut Api, asked: &mut Asked) -> anyhow::Result<()> {
    let kind = "endpoint group";
    let groups = shown(api, asked, "OS-EP-FILTER/endpoint_groups", "endpoint_groups", kind).await?;
    let groups = groups.unwrap_or_default();
    asked.each(kind, &groups, |row| {
        let group = EndpointGroup {
            name: text(row, "name")?,
            description: text(row, "description"),
            filters: enfilade_keystone::group_filters(row.get("filters")?.as_object()?).ok()?,
        };
        Some(CloudRecord::ForServices(ServiceRecord::EndpointGroup(id(row, "id")?, group)))
    });
    let endpoints = asked.things.iter().filter_map(|thing| match thing {
        CloudRecord::Endpoint(id, _) => Some(*id),
        _ => None,
    });
    let endpoints: Vec<EndpointId> = endpoints.collect();
    let paths = groups
        .iter()
        .filter_map(|row| id::<EndpointGroupId>(row, "id"))
        .map(|id| (format!("OS-EP-FILTER/endpoint_groups/{id}/projects"), Selected::Group(id)));
    let of_endpoints = endpoints
        .into_iter()
        .map(|id| (format!("OS-EP-FILTER/endpoints/{id}/projects"), Selected::Endpoint(id)));
    for (path, selected) in paths.chain(of_endpoints) {
        let kind = "endpoint filter";
        let Some(projects) = shown(api, asked, &path, "projects", kind).await? else { return Ok(()) };
        asked.each(kind, &projects, |row| {
            let key = EndpointFilterKey { project: id(row, "id")?, selected };
            Some(CloudRecord::ForServices(ServiceRecord::EndpointFilter(key)))
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use enfilade_facts::tables::{Region, Service};
    use serde_json::json;

    #[test]
    fn a_limit_is_minus_one_or_more() {
        for (value, expected) in [
            (json!(-1), Some(-1)),
            (json!(0), Some(0)),
            (json!(i32::MAX), Some(i32::MAX)),
            (json!(-2), None),
            (json!(1_i64 << 31), None),
            (json!("1"), None),
            (Value::Null, None),
        ] {
            assert_eq!(limit_value(&json!({ "x": value }), "x"), expected, "{value}");
        }
    }

    #[test]
    fn each_association_has_a_path() {
        let service = ServiceId::from_bytes([2; 16]);
        let region = |id: &str| CloudRecord::Region(RegionId(id.to_owned()), Region::default());
        let row = Service { kind: "x".into(), name: String::new(), enabled: true, description: None };
        let things = [region("a"), region("b/ü"), CloudRecord::Service(service, row)];
        let policy = PolicyId::from_bytes([1; 16]);
        let paths: Vec<_> = targets(&things).iter().map(|target| path_of(&policy, target)).collect();
        let of_service = format!("policies/{policy}/OS-ENDPOINT-POLICY/services/{service}");
        let expected = ["", "/regions/a", "/regions/b%2F%C3%BC"].map(|end| format!("{of_service}{end}"));
        assert_eq!(paths, expected);
    }
}
