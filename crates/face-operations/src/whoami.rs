//! `/whoami`: the identity of the caller.

use enfilade_faces::{Answer, Body};
use enfilade_passage::Visit;
use hyper::Response;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use std::io::Write as _;

/// Answers with the identity of the caller. `authid` is the caller's authid, as in the log.
pub(crate) fn answer(visit: &Visit, authid: &str) -> Answer {
    let (principal, identity) = (visit.principal(), visit.identity());
    let mut json = Vec::with_capacity(PADDED_BYTES);
    json.extend_from_slice(b"{\"authid\":");
    // Only the authid can contain characters that need an escape, because all other values consist of digits, letters and hyphens. Writing to memory
    // never fails.
    let _ = serde_json::to_writer(&mut json, authid);
    let (user, sid, groups) = (principal.user, principal.sid, principal.groups.len());
    let revision = identity.at().revision;
    let _ =
        write!(json, r#","user":"{user}","sid":"{sid}","groups":{groups},"revision":{revision},"until":"#);
    let _ = match identity.validity().last_second() {
        Some(until) => write!(json, "{until}}}"),
        None => json.write_all(b"null}"),
    };
    padded(json)
}

/// The smallest size of the responses of `/whoami` and `/.well-known/enfilade`, in bytes. Both responses have exactly this size, unless the authid is
/// very long. The sizes are equal because a benchmark compares the two routes: only `/whoami` needs an identity check (door 2).
const PADDED_BYTES: usize = 512;

/// A response with this JSON, padded with spaces and a line feed to at least [`PADDED_BYTES`].
pub(crate) fn padded(mut json: Vec<u8>) -> Answer {
    json.resize(json.len().max(PADDED_BYTES - 1), b' ');
    json.push(b'\n');
    let mut answer = Response::new(Body::from(json));
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}
