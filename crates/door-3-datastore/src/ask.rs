//! What the visitor wants of the store.

use enfilade_facts::vocabulary::{DatastoreName, OperationKind};

/// Where an operation is with respect to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is about to begin.
    Entering,
    /// It began, and the ledger counts it: a maintenance mode set since then waits for it and does not cut it.
    Inside,
}

/// A store and what is to be done there.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// Which store.
    pub name: &'a DatastoreName,
    /// To do what.
    pub kind: OperationKind,
    /// About to begin, or under way.
    pub standing: Standing,
}
