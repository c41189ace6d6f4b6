//! Signing in with a browser. A cookie is sent only to the host that set it. So each application's host gets a cookie of its own:
//!
//! ```text
//! wiki.example.com/page                     no cookie: redirect to …                              (`redirect_to_start`)
//! wiki.example.com/.enfilade/start          cookie with a random secret: redirect to …            (`start.rs`)
//! files.example.com/.enfilade/sign-in       the page for signing in, cookie: redirect with a code (`sign_in.rs`)
//! wiki.example.com/.enfilade/finish         the code is exchanged for a cookie: redirect to …     (`finish.rs`)
//! wiki.example.com/page
//! ```
//!
//! The proxy passes requests with paths below `/.enfilade/` on the application's host to the decision listener. The page for signing in is on the main
//! listener. If the browser is already signed in there, it gets the code at once, and the user does not see the page. `sign_out.rs` ends all sessions
//! of a sign-in.

mod finish;
mod page;
mod sign_in;
mod sign_out;
mod start;

pub(crate) use finish::finish;
pub(crate) use sign_in::sign_in;
pub(crate) use sign_out::{sign_out_at_application, sign_out_here};
pub(crate) use start::start;

use crate::subrequest::Visited;
use crate::{NO_STORE, failure};
use enfilade_faces::percent::{form_pairs, push_form_value};
use enfilade_faces::{Answer, Body, Faces, Failure, RequestError, Trace, accepts_html, status_of};
use enfilade_facts::Requester;
use enfilade_facts::vocabulary::StorePath;
use enfilade_passage::{Refusal, Visit};
use hyper::header::{
    AUTHORIZATION, CACHE_CONTROL, HeaderMap, HeaderName, HeaderValue, LOCATION, ORIGIN, REFERRER_POLICY,
    SET_COOKIE,
};
use hyper::{Response, StatusCode};

pub(crate) const START: &str = "/.enfilade/start";
pub(crate) const FINISH: &str = "/.enfilade/finish";
pub(crate) const SIGN_IN: &str = "/.enfilade/sign-in";
pub(crate) const SIGN_OUT: &str = "/.enfilade/sign-out";

/// The longest path and query to which a browser returns, in bytes. It is sent in the query of other URLs.
const TARGET_BYTES_MAX: usize = 2_048;

/// The path and query on the application's host to which a browser returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target(String);

impl Target {
    /// `None` if the text is no path that a request can have, so that it cannot lead to another host.
    fn read(text: &str) -> Option<Self> {
        let is_path = text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic());
        let fits = is_path && text.len() <= TARGET_BYTES_MAX && StorePath::from_target(text).is_ok();
        fits.then(|| Target(text.to_owned()))
    }

    fn root() -> Self {
        Target("/".to_owned())
    }
}

/// The value of a parameter of a query or form.
fn parameter<'p>(pairs: &'p [(String, String)], name: &str) -> Option<&'p str> {
    pairs.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

/// The parameter `to`; the root if it is missing or unusable.
fn target(pairs: &[(String, String)]) -> Target {
    parameter(pairs, "to").and_then(Target::read).unwrap_or_else(Target::root)
}

/// The names and values of a query.
fn query(uri: &hyper::Uri) -> Vec<(String, String)> {
    form_pairs(uri.query().unwrap_or_default().as_bytes()).unwrap_or_default()
}

