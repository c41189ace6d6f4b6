//! Lookups of datastores, each with its drop: as Proxmox Backup Server had them, has them, and ours.

use crate::Failure;
use crate::peers::datastore_cfg::Place;
use crate::peers::libxcrypt;
use crate::report::Report;
use crate::scratch::Scratch;
use crate::stopwatch::{Samples, now, shared};
use crate::stores::{self, Store};
use enfilade_facts::tables::Datastore;
use enfilade_facts::vocabulary::{DatastoreName, OperationKind};
use enfilade_facts::{Change, Source};
use enfilade_passage::House;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

const ROUNDS: usize = 9;
/// Of the original, in hashes of `$5$` by the C library of the same machine.
const BEFORE_TO_CRYPT: f64 = 2.944 / 1.99;
const AFTER_TO_CRYPT: f64 = 0.1158 / 1.99;
const BEFORE_CALLS: f64 = 116.0;
const AFTER_CALLS: f64 = 106.0;
/// Stores, and lookups of each.
const TABLE: [(u64, u64); 4] = [(1, 1_000), (10, 100), (100, 10), (1_000, 1)];
const STORES: u64 = 1_000;

pub(crate) fn run(report: &mut Report, small: bool) -> Result<(), Failure> {
    let scratch = Scratch::new("datastores")?;
    let hashes = [("secret", "$5$rounds=5000$saltsalt$")];
    let [sha] = libxcrypt::milliseconds(hashes, 101)?;
    let sha = report.middle("one hash of $5$ by the C library", 1, &sha, "ms") * 1e3;
    let run = Scratch::in_memory("datastores")?;
    let theirs = Place::new(&scratch.path().join("theirs"), run.path(), STORES)?;
    let ours = house(&scratch.path().join("ours"), STORES)?;
    table(report, &theirs, &ours, sha, small)?;
    calls(report)?;
    sizes(report, &scratch, small)?;
    Ok(())
}

/// A house with so many stores.
fn house(place: &Path, count: u64) -> Result<Arc<House>, Failure> {
    let store = Store::generated(place, 1)?;
    let mut change = Change::new(stores::audit("stores"));
    for n in 0..count {
        let row = Datastore { path: format!("/mnt/datastore/tenant/store-{n}"), ..Datastore::default() };
        change.put(&name(n)?, &row);
        if n % 10_000 == 9_999 || n + 1 == count {
            store.lmdb.commit(&std::mem::replace(&mut change, Change::new(stores::audit("stores"))))?;
        }
    }
    Ok(store.house(1 << 20))
}

fn name(n: u64) -> Result<DatastoreName, Failure> {
    Ok(format!("store-{n}").parse()?)
}

/// The table of the original's report: so many stores, so often each, dropped at once and all together at the end.
fn table(report: &mut Report, theirs: &Place, ours: &House, sha: f64, small: bool) -> Result<(), Failure> {
    let names: Vec<DatastoreName> = (0..STORES).map(name).collect::<Result<_, _>>()?;
    let texts: Vec<String> = names.iter().map(ToString::to_string).collect();
    let mut least = f64::INFINITY;
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
            // What is opened is open, and what is counted has its file.
            run_theirs(true, stores * each)?;
            run_ours()?;
            let (mut before, mut after, mut own, mut ratios) =
                (Samples::default(), Samples::default(), Samples::default(), Samples::default());
            for _ in 0..ROUNDS {
                // Every time is the same: a tenth of them says as much.
                before.push(run_theirs(false, if small { 10 } else { 100 })?);
                let one = run_theirs(true, stores * each)?;
                let mine = run_ours()?;
                after.push(one);
                own.push(mine);
                ratios.push(one / mine);
            }
            let what = |who: &str| format!("{who}, {stores} stores × {each}, {how}");
            let before = report.middle(&what("before"), STORES, &before, "µs");
            let after = report.middle(&what("after"), STORES, &after, "µs");
            report.middle(&what("ours"), STORES, &own, "µs");
            let times = report.middle(&what("after to ours"), STORES, &ratios, "times");
            least = least.min(times);
            if (stores, bulk) == (10, false) {
                report.faithful(
                    "before",
                    "before in $5$ hashes, to the original's",
                    STORES,
                    before / sha / BEFORE_TO_CRYPT,
                );
                report.faithful(
                    "after",
                    "after in $5$ hashes, to the original's",
                    STORES,
                    after / sha / AFTER_TO_CRYPT,
                );
            }
        }
    }
    report.goal(
        "cells",
        "ours to after, in the cell where it gains least: at most a 200th",
        1.0 / least,
        1.0 / 200.0,
        "times",
    );
    Ok(())
}

