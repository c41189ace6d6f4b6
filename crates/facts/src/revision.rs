//! The id of a store, and the number of a change.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The id of the store that holds the facts. A restored backup is another store, with another id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StoreId(pub u128);

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The number of a change. The number also identifies the state of the stored facts after the change. Changes are counted from 1, beginning with the
/// creation of the store, without gaps. Exception: a restored store continues at a number that is later than the revisions of the old store and of
/// the backup. If two views of one store have the same revision, they show the same facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Revision(pub u64);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A store at a revision. A cached verdict of a door is used only for the `At` at which the verdict was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct At {
    /// The store.
    pub store: StoreId,
    /// The revision of the store.
    pub revision: Revision,
}

impl At {
    /// This store at the revision of its next change.
    #[must_use]
    pub fn next(self) -> Self {
        At { revision: Revision(self.revision.0 + 1), ..self }
    }
}
