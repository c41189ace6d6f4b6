//! Identity v3, as OpenStack's clients and services speak it: tokens, the catalog and application credentials.
//!
//! Shapes, headers and status codes are Keystone 30's. A bad token of the caller is 401, a bad token somebody asks about is
//! 404, and what either was is for the log alone.

mod application_credentials;
mod auth;
mod discovery;
mod render;
mod routes;
mod scopes;
mod tokens;
mod trusts;

pub(crate) use render::Rendered;
pub use routes::{V3, V3Call, V3Need, V3Route};

use crate::body::{Body, collect_json};
use crate::credential;
use crate::respond::{Answer, Failure, Wire, status_of};
use crate::serve::{Connection, Faces, Incoming, Takes};
use crate::trace::Trace;
use bytes::Bytes;
use enfilade_admin::Desk;
use enfilade_facts::SourceError;
use enfilade_passage::{AccessRefusal, ApiAsk, ApiPermit, IdentityRefusal, Refusal, Visit};
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, RETRY_AFTER, VARY, WWW_AUTHENTICATE};
use hyper::http::request::Parts;
use hyper::{Request, Response, StatusCode};
use routes::{Match, V3Call as CallKind};
use serde_json::{Value, json};

const SUBJECT: HeaderName = HeaderName::from_static("x-subject-token");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-openstack-request-id");

/// What comes of a call.
pub(crate) struct Said {
    status: StatusCode,
    body: Body,
    /// The token that was made or asked about.
    subject: Option<HeaderValue>,
}

impl Said {
    fn json(status: StatusCode, value: &Value) -> Self {
        Said { status, body: Body::from(value.to_string()), subject: None }
    }

    fn nothing() -> Self {
        Said { status: StatusCode::NO_CONTENT, body: Body::empty(), subject: None }
    }
}

/// Why nothing came of it.
pub(crate) enum Trouble {
    /// A door said no, or the request is no good.
    Failed(Failure),
    /// For whoever called, in words.
    Said(StatusCode, String),
    /// The token somebody asks about is none that is good: which way is for the log.
    Subject(Refusal),
}

impl From<Refusal> for Trouble {
    fn from(refusal: Refusal) -> Self {
        Trouble::Failed(refusal.into())
    }
}

impl From<Wire> for Trouble {
    fn from(wire: Wire) -> Self {
        Trouble::Failed(wire.into())
    }
}

impl Trouble {
    fn invalid(why: impl Into<String>) -> Self {
        Trouble::Said(StatusCode::BAD_REQUEST, why.into())
    }

    fn missing(what: &str, id: &str) -> Self {
        Trouble::Said(StatusCode::NOT_FOUND, format!("Could not find {what}: {id}."))
    }
}

impl From<enfilade_admin::Error> for Trouble {
    fn from(why: enfilade_admin::Error) -> Self {
        use enfilade_admin::Error;
        match why {
            Error::Source(why) => Refusal::from(why).into(),
            Error::Exists { .. } => Trouble::Said(StatusCode::CONFLICT, why.to_string()),
            Error::Missing { .. } => Trouble::Said(StatusCode::NOT_FOUND, why.to_string()),
            Error::Commit(_) => Trouble::Said(StatusCode::SERVICE_UNAVAILABLE, why.to_string()),
            other => Trouble::invalid(other.to_string()),
        }
    }
}

impl From<SourceError> for Trouble {
    fn from(why: SourceError) -> Self {
        Refusal::from(why).into()
    }
}

pub(crate) type Outcome = Result<Said, Trouble>;

/// A call by somebody who passed door 2.
pub(crate) struct Call {
    faces: Faces,
    visit: Visit,
    head: Parts,
    /// What stood where the path has braces.
    parameters: Vec<String>,
    body: Bytes,
    /// `https://host`, as the client called this.
    base: String,
}

impl Call {
    /// Leave for what Keystone's rule of that name allows.
    fn permit(&mut self, ask: &ApiAsk<'_>) -> Result<ApiPermit, Trouble> {
        Ok(self.visit.use_api(ask)?)
    }

