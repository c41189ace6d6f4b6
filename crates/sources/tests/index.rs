//! An index is at every look what a rebuild would make of the view, however changes, looks and damage come about.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test: it fails by panicking")]

use enfilade_facts::journal::tally_key;
use enfilade_facts::limits::{LOG_KEYS_MAX, LOG_SECONDS_MIN};
use enfilade_facts::tables::{Domain, Key};
use enfilade_facts::vocabulary::DomainId;
use enfilade_facts::{
    AuditRecord, Change, Index, IndexError, Indexed, Read, Revision, Source, SourceError, StoreId, Table,
    View,
};
use enfilade_sources::lmdb::Lmdb;
use enfilade_sources::memory::Memory;
use proptest::prelude::*;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Which domains are enabled.
#[derive(Clone, Debug, Default, PartialEq)]
struct Enabled(Arc<BTreeMap<DomainId, bool>>);

thread_local! {
    /// How often this thread built one.
    static BUILT: Cell<usize> = const { Cell::new(0) };
}

impl Indexed for Enabled {
    const TABLES: &'static [Table] = &[Table::Domains];

    fn build(view: &View<'_>) -> Result<Self, SourceError> {
        BUILT.set(BUILT.get() + 1);
        let rows = view.list::<Domain>(&[])?;
        Ok(Enabled(Arc::new(rows.into_iter().map(|(id, domain)| (id, domain.enabled)).collect())))
    }

    fn update(&mut self, view: &View<'_>, _: Table, key: &[u8]) -> Result<(), SourceError> {
        let id = DomainId::from_bytes(key.try_into().unwrap());
        let map = Arc::make_mut(&mut self.0);
        match view.get::<Domain>(&id)? {
            Some(domain) => map.insert(id, domain.enabled),
            None => map.remove(&id),
        };
        Ok(())
    }
}

fn id(n: u8) -> DomainId {
    DomainId::from_bytes([n; 16])
}

fn domain(enabled: bool) -> Domain {
    Domain { enabled, ..Domain::new("x1".parse().unwrap()) }
}

fn change(unix_seconds: i64) -> Change {
    Change::new(AuditRecord { who: "a test".into(), what: "test".into(), unix_seconds })
}

#[derive(Clone, Debug)]
enum Step {
    Put(u8, bool),
    Delete(u8),
    /// So many more than one log entry names.
    PutMany,
    /// Time goes by, and with it the old entries of the log.
    Wait,
    /// This index of two is looked at; the other one falls behind.
    Look(bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..8u8, any::<bool>()).prop_map(|(n, enabled)| Step::Put(n, enabled)),
        3 => (0..8u8).prop_map(Step::Delete),
        1 => Just(Step::PutMany),
        1 => Just(Step::Wait),
        4 => any::<bool>().prop_map(Step::Look),
    ]
}

