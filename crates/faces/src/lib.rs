//! What all protocols share: the way of a request from the listener to its route, its one credential, limits, and how refusals become
//! responses. A face decides nothing.
//!
//! Each protocol is a crate of its own (`face-*`) that exports rows of routes. `routes.rs` says what a row is and whether it needs a permit;
//! `serve.rs` leads a request to its row, and is above everything else here; `faces.rs` is what the rows share; `credential.rs` is the one place
//! credentials are taken from; `respond.rs` is the one place refusals become status codes (invariant E2).

mod body;
mod connection;
pub mod credential;
mod faces;
mod head;
mod metrics;
pub mod percent;
mod received;
mod redirect;
mod rendered;
mod respond;
mod routes;
mod serve;
mod splices;
mod trace;
mod unread;
mod request_error;

pub use body::{Body, Cut, Pieces, UNCOUNTED_BYTES, counted};
pub use connection::{AnonymousSlot, Connection, Terms};
pub use faces::{Faces, Reload, Takes};
pub use head::{Flaw, list};
pub use metrics::{FileLook, Metrics};
pub use received::{BoxError, Incoming, collect_form, collect_json, collect_xml};
pub use redirect::{Challenge, Redirect};
pub use rendered::Rendered;
pub use request_error::{Failure, RequestError};
pub use respond::{Aim, Answer, fail, failed, hint, status_of, status_of_member};
pub use routes::{Reply, RequestContext, Route};
pub use serve::Router;
pub use splices::{PipeSource, Sent, Splices};
pub use trace::Trace;
pub use unread::Received;
