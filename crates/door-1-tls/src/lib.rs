//! Door 1: which certificate answers this name?
//!
//! Read in this order: what a hello asks for ([`Ask`]), what there is to choose from ([`Certificates`]), the decision ([`open`]), what it
//! grants ([`TlsPermit`]) or says instead ([`Refusal`]), and what is kept of files that were needed ([`KeyMemo`]). Of a file nothing is
//! known before that but its [`Leaf`]; its key stays on the disk until somebody comes for one of its names.
//!
//! Under which terms a name is served is its [`Policy`], which a [`CrtList`] may say; [`Tickets`] are good under the one they were given
//! under.

mod ask;
mod view;
mod open;
mod permit;
mod refuse;
mod memo;
mod leaf;
mod bundle;
mod issuers;
mod ocsp;
mod ready;
mod serve;
mod policy;
mod tickets;
mod fingerprint;
mod crt_list;

pub use ask::Ask;
pub use bundle::{Bundle, Parts};
pub use crt_list::{CrtList, Line, Options, Verify};
pub use fingerprint::{fingerprint, of as fingerprint_of};
pub use issuers::Issuers;
pub use leaf::{Algorithm, Leaf, Room};
pub use memo::KeyMemo;
pub use open::open;
pub use permit::TlsPermit;
pub use policy::Policy;
pub use ready::Ready;
pub use refuse::{CODES, Refusal};
pub use serve::UNRECOGNIZED_NAME;
pub use tickets::{TICKET_SECONDS, TicketKey, TicketKeyId, Tickets};
pub use view::{CertificateFile, Certificates, Digest, DigestedLeaf, FileChange, Match, Rules};
