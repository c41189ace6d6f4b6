//! Endpoint filters (`OS-EP-FILTER`): groups of endpoints, and filters, which select endpoints or groups for the catalog of a project.

use super::listing::{self, Each, Filters, records};
use super::policies::existing;
use super::request_body::{RequestBody, invalid};
use super::resource::{Record, Resource, Store, add, created, described, permitted};
use super::schema::{Schema, Type};
use super::{ApiError, ApiResponse, Call, Outcome, listed};
use enfilade_admin::Error;
use enfilade_admin::keystone::{
    RecordId, endpoints_of_group, endpoints_of_project, groups_of_project, set_filter,
};
use enfilade_facts::View;
use enfilade_facts::tables::{
    Endpoint, EndpointFilter, EndpointFilterKey, EndpointGroup, GroupFilters, GroupRegion, Interface,
    Key as _, Project, RegionId, ResourceKind, Reverse, ReverseKey, Selected,
};
use enfilade_facts::vocabulary::ServiceId;
use enfilade_passage::{About, ApiPermit};
use hyper::StatusCode;
use serde_json::{Map, Value, json};
use std::ops::ControlFlow;

impl Resource for EndpointGroup {
    const SCHEMA: Schema = Schema {
        one: "endpoint_group",
        many: "endpoint_groups",
        attributes: &[
            ("id", Type::Text, Type::None),
            ("name", Type::Text, Type::Text),
            ("description", Type::TextOrNull, Type::TextOrNull),
            ("filters", Type::Object, Type::Object),
            ("links", Type::Object, Type::None),
        ],
    };
    const KIND: Option<ResourceKind> = Some(ResourceKind::EndpointGroup);
    const UNDER: &'static str = "/OS-EP-FILTER";
    const STORE: Store<Self> = Store::BY_ID;
    const HAS_OPTIONS: bool = false;

    fn attributes(&self) -> Value {
        let GroupFilters { service, region, interface } = &self.filters;
        let mut filters = json!({});
        if let Some(service) = service {
            add(&mut filters, "service_id", json!(service.to_string()));
        }
        if let Some(region) = region {
            add(&mut filters, "region_id", json!(region.id().map(|region| &region.0)));
        }
        if let Some(interface) = interface {
            add(&mut filters, "interface", json!(interface.name()));
        }
        json!({ "name": self.name, "description": self.description, "filters": filters })
    }

    fn change(&mut self, given: &RequestBody) -> Result<(), Error> {
        given.unless_empty()?;
        given.only(&["name", "description", "filters"])?;
        given.set("name", &mut self.name)?;
        given.set_or_remove("description", &mut self.description)?;
        if let Some(filters) = given.object("filters")? {
            self.filters = group_filters(filters)?;
        }
        Ok(())
    }

    fn create(call: &mut Call) -> Outcome {
        let permitted = permitted::<EndpointGroup>(call)?;
        let given = &permitted.1;
        if given.object("filters")?.is_none_or(Map::is_empty) {
            return Err(wrong("filters", "at least one of service_id, region_id and interface").into());
        }
        let (name, filters) = (given.needed("name")?, GroupFilters::default());
        let new = EndpointGroup { name, description: None, filters };
        created(call, permitted, &RecordId::New, &new)
    }
}

fn wrong(name: &str, expected: &str) -> Error {
    invalid(format!("Invalid input for field/attribute {name} of endpoint_group: expected {expected}."))
}

/// Parses the filters of an endpoint group: the service, region and interface that an endpoint must have to belong to the group. As in Keystone,
/// there is no filter for the property `enabled`.
///
/// # Errors
/// When a property is unknown, or its value has a wrong form.
pub fn group_filters(given: &Map<String, Value>) -> Result<GroupFilters, Error> {
    let mut filters = GroupFilters::default();
    for (name, value) in given {
        match (name.as_str(), value) {
            ("service_id", Value::String(text)) => {
                let wrong = |_| wrong("filters.service_id", "32 lower-case hexadecimal digits");
                filters.service = Some(text.parse::<ServiceId>().map_err(wrong)?);
            }
            ("region_id", Value::Null) => filters.region = Some(GroupRegion::Without),
            ("region_id", Value::String(text)) => {
                filters.region = Some(GroupRegion::Named(RegionId(text.clone())))
            }
            ("interface", Value::String(text)) => {
                let wrong = |_| wrong("filters.interface", "public, internal or admin");
                filters.interface = Some(text.parse::<Interface>().map_err(wrong)?);
            }
            ("service_id" | "region_id" | "interface", _) => {
                return Err(wrong(&format!("filters.{name}"), "a string"));
            }
            _ => {
                return Err(wrong(&format!("filters.{name}"), "one of service_id, region_id and interface"));
            }
        }
    }
    Ok(filters)
}

