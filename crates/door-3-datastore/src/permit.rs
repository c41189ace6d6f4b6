//! The proof that door 3 was passed.

use crate::view::Known;
use enfilade_facts::tables::AccessRules;
use enfilade_facts::vocabulary::{DatastoreName, OperationKind};
use enfilade_facts::{At, Now};
use std::sync::Arc;

/// The store is there and open for this kind of work, as of a revision.
/// Made in one place, [`crate::open`] (invariant D2). The passage holds the ledger's guard beside it.
#[derive(Clone, Debug)]
pub struct DatastorePermit {
    pub(crate) known: Arc<Known>,
    pub(crate) kind: OperationKind,
    pub(crate) at: At,
    pub(crate) files_current: bool,
}

impl DatastorePermit {
    /// The store.
    pub fn name(&self) -> &DatastoreName {
        &self.known.name
    }

    /// What may be done.
    pub fn kind(&self) -> OperationKind {
        self.kind
    }

    /// Where its content is on this machine.
    pub fn root(&self) -> &str {
        &self.known.root
    }

    /// How much it may hold, in bytes of content.
    pub fn quota(&self) -> Option<u64> {
        self.known.quota
    }

    /// How access to its files is judged.
    pub fn access(&self) -> &AccessRules {
        &self.known.access
    }

    /// Whether, as far as this permit's own facts say, it still holds: same revision, and `datastore.cfg` looked at as it was.
    pub fn holds(&self, at: At, now: Now) -> bool {
        self.at == at && self.files_current == now.files_current
    }

    /// The facts it was granted on.
    pub fn at(&self) -> At {
        self.at
    }
}
