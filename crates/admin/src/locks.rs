//! Locks of files that stand in somebody's way and whose owner does not give them up.

use crate::desk::Desk;
use crate::error::Error;
use enfilade_content::{Lock, Locks};
use enfilade_facts::Read as _;
use enfilade_facts::limits::Limits;
use enfilade_facts::locks::LockStore;
use enfilade_facts::tables::{Datastore, Domain, User};
use enfilade_facts::vocabulary::{DatastoreName, StorePath};

/// A lock that was ended.
#[derive(Clone, Debug)]
pub struct EndedLock {
    /// What it was on.
    pub path: StorePath,
    /// Whether it was on everything beneath, too.
    pub is_deep: bool,
    /// Who had it: a name, or the id of a user who is deleted.
    pub user: String,
    /// When it would have ended by itself, in seconds since the epoch.
    pub until: i64,
}

/// Ends every lock that covers a path; says which. The change log has a line of it before it is done.
///
/// # Errors
/// When there is no such datastore, or the locks or the facts cannot be read or written.
pub fn unlock(
    desk: &Desk<'_>,
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
    desk.facts.read(|view| view.get::<Datastore>(datastore))??.ok_or_else(missing)?;
    let locks = Locks::new(locks, desk.now.unix_seconds, limits);
    let found = locks.covering(datastore, path)?;
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let (ended, _) = desk.commit(&format!("datastore unlock {datastore} {path}"), |view, change| {
        // Locks are no facts: the record stays as it is, so that the change log has a line.
        let row = view.get::<Datastore>(datastore)?.ok_or_else(missing)?;
        change.expect_same(datastore, &row).put(datastore, &row);
        let named = |lock: &Lock| -> Result<EndedLock, Error> {
            let user = view.get::<User>(&lock.user)?;
            let domain = user.as_ref().map(|user| view.get::<Domain>(&user.domain)).transpose()?.flatten();
            let name = user.zip(domain).map(|(user, domain)| format!("{}@{}", user.name, domain.name));
            let user = name.unwrap_or_else(|| lock.user.to_string());
            Ok(EndedLock { path: lock.path.clone(), is_deep: lock.is_deep, user, until: lock.until })
        };
        found.iter().map(named).collect::<Result<Vec<_>, _>>()
    })?;
    let tokens: Vec<_> = found.iter().map(|lock| lock.token).collect();
    locks.end(&tokens)?;
    Ok(ended)
}
