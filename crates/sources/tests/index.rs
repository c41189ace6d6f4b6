//! After changes, reads and damage in any order, an index must equal a new index that is built from the view.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test: it fails by panicking")]

use enfilade_facts::journal::{Head, tally_key};
use enfilade_facts::limits::{LOG_KEYS_MAX, LOG_PIECES_MAX, LOG_SECONDS_MIN};
use enfilade_facts::tables::{Domain, Key, LogPiece, PieceKey};
use enfilade_facts::vocabulary::DomainId;
use enfilade_facts::{
    At, AuditRecord, Change, Each, Found, Index, IndexError, Indexed, Read, Revision, Snapshot, Source,
    SourceError, StoreId, Table, View,
};
use enfilade_sources::lmdb::Lmdb;
use enfilade_sources::memory::Memory;
use proptest::prelude::*;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An index that says for each domain whether the domain is enabled.
#[derive(Clone, Debug, Default, PartialEq)]
struct Enabled(Arc<BTreeMap<DomainId, bool>>);

thread_local! {
    /// The number of indexes that this thread has built.
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
    Change::new(AuditRecord { who: "a test".into(), what: "test".into(), unix_seconds, request: None })
}

#[derive(Clone, Debug)]
enum Step {
    Put(u8, bool),
    Delete(u8),
    /// A change that puts many records. One record of the change log cannot name all of them, so the entry of the change has several pieces.
    PutMany,
    /// Advances the time, so that old entries of the change log can be removed.
    Wait,
    /// Reads one of the two indexes. The other index stays at an older revision.
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
        let mut threads = Vec::new();
        for n in 0..2u8 {
            let lmdb = &lmdb;
            threads.push(scope.spawn(move || {
                for round in 0..200u8 {
                    let key = id(n * 4 + round % 4);
                    lmdb.commit(change(0).put(&key, &domain(round % 3 == 0))).unwrap();
                }
            }));
        }
        for _ in 0..2 {
            threads.push(scope.spawn(|| {
                for _ in 0..2000 {
                    lmdb.read(|view| match index.read(view, Enabled::clone) {
                        Ok(seen) => assert_eq!(seen, Enabled::build(view).unwrap()),
                        Err(IndexError::Ahead) => drop(ahead.fetch_add(1, Ordering::Relaxed)),
                        Err(IndexError::Source(why)) => panic!("{why}"),
                    })
                    .unwrap();
                }
            }));
        }
        // LMDB does not allow a program to close a store while a thread that has read the store is still ending. The scope waits only for the end of
        // the closures.
        threads.into_iter().for_each(|thread| thread.join().unwrap());
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

fn many(count: u128, enabled: bool) -> Change {
    let mut change = change(0);
    for n in 0..count {
        change.put(&DomainId::from_bytes((n << 64).to_be_bytes()), &domain(enabled));
    }
    change
}

/// A snapshot that counts the domains that are read through it.
struct Counted<'v> {
    inner: &'v View<'v>,
    read: Cell<u64>,
}

impl Counted<'_> {
    fn count(&self, table: Table) {
        self.read.set(self.read.get() + u64::from(table == Table::Domains));
    }
}

impl Snapshot for Counted<'_> {
    fn at(&self) -> At {
        Snapshot::at(self.inner)
    }
    fn head(&self) -> Result<Head, SourceError> {
        Snapshot::head(self.inner)
    }
    fn get<'s>(&'s self, table: Table, key: &[u8]) -> Result<Option<&'s [u8]>, SourceError> {
        self.count(table);
        Snapshot::get(self.inner, table, key)
    }
    fn scan(&self, table: Table, prefix: &[u8], each: Each<'_>) -> Result<(), SourceError> {
        Snapshot::scan(self.inner, table, prefix, &mut |key, stored| {
            self.count(table);
            each(key, stored)
        })
    }
    fn at_or_after(&self, table: Table, key: &[u8]) -> Result<Found<'_>, SourceError> {
        self.count(table);
        Snapshot::at_or_after(self.inner, table, key)
    }
}

