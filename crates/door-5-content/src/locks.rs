//! Locks on paths (RFC 4918 §6 and §7): the owners of the locks, the resources that the locks cover, and the requests that the locks block.
//!
//! A lock is found by its token, by its path, and by every directory above its path. So the cost of a lookup grows with the depth of the path, and
//! not with the number of locks. The keys under which a lock is stored contain digests of paths. The record of the lock contains the path itself.

use crate::refuse::Refusal;
use enfilade_facts::MemoSeed;
use enfilade_facts::codec::{Reader, Writer};
use enfilade_facts::limits::Limits;
use enfilade_facts::locks::{LockRows, LockRowsMut, LockStore, LocksError};
use enfilade_facts::memo::KeyMaker;
use enfilade_facts::vocabulary::{DatastoreName, StorePath, UserId};
use std::collections::BTreeSet;
use std::fmt;
use std::ops::ControlFlow;
use std::str::FromStr;

/// The token of one lock, shown as `urn:uuid:…`. Nobody can guess a lock token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockToken([u8; 16]);

impl LockToken {
    fn new() -> Result<Self, Refusal> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|error| Refusal::Io {
            what: "asking for random bytes".to_owned(),
            errno: error.to_string(),
        })?;
        // Version 4, variant 1 (RFC 9562 §5.4).
        let random = u128::from_be_bytes(bytes) & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
        Ok(LockToken(random.to_be_bytes()))
    }
}

impl fmt::Display for LockToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = u128::from_be_bytes(self.0);
        let (a, b, c) = (id >> 96, (id >> 80) & 0xffff, (id >> 64) & 0xffff);
        let (d, e) = ((id >> 48) & 0xffff, id & 0xffff_ffff_ffff);
        write!(f, "urn:uuid:{a:08x}-{b:04x}-{c:04x}-{d:04x}-{e:012x}")
    }
}

impl FromStr for LockToken {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        let hex: String = text.strip_prefix("urn:uuid:").ok_or(())?.chars().filter(|c| *c != '-').collect();
        let id = u128::from_str_radix(&hex, 16).map_err(drop)?;
        let token = LockToken(id.to_be_bytes());
        // Each token has only one valid text form.
        if token.to_string() == text { Ok(token) } else { Err(()) }
    }
}

/// A lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    /// The lock token.
    pub token: LockToken,
    /// The datastore of the path.
    pub datastore: DatastoreName,
    /// The locked path.
    pub path: StorePath,
    /// Whether the path is the path of a directory.
    pub is_directory: bool,
    /// Whether everything beneath the path is locked, too (`Depth: infinity`).
    pub is_deep: bool,
    /// Whether the lock is exclusive: no other lock on the same resources exists at the same time.
    pub is_exclusive: bool,
    /// The user who took the lock: no other user may use the token.
    pub user: UserId,
    /// The client's description of the owner of the lock, as XML.
    pub said: String,
    /// When the lock ends, in seconds since the epoch.
    pub until: i64,
}

impl Lock {
    fn encode(&self) -> Vec<u8> {
        let mut to = Writer::default();
        to.fixed(&self.token.0).text(self.datastore.as_str()).text(self.path.as_str());
        to.flag(self.is_deep).flag(self.is_exclusive).fixed(self.user.bytes());
        to.text(&self.said).i64(self.until).flag(self.is_directory);
        to.into_bytes()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader::new(bytes);
        Some(Lock {
            token: LockToken(from.fixed()?),
            datastore: from.text()?.parse().ok()?,
            path: StorePath::from_plain(&from.text()?).ok()?,
            is_deep: from.flag()?,
            is_exclusive: from.flag()?,
            user: UserId::read(&mut from)?,
            said: from.text()?,
            until: from.i64()?,
            // Records of earlier versions do not have this field.
            is_directory: from.flag().unwrap_or_default(),
        })
    }

    fn is_of_tree(&self) -> bool {
        self.is_directory && self.is_deep
    }

    /// Whether the lock covers the resource at a path.
    pub fn covers(&self, path: &StorePath) -> bool {
        self.path == *path || self.is_deep && is_beneath(path, &self.path)
    }
}

