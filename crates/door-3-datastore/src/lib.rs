//! Door 3: is this store there, and open for this kind of work?
//!
//! no memo: a lookup is one record; what will be remembered are handles, and those are no verdicts.

mod ask;
mod view;
mod open;
mod permit;
mod refuse;
mod operation_ledger;

pub use ask::{Ask, Standing};
pub use open::open;
pub use operation_ledger::{Active, Ledger, OperationGuard};
pub use permit::DatastorePermit;
pub use refuse::{CODES, Refusal};
