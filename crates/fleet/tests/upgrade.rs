//! A fleet in which one member after another is updated to a new version of the program.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "tests"
)]

mod etcd;

use enfilade_facts::format::{FORMAT, FORMAT_IN_FLEET, FORMAT_OF_PARTS};
use enfilade_facts::tables::{DatastoreProfile, Domain, HomeMembers};
use enfilade_facts::vocabulary::DomainId;
use enfilade_facts::{Change, CommitError, Revision, Source};
use enfilade_fleet::{Log, LogError, ReplicaError, Server as Member};
use enfilade_sources::memory::Memory;
use etcd::counter::{STORE, add_one, change, number};
use etcd::{Server, digest_of, process, wait_until};
use std::sync::Arc;

const OLD: u32 = FORMAT_IN_FLEET;

/// A server of a version that reads formats up to `format`.
fn server_of(server: &Server, name: &str, format: u32, store: &Arc<Memory>) -> Member {
    let member = process(name, store.clone(), server.log("/house", STORE).as_program_of(format));
    wait_until("the member is current", || member.is_current());
    member
}

/// A change that older versions of the program cannot read.
fn with_home() -> Change {
    let mut change = change();
    let profile = DatastoreProfile { home: Some(HomeMembers::new(&["b"])), ..DatastoreProfile::default() };
    change.put(&"photos".parse().unwrap(), &profile);
    change
}

/// A change that is too large for one record of etcd.
fn large() -> Change {
    let mut change = change();
    for nth in 0..4 {
        let mut domain = Domain::new("large".parse().unwrap());
        domain.description = Some("x".repeat(1 << 19));
        change.put(&DomainId::from_bytes([100 + nth; 16]), &domain);
    }
    change
}

#[test]
fn a_fleet_gets_a_newer_format_when_all_servers_read_it() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = Server::start();
    let log = |format| -> Log { server.log("/house", STORE).as_program_of(format) };
    let state = digest_of(&Memory::new(STORE));
    let begun = runtime.block_on(log(OLD).begin(Revision(0), state)).unwrap();
    assert_eq!(begun.format, OLD);
    let stores = [(); 2].map(|()| Arc::new(Memory::new(STORE)));
    ["a", "b"].iter().for_each(|name| server.admit("/house", STORE, name));
    let [a, b] =
        [("a", &stores[0]), ("b", &stores[1])].map(|(name, store)| server_of(&server, name, OLD, store));
    add_one(&a).unwrap();
    // The first member is updated. It can change facts, but makes no change that the other member cannot read.
    drop(a);
    let a = server_of(&server, "a", FORMAT, &stores[0]);
    for _ in 0..3 {
        add_one(&a).unwrap();
        add_one(&b).unwrap();
    }
    for refused in [a.commit(&with_home()), a.commit(&large())] {
        let why = refused.unwrap_err();
        assert!(matches!(why, CommitError::Source(_)), "{why}");
        let expected = format!("has format {OLD}, and this change needs format {FORMAT_OF_PARTS}");
        assert!(why.to_string().contains(&expected), "{why}");
    }
    let upgrade = |format| runtime.block_on(log(format).of_member("a").upgrade());
    let old = LogError::OldPrograms { format: FORMAT, members: vec!["b".to_owned()] };
    assert_eq!(upgrade(FORMAT), Err(old));
    assert_eq!(upgrade(OLD), Ok(OLD), "an upgrade by an old program changes nothing");
    let head = runtime.block_on(log(FORMAT).head()).unwrap();
    assert_eq!((head.format, head.at.revision), (OLD, Revision(7)));
    assert!(a.is_current() && b.is_current());
    // The second member has two servers now: one of the new version, and one of the old version.
    let old_server = b;
    let b = server_of(&server, "b", FORMAT, &stores[1]);
    assert!(matches!(upgrade(FORMAT), Err(LogError::OldPrograms { .. })));
    drop(old_server);
    let (_, members) = runtime.block_on(log(FORMAT).status()).unwrap();
    let reads = members.iter().flat_map(|member| &member.processes).map(|running| running.reads);
    assert_eq!(reads.collect::<Vec<_>>(), [Some(FORMAT); 2]);
    assert_eq!(
        runtime.block_on(log(FORMAT).of_member("x").upgrade()),
        Err(LogError::NotMember { name: "x".to_owned() })
    );
    assert_eq!((upgrade(FORMAT), upgrade(FORMAT)), (Ok(OLD), Ok(FORMAT)));
    // Both changes are made at once, although the servers may not know the new head yet.
    a.commit(&with_home()).unwrap();
    b.commit(&large()).unwrap();
    assert_eq!(runtime.block_on(log(FORMAT).head()).unwrap().format, FORMAT);
    wait_until("both are current", || a.is_current() && b.is_current());
    assert_eq!(number(&a).1, 7);
    // The old version of the program cannot follow the log any more.
    let back = process("b", stores[1].clone(), log(OLD));
    wait_until("the old server says why", || back.why() == Some(ReplicaError::Log(LogError::Newer)));
    assert_eq!(back.proven(), 0);
    assert!(matches!(add_one(&back), Err(CommitError::Source(_))));
}

/// A fleet with a log in an old format that this version of the program does not read any more.
#[test]
fn a_fleet_that_is_too_old_is_refused() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = Server::start();
    let log = server.log("/house", STORE).as_program_of(OLD - 1);
    // This version of the program cannot write a log in such an old format. So the test writes the head as an old version of the program would write
    // it.
    assert!(runtime.block_on(log.begin(Revision(0), 0)).is_ok());
    let found = runtime.block_on(server.log("/house", STORE).head());
    assert_eq!(found, Err(LogError::TooOld { format: OLD - 1 }));
}
