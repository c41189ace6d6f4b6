//! The part of the API of Proxmox Backup Server that concerns users, tokens, roles and datastores, below `/api2/json`. The usual clients of this API
//! are proxmoxer and scripts with API tokens.
//!
//! A successful response is `{"data": …}`. An error response has a status and one line of text; exception: the body of an error of `/access/ticket`
//! is `{"data": null}`. Door 4 (access) checks that the caller has the privilege that Proxmox Backup Server requires for the call. A call can change
//! facts only with the permit of door 4.

mod acl;
mod datastores;
mod params;
mod routes;
mod ticket;
mod tokens;
mod users;

pub use routes::{PROXMOX, ProxmoxRoute};

use enfilade_admin::ChangeContext;
use enfilade_faces::{
    Aim, Answer, Body, Faces, Failure, Received, Reply, RequestContext, RequestError, Route, Takes, Trace,
    collect_form, collect_json, failed,
};
use enfilade_facts::memo::KeyMaker;
use enfilade_facts::vocabulary::{Privileges, RequestId, RolePath, Userid, percent_decoded};
use enfilade_facts::{CommitError, MemoSeed, SourceError};
use enfilade_passage::{AdminAsk, AdminPermit, Refusal, Visit};
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use params::Params;
use serde_json::{Value, json};

/// The routes of the API.
pub const ROUTES: [Route; 3] = [
    Route::public("/api2/json/ping", pong).says("Show that the server runs"),
    Route::own("/api2/json/access/ticket", log_in)
        .says("POST: create a login ticket from a password or a ticket"),
    Route::guarded("/api2/json/", Takes::Tickets, handle).says("The API of Proxmox Backup Server"),
];

/// The routes of the API for which another member of a fleet can answer. The listener for members also has these routes. In the table of routes, they
/// must come before [`ROUTES`]: the first route that matches counts, and `/api2/json/` matches every path of the API.
pub const DATASTORES: [Route; 3] = [
    Route::guarded("/api2/json/admin/datastore/", Takes::Tickets, handle)
        .of_datastore()
        .says("The API of Proxmox Backup Server: state of a datastore"),
    Route::guarded("/api2/json/config/datastore", Takes::Tickets, handle)
        .of_datastore_file()
        .says("The API of Proxmox Backup Server: list and create datastores"),
    Route::guarded("/api2/json/config/datastore/", Takes::Tickets, handle)
        .of_datastore_file()
        .says("The API of Proxmox Backup Server: configuration of a datastore"),
];

