//! Makes changes at planned times, and measures when another process sees each change.

use super::change_of;
use super::commits::every;
use crate::Failure;
use crate::arrivals::Schedule;
use crate::report::Report;
use crate::samples::Samples;
use crate::stopwatch::{Child, now};
use enfilade_facts::Source as _;
use enfilade_sources::lmdb::Lmdb;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};
use std::time::Duration;

/// The number of changes that another process sees.
const SEEN: u64 = 1_000;
/// The watching process ends after this time.
const WATCH: Duration = Duration::from_secs(300);

/// Runs in another process. Prints when it first saw each revision, in nanoseconds of the clock that both processes share.
pub(crate) fn watch(place: &Path) -> Result<(), Failure> {
    let lmdb = Lmdb::open(place)?;
    let mut out = std::io::stdout().lock();
    let mut seen = lmdb.at().revision;
    writeln!(out, "ready")?;
    out.flush()?;
    let end = now() + WATCH;
    while now() < end {
        let revision = lmdb.at().revision;
        if revision != seen {
            seen = revision;
            if writeln!(out, "{} {}", revision.0, shared_nanos()).and_then(|()| out.flush()).is_err() {
                break;
            }
        }
    }
    Ok(())
}

/// A change, with times of the clock that both processes share.
struct Made {
    revision: u64,
    planned: i128,
    acknowledged: i128,
}

/// Measures the time until another process sees a change: from the planned time of the change, and from its acknowledgement. The second time is
/// negative if the process sees the change before the acknowledgement. One thread commits at half of its maximum rate.
pub(super) fn run(report: &mut Report, lmdb: &Lmdb, place: &Path, rate: f64) -> Result<(), Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("facts-watcher").arg(place).stdout(Stdio::piped());
    let mut watcher = Child::start(&mut command)?;
    let out = watcher.0.stdout.take().ok_or("the watcher has no output")?;
    let mut lines = BufReader::new(out).lines();
    lines.next().ok_or("the watcher did not start")??;
    let reader = std::thread::spawn(move || lines_of(lines));
    let made = commit(lmdb, every(rate / 2.0));
    // After this pause the watcher has seen the last change, because it reads the revision all the time.
    std::thread::park_timeout(Duration::from_millis(200));
    drop(watcher);
    let seen = reader.join().map_err(|_| "the thread that reads the watcher's output ended")?;
    let (from_plan, from_answer) = compare(&made?, &seen)?;
    report.tail("seen by another process after the planned time of the change", 1, &from_plan, "µs");
    report.tail("seen by another process after the acknowledgement", 1, &from_answer, "µs");
    Ok(())
}

/// Commits at planned times.
fn commit(lmdb: &Lmdb, every: Duration) -> Result<Vec<Made>, Failure> {
    let schedule = Schedule::new(every, SEEN);
    let mut made = Vec::new();
    while let Some((n, due)) = schedule.next() {
        // The planned time may have passed already, so the delay is measured.
        let late = now().saturating_duration_since(due);
        let planned = shared_nanos() - i128::try_from(late.as_nanos())?;
        let revision = lmdb.commit(&change_of(n))?.revision.0;
        made.push(Made { revision, planned, acknowledged: shared_nanos() });
    }
    Ok(made)
}

/// The revisions that the watcher has seen, and when. A last line that is not complete is left out.
fn lines_of(lines: std::io::Lines<BufReader<ChildStdout>>) -> Vec<(u64, i128)> {
    let parsed = |line: String| {
        let (revision, seen) = line.split_once(' ')?;
        Some((revision.parse().ok()?, seen.parse().ok()?))
    };
    lines.map_while(Result::ok).filter_map(parsed).collect()
}

/// The microseconds until each change was seen. If the watcher skipped a revision, the change of this revision was seen with the next revision.
fn compare(made: &[Made], seen: &[(u64, i128)]) -> Result<(Samples, Samples), Failure> {
    let (mut from_plan, mut from_answer) = (Samples::default(), Samples::default());
    for change in made {
        let at = seen.partition_point(|(revision, _)| *revision < change.revision);
        let (_, seen) = seen.get(at).ok_or("the watcher did not see the last change")?;
        from_plan.push((seen - change.planned) as f64 / 1e3);
        from_answer.push((seen - change.acknowledged) as f64 / 1e3);
    }
    Ok((from_plan, from_answer))
}

/// A clock that is the same for every process of the machine.
fn shared_nanos() -> i128 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skipped_revision_is_seen_with_the_next_one() {
        let made = |revision, planned, acknowledged| Made { revision, planned, acknowledged };
        let made = [made(5, 1_000, 3_000), made(6, 2_000, 9_000)];
        let (from_plan, from_answer) = compare(&made, &[(4, 500), (6, 8_000)]).unwrap();
        assert_eq!((from_plan.most(), from_plan.least()), (7.0, 6.0));
        assert_eq!((from_answer.most(), from_answer.least()), (5.0, -1.0));
        assert!(compare(&made, &[(5, 500)]).is_err());
    }
}
