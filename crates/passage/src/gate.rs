//! The gate of slow hashes. The gate computes only a few hashes at a time. It never computes a hash on an async worker. All requests that need the
//! same hash wait for one computation.
//!
//! The length of the queue and the time of a wait are bounded. When the queue is full, the gate drops a waiting computation of the address that has
//! the largest number of recent failures. If no waiting address has more failures than the address of the new request, the gate refuses the new
//! request. For each address only one hash is computed at a time. So a flood of guesses delays mainly the addresses that send the guesses.

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

/// The state of a computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Waiting,
    Running,
    Done(Outcome),
    /// The computation was removed from the full queue, or the hash library panicked.
    Dropped,
}

/// The client that needs a computation.
#[derive(Clone, Copy, Debug)]
pub struct Asker {
    /// The address of the client.
    pub from: IpAddr,
    /// The number of recent failures of that address. Requests from addresses with fewer failures are computed first.
    pub failures: u32,
}

/// A gate with a bounded number of slots and a bounded queue. The gate never computes the same hash twice at the same time. The threads of the gate
/// end when the gate is dropped.
pub struct HashGate {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State<Box<Work>>>,
    changed: Condvar,
    computed: AtomicU64,
    shared: AtomicU64,
    turned_away: AtomicU64,
}

/// The queue and the running computations. `W` is the type of the work of one computation. In tests, `W` is a type of numbers.
struct State<W> {
    queue: Vec<Job<W>>,
    /// All computations that wait or run.
    known: HashMap<MemoKey, watch::Sender<Progress>>,
    /// The addresses of running computations.
    running: Vec<IpAddr>,
    order: u64,
    /// The number of threads that the gate should have; 0 after the gate was dropped. `threads` is the number of threads that the gate has.
    slots: usize,
    threads: usize,
}

impl<W> Default for State<W> {
    fn default() -> Self {
        State {
            queue: Vec::new(),
            known: HashMap::new(),
            running: Vec::new(),
            order: 0,
            slots: 0,
            threads: 0,
        }
    }
}

struct Job<W> {
    work: W,
    key: MemoKey,
    asker: Asker,
    order: u64,
    progress: watch::Sender<Progress>,
}

/// Counters of the gate since the start of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GateCounts {
    /// Hashes computed.
    pub computed: u64,
    /// Requests that waited for the computation of another request.
    pub shared: u64,
    /// Requests that were refused because the queue was full, the wait was too long, or the hash library panicked.
    pub turned_away: u64,
}

impl HashGate {
    /// Creates a gate with this number of slots, at least one. Each slot has a thread.
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

    /// Sets the number of slots, at least one. Running computations finish.
    pub fn set_slots(&self, slots: usize) {
        let mut state = self.shared.state();
        state.slots = slots.max(1);
        while state.threads < state.slots {
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new().name("hash".into()).spawn(move || shared.work());
            // If the gate has no thread, no hash is computed: each request waits for a limited time, and then is refused as busy.
            if thread.is_err() {
                break;
            }
            state.threads += 1;
        }
        self.shared.changed.notify_all();
    }

    /// The counters.
    pub fn counts(&self) -> GateCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        GateCounts {
            computed: read(&self.shared.computed),
            shared: read(&self.shared.shared),
            turned_away: read(&self.shared.turned_away),
        }
    }

    /// Waits until the hash is computed, for this request or for another request that needs the same hash.
    ///
    /// # Errors
    /// [`Refusal::Busy`] if the queue was full, no slot was free in time, or the hash library panicked.
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

