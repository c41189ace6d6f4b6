//! What a token stands for, as JSON: Keystone's fields.

use super::Trouble;
use bytes::Bytes;
use enfilade_admin::keystone::{CatalogService, DescribedScope, Named, describe};
use enfilade_facts::vocabulary::{DomainId, to_rfc3339};
use enfilade_facts::{At, Source, Weigh};
use enfilade_passage::{Session, audit_id_to_text};
use serde_json::{Value, json};

/// What of it is wanted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    pub(super) with_catalog: bool,
}

/// A body that was made on these facts, and is the same as long as they are.
pub(crate) struct Rendered {
    pub(crate) at: At,
    pub(crate) text: Bytes,
}

impl Weigh for Rendered {
    fn heap_bytes(&self) -> usize {
        self.text.len()
    }
}

/// The body, and the facts it was made on.
pub(super) fn token_body(source: &dyn Source, session: &Session, form: Form) -> Result<(Bytes, At), Trouble> {
    let (described, catalog, at) = describe(source, session, form.with_catalog)?;
    let claim = &session.claim;
    let mut audit_ids = vec![audit_id_to_text(&claim.audit.own)];
    audit_ids.extend(claim.audit.chain.as_ref().map(audit_id_to_text));
    let mut token = json!({
        "methods": claim.methods.names(),
        "user": {
            "domain": domain(&described.subject.domain),
            "id": described.subject.user.id.to_string(),
            "name": described.subject.user.name,
            "password_expires_at": null,
        },
        "audit_ids": audit_ids,
        "expires_at": time(claim.expires_at),
        "issued_at": time(claim.issued_at),
    });
    let mut set = |name: &str, value: Value| {
        if let Some(map) = token.as_object_mut() {
            map.insert(name.to_owned(), value);
        }
    };
    match &described.scope {
        DescribedScope::Unscoped => {}
        DescribedScope::Project(project, of) => {
            set(
                "project",
                json!({ "domain": domain(of), "id": project.id.to_string(), "name": project.name }),
            );
            set("is_domain", json!(false));
        }
        DescribedScope::Domain(of) => set("domain", domain(of)),
        DescribedScope::System => set("system", json!({ "all": true })),
    }
    if described.scope != DescribedScope::Unscoped {
        let role = |role: &_| {
            let enfilade_passage::HeldRole { id, name } = role;
            json!({ "id": id.to_string(), "name": name })
        };
        set("roles", session.roles.iter().map(role).collect());
        if form.with_catalog {
            set("catalog", catalog_body(&catalog));
        }
    }
    if let (Some((name, restricted)), Some(id)) = (&described.credential, &claim.credential) {
        let mut credential = json!({ "id": id.to_string(), "name": name, "restricted": restricted });
        if let Some(delegation) =
            session.delegation.as_ref().filter(|delegation| !delegation.rules.is_empty())
            && let Some(map) = credential.as_object_mut()
        {
            map.insert("access_rules".to_owned(), delegation.rules.iter().map(access_rule).collect());
        }
        set("application_credential", credential);
    }
    Ok((Bytes::from(json!({ "token": token }).to_string()), at))
}

pub(super) fn access_rule(rule: &enfilade_facts::tables::AccessRule) -> Value {
    let id = u128::from_be_bytes(rule.id);
    json!({ "id": format!("{id:032x}"), "service": rule.service, "method": rule.method, "path": rule.path })
}

pub(super) fn domain(domain: &Named<DomainId>) -> Value {
    json!({ "id": domain.id.to_keystone(), "name": domain.name })
}

pub(super) fn catalog_body(services: &[CatalogService]) -> Value {
    let service = |service: &CatalogService| {
        let endpoints: Vec<Value> = service
            .endpoints
            .iter()
            .map(|endpoint| {
                json!({
                    "id": endpoint.id.to_string(), "interface": endpoint.interface.name(),
                    "region_id": endpoint.region, "url": endpoint.url, "region": endpoint.region,
                })
            })
            .collect();
        json!({ "endpoints": endpoints, "id": service.id.to_string(), "type": service.kind, "name": service.name })
    };
    services.iter().map(service).collect()
}

/// With the six digits of a fraction that Keystone's times have.
pub(super) fn time(unix_seconds: i64) -> String {
    to_rfc3339(unix_seconds).replace('Z', ".000000Z")
}