    /// Where changes are made, by whoever has leave to.
    fn at_desk<R>(&self, permit: &ApiPermit, change: impl FnOnce(&Desk<'_>) -> R) -> R {
        let house = self.faces.house();
        let who = permit.who().to_string();
        change(&Desk { facts: house.source(), files: self.faces.files(), who: &who, now: house.now() })
    }

    fn parameter(&self, at: usize) -> &str {
        self.parameters.get(at).map_or("", String::as_str)
    }

    fn query(&self, name: &str) -> Option<&str> {
        query(&self.head, name)
    }
}

fn forbidden(action: &str) -> Trouble {
    Trouble::Said(StatusCode::FORBIDDEN, not_authorized(action))
}

fn not_authorized(action: &str) -> String {
    format!("You are not authorized to perform the requested action: {action}.")
}

fn query<'h>(head: &'h Parts, name: &str) -> Option<&'h str> {
    let pairs = head.uri.query().unwrap_or_default().split('&');
    pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).find(|(key, _)| *key == name).map(|(_, v)| v)
}

pub(crate) async fn answer<B: Incoming>(
    faces: &Faces,
    connection: &Connection,
    request: Request<B>,
    mut trace: Trace,
) -> Answer {
    trace.event.face = "keystone";
    trace.event.path = request.uri().path().to_owned();
    let (head, body) = request.into_parts();
    let base = discovery::base(&head, connection);
    if head.uri.path() == "/" {
        return finish(faces, &base, Ok(discovery::versions(&base)), trace);
    }
    let path = head.uri.path().strip_prefix("/v3").unwrap_or_default().trim_end_matches('/').to_owned();
    let outcome = match routes::find(&head.method, &path) {
        Match::Nothing => {
            Err(Trouble::Said(StatusCode::NOT_FOUND, "The resource could not be found.".to_owned()))
        }
        Match::OtherMethod => Err(Wire::Method.into()),
        Match::NotYet => Err(Trouble::Said(
            StatusCode::NOT_IMPLEMENTED,
            "This part of the Identity API is not served here.".to_owned(),
        )),
        Match::Route(route, _) if route.call == CallKind::Version => Ok(discovery::version(&head, &base)),
        Match::Route(route, _) if route.call == CallKind::Login => {
            match collect_json(body, &faces.limits()).await {
                Ok(body) => auth::login(faces, connection, &head, &body, &mut trace).await,
                Err(wire) => Err(wire.into()),
            }
        }
        Match::Route(route, parameters) => {
            let parameters = parameters.into_iter().map(str::to_owned).collect();
            match admit(faces, connection, &head, &mut trace).await {
                Ok(visit) => match collect_json(body, &faces.limits()).await {
                    Ok(body) => {
                        let call =
                            Call { faces: faces.clone(), visit, head, parameters, body, base: base.clone() };
                        dispatch(route.call, call).await
                    }
                    Err(wire) => Err(wire.into()),
                },
                Err(trouble) => Err(trouble),
            }
        }
    };
    finish(faces, &base, outcome, trace)
}

/// Door 2, for the token in `X-Auth-Token`.
async fn admit(
    faces: &Faces,
    connection: &Connection,
    head: &Parts,
    trace: &mut Trace,
) -> Result<Visit, Trouble> {
    let carried = credential::beside_a_subject(&head.headers);
    Ok(faces.admit(connection, carried, Takes::Sessions, trace).await?)
}

