//! Facts that are looked up often, in the memory of the process. At every lookup, the index has the same revision as the view of the reader.
//!
//! The process stores an index together with the revision of the index. A reader with a newer view first updates the index to the revision of this
//! view. The update reads the change log in the same transaction. A reader with an older view must take a new view. Readers take no lock, and never
//! see a partly updated index. A thread that updates the index builds the new index as a copy, and publishes it together with its revision in one
//! atomic write.

use crate::error::SourceError;
use crate::limits::{CATCH_UP_KEYS_MIN, LOG_KEYS_MAX};
use crate::revision::At;
use crate::table::Table;
use crate::view::View;
use crate::written::written_since;
use arc_swap::ArcSwapOption;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// The content of an index, built from tables. Cloning must be cheap: the content consists of shared parts, and a change copies only the changed
/// parts.
pub trait Indexed: Clone + Send + Sync + 'static {
    /// The tables that the index is built from.
    const TABLES: &'static [Table];

    /// Builds the content from all records of the tables. A scan of a whole table is verified, so a record that is not in the index does not exist
    /// (`docs/freshness.md`, rule 4).
    ///
    /// # Errors
    /// When a record cannot be read or is damaged.
    fn build(view: &View<'_>) -> Result<Self, SourceError>;

    /// Updates the content for one key: reads the record from the view, or notes that the record does not exist.
    ///
    /// # Errors
    /// When the record cannot be read or is damaged.
    fn update(&mut self, view: &View<'_>, table: Table, key: &[u8]) -> Result<(), SourceError>;

    /// Calls [`Indexed::update`] for each key.
    ///
    /// # Errors
    /// The errors of [`Indexed::update`].
    fn update_all(
        &mut self,
        view: &View<'_>,
        written: &BTreeSet<(Table, Vec<u8>)>,
    ) -> Result<(), SourceError> {
        written.iter().try_for_each(|(table, key)| self.update(view, *table, key))
    }
}

/// The reason why an index could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    /// The index is newer than the view, because another reader had a newer view. The caller must take a new view and read the index again.
    #[error("the index is newer than the view")]
    Ahead,
    /// The index could not be updated to the revision of the view. The caller must refuse the request.
    #[error(transparent)]
    Source(#[from] SourceError),
}

/// An index, shared by all threads of a process.
pub struct Index<T> {
    built: ArcSwapOption<Built<T>>,
    /// The thread that updates the index holds this lock. Other threads wait for the lock, and then find the index up to date.
    building: Mutex<()>,
}

struct Built<T> {
    at: At,
    value: T,
}

/// An index that is behind the view by at most this many revisions is updated from the change log. An older index is built again from the tables.
const CATCH_UP_MAX: u64 = 65_536;

impl<T: Indexed> Index<T> {
    /// An index that is built at the first lookup.
    #[allow(clippy::new_without_default, reason = "an empty index is not a useful default value")]
    pub fn new() -> Self {
        Index { built: ArcSwapOption::empty(), building: Mutex::new(()) }
    }

    /// Calls `look` with the index at the revision of the view.
    ///
    /// # Errors
    /// If the call returns an [`IndexError`], `look` was not called.
    pub fn read<R>(&self, view: &View<'_>, look: impl FnOnce(&T) -> R) -> Result<R, IndexError> {
        let built = self.built.load();
        if let Some(built) = &*built
            && is_of(built, view)?
        {
            return Ok(look(&built.value));
        }
        drop(built);
        Ok(look(&self.bring_up(view)?.value))
    }

    /// Calls `look` with the index if the index has this revision, else returns `None`. If `at` is the newest acknowledged revision, the index then
    /// contains every change that was acknowledged before `at` was read.
    pub fn peek<R>(&self, at: At, look: impl FnOnce(&T) -> R) -> Option<R> {
        let built = self.built.load();
        built.as_ref().filter(|built| built.at == at).map(|built| look(&built.value))
    }

    fn bring_up(&self, view: &View<'_>) -> Result<Arc<Built<T>>, IndexError> {
        let _alone = self.building.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.built.load_full();
        if let Some(built) = &before
            && is_of(built, view)?
        {
            return Ok(Arc::clone(built));
        }
        view.head()?;
        let caught_up = before.map(|before| caught_up(&before, view)).transpose()?.flatten();
        let value = caught_up.map_or_else(|| T::build(view), Ok)?;
        let built = Arc::new(Built { at: view.at(), value });
        self.built.store(Some(Arc::clone(&built)));
        Ok(built)
    }
}

fn is_of<T>(built: &Built<T>, view: &View<'_>) -> Result<bool, IndexError> {
    let at = view.at();
    if built.at.store == at.store && at.revision < built.at.revision {
        return Err(IndexError::Ahead);
    }
    Ok(built.at == at)
}

/// Updates a copy of the index to the revision of the view, from the change log. Returns `None` if the index is of another store, if the log does not
/// contain all keys, or if so many changes or keys were written that a rebuild is cheaper.
fn caught_up<T: Indexed>(before: &Built<T>, view: &View<'_>) -> Result<Option<T>, SourceError> {
    let newest = view.at();
    let behind = newest.revision.0.saturating_sub(before.at.revision.0);
    if before.at.store != newest.store || CATCH_UP_MAX < behind {
        return Ok(None);
    }
    let mut records = 0_u64;
    for table in T::TABLES {
        records = records.saturating_add(view.tally(*table, &[])?.count);
    }
    let mut left = records.max(CATCH_UP_KEYS_MIN);
    let (mut value, mut written) = (before.value.clone(), BTreeSet::new());
    for keys in written_since(view, before.at.revision) {
        let Some((_, keys)) = keys else { return Ok(None) };
        let Some(fewer) = left.checked_sub(keys.len() as u64) else { return Ok(None) };
        left = fewer;
        written.extend(keys.into_iter().filter(|(table, _)| T::TABLES.contains(table)));
        // Keys are collected in a set, so that a key that was written many times is updated once. When the set is full, its keys are applied at once,
        // to limit the memory.
        if LOG_KEYS_MAX <= written.len() {
            value.update_all(view, &std::mem::take(&mut written))?;
        }
    }
    value.update_all(view, &written)?;
    Ok(Some(value))
}
