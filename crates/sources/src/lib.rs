//! Sources of facts: LMDB, memory, and files that people edit.
//!
//! [`lmdb`] is the store that all processes of the machine share, and [`memory`] is a store for tests. Both pass the tests in [`conformance`].
//! [`check`] reads every record of a store. [`mod@copy`] exports and imports facts. [`backup`] writes and reads backups of a whole data directory.
//! [`locks`] stores the WebDAV locks of files. [`files`] reads `datastore.cfg`, certificates, keys and other files. [`mounts`] reads the mounted file
//! systems from the kernel. [`processes`] finds the running servers of the machine. [`support`] writes archives for the maintainers. `structure`
//! checks an LMDB file before it is opened. `faults` ends the process with a message if LMDB causes a fatal signal.

pub mod backup;
pub mod check;
pub mod conformance;
pub mod copy;
mod faults;
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
mod structure;
pub mod support;
mod turn;

#[cfg(test)]
mod scratch;
