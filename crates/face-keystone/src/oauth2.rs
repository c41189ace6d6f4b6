//! `POST /v3/OS-OAUTH2/token`: a token for an application credential (RFC 6749 §4.4, client credentials). The application credential is the client in
//! the sense of OAuth 2.0. Errors have the form of RFC 6749 §5.2.

use super::{ApiError, ApiResponse, Outcome};
use enfilade_admin::keystone::{CredentialRef, authid_of_credential};
use enfilade_faces::percent::form_pairs;
use enfilade_faces::{Connection, Faces, Trace, credential};
use enfilade_facts::vocabulary::{Secret, excerpt};
use enfilade_passage::{Credential, IdentityRefusal, Refusal, SecretAsk, Wanted};
use hyper::StatusCode;
use hyper::header::CONTENT_TYPE;
use hyper::http::request::Parts;
use serde_json::{Value, json};
use zeroize::Zeroizing;

const FORM: &str = "application/x-www-form-urlencoded";

pub(super) async fn token(
    faces: &Faces,
    connection: &Connection,
    head: &Parts,
    body: &[u8],
    trace: &mut Trace,
) -> Outcome {
    let kind = head.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let is_form = kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(FORM);
    let form = form_pairs(if is_form { body } else { &[] });
    let form = form.ok_or_else(|| ApiError::invalid("the form is not percent-encoded UTF-8"))?;
    let form: Vec<_> = form.into_iter().map(|(name, value)| (name, Zeroizing::new(value))).collect();
    let field = |name: &str| {
        let mut found = form.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str());
        match (found.next(), found.next()) {
            (found, None) => Ok(found),
            (_, Some(_)) => Err(ApiError::invalid(format!("The parameter {name} comes twice."))),
        }
    };
    match field("grant_type")? {
        Some("client_credentials") => {}
        None => return Err(ApiError::invalid("The parameter grant_type is required.")),
        Some(other) => return Err(ApiError::GrantType(excerpt(other))),
    }
    let (id, secret) = match (credential::client(&head.headers), field("client_id")?, field("client_secret")?)
    {
        (Err(IdentityRefusal::NoCredential), Some(id), Some(secret)) => {
            let secret = Secret::new(secret.as_bytes()).ok_or(IdentityRefusal::NoCredential);
            (id.to_owned(), secret.map_err(Refusal::from)?)
        }
        (Ok(_), _, Some(_)) => {
            return Err(ApiError::invalid(
                "the secret of the client is in the header and in the form; send it once",
            ));
        }
        (said, ..) => said.map_err(Refusal::from)?,
    };
    let named = CredentialRef::Id(id);
    let (house, from) = (faces.arc_house(), connection.peer.ip());
    trace.event.authid = named.word();
    let authid = authid_of_credential(house.source(), &named)?;
    let asked = Credential::NamedSecret(SecretAsk { authid, secret }, named.word());
    let mut visit = trace.admitted(house.admit(&asked, from)).await?;
    trace.time(&mut visit);
    connection.anonymous.release();
    trace.event.authid = visit.principal().authid.to_word();
    let made = visit.issue(Wanted::Usual).await?;
    let seconds = made.session.claim.expires_at.saturating_sub(house.now().unix_seconds);
    let body = json!({ "access_token": made.token, "token_type": "Bearer", "expires_in": seconds.max(0) });
    Ok(ApiResponse::json(StatusCode::OK, &body))
}

/// The body of an error. `text` contains only information that the client may see.
pub(super) fn error(error: &ApiError, status: StatusCode, text: &str) -> Value {
    let (code, text) = match (error, status) {
        (ApiError::GrantType(_), _) => ("unsupported_grant_type", text),
        (_, StatusCode::UNAUTHORIZED) => ("invalid_client", "Client authentication failed."),
        (_, StatusCode::BAD_REQUEST) => ("invalid_request", text),
        (_, StatusCode::METHOD_NOT_ALLOWED) => {
            ("other_error", "The method is not allowed for the requested URL.")
        }
        _ => ("other_error", text),
    };
    json!({ "error": code, "error_description": text })
}
