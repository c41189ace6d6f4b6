//! Signing in to the console, and signing out. The cookie proves a session. The audience of its session is the console, so only the console
//! accepts the cookie. The token against forged forms is a digest of the cookie. So the token is bound to the session, and need not be stored.

use crate::page;
use enfilade_admin::{sign_out, store_sign_in};
use enfilade_faces::browser::{
    Attempt, SignInForm, Target, change, check_origin, is_unauthorized, kept_receipt, known, log_in,
    offered_passkeys, parameter, query, redirect, set_cookie, sign_in_form, url, why_not,
};
use enfilade_faces::credential::{CONSOLE_COOKIE, browser};
use enfilade_faces::percent::form_pairs;
use enfilade_faces::{Answer, Connection, Faces, Failure, Received, RequestError, Trace, collect_form};
use enfilade_facts::tables::{Audience, SecretDigest};
use enfilade_facts::vocabulary::{from_lower_hex, to_hex};
use enfilade_passage::{BrowserAsk, Credential, Refusal, Session, Visit, is_same_digest, secret_digest};
use hyper::header::{HOST, HeaderMap, ORIGIN};
use hyper::http::request::Parts;
use hyper::{Method, Request, StatusCode, Uri};
use maud::{Markup, html};

/// The page for signing in.
pub(crate) const SIGN_IN: &str = "/console/sign-in";

/// Checks that the origin of a form is this host. On a connection with TLS, only forms of `https` pages are accepted. On a connection without TLS,
/// forms of `https` pages are accepted, too, because a proxy in front of the server may have removed TLS.
pub(crate) fn is_own_origin(connection: &Connection, head: &Parts) -> Result<(), RequestError> {
    let host = head.headers.get(HOST).and_then(|host| host.to_str().ok());
    let own = head.uri.authority().map(hyper::http::uri::Authority::as_str).or(host);
    check_origin(&head.headers, |origin| {
        let origin = std::str::from_utf8(origin).ok().and_then(|origin| origin.split_once("://"));
        match (origin, own) {
            (Some((scheme, host)), Some(own)) => {
                let is_scheme = scheme == "https" || scheme == "http" && !connection.is_https;
                is_scheme && without_usual_port(scheme, host) == without_usual_port(scheme, own)
            }
            _ => false,
        }
    })
}

/// The origin of a form. The caller has checked that the origin is this host.
pub(crate) fn origin(head: &Parts) -> Option<&str> {
    head.headers.get(ORIGIN).and_then(|origin| origin.to_str().ok())
}

fn without_usual_port(scheme: &str, host: &str) -> String {
    let port = if scheme == "https" { ":443" } else { ":80" };
    host.strip_suffix(port).unwrap_or(host).to_ascii_lowercase()
}

/// The token that the forms of a session must send.
fn csrf_of(ask: &BrowserAsk) -> SecretDigest {
    secret_digest(&[b"form of the console:", ask.cookie.reveal()].concat())
}

/// Whether a form or a script sent the token of its session.
pub(crate) fn is_csrf(own: &str, shown: Option<&str>) -> bool {
    let digest = |text: &str| from_lower_hex::<32>(text).map(SecretDigest);
    let shown = shown.and_then(digest);
    digest(own).zip(shown).is_some_and(|(own, shown)| is_same_digest(&own, &shown))
}

/// The user of a browser, and the token that the forms of the browser must send. `None` if the browser is not signed in.
///
/// # Errors
/// When door 2 cannot judge the session.
pub(crate) async fn signed_in(
    faces: &Faces,
    connection: &Connection,
    headers: &HeaderMap,
    trace: &mut Trace,
) -> Result<Option<(Visit, String)>, Failure> {
    // A malformed cookie is treated like a missing cookie: the user can sign in, and gets a new cookie.
    let Ok(Some(ask)) = browser(headers, CONSOLE_COOKIE, || Audience::Console) else { return Ok(None) };
    let csrf = to_hex(&csrf_of(&ask).0);
    let credential = Credential::Browser(ask);
    let admitted = faces.arc_house().admit(&credential, connection.peer.ip());
    match trace.admitted(admitted).await {
        Ok(mut visit) => {
            connection.anonymous.release();
            trace.time(&mut visit);
            known(trace, &visit);
            Ok(Some((visit, csrf)))
        }
        Err(refusal) if is_unauthorized(&refusal) => Ok(None),
        Err(refusal) => Err(refusal.into()),
    }
}

