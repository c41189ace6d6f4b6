//! Ends WebDAV locks that their owner does not release.

use crate::change_context::ChangeContext;
use crate::error::Error;
use enfilade_content::{Lock, Locks};
use enfilade_facts::Read as _;
use enfilade_facts::limits::Limits;
use enfilade_facts::locks::LockStore;
use enfilade_facts::tables::{Datastore, Domain, User};
use enfilade_facts::vocabulary::{DatastoreName, StorePath, UserId, Userid};
use std::collections::BTreeSet;

/// A lock that was ended.
#[derive(Clone, Debug)]
pub struct EndedLock {
    /// The path of the lock.
    pub path: StorePath,
    /// Whether the lock also covered everything below the path.
    pub is_deep: bool,
    /// The owner of the lock: a name, or the id of a deleted user.
    pub user: String,
    /// When the lock would have expired, in seconds since the epoch.
    pub until: i64,
}

/// Ends every lock that covers a path, and returns these locks. The change log records the unlocking before the locks end.
///
/// # Errors
/// When the datastore does not exist, or the locks or the facts cannot be read or written.
pub fn unlock(
    ctx: &ChangeContext<'_>,
    locks: &dyn LockStore,
    limits: Limits,
    datastore: &DatastoreName,
    path: &StorePath,
) -> Result<Vec<EndedLock>, Error> {
    let missing = || Error::Missing {
        what: "datastore",
        name: datastore.to_string(),
        hint: "see `enfilade datastore list`",
    };
    ctx.facts.read(|view| view.get::<Datastore>(datastore))??.ok_or_else(missing)?;
    let locks = Locks::new(locks, ctx.now.unix_seconds, limits);
    let found = locks.covering(datastore, path)?;
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let (ended, _) = ctx.commit(&format!("datastore unlock {datastore} {path}"), |view, change| {
        // Locks are not facts: this change alters no fact, and only adds an entry to the change log.
        let row = view.get::<Datastore>(datastore)?.ok_or_else(missing)?;
        change.expect_same(datastore, &row).put(datastore, &row);
        let named = |lock: &Lock| -> Result<EndedLock, Error> {
            let user = view.get::<User>(&lock.user)?;
            let domain = user.as_ref().map(|user| view.get::<Domain>(&user.domain)).transpose()?.flatten();
            let name = user.zip(domain).and_then(|(user, domain)| Userid::new(&user.name, domain.name).ok());
            let user = name.map_or_else(|| lock.user.to_string(), |userid| userid.to_string());
            Ok(EndedLock { path: lock.path.clone(), is_deep: lock.is_deep, user, until: lock.until })
        };
        found.iter().map(named).collect::<Result<Vec<_>, _>>()
    })?;
    let tokens: Vec<_> = found.iter().map(|lock| lock.token).collect();
    locks.end(&tokens)?;
    Ok(ended)
}

/// Ends every lock of these users, and returns the number of these locks. This function adds no entry to the change log. So the caller must first
/// commit a change that revokes the access of these users.
///
/// # Errors
/// When the locks cannot be read or written.
pub fn end_locks_of(
    ctx: &ChangeContext<'_>,
    locks: &dyn LockStore,
    limits: Limits,
    users: &BTreeSet<UserId>,
) -> Result<usize, Error> {
    let locks = Locks::new(locks, ctx.now.unix_seconds, limits);
    let found = locks.of_users(users)?;
    locks.end(&found)?;
    Ok(found.len())
}
