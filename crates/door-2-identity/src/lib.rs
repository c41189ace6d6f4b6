//! Door 2: who is this?

mod permit;
mod principal;

pub use permit::IdentityPermit;
pub use principal::{Principal, SetId, Sets};