/// A redirect to the page for signing in. After signing in, the browser returns to the page that it requested.
pub(crate) fn to_sign_in(uri: &Uri) -> Answer {
    let to = uri.path_and_query().map(hyper::http::uri::PathAndQuery::as_str).and_then(own_target);
    let parameters: Vec<(&str, &str)> = to.iter().map(|to| ("to", to.as_str())).collect();
    page::guarded(redirect(&url(SIGN_IN, &parameters)))
}

/// The page of the console to which a browser returns after signing in. `None` if `text` names another page, or the page for signing in.
fn own_target(text: &str) -> Option<Target> {
    Target::read(text).filter(|to| to.as_str().starts_with("/console/") && !to.as_str().starts_with(SIGN_IN))
}

/// The page with the form for signing in.
fn form(status: StatusCode, to: Option<&Target>, user: &str, problem: Option<&str>) -> Answer {
    let hidden: Vec<(&str, &str)> = to.iter().map(|to| ("to", to.as_str())).collect();
    let form = SignInForm { action: SIGN_IN, hidden: &hidden, user, problem, receipt: None, passkeys: None };
    page::outside(status, "Sign in", &sign_in_form(&form))
}

/// The page with the form of the second step, which asks for a code or a passkey.
async fn second_form(
    faces: &Faces,
    (status, to): (StatusCode, Option<&Target>),
    user: &str,
    problem: Option<&str>,
    (receipt, origin): (&str, Option<&str>),
) -> Answer {
    let hidden: Vec<(&str, &str)> = to.iter().map(|to| ("to", to.as_str())).collect();
    let passkeys = offered_passkeys(faces, receipt, origin).await;
    let (receipt, passkeys) = (Some(receipt), passkeys.as_ref());
    let form = SignInForm { action: SIGN_IN, hidden: &hidden, user, problem, receipt, passkeys };
    page::outside(status, "Sign in", &sign_in_form(&form))
}

/// Redirects the browser back to the page that it requested.
fn proceed(to: Option<Target>) -> Answer {
    page::guarded(redirect(to.as_ref().map_or("/console/", Target::as_str)))
}

/// GET shows the page for signing in. POST signs the user in.
///
/// # Errors
/// When another site sent the form, or the session cannot be stored.
pub(crate) async fn sign_in(
    faces: &Faces,
    connection: &Connection,
    request: Request<Received>,
    trace: &mut Trace,
) -> Result<Answer, Failure> {
    let (head, body) = request.into_parts();
    if head.method != Method::POST {
        let pairs = query(&head.uri);
        let to = parameter(&pairs, "to").and_then(own_target);
        let is_in = signed_in(faces, connection, &head.headers, trace).await?.is_some();
        return Ok(if is_in { proceed(to) } else { form(StatusCode::OK, to.as_ref(), "", None) });
    }
    is_own_origin(connection, &head)?;
    let body = collect_form(body, &faces.limits()).await?;
    const NO_FORM: RequestError = RequestError::Parameter("the body is not a form in UTF-8");
    let pairs = form_pairs(&body).ok_or(NO_FORM)?;
    let to = parameter(&pairs, "to").and_then(own_target);
    let user = parameter(&pairs, "user").unwrap_or_default().trim();
    let origin = origin(&head);
    match issue(faces, connection, (&pairs, origin), trace).await {
        Ok(Issued::NeedsCode(receipt)) => {
            Ok(second_form(faces, (StatusCode::OK, to.as_ref()), user, None, (&receipt, origin)).await)
        }
        Ok(Issued::Session(session)) => {
            connection.anonymous.release();
            // The new cookie replaces the cookie of the old session in the browser. So the old session must not stay valid.
            end_other(faces, connection, &head.headers, trace).await;
            let stored = change(faces, trace, move |ctx| store_sign_in(ctx, &session)).await?;
            let seconds = stored.expires_at.saturating_sub(faces.house().now().unix_seconds);
            let mut answer = proceed(to);
            set_cookie(&mut answer, CONSOLE_COOKIE, &stored.cookie, seconds);
            Ok(answer)
        }
        Err(Failure::Refused(refusal)) => {
            let Some(why) = why_not(&refusal, &pairs) else { return Err(refusal.into()) };
            let receipt = kept_receipt(&pairs, &refusal);
            trace.failed(&Failure::Refused(refusal));
            // The status is not 401, because a browser would show its own dialog for a password after a 401.
            let (status, to) = (StatusCode::FORBIDDEN, to.as_ref());
            Ok(match receipt {
                Some(receipt) => second_form(faces, (status, to), user, Some(why), (receipt, origin)).await,
                None => form(status, to, user, Some(why)),
            })
        }
        Err(other) => Err(other),
    }
}

