//! Writes a session as JSON, with Keystone's fields in Keystone's order.

use super::ApiError;
use bytes::Bytes;
use enfilade_admin::keystone::{Catalog, CatalogEndpoint, DescribedScope, describe, filled};
use enfilade_facts::vocabulary::to_rfc3339;
use enfilade_facts::{At, Index, Source};
use enfilade_passage::{Lent, Session, audit_id_to_text};
use serde_json::{Value, json};
use std::borrow::Cow;

/// The parts of the body that the request asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    pub(super) with_catalog: bool,
}

/// Returns the response body, and the revision of the facts from which the body was built. This function runs for every token for which no body is
/// remembered. So it writes the JSON directly: with a tree of JSON values, the function would take twice as long.
pub(super) fn token_body(
    source: &dyn Source,
    session: &Session,
    index: &Index<Catalog>,
    form: Form,
) -> Result<(Bytes, At), ApiError> {
    let (described, catalog, at) = describe(source, session, index)?;
    let (claim, subject) = (&session.claim, &described.subject);
    let mut json = Json(Vec::with_capacity(1024 + 256 * catalog.services().len()));
    json.raw("{\"token\":{\"methods\":[").list(claim.methods.names(), |json, name| json.text(name));
    json.raw("],\"user\":{\"domain\":").named(&subject.domain.id.to_keystone(), &subject.domain.name);
    json.raw(",\"id\":").text(&subject.user.id.to_string()).raw(",\"name\":").text(&subject.user.name);
    json.raw(",\"password_expires_at\":");
    match subject.password_until {
        0 => json.raw("null"),
        until => json.text(&time(until)),
    };
    json.raw("},\"audit_ids\":[");
    let audit_ids = [Some(claim.audit.own), claim.audit.chain];
    json.list(audit_ids.into_iter().flatten(), |json, id| json.text(&audit_id_to_text(&id)));
    json.raw("],\"expires_at\":").text(&time(claim.expires_at));
    json.raw(",\"issued_at\":").text(&time(claim.issued_at));
    match &described.scope {
        DescribedScope::Unscoped => {}
        DescribedScope::Project(project, of) => {
            json.raw(",\"project\":{\"domain\":").named(&of.id.to_keystone(), &of.name);
            json.raw(",\"id\":").text(&project.id.to_string()).raw(",\"name\":").text(&project.name);
            json.raw("},\"is_domain\":false");
        }
        DescribedScope::Domain(of) => {
            json.raw(",\"domain\":").named(&of.id.to_keystone(), &of.name);
        }
        DescribedScope::System => {
            json.raw(",\"system\":{\"all\":true}");
        }
    }
    if let (Some(Lent::Trust(id)), Some(trusted)) = (claim.lent, &session.trusted) {
        let trust = &trusted.trust;
        json.raw(",\"OS-TRUST:trust\":{\"id\":").text(&id.to_string());
        json.raw(",\"trustor_user\":{\"id\":").text(&trust.trustor.to_string());
        json.raw("},\"trustee_user\":{\"id\":").text(&trust.trustee.to_string());
        json.raw(if trust.impersonation {
            "},\"impersonation\":true}"
        } else {
            "},\"impersonation\":false}"
        });
    }
    if let (Some(id), Some(access)) = (claim.access_token(), &session.access) {
        json.raw(",\"OS-OAUTH1\":{\"access_token_id\":").text(&id.to_string());
        json.raw(",\"consumer_id\":").text(&access.consumer.to_string()).raw("}");
    }
    if described.scope != DescribedScope::Unscoped {
        json.raw(",\"roles\":[");
        json.list(&session.roles, |json, role| json.named(&role.id.to_string(), &role.name)).raw("]");
        if form.with_catalog {
            json.raw(",\"catalog\":").catalog(&catalog, session);
        }
    }
    if !catalog.providers().is_empty() {
        json.raw(",\"service_providers\":[");
        json.list(catalog.providers(), |json, (id, row)| {
            json.raw("{\"auth_url\":").text(&row.auth_url).raw(",\"id\":").text(&id.0);
            json.raw(",\"sp_url\":").text(&row.sp_url).raw("}")
        });
        json.raw("]");
    }
    if let (Some((name, restricted)), Some(id)) = (&described.credential, claim.credential()) {
        json.raw(",\"application_credential\":{\"id\":").text(&id.to_string()).raw(",\"name\":").text(name);
        json.raw(if *restricted { ",\"restricted\":true" } else { ",\"restricted\":false" });
        let rules = session.delegation.as_ref().map_or(&[][..], |delegation| &delegation.rules);
        if !rules.is_empty() {
            let rules: Vec<Value> = rules.iter().map(access_rule).collect();
            json.raw(",\"access_rules\":").raw(&Value::Array(rules).to_string());
        }
        json.raw("}");
    }
    json.raw("}}");
    Ok((Bytes::from(json.0), at))
}

