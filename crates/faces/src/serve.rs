//! Passes a request from the listener to its route.

use crate::body::Body;
use crate::connection::Connection;
use crate::credential;
use crate::faces::{Faces, Takes};
use crate::forwarded::set_host;
use crate::head;
use crate::parent_span::ParentSpan;
use crate::pass_on;
use crate::received::Incoming;
use crate::request_error::RequestError;
use crate::respond::{Aim, Answer, fail, failed};
use crate::routes::{Found, Need, Reply, RequestContext, Route, find, logged_path};
use crate::spans::TraceQueue;
use crate::trace::Trace;
use crate::unread::{Received, watch};
use enfilade_facts::limits::Limits;
use enfilade_facts::vocabulary::Word;
use enfilade_passage::{Credential, Refusal, Visit};
use hyper::body::Body as _;
use hyper::header::{ALLOW, CONTENT_LENGTH, HeaderName, HeaderValue, STRICT_TRANSPORT_SECURITY};
use hyper::{HeaderMap, Method, Request};
use std::sync::Arc;

/// The header with the id of the request. The log contains the same id.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest request id that is accepted from a proxy, in bytes.
const PROXY_ID_BYTES_MAX: usize = 128;

/// The id that a proxy gave the request. The result is empty if there is no id, or the id is too long. It is also empty if the id contains other
/// characters than letters, digits, `-`, `.` and `_`.
fn request_id_of(headers: &HeaderMap) -> Word {
    let is_word = |id: &&str| {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        id.len() <= PROXY_ID_BYTES_MAX && id.bytes().all(is_letter)
    };
    let id = headers.get(REQUEST_ID).and_then(|id| id.to_str().ok()).filter(is_word);
    id.map(Word::new).unwrap_or_default()
}

/// The routes of a listener, and the state that all routes share.
#[derive(Clone)]
pub struct Router {
    faces: Faces,
    routes: Arc<[Route]>,
    clients: Clients,
}

/// The clients of a listener.
#[derive(Clone, Copy)]
enum Clients {
    /// Any client. A trusted proxy can name the client in its headers.
    All,
    /// Only proxies, which ask for decisions about the requests of visitors. The handler of each route reads the address of the visitor from the
    /// headers. For the path of a request, the function in this variant returns the [`Form`] that changes the response for the proxy.
    Proxies(fn(&str) -> Form),
    /// Only other members of the fleet may connect. They pass requests of their clients on to this server.
    Members,
}

/// A function that changes a response into the form that the client can use.
pub type Form = fn(&mut Answer);

impl Router {
    /// A router with the routes of each protocol, for a listener to which every client may connect.
    pub fn new(faces: Faces, routes: &[&[Route]]) -> Self {
        Router { faces, routes: routes.concat().into(), clients: Clients::All }
    }

    /// A router for a listener to which only proxies connect, to ask for decisions. The routes read the headers in which a proxy describes the
    /// visitor. For the path of a request, `form` returns the [`Form`] that changes the response for the proxy. It also changes the responses to
    /// requests with a refused head, which never reach a route.
    pub fn of_decisions(faces: Faces, routes: &[&[Route]], form: fn(&str) -> Form) -> Self {
        Router { clients: Clients::Proxies(form), ..Router::new(faces, routes) }
    }

    /// A router for the listener to which only other members of the fleet connect. These members pass requests of their clients on to this server.
    pub fn of_members(faces: Faces, routes: &[&[Route]]) -> Self {
        Router { clients: Clients::Members, ..Router::new(faces.with_others(None), routes) }
    }

    /// The state that all routes share.
    pub fn faces(&self) -> &Faces {
        &self.faces
    }

