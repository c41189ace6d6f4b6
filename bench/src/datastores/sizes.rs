//! Measures lookups with more and more datastores: the instructions, and the time on one thread and on two threads.

use super::{EACH, ROUNDS, SIZES, house, look, name};
use crate::Failure;
use crate::report::Report;
use crate::samples::{Estimate, Samples};
use crate::scratch::Scratch;
use crate::stopwatch::{now, shared};
use enfilade_facts::vocabulary::DatastoreName;
use enfilade_passage::House;
use std::process::Command;

/// The number of lookups. It is large, so that differences in the setup (random hash seeds) have little effect.
pub(super) const PROBES: u64 = 20_000;

/// Counts the instructions of a lookup and the end of its operation, with few datastores and with many. The goal is that the numbers are nearly the
/// same.
pub(super) fn probes(report: &mut Report, small: bool) -> Result<(), Failure> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        report.missing("instructions of a lookup", "valgrind is not installed (`apt-get install valgrind`)");
        return Ok(());
    }
    let most = if small { 1_000 } else { 100_000 };
    let mut counted = [0.0; 2];
    for (at, stores) in [10, most].into_iter().enumerate() {
        let part = format!("probes-{stores}");
        let (few, many) = (instructions(&part, 0)?, instructions(&part, PROBES)?);
        let each = many.saturating_sub(few) as f64 / PROBES as f64;
        report.once("ours, instructions of a lookup and its drop", stores, each, "instructions");
        counted.iter_mut().skip(at).take(1).for_each(|place| *place = each);
    }
    let [few, many] = counted;
    report.goal("probes", Estimate::once(many / few));
    Ok(())
}

fn instructions(part: &str, times: u64) -> Result<u64, Failure> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe()?)
        .args(["datastores-part", part, &times.to_string()])
        .output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find_map(|line| line.split_once("Collected :"));
    let count = line.and_then(|(_, count)| count.trim().parse().ok()).filter(|_| output.status.success());
    count.ok_or_else(|| format!("callgrind counted nothing: {text}").into())
}

/// Measures lookups of Enfilade with more and more datastores, and on two threads.
pub(super) fn run(report: &mut Report, scratch: &Scratch, small: bool) -> Result<(), Failure> {
    let sizes: &[u64] = if small { &[10, 1_000] } else { &SIZES };
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
    for _ in 0..ROUNDS {
        for (at, (_, house, names)) in houses.iter().enumerate() {
            // The choice is pseudo-random, so that the next datastore is not in the processor's cache.
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
    for ((size, _, _), (random, [single, both, apart])) in houses.iter().zip(random.iter().zip(&same)) {
        report.middle("ours, any of them, one thread", *size, random, "ns");
        report.middle("ours, the same again, one thread", *size, single, "ns");
        report.middle("ours, the same again, two threads", *size, both, "ns");
        report.middle("ours, two threads, each its own", *size, apart, "ns");
        if *size == 1_000 {
            // `shared` divides the elapsed time by the number of lookups of all threads, so the ratio is 1/2 if the threads do not delay each other.
            report.goal("threads", both.over(single).mean());
        }
    }
    sizes.iter().for_each(|size| crate::memory_reads::tell(report, *size));
    if let ([few, .., many], false) = (random.as_slice(), small) {
        report.goal("random", many.less(few).mean());
    }
    Ok(())
}

/// Looks up datastores on two threads. Each thread uses a different datastore. Returns the elapsed nanoseconds divided by the number of all lookups.
fn two_apart(house: &House, names: &[DatastoreName], each: usize) -> f64 {
    let began = now();
    std::thread::scope(|scope| {
        let look_all = |name| move || (0..each).for_each(|_| look(house, name));
        let threads: Vec<_> = names.iter().take(2).map(|name| scope.spawn(look_all(name))).collect();
        // Joins the threads, because the scope waits only for their closures. LMDB does not allow that a store is closed while a thread that has read
        // the store is ending.
        threads.into_iter().for_each(|thread| drop(thread.join()));
    });
    began.elapsed().as_nanos() as f64 / (2 * each) as f64
}
