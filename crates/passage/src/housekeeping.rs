//! Operations without a visitor in datastores: the server's own tasks, and questions of administrators.

use crate::house::House;
use crate::kept_uploads::KEPT_UPLOAD_DAYS;
use crate::modes::{Housekeeping, LookUp};
use crate::refuse::Refusal;
use enfilade_access::AdminPermit;
use enfilade_content::{Blocking, Usage};
use enfilade_datastore::{DatastorePermit, OperationGuard};
use enfilade_facts::Read as _;
use enfilade_facts::tables::DatastoreProfile;
use enfilade_facts::vocabulary::{DatastoreName, OperationKind};

const DAY_SECONDS: u64 = 24 * 3600;

impl House {
    /// Asks only door 3 about an operation on a datastore. Returns the permit, and a guard: the ledger counts the operation until the guard is
    /// dropped. The caller must check by other means that its client may know the answer. While the facts do not change, this function takes no view
    /// and makes no system call. It takes a lock only for the first operation on a datastore, and for a removable datastore.
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

    /// The total, the used and the free bytes of the datastore. If the datastore has a quota, the total is the quota, and the number of free bytes is
    /// at most the number of free bytes of the file system. Otherwise the numbers are those of the file system. The `AdminPermit` proves that the
    /// visitor may know these numbers.
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

    /// Counts again the content of each datastore that has a quota, because other processes may have changed the content. A datastore that was never
    /// counted is skipped.
    pub fn count_content(&self) {
        let profiles = self.parts.source.read(|view| view.list::<DatastoreProfile>(&[]));
        let rows = profiles.and_then(|rows| rows).unwrap_or_default();
        for (name, _) in rows.into_iter().filter(|(_, profile)| profile.quota.is_some()) {
            let entered = self.enter(&mut Housekeeping, &name, OperationKind::Read);
            let Ok((permit, (_guard, handle))) = entered else { continue };
            // If the content cannot be counted, the next request that needs the count gets the error.
            if handle.fill.is_counted()
                && let Ok(root) = self.root(&handle, &permit, Blocking)
            {
                let _ = handle.fill.count(&root);
            }
        }
    }

    /// Removes the items of the trash that are older than the configured number of days, and the unfinished uploads that are older than
    /// [`KEPT_UPLOAD_DAYS`], in each datastore that is open for writing. Ends when `keep_going` returns false; `keep_going` is called before each
    /// removal of a file or directory. Returns the number of removed items.
    pub fn expire_items(&self, keep_going: &dyn Fn() -> bool) -> u64 {
        let now = self.now().unix_seconds;
        let before =
            |days: u64| u64::try_from(now).unwrap_or(0).saturating_sub(days.saturating_mul(DAY_SECONDS));
        let (days, of_uploads) = (self.trash_days(), before(KEPT_UPLOAD_DAYS));
        let mut removed = 0;
        for state in self.datastores() {
            if !keep_going() {
                break;
            }
            let entered = self.enter(&mut Housekeeping, &state.name, OperationKind::Write);
            let Ok((permit, (_guard, handle))) = entered else { continue };
            if let Ok(root) = self.root(&handle, &permit, Blocking) {
                removed += root.expire_uploads((of_uploads, now), keep_going).unwrap_or(0);
                if days > 0 {
                    removed += root.expire_trash((before(days), now), keep_going).unwrap_or(0);
                }
            }
        }
        removed
    }

    /// Removes the unfinished uploads and copies of processes that have ended, in each datastore that is open for writing. Returns the number of
    /// removed files and directories.
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
