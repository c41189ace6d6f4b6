//! The code that all protocols share: routing, reading the one credential of a request, the limits of requests, and the responses to refusals.
//! Protocols do not decide whether a request is permitted. Only the five doors decide.
//!
//! Each protocol is a separate crate (`face-*`), which exports a table of routes. The modules of this crate:
//! - `routes.rs` defines a route. Each route defines whether its requests need a permit of door 2.
//! - `serve.rs` finds the route of a request. No other module imports `serve.rs`.
//! - `faces.rs` contains the state that all routes share.
//! - Only `credential.rs` reads credentials from headers.
//! - `browser.rs` and its folder contain the code for pages in browsers, such as signing in.
//! - `blocking_work.rs`, `pieces.rs` and `arriving.rs` run work that waits for the disk, send files, and receive uploads.
//! - Only `respond.rs` turns refusals into status codes (invariant E2).

mod answered_by;
mod arriving;
mod blocking_work;
mod body;
mod clock;
pub mod browser;
mod connection;
pub mod credential;
mod faces;
mod forwarded;
mod head;
mod methods;
mod metrics;
mod parent_span;
mod pass_on;
mod passed;
pub mod percent;
pub mod pieces;
mod received;
mod redirect;
mod rendered;
mod respond;
mod routes;
mod serve;
mod served_certificates;
mod spans;
mod splices;
mod trace;
mod unread;
mod request_error;

pub use arriving::Arriving;
pub use blocking_work::{CancelOnDrop, CancelToken, blocking, blocking_failure};
pub use body::{Body, Cut, Pieces, UNCOUNTED_BYTES, counted};
pub use connection::{AnonymousSlot, Connection, Handshake, Proxies, Terms, UNNAMED};
pub use faces::{Faces, ListKeys, ProveFirst, Reload, Takes};
pub use head::{Flaw, accepts_html, list};
pub use methods::METHODS;
pub use metrics::{
    AcmeState, DATASTORES_SHOWN_MAX, Disk, FileLook, FleetState, HISTORY_MINUTES, HandshakeEnd, METRICS,
    Metric, Metrics, Minute, ProcessUse, RecentRefusal, TimedDoor,
};
pub use pass_on::{Elsewhere, PassOn, Passing};
pub use passed::{Passed, PassedBody};
pub use received::{BoxError, Incoming, collect_form, collect_json, collect_message, collect_xml};
pub use redirect::{Challenge, PLAIN_HTTP, Redirect};
pub use rendered::Rendered;
pub use request_error::{CODES, Failure, RequestError, refusal_row};
pub use respond::{Aim, Answer, fail, failed, hint, status_of, status_of_member, statuses_of_code};
pub use routes::{LINKS, Reply, RequestContext, Route};
pub use serve::{Form, Router};
pub use served_certificates::{SentCertificate, ServedCertificate, ServedCertificates, SomeCertificates};
pub use spans::{DoorSpan, RequestSpans, TraceQueue};
pub use splices::{PipeSource, Sent, Splices};
pub use trace::Trace;
pub use unread::Received;
