//! A member's own copy of the facts. A replica applies the changes of the log in their order, and adds its own changes to the log.

use crate::entry::{Encoded, Entry, EntryId};
use crate::log::{Appended, Head, Log, LogError};
use enfilade_facts::journal::Digests;
use enfilade_facts::{
    After, At, Change, CommitError, Effect, Read, Requester, Revision, Source, SourceError, View,
};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// The speeds of the clocks of two machines differ by at most 1 / `DRIFT`.
pub(crate) const DRIFT: u32 = 1_000;
/// The size of the largest change that may use the disk space reserved for the records of edited files, in bytes. Larger changes are applied in a
/// separate thread.
const SMALL_BYTES_MAX: usize = 1 << 20;
/// How often the reports in etcd are read while a change is not acknowledged. Usually a report arrives sooner over a connection or a watch.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The last change that each process reported as applied, as far as this process knows. An old report stays true, because no later process gets the
/// same id, and a process keeps the changes that it has applied.
pub(crate) type Reports = HashMap<String, Revision>;

/// Stores a report. A report that comes from etcd can be older than a report that came directly from the process.
pub(crate) fn note(reports: &mut Reports, id: &str, applied: Revision) {
    match reports.get_mut(id) {
        Some(known) => *known = applied.max(*known),
        None => drop(reports.insert(id.to_owned(), applied)),
    }
}

/// Why a member's copy is not current.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplicaError {
    /// The log cannot be used.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The store of this member has other records than the store of the member that made the change.
    #[error(
        "the records of this member differ from those of the other members, and differed already before change {change}. This member refuses requests. Read docs/fleet.md, \"What can go wrong\", before you delete its data directory"
    )]
    Differs {
        /// The records differed already before the change with this number.
        change: Revision,
    },
    /// The store of this member refused a change of the log.
    #[error("this member cannot apply change {change} of the log, and refuses requests until it can: {why}")]
    NotApplied {
        /// The change.
        change: Revision,
        /// The error of the store.
        why: CommitError,
    },
    /// The registration or the beat of this member in etcd has ended. The member registers again.
    #[error(
        "this member did not renew its registration in etcd in time: it refuses requests until it has registered again, which it does by itself"
    )]
    NoBeat,
    /// This member does not use the newest keys of sessions.
    #[error(
        "this member does not use the newest keys of sessions yet. It gets them within a second; if not, its log says why"
    )]
    OldKeys,
    /// etcd has older keys of sessions than this member.
    #[error(
        "etcd has older keys of sessions than this member: etcd was restored from an old backup. This member refuses requests, because an attacker may have the older keys. Stop all servers, and follow docs/fleet.md, \"etcd lost its data\""
    )]
    OlderKeys,
    /// The store of this member cannot be read.
    #[error(transparent)]
    Store(#[from] SourceError),
}

impl ReplicaError {
    /// Whether the cause of the error is in the log or in the store of this member. If it is, etcd answers, but the member refuses requests until
    /// the cause is corrected.
    pub(crate) fn is_of_this_member(&self) -> bool {
        match self {
            ReplicaError::Differs { .. } | ReplicaError::NotApplied { .. } | ReplicaError::Store(_) => true,
            ReplicaError::Log(why) => !matches!(why, LogError::Etcd(_) | LogError::Unknown(_)),
            ReplicaError::NoBeat | ReplicaError::OldKeys | ReplicaError::OlderKeys => false,
        }
    }
}

/// A change that was made.
pub(crate) struct Made {
    /// The revision at which the change is in effect.
    pub(crate) at: At,
    /// The end of the log after the change; `None` if the change wrote nothing.
    pub(crate) head: Option<Head>,
    /// The processes that possibly do not have the change yet; `None` if they are not known.
    pub(crate) lacking: Option<Vec<String>>,
    /// How long a proof was valid in the fleet (Δ, see `delta.rs`) when the change was made; `None` if this time is not known.
    pub(crate) delta: Option<Duration>,
}

/// A store that follows a log. Only processes that follow this log may change the store.
pub(crate) struct Replica {
    log: Log,
    store: Arc<dyn Source>,
    /// The number of this process.
    author: u64,
}

