//! Stores facts in memory, for tests. Other sources must behave as this source does.

use enfilade_facts::journal::{Head, Write, write_down};
use enfilade_facts::{
    At, Change, CommitError, Each, Found, Revision, Snapshot, Source, SourceError, StoreId, Table, View,
};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

type Records = BTreeMap<(Table, Vec<u8>), Vec<u8>>;

/// The facts at one revision. A commit makes a new state, and existing views still use the old state.
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
        let mut state = State { at, records: Records::new() };
        state.write(vec![Head { revision: at.revision, commit: 0 }.write()]);
        Memory { state: Mutex::new(Arc::new(state)) }
    }

    fn state(&self) -> Arc<State> {
        Arc::clone(&self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Calls the function `look` with the raw records, for a check of all records.
    pub fn snapshot<R>(&self, look: impl FnOnce(&dyn Snapshot) -> R) -> R {
        look(&*self.state())
    }

    /// Replaces or removes a stored record without a commit, for tests of damage. Returns the old record.
    pub fn damage(
        &self,
        table: Table,
        key: &[u8],
        damage: impl FnOnce(&[u8]) -> Option<Vec<u8>>,
    ) -> Option<Vec<u8>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let old = state.records.get(&(table, key.to_vec())).cloned();
        let stored = damage(old.as_deref().unwrap_or_default());
        Arc::make_mut(&mut state).write(vec![Write { table, key: key.to_vec(), stored }]);
        old
    }
}

impl State {
    fn write(&mut self, writes: Vec<Write>) {
        for Write { table, key, stored } in writes {
            match stored {
                Some(stored) => self.records.insert((table, key), stored),
                None => self.records.remove(&(table, key)),
            };
        }
    }
}

impl Snapshot for State {
    fn at(&self) -> At {
        self.at
    }

