//! A member: a source whose changes go through the log, and which follows the changes of the other members.

use crate::log::Log;
use crate::registration::{Registration, Silent};
use crate::replica::{Replica, ReplicaError};
use enfilade_facts::{At, Change, CommitError, Revision, Source, SourceError, View};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// How often a member asks etcd for the end of the log.
pub const ASK_EVERY: Duration = Duration::from_millis(200);

/// How long a proof counts (Δ).
pub const DELTA: Duration = Duration::from_secs(1);
const DELTA_MILLIS: u64 = 1_000;
/// The clocks of two machines run at speeds that differ by at most one part in this many.
const DRIFT: u32 = 1_000;
/// How often a beat is renewed, in ticks of [`ASK_EVERY`].
const RENEW_TICKS: u32 = 3;
/// How often members without a beat are looked for, in ticks of [`ASK_EVERY`].
const REAP_TICKS: u32 = 5;
/// The pause before the reports of the members are read again.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The clock of proofs: milliseconds since the machine started, also while it slept (CLOCK_BOOTTIME). The clock of a paused virtual machine can stand
/// still; docs/fleet.md says what follows.
pub type BootClock = fn() -> u64;

/// A change, and the channel for its result.
struct Order {
    change: Change,
    told: mpsc::Sender<Result<At, CommitError>>,
}

/// What the thread of a member says about the copy.
#[derive(Default)]
struct State {
    /// When the member asked for the head that it has applied, in milliseconds of the [`BootClock`]; 0 before the first time.
    proven: AtomicU64,
    /// Why the copy is not current.
    why: Mutex<Option<ReplicaError>>,
}

/// A member of a fleet.
pub struct Member {
    store: Arc<dyn Source>,
    orders: Option<UnboundedSender<Order>>,
    state: Arc<State>,
    clock: BootClock,
    thread: Option<JoinHandle<()>>,
}

