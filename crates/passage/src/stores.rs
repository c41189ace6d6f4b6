//! The datastores of a server: their open directories, the operations on them, and the closing of directories.

use crate::handles::Handle;
use crate::house::House;
use crate::refuse::Refusal;
use enfilade_access::AdminPermit;
use enfilade_content::{Patience, Root};
use enfilade_datastore::{
    Active, Ask, DatastorePermit, Entered, Known, LedgerSlot, OperationGuard, Process, Record, Stores,
};
use enfilade_facts::vocabulary::DatastoreName;
use enfilade_facts::{At, Clocks, Read};
use std::collections::HashMap;
use std::sync::{Arc, MutexGuard, PoisonError};

/// The maximum number of roots that the server keeps open for further operations. Each open root needs a file descriptor.
const ROOTS_MAX: usize = 1024;

/// The state of a datastore, for its operator.
#[derive(Clone, Debug)]
pub struct DatastoreState {
    /// The name.
    pub name: DatastoreName,
    /// The maintenance mode of the datastore, if it has one.
    pub maintenance: Option<String>,
    /// Whether the datastore is mounted; `None` for a datastore that is not removable.
    pub is_mounted: Option<bool>,
}

impl House {
    /// Enters an operation into the ledger, if the datastore exists. Returns the ledger entry, and the value that `of_handle` returns for the handle
    /// of the datastore. [`House::enter`] asks door 3 about the datastore only after the ledger contains the operation.
    pub(crate) fn count_in<R>(
        &self,
        ask: &Ask<'_>,
        now: Clocks,
        of_handle: impl Fn(&Arc<Handle>) -> R,
    ) -> Result<Option<(OperationGuard, R)>, Refusal> {
        let (ledger, name, kind) = (&self.parts.ledger, ask.name, ask.kind);
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
                    let guard = ledger.enter(name, &LedgerSlot::default(), kind, now)?;
                    Ok(Some((guard, of_handle(&self.handle_without_index(name)))))
                }
                false => Ok(None),
            })
        })?
    }

    /// The handle of a datastore while there is no index. The handle exists as long as the root is open.
    fn handle_without_index(&self, name: &DatastoreName) -> Arc<Handle> {
        Arc::clone(self.open().entry(name.clone()).or_default())
    }

    /// The record of a datastore at the newest revision; `None` if the index has another revision. The result is the same as for a record that is
    /// read from a new view.
    pub(crate) fn newest_record(&self, name: &DatastoreName) -> Option<Record> {
        let at = self.parts.source.at();
        self.stores.index.peek(at, |stores| stores.record(name, at))
    }

    /// The decision of door 3.
    pub(crate) fn judge(
        &self,
        record: &Record,
        now: Clocks,
        ask: &Ask<'_>,
    ) -> Result<DatastorePermit, enfilade_datastore::Refusal> {
        let mounts = if record.is_removable() { Some(self.mounts()) } else { None };
        let mounts = mounts.as_deref().unwrap_or(&self.stores.no_mounts);
        enfilade_datastore::open(record, now, (mounts, &self.parts.place), ask)
    }

    /// The open root of a datastore. The root is kept open for the next operation, unless the facts changed since the permit was granted, or too many
    /// roots are open. If the file system of a datastore does not answer, only requests to that datastore are delayed. With
    /// [`CachedOnly`](enfilade_content::CachedOnly) the call returns `WouldWait` if the root is not open.
    pub(crate) fn root<P: Patience>(
        &self,
        handle: &Arc<Handle>,
        permit: &DatastorePermit,
        _: P,
    ) -> Result<P::Of<Arc<Root>>, Refusal> {
        let acls = permit.access().acls;
        let kept = || handle.root.try_lock().ok().and_then(|root| root.kept_open(acls));
        P::choose((), |()| self.open_root(handle, permit), |()| Ok(kept().into()))
    }

    fn open_root(&self, handle: &Arc<Handle>, permit: &DatastorePermit) -> Result<Arc<Root>, Refusal> {
        let mut of_handle = handle.root();
        let acls = permit.access().acls;
        if let Some(root) = of_handle.kept_open(acls) {
            return Ok(root);
        }
        let root = match of_handle.held.upgrade() {
            Some(root) if root.acls() == acls => root,
            Some(root) => Arc::new(root.with_acls(acls)),
            None => Arc::new(Root::open(permit.root(), acls, self.reserved())?),
        };
        of_handle.held = Arc::downgrade(&root);
        // The handle is entered in the map of open handles before the revisions are compared. So a call of `close_idle_roots` after a change never
        // misses an open root. Either the call finds the handle in the map, or the change was committed before the comparison of the revisions. If
        // the change was committed before the comparison, the revisions differ, and the root is not kept open.
        if self.note_open(permit.name(), handle) && self.parts.source.at() == permit.at() {
            of_handle.kept_open = Some(Arc::clone(&root));
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

    /// Closes every root that no operation uses, and then records the revision of the facts in the ledger. If another thread is opening a root at
    /// this moment, the revision is not recorded. An offline datastore can be unmounted once its root is closed. The next operation on a datastore
    /// opens the root again. So if another directory is now at the datastore's path, this operation uses the new directory.
    pub fn close_idle_roots(&self) -> At {
        let at = self.parts.source.at();
        let handles: Vec<_> =
            self.open().iter().map(|(name, handle)| (name.clone(), Arc::clone(handle))).collect();
        let mut is_all = true;
        for (name, handle) in handles {
            // Another thread is opening this root now, and this may take long. The next call of this function tries to close the root again.
            let Ok(mut root) = handle.root.try_lock() else {
                is_all = false;
                continue;
            };
            root.kept_open = None;
            if root.held.strong_count() == 0 {
                self.open().remove(&name);
            }
        }
        if is_all {
            self.parts.ledger.closed_up_to(at.revision);
        }
        at
    }

    /// Whether a removable datastore is mounted; `None` for any other datastore.
    ///
    /// # Errors
    /// When the facts cannot be read.
    pub fn is_mounted(&self, name: &DatastoreName) -> Result<Option<bool>, Refusal> {
        let record = self.parts.source.read(|view| self.stores.record(view, name))??;
        Ok(record.mount_point().map(|point| self.mounts().is_mount_point(point)))
    }

    /// Whether another member of the fleet serves a datastore.
    ///
    /// # Errors
    /// When the facts cannot be read.
    pub fn is_elsewhere(&self, name: &DatastoreName) -> Result<bool, Refusal> {
        let record = self.parts.source.read(|view| self.stores.record(view, name))??;
        Ok(record.elsewhere(self.place()).is_some())
    }

    /// The active operations on a datastore, for each process of the machine that has active operations on this datastore. The `AdminPermit` proves
    /// that the visitor may know these operations.
    ///
    /// # Errors
    /// When another member of the fleet serves the datastore, or the facts cannot be read.
    pub fn active(&self, _permit: &AdminPermit, name: &DatastoreName) -> Result<Vec<(u32, Active)>, Refusal> {
        let record = self.parts.source.read(|view| self.stores.record(view, name))??;
        if let Some(member) = record.elsewhere(self.place()) {
            let (name, member) = (name.clone(), member.into_owned());
            return Err(enfilade_datastore::Refusal::Elsewhere { name, member }.into());
        }
        let everybody = self.parts.ledger.everybody();
        let of_store = |process: &Process| {
            let (_, active) = process.inside.iter().find(|(of, _)| of == name)?;
            Some((process.id, *active))
        };
        Ok(everybody.iter().filter_map(of_store).collect())
    }

    /// Whether the index contains a datastore of this name; false if the index does not have the newest revision. This function reads no facts.
    pub fn has_datastore(&self, name: &DatastoreName) -> bool {
        self.stores.index.peek(self.parts.source.at(), |stores| stores.entrance(name).is_some()) == Some(true)
    }

    /// The state of every datastore, sorted by name; empty if the facts cannot be read.
    pub fn datastores(&self) -> Vec<DatastoreState> {
        let mounts = self.mounts();
        let state = |(name, known): (&DatastoreName, &Known)| DatastoreState {
            name: name.clone(),
            maintenance: known.maintenance().map(str::to_owned),
            is_mounted: known.mount_point().map(|point| mounts.is_mount_point(point)),
        };
        let each = |stores: &Stores<Handle>| stores.each().map(state).collect::<Vec<_>>();
        let found = self.parts.source.read(|view| self.stores.index.read(view, each));
        let mut found = found.ok().and_then(Result::ok).unwrap_or_default();
        found.sort_by(|a, b| a.name.cmp(&b.name));
        found
    }

    /// For each datastore, the number of operations that this process started on the datastore.
    pub fn entered(&self) -> Vec<(DatastoreName, Entered)> {
        self.parts.ledger.entered()
    }

    /// The active operations of this process, as other processes see them.
    pub fn inside(&self) -> Option<Process> {
        self.parts.ledger.process()
    }
}
