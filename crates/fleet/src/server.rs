//! The source of facts of a server in a fleet. It can be read only while the server can prove that its facts are current (docs/fleet-protocol.md).

use crate::direct::{self, Connect, Direct};
use crate::entry::Entry;
use crate::files_member::TellFiles;
use crate::log::{Log, LogError, News};
use crate::registration::{About, KeysDigest, Process, Reach, Registration, Silent, number_of};
use crate::replica::{DRIFT, Made, Replica, ReplicaError, Reports, note};
use crate::shared_keys::KeysId;
use crate::state::{BootClock, State};
use enfilade_facts::{
    At, Change, CommitError, Effect, Requester, Revision, Source, SourceError, StoreId, View,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;
use tokio::io::AsyncRead;
use tokio::sync::mpsc::{Receiver, UnboundedReceiver, UnboundedSender, channel, unbounded_channel};
use tokio::sync::watch;

/// How often a member asks etcd for the end of the log.
pub const ASK_EVERY: Duration = Duration::from_millis(200);

/// The pause after an error with a cause in this member ([`ReplicaError::is_of_this_member`]).
const AGAIN: Duration = Duration::from_secs(1);
/// The interval at which a beat is renewed, in ticks of [`ASK_EVERY`].
const RENEW_TICKS: u32 = 3;
/// The interval at which a member looks for processes without a beat, in ticks of [`ASK_EVERY`].
const REAP_TICKS: u32 = 5;
/// The interval at which a member checks the size of the log and deletes unused parts of entries, in ticks of [`ASK_EVERY`].
const TRIM_TICKS: u32 = 50;
/// If a log of many changes is larger than this number of bytes, its older half is deleted.
const LOG_BYTES_MAX: u64 = 32 << 20;
/// The same limit for a log of few changes. It is twice the size of the largest change, so even the largest change is still in the log when a member
/// reads the log after a short interruption.
const LOG_BYTES_OF_FEW_MAX: u64 = 128 << 20;
/// A log with at most this number of changes counts as a log of few changes.
const FEW: u64 = 1_000;
/// The maximum number of entries that the watch has delivered and that are not applied yet. An entry has at most 1 MiB.
const DELIVERED_MAX: usize = 16;

/// A change, and the channel for its result.
struct Order {
    change: Change,
    told: mpsc::Sender<Result<At, CommitError>>,
}

/// Numbers for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// The age of the proof, in milliseconds; `None` if there is no proof.
    pub proof_millis: Option<u64>,
    /// The number of changes that this member has not applied, up to the newest known end of the log.
    pub behind: u64,
    /// The number of reads that were refused because there was no proof.
    pub refused: u64,
    /// The number of changes of this server that were acknowledged.
    pub acknowledged: u64,
    /// How long these changes took in total, in milliseconds.
    pub acknowledged_millis: u64,
}

