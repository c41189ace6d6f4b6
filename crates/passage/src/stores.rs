//! The house's datastores: what is kept open of them, who is inside, and how they are let go.

use crate::house::House;
use crate::modes::{Housekeeping, LookUp};
use crate::refuse::Refusal;
use enfilade_access::AdminPermit;
use enfilade_content::{Blocking, Fill, Patience, Root, Usage};
use enfilade_datastore::{
    Active, Ask, DatastorePermit, Entered, Known, OperationGuard, Place, Process, Record, Stores,
};
use enfilade_facts::tables::DatastoreProfile;
use enfilade_facts::vocabulary::{AclDialect, DatastoreName, OperationKind};
use enfilade_facts::{At, Index, Mounts, Now, Read, View};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The parts of a store that are expensive to rebuild: its root, while that is open, and how full it is.
#[derive(Default)]
pub(crate) struct Handle {
    /// How much of its quota is used, where it has one.
    pub(crate) fill: Fill,
    root: Mutex<OpenRoot>,
}

/// A root that is open: kept for whoever comes next, or by those who are inside. Never two for one store, because what is done in
/// one's turn is done in the turn of its root.
#[derive(Default)]
struct OpenRoot {
    kept: Option<Arc<Root>>,
    held: Weak<Root>,
}

impl OpenRoot {
    /// The one that is kept, if its ACLs are of this kind.
    fn kept(&self, acls: AclDialect) -> Option<Arc<Root>> {
        self.kept.as_ref().filter(|root| root.acls() == acls).cloned()
    }
}

