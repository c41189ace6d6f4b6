//! The question to this door: a datastore and a kind of operation.

use enfilade_facts::vocabulary::{DatastoreName, OperationKind};

/// Whether an operation begins or already runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It is about to begin.
    Entering,
    /// It runs, and the ledger counts it: a maintenance mode set since then waits for it and does not end it.
    Inside,
}

/// A datastore and the operation on it.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// Which store.
    pub name: &'a DatastoreName,
    /// The kind of the operation.
    pub kind: OperationKind,
    /// Whether the operation begins or already runs.
    pub phase: Phase,
}
