//! A connection of a client, for requests to a router in the process of the test.

use enfilade_faces::{AnonymousSlot, Connection};
use std::sync::Arc;
use tokio::sync::Notify;

/// A new connection over TLS, from the loopback address.
pub fn connection() -> Connection {
    Connection {
        peer: ([127, 0, 0, 1], 1).into(),
        cut: Arc::new(Notify::new()),
        proxies: None,
        is_https: true,
        anonymous: Arc::new(AnonymousSlot::new(())),
        last: Arc::default(),
        certificate: None,
        terms: None,
        splices: None,
        handshake: None,
    }
}
