//! The headers with which the application learns the name, the groups and the roles of the visitor.
//!
//! Every response that permits a request contains all of these headers. If there is no value for a header, the header is sent with an empty value. So
//! the proxy always replaces a header that the visitor sent.

use enfilade_faces::{Answer, Body, Faces, Failure, RequestError, Trace};
use enfilade_facts::vocabulary::{Authid, GroupName};
use enfilade_passage::{Decision, Visitor};
use hyper::Response;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde_json::json;

const USER: HeaderName = HeaderName::from_static("remote-user");
const GROUPS: HeaderName = HeaderName::from_static("remote-groups");
const ROLES: HeaderName = HeaderName::from_static("remote-roles");
const JWT: HeaderName = HeaderName::from_static("remote-jwt");

/// The longest value of `Remote-Groups`, in bytes. Proxies have small buffers for the head of a response, for example 4 KiB in nginx
/// (`proxy_buffer_size`). A proxy refuses the request if the head does not fit into the buffer. A signed token also contains the groups. So if the
/// application gets signed tokens, the printed configuration of nginx has a larger buffer.
const GROUPS_BYTES_MAX: usize = 3_072;

/// The lifetime of a signed token, in seconds. The application gets a new token with each request.
const JWT_SECONDS: i64 = 60;

/// Inserts the headers. If everybody may make the request, the values of the headers are empty.
///
/// # Errors
/// When the names of the groups are too long, or there is no key for the signed token.
pub(crate) fn insert(
    headers: &mut HeaderMap,
    faces: &Faces,
    decision: &Decision,
    trace: &Trace,
) -> Result<(), Failure> {
    let [mut user, mut groups, mut roles, mut jwt] = [const { HeaderValue::from_static("") }; 4];
    if let Some(Visitor { authid, roles: given, groups: names }) = &decision.visitor {
        let name = authid.to_word();
        user = value(&name)?;
        // A group's name can contain any character. So the name is encoded as one ASCII word, in the same way as the name of a user.
        let word =
            |name: &GroupName| Authid::word_of_parts(name.name(), name.realm().as_str(), None).to_string();
        let names: Vec<String> = names.iter().map(word).collect();
        if !names.is_empty() {
            let text = names.join(",");
            if text.len() > GROUPS_BYTES_MAX {
                return Err(RequestError::GroupsTooLong(GROUPS_BYTES_MAX).into());
            }
            groups = value(&text)?;
        }
        roles = match given.as_slice() {
            [role] => HeaderValue::from_static(role.name()),
            given => value(&given.iter().map(|role| role.name()).collect::<Vec<_>>().join(","))?,
        };
        if let Some(application) = &decision.signed_for {
            let now = faces.house().now().unix_seconds;
            let given: Vec<&str> = given.iter().map(|role| role.name()).collect();
            let payload = json!({
                "iss": faces.sign_in().unwrap_or("enfilade"), "sub": &*name, "aud": application.as_str(),
                "iat": now, "nbf": now, "exp": now.saturating_add(JWT_SECONDS),
                "jti": trace.event.id.to_string(), "groups": names, "roles": given,
            });
            jwt = value(&faces.house().sign_assertion(&payload.to_string())?)?;
        }
    }
    for (name, value) in [(USER, user), (GROUPS, groups), (ROLES, roles), (JWT, jwt)] {
        headers.insert(name, value);
    }
    Ok(())
}

fn value(text: &str) -> Result<HeaderValue, RequestError> {
    HeaderValue::from_str(text).map_err(|_| RequestError::Worker)
}

/// The public keys of the signed tokens (RFC 7517 §5).
pub(crate) fn key_set(faces: &Faces) -> Answer {
    let keys = faces.house().assertion_keys().into_iter().map(
        |key| json!({ "kty": "OKP", "crv": "Ed25519", "use": "sig", "alg": "EdDSA", "kid": key.id, "x": key.x }),
    );
    let text = json!({ "keys": keys.collect::<Vec<_>>() }).to_string();
    let mut answer = Response::new(Body::from(text));
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/jwk-set+json"));
    // The staged key is in the set before it signs any token. So an application may cache the set for a few minutes.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("max-age=300"));
    answer
}
