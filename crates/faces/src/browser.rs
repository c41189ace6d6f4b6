//! Functions for pages in browsers: redirects, cookies, the check of `Origin`, and signing in. The page for signing in and the console use these
//! functions.

mod form;
mod log_in;
mod passkeys;

pub use form::{SignInForm, sign_in_form};
pub use log_in::{Attempt, kept_receipt, log_in, why_not};
pub use passkeys::{OfferedPasskeys, base64url, new_passkey, octets, offered_passkeys};

use crate::body::Body;
use crate::faces::Faces;
use crate::percent::{form_pairs, push_form_value};
use crate::request_error::{Failure, RequestError};
use crate::respond::{Answer, status_of};
use crate::trace::Trace;
use enfilade_admin::ChangeContext;
use enfilade_facts::Requester;
use enfilade_facts::vocabulary::StorePath;
use enfilade_passage::{Refusal, Visit};
use hyper::header::{
    CACHE_CONTROL, HeaderMap, HeaderName, HeaderValue, LOCATION, ORIGIN, REFERRER_POLICY, SET_COOKIE,
};
use hyper::{Response, StatusCode};

/// The value of `Cache-Control` that forbids every cache to store the response.
pub const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// The maximum length, in bytes, of the path and query to which a browser returns. The path and query are a parameter in the query of other URLs.
const TARGET_BYTES_MAX: usize = 2_048;

/// The path and query on a host to which a browser returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target(String);

impl Target {
    /// Reads a path and query. Returns `None` if no request can have this path, or if the text is too long. The target is always on the same host.
    pub fn read(text: &str) -> Option<Self> {
        let is_path = text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic());
        let fits = is_path && text.len() <= TARGET_BYTES_MAX && StorePath::from_target(text).is_ok();
        fits.then(|| Target(text.to_owned()))
    }

    /// The root of the host.
    pub fn root() -> Self {
        Target("/".to_owned())
    }

    /// The path and query.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The value of a parameter of a query or form.
pub fn parameter<'p>(pairs: &'p [(String, String)], name: &str) -> Option<&'p str> {
    pairs.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

/// The value of the parameter `to`; `None` if the parameter is missing, or its value is not a valid target.
pub fn target(pairs: &[(String, String)]) -> Option<Target> {
    parameter(pairs, "to").and_then(Target::read)
}

/// The names and values of a query; empty if a name or value cannot be decoded.
pub fn query(uri: &hyper::Uri) -> Vec<(String, String)> {
    form_pairs(uri.query().unwrap_or_default().as_bytes()).unwrap_or_default()
}

/// Appends a query with these parameters to a URL without a query.
pub fn url(before: &str, parameters: &[(&str, &str)]) -> String {
    let mut url = before.to_owned();
    for (at, (name, value)) in parameters.iter().enumerate() {
        url.push_str(if at == 0 { "?" } else { "&" });
        url.push_str(name);
        url.push('=');
        push_form_value(&mut url, value);
    }
    url
}

/// A redirect, which the browser follows with GET (RFC 9110 §15.4.4).
pub fn redirect(to: &str) -> Answer {
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = StatusCode::SEE_OTHER;
    let headers = answer.headers_mut();
    headers.insert(CACHE_CONTROL, NO_STORE);
    // The URL can contain a one-time code, so browsers must not send the URL as a referrer.
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    if let Ok(to) = HeaderValue::from_str(to) {
        headers.insert(LOCATION, to);
    }
    answer
}

/// Adds a cookie that scripts cannot read. If a page of another site makes a request, the browser sends the cookie only if the request opens a page
/// of this host with a safe method, such as GET (RFC 6265bis §5.6.7).
pub fn set_cookie(answer: &mut Answer, name: &str, value: &str, seconds: i64) {
    let cookie =
        format!("{name}={value}; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age={}", seconds.max(0));
    if let Ok(mut cookie) = HeaderValue::from_str(&cookie) {
        cookie.set_sensitive(true);
        answer.headers_mut().append(SET_COOKIE, cookie);
    }
}