/// A body that contains only the catalog of a session.
pub(super) fn catalog_body(catalog: &Catalog, session: &Session, self_link: &str) -> Bytes {
    let mut json = Json(Vec::with_capacity(4096));
    json.raw("{\"catalog\":")
        .catalog(catalog, session)
        .raw(",\"links\":{\"self\":")
        .text(self_link)
        .raw("}}");
    Bytes::from(json.0)
}

/// A writer of JSON.
struct Json(Vec<u8>);

impl Json {
    fn raw(&mut self, text: &str) -> &mut Self {
        self.0.extend_from_slice(text.as_bytes());
        self
    }

    fn text(&mut self, text: &str) -> &mut Self {
        // Writing to memory never fails.
        let _ = serde_json::to_writer(&mut self.0, text);
        self
    }

    fn named(&mut self, id: &str, name: &str) -> &mut Self {
        self.raw("{\"id\":").text(id).raw(",\"name\":").text(name).raw("}")
    }

    fn list<T>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        mut each: impl FnMut(&mut Self, T) -> &mut Self,
    ) -> &mut Self {
        for (n, item) in items.into_iter().enumerate() {
            if n > 0 {
                self.raw(",");
            }
            each(self, item);
        }
        self
    }

    fn catalog(&mut self, catalog: &Catalog, session: &Session) -> &mut Self {
        self.raw("[").list(catalog.services(), |json, service| {
            let filled = |endpoint| filled_endpoint(endpoint, session);
            json.raw("{\"endpoints\":[").list(
                service.endpoints.iter().filter_map(filled),
                |json, (row, url)| {
                    json.raw("{\"id\":")
                        .text(&row.id.to_string())
                        .raw(",\"interface\":")
                        .text(row.interface.name());
                    json.raw(",\"region_id\":").maybe(row.region.as_deref()).raw(",\"url\":").text(&url);
                    json.raw(",\"region\":").maybe(row.region.as_deref()).raw("}")
                },
            );
            json.raw("],\"id\":").text(&service.id).raw(",\"type\":").text(&service.kind);
            json.raw(",\"name\":").text(&service.name).raw("}")
        });
        self.raw("]")
    }

    fn maybe(&mut self, text: Option<&str>) -> &mut Self {
        match text {
            Some(text) => self.text(text),
            None => self.raw("null"),
        }
    }
}

fn filled_endpoint<'c>(
    endpoint: &'c CatalogEndpoint,
    session: &Session,
) -> Option<(&'c CatalogEndpoint, Cow<'c, str>)> {
    filled(&endpoint.url, session).map(|url| (endpoint, url))
}

pub(super) fn access_rule(rule: &enfilade_facts::tables::AccessRule) -> Value {
    json!({ "id": rule.id.to_string(), "service": rule.service, "method": rule.method, "path": rule.path })
}

/// A time with six decimals, as in Keystone.
pub(super) fn time(unix_seconds: i64) -> String {
    to_rfc3339(unix_seconds).replace('Z', ".000000Z")
}