fn run(source: &dyn Source, steps: &[Step]) {
    let indexes = [Index::<Enabled>::new(), Index::<Enabled>::new()];
    let mut now = 0;
    for step in steps {
        let mut change = change(now);
        match step {
            Step::Put(n, enabled) => drop(source.commit(change.put(&id(*n), &domain(*enabled))).unwrap()),
            Step::Delete(n) => drop(source.commit(change.delete::<Domain>(&id(*n))).unwrap()),
            Step::PutMany => {
                for n in 0..=LOG_KEYS_MAX as u128 {
                    change.put(&DomainId::from_bytes((n << 64).to_be_bytes()), &domain(true));
                }
                source.commit(&change).unwrap();
            }
            Step::Wait => now += LOG_SECONDS_MIN + 1,
            Step::Look(which) => source
                .read(|view| {
                    let rebuilt = Enabled::build(view).unwrap();
                    let index = &indexes[usize::from(*which)];
                    assert_eq!(index.read(view, Enabled::clone), Ok(rebuilt.clone()));
                    assert_eq!(index.read(view, Enabled::clone), Ok(rebuilt));
                })
                .unwrap(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn an_index_is_what_a_rebuild_would_be(steps in proptest::collection::vec(step(), 1..40)) {
        run(&Memory::new(StoreId(1)), &steps);
    }
}

#[test]
fn the_same_on_lmdb_with_threads_that_look_while_others_write() {
    let mut random = [0; 8];
    getrandom::fill(&mut random).unwrap();
    let path = std::env::temp_dir().join(format!("enfilade-index-{:016x}", u64::from_be_bytes(random)));
    let lmdb = Lmdb::open(&path).unwrap();
    let index = Index::<Enabled>::new();
    let ahead = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for n in 0..2u8 {
            let lmdb = &lmdb;
            scope.spawn(move || {
                for round in 0..200u8 {
                    let key = id(n * 4 + round % 4);
                    lmdb.commit(change(0).put(&key, &domain(round % 3 == 0))).unwrap();
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..2000 {
                    lmdb.read(|view| match index.read(view, Enabled::clone) {
                        Ok(seen) => assert_eq!(seen, Enabled::build(view).unwrap()),
                        Err(IndexError::Ahead) => drop(ahead.fetch_add(1, Ordering::Relaxed)),
                        Err(IndexError::Source(why)) => panic!("{why}"),
                    })
                    .unwrap();
                }
            });
        }
    });
    drop(lmdb);
    std::fs::remove_dir_all(&path).unwrap();
}

#[test]
fn an_index_newer_than_the_view_asks_for_another_view() {
    let memory = Memory::new(StoreId(1));
    let index = Index::<Enabled>::new();
    memory
        .read(|old| {
            memory.commit(change(0).put(&id(1), &domain(true))).unwrap();
            assert!(memory.read(|new| index.read(new, |seen| seen.0.len())).unwrap() == Ok(1));
            assert_eq!(index.read(old, |seen| seen.0.len()), Err(IndexError::Ahead));
        })
        .unwrap();
}

#[test]
fn a_change_elsewhere_and_a_change_that_the_log_knows_need_no_rebuild() {
    let memory = Memory::new(StoreId(1));
    let index = Index::<Enabled>::new();
    let look = || memory.read(|view| index.read(view, |seen| seen.0.len())).unwrap();
    memory.commit(change(0).put(&id(1), &domain(true))).unwrap();
    assert_eq!(look(), Ok(1));
    let built = BUILT.get();
    enfilade_sources::conformance::put_something(&memory);
    memory.commit(change(0).put(&id(2), &domain(true))).unwrap();
    assert_eq!((look(), BUILT.get()), (Ok(2), built));
}

#[test]
fn what_is_lost_damaged_or_stale_makes_the_index_refuse_until_it_is_mended() {
    let memory = Memory::new(StoreId(1));
    for n in 1..=3 {
        memory.commit(change(0).put(&id(n), &domain(true))).unwrap();
    }
    let look = || {
        let index = Index::<Enabled>::new();
        memory.read(|view| index.read(view, |seen| seen.0.len())).unwrap()
    };
    assert_eq!(look(), Ok(3));
    let kept = memory.damage(Table::Domains, id(2).bytes(), |_| None);
    assert!(matches!(look(), Err(IndexError::Source(SourceError::Damaged { table: Table::Domains, .. }))));
    memory.damage(Table::Domains, id(2).bytes(), |_| kept.clone());
    assert_eq!(look(), Ok(3));
    let whole = memory.damage(Table::Tallies, &tally_key(Table::Domains, &[]), |_| None);
    assert!(look().is_err());
    memory.damage(Table::Tallies, &tally_key(Table::Domains, &[]), |_| whole.clone());
    assert_eq!(look(), Ok(3));
}

#[test]
fn a_gap_in_the_log_makes_it_anew() {
    let memory = Memory::new(StoreId(1));
    let index = Index::<Enabled>::new();
    let look = || memory.read(|view| index.read(view, |seen| seen.0.len())).unwrap();
    assert_eq!(look(), Ok(0));
    memory.commit(change(0).put(&id(1), &domain(true))).unwrap();
    memory.commit(change(0).put(&id(2), &domain(true))).unwrap();
    memory.damage(Table::Log, &Revision(1).bytes(), |_| None);
    assert_eq!(look(), Ok(2));
}
