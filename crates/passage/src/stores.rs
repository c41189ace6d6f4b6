//! The house's datastores: what is kept open of them, who is inside, and how they are let go.

use crate::house::House;
use crate::refuse::Refusal;
use enfilade_access::AdminPermit;
use enfilade_content::{Root, Usage};
use enfilade_datastore::{
    Active, Ask, DatastorePermit, OperationGuard, Place, Process, Record, Standing, Stores,
};
use enfilade_facts::tables::Datastore;
use enfilade_facts::vocabulary::{DatastoreName, OperationKind};
use enfilade_facts::{At, Index, Mounts, Now, Read, View};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// What is dear to make again of a store: its root, while that is open.
#[derive(Default)]
pub(crate) struct Handle {
    root: Mutex<OpenRoot>,
}

/// A root that is open: kept for whoever comes next, or by those who are inside. Never two for one store, because what is done in
/// one's turn is done in the turn of its root.
#[derive(Default)]
struct OpenRoot {
    kept: Option<Arc<Root>>,
    held: Weak<Root>,
}

impl Handle {
    fn root(&self) -> MutexGuard<'_, OpenRoot> {
        self.root.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Roots that are kept open while nobody is inside; each is a descriptor.
const ROOTS_MAX: usize = 1024;

/// The datastores of a house.
pub(crate) struct HouseStores {
    index: Index<Stores<Handle>>,
    no_mounts: Mounts,
    /// Whose root is kept open.
    open: Mutex<HashMap<DatastoreName, Arc<Handle>>>,
}

impl Default for HouseStores {
    fn default() -> Self {
        HouseStores { index: Index::new(), no_mounts: Mounts::default(), open: Mutex::default() }
    }
}

impl HouseStores {
    /// What is known of a store on a view. Where the index cannot be had, the view itself says.
    pub(crate) fn record(&self, view: &View<'_>, name: &DatastoreName) -> Result<Record, Refusal> {
        let found = self.index.read(view, |stores| stores.record(name, view.at()));
        Ok(found.or_else(|_| Record::on(view, name))?)
    }
}

impl House {
    /// An operation enters the ledger, if there is such a store; with what is wanted of its handle. The store is judged after this.
    pub(crate) fn count_in<R>(
        &self,
        name: &DatastoreName,
        kind: OperationKind,
        now: Now,
        of_handle: impl Fn(&Arc<Handle>) -> R,
    ) -> Result<Option<(OperationGuard, R)>, Refusal> {
        let ledger = &self.parts.ledger;
        let enter = |stores: &Stores<Handle>| match stores.entrance(name) {
            Some((place, handle)) => Ok(Some((ledger.enter(name, place, kind, now)?, of_handle(handle)))),
            None => Ok(None),
        };
        if let Some(entered) = self.stores.index.peek(self.parts.source.at(), enter) {
            return entered;
        }
        self.parts.source.read(|view| {
            self.stores.index.read(view, enter).unwrap_or_else(|_| match Record::on(view, name)?.is_there() {
                true => {
                    let guard = ledger.enter(name, &Place::default(), kind, now)?;
                    Ok(Some((guard, of_handle(&self.handle_without_index(name)))))
                }
                false => Ok(None),
            })
        })?
    }

    /// Without an index a store has a handle as long as its root is open.
    fn handle_without_index(&self, name: &DatastoreName) -> Arc<Handle> {
        Arc::clone(self.open().entry(name.clone()).or_default())
    }

    /// Door 3 alone, for whoever passed the others in another way: no view, no lock and no system call while nothing changes.
    ///
    /// # Errors
    /// The door's refusal.
    pub fn look_up(
        &self,
        name: &DatastoreName,
        kind: OperationKind,
    ) -> Result<(DatastorePermit, OperationGuard), Refusal> {
        let (permit, guard, ()) = self.come_in(name, kind, |_| ())?;
        Ok((permit, guard))
    }