    /// Answers a request.
    pub async fn answer<B: Incoming>(&self, mut connection: Connection, request: Request<B>) -> Answer {
        let Faces { house, metrics, .. } = &self.faces;
        let host = match self.clients {
            Clients::All | Clients::Members => connection.follow(request.headers(), metrics),
            Clients::Proxies(_) => Ok(None),
        };
        let form = match self.clients {
            Clients::All => None,
            Clients::Proxies(form) => Some(form(request.uri().path())),
            Clients::Members => {
                connection.certificate = pass_on::certificate(request.headers());
                None
            }
        };
        let id = self.faces.request_id();
        let who = (id, connection.client());
        let traced = self.faces.traces.as_ref().map(|traces| {
            let parent =
                self.may_name_its_span(&connection, traces).then(|| ParentSpan::read(request.headers()));
            traces.begin(id, parent.flatten(), connection.handshake.as_deref())
        });
        let mut trace = Trace::new(house, metrics, who, request.method().as_str(), traced);
        if connection.proxies.is_some() || form.is_some() {
            trace.event.proxy_id = request_id_of(request.headers());
        }
        // A response to a service that asks for decisions repeats the `X-Request-ID` of the service's request (AuthZEN Authorization API 1.0,
        // "Request Identification").
        let own = form.map(|_| trace.event.proxy_id.clone()).filter(|id| !id.is_empty());
        let (is_head, is_https) = (request.method() == Method::HEAD, connection.is_https);
        let (request, closing) = watch(request);
        let mut answer = self.walk(connection, request, host, trace).await;
        closing.tell(&mut answer);
        if is_head {
            without_content(&mut answer);
        }
        if let Ok(id) = HeaderValue::from_str(&own.map_or_else(|| id.to_string(), |own| own.to_string())) {
            answer.headers_mut().insert(REQUEST_ID, id);
        }
        if let Some(form) = form {
            form(&mut answer);
        }
        if let Some(policy) = self.faces.transport_security.as_ref().filter(|_| is_https) {
            answer.headers_mut().insert(STRICT_TRANSPORT_SECURITY, policy.clone());
        }
        answer
    }

    /// Whether the server accepts the id of the sender's span in the header `traceparent` of a request. If a proxy asks for a decision, the server
    /// ignores the header, because a visitor could have set it.
    fn may_name_its_span(&self, connection: &Connection, traces: &TraceQueue) -> bool {
        match self.clients {
            Clients::All => connection.proxies.is_some() && traces.continues_proxies(),
            Clients::Proxies(_) => false,
            Clients::Members => true,
        }
    }

    /// Answers a request on the operations listener.
    pub fn answer_operations<B>(&self, request: &Request<B>) -> Answer {
        let route = head::check(request, &self.faces.limits());
        match route.and_then(|()| found(&self.routes, request)) {
            Ok(Found::Route(Route { need: Need::Public(answer), .. })) => answer(&self.faces),
            Ok(Found::OtherMethods(methods)) => {
                not_allowed(failed(&RequestError::Method.into(), Aim::Target), &methods)
            }
            Ok(Found::Route(_)) => head::refused(RequestError::NoRoute, request.version()),
            Err(error) => head::refused(error, request.version()),
        }
    }

