//! The pages for signing in and signing out. The pages need no script, load nothing, and cannot be shown in a
//! frame.

use super::SIGN_OUT;
use crate::NO_STORE;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use enfilade_faces::browser::{SignInForm, sign_in_form};
use enfilade_faces::{Aim, Answer, Body, Failure};
use enfilade_passage::secret_digest;
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY,
    RETRY_AFTER, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Response, StatusCode};
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("page.css");
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

/// Makes a page. `forms_to` is an origin to which the form of the page may lead. The form may always lead to
/// the origin of the page itself.
fn page(status: StatusCode, title: &str, forms_to: Option<&str>, content: &Markup) -> Answer {
    let text = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body { main { h1 { (title) } (content) } }
        }
    };
    // Browsers also apply `form-action` to the redirect after a form.
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{}'; form-action 'self'{}{}; base-uri 'none'; frame-ancestors 'none'",
        STANDARD.encode(secret_digest(STYLE.as_bytes()).0),
        if forms_to.is_some() { " " } else { "" },
        forms_to.unwrap_or_default()
    );
    let mut answer = Response::new(Body::from(text.into_string()));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(CACHE_CONTROL, NO_STORE);
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // The referrer policy is not `no-referrer`: with that policy, browsers would send `Origin: null` with the form.
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers.insert(OPENER_POLICY, HeaderValue::from_static("same-origin"));
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        headers.insert(CONTENT_SECURITY_POLICY, policy);
    }
    answer
}

/// The page for signing in. `to` is the origin to which the browser returns.
pub(super) fn sign_in(status: StatusCode, to: Option<&str>, form: &SignInForm<'_>) -> Answer {
    let content = html! {
        @if let Some(origin) = to {
            p { "After you sign in, the browser returns to " strong { (origin) } "." }
        }
        (sign_in_form(form))
    };
    page(status, "Sign in", to, &content)
}

pub(super) fn signed_in(user: &str) -> Answer {
    let content = html! {
        p { "You are signed in as " strong { (user) } "." }
        form method="post" action=(SIGN_OUT) { button { "Sign out" } }
    };
    page(StatusCode::OK, "Signed in", None, &content)
}

pub(super) fn ask_sign_out() -> Answer {
    let content = html! {
        p { "You will be signed out of all applications in this browser." }
        form method="post" action=(SIGN_OUT) { button { "Sign out" } }
    };
    page(StatusCode::OK, "Sign out", None, &content)
}

pub(super) fn signed_out(sign_in: &str) -> Answer {
    let content = html! {
        p { "You are signed out of all applications in this browser." }
        p { a href=(sign_in) { "Sign in again" } }
    };
    page(StatusCode::OK, "Signed out", None, &content)
}

pub(super) fn not_finished(again: &str) -> Answer {
    let content = html! {
        p {
            "The sign-in was not completed: it took too long, this link was opened before, or the sign-in began in another browser. "
            "If this page appears again, allow cookies for this site."
        }
        p { a href=(again) { "Try again" } }
    };
    page(StatusCode::FORBIDDEN, "Not signed in", None, &content)
}

pub(super) fn bad_link() -> Answer {
    let content = html! { p {
       "This link for signing in is not complete. Open the application again. If this page appears again, tell your administrator."
    } };
    page(StatusCode::BAD_REQUEST, "Not signed in", None, &content)
}

/// The page of a failed request. The page contains the reason only if every client may learn the reason.
pub(super) fn failed(failure: &Failure) -> Answer {
    let plain = enfilade_faces::failed(failure, Aim::Target);
    let reason = match plain.body() {
        Body::Whole(Some(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
        _ => String::new(),
    };
    // The status is not 401, because a browser would show its own dialog for a password after a 401.
    let status = match plain.status() {
        StatusCode::UNAUTHORIZED => StatusCode::FORBIDDEN,
        status => status,
    };
    let mut answer = page(status, "Refused", None, &html! { p { (reason.trim_end()) } });
    if let Some(wait) = plain.headers().get(RETRY_AFTER) {
        answer.headers_mut().insert(RETRY_AFTER, wait.clone());
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(answer: Answer) -> String {
        match answer.into_body() {
            Body::Whole(Some(bytes)) => String::from_utf8(bytes.to_vec()).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn nothing_that_a_client_sent_becomes_markup() {
        let evil = "\"><script>alert(1)</script>";
        let hidden = [("to", evil)];
        let form = |receipt| SignInForm {
            action: evil,
            hidden: &hidden,
            user: evil,
            problem: Some(evil),
            receipt,
            passkeys: None,
        };
        for page in [
            sign_in(StatusCode::OK, Some(evil), &form(None)),
            sign_in(StatusCode::OK, Some(evil), &form(Some(evil))),
            signed_in(evil),
            signed_out(evil),
            not_finished(evil),
        ] {
            let text = text(page);
            assert!(!text.contains("<script"), "{text}");
        }
    }
}
