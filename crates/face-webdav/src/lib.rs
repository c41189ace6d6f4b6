//! WebDAV (RFC 4918), class 1, 2 and 3: `/dav/<datastore>/…`.

mod above;
mod access_control;
mod conditions;
mod content_type;
mod digest;
#[cfg(test)]
mod fuzzed;
mod get;
mod href;
mod lock;
mod multistatus;
mod page;
mod parts;
mod spliced;
mod propfind;
mod propfind_request;
mod proppatch;
mod put;
mod range;
mod read_buffer;
mod transfer;
mod xml;
mod xml_names;

use conditions::RequestConditions;
use enfilade_faces::{
    Aim, Answer, Body, CancelOnDrop, Connection, Faces, Failure, Received, Reply, RequestContext,
    RequestError, Route, Takes, Trace, accepts_html, blocking, blocking_failure, fail, failed,
};
use enfilade_facts::limits::Limits;
use enfilade_facts::vocabulary::{DatastoreName, OperationKind, StorePath};
use enfilade_passage::{Blocking, Visit};
use hyper::body::Body as _;
use hyper::header::{ALLOW, HOST, HeaderName, HeaderValue, ORIGIN};
use hyper::http::uri::Authority;
use hyper::{Method, Request, Response, StatusCode};

const PREFIX: &str = "/dav/";
const METHODS: &str = "OPTIONS, PROPFIND, PROPPATCH, GET, HEAD, PUT, MKCOL, DELETE, COPY, MOVE, LOCK, UNLOCK";
const CLASSES: &str = "1, 2, 3";

/// The routes of WebDAV, and the routes of the files that the pages for browsers load.
pub const ROUTES: [Route; 6] = [
    Route::guarded("/dav", Takes::Everything, handle).says("List the datastores that the user can see"),
    Route::guarded("/dav/", Takes::Everything, handle).of_datastore().says("WebDAV: `/dav/DATASTORE/PATH`"),
    // Clients request each collection on the path to the collection that they mount.
    Route::guarded("/", Takes::Everything, handle)
        .only("OPTIONS, PROPFIND")
        .says("WebDAV: the collection above `/dav`"),
    Route::own("*", options_of_server).says("OPTIONS of the whole server"),
    Route::public("/page.css", style)
        .says("Style of the pages that show directories below `/dav/` in a browser"),
    Route::public("/page.js", script)
        .says("Script of the pages that show directories below `/dav/` in a browser"),
];

