//! Reports that a process sends directly to another process, not through etcd.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "tests"
)]

mod etcd;

use enfilade_fleet::{ASK_EVERY, Connect, Connection, Log, Reach, Server as Member};
use enfilade_sources::memory::Memory;
use etcd::counter::{STORE, add_one};
use etcd::{Server, process, wait_until};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::io::DuplexStream;
use tokio::runtime::Runtime;

const CHANGES: u64 = 100;

fn log(server: &Server) -> Log {
    server.log("/house", STORE)
}

/// Two members `a` and `b` of the log `/house`. Both members are current.
fn members(server: &Server) -> [Arc<Member>; 2] {
    server.begin();
    ["a", "b"].map(|name| {
        server.admit("/house", STORE, name);
        let member = process(name, Arc::new(Memory::new(STORE)), log(server));
        wait_until("the member is current", || member.is_current());
        Arc::new(member)
    })
}

/// The ids of the processes of `a` and `b`.
fn ids(server: &Server) -> [String; 2] {
    let (_, members) = Runtime::new().unwrap().block_on(log(server).status()).unwrap();
    [0, 1].map(|nth| members[nth].processes[0].id.clone())
}

/// How often the process wrote to etcd which change it has applied.
fn reports_in_etcd(server: &Server, id: &str) -> u64 {
    let shown = server.control(&["get", &format!("/house/applied/{id}"), "--write-out=fields"]);
    let version = shown.lines().find_map(|line| line.strip_prefix("\"Version\" : "));
    version.unwrap_or_else(|| panic!("{shown}")).parse().unwrap()
}

fn add(member: &Member, count: u64) {
    for _ in 0..count {
        add_one(member).unwrap();
    }
}

/// Returns a function that opens connections, and passes the other end of each connection to `answer`.
fn connects(answer: impl Fn(DuplexStream) + Send + Sync + 'static) -> Connect {
    Arc::new(move |_| {
        let (near, far) = tokio::io::duplex(64);
        answer(far);
        Box::pin(async move { Ok(Box::new(near) as Box<dyn Connection>) })
    })
}

fn reach() -> Reach {
    Reach { address: "127.0.0.1:1".parse().unwrap(), certificate: [0; 32] }
}

#[test]
fn reports_go_straight_to_the_author_and_seldom_to_etcd() {
    let (server, runtime) = (Server::start(), Runtime::new().unwrap());
    let [first, second] = members(&server);
    let [first_id, second_id] = ids(&server);
    add(&first, CHANGES);
    let without = reports_in_etcd(&server, &second_id);
    assert!(without >= CHANGES, "each change waits for a report in etcd, but there are {without} reports");

    let (hearing, of) = (Arc::clone(&first), second_id.clone());
    let connect = connects(move |far| {
        let (hearing, of) = (Arc::clone(&hearing), of.clone());
        tokio::spawn(async move { hearing.hear(&of, far).await });
    });
    let _runs_here = runtime.enter();
    second.report_to(vec![(first_id, reach()), (second_id.clone(), reach())], &connect);
    let began = Instant::now();
    add(&first, CHANGES);
    let questions = u64::try_from(began.elapsed().div_duration_f64(ASK_EVERY).ceil() as i64).unwrap();
    let with = reports_in_etcd(&server, &second_id) - without;
    assert!(with <= questions + 2, "{with} reports in etcd for {CHANGES} changes and {questions} questions");
    assert!(with < CHANGES / 2, "{with} reports in etcd for {CHANGES} changes");

    // Without the connection, the reports go through etcd again.
    second.report_to(Vec::new(), &connect);
    let before = reports_in_etcd(&server, &second_id);
    add(&first, CHANGES);
    assert!(reports_in_etcd(&server, &second_id) - before >= CHANGES);
}

/// The machine of a change's author cannot be reached any more, but the direct connection to it has not ended yet. So a report on this connection is
/// lost. Then the report must come through etcd.
#[test]
fn a_report_that_is_lost_on_its_way_comes_through_etcd() {
    let (server, runtime) = (Server::start(), Runtime::new().unwrap());
    let [first, second] = members(&server);
    let [first_id, second_id] = ids(&server);
    let lost = Arc::<Mutex<Vec<DuplexStream>>>::default();
    let held = Arc::clone(&lost);
    let connect = connects(move |far| held.lock().unwrap().push(far));
    let _runs_here = runtime.enter();
    second.report_to(vec![(first_id, reach())], &connect);
    wait_until("the connection is open", || !lost.lock().unwrap().is_empty());
    // Each of these changes is acknowledged by a report in etcd.
    let before = reports_in_etcd(&server, &second_id);
    add(&first, 3);
    assert!(reports_in_etcd(&server, &second_id) - before >= 3);
    assert_eq!(first.numbers().acknowledged, 3);
}
