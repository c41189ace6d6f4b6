//! The state that a server shares with its thread (`server.rs`): the proof that the copy of the facts is current, and the keys of sessions that the
//! process uses.

use crate::files_member::FilesMember;
use crate::log::Head;
use crate::registration::KeysDigest;
use crate::replica::ReplicaError;
use crate::shared_keys::KeysId;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// The clock of proofs: milliseconds since the machine started, including the time in which the machine slept (CLOCK_BOOTTIME). The clock of a paused
/// virtual machine can stand still; docs/fleet-protocol.md describes the consequences.
pub type BootClock = fn() -> u64;

/// The data that the thread of a server reports about the copy of the facts, and the requests of the server to the thread.
#[derive(Default)]
pub(crate) struct State {
    /// How long a proof is valid (Δ), in milliseconds.
    pub(crate) delta: u64,
    /// The time of the proof, in milliseconds of the [`BootClock`]: at this time, the member asked for the newest head of the log. Since then, the
    /// member has applied the log up to this head. The value is 0 before the first proof, and after this process has ended its registration.
    pub(crate) proven: AtomicU64,
    /// How many times the member has begun to ask etcd for the end of the log.
    pub(crate) questions: AtomicU64,
    /// The number of the last question that resulted in a proof.
    pub(crate) proved: watch::Sender<u64>,
    /// Notified when a request waits for the next question.
    pub(crate) wanted: Notify,
    /// The newest known end of the log.
    pub(crate) head: Mutex<Option<Head>>,
    /// The time of the last question to which etcd answered that a process follows the edited files. In milliseconds of the [`BootClock`]; 0 if
    /// etcd has never answered this.
    pub(crate) files_followed: AtomicU64,
    /// Whether this process follows the edited files.
    pub(crate) follows_files: AtomicBool,
    /// The files member, as the last proof reported it.
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
    /// The identifier of the keys of the fleet that the process uses.
    pub(crate) shared: Option<KeysId>,
    /// A digest of the keys, with which the keys of two servers can be compared.
    pub(crate) digest: Option<KeysDigest>,
    /// The newest keys of the fleet.
    pub(crate) newest: Option<KeysId>,
    /// The thread that fetches new keys. It is unparked when there are new keys.
    pub(crate) getter: Option<Thread>,
}

impl State {
    pub(crate) fn head(&self) -> Option<Head> {
        *self.head.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the end of the log, unless a newer end is already stored: an answer of etcd can be older than the end that the watch reported.
    pub(crate) fn set_head(&self, head: Head) {
        let mut known = self.head.lock().unwrap_or_else(PoisonError::into_inner);
        if known.is_none_or(|known| known.at.revision <= head.at.revision) {
            *known = Some(head);
        }
    }

    /// Begins a question, and returns its number.
    pub(crate) fn begin_question(&self) -> u64 {
        // The number is increased before the question is sent, because a request that begins later must wait for the next question.
        self.questions.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Records that a question resulted in a proof. The question was asked at the time `asked`.
    pub(crate) fn prove(&self, question: u64, asked: u64) {
        self.proven.store(asked, Ordering::Release);
        self.proved.send_replace(question);
    }

    /// Waits for the proof of a question that has not begun yet. Returns `false` if there is no such proof within Δ.
    pub(crate) async fn is_proved_anew(&self) -> bool {
        let question = self.questions.load(Ordering::SeqCst) + 1;
        let mut proved = self.proved.subscribe();
        self.wanted.notify_one();
        let proved = proved.wait_for(|last| question <= *last);
        tokio::time::timeout(Duration::from_millis(self.delta), proved).await.is_ok_and(|last| last.is_ok())
    }

    pub(crate) fn keys(&self) -> MutexGuard<'_, UsedKeys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the proof is still valid: less than Δ has passed since the time of the proof.
    pub(crate) fn is_current(&self, clock: BootClock) -> bool {
        let proven = self.proven.load(Ordering::Acquire);
        proven != 0 && clock().saturating_sub(proven) < self.delta
    }
}
