//! The few facts this door may read.

use enfilade_facts::tables::{Datastore, FileFault, FileName, KeptFile};
use enfilade_facts::vocabulary::DatastoreName;
use enfilade_facts::{At, SourceError, View};
use std::sync::Arc;

/// A datastore, and where its content is.
/// In this order, so that what a look at a store with nothing out of the ordinary needs is in one cache line.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Known {
    /// Always there, and open for everything.
    pub(crate) is_plain: bool,
    pub(crate) name: DatastoreName,
    pub(crate) datastore: Datastore,
    pub(crate) root: String,
}

impl Known {
    pub(crate) fn of(name: &DatastoreName, datastore: Datastore) -> Self {
        let Datastore { maintenance, backing_device, fault, .. } = &datastore;
        let is_plain = maintenance.is_none() && backing_device.is_none() && fault.is_none();
        Known { is_plain, name: name.clone(), root: datastore.root(name), datastore }
    }
}

/// What is known of one store at one revision.
#[derive(Clone, Debug)]
pub struct Record {
    pub(crate) at: At,
    pub(crate) store: Option<Arc<Known>>,
    /// What is wrong with the whole of `datastore.cfg`.
    pub(crate) file_fault: Option<Arc<FileFault>>,
}

impl Record {
    /// Whether there is such a store.
    pub fn is_there(&self) -> bool {
        self.store.is_some()
    }

    /// Whether it comes and goes.
    pub fn is_removable(&self) -> bool {
        self.store.as_ref().is_some_and(|known| !known.is_plain && known.datastore.backing_device.is_some())
    }

    /// As the view has it, without an index.
    ///
    /// # Errors
    /// When it cannot be read or believed.
    pub fn on(view: &View<'_>, name: &DatastoreName) -> Result<Self, SourceError> {
        let store = view.get::<Datastore>(name)?.map(|datastore| Arc::new(Known::of(name, datastore)));
        Ok(Record { at: view.at(), store, file_fault: file_fault(view)? })
    }
}

pub(crate) fn file_fault(view: &View<'_>) -> Result<Option<Arc<FileFault>>, SourceError> {
    Ok(view.get::<KeptFile>(&FileName::Datastores)?.and_then(|kept| kept.fault).map(Arc::new))
}
