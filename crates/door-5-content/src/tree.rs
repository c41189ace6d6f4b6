//! What everything beneath a root has in common.

use crate::kinds::KnownPaths;
use enfilade_access::ObjectId;
use enfilade_facts::vocabulary::AclDialect;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What everything beneath a root has in common.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    pub(crate) state: Arc<TreeState>,
    /// How ACLs are written down.
    pub(crate) acls: AclDialect,
}

/// Where a tree is.
#[derive(Debug, Default)]
pub(crate) struct TreeState {
    pub(crate) turn: Turn,
    /// What is there can be opened without harm.
    pub(crate) known: KnownPaths,
    /// The file system, where it is one of this machine whose times can be relied on, and no other machine's and no program's.
    pub(crate) stamping: Option<u64>,
    /// The mount, by a number no other mount ever has; nothing before Linux 6.8.
    pub(crate) mount: Option<u64>,
}

/// Whose turn it is to give a name to another object. Comparing what a name means and changing it are two system calls,
/// so within one process they are done one at a time; between processes the comparison alone has to do.
#[derive(Debug, Default)]
pub(crate) struct Turn(Mutex<Vec<Name>>);

/// A name in a directory.
pub(crate) type Name = (ObjectId, String);

/// The turn of one thread, until it is dropped.
#[derive(Debug)]
pub(crate) struct MyTurn<'t>(pub(crate) MutexGuard<'t, Vec<Name>>);

impl Turn {
    /// Waits for the turn. A holder that panicked has broken nothing: each name is added and removed whole.
    pub(crate) fn take(&self) -> MyTurn<'_> {
        MyTurn(self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Names that nobody else of this process may change.
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
