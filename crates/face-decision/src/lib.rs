//! Decisions for proxies such as nginx. Before the proxy passes a request on to an application, it sends a subrequest to the decision listener. The
//! subrequest describes the request of the visitor. On the routes `/decide/…`, a response with the status 200 permits the request, and any other
//! response refuses it.
//!
//! - `subrequest.rs` reads the description of the visitor's request from a subrequest.
//! - `profile.rs` contains the differences between the proxies.
//! - `identity.rs` describes the visitor to the application.
//! - `browser.rs` and its folder let people sign in to applications with a browser.
//! - `ext_authz.rs` answers Envoy over gRPC.
//! - `authzen.rs` answers services that have already authenticated the user (AuthZEN Authorization API 1.0).

mod authzen;
mod browser;
mod ext_authz;
mod identity;
mod profile;
mod subrequest;

pub use profile::form;

pub(crate) use enfilade_faces::browser::failure_of_change as failure;

use enfilade_faces::browser::NO_STORE;
use enfilade_faces::credential::of_visitor;
use enfilade_faces::{
    Answer, Body, Connection, Faces, Failure, Reply, RequestContext, RequestError, Route, Takes, Trace,
};
use enfilade_facts::vocabulary::{Privileges, StorePath};
use enfilade_passage::{
    AdminAsk, Blocking, Cached, CachedOnly, CertificateAsk, Credential, Decision, Lending,
};
use hyper::Response;
use hyper::header::{CACHE_CONTROL, HeaderMap};
use std::net::SocketAddr;
use subrequest::Subrequest;

/// The routes of the decision listener. The listener has no other routes.
pub const ROUTES: [Route; 16] = [
    Route::own("/decide/nginx", handle).says("Judge the request that a subrequest of nginx describes"),
    Route::own("/decide/haproxy", handle).says("Judge the request that a subrequest of HAProxy describes"),
    Route::own("/decide/traefik", handle).says("Judge the request that a subrequest of Traefik describes"),
    Route::own("/decide/caddy", handle).says("Judge the request that a subrequest of Caddy describes"),
    Route::own("/decide/envoy", handle).says("Judge the request that a subrequest of Envoy describes"),
    // Envoy appends the path of the visitor's request.
    Route::own("/decide/envoy/", handle)
        .says("The same as `/decide/envoy`; the rest of the path is not read"),
    Route::own("/envoy.service.auth.v3.Authorization/Check", ext_authz::check)
        .only("POST")
        .says("Judge the request that Envoy describes over gRPC (`ext_authz`)"),
    Route::own("/access/v1/evaluation", authzen::evaluation).only("POST").says("AuthZEN: judge one request"),
    Route::own("/access/v1/evaluations", authzen::evaluations)
        .only("POST")
        .says("AuthZEN: judge several requests"),
    Route::own("/access/v1/search/subject", authzen::subjects)
        .only("POST")
        .says("AuthZEN: the users who may make a request"),
    Route::own("/access/v1/search/resource", authzen::resources)
        .only("POST")
        .says("AuthZEN: the paths of an application on which a user may make a request; only the root and the paths on which roles are assigned are examined"),
    Route::own("/access/v1/search/action", authzen::actions)
        .only("POST")
        .says("AuthZEN: what a user may do on a path"),
    Route::own("/.well-known/authzen-configuration", authzen::configuration)
        .only("GET, HEAD")
        .says("AuthZEN: the addresses of these calls"),
    // If a request to the host of an application has one of these paths, the proxy passes the request to this listener.
    Route::own("/.enfilade/start", browser::start)
        .only("GET, HEAD")
        .says("Signing in with a browser: the first step at an application's host"),
    Route::own("/.enfilade/finish", browser::finish)
        .only("GET")
        .says("Signing in with a browser: the last step at an application's host"),
    Route::own("/.enfilade/sign-out", browser::sign_out_at_application)
        .only("GET, HEAD, POST")
        .says("Sign a browser out of all applications, at an application's host"),
];

/// The routes of the main listener.
pub const MAIN: [Route; 3] = [
    Route::public("/.well-known/jwks.json", identity::key_set)
        .says("The public keys with which applications check the tokens of `Remote-Jwt` (RFC 7517)"),
    Route::own("/.enfilade/sign-in", browser::sign_in)
        .only("GET, HEAD, POST")
        .says("The page on which people sign in to applications with a browser"),
    Route::own("/.enfilade/sign-out", browser::sign_out_here)
        .only("GET, HEAD, POST")
        .says("Sign a browser out of all applications"),
];

