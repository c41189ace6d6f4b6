//! The headers that tell the application who the visitor is.
//!
//! Every response that permits a request has all of these headers. A header without a value is empty, so that a proxy replaces a header that the visitor
//! sent.

use enfilade_faces::RequestError;
use enfilade_facts::vocabulary::{Authid, GroupName};
use enfilade_passage::Visitor;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};

const USER: HeaderName = HeaderName::from_static("remote-user");
const GROUPS: HeaderName = HeaderName::from_static("remote-groups");
const ROLES: HeaderName = HeaderName::from_static("remote-roles");

/// The longest value of `Remote-Groups`, in bytes. Proxies have small buffers for the head of a response, and refuse the request if it does not fit: 4
/// KiB in nginx (`proxy_buffer_size`).
const GROUPS_BYTES_MAX: usize = 3_072;

/// Inserts the headers. If everybody may make the request, they are empty.
///
/// # Errors
/// When the names of the groups are too long.
pub(crate) fn insert(headers: &mut HeaderMap, visitor: Option<&Visitor>) -> Result<(), RequestError> {
    let (mut user, mut groups, mut roles) = Default::default();
    if let Some(Visitor { authid, roles: given, groups: names }) = visitor {
        user = authid.to_word().to_string();
        // A group's name can contain any character, so it is written like the name of a user, as one ASCII word.
        let word =
            |name: &GroupName| Authid::word_of_parts(name.name(), name.realm().as_str(), None).to_string();
        groups = names.iter().map(word).collect::<Vec<_>>().join(",");
        roles = given.iter().map(|role| role.name()).collect::<Vec<_>>().join(",");
    }
    if groups.len() > GROUPS_BYTES_MAX {
        return Err(RequestError::GroupsTooLong(GROUPS_BYTES_MAX));
    }
    for (name, value) in [(USER, user), (GROUPS, groups), (ROLES, roles)] {
        let value: String = value;
        let value = HeaderValue::from_str(&value).map_err(|_| RequestError::Worker)?;
        headers.insert(name, value);
    }
    Ok(())
}
