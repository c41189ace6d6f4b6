//! Where slow hashes are computed: few at a time, each once however many ask, never on an async worker.
//!
//! Who waits is bounded, and so is how long. When more come than can wait, those go whose address failed most lately; of
//! one address one hash is computed at a time. So a flood of guesses waits for itself, and not everybody for the flood.

use enfilade_facts::MemoKey;
use enfilade_facts::limits::{HASH_QUEUE_PER_SLOT, HASH_WAIT_MILLIS_MAX};
use enfilade_identity::{Outcome, Refusal, Work};
use std::collections::HashMap;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// What is known of a computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Waiting,
    Running,
    Done(Outcome),
    /// It never got a slot, or did not end well.
    Dropped,
}

/// Somebody at the gate.
#[derive(Clone, Copy, Debug)]
pub struct Asker {
    /// Where from.
    pub from: IpAddr,
    /// How often that address failed lately: who failed less goes first.
    pub failures: u32,
}

/// Bounded slots, a bounded queue, one computation per key. Its threads end when it is dropped.
pub struct HashGate {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    computed: AtomicU64,
    shared: AtomicU64,
    turned_away: AtomicU64,
}

#[derive(Default)]
struct State {
    queue: Vec<Job>,
    /// Every computation that waits or runs.
    known: HashMap<MemoKey, watch::Sender<Progress>>,
    /// Addresses one of whose hashes is being computed.
    running: Vec<IpAddr>,
    order: u64,
    /// How many threads there should be, and how many there are. None should be once the gate is closed.
    slots: usize,
    threads: usize,
}

struct Job {
    work: Box<Work>,
    asker: Asker,
    order: u64,
    progress: watch::Sender<Progress>,
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
    /// With this many slots, at least one: a thread each.
    pub fn new(slots: usize) -> Self {
        let gate = HashGate {
            shared: Arc::new(Shared {
                state: Mutex::default(),
                changed: Condvar::new(),
                computed: AtomicU64::new(0),
                shared: AtomicU64::new(0),
                turned_away: AtomicU64::new(0),
            }),
        };
        gate.set_slots(slots);
        gate
    }

    /// From now on with this many slots, at least one. What is being computed is computed to its end.
    pub fn set_slots(&self, slots: usize) {
        let mut state = self.shared.state();
        state.slots = slots.max(1);
        while state.threads < state.slots {
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new().name("hash".into()).spawn(move || shared.work());
            // Without a thread everybody is turned away, which is no worse than a gate that is always full.
            if thread.is_err() {
                break;
            }
            state.threads += 1;
        }
        self.shared.changed.notify_all();
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
    pub async fn run(&self, work: Box<Work>, asker: Asker) -> Result<Outcome, Refusal> {
        let outcome = match self.shared.join(work, asker) {
            Some(progress) => outcome(progress).await,
            None => None,
        };
        outcome.ok_or_else(|| {
            self.shared.turned_away.fetch_add(1, Ordering::Relaxed);
            Refusal::Busy
        })
    }
}

impl Drop for HashGate {
    fn drop(&mut self) {
        self.shared.state().slots = 0;
        self.shared.changed.notify_all();
    }
}

/// Waits a while for a slot, and then for as long as the hash takes.
async fn outcome(mut progress: watch::Receiver<Progress>) -> Option<Outcome> {
    let wait = Duration::from_millis(HASH_WAIT_MILLIS_MAX);
    let begun = progress.wait_for(|progress| *progress != Progress::Waiting);
    tokio::time::timeout(wait, begun).await.ok()?.ok()?;
    let done = progress.wait_for(|progress| !matches!(progress, Progress::Waiting | Progress::Running)).await;
    match *done.ok()? {
        Progress::Done(outcome) => Some(outcome),
        _ => None,
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Joins a computation under way, or queues one; nothing when there is no room.
    fn join(&self, work: Box<Work>, asker: Asker) -> Option<watch::Receiver<Progress>> {
        let mut state = self.state();
        if let Some(progress) = state.known.get(&work.key()) {
            self.shared.fetch_add(1, Ordering::Relaxed);
            return Some(progress.subscribe());
        }
        state.forget_abandoned();
        if state.slots * HASH_QUEUE_PER_SLOT <= state.queue.len() && !state.make_room(asker.failures) {
            return None;
        }
        let (progress, receiver) = watch::channel(Progress::Waiting);
        state.known.insert(work.key(), progress.clone());
        state.order += 1;
        let order = state.order;
        state.queue.push(Job { work, asker, order, progress });
        self.changed.notify_one();
        Some(receiver)
    }

    /// One slot: computes what is queued until there are fewer slots than threads.
    fn work(&self) {
        let mut state = self.state();
        loop {
            let job = loop {
                if state.threads > state.slots {
                    state.threads -= 1;
                    return;
                }
                match state.next() {
                    Some(job) => break job,
                    None => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                }
            };
            state.running.push(job.asker.from);
            job.progress.send_replace(Progress::Running);
            drop(state);
            self.computed.fetch_add(1, Ordering::Relaxed);
            // A library that panics on somebody's hash refuses that one; the slot is needed for the others.
            let outcome = catch_unwind(AssertUnwindSafe(|| job.work.run()));
            state = self.state();
            if let Some(at) = state.running.iter().position(|from| *from == job.asker.from) {
                state.running.swap_remove(at);
            }
            state.known.remove(&job.work.key());
            job.progress.send_replace(outcome.map_or(Progress::Dropped, Progress::Done));
            self.changed.notify_all();
        }
    }
}

impl State {
    /// Those nobody waits for any more.
    fn forget_abandoned(&mut self) {
        let known = &mut self.known;
        self.queue.retain(|job| {
            let is_wanted = !job.progress.is_closed();
            if !is_wanted {
                known.remove(&job.work.key());
            }
            is_wanted
        });
    }

    /// Sends away whoever failed most, if that is more than so often; of those the last one.
    fn make_room(&mut self, failures: u32) -> bool {
        let worst = (0..self.queue.len())
            .max_by_key(|at| self.queue.get(*at).map(|job| (job.asker.failures, job.order)));
        let is_worse = |job: &Job| job.asker.failures > failures;
        let Some(at) = worst.filter(|at| self.queue.get(*at).is_some_and(is_worse)) else { return false };
        let job = self.queue.swap_remove(at);
        self.known.remove(&job.work.key());
        job.progress.send_replace(Progress::Dropped);
        true
    }

    /// Whoever failed least and came first, of addresses none of whose hashes is being computed.
    fn next(&mut self) -> Option<Job> {
        self.forget_abandoned();
        let free = |job: &Job| !self.running.contains(&job.asker.from);
        let at = (0..self.queue.len())
            .filter(|at| self.queue.get(*at).is_some_and(free))
            .min_by_key(|at| self.queue.get(*at).map(|job| (job.asker.failures, job.order)))?;
        Some(self.queue.swap_remove(at))
    }
}

#[cfg(test)]
mod tests {
    use super::HashGate;

    #[test]
    fn there_are_as_many_threads_as_slots_however_often_they_change() {
        let gate = HashGate::new(0);
        for (slots, threads) in [(1, 1), (4, 4), (2, 2), (0, 1), (3, 3)] {
            gate.set_slots(slots);
            let is_settled = || gate.shared.state().threads == threads;
            assert!((0..1_000_000).any(|_| is_settled() || (std::thread::yield_now(), false).1), "{slots}");
        }
    }
}
