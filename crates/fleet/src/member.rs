//! A member: a source whose changes go through the log, and which follows the changes of the other members.

use crate::log::Log;
use crate::replica::{Replica, ReplicaError};
use enfilade_facts::{At, Change, CommitError, Source, SourceError, View};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// How often a member asks etcd for the end of the log.
pub const BEAT: Duration = Duration::from_millis(200);

/// The clock of proofs: milliseconds since the machine started, also while it slept (CLOCK_BOOTTIME).
pub type BootClock = fn() -> u64;

/// A change, and the channel for its result.
struct Order {
    change: Change,
    told: mpsc::Sender<Result<At, CommitError>>,
}

/// What the thread of a member says of the copy.
#[derive(Default)]
struct State {
    /// When the member asked for the newest end of the log that it has applied, in milliseconds of the [`BootClock`]; 0 before the first time.
    proven: AtomicU64,
    /// Why the copy is not current.
    why: Mutex<Option<ReplicaError>>,
}

/// A member of a fleet.
pub struct Member {
    store: Arc<dyn Source>,
    orders: Option<UnboundedSender<Order>>,
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

impl Member {
    /// Starts to follow a log with this store. Nothing else may change the store from here on.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start(store: Arc<dyn Source>, log: Log, clock: BootClock) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (orders, inbox) = unbounded_channel();
        let state = Arc::<State>::default();
        let (replica, told) = (Replica::new(log, Arc::clone(&store)), Arc::clone(&state));
        let thread = std::thread::Builder::new()
            .name("fleet".to_owned())
            .spawn(move || runtime.block_on(follow(&replica, inbox, &told, clock)))?;
        Ok(Member { store, orders: Some(orders), state, thread: Some(thread) })
    }

    /// When the member last asked for the end of the log that it has applied, in milliseconds of its clock. Until then, no other member had made a change
    /// that this member does not have. 0 if the member was never current.
    pub fn proven(&self) -> u64 {
        self.state.proven.load(Ordering::Acquire)
    }

    /// Why the copy is not current; `None` if the last look at the log succeeded.
    pub fn why(&self) -> Option<ReplicaError> {
        self.state.why.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Follows the log, and makes the changes of this member, one after the other.
async fn follow(replica: &Replica, mut inbox: UnboundedReceiver<Order>, state: &State, clock: BootClock) {
    let mut ticks = tokio::time::interval(BEAT);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let order = tokio::select! {
            order = inbox.recv() => match order {
                Some(order) => Some(order),
                None => return,
            },
            _ = ticks.tick() => None,
        };
        match order {
            Some(Order { change, told }) => {
                // The caller may have gone away.
                let _ = told.send(replica.commit(&change).await);
            }
            None => {
                // The time is noted before the question (rule 2 of docs/fleet.md).
                let asked = clock();
                let caught_up = replica.catch_up().await;
                if caught_up.is_ok() {
                    state.proven.store(asked, Ordering::Release);
                }
                *state.why.lock().unwrap_or_else(PoisonError::into_inner) = caught_up.err();
            }
        }
    }
}

impl Source for Member {
    fn at(&self) -> At {
        self.store.at()
    }

    fn with_view(&self, look: &mut dyn FnMut(&View<'_>)) -> Result<(), SourceError> {
        self.store.with_view(look)
    }

    fn commit(&self, change: &Change) -> Result<At, CommitError> {
        let ended = || CommitError::from(SourceError::Unavailable("the server is stopping".to_owned()));
        let (told, answer) = mpsc::channel();
        let orders = self.orders.as_ref().ok_or_else(ended)?;
        orders.send(Order { change: change.clone(), told }).map_err(|_| ended())?;
        answer
            .recv()
            .map_err(|_| CommitError::Unknown("the server stopped while the change was made".to_owned()))?
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // Without a sender, the thread ends after the change that it makes.
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
