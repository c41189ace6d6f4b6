//! The way of a request from the listener to its route.

use crate::body::Body;
use crate::connection::Connection;
use crate::credential;
use crate::faces::{Faces, Takes};
use crate::received::Incoming;
use crate::respond::{Aim, Answer, fail, failed};
use crate::routes::{Guarded, MAIN, Need, OPERATIONS, Route};
use crate::trace::Trace;
use crate::unread::Unread;
use crate::wire::Wire;
use crate::{head, keystone, operations, proxmox, webdav, whoami};
use enfilade_passage::Credential;
use hyper::body::Body as _;
use hyper::header::{ALLOW, CONTENT_LENGTH, HeaderValue, STRICT_TRANSPORT_SECURITY};
use hyper::{Method, Request};

impl Faces {
    /// Answers a request on the main listener.
    pub async fn answer<B: Incoming>(&self, connection: Connection, request: Request<B>) -> Answer {
        let trace =
            Trace::new(&self.house, &self.metrics, connection.peer.to_string(), request.method().as_str());
        let (is_head, is_tls) = (request.method() == Method::HEAD, connection.is_tls);
        let (request, closing) = Unread::watch(request);
        let mut answer = self.walk(connection, request, trace).await;
        closing.tell(&mut answer);
        if is_head {
            without_content(&mut answer);
        }
        if let Some(policy) = self.transport_security.as_ref().filter(|_| is_tls) {
            answer.headers_mut().insert(STRICT_TRANSPORT_SECURITY, policy.clone());
        }
        answer
    }

    /// Answers a request on the operations listener.
    pub fn answer_operations<B>(&self, request: &Request<B>) -> Answer {
        let route = head::check(request, &self.limits()).and_then(|()| routed(&OPERATIONS, request));
        match route.map(|route| (route.need, route.methods_beside(request.method()))) {
            Ok((_, Some(methods))) => not_allowed(failed(&Wire::Method.into(), Aim::Target), methods),
            Ok((Need::Public(face), None)) => operations::answer(self, face),
            Ok(_) => head::refused(Wire::NoRoute, request.version()),
            Err(wire) => head::refused(wire, request.version()),
        }
    }

    async fn walk<B: Incoming>(
        &self,
        connection: Connection,
        request: Request<B>,
        mut trace: Trace,
    ) -> Answer {
        let is_here = |()| match connection.misdirects(&request) {
            true => Err(Wire::Misdirected),
            false => Ok(()),
        };
        let route = head::check(&request, &self.limits()).and_then(is_here);
        let route = route.and_then(|()| routed(&MAIN, &request));
        if request.uri().path() == "*" && route == Err(Wire::NoRoute) {
            return webdav::options_of_all(&request, trace);
        }
        if let Some(methods) = route.ok().and_then(|route| route.methods_beside(request.method())) {
            return not_allowed(fail(Wire::Method.into(), trace), methods);
        }
        let guarded = match route.map(|route: Route| route.need) {
            // The Identity API says at `/` where it is; what asks for collections is no client of it.
            Ok(Need::V3) if is_of_webdav(&request) => Guarded::WebDav,
            Ok(Need::Login) => return proxmox::login(self, &connection, request, trace).await,
            Ok(Need::V3) => return keystone::answer(self, &connection, request, trace).await,
            Ok(Need::Public(face)) => {
                let answer = operations::answer(self, face);
                trace.answered(&answer);
                return answer;
            }
            Ok(Need::Identity(face)) => face,
            Err(wire) => {
                trace.failed(&wire.into());
                let answer = head::refused(wire, request.version());
                trace.answered(&answer);
                return answer;
            }
        };
        let ticket = match guarded {
            Guarded::Proxmox => credential::ticket(request.headers()),
            Guarded::Whoami | Guarded::WebDav => Ok(None),
        };
        let visit = match ticket {
            Ok(Some(ask)) => {
                trace.event.authid = ask.userid.as_str().into();
                let changes_something = !matches!(*request.method(), Method::GET | Method::HEAD);
                let credential = Credential::Ticket { ticket: ask, changes_something };
                let admitted = self.house.admit(&credential, connection.peer.ip()).await;
                admitted.inspect(|_| connection.stranger.is_known())
            }
            Ok(None) => {
                let carried = credential::carried(request.headers());
                self.admit(&connection, carried, Takes::Everything, &mut trace).await
            }
            Err(refusal) => Err(refusal.into()),
        };
        let visit = match visit {
            Ok(visit) => visit,
            Err(refusal) => return fail(refusal.into(), trace),
        };
        match guarded {
            Guarded::Whoami => {
                trace.event.face = "whoami";
                let answer = whoami::answer(&visit, &trace.event.authid);
                trace.answered(&answer);
                answer
            }
            Guarded::Proxmox => {
                trace.event.face = "proxmox";
                proxmox::answer(self, visit, request, trace).await
            }
            Guarded::WebDav => {
                trace.event.face = "webdav";
                webdav::answer(visit, connection, request, trace).await
            }
        }
    }
}

fn routed<B>(routes: &[Route], request: &Request<B>) -> Result<Route, Wire> {
    let route = routes.iter().find(|route| route.matches(request.uri().path()).is_some());
    route.copied().ok_or(Wire::NoRoute)
}

fn not_allowed(mut answer: Answer, methods: &'static str) -> Answer {
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    answer
}

fn is_of_webdav<B>(request: &Request<B>) -> bool {
    request.uri().path() == "/" && matches!(request.method().as_str(), "OPTIONS" | "PROPFIND")
}

/// The answer to a HEAD is that of the GET, without its content (RFC 9110 §9.3.2). Over HTTP/2 the library would send it.
fn without_content(answer: &mut Answer) {
    let body = std::mem::replace(answer.body_mut(), Body::empty());
    if let Some(bytes) = body.size_hint().exact().filter(|bytes| *bytes > 0) {
        answer.headers_mut().entry(CONTENT_LENGTH).or_insert(HeaderValue::from(bytes));
    }
}
