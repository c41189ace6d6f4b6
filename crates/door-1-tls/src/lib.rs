//! Door 1: which certificate answers this name?
//!
//! no memo: the answer is one look into an index that was built when the certificates were read.

mod ask;
mod leaf;
mod view;
mod open;
mod permit;
mod refuse;
mod certificate;
mod serve;

pub use ask::Ask;
pub use certificate::{BadCertificate, Certificate};
pub use leaf::{Algorithm, Leaf, Room};
pub use open::open;
pub use permit::TlsPermit;
pub use refuse::{CODES, Refusal};
pub use serve::server_config;
pub use view::Certificates;
