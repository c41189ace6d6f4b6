//! Signing in with a browser. A browser sends a cookie only to the host that set the cookie. So each application's host gets a cookie of its own:
//!
//! ```text
//! wiki.example.com/page                     no cookie: redirect to …                              (`redirect_to_start`)
//! wiki.example.com/.enfilade/start          cookie with a random secret: redirect to …            (`start.rs`)
//! files.example.com/.enfilade/sign-in       the page for signing in, cookie: redirect with a code (`sign_in.rs`)
//! wiki.example.com/.enfilade/finish         the code is exchanged for a cookie: redirect to …     (`finish.rs`)
//! wiki.example.com/page
//! ```
//!
//! The proxy passes requests with paths below `/.enfilade/` on the application's host to the decision listener. The page for signing in is on the
//! main listener. If the browser is already signed in at the main listener, it gets the code at once, and the user does not see the page.
//! `sign_out.rs` ends all sessions of a sign-in.

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
use enfilade_faces::browser::{Target, opens_page, redirect, url};
use enfilade_faces::{Answer, Faces, Failure, Trace, accepts_html, status_of};
use hyper::StatusCode;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderName};

pub(crate) const START: &str = "/.enfilade/start";
pub(crate) const FINISH: &str = "/.enfilade/finish";
pub(crate) const SIGN_IN: &str = "/.enfilade/sign-in";
pub(crate) const SIGN_OUT: &str = "/.enfilade/sign-out";

const AUTH_TOKEN: HeaderName = HeaderName::from_static("x-auth-token");

/// If a browser opens a page and its user is not signed in, the response to the refused subrequest is a redirect to [`START`]. The result is `None`
/// for other clients, for requests with a credential in a header, and for refusals with a status other than 401. In these cases, the response is the
/// refusal itself.
pub(crate) fn redirect_to_start(faces: &Faces, headers: &HeaderMap, failure: &Failure) -> Option<Answer> {
    faces.sign_in()?;
    let is = |name: &str, value: &[u8]| headers.get(name).is_some_and(|found| found.as_bytes() == value);
    let has_credential = headers.contains_key(AUTHORIZATION) || headers.contains_key(AUTH_TOKEN);
    // This check prevents an endless redirect if the proxy does not pass the paths below `/.enfilade/` to the decision listener.
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
    // The URL contains the host, because Traefik would add the host of this server to a URL without a host.
    let origin = Visited::read(headers).ok()?.origin(faces).ok()?;
    Some(redirect(&url(&format!("{origin}{START}"), &[("to", uri.unwrap_or_else(Target::root).as_str())])))
}

/// The response to a request of a browser. If the request failed, the response is a page with the failure.
fn answered(result: Result<Answer, Failure>, mut trace: Trace) -> Answer {
    let answer = result.unwrap_or_else(|failure| {
        trace.failed(&failure);
        page::failed(&failure)
    });
    trace.answered(&answer);
    answer
}
