//! The server's own tasks in datastores, and what administrators ask of them: operations without a visitor.

use crate::house::House;
use crate::modes::{Housekeeping, LookUp};
use crate::refuse::Refusal;
use enfilade_access::AdminPermit;
use enfilade_content::{Blocking, Usage};
use enfilade_datastore::{DatastorePermit, OperationGuard};
use enfilade_facts::Read as _;
use enfilade_facts::tables::DatastoreProfile;
use enfilade_facts::vocabulary::{DatastoreName, OperationKind};

impl House {
    /// Door 3 alone, for a caller that passed the others in another way: no view, no lock and no system call while nothing changes.
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
            // Where it cannot be read, the next request that needs the count is told.
            if handle.fill.is_counted()
                && let Ok(root) = self.root(&handle, &permit, Blocking)
            {
                let _ = handle.fill.count(&root);
            }
        }
    }

    /// Removes what uploads and copies of processes that ended left behind in each store that may be written; says how much that was.
    pub fn remove_abandoned(&self, keep_going: &dyn Fn() -> bool) -> u64 {
        let now = self.now().unix_seconds;
        let mut removed = 0;
        for state in self.datastores() {
            let entered = self.enter(&mut Housekeeping, &state.name, OperationKind::Write);
            let Ok((permit, (_guard, handle))) = entered else { continue };
            if let Ok(root) = self.root(&handle, &permit, Blocking) {
                removed += root.remove_abandoned(now, keep_going).unwrap_or(0);
            }
        }
        removed
    }
}
