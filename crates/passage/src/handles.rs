//! The state that the server keeps in memory for each datastore: its record in an index, and its directory while the directory is open.

use crate::refuse::Refusal;
use enfilade_content::{Fill, Root};
use enfilade_datastore::{Record, Stores};
use enfilade_facts::vocabulary::{AclDialect, DatastoreName};
use enfilade_facts::{Index, Mounts, View};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The parts of a datastore that are expensive to rebuild: its root while the root is open, and the used bytes of its quota.
#[derive(Default)]
pub(crate) struct Handle {
    /// The used part of the quota, if the datastore has a quota.
    pub(crate) fill: Fill,
    pub(crate) root: Mutex<OpenRoot>,
}

/// The root of a datastore while the root is open: the server keeps the root open for the next request (`kept_open`), or running operations hold the
/// root (`held`), or both. The directory of a datastore is never opened twice, because the mutex that serialises changes of names belongs to the open
/// directory.
#[derive(Default)]
pub(crate) struct OpenRoot {
    pub(crate) kept_open: Option<Arc<Root>>,
    pub(crate) held: Weak<Root>,
}

impl OpenRoot {
    /// The root that is kept open, if it was opened with this dialect of ACLs.
    pub(crate) fn kept_open(&self, acls: AclDialect) -> Option<Arc<Root>> {
        self.kept_open.as_ref().filter(|root| root.acls() == acls).cloned()
    }
}

impl Handle {
    pub(crate) fn root(&self) -> MutexGuard<'_, OpenRoot> {
        self.root.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The datastores of one running server.
pub(crate) struct HouseStores {
    pub(crate) index: Index<Stores<Handle>>,
    pub(crate) no_mounts: Mounts,
    /// The handles of datastores with an open root.
    pub(crate) open: Mutex<HashMap<DatastoreName, Arc<Handle>>>,
}

impl Default for HouseStores {
    fn default() -> Self {
        HouseStores { index: Index::new(), no_mounts: Mounts::default(), open: Mutex::default() }
    }
}

impl HouseStores {
    /// The record of a datastore on a view: from the index, or from the view itself if the index cannot be used.
    pub(crate) fn record(&self, view: &View<'_>, name: &DatastoreName) -> Result<Record, Refusal> {
        let found = self.index.read(view, |stores| stores.record(name, view.at()));
        Ok(found.or_else(|_| Record::on(view, name))?)
    }
}
