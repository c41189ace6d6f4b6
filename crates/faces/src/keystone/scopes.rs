//! What a session is for, and what its user could get others for.

use super::render::catalog_body;
use super::{Call, Outcome, Said, forbidden};
use enfilade_admin::keystone::{catalog as catalog_of, scopes_of};
use enfilade_facts::tables::{Domain, Project};
use enfilade_facts::vocabulary::{DomainId, ProjectId};
use enfilade_passage::Scope;
use hyper::StatusCode;
use serde_json::{Value, json};

pub(super) fn catalog(call: &Call) -> Outcome {
    let session = call.visit.identity().session().filter(|session| session.claim.scope != Scope::Unscoped);
    let session = session.ok_or_else(|| forbidden("identity:get_auth_catalog"))?;
    let catalog = catalog_of(call.faces.house().source(), call.faces.catalog())?;
    let body = catalog_body(&catalog, session, &format!("{}/v3/auth/catalog", call.base));
    Ok(Said { status: StatusCode::OK, body: body.into(), subject: None })
}

pub(super) fn projects(call: &Call) -> Outcome {
    let projects = scopes_of(call.faces.house().source(), &call.visit.principal().user)?.projects;
    let one = |(id, row): &(ProjectId, Project)| {
        let domain = row.domain.to_keystone();
        json!({
            "id": id.to_string(), "name": row.name, "domain_id": domain, "enabled": row.enabled,
            "description": row.description.as_deref().unwrap_or_default(), "is_domain": false,
            "parent_id": domain, "tags": [], "options": {},
            "links": { "self": format!("{}/v3/projects/{id}", call.base) },
        })
    };
    Ok(listed(call, "projects", projects.iter().map(one).collect()))
}

pub(super) fn domains(call: &Call) -> Outcome {
    let domains = scopes_of(call.faces.house().source(), &call.visit.principal().user)?.domains;
    let one = |(id, row): &(DomainId, Domain)| {
        let id = id.to_keystone();
        json!({
            "id": id, "name": row.name.to_string(), "enabled": row.enabled, "description": "", "tags": [],
            "options": {}, "links": { "self": format!("{}/v3/domains/{id}", call.base) },
        })
    };
    Ok(listed(call, "domains", domains.iter().map(one).collect()))
}

pub(super) fn system(call: &Call) -> Outcome {
    let system = scopes_of(call.faces.house().source(), &call.visit.principal().user)?.system;
    let system = if system { vec![json!({ "all": true })] } else { Vec::new() };
    Ok(listed(call, "system", system))
}

fn listed(call: &Call, name: &str, rows: Vec<Value>) -> Said {
    let links = json!({ "self": format!("{}/v3/auth/{name}", call.base), "next": null, "previous": null });
    Said::json(StatusCode::OK, &json!({ name: rows, "links": links }))
}
