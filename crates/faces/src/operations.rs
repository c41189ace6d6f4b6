//! The routes nobody has to be known for.

use crate::body::Body;
use crate::faces::Faces;
use crate::proxmox;
use crate::respond::Answer;
use crate::routes::Public;
use crate::webdav::page;
use crate::whoami::padded;
use enfilade_facts::Read;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};

pub(crate) fn answer(faces: &Faces, route: Public) -> Answer {
    match route {
        Public::WellKnown => {
            padded(br#"{"enfilade":true,"webdav":"/dav/<datastore>/","whoami":"/whoami"}"#.to_vec())
        }
        Public::Metrics => {
            let mut answer = Response::new(Body::from(faces.metrics().render(faces.house())));
            let text = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
            answer.headers_mut().insert(CONTENT_TYPE, text);
            answer
        }
        Public::Ping => proxmox::pong(),
        Public::Style => page::asset(page::STYLE, "text/css; charset=utf-8"),
        Public::Script => page::asset(page::SCRIPT, "text/javascript; charset=utf-8"),
        Public::Live => plain(StatusCode::OK, "alive"),
        Public::Ready => ready(faces),
    }
}

fn ready(faces: &Faces) -> Answer {
    if faces.metrics().is_draining() {
        return plain(StatusCode::SERVICE_UNAVAILABLE, "draining");
    }
    match faces.house().source().read(|_| ()) {
        Ok(()) => plain(StatusCode::OK, "ready"),
        Err(_) => plain(StatusCode::SERVICE_UNAVAILABLE, "the facts cannot be read"),
    }
}

fn plain(status: StatusCode, text: &str) -> Answer {
    let mut answer = Response::new(Body::from(format!("{text}\n")));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer
}
