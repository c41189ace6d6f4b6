//! Receipts. A user can have rules that require several methods for a login. If the methods of a login do not satisfy the rules of the user, the user
//! gets a receipt for these methods. The client then sends the receipt together with further methods.

use super::render::time;
use super::{ApiError, ApiResponse, Outcome, RECEIPT};
use enfilade_faces::Trace;
use enfilade_facts::tables::{Domain, User};
use enfilade_facts::vocabulary::Secret;
use enfilade_facts::{Read as _, Source};
use enfilade_passage::{Arrival, IdentityRefusal, IssuedReceipt, Refusal, SessionAsk};
use hyper::http::request::Parts;
use serde_json::json;

/// The receipt in the request, if the request contains one.
pub(super) fn receipt_of(head: &Parts) -> Result<Option<SessionAsk>, ApiError> {
    let refused = || ApiError::from(Refusal::from(IdentityRefusal::NotOurs));
    let mut values = head.headers.get_all(&RECEIPT).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => {
            Ok(Some(SessionAsk { token: Secret::new(value.as_bytes()).ok_or_else(refused)? }))
        }
        (Some(_), Some(_)) => Err(refused()),
    }
}

/// The answer with a receipt. As for any refused login, the log contains the reason: here, the reason why the login is not complete.
pub(super) fn answer(
    source: &dyn Source,
    receipt: &IssuedReceipt,
    arrival: &Arrival,
    trace: &mut Trace,
) -> Outcome {
    let (claim, gone) = (&receipt.session.claim, || Refusal::from(IdentityRefusal::SubjectDeleted));
    let (user, domain) = source.read(|view| {
        let user = view.get::<User>(&claim.user)?.ok_or_else(gone)?;
        let domain = view.get::<Domain>(&user.domain)?.ok_or_else(gone)?;
        Ok::<_, Refusal>((user, domain))
    })??;
    let (authid, id) = (arrival.authid().clone(), claim.user);
    trace.refused(&IdentityRefusal::MoreMethods { authid, user: Box::new(id) }.into());
    let body = json!({
        "receipt": {
            "methods": claim.methods.names(),
            "user": {
                "id": id.to_string(), "name": user.name,
                "domain": { "id": user.domain.to_keystone(), "name": domain.name },
            },
            "expires_at": time(claim.expires_at), "issued_at": time(claim.issued_at),
        },
        "required_auth_methods": receipt.required,
    });
    Ok(ApiResponse::with_receipt(&body, &receipt.receipt))
}
