//! Accepting connections and speaking HTTP on them.

use super::Admission;
use super::lingering::Lingering;
use super::splicing::Splicing;
use super::{Networks, proxied};
use crate::certificates::Keeper;
use enfilade_faces::{Body, Connection, Faces, Redirect, Splices, Terms};
use enfilade_facts::limits::Limits;
use enfilade_passage::CertificateAsk;
use enfilade_tls::{Ask, Certificates, Refusal, TlsPermit, UNRECOGNIZED_NAME};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::rustls::server::Acceptor;

/// Turns true once: stop accepting, finish what runs.
pub(crate) type Drain = watch::Receiver<bool>;

/// Where connections come in.
#[derive(Clone)]
pub(crate) struct Door {
    pub(crate) admission: Arc<Admission>,
    /// Who hands connections of others on.
    pub(crate) proxies: Arc<Networks>,
    pub(crate) drain: Drain,
    pub(crate) limits: Limits,
}

/// Accepts until draining and gives every connection a task of its own.
async fn accept<F>(
    listener: TcpListener,
    door: Door,
    serve: impl Fn(TcpStream, SocketAddr, Drain) -> F + Send + Sync + 'static,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let Door { admission, proxies, mut drain, limits } = door;
    let serve = Arc::new(serve);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = drain.wait_for(|drain| *drain) => return,
        };
        match accepted {
            Ok((mut stream, peer)) if proxies.hold(peer.ip()) => {
                let _ = stream.set_nodelay(true);
                let (admission, serve, drain) = (Arc::clone(&admission), Arc::clone(&serve), drain.clone());
                tokio::spawn(async move {
                    let limit = Duration::from_secs(limits.handshake_seconds);
                    let header = tokio::time::timeout(limit, proxied::read(&mut stream, peer));
                    let Ok(Ok(peer)) = header.await else { return };
                    let Some(_admitted) = admission.admit(peer.ip()) else { return };
                    serve(stream, peer, drain).await;
                });
            }
            Ok((stream, peer)) => {
                // Over the limit the connection is closed at once: there is nobody to explain it to yet.
                let Some(admitted) = admission.admit(peer.ip()) else { continue };
                // Answers are written whole; waiting for more to send only adds delay.
                let _ = stream.set_nodelay(true);
                let serving = serve(stream, peer, drain.clone());
                tokio::spawn(async move {
                    let _admitted = admitted;
                    serving.await;
                });
            }
            // Out of descriptors or memory, or the client went away: trying again at once would only spin.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// What TLS is served with; exchanged as a whole.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) certificates: Arc<Certificates>,
    pub(crate) keeper: Arc<Keeper>,
}

/// Serves HTTPS.
pub(crate) async fn tls(listener: TcpListener, current: watch::Receiver<Tls>, faces: Faces, door: Door) {
    let limits = door.limits;
    accept(listener, door, move |stream, peer, drain| {
        // Whatever is exchanged later is for connections that come later.
        let (Tls { certificates, keeper }, faces) = (current.borrow().clone(), faces.clone());
        let now = current.clone();
        async move {
            let handshake = handshake(stream, &certificates, &keeper, &faces);
            let limit = Duration::from_secs(limits.handshake_seconds);
            // A handshake that fails or takes too long is the client's affair; there is no channel to answer on.
            let Ok(Some((stream, permit))) = tokio::time::timeout(limit, handshake).await else { return };
            let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
            let certificate =
                shown.map(|shown| CertificateAsk { fingerprint: enfilade_tls::fingerprint_of(shown) });
            // By the certificates there are when it is asked, not by those of the handshake.
            let terms = Terms(Arc::new(move |host| !permit.has_terms_of(&now.borrow().certificates, host)));
            let connection = Connection {
                peer,
                cut: Arc::new(Notify::new()),
                is_tls: true,
                last: Arc::default(),
                certificate,
                terms: Some(terms),
                splices: None,
            };
            speak(stream, is_h2, connection, faces, drain).await;
        }
    })
    .await;
}

/// Door 1 stands between the client's hello and our answer.
async fn handshake(
    stream: TcpStream,
    certificates: &Certificates,
    keeper: &Arc<Keeper>,
    faces: &Faces,
) -> Option<(tokio_rustls::server::TlsStream<TcpStream>, TlsPermit)> {
    let mut start = LazyConfigAcceptor::new(Acceptor::default(), stream).await.ok()?;
    let ask = Ask::of(&start.client_hello());
    let opened = match enfilade_tls::open(certificates, &ask) {
        Ok(permit) => keeper.config(&permit).await.map(|config| (config, permit)),
        Err(refusal) => Err(refusal),
    };
    match opened {
        Ok((config, permit)) => start.into_stream(config).await.ok().map(|stream| (stream, permit)),
        Err(refusal) => {
            // The same whatever we hold: a name nobody has, and one whose file cannot be used.
            let _ = start.io.write_all(&UNRECOGNIZED_NAME).await;
            let _ = start.io.shutdown().await;
            if !matches!(refusal, Refusal::UnknownName) {
                faces.metrics().handshake_failed();
                keeper.tell_once(&refusal);
            }
            None
        }
    }
}

