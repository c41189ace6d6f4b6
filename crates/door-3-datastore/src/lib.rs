//! Door 3: does the datastore exist, and is it open for this kind of operation?
//!
//! This door has no memo: a single probe of an index is enough for a lookup. The index also contains a handle for each datastore, for example its
//! open root directory. A handle does not say whether the datastore is open for an operation.

mod ask;
mod view;
mod open;
mod permit;
mod fleet_place;
mod refuse;
mod operation_ledger;
mod stores;

pub use ask::{Ask, Phase};
pub use fleet_place::{FilesMember, FleetPlace, UNKNOWN};
pub use open::open;
pub use operation_ledger::{
    Active, Entered, Everybody, Ledger, LedgerSlot, LedgerWords, OperationGuard, Process, ledger_words,
};
pub use permit::DatastorePermit;
pub use refuse::{CODES, Refusal};
pub use stores::Stores;
pub use view::{Known, Record};