/// The result of an accepted form for signing in.
enum Issued {
    Session(Box<Session>),
    /// The password is right, and the account needs a code. The text is the receipt for the password.
    NeedsCode(String),
}

/// Issues a session for the console. The form must contain a password, and also a code if the account needs one. No token, ticket or other session is
/// accepted.
async fn issue(
    faces: &Faces,
    connection: &Connection,
    pairs: (&[(String, String)], Option<&str>),
    trace: &mut Trace,
) -> Result<Issued, Failure> {
    let arrival = match log_in(faces, connection, pairs, trace).await? {
        Attempt::Complete(arrival) => arrival,
        Attempt::NeedsCode(receipt) => return Ok(Issued::NeedsCode(receipt)),
    };
    trace.event.authid = arrival.authid().to_word();
    // Each sign-in writes to the store. So the number of sign-ins is limited.
    faces.house().count_code(&arrival.user())?;
    Ok(Issued::Session(Box::new(trace.admitted(arrival.sign_in(Audience::Console)).await?)))
}

/// Ends the previous session of the browser.
async fn end_other(faces: &Faces, connection: &Connection, headers: &HeaderMap, trace: &Trace) {
    let Ok(Some(ask)) = browser(headers, CONSOLE_COOKIE, || Audience::Console) else { return };
    let admitted = faces.arc_house().admit(&Credential::Browser(ask), connection.peer.ip()).await;
    let Ok(Some(session)) = admitted.map(|visit| visit.identity().session().cloned()) else { return };
    // If this call fails, the session ends later at its expiry.
    let _ended = change(faces, trace, move |ctx| sign_out(ctx, &session)).await;
}

/// Ends the session of the console.
///
/// # Errors
/// When the facts cannot be changed.
pub(crate) async fn leave(faces: &Faces, visit: &Visit, trace: &Trace) -> Result<Answer, Failure> {
    if let Some(session) = visit.identity().session().cloned() {
        change(faces, trace, move |ctx| sign_out(ctx, &session)).await?;
    }
    let content = html! {
        p { "You are signed out." }
        p { a.button.main href=(SIGN_IN) { "Sign in again" } }
    };
    let mut answer = page::outside(StatusCode::OK, "Signed out", &content);
    set_cookie(&mut answer, CONSOLE_COOKIE, "", 0);
    Ok(answer)
}

/// The response after a change of the password. The change ended all sessions of the user.
pub(crate) fn changed_password() -> Answer {
    signed_out(
        "Password changed",
        &html! { p { "The password was changed, and all sessions of the account have ended." } },
    )
}

/// The response after a change that ended all sessions of the user.
pub(crate) fn signed_out(title: &str, what: &Markup) -> Answer {
    let content = html! {
        (what)
        p { a.button.main href=(SIGN_IN) { "Sign in" } }
    };
    let mut answer = page::outside(StatusCode::OK, title, &content);
    set_cookie(&mut answer, CONSOLE_COOKIE, "", 0);
    answer
}

/// Whether door 2 refused the request because the session has ended.
pub(crate) fn has_ended(failure: &Failure) -> bool {
    matches!(failure, Failure::Refused(refusal @ Refusal::Identity(_)) if is_unauthorized(refusal))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_returns_only_to_the_console() {
        for (text, is_own) in [
            ("/console/", true),
            ("/console/files/main/a%20b/?sort=size", true),
            ("/console/sign-in?to=/console/", false),
            ("/console", false),
            ("/dav/", false),
            ("//evil.example/console/", false),
            ("https://evil.example/console/", false),
            ("/console/../dav/", false),
            ("/\\evil.example", false),
        ] {
            assert_eq!(own_target(text).is_some(), is_own, "{text}");
        }
    }

    #[test]
    fn the_token_of_a_form_is_that_of_the_session() {
        let own = "ab".repeat(32);
        for (shown, is_it) in
            [(Some(own.as_str()), true), (Some("cd"), false), (Some(""), false), (None, false)]
        {
            assert_eq!(is_csrf(&own, shown), is_it);
        }
        assert!(!is_csrf("", Some("")), "an empty token is not valid");
    }
}