    fn get<'s>(&'s self, table: Table, key: &[u8]) -> Result<Option<&'s [u8]>, SourceError> {
        Ok(self.records.get(&(table, key.to_vec())).map(Vec::as_slice))
    }

    fn at_or_after(&self, table: Table, key: &[u8]) -> Result<Found<'_>, SourceError> {
        let next = self.records.range((table, key.to_vec())..).next();
        Ok(next
            .filter(|((of, _), _)| *of == table)
            .map(|((_, key), stored)| (key.as_slice(), stored.as_slice())))
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
        let next = state.at.next();
        let writes = write_down(&**state, change, next.revision.0, Revision(u64::MAX))?;
        // As in the LMDB source, a change without writes makes no new revision.
        if !writes.is_empty() {
            let state = Arc::make_mut(&mut state);
            state.at = next;
            state.write(writes);
        }
        Ok(state.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use enfilade_facts::Read;
    use enfilade_facts::journal::tally_key;
    use enfilade_facts::tables::{Datastore, Domain, Key, Member, Membership, MembershipKey};
    use enfilade_facts::tables::{Revocation, Revoked};
    use enfilade_facts::vocabulary::{DomainId, GroupId, UserId};
    use std::collections::BTreeSet;

    /// A member of a fleet computes this digest if its program has format 13. If the digest were different here, a fleet could not be updated member
    /// by member.
    #[test]
    fn the_digest_of_no_facts_is_that_of_older_programs() {
        let facts = Memory::new(StoreId(1));
        let digests = facts.read(enfilade_facts::journal::Digests::of).unwrap().unwrap();
        assert_eq!(format!("{:032x}", digests.own), "318a1f06f10fdebbf71e7e4310601550");
        // Some builds of this program with the formats 15 and 16 wrote this digest.
        assert!(digests.has(0x3e34_fd92_bcb5_c4a3_ecc7_fadd_6ac8_222c));
        assert!(!digests.has(digests.own ^ 1));
    }

    #[test]
    fn conforms() {
        crate::conformance::all(|| Box::new(Memory::new(StoreId(1))));
    }

    #[test]
    fn a_damaged_record_refuses_to_be_read_and_to_be_compared() {
        let memory = Memory::new(StoreId(1));
        crate::conformance::put_something(&memory);
        let flip = |stored: &[u8]| {
            let mut stored = stored.to_vec();
            stored[40] ^= 1;
            Some(stored)
        };
        assert!(memory.damage(Table::Datastores, b"tank", flip).is_some());
        crate::conformance::something_is_refused(&memory);
    }

    #[test]
    fn a_lost_and_a_stale_record_refuse_and_writing_over_them_mends_them() {
        let memory = Memory::new(StoreId(1));
        let old = memory_record_of_an_older_revision(&memory);
        for damage in [None, old] {
            memory.damage(Table::Datastores, b"tank", |_| damage.clone());
            let name = "tank".parse().unwrap();
            let got = memory.read(|view| view.get::<Datastore>(&name)).unwrap();
            assert!(matches!(got, Err(SourceError::Damaged { .. })), "{got:?}");
            assert!(memory.read(|view| view.list::<Datastore>(&[])).unwrap().is_err());
            assert!(memory.read(|view| view.list::<Datastore>(b"ta")).unwrap().is_err());
            crate::conformance::put_something(&memory);
            crate::conformance::something_is_there(&memory);
        }
    }

    /// Puts a record twice, and returns the first version, which is undamaged, but out of date.
    fn memory_record_of_an_older_revision(memory: &Memory) -> Option<Vec<u8>> {
        crate::conformance::put_something(memory);
        let old = memory.damage(Table::Datastores, b"tank", |stored| Some(stored.to_vec()));
        crate::conformance::put_something(memory);
        old
    }

    #[test]
    fn one_record_of_a_group_cannot_be_lost_or_stale() {
        let memory = Memory::new(StoreId(1));
        let user = Member::User(UserId::from_bytes([1; 16]));
        let key = |n| MembershipKey { member: user, group: GroupId::from_bytes([n; 16]) };
        let mut change = crate::conformance::change();
        for n in 1..=3 {
            change.put(&key(n), &Membership);
        }
        memory.commit(&change).unwrap();
        memory.damage(Table::Memberships, &key(2).bytes(), |_| None);
        let count =
            || memory.read(|view| view.list::<Membership>(&user.prefix()).map(|rows| rows.len())).unwrap();
        assert!(count().is_err());
        assert!(memory.read(|view| view.any::<Membership>(&user.prefix())).unwrap().is_err());
        assert!(memory.read(|view| view.get::<Membership>(&key(1))).unwrap().is_err());
        memory.damage(Table::Tallies, &tally_key(Table::Memberships, &user.prefix()), |_| None);
        assert!(count().is_err());
    }

    #[test]
    fn a_mark_that_one_change_purges_and_sets_is_written_once_and_stays() {
        let memory = Memory::new(StoreId(1));
        let mark = Revoked::Token([7; 16]);
        let found = || memory.read(|view| view.get::<Revocation>(&mark)).unwrap().unwrap();
        memory.commit(crate::conformance::change().end_until(mark, 100)).unwrap();
        let mut both = crate::conformance::change();
        both.purge(&mark, &found().unwrap()).end_until(mark, 200);
        let writes = write_down(&*memory.state(), &both, 2, Revision(0)).unwrap();
        let keys: BTreeSet<_> = writes.iter().map(|write| (write.table, &write.key)).collect();
        assert_eq!(keys.len(), writes.len(), "{writes:?}");
        memory.commit(&both).unwrap();
        assert_eq!(found().map(|row| row.until), Some(200));
    }

    #[test]
    fn a_head_of_another_revision_refuses_everything() {
        let memory = Memory::new(StoreId(1));
        crate::conformance::put_something(&memory);
        let old = memory.damage(Table::Head, b"head", |stored| Some(stored.to_vec()));
        let at = crate::conformance::put_something(&memory);
        memory.damage(Table::Head, b"head", |_| old.clone());
        let why =
            memory.read(|view| view.get::<Domain>(&DomainId::from_bytes([1; 16]))).unwrap().unwrap_err();
        assert!(why.to_string().contains(&format!("the store has revision {}", at.revision)), "{why}");
        assert!(
            memory
                .commit(crate::conformance::change().delete::<Domain>(&DomainId::from_bytes([1; 16])))
                .is_err()
        );
    }
}
