//! The sockets of the server: admission, the TLS handshake, HTTP on the connection, and the end of
//! connections at a stop.

mod addresses;
mod admission;
mod client_progress;
mod connection;
mod lifecycle;
mod fields;
mod heads;
mod huffman;
mod lingering;
mod members;
mod progress;
mod proxied;
mod received;
mod socket_file;
mod sockets;
mod splicing;
mod trusted;

pub(crate) use addresses::{Addresses, PlainAddresses};
pub(crate) use admission::Admission;
pub(crate) use connection::{Door, Tls, decisions, http, operations, plain, tls};
pub(crate) use members::members;
pub(crate) use proxied::Networks;
pub(crate) use sockets::{Listener, Place};
pub(crate) use trusted::Trusted;
