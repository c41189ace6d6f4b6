//! Facts in memory: for tests, and as the plain model the other sources are compared with.

use enfilade_facts::change::{Change, Expected};
use enfilade_facts::codec::{self, printable};
use enfilade_facts::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use enfilade_facts::{At, CommitError, Each, Revision, Snapshot, Source, SourceError, StoreId, Table, View};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

type Records = BTreeMap<(Table, Vec<u8>), Vec<u8>>;

/// Immutable once made; a commit makes the next one.
#[derive(Clone)]
struct State {
    at: At,
    records: Records,
}

/// A store in memory.
pub struct Memory {
    state: Mutex<Arc<State>>,
}

impl Memory {
    /// An empty store.
    pub fn new(store: StoreId) -> Self {
        let at = At { store, revision: Revision(0) };
        Memory { state: Mutex::new(Arc::new(State { at, records: Records::new() })) }
    }

    fn state(&self) -> Arc<State> {
        Arc::clone(&self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Flips bits of a stored record, for tests of what happens then; says whether the record was there.
    pub fn damage(&self, table: Table, key: &[u8], flip: impl FnOnce(&mut Vec<u8>)) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = State::clone(&state);
        let there = next.records.get_mut(&(table, key.to_vec())).map(flip).is_some();
        *state = Arc::new(next);
        there
    }
}

impl Snapshot for State {
    fn at(&self) -> At {
        self.at
    }

    fn get<'s>(&'s self, table: Table, key: &[u8]) -> Result<Option<&'s [u8]>, SourceError> {
        Ok(self.records.get(&(table, key.to_vec())).map(Vec::as_slice))
    }

    fn scan(&self, table: Table, prefix: &[u8], each: Each<'_>) -> Result<(), SourceError> {
        let from = self.records.range((table, prefix.to_vec())..);
        for ((_, key), stored) in from.take_while(|((t, key), _)| *t == table && key.starts_with(prefix)) {
            if let ControlFlow::Break(()) = each(key, stored) {
                break;
            }
        }
        Ok(())
    }
}

impl Source for Memory {
    fn at(&self) -> At {
        self.state().at
    }

    fn with_view(&self, look: &mut dyn FnMut(&View<'_>)) -> Result<(), SourceError> {
        look(&View::new(&*self.state()));
        Ok(())
    }

    fn commit(&self, change: &Change) -> Result<At, CommitError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        check_sizes(change)?;
        for expect in change.expects() {
            let stored = state.records.get(&(expect.table, expect.key.clone())).map(Vec::as_slice);
            check_expected(expect.table, &expect.key, &expect.expected, stored)?;
        }
        // What changes nothing is no commit, as in LMDB.
        let is_there = |table, key: &[u8]| state.records.contains_key(&(table, key.to_vec()));
        if !change.writes().any(|(table, key, value)| value.is_some() || is_there(table, key)) {
            return Ok(state.at);
        }
        let mut next = State::clone(&state);
        next.at.revision = Revision(state.at.revision.0 + 1);
        for (table, key, value) in change.writes() {
            match value {
                Some(value) => {
                    next.records
                        .insert((table, key.to_vec()), codec::seal(table, key, next.at.revision, value));
                }
                None => {
                    next.records.remove(&(table, key.to_vec()));
                }
            }
        }
        *state = Arc::new(next);
        Ok(state.at)
    }
}

/// The limits every source has, so that what fits into one fits into all. A key that is only expected is bounded, too.
pub(crate) fn check_sizes(change: &Change) -> Result<(), CommitError> {
    let expected = change.expects().iter().map(|expect| (expect.table, expect.key.as_slice(), None));
    for (table, key, value) in expected.chain(change.writes()) {
        let value = value.map_or(0, <[u8]>::len);
        for (what, bytes, limit) in [("key", key.len(), KEY_BYTES_MAX), ("value", value, VALUE_BYTES_MAX)] {
            if limit < bytes {
                return Err(CommitError::TooLarge { table, what, bytes, limit });
            }
        }
    }
    Ok(())
}

/// Whether a record is what a change expects it to be.
pub(crate) fn check_expected(
    table: Table,
    key: &[u8],
    expected: &Expected,
    stored: Option<&[u8]>,
) -> Result<(), CommitError> {
    let holds = match (expected, stored) {
        (Expected::Absent, stored) => stored.is_none(),
        (Expected::Present, stored) => stored.is_some(),
        (Expected::Value(_), None) => false,
        (Expected::Value(value), Some(stored)) => codec::open(table, key, stored)?.1 == value,
    };
    if holds { Ok(()) } else { Err(CommitError::Conflict { table, key: printable(key) }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conforms() {
        crate::conformance::all(|| Box::new(Memory::new(StoreId(1))));
    }

    #[test]
    fn a_damaged_record_refuses_to_be_read_and_to_be_compared() {
        let memory = Memory::new(StoreId(1));
        crate::conformance::put_something(&memory);
        assert!(memory.damage(Table::Datastores, b"tank", |stored| stored[40] ^= 1));
        crate::conformance::something_is_refused(&memory);
    }
}
