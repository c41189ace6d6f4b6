//! The log: adds an entry after the head, reads entries, and deletes old entries. The rules with numbers are in docs/fleet-protocol.md.

use crate::entry::{Body, Encoded, Entry, EntryId, Stored};
use crate::etcd::{Etcd, EtcdError, delete, exists, has_value, is_absent, put, read, read_some};
use crate::messages::{KeyValue, Operation};
use enfilade_facts::codec::{Reader, Writer};
use enfilade_facts::format::{FORMAT, FORMAT_IN_FLEET, FORMAT_OF_PARTS};
use enfilade_facts::{At, Change, Revision, StoreId};
use std::time::Duration;

/// The largest record of an entry, in bytes. etcd refuses requests of more than 1.5 MiB by default. The changes of a larger entry are in parts.
const ENTRY_BYTES_MAX: usize = 1 << 20;
/// How many times a transaction with an unknown outcome is sent.
const TRIES: u32 = 5;
/// How many entries are read at once. If the answer does not come in time, for example over a slow connection, the next attempt reads fewer entries.
const ENTRIES_AT_ONCE: [i64; 3] = [100, 10, 1];
/// The maximum number of entries that etcd returns when a process asks for a proof that its facts are current.
pub(crate) const ENTRIES_OF_PROOF: i64 = 10;

/// How long a proof is valid (Δ), if the operator has not set Δ (`delta.rs`).
pub const DELTA: Duration = Duration::from_secs(1);
/// The smallest Δ. With a smaller Δ, a member would lose its proof when one machine of etcd stops.
pub const DELTA_MIN: Duration = Duration::from_secs(1);
/// The largest Δ.
pub const DELTA_MAX: Duration = Duration::from_secs(10);

/// The pause between the end of a watch and the start of the next watch.
const WATCH_AGAIN: Duration = Duration::from_secs(1);

