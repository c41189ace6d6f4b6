//! The stored facts that door 3 may read.

use crate::fleet_place::FleetPlace;
use enfilade_facts::tables::{
    AccessRules, Datastore, DatastoreProfile, FileFault, FileName, HomeMembers, MirroredFile,
};
use enfilade_facts::vocabulary::DatastoreName;
use enfilade_facts::{At, SourceError, View};
use std::borrow::Cow;
use std::sync::Arc;

/// A datastore, with the path of its content and its settings. Because of the order of the fields, the check of a plain datastore on a machine
/// without a fleet reads only one cache line.
#[derive(Debug)]
#[repr(C)]
pub struct Known {
    /// Whether the datastore has no maintenance mode, no mount point and no error in its section. If this is true, only the state of `datastore.cfg`
    /// as a whole, or a home on other members of the fleet, can close the datastore.
    pub(crate) is_plain: bool,
    pub(crate) name: DatastoreName,
    pub(crate) datastore: Datastore,
    pub(crate) root: String,
    /// The quota of the datastore, in bytes of content.
    pub(crate) quota: Option<u64>,
    /// The datastore is served only while a file system is mounted at this mount point.
    pub(crate) mount_point: Option<String>,
    pub(crate) access: AccessRules,
    /// The members of the fleet that may serve the datastore: its home. `None` if the datastore has no home.
    pub(crate) home: Option<HomeMembers>,
}

impl Known {
    /// The name of the maintenance mode in `datastore.cfg`.
    pub fn maintenance(&self) -> Option<&str> {
        self.datastore.maintenance.as_ref().map(|maintenance| maintenance.mode.name())
    }

    /// The mount point: the datastore is served only while a file system is mounted there.
    pub fn mount_point(&self) -> Option<&str> {
        self.mount_point.as_deref()
    }

    /// The member of the fleet that serves the datastore, if this member is another machine. On a machine without a fleet, this function does not
    /// read the home of the datastore.
    pub(crate) fn elsewhere(&self, place: &FleetPlace) -> Option<Cow<'_, str>> {
        match place {
            FleetPlace::Alone => None,
            FleetPlace::Member { .. } => place.elsewhere(self.home.as_ref()),
        }
    }

    pub(crate) fn of(name: &DatastoreName, datastore: Datastore, profile: Option<DatastoreProfile>) -> Self {
        let DatastoreProfile { quota, mounted_at, access, home } = profile.unwrap_or_default();
        let mount_point = datastore.mount_point(name).or(mounted_at);
        let Datastore { maintenance, fault, .. } = &datastore;
        let is_plain = maintenance.is_none() && mount_point.is_none() && fault.is_none();
        Known {
            is_plain,
            name: name.clone(),
            root: datastore.root(name),
            datastore,
            quota,
            mount_point,
            access,
            home,
        }
    }

    /// Reads a datastore from a view.
    pub(crate) fn on(view: &View<'_>, name: &DatastoreName) -> Result<Option<Arc<Self>>, SourceError> {
        let Some(datastore) = view.get::<Datastore>(name)? else { return Ok(None) };
        Ok(Some(Arc::new(Known::of(name, datastore, view.get::<DatastoreProfile>(name)?))))
    }
}

/// The facts about one datastore at one revision.
#[derive(Clone, Debug)]
pub struct Record {
    pub(crate) at: At,
    pub(crate) store: Option<Arc<Known>>,
    /// The error of `datastore.cfg` as a whole, if it has one.
    pub(crate) file_fault: Option<Arc<FileFault>>,
}

impl Record {
    /// Whether the datastore exists.
    pub fn is_there(&self) -> bool {
        self.store.is_some()
    }

    /// Whether the datastore is served only while a file system is mounted at its mount point.
    pub fn is_removable(&self) -> bool {
        self.store.as_ref().is_some_and(|known| !known.is_plain && known.mount_point.is_some())
    }

    /// The mount point: the datastore is served only while a file system is mounted there.
    pub fn mount_point(&self) -> Option<&str> {
        self.store.as_ref()?.mount_point()
    }

    /// The member of the fleet that serves the datastore, if this member is another machine. `None` if this machine serves the datastore, or the
    /// datastore does not exist.
    pub fn elsewhere(&self, place: &FleetPlace) -> Option<Cow<'_, str>> {
        self.store.as_ref()?.elsewhere(place)
    }

    /// Reads the facts about a datastore from a view, without an index.
    ///
    /// # Errors
    /// When the facts cannot be read or are damaged.
    pub fn on(view: &View<'_>, name: &DatastoreName) -> Result<Self, SourceError> {
        Ok(Record { at: view.at(), store: Known::on(view, name)?, file_fault: file_fault(view)? })
    }
}

pub(crate) fn file_fault(view: &View<'_>) -> Result<Option<Arc<FileFault>>, SourceError> {
    Ok(view.get::<MirroredFile>(&FileName::Datastores)?.and_then(|mirrored| mirrored.fault).map(Arc::new))
}
