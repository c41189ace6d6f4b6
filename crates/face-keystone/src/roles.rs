//! Roles and role implications.

use super::domains;
use super::given::{Given, invalid, unless_immutable, with_extra};
use super::listing::{self, Filters, plain};
use super::{Call, Outcome, Said, Trouble, query};
use enfilade_admin::Error;
use enfilade_admin::keystone::{delete_role, extra_of, save_role, set_implied};
use enfilade_facts::View;
use enfilade_facts::tables::{NamedRole, ThingKind};
use enfilade_facts::vocabulary::RoleId;
use enfilade_passage::{About, ApiPermit};
use hyper::StatusCode;
use serde_json::{Map, Value, json};
use std::ops::ControlFlow;

const KNOWN: [&str; 3] = ["name", "description", "domain_id"];

fn body(base: &str, id: &RoleId, row: &NamedRole, extra: &str) -> Value {
    let mut body = Map::new();
    body.insert("id".to_owned(), json!(id.to_string()));
    body.insert("name".to_owned(), json!(row.name));
    body.insert("domain_id".to_owned(), json!(row.domain.map(|domain| domain.to_keystone())));
    body.insert("description".to_owned(), json!(row.description));
    with_extra(body, extra, format!("{base}/v3/roles/{id}"))
}

/// Finds a role by id.
pub(super) fn find(view: &View<'_>, id: &str) -> Result<Option<(RoleId, NamedRole)>, Trouble> {
    let Ok(id) = id.parse::<RoleId>() else { return Ok(None) };
    Ok(view.get::<NamedRole>(&id)?.map(|row| (id, row)))
}

fn found(call: &mut Call) -> Result<(RoleId, NamedRole, String, ApiPermit), Trouble> {
    let said = call.parameter(0).to_owned();
    let found = call.look(|view| {
        let Some((id, row)) = find(view, &said)? else { return Ok(None) };
        let extra = extra_of(view, ThingKind::Role, &id)?;
        Ok(Some((id, row, extra)))
    })?;
    let about =
        About { domain: found.as_ref().and_then(|(_, row, _)| row.domain.as_ref()), ..About::default() };
    let permit = call.allow(&about)?;
    let (id, row, extra) = found.ok_or_else(|| Trouble::missing("role", &said))?;
    Ok((id, row, extra, permit))
}

/// Without `domain_id` only global roles are listed, as in Keystone.
pub(super) fn list(call: &mut Call) -> Outcome {
    let permit = call.allow(&About::default())?;
    let domain = query(&call.head, "domain_id").map(plain).unwrap_or_default();
    let base = call.base.clone();
    let after = call.marker(|text| text.parse::<RoleId>().ok().map(|id| id.bytes().to_vec()))?;
    let source = move |view: &View<'_>, after: Option<&[u8]>, each: listing::Each<'_>| {
        listing::records::<NamedRole>(view, &[], after, |id, row| {
            if row.domain.map(|domain| domain.to_keystone()).unwrap_or_default() != domain {
                return Ok(ControlFlow::Continue(()));
            }
            let extra = extra_of(view, ThingKind::Role, &id)?;
            Ok(each(id.bytes().to_vec(), body(&base, &id, &row, &extra)))
        })
    };
    listing::answer(call, "roles", &permit, Filters::of(&call.head, &["domain_id"]), after, Box::new(source))
}

pub(super) fn show(call: &mut Call) -> Outcome {
    let (id, row, extra, _) = found(call)?;
    Ok(Said::json(StatusCode::OK, &json!({ "role": body(&call.base, &id, &row, &extra) })))
}

fn changed(
    given: &Given,
    before: Option<(&NamedRole, &str)>,
    new: &NamedRole,
) -> Result<(NamedRole, String), Error> {
    let (mut row, extra) = before.map_or((new.clone(), ""), |(row, extra)| (row.clone(), extra));
    if let Some(name) = given.name()? {
        row.name = name;
    }
    if let Some(description) = given.text("description")? {
        row.description = description.filter(|text| !text.is_empty());
    }
    Ok((row, given.extra(&KNOWN, extra)?))
}

pub(super) fn create(call: &mut Call) -> Outcome {
    let permit = call.allow(&About::default())?;
    let given = Given::of(call, "role")?;
    let domain = match given.text("domain_id")?.flatten() {
        None => None,
        Some(said) => Some(
            call.look(|view| domains::find(view, &said)?.ok_or_else(|| Trouble::missing("domain", &said)))?.0,
        ),
    };
    let new = NamedRole { name: given.needed("name")?, domain, description: None, implies: Vec::new() };
    let made = call.save(&permit, |desk| save_role(desk, None, &|before| changed(&given, before, &new)))?;
    let body = body(&call.base, &made.id, &made.row, &made.extra);
    Ok(Said::json(StatusCode::CREATED, &json!({ "role": body })))
}

