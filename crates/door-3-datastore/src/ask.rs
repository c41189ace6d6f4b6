//! The question to this door: a datastore and a kind of operation.

use enfilade_facts::vocabulary::{DatastoreName, OperationKind};

/// Whether an operation is about to begin or is running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The operation is about to begin.
    Entering,
    /// The operation runs, and the ledger counts it. A maintenance mode that this program knows does not end the operation if the mode was set after
    /// the operation began. Instead, the command that set the mode waits for the end of the operation.
    Inside,
}

/// A datastore and the operation on it.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The name of the datastore.
    pub name: &'a DatastoreName,
    /// The kind of the operation.
    pub kind: OperationKind,
    /// Whether the operation is about to begin or is running.
    pub phase: Phase,
}
