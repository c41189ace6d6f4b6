//! Checks whether the rebuilt servers do the same work as Proxmox Backup Server. The work is counted, because counts are the same on each processor.

use super::STORES;
use crate::Failure;
use crate::goals::Goal;
use crate::report::Report;
use crate::samples::Estimate;
use crate::scratch::Scratch;
use crate::system_calls::{self, Kind, of_kinds, of_one};
use enfilade_peers::datastore_cfg::ServerFiles;
use std::path::Path;

/// How system calls are counted.
pub(super) const CALLS: &str = "strace counts the system calls of a process with 110 lookups and of a process with 10 lookups. Each of these processes is \
                                counted five times, and the smallest count is used. The difference of both counts is divided by 100";
/// The system calls of a lookup and of the end of its operation (the drop), in version 4.1 and in 4.2.3. The original was measured with 1,000
/// datastores.
const BEFORE_CALLS: f64 = 116.0;
const AFTER_CALLS: f64 = 106.0;
/// The length of `datastore.cfg` in the measurement of the original.
const BYTES: f64 = 114_679.0;
/// Version 4.1 reads and parses the file for a lookup, and again for the drop (`pbs-datastore/src/datastore.rs`: the last drop checks whether the
/// datastore must be closed). Each of the two reads has five system calls. These ten calls are the difference between 4.1 and 4.2.3.
const BEFORE_READS: f64 = 2.0;

/// A kind of system call: its name, a text in its arguments, and two numbers. The numbers say how many calls of this kind a lookup and the end of its
/// operation made in the original: in version 4.1, and in 4.2.3.
struct Counted(&'static str, &'static str, f64, f64);

/// In its measurement, the original took three locks. For each lock, it created, set and deleted a timer, and `getpwnam` for the user `backup` opened
/// `/etc/passwd`. The original read `/proc/<pid>/stat` four times. It wrote two files, set their mode and owner, and renamed them.
const KINDS: [Counted; 10] = [
    Counted("flock", "", 3.0, 3.0),
    Counted("timer_create", "", 3.0, 3.0),
    Counted("timer_settime", "", 3.0, 3.0),
    Counted("timer_delete", "", 3.0, 3.0),
    Counted("open", "\"/etc/passwd\"", 3.0, 3.0),
    Counted("open", "/stat\"", 4.0, 4.0),
    Counted("fchmod", "", 2.0, 2.0),
    Counted("fchown", "", 2.0, 2.0),
    Counted("rename", "", 2.0, 2.0),
    Counted("open", "/datastore.cfg\"", BEFORE_READS, 0.0),
];

pub(super) fn goals() -> Vec<Goal> {
    let goal = |id, at_most, unit, what: &str, workload: String| Goal::new(id, at_most, unit, what, workload);
    let lookup = format!("A lookup includes the end of the operation. There are {STORES} datastores");
    let calls = |original: f64| {
        format!(
            "{lookup}. {CALLS}, and then by {original}, which is the number of system calls of the original for a lookup. The value is the absolute \
             difference between this ratio and 1"
        )
    };
    let names = |original: fn(&Counted) -> f64| {
        let shown = |kind: &Counted| format!("{} {}", original(kind), kind.shown());
        let names = KINDS.iter().map(shown).collect::<Vec<_>>().join(", ");
        format!(
            "{lookup}. strace counts the system calls of each kind in a process with 110 lookups and in a process with 10 lookups. The difference of \
             both counts is divided by 100, and compared with the original. The value is the sum of the absolute differences of all kinds. For a \
             lookup the original makes these system calls: {names}"
        )
    };
    let bytes = format!("{lookup}. The bytes of `datastore.cfg` that 10 lookups read and parse are counted");
    vec![
        goal(
            "before-calls",
            0.25,
            "times",
            "system calls of the rebuilt Proxmox Backup Server 4.1, divided by system calls of the original: difference from 1",
            calls(BEFORE_CALLS),
        ),
        goal(
            "after-calls",
            0.25,
            "times",
            "system calls of the rebuilt Proxmox Backup Server 4.2, divided by system calls of the original: difference from 1",
            calls(AFTER_CALLS),
        ),
        goal(
            "before-work",
            0.0,
            "system calls",
            "difference between the rebuilt Proxmox Backup Server 4.1 and the original: system calls, kind by kind",
            names(|kind| kind.2),
        ),
        goal(
            "after-work",
            0.0,
            "system calls",
            "difference between the rebuilt Proxmox Backup Server 4.2 and the original: system calls, kind by kind",
            names(|kind| kind.3),
        ),
        goal(
            "before-bytes",
            0.01,
            "times",
            "bytes that the rebuilt Proxmox Backup Server 4.1 reads, divided by bytes that the original reads: difference from 1",
            format!(
                "{bytes}. This number is divided by 10 times {BEFORE_READS} times {BYTES}: for each lookup the original reads the file \
                 {BEFORE_READS} times, and the file has {BYTES} bytes. The value is the absolute difference between this ratio and 1"
            ),
        ),
        goal(
            "after-bytes",
            0.0,
            "bytes",
            "bytes that the rebuilt Proxmox Backup Server 4.2 reads; the original reads none",
            format!("{bytes}. A lookup before them has filled the server's cache"),
        ),
    ]
}

