//! Every call of Identity v3 there is here: what it needs, who answers, and what it is for. The checks, JSON-home, the OpenAPI
//! document and the page in `docs/` all come from this table.

#[cfg(test)]
mod documents;

use hyper::Method;

/// What a call needs before it is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum V3Need {
    /// Nothing: the reviewed few.
    Nobody,
    /// A session. Which role it has to have is judged by door 4.
    Session,
}

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum V3Call {
    /// Which versions there are.
    Version,
    /// A token.
    Login,
    /// What a token stands for.
    Validate,
    /// Whether a token is good.
    Check,
    /// The end of a token.
    Revoke,
    /// Where services are.
    Catalog,
    /// What a session could be for.
    Projects,
    /// Likewise.
    Domains,
    /// Likewise.
    System,
    /// What was revoked.
    Events,
    /// Application credentials of a user.
    ListCredentials,
    /// One more.
    CreateCredential,
    /// One of them.
    ShowCredential,
    /// One less.
    DeleteCredential,
    /// Trusts.
    ListTrusts,
    /// One more.
    CreateTrust,
    /// One of them.
    ShowTrust,
    /// One less.
    DeleteTrust,
}

/// A call.
#[derive(Clone, Copy, Debug)]
pub struct V3Route {
    /// The method; `GET` is `HEAD`, too, unless that has a row of its own.
    pub method: &'static str,
    /// The path below `/v3`; a segment in braces stands for any.
    pub path: &'static str,
    /// What it needs.
    pub need: V3Need,
    /// Who answers.
    pub call: V3Call,
    /// What JSON-home calls it.
    pub relation: &'static str,
    /// What it is for.
    pub says: &'static str,
}

const fn nobody(
    method: &'static str,
    path: &'static str,
    call: V3Call,
    relation: &'static str,
    says: &'static str,
) -> V3Route {
    V3Route { method, path, need: V3Need::Nobody, call, relation, says }
}

const fn session(
    method: &'static str,
    path: &'static str,
    call: V3Call,
    relation: &'static str,
    says: &'static str,
) -> V3Route {
    V3Route { method, path, need: V3Need::Session, call, relation, says }
}

const CREDENTIALS: &str = "/users/{user_id}/application_credentials";
const CREDENTIAL: &str = "/users/{user_id}/application_credentials/{application_credential_id}";
const TRUST: &str = "/OS-TRUST/trusts/{trust_id}";

/// The table.
pub const V3: [V3Route; 18] = [
    nobody("GET", "", V3Call::Version, "version", "which version this is"),
    nobody(
        "POST",
        "/auth/tokens",
        V3Call::Login,
        "auth_tokens",
        "a token, for a password, a token or an application credential",
    ),
    session("GET", "/auth/tokens", V3Call::Validate, "auth_tokens", "what X-Subject-Token stands for"),
    session("HEAD", "/auth/tokens", V3Call::Check, "auth_tokens", "whether X-Subject-Token is good"),
    session("DELETE", "/auth/tokens", V3Call::Revoke, "auth_tokens", "X-Subject-Token is good no longer"),
    session(
        "GET",
        "/auth/catalog",
        V3Call::Catalog,
        "auth_catalog",
        "where services are, as the session is told",
    ),
    session("GET", "/auth/projects", V3Call::Projects, "auth_projects", "projects this user has a role on"),
    session("GET", "/auth/domains", V3Call::Domains, "auth_domains", "domains this user has a role on"),
    session(
        "GET",
        "/auth/system",
        V3Call::System,
        "auth_system",
        "whether this user has a role on the system",
    ),
    session("GET", "/OS-REVOKE/events", V3Call::Events, "events", "what was revoked"),
    session(
        "GET",
        CREDENTIALS,
        V3Call::ListCredentials,
        "application_credentials",
        "a user's application credentials",
    ),
    session(
        "POST",
        CREDENTIALS,
        V3Call::CreateCredential,
        "application_credentials",
        "one more; its secret is told once",
    ),
    session("GET", CREDENTIAL, V3Call::ShowCredential, "application_credential", "one of them"),
    session(
        "DELETE",
        CREDENTIAL,
        V3Call::DeleteCredential,
        "application_credential",
        "it and its sessions are good no longer",
    ),
    session(
        "GET",
        "/OS-TRUST/trusts",
        V3Call::ListTrusts,
        "trusts",
        "what users let others do on their behalf",
    ),
    session("POST", "/OS-TRUST/trusts", V3Call::CreateTrust, "trusts", "one more"),
    session("GET", TRUST, V3Call::ShowTrust, "trust", "one of them"),
    session("DELETE", TRUST, V3Call::DeleteTrust, "trust", "it and its sessions are good no longer"),
];

/// What the original has and this does not: it is said so.
const NOT_YET: [&str; 26] = [
    "OS-EP-FILTER",
    "OS-FEDERATION",
    "OS-INHERIT",
    "OS-OAUTH1",
    "OS-OAUTH2",
    "OS-SIMPLE-CERT",
    "OS-TRUST",
    "credentials",
    "domains",
    "ec2tokens",
    "endpoints",
    "groups",
    "limits",
    "policies",
    "projects",
    "regions",
    "registered_limits",
    "role_assignments",
    "role_inferences",
    "roles",
    "s3tokens",
    "services",
    "system",
    "users",
    "access_rules",
    "tags",
];

/// What was found for a request.
pub(super) enum Match<'p> {
    /// A call, and what stood where its path has braces.
    Route(&'static V3Route, Vec<&'p str>),
    /// The path is one, the method is none of its.
    OtherMethod,
    /// Keystone has it.
    NotYet,
    /// Nothing.
    Nothing,
}

/// The call that is meant; the path is the one below `/v3`, without a slash at its end.
pub(super) fn find<'p>(method: &Method, path: &'p str) -> Match<'p> {
    let of_path: Vec<_> =
        V3.iter().filter_map(|route| Some((route, parameters(route.path, path)?))).collect();
    let wanted = |name: &str| of_path.iter().find(|(route, _)| route.method == name).cloned();
    let found = wanted(method.as_str()).or_else(|| wanted("GET").filter(|_| method == Method::HEAD));
    match found {
        Some((route, parameters)) => Match::Route(route, parameters),
        None if !of_path.is_empty() => Match::OtherMethod,
        None if NOT_YET.contains(&path.split('/').nth(1).unwrap_or_default()) => Match::NotYet,
        None => Match::Nothing,
    }
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
