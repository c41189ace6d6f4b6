//! Which store, and at which of its changes.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Which store the facts are in. A restored backup is another store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StoreId(pub u128);

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The number of a change, and of the facts as they are after it. Changes are counted from 1 since the store was first
/// made, without gaps, through backup and restore. Equal revision of an equal store: nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Revision(pub u64);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A store at a revision: what a memo of a verdict is keyed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct At {
    /// The store.
    pub store: StoreId,
    /// Its revision.
    pub revision: Revision,
}

impl At {
    /// Where the next change of this store leads.
    #[must_use]
    pub fn next(self) -> Self {
        At { revision: Revision(self.revision.0 + 1), ..self }
    }
}