impl Replica {
    pub(crate) fn new(log: Log, store: Arc<dyn Source>, author: u64) -> Self {
        Replica { log, store, author }
    }

    pub(crate) fn log(&self) -> &Log {
        &self.log
    }

    /// The number of the last change in the store.
    pub(crate) fn applied(&self) -> Revision {
        self.store.at().revision
    }

    /// Applies the changes up to the end of the log. The end is read during this call, and returned.
    pub(crate) async fn catch_up(&self) -> Result<Head, ReplicaError> {
        let head = self.log.head().await?;
        self.catch_up_to(head, Vec::new()).await
    }

    /// Applies the changes up to the end `head` of the log. `next` contains entries that were read already. Another process of this machine can apply
    /// the same changes at the same time, and can also apply later changes.
    pub(crate) async fn catch_up_to(
        &self,
        mut head: Head,
        mut next: Vec<Entry>,
    ) -> Result<Head, ReplicaError> {
        loop {
            self.store.raise_format(head.format)?;
            let (at, state) = now(&*self.store)?;
            if at.revision < head.at.revision {
                if next.is_empty() {
                    next = self.log.after(at.revision).await?;
                }
                self.apply(std::mem::take(&mut next), head.at.revision).await?;
            } else if at.revision > head.at.revision {
                // A change is applied only after it was added to the log. So if a head that is read now is older than the store, the log lost
                // changes.
                head = self.log.head().await?;
                if at.revision > head.at.revision {
                    return Err(LogError::Older { log: head.at.revision, store: at.revision }.into());
                }
            } else if state.has(head.state) {
                return Ok(head);
            } else {
                return Err(ReplicaError::Differs { change: head.at.next().revision });
            }
        }
    }

    /// Applies an entry of the log, if the entry follows the changes in the store. Returns whether the store has the entry now. `head` is the newest
    /// known end of the log. If the entry ends at this head, the digests of the records are compared.
    pub(crate) fn take(&self, entry: &Entry, head: Option<Head>) -> Result<bool, ReplicaError> {
        if entry.first > self.store.at().next().revision {
            return Ok(false);
        }
        // The watch delivers a head with a newer format before it delivers an entry with records of this format. So the store gets the format of the
        // head first.
        head.map_or(Ok(()), |head| self.store.raise_format(head.format))?;
        apply(&*self.store, std::slice::from_ref(entry), entry.last())?;
        let (at, state) = now(&*self.store)?;
        match head.filter(|head| head.at == at && !state.has(head.state)) {
            Some(head) => Err(ReplicaError::Differs { change: head.at.next().revision }),
            None => Ok(true),
        }
    }

    /// Applies the changes of entries that the store does not have yet, up to the change `last`.
    async fn apply(&self, entries: Vec<Entry>, last: Revision) -> Result<(), ReplicaError> {
        if entries.iter().flat_map(|entry| &entry.changes).map(bytes_of).sum::<usize>() <= SMALL_BYTES_MAX {
            return apply(&*self.store, &entries, last);
        }
        let store = Arc::clone(&self.store);
        apart(move || apply(&*store, &entries, last)).await?
    }

    /// Makes a change. The change gets the same number on all members. `known` is the newest end of the log that the server knows; `None` if the
    /// server has no valid proof. If `known` is given, the log need not be read first. If another member has added an entry in the meantime, etcd
    /// refuses the change. Then this function applies the newer changes and tries again.
    pub(crate) async fn commit(&self, change: &Change, known: Option<Head>) -> Result<Made, CommitError> {
        let mut encoded = None;
        let made = self.commit_encoded(change, &mut encoded, known).await;
        if let (Err(_) | Ok(Made { head: None, .. }), Some(encoded)) = (&made, encoded) {
            self.log.discard(&encoded).await;
        }
        made
    }