/// The source of facts of a server in a fleet.
pub struct Server {
    store: Arc<dyn Source>,
    orders: Mutex<Option<UnboundedSender<Order>>>,
    state: Arc<State>,
    clock: BootClock,
    number: u64,
    reports: watch::Sender<Reports>,
    direct: Arc<Direct>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Server {
    /// Starts to follow a log with this store, as a process of a member.
    ///
    /// # Errors
    /// When the thread cannot be started, or the system gives no random bytes.
    pub fn start(
        member: &str,
        about: About,
        store: Arc<dyn Source>,
        log: Log,
        clock: BootClock,
    ) -> std::io::Result<Self> {
        let process = Process::new(member, about).map_err(std::io::Error::other)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (orders, inbox) = unbounded_channel();
        let delta = u64::try_from(log.own_delta().as_millis()).unwrap_or(0);
        let state = Arc::new(State { delta, ..State::default() });
        let number = process.number;
        let replica = Arc::new(Replica::new(log, Arc::clone(&store), number));
        let (reports, reported) = watch::channel(Reports::new());
        let direct = Arc::new(Direct::new(replica.applied()));
        let author = Author {
            replica: Arc::clone(&replica),
            state: Arc::clone(&state),
            clock,
            process: process.id.as_str().into(),
            reports: reported,
        };
        let follower = Follower {
            process,
            replica,
            direct: Arc::clone(&direct),
            state: Arc::clone(&state),
            clock,
            registration: None,
            incarnation: None,
            reported: Revision(0),
            said_files: false,
            said_keys: None,
            silent: Vec::new(),
            ticks: 0,
        };
        let heard = reports.clone();
        let thread = std::thread::Builder::new()
            .name("fleet".to_owned())
            .spawn(move || runtime.block_on(follow_and_change(follower, author, inbox, heard)))?;
        let (orders, thread) = (Mutex::new(Some(orders)), Mutex::new(Some(thread)));
        Ok(Server { store, orders, state, clock, number, reports, direct, thread })
    }

    /// After this call, this process reports directly to these processes only, on the caller's runtime. The list can contain this process.
    pub fn report_to(&self, peers: Vec<(String, Reach)>, connect: &Connect) {
        let numbered = peers.into_iter().filter_map(|(id, reach)| Some((number_of(&id)?, reach)));
        self.direct.keep(numbered.filter(|(number, _)| *number != self.number).collect(), connect);
    }

    /// Reads the reports of the process with this id, until its connection ends. The caller has checked that the connection comes from this process.
    pub async fn hear(&self, process: &str, connection: impl AsyncRead + Unpin) {
        let heard = |applied| self.reports.send_modify(|reports| note(reports, process, applied));
        direct::receive(connection, heard).await;
    }

    /// The time of the proof, in milliseconds of the member's clock. At this time, the member asked for the head; it has applied the log up to this
    /// head, so it has every change committed before this time. 0 before the first proof, and after this process has ended its registration.
    pub fn proven(&self) -> u64 {
        self.state.proven.load(Ordering::Acquire)
    }

    /// Whether the member may grant a request now. A request must call this function before it reads facts (rule 4). [`Source::at`] and
    /// [`Source::with_view`] call it.
    pub fn is_current(&self) -> bool {
        self.state.is_current(self.clock)
    }

    /// Asks etcd again for a proof, and waits until the member has it. A proof that the member asked for after the start of this call does not depend
    /// on the clock of this machine. Requests that wait at the same time share one question to etcd.
    ///
    /// # Errors
    /// When there is no such proof within Δ (the time for which a proof is valid).
    pub async fn prove_anew(&self) -> Result<(), SourceError> {
        match self.state.is_proved_anew().await {
            true => Ok(()),
            false => Err(self.not_current()),
        }
    }

    /// Why the copy is not current; `None` if the last attempt to follow the log succeeded.
    pub fn why(&self) -> Option<ReplicaError> {
        self.state.why.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The age of the last question to which etcd answered that a process follows the edited files, in milliseconds; `None` without such an answer.
    pub fn files_followed_ago(&self) -> Option<u64> {
        let followed = self.state.files_followed.load(Ordering::Acquire);
        (followed != 0).then(|| (self.clock)().saturating_sub(followed))
    }

    /// Calls `tell` with the files member: now, and each time that etcd names another one. etcd's answer counts as proof only after `tell` returned.
    pub fn on_files_member(&self, tell: TellFiles) {
        self.state.files.on_change(tell);
    }

    /// Reports to the fleet whether this process follows the edited files.
    pub fn follow_files(&self, follows: bool) {
        self.state.follows_files.store(follows, Ordering::Release);
    }

    /// Reports to the fleet which keys of sessions this process uses, by a digest of the keys; `None` if it has no keys.
    pub fn show_keys(&self, keys: Option<KeysDigest>) {
        self.state.keys().digest = keys;
    }

    /// The id of the newest keys of the fleet, if this process does not use them yet. Until the process uses them, it gets no proof.
    pub fn lacks_keys(&self) -> Option<KeysId> {
        let keys = self.state.keys();
        keys.newest.filter(|newest| keys.shared != Some(*newest))
    }

    /// Records that this process uses the keys of the fleet with this id.
    pub fn use_keys(&self, id: Option<KeysId>) {
        self.state.keys().shared = id;
    }

    /// The digest of the keys of sessions that this process uses.
    pub fn used_keys(&self) -> Option<KeysDigest> {
        self.state.keys().digest
    }

    /// Sets the thread that is unparked when there are new keys.
    pub fn get_keys_by(&self, thread: Thread) {
        self.state.keys().getter = Some(thread);
    }

    /// Numbers for metrics.
    pub fn numbers(&self) -> Numbers {
        let State { refused, acknowledged, acknowledged_millis, .. } = &*self.state;
        let of = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let (proven, head) = (self.proven(), self.state.head());
        Numbers {
            proof_millis: (proven != 0).then(|| (self.clock)().saturating_sub(proven)),
            behind: head.map_or(0, |head| head.at.revision.0.saturating_sub(self.store.at().revision.0)),
            refused: of(refused),
            acknowledged: of(acknowledged),
            acknowledged_millis: of(acknowledged_millis),
        }
    }

    /// Ends the registration of this process, so that acknowledgements no longer wait for it. From now on, all reads are refused.
    pub fn end(&self) {
        // When nothing can send changes to the thread any more, the thread ends after its present change.
        *self.orders.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.direct.end();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }

    /// The error of a reader while there is no proof.
    fn not_current(&self) -> SourceError {
        self.state.refused.fetch_add(1, Ordering::Relaxed);
        let why = self
            .why()
            .map_or_else(|| "etcd has not answered yet, or answers slowly".to_owned(), |why| why.to_string());
        SourceError::Unavailable(format!(
            "this member of the fleet cannot prove that its facts are current: {why}"
        ))
    }
}

/// The thread of a server. It runs two tasks, so that the proofs are not delayed if etcd answers slowly to a change. It also runs a watch, which
/// delivers entries and reports sooner than the answer to a question does. The watch proves nothing (rule 1).
async fn follow_and_change(
    mut follower: Follower,
    author: Author,
    mut inbox: UnboundedReceiver<Order>,
    reports: watch::Sender<Reports>,
) {
    let (deliver, mut delivered) = channel(DELIVERED_MAX);
    let (log, state) = (follower.replica.log().clone(), Arc::clone(&author.state));
    let watch = tokio::spawn(async move {
        let heard = |news| match news {
            News::Begins => reports.send_modify(Reports::clear),
            News::Head(head) => state.set_head(head),
            // If the queue is full, the entry is dropped. The member gets it again with the answer to a later question.
            News::Entry(entry) => drop(deliver.try_send(entry)),
            News::Applied(id, applied) => reports.send_modify(|reports| match applied {
                Some(applied) => note(reports, &id, applied),
                None => drop(reports.remove(&id)),
            }),
        };
        log.watch(heard).await;
    });
    tokio::select! {
        () = follower.run(&mut delivered) => {}
        () = author.run(&mut inbox) => {}
    }
    watch.abort();
    follower.end().await;
}

/// The task that makes the changes of a server.
struct Author {
    replica: Arc<Replica>,
    state: Arc<State>,
    clock: BootClock,
    /// The id of this process.
    process: Arc<str>,
    reports: watch::Receiver<Reports>,
}

impl Author {
    /// Makes the changes in their order, until all senders of changes are gone.
    async fn run(&self, inbox: &mut UnboundedReceiver<Order>) {
        while let Some(order) = inbox.recv().await {
            self.make(order).await;
        }
    }

    /// Makes a change. A separate task waits for the acknowledgement, so that the next change can be made in the meantime.
    async fn make(&self, Order { change, told }: Order) {
        let began = (self.clock)();
        // The proof is read before the facts (rule 4).
        let known = self.state.is_current(self.clock).then(|| self.state.head()).flatten();
        let made = self.replica.commit(&change, known).await;
        if let Ok(Made { head: Some(head), .. }) = &made {
            self.state.set_head(*head);
        }
        let (replica, state, clock) = (Arc::clone(&self.replica), Arc::clone(&self.state), self.clock);
        let (process, reports) = (Arc::clone(&self.process), self.reports.clone());
        tokio::spawn(async move {
            // A change that writes nothing waits, too: it is possible that an earlier change wrote the same values, and is not acknowledged yet.
            let at = made.as_ref().map(|made| made.at).map_err(Clone::clone);
            if let Ok(made) = made {
                replica.acknowledged(made, Some(&process), reports).await;
                state.acknowledged.fetch_add(1, Ordering::Relaxed);
                state.acknowledged_millis.fetch_add(clock().saturating_sub(began), Ordering::Relaxed);
            }
            // The error is ignored, because it is possible that the caller no longer waits for the result.
            let _ = told.send(at);
        });
    }
}

/// The task that proves that the member is current.
struct Follower {
    process: Process,
    replica: Arc<Replica>,
    direct: Arc<Direct>,
    state: Arc<State>,
    clock: BootClock,
    registration: Option<Registration>,
    /// The last incarnation of this process.
    incarnation: Option<[u8; 16]>,
    /// The last change that this process has reported to etcd as applied.
    reported: Revision,
    /// Whether etcd has the record `files/following` of this process.
    said_files: bool,
    /// The digest of keys that this process has reported to etcd.
    said_keys: Option<KeysDigest>,
    /// Registered processes without a beat, and when each was first seen without a beat, in milliseconds of the clock.
    silent: Vec<(Silent, u64)>,
    ticks: u32,
}

impl Follower {
    /// Follows the log for ever.
    async fn run(&mut self, delivered: &mut Receiver<Entry>) {
        let mut ticks = tokio::time::interval(ASK_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let wanted = Arc::clone(&self.state);
        loop {
            let looked = tokio::select! {
                _ = ticks.tick() => {
                    self.ticks = self.ticks.wrapping_add(1);
                    self.look(true).await
                }
                () = wanted.wanted.notified() => self.look(false).await,
                Some(entry) = delivered.recv() => match self.take(entry, delivered).await {
                    Ok(true) => continue,
                    // An earlier entry was not delivered.
                    Ok(false) => self.look(false).await,
                    Err(why) => Err(why),
                },
            };
            if let Err(why) = &looked
                && why.is_of_this_member()
            {
                self.end().await;
                self.registration = None;
            }
            let is_of_this_member = looked.as_ref().is_err_and(ReplicaError::is_of_this_member);
            *self.state.why.lock().unwrap_or_else(PoisonError::into_inner) = looked.err();
            if is_of_this_member {
                // An error with a cause in this member persists. Without the pause, repeated attempts would be a load for etcd.
                tokio::time::sleep(AGAIN).await;
            }
        }
    }

    /// Applies delivered entries, and reports them. Returns whether the entries follow the changes that the store has.
    async fn take(&mut self, first: Entry, more: &mut Receiver<Entry>) -> Result<bool, ReplicaError> {
        let (mut next, mut authors) = (Some(first), Vec::new());
        while let Some(entry) = next {
            if !self.replica.take(&entry, self.state.head())? {
                return Ok(false);
            }
            authors.push(entry.id.author());
            next = more.try_recv().ok();
        }
        self.tell(&authors).await?;
        Ok(true)
    }

    /// Reports the last applied change to all connected processes. If a process in `authors` is not connected, also writes the report to etcd.
    async fn tell(&mut self, authors: &[u64]) -> Result<(), ReplicaError> {
        self.direct.tell(self.replica.applied());
        let is_not_told = |author: &u64| *author != self.process.number && !self.direct.reaches(*author);
        match authors.iter().any(is_not_told) {
            true => self.report().await,
            false => Ok(()),
        }
    }

    /// Ends the registration of this process.
    async fn end(&self) {
        // The proof ends before the registration, because a process that is not registered must not grant requests (rule 6).
        self.state.proven.store(0, Ordering::Release);
        if let Some(registration) = &self.registration {
            // If etcd does not answer, the registration is deleted later, like the registration of every process without a beat.
            let _ = self.replica.log().deregister(&self.process.id, registration).await;
        }
    }

    /// Asks for a proof, and applies the log up to its end. In some ticks, also renews the beat, looks for processes without a beat, trims the log.
    async fn look(&mut self, is_tick: bool) -> Result<(), ReplicaError> {
        let ticks = self.ticks;
        let is_due = |every: u32| is_tick && ticks.is_multiple_of(every);
        let log = self.replica.log();
        let registration = match self.registration {
            Some(registration) => registration,
            None => {
                // Acknowledgements wait for registered processes. So a process that cannot apply the log must not register.
                self.replica.catch_up().await?;
                let applied = self.replica.applied();
                let registered = log.register(&self.process, self.incarnation, applied).await;
                if let Err(LogError::OtherDelta { fleet, .. }) = registered {
                    // If all servers with the Δ of the fleet have ended, none of them can delete their registrations. So this process does it.
                    self.reap(fleet).await?;
                }
                let registration = registered?;
                (self.incarnation, self.reported) = (Some(registration.incarnation), applied);
                (self.said_files, self.said_keys) = (false, None);
                registration
            }
        };
        self.registration = Some(registration);
        // The report comes first: if a direct connection broke unnoticed, it is possible that an acknowledgement waits for this report.
        self.report().await?;
        let log = self.replica.log();
        if is_due(RENEW_TICKS) {
            log.renew(&registration).await?;
        }
        // The time is noted before the question (rule 2 of docs/fleet-protocol.md).
        let (asked, question) = ((self.clock)(), self.state.begin_question());
        let applied = self.replica.applied();
        let Some(proof) = log.prove(&self.process.id, &registration, applied).await? else {
            // The beat does not exist any more. The next registration gets another incarnation.
            self.registration = None;
            return Err(ReplicaError::NoBeat);
        };
        self.state.set_head(proof.head);
        let authors: Vec<u64> = proof.next.iter().map(|entry| entry.id.author()).collect();
        let has_more = proof.next.last().map_or(applied, Entry::last) < proof.head.at.revision;
        let caught_up = self.replica.catch_up_to(proof.head, proof.next);
        let head = log.renew_during(&registration, caught_up).await?;
        match proof.files_followed {
            true => self.state.files_followed.store(asked, Ordering::Release),
            // If another process of this machine made the record `files/following`, etcd deleted the record when that process ended.
            false => self.said_files = false,
        }
        // The files member is stored before the proof, because a request reads the files member after the proof.
        self.state.files.set(proof.files_member);
        self.look_at_keys(proof.keys)?;
        self.state.prove(question, asked);
        self.tell(&authors).await?;
        if has_more {
            // The authors of the further entries are not known, so the report is written to etcd.
            self.report().await?;
        }
        self.say_files().await?;
        self.say_keys().await?;
        if is_due(REAP_TICKS) {
            self.reap(self.state.delta).await?;
        }
        let changes = head.at.revision.0.saturating_sub(head.first.0);
        let most = if changes <= FEW { LOG_BYTES_OF_FEW_MAX } else { LOG_BYTES_MAX };
        if is_due(TRIM_TICKS) && head.log_bytes > most {
            let half = Revision(head.first.0 + changes / 2);
            if self.replica.log().applied_by_all().await?.is_some_and(|applied| half <= applied) {
                self.replica.log().trim(head, half).await?;
            }
        }
        if is_due(TRIM_TICKS) {
            self.replica.log().delete_unnamed_parts().await?;
        }
        Ok(())
    }

    /// Reports to etcd the last change that this process has applied, if this was not reported yet.
    async fn report(&mut self) -> Result<(), ReplicaError> {
        let applied = self.replica.applied();
        if let Some(registration) = &self.registration
            && applied > self.reported
        {
            self.replica.log().report(&self.process.id, registration, applied).await?;
            self.reported = applied;
        }
        Ok(())
    }

    /// Checks that this process uses the newest keys of sessions. If not, it gets no proof (rule 3), because an attacker can have an older key.
    fn look_at_keys(&self, newest: Option<Vec<u8>>) -> Result<(), ReplicaError> {
        let newest = newest.map(|id| KeysId::from_bytes(id.try_into().unwrap_or_default()));
        let mut keys = self.state.keys();
        if let Some(used) = keys.shared
            && newest.unwrap_or_default().is_before(used)
        {
            return Err(ReplicaError::OlderKeys);
        }
        keys.newest = newest;
        if newest.is_none() || newest == keys.shared {
            return Ok(());
        }
        keys.getter.as_ref().inspect(|getter| getter.unpark());
        Err(ReplicaError::OldKeys)
    }

    /// Reports to etcd whether this process follows the edited files, if this was not reported yet.
    async fn say_files(&mut self) -> Result<(), LogError> {
        let follows = self.state.follows_files.load(Ordering::Acquire);
        if let Some(registration) = &self.registration
            && follows != self.said_files
        {
            self.replica.log().follow_files(&self.process.id, registration, follows).await?;
            self.said_files = follows;
        }
        Ok(())
    }

    /// Reports to etcd which keys of sessions this process uses, if this was not reported yet.
    async fn say_keys(&mut self) -> Result<(), LogError> {
        let keys = self.state.keys().digest;
        if let Some(registration) = &self.registration
            && keys != self.said_keys
        {
            self.replica.log().show_keys(&self.process.id, registration, keys).await?;
            self.said_keys = keys;
        }
        Ok(())
    }

    /// Deletes the registrations of processes that have had no beat for 2Δ (rules 7 and 8). `delta` is the Δ of these processes, in milliseconds.
    async fn reap(&mut self, delta: u64) -> Result<(), ReplicaError> {
        let (found, delta) = (self.replica.log().silent().await?, delta.max(self.state.delta));
        // The clock is read after the answer. So a beat that is missing in the answer vanished before this time.
        let now = (self.clock)();
        self.silent.retain(|(silent, _)| found.contains(silent));
        for silent in found {
            match self.silent.iter().find(|(known, _)| *known == silent) {
                None => self.silent.push((silent, now)),
                Some((_, since)) if now.saturating_sub(*since) > 2 * delta + delta / u64::from(DRIFT) => {
                    self.replica.log().reap(&silent).await?;
                }
                Some(_) => {}
            }
        }
        Ok(())
    }
}

/// The value that [`Source::at`] returns while there is no proof. No view has this revision. So the reader uses no remembered verdict, and tries to
/// open a view. While there is no proof, the attempt fails.
const NOT_CURRENT: At = At { store: StoreId(0), revision: Revision(0) };

const UNKNOWN: &str = "this server stopped during the change: before you make the change again, check with `enfilade facts log` whether it was made";

impl Source for Server {
    fn at(&self) -> At {
        // The proof is read before the facts (rule 4).
        match self.is_current() {
            true => self.store.at(),
            false => NOT_CURRENT,
        }
    }

    fn with_view(&self, look: &mut dyn FnMut(&View<'_>)) -> Result<(), SourceError> {
        // The proof is read before the facts (rule 4).
        match self.is_current() {
            true => self.store.with_view(look),
            false => Err(self.not_current()),
        }
    }

    fn commit(&self, change: &Change) -> Result<At, CommitError> {
        const ENDED: &str = "this server is stopping: make the change again when it runs again";
        let ended = || CommitError::from(SourceError::Unavailable(ENDED.to_owned()));
        let (told, answer) = mpsc::channel();
        let orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let orders = orders.ok_or_else(ended)?;
        orders.send(Order { change: change.clone(), told }).map_err(|_| ended())?;
        drop(orders);
        answer.recv().map_err(|_| CommitError::Unknown(UNKNOWN.to_owned()))?
    }

    fn has_room_for(&self, requester: Requester, effect: Effect, bytes: u64) -> Result<(), CommitError> {
        self.store.has_room_for(requester, effect, bytes)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}
