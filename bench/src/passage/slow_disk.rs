//! Measures whether a reader waits for a writer's sync: requests are judged at planned times while changes are committed on a slow disk.

use super::walk;
use crate::Failure;
use crate::arrivals::latencies;
use crate::goals::Goal;
use crate::report::Report;
use crate::samples::{Percentile, Samples};
use crate::scratch::Scratch;
use crate::stopwatch::{now, pause};
use crate::stores::{self, Store};
use enfilade_facts::tables::{Assignment, AssignmentKey, Who};
use enfilade_facts::vocabulary::{DatastoreName, Role, StorePath, UserId};
use enfilade_facts::{Change, Source as _};
use enfilade_passage::{House, SecretAsk as Ask};
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const GOAL: &str = "reader-p99";
/// The time between two walks.
const EVERY: Duration = Duration::from_micros(500);
const TURNS: usize = 15;
const SECONDS: u64 = 4;
/// The bytes that another thread writes next to the store before each of its syncs.
const BESIDE_BYTES: usize = 64 << 20;
/// A disk on which a commit takes less time is not slow.
const SLOW: Duration = Duration::from_millis(2);

pub(super) fn goal() -> Goal {
    let workload = format!(
        "In process, one thread opens the same file through doors 2 to 4 every {} µs, with a token that was verified before. The walks begin at \
         planned times, and a latency counts from the planned time. A second thread writes {} MiB to the disk of the store and syncs them, again and \
         again, so that the syncs of the store are slow. Walks with commits and walks without commits are measured alternately, {TURNS} times each, \
         for {SECONDS} s each time. During the walks with commits, a third thread commits as fast as it can. Each measurement has a p99. The value \
         is the mean of the {TURNS} ratios",
        EVERY.as_micros(),
        BESIDE_BYTES >> 20
    );
    let what = "p99 latency of a walk while changes are committed on a slow disk divided by p99 latency without commits";
    Goal::new(GOAL, 2.0, "times", what, workload)
}

/// The work that runs at the same time as the reader.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Load {
    Nothing,
    Disk,
    DiskAndCommits,
}

impl Load {
    const ALL: [Load; 3] = [Load::Nothing, Load::Disk, Load::DiskAndCommits];

    fn name(self) -> &'static str {
        match self {
            Load::Nothing => "nothing else runs",
            Load::Disk => "the disk is busy",
            Load::DiskAndCommits => "the disk is busy, and changes are committed",
        }
    }
}

/// The samples that were measured with one kind of work.
#[derive(Default)]
struct Turns {
    latencies: Samples,
    /// The p99 of each turn.
    p99: Samples,
    commits: Samples,
}

/// A walk that is granted.
pub(super) struct Walk<'w> {
    pub(super) store: &'w Store,
    pub(super) house: &'w Arc<House>,
    pub(super) ask: &'w Ask,
    pub(super) datastore: &'w DatastoreName,
    pub(super) path: &'w StorePath,
}