fn is_beneath(path: &StorePath, above: &StorePath) -> bool {
    let rest = path.as_str().strip_prefix(above.as_str());
    path != above && rest.is_some_and(|rest| above.is_root() || rest.starts_with('/'))
}

/// A request for a lock.
#[derive(Clone, Debug)]
pub struct LockAsk {
    /// The datastore of the path.
    pub datastore: DatastoreName,
    /// The path to lock.
    pub path: StorePath,
    /// Whether the path is the path of a directory.
    pub is_directory: bool,
    /// Whether everything beneath the path is to be locked, too (`Depth: infinity`).
    pub is_deep: bool,
    /// Whether the lock is to be exclusive: no other lock on the same resources may exist at the same time.
    pub is_exclusive: bool,
    /// The user who requests the lock.
    pub user: UserId,
    /// The client's description of the owner of the lock, as XML.
    pub said: String,
    /// The duration, in seconds.
    pub seconds: i64,
}

/// The things at a path that an operation changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touches {
    /// The content of the resource. The name of the resource stays the same.
    Content,
    /// The entry in the directory: the operation makes, removes or replaces the entry.
    Entry,
    /// The entry, with everything beneath it.
    Tree,
}

const BY_TOKEN: u8 = b't';
const AT: u8 = b'a';
const BENEATH: u8 = b'b';

/// The locks in all datastores of a server.
#[derive(Clone, Copy)]
pub struct Locks<'s> {
    store: &'s dyn LockStore,
    /// The wall clock, in seconds since the epoch. A lock that has ended at this time counts as absent.
    now: i64,
    limits: Limits,
}

impl<'s> Locks<'s> {
    /// The locks that exist at the time `unix_seconds`.
    pub fn new(store: &'s dyn LockStore, unix_seconds: i64, limits: Limits) -> Self {
        Locks { store, now: unix_seconds, limits }
    }

    /// A lock that blocks the operation of `user`, because `tokens` contains no lock token with which `user` may do the operation.
    ///
    /// # Refuses
    /// [`Refusal::Locks`] when the locks cannot be read.
    pub fn in_the_way(
        &self,
        datastore: &DatastoreName,
        path: &StorePath,
        touches: Touches,
        user: UserId,
        tokens: &[LockToken],
    ) -> Result<Option<Lock>, Refusal> {
        let (now, mut found) = (self.now, Ok(None));
        self.store.read(&mut |rows| found = in_the_way(rows, now, datastore, path, touches, user, tokens))?;
        Ok(found?)
    }

    /// The locks that conflict with the requested lock.
    ///
    /// # Refuses
    /// [`Refusal::Locks`] when the locks cannot be read.
    pub fn against(&self, ask: &LockAsk) -> Result<Vec<Lock>, Refusal> {
        let (now, mut found) = (self.now, Ok(Vec::new()));
        self.store.read(&mut |rows| found = around(rows, now, &ask.datastore, &ask.path, ask.is_deep))?;
        Ok(found?.into_iter().filter(|other| other.is_exclusive || ask.is_exclusive).collect())
    }

    /// The locks that cover the resource at a path.
    ///
    /// # Refuses
    /// [`Refusal::Locks`] when the locks cannot be read.
    pub fn covering(&self, datastore: &DatastoreName, path: &StorePath) -> Result<Vec<Lock>, Refusal> {
        let (now, mut found) = (self.now, Ok(Vec::new()));
        self.store.read(&mut |rows| found = covering(rows, now, datastore, path))?;
        Ok(found?)
    }

    /// Whether there is any lock beneath a path. A lock that has ended counts, too. If there is a lock, the caller must look up the locks of each
    /// entry beneath the path.
    ///
    /// # Refuses
    /// [`Refusal::Locks`] when the locks cannot be read.
    pub fn any_beneath(&self, datastore: &DatastoreName, path: &StorePath) -> Result<bool, Refusal> {
        let mut found = Ok(Vec::new());
        self.store.read(&mut |rows| found = tokens(rows, BENEATH, datastore, path, 1))?;
        Ok(!found?.is_empty())
    }

