//! The catalog of a session, and the scopes that its user may request.

use super::render::catalog_body;
use super::resource::{Record, Resource};
use super::{ApiResponse, Call, Outcome, forbidden, listed};
use enfilade_admin::keystone::{catalog as catalog_of, scopes_of};
use enfilade_passage::{About, ApiPermit, Scope};
use hyper::StatusCode;
use serde_json::{Value, json};

pub(super) fn catalog(call: &mut Call) -> Outcome {
    call.allow(&About::default())?;
    let session = call.visit.identity().session().filter(|session| session.claim.scope != Scope::Unscoped);
    let session = session.ok_or_else(|| forbidden("identity:get_auth_catalog"))?;
    let catalog = catalog_of(call.faces.house().source(), call.faces.catalog(), &session.claim.scope)?;
    let body = catalog_body(&catalog, session, &format!("{}/v3/auth/catalog", call.base));
    Ok(ApiResponse::new(StatusCode::OK, body.into()))
}

pub(super) fn projects(call: &mut Call) -> Outcome {
    let permit = call.allow(&About::default())?;
    let projects = scopes_of(call.faces.house().source(), &call.visit.principal().user)?.projects;
    Ok(listed(call, "projects", bare(call, projects, &permit)))
}

pub(super) fn domains(call: &mut Call) -> Outcome {
    let permit = call.allow(&About::default())?;
    let domains = scopes_of(call.faces.house().source(), &call.visit.principal().user)?.domains;
    Ok(listed(call, "domains", bare(call, domains, &permit)))
}

/// Describes records for a response, without their additional attributes.
fn bare<R: Resource>(call: &Call, records: Vec<(R::Key, R)>, permit: &ApiPermit) -> Vec<Value> {
    let body = |(id, row)| R::described(&call.base, Record::bare(id, row), permit);
    records.into_iter().map(body).collect()
}

pub(super) fn system(call: &mut Call) -> Outcome {
    call.allow(&About::default())?;
    let system = scopes_of(call.faces.house().source(), &call.visit.principal().user)?.system;
    let system = if system { vec![json!({ "all": true })] } else { Vec::new() };
    Ok(listed(call, "system", system))
}
