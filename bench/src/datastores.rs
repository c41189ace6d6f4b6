//! Measures lookups of datastores. A lookup begins an operation, and the measured cost includes the end of this operation (the drop of its guard).
//! Three servers are compared: Proxmox Backup Server up to 4.1 ("before"), later versions of it ("after"), and Enfilade ("ours").

mod http;
mod rounds;
mod sizes;
mod table;
mod work;

use crate::Failure;
use crate::goals::Goal;
use crate::peers;
use crate::report::Report;
use crate::scratch::Scratch;
use crate::stores::{self, Store};
use enfilade_facts::tables::Datastore;
use enfilade_facts::vocabulary::{DatastoreName, OperationKind};
use enfilade_facts::{Change, Source, StoreId};
use enfilade_passage::House;
use enfilade_peers::datastore_cfg::ServerFiles;
use enfilade_sources::memory::Memory;
use std::path::Path;
use std::sync::Arc;

const ROUNDS: usize = 9;
/// Pairs of a number of datastores and the number of lookups of each of them.
const TABLE: [(u64, u64); 4] = [(1, 1_000), (10, 100), (100, 10), (1_000, 1)];
const STORES: u64 = 1_000;
/// The numbers of datastores with which a single lookup is measured.
const SIZES: [u64; 3] = [10, 1_000, 100_000];
/// The number of lookups of a thread in a turn.
const EACH: usize = 200_000;

pub(crate) fn goals() -> Vec<Goal> {
    let [few, middle, many] = SIZES;
    let lookup = "In process, Enfilade looks up a datastore by its name, and ends this operation. The ledger is in the memory of the process";
    let calls = work::CALLS;
    let goal =
        |id, at_most, unit, what: String, workload: String| Goal::new(id, at_most, unit, what, workload);
    let mut goals = vec![
        goal(
            "cells",
            1.0 / 200.0,
            "times",
            "time of Enfilade for a lookup of a datastore, divided by time of the rebuilt Proxmox Backup Server 4.2 (the worst case)".to_owned(),
            format!(
                "{lookup}. The rebuilt server does the same with its own files. There are {STORES} datastores. The cases, each as (number of \
                 datastores that are looked up, lookups of each of them): {TABLE:?}. Each case is measured twice: first each operation ends before \
                 the next lookup, then all operations end together after the last lookup. Each time, Enfilade and the rebuilt server are measured \
                 alternately, {ROUNDS} times each, and the mean of the {ROUNDS} ratios is computed. The value is the worst of these means"
            ),
        ),
        goal(
            "calls",
            0.0,
            "calls",
            "system calls of Enfilade for a lookup of a datastore that was looked up before".to_owned(),
            format!("{lookup}. There are 10 datastores, and always the same one is looked up. {calls}"),
        ),
        goal(
            "probes",
            1.02,
            "times",
            format!("CPU instructions of a lookup with {many} datastores, divided by CPU instructions of a lookup with {few}"),
            format!(
                "{lookup}. There are {many} datastores in one case, {few} in the other. The lookups repeat 10 of them, which were chosen at random. \
                 callgrind counts the instructions of a process with {0} lookups, and of a process without lookups. The difference is divided by \
                 {0}",
                sizes::PROBES
            ),
        ),
        goal(
            "threads",
            1.0 / 1.5,
            "times",
            "time of a lookup of one datastore with two threads at once, divided by time of a lookup with one thread".to_owned(),
            format!(
                "{lookup}. There are {middle} datastores, and always the same one is looked up. {ROUNDS} rounds: in each round first one thread \
                 makes {EACH} lookups, then two threads make {EACH} lookups each at the same time. The elapsed time is divided by the number of \
                 lookups of all threads. The value is the mean of the {ROUNDS} ratios"
            ),
        ),
        goal(
            "random",
            400.0,
            "ns",
            format!("time of a lookup of a random one of {many} datastores minus time of a lookup of a random one of {few}"),
            format!(
                "{lookup}. {ROUNDS} rounds: in each round one thread makes {EACH} lookups of random ones of {few} datastores, and {EACH} lookups of \
                 random ones of {many} datastores. The value is the mean of the {ROUNDS} differences"
            ),
        ),
    ];
    goals.extend(work::goals());
    goals
}

pub(crate) fn run(report: &mut Report, small: bool) -> Result<(), Failure> {
    let scratch = Scratch::new("datastores")?;
    peers::tell_rebuilt(report, "rebuilt code for datastores of Proxmox Backup Server", "4.1, and 4.2.3");
    let run = Scratch::in_memory("datastores")?;
    let theirs = ServerFiles::new(&scratch.path().join("theirs"), run.path(), STORES)?;
    let ours = house(&scratch.path().join("ours"), STORES)?;
    table::run(report, &theirs, &ours, small)?;
    work::run(report, &theirs, &scratch)?;
    rounds::run(report, &theirs, &ours, &scratch, run.path(), small)?;
    sizes::probes(report, small)?;
    sizes::run(report, &scratch, small)?;
    http::run(report, &scratch, small)
}

/// A [`House`] with `count` datastores.
fn house(place: &Path, count: u64) -> Result<Arc<House>, Failure> {
    let store = Store::generated(place, 1)?;
    generate(&*store.lmdb, count)?;
    Ok(store.house(1 << 20))
}

fn generate(source: &dyn Source, count: u64) -> Result<(), Failure> {
    let mut change = Change::new(stores::audit("stores"));
    for n in 0..count {
        let row = Datastore { path: format!("/mnt/datastore/tenant/store-{n}"), ..Datastore::default() };
        change.put(&name(n)?, &row);
        if n % 10_000 == 9_999 || n + 1 == count {
            source.commit(&std::mem::replace(&mut change, Change::new(stores::audit("stores"))))?;
        }
    }
    Ok(())
}

fn name(n: u64) -> Result<DatastoreName, Failure> {
    Ok(format!("store-{n}").parse()?)
}

/// Repeats one part of the benchmark `times` times, in a separate process under strace or callgrind.
pub(crate) fn part(part: &str, times: u64) -> Result<(), Failure> {
    let scratch = Scratch::new(&format!("datastores-{part}"))?;
    if let Some(count) = part.strip_prefix("probes-") {
        let count: u64 = count.parse()?;
        let memory = Memory::new(StoreId(7));
        generate(&memory, count)?;
        let house = stores::still_house(Arc::new(memory));
        let any = |n: u64| name(n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % count);
        let names: Vec<DatastoreName> = (0..10).map(any).collect::<Result<_, _>>()?;
        // Looks up each datastore once before the measured lookups, because the first lookup does more work.
        names.iter().for_each(|name| look(&house, name));
        for n in 0..usize::try_from(times)? {
            look(&house, names.get(n % names.len()).ok_or("no name")?);
        }
        return Ok(());
    }
    if part == "ours" {
        let house = house(&scratch.path().join("ours"), 10)?;
        let name = name(1)?;
        for _ in 0..times {
            house.look_up(&name, OperationKind::Write).map_err(|why| why.to_string())?;
        }
        return Ok(());
    }
    let run = Scratch::in_memory(&format!("datastores-{part}"))?;
    let theirs = ServerFiles::new(&scratch.path().join("theirs"), run.path(), STORES)?;
    (0..times).try_for_each(|_| theirs.look_up("store-1", part == "after")?.end())
}

fn look(house: &House, name: &DatastoreName) {
    assert!(house.look_up(name, OperationKind::Write).is_ok());
}
