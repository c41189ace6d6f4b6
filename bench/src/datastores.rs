//! Lookups of datastores, each with its end (the drop of the lookup's guard): as in Proxmox Backup Server up to 4.1 ("before"), as in later versions
//! ("after"), and in Enfilade ("ours").

mod http;
mod sizes;

use crate::Failure;
use crate::goals::Goal;
use crate::peers::datastore_cfg::ServerFiles;
use crate::peers::{self, libxcrypt};
use crate::report::{Paired, Report};
use crate::samples::{Estimate, Samples};
use crate::scratch::Scratch;
use crate::stopwatch::now;
use crate::stores::{self, Store};
use enfilade_facts::tables::Datastore;
use enfilade_facts::vocabulary::{DatastoreName, OperationKind};
use enfilade_facts::{Change, Source, StoreId};
use enfilade_passage::House;
use enfilade_sources::memory::Memory;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

const ROUNDS: usize = 9;
/// The time of a lookup in Proxmox Backup Server up to 4.1, divided by the time of a `$5$` hash of the C library on the same machine.
const BEFORE_TO_CRYPT: f64 = 2.944 / 1.99;
const AFTER_TO_CRYPT: f64 = 0.1158 / 1.99;
const BEFORE_CALLS: f64 = 116.0;
const AFTER_CALLS: f64 = 106.0;
/// Numbers of stores, and the number of lookups of each store.
const TABLE: [(u64, u64); 4] = [(1, 1_000), (10, 100), (100, 10), (1_000, 1)];
const STORES: u64 = 1_000;
/// The numbers of stores of which a lookup is measured by itself.
const SIZES: [u64; 3] = [10, 1_000, 100_000];
/// The number of lookups of a thread in a turn.
const EACH: usize = 200_000;

pub(crate) fn goals() -> Vec<Goal> {
    let [few, middle, many] = SIZES;
    let lookup = "A lookup of a datastore and its end, in process, the ledger in the memory of the process";
    let original = "divided by the original's time in units of a `$5$` hash of this machine";
    let calls = "110 lookups minus 10 under strace, the least of five counts";
    let sizes = format!("{lookup}. {ROUNDS} turns of {EACH} lookups");
    let goal = |id, at_most, unit, what: &str, workload: String| Goal::new(id, at_most, unit, what, workload);
    vec![
        goal(
            "before",
            0.25,
            "times",
            "the rebuilt 4.1: its time differs from the original's",
            format!(
                "10 of {STORES} stores, 100 lookups each, each ended at once, {ROUNDS} turns; {original}"
            ),
        ),
        goal(
            "after",
            0.25,
            "times",
            "the rebuilt 4.2: its time differs from the original's",
            format!(
                "10 of {STORES} stores, 100 lookups each, each ended at once, {ROUNDS} turns; {original}"
            ),
        ),
        goal(
            "cells",
            1.0 / 200.0,
            "times",
            "a lookup, divided by that of the rebuilt 4.2, the worst case",
            format!(
                "{lookup}. {STORES} stores; cases (stores, lookups of each) {TABLE:?}, ended at once and together. {ROUNDS} pairs of turns"
            ),
        ),
        goal(
            "before-calls",
            0.25,
            "times",
            "the rebuilt 4.1: its system calls differ from the original's",
            format!("{STORES} stores: {calls}; divided by {BEFORE_CALLS}"),
        ),
        goal(
            "after-calls",
            0.25,
            "times",
            "the rebuilt 4.2: its system calls differ from the original's",
            format!("{STORES} stores: {calls}; divided by {AFTER_CALLS}"),
        ),
        goal(
            "calls",
            0.0,
            "calls",
            "system calls of a known lookup",
            format!("{lookup}. 10 stores: {calls}"),
        ),
        goal(
            "probes",
            1.02,
            "times",
            "instructions of a lookup with many stores, divided by those with few",
            format!(
                "{lookup}. Random ones of {many} stores, and of {few}: {} lookups minus none under callgrind",
                sizes::PROBES
            ),
        ),
        goal(
            "threads",
            1.0 / 1.5,
            "times",
            "time of a lookup on two threads in one store, divided by that on one thread",
            format!("{sizes} on each thread; one of {middle} stores"),
        ),
        goal(
            "random",
            400.0,
            "ns",
            "a random store of many: the time that it takes more than a random one of few",
            format!("{sizes}: random ones of {many} stores, then of {few}, in turns"),
        ),
    ]
}

