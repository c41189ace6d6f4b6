//! Projects that act as domains (`is_domain`). In Keystone each domain is also a project. In this server a domain is a separate record. The calls in
//! this file show and change the record of a domain in the form of a project. To create, change or delete such a project, a caller needs the permits
//! of two rules: the rule for projects, and the rule for domains. A deletion also deletes the records that depend on the domain. A project that acts
//! as a domain cannot be the scope of a session, and has no tags.

use super::listing::{self, Each, Filters, records};
use super::request_body::{RequestBody, invalid};
use super::resource::{Record, Resource, add, described_whole, edited, link, unless_immutable};
use super::{ApiError, ApiResponse, Call, Outcome};
use enfilade_admin::Error;
use enfilade_admin::keystone::{RecordId, save};
use enfilade_facts::View;
use enfilade_facts::tables::{Domain, Project};
use enfilade_facts::vocabulary::DomainId;
use enfilade_passage::About;
use hyper::StatusCode;
use serde_json::{Value, json};
use std::ops::ControlFlow;

/// The attributes of a project that a domain does not store.
const OF_PROJECTS: [&str; 4] = ["is_domain", "domain_id", "parent_id", "tags"];

/// The domain in the form of a project.
fn described(base: &str, record: Record<Domain>) -> Value {
    let id = record.id.to_keystone();
    let mut body = described_whole(base, record);
    for (name, value) in [
        ("domain_id", Value::Null),
        ("parent_id", Value::Null),
        ("is_domain", json!(true)),
        ("links", json!({ "self": link::<Project>(base, &id) })),
    ] {
        add(&mut body, name, value);
    }
    body
}

fn answer(call: &Call, status: StatusCode, record: Record<Domain>) -> ApiResponse {
    ApiResponse::json(status, &json!({ "project": described(&call.base, record) }))
}

/// The domain with the id in the path; `None` if no domain has this id.
pub(super) fn named(call: &Call) -> Result<Option<Record<Domain>>, ApiError> {
    let said = call.parameter(0);
    call.look(|view| {
        let Some((id, row)) = Domain::find(view, said)? else { return Ok(None) };
        let extra = Domain::extra(view, &id)?;
        Ok(Some(Record { id, row, extra }))
    })
}

/// Shows a domain in the form of a project. As in Keystone, such a project is in no domain. So a user with the role `reader` or `manager` on the
/// domain does not see the project.
pub(super) fn show(call: &mut Call, domain: Record<Domain>) -> Outcome {
    call.allow(&About::default())?;
    Ok(answer(call, StatusCode::OK, domain))
}

pub(super) fn list(call: &mut Call) -> Outcome {
    let permit = call.allow(&About::default())?;
    if permit.only_domain().is_some() {
        return Ok(listing::none(call, Project::SCHEMA.many));
    }
    let base = call.base.clone();
    let after = call.marker(|text| DomainId::from_keystone(text).ok().map(|id| id.bytes().to_vec()))?;
    let source = move |view: &View<'_>, after: Option<&[u8]>, each: Each<'_>| {
        records::<Domain>(view, &[], after, |id, row| {
            let extra = Domain::extra(view, &id)?;
            Ok::<ControlFlow<()>, ApiError>(each(
                id.bytes().to_vec(),
                described(&base, Record { id, row, extra }),
            ))
        })
    };
    listing::answer(
        call,
        Project::SCHEMA.many,
        &permit,
        Filters::of(&call.head, &["is_domain"]),
        after,
        Box::new(source),
    )
}

/// Refuses a body that sets a domain or a parent, because a project that acts as a domain has no domain and no parent.
fn unless_placed(given: &RequestBody) -> Result<(), Error> {
    for name in ["domain_id", "parent_id"] {
        if !given.keeps(name, None)? {
            let why = format!(
                "Invalid input for field/attribute {name} of project: a project that acts as a domain has none."
            );
            return Err(invalid(why));
        }
    }
    Ok(())
}

pub(super) fn create(call: &mut Call, given: RequestBody) -> Outcome {
    // The call also creates a domain. So the rule `create_domain` must also permit the call.
    call.allow(&About::default())?;
    let permit = call.allow_by("create_domain", &About::default())?;
    unless_placed(&given)?;
    let new = Domain::new(super::domains::realm(&given.needed("name")?)?);
    let given = given.without(&OF_PROJECTS);
    let build = |before: Option<(&Domain, &str)>| edited(&given, before, Some(&new));
    let saved = call.save(&permit, |ctx| save(ctx, &RecordId::New, &build))?;
    Ok(answer(call, StatusCode::CREATED, saved.into()))
}

pub(super) fn update(call: &mut Call, domain: Record<Domain>) -> Outcome {
    call.allow(&About::default())?;
    let permit = call.allow_by("update_domain", &About::default())?;
    let given = RequestBody::of(call, "project")?;
    unless_placed(&given)?;
    if given.flag("is_domain")? == Some(false) {
        return Err(
            invalid("Invalid input for field/attribute is_domain of project: it cannot be changed.").into()
        );
    }
    unless_immutable(&domain, Some(&given))?;
    let given = given.without(&OF_PROJECTS);
    let saved = call.save(&permit, |ctx| (Domain::STORE.change)(ctx, &domain, &given))?;
    Ok(answer(call, StatusCode::OK, saved))
}

pub(super) fn delete(call: &mut Call, domain: Record<Domain>) -> Outcome {
    call.allow(&About::default())?;
    let permit = call.allow_by("delete_domain", &About::default())?;
    unless_immutable(&domain, None)?;
    call.save(&permit, |ctx| (Domain::STORE.delete)(ctx, &domain))?;
    Ok(ApiResponse::no_content())
}