/// Waits for a slot, but only for a bounded time. Then waits until the hash is computed.
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
    fn state(&self) -> MutexGuard<'_, State<Box<Work>>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Joins the computation of the same hash, or queues a new computation; `None` when the queue is full.
    fn join(&self, work: Box<Work>, asker: Asker) -> Option<watch::Receiver<Progress>> {
        let joined = self.state().join(work.key(), work, asker)?;
        match joined.is_new {
            true => self.changed.notify_one(),
            false => drop(self.shared.fetch_add(1, Ordering::Relaxed)),
        }
        Some(joined.progress)
    }

    /// The loop of a thread: computes queued hashes until there are more threads than slots.
    fn work(&self) {
        let mut state = self.state();
        loop {
            let job = loop {
                if state.threads > state.slots {
                    state.threads -= 1;
                    return;
                }
                match state.begin() {
                    Some(job) => break job,
                    None => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                }
            };
            drop(state);
            self.computed.fetch_add(1, Ordering::Relaxed);
            // If the hash library panics, only this computation fails, and the thread continues.
            let outcome = catch_unwind(AssertUnwindSafe(|| job.work.run()));
            state = self.state();
            state.end(&job, outcome.map_or(Progress::Dropped, Progress::Done));
            self.changed.notify_all();
        }
    }
}

/// A request that waits for a computation.
struct Joined {
    progress: watch::Receiver<Progress>,
    /// Whether this request queued the computation.
    is_new: bool,
}

impl<W> State<W> {
    /// Joins the computation with this key, or queues it; `None` when the queue is full.
    fn join(&mut self, key: MemoKey, work: W, asker: Asker) -> Option<Joined> {
        if let Some(progress) = self.known.get(&key) {
            return Some(Joined { progress: progress.subscribe(), is_new: false });
        }
        self.forget_abandoned();
        if self.slots * HASH_QUEUE_PER_SLOT <= self.queue.len() && !self.make_room(asker.failures) {
            return None;
        }
        let (progress, receiver) = watch::channel(Progress::Waiting);
        self.known.insert(key, progress.clone());
        self.order += 1;
        self.queue.push(Job { work, key, asker, order: self.order, progress });
        Some(Joined { progress: receiver, is_new: true })
    }

    /// Removes the queued computations that no request waits for any more.
    fn forget_abandoned(&mut self) {
        let known = &mut self.known;
        self.queue.retain(|job| {
            let has_waiter = !job.progress.is_closed();
            if !has_waiter {
                known.remove(&job.key);
            }
            has_waiter
        });
    }

    /// Removes the newest job of the address with the most failures, if that address has more than `failures` failures. Returns whether a job was
    /// removed.
    fn make_room(&mut self, failures: u32) -> bool {
        let worst = (0..self.queue.len())
            .max_by_key(|at| self.queue.get(*at).map(|job| (job.asker.failures, job.order)));
        let is_worse = |job: &Job<W>| job.asker.failures > failures;
        let Some(at) = worst.filter(|at| self.queue.get(*at).is_some_and(is_worse)) else { return false };
        let job = self.queue.swap_remove(at);
        self.known.remove(&job.key);
        job.progress.send_replace(Progress::Dropped);
        true
    }

    /// Starts the oldest job of the address with the fewest failures. An address with a running computation is skipped.
    fn begin(&mut self) -> Option<Job<W>> {
        self.forget_abandoned();
        let free = |job: &Job<W>| !self.running.contains(&job.asker.from);
        let at = (0..self.queue.len())
            .filter(|at| self.queue.get(*at).is_some_and(free))
            .min_by_key(|at| self.queue.get(*at).map(|job| (job.asker.failures, job.order)))?;
        let job = self.queue.swap_remove(at);
        self.running.push(job.asker.from);
        job.progress.send_replace(Progress::Running);
        Some(job)
    }

    /// Ends a computation. After that, another computation for the same address may begin.
    fn end(&mut self, job: &Job<W>, progress: Progress) {
        if let Some(at) = self.running.iter().position(|from| *from == job.asker.from) {
            self.running.swap_remove(at);
        }
        self.known.remove(&job.key);
        job.progress.send_replace(progress);
    }
}

#[cfg(test)]
mod tests;
