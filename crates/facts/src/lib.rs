//! What can be true: the vocabulary, the tables, and how to look at and change them.
//!
//! This crate does no I/O, has no `async` and reads no clock (invariant F1).
//! Everything else in the house depends on it, and it depends on nothing of the house.

pub mod change;
pub mod codec;
pub mod format;
pub mod horizon;
pub mod index;
pub mod journal;
pub mod limits;
pub mod locks;
pub mod memo;
pub mod mounts;
pub mod now;
pub mod refusal;
pub mod source;
pub mod tables;
pub mod view;
pub mod vocabulary;
pub mod written;

pub use change::{AuditRecord, Change, Expect, Expected, Requester};
pub use horizon::{Horizon, LastMarks, Passed};
pub use index::{Index, IndexError, Indexed};
pub use locks::LockStore;
pub use memo::{Held, Memo, MemoKey, MemoSeed, Weigh, Word, WordMemo};
pub use mounts::Mounts;
pub use now::Now;
pub use refusal::{Door, Fault, Refuse};
pub use source::{At, CommitError, Read, Revision, Source, SourceError, StoreId};
pub use tables::{Row, Table};
pub use view::{Each, Found, Snapshot, View};
pub use written::written_since;