/// Why the log was not read or changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// Another member added changes to the log first. The caller must apply these changes, check its own expectations again, and repeat the call.
    #[error("another member changed facts at the same time; try again")]
    Conflict,
    /// It is not known whether the changes are in the log: etcd stopped answering while they were added.
    #[error(
        "it is not known whether the change was made, and it may still be made ({0}). When etcd answers again, check whether the change was made, and repeat it only if it was not"
    )]
    Unknown(EtcdError),
    /// A call to etcd failed. [`Log::append`] returns this error only if nothing was changed. If another function returns it, it is unknown
    /// whether something was changed.
    #[error(transparent)]
    Etcd(#[from] EtcdError),
    /// The next entry is not in the log any more. The member must copy the store of another member.
    #[error(
        "the log does not have the change after {after} any more. This member refuses requests: let this machine join the fleet again with a new data directory (docs/fleet.md, \"What can go wrong\")"
    )]
    Trimmed {
        /// The last change that the reader has.
        after: Revision,
    },
    /// The log ends before the newest change of the store: etcd was restored from an old backup, or the store was changed without the log.
    #[error(
        "the log of the fleet ends with change {log}, but this member already has change {store}: etcd lost changes, or the facts on this machine were changed outside the fleet. This member refuses requests. Stop the servers of all members, and follow docs/fleet.md, \"etcd lost its data\""
    )]
    Older {
        /// The last change of the log.
        log: Revision,
        /// The last change of the store.
        store: Revision,
    },
    /// The machine is not a member: it never joined, left the fleet, or was expelled.
    #[error(
        "`{name}` is not a member of this fleet: it never joined, it left, or it was expelled. This machine refuses requests. To join again, run `enfilade fleet invite {name} FILE` on a member, and `enfilade fleet join FILE` on this machine with a new data directory"
    )]
    NotMember {
        /// The name.
        name: String,
    },
    /// The fleet follows the edited files of another member.
    #[error(
        "this machine is not the files member any more, so the change was not made. Make the change on the files member: the member with `followed` in `enfilade fleet status`. If no member has `followed`, another member is becoming the files member: wait until a member has `followed`"
    )]
    NotFollowed,
    /// Another command has changed the files member.
    #[error(
        "another command changed the files member at the same time, so this command did not make this machine the files member. Run `enfilade fleet status`: if it does not show `followed` for this machine, and you still want this machine to be the files member, run the command again"
    )]
    FilesMoved,
    /// The invitation was used, or is older than a day.
    #[error(
        "the invitation was used already, or is older than 24 h; make a new one on a member with `enfilade fleet invite`"
    )]
    InvitationUsed,
    /// The Δ (how long a proof is valid) of the fleet differs from the Δ of this machine.
    #[error(
        "`fleet.proof_millis` is {own} on this machine, but {fleet} in the fleet. Set it to {fleet} here, and restart this server. To use another value in the whole fleet: stop the servers of all members, set the value on every member, and start the servers"
    )]
    OtherDelta {
        /// The Δ of the fleet, in milliseconds.
        fleet: u64,
        /// The Δ of this machine, in milliseconds.
        own: u64,
    },
    /// etcd already has a beat (a record that a running process renews) with the id of this process.
    #[error(
        "etcd already has a registration `{id}`, so this server cannot register yet, and refuses requests. It tries again, and usually registers in about 2 s. If this takes longer, check the latency of etcd, and make sure that no clone of this running virtual machine is in use"
    )]
    Taken {
        /// The id.
        id: String,
    },
    /// The log under this prefix belongs to another store, or there is no log under this prefix.
    #[error(
        "the log `{prefix}` in etcd cannot be used: {why}; check `fleet.prefix` and `fleet.etcd` in enfilade.toml"
    )]
    NotOurs {
        /// The prefix.
        prefix: String,
        /// The reason.
        why: String,
    },
    /// A record in etcd cannot be read, for example an entry or the head. A damaged entry is never skipped.
    #[error(
        "`{key}` in etcd is damaged: {why}. Every member that has to read this key refuses requests. Follow docs/fleet.md, \"What can go wrong\". Do not restore an old backup of etcd: revocations would be lost"
    )]
    Damaged {
        /// The key.
        key: String,
        /// The reason.
        why: &'static str,
    },
    /// A newer program wrote to the log.
    #[error(
        "the fleet uses a newer version of Enfilade than this machine: this member refuses requests until its program is updated (docs/fleet.md, \"Update the program\")"
    )]
    Newer,
    /// The log has a format that this program does not use any more.
    #[error(
        "the fleet has format {format}, and this program can be a member of fleets of format {FORMAT_IN_FLEET} to {FORMAT}. This member refuses requests: run the \
         earlier version of enfilade again, and follow docs/fleet.md, \"Update the program\""
    )]
    TooOld {
        /// The format of the log.
        format: u32,
    },
    /// The fleet has an older format than the change needs, so it is possible that some members cannot read the change.
    #[error(
        "the fleet has format {format}, and this change needs format {needed}; it was not made. When all members have the new version of Enfilade, run \
         `enfilade fleet upgrade`, and make the change again"
    )]
    NeedsFormat {
        /// The format that the change needs.
        needed: u32,
        /// The format of the log.
        format: u32,
    },
    /// Servers of the fleet have an older program.
    #[error(
        "the fleet was not upgraded: these members have a server with an older program, which cannot read format {format}, or a server that has stopped: {}. \
         `enfilade fleet status` shows which servers these are (columns READS and STATE). Update an older program, and restart its server. After a server stopped, wait 5 s. Then run this command again",
        members.join(", ")
    )]
    OldPrograms {
        /// The newer format.
        format: u32,
        /// The names of the members.
        members: Vec<String>,
    },
    /// The operating system returned no random bytes.
    #[error("this machine gives no random bytes: {0}")]
    NoRandom(String),
    /// There are too many certificates.
    #[error("a fleet has at most 1,000 shared certificates: remove one with `enfilade certs remove --fleet`")]
    TooManyCertificates,
    /// The changes are larger than the maximum size of an entry, or a certificate or an answer to a challenge is too large.
    #[error(
        "the change has {bytes} bytes, but the maximum is {limit}; it was not made. Make several smaller changes, such as imports of fewer records"
    )]
    TooLarge {
        /// The size of the changes, in bytes.
        bytes: usize,
        /// The maximum size, in bytes.
        limit: usize,
    },
    /// A member has a registered process, but the change requires that this member has none.
    #[error(
        "the change was not made, because a server of another member runs again: this change is possible only while that member has no running server. `enfilade fleet status` shows the servers"
    )]
    ServerRuns,
    /// The parts of a large change were deleted before its entry was added.
    #[error(
        "the large change was not made: this machine or etcd did not answer for 60 s, so the parts of the change in etcd were deleted; make the change again"
    )]
    PartsDeleted,
}

/// The end of the log at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The store, and the number of the newest change.
    pub at: At,
    /// The digest of all records after the newest change.
    pub state: u128,
    /// The format of the records in the log.
    pub format: u32,
    /// The number of the first change in the log.
    pub first: Revision,
    /// The size of all entries in the log with their parts, in bytes. After the log was trimmed, the size is an estimate.
    pub log_bytes: u64,
}

