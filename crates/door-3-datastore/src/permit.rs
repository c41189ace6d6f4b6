//! The proof that door 3 granted an operation on a datastore.

use crate::fleet_place::FleetPlace;
use crate::view::Known;
use enfilade_facts::tables::AccessRules;
use enfilade_facts::vocabulary::{DatastoreName, OperationKind};
use enfilade_facts::{At, Clocks, MirrorHealth};
use std::sync::Arc;

/// Proof that the datastore exists and is open for one kind of operation, at one revision. Only [`crate::open`] creates it. The passage (the crate
/// that calls the doors) keeps the permit together with the guard that counts the operation in the ledger.
#[derive(Clone, Debug)]
pub struct DatastorePermit {
    pub(crate) known: Arc<Known>,
    pub(crate) kind: OperationKind,
    pub(crate) at: At,
    pub(crate) mirror: MirrorHealth,
}

impl DatastorePermit {
    /// The name of the datastore.
    pub fn name(&self) -> &DatastoreName {
        &self.known.name
    }

    /// The permitted kind of operation.
    pub fn kind(&self) -> OperationKind {
        self.kind
    }

    /// The path of the datastore's content on this machine.
    pub fn root(&self) -> &str {
        &self.known.root
    }

    /// The quota of the datastore, in bytes of content.
    pub fn quota(&self) -> Option<u64> {
        self.known.quota
    }

    /// The rules for access to the datastore's files.
    pub fn access(&self) -> &AccessRules {
        &self.known.access
    }

    /// Whether the permit still holds: the revision is the same, and the mirror of `datastore.cfg` is in the same state.
    pub fn holds(&self, at: At, now: Clocks) -> bool {
        self.at == at && self.mirror == now.mirror
    }

    /// Whether another member of the fleet serves the datastore now. This can change without a change of the facts.
    pub fn is_elsewhere(&self, place: &FleetPlace) -> bool {
        self.known.elsewhere(place).is_some()
    }

    /// The store of facts and the revision on which the permit was granted.
    pub fn at(&self) -> At {
        self.at
    }
}