    /// Takes a lock.
    ///
    /// # Refuses
    /// [`Refusal::Locked`] if another lock conflicts, [`Refusal::TooManyLocks`] if a limit is reached.
    pub fn take(&self, ask: &LockAsk) -> Result<Lock, Refusal> {
        let lock = Lock {
            token: LockToken::new()?,
            datastore: ask.datastore.clone(),
            path: ask.path.clone(),
            is_directory: ask.is_directory,
            is_deep: ask.is_deep,
            is_exclusive: ask.is_exclusive,
            user: ask.user,
            said: ask.said.clone(),
            until: self.until(ask.seconds),
        };
        self.change(|rows, now| {
            forget_old(rows, now, &lock.datastore)?;
            let others = around(rows, now, &lock.datastore, &lock.path, lock.is_deep)?;
            if let Some(other) = others.iter().find(|other| other.is_exclusive || lock.is_exclusive) {
                return Ok(Err(Refusal::Locked(other.path.to_string())));
            }
            let on_trees = others.iter().filter(|other| other.is_of_tree()).count() as u64;
            if lock.is_of_tree() && on_trees >= self.limits.deep_locks_per_tree {
                return Ok(Err(Refusal::TooManyLocks));
            }
            let all = all(rows, &lock.datastore)?;
            let own = all.iter().filter(|other| other.user == lock.user).count();
            let is_full = |count: usize, most: u64| count as u64 >= most;
            if is_full(all.len(), self.limits.locks_per_store) || is_full(own, self.limits.locks_per_user) {
                return Ok(Err(Refusal::TooManyLocks));
            }
            write(rows, &lock)?;
            Ok(Ok(()))
        })?;
        Ok(lock)
    }

    /// Changes the time at which a lock ends.
    ///
    /// # Refuses
    /// [`Refusal::NoSuchLock`] if the lock has ended, belongs to another user, or does not cover the path.
    pub fn refresh(
        &self,
        (datastore, path): (&DatastoreName, &StorePath),
        token: LockToken,
        user: UserId,
        seconds: i64,
    ) -> Result<Lock, Refusal> {
        let (until, mut refreshed) = (self.until(seconds), None);
        self.change(|rows, now| {
            let Some(mut lock) =
                of_token(rows, now, token)?.filter(|lock| lock.is_for(datastore, path, user))
            else {
                return Ok(Err(Refusal::NoSuchLock));
            };
            lock.until = until;
            write(rows, &lock)?;
            refreshed = Some(lock);
            Ok(Ok(()))
        })?;
        refreshed.ok_or(Refusal::NoSuchLock)
    }

    /// Releases a lock.
    ///
    /// # Refuses
    /// As [`Locks::refresh`].
    pub fn release(
        &self,
        (datastore, path): (&DatastoreName, &StorePath),
        token: LockToken,
        user: UserId,
    ) -> Result<(), Refusal> {
        self.change(|rows, now| {
            let lock = of_token(rows, now, token)?.filter(|lock| lock.is_for(datastore, path, user));
            let Some(lock) = lock else { return Ok(Err(Refusal::NoSuchLock)) };
            remove(rows, &lock)?;
            Ok(Ok(()))
        })
    }

    /// The tokens of the locks at a path and beneath it. The locks on resources that no longer exist are included.
    ///
    /// # Refuses
    /// [`Refusal::Locks`] when the locks cannot be read.
    pub fn at_or_beneath(
        &self,
        datastore: &DatastoreName,
        path: &StorePath,
    ) -> Result<Vec<LockToken>, Refusal> {
        let (now, mut found) = (self.now, Ok(Vec::new()));
        self.store.read(&mut |rows| found = at_or_beneath(rows, now, datastore, path))?;
        Ok(found?.into_iter().map(|lock| lock.token).collect())
    }

    /// The tokens of the locks of these users, in every datastore.
    ///
    /// # Refuses
    /// [`Refusal::Locks`] when the locks cannot be read.
    pub fn of_users(&self, users: &BTreeSet<UserId>) -> Result<Vec<LockToken>, Refusal> {
        let (now, mut found) = (self.now, Ok(Vec::new()));
        self.store.read(&mut |rows| found = of_users(rows, now, users))?;
        Ok(found?)
    }

