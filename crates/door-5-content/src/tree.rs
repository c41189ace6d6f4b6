//! The state and the settings that all nodes beneath a root share.

use crate::directory_sync::DirectorySyncs;
use crate::kinds::KnownPaths;
use enfilade_access::ObjectId;
use enfilade_facts::vocabulary::AclDialect;
use rustix::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The state and the settings that all nodes beneath a root share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    pub(crate) state: Arc<TreeState>,
    /// The dialect of ACLs.
    pub(crate) acls: AclDialect,
}

/// The state of an open root.
#[derive(Debug, Default)]
pub(crate) struct TreeState {
    pub(crate) turn: Turn,
    pub(crate) syncs: DirectorySyncs,
    /// Paths that led to a file or directory at the last check.
    pub(crate) known: KnownPaths,
    /// The id of the file system, if it is one of the file systems with reliable time stamps (`file_systems.rs`).
    pub(crate) stamping: Option<u64>,
    /// The unique id of the mount. The kernel never uses this id again. `None` before Linux 6.8.
    pub(crate) mount: Option<u64>,
    /// The root directory, which the helper process needs. `None` only in tests.
    pub(crate) directory: Option<Arc<OwnedFd>>,
}

/// The mutex for changes of names. A change of a name takes two system calls: the first call checks which object has the name, and the second call
/// changes the name. Only the thread that has locked the mutex makes these calls, so no other thread can change the name between them. The mutex does
/// not stop other processes. If another process changes the name before the check, the check notices the change. The mutex contains the names that
/// must not change even after the thread has unlocked the mutex ([`ReservedNames`]).
#[derive(Debug, Default)]
pub(crate) struct Turn(Mutex<Vec<Name>>);

/// A name in a directory.
pub(crate) type Name = (ObjectId, String);

/// The right of one thread to change names. The right ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct MyTurn<'t>(pub(crate) MutexGuard<'t, Vec<Name>>);

impl Turn {
    /// Waits until no other thread has the right to change names. If a thread panicked while it had the right, the list of reserved names is still
    /// valid, because each name is added or removed as a whole.
    pub(crate) fn take(&self) -> MyTurn<'_> {
        MyTurn(self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Two names that no other thread of this process may change.
#[derive(Debug)]
pub(crate) struct ReservedNames {
    pub(crate) state: Arc<TreeState>,
    pub(crate) names: [Name; 2],
}

impl Drop for ReservedNames {
    fn drop(&mut self) {
        let mut turn = self.state.turn.take();
        for own in &self.names {
            if let Some(at) = turn.0.iter().position(|name| name == own) {
                turn.0.swap_remove(at);
            }
        }
    }
}
