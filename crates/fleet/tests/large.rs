//! Changes that are too large for one record of etcd.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "tests"
)]

mod etcd;

use enfilade_facts::tables::Domain;
use enfilade_facts::vocabulary::DomainId;
use enfilade_facts::{At, Change, CommitError, Revision, Source, SourceError, View};
use enfilade_fleet::{Head, Log, LogError, ReplicaError, Server as Member};
use enfilade_sources::lmdb::Lmdb;
use enfilade_sources::memory::Memory;
use etcd::counter::{STORE, add_one, change, number};
use etcd::{Server, digest_of, process, wait_until};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const MIB: usize = 1 << 20;

/// A change with this size in MiB.
fn large(mib: usize) -> Change {
    let mut large = change();
    for nth in 0..u16::try_from(2 * mib).unwrap() {
        let mut id = [7; 16];
        id[..2].copy_from_slice(&nth.to_be_bytes());
        let mut domain = Domain::new(format!("d{nth}").parse().unwrap());
        domain.description = Some("x".repeat(MIB / 2));
        large.put(&DomainId::from_bytes(id), &domain);
    }
    large
}

fn begin(server: &Server) -> (tokio::runtime::Runtime, Log, Head) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let log = server.log("/house", STORE);
    let head = runtime.block_on(log.begin(Revision(0), digest_of(&Memory::new(STORE)))).unwrap();
    (runtime, log, head)
}

fn member(server: &Server, name: &str, store: Arc<dyn Source>) -> Member {
    server.admit("/house", STORE, name);
    process(name, store, server.log("/house", STORE))
}

fn keys(server: &Server, table: &str) -> Vec<String> {
    server.keys(&format!("/house/{table}/"))
}

/// All members apply a large change. A member that joins later applies it, too. When the log is trimmed, the parts of the change are deleted.
#[test]
fn a_large_change_is_applied_by_all() {
    let server = Server::start();
    let (runtime, log, _) = begin(&server);
    let stores: Vec<Arc<Memory>> = (0..3).map(|_| Arc::new(Memory::new(STORE))).collect();
    let first = member(&server, "a", stores[0].clone());
    let second = member(&server, "b", stores[1].clone());
    wait_until("both are current", || first.is_current() && second.is_current());
    add_one(&first).unwrap();
    first.commit(&large(10)).unwrap();
    assert_eq!((keys(&server, "part").len(), keys(&server, "large").len()), (11, 1));
    assert_eq!(keys(&server, "staging"), Vec::<String>::new());
    add_one(&first).unwrap();
    wait_until("the second has the change", || stores[1].at().revision == Revision(3) && second.is_current());
    assert_eq!(digest_of(&*stores[0]), digest_of(&*stores[1]));
    let late = member(&server, "c", stores[2].clone());
    wait_until("the third has the change", || late.is_current());
    assert_eq!((number(&late).1, digest_of(&*stores[2])), (2, digest_of(&*stores[0])));
    assert_eq!((first.why(), second.why(), late.why()), (None, None, None));
    let head = runtime.block_on(log.head()).unwrap();
    assert!(head.log_bytes > 10 * MIB as u64, "{head:?}");
    assert!(runtime.block_on(log.trim(head, Revision(2))).unwrap());
    wait_until("the parts are deleted", || keys(&server, "part").is_empty());
    assert_eq!(keys(&server, "large"), Vec::<String>::new());
    add_one(&late).unwrap();
    // The log still contains the entries of the two later changes, which were not trimmed.
    assert_eq!(runtime.block_on(log.after(Revision(2))).unwrap().len(), 2);
}

/// A change of the greatest permitted size succeeds, although another member makes small changes all the time.
#[test]
fn a_large_change_is_made_although_others_change_facts_meanwhile() {
    let server = Server::start();
    let (_runtime, _, _) = begin(&server);
    let directory = std::env::temp_dir().join(format!("enfilade-fleet-large-{}", std::process::id()));
    let store = Arc::new(Memory::new(STORE));
    let (first, second) = (member(&server, "a", store.clone()), {
        let store: Arc<dyn Source> = Arc::new(Memory::new(STORE));
        member(&server, "b", store)
    });
    wait_until("both are current", || first.is_current() && second.is_current());
    let is_done = AtomicBool::new(false);
    let added = std::thread::scope(|scope| {
        let adding = scope.spawn(|| {
            let mut added = 0;
            while !is_done.load(Ordering::Relaxed) {
                added += u64::from(add_one(&second).is_ok());
            }
            added
        });
        let before = std::time::Instant::now();
        let made = first.commit(&large(63));
        eprintln!("63 MiB took {:?}", before.elapsed());
        is_done.store(true, Ordering::Relaxed);
        made.unwrap();
        adding.join().unwrap()
    });
    assert!(added > 1, "nobody changed facts meanwhile");
    wait_until("both are current", || first.is_current() && second.is_current());
    assert_eq!((number(&first).1, first.at()), (added, second.at()));
    let refused = first.commit(&large(64));
    assert!(
        refused.as_ref().is_err_and(|why| why.to_string().contains("the maximum is 67108864")),
        "{refused:?}"
    );
    assert!(first.is_current());
    // A store in LMDB can apply the change, too.
    let of_others = Arc::new(Lmdb::open(&directory).unwrap());
    let large = large(63);
    of_others.commit(&large).unwrap();
    drop(of_others);
    std::fs::remove_dir_all(directory).unwrap();
}

