//! What a server knows about its copy of the facts: until when it is current, and which keys it uses.

use crate::files_member::FilesMember;
use crate::log::Head;
use crate::registration::KeysDigest;
use crate::replica::ReplicaError;
use crate::shared_keys::KeysId;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Thread;

/// The clock of proofs: milliseconds since the machine started, also while it slept (CLOCK_BOOTTIME). The clock of a paused virtual machine can stand
/// still; docs/fleet-protocol.md says what follows.
pub type BootClock = fn() -> u64;

/// What the thread of a server says about the copy, and what the server asks of it.
#[derive(Default)]
pub(crate) struct State {
    /// How long a proof counts (Δ), in milliseconds.
    pub(crate) delta: u64,
    /// When the member asked for the head that it has applied, in milliseconds of the [`BootClock`]; 0 before the first time and after the end.
    pub(crate) proven: AtomicU64,
    /// The newest known end of the log.
    pub(crate) head: Mutex<Option<Head>>,
    /// The last proof that said that a process follows the edited files, in milliseconds of the [`BootClock`]; 0 if none did.
    pub(crate) files_followed: AtomicU64,
    /// Whether this process follows the edited files.
    pub(crate) follows_files: AtomicBool,
    /// The member whose edited files are followed, as the last proof said.
    pub(crate) files: FilesMember,
    /// The keys of sessions that this process uses.
    pub(crate) keys: Mutex<UsedKeys>,
    pub(crate) refused: AtomicU64,
    pub(crate) acknowledged: AtomicU64,
    pub(crate) acknowledged_millis: AtomicU64,
    /// Why the copy is not current.
    pub(crate) why: Mutex<Option<ReplicaError>>,
}

/// The keys of sessions that a process uses.
#[derive(Clone, Default)]
pub(crate) struct UsedKeys {
    /// The keys of the fleet that it has got.
    pub(crate) shared: Option<KeysId>,
    /// A digest of the keys, to compare servers.
    pub(crate) digest: Option<KeysDigest>,
    /// The newest keys of the fleet.
    pub(crate) newest: Option<KeysId>,
    /// The thread that gets new keys.
    pub(crate) getter: Option<Thread>,
}

impl State {
    pub(crate) fn head(&self) -> Option<Head> {
        *self.head.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the newest end of the log. An answer can be older than what the watch reported.
    pub(crate) fn set_head(&self, head: Head) {
        let mut known = self.head.lock().unwrap_or_else(PoisonError::into_inner);
        if known.is_none_or(|known| known.at.revision <= head.at.revision) {
            *known = Some(head);
        }
    }

    pub(crate) fn keys(&self) -> MutexGuard<'_, UsedKeys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the proof counts now.
    pub(crate) fn is_current(&self, clock: BootClock) -> bool {
        let proven = self.proven.load(Ordering::Acquire);
        proven != 0 && clock().saturating_sub(proven) < self.delta
    }
}
