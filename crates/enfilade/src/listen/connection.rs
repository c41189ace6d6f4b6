//! Accepts connections, and serves HTTP on them.

use super::admission::{Admission, Admitted, Share};
use super::client_progress::ClientProgress;
use super::fields::Fields;
use super::heads::Heads;
use super::lifecycle::{ConnectionLifecycle, Drain, finish, http1_builder, http2_builder};
use super::lingering::Lingering;
use super::received::{Malformed, Received};
use super::sockets::{Listener, Stream, canonical};
use super::splicing::Splicing;
use super::{Networks, Trusted, proxied};
use crate::acme::Answers;
use crate::certificates::Keeper;
use crate::{log_lines, output, owner, process_use};
use enfilade_faces::{
    AnonymousSlot, Body, Connection, Faces, Flaw, Handshake, HandshakeEnd, Proxies, Redirect, Router,
    Splices, Terms, TimedDoor, UNNAMED,
};
use enfilade_facts::limits::Limits;
use enfilade_passage::CertificateAsk;
use enfilade_tls::{Ask, Certificates, Refusal, TlsPermit, UNRECOGNIZED_NAME};
use hyper::body::{Body as _, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_rustls::rustls::{self, server::Acceptor};
use tokio_rustls::{LazyConfigAcceptor, StartHandshake};
use tokio_util::io::InspectReader;

/// The rules by which a listener accepts connections, and the state that its connections share.
#[derive(Clone)]
pub(crate) struct Door {
    pub(crate) admission: Arc<Admission>,
    /// The load balancers, which send a PROXY header with the address of the client.
    pub(crate) proxies: Arc<Networks>,
    /// The proxies that report the client in HTTP headers.
    pub(crate) trusted: Arc<Trusted>,
    pub(crate) drain: Drain,
    pub(crate) limits: Limits,
    pub(crate) faces: Faces,
}

impl Door {
    /// The same rules, for a listener to which no proxy connects.
    pub(crate) fn without_proxies(&self) -> Self {
        Door { proxies: Arc::default(), trusted: Arc::default(), ..self.clone() }
    }
}

/// Accepts connections until the server drains. Each connection gets its own task.
pub(super) async fn accept<F>(
    listener: impl Into<Listener>,
    door: Door,
    serve: impl Fn(Stream, Turn, Drain) -> F + Send + Sync + 'static,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let Door { admission, proxies, trusted, mut drain, limits, faces } = door;
    let listener = listener.into();
    // All clients of a trusted proxy have the address of the proxy. So this address has no limit. A connection over a Unix socket has no address. So
    // the limits for addresses do not apply to it.
    let counted = move |stream: &Stream| {
        let peer = stream.peer()?;
        (!trusted.hold(Some(peer))).then(|| peer.ip())
    };
    let serve = Arc::new(serve);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = drain.wait_for(|drain| *drain) => return,
        };
        let (serve, drain) = (Arc::clone(&serve), drain.clone());
        match accepted {
            Ok(Stream::Tcp(mut stream, peer)) if proxies.hold(peer.ip()) => {
                let (admission, counted, faces) = (Arc::clone(&admission), counted.clone(), faces.clone());
                tokio::spawn(async move {
                    let limit = Duration::from_secs(limits.handshake_seconds);
                    let header = tokio::time::timeout(limit, proxied::read(&mut stream, peer)).await;
                    let named = match header.unwrap_or_else(|_| Err(proxied::too_late())) {
                        Ok(named) => canonical(named),
                        Err(why) => return tell_refused_header(&faces, peer, &why),
                    };
                    let stream = Stream::Tcp(stream, named);
                    let Some(admitted) = admission.admit(counted(&stream)) else { return };
                    begin(stream, admitted, drain, &*serve).await;
                });
            }
            Ok(stream) => {
                // If a limit is reached, the connection is closed at once: before a handshake, the server cannot send a reason.
                let Some(admitted) = admission.admit(counted(&stream)) else { continue };
                tokio::spawn(async move { begin(stream, admitted, drain, &*serve).await });
            }
            // There is no free descriptor or memory, or the client has disconnected. Without a pause, the loop would use a whole CPU core.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Counts a connection of a load balancer that was closed because of its PROXY header. Logs only the 1st, 2nd, 4th, 8th … of these connections.
/// Otherwise a load balancer that never sends the header would fill the log.
fn tell_refused_header(faces: &Faces, peer: SocketAddr, why: &io::Error) {
    // A load balancer that only checks whether the port is open sends nothing, and ends or resets the connection.
    if why.kind() == io::ErrorKind::ConnectionAborted {
        return;
    }
    let count = faces.metrics().proxy_header_refused() + 1;
    if count.is_power_of_two() {
        output::note(&format!(
            "warning: a connection from {} was closed: {why}; `[tls] proxy_from` contains this address, so each connection from this address must \
             begin with a PROXY header of version 2 ({} so far)",
            peer.ip(),
            closed(count)
        ));
    }
}

/// The first byte of a TLS connection (RFC 8446 §5.1).
const HANDSHAKE_RECORD: u8 = 22;

/// Counts a connection that began with a PROXY header, but did not come from an address in `[tls] proxy_from`. Logs only the 1st, 2nd, 4th, 8th … of
/// these connections. Otherwise a load balancer with an address that is not configured would fill the log.
async fn tell_unexpected_header(stream: &TcpStream, proxies: &Networks, faces: &Faces) {
    let mut begin = [0; proxied::BEGIN_BYTES];
    let count = stream.peek(&mut begin).await.unwrap_or(0);
    let Some(version) = proxied::version(begin.get(..count).unwrap_or_default()) else { return };
    let Ok(peer) = stream.peer_addr() else { return };
    // If `[tls] proxy_from` contains the address, one header was read already, and this is a second header.
    if proxies.hold(peer.ip()) {
        return;
    }
    let count = faces.metrics().handshake_failed(HandshakeEnd::ProxyHeader) + 1;
    if count.is_power_of_two() {
        let also =
            if version == 1 { ", configure the load balancer to send version 2 of the header," } else { "" };
        output::note(&format!(
            "warning: a connection from {} began with a PROXY header of version {version} and was closed: `[tls] proxy_from` does not contain this \
             address; if this is the address of your load balancer, add the address{also} and restart the server ({} so far)",
            peer.ip().to_canonical(),
            closed(count)
        ));
    }
}

/// The number of closed connections, with the right form of the verb.
fn closed(count: u64) -> String {
    format!("{count} {} closed", if count == 1 { "was" } else { "were" })
}

/// A connection that has a slot and is not authenticated yet.
pub(super) struct Turn {
    pub(super) anonymous: AnonymousSlot,
    pub(super) client: Arc<ClientProgress>,
    /// The first byte from the client. It is still in the receive buffer.
    first: u8,
}

/// Serves a connection after it got a slot, unless the server drains before that. Ends the connection if it makes no progress and another connection
/// from the same address needs the slot.
async fn begin<F: Future<Output = ()>>(
    stream: Stream,
    (_admitted, share): (Admitted, Share),
    mut drain: Drain,
    serve: &impl Fn(Stream, Turn, Drain) -> F,
) {
    let client = ClientProgress::new();
    let served = async {
        let slot = tokio::select! {
            slot = share.turn(&stream, Arc::clone(&client)) => slot,
            _ = drain.wait_for(|drain| *drain) => None,
        };
        let Some((slot, first)) = slot else { return };
        stream.set_nodelay();
        let turn = Turn { anonymous: AnonymousSlot::new(slot), client: Arc::clone(&client), first };
        serve(stream, turn, drain).await;
    };
    tokio::select! {
        () = served => {}
        () = client.is_cut() => {}
    }
}

/// The certificates for new connections, and their [`Keeper`]. The certificates and the keeper are replaced together.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) certificates: Arc<Certificates>,
    pub(crate) keeper: Arc<Keeper>,
}

/// Serves HTTPS. If `answers` is given, also completes the handshakes with which an ACME authority validates a name.
pub(crate) async fn tls(
    listener: TcpListener,
    (current, answers): (watch::Receiver<Tls>, Option<Arc<Answers>>),
    router: Router,
    door: Door,
) {
    let (limits, trusted, balancers) = (door.limits, Arc::clone(&door.trusted), Arc::clone(&door.proxies));
    accept(listener, door, move |stream, turn: Turn, drain| {
        // Later changes of the certificates apply to later connections.
        let (Tls { certificates, keeper }, router) = (current.borrow().clone(), router.clone());
        let (now, proxies) = (current.clone(), proxies_of(&trusted, &stream));
        let (answers, balancers) = (answers.clone(), Arc::clone(&balancers));
        async move {
            let Stream::Tcp(stream, peer) = stream else { return };
            // A TLS connection begins with a handshake record. A PROXY header begins with a different byte.
            if turn.first != HANDSHAKE_RECORD {
                tell_unexpected_header(&stream, &balancers, router.faces()).await;
            }
            let handshake = handshake(stream, &certificates, &keeper, answers, router.faces());
            let (limit, began) = (Duration::from_secs(limits.handshake_seconds), Instant::now());
            let shaken = tokio::time::timeout(limit, handshake).await;
            let ended = Instant::now();
            router.faces().metrics().door_took(TimedDoor::Tls, ended.saturating_duration_since(began));
            // After a failed or slow handshake, the server cannot send a response.
            let Ok(Some((stream, permit))) = shaken else { return };
            turn.client.goes_on();
            let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
            let certificate =
                shown.map(|shown| CertificateAsk { fingerprint: enfilade_tls::fingerprint_of(shown) });
            // The policy for the host of a request comes from the certificates at the time of the request, not from those at the time of the
            // handshake.
            let terms = Terms(Arc::new(move |host| !permit.has_terms_of(&now.borrow().certificates, host)));
            let connection = Connection {
                peer,
                cut: Arc::new(Notify::new()),
                proxies,
                is_https: true,
                anonymous: Arc::new(turn.anonymous),
                last: Arc::default(),
                certificate,
                terms: Some(terms),
                splices: None,
                handshake: router
                    .faces()
                    .traces()
                    .map(|_| Arc::new(Handshake::new(began.into_std(), ended.into_std()))),
            };
            speak(stream, is_h2, connection, turn.client, router, drain).await;
        }
    })
    .await;
}

/// Reads the ClientHello, selects the certificate with door 1 (TLS), and completes the handshake.
async fn handshake(
    stream: TcpStream,
    certificates: &Certificates,
    keeper: &Arc<Keeper>,
    answers: Option<Arc<Answers>>,
    faces: &Faces,
) -> Option<(tokio_rustls::server::TlsStream<TcpStream>, TlsPermit)> {
    let local = stream.local_addr().ok()?.ip();
    let mut acceptor = LazyConfigAcceptor::new(Acceptor::default(), stream);
    let mut start = match (&mut acceptor).await {
        Ok(start) => start,
        Err(why) => {
            hang_up(acceptor.take_io()?, &why).await;
            return None;
        }
    };
    if let Some(answers) = answers
        && let Some(name) = Answers::validated(&start.client_hello())
    {
        validate(start, answers, name).await;
        return None;
    }
    let ask = Ask::of(&start.client_hello()).at(local);
    let opened = match enfilade_tls::open(certificates, &ask) {
        Ok(permit) => keeper.config(&permit).await.map(|config| (config, permit)),
        Err(refusal) => Err(refusal),
    };
    match opened {
        Ok((config, permit)) => match start.into_stream(config).await {
            Ok(stream) => Some((stream, permit)),
            Err(why) => {
                if is_of_client_certificate(&why) {
                    faces.metrics().handshake_failed(HandshakeEnd::ClientCertificate);
                }
                None
            }
        },
        Err(refusal) => {
            // The client gets the same alert for an unknown name and for a name with an unusable certificate file.
            let _ = start.io.write_all(&UNRECOGNIZED_NAME).await;
            let _ = start.io.shutdown().await;
            faces.metrics().handshake_failed(match refusal {
                Refusal::UnknownName => HandshakeEnd::UnknownName,
                Refusal::NoCertificate | Refusal::Unusable { .. } => HandshakeEnd::Unusable,
            });
            keeper.tell_once(&refusal);
            None
        }
    }
}

/// Whether a handshake failed because the client sent no certificate, or an untrusted certificate.
fn is_of_client_certificate(why: &io::Error) -> bool {
    use rustls::Error;
    let why = why.get_ref().and_then(|why| why.downcast_ref::<Error>());
    matches!(why, Some(Error::NoCertificatesPresented | Error::InvalidCertificate(_)))
}

/// Completes the handshake with which an ACME authority validates a name, and closes the connection (RFC 8737 §3). If there is no answer for the
/// name, the connection ends as for an unknown name.
async fn validate(mut start: StartHandshake<TcpStream>, answers: Arc<Answers>, name: String) {
    let found = tokio::task::spawn_blocking(move || answers.tls(&name)).await;
    match found.ok().flatten() {
        Some(config) => {
            if let Ok(mut stream) = start.into_stream(config).await {
                let _ = stream.shutdown().await;
            }
        }
        None => {
            let _ = start.io.write_all(&UNRECOGNIZED_NAME).await;
            let _ = start.io.shutdown().await;
        }
    }
}

/// The fatal TLS alerts `unexpected_message` and `decode_error` (RFC 8446 §6.2).
const UNEXPECTED_MESSAGE: [u8; 7] = [21, 3, 3, 0, 2, 2, 10];
const DECODE_ERROR: [u8; 7] = [21, 3, 3, 0, 2, 2, 50];

/// Ends a connection that did not begin with a usable ClientHello. The TLS library has already sent an alert, except in two cases. The first case is
/// a record of another type. The second case is a ClientHello that is too long for the library. In these two cases this function sends the alert.
/// Then this function discards further input, because otherwise the client might not get the alert.
async fn hang_up(mut stream: TcpStream, why: &io::Error) {
    use rustls::{Error, InvalidMessage::HandshakePayloadTooLarge};
    let alert = match why.get_ref().and_then(|why| why.downcast_ref::<Error>()) {
        Some(Error::InappropriateMessage { .. }) => UNEXPECTED_MESSAGE.as_slice(),
        Some(Error::InvalidMessage(HandshakePayloadTooLarge)) => &DECODE_ERROR,
        Some(_) => &[],
        // The TLS library reports its full buffer as the end of the input.
        None if matches!(why.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData) => {
            &DECODE_ERROR
        }
        None => return,
    };
    let _ = stream.write_all(alert).await;
    let _ = Lingering::new(stream).shutdown().await;
}

/// Serves HTTP without TLS, for a proxy in front.
pub(crate) async fn plain(listener: Listener, router: Router, door: Door) {
    let trusted = Arc::clone(&door.trusted);
    accept(listener, door, move |stream, turn, drain| {
        let splices = Arc::<Splices>::default();
        let connection = Connection {
            peer: stream.peer().unwrap_or(UNNAMED),
            cut: Arc::new(Notify::new()),
            proxies: proxies_of(&trusted, &stream),
            is_https: false,
            anonymous: Arc::new(turn.anonymous),
            last: Arc::default(),
            certificate: None,
            terms: None,
            splices: Some(Arc::clone(&splices)),
            handshake: None,
        };
        speak(Splicing::new(stream, splices), false, connection, turn.client, router.clone(), drain)
    })
    .await;
}

/// Serves proxies that ask for decisions over a Unix socket. A process may ask if its user is in `uids`. Every other connection is closed at once.
pub(crate) async fn decisions(listener: Listener, router: Router, uids: Vec<u32>, door: Door) {
    let (uids, limits): (Arc<[u32]>, _) = (uids.into(), door.limits);
    accept(listener, door, move |stream, turn, drain| {
        let (router, uids) = (router.clone(), Arc::clone(&uids));
        async move {
            let uid = stream.user();
            if !uid.is_some_and(|uid| uids.contains(&uid)) {
                tell_refused_user(router.faces(), uid);
                return;
            }
            // gRPC needs HTTP/2. The connection is examined further only if its first byte fits HTTP/2.
            let limit = Duration::from_secs(limits.handshake_seconds);
            let is_h2 = turn.first == b'P'
                && tokio::time::timeout(limit, stream.is_http2())
                    .await
                    .is_ok_and(|is_h2| is_h2.unwrap_or(false));
            let connection = Connection {
                peer: UNNAMED,
                cut: Arc::new(Notify::new()),
                proxies: None,
                is_https: false,
                anonymous: Arc::new(turn.anonymous),
                last: Arc::default(),
                certificate: None,
                terms: None,
                splices: None,
                handshake: None,
            };
            speak(stream, is_h2, connection, turn.client, router, drain).await;
        }
    })
    .await;
}

/// Logs the 1st, 2nd, 4th, 8th … connection that was closed because its user may not ask for decisions.
fn tell_refused_user(faces: &Faces, uid: Option<u32>) {
    let count = faces.metrics().handshake_failed(HandshakeEnd::User) + 1;
    if count.is_power_of_two() {
        let user =
            uid.map_or_else(|| "an unknown user".to_owned(), |uid| format!("user {}", owner::name_of(uid)));
        output::note(&format!(
            "warning: a connection of {user} to the socket for decisions was closed: `[decisions] users` does not contain this user; if this is \
             the user of your proxy, add the user and restart the server ({} so far)",
            closed(count)
        ));
    }
}

/// Redirects plain HTTP to HTTPS.
pub(crate) async fn http(listener: TcpListener, redirect: Redirect, door: Door) {
    let (limits, trusted, faces) = (door.limits, Arc::clone(&door.trusted), door.faces.clone());
    let redirect = Arc::new(redirect);
    accept(listener, door, move |stream, turn, drain| {
        let (redirect, proxies) = (Arc::clone(&redirect), proxies_of(&trusted, &stream));
        let faces = faces.clone();
        async move {
            let _turn = turn;
            let Some(peer) = stream.peer() else { return };
            let answer = move |request| {
                let answer = redirect.answer(&request, (peer, proxies.as_ref()), &limits);
                faces.record_plain_http(&request, peer, &answer);
                answer
            };
            speak_simply(stream, limits, drain, answer).await;
        }
    })
    .await;
}

/// Serves metrics and health.
pub(crate) async fn operations(
    listener: TcpListener,
    router: Router,
    admission: Arc<Admission>,
    drain: Drain,
) {
    let limits = router.faces().limits();
    let (proxies, trusted) = (Arc::default(), Arc::default());
    let faces = router.faces().clone();
    let door = Door { admission: Arc::default(), proxies, trusted, drain, limits, faces };
    accept(listener, door, move |stream, turn, drain| {
        let router = router.clone();
        let admission = Arc::clone(&admission);
        async move {
            let _turn = turn;
            let answer = move |request: Request<Incoming>| {
                let metrics = router.faces().metrics();
                metrics.set_connections(admission.count());
                if request.uri().path() == "/metrics" {
                    metrics.set_process(process_use::read());
                    metrics.set_lost_lines(log_lines::lost());
                    metrics.set_traces(router.faces().traces().map(|traces| traces.counts()));
                }
                router.answer_operations(&request)
            };
            speak_simply(stream, limits, drain, answer).await;
        }
    })
    .await;
}

/// Serves HTTP/1.1 with responses that need only the head of the request.
async fn speak_simply(
    stream: Stream,
    limits: Limits,
    drain: Drain,
    answer: impl Fn(Request<Incoming>) -> Response<Body>,
) {
    let lifecycle = ConnectionLifecycle::new(limits, Arc::default(), false);
    let heads = Arc::<Heads>::default();
    let requested = Arc::clone(&heads);
    let service = service_fn(move |mut request: Request<Incoming>| {
        let flaw = requested.begins(exact(request.body()));
        tell(&mut request, flaw);
        let answer = answer(request);
        async move { Ok::<_, Infallible>(answer) }
    });
    let stream = InspectReader::new(lifecycle.count(Lingering::new(stream)), move |bytes| heads.came(bytes));
    finish(http1_builder(&limits).serve_connection(TokioIo::new(stream), service), drain, &lifecycle).await;
}

/// The trusted proxies, if the peer is one of them.
fn proxies_of(trusted: &Arc<Trusted>, stream: &Stream) -> Option<Proxies> {
    let all = trusted.hold(stream.peer()).then(|| Arc::clone(trusted))?;
    Some(Proxies(Arc::new(move |address| all.networks.hold(address))))
}

/// If a flaw was found in the head of a request, stores this flaw in the extensions of the request.
fn tell(request: &mut Request<Incoming>, flaw: Option<Flaw>) {
    if let Some(flaw) = flaw {
        request.extensions_mut().insert(flaw);
    }
}

/// Serves HTTP on a connection.
pub(super) async fn speak<S>(
    stream: S,
    is_h2: bool,
    connection: Connection,
    client: Arc<ClientProgress>,
    router: Router,
    drain: Drain,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limits = router.faces().limits();
    let lifecycle = ConnectionLifecycle::new(limits, Arc::clone(&connection.cut), is_h2);
    let malformed = Arc::<Malformed>::default();
    let heads = Arc::new(Heads::new(Arc::clone(&malformed)));
    let (requested, found) = (Arc::clone(&heads), Arc::clone(&malformed));
    // Each connection has its own `Arc`. So requests on different connections do not contend for one reference count.
    let here = Arc::new((router, connection, Arc::clone(&lifecycle), client));
    let service = service_fn(move |mut request: Request<Incoming>| {
        // This function runs before more input is read, because the HTTP library delivers a request as soon as its head is complete.
        let flaw = match is_h2 {
            true => malformed.is_so().then_some(Flaw::Fields),
            false => requested.begins(exact(request.body())),
        };
        tell(&mut request, flaw);
        let (here, malformed) = (Arc::clone(&here), Arc::clone(&malformed));
        let request = request.map(|body| Received::new(body, malformed, Arc::clone(&here.3)));
        async move {
            let (router, connection, lifecycle, client) = &*here;
            let running = lifecycle.begin();
            let _answering = client.answers();
            let answer = router.answer(connection.clone(), request).await;
            Ok::<_, Infallible>(lifecycle.answer(answer, running))
        }
    });
    let stream = lifecycle.count(Lingering::new(stream));
    if is_h2 {
        let (watching, mut fields) = (Arc::clone(&lifecycle), Fields::default());
        let stream = InspectReader::new(lifecycle.watch(stream), move |bytes| {
            if fields.came(bytes) {
                found.set();
                watching.has_enough();
            }
        });
        finish(http2_builder(&limits).serve_connection(TokioIo::new(stream), service), drain, &lifecycle)
            .await;
    } else {
        let stream = InspectReader::new(stream, move |bytes| heads.came(bytes));
        finish(http1_builder(&limits).serve_connection(TokioIo::new(stream), service), drain, &lifecycle)
            .await;
    }
}

/// The length of a body, in bytes; `None` if it is chunked.
fn exact(body: &Incoming) -> Option<u64> {
    if body.is_end_stream() { Some(0) } else { body.size_hint().exact() }
}