fn handle(context: RequestContext<'_>) -> Reply<'_> {
    Reply::later(async move {
        let RequestContext { faces, mut connection, request, mut trace } = context;
        let form = form(request.uri().path());
        trace.event.face = "decision";
        let headers = request.headers();
        let decided = decide(faces, &mut connection, (request.uri().path(), headers), &mut trace).await;
        let permitted = decided.and_then(|decision| permitted(faces, &decision, &trace));
        let answer =
            match permitted.map(|answer| profile::with_cookies(answer, request.uri().path(), headers)) {
                Ok(answer) => answer,
                Err(failure) => {
                    trace.failed(&failure);
                    let to_start = browser::redirect_to_start(faces, headers, &failure);
                    let mut answer = to_start.unwrap_or_else(|| profile::refused(&failure));
                    form(&mut answer);
                    // No proxy may store the response and use it for a later request.
                    answer.headers_mut().insert(CACHE_CONTROL, NO_STORE);
                    answer
                }
            };
        trace.answered(&answer);
        answer
    })
}

async fn decide(
    faces: &Faces,
    connection: &mut Connection,
    (path, headers): (&str, &HeaderMap),
    trace: &mut Trace,
) -> Result<Decision, Failure> {
    check_appended(path)?;
    knows_proxy(faces, connection).await?;
    judge(faces, connection, headers, trace).await
}

/// Checks the path that Envoy appends to the path of this route. A proxy must not reach this route by a path such as `/decide/envoy/../../x`.
fn check_appended(path: &str) -> Result<(), RequestError> {
    match path.strip_prefix("/decide/envoy/") {
        Some(rest) => StorePath::from_target(&format!("/{rest}")).map(drop).map_err(RequestError::Path),
        None => Ok(()),
    }
}

/// Judges the request that these headers describe. The caller has already checked that the proxy may ask.
async fn judge(
    faces: &Faces,
    connection: &mut Connection,
    headers: &HeaderMap,
    trace: &mut Trace,
) -> Result<Decision, Failure> {
    let read = Subrequest::read(headers, &faces.limits());
    let Subrequest { visitor, peer, ask, application } =
        read.inspect_err(|_| subrequest::describe(headers, &mut trace.event))?;
    // From here on, delays and blocks after failed logins count for the address of the visitor, and not for the address of the proxy.
    connection.peer = SocketAddr::new(visitor, 0);
    trace.event.peer = peer;
    trace.event.verb = ask.method.name().into();
    trace.event.path = [ask.site.as_str(), "/", ask.path.as_str()].concat();
    if let Some(decision) = faces.house().decide_for_everybody(&ask)? {
        connection.anonymous.release();
        trace.event.revision = decision.revision;
        return Ok(decision);
    }
    let carried = match of_visitor(headers, &application, || faces.house().counts_if_both(&ask)) {
        Ok(carried) => Ok(carried),
        Err(enfilade_passage::Refusal::Identity(refusal)) => Err(refusal),
        Err(refusal) => return Err(refusal.into()),
    };
    let mut visit = faces.admit(connection, carried, Takes::Everything, trace).await?;
    let decision = match visit.decide(&ask, CachedOnly)? {
        Cached::Ready(decision) => decision,
        // In this case, the application serves the files of a datastore, and the server must read the ACL of the file from the disk.
        Cached::WouldWait => {
            let turn = visit.share().turn().await;
            let decided = tokio::task::spawn_blocking(move || {
                let _turn = turn;
                visit.decide(&ask, Blocking)
            });
            decided.await.map_err(|_| RequestError::Worker)??
        }
    };
    trace.event.revision = decision.revision;
    Ok(decision)
}

/// The path on which the API token of a proxy needs the privilege `Sys.Audit`, for example by the role Audit.
const ASKING: &str = "/system/decisions";

/// Checks that the proxy may ask. For a process at the Unix socket, the user was checked when the process connected. Over TLS, the proxy needs a
/// client certificate. The API token of this certificate must have the privilege `Sys.Audit` on [`ASKING`].
async fn knows_proxy(faces: &Faces, connection: &mut Connection) -> Result<(), Failure> {
    // The certificate belongs to the proxy, so it must not count as a credential of the visitor.
    let certificate = connection.certificate.take();
    match connection.is_https {
        // This future is boxed. Otherwise the futures of all other requests would contain space for the state of this future.
        true => Box::pin(knows_certificate(faces, connection, certificate)).await,
        false => Ok(()),
    }
}

async fn knows_certificate(
    faces: &Faces,
    connection: &Connection,
    certificate: Option<CertificateAsk>,
) -> Result<(), Failure> {
    const NO_CERTIFICATE: RequestError = RequestError::Subrequest(
        "the proxy sent no client certificate. Let the proxy send one. In the crt-list, the line of this server's own certificate needs `verify optional` or `verify required`, and `ca-file`",
    );
    const NOT_PERMITTED: RequestError = RequestError::Subrequest(
        "the API token of the proxy's certificate may not ask for decisions; to permit it: enfilade role assign --path /system/decisions --auth-id OWNER Audit (OWNER is the owner of the token; a token with roles of its own needs the role, too)",
    );
    let credential = Credential::Certificate(certificate.ok_or(NO_CERTIFICATE)?);
    let mut proxy = faces.arc_house().admit(&credential, connection.peer.ip()).await?;
    let Ok(path) = ASKING.parse() else { return Err(NOT_PERMITTED.into()) };
    let ask = AdminAsk { path: &path, needed: Privileges::SYS_AUDIT, lending: Lending::Reads, own: None };
    proxy.administer(&ask).map_err(|_| NOT_PERMITTED)?;
    connection.anonymous.release();
    Ok(())
}

fn permitted(faces: &Faces, decision: &Decision, trace: &Trace) -> Result<Answer, Failure> {
    let mut answer = Response::new(Body::empty());
    let headers = answer.headers_mut();
    headers.insert(CACHE_CONTROL, NO_STORE);
    identity::insert(headers, faces, decision, trace)?;
    Ok(answer)
}