impl Head {
    pub(crate) fn bytes(self) -> Vec<u8> {
        let mut to = Writer::default();
        to.u32(self.format).fixed(&self.at.store.0.to_be_bytes()).u64(self.at.revision.0);
        to.fixed(&self.state.to_be_bytes()).u64(self.first.0).u64(self.log_bytes);
        to.into_bytes()
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader::new(bytes);
        let format = from.u32()?;
        let store = StoreId(u128::from_be_bytes(from.fixed()?));
        let at = At { store, revision: Revision(from.u64()?) };
        let state = u128::from_be_bytes(from.fixed()?);
        let (first, log_bytes) = (Revision(from.u64()?), from.u64()?);
        from.is_empty().then_some(Head { at, state, format, first, log_bytes })
    }
}

/// The result of adding an entry.
pub(crate) struct Appended {
    /// The end of the log after the entry.
    pub(crate) head: Head,
    /// The processes that were registered when the entry was added; `None` if this answer of etcd was lost.
    pub(crate) registered: Option<Vec<String>>,
    /// The Δ (how long a proof is valid) of the fleet when the entry was added; `None` if this answer of etcd was lost.
    pub(crate) delta: Option<Duration>,
}

/// An event that a watch of etcd reports.
pub(crate) enum News {
    /// The watch begins. Events before this moment are not reported.
    Begins,
    /// The log has a new end.
    Head(Head),
    /// The log has a new entry.
    Entry(Entry),
    /// The id of a process, and the last change that the process reported as applied; `None` if its report was deleted.
    Applied(String, Option<Revision>),
}

/// The log of a store. All its keys in etcd begin with a prefix.
#[derive(Clone, Debug)]
pub struct Log {
    etcd: Etcd,
    prefix: String,
    store: StoreId,
    /// The name of this machine's member, if this machine is a member.
    member: Option<String>,
    /// The Δ (how long a proof is valid) that is configured on this machine (`delta.rs`).
    pub(crate) delta: Duration,
    /// The newest format that this program reads.
    reads: u32,
}

impl Log {
    /// The log of a store under this prefix.
    pub fn new(etcd: Etcd, prefix: &str, store: StoreId) -> Self {
        Log { etcd, prefix: prefix.to_owned(), store, member: None, delta: DELTA, reads: FORMAT }
    }

    /// Sets the name of this machine's member, and returns the log.
    #[must_use]
    pub fn of_member(self, name: &str) -> Self {
        Log { member: Some(name.to_owned()), ..self }
    }

    /// Returns this log for an imitation of an older program, which reads only the formats up to `format`. Only tests of updates call this function.
    #[must_use]
    pub fn as_program_of(self, format: u32) -> Self {
        Log { reads: format, ..self }
    }

    /// The newest format that this program reads.
    pub(crate) fn reads(&self) -> u32 {
        self.reads
    }

    pub(crate) fn member(&self) -> Option<&str> {
        self.member.as_deref()
    }

    /// Begins an empty log. `revision` is the newest change of the store, and `state` is the digest of all records after this change.
    ///
    /// # Errors
    /// When there is a log under the prefix already, or etcd does not answer.
    pub async fn begin(&self, revision: Revision, state: u128) -> Result<Head, LogError> {
        let at = At { store: self.store, revision };
        let head = Head { at, state, format: self.reads, first: at.next().revision, log_bytes: 0 };
        let operations = vec![put(self.head_key(), head.bytes())];
        match self.etcd.transact(vec![is_absent(self.head_key())], operations).await? {
            Some(_) => Ok(head),
            None => Err(self.not_ours("there is a log already".to_owned())),
        }
    }

    /// The end of the log. The answer contains every change that was acknowledged before the call.
    ///
    /// # Errors
    /// When there is no log, when the log belongs to another store, when the format of the log is newer or older than the formats of this program, or
    /// when etcd does not answer.
    pub async fn head(&self) -> Result<Head, LogError> {
        let found = self.etcd.read(self.head_key(), Vec::new(), 1).await?;
        self.head_of(found.first())
    }