pub(crate) fn run(report: &mut Report, small: bool) -> Result<(), Failure> {
    let scratch = Scratch::new("datastores")?;
    peers::tell_rebuilt(report, "datastores of Proxmox Backup Server", "4.1, and 4.2.3");
    let hashes = [("secret", "$5$rounds=5000$saltsalt$")];
    let [sha] = libxcrypt::milliseconds(hashes, 101)?;
    let sha = report.middle("one hash of $5$ by the C library", 1, &sha, "ms").times(1e3);
    let run = Scratch::in_memory("datastores")?;
    let theirs = ServerFiles::new(&scratch.path().join("theirs"), run.path(), STORES)?;
    let ours = house(&scratch.path().join("ours"), STORES)?;
    table(report, &theirs, &ours, sha, small)?;
    calls(report)?;
    rounds(report, &theirs, &ours, &scratch, run.path(), small)?;
    sizes::probes(report, small)?;
    sizes::run(report, &scratch, small)?;
    http::run(report, &scratch, small)
}

/// A [`House`] with this many datastores.
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

/// The table of Proxmox's own measurement: numbers of stores and lookups. Each operation ends at once, or all operations end together.
fn table(
    report: &mut Report,
    theirs: &ServerFiles,
    ours: &House,
    sha: Estimate,
    small: bool,
) -> Result<(), Failure> {
    let names: Vec<DatastoreName> = (0..STORES).map(name).collect::<Result<_, _>>()?;
    let texts: Vec<String> = names.iter().map(ToString::to_string).collect();
    let mut worst: Option<Estimate> = None;
    for (stores, each) in TABLE {
        let count = (stores * each) as f64;
        let order = |n: u64| usize::try_from(n % stores).unwrap_or(0);
        for bulk in [false, true] {
            let how = if bulk { "dropped together" } else { "dropped at once" };
            let run_theirs = |is_cached: bool, times: u64| -> Result<f64, Failure> {
                let mut held = Vec::new();
                let began = now();
                for n in 0..times {
                    let operation = theirs.look_up(texts.get(order(n)).ok_or("no name")?, is_cached)?;
                    if bulk { held.push(operation) } else { operation.end()? }
                }
                held.into_iter().try_for_each(|operation| operation.end())?;
                Ok(began.elapsed().as_secs_f64() * 1e6 / times as f64)
            };
            let run_ours = || -> Result<f64, Failure> {
                let mut held = Vec::with_capacity(stores as usize * each as usize);
                let began = now();
                for n in 0..stores * each {
                    let name = names.get(order(n)).ok_or("no name")?;
                    let operation =
                        ours.look_up(name, OperationKind::Write).map_err(|why| why.to_string())?;
                    if bulk {
                        held.push(operation)
                    }
                }
                drop(held);
                Ok(began.elapsed().as_secs_f64() * 1e6 / count)
            };
            // Warm-up: after this, roots are open, and the counter files of the compared servers exist.
            run_theirs(true, stores * each)?;
            run_ours()?;
            let (mut before, mut after, mut own) =
                (Samples::default(), Samples::default(), Samples::default());
            for _ in 0..ROUNDS {
                // Every uncached lookup does the same work, so fewer of them are accurate enough.
                before.push(run_theirs(false, if small { 10 } else { 100 })?);
                let one = run_theirs(true, stores * each)?;
                let mine = run_ours()?;
                after.push(one);
                own.push(mine);
            }
            let what = format!("{stores} stores × {each}, {how}");
            let before = report.middle(&format!("{what}, rebuilt 4.1"), STORES, &before, "µs");
            let ratio = report.compare(
                None,
                Paired {
                    what,
                    n: STORES,
                    unit: "µs",
                    ours: &own,
                    peer: "rebuilt 4.2",
                    theirs: &after,
                    floor: None,
                },
            );
            let after = after.middle();
            worst = worst.filter(|worst| worst.high >= ratio.high).or(Some(ratio));
            if (stores, bulk) == (10, false) {
                report.faithful(
                    "before",
                    "before in $5$ hashes, to the original's",
                    STORES,
                    before.over(sha).times(1.0 / BEFORE_TO_CRYPT),
                );
                report.faithful(
                    "after",
                    "after in $5$ hashes, to the original's",
                    STORES,
                    after.over(sha).times(1.0 / AFTER_TO_CRYPT),
                );
            }
        }
    }
    worst.into_iter().for_each(|worst| report.goal("cells", worst));
    Ok(())
}

const PARTS: [&str; 3] = ["before", "after", "ours"];

