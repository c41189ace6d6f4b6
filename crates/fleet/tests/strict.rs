//! Proofs that do not depend on the clock of a machine (`[fleet] strict`).

#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "tests")]

mod etcd;

use enfilade_fleet::{About, Etcd, Log, Server as Member};
use enfilade_sources::memory::Memory;
use enfilade_testkit::Relay;
use etcd::counter::{STORE, add_one, number};
use etcd::{Server, process, wait_until};
use std::sync::Arc;
use tokio::runtime::Runtime;

/// The clock of a paused virtual machine: it stands still.
fn stopped_clock() -> u64 {
    1_000
}

#[test]
fn a_member_with_a_stopped_clock_proves_anew_before_it_shows_facts() {
    let server = Server::start();
    server.begin();
    ["a", "b"].iter().for_each(|name| server.admit("/house", STORE, name));
    let relay = Relay::to(server.address().trim_start_matches("http://"));
    let log = Log::new(Etcd::at(&[format!("http://{}", relay.address)], None).unwrap(), "/house", STORE);
    let about = About { version: "0".to_owned(), host: "test".to_owned(), pid: 1, reach: None };
    let paused = Member::start("b", about, Arc::new(Memory::new(STORE)), log, stopped_clock).unwrap();
    let first = process("a", Arc::new(Memory::new(STORE)), server.log("/house", STORE));
    wait_until("both are current", || first.is_current() && paused.is_current());
    let runtime = Runtime::new().unwrap();
    let prove = || runtime.block_on(paused.prove_anew());
    assert!(prove().is_ok());
    relay.both().iter().for_each(|direction| direction.hold(true));
    add_one(&first).unwrap();
    // With a clock that stands still, no proof ever ends: the member counts as current, but lacks the change.
    assert!(paused.is_current() && number(&paused).1 == 0);
    let why = prove().unwrap_err().to_string();
    assert!(why.contains("cannot prove that its facts are current"), "{why}");
    relay.both().iter().for_each(|direction| direction.hold(false));
    wait_until("the paused member proves anew", || prove().is_ok());
    assert_eq!(number(&paused).1, 1);
    // Several requests that wait at the same time share a question, and each of them gets a proof.
    add_one(&first).unwrap();
    let all = std::thread::scope(|scope| {
        let asking: Vec<_> =
            (0..50).map(|_| scope.spawn(|| Runtime::new().unwrap().block_on(paused.prove_anew()))).collect();
        asking.into_iter().map(|asking| asking.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(all.iter().all(Result::is_ok), "{all:?}");
    assert_eq!(number(&paused).1, 2);
}