    /// Reads the record of the head.
    pub(crate) fn head_of(&self, found: Option<&KeyValue>) -> Result<Head, LogError> {
        let found = found.ok_or_else(|| self.not_ours("there is no log".to_owned()))?;
        let head = Head::read(&found.value)
            .ok_or_else(|| damaged(&found.key, "it does not have the form of a head"))?;
        if head.at.store != self.store {
            return Err(self.not_ours(format!("it is the log of the store {}", head.at.store)));
        }
        if head.format > self.reads {
            return Err(LogError::Newer);
        }
        if head.format < FORMAT_IN_FLEET {
            return Err(LogError::TooOld { format: head.format });
        }
        Ok(head)
    }

    /// Adds changes after `head`, as one entry. `state` is the digest of all records after the changes. Returns the new end of the log.
    ///
    /// # Errors
    /// [`LogError::Conflict`] if `head` is not the end of the log any more; then nothing was changed. [`LogError::Unknown`] if etcd stops answering
    /// during the call.
    pub async fn append(&self, head: Head, changes: &[Change], state: u128) -> Result<Head, LogError> {
        let id = EntryId::new(0).map_err(|why| LogError::NoRandom(why.to_string()))?;
        let encoded = self.encoded(head, changes).await?;
        let appended = self.append_as(id, head, &encoded, state).await;
        if appended.is_err() {
            self.discard(&encoded).await;
        }
        Ok(appended?.head)
    }

    /// Encodes changes for an entry. Large changes are written to etcd in parts. If the caller does not commit these changes, the caller must call
    /// [`Log::discard`], which deletes the parts.
    ///
    /// # Errors
    /// [`LogError::NeedsFormat`] if the format of the log is too old for the changes, [`LogError::TooLarge`], or when etcd does not answer. After an
    /// error, no change was made.
    pub(crate) async fn encoded(&self, head: Head, changes: &[Change]) -> Result<Encoded, LogError> {
        let encoded = Encoded::new(changes);
        let is_large = encoded.entry_bytes() > ENTRY_BYTES_MAX;
        let of_parts = is_large.then_some(FORMAT_OF_PARTS);
        let needed = changes.iter().map(Change::needs_format).chain(of_parts).max().unwrap_or(head.format);
        if needed > head.format {
            return Err(LogError::NeedsFormat { needed, format: head.format });
        }
        match is_large {
            true => self.stage(encoded).await,
            false => Ok(encoded),
        }
    }

    /// Like [`Log::append`], but the caller gives the id of the entry. No other entry has this id.
    pub(crate) async fn append_as(
        &self,
        id: EntryId,
        head: Head,
        changes: &Encoded,
        state: u128,
    ) -> Result<Appended, LogError> {
        let first = head.at.next().revision;
        let last = changes.last(first);
        let key = self.entry_key(last);
        let sealed = changes.seal(&key, id, first, head.state);
        if changes.is_empty() {
            return Err(LogError::TooLarge { bytes: 0, limit: 0 });
        }
        let next = Head {
            at: At { revision: last, ..head.at },
            state,
            format: head.format,
            first: head.first,
            log_bytes: head.log_bytes.saturating_add((sealed.len() + changes.parts_bytes()) as u64),
        };
        let mut conditions = vec![has_value(self.head_key(), head.bytes())];
        // A machine that has left the fleet, or was expelled, must not change anything.
        conditions.extend(self.member.iter().map(|member| exists(self.key("member", member))));
        let member = self.member.as_ref().filter(|_| changes.is_from_file);
        // Rule 11: the fleet must still follow the files of this member. Otherwise it is possible that the member read an old version of these files.
        conditions.extend(member.map(|member| has_value(self.files_key(), member.as_bytes().to_vec())));
        conditions.extend(self.has_parts(changes));
        let absent = self.no_processes_of(&changes.absent_members);
        conditions.extend(absent.iter().cloned());
        let mut outcome = Err(EtcdError::Unavailable("no call".to_owned()));
        for tried in 0..TRIES {
            let conditions = conditions.clone();
            let mut operations = vec![
                put(key.clone(), sealed.clone()),
                put(self.head_key(), next.bytes()),
                read(self.key("node", ""), self.after_all("node")),
                self.reads_delta(),
            ];
            operations.extend(self.names_parts(changes, last));
            outcome = self.etcd.transact(conditions, operations).await;
            match outcome {
                Ok(Some(found)) => {
                    let processes = found.iter().flatten().filter_map(|found| self.id_of("node", found));
                    // If the stored Δ cannot be read, the largest Δ is used.
                    let delta = self.delta_in(found.iter().flatten()).unwrap_or(DELTA_MAX);
                    let registered = Some(processes.collect());
                    return Ok(Appended { head: next, registered, delta: Some(delta) });
                }
                // It is possible that an earlier attempt succeeded, and that only its answer was lost.
                Ok(None) if tried > 0 && self.is_there(&key, &sealed).await? => {
                    return Ok(Appended { head: next, registered: None, delta: None });
                }
                Ok(None) if member.is_some() && self.files_member().await? != self.member => {
                    return Err(LogError::NotFollowed);
                }
                Ok(None) => {
                    return Err(match &self.member {
                        Some(name) if !self.is_member(name).await? => {
                            LogError::NotMember { name: name.clone() }
                        }
                        // Without this check, the caller would repeat the call for ever if the parts were deleted.
                        _ if self.etcd.transact(self.has_parts(changes), Vec::new()).await?.is_none() => {
                            LogError::PartsDeleted
                        }
                        _ if self.etcd.transact(absent, Vec::new()).await?.is_none() => LogError::ServerRuns,
                        _ => LogError::Conflict,
                    });
                }
                // etcd refused the first attempt, so nothing was changed.
                Err(why @ EtcdError::Refused(_)) if tried == 0 => return Err(why.into()),
                Err(_) => {}
            }
        }
        outcome.map(|_| Appended { head: next, registered: None, delta: None }).map_err(LogError::Unknown)
    }