/// Describes records for a response.
fn rows<R: Resource>(
    view_at: (&View<'_>, i64),
    base: &str,
    found: Vec<(R::Key, R)>,
    permit: &ApiPermit,
) -> Result<Vec<Value>, ApiError> {
    found.into_iter().map(|row| described(view_at, base, row, permit)).collect()
}

/// Lists the endpoints of a group.
pub(super) fn endpoints_in_group(call: &mut Call) -> Outcome {
    let (Record { row, .. }, permit) = EndpointGroup::found(call)?;
    let rows =
        call.look(|view| rows((view, call.now()), &call.base, endpoints_of_group(view, &row)?, &permit))?;
    Ok(listed(call, "endpoints", rows))
}

/// Lists the projects that have a filter for the group in the path.
pub(super) fn projects_of_group(call: &mut Call) -> Outcome {
    let (Record { id, .. }, permit) = EndpointGroup::found(call)?;
    projects_selecting(call, Selected::Group(id), &permit)
}

/// Lists the projects that have a filter for the endpoint in the path. A filter for a group with this endpoint does not count.
pub(super) fn projects_of_endpoint(call: &mut Call) -> Outcome {
    let (Record { id, .. }, permit) = Endpoint::found(call)?;
    projects_selecting(call, Selected::Endpoint(id), &permit)
}

/// Lists the projects that have a filter for `selected`, an endpoint or a group. The list can contain every project of the cloud, so it is read page
/// by page.
fn projects_selecting(call: &Call, selected: Selected, permit: &ApiPermit) -> Outcome {
    let after = call.marker(|text| Some(ReverseKey::Selected(selected, text.parse().ok()?).bytes()))?;
    let (base, own, now) = (call.base.clone(), permit.clone(), call.now());
    let source = move |view: &View<'_>, after: Option<&[u8]>, each: Each<'_>| {
        records::<Reverse>(view, &ReverseKey::selecting(&selected), after, |key, _| {
            let ReverseKey::Selected(_, id) = key else { return Ok(ControlFlow::Continue(())) };
            match view.get::<Project>(&id)? {
                Some(row) => Ok(each(key.bytes(), described((view, now), &base, (id, row), &own)?)),
                None => Ok(ControlFlow::Continue(())),
            }
        })
    };
    listing::answer(call, Project::SCHEMA.many, permit, Filters::none(), after, Box::new(source))
}

/// Lists the endpoints that the filters of a project select.
pub(super) fn endpoints_for_project(call: &mut Call) -> Outcome {
    let (Record { id, .. }, permit) = Project::found(call)?;
    let rows = call.look(|view| {
        rows::<Endpoint>((view, call.now()), &call.base, endpoints_of_project(view, &id)?, &permit)
    })?;
    Ok(listed(call, "endpoints", rows))
}

/// Lists the groups that the filters of a project select.
pub(super) fn groups_for_project(call: &mut Call) -> Outcome {
    let (Record { id, .. }, permit) = Project::found(call)?;
    let rows = call.look(|view| {
        rows::<EndpointGroup>((view, call.now()), &call.base, groups_of_project(view, &id)?, &permit)
    })?;
    Ok(listed(call, "endpoint_groups", rows))
}

/// The filter in the path, whether it is set, and the permit for the call. Each record that the path names must exist.
fn filter(call: &mut Call, is_of_group: bool) -> Result<(EndpointFilterKey, bool, ApiPermit), ApiError> {
    let permit = call.allow(&About::default())?;
    let [first, second] = [0, 1].map(|at| call.decoded(at));
    let (key, is_set) = call.look(|view| {
        let key = if is_of_group {
            let project = existing::<Project>(view, &second)?.0;
            EndpointFilterKey {
                project,
                selected: Selected::Group(existing::<EndpointGroup>(view, &first)?.0),
            }
        } else {
            let selected = Selected::Endpoint(existing::<Endpoint>(view, &second)?.0);
            EndpointFilterKey { project: existing::<Project>(view, &first)?.0, selected }
        };
        Ok((key, view.get::<EndpointFilter>(&key)?.is_some()))
    })?;
    Ok((key, is_set, permit))
}

fn absent(key: &EndpointFilterKey) -> ApiError {
    let (what, id) = match key.selected {
        Selected::Endpoint(id) => ("Endpoint", id.to_string()),
        Selected::Group(id) => ("Endpoint group", id.to_string()),
    };
    ApiError::Message(StatusCode::NOT_FOUND, format!("{what} {id} not found in project {}.", key.project))
}

fn set(call: &mut Call, is_of_group: bool, is_so: bool) -> Outcome {
    let (key, is_set, permit) = filter(call, is_of_group)?;
    if !is_set && !is_so {
        return Err(absent(&key));
    }
    call.save(&permit, |ctx| set_filter(ctx, &key, is_so))?;
    Ok(ApiResponse::no_content())
}

/// Checks whether a project has a filter for an endpoint.
pub(super) fn check_endpoint(call: &mut Call) -> Outcome {
    let (key, is_set, _) = filter(call, false)?;
    if is_set { Ok(ApiResponse::no_content()) } else { Err(absent(&key)) }
}

/// Sets the filter that selects an endpoint for a project's catalog.
pub(super) fn add_endpoint(call: &mut Call) -> Outcome {
    set(call, false, true)
}

/// Removes the filter that selects an endpoint for a project's catalog.
pub(super) fn remove_endpoint(call: &mut Call) -> Outcome {
    set(call, false, false)
}

/// Shows the filter that selects a group for a project's catalog, if the project has this filter.
pub(super) fn show_group(call: &mut Call) -> Outcome {
    let (key, is_set, _) = filter(call, true)?;
    let Selected::Group(group) = key.selected else { return Err(absent(&key)) };
    if !is_set {
        return Err(absent(&key));
    }
    let (group, project) = (group.to_string(), key.project.to_string());
    let link = format!("{}/v3/OS-EP-FILTER/endpoint_groups/{group}/projects/{project}", call.base);
    let body = json!({ "endpoint_group_id": group, "project_id": project, "links": { "self": link } });
    Ok(ApiResponse::json(StatusCode::OK, &json!({ "project_endpoint_group": body })))
}

/// Sets the filter that selects a group for a project's catalog.
pub(super) fn add_group(call: &mut Call) -> Outcome {
    set(call, true, true)
}

/// Removes the filter that selects a group for a project's catalog.
pub(super) fn remove_group(call: &mut Call) -> Outcome {
    set(call, true, false)
}
