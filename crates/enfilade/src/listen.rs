//! Sockets: admission, the TLS handshake, HTTP on the connection, and draining.

mod addresses;
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

pub(crate) use addresses::{Addresses, EXPECTED as ADDRESSES_EXPECTED};
pub(crate) use admission::Admission;
pub(crate) use connection::{Door, Tls, http, operations, plain, tls};
pub(crate) use proxied::Networks;