fn log_in(context: RequestContext<'_>) -> Reply<'_> {
    let RequestContext { faces, connection, request, trace } = context;
    Reply::later(async move { ticket::login(faces, &connection, request, trace).await })
}

fn handle(visit: Visit, context: RequestContext<'_>) -> Reply<'_> {
    let RequestContext { faces, request, mut trace, .. } = context;
    trace.event.face = "proxmox";
    Reply::later(answer(faces, visit, request, trace))
}

/// The result of a call.
struct ApiResponse {
    value: Value,
    /// The digest of the listed state. A client can send the digest with a later change. The change is refused if the state has changed since the
    /// listing.
    digest: Option<String>,
}

impl From<Value> for ApiResponse {
    fn from(value: Value) -> Self {
        ApiResponse { value, digest: None }
    }
}

/// The reason why a call failed.
enum ApiError {
    /// A refusal, or an error of the request.
    Failed(Failure),
    /// A text for the client.
    Text(String),
    /// The facts could not be changed now. The client can try again.
    Unavailable(String),
}

impl From<String> for ApiError {
    fn from(why: String) -> Self {
        ApiError::Text(why)
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        ApiError::Failed(refusal.into())
    }
}

impl From<RequestError> for ApiError {
    fn from(error: RequestError) -> Self {
        ApiError::Failed(error.into())
    }
}

impl From<SourceError> for ApiError {
    fn from(why: SourceError) -> Self {
        Refusal::from(why).into()
    }
}

impl From<enfilade_admin::Error> for ApiError {
    fn from(why: enfilade_admin::Error) -> Self {
        match why {
            enfilade_admin::Error::Source(why) => why.into(),
            enfilade_admin::Error::Commit(
                why @ (CommitError::Unknown(_)
                | CommitError::Busy(_)
                | CommitError::Full { .. }
                | CommitError::Source(SourceError::Unavailable(_))),
            ) => ApiError::Unavailable(why.to_string()),
            other => ApiError::Text(other.to_string()),
        }
    }
}

type Outcome = Result<ApiResponse, ApiError>;

/// A call of an identified client.
struct Call {
    faces: Faces,
    visit: Visit,
    route: &'static ProxmoxRoute,
    /// The values of the path's segments in braces.
    parameters: Vec<String>,
    params: Params,
    id: RequestId,
}

impl Call {
    /// Returns the permit of door 4 (access) if the caller has the privilege `needed` on the path. If the caller is the user `own` and did not log in
    /// with an API token, the caller needs no privilege.
    fn permit(
        &mut self,
        path: &str,
        needed: Privileges,
        own: Option<&Userid>,
    ) -> Result<AdminPermit, ApiError> {
        let path: RolePath = path.parse().map_err(|why| ApiError::Text(format!("{why}")))?;
        let lending = self.route.lending;
        Ok(self.visit.administer(&AdminAsk { path: &path, needed, lending, own })?)
    }

    /// The value of a path segment in braces. The first such segment has the number 0.
    fn parameter<T: std::str::FromStr<Err: std::fmt::Display>>(&self, at: usize) -> Result<T, ApiError> {
        parsed(self.parameters.get(at).map_or("", String::as_str))
    }

    /// Makes a change with a permit.
    fn change<R>(&self, permit: &AdminPermit, change: impl FnOnce(&ChangeContext<'_>) -> R) -> R {
        change(&self.faces.change_context(&permit.who().to_word(), permit.requester(), self.id))
    }

    /// Refuses a change if the request contains a digest other than `now`, the digest of the present state. In this case, the state has changed since
    /// the client read it. Proxmox Backup Server does the same.
    fn check_digest(&self, now: &str) -> Result<(), ApiError> {
        match self.params.get("digest")? {
            Some(digest) if digest != now => {
                Err("detected modified configuration - file changed by other user? Try again."
                    .to_owned()
                    .into())
            }
            _ => Ok(()),
        }
    }
}

async fn answer(faces: &Faces, visit: Visit, request: Request<Received>, mut trace: Trace) -> Answer {
    request.uri().path().clone_into(&mut trace.event.path);
    let (head, body) = request.into_parts();
    let is_json =
        head.headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    let outcome = match check_site(&head).err() {
        Some(error) => Err(error),
        None if is_json => collect_json(body, &faces.limits()).await,
        None => collect_form(body, &faces.limits()).await,
    };
    let outcome = match outcome {
        Err(error) => Err(error.into()),
        Ok(body) => {
            let path = head.uri.path().strip_prefix("/api2/json").unwrap_or_default().to_owned();
            let query = head.uri.query().unwrap_or_default().to_owned();
            trace.event.datastore = datastore_of(&path).unwrap_or_default().to_owned();
            let (faces, id) = (faces.clone(), trace.event.id);
            // A commit waits for the disk, and an edit of a file waits for locks. So the call runs on a thread that is allowed to block.
            let turn = visit.share().turn().await;
            let called = tokio::task::spawn_blocking(move || {
                let _turn = turn;
                let params = Params::read(&query, &body, is_json)?;
                dispatch((faces, id), visit, &head.method, params, &path)
            });
            called.await.unwrap_or_else(|_| Err(RequestError::Worker.into()))
        }
    };
    let answer = match outcome {
        Ok(data) => {
            let mut body = json!({ "data": data.value });
            if let (Some(digest), Some(map)) = (data.digest, body.as_object_mut()) {
                map.insert("digest".to_owned(), Value::String(digest));
            }
            plain(StatusCode::OK, "application/json", body.to_string())
        }
        Err(ApiError::Failed(failure)) => {
            trace.failed(&failure);
            failed(&failure, Aim::Target)
        }
        Err(ApiError::Text(why)) => {
            trace.invalid(&why);
            plain(StatusCode::BAD_REQUEST, "text/plain; charset=utf-8", why)
        }
        Err(ApiError::Unavailable(why)) => {
            trace.invalid(&why);
            let mut answer = plain(StatusCode::SERVICE_UNAVAILABLE, "text/plain; charset=utf-8", why);
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
            answer
        }
    };
    trace.answered(&answer);
    answer
}

/// Refuses changes that are requested by a web page of another site. A browser adds the user's credentials to the requests of any page. The header
/// `Sec-Fetch-Site` or `Origin` shows from which site the page is.
fn check_site(head: &Parts) -> Result<(), RequestError> {
    if head.method == Method::GET {
        return Ok(());
    }
    let text = |name: &str| head.headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let is_own_fetch = text("sec-fetch-site").is_none_or(|site| site == "same-origin" || site == "none");
    let host = head.uri.authority().map(hyper::http::uri::Authority::as_str).or_else(|| text("host"));
    let is_own_origin =
        text("origin").is_none_or(|origin| origin.split_once("://").map(|(_, at)| at) == host);
    if is_own_fetch && is_own_origin { Ok(()) } else { Err(RequestError::CrossSite) }
}

/// The name of the datastore in a path. The name is not decoded.
fn datastore_of(path: &str) -> Option<&str> {
    let of_one = ["/admin/datastore/", "/config/datastore/"];
    of_one.iter().find_map(|above| path.strip_prefix(above))?.split('/').next()
}

fn dispatch(
    (faces, id): (Faces, RequestId),
    visit: Visit,
    method: &Method,
    params: Params,
    path: &str,
) -> Outcome {
    let segments: Vec<String> = path
        .split('/')
        .filter(|segment| !segment.is_empty())
        .map(|segment| percent_decoded(segment.as_bytes()))
        .map(|bytes| bytes.and_then(|bytes| String::from_utf8(bytes).ok()).ok_or(RequestError::NoRoute))
        .collect::<Result<_, _>>()?;
    let (route, parameters) = routes::find(method, &segments)?;
    visit.lends(route.lending)?;
    (route.answer)(&mut Call { faces, visit, route, parameters, params, id })
}

fn version(_: &mut Call) -> Outcome {
    Ok(json!({ "version": env!("CARGO_PKG_VERSION"), "release": "0", "repoid": "enfilade" }).into())
}

/// Lists the realms. Every client may make this call if its credential is not limited to a project.
fn realms(call: &mut Call) -> Outcome {
    call.permit("/access/domains", Privileges::NONE, None)?;
    // A realm is also a domain of Identity v3, and users of other domains are not permitted to see its description. So the response contains the
    // description, in the field `comment`, only if the caller has `Sys.Audit`.
    let sees_comments = call.permit("/access", Privileges::SYS_AUDIT, None).is_ok();
    // This server itself checks the passwords of each realm. In Proxmox, the realms of the type `pbs` work like this.
    let realm = |row: enfilade_admin::keystone::DomainSummary| {
        let mut realm = json!({ "realm": row.name.as_str(), "type": "pbs" });
        if let (Some(object), Some(comment)) =
            (realm.as_object_mut(), row.description.filter(|_| sees_comments))
        {
            object.insert("comment".to_owned(), comment.into());
        }
        realm
    };
    let realms = enfilade_admin::keystone::list_domains(call.faces.house().source())?;
    Ok(Value::Array(realms.into_iter().map(realm).collect()).into())
}

/// Reloads configuration and certificates, as SIGHUP does. Unlike in Proxmox Backup Server, the response contains the result.
fn reload(call: &mut Call) -> Outcome {
    let service = call.parameters.get(1).cloned().unwrap_or_default();
    call.permit(&format!("/system/services/{service}"), Privileges::SYS_MODIFY, None)?;
    call.faces.reload().map(|said| Value::String(said).into()).map_err(ApiError::Text)
}

fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T, ApiError> {
    text.parse().map_err(|why| ApiError::Text(format!("{why}")))
}

/// The digest of a state. It has 128 bits, and is padded with zeros to 64 hexadecimal digits, the length of a digest in Proxmox Backup Server.
fn digest(value: &Value) -> String {
    let key =
        KeyMaker::new(&MemoSeed(*b"enfilade digest1"), "digest").bytes(value.to_string().as_bytes()).key();
    format!("{:064x}", u128::from_be_bytes(key.as_choice()))
}

fn plain(status: StatusCode, kind: &'static str, text: String) -> Answer {
    let mut answer = Response::new(Body::from(text));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

fn pong(_: &Faces) -> Answer {
    plain(StatusCode::OK, "application/json", json!({ "data": { "pong": true } }).to_string())
}
