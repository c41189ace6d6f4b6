//! Tests of facts that are gathered while other threads write. The result is complete and has one revision. LMDB can reuse pages while the facts are
//! gathered.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test: it fails by panicking")]

use enfilade_facts::codec::{self, Writer};
use enfilade_facts::journal::tally_key;
use enfilade_facts::tables::{Domain, Key, LogEntry, Member, Membership, MembershipKey, Written};
use enfilade_facts::vocabulary::{DomainId, GroupId, UserId};
use enfilade_facts::{AuditRecord, Change, Read, Revision, Row, Source, SourceError, StoreId, Table, View};
use enfilade_sources::copy::{CopyError, Gathered, Record, read_backup};
use enfilade_sources::lmdb::Lmdb;
use enfilade_sources::memory::Memory;
use proptest::prelude::*;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

fn change() -> Change {
    Change::new(AuditRecord { who: "a test".into(), what: "test".into(), unix_seconds: 5, request: None })
}

fn domain(text: &str) -> Domain {
    Domain { description: Some(text.into()), ..Domain::new("x1".parse().unwrap()) }
}

fn domain_id(n: u32) -> DomainId {
    DomainId::from_bytes([n.to_be_bytes(); 4].concat().try_into().unwrap())
}

fn membership(user: u8, group: u8) -> MembershipKey {
    let member = Member::User(UserId::from_bytes([user; 16]));
    MembershipKey { member, group: GroupId::from_bytes([group; 16]) }
}

/// All facts of a view.
fn facts(view: &View<'_>) -> Vec<Record> {
    let mut records = Vec::new();
    for table in Table::of_facts() {
        view.scan_values(table, &[], &mut |key, value| {
            records.push((table, key.to_vec(), value.to_vec()));
            Ok(ControlFlow::Continue(()))
        })
        .unwrap();
    }
    records
}

/// Gathers all facts, and calls `between` before each view.
fn gather(source: &dyn Source, between: &dyn Fn()) -> Result<Gathered, CopyError> {
    let views = |look: &mut dyn FnMut(&View<'_>)| {
        between();
        source.with_view(look)
    };
    Gathered::of(&views, &std::env::temp_dir(), 7, &mut |done, all| assert!(done <= all))
}

/// Writes the gathered facts to a backup, and returns the revision and the records that are read from it.
fn read(mut gathered: Gathered) -> (Revision, Vec<Record>) {
    let mut file = Vec::new();
    gathered.write_backup(&mut file, &mut |_, _| {}).unwrap();
    let copy = read_backup(file.as_slice()).unwrap();
    assert_eq!(copy.origin, gathered.origin);
    let revision = Revision(copy.origin.revision);
    let records: Vec<_> = copy.records.map(Result::unwrap).collect();
    assert_eq!(gathered.origin.records, records.len() as u64);
    (revision, records)
}

#[derive(Clone, Debug)]
enum Step {
    Nothing,
    Put(u8, u8),
    Delete(u8),
    Join(u8, u8),
    Leave(u8, u8),
    /// A change that puts many records. One record of the change log cannot name all of them, so the entry of the change has several pieces.
    PutMany(u8),
    DeleteMany,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Nothing),
        6 => (0..40u8, any::<u8>()).prop_map(|(n, text)| Step::Put(n, text)),
        4 => (0..40u8).prop_map(Step::Delete),
        4 => (0..4u8, 0..4u8).prop_map(|(user, group)| Step::Join(user, group)),
        3 => (0..4u8, 0..4u8).prop_map(|(user, group)| Step::Leave(user, group)),
        1 => any::<u8>().prop_map(Step::PutMany),
        1 => Just(Step::DeleteMany),
    ]
}

fn run(source: &dyn Source, step: &Step) {
    let mut change = change();
    let many = (0..1_500_u32).map(|n| domain_id(n << 20));
    match step {
        Step::Nothing => return,
        Step::Put(n, text) => _ = change.put(&domain_id(u32::from(*n) << 24), &domain(&text.to_string())),
        Step::Delete(n) => _ = change.delete::<Domain>(&domain_id(u32::from(*n) << 24)),
        Step::Join(user, group) => _ = change.put(&membership(*user, *group), &Membership),
        Step::Leave(user, group) => _ = change.delete::<Membership>(&membership(*user, *group)),
        Step::PutMany(text) => many.for_each(|id| _ = change.put(&id, &domain(&text.to_string()))),
        Step::DeleteMany => many.for_each(|id| _ = change.delete::<Domain>(&id)),
    }
    source.commit(&change).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn whatever_is_written_meanwhile_it_is_one_revision(
        before in proptest::collection::vec(step(), 0..10),
        meanwhile in proptest::collection::vec(step(), 1..60),
    ) {
        let memory = Memory::new(StoreId(1));
        before.iter().for_each(|step| run(&memory, step));
        let seen = RefCell::new(BTreeMap::new());
        let next = Cell::new(0);
        let between = || {
            if let Some(step) = meanwhile.get(next.replace(next.get() + 1)) {
                run(&memory, step);
            }
            memory.read(|view| seen.borrow_mut().insert(view.at().revision, facts(view))).unwrap();
        };
        let (revision, records) = read(gather(&memory, &between).unwrap());
        assert!(next.get() > 20, "{} views", next.get());
        assert_eq!(&records, &seen.borrow()[&revision]);
        assert_eq!(revision, memory.at().revision);
    }
}

