//! The connection a request came on, and what is known of it.

use crate::splices::Splices;
use enfilade_passage::{CertificateAsk, LastVisitor};
use hyper::Request;
use hyper::header::HOST;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

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
    pub anonymous: Arc<AnonymousSlot>,
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
pub struct AnonymousSlot {
    is_known: AtomicBool,
    place: Mutex<Option<Box<dyn Send>>>,
}

impl std::fmt::Debug for AnonymousSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AnonymousSlot").field("is_known", &self.is_known).finish_non_exhaustive()
    }
}

impl AnonymousSlot {
    /// With this place.
    pub fn new(place: impl Send + 'static) -> Self {
        AnonymousSlot { is_known: AtomicBool::new(false), place: Mutex::new(Some(Box::new(place))) }
    }

    /// Somebody was let in.
    pub fn release(&self) {
        // Asked with every request, and true from the first on.
        if !self.is_known.load(Ordering::Relaxed) {
            self.is_known.store(true, Ordering::Relaxed);
            self.place.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
    }
}

impl Connection {
    /// Whether a host of the request has other terms than those this connection was made under.
    pub(crate) fn misdirects<B>(&self, request: &Request<B>) -> bool {
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
