//! Members with stores of their own, on one log in a real etcd.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "tests"
)]

mod etcd;

use enfilade_facts::journal::digest;
use enfilade_facts::tables::Domain;
use enfilade_facts::vocabulary::DomainId;
use enfilade_facts::{CommitError, Read, Revision, Source, StoreId};
use enfilade_fleet::{ASK_EVERY, Log, LogError, Member, ReplicaError};
use enfilade_sources::conformance;
use enfilade_sources::lmdb::Lmdb;
use enfilade_sources::memory::Memory;
use etcd::Server;
use etcd::counter::{STORE, add_one, boot_clock, change, number};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

fn member(store: Arc<dyn Source>, log: Log) -> Member {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let id = format!("m{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    Member::start(&id, store, log, boot_clock).unwrap()
}

/// Waits until it is so, for at most a minute.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..1_200 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("not within a minute: {what}");
}

fn digest_of(source: &dyn Source) -> u128 {
    source.read(digest).unwrap().unwrap()
}

#[test]
fn a_fleet_of_one_is_a_source_as_every_other() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = runtime.block_on(Server::start());
    let number = AtomicU32::new(0);
    let log =
        |store: StoreId| server.log(&format!("/house/{}", number.fetch_add(1, Ordering::Relaxed)), store);
    let begun = |store: Arc<dyn Source>| {
        let log = log(store.at().store);
        runtime.block_on(log.begin(store.at().revision, digest_of(&*store))).unwrap();
        Box::new(member(store, log)) as Box<dyn Source>
    };
    conformance::all(|| begun(Arc::new(Memory::new(STORE))));
    let directory = std::env::temp_dir().join(format!("enfilade-fleet-{}", std::process::id()));
    conformance::all(|| {
        let path = directory.join(number.load(Ordering::Relaxed).to_string());
        begun(Arc::new(Lmdb::open(&path).unwrap()))
    });
    std::fs::remove_dir_all(directory).unwrap();
}

/// Three members add one to the same number, many times at once: no addition is lost, and all have the same records at the end.
#[test]
fn members_agree_and_no_change_is_lost() {
    const ADDITIONS: u32 = 30;
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = runtime.block_on(Server::start());
    runtime.block_on(server.log("/house", STORE).begin(Revision(0), digest_of(&Memory::new(STORE)))).unwrap();
    let stores: Vec<Arc<dyn Source>> =
        (0..3).map(|_| Arc::new(Memory::new(STORE)) as Arc<dyn Source>).collect();
    let members: Vec<Member> =
        stores.iter().map(|store| member(Arc::clone(store), server.log("/house", STORE))).collect();
    let conflicts = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for member in &members {
            scope.spawn(|| {
                let mut added = 0;
                while added < ADDITIONS {
                    match add_one(member) {
                        Ok(_) => added += 1,
                        Err(CommitError::Conflict { .. }) => {
                            conflicts.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(why) => panic!("{why}"),
                    }
                }
            });
        }
    });
    assert!(conflicts.into_inner() > 0, "nobody changed the number at the same time");
    let total = u64::from(3 * ADDITIONS);
    wait_until("all members have all changes", || {
        stores.iter().all(|store| store.at().revision == Revision(total))
    });
    for store in &stores {
        assert_eq!((number(&**store).1, digest_of(&**store)), (total, digest_of(&*stores[0])));
    }
    let asked = boot_clock();
    wait_until("each member proves that it is current", || {
        members.iter().all(|member| member.proven() > asked)
    });
    assert!(members.iter().all(|member| member.why().is_none()));
}

#[test]
fn a_member_without_etcd_is_not_current_and_changes_nothing() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = runtime.block_on(Server::start());
    runtime.block_on(server.log("/house", STORE).begin(Revision(0), digest_of(&Memory::new(STORE)))).unwrap();
    let store = Arc::new(Memory::new(STORE));
    let member = member(store.clone(), server.log("/house", STORE));
    add_one(&member).unwrap();
    wait_until("it is current", || member.proven() > 0);
    server.signal("-STOP");
    // What was asked before may still be answered.
    wait_until("it says why", || matches!(member.why(), Some(ReplicaError::Log(LogError::Etcd(_)))));
    let proven = member.proven();
    std::thread::sleep(3 * ASK_EVERY);
    assert_eq!(member.proven(), proven);
    let refused = add_one(&member);
    assert!(matches!(refused, Err(CommitError::Source(_))), "{refused:?}");
    assert_eq!(number(&*store).1, 1);
    server.signal("-CONT");
    wait_until("it is current again", || member.proven() > proven && member.why().is_none());
    add_one(&member).unwrap();
    assert_eq!(number(&*store).1, 2);
}

#[test]
fn a_member_with_other_records_applies_nothing() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = runtime.block_on(Server::start());
    runtime.block_on(server.log("/house", STORE).begin(Revision(0), digest_of(&Memory::new(STORE)))).unwrap();
    let (good, bad) = (Arc::new(Memory::new(STORE)), Arc::new(Memory::new(STORE)));
    let first = member(good.clone(), server.log("/house", STORE));
    let second = member(bad.clone(), server.log("/house", STORE));
    add_one(&first).unwrap();
    wait_until("the second member has the change", || bad.at().revision == Revision(1));
    // Another store made a change of its own. The records differ, although the numbers are the same afterwards.
    drop(second);
    bad.commit(change().put(&DomainId::from_bytes([9; 16]), &Domain::new("other".parse().unwrap()))).unwrap();
    add_one(&first).unwrap();
    let second = member(bad.clone(), server.log("/house", STORE));
    let differs = || second.why() == Some(ReplicaError::Differs { change: Revision(3) });
    wait_until("the second member finds the difference", differs);
    let refused = add_one(&second);
    assert!(matches!(refused, Err(CommitError::Source(_))), "{refused:?}");
    add_one(&first).unwrap();
    std::thread::sleep(3 * ASK_EVERY);
    assert_eq!((bad.at().revision, second.proven()), (Revision(2), 0));
    assert!(differs());
}

#[test]
fn a_member_behind_the_log_and_a_log_behind_a_member_are_refused() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = runtime.block_on(Server::start());
    let log = server.log("/house", STORE);
    runtime.block_on(log.begin(Revision(0), digest_of(&Memory::new(STORE)))).unwrap();
    let store = Arc::new(Memory::new(STORE));
    let writer = member(store.clone(), log.clone());
    for _ in 0..3 {
        add_one(&writer).unwrap();
    }
    runtime.block_on(log.trim(Revision(2))).unwrap();
    let late = member(Arc::new(Memory::new(STORE)), log.clone());
    let trimmed = ReplicaError::Log(LogError::Trimmed { after: Revision(0) });
    wait_until("the late member finds no next change", || late.why() == Some(trimmed.clone()));
    assert_eq!((late.at().revision, late.proven()), (Revision(0), 0));
    // etcd lost changes.
    drop(writer);
    let old = server.log("/old", STORE);
    runtime.block_on(old.begin(Revision(1), 0)).unwrap();
    let ahead = member(store, old);
    let older = ReplicaError::Log(LogError::Older { log: Revision(1), store: Revision(3) });
    wait_until("the member is ahead of the log", || ahead.why() == Some(older.clone()));
    assert_eq!(ahead.proven(), 0);
    let refused = add_one(&ahead);
    assert!(matches!(refused, Err(CommitError::Source(_))), "{refused:?}");
}