fn handle(visit: Visit, context: RequestContext<'_>) -> Reply<'_> {
    let RequestContext { connection, request, mut trace, .. } = context;
    trace.event.face = "webdav";
    Reply::later(answer(visit, connection, request, trace))
}

fn options_of_server(context: RequestContext<'_>) -> Reply<'_> {
    Reply::Now(options_of_all(&context.request, context.trace))
}

fn style(_: &Faces) -> Answer {
    page::asset(page::STYLE, "text/css; charset=utf-8")
}

fn script(_: &Faces) -> Answer {
    page::asset(page::SCRIPT, "text/javascript; charset=utf-8")
}

/// The resource of a datastore that a URL names.
#[derive(Clone, Debug)]
pub(crate) struct ResourcePath {
    datastore: DatastoreName,
    path: StorePath,
}

impl ResourcePath {
    fn from_url(path: &str) -> Result<Self, RequestError> {
        let rest = path.strip_prefix(PREFIX).ok_or(RequestError::NoRoute)?;
        let (name, path) = rest.split_once('/').unwrap_or((rest, ""));
        // If the text cannot be the name of a datastore, the answer is the same as for an unknown datastore.
        let datastore = name.parse().map_err(|_| RequestError::NoRoute)?;
        Ok(ResourcePath { datastore, path: StorePath::from_url(path).map_err(RequestError::Path)? })
    }

    fn keeping_to(self, limits: &Limits) -> Result<Self, RequestError> {
        self.path.keeps_to(limits).map_err(RequestError::Path)?;
        Ok(self)
    }
}

/// A request for a resource of a datastore.
pub(crate) struct Call {
    visit: Visit,
    connection: Connection,
    place: ResourcePath,
    request: Request<Received>,
    trace: Trace,
}

/// A request for a collection above the datastores.
pub(crate) struct AboveCall {
    visit: Visit,
    request: Request<Received>,
    trace: Trace,
}

async fn answer(
    visit: Visit,
    connection: Connection,
    request: Request<Received>,
    mut trace: Trace,
) -> Answer {
    if let Some(above) = above::Above::of(request.uri().path()) {
        return above::answer(AboveCall { visit, request, trace }, above).await;
    }
    let place = ResourcePath::from_url(request.uri().path());
    let place = match place.and_then(|place| place.keeping_to(&visit.limits())) {
        Ok(place) => place,
        Err(error) => return fail(error.into(), trace),
    };
    trace.event.datastore = place.datastore.to_string();
    trace.event.path = place.path.to_string();
    let method = request.method().clone();
    if changes_something(&method) && is_of_another_site(&request) {
        return end(trace, Err(RequestError::CrossSite.into()), Aim::Target);
    }
    let call = Call { visit, connection, place, request, trace };
    match method.as_str() {
        "OPTIONS" => options(call).await,
        "PROPFIND" => propfind::propfind(call).await,
        "GET" => get_for(call).await,
        "HEAD" => get::get(call, get::Content::Left).await,
        "PUT" => put::put(call).await,
        "MKCOL" => make_collection(call).await,
        "DELETE" => delete(call).await,
        "COPY" => transfer::transfer(call, transfer::Transfer::Copy).await,
        "MOVE" => transfer::transfer(call, transfer::Transfer::Move).await,
        "PROPPATCH" => proppatch::proppatch(call).await,
        "LOCK" => lock::lock(call).await,
        "UNLOCK" => lock::unlock(call).await,
        _ => call.fail(RequestError::Method, Aim::Target),
    }
}

fn changes_something(method: &Method) -> bool {
    !matches!(method.as_str(), "OPTIONS" | "PROPFIND" | "GET" | "HEAD")
}

/// Whether a page of another site sent the request. A browser adds the credentials of its user to each request. The browser also adds a header that
/// tells from which site the request comes (Fetch Metadata; in older browsers `Origin`, RFC 6454 §7).
fn is_of_another_site(request: &Request<Received>) -> bool {
    let headers = request.headers();
    if let Some(site) = headers.get("sec-fetch-site") {
        return site != "same-origin" && site != "none";
    }
    let Some(origin) = headers.get(ORIGIN) else { return false };
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let own = request.uri().authority().map(Authority::as_str).or(host);
    // Only host and port are compared, because a proxy in front of the server may have removed TLS. Several origins, or an origin without a host,
    // count as another site.
    let theirs = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
    match (theirs, own) {
        (Some((scheme, theirs)), Some(own)) => {
            let port = if scheme.eq_ignore_ascii_case("http") { ":80" } else { ":443" };
            let named = |host: &str| host.strip_suffix(port).unwrap_or(host).to_ascii_lowercase();
            named(theirs) != named(own)
        }
        _ => true,
    }
}

/// Answers GET. Every client can get a file. For a directory, only a browser gets a page. The answer to the query `why=RIGHT` explains why the user
/// has or lacks a right.
async fn get_for(call: Call) -> Answer {
    if let Some(right) = call.request.uri().query().and_then(|query| query.strip_prefix("why=")) {
        return match right.parse() {
            Ok(right) => page::why(call, right).await,
            Err(_) => call.fail(
                RequestError::Parameter("`why`: expected the name of a right, such as read or write"),
                Aim::Target,
            ),
        };
    }
    if !accepts_html(call.request.headers()) {
        return get::get(call, get::Content::Sent).await;
    }
    if call.request.uri().path().ends_with('/') {
        return page::page(call).await;
    }
    let place = call.place.clone();
    let answer = get::get(call, get::Content::Sent).await;
    if answer.status() == StatusCode::METHOD_NOT_ALLOWED { page::moved(&place) } else { answer }
}

impl Call {
    /// Ends the request with an error.
    fn fail(self, failure: impl Into<Failure>, aim: Aim) -> Answer {
        end(self.trace, Err(failure.into()), aim)
    }
}

/// Ends a request: writes its result to the request log, and adds the header `Allow` to a response with the status 405.
fn end(mut trace: Trace, outcome: Result<Answer, Failure>, aim: Aim) -> Answer {
    let mut answer = outcome.unwrap_or_else(|failure| {
        trace.failed(&failure);
        failed(&failure, aim)
    });
    if answer.status() == StatusCode::METHOD_NOT_ALLOWED {
        answer.headers_mut().insert(ALLOW, methods_beside(&trace.event.verb));
    }
    trace.answered(&answer);
    answer
}

/// The value of `Allow` after 405: all methods except the refused method (RFC 9110 §15.5.6).
fn methods_beside(method: &str) -> HeaderValue {
    let others: Vec<&str> = METHODS.split(", ").filter(|one| *one != method).collect();
    HeaderValue::from_str(&others.join(", ")).unwrap_or(HeaderValue::from_static(METHODS))
}

/// A response without content.
fn empty(status: StatusCode) -> Answer {
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = status;
    answer
}

async fn options(call: Call) -> Answer {
    let (visit, place) = (call.visit, call.place);
    let entered =
        blocking(visit.share(), move || visit.enter(&place.datastore, OperationKind::Lookup, Blocking)).await;
    end(call.trace, entered.map(|_| options_answer()), Aim::Target)
}

/// `OPTIONS *` asks about the whole server (RFC 9110 §9.3.7); no other method may have the target `*`.
fn options_of_all(request: &Request<Received>, trace: Trace) -> Answer {
    let outcome = match *request.method() {
        Method::OPTIONS => Ok(options_answer()),
        _ => Err(RequestError::Target("`*` is valid only with the method OPTIONS").into()),
    };
    end(trace, outcome, Aim::Target)
}

fn options_answer() -> Answer {
    let mut answer = empty(StatusCode::OK);
    let headers = answer.headers_mut();
    headers.insert(ALLOW, HeaderValue::from_static(METHODS));
    headers.insert(HeaderName::from_static("dav"), HeaderValue::from_static(CLASSES));
    headers.insert(HeaderName::from_static("ms-author-via"), HeaderValue::from_static("DAV"));
    answer
}

async fn make_collection(call: Call) -> Answer {
    // RFC 4918 §9.3: the status for an unsupported body is 415. This server does not support any body for this method.
    if !call.request.body().is_end_stream() {
        return call.fail(RequestError::UnexpectedBody, Aim::Collection);
    }
    let Call { visit, place, request, trace, .. } = call;
    let conditions = match RequestConditions::of(&request.into_parts().0) {
        Ok(conditions) => conditions,
        Err(error) => return end(trace, Err(error.into()), Aim::Collection),
    };
    let made = blocking_failure(visit.share(), move || {
        let mut stay = visit.enter(&place.datastore, OperationKind::Write, Blocking)?;
        let path = place.path.clone();
        let tokens = conditions.check_twice(&mut stay, place)?;
        Ok(stay.make_collection(&path, &tokens)?)
    });
    end(trace, made.await.map(|()| empty(StatusCode::CREATED)), Aim::Collection)
}

async fn delete(call: Call) -> Answer {
    let Call { visit, place, request, trace, .. } = call;
    let (head, _) = request.into_parts();
    let outcome = async {
        // RFC 4918 §9.6.1: a collection is deleted with all its members.
        if head.headers.get("depth").is_some_and(|value| !value.as_bytes().eq_ignore_ascii_case(b"infinity"))
        {
            return Err(RequestError::Header("Depth").into());
        }
        let conditions = RequestConditions::of(&head)?;
        // This value is dropped with the request, even if the client disconnects. When the value is dropped, the work is cancelled.
        let cancel_on_drop = CancelOnDrop::default();
        let cancel = cancel_on_drop.token();
        let goal = place.clone();
        let left = blocking_failure(visit.share(), move || {
            let mut stay = visit.enter(&goal.datastore, OperationKind::Write, Blocking)?;
            let path = goal.path.clone();
            let tokens = conditions.check_twice(&mut stay, goal)?;
            Ok(stay.delete(&path, &tokens, &|| !cancel.is_cancelled())?)
        })
        .await?;
        Ok(match left.is_empty() {
            true => empty(StatusCode::NO_CONTENT),
            false => multistatus::failed_members(&place, left),
        })
    };
    let outcome: Result<Answer, Failure> = outcome.await;
    end(trace, outcome, Aim::Target)
}

#[cfg(test)]
mod tests {
    use super::METHODS;

    #[test]
    fn the_server_knows_every_method_of_webdav() {
        for method in METHODS.split(", ") {
            assert!(enfilade_faces::METHODS.contains(&method), "{method}");
        }
    }
}
