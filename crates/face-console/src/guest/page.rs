//! The common parts of the pages for guests of links, and the headers of these pages. The headers forbid search engines to list the pages, and caches
//! to store them. With the headers, no request tells another server the URL of a page.

use crate::page;
use enfilade_faces::{Aim, Answer, Body, Failure, RequestError, Trace, failed, status_of};
use hyper::StatusCode;
use hyper::header::{HeaderName, HeaderValue, REFERRER_POLICY, RETRY_AFTER, WWW_AUTHENTICATE};
use maud::{Markup, html};

/// Adds the headers that every response to a guest has.
pub(super) fn guarded(answer: Answer) -> Answer {
    let mut answer = page::guarded(answer);
    let headers = answer.headers_mut();
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    let robots = HeaderValue::from_static("noindex, nofollow, noarchive");
    headers.insert(HeaderName::from_static("x-robots-tag"), robots);
    answer
}

/// A page for a guest of a link.
pub(super) fn page(title: &str, content: &Markup) -> Answer {
    guarded(page::guest(StatusCode::OK, title, content))
}

/// Ends a request with a response that is not a failure.
pub(super) fn answered(answer: Answer, mut trace: Trace) -> Answer {
    trace.answered(&answer);
    answer
}

/// The page for every link that does not work, and for every place that is absent or hidden. The page is the same for every request.
fn nothing() -> Answer {
    let content = html! {
        p { "The link has ended, or its address is not complete. Ask the person who sent it for a new one." }
    };
    guarded(page::outside(StatusCode::NOT_FOUND, "Nothing is here", &content))
}

/// Whether the response to a failure must be the same as for a link that was never made.
fn is_nothing(failure: &Failure) -> bool {
    let hides = [
        StatusCode::UNAUTHORIZED,
        StatusCode::FORBIDDEN,
        StatusCode::NOT_FOUND,
        StatusCode::METHOD_NOT_ALLOWED,
        StatusCode::CONFLICT,
        StatusCode::URI_TOO_LONG,
    ];
    hides.contains(&status_of(failure)) || matches!(failure, Failure::Request(RequestError::Path(_)))
}

/// The response to a request that failed.
pub(super) fn failure(failure: Failure, mut trace: Trace) -> Answer {
    trace.failed(&failure);
    let plain = failed(&failure, Aim::Target);
    let answer = if is_nothing(&failure) {
        nothing()
    } else {
        let content =
            html! { p { "Try again later. If it happens again, ask the person who sent you the link." } };
        let mut answer = guarded(page::outside(plain.status(), "Not available now", &content));
        if let Some(retry) = plain.headers().get(RETRY_AFTER) {
            answer.headers_mut().insert(RETRY_AFTER, retry.clone());
        }
        answer
    };
    answered(answer, trace)
}

/// The response to the script after a failed upload: a line of text. The response for a taken name is the same as for a folder into which nothing can
/// be uploaded.
pub(super) fn plain(failure: &Failure, trace: Trace) -> Answer {
    let mut trace = trace;
    trace.failed(failure);
    let mut answer = failed(failure, Aim::Target);
    if is_nothing(failure) || matches!(answer.status(), StatusCode::PRECONDITION_FAILED | StatusCode::LOCKED)
    {
        *answer.status_mut() = StatusCode::NOT_FOUND;
        *answer.body_mut() = Body::from("nothing can be uploaded here\n");
    }
    // The text of the failure contains the quota of the datastore and the used bytes. A guest must not see these numbers, so the text is replaced.
    if answer.status() == StatusCode::INSUFFICIENT_STORAGE {
        *answer.body_mut() = Body::from("the file is larger than the link allows, or no space is left\n");
    }
    answer.headers_mut().remove(WWW_AUTHENTICATE);
    answered(guarded(answer), trace)
}

/// The page that asks for the password of a link.
pub(super) fn password(problem: Option<&str>) -> Answer {
    let content = html! {
        p { "The person who shared this chose a password for it." }
        form method="post" {
            @if let Some(problem) = problem { p.problem role="alert" { (problem) } }
            label for="password" { "Password" }
            input #password type="password" name="password" required autofocus autocomplete="off" maxlength="511";
            button { "Open" }
        }
    };
    let status = if problem.is_some() { StatusCode::FORBIDDEN } else { StatusCode::OK };
    guarded(page::outside(status, "Password needed", &content))
}