async fn dispatch(kind: CallKind, mut call: Call) -> Outcome {
    match kind {
        // Nothing of these waits for anything.
        CallKind::Validate => tokens::validate(&mut call),
        CallKind::Check => tokens::check(&mut call),
        kind => {
            // Commits wait for a disk.
            let done = tokio::task::spawn_blocking(move || match kind {
                CallKind::Revoke => tokens::revoke(&mut call),
                CallKind::Events => tokens::events(&mut call),
                CallKind::Catalog => scopes::catalog(&call),
                CallKind::Projects => scopes::projects(&call),
                CallKind::Domains => scopes::domains(&call),
                CallKind::System => scopes::system(&call),
                CallKind::ListCredentials => application_credentials::list(&mut call),
                CallKind::CreateCredential => application_credentials::create(&mut call),
                CallKind::ShowCredential => application_credentials::show(&mut call),
                CallKind::DeleteCredential => application_credentials::delete(&mut call),
                CallKind::ListTrusts => trusts::list(&mut call),
                CallKind::CreateTrust => trusts::create(&mut call),
                CallKind::ShowTrust => trusts::show(&mut call),
                CallKind::DeleteTrust => trusts::delete(&mut call),
                CallKind::Version | CallKind::Login | CallKind::Validate | CallKind::Check => {
                    Err(Wire::NoRoute.into())
                }
            });
            done.await.unwrap_or_else(|_| Err(Wire::Worker.into()))
        }
    }
}

/// The answer, with what is on every one of Keystone's.
fn finish(faces: &Faces, base: &str, outcome: Outcome, mut trace: Trace) -> Answer {
    let (said, retry) = match outcome {
        Ok(said) => (said, None),
        Err(trouble) => {
            let (status, why, retry) = told(&trouble, &mut trace);
            (Said::json(status, &error(status, &why)), retry)
        }
    };
    let mut answer = Response::new(said.body);
    *answer.status_mut() = said.status;
    let headers = answer.headers_mut();
    if said.status != StatusCode::NO_CONTENT {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    if let Some(subject) = said.subject {
        headers.insert(SUBJECT, subject);
    }
    headers.insert(VARY, HeaderValue::from_static("X-Auth-Token"));
    if let Ok(id) = HeaderValue::from_str(&faces.request_id()) {
        headers.insert(REQUEST_ID, id);
    }
    if said.status == StatusCode::UNAUTHORIZED
        && let Ok(value) = HeaderValue::from_str(&format!("Keystone uri=\"{base}/v3\""))
    {
        headers.insert(WWW_AUTHENTICATE, value);
    }
    if said.status == StatusCode::MULTIPLE_CHOICES
        && let Ok(value) = HeaderValue::from_str(&format!("{base}/v3/"))
    {
        headers.insert(LOCATION, value);
    }
    if let Some(seconds) = retry {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    trace.answered(&answer);
    answer
}

/// Status and words for the client; the log gets the whole.
fn told(trouble: &Trouble, trace: &mut Trace) -> (StatusCode, String, Option<u64>) {
    match trouble {
        Trouble::Said(status, why) => {
            trace.failed(&Wire::Call.into());
            trace.event.reason.clone_from(why);
            (*status, why.clone(), None)
        }
        Trouble::Subject(refusal) => {
            trace.refused(refusal);
            (StatusCode::NOT_FOUND, "Could not find the token.".to_owned(), None)
        }
        Trouble::Failed(failure) => {
            trace.failed(failure);
            let status = status_of(failure);
            let retry = match failure {
                Failure::Refused(Refusal::Identity(IdentityRefusal::Barred { seconds })) => Some(*seconds),
                _ if status == StatusCode::SERVICE_UNAVAILABLE => Some(1),
                _ => None,
            };
            let why = match (status, failure) {
                (StatusCode::UNAUTHORIZED, _) => {
                    "The request you have made requires authentication.".to_owned()
                }
                (StatusCode::FORBIDDEN, Failure::Refused(Refusal::Identity(refusal))) => refusal.to_string(),
                (_, Failure::Refused(Refusal::Access(AccessRefusal::NoPrivilege { path, .. }))) => {
                    not_authorized(path)
                }
                (_, Failure::Wire(wire)) => wire.to_string(),
                _ => status.canonical_reason().unwrap_or("refused").to_owned(),
            };
            (status, why, retry)
        }
    }
}

fn error(status: StatusCode, why: &str) -> Value {
    let title = status.canonical_reason().unwrap_or("Error");
    json!({ "error": { "code": status.as_u16(), "message": why, "title": title } })
}
