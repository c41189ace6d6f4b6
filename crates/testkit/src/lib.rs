//! For tests only: worlds in the form of text, a fixed clock, and a server in the process of the test.
//!
//! A world lists facts, and questions with their expected answers:
//!
//! ```text
//! user alice@local
//! group staff
//! member staff alice@local
//! datastore tank
//! role DatastorePowerUser @staff /datastore/tank
//! dir /docs
//! acl /docs allow @staff read inherit=files,dirs
//! file /docs/a.txt
//! ask alice@local read /docs/a.txt -> permit
//! ask bob@local read /docs/a.txt -> AC01
//! ```
//! The path of a file or directory is in the datastore that was named last. Every line `ask` makes a request to the real passage, on real files.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "it fails tests by panicking")]

pub mod authenticator;
mod clock;
mod connection;
mod context;
mod counted;
mod delegated;
mod etcd;
mod house;
mod ports;
mod relay;
mod samba;
pub mod search;
pub mod second_reader;
mod world;

pub use clock::FixedClock;
pub use connection::connection;
pub use context::change_context;
pub use counted::{Counted, CountedFacts};
pub use delegated::{cloud_credential, cloud_trust, new_application_credential, new_trust};
pub use etcd::{Etcd, TlsFiles};
pub use house::{CHEAP_HASH, Remembering, Scratch, TestHouse, allow_issue, hash_key, parts_at};
pub use ports::free_port;
pub use relay::{Direction, Relay};
pub use samba::{Samba, SambaUser};
pub use world::run_world;