pub(super) fn update(call: &mut Call) -> Outcome {
    let (id, row, extra, permit) = found(call)?;
    let given = Given::of(call, "role")?;
    unless_immutable(&extra, Some(&given))?;
    if given.text("domain_id")?.is_some_and(|said| said != row.domain.map(|domain| domain.to_keystone())) {
        return Err(invalid("the domain of a role cannot be changed").into());
    }
    let saved =
        call.save(&permit, |desk| save_role(desk, Some(id), &|before| changed(&given, before, &row)))?;
    Ok(Said::json(StatusCode::OK, &json!({ "role": body(&call.base, &id, &saved.row, &saved.extra) })))
}

pub(super) fn delete(call: &mut Call) -> Outcome {
    let (id, _, extra, permit) = found(call)?;
    unless_immutable(&extra, None)?;
    call.save(&permit, |desk| delete_role(desk, &id))?;
    Ok(Said::nothing())
}

fn short(base: &str, id: &RoleId, row: &NamedRole) -> Value {
    json!({ "id": id.to_string(), "name": row.name, "links": { "self": format!("{base}/v3/roles/{id}") } })
}

fn inference(base: &str, view: &View<'_>, prior: (&RoleId, &NamedRole)) -> Result<Value, Trouble> {
    let mut implies = Vec::new();
    for id in &prior.1.implies {
        implies.extend(view.get::<NamedRole>(id)?.map(|row| short(base, id, &row)));
    }
    Ok(json!({ "prior_role": short(base, prior.0, prior.1), "implies": implies }))
}

/// All of them.
pub(super) fn inferences(call: &mut Call) -> Outcome {
    call.allow(&About::default())?;
    let rows: Vec<Value> = call.look(|view| {
        let roles = view.list::<NamedRole>(&[])?;
        let implying = roles.iter().filter(|(_, row)| !row.implies.is_empty());
        implying.map(|(id, row)| inference(&call.base, view, (id, row))).collect()
    })?;
    Ok(super::listed(call, "role_inferences", rows))
}

pub(super) fn list_implied(call: &mut Call) -> Outcome {
    let (id, row, ..) = found(call)?;
    let told = call.look(|view| inference(&call.base, view, (&id, &row)))?;
    let links = json!({ "self": format!("{}/v3/roles/{id}/implies", call.base) });
    Ok(Said::json(StatusCode::OK, &json!({ "role_inference": told, "links": links })))
}

/// A role and its id.
type Role = (RoleId, NamedRole);

/// Both roles of the path, and the permit for the call.
fn both(call: &mut Call) -> Result<(Role, Role, ApiPermit), Trouble> {
    let (prior, row, _, permit) = found(call)?;
    let said = call.parameter(1).to_owned();
    let implied = call.look(|view| find(view, &said)?.ok_or_else(|| Trouble::missing("role", &said)))?;
    Ok(((prior, row), implied, permit))
}

fn told(call: &Call, prior: &Role, implied: &Role) -> Value {
    json!({
        "role_inference": {
            "prior_role": short(&call.base, &prior.0, &prior.1),
            "implies": short(&call.base, &implied.0, &implied.1),
        },
        "links": { "self": format!("{}/v3/roles/{}/implies/{}", call.base, prior.0, implied.0) },
    })
}

pub(super) fn show_implied(call: &mut Call) -> Outcome {
    let (prior, implied, _) = both(call)?;
    match prior.1.implies.contains(&implied.0) {
        true => Ok(Said::json(StatusCode::OK, &told(call, &prior, &implied))),
        false => Err(Trouble::missing("implied role", call.parameter(1))),
    }
}

pub(super) fn imply(call: &mut Call) -> Outcome {
    let (prior, implied, permit) = both(call)?;
    call.save(&permit, |desk| set_implied(desk, &prior.0, &implied.0, true))?;
    Ok(Said::json(StatusCode::CREATED, &told(call, &prior, &implied)))
}

pub(super) fn imply_no_more(call: &mut Call) -> Outcome {
    let (prior, implied, permit) = both(call)?;
    let was = call.save(&permit, |desk| set_implied(desk, &prior.0, &implied.0, false))?;
    if was { Ok(Said::nothing()) } else { Err(Trouble::missing("implied role", call.parameter(1))) }
}