    /// Makes the change for [`Replica::commit`]. `encoded` receives the encoded change, which is the same for each attempt.
    async fn commit_encoded(
        &self,
        change: &Change,
        encoded: &mut Option<Encoded>,
        mut known: Option<Head>,
    ) -> Result<Made, CommitError> {
        loop {
            let was_known = known.is_some();
            let head = match known.take() {
                Some(head) => head,
                None => self.catch_up().await.map_err(refused)?,
            };
            // If there is no room for the change in this store, this member could not apply the change, and would refuse all requests. So the change
            // is refused before it is added to the log.
            let takes = change.writes().all(|(_, _, value)| value.is_none());
            let effect = if takes { Effect::Takes } else { Effect::Gives };
            let bytes = bytes_of(change);
            // A small change that comes from an edited file may use the space that is reserved for these changes. A large change may not: it counts
            // as the change of an administrator.
            let requester =
                if bytes > SMALL_BYTES_MAX { Requester::Administrator } else { change.requester() };
            self.store.has_room_for(requester, effect, bytes as u64)?;
            // The digest before the change, and the digest after it. The second digest is `None` if the change writes nothing.
            let look = |view: &View<'_>| {
                let after = After::of(view, change)?;
                let writes = after.view().at() != view.at();
                let state = writes.then(|| Digests::of(&after.view())).transpose()?;
                Ok::<_, CommitError>((view.at(), Digests::of(view)?, state.map(|state| state.own)))
            };
            let (at, before, state) = self.store.read(look)??;
            // A member with wrong records must not add changes. If it did, the records of the other members would differ from the digests in the log,
            // and these members would refuse requests.
            if at == head.at && !before.has(head.state) {
                return Err(refused(ReplicaError::Differs { change: at.next().revision }));
            }
            let Some(state) = state else { return Ok(Made { at, head: None, lacking: None, delta: None }) };
            if at != head.at {
                continue;
            }
            let encoded = match &mut *encoded {
                Some(encoded) => encoded,
                none => {
                    match self.log.encoded(head, std::slice::from_ref(change)).await {
                        // The known head can be older than an upgrade of the log's format, so the head is read again.
                        Err(LogError::NeedsFormat { .. }) if was_known => continue,
                        encoded => none.insert(encoded.map_err(|why| refused(why.into()))?),
                    }
                }
            };
            self.store.raise_format(head.format)?;
            let id = EntryId::new(self.author)
                .map_err(|why| refused(LogError::NoRandom(why.to_string()).into()))?;
            match self.log.append_as(id, head, encoded, state).await {
                // Another member has added an entry first. This member applies that entry, and checks the expectations again.
                Err(LogError::Conflict) => {}
                Err(LogError::Unknown(why)) => {
                    return Err(CommitError::Unknown(LogError::Unknown(why).to_string()));
                }
                Err(why) => return Err(refused(why.into())),
                Ok(Appended { head: next, registered, delta }) => {
                    // The change is in the log, so it counts as made, even if this member cannot apply it now. An error of `store.commit` is ignored,
                    // because it is possible that another process of this machine has applied the change already. If not, `catch_up_to` applies it.
                    let mut change = change.clone();
                    change.only_after(at.revision);
                    let store = Arc::clone(&self.store);
                    let _ = match bytes > SMALL_BYTES_MAX {
                        true => {
                            apart(move || store.commit(&change)).await.unwrap_or_else(|why| Err(why.into()))
                        }
                        false => store.commit(&change),
                    };
                    let applied = self.catch_up_to(next, Vec::new()).await;
                    let made = Made { at: next.at, head: Some(next), lacking: registered, delta };
                    return applied.map(|_| made).map_err(|why| {
                        CommitError::Unknown(format!(
                            "the change is in the log, but it may take some seconds until all members obey it, and this member refuses requests: {why}. The change is made: do not make it again"
                        ))
                    });
                }
            }
        }
    }

    /// Waits until every registered process has applied a change, or Δ has passed since the commit (rule 5 of docs/fleet-protocol.md). The store of
    /// this member has the change already. `own` is the id of this process. The function does not wait for the process `own`.
    pub(crate) async fn acknowledged(
        &self,
        Made { at, lacking, delta, .. }: Made,
        own: Option<&str>,
        mut reports: watch::Receiver<Reports>,
    ) {
        let (change, mut known) = (at.revision, lacking);
        let everybody = async {
            loop {
                let read = match known.take() {
                    Some(lacking) => Ok(lacking),
                    None => self.log.lacking(change).await,
                };
                let Ok(mut lacking) = read else {
                    tokio::time::sleep(LOOK_AGAIN).await;
                    continue;
                };
                lacking.retain(|id| Some(id.as_str()) != own);
                if lacking.is_empty() {
                    return;
                }
                let has = |reports: &Reports, id| reports.get(id).is_some_and(|applied| change <= *applied);
                let all = |reports: &Reports| lacking.iter().all(|id| has(reports, id));
                let reported = async { reports.wait_for(all).await.is_ok() };
                match tokio::time::timeout(LOOK_AGAIN, reported).await {
                    Ok(true) => return,
                    // Reports are not delivered, because this process has no watch. So the reports in etcd are read again later.
                    Ok(false) => tokio::time::sleep(LOOK_AGAIN).await,
                    Err(_) => {}
                }
            }
        };
        // After Δ, a member that lacks the change has no proof any more.
        let delta = async {
            let delta = match delta {
                Some(delta) => delta,
                None => self.log.delta_or_most().await,
            };
            tokio::time::sleep(delta + delta / DRIFT).await;
        };
        tokio::select! {
            () = everybody => {}
            () = delta => {}
        }
    }
}

