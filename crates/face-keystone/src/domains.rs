//! Domains.

use super::given::{Given, invalid, unless_immutable, with_extra};
use super::listing::{self, Filters};
use super::{Call, Outcome, Said, Trouble};
use enfilade_admin::Error;
use enfilade_admin::keystone::{delete_domain, extra_of, save_domain};
use enfilade_facts::View;
use enfilade_facts::tables::{Domain, ThingKind};
use enfilade_facts::vocabulary::{DomainId, Realm};
use enfilade_passage::About;
use hyper::StatusCode;
use serde_json::{Map, Value, json};
use std::ops::ControlFlow;

const KNOWN: [&str; 5] = ["name", "description", "enabled", "tags", "explicit_domain_id"];

pub(super) fn body(base: &str, id: &DomainId, row: &Domain, extra: &str) -> Value {
    let id = id.to_keystone();
    let mut body = Map::new();
    body.insert("id".to_owned(), json!(id));
    body.insert("name".to_owned(), json!(row.name.as_str()));
    body.insert("description".to_owned(), json!(row.description.as_deref().unwrap_or_default()));
    body.insert("enabled".to_owned(), json!(row.enabled));
    body.insert("tags".to_owned(), json!([]));
    with_extra(body, extra, format!("{base}/v3/domains/{id}"))
}

/// Finds a domain by id.
pub(super) fn find(view: &View<'_>, id: &str) -> Result<Option<(DomainId, Domain)>, Trouble> {
    let Ok(id) = DomainId::from_keystone(id) else { return Ok(None) };
    Ok(view.get::<Domain>(&id)?.map(|row| (id, row)))
}

pub(super) fn list(call: &mut Call) -> Outcome {
    let permit = call.allow(&About::default())?;
    let (base, only) = (call.base.clone(), permit.only_domain());
    let after = call.marker(|text| DomainId::from_keystone(text).ok().map(|id| id.bytes().to_vec()))?;
    let source = move |view: &View<'_>, after: Option<&[u8]>, each: listing::Each<'_>| {
        listing::records::<Domain>(view, &[], after, |id, row| {
            if only.is_some_and(|only| only != id) {
                return Ok(ControlFlow::Continue(()));
            }
            let extra = extra_of(view, ThingKind::Domain, &id)?;
            Ok(each(id.bytes().to_vec(), body(&base, &id, &row, &extra)))
        })
    };
    listing::answer(call, "domains", &permit, Filters::of(&call.head, &[]), after, Box::new(source))
}

pub(super) fn show(call: &mut Call) -> Outcome {
    let id = call.parameter(0).to_owned();
    let found = call.look(|view| {
        let Some((id, row)) = find(view, &id)? else { return Ok(None) };
        let extra = extra_of(view, ThingKind::Domain, &id)?;
        Ok(Some((id, row, extra)))
    })?;
    let about = About { domain: found.as_ref().map(|(id, ..)| id), ..About::default() };
    call.allow(&about)?;
    let (id, row, extra) = found.ok_or_else(|| Trouble::missing("domain", &id))?;
    Ok(Said::json(StatusCode::OK, &json!({ "domain": body(&call.base, &id, &row, &extra) })))
}

fn changed(given: &Given, before: Option<(&Domain, &str)>) -> Result<(Domain, String), Error> {
    let (mut row, extra) = match before {
        Some((row, extra)) => (row.clone(), extra),
        None => (Domain::new(realm(&given.needed("name")?)?), ""),
    };
    if let Some(name) = given.name()? {
        row.name = realm(&name)?;
    }
    row.enabled = given.flag("enabled")?.unwrap_or(row.enabled);
    if let Some(description) = given.text("description")? {
        row.description = description.filter(|text| !text.is_empty());
    }
    Ok((row, given.extra(&KNOWN, extra)?))
}

fn realm(name: &str) -> Result<Realm, Error> {
    name.parse().map_err(|why| invalid(format!("Invalid input for field/attribute name: {why}")))
}

pub(super) fn create(call: &mut Call) -> Outcome {
    let permit = call.allow(&About::default())?;
    let given = Given::of(call, "domain")?;
    let made = call.save(&permit, |desk| save_domain(desk, None, &|before| changed(&given, before)))?;
    let body = body(&call.base, &made.id, &made.row, &made.extra);
    Ok(Said::json(StatusCode::CREATED, &json!({ "domain": body })))
}

pub(super) fn update(call: &mut Call) -> Outcome {
    let id = call.parameter(0).to_owned();
    let found = call.look(|view| find(view, &id))?;
    let permit = call.allow(&About { domain: found.as_ref().map(|(id, _)| id), ..About::default() })?;
    let (id, _) = found.ok_or_else(|| Trouble::missing("domain", &id))?;
    let given = Given::of(call, "domain")?;
    let extra = call.look(|view| Ok(extra_of(view, ThingKind::Domain, &id)?))?;
    unless_immutable(&extra, Some(&given))?;
    let saved = call.save(&permit, |desk| save_domain(desk, Some(id), &|before| changed(&given, before)))?;
    Ok(Said::json(StatusCode::OK, &json!({ "domain": body(&call.base, &id, &saved.row, &saved.extra) })))
}

pub(super) fn delete(call: &mut Call) -> Outcome {
    let id = call.parameter(0).to_owned();
    let found = call.look(|view| find(view, &id))?;
    let permit = call.allow(&About { domain: found.as_ref().map(|(id, _)| id), ..About::default() })?;
    let (id, _) = found.ok_or_else(|| Trouble::missing("domain", &id))?;
    let extra = call.look(|view| Ok(extra_of(view, ThingKind::Domain, &id)?))?;
    unless_immutable(&extra, None)?;
    call.save(&permit, |desk| delete_domain(desk, &id))?;
    Ok(Said::nothing())
}
