//! Counts how much of a datastore's quota is used. A tree walk counts the bytes once, and each change by this process updates the count.
//!
//! Changes by other processes are counted only by the next tree walk. If several servers serve the datastore, each server compares only its own count
//! with the quota. So a datastore can exceed its quota by at most the bytes that other processes and servers write between two tree walks.

use crate::patience::Blocking;
use crate::refuse::Refusal;
use crate::root::Root;
use crate::tree_budget::TreeBudget;
use crate::tree_walk::TreeWalk;
use enfilade_access::NodeKind;
use enfilade_facts::vocabulary::StorePath;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The bytes of a datastore's content, as far as this process knows. A clone refers to the same counts.
#[derive(Clone, Debug, Default)]
pub struct Fill(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// The counted bytes of the content. `None` before the first tree walk, and after the count was discarded. [`Fill::used`] holds the lock during
    /// its tree walk.
    done: Mutex<Option<u64>>,
    /// The bytes reserved for running uploads.
    promised: AtomicU64,
}

/// Space for an upload. If a `QuotaReservation` is dropped and [`QuotaReservation::keep`] was not called, the space is released.
#[derive(Debug)]
pub struct QuotaReservation {
    fill: Fill,
    quota: u64,
    bytes: u64,
}

impl Fill {
    /// Counts the bytes of all files with a tree walk.
    ///
    /// # Refuses
    /// [`Refusal::Io`] when a directory cannot be read.
    pub fn count(&self, root: &Root) -> Result<u64, Refusal> {
        let bytes = files_beneath(root)?;
        *self.0.done.lock().unwrap_or_else(PoisonError::into_inner) = Some(bytes);
        Ok(bytes)
    }

    /// The used bytes, including the bytes of running uploads. If the bytes were not counted yet, this method counts them now.
    ///
    /// # Refuses
    /// As [`Fill::count`].
    pub fn used(&self, root: &Root) -> Result<u64, Refusal> {
        let mut done = self.0.done.lock().unwrap_or_else(PoisonError::into_inner);
        if done.is_none() {
            *done = Some(files_beneath(root)?);
        }
        Ok(done.unwrap_or(0).saturating_add(self.0.promised.load(Ordering::Relaxed)))
    }

    /// Whether the bytes were counted already.
    pub fn is_counted(&self) -> bool {
        self.0.done.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Reserves space for an upload of at least `bytes` bytes.
    ///
    /// # Refuses
    /// [`Refusal::OverQuota`], and the refusals of [`Fill::count`].
    pub fn take(&self, root: &Root, quota: u64, bytes: u64) -> Result<QuotaReservation, Refusal> {
        self.used(root)?;
        let mut reservation = QuotaReservation { fill: self.clone(), quota, bytes: 0 };
        reservation.grow_to(bytes)?;
        Ok(reservation)
    }

    /// Discards the count. Callers use this method after a change, if they do not know exactly by how many bytes the content changed. When the count
    /// is needed next, the bytes are counted again.
    pub fn count_anew(&self) {
        *self.0.done.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Subtracts bytes that were removed.
    pub fn freed(&self, bytes: u64) {
        self.change(0, bytes);
    }

    fn change(&self, more: u64, less: u64) {
        let mut done = self.0.done.lock().unwrap_or_else(PoisonError::into_inner);
        // If more bytes are removed than were counted, a file was removed before its upload was counted. Then the count is discarded. When the count
        // is needed next, the bytes are counted again.
        *done = done.and_then(|bytes| bytes.saturating_add(more).checked_sub(less));
    }
}

impl QuotaReservation {
    /// Checks that `bytes` bytes would fit now, in addition to the used bytes and to all reserved bytes. The bytes of this reservation are among the
    /// reserved bytes. Does not reserve space for the `bytes` bytes.
    ///
    /// # Refuses
    /// [`Refusal::OverQuota`].
    pub fn fits(&self, bytes: u64) -> Result<(), Refusal> {
        let mut reservation = QuotaReservation { fill: self.fill.clone(), quota: self.quota, bytes: 0 };
        reservation.grow_to(bytes)
    }

    /// Grows the reservation to `bytes` bytes.
    ///
    /// # Refuses
    /// [`Refusal::OverQuota`].
    pub fn grow_to(&mut self, bytes: u64) -> Result<(), Refusal> {
        let more = bytes.saturating_sub(self.bytes);
        if more == 0 {
            return Ok(());
        }
        // The lock is held here, because two concurrent uploads must not get the same space.
        let done = self.fill.0.done.lock().unwrap_or_else(PoisonError::into_inner);
        let promised = &self.fill.0.promised;
        let used = done.unwrap_or(0).saturating_add(promised.load(Ordering::Relaxed));
        if self.quota < used.saturating_add(more) {
            return Err(Refusal::OverQuota { quota: self.quota, used });
        }
        promised.fetch_add(more, Ordering::Relaxed);
        self.bytes = bytes;
        Ok(())
    }

    /// Counts a finished upload of `bytes` bytes that replaced `replaced` bytes.
    pub fn keep(self, bytes: u64, replaced: u64) {
        self.fill.change(bytes, replaced);
    }
}

impl Drop for QuotaReservation {
    fn drop(&mut self) {
        self.fill.0.promised.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The total bytes of the files beneath a root, including the files in the trash and unfinished uploads. Files with a path that no request can
/// contain are left out.
fn files_beneath(root: &Root) -> Result<u64, Refusal> {
    let (budget, top, mut bytes) =
        (TreeBudget::unlimited(), StorePath::root(), root.trash_bytes()?.saturating_add(root.kept_bytes()?));
    let mut walk = TreeWalk::begin(&budget);
    walk.enter_as_operator(top.clone(), root.find(&top, Blocking)?, ())?;
    while let Some((directory, entry)) = walk.next_unopened()? {
        match entry.kind {
            NodeKind::File => bytes = bytes.saturating_add(entry.bytes),
            NodeKind::Directory => walk.enter_unopened(&directory, &entry, ())?,
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(bytes: u64) -> (Fill, Root) {
        let fill = Fill::default();
        *fill.0.done.lock().unwrap() = Some(bytes);
        (fill, Root::open_own("/", enfilade_facts::vocabulary::AclDialect::Ntacl).unwrap())
    }

    #[test]
    fn room_is_taken_given_back_and_kept() {
        let (fill, root) = filled(40);
        let mut one = fill.take(&root, 100, 30).unwrap();
        assert_eq!(fill.used(&root).unwrap(), 70);
        let refused = fill.take(&root, 100, 31).unwrap_err();
        assert_eq!(refused, Refusal::OverQuota { quota: 100, used: 70 });
        assert!(one.grow_to(60).is_ok());
        assert!(one.grow_to(61).is_err());
        assert_eq!(fill.used(&root).unwrap(), 100);
        // An upload of 20 bytes replaced a file of 10 bytes; 60 bytes had been reserved.
        one.keep(20, 10);
        assert_eq!(fill.used(&root).unwrap(), 50);
        drop(fill.take(&root, 100, 50).unwrap());
        fill.freed(5);
        assert_eq!(fill.used(&root).unwrap(), 45);
        // A datastore over its quota refuses an upload of one byte, but accepts an empty upload.
        assert!(fill.take(&root, 10, 1).is_err() && fill.take(&root, 10, 0).is_ok());
        // A file is removed before its upload is counted.
        fill.freed(46);
        assert!(!fill.is_counted());
    }
}
