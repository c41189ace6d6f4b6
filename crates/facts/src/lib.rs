//! The facts (the stored records that the doors rely on): the types of their values, their tables, and how to read and change them.
//!
//! This crate does no I/O, has no `async` and reads no clock (invariant F1 in ARCHITECTURE.md).
//! Nearly all other crates of the project depend on this crate, and this crate depends on none of them.

mod after;
mod assigned;
mod audit;
pub mod change;
pub mod clocks;
pub mod codec;
mod error;
pub mod format;
mod head;
pub mod horizon;
pub mod index;
pub mod journal;
pub mod limits;
pub mod locks;
pub mod memo;
pub mod mounts;
pub mod refusal;
mod revision;
pub mod source;
mod table;
pub mod tables;
mod tally;
pub mod view;
pub mod vocabulary;
pub mod written;

pub use after::After;
pub use audit::{AuditRecord, Requester};
pub use change::{Change, Effect, Expect, Expected};
pub use clocks::{Clocks, MirrorHealth};
pub use error::{CommitError, SourceError};
pub use horizon::{Horizon, LastMarks, Passed};
pub use index::{Index, IndexError, Indexed};
pub use locks::LockStore;
pub use memo::{Held, Memo, MemoKey, MemoSeed, Weigh, Word, WordMemo};
pub use mounts::Mounts;
pub use refusal::{Door, Fault, RefusalRow, Refuse};
pub use revision::{At, Revision, StoreId};
pub use source::{Read, Source};
pub use table::Table;
pub use tables::Row;
pub use view::{Each, Found, Snapshot, View};
pub use written::written_since;
