//! Door 3: is this store there, and open for this kind of work?
//!
//! no memo: a lookup is one probe of an index; what is remembered are handles, and those are no verdicts.

mod ask;
mod view;
mod open;
mod permit;
mod refuse;
mod operation_ledger;
mod stores;

pub use ask::{Ask, Standing};
pub use open::open;
pub use operation_ledger::{
    Active, Entered, Everybody, Ledger, LedgerWords, OperationGuard, Place, Process, ledger_words,
};
pub use permit::DatastorePermit;
pub use refuse::{CODES, Refusal};
pub use stores::Stores;
pub use view::{Known, Record};
