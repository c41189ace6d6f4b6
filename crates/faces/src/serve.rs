//! The way of a request from the listener to its route.

use crate::body::Body;
use crate::credential::{self, Carried};
use crate::keystone::Rendered;
use crate::metrics::Metrics;
use crate::respond::{Aim, Answer, Failure, Wire, failed};
use crate::routes::{Guarded, MAIN, Need, OPERATIONS, Route};
use crate::splices::Splices;
use crate::trace::Trace;
use crate::unread::Unread;
use crate::{head, keystone, operations, proxmox, webdav, whoami};
use bytes::Bytes;
use enfilade_admin::keystone::Catalog;
use enfilade_admin::{Desk, FileSet, PasswordRules};
use enfilade_facts::limits::Limits;
use enfilade_facts::memo::KeyMaker;
use enfilade_facts::{Index, Memo, MemoSeed, Requester};
use enfilade_passage::{CertificateAsk, Credential, House, IdentityRefusal, LastVisitor, Refusal, Visit};
use hyper::body::Body as _;
use hyper::header::{ALLOW, CONTENT_LENGTH, HOST, HeaderValue, STRICT_TRANSPORT_SECURITY};
use hyper::{Method, Request};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tokio::sync::{Notify, mpsc, oneshot};

/// The connection a request came on.
#[derive(Clone, Debug)]
pub struct Connection {
    /// The other side's address.
    pub peer: SocketAddr,
    /// Told when the connection has to end at once: an answer was cut and the client does not read.
    pub cut: Arc<Notify>,
    /// Whether it is by TLS.
    pub is_tls: bool,
    /// Its place among those on which nobody was let in yet.
    pub stranger: Arc<Stranger>,
    /// Who came on it last.
    pub last: Arc<LastVisitor>,
    /// The certificate the client showed in the TLS handshake.
    pub certificate: Option<CertificateAsk>,
    /// Which hosts may not be asked for on it.
    pub terms: Option<Terms>,
    /// Where it takes bytes from pipes.
    pub splices: Option<Arc<Splices>>,
}

/// What a connection was agreed on by TLS: says whether a host has other terms, such as a certificate the client did not have to show
/// here (RFC 9110 §15.5.20).
#[derive(Clone)]
pub struct Terms(pub Arc<dyn Fn(&str) -> bool + Send + Sync>);

impl std::fmt::Debug for Terms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Terms")
    }
}

/// A connection's place among those on which nobody was let in yet: it is given up, by dropping it, with the first who is.
pub struct Stranger {
    is_known: AtomicBool,
    place: Mutex<Option<Box<dyn Send>>>,
}

impl std::fmt::Debug for Stranger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stranger").field("is_known", &self.is_known).finish_non_exhaustive()
    }
}

impl Stranger {
    /// With this place.
    pub fn new(place: impl Send + 'static) -> Self {
        Stranger { is_known: AtomicBool::new(false), place: Mutex::new(Some(Box::new(place))) }
    }

