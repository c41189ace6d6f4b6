//! The few facts this door may read.

use enfilade_facts::tables::{Datastore, FileFault, FileName, KeptFile};
use enfilade_facts::vocabulary::DatastoreName;
use enfilade_facts::{At, SourceError};

/// Datastores at one revision.
pub(crate) struct View<'a>(pub(crate) &'a enfilade_facts::View<'a>);

impl View<'_> {
    pub(crate) fn at(&self) -> At {
        self.0.at()
    }

    pub(crate) fn datastore(&self, name: &DatastoreName) -> Result<Option<Datastore>, SourceError> {
        self.0.get(name)
    }

    /// What is wrong with the whole of `datastore.cfg`.
    pub(crate) fn file_fault(&self) -> Result<Option<FileFault>, SourceError> {
        Ok(self.0.get::<KeptFile>(&FileName::Datastores)?.and_then(|kept| kept.fault))
    }
}
