//! Δ is the time for which a proof counts. It is the same for all processes of a fleet.

#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "tests")]

mod etcd;

use enfilade_fleet::{LogError, ReplicaError, Server as Member};
use enfilade_sources::memory::Memory;
use etcd::counter::{STORE, add_one};
use etcd::{Server, process, wait_until};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

const LONG: Duration = Duration::from_secs(4);

fn member(server: &Server, name: &str, delta: Duration) -> Member {
    process(name, Arc::new(Memory::new(STORE)), server.log("/house", STORE).with_delta(delta))
}

#[test]
fn processes_with_different_deltas_do_not_run_at_once() {
    let server = Server::start();
    server.begin();
    ["a", "b"].iter().for_each(|name| server.admit("/house", STORE, name));
    let delta = || {
        let log = server.log("/house", STORE);
        Runtime::new().unwrap().block_on(log.delta()).unwrap()
    };
    let first = member(&server, "a", Duration::from_secs(1));
    wait_until("the first is current", || first.is_current());
    let second = member(&server, "b", LONG);
    wait_until("the second says why it waits", || second.why().is_some());
    assert_eq!(second.why(), Some(ReplicaError::Log(LogError::OtherDelta { fleet: 1_000, own: 4_000 })));
    assert_eq!((second.is_current(), delta()), (false, Duration::from_secs(1)));
    // Writes a registration, as a killed server leaves it in etcd. After `first.end()`, no server with the old Δ runs any more.
    server.put("/house/node/a.0000000000000007", "0123456789abcdef");
    first.end();
    wait_until("the second is current", || second.is_current());
    assert_eq!(delta(), LONG);
    let third = member(&server, "a", Duration::from_secs(1));
    wait_until("the third says why it waits", || third.why().is_some());
    assert_eq!(third.why(), Some(ReplicaError::Log(LogError::OtherDelta { fleet: 4_000, own: 1_000 })));
}

#[test]
fn a_proof_counts_for_delta_and_a_change_waits_for_it() {
    let server = Server::start();
    server.begin();
    ["a", "b"].iter().for_each(|name| server.admit("/house", STORE, name));
    let first = member(&server, "a", LONG);
    wait_until("the first is current", || first.is_current());
    // A second process is registered, but never reports: only its record exists.
    server.put("/house/node/b.0000000000000007", "0123456789abcdef");
    let began = Instant::now();
    add_one(&first).unwrap();
    // The registration of the other process is deleted only after 2Δ, so the process was still registered. It sent no report, so the author had to
    // wait for Δ before the change was acknowledged.
    assert!(began.elapsed() >= LONG, "{:?}", began.elapsed());

    server.signal("-STOP");
    let began = Instant::now();
    std::thread::sleep(LONG / 2);
    assert!(first.is_current() || began.elapsed() > LONG, "the proof ended after {:?}", began.elapsed());
    wait_until("the proof ends", || !first.is_current());
    // The question of the last proof was asked before etcd was stopped, so this proof ends at most Δ after the stop. The bound also allows for a slow
    // test.
    assert!(began.elapsed() < LONG * 3, "{:?}", began.elapsed());
    server.signal("-CONT");
    wait_until("the first is current again", || first.is_current());
}
