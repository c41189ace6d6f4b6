use super::*;
use crate::lmdb::environment::{Trust, open_anew};
use crate::lmdb::{Lmdb, Terms};
use crate::scratch::Scratch;
use enfilade_facts::tables::{Domain, Extra, ExtraKey, ResourceKind, Revoked};
use enfilade_facts::vocabulary::{DomainId, UserId};
use enfilade_facts::{AuditRecord, Change, Effect, Source};
use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

thread_local! {
    /// How many times the code under test asked to allocate disk space. The tests replace the real allocation, and count the calls here.
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

fn audit() -> AuditRecord {
    AuditRecord { who: "a test".into(), what: "test".into(), unix_seconds: 1, request: None }
}

fn gives(n: u8) -> Change {
    gives_by(Requester::Administrator, n)
}

fn gives_by(requester: Requester, n: u8) -> Change {
    let mut change = Change::requested_by(requester, audit());
    change.put(&DomainId::from_bytes([n; 16]), &Domain::new("x1".parse().unwrap()));
    change
}

fn takes(requester: Requester, n: u8) -> Change {
    Change::requested_by(requester, audit()).end(Revoked::Token([n; 16])).clone()
}

/// Opens a store with a reserve of the usual size. The file system has free space, and allocates space with the function `allocate`. The file has no
/// disk space yet.
fn open_on(path: &Path, allocate: fn(&File, u64, u64) -> Result<(), Errno>) -> Lmdb {
    CALLS.set(0);
    drop(Lmdb::open(path).unwrap());
    let mut environment = open_anew(path, Terms::default(), Trust::Checked).unwrap();
    let reserve = &mut environment.disk_reserve;
    (reserve.bytes, reserve.until) = (RESERVE_BYTES, AtomicU64::new(0));
    reserve.disk = Disk { allocate, allocated: |_| 0, free: |_| Ok(u64::MAX) };
    Lmdb { environment: Arc::new(environment) }
}

fn file_bytes(lmdb: &Lmdb) -> u64 {
    let txn = lmdb.environment.env.read_txn().unwrap();
    lmdb.environment.map_space(&txn).unwrap().file_bytes
}

/// Pretends that the file has this much disk space behind its end.
fn leave(lmdb: &Lmdb, bytes: u64) {
    lmdb.environment.disk_reserve.until.store(file_bytes(lmdb) + bytes, Ordering::Relaxed);
}

fn full(_: &File, _: u64, _: u64) -> Result<(), Errno> {
    Err(Errno::NOSPC)
}

#[test]
fn a_store_has_a_reserve_also_after_it_was_copied_or_compacted() {
    let scratch = Scratch::new();
    let path = scratch.path().join("facts");
    let (data, copy) = (path.join("data.mdb"), path.join("copy"));
    // Opens the store. Returns the size of its reserve; `None` if the file system cannot allocate space in advance.
    let open = || {
        let lmdb = Lmdb::open(&path).unwrap();
        crate::conformance::put_something(&lmdb);
        let reserve = &lmdb.environment.disk_reserve;
        (reserve.until.load(Ordering::Relaxed) != u64::MAX).then_some(reserve.bytes)
    };
    let Some(bytes) = open() else { return };
    let has_reserve = || {
        let meta = std::fs::metadata(&data).unwrap();
        assert!(meta.len() < 1 << 20, "the file became longer");
        meta.len() + bytes <= meta.blocks() * 512
    };
    assert!(has_reserve());
    std::fs::copy(&data, &copy).unwrap();
    std::fs::rename(&copy, &data).unwrap();
    assert!(!has_reserve());
    assert_eq!(open(), Some(bytes));
    assert!(has_reserve());
    Lmdb::compact(&path, Terms::default(), &audit(), &mut |_, _| {}).unwrap();
    assert!(has_reserve());
}

#[test]
fn on_a_full_disk_each_kind_of_change_leaves_disk_space_for_the_next() {
    use Requester::{Administrator, File, User};
    let scratch = Scratch::new();
    let lmdb = open_on(&scratch.path().join("facts"), full);
    let mut n = 0;
    // Each case contains the disk space behind the end of the file, in bytes. For each kind of change, the case also says whether the change is
    // committed.
    for (left, expected) in [
        (RESERVE_BYTES / 2 * 3, [true, true, true]),
        (RESERVE_BYTES, [false, true, true]),
        (RESERVE_BYTES - 1, [false, true, true]),
        (RESERVE_BYTES / 2 - 1, [false, false, true]),
        (0, [false, false, true]),
    ] {
        let mut commit = |change: &dyn Fn(u8) -> Change| {
            n += 1;
            leave(&lmdb, left);
            lmdb.commit(&change(n)).map_err(|why| why.to_string())
        };
        let answers = [commit(&gives), commit(&|n| takes(User, n)), commit(&|n| takes(Administrator, n))];
        assert_eq!(answers.each_ref().map(Result::is_ok), expected, "{left}: {answers:?}");
        for (answer, kept_for) in answers.iter().zip([
            "kept for changes that take rights away",
            "kept for administrators' changes that take rights away",
        ]) {
            let said = |why: &String| why.contains("the disk is full: make room") && why.contains(kept_for);
            assert!(answer.as_ref().err().is_none_or(said), "{answer:?}");
        }
        // A change that follows an edited file is committed, even if it gives rights.
        assert!(commit(&|n| gives_by(File, n)).is_ok(), "{left}");
        leave(&lmdb, left);
        let takes = [User, Administrator].map(|who| lmdb.has_room_for(who, Effect::Takes, 0).is_ok());
        assert_eq!(takes, expected[1..]);
        // If the reserve is missing, a command that would give rights by editing a file is refused before it edits the file.
        let gives = [User, Administrator].map(|who| lmdb.has_room_for(who, Effect::Gives, 0).is_ok());
        assert_eq!(gives, [expected[0]; 2], "{left}");
    }
}

#[test]
fn a_refused_change_does_not_take_others_with_it() {
    let scratch = Scratch::new();
    let lmdb = open_on(&scratch.path().join("facts"), full);
    // If there is no reserve, a change that gives rights is refused before it is written. If exactly the reserve is left, such a change is refused
    // after all changes of the transaction were written.
    for (n, left) in [(10, 0), (20, RESERVE_BYTES)] {
        leave(&lmdb, left);
        let takes = takes(Requester::Administrator, n);
        let answers = lmdb.write_all(&[&gives(n), &takes, &gives(n + 1)]);
        assert_eq!(answers.iter().map(Result::is_ok).collect::<Vec<_>>(), [false, true, false], "{left}");
    }
}

#[test]
fn the_reserve_is_made_anew_when_the_file_has_grown_and_not_at_each_commit() {
    let scratch = Scratch::new();
    let lmdb = open_on(&scratch.path().join("facts"), |_, _, _| {
        CALLS.set(CALLS.get() + 1);
        Ok(())
    });
    (0..20).for_each(|n| _ = lmdb.commit(&gives(n)).unwrap());
    assert_eq!(CALLS.get(), 1);
    let before = file_bytes(&lmdb);
    for n in 0..60 {
        let key = ExtraKey::of(ResourceKind::User, &UserId::from_bytes([n; 16]));
        let mut change = Change::requested_by(Requester::Administrator, audit());
        lmdb.commit(change.put(&key, &Extra("x".repeat(60_000)))).unwrap();
    }
    let grown = file_bytes(&lmdb) - before;
    let is_expected = (2..6 + (grown >> 20)).contains(&CALLS.get());
    assert!(3 << 20 < grown && is_expected, "{grown} bytes, {} times", CALLS.get());
    assert!(lmdb.environment.disk_reserve.is_left(file_bytes(&lmdb), GIVING));
}

#[test]
fn a_file_system_that_cannot_allocate_in_advance_has_no_reserve() {
    let scratch = Scratch::new();
    let lmdb = open_on(&scratch.path().join("facts"), |_, _, _| {
        CALLS.set(CALLS.get() + 1);
        Err(Errno::OPNOTSUPP)
    });
    (0..3).for_each(|n| _ = lmdb.commit(&gives(n)).unwrap());
    assert_eq!(CALLS.get(), 1);
}

/// Another process has made the reserve, and then the disk became full.
#[test]
fn disk_space_that_another_process_allocated_counts() {
    let scratch = Scratch::new();
    let mut lmdb = open_on(&scratch.path().join("facts"), full);
    assert!(lmdb.commit(&gives(1)).is_err());
    let environment = Arc::get_mut(&mut lmdb.environment).unwrap();
    environment.disk_reserve.disk.allocated = |_| RESERVE_BYTES * 2;
    lmdb.commit(&gives(1)).unwrap();
}

#[test]
fn the_rest_of_a_disk_is_not_allocated_if_it_is_less_than_the_reserve() {
    const MISSING: u64 = RESERVE_BYTES / 2;
    fn allocate(_: &File, _: u64, _: u64) -> Result<(), Errno> {
        CALLS.set(CALLS.get() + 1);
        Ok(())
    }
    type Free = fn(&File) -> Result<u64, Errno>;
    let cases: [(Free, bool); 3] =
        [(|_| Ok(MISSING), false), (|_| Err(Errno::IO), false), (|_| Ok(MISSING * 2), true)];
    for (free, is_allocated) in cases {
        let scratch = Scratch::new();
        let mut lmdb = open_on(&scratch.path().join("facts"), allocate);
        let environment = Arc::get_mut(&mut lmdb.environment).unwrap();
        // Half of the reserve is already allocated. `MISSING` is the other half.
        environment.disk_reserve.disk.allocated = |file| file.metadata().unwrap().len() + MISSING;
        environment.disk_reserve.disk.free = free;
        let given = lmdb.commit(&gives(1)).map(drop).map_err(|why| why.to_string());
        assert_eq!((given.is_ok(), CALLS.get()), (is_allocated, u64::from(is_allocated)), "{given:?}");
        lmdb.commit(&takes(Requester::Administrator, 1)).unwrap();
    }
}

/// If the file system cannot allocate space in advance, changes are committed without a reserve. After any other error of the allocation, changes are
/// refused.
#[test]
fn an_error_of_the_disk_is_not_an_endless_reserve() {
    let scratch = Scratch::new();
    let lmdb = open_on(&scratch.path().join("facts"), |_, _, _| Err(Errno::IO));
    for n in 0..2 {
        let why = lmdb.commit(&gives(n)).unwrap_err().to_string();
        assert!(why.contains("the disk has errors"), "{why}");
    }
    lmdb.commit(&takes(Requester::Administrator, 1)).unwrap();
}

#[test]
fn the_size_of_a_file_system_is_known_or_unlimited() {
    let scratch = Scratch::new();
    let file = File::create(scratch.path().join("file")).unwrap();
    let (space, found) = (space_of(&file).unwrap(), fstatvfs(&file).unwrap());
    assert_eq!(space.all, found.f_blocks * found.f_frsize);
    // The file system of /proc has no size.
    let space = space_of(&File::open("/proc/self/stat").unwrap()).unwrap();
    assert_eq!((space.all, space.free), (u64::MAX, u64::MAX));
}

#[test]
fn a_small_file_system_has_a_small_reserve_and_a_file_with_holes_is_filled() {
    for (all, bytes) in [
        (u64::MAX, RESERVE_BYTES),
        (RESERVE_BYTES * PARTS_OF_FILE_SYSTEM, RESERVE_BYTES),
        (RESERVE_BYTES, RESERVE_BYTES / PARTS_OF_FILE_SYSTEM),
        (0, 0),
    ] {
        assert_eq!(size_on(all), bytes);
    }
    for (allocated, file_bytes, from) in [(9, 10, 0), (10, 10, 10), (11, 10, 10)] {
        assert_eq!(first_to_allocate(allocated, file_bytes), from);
    }
}

#[test]
fn exactly_the_needed_space_is_enough() {
    let scratch = Scratch::new();
    let file = File::create(scratch.path().join("file")).unwrap();
    let disk = |free| Disk { allocate: |_, _, _| Ok(()), allocated: |_| 40, free };
    assert_eq!(disk(|_| Ok(60)).extend(&file, 40, 100), Ok(100));
    assert_eq!(disk(|_| Ok(59)).extend(&file, 40, 100), Err(Errno::NOSPC));
}

#[test]
fn a_transaction_writes_at_most_each_page_in_use_and_the_trees_of_lmdb() {
    let scratch = Scratch::new();
    let lmdb = open_on(&scratch.path().join("facts"), full);
    let space = DiskSpace::new(&lmdb.environment.disk_reserve, 1_280_000, 4_096);
    assert_eq!(space.most_bytes(5_000), 1_280_000 + 5_000 + 32 * 4_096 + 10_000);
}

#[test]
fn the_disk_space_of_a_file_is_told_in_bytes() {
    const BYTES: u64 = 1 << 20;
    let scratch = Scratch::new();
    let path = scratch.path().join("file");
    std::fs::write(&path, vec![1; BYTES as usize]).unwrap();
    let file = File::open(&path).unwrap();
    file.sync_all().unwrap();
    let allocated = (DISK.allocated)(&file);
    assert!((BYTES..2 * BYTES).contains(&allocated), "{allocated} bytes");
}
