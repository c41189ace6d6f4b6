//! The connection of a request.

use crate::splices::Splices;
use enfilade_passage::{CertificateAsk, LastVisitor};
use hyper::Request;
use hyper::header::HOST;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::sync::Notify;

/// A placeholder for the address of a peer at a Unix socket. The server uses the placeholder until it has read the client's address from the headers
/// of a request. No client has this address. If the headers do not contain the client's address, the request is refused.
pub const UNNAMED: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// The connection of a request.
#[derive(Clone, Debug)]
pub struct Connection {
    /// The address of the client. A trusted proxy reports the address of its client; any other peer is itself the client. Port 0 means that the port
    /// is not known.
    pub peer: SocketAddr,
    /// Determines which addresses are trusted proxies. `None` if the peer is not a trusted proxy.
    pub proxies: Option<Proxies>,
    /// Notified when the connection must be closed at once: a response was cut short and the client does not read.
    pub cut: Arc<Notify>,
    /// Whether the client's URLs begin with `https`: the connection uses TLS, or a trusted proxy reports `https`.
    pub is_https: bool,
    /// The slot of this connection in the limit of connections that have sent no authenticated request yet.
    pub anonymous: Arc<AnonymousSlot>,
    /// The visitor of the last request on this connection.
    pub last: Arc<LastVisitor>,
    /// The certificate of the client from the TLS handshake.
    pub certificate: Option<CertificateAsk>,
    /// Determines which hosts have another TLS policy than this connection. A request for such a host needs another connection.
    pub terms: Option<Terms>,
    /// The files that the kernel sends on this connection; `None` with TLS.
    pub splices: Option<Arc<Splices>>,
    /// The time of the TLS handshake; `None` without TLS.
    pub handshake: Option<Arc<Handshake>>,
}

/// The start and the end of the TLS handshake of a connection. They belong to the trace of the first request of the connection, if this request has a
/// trace.
#[derive(Debug)]
pub struct Handshake(Mutex<Option<(Instant, Instant)>>);

impl Handshake {
    /// A handshake that has ended.
    pub fn new(began: Instant, ended: Instant) -> Self {
        Handshake(Mutex::new(Some((began, ended))))
    }

    /// The start and the end; `None` if they were taken before.
    pub(crate) fn take(&self) -> Option<(Instant, Instant)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Compares TLS policies. The function returns whether the policy of a host differs from the policy of the connection. For example, a host can
/// require a client certificate that the handshake of the connection did not request (RFC 9110 §15.5.20).
#[derive(Clone)]
pub struct Terms(pub Arc<dyn Fn(&str) -> bool + Send + Sync>);

impl std::fmt::Debug for Terms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Terms")
    }
}

/// A function that returns whether an address is the address of a trusted proxy.
#[derive(Clone)]
pub struct Proxies(pub Arc<dyn Fn(IpAddr) -> bool + Send + Sync>);

impl std::fmt::Debug for Proxies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Proxies")
    }
}

/// The slot of a connection in the limit of connections that have sent no authenticated request yet. The first request with a credential that door 2
/// accepts frees the slot.
pub struct AnonymousSlot {
    is_released: AtomicBool,
    slot: Mutex<Option<Box<dyn Send>>>,
}

impl std::fmt::Debug for AnonymousSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AnonymousSlot").field("is_released", &self.is_released).finish_non_exhaustive()
    }
}

impl AnonymousSlot {
    /// Holds the value `slot`; dropping the value frees the slot.
    pub fn new(slot: impl Send + 'static) -> Self {
        AnonymousSlot { is_released: AtomicBool::new(false), slot: Mutex::new(Some(Box::new(slot))) }
    }

    /// Frees the slot after a request was admitted.
    pub fn release(&self) {
        // This function is called for every admitted request. Usually only the first call locks the mutex.
        if !self.is_released.load(Ordering::Relaxed) {
            self.is_released.store(true, Ordering::Relaxed);
            self.slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
    }
}

impl Connection {
    /// The address of the client, for the log.
    pub(crate) fn client(&self) -> String {
        match self.peer.port() {
            _ if self.peer == UNNAMED => "unix".to_owned(),
            0 => self.peer.ip().to_string(),
            _ => self.peer.to_string(),
        }
    }

    /// Whether the request is for a host with another TLS policy than this connection.
    pub(crate) fn misdirects<B>(&self, request: &Request<B>) -> bool {
        let Some(Terms(has_others)) = &self.terms else { return false };
        let in_target = request.uri().host().into_iter();
        // A `Host` value that is not text is treated as an empty host name.
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