#[test]
fn a_large_change_is_taken_in_by_its_keys() {
    const ALL: u128 = 100_000;
    const CHANGED: u128 = 5_000;
    let memory = Memory::new(StoreId(1));
    let index = Index::<Enabled>::new();
    let look = || {
        memory
            .read(|view| {
                let counted = Counted { inner: view, read: Cell::new(0) };
                let seen = index.read(&View::new(&counted), Enabled::clone).unwrap();
                assert_eq!(seen, Enabled::build(view).unwrap());
                counted.read.get()
            })
            .unwrap()
    };
    memory.commit(&many(ALL, true)).unwrap();
    assert_eq!(look(), 100_000);
    memory.commit(&many(CHANGED, false)).unwrap();
    assert_eq!(look(), 5_000);
    // The entry of the change log has five pieces, and the last one is not full.
    let pieces = |number| PieceKey { revision: Revision(2), number };
    let is_there =
        |number| memory.read(|view| view.get::<LogPiece>(&pieces(number)).unwrap().is_some()).unwrap();
    assert_eq!([0, 4, 5].map(is_there), [true, true, false]);
}

#[test]
fn a_large_change_of_which_a_piece_is_lost_makes_it_anew() {
    let memory = Memory::new(StoreId(1));
    let index = Index::<Enabled>::new();
    let look =
        || memory.read(|view| index.read(view, |seen| seen.0.values().filter(|is| **is).count())).unwrap();
    memory.commit(&many(3_000, false)).unwrap();
    assert_eq!(look(), Ok(0));
    memory.commit(&many(3_000, true)).unwrap();
    let built = BUILT.get();
    let piece = PieceKey { revision: Revision(2), number: 1 };
    assert!(memory.damage(Table::Log, &piece.bytes(), |_| None).is_some());
    assert_eq!((look(), BUILT.get()), (Ok(3_000), built + 1));
}

/// The change has more keys than an entry of the change log can name with all its pieces.
#[test]
fn after_a_change_of_nearly_everything_it_is_made_anew() {
    let memory = Memory::new(StoreId(1));
    let index = Index::<Enabled>::new();
    let look = || memory.read(|view| index.read(view, |seen| seen.0.len())).unwrap();
    assert_eq!(look(), Ok(0));
    let built = BUILT.get();
    memory.commit(&many((LOG_KEYS_MAX * LOG_PIECES_MAX) as u128 + 1, true)).unwrap();
    assert_eq!((look(), BUILT.get()), (Ok(LOG_KEYS_MAX * LOG_PIECES_MAX + 1), built + 1));
    let log = || {
        let mut records = 0;
        let count = &mut |_: &[u8], _: &[u8]| {
            records += 1;
            std::ops::ControlFlow::Continue(())
        };
        memory.snapshot(|snapshot| snapshot.scan(Table::Log, &[], count)).unwrap();
        records
    };
    assert_eq!(log(), 1);
}

#[test]
fn the_pieces_of_old_changes_go_with_their_entries() {
    let memory = Memory::new(StoreId(1));
    let log = || {
        let mut keys = Vec::new();
        let each = &mut |key: &[u8], _: &[u8]| {
            keys.push(key.to_vec());
            std::ops::ControlFlow::Continue(())
        };
        memory.snapshot(|snapshot| snapshot.scan(Table::Log, &[], each)).unwrap();
        keys
    };
    memory.commit(&many(10_000, true)).unwrap();
    memory.commit(change(0).put(&id(1), &domain(true))).unwrap();
    assert_eq!(log().len(), 1 + 10 + 1);
    let mut left = Vec::new();
    for n in 1..=4 {
        memory.commit(change(LOG_SECONDS_MIN + n).put(&id(1), &domain(n % 2 == 0))).unwrap();
        left.push(log().len());
    }
    // Each commit removes four old records of the change log, and adds one, until only recent entries are left.
    assert_eq!(left, [9, 6, 3, 4]);
    assert_eq!(log().first().map(Vec::len), Some(8));
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