/// A URL with a query.
fn url(before: &str, parameters: &[(&str, &str)]) -> String {
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
fn redirect(to: &str) -> Answer {
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = StatusCode::SEE_OTHER;
    let headers = answer.headers_mut();
    headers.insert(CACHE_CONTROL, NO_STORE);
    // The URL may contain a code.
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    if let Ok(to) = HeaderValue::from_str(to) {
        headers.insert(LOCATION, to);
    }
    answer
}

/// Adds a cookie that scripts cannot read, and that pages of other sites send only if they open a page of this host (RFC 6265bis §5.6.7).
fn set_cookie(answer: &mut Answer, name: &str, value: &str, seconds: i64) {
    let cookie =
        format!("{name}={value}; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age={}", seconds.max(0));
    if let Ok(mut cookie) = HeaderValue::from_str(&cookie) {
        cookie.set_sensitive(true);
        answer.headers_mut().append(SET_COOKIE, cookie);
    }
}

/// Refuses a form that a page of another site sent: browsers send `Origin` with every form (Fetch standard, "append a request Origin header").
fn check_origin(headers: &HeaderMap, own: &str) -> Result<(), RequestError> {
    let mut origins = headers.get_all(ORIGIN).iter();
    match (origins.next(), origins.next()) {
        (Some(origin), None) if origin.as_bytes() == own.as_bytes() => Ok(()),
        _ => Err(RequestError::CrossSite),
    }
}

const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const AUTH_TOKEN: HeaderName = HeaderName::from_static("x-auth-token");

/// Whether a browser opens a page, and does not load a part of one in the background. Old browsers do not say.
fn opens_page(headers: &HeaderMap) -> bool {
    headers.get(FETCH_MODE).is_none_or(|mode| mode.as_bytes() == b"navigate")
}

/// Whether the client gets 401 for this refusal: it has no valid credential.
fn is_unauthorized(refusal: &Refusal) -> bool {
    status_of(&Failure::Refused(refusal.clone())) == StatusCode::UNAUTHORIZED
}

/// For a refused subrequest: the redirect to [`START`], if a browser opens a page and its user is not signed in. `None` for other clients, and for
/// requests with a credential in a header: these get the status 401.
pub(crate) fn redirect_to_start(faces: &Faces, headers: &HeaderMap, failure: &Failure) -> Option<Answer> {
    faces.sign_in()?;
    let is = |name: &str, value: &[u8]| headers.get(name).is_some_and(|found| found.as_bytes() == value);
    let has_credential = headers.contains_key(AUTHORIZATION) || headers.contains_key(AUTH_TOKEN);
    // If the proxy does not pass these paths on, a redirect would lead to itself.
    let is_own = headers.get("x-forwarded-uri").is_some_and(|uri| uri.as_bytes().starts_with(b"/.enfilade/"));
    let is_browser = !is_own
        && is("x-forwarded-method", b"GET")
        && accepts_html(headers)
        && opens_page(headers)
        && !has_credential;
    if !is_browser || status_of(failure) != StatusCode::UNAUTHORIZED {
        return None;
    }
    let uri = headers.get("x-forwarded-uri").and_then(|uri| uri.to_str().ok()).and_then(Target::read);
    // Traefik would complete a URL without a host by the host of this server.
    let origin = Visited::read(headers).ok()?.origin(faces).ok()?;
    Some(redirect(&url(&format!("{origin}{START}"), &[("to", &uri.unwrap_or_else(Target::root).0)])))
}

/// The response to a request of a browser: the page of the failure, if it failed.
fn answered(result: Result<Answer, Failure>, mut trace: Trace) -> Answer {
    let answer = result.unwrap_or_else(|failure| {
        trace.failed(&failure);
        page::failed(&failure)
    });
    trace.answered(&answer);
    answer
}

/// Changes facts for a signed-in user, on a thread that may wait.
async fn change<T: Send + 'static>(
    faces: &Faces,
    trace: &Trace,
    what: impl FnOnce(&enfilade_admin::ChangeContext<'_>) -> Result<T, enfilade_admin::Error> + Send + 'static,
) -> Result<T, Failure> {
    let (faces, who, request) = (faces.clone(), trace.event.authid.clone(), trace.event.id);
    let done = tokio::task::spawn_blocking(move || {
        what(&faces.change_context(&who, Requester::User, request)).map_err(failure)
    });
    done.await.unwrap_or_else(|_| Err(RequestError::Worker.into()))
}

/// Records who the visitor is.
fn known(trace: &mut Trace, visit: &Visit) {
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
            check_origin(&headers, own).is_ok()
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
