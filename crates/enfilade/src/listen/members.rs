//! The listener for the other members of the fleet, which pass on requests of their clients, and report which changes they have applied.

use super::connection::{Door, accept, speak};
use super::sockets::Stream;
use crate::output;
use crate::passing::{Peers, end_when_silent, gone};
use enfilade_faces::{Connection, HandshakeEnd, Proxies, Router};
use enfilade_fleet::Server;
use enfilade_tls::{Fingerprint, MemberProtocol};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

/// How long a new connection may wait until this server has learned from etcd that the connecting process is registered. A process registers before
/// it connects.
const KNOWN: Duration = Duration::from_secs(3);

/// Serves registered processes of other members. A connection ends when its process is not registered any more.
pub(crate) async fn members(
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    peers: watch::Receiver<Peers>,
    server: Arc<Server>,
    router: Router,
    door: Door,
) {
    let limit = Duration::from_secs(door.limits.handshake_seconds);
    let acceptor = TlsAcceptor::from(tls);
    accept(listener, door, move |stream, turn, mut drain| {
        let (acceptor, router, peers) = (acceptor.clone(), router.clone(), peers.clone());
        let server = Arc::clone(&server);
        async move {
            let Stream::Tcp(stream, peer) = stream else { return };
            if end_when_silent(&stream).is_err() {
                return;
            }
            let shaken = tokio::time::timeout(limit, acceptor.accept(stream)).await;
            // After a failed or slow handshake, the server cannot send a response.
            let Ok(Ok(stream)) = shaken else { return };
            let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
            let Some(certificate) = shown.map(enfilade_tls::fingerprint_of) else { return };
            if !is_known(peers.clone(), certificate).await {
                let count = router.faces().metrics().handshake_failed(HandshakeEnd::Member) + 1;
                if count.is_power_of_two() {
                    output::note(&format!(
                        "warning: a connection from {} to `fleet.listen` was closed: the program that connected is not a running server of this fleet",
                        peer.ip()
                    ));
                }
                return;
            }
            turn.client.goes_on();
            turn.anonymous.release();
            if stream.get_ref().1.alpn_protocol() == Some(MemberProtocol::Reports.name()) {
                let Some(process) = peers.borrow().process(&certificate) else { return };
                return tokio::select! {
                    () = server.hear(&process, stream) => {}
                    () = gone(peers, certificate) => {}
                    _ = drain.wait_for(|drain| *drain) => {}
                };
            }
            let connection = Connection {
                peer,
                cut: Arc::new(Notify::new()),
                // The other member reports the address of its client. So it is trusted like a proxy.
                proxies: Some(Proxies(Arc::new(move |address| address == peer.ip()))),
                is_https: true,
                anonymous: Arc::new(turn.anonymous),
                last: Arc::default(),
                certificate: None,
                terms: None,
                splices: None,
                handshake: None,
            };
            tokio::select! {
                () = speak(stream, false, connection, turn.client, router, drain) => {}
                () = gone(peers, certificate) => {}
            }
        }
    })
    .await;
}

/// Whether a registered process has this certificate.
async fn is_known(mut peers: watch::Receiver<Peers>, certificate: Fingerprint) -> bool {
    let known = peers.wait_for(|peers| peers.hold(&certificate));
    tokio::time::timeout(KNOWN, known).await.is_ok_and(|known| known.is_ok())
}
