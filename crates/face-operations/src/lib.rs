//! Answers about the server itself: the addresses of its protocols, the identity of the caller (whoami), health, and metrics.

mod whoami;

use enfilade_faces::{Answer, Body, Faces, Reply, RequestContext, Route, Takes};
use enfilade_facts::Read;
use enfilade_passage::Visit;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use whoami::padded;

/// The routes of the main listener.
pub const MAIN: [Route; 2] = [
    Route::public("/.well-known/enfilade", well_known).says("Show clients the addresses of the protocols"),
    Route::guarded("/whoami", Takes::Everything, handle)
        .only("GET, HEAD")
        .says("Show the user or token that the credential authenticates"),
];

/// The routes of the operations listener.
pub const OPERATIONS: [Route; 5] = [
    Route::public("/metrics", metrics).says("Show counters for Prometheus"),
    Route::public("/livez", live).says("Show that the process runs"),
    Route::public("/healthz", live).says("The same as `/livez`"),
    Route::public("/readyz", ready).says("Show that the server takes requests; 503 while it stops"),
    Route::public("/readyz/datastores", ready_for_datastores)
        .says("The same as `/readyz`, but also 503 if another member of the fleet serves the datastores"),
];

fn handle(visit: Visit, context: RequestContext<'_>) -> Reply<'_> {
    let mut trace = context.trace;
    trace.event.face = "whoami";
    trace.event.path = context.request.uri().path().to_owned();
    let answer = whoami::answer(&visit, &trace.event.authid);
    trace.answered(&answer);
    Reply::Now(answer)
}

fn well_known(_: &Faces) -> Answer {
    padded(br#"{"enfilade":true,"webdav":"/dav/<datastore>/","whoami":"/whoami"}"#.to_vec())
}

fn metrics(faces: &Faces) -> Answer {
    let mut answer = Response::new(Body::from(faces.metrics().render(faces.house())));
    let text = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    answer.headers_mut().insert(CONTENT_TYPE, text);
    answer
}

fn live(_: &Faces) -> Answer {
    plain(StatusCode::OK, "alive")
}

fn ready(faces: &Faces) -> Answer {
    if faces.metrics().is_draining() {
        return plain(StatusCode::SERVICE_UNAVAILABLE, "draining");
    }
    match faces.house().source().read(|_| ()) {
        Ok(()) => plain(StatusCode::OK, "ready"),
        Err(_) => plain(StatusCode::SERVICE_UNAVAILABLE, "the facts cannot be read; run `enfilade doctor`"),
    }
}

fn ready_for_datastores(faces: &Faces) -> Answer {
    match faces.house().datastores_at() {
        None => ready(faces),
        Some(member) => {
            let text = format!("not ready for datastores: the member `{member}` of the fleet serves them");
            plain(StatusCode::SERVICE_UNAVAILABLE, &text)
        }
    }
}

fn plain(status: StatusCode, text: &str) -> Answer {
    let mut answer = Response::new(Body::from(format!("{text}\n")));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer
}
