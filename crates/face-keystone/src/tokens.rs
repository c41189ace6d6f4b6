//! Validates, checks and revokes tokens, and lists revocation events.

use super::render::{Form, time, token_body};
use super::{ApiError, ApiResponse, Call, Outcome, SUBJECT};
use enfilade_admin::keystone::{RevocationSummary, list_revocations, revoke as revoke_marks};
use enfilade_faces::Rendered;
use enfilade_facts::Held;
use enfilade_facts::tables::Revoked;
use enfilade_facts::vocabulary::{Secret, from_rfc3339};
use enfilade_passage::{About, IdentityRefusal, Refusal, Session, SessionAsk, Validated, audit_id_to_text};
use hyper::StatusCode;
use hyper::header::HeaderValue;
use serde_json::{Map, Value, json};

/// The header with which a service declares that it enforces access rules. A token with access rules is shown only to a service that sends this
/// header.
const KNOWS_RULES: &str = "openstack-identity-access-rules";

struct Subject {
    header: HeaderValue,
    ask: SessionAsk,
    validated: Validated,
}

impl Subject {
    fn session(&self) -> Result<&Session, ApiError> {
        self.validated.session().ok_or_else(|| ApiError::Subject(IdentityRefusal::SubjectDeleted.into()))
    }
}

fn of(session: &Session) -> About<'_> {
    About { user: Some(&session.claim.user), ..About::default() }
}

/// The token in `X-Subject-Token`.
fn subject(call: &Call, allow_expired: bool) -> Result<Subject, ApiError> {
    let none = || ApiError::Subject(IdentityRefusal::NotOurs.into());
    let mut values = call.head.headers.get_all(&SUBJECT).iter();
    let (Some(header), None) = (values.next(), values.next()) else { return Err(none()) };
    let ask = SessionAsk { token: Secret::new(header.as_bytes()).ok_or_else(none)? };
    let validated = call.visit.validate(&ask, allow_expired).map_err(|refusal| match refusal {
        // If facts or files cannot be read, the token is possibly valid. So the status of the response is not 404.
        refusal @ Refusal::Identity(IdentityRefusal::Facts(_) | IdentityRefusal::File { .. }) => {
            refusal.into()
        }
        other => ApiError::Subject(other),
    })?;
    let mut header = header.clone();
    header.set_sensitive(true);
    Ok(Subject { header, ask, validated })
}

pub(super) fn validate(call: &mut Call) -> Outcome {
    let allow_expired =
        call.query("allow_expired").is_some_and(|value| matches!(value, "1" | "true" | "True"));
    let found = subject(call, allow_expired)?;
    let session = found.session()?;
    call.allow(&of(session))?;
    let knows_rules = || {
        let version = call.head.headers.get(KNOWS_RULES)?.to_str().ok()?.parse::<f32>().ok()?;
        (version >= 1.0).then_some(())
    };
    if session.has_rules() && knows_rules().is_none() {
        return Err(ApiError::Subject(IdentityRefusal::NoScope("the token has access rules, and the requesting service does not declare that it enforces them (header `OpenStack-Identity-Access-Rules`)").into()));
    }
    let form = Form { with_catalog: call.query("nocatalog").is_none() };
    let key = call.faces.rendered_key().bytes(found.ask.token.reveal());
    let key = key.number(u64::from(form.with_catalog)).key();
    let (at, rests_on) = (found.validated.at(), session.rests_on());
    let is_same = |known: &Held<Rendered>| known.store == at.store && Some(known.rests_on) == rests_on;
    let text = match call.faces.rendered().get(key).filter(is_same) {
        Some(known) => known.text.clone(),
        None => {
            let (text, made_at) =
                token_body(call.faces.house().source(), session, call.faces.catalog(), form)?;
            // If the facts changed between the check of the token and the building of the body, the body is correct but is not remembered.
            if let Some(rests_on) = rests_on.filter(|_| made_at == at) {
                let rendered = Rendered { store: at.store, rests_on, text: text.clone() };
                call.faces.rendered().put(key, rendered);
            }
            text
        }
    };
    Ok(ApiResponse { subject: Some(found.header), ..ApiResponse::new(StatusCode::OK, text.into()) })
}

pub(super) fn check(call: &mut Call) -> Outcome {
    let found = subject(call, false)?;
    call.allow(&of(found.session()?))?;
    Ok(ApiResponse { subject: Some(found.header), ..ApiResponse::new(StatusCode::OK, super::Body::empty()) })
}

/// Revokes a token. If the token is the first of its login, and `cascade` is not `false`, all later tokens of the login are revoked, too.
pub(super) fn revoke(call: &mut Call) -> Outcome {
    let found = subject(call, false)?;
    let session = found.session()?;
    let permit = call.allow(&of(session))?;
    let (own, end) = (session.claim.audit.own, session.claim.expires_at);
    let mut marks = vec![Revoked::Token(own)];
    if call.query("cascade").is_none_or(|value| !value.eq_ignore_ascii_case("false")) {
        marks.push(Revoked::Chain(own));
    }
    call.change(&permit, |ctx| revoke_marks(ctx, &marks, Some(end), "a token"))?;
    Ok(ApiResponse::no_content())
}

pub(super) fn events(call: &mut Call) -> Outcome {
    call.allow(&About::default())?;
    let since = match call.query("since") {
        None => i64::MIN,
        Some(text) => from_rfc3339(&text.replace("%3A", ":")).ok_or_else(|| {
            ApiError::invalid(format!(
                "since: `{text}` is not a date and time; expected one such as 2026-01-01T00:00:00Z"
            ))
        })?,
    };
    let events = list_revocations(call.faces.house().source())?;
    let events: Vec<Value> =
        events.iter().filter(|event| since <= event.revocation.revoked_at).filter_map(event).collect();
    let url = format!("{}/v3/OS-REVOKE/events", call.base);
    let links = json!({ "self": url, "next": null, "previous": null });
    Ok(ApiResponse::json(StatusCode::OK, &json!({ "events": events, "links": links })))
}

/// A revocation event in Keystone's form. Returns `None` for a revocation that Keystone's events cannot express. If a revocation has no event,
/// services notice it only when they validate a token again.
fn event(event: &RevocationSummary) -> Option<Value> {
    let (name, id) = match &event.mark {
        Revoked::Token(id) => ("audit_id", audit_id_to_text(id)),
        Revoked::Chain(id) => ("audit_chain_id", audit_id_to_text(id)),
        Revoked::User(id) => ("user_id", id.to_string()),
        Revoked::Project(id) => ("project_id", id.to_string()),
        Revoked::Domain(id) => ("domain_id", id.to_keystone()),
        Revoked::Trust(id) => ("OS-TRUST:trust_id", id.to_string()),
        Revoked::Consumer(id) => ("OS-OAUTH1:consumer_id", id.to_string()),
        Revoked::AccessToken(id) => ("OS-OAUTH1:access_token_id", id.to_string()),
        Revoked::Credential(_)
        | Revoked::Group(_)
        | Revoked::Role(_)
        | Revoked::Link(_)
        | Revoked::Horizon
        | Revoked::Passed
        | Revoked::Last => return None,
    };
    let mut fields = Map::new();
    fields.insert(name.to_owned(), Value::String(id));
    fields.insert("issued_before".to_owned(), Value::String(time(event.revocation.issued_before)));
    Some(Value::Object(fields))
}