/// Serves HTTP without TLS, for a proxy in front.
pub(crate) async fn plain(listener: TcpListener, faces: Faces, door: Door) {
    accept(listener, door, move |stream, peer, drain| {
        let splices = Arc::<Splices>::default();
        let connection = Connection {
            peer,
            cut: Arc::new(Notify::new()),
            is_tls: false,
            last: Arc::default(),
            certificate: None,
            terms: None,
            splices: Some(Arc::clone(&splices)),
        };
        speak(Splicing::new(stream, splices), false, connection, faces.clone(), drain)
    })
    .await;
}

/// Sends whoever speaks plain HTTP to HTTPS.
pub(crate) async fn http(listener: TcpListener, redirect: Redirect, door: Door) {
    let limits = door.limits;
    let redirect = Arc::new(redirect);
    accept(listener, door, move |stream, _, drain| {
        let redirect = Arc::clone(&redirect);
        let service = service_fn(move |request: Request<Incoming>| {
            let answer = redirect.answer(&request);
            async move { Ok::<_, Infallible>(answer) }
        });
        async move {
            let served = http1_builder(&limits).serve_connection(TokioIo::new(stream), service);
            finish(served, drain, Arc::new(Notify::new())).await;
        }
    })
    .await;
}

/// Serves metrics and health.
pub(crate) async fn operations(listener: TcpListener, faces: Faces, admission: Arc<Admission>, drain: Drain) {
    let limits = faces.limits();
    let faces_there = faces.clone();
    let door = Door { admission: Arc::default(), proxies: Arc::default(), drain, limits };
    accept(listener, door, move |stream, _, drain| {
        let faces = faces_there.clone();
        let admission = Arc::clone(&admission);
        let service = service_fn(move |request: Request<Incoming>| {
            faces.metrics().set_connections(admission.count());
            let answer = faces.answer_operations(&request);
            async move { Ok::<_, Infallible>(answer) }
        });
        async move {
            let served = http1_builder(&limits).serve_connection(TokioIo::new(stream), service);
            finish(served, drain, Arc::new(Notify::new())).await;
        }
    })
    .await;
}

async fn speak<S>(stream: S, is_h2: bool, connection: Connection, faces: Faces, drain: Drain)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (cut, limits) = (Arc::clone(&connection.cut), faces.limits());
    // Counted by this connection alone: what all count together costs each of them.
    let here = Arc::new((faces, connection));
    let service = service_fn(move |request: Request<Incoming>| {
        let here = Arc::clone(&here);
        async move {
            let (faces, connection) = &*here;
            Ok::<hyper::Response<Body>, Infallible>(faces.answer(connection.clone(), request).await)
        }
    });
    let stream = TokioIo::new(Lingering::new(stream));
    if is_h2 {
        finish(http2_builder(&limits).serve_connection(stream, service), drain, cut).await;
    } else {
        finish(http1_builder(&limits).serve_connection(stream, service), drain, cut).await;
    }
}

/// A connection that can be told to finish what runs and take no more.
trait Drainable: Future {
    fn drain(self: std::pin::Pin<&mut Self>);
}

macro_rules! drainable {
    ($module:ident, $($executor:ident)?) => {
        impl<I, S $(, $executor)?> Drainable for $module::Connection<I, S $(, $executor)?>
        where
            Self: Future,
            S: hyper::service::HttpService<Incoming, ResBody = Body>,
            S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
            I: hyper::rt::Read + hyper::rt::Write + Unpin,
            $($executor: hyper::rt::bounds::Http2ServerConnExec<S::Future, Body>,)?
        {
            fn drain(self: std::pin::Pin<&mut Self>) {
                self.graceful_shutdown();
            }
        }
    };
}
drainable!(http1,);
drainable!(http2, E);

/// Runs a connection to its end, or to where it is cut.
async fn finish(served: impl Drainable, mut drain: Drain, cut: Arc<Notify>) {
    tokio::pin!(served);
    let mut draining = false;
    loop {
        tokio::select! {
            _ = &mut served => return,
            () = cut.notified() => return,
            _ = drain.wait_for(|drain| *drain), if !draining => {
                draining = true;
                served.as_mut().drain();
            }
        }
    }
}

fn http1_builder(limits: &Limits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_secs(limits.head_seconds))
        .max_headers(limits.headers as usize)
        // The head has to fit; what is larger is 431. Bodies are read in pieces of this size.
        .max_buf_size(limits.head_bytes as usize);
    builder
}

fn http2_builder(limits: &Limits) -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams as u32)
        .max_header_list_size(limits.head_bytes as u32)
        .initial_stream_window_size(256 * 1024)
        .initial_connection_window_size(1024 * 1024)
        .max_pending_accept_reset_streams(20)
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(20));
    builder
}