impl Walk<'_> {
    /// Measures walks under each [`Load`], one load after another. Each turn measures every load once.
    pub(super) fn run(&self, report: &mut Report, scratch: &Scratch, small: bool) -> Result<(), Failure> {
        let (turns, seconds) = if small { (2, 1) } else { (TURNS, SECONDS) };
        let quiet = self.commits_on_a_quiet_disk(Duration::from_secs(1))?;
        let mut all: [Turns; 3] = Default::default();
        for turn in 0..turns {
            eprintln!(
                "walks at planned times, with commits on a slow disk at the same time, turn {} of {turns}",
                turn + 1
            );
            for at in 0..Load::ALL.len() {
                let at = (at + turn) % Load::ALL.len();
                let (Some(load), Some(sums)) = (Load::ALL.get(at), all.get_mut(at)) else { continue };
                self.turn(*load, scratch.path(), seconds, sums)?;
            }
        }
        self.tell(report, quiet, &all);
        Ok(())
    }

    fn turn(&self, load: Load, place: &Path, seconds: u64, sums: &mut Turns) -> Result<(), Failure> {
        let (is_over, file) = (AtomicBool::new(false), place.join("written"));
        let count = seconds * 1_000_000 / EVERY.as_micros() as u64;
        let (walked, written, committed) = std::thread::scope(|scope| {
            let (is_over, file) = (&is_over, &file);
            let writer = (load != Load::Nothing).then(|| scope.spawn(move || keep_busy(file, is_over)));
            let commits = (load == Load::DiskAndCommits).then(|| scope.spawn(move || self.commit(is_over)));
            let walked =
                latencies(EVERY, count, vec![()], |(), _| self.once().map_err(|why| why.to_string()));
            is_over.store(true, Ordering::Relaxed);
            (walked, writer.map(|thread| thread.join()), commits.map(|thread| thread.join()))
        });
        written
            .transpose()
            .map_err(|_| "the thread that writes to the disk of the store ended")?
            .transpose()?;
        if let Some(rate) = committed.transpose().map_err(|_| "the thread that commits ended")? {
            sums.commits.push(rate?);
        }
        let walked = walked?;
        sums.p99.push(walked.percentile(Percentile::P99)?.value);
        sums.latencies.extend(&walked);
        Ok(())
    }

    fn once(&self) -> Result<(), Failure> {
        walk(self.house, self.ask, self.datastore, self.path)
    }

    /// Commits changes until `is_over` is set. Returns the commits per second.
    fn commit(&self, is_over: &AtomicBool) -> Result<f64, String> {
        let (began, mut count) = (now(), 0);
        while !is_over.load(Ordering::Relaxed) {
            self.commit_once(count).map_err(|why| why.to_string())?;
            count += 1;
        }
        Ok(count as f64 / began.elapsed().as_secs_f64())
    }

    /// Changes a role of another user on another datastore.
    fn commit_once(&self, n: u64) -> Result<(), Failure> {
        let mut change = Change::new(stores::audit("role assign"));
        let who = Who::User(UserId::from_bytes(stores::id(1, 5)));
        let key = AssignmentKey { path: "/datastore/other".parse()?, who };
        let roles = vec![(Role::Audit, n.is_multiple_of(2))];
        self.store.lmdb.commit(change.put(&key, &Assignment { roles, fault: None }))?;
        Ok(())
    }

    /// The commits per second while nothing else uses the disk.
    fn commits_on_a_quiet_disk(&self, time: Duration) -> Result<f64, Failure> {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let commits = scope.spawn(|| self.commit(&is_over));
            pause(time);
            is_over.store(true, Ordering::Relaxed);
            Ok(commits.join().map_err(|_| "the thread that commits ended")??)
        })
    }

    fn tell(&self, report: &mut Report, quiet: f64, all: &[Turns; 3]) {
        let n = self.store.tokens;
        for (load, turns) in Load::ALL.into_iter().zip(all) {
            report.tail(&format!("a walk at planned times, {}", load.name()), n, &turns.latencies, "ms");
        }
        let [nothing, disk, commits] = all;
        report.once("commits on a quiet disk", n, quiet, "commits/s");
        let busy = report.middle("commits on the busy disk", n, &commits.commits, "commits/s");
        let is_slow = busy.value * SLOW.as_secs_f64() <= 1.0;
        if !is_slow {
            let limit = SLOW.as_millis();
            let why = format!(
                "a commit on the busy disk takes less than {limit} ms: put the temporary directory on a slower disk"
            );
            report.missing("walks while changes are committed on a slow disk", why);
        }
        let to_nothing = disk.p99.over(&nothing.p99).mean();
        report.estimate("p99 of a walk, a busy disk to nothing", n, to_nothing, "times");
        let ratio = commits.p99.over(&disk.p99).mean();
        report.estimate("p99 of a walk, with commits to without them on the busy disk", n, ratio, "times");
        if is_slow {
            report.goal(GOAL, ratio);
        }
    }
}

/// Writes and syncs a large file until `is_over` is set.
fn keep_busy(path: &Path, is_over: &AtomicBool) -> Result<(), std::io::Error> {
    let piece = vec![7; 1 << 20];
    let mut file = File::create(path)?;
    for _ in 0..BESIDE_BYTES / piece.len() {
        file.write_all(&piece)?;
    }
    while !is_over.load(Ordering::Relaxed) {
        for n in 0..BESIDE_BYTES / piece.len() {
            file.write_all_at(&piece, (n * piece.len()) as u64)?;
        }
        file.sync_all()?;
    }
    std::fs::remove_file(path)
}
