//! Measures whether a reader waits for a writer's sync: requests are judged at planned times while another process commits on a slow disk.

use super::slow_writer::{Slow, WRITES_A_SECOND, Writer};
use super::walk;
use crate::Failure;
use crate::arrivals::latencies;
use crate::goals::Goal;
use crate::report::Report;
use crate::samples::{Percentile, Samples};
use crate::stores::Store;
use enfilade_facts::vocabulary::{DatastoreName, StorePath};
use enfilade_passage::{House, SecretAsk as Ask};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const GOAL: &str = "reader-p99-limited";
/// The time between two walks.
const EVERY: Duration = Duration::from_micros(500);
const TURNS: usize = 15;
const SECONDS: u64 = 4;
/// A disk on which a commit takes less time is not slow.
const SLOW: Duration = Duration::from_millis(2);

pub(super) fn goal() -> Goal {
    let workload = format!(
        "In process, one thread opens the same file through doors 2 to 4 every {} µs, with a token that was verified before. The walks begin at \
         planned times, and a latency counts from the planned time. Walks with commits and walks without commits are measured alternately, {TURNS} \
         times each, for {SECONDS} s each time. During the walks with commits, another process commits to the same store as fast as it can; the \
         kernel lets this process make {WRITES_A_SECOND} writes to the disk in a second, so that a commit takes {} ms or more. Each measurement has \
         a p99. The value is the mean of the {TURNS} ratios",
        EVERY.as_micros(),
        SLOW.as_millis()
    );
    let what = "p99 latency of a walk while changes are committed on a slow disk, divided by p99 latency without commits";
    Goal::new(GOAL, 2.0, "times", what, workload)
}

/// The samples without commits, or with commits.
#[derive(Default)]
struct Turns {
    latencies: Samples,
    /// The p99 of each turn.
    p99: Samples,
}

/// The arguments of a [`walk`] that is granted, and the store in which changes are committed meanwhile.
pub(super) struct Walk<'w> {
    pub(super) store: &'w Store,
    pub(super) facts: &'w Path,
    pub(super) house: &'w Arc<House>,
    pub(super) ask: &'w Ask,
    pub(super) datastore: &'w DatastoreName,
    pub(super) path: &'w StorePath,
}

impl Walk<'_> {
    /// Measures walks without and with commits, in turns.
    pub(super) fn run(&self, report: &mut Report, small: bool) -> Result<(), Failure> {
        let (turns, seconds) = if small { (2, 1) } else { (TURNS, SECONDS) };
        let slow = match Slow::new(self.facts) {
            Ok(slow) => slow,
            Err(why) => {
                let advice = "run the benchmark as root, with the temporary directory on a disk";
                report.missing(
                    "walks while changes are committed on a slow disk",
                    format!("the kernel does not limit the writes of a process ({why}): {advice}"),
                );
                return Ok(());
            }
        };
        let (mut without, mut with, mut commits) = (Turns::default(), Turns::default(), Samples::default());
        for turn in 0..turns {
            eprintln!("walks at planned times, with and without commits, turn {} of {turns}", turn + 1);
            // The order of the two measurements alternates.
            for is_with in if turn % 2 == 0 { [false, true] } else { [true, false] } {
                let writer = is_with.then(|| Writer::start(self.facts, &slow)).transpose()?;
                self.turn(seconds, if is_with { &mut with } else { &mut without })?;
                if let Some(writer) = writer {
                    commits.push(writer.end()?);
                }
            }
        }
        self.tell(report, &without, &with, &commits);
        Ok(())
    }

    fn turn(&self, seconds: u64, sums: &mut Turns) -> Result<(), Failure> {
        let count = seconds * 1_000_000 / EVERY.as_micros() as u64;
        let once = || walk(self.house, self.ask, self.datastore, self.path);
        let walked = latencies(EVERY, count, vec![()], |(), _| once().map_err(|why| why.to_string()))?;
        sums.p99.push(walked.percentile(Percentile::P99)?.value);
        sums.latencies.extend(&walked);
        Ok(())
    }

    fn tell(&self, report: &mut Report, without: &Turns, with: &Turns, commits: &Samples) {
        let n = self.store.tokens;
        report.tail("a walk at planned times, without commits", n, &without.latencies, "ms");
        report.tail(
            "a walk at planned times, while changes are committed on a slow disk",
            n,
            &with.latencies,
            "ms",
        );
        let commits = report.middle("commits on the slow disk", n, commits, "commits/s");
        let ratio = with.p99.over(&without.p99).mean();
        report.estimate("p99 of a walk, with commits on a slow disk to without them", n, ratio, "times");
        match commits.value * SLOW.as_secs_f64() <= 1.0 {
            true => report.goal(GOAL, ratio),
            false => report.missing(
                "walks while changes are committed on a slow disk",
                format!("a commit takes less than {} ms, although the writes are limited", SLOW.as_millis()),
            ),
        }
    }
}
