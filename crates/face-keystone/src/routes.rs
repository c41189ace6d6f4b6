//! The table of the calls of Identity v3. For each call, the table contains the needed credential, the handler and the summary. The table is used for
//! routing, for JSON-home, for the OpenAPI document and for the reference.

#[cfg(test)]
mod documents;
mod table;

pub use table::V3;

use super::{Call, Outcome};
use hyper::Method;

/// The credential that a call needs before its body is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum V3Need {
    /// No session. The handler itself checks the credential, if the call needs one. Every call of this kind was reviewed.
    Nobody,
    /// A session. Door 4 judges whether the roles of the session suffice.
    Session,
}

/// The handler of a call.
#[derive(Clone, Copy)]
pub(super) enum V3Call {
    /// Shows the version of the API, or the JSON-home document.
    Version,
    /// Creates a token.
    Login,
    /// Changes a password. The request contains the current password.
    ChangePassword,
    /// Validates a token and shows its session.
    Validate,
    /// Validates a token.
    Check,
    /// Validates a signed request to another service and creates a session for the owner of the key.
    Ec2,
    /// Validates a signed request to S3 and shows the owner of the key.
    S3,
    /// Creates a token for the client credentials of OAuth 2.0.
    ClientCredentials,
    /// Creates a request token for an OAuth 1.0a consumer that signed the request.
    RequestToken,
    /// Exchanges an approved request token for an access token.
    AccessToken,
    /// Any other handler. The handler is allowed to wait for a disk.
    Do(fn(&mut Call) -> Outcome),
}

/// A call.
#[derive(Clone, Copy)]
pub struct V3Route {
    /// The method. A row of `GET` also serves `HEAD`, unless `HEAD` has a separate row.
    pub method: &'static str,
    /// The path below `/v3`. A segment in braces matches any value.
    pub path: &'static str,
    /// The credential that the call needs.
    pub need: V3Need,
    /// The handler of the call.
    pub(super) call: V3Call,
    /// The name of the authorization rule of the call, without `identity:`. Empty if the call needs no session.
    pub rule: &'static str,
    /// The summary of the call in OpenAPI.
    pub says: &'static str,
}

const SIGN_IN: &str = "signing in by federation is not supported yet, because only users that are stored on this server can sign in";

/// Paths of Keystone for which this server answers 501, with the reason. An entry also stands for all paths below its path.
const NOT_SERVED: [(&str, &str); 4] = [
    ("/OS-FEDERATION/identity_providers/{idp_id}/protocols/{protocol_id}/auth", SIGN_IN),
    ("/OS-FEDERATION/saml2", SIGN_IN),
    ("/auth/OS-FEDERATION", SIGN_IN),
    ("/OS-SIMPLE-CERT", "PKI tokens are not supported"),
];

/// The result of routing a request.
pub(super) enum Match<'p> {
    /// The call, and the values of its path parameters.
    Route(&'static V3Route, Vec<&'p str>),
    /// The path exists, but not with this method.
    OtherMethod,
    /// Keystone has this path, but this server does not serve the path. The text is the reason.
    NotServed(&'static str),
    /// The path does not exist.
    Nothing,
}

/// Finds the call of a request. `path` is the part of the URL's path after `/v3`, without a slash at its end.
pub(super) fn find<'p>(method: &Method, path: &'p str) -> Match<'p> {
    // This condition is checked first: the check is fast, and it excludes most rows of the table.
    let may_be = |route: &&V3Route| path.starts_with(route.path.split('{').next().unwrap_or_default());
    let of_path: Vec<_> =
        V3.iter().filter(may_be).filter_map(|route| Some((route, parameters(route.path, path)?))).collect();
    let wanted = |name: &str| of_path.iter().find(|(route, _)| route.method == name).cloned();
    let found = wanted(method.as_str()).or_else(|| wanted("GET").filter(|_| method == Method::HEAD));
    match found {
        Some((route, parameters)) => Match::Route(route, parameters),
        None if !of_path.is_empty() => Match::OtherMethod,
        None => NOT_SERVED
            .iter()
            .find(|(above, _)| is_below(above, path))
            .map_or(Match::Nothing, |(_, reason)| Match::NotServed(reason)),
    }
}

/// Whether a path begins with the segments of a template.
fn is_below(template: &str, path: &str) -> bool {
    let mut given = path.split('/');
    let is_like = |part: &str, given: &str| part == given || part.starts_with('{') && !given.is_empty();
    template.split('/').all(|part| given.next().is_some_and(|given| is_like(part, given)))
}

fn parameters<'p>(template: &str, path: &'p str) -> Option<Vec<&'p str>> {
    let (mut parts, mut given) = (template.split('/'), path.split('/'));
    let mut found = Vec::new();
    loop {
        match (parts.next(), given.next()) {
            (None, None) => return Some(found),
            (Some(part), Some(given)) if part.starts_with('{') && !given.is_empty() => found.push(given),
            (Some(part), Some(given)) if part == given => {}
            _ => return None,
        }
    }
}