    /// Somebody was let in.
    pub(crate) fn is_known(&self) {
        // Asked with every request, and true from the first on.
        if !self.is_known.load(Ordering::Relaxed) {
            self.is_known.store(true, Ordering::Relaxed);
            self.place.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
    }
}

impl Connection {
    /// Whether a host of the request has other terms than those this connection was made under.
    fn misdirects<B>(&self, request: &Request<B>) -> bool {
        let Some(Terms(has_others)) = &self.terms else { return false };
        let in_target = request.uri().host().into_iter();
        // One that cannot be read has no terms at all, and is judged as no name.
        let in_headers = request.headers().get_all(HOST).iter().map(|host| host.to_str().unwrap_or_default());
        in_target.chain(in_headers.map(without_port)).any(|host| has_others(host))
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// All faces of a house.
#[derive(Clone)]
pub struct Faces {
    house: Arc<House>,
    files: Arc<FileSet>,
    passwords: PasswordRules,
    roots: Arc<[PathBuf]>,
    metrics: Arc<Metrics>,
    v3: Arc<V3Memo>,
    reloads: Arc<OnceLock<mpsc::Sender<Reload>>>,
    transport_security: Option<HeaderValue>,
}

/// Somebody asks to have everything read again, and waits for what comes of it: how it went, or why nothing did.
pub type Reload = oneshot::Sender<Result<String, String>>;

/// What the Identity API remembers and counts.
struct V3Memo {
    catalog: Index<Catalog>,
    rendered: Memo<Rendered>,
    key: KeyMaker,
    request: KeyMaker,
    requests: AtomicU64,
}

/// What may be remembered of bodies, in bytes: some thousand tokens with a catalog of 30 endpoints.
const RENDERED_BYTES: usize = 16 << 20;

/// What a request's body has to be.
pub trait Incoming: hyper::body::Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static {}
impl<B: hyper::body::Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static> Incoming for B {}

/// Any error of a body.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl Faces {
    /// Of this house, whose files people edit are these, and whose passwords have to be so. Datastores are made beneath these directories
    /// alone.
    pub fn new(house: Arc<House>, files: FileSet, passwords: PasswordRules, roots: Vec<PathBuf>) -> Self {
        let seed = MemoSeed(house.random().unwrap_or_default());
        let v3 = V3Memo {
            catalog: Index::new(),
            rendered: Memo::new(seed, RENDERED_BYTES),
            key: KeyMaker::new(&seed, "token body"),
            request: KeyMaker::new(&seed, "request id"),
            requests: AtomicU64::new(0),
        };
        let (files, metrics, reloads) = (Arc::new(files), Arc::default(), Arc::default());
        let (roots, transport_security) = (roots.into(), None);
        Faces { house, files, passwords, roots, metrics, v3: Arc::new(v3), reloads, transport_security }
    }

    /// What is too much.
    pub fn limits(&self) -> Limits {
        self.house.limits()
    }

    /// Whoever reads everything again is asked there.
    pub fn set_reloads(&self, to: mpsc::Sender<Reload>) {
        let _ = self.reloads.set(to);
    }

    /// Has everything read again, and waits for that. Blocks.
    pub(crate) fn reload(&self) -> Result<String, String> {
        let nobody = || "nobody reads anything again here".to_owned();
        let (reply, answer) = oneshot::channel();
        let asked = self.reloads.get().and_then(|to| to.blocking_send(reply).ok());
        asked.ok_or_else(nobody)?;
        answer.blocking_recv().map_err(|_| nobody())?
    }

    /// Where services are.
    pub(crate) fn catalog(&self) -> &Index<Catalog> {
        &self.v3.catalog
    }

    /// Bodies that were made.
    pub(crate) fn rendered(&self) -> &Memo<Rendered> {
        &self.v3.rendered
    }

    /// The begin of the key of one.
    pub(crate) fn rendered_key(&self) -> KeyMaker {
        self.v3.key
    }

    /// A name for a request, that no other has.
    pub(crate) fn request_id(&self) -> String {
        let n = self.v3.requests.fetch_add(1, Ordering::Relaxed);
        let id = u128::from_be_bytes(self.v3.request.number(n).key().as_choice());
        // In the form of a version 4 UUID, which readers of logs look for.
        let id = id & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
        let (a, b, c) = (id >> 96, (id >> 80) & 0xffff, (id >> 64) & 0xffff);
        let (d, e) = ((id >> 48) & 0xffff, id & 0xffff_ffff_ffff);
        format!("req-{a:08x}-{b:04x}-{c:04x}-{d:04x}-{e:012x}")
    }

    /// The house, to stay in.
    pub(crate) fn arc_house(&self) -> &Arc<House> {
        &self.house
    }

    /// Where changes are made by a permitted caller, with these rights.
    pub(crate) fn desk<'a>(&'a self, who: &'a str, requester: Requester) -> Desk<'a> {
        let house = &self.house;
        Desk {
            facts: house.source(),
            files: &self.files,
            passwords: &self.passwords,
            reserved: house.reserved(),
            roots: Some(&self.roots),
            who,
            requester,
            now: house.now(),
        }
    }

    /// The counters.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// The house it is the face of.
    pub fn house(&self) -> &House {
        &self.house
    }

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

    /// Tells browsers on every answer by TLS to come by TLS alone, in the words of the header `Strict-Transport-Security` (RFC 6797 §6.1).
    #[must_use]
    pub fn with_transport_security(self, policy: Option<HeaderValue>) -> Self {
        Faces { transport_security: policy, ..self }
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

/// Which credentials a face takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    Everything,
    Sessions,
}

impl Faces {
    /// Door 2, for a credential in a header, or in the certificate of the connection.
    pub(crate) async fn admit(
        &self,
        connection: &Connection,
        carried: Result<Carried<'_>, IdentityRefusal>,
        takes: Takes,
        trace: &mut Trace,
    ) -> Result<Visit, Refusal> {
        let from = connection.peer.ip();
        let takes_secrets = takes == Takes::Everything;
        let carried = match (carried, &connection.certificate) {
            // A request that carries something else as well means that.
            (Err(IdentityRefusal::NoCredential), Some(ask)) if takes_secrets => Carried::Certificate(ask),
            (carried, _) => carried?,
        };
        let visit = match self.house.recognise(&connection.last, carried.unread(), from) {
            Ok(visit) if !takes_secrets && visit.identity().session().is_none() => {
                return Err(IdentityRefusal::NoCredential.into());
            }
            Ok(visit) => visit,
            Err(brought) => {
                let credential = carried.read()?;
                if let Credential::Secret(ask) = &credential {
                    if !takes_secrets {
                        return Err(IdentityRefusal::NoCredential.into());
                    }
                    trace.event.authid = ask.authid.to_word();
                }
                let visit = self.house.admit(&credential, from).await?;
                connection.last.is(brought, &visit);
                visit
            }
        };
        connection.stranger.is_known();
        trace.event.authid = visit.principal().authid.to_word();
        trace.event.revision = visit.identity().at().revision.0;
        Ok(visit)
    }
}

/// Ends a request that failed before it reached its face.
pub(crate) fn fail(failure: Failure, mut trace: Trace) -> Answer {
    trace.failed(&failure);
    let answer = failed(&failure, Aim::Target);
    trace.answered(&answer);
    answer
}