impl Member {
    /// Starts to follow a log with this store, as the member `id`. No other member may have this id, and nothing else may change the store from here on.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start(id: &str, store: Arc<dyn Source>, log: Log, clock: BootClock) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (orders, inbox) = unbounded_channel();
        let state = Arc::<State>::default();
        let follower = Follower {
            id: id.to_owned(),
            replica: Arc::new(Replica::new(log, Arc::clone(&store))),
            state: Arc::clone(&state),
            clock,
            registration: None,
            incarnation: None,
            reported: Revision(0),
            silent: Vec::new(),
            ticks: 0,
        };
        let thread = std::thread::Builder::new()
            .name("fleet".to_owned())
            .spawn(move || runtime.block_on(follower.run(inbox)))?;
        Ok(Member { store, orders: Some(orders), state, clock, thread: Some(thread) })
    }

    /// When the member asked for the head that it has applied, in milliseconds of its clock. No change that was committed before this time is missing. 0 if
    /// the member was never current.
    pub fn proven(&self) -> u64 {
        self.state.proven.load(Ordering::Acquire)
    }

    /// Whether the member may grant a request now. A request must ask before it reads facts (rule 4).
    pub fn is_current(&self) -> bool {
        let proven = self.proven();
        proven != 0 && (self.clock)().saturating_sub(proven) < DELTA_MILLIS
    }

    /// Why the copy is not current; `None` if the last look at the log succeeded.
    pub fn why(&self) -> Option<ReplicaError> {
        self.state.why.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The thread of a member.
struct Follower {
    id: String,
    replica: Arc<Replica>,
    state: Arc<State>,
    clock: BootClock,
    registration: Option<Registration>,
    /// The last incarnation of this member.
    incarnation: Option<[u8; 16]>,
    /// The last change that this member has reported as applied.
    reported: Revision,
    /// Registered members without a beat, and when they were first seen without one, in milliseconds of the clock.
    silent: Vec<(Silent, u64)>,
    ticks: u32,
}

impl Follower {
    /// Follows the log, and makes the changes of this member, one after the other.
    async fn run(mut self, mut inbox: UnboundedReceiver<Order>) {
        let mut ticks = tokio::time::interval(ASK_EVERY);
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
                Some(order) => self.make(order).await,
                None => {
                    let looked = self.look().await;
                    *self.state.why.lock().unwrap_or_else(PoisonError::into_inner) = looked.err();
                }
            }
        }
    }

    /// Makes a change. It is acknowledged by a task of its own, so that this member can go on to prove that it is current.
    async fn make(&mut self, Order { change, told }: Order) {
        let made = self.replica.commit(&change).await;
        // Without a report, the acknowledgement takes longer.
        let _ = self.report().await;
        let replica = Arc::clone(&self.replica);
        tokio::spawn(async move {
            // A change that writes nothing waits, too: an earlier change may have done the same, and may not be acknowledged yet.
            if let Ok(at) = &made {
                acknowledged(&replica, at.revision).await;
            }
            // The caller may have gone away.
            let _ = told.send(made);
        });
    }

    /// Asks for the end of the log, applies it, and looks for members without a beat.
    async fn look(&mut self) -> Result<(), ReplicaError> {
        self.ticks = self.ticks.wrapping_add(1);
        let log = self.replica.log();
        let registration = match self.registration {
            Some(registration) => registration,
            None => {
                let applied = self.replica.applied();
                let registration = log.register(&self.id, self.incarnation, applied).await?;
                (self.incarnation, self.reported) = (Some(registration.incarnation), applied);
                registration
            }
        };
        self.registration = Some(registration);
        if self.ticks.is_multiple_of(RENEW_TICKS) {
            log.renew(&registration).await?;
        }
        // The time is noted before the question (rule 2 of docs/fleet.md).
        let asked = (self.clock)();
        let Some(head) = log.prove(&self.id, &registration).await? else {
            // The beat vanished. A new registration has another incarnation.
            self.registration = None;
            return Err(ReplicaError::NoBeat);
        };
        self.replica.catch_up_to(head).await?;
        self.state.proven.store(asked, Ordering::Release);
        self.report().await?;
        if self.ticks.is_multiple_of(REAP_TICKS) {
            self.reap().await?;
        }
        Ok(())
    }

    /// Says in etcd what this member has applied, if it has not said so.
    async fn report(&mut self) -> Result<(), ReplicaError> {
        let applied = self.replica.applied();
        if let Some(registration) = &self.registration
            && applied > self.reported
        {
            self.replica.log().report(&self.id, registration, applied).await?;
            self.reported = applied;
        }
        Ok(())
    }

    /// Deletes the registrations of members that have had no beat for 2Δ (rules 7 and 8).
    async fn reap(&mut self) -> Result<(), ReplicaError> {
        let found = self.replica.log().silent().await?;
        // After the answer: a beat that is missing in it vanished before this time.
        let now = (self.clock)();
        self.silent.retain(|(silent, _)| found.contains(silent));
        for silent in found {
            match self.silent.iter().find(|(known, _)| *known == silent) {
                None => self.silent.push((silent, now)),
                Some((_, since))
                    if now.saturating_sub(*since) > 2 * DELTA_MILLIS + DELTA_MILLIS / u64::from(DRIFT) =>
                {
                    self.replica.log().reap(&silent).await?;
                }
                Some(_) => {}
            }
        }
        Ok(())
    }
}

/// Waits until every registered member has applied a change, or Δ has passed since the commit (rule 5).
async fn acknowledged(replica: &Replica, change: Revision) {
    let everybody = async {
        while !matches!(replica.log().all_have(change).await, Ok(true)) {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    // After Δ, no member that lacks the change has a proof.
    let _ = tokio::time::timeout(DELTA + DELTA / DRIFT, everybody).await;
}

impl Source for Member {
    fn at(&self) -> At {
        self.store.at()
    }

    fn with_view(&self, look: &mut dyn FnMut(&View<'_>)) -> Result<(), SourceError> {
        self.store.with_view(look)
    }

    fn commit(&self, change: &Change) -> Result<At, CommitError> {
        let ended =
            || CommitError::from(SourceError::Unavailable("the thread of the fleet has ended".to_owned()));
        let (told, answer) = mpsc::channel();
        let orders = self.orders.as_ref().ok_or_else(ended)?;
        orders.send(Order { change: change.clone(), told }).map_err(|_| ended())?;
        answer.recv().map_err(|_| {
            CommitError::Unknown("the thread of the fleet ended while the change was made".to_owned())
        })?
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
