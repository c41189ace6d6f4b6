//! Requests over TLS with an API token for the status of each of 1,000 datastores.

use crate::Failure;
use crate::report::Report;
use crate::samples::Samples;
use crate::scratch::Scratch;
use crate::served::{Server, request_as};
use crate::stopwatch::now;
use crate::stores::{self, Store, TOKENS_EACH};
use enfilade_facts::tables::{Assignment, AssignmentKey, Who};
use enfilade_facts::vocabulary::{Role, UserId};
use enfilade_facts::{Change, Source};

const STORES: u64 = 1_000;
const CONNECTIONS: usize = 16;
const ROUNDS: usize = 5;

pub(crate) fn run(report: &mut Report, scratch: &Scratch, small: bool) -> Result<(), Failure> {
    let (facts, data) = (scratch.path().join("facts"), scratch.path().join("data"));
    let store = Store::generated(&facts, TOKENS_EACH)?;
    let key = AssignmentKey { path: "/".parse()?, who: Who::User(UserId::from_bytes(stores::id(1, 0))) };
    let role = Assignment { roles: vec![(Role::DatastoreAudit, true)], fault: None };
    let mut change = Change::new(stores::audit("a role"));
    change.put(&key, &role);
    store.lmdb.commit(&change)?;
    drop(store);
    stores::data_directory(&data, &facts)?;
    let mut cfg = String::new();
    for n in 0..STORES {
        let place = scratch.path().join(format!("stores/{n}"));
        std::fs::create_dir_all(&place)?;
        cfg.push_str(&format!("datastore: store-{n}\n\tpath {}\n\n", place.display()));
    }
    std::fs::write(data.join("datastore.cfg"), cfg)?;
    let server = Server::start(&data, &[])?;
    let tokenid = "user0@local!t0";
    let status = |n: u64| {
        let path = format!("/api2/json/admin/datastore/store-{n}/status");
        request_as(&path, tokenid, &stores::secret_of(0))
    };
    let each: u64 = if small { 1 } else { 5 };
    let of_all: Vec<_> = (0..STORES).flat_map(|n| (0..each).map(move |_| n)).map(status).collect();
    let of_one: Vec<_> = vec![status(0)];
    // The first request for a datastore opens its root directory. These requests are measured separately, after requests that make the server know
    // the token.
    let firsts: Vec<_> = (0..STORES).map(status).collect();
    let share = firsts.len() / CONNECTIONS;
    server.load(&of_one, CONNECTIONS, share)?;
    let before = server.cpu_nanos()?;
    server.load(&firsts, CONNECTIONS, share)?;
    let first = (server.cpu_nanos()? - before) / (share * CONNECTIONS) as f64 / 1e3;
    report.once(
        "status over TLS, each store's first, which opens its directory, server CPU",
        STORES,
        first,
        "µs",
    );
    let total = usize::try_from(STORES * each)?;
    for (what, requests) in [("1,000 stores × 5 requests", &of_all), ("1 store × 5,000 requests", &of_one)]
    {
        server.load(requests, CONNECTIONS, total / CONNECTIONS)?;
        let (mut rates, mut cpu) = (Samples::default(), Samples::default());
        for _ in 0..ROUNDS {
            let (before, began) = (server.cpu_nanos()?, now());
            server.load(requests, CONNECTIONS, total / CONNECTIONS)?;
            let done = (total / CONNECTIONS * CONNECTIONS) as f64;
            rates.push(done / began.elapsed().as_secs_f64());
            cpu.push((server.cpu_nanos()? - before) / done / 1e3);
        }
        report.middle(&format!("status over TLS, {what}, 16 in parallel"), STORES, &rates, "requests/s");
        report.middle(&format!("status over TLS, {what}, server CPU of each"), STORES, &cpu, "µs");
    }
    Ok(())
}
