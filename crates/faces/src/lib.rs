//! Outside protocols turned into doors and changes; a face decides nothing.
//!
//! `routes.rs` is the list of everything that can be asked for and whether it needs a permit; `serve.rs` is the way of a
//! request from the listener to its route, and above everything else here; `faces.rs` is what all faces share; `credential.rs` is the one place credentials are taken from; `respond.rs` is
//! the one place refusals become status codes (invariant E2).

mod routes;
mod serve;
mod head;
mod unread;
mod faces;
mod rendered;
mod connection;
mod credential;
mod respond;
mod body;
mod trace;
mod metrics;
mod received;
mod wire;
mod splices;
mod operations;
mod whoami;
mod webdav;
mod proxmox;
mod redirect;
mod keystone;

pub use body::{Body, Cut};
pub use connection::{Connection, Stranger, Terms};
pub use faces::{Faces, Reload};
pub use head::Flaw;
pub use keystone::{V3, V3Need, V3Route, wants_more_than_a_password};
pub use metrics::{FileLook, Metrics};
pub use proxmox::{PROXMOX, ProxmoxRoute};
pub use received::{BoxError, Incoming};
pub use redirect::{Challenge, Redirect};
pub use respond::Answer;
pub use routes::{MAIN, Need, OPERATIONS, Route};
pub use splices::{Sent, Splices};