    fn come_in<R>(
        &self,
        name: &DatastoreName,
        kind: OperationKind,
        of_handle: impl Fn(&Arc<Handle>) -> R,
    ) -> Result<(DatastorePermit, OperationGuard, R), Refusal> {
        let now = self.now();
        // Entered first: what comes after that is the view the store is judged on, or as good as one.
        let unknown = || enfilade_datastore::Refusal::Unknown(name.clone());
        let (guard, of_handle) = self.count_in(name, kind, now, of_handle)?.ok_or_else(unknown)?;
        let at = self.parts.source.at();
        let record = match self.stores.index.peek(at, |stores| stores.record(name, at)) {
            Some(record) => record,
            None => self.parts.source.read(|view| self.stores.record(view, name))??,
        };
        let mounts = if record.is_removable() { Some(self.mounts()) } else { None };
        let mounts = mounts.as_deref().unwrap_or(&self.stores.no_mounts);
        let ask = Ask { name, kind, standing: Standing::Entering };
        let permit = enfilade_datastore::open(&record, now, mounts, &ask)?;
        Ok((permit, guard, of_handle))
    }

    /// The open root of a store, kept for whoever comes next unless the facts changed since the permit. Whoever waits for a directory that
    /// does not answer waits for this store alone.
    pub(crate) fn root(&self, handle: &Arc<Handle>, permit: &DatastorePermit) -> Result<Arc<Root>, Refusal> {
        let mut of_handle = handle.root();
        if let Some(root) = &of_handle.kept {
            return Ok(Arc::clone(root));
        }
        let root = match of_handle.held.upgrade() {
            Some(root) => root,
            None => Arc::new(Root::open(permit.root())?),
        };
        of_handle.held = Arc::downgrade(&root);
        // Noted first and then compared: whoever lets go after a change either finds it noted, or it is not kept.
        if self.note_open(permit.name(), handle) && self.parts.source.at() == permit.at() {
            of_handle.kept = Some(Arc::clone(&root));
        }
        Ok(root)
    }

    fn note_open(&self, name: &DatastoreName, handle: &Arc<Handle>) -> bool {
        let mut open = self.open();
        let has_room = open.len() < ROOTS_MAX || open.contains_key(name);
        if has_room {
            open.insert(name.clone(), Arc::clone(handle));
        }
        has_room
    }

    fn open(&self) -> MutexGuard<'_, HashMap<DatastoreName, Arc<Handle>>> {
        self.stores.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes every root nobody is inside of, and says so in the ledger; what is needed is opened again. So a store that is offline
    /// can be unmounted, and a directory that is put in another's place is seen.
    pub fn let_go(&self) -> At {
        let at = self.parts.source.at();
        let handles: Vec<_> =
            self.open().iter().map(|(name, handle)| (name.clone(), Arc::clone(handle))).collect();
        let mut is_all = true;
        for (name, handle) in handles {
            // Somebody is just opening it, which may take long: another time.
            let Ok(mut root) = handle.root.try_lock() else {
                is_all = false;
                continue;
            };
            root.kept = None;
            if root.held.strong_count() == 0 {
                self.open().remove(&name);
            }
        }
        if is_all {
            self.parts.ledger.closed_up_to(at.revision);
        }
        at
    }

    /// How full the store's file system is. The permit says that the visitor may know.
    ///
    /// # Errors
    /// The refusal of door 3 or 5.
    pub fn usage(&self, _permit: &AdminPermit, name: &DatastoreName) -> Result<Usage, Refusal> {
        let (permit, _inside, handle) = self.come_in(name, OperationKind::Lookup, Arc::clone)?;
        Ok(self.root(&handle, &permit)?.usage()?)
    }

    /// Whether a store that comes and goes is there; `None` where it is always there.
    pub fn is_mounted(&self, name: &DatastoreName, datastore: &Datastore) -> Option<bool> {
        datastore.mount_point(name).map(|point| self.mounts().is_mount_point(&point))
    }

    /// How many are inside a store, in every process of the machine. The permit says that the visitor may know.
    pub fn active(&self, _permit: &AdminPermit, name: &DatastoreName) -> Active {
        let everybody = self.parts.ledger.everybody();
        let inside = everybody.iter().flat_map(|process| &process.inside).filter(|(of, _)| of == name);
        inside.fold(Active::default(), |all, (_, active)| Active {
            readers: all.readers + active.readers,
            writers: all.writers + active.writers,
            since: if all.since == 0 { active.since } else { all.since.min(active.since) },
        })
    }

    /// Who is inside which store, of this process.
    pub fn inside(&self) -> Option<Process> {
        self.parts.ledger.process()
    }
}