pub(super) fn run(report: &mut Report, theirs: &ServerFiles, scratch: &Scratch) -> Result<(), Failure> {
    bytes(report, theirs)?;
    if !system_calls::can_count() {
        report.missing("system calls of a lookup", system_calls::MISSING);
        return Ok(());
    }
    for part in ["before", "after", "ours"] {
        let each = of_one(["datastores-part", part])?;
        report.once(&format!("{part}, system calls"), STORES, each, "calls");
        let (what, of) = (format!("{part}, its system calls to the original's"), Estimate::once);
        match part {
            "before" => report.faithful("before-calls", &what, STORES, of(each / BEFORE_CALLS)),
            "after" => report.faithful("after-calls", &what, STORES, of(each / AFTER_CALLS)),
            _ => report.goal("calls", of(each)),
        }
    }
    names(report, "before", "before-work", scratch.path(), |kind| kind.2)?;
    names(report, "after", "after-work", scratch.path(), |kind| kind.3)
}

/// Counts the system calls of each kind.
fn names(
    report: &mut Report,
    part: &str,
    goal: &'static str,
    scratch: &Path,
    original: fn(&Counted) -> f64,
) -> Result<(), Failure> {
    let kinds = KINDS.each_ref().map(|Counted(name, with, ..)| Kind { name, with });
    let counts = of_kinds(["datastores-part", part], 100, &kinds, scratch)?;
    let mut differ = 0.0;
    for (kind, count) in KINDS.iter().zip(counts) {
        let what = format!("{part}, {} (the original: {})", kind.shown(), original(kind));
        report.once(&what, STORES, count, "calls");
        differ += (count - original(kind)).abs();
    }
    report.goal(goal, Estimate::once(differ));
    Ok(())
}

/// Counts the bytes of `datastore.cfg` that lookups and their drops read.
fn bytes(report: &mut Report, theirs: &ServerFiles) -> Result<(), Failure> {
    // The first lookup fills the cache.
    theirs.look_up("store-1", true)?.end()?;
    for is_cached in [false, true] {
        let before = theirs.bytes();
        (0..10).try_for_each(|_| theirs.look_up("store-1", is_cached)?.end())?;
        let read = (theirs.bytes() - before) as f64;
        let part = if is_cached { "after" } else { "before" };
        report.once(&format!("{part}, bytes of 10 lookups read and parsed"), STORES, read, "bytes");
        if is_cached {
            report.goal("after-bytes", Estimate::once(read));
        } else {
            let ratio = Estimate::once(read / (10.0 * BEFORE_READS * BYTES));
            report.faithful("before-bytes", "before, the same to the original's", STORES, ratio);
        }
    }
    Ok(())
}

impl Counted {
    /// The kind of system call as text.
    fn shown(&self) -> String {
        let Counted(name, with, ..) = self;
        let path = with.trim_matches('"');
        if path.is_empty() { format!("`{name}`") } else { format!("`{name}` of `{path}`") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rebuilt_servers_read_as_many_bytes_as_the_original() {
        let scratch = Scratch::new("datastores-work").unwrap();
        let place = |name: &str| scratch.path().join(name);
        let theirs = ServerFiles::new(&place("theirs"), &place("run"), STORES).unwrap();
        let mut report = Report::new("datastores", false, goals());
        bytes(&mut report, &theirs).unwrap();
        assert_eq!(report.judged.len(), 2);
        for judged in &report.judged {
            let goal = report.goal_of(judged).unwrap();
            assert!(goal.holds(judged.measured), "{}: {:?}", goal.id, judged.measured);
        }
    }
}