impl Handle {
    fn root(&self) -> MutexGuard<'_, OpenRoot> {
        self.root.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Roots that are kept open while nobody is inside; each is a descriptor.
const ROOTS_MAX: usize = 1024;

/// How a store is, for whoever looks after it.
#[derive(Clone, Debug)]
pub struct DatastoreState {
    /// Which.
    pub name: DatastoreName,
    /// The maintenance mode it is in.
    pub maintenance: Option<String>,
    /// Whether it is mounted; `None` where it is always there.
    pub is_mounted: Option<bool>,
}

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
    /// An operation enters the ledger, if there is such a store; with what is wanted of its handle. [`House::enter`] judges the store after this.
    pub(crate) fn count_in<R>(
        &self,
        ask: &Ask<'_>,
        now: Now,
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

    /// The record of a store as of the newest revision, where the index is of that revision: as good as one on a view that is taken now.
    pub(crate) fn newest_record(&self, name: &DatastoreName) -> Option<Record> {
        let at = self.parts.source.at();
        self.stores.index.peek(at, |stores| stores.record(name, at))
    }

    /// The decision of door 3.
    pub(crate) fn judge(
        &self,
        record: &Record,
        now: Now,
        ask: &Ask<'_>,
    ) -> Result<DatastorePermit, enfilade_datastore::Refusal> {
        let mounts = if record.is_removable() { Some(self.mounts()) } else { None };
        let mounts = mounts.as_deref().unwrap_or(&self.stores.no_mounts);
        enfilade_datastore::open(record, now, mounts, ask)
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
        self.enter(&mut LookUp, name, kind)
    }

    /// The open root of a store, kept for the next operation unless the facts changed since the permit. Waits for a directory that does not
    /// answer, which keeps no other store from being opened; with [`CachedOnly`](enfilade_content::CachedOnly) only a root that is kept open.
    pub(crate) fn root<P: Patience>(
        &self,
        handle: &Arc<Handle>,
        permit: &DatastorePermit,
        _: P,
    ) -> Result<P::Of<Arc<Root>>, Refusal> {
        let acls = permit.access().acls;
        let kept = || handle.root.try_lock().ok().and_then(|root| root.kept(acls));
        P::choose((), |()| self.open_root(handle, permit), |()| Ok(kept().into()))
    }

    fn open_root(&self, handle: &Arc<Handle>, permit: &DatastorePermit) -> Result<Arc<Root>, Refusal> {
        let mut of_handle = handle.root();
        let acls = permit.access().acls;
        if let Some(root) = of_handle.kept(acls) {
            return Ok(root);
        }
        let root = match of_handle.held.upgrade() {
            Some(root) if root.acls() == acls => root,
            Some(root) => Arc::new(root.with_acls(acls)),
            None => Arc::new(Root::open(permit.root(), acls, self.reserved())?),
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
        let (permit, (_guard, handle)) = self.enter(&mut Housekeeping, name, OperationKind::Lookup)?;
        let root = self.root(&handle, &permit, Blocking)?;
        let disk = root.usage()?;
        let Some(quota) = permit.quota() else { return Ok(disk) };
        let used = handle.fill.used(&root)?;
        let available = disk.available.min(quota.saturating_sub(used));
        Ok(Usage { total: quota, used, available })
    }

    /// Counts anew what stores with a quota hold, where that was asked for before: what others do to the files shows here.
    pub fn count_content(&self) {
        let profiles = self.parts.source.read(|view| view.list::<DatastoreProfile>(&[]));
        let rows = profiles.and_then(|rows| rows).unwrap_or_default();
        for (name, _) in rows.into_iter().filter(|(_, profile)| profile.quota.is_some()) {
            let entered = self.enter(&mut Housekeeping, &name, OperationKind::Read);
            let Ok((permit, (_guard, handle))) = entered else { continue };
            // Where it cannot be read, whoever wants something of it is told.
            if handle.fill.is_counted()
                && let Ok(root) = self.root(&handle, &permit, Blocking)
            {
                let _ = handle.fill.count(&root);
            }
        }
    }

    /// Removes what uploads and copies of processes that ended left behind in each store that may be written; says how much that was.
    pub fn remove_abandoned(&self, is_wanted: &dyn Fn() -> bool) -> u64 {
        let now = self.now().unix_seconds;
        let mut removed = 0;
        for state in self.datastores() {
            let entered = self.enter(&mut Housekeeping, &state.name, OperationKind::Write);
            let Ok((permit, (_guard, handle))) = entered else { continue };
            if let Ok(root) = self.root(&handle, &permit, Blocking) {
                removed += root.remove_abandoned(now, is_wanted).unwrap_or(0);
            }
        }
        removed
    }

    /// Whether a store that comes and goes is there; `None` where it is always there.
    ///
    /// # Errors
    /// When the facts cannot be read.
    pub fn is_mounted(&self, name: &DatastoreName) -> Result<Option<bool>, Refusal> {
        let record = self.parts.source.read(|view| self.stores.record(view, name))??;
        Ok(record.mount_point().map(|point| self.mounts().is_mount_point(point)))
    }

    /// How many are inside a store, in each process of the machine that has anybody inside. The permit says that the visitor may
    /// know.
    pub fn active(&self, _permit: &AdminPermit, name: &DatastoreName) -> Vec<(u32, Active)> {
        let everybody = self.parts.ledger.everybody();
        let of_store = |process: &Process| {
            let (_, active) = process.inside.iter().find(|(of, _)| of == name)?;
            Some((process.id, *active))
        };
        everybody.iter().filter_map(of_store).collect()
    }

    /// Whether there is such a store, as far as is known without a look at the facts.
    pub fn has_datastore(&self, name: &DatastoreName) -> bool {
        self.stores.index.peek(self.parts.source.at(), |stores| stores.entrance(name).is_some()) == Some(true)
    }

    /// Every store by name, and how it is; none while the facts cannot be read.
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

    /// How often each store was entered, by this process.
    pub fn entered(&self) -> Vec<(DatastoreName, Entered)> {
        self.parts.ledger.entered()
    }

    /// Who is inside which store, of this process.
    pub fn inside(&self) -> Option<Process> {
        self.parts.ledger.process()
    }
}
