//! Commits by one thread and by many: the throughput in a closed loop, and the latencies at planned times.

use super::change_of;
use crate::Failure;
use crate::arrivals::latencies;
use crate::report::Report;
use crate::stopwatch::now;
use enfilade_facts::Source as _;
use enfilade_sources::lmdb::Lmdb;
use std::time::Duration;

const THREADS: [u64; 3] = [1, 8, 32];
/// The numbers of commits at planned times, in a small run and in a full run.
const PLANNED: [u64; 2] = [1_000, 5_000];

/// Measures commits. Returns the commits per second of one thread.
pub(super) fn run(report: &mut Report, lmdb: &Lmdb, tokens: u64) -> Result<f64, Failure> {
    let [few, many] = PLANNED;
    let (planned, mut alone) = (if report.is_small { few } else { many }, f64::NAN);
    for threads in THREADS {
        let name = if threads == 1 { "commit, alone" } else { "commit, grouped" };
        let rate = throughput(lmdb, threads, tokens)?;
        report.once(&format!("{name}, in a closed loop"), threads, rate, "commits/s");
        if threads == 1 {
            alone = rate;
        }
        // The planned rate is half of the rate that the threads can reach. So the reason for a late commit is not a lack of free threads.
        let every = every(rate / 2.0);
        let clients = (0..threads).map(|_| ()).collect();
        let samples = latencies(every, planned, clients, |(), n| {
            lmdb.commit(&change_of(n * 7 % tokens)).map(drop).map_err(|why| why.to_string())
        })?;
        report.once(&format!("{name}, planned"), threads, 1.0 / every.as_secs_f64(), "commits/s");
        report.tail(&format!("{name}, at planned times"), threads, &samples, "ms");
    }
    Ok(alone)
}

/// The time between two changes if there are `rate` changes per second.
pub(super) fn every(rate: f64) -> Duration {
    Duration::from_secs_f64(1.0 / rate)
}

/// The commits per second of threads that commit again as soon as their last commit has ended.
fn throughput(lmdb: &Lmdb, threads: u64, tokens: u64) -> Result<f64, Failure> {
    let each = 2_000 / threads + 50;
    let began = now();
    let all_committed = std::thread::scope(|scope| {
        let commit = |thread: u64| {
            (0..each).all(|n| lmdb.commit(&change_of((thread * each + n) * 7 % tokens)).is_ok())
        };
        let running: Vec<_> = (0..threads).map(|thread| scope.spawn(move || commit(thread))).collect();
        running.into_iter().all(|thread| thread.join().unwrap_or(false))
    });
    match all_committed {
        true => Ok((threads * each) as f64 / began.elapsed().as_secs_f64()),
        false => Err("a commit failed".into()),
    }
}
