//! The log of changes, which the members of a fleet share in etcd. docs/fleet-protocol.md describes the protocol.
//!
//! ```text
//! head       the number of the newest change, and the id of the store
//! log/<n>    an entry: the changes up to number n
//! part/<id>/<k>, large/<n>, staging/<id>   the parts of entries that are too large for one record (`parts.rs`)
//! member/<name>, invitation/<id>, files/member   the members (`membership.rs`)
//! terms/delta   how long a proof is valid (`delta.rs`)
//! sessions/sealed   the encrypted keys of sessions (`shared_keys.rs`)
//! certificate/<name>, order/<name>   the encrypted shared certificates (`shared_certificates.rs`), and the orders of certificates (`orders.rs`)
//! node/<id>, beat/<id>, applied/<id> the running processes of the members (`registration.rs`)
//! ```
//!
//! etcd stores the changes, with the contents of the records that they write, until the log is trimmed. A member first checks a change on its own
//! store. Then one transaction writes the entry and the new head, if etcd still has the head that the member knew. So the changes of all members have
//! one order, and no number is used twice.

mod delta;
mod direct;
mod entry;
mod etcd;
mod files_member;
mod log;
mod membership;
mod messages;
mod orders;
mod parts;
mod registration;
mod replica;
mod server;
mod shared_certificates;
mod shared_keys;
mod state;
mod writer;

pub use direct::{Connect, Connecting, Connection};
pub use entry::{Entry, EntryId};
pub use etcd::{Etcd, EtcdError, Tls};
pub use files_member::TellFiles;
pub use log::{DELTA, DELTA_MAX, DELTA_MIN, Head, Log, LogError};
pub use membership::{INVITATION_SECONDS, Member, Running};
pub use orders::{Answer, LastOrder, ORDER_SECONDS, Order};
pub use registration::{About, KeysDigest, Reach};
pub use replica::ReplicaError;
pub use server::{ASK_EVERY, Numbers, Server};
pub use shared_certificates::{
    CertificateSet, SHARED_CERTIFICATE_BYTES_MAX, SHARED_CERTIFICATES_MAX, SHARED_NAME_BYTES_MAX, SetId,
};
pub use shared_keys::{KeysId, SharedKeys};
pub use state::BootClock;
pub use writer::Writer;
