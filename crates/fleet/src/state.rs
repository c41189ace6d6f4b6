//! What a server knows about its copy of the facts: until when it is current, and which keys it uses.

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
    /// How many questions for the end of the log have begun.
    pub(crate) questions: AtomicU64,
    /// The number of the last question that gave a proof.
    pub(crate) proved: watch::Sender<u64>,
    /// Whether a request waits for the next question.
    pub(crate) wanted: Notify,
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

    /// A question begins. Returns its number.
    pub(crate) fn begin_question(&self) -> u64 {
        // A request that begins after this one must wait for the next question, so the number changes before the question is sent.
        self.questions.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// A question that was asked at this time gave a proof.
    pub(crate) fn prove(&self, question: u64, asked: u64) {
        self.proven.store(asked, Ordering::Release);
        self.proved.send_replace(question);
    }

    /// Waits for the proof of a question that has not begun yet. `false` if there is none within Δ.
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

    /// Whether the proof counts now.
    pub(crate) fn is_current(&self, clock: BootClock) -> bool {
        let proven = self.proven.load(Ordering::Acquire);
        proven != 0 && clock().saturating_sub(proven) < self.delta
    }
}
