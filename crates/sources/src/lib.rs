//! Where truths live: LMDB, memory, and tables kept in files.
//!
//! [`lmdb`] is the store every process of the machine shares, [`memory`] one for tests; both pass [`conformance`].
//! [`check`] reads a store to its last record, [`mod@copy`] takes facts out of it and back.
//! [`locks`] keeps the locks of files. [`files`] holds what people edit: `datastore.cfg`, certificates, the key of the fast hash. [`mounts`] is the kernel's
//! word on what is mounted, [`processes`] what each of the machine's servers says of itself.

pub mod check;
pub mod conformance;
pub mod copy;
pub mod files;
pub mod lmdb;
pub mod locks;
pub mod memory;
pub mod mounts;
mod mapping;
mod new_map;
mod pause;
pub mod processes;
mod shared_words;
mod turn;

#[cfg(test)]
mod scratch;
