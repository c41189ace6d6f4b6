//! Where slow hashes are computed: few at a time, each once however many ask, never on an async worker.

use enfilade_facts::MemoKey;
use enfilade_facts::limits::{HASH_QUEUE_PER_SLOT, HASH_WAIT_MILLIS_MAX};
use enfilade_identity::{Outcome, Refusal, Work};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, watch};

/// Still running, or what came of it; `None` inside means it never got a slot.
type Progress = Option<Option<Outcome>>;

/// Bounded slots, a bounded queue, one computation per key.
pub struct HashGate {
    shared: Arc<Shared>,
}

struct Shared {
    slots: Semaphore,
    queue_max: usize,
    queued: AtomicUsize,
    running: Mutex<HashMap<MemoKey, watch::Receiver<Progress>>>,
    computed: AtomicU64,
    shared: AtomicU64,
    turned_away: AtomicU64,
}

/// What the gate has done since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GateCounts {
    /// Hashes computed.
    pub computed: u64,
    /// Requests that shared a computation somebody else had started.
    pub shared: u64,
    /// Requests refused because the queue was full or the wait too long.
    pub turned_away: u64,
}

impl HashGate {
    /// With this many slots, at least one.
    pub fn new(slots: usize) -> Self {
        let slots = slots.max(1);
        HashGate {
            shared: Arc::new(Shared {
                slots: Semaphore::new(slots),
                queue_max: slots * HASH_QUEUE_PER_SLOT,
                queued: AtomicUsize::new(0),
                running: Mutex::default(),
                computed: AtomicU64::new(0),
                shared: AtomicU64::new(0),
                turned_away: AtomicU64::new(0),
            }),
        }
    }

    /// What it has done.
    pub fn counts(&self) -> GateCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        GateCounts {
            computed: read(&self.shared.computed),
            shared: read(&self.shared.shared),
            turned_away: read(&self.shared.turned_away),
        }
    }

    /// Has the work done, by whoever does it.
    ///
    /// # Errors
    /// [`Refusal::Busy`] when there was no slot in time.
    pub async fn run(&self, work: Box<Work>) -> Result<Outcome, Refusal> {
        let mut progress = self.join(work)?;
        let done = progress.wait_for(Option::is_some).await.ok().and_then(|done| (*done).flatten());
        done.ok_or_else(|| {
            self.shared.turned_away.fetch_add(1, Ordering::Relaxed);
            Refusal::Busy
        })
    }

    /// Joins a computation under way, or starts one.
    fn join(&self, work: Box<Work>) -> Result<watch::Receiver<Progress>, Refusal> {
        let mut running = self.shared.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(progress) = running.get(&work.key()) {
            self.shared.shared.fetch_add(1, Ordering::Relaxed);
            return Ok(progress.clone());
        }
        // Counted in here, under the lock, so that a burst cannot slip past the bound before its tasks run.
        if self.shared.queued.load(Ordering::Relaxed) >= self.shared.queue_max {
            self.shared.turned_away.fetch_add(1, Ordering::Relaxed);
            return Err(Refusal::Busy);
        }
        self.shared.queued.fetch_add(1, Ordering::Relaxed);
        let (sender, progress) = watch::channel(None);
        running.insert(work.key(), progress.clone());
        drop(running);
        // A task of its own: when one of those who wait goes away, the others still get their answer.
        tokio::spawn(compute(Arc::clone(&self.shared), work, sender));
        Ok(progress)
    }
}

async fn compute(shared: Arc<Shared>, work: Box<Work>, sender: watch::Sender<Progress>) {
    let key = work.key();
    let slot =
        tokio::time::timeout(Duration::from_millis(HASH_WAIT_MILLIS_MAX), shared.slots.acquire()).await;
    shared.queued.fetch_sub(1, Ordering::Relaxed);
    let outcome = match slot {
        Ok(Ok(_slot)) => {
            shared.computed.fetch_add(1, Ordering::Relaxed);
            tokio::task::spawn_blocking(move || work.run()).await.ok()
        }
        _ => None,
    };
    shared.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
    // Nobody may be waiting any more; that is fine.
    let _ = sender.send(Some(outcome));
}