    /// Whether etcd has this entry under this key.
    async fn is_there(&self, key: &[u8], sealed: &[u8]) -> Result<bool, LogError> {
        let found = self.etcd.read(key.to_vec(), Vec::new(), 1).await.map_err(LogError::Unknown)?;
        Ok(found.first().is_some_and(|found| found.value == sealed))
    }

    /// The next entries after a change, in their order, without a gap. Empty if there are no later changes. The first entry can also contain changes
    /// up to `revision`. If the changes of an entry are in parts, a call returns only this entry.
    ///
    /// # Errors
    /// [`LogError::Trimmed`] if the next entry is not in the log any more, [`LogError::Damaged`] if an entry cannot be read.
    pub async fn after(&self, revision: Revision) -> Result<Vec<Entry>, LogError> {
        // The head is read before the entries: if it were read after them, an entry that is added in the meantime would count as a gap.
        let head = self.head().await?;
        let mut found = Err(EtcdError::Unavailable("no call".to_owned()));
        for most in ENTRIES_AT_ONCE {
            found = self.etcd.transact(Vec::new(), vec![self.reads_after(revision, most)]).await;
            if !matches!(found, Err(EtcdError::Unavailable(_))) {
                break;
            }
        }
        let found = found?.unwrap_or_default().into_iter().flatten();
        let mut found = self.entries(revision, head, found)?.into_iter().peekable();
        // Only one entry with parts is in memory at a time.
        if let Some(large) = found.next_if(|first| matches!(first.body, Body::Parted { .. })) {
            return Ok(vec![self.complete(large).await?]);
        }
        Ok(found.map_while(Stored::whole).collect())
    }

    /// Reads the next entries after a change, at most `most`.
    pub(crate) fn reads_after(&self, revision: Revision, most: i64) -> Operation {
        let from = self.entry_key(Revision(revision.0 + 1));
        read_some(from, self.entry_key(Revision(u64::MAX)), most)
    }

    /// The entries that [`Log::reads_after`] found. `head` was the end of the log at the time of the read, or earlier. The errors are the same as the
    /// errors of [`Log::after`].
    pub(crate) fn entries(
        &self,
        revision: Revision,
        head: Head,
        found: impl Iterator<Item = KeyValue>,
    ) -> Result<Vec<Stored>, LogError> {
        let mut next = Revision(revision.0 + 1);
        let mut entries = Vec::new();
        for found in found {
            let entry = Stored::open(&found.key, &found.value).map_err(|why| damaged(&found.key, why))?;
            if self.entry_key(entry.last()) != found.key {
                return Err(damaged(&found.key, "the number in the entry is not the number in the key"));
            }
            // It is possible that the reader has applied only some of the changes of the first entry.
            let follows = entry.first == next || entries.is_empty() && entry.first < next;
            if !follows {
                return Err(LogError::Trimmed { after: Revision(next.0 - 1) });
            }
            next = Revision(entry.last().0 + 1);
            entries.push(entry);
        }
        match entries.is_empty() && head.at.revision > revision {
            true => Err(LogError::Trimmed { after: revision }),
            false => Ok(entries),
        }
    }

