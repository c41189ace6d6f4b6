//! Who is inside which store: active readers and writers.
//!
//! An operation enters, and only then is the store's state looked at; a maintenance change is committed, and only then
//! is the ledger read. So every operation was either counted or saw the change (freshness protocol, rule 5).
//! This ledger counts the operations of one process; the interface is what a ledger in shared memory will have.

use crate::refuse::Refusal;
use enfilade_facts::vocabulary::{DatastoreName, OperationKind};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, PoisonError, RwLock};

/// Stores in use at once.
const STORES_MAX: usize = 100_000;

#[derive(Debug, Default)]
struct Counts {
    readers: AtomicU64,
    writers: AtomicU64,
}

impl Counts {
    fn of(&self, kind: OperationKind) -> Option<&AtomicU64> {
        match kind {
            OperationKind::Lookup => None,
            OperationKind::Read => Some(&self.readers),
            OperationKind::Write => Some(&self.writers),
        }
    }
}

/// How many are inside a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Active {
    /// Reading.
    pub readers: u64,
    /// Writing.
    pub writers: u64,
}

/// Counts active operations.
#[derive(Debug, Default)]
pub struct Ledger {
    stores: RwLock<BTreeMap<DatastoreName, Arc<Counts>>>,
}

/// One counted operation; dropping it ends the operation, which cannot fail.
#[derive(Debug)]
pub struct OperationGuard {
    counts: Arc<Counts>,
    kind: OperationKind,
}

impl Ledger {
    /// An empty ledger.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts an operation in. Take the view on which the store is judged after this.
    ///
    /// # Errors
    /// When too many stores are in use at once.
    pub fn enter(&self, name: &DatastoreName, kind: OperationKind) -> Result<OperationGuard, Refusal> {
        let known = self.stores.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        let counts = match known {
            Some(counts) => counts,
            None => {
                let mut stores = self.stores.write().unwrap_or_else(PoisonError::into_inner);
                if stores.len() >= STORES_MAX {
                    // Names nobody is inside of (also ones that never existed) make room.
                    stores.retain(|_, counts| Arc::strong_count(counts) > 1);
                }
                if stores.len() >= STORES_MAX {
                    return Err(Refusal::LedgerFull(STORES_MAX));
                }
                Arc::clone(stores.entry(name.clone()).or_default())
            }
        };
        if let Some(count) = counts.of(kind) {
            count.fetch_add(1, Ordering::SeqCst);
        }
        fence(Ordering::SeqCst);
        Ok(OperationGuard { counts, kind })
    }

    /// Who is inside now. After a commit that closes the store: everybody who did not see it.
    pub fn active(&self, name: &DatastoreName) -> Active {
        fence(Ordering::SeqCst);
        let stores = self.stores.read().unwrap_or_else(PoisonError::into_inner);
        stores.get(name).map_or_else(Active::default, |counts| Active {
            readers: counts.readers.load(Ordering::SeqCst),
            writers: counts.writers.load(Ordering::SeqCst),
        })
    }

    /// Everybody inside any store.
    pub fn all(&self) -> Vec<(DatastoreName, Active)> {
        let names: Vec<_> =
            self.stores.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect();
        names.into_iter().map(|name| (name.clone(), self.active(&name))).collect()
    }
}

impl Drop for OperationGuard {
    fn drop(&mut self) {
        if let Some(count) = self.counts.of(self.kind) {
            count.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_readers_and_writers_until_they_leave() {
        let ledger = Ledger::new();
        let name: DatastoreName = "tank".parse().unwrap();
        let _lookup = ledger.enter(&name, OperationKind::Lookup).unwrap();
        let reader = ledger.enter(&name, OperationKind::Read).unwrap();
        let writer = ledger.enter(&name, OperationKind::Write).unwrap();
        assert_eq!(ledger.active(&name), Active { readers: 1, writers: 1 });
        drop(reader);
        assert_eq!(ledger.active(&name), Active { readers: 0, writers: 1 });
        drop(writer);
        assert_eq!(ledger.all(), [(name, Active::default())]);
    }
}