/// Applies the changes of entries that the store does not have yet, up to the change `last`. All changes become durable with one sync.
fn apply(store: &dyn Source, entries: &[Entry], last: Revision) -> Result<(), ReplicaError> {
    let (at, state) = now(store)?;
    let next = at.next().revision;
    if entries.iter().all(|entry| entry.last() < next) {
        return Ok(());
    }
    if entries.iter().any(|entry| entry.first == next && !state.has(entry.state)) {
        return Err(ReplicaError::Differs { change: next });
    }
    let numbers = entries.iter().flat_map(|entry| (entry.first.0..).map(Revision).zip(&entry.changes));
    let (numbers, changes): (Vec<Revision>, Vec<Change>) = numbers
        .filter(|(number, _)| next <= *number && *number <= last)
        .map(|(number, change)| (number, after(change, Revision(number.0 - 1))))
        .unzip();
    for (number, done) in numbers.into_iter().zip(store.commit_each(&changes)) {
        match done {
            // If all members have the same records, a change writes the same records on every member. So if the change got another number here, the
            // records were not the same.
            Ok(done) if done.revision != number => {
                return Err(ReplicaError::Differs { change: Revision(number.0 + 1) });
            }
            Ok(_) => {}
            // Another process of this machine has applied the change already.
            Err(CommitError::Conflict { .. }) if number <= store.at().revision => {}
            Err(why) => return Err(ReplicaError::NotApplied { change: number, why }),
        }
    }
    Ok(())
}

/// The last change that a store has, and the digests of its records.
fn now(store: &dyn Source) -> Result<(At, Digests), SourceError> {
    store.read(|view| Ok((view.at(), Digests::of(view)?)))?
}

/// The number of bytes that a change writes.
fn bytes_of(change: &Change) -> usize {
    change.writes().map(|(_, key, value)| key.len() + value.map_or(0, <[u8]>::len)).sum()
}

/// Runs work that can take seconds in a separate thread. During the work, the calling task can renew the beat.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, SourceError> {
    let ended = |why: tokio::task::JoinError| {
        SourceError::Unavailable(format!("internal error: a large change was not applied: {why}"))
    };
    tokio::task::spawn_blocking(work).await.map_err(ended)
}

/// Returns the same change with a condition: the change `number` must be the newest change of the store.
fn after(change: &Change, number: Revision) -> Change {
    let mut change = change.clone();
    change.only_after(number);
    change
}

/// The error for a change that was not made.
fn refused(why: ReplicaError) -> CommitError {
    match why {
        ReplicaError::Store(why) => why.into(),
        why => SourceError::Unavailable(why.to_string()).into(),
    }
}