    /// Ends locks, for example after their resources were deleted or renamed.
    ///
    /// # Refuses
    /// [`Refusal::Locks`] when the locks cannot be written.
    pub fn end(&self, tokens: &[LockToken]) -> Result<(), Refusal> {
        // Usually there is no lock to end. Then no write transaction is needed.
        if tokens.is_empty() {
            return Ok(());
        }
        self.change(|rows, now| {
            for token in tokens {
                if let Some(lock) = of_token(rows, now, *token)? {
                    remove(rows, &lock)?;
                }
            }
            Ok(Ok(()))
        })
    }

    fn until(&self, seconds: i64) -> i64 {
        self.now.saturating_add(seconds.clamp(1, self.limits.lock_seconds.cast_signed()))
    }

    fn change(
        &self,
        mut work: impl FnMut(&mut dyn LockRowsMut, i64) -> Result<Result<(), Refusal>, LocksError>,
    ) -> Result<(), Refusal> {
        let (now, mut outcome) = (self.now, Ok(Ok(())));
        self.store.write(&mut |rows| {
            outcome = work(rows, now);
            if matches!(outcome, Ok(Ok(()))) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        outcome?
    }
}

impl Lock {
    fn is_for(&self, datastore: &DatastoreName, path: &StorePath, user: UserId) -> bool {
        self.user == user && self.datastore == *datastore && self.covers(path)
    }
}

fn in_the_way(
    rows: &dyn LockRows,
    now: i64,
    datastore: &DatastoreName,
    path: &StorePath,
    touches: Touches,
    user: UserId,
    tokens: &[LockToken],
) -> Result<Option<Lock>, LocksError> {
    let holds = |lock: &Lock| lock.user == user && tokens.contains(&lock.token);
    // If there are several shared locks, the token of one of these locks is enough.
    let passes = |locks: Vec<Lock>| match locks.iter().any(holds) {
        true => None,
        false => locks.into_iter().next(),
    };
    let mut in_the_way = passes(covering(rows, now, datastore, path)?);
    if in_the_way.is_none()
        && touches != Touches::Content
        && let Some((directory, _)) = path.split()
    {
        in_the_way = passes(covering(rows, now, datastore, &directory)?);
    }
    if in_the_way.is_none() && touches == Touches::Tree {
        in_the_way = beneath(rows, now, datastore, path)?.into_iter().find(|lock| !holds(lock));
    }
    Ok(in_the_way)
}

/// The locks that cover a path. If a whole tree is to be locked, the locks beneath the path are included.
fn around(
    rows: &dyn LockRows,
    now: i64,
    datastore: &DatastoreName,
    path: &StorePath,
    is_deep: bool,
) -> Result<Vec<Lock>, LocksError> {
    let mut found = covering(rows, now, datastore, path)?;
    if is_deep {
        found.extend(beneath(rows, now, datastore, path)?);
    }
    Ok(found)
}

fn covering(
    rows: &dyn LockRows,
    now: i64,
    datastore: &DatastoreName,
    path: &StorePath,
) -> Result<Vec<Lock>, LocksError> {
    let mut found = Vec::new();
    for at in self_and_above(path) {
        let locks = locks(rows, now, AT, datastore, &at)?;
        found.extend(locks.into_iter().filter(|lock| lock.path == at && lock.covers(path)));
    }
    Ok(found)
}

fn beneath(
    rows: &dyn LockRows,
    now: i64,
    datastore: &DatastoreName,
    path: &StorePath,
) -> Result<Vec<Lock>, LocksError> {
    let locks = locks(rows, now, BENEATH, datastore, path)?;
    Ok(locks.into_iter().filter(|lock| is_beneath(&lock.path, path)).collect())
}

fn at_or_beneath(
    rows: &dyn LockRows,
    now: i64,
    datastore: &DatastoreName,
    path: &StorePath,
) -> Result<Vec<Lock>, LocksError> {
    let at = locks(rows, now, AT, datastore, path)?.into_iter().filter(|lock| lock.path == *path);
    Ok(at.chain(beneath(rows, now, datastore, path)?).collect())
}

/// Every lock of a datastore, including the locks that have ended.
fn all(rows: &dyn LockRows, datastore: &DatastoreName) -> Result<Vec<Lock>, LocksError> {
    at_or_beneath(rows, i64::MIN, datastore, &StorePath::root())
}

fn forget_old(rows: &mut dyn LockRowsMut, now: i64, datastore: &DatastoreName) -> Result<(), LocksError> {
    let old = all(rows, datastore)?.into_iter().filter(|lock| lock.until <= now);
    old.collect::<Vec<_>>().iter().try_for_each(|lock| remove(rows, lock))
}

fn self_and_above(path: &StorePath) -> Vec<StorePath> {
    let mut all = vec![path.clone()];
    while let Some((above, _)) = all.last().and_then(StorePath::split) {
        all.push(above);
    }
    all
}

/// Looks up locks by their keys. With the kind `AT`, finds the locks on a path. With the kind `BENEATH`, finds the locks beneath the path. Leaves out
/// expired locks. The result can contain locks of another path with the same digest.
fn locks(
    rows: &dyn LockRows,
    now: i64,
    kind: u8,
    datastore: &DatastoreName,
    path: &StorePath,
) -> Result<Vec<Lock>, LocksError> {
    let mut found = Vec::new();
    for token in tokens(rows, kind, datastore, path, usize::MAX)? {
        found.extend(of_token(rows, now, token)?.filter(|lock| lock.datastore == *datastore));
    }
    Ok(found)
}

fn tokens(
    rows: &dyn LockRows,
    kind: u8,
    datastore: &DatastoreName,
    path: &StorePath,
    at_most: usize,
) -> Result<Vec<LockToken>, LocksError> {
    let mut found = Vec::new();
    rows.scan(&prefix(kind, datastore, path), &mut |key, _| {
        found.extend(key.last_chunk().map(|token| LockToken(*token)));
        if found.len() < at_most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(found)
}

fn of_token(rows: &dyn LockRows, now: i64, token: LockToken) -> Result<Option<Lock>, LocksError> {
    let Some(bytes) = rows.get(&by_token(token))? else { return Ok(None) };
    let damaged = || LocksError(format!("the record of the lock {token} cannot be read"));
    let lock = Lock::decode(&bytes).ok_or_else(damaged)?;
    Ok(Some(lock).filter(|lock| now < lock.until))
}

fn of_users(rows: &dyn LockRows, now: i64, users: &BTreeSet<UserId>) -> Result<Vec<LockToken>, LocksError> {
    let (mut all, mut found) = (Vec::new(), Vec::new());
    rows.scan(&[BY_TOKEN], &mut |key, _| {
        all.extend(key.last_chunk().map(|token| LockToken(*token)));
        ControlFlow::Continue(())
    })?;
    for token in all {
        found.extend(of_token(rows, now, token)?.filter(|lock| users.contains(&lock.user)).map(|_| token));
    }
    Ok(found)
}

fn write(rows: &mut dyn LockRowsMut, lock: &Lock) -> Result<(), LocksError> {
    rows.put(&by_token(lock.token), &lock.encode())?;
    places(lock).into_iter().try_for_each(|key| rows.put(&key, b""))
}

fn remove(rows: &mut dyn LockRowsMut, lock: &Lock) -> Result<(), LocksError> {
    rows.delete(&by_token(lock.token))?;
    places(lock).into_iter().try_for_each(|key| rows.delete(&key))
}

/// The keys by which a lock is found: one key for its path, and one key for each directory above the path.
fn places(lock: &Lock) -> Vec<Vec<u8>> {
    let key = |kind, path: &StorePath| [prefix(kind, &lock.datastore, path), lock.token.0.to_vec()].concat();
    let above = self_and_above(&lock.path);
    let from_above = above.iter().skip(1).map(|path| key(BENEATH, path));
    from_above.chain([key(AT, &lock.path)]).collect()
}

fn by_token(token: LockToken) -> Vec<u8> {
    [&[BY_TOKEN], token.0.as_slice()].concat()
}

fn prefix(kind: u8, datastore: &DatastoreName, path: &StorePath) -> Vec<u8> {
    // The seed is fixed, because keys must be the same in every process. If two paths had the same digest, the path in the record would distinguish
    // them.
    let digest = KeyMaker::new(&MemoSeed([0; 16]), "lock").bytes(datastore.as_str().as_bytes());
    [&[kind], digest.bytes(path.as_str().as_bytes()).key().as_choice().as_slice()].concat()
}
