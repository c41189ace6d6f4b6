//! The responses to requests that failed. A person gets a page, and the script gets a line of text.

use crate::click::Click;
use crate::icons::Icon;
use crate::page;
use crate::section::Section;
use crate::session;
use enfilade_faces::{Aim, Answer, Body, Failure, Trace, failed};
use enfilade_passage::IdentityRefusal;
use hyper::StatusCode;
use hyper::header::{HeaderMap, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use maud::{Markup, html};

/// The status, the reason and the header `Retry-After` for a failure. They are the same as in the other protocols, except that 403 replaces 401.
fn said(failure: &Failure, aim: Aim) -> (StatusCode, String, Option<HeaderValue>) {
    let plain = failed(failure, aim);
    let text = match plain.body() {
        Body::Whole(Some(bytes)) => String::from_utf8_lossy(bytes).trim_end().to_owned(),
        _ => String::new(),
    };
    // The status is not 401, because a browser would show its own dialog for a password after a 401.
    let status = match plain.status() {
        StatusCode::UNAUTHORIZED => StatusCode::FORBIDDEN,
        status => status,
    };
    (status, text, plain.headers().get(RETRY_AFTER).cloned())
}

/// The words that explain a status to a person. The text is the same for a hidden object and an absent object.
fn words(status: StatusCode) -> (&'static str, &'static str) {
    match status {
        StatusCode::NOT_FOUND => ("Nothing is here", "It does not exist, or you may not see it."),
        StatusCode::FORBIDDEN => {
            ("You may not do this", "Ask an administrator of this server for the right.")
        }
        StatusCode::LOCKED => ("It is locked", "Another program is working on it. Try again later."),
        StatusCode::CONFLICT => {
            ("That is a conflict", "For example, a name is already in use, or a file was changed meanwhile.")
        }
        StatusCode::INSUFFICIENT_STORAGE => (
            "No room is left",
            "Delete something for good, empty your trash, or ask for more room. Files in the trash take up room, too.",
        ),
        StatusCode::SERVICE_UNAVAILABLE => ("Not available now", "Try again in a moment."),
        StatusCode::METHOD_NOT_ALLOWED => {
            ("That is not possible here", "The action does not apply to this file, folder or page.")
        }
        status if status.is_server_error() => {
            ("The server made an error", "The log of the server says more.")
        }
        StatusCode::TOO_MANY_REQUESTS => ("Too many attempts", "Wait a minute, then try again."),
        _ => (
            "That did not work",
            "The server refused the request. If it happens again, ask an administrator.",
        ),
    }
}

fn content(status: StatusCode, text: &str, id: &str) -> Markup {
    let (title, what) = words(status);
    let is_bare = status.canonical_reason().is_some_and(|reason| reason.eq_ignore_ascii_case(text));
    html! {
        div.card {
            div.empty {
                (Icon::Wrong.show())
                h1 { (title) }
                p { (what) }
                @if !is_bare { p { (text) } }
                p { a.button href="/console/" { "To my files" } }
                p.small { "Request " code { (id) } }
            }
        }
    }
}

fn with_retry(mut answer: Answer, retry: Option<HeaderValue>) -> Answer {
    retry.map(|retry| answer.headers_mut().insert(RETRY_AFTER, retry));
    answer
}

/// The page about a failure, for a signed-in user. If the session has ended in the meantime, the response is a redirect to the page for signing in.
pub(crate) fn page(mut click: Click<'_>, failure: Failure) -> Answer {
    click.trace.failed(&failure);
    let answer = if session::has_ended(&failure) {
        session::to_sign_in(&click.head.uri)
    } else {
        let (status, text, retry) = said(&failure, Aim::Target);
        let id = click.trace.event.id.to_string();
        let content = content(status, &text, &id);
        with_retry(click.page_with(status, Section::Files, words(status).0, &content), retry)
    };
    click.trace.answered(&answer);
    answer
}

/// The response to a browser that is not signed in. If the request failed, the response is a page about the failure.
pub(crate) fn outside(result: Result<Answer, Failure>, mut trace: Trace) -> Answer {
    let answer = result.unwrap_or_else(|failure| {
        trace.failed(&failure);
        let (status, text, retry) = said(&failure, Aim::Target);
        let content = html! {
            p { (text) }
            p { a.button href=(session::SIGN_IN) { "Sign in" } }
        };
        with_retry(page::outside(status, words(status).0, &content), retry)
    });
    trace.answered(&answer);
    answer
}

/// The failure of a request from a script that is not signed in.
pub(crate) fn signed_out() -> Failure {
    IdentityRefusal::NoCredential.into()
}

/// The reason why an action failed, as text that the page shows above the form.
pub(crate) fn sentence(failure: &Failure, aim: Aim) -> String {
    let (status, text, _) = said(failure, aim);
    let (title, what) = words(status);
    let is_bare = status.canonical_reason().is_some_and(|reason| reason.eq_ignore_ascii_case(&text));
    let is_taken = matches!(status, StatusCode::METHOD_NOT_ALLOWED | StatusCode::PRECONDITION_FAILED);
    if is_taken && aim != Aim::Target {
        return "Something with this name exists already.".to_owned();
    }
    if is_bare { format!("{title}. {what}") } else { format!("{title}: {text}.") }
}

/// The response to the script of the console after a failure: a line of text.
pub(crate) fn plain(failure: Failure, mut trace: Trace) -> Answer {
    trace.failed(&failure);
    let answer = plain_answer(&failure, Aim::File);
    trace.answered(&answer);
    answer
}

/// Makes the same response as [`plain`], but does not record the failure in an event.
pub(crate) fn plain_answer(failure: &Failure, aim: Aim) -> Answer {
    let mut answer = failed(failure, aim);
    if answer.status() == StatusCode::UNAUTHORIZED {
        *answer.status_mut() = StatusCode::FORBIDDEN;
        *answer.body_mut() = Body::from("you are signed out: load the page again\n");
    }
    let headers: &mut HeaderMap = answer.headers_mut();
    headers.remove(WWW_AUTHENTICATE);
    page::guarded(answer)
}