const PARTS: [&str; 3] = ["before", "after", "ours"];

/// System calls of a lookup and its drop: what more rounds make more.
fn calls(report: &mut Report) -> Result<(), Failure> {
    if Command::new("strace").arg("-V").output().is_err() {
        eprintln!("strace is not there, so no system calls are counted");
        return Ok(());
    }
    for part in PARTS {
        // The fewest of some, because starting and ending a process takes now more of them and now fewer.
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
                each / BEFORE_CALLS,
            ),
            "after" => report.faithful(
                "after-calls",
                "after, its system calls to the original's",
                STORES,
                each / AFTER_CALLS,
            ),
            _ => report.goal("calls", "ours, system calls of a warm lookup and its drop", each, 0.0, "calls"),
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

/// In a process of its own, under strace: one of them, so many times.
pub(crate) fn part(part: &str, times: u64) -> Result<(), Failure> {
    let scratch = Scratch::new(&format!("datastores-{part}"))?;
    if part == "ours" {
        let house = house(&scratch.path().join("ours"), 10)?;
        let name = name(1)?;
        for _ in 0..times {
            house.look_up(&name, OperationKind::Write).map_err(|why| why.to_string())?;
        }
        return Ok(());
    }
    let run = Scratch::in_memory(&format!("datastores-{part}"))?;
    let theirs = Place::new(&scratch.path().join("theirs"), run.path(), STORES)?;
    (0..times).try_for_each(|_| theirs.look_up("store-1", part == "after")?.end())
}

/// Ours with ever more stores, and on both cores.
fn sizes(report: &mut Report, scratch: &Scratch, small: bool) -> Result<(), Failure> {
    let sizes: &[u64] = if small { &[10, 1_000] } else { &[10, 1_000, 100_000] };
    let mut houses = Vec::new();
    for size in sizes {
        let house = house(&scratch.path().join(format!("ours-{size}")), *size)?;
        let names: Vec<DatastoreName> = (0..*size).map(name).collect::<Result<_, _>>()?;
        let first = now();
        look(&house, names.first().ok_or("no name")?);
        report.once("ours, the first lookup after a start", *size, first.elapsed().as_secs_f64() * 1e6, "µs");
        names.iter().for_each(|name| look(&house, name));
        houses.push((*size, house, names));
    }
    let mut random: Vec<Samples> = houses.iter().map(|_| Samples::default()).collect();
    let mut same: Vec<[Samples; 3]> = houses.iter().map(|_| Default::default()).collect();
    const EACH: usize = 200_000;
    for _ in 0..ROUNDS {
        for (at, (_, house, names)) in houses.iter().enumerate() {
            // As good as random, so that nothing of the next one is in the processor's cache.
            let any = |n: usize| names.get((n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) % names.len());
            let one = |n: usize| any(n).into_iter().for_each(|name| look(house, name));
            let hot = |_: usize| names.first().into_iter().for_each(|name| look(house, name));
            if let (Some(random), Some([single, both, apart])) = (random.get_mut(at), same.get_mut(at)) {
                random.push(shared(1, EACH, one));
                single.push(shared(1, EACH, hot));
                both.push(shared(2, EACH, hot));
                apart.push(two_apart(house, names, EACH));
            }
        }
    }
    let (mut first, mut last) = (None, 0.0);
    for ((size, _, _), (random, [single, both, apart])) in houses.iter().zip(random.iter().zip(&same)) {
        let any = report.middle("ours, any of them, one thread", *size, random, "ns");
        let one = report.middle("ours, the same again, one thread", *size, single, "ns");
        let two = report.middle("ours, the same again, two threads", *size, both, "ns");
        report.middle("ours, two threads, each its own", *size, apart, "ns");
        last = any - *first.get_or_insert(any);
        if *size == 1_000 {
            // `shared` gives the time for each of all.
            report.goal(
                "threads",
                "ours, two threads in one store: time for each to that of one thread, at most 1/1.5",
                two / one,
                1.0 / 1.5,
                "times",
            );
        }
    }
    report.goal("random", "ours, what any of the most stores takes more than any of ten", last, 400.0, "ns");
    Ok(())
}

/// Two threads, each in a store of its own: nanoseconds for each lookup of all.
fn two_apart(house: &House, names: &[DatastoreName], each: usize) -> f64 {
    let began = now();
    std::thread::scope(|scope| {
        for name in names.iter().take(2) {
            scope.spawn(move || (0..each).for_each(|_| look(house, name)));
        }
    });
    began.elapsed().as_nanos() as f64 / (2 * each) as f64
}

fn look(house: &House, name: &DatastoreName) {
    assert!(house.look_up(name, OperationKind::Write).is_ok());
}