    async fn walk(
        &self,
        connection: Connection,
        mut request: Request<Received>,
        host: Result<Option<HeaderValue>, RequestError>,
        mut trace: Trace,
    ) -> Answer {
        let faces = &self.faces;
        let checked = check(&connection, &mut request, host, &faces.limits());
        // This function records the path only if no handler gets `trace`. Otherwise the handler records the path. The path of a refused head is not
        // recorded, because the path can be very long.
        let path = || logged_path(request.uri().path());
        let is_checked = checked.is_ok();
        let (need, answered_by) = match checked.and_then(|()| found(&self.routes, &request)) {
            Ok(Found::Route(route)) => {
                trace.event.route = route.path;
                (route.need, (route.answered_by, route.path))
            }
            Ok(Found::OtherMethods(methods)) => {
                trace.event.path = path();
                return not_allowed(fail(RequestError::Method.into(), trace), &methods);
            }
            Err(error) => {
                trace.event.path = if is_checked { path() } else { String::new() };
                trace.failed(&error.into());
                let answer = head::refused(error, request.version());
                trace.answered(&answer);
                return answer;
            }
        };
        if !matches!(need, Need::Public(_))
            && let Err(refusal) = faces.prove_first().await
        {
            // The closure `path` borrows the request, which is not `Sync`. So the closure must not live across the await above.
            trace.event.path = logged_path(request.uri().path());
            return fail(refusal.into(), trace);
        }
        let answering = match need {
            Need::Public(answer) => {
                trace.event.path = request.uri().path().to_owned();
                let answer = answer(faces);
                trace.answered(&answer);
                return answer;
            }
            Need::Own(answer) => answer(RequestContext { faces, connection, request, trace }),
            Need::Identity(takes, answer) => {
                match faces
                    .admit_request(takes, &connection, (request.method(), request.headers()), &mut trace)
                    .await
                {
                    Ok(mut visit) => {
                        if let Some(others) = faces.others()
                            && let Some(other) =
                                pass_on::member_for(others, &mut visit, answered_by, &request)
                        {
                            trace.event.path = request.uri().path().to_owned();
                            return other.answer(connection, request, trace).await;
                        }
                        answer(visit, RequestContext { faces, connection, request, trace })
                    }
                    Err(refusal) => {
                        trace.event.path = request.uri().path().to_owned();
                        return fail(refusal.into(), trace);
                    }
                }
            }
        };
        match answering {
            Reply::Now(answer) => answer,
            Reply::Later(answer) => answer.await,
        }
    }
}

impl Faces {
    /// Authenticates the client: door 2 checks the credential of the request.
    async fn admit_request(
        &self,
        takes: Takes,
        connection: &Connection,
        (method, headers): (&Method, &HeaderMap),
        trace: &mut Trace,
    ) -> Result<Visit, Refusal> {
        let ticket = match takes {
            Takes::Tickets => credential::ticket(headers)?,
            Takes::Everything | Takes::Sessions => None,
        };
        let Some(ticket) = ticket else {
            return self.admit(connection, credential::carried(headers), takes, trace).await;
        };
        trace.event.authid = ticket.word();
        let changes_something = !matches!(*method, Method::GET | Method::HEAD);
        let credential = Credential::Ticket { ticket, changes_something };
        let mut visit = trace.admitted(self.house.admit(&credential, connection.peer.ip())).await?;
        connection.anonymous.release();
        trace.time(&mut visit);
        trace.event.authid = visit.principal().authid.to_word();
        Ok(visit)
    }
}

/// Checks the head of a request. If a trusted proxy reports the host that the client used, stores this host in the request.
fn check<B>(
    connection: &Connection,
    request: &mut Request<B>,
    host: Result<Option<HeaderValue>, RequestError>,
    limits: &Limits,
) -> Result<(), RequestError> {
    let is_here = |request: &Request<B>| match connection.misdirects(request) {
        true => Err(RequestError::Misdirected),
        false => Ok(()),
    };
    head::check(request, limits)?;
    is_here(request)?;
    let Some(host) = host? else { return Ok(()) };
    set_host(request, host);
    is_here(request)
}

fn found<'t, B>(table: &'t [Route], request: &Request<B>) -> Result<Found<'t>, RequestError> {
    let is_browser = || head::accepts_html(request.headers());
    find(table, request.uri().path(), request.method(), is_browser).ok_or(RequestError::NoRoute)
}

fn not_allowed(mut answer: Answer, methods: &str) -> Answer {
    if let Ok(methods) = HeaderValue::from_str(methods) {
        answer.headers_mut().insert(ALLOW, methods);
    }
    answer
}

/// The response to HEAD is the response to GET without content (RFC 9110 §9.3.2). This function removes the content, because the HTTP library would
/// send it over HTTP/2.
fn without_content(answer: &mut Answer) {
    let body = std::mem::replace(answer.body_mut(), Body::empty());
    if let Some(bytes) = body.size_hint().exact().filter(|bytes| *bytes > 0) {
        answer.headers_mut().entry(CONTENT_LENGTH).or_insert(HeaderValue::from(bytes));
    }
}
