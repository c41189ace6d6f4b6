//! Door 1: which certificate answers this name?
//!
//! Read in this order: what a hello asks for ([`Ask`]), what there is to choose from ([`Certificates`]), the decision ([`open`]), what it
//! grants ([`TlsPermit`]) or says instead ([`Refusal`]), and what is kept of files that were needed ([`KeyMemo`]). Of a file nothing is
//! known before that but its [`Leaf`]; its key stays on the disk until somebody comes for one of its names.

mod ask;
mod view;
mod open;
mod permit;
mod refuse;
mod memo;
mod leaf;
mod bundle;
mod serve;

pub use ask::Ask;
pub use bundle::Bundle;
pub use leaf::{Algorithm, Leaf, Room};
pub use memo::KeyMemo;
pub use open::open;
pub use permit::TlsPermit;
pub use refuse::{CODES, Refusal};
pub use serve::{Ready, Terms, UNRECOGNIZED_NAME};
pub use view::{CertificateFile, Certificates, Digest, FileChange, Match, Rules};