    /// Deletes the entries up to a change, if `head` is still the end of the log. Returns whether they were deleted.
    ///
    /// # Errors
    /// When etcd does not answer.
    pub async fn trim(&self, head: Head, revision: Revision) -> Result<bool, LogError> {
        let next = Revision(revision.0 + 1);
        let (all, rest) =
            (head.at.revision.0 + 1 - head.first.0, head.at.revision.0.saturating_sub(revision.0));
        // The size is estimated as if all entries had the same size, so that the entries need not be read.
        let log_bytes = u128::from(head.log_bytes) * u128::from(rest) / u128::from(all.max(1));
        let trimmed = Head { first: next, log_bytes: u64::try_from(log_bytes).unwrap_or(u64::MAX), ..head };
        let operations = vec![
            delete(self.entry_key(Revision(0)), self.entry_key(next)),
            // These records name the parts of the deleted entries. `delete_unnamed_parts` deletes the parts later.
            delete(self.large_key(Revision(0)), self.large_key(next)),
            put(self.head_key(), trimmed.bytes()),
        ];
        let done = self.etcd.transact(vec![has_value(self.head_key(), head.bytes())], operations).await?;
        Ok(done.is_some())
    }

    /// Calls `heard` with events, for ever. An event can be reported late, or not at all. A reported event was committed in etcd.
    pub(crate) async fn watch(&self, heard: impl Fn(News)) {
        let first = format!("{}/", self.prefix).into_bytes();
        // The range ends before the parts of large entries. The keys of parts come after all keys that [`Log::news`] reads.
        let end = self.key("part", "");
        loop {
            heard(News::Begins);
            let changed = |key: &[u8], value: Option<Vec<u8>>| {
                if let Some(news) = self.news(key, value) {
                    heard(news);
                }
            };
            // If the watch fails, the members still learn of changes, because they ask for the head regularly.
            let _ = self.etcd.watch((first.clone(), end.clone()), changed).await;
            tokio::time::sleep(WATCH_AGAIN).await;
        }
    }

    /// Translates a change of a key into [`News`]. `None` if no event reports changes of this key, if the record is an entry with parts, or if the
    /// record cannot be read. In the last case, the member gets the error when it next asks etcd for a proof, because it then reads the record again.
    fn news(&self, key: &[u8], value: Option<Vec<u8>>) -> Option<News> {
        let rest = key.strip_prefix(self.prefix.as_bytes())?.strip_prefix(b"/")?;
        if let Some(id) = rest.strip_prefix(b"applied/") {
            let id = String::from_utf8(id.to_vec()).ok()?;
            let applied = value.and_then(|value| Some(u64::from_be_bytes(value.try_into().ok()?)));
            return Some(News::Applied(id, applied.map(Revision)));
        }
        let value = value?;
        if rest == b"head" {
            return self.head_of(Some(&KeyValue { key: key.to_vec(), value })).ok().map(News::Head);
        }
        rest.strip_prefix(b"log/")?;
        let entry = Stored::open(key, &value).ok().filter(|entry| self.entry_key(entry.last()) == key)?;
        // The member reads an entry with parts later, after it has asked etcd for the next proof.
        Some(News::Entry(entry.whole()?))
    }

    pub(crate) fn etcd(&self) -> &Etcd {
        &self.etcd
    }

    /// The key of the record with the id `id` in a table.
    pub(crate) fn key(&self, table: &str, id: &str) -> Vec<u8> {
        format!("{}/{table}/{id}", self.prefix).into_bytes()
    }

    /// The id in the key of a record of a table.
    pub(crate) fn id_of(&self, table: &str, row: &KeyValue) -> Option<String> {
        let id = row.key.strip_prefix(self.key(table, "").as_slice())?;
        String::from_utf8(id.to_vec()).ok()
    }

    /// The first key after all keys of a table: `0` follows `/` in ASCII.
    pub(crate) fn after_all(&self, table: &str) -> Vec<u8> {
        format!("{}/{table}0", self.prefix).into_bytes()
    }

    pub(crate) fn head_key(&self) -> Vec<u8> {
        format!("{}/head", self.prefix).into_bytes()
    }

    /// The key of an entry. All numbers in keys have the same length, so the order of the keys is the order of the changes.
    pub(crate) fn entry_key(&self, revision: Revision) -> Vec<u8> {
        format!("{}/log/{:020}", self.prefix, revision.0).into_bytes()
    }

    fn not_ours(&self, why: String) -> LogError {
        LogError::NotOurs { prefix: self.prefix.clone(), why }
    }
}

pub(crate) fn damaged(key: &[u8], why: &'static str) -> LogError {
    LogError::Damaged { key: String::from_utf8_lossy(key).into_owned(), why }
}