/// A store that needs five seconds to apply a large change. After this time, etcd has deleted the beat of a process that did not renew the beat.
struct Slow(Memory);

impl Source for Slow {
    fn at(&self) -> At {
        self.0.at()
    }

    fn with_view(&self, look: &mut dyn FnMut(&View<'_>)) -> Result<(), SourceError> {
        self.0.with_view(look)
    }

    fn commit(&self, change: &Change) -> Result<At, CommitError> {
        if change.writes().count() > 4 {
            std::thread::sleep(Duration::from_secs(5));
        }
        self.0.commit(change)
    }
}

/// A member stays registered even if it applies a large change for longer than etcd keeps a beat that is not renewed. The author of the change also
/// stays registered.
#[test]
fn a_member_that_applies_a_large_change_keeps_its_registration() {
    let server = Server::start();
    let (_runtime, _, _) = begin(&server);
    let store = || Arc::new(Slow(Memory::new(STORE)));
    let (first, second) = (member(&server, "a", store()), member(&server, "b", store()));
    wait_until("both are current", || first.is_current() && second.is_current());
    let registered = || server.values("/house/node/");
    let before = registered();
    // Two processes are registered. `before` has a line for each key, and a line for each value.
    assert_eq!(before.len(), 4);
    first.commit(&large(3)).unwrap();
    wait_until("the second has the change", || second.at().revision == Revision(1) && second.is_current());
    assert_eq!((registered(), first.why(), second.why()), (before, None, None));
}

/// The author ends after it has written a part of a change, and before it adds the entry. No member applies a part of the change. When the lease has
/// ended, the members delete the part.
#[test]
fn parts_without_an_entry_are_deleted_and_nothing_is_applied() {
    let server = Server::start();
    let (runtime, log, head) = begin(&server);
    let store = Arc::new(Memory::new(STORE));
    let first = member(&server, "a", store.clone());
    wait_until("the first is current", || first.is_current());
    let begin_writing = || {
        let log = server.log("/house", STORE);
        let adding = runtime.spawn(async move { log.append(head, &[large(60)], 0).await });
        wait_until("a part is written", || !keys(&server, "part").is_empty());
        adding
    };
    let adding = begin_writing();
    adding.abort();
    assert!(runtime.block_on(adding).unwrap_err().is_cancelled());
    let (parts, staging) = (keys(&server, "part"), keys(&server, "staging"));
    assert_eq!(staging.len(), 1);
    // The member searches for unused parts at intervals. This pause is longer than the interval between two searches.
    std::thread::sleep(Duration::from_secs(12));
    assert_eq!((keys(&server, "part"), keys(&server, "staging")), (parts, staging.clone()));
    // Deletes the key, as the end of its lease would do.
    server.delete(&staging[0]);
    wait_until("the parts are deleted", || keys(&server, "part").is_empty());
    // An author that was stopped for a long time adds no entry.
    let adding = begin_writing();
    server.delete(&keys(&server, "staging")[0]);
    assert_eq!(runtime.block_on(adding).unwrap(), Err(LogError::PartsDeleted));
    wait_until("the parts are deleted", || keys(&server, "part").is_empty());
    assert_eq!((runtime.block_on(log.head()), store.at().revision), (Ok(head), Revision(0)));
    add_one(&first).unwrap();
    // A change that was refused leaves no parts.
    assert_eq!(runtime.block_on(log.append(head, &[large(2)], 0)), Err(LogError::Conflict));
    assert_eq!([keys(&server, "part"), keys(&server, "staging")], [const { Vec::<String>::new() }; 2]);
}

/// A part that is missing or was changed is never skipped. The member refuses requests, and names the damaged key.
#[test]
fn a_missing_or_changed_part_is_refused() {
    let server = Server::start();
    let (runtime, log, head) = begin(&server);
    runtime.block_on(log.append(head, &[large(3)], 0)).unwrap();
    let parts = keys(&server, "part");
    let damaged = |why: &str, key: &str| {
        let found = runtime.block_on(log.after(Revision(0))).unwrap_err();
        assert!(matches!(found, LogError::Damaged { .. }), "{found:?}");
        let text = found.to_string();
        assert!(text.contains(key) && text.contains(why), "{text}");
    };
    assert_eq!(runtime.block_on(log.after(Revision(0))).unwrap()[0].changes, [large(3)]);
    server.put(&parts[1], "other");
    damaged("its checksum is not the one in the entry", &parts[1]);
    server.delete(&parts[2]);
    server.delete(&parts[1]);
    damaged("it is missing", &parts[1]);
    let late = member(&server, "late", Arc::new(Memory::new(STORE)));
    wait_until(
        "the late member says why",
        || matches!(late.why(), Some(ReplicaError::Log(LogError::Damaged { key, .. })) if key == parts[1]),
    );
    assert_eq!(late.proven(), 0);
    let refused = add_one(&late);
    assert!(matches!(refused, Err(CommitError::Source(_))), "{refused:?}");
    // If the entry was trimmed in the meantime, the error says so, and does not say that a part is damaged.
    let head = runtime.block_on(log.head()).unwrap();
    assert!(runtime.block_on(log.trim(head, Revision(1))).unwrap());
    assert_eq!(runtime.block_on(log.after(Revision(0))), Err(LogError::Trimmed { after: Revision(0) }));
}
