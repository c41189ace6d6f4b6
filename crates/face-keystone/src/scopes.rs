//! The catalog of a session, and the scopes its user may request.

use super::render::catalog_body;
use super::{Call, Outcome, Said, domains, forbidden, listed, projects};
use enfilade_admin::keystone::{catalog as catalog_of, scopes_of};
use enfilade_facts::tables::{Domain, Project};
use enfilade_facts::vocabulary::{DomainId, ProjectId};
use enfilade_passage::{About, Scope};
use hyper::StatusCode;
use serde_json::json;

pub(super) fn catalog(call: &mut Call) -> Outcome {
    call.allow(&About::default())?;
    let session = call.visit.identity().session().filter(|session| session.claim.scope != Scope::Unscoped);
    let session = session.ok_or_else(|| forbidden("identity:get_auth_catalog"))?;
    let catalog = catalog_of(call.faces.house().source(), call.faces.catalog())?;
    let body = catalog_body(&catalog, session, &format!("{}/v3/auth/catalog", call.base));
    Ok(Said { status: StatusCode::OK, body: body.into(), subject: None })
}

pub(super) fn projects(call: &mut Call) -> Outcome {
    call.allow(&About::default())?;
    let projects = scopes_of(call.faces.house().source(), &call.visit.principal().user)?.projects;
    let one = |(id, row): &(ProjectId, Project)| projects::body(&call.base, id, row, "");
    Ok(listed(call, "projects", projects.iter().map(one).collect()))
}

pub(super) fn domains(call: &mut Call) -> Outcome {
    call.allow(&About::default())?;
    let domains = scopes_of(call.faces.house().source(), &call.visit.principal().user)?.domains;
    let one = |(id, row): &(DomainId, Domain)| domains::body(&call.base, id, row, "");
    Ok(listed(call, "domains", domains.iter().map(one).collect()))
}

pub(super) fn system(call: &mut Call) -> Outcome {
    call.allow(&About::default())?;
    let system = scopes_of(call.faces.house().source(), &call.visit.principal().user)?.system;
    let system = if system { vec![json!({ "all": true })] } else { Vec::new() };
    Ok(listed(call, "system", system))
}