/// Refuses a form that a page of another site sent. The check uses `Origin`, because browsers send this header with every POST request (Fetch
/// standard, "append a request Origin header").
///
/// # Errors
/// [`RequestError::CrossSite`] if the request has no `Origin`, several `Origin` headers, or an `Origin` for which `is_own` returns false.
pub fn check_origin(headers: &HeaderMap, is_own: impl Fn(&[u8]) -> bool) -> Result<(), RequestError> {
    let mut origins = headers.get_all(ORIGIN).iter();
    match (origins.next(), origins.next()) {
        (Some(origin), None) if is_own(origin.as_bytes()) => Ok(()),
        _ => Err(RequestError::CrossSite),
    }
}

const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// Whether a browser opens a page. The result is false if the browser loads a part of a page in the background. Old browsers do not send the header
/// `Sec-Fetch-Mode`. For these browsers the result is true.
pub fn opens_page(headers: &HeaderMap) -> bool {
    headers.get(FETCH_MODE).is_none_or(|mode| mode.as_bytes() == b"navigate")
}

/// Whether the status for this refusal is 401. This status means that the client has no valid credential.
pub fn is_unauthorized(refusal: &Refusal) -> bool {
    status_of(&Failure::Refused(refusal.clone())) == StatusCode::UNAUTHORIZED
}

/// Changes facts, on a thread that is allowed to block. The author of the change is the user of the request (`trace.event.authid`).
///
/// # Errors
/// The failure of the change.
pub async fn change<T: Send + 'static>(
    faces: &Faces,
    trace: &Trace,
    what: impl FnOnce(&ChangeContext<'_>) -> Result<T, enfilade_admin::Error> + Send + 'static,
) -> Result<T, Failure> {
    let (faces, who, request) = (faces.clone(), trace.event.authid.clone(), trace.event.id);
    let done = tokio::task::spawn_blocking(move || {
        what(&faces.change_context(&who, Requester::User, request)).map_err(failure_of_change)
    });
    done.await.unwrap_or_else(|_| Err(RequestError::Worker.into()))
}

/// The failure for an error of a change. A refusal of door 2, and an error of the source of the facts, become a failure with the same reason. Any
/// other error becomes the refusal `Busy` of door 2.
pub fn failure_of_change(error: enfilade_admin::Error) -> Failure {
    match error {
        enfilade_admin::Error::Identity(refusal) => refusal.into(),
        enfilade_admin::Error::Source(why)
        | enfilade_admin::Error::Commit(enfilade_facts::CommitError::Source(why)) => why.into(),
        _ => enfilade_passage::IdentityRefusal::Busy.into(),
    }
}

/// Records the visitor's name, and the revision of the facts, in the event.
pub fn known(trace: &mut Trace, visit: &Visit) {
    trace.event.authid = visit.principal().authid.to_word();
    trace.event.revision = visit.identity().at().revision.0;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_leads_to_no_other_host() {
        for good in ["/", "/a/b?c=d&e=%2f", "/%C3%A4"] {
            assert_eq!(Target::read(good).map(|target| target.0).as_deref(), Some(good));
        }
        let long = format!("/{}", "a".repeat(TARGET_BYTES_MAX));
        for bad in [
            "",
            "a",
            "//evil.example.com",
            "/\\evil",
            "/\\/evil",
            "https://evil.example.com",
            "/a b",
            "/ä",
            "/a\r\nb",
            "/\t/evil",
            "/../x",
            "/%2fevil",
            &long,
        ] {
            assert_eq!(Target::read(bad), None, "{bad}");
        }
    }

    #[test]
    fn parameters_are_read_as_they_were_written() {
        let to = "/a%20b?c=d&e=+;#\"";
        let url = url("/x", &[("to", to), ("host", "a:1")]);
        let pairs = query(&url.parse().unwrap());
        assert_eq!((parameter(&pairs, "to"), parameter(&pairs, "host")), (Some(to), Some("a:1")), "{url}");
    }

    #[test]
    fn a_form_of_another_site_is_refused() {
        let own = "https://files.example.com";
        let with = |origins: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for origin in origins {
                headers.append(ORIGIN, HeaderValue::from_static(origin));
            }
            check_origin(&headers, |origin| origin == own.as_bytes()).is_ok()
        };
        assert!(with(&["https://files.example.com"]));
        for other in [
            &[][..],
            &["null"],
            &["http://files.example.com"],
            &["https://files.example.com:8443"],
            &["https://files.example.com.evil"],
            &["https://files.example.com", "https://files.example.com"],
        ] {
            assert!(!with(other), "{other:?}");
        }
    }
}
