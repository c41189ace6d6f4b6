//! The conditions of a request: the `If` header (RFC 4918 §10.4), and the headers of RFC 9110 §13, such as `If-Match`. The `If` header also contains
//! lock tokens.

use super::ResourcePath;
use enfilade_faces::{Failure, RequestError, list};
use enfilade_passage::{ContentRefusal as Content, LockToken, PathState, Stay};
use hyper::HeaderMap;
use hyper::header::{
    HOST, HeaderName, HeaderValue, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_UNMODIFIED_SINCE,
};

/// The maximum number of conditions in one header.
const CONDITIONS_MAX: usize = 256;

/// A condition of a list: the resource must have this state or, if `is_not` is true, must not have this state.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Condition {
    is_not: bool,
    state: State,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// The token of a lock; `None` if the token does not have the form of this server's lock tokens.
    Token(Option<LockToken>),
    /// An entity tag, with its quotes.
    Tag(String),
}

/// Conditions that must all be true.
#[derive(Clone, Debug, PartialEq, Eq)]
struct List {
    /// The URL of the resource; `None` stands for the resource of the request.
    resource: Option<String>,
    conditions: Vec<Condition>,
}

/// An `If` header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Conditions {
    lists: Vec<List>,
}

impl Conditions {
    pub(crate) fn read(headers: &HeaderMap) -> Result<Self, RequestError> {
        let Some(value) = headers.get("if") else { return Ok(Conditions::default()) };
        value.to_str().ok().and_then(parse).ok_or(RequestError::Header("If"))
    }

    /// The lock tokens in all conditions of the header.
    pub(crate) fn tokens(&self) -> Vec<LockToken> {
        let conditions = self.lists.iter().flat_map(|list| &list.conditions);
        let tokens = conditions.filter_map(|condition| match condition.state {
            State::Token(token) => token,
            State::Tag(_) => None,
        });
        tokens.collect()
    }

    /// Succeeds if all conditions of at least one list are true, or if there are no lists.
    pub(crate) fn check(
        &self,
        stay: &mut Stay,
        place: &ResourcePath,
        host: Option<&str>,
    ) -> Result<(), Failure> {
        if self.lists.is_empty() {
            return Ok(());
        }
        for list in &self.lists {
            let state = match &list.resource {
                None => stay.state_of(&place.path)?,
                Some(said) => match resource_of(said, host) {
                    Some(other) if other.datastore == place.datastore => stay.state_of(&other.path)?,
                    // The state of a resource of another datastore or server is unknown. So the resource counts as a resource without locks and
                    // without an entity tag.
                    _ => PathState::default(),
                },
            };
            if list.conditions.iter().all(|condition| condition.holds(&state)) {
                return Ok(());
            }
        }
        Err(RequestError::Condition.into())
    }
}

impl Condition {
    fn holds(&self, state: &PathState) -> bool {
        let is_so = match &self.state {
            State::Token(token) => token.is_some_and(|token| state.tokens.contains(&token)),
            State::Tag(tag) => {
                let own = state.validator.as_ref().map(|validator| format!("\"{validator}\""));
                own.is_some_and(|own| own == *tag)
            }
        };
        is_so != self.is_not
    }
}

fn parse(text: &str) -> Option<Conditions> {
    let mut lists = Vec::new();
    let (mut resource, mut is_tagged, mut count) = (None, None, 0);
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('<') {
            // The header contains either no resource at all, or a resource before the first list. A resource applies to all lists up to the next
            // resource.
            let (said, after) = after.split_once('>')?;
            if is_tagged == Some(false) || !after.trim_start().starts_with('(') {
                return None;
            }
            (is_tagged, resource) = (Some(true), Some(said.to_owned()));
            rest = after.trim_start();
        }
        let mut inner = rest.strip_prefix('(')?;
        is_tagged = is_tagged.or(Some(false));
        let mut conditions = Vec::new();
        loop {
            inner = inner.trim_start();
            if let Some(after) = inner.strip_prefix(')') {
                rest = after.trim_start();
                break;
            }
            let is_not = inner.get(..3).is_some_and(|word| word.eq_ignore_ascii_case("not"));
            if is_not {
                inner = inner.get(3..)?.trim_start();
            }
            let state = if let Some(after) = inner.strip_prefix('<') {
                let (token, after) = after.split_once('>')?;
                inner = after;
                State::Token(token.parse().ok())
            } else {
                // An entity tag may contain a bracket between its quotes.
                let after = inner.strip_prefix('[')?;
                let from = after.find('"')?;
                let to = after.get(from + 1..)?.find('"')? + from + 2;
                let tag = after.get(..to)?.trim().to_owned();
                inner = after.get(to..)?.trim_start().strip_prefix(']')?;
                State::Tag(tag)
            };
            conditions.push(Condition { is_not, state });
            count += 1;
            if count > CONDITIONS_MAX {
                return None;
            }
        }
        if conditions.is_empty() {
            return None;
        }
        lists.push(List { resource: resource.clone(), conditions });
    }
    (!lists.is_empty()).then_some(Conditions { lists })
}

