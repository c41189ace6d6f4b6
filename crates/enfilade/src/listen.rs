//! Sockets: admission, the TLS handshake, HTTP on the connection, and draining.

mod admission;
mod connection;
mod lifecycle;
mod fields;
mod heads;
mod lingering;
mod progress;
mod proxied;
mod received;
mod splicing;

pub(crate) use admission::Admission;
pub(crate) use connection::{Door, Tls, http, operations, plain, tls};
pub(crate) use proxied::Networks;

use std::net::SocketAddr;
use tokio::net::TcpListener;

/// Binds a listening socket.
pub(crate) async fn bind(what: &str, address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|why| {
        anyhow::anyhow!("cannot listen on {address} for {what}: {why}; choose another address with --listen or --ops-listen")
    })
}
