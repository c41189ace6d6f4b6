//! Who the credential is.

use crate::body::Body;
use crate::respond::Answer;
use enfilade_passage::Visit;
use hyper::Response;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use serde_json::{Value, json};

pub(crate) fn answer(visit: &Visit) -> Answer {
    let (principal, identity) = (visit.principal(), visit.identity());
    padded_json(&json!({
        "authid": principal.authid.to_string(),
        "user": principal.user.to_string(),
        "sid": principal.sid.to_string(),
        "groups": principal.groups.len(),
        "until": identity.good_until(),
        "revision": identity.at().revision.0,
    }))
}

/// Small answers all have one size, so that what a door costs can be measured by asking with and without it.
const PADDED_BYTES: usize = 512;

pub(crate) fn padded_json(value: &Value) -> Answer {
    let mut answer =
        Response::new(Body::from(format!("{:<width$}\n", value.to_string(), width = PADDED_BYTES - 1)));
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}