/// The resource of a URL; `None` if the URL does not belong to a resource of this server.
pub(crate) fn resource_of(url: &str, host: Option<&str>) -> Option<ResourcePath> {
    let path = match url.split_once("://") {
        None => url,
        Some((scheme, rest)) => {
            let at = rest.find('/')?;
            let (authority, path) = rest.split_at(at);
            let is_http = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
            if !is_http || host.is_none_or(|host| !host.eq_ignore_ascii_case(authority)) {
                return None;
            }
            path
        }
    };
    // The URL of a resource has no query and no fragment (RFC 4918 §8.3). If there is a `?` or `#` in the URL, the client did not encode this
    // character in a name.
    if path.contains(['?', '#']) {
        return None;
    }
    ResourcePath::from_url(path).ok()
}

/// The host to which the request is addressed.
pub(crate) fn host(head: &hyper::http::request::Parts) -> Option<String> {
    let said = head.headers.get(HOST).and_then(|host: &HeaderValue| host.to_str().ok());
    head.uri.authority().map(|authority| authority.as_str()).or(said).map(str::to_owned)
}

/// The result of the conditions of RFC 9110 §13.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Preconditions {
    /// Proceed with the request.
    Hold,
    /// The client already has this representation. This result is possible only for GET and HEAD.
    NotModified,
    /// The resource has another state than the client expects.
    Fail,
}

/// An existing resource: its validator, and its modification time in seconds since the epoch. Each is `None` if the resource does not have it.
pub(crate) type Representation<'r> = (Option<&'r str>, Option<i64>);

/// Evaluates the conditions in the order of RFC 9110 §13.2.2. `state` is `None` if the resource does not exist. If the resource exists but has no
/// date, conditions on dates are ignored (RFC 9110 §13.1.3, §13.1.4).
pub(crate) fn preconditions(
    headers: &HeaderMap,
    state: Option<Representation<'_>>,
    is_read: bool,
) -> Preconditions {
    let seconds = |name: HeaderName| {
        let moment = httpdate::parse_http_date(headers.get(name)?.to_str().ok()?).ok()?;
        let since = moment.duration_since(std::time::SystemTime::UNIX_EPOCH).ok()?;
        i64::try_from(since.as_secs()).ok()
    };
    let names = |tags: &str, is_weak: bool| {
        let own = state.and_then(|(validator, _)| Some(format!("\"{}\"", validator?)));
        let of = |tag: &str| match is_weak {
            true => tag.trim().trim_start_matches("W/").to_owned(),
            false => tag.trim().to_owned(),
        };
        let is_any = tags.trim() == "*" && state.is_some();
        is_any || own.is_some_and(|own| tags.split(',').any(|tag| of(tag) == own))
    };
    let matches = match (headers.contains_key(IF_MATCH), seconds(IF_UNMODIFIED_SINCE)) {
        (true, _) => list(headers, IF_MATCH).is_some_and(|tags| names(&tags, false)),
        (false, Some(since)) => {
            state.is_some_and(|(_, modified)| modified.is_none_or(|modified| modified <= since))
        }
        (false, None) => true,
    };
    if !matches {
        return Preconditions::Fail;
    }
    let is_had = match (headers.contains_key(IF_NONE_MATCH), seconds(IF_MODIFIED_SINCE)) {
        (true, _) => list(headers, IF_NONE_MATCH).is_none_or(|tags| names(&tags, true)),
        (false, Some(since)) if is_read => {
            state.and_then(|(_, modified)| modified).is_some_and(|modified| modified <= since)
        }
        _ => false,
    };
    match (is_had, is_read) {
        (false, _) => Preconditions::Hold,
        (true, true) => Preconditions::NotModified,
        (true, false) => Preconditions::Fail,
    }
}

const CONDITIONAL: [HeaderName; 3] = [IF_MATCH, IF_UNMODIFIED_SINCE, IF_NONE_MATCH];

/// The conditions of a request that makes a change.
pub(crate) struct RequestConditions {
    pub(crate) conditions: Conditions,
    pub(crate) host: Option<String>,
    /// All headers of the request, if one of them is in [`CONDITIONAL`]; otherwise `None`.
    others: Option<HeaderMap>,
}

impl RequestConditions {
    pub(crate) fn of(head: &hyper::http::request::Parts) -> Result<Self, RequestError> {
        let conditions = Conditions::read(&head.headers)?;
        let has_others = CONDITIONAL.iter().any(|name| head.headers.contains_key(name));
        Ok(RequestConditions {
            conditions,
            host: host(head),
            others: has_others.then(|| head.headers.clone()),
        })
    }

    /// Checks the conditions now, as [`RequestConditions::check`] does, and again when the change is made.
    pub(crate) fn check_twice(self, stay: &mut Stay, place: ResourcePath) -> Result<Vec<LockToken>, Failure> {
        let tokens = self.check(stay, &place)?;
        stay.only_if(move |stay| match self.check(stay, &place) {
            Ok(_) => Ok(()),
            Err(Failure::Refused(why)) => Err(why),
            Err(Failure::Request(_)) => Err(Content::Unmet.into()),
        });
        Ok(tokens)
    }

    /// Checks the conditions; returns the lock tokens of the request.
    pub(crate) fn check(&self, stay: &mut Stay, place: &ResourcePath) -> Result<Vec<LockToken>, Failure> {
        if let Some(headers) = &self.others {
            let state = stay.state_of(&place.path)?;
            let state = state.is_there.then_some((state.validator.as_deref(), state.modified));
            if preconditions(headers, state, false) != Preconditions::Hold {
                return Err(RequestError::Condition.into());
            }
        }
        self.conditions.check(stay, place, self.host.as_deref())?;
        Ok(self.conditions.tokens())
    }
}

#[cfg(test)]
mod tests;
