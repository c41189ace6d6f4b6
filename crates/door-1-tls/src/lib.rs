//! The first door, TLS: which certificate does the server present for a server name?
//!
//! Read this crate in this order: the question of a ClientHello ([`Ask`]), the certificates ([`Certificates`]), the decision ([`open`]), the results
//! of the decision ([`TlsPermit`] and [`Refusal`]), and the memo of parsed keys ([`KeyMemo`]). Until a handshake needs a certificate file, the server
//! has only fields of the file's [`Leaf`] in memory, and the private key stays on the disk.
//!
//! The [`Policy`] of a name determines the protocol versions, ciphers and client certificates of connections to the name. A line of a [`CrtList`] can
//! set another policy for a name. [`Tickets`] are valid only under the policy under which they were issued.

mod ask;
mod parts;
mod view;
mod open;
mod permit;
mod refuse;
mod memo;
mod leaf;
mod pem_blocks;
mod bundle;
mod encrypted;
mod pkcs12;
mod pieces;
mod chain;
mod issuers;
mod ocsp;
mod ready;
mod serve;
mod policy;
mod client_verifier;
mod revocation_list;
mod tickets;
mod fingerprint;
mod members;
mod crt_list;

pub use ask::Ask;
pub use bundle::{Bundle, Parts, WITHOUT_KEY};
pub use crt_list::{CrtList, Line, Options, Verify};
pub use fingerprint::{fingerprint, of as fingerprint_of};
pub use issuers::{Issuers, is_issued_by};
pub use leaf::{Algorithm, Leaf, Room};
pub use members::{Fingerprint, MemberProtocol, MemberTls};
pub use memo::KeyMemo;
pub use open::open;
pub use permit::TlsPermit;
pub use pieces::{Joined, PieceError, Pieces};
pub use policy::Policy;
pub use ready::Ready;
pub use refuse::{CODES, Refusal};
pub use serve::UNRECOGNIZED_NAME;
pub use tickets::{TICKET_SECONDS, TicketKey, TicketKeyId, Tickets};
pub use view::{CertificateFile, Certificates, Digest, DigestedLeaf, FileChange, Match, Rules};