/// A table in LMDB is gathered in several parts, while a writer changes records of every part.
#[test]
fn a_copy_keeps_no_page_from_being_used_again() {
    let place = scratch();
    let lmdb = Lmdb::open(&place.0.join("facts")).unwrap();
    let mut first = change();
    (0..20_000).for_each(|n| _ = first.put(&domain_id(n), &domain("before")));
    lmdb.commit(&first).unwrap();
    let next = Cell::new(0);
    let write = || {
        for _ in 0..10 {
            let n = next.replace(next.get() + 1);
            let mut change = change();
            change.put(&domain_id(n * 7919 % 20_000), &domain(&n.to_string()));
            change.put(&domain_id(30_000 + n), &domain("new")).delete::<Domain>(&domain_id(n * 31));
            lmdb.commit(&change).unwrap();
        }
    };
    // After these writes, the file has free pages.
    (0..5).for_each(|_| write());
    let long = || lmdb.status().file_bytes;
    let before = long();
    let (revision, records) = read(gather(&lmdb, &write).unwrap());
    let grown = long() - before;
    assert_eq!((revision, records), lmdb.read(|view| (view.at().revision, facts(view))).unwrap());
    let commits = next.get() - 50;
    assert!(commits > 300, "{commits}");
    // During a single view, each commit makes the file grow by about ten pages.
    let in_one_view = lmdb
        .read(|_| {
            let before = long();
            (0..commits / 10).for_each(|_| write());
            long() - before
        })
        .unwrap();
    assert!(grown * 8 < in_one_view, "the file grew by {grown} bytes, and by {in_one_view} in one view");
}

#[test]
fn what_is_lost_or_stale_ends_it() {
    let none = |_: &[u8]| None;
    let flip = |stored: &[u8]| Some(stored.iter().map(|byte| byte ^ 1).collect());
    type Damage<'d> = &'d dyn Fn(&[u8]) -> Option<Vec<u8>>;
    let id = domain_id(3);
    let group = membership(1, 0).member.prefix();
    let cases: [(Table, Vec<u8>, Damage<'_>); 7] = [
        (Table::Domains, id.bytes().to_vec(), &none),
        (Table::Domains, id.bytes().to_vec(), &flip),
        (Table::Domains, domain_id(9).bytes().to_vec(), &none),
        (Table::Memberships, membership(1, 1).bytes(), &none),
        (Table::Tallies, tally_key(Table::Domains, id.bytes()), &none),
        (Table::Tallies, tally_key(Table::Memberships, &group), &flip),
        (Table::Tallies, tally_key(Table::Domains, &[]), &flip),
    ];
    for (table, key, damage) in cases {
        let memory = Memory::new(StoreId(1));
        let mut change = change();
        (0..10).for_each(|n| _ = change.put(&domain_id(n), &domain("here")));
        (0..3).for_each(|group| _ = change.put(&membership(1, group), &Membership));
        memory.commit(&change).unwrap();
        gather(&memory, &|| {}).unwrap();
        assert!(memory.damage(table, &key, damage).is_some());
        let why = gather(&memory, &|| {}).err().unwrap();
        assert!(matches!(why, CopyError::Source(SourceError::Damaged { .. })), "{table:?} {key:?}: {why}");
    }
}

/// A record is changed after it was gathered, and the change log does not name its key. So the copy fails.
#[test]
fn what_the_log_does_not_say_ends_it() {
    let unsaid = |written: Written| {
        move |_: &[u8]| {
            let entry =
                LogEntry { who: String::new(), what: String::new(), unix_seconds: 5, request: None, written };
            let mut value = Writer::default();
            entry.encode(&mut value);
            Some(codec::seal(Table::Log, &Revision(2).bytes(), Revision(2), &value.into_bytes()))
        }
    };
    let cases: [(Option<Written>, &str); 3] = [
        (Some(Written::Unsaid), "try again"),
        (None, "try again"),
        (Some(Written::Here(Vec::new())), "do not match the digest"),
    ];
    for (written, expected) in cases {
        let memory = Memory::new(StoreId(1));
        memory.commit(change().put(&domain_id(1), &domain("one"))).unwrap();
        let views = Cell::new(0);
        let between = || {
            views.set(views.get() + 1);
            if views.get() == 20 {
                memory.commit(change().put(&domain_id(1), &domain("two"))).unwrap();
                match written.clone() {
                    Some(written) => drop(memory.damage(Table::Log, &Revision(2).bytes(), unsaid(written))),
                    None => drop(memory.damage(Table::Log, &Revision(2).bytes(), |_| None)),
                }
            }
        };
        let why = gather(&memory, &between).err().unwrap().to_string();
        assert!(why.contains(expected), "{why}");
    }
}

#[test]
fn a_store_that_is_restored_meanwhile_ends_it() {
    let place = scratch();
    let lmdb = Lmdb::open(&place.0.join("facts")).unwrap();
    lmdb.commit(change().put(&domain_id(1), &domain("one"))).unwrap();
    let mut file = Vec::new();
    gather(&lmdb, &|| {}).unwrap().write_backup(&mut file, &mut |_, _| {}).unwrap();
    let views = Cell::new(0);
    let between = || {
        views.set(views.get() + 1);
        if views.get() == 10 {
            let audit =
                AuditRecord { who: "a test".into(), what: "restore".into(), unix_seconds: 5, request: None };
            let copy = read_backup(file.as_slice()).unwrap();
            lmdb.restore(copy, &audit, true, &mut |_, _| {}).unwrap();
        }
    };
    let why = gather(&lmdb, &between).err().unwrap().to_string();
    assert!(why.contains("all facts were restored during the copy"), "{why}");
}

/// A temporary directory of one test.
struct Scratch(std::path::PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn scratch() -> Scratch {
    let mut random = [0; 8];
    getrandom::fill(&mut random).unwrap();
    let path = std::env::temp_dir().join(format!("enfilade-gather-{:016x}", u64::from_be_bytes(random)));
    std::fs::create_dir(&path).unwrap();
    Scratch(path)
}