/// Counts the system calls of a lookup and its drop: a long run minus a short run, so that start and end of the process do not count.
fn calls(report: &mut Report) -> Result<(), Failure> {
    if Command::new("strace").arg("-V").output().is_err() {
        report.missing("system calls of a lookup", "strace is not installed (`apt-get install strace`)");
        return Ok(());
    }
    for part in PARTS {
        // The smallest of five counts, because the number of calls to start and end a process varies.
        let fewest = |times: u64| -> Result<f64, Failure> {
            (0..5).try_fold(f64::INFINITY, |least, _| Ok(least.min(counted(part, times)?)))
        };
        let each = (fewest(110)? - fewest(10)?) / 100.0;
        report.once(&format!("{part}, system calls"), STORES, each, "calls");
        match part {
            "before" => report.faithful(
                "before-calls",
                "before, its system calls to the original's",
                STORES,
                Estimate::once(each / BEFORE_CALLS),
            ),
            "after" => report.faithful(
                "after-calls",
                "after, its system calls to the original's",
                STORES,
                Estimate::once(each / AFTER_CALLS),
            ),
            _ => report.goal("calls", Estimate::once(each)),
        }
    }
    Ok(())
}

fn counted(part: &str, times: u64) -> Result<f64, Failure> {
    let output = Command::new("strace")
        .args(["-f", "-c", "-U", "calls"])
        .arg(std::env::current_exe()?)
        .args(["datastores-part", part, &times.to_string()])
        .output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    let last = text.lines().rev().find_map(|line| line.split_whitespace().next()?.parse().ok());
    last.filter(|_| output.status.success()).ok_or_else(|| format!("strace counted nothing: {text}").into())
}

/// The other runs of Proxmox's own measurement: 100,000 lookups of each of 5 stores, and the first and the second lookup of every store after a
/// start.
fn rounds(
    report: &mut Report,
    theirs: &ServerFiles,
    ours: &House,
    scratch: &Scratch,
    run: &Path,
    small: bool,
) -> Result<(), Failure> {
    let names: Vec<DatastoreName> = (0..STORES).map(name).collect::<Result<_, _>>()?;
    let texts: Vec<String> = names.iter().map(ToString::to_string).collect();
    // The rebuilt Proxmox server takes half a minute for all lookups; a tenth of them is accurate enough.
    let (times, part) = if small { (1_000, 100) } else { (100_000, 10_000) };
    let each = |count: usize| (0..5_usize).flat_map(move |store| (0..count).map(move |_| store));
    let began = now();
    for store in each(times) {
        look(ours, names.get(store).ok_or("no name")?);
    }
    let own = began.elapsed().as_secs_f64() * 1e6 / (5 * times) as f64;
    let began = now();
    for store in each(part / 5) {
        theirs.look_up(texts.get(store).ok_or("no name")?, true)?.end()?;
    }
    let after = began.elapsed().as_secs_f64() * 1e6 / part as f64;
    report.once("ours, 5 stores × 100,000", STORES, own, "µs");
    report.once("after, 5 stores × 100,000 (a tenth of it)", STORES, after, "µs");
    report.once("after to ours, 5 stores × 100,000", STORES, after / own, "times");
    let mut figures: [Samples; 4] = Default::default();
    for round in 0..if small { 1 } else { 5 } {
        let theirs = ServerFiles::new(
            &scratch.path().join(format!("cold-{round}")),
            &run.join(format!("cold-{round}")),
            STORES,
        )?;
        let house = house(&scratch.path().join(format!("cold-ours-{round}")), STORES)?;
        let [after_cold, after_warm, own_cold, own_warm] = &mut figures;
        for samples in [after_cold, after_warm] {
            let began = now();
            texts.iter().try_for_each(|name| theirs.look_up(name, true)?.end())?;
            samples.push(began.elapsed().as_secs_f64() * 1e6 / STORES as f64);
        }
        for samples in [own_cold, own_warm] {
            let began = now();
            names.iter().for_each(|name| look(&house, name));
            samples.push(began.elapsed().as_secs_f64() * 1e6 / STORES as f64);
        }
    }
    let whats = [
        "after, each store once, cold",
        "after, and once more",
        "ours, each store once, cold",
        "ours, and once more",
    ];
    for (what, samples) in whats.into_iter().zip(&figures) {
        report.middle(what, STORES, samples, "µs");
    }
    Ok(())
}

/// Runs one part this many times, in a process of its own under strace or callgrind.
pub(crate) fn part(part: &str, times: u64) -> Result<(), Failure> {
    let scratch = Scratch::new(&format!("datastores-{part}"))?;
    if let Some(count) = part.strip_prefix("probes-") {
        let count: u64 = count.parse()?;
        let memory = Memory::new(StoreId(7));
        generate(&memory, count)?;
        let house = stores::still_house(Arc::new(memory));
        let any = |n: u64| name(n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % count);
        let names: Vec<DatastoreName> = (0..10).map(any).collect::<Result<_, _>>()?;
        // Looks up each store once before the instructions are counted, because the first lookup does more work.
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
