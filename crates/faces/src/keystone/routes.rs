//! Every call of Identity v3 there is here: what it needs, who answers, and what it is for. The checks, JSON-home, the OpenAPI
//! document and the page in `docs/` all come from this table.

#[cfg(test)]
mod documents;
mod table;

pub use table::V3;

use super::{Call, Outcome};
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
#[derive(Clone, Copy)]
pub(super) enum V3Call {
    /// Which versions there are.
    Version,
    /// A token.
    Login,
    /// Another password, for the one there is.
    ChangePassword,
    /// What a token stands for.
    Validate,
    /// Whether a token is good.
    Check,
    /// A session for whoever signed a request to another service.
    Ec2,
    /// The same, of a request to S3.
    S3,
    /// Everything else: it may wait for a disk.
    Do(fn(&mut Call) -> Outcome),
}

/// A call.
#[derive(Clone, Copy)]
pub struct V3Route {
    /// The method; `GET` is `HEAD`, too, unless that has a row of its own.
    pub method: &'static str,
    /// The path below `/v3`; a segment in braces stands for any.
    pub path: &'static str,
    /// What it needs.
    pub need: V3Need,
    /// Who answers.
    pub(super) call: V3Call,
    /// The rule that says who may, without `identity:`; empty where nobody has to be known.
    pub rule: &'static str,
    /// What it is for.
    pub says: &'static str,
}

/// What the original has and this does not: it is said so.
const NOT_YET: [&str; 9] = [
    "OS-EP-FILTER",
    "OS-FEDERATION",
    "OS-OAUTH1",
    "OS-OAUTH2",
    "OS-SIMPLE-CERT",
    "limits",
    "policies",
    "registered_limits",
    "OS-ENDPOINT-POLICY",
];

impl V3Route {
    /// What JSON-home and OpenAPI call it: the words of the path, the last one for one thing where it names one.
    pub(super) fn relation(&self) -> String {
        if self.path.is_empty() {
            return "version".to_owned();
        }
        let words: Vec<&str> =
            self.path.split('/').filter(|part| !part.is_empty() && !part.starts_with('{')).collect();
        let mut relation = words.join("_");
        if self.path.ends_with('}') && relation.ends_with('s') {
            relation.pop();
        }
        relation
    }
}

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
    // Most rows do not begin as the path does.
    let may_be = |route: &&V3Route| path.starts_with(route.path.split('{').next().unwrap_or_default());
    let of_path: Vec<_> =
        V3.iter().filter(may_be).filter_map(|route| Some((route, parameters(route.path, path)?))).collect();
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
