//! Measures servers with many certificates: the time from a start to the first accepted connection, the time of changes, the memory, and the CPU of
//! handshakes. HAProxy and Enfilade do the same work in turns.

mod again;
mod changed;
mod handshakes;
mod haproxy;
mod inside;
mod library;
mod make;
mod phases;
mod readers;
mod running;
mod saturated;
mod servers;
mod spray;
mod starts;
mod used;

pub(crate) use make::make;

use crate::Failure;
use crate::goals::Goal;
use crate::report::{Paired, Report};
use crate::samples::Samples;
use crate::scratch::Scratch;
use crate::stopwatch::pause;
use again::{Reloads, Restarts};
use enfilade_sources::files::certificates::list;
use starts::Starts;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const ROUNDS: usize = 5;
const CHANGED: usize = 10;
/// The number of rounds with an empty page cache.
const COLD_ROUNDS: usize = 3;
/// The number of certificates with which the goals are judged, unless their workload has another number.
pub(crate) const FULL: usize = 25_000;
const MILLION: usize = 1_000_000;

pub(crate) fn goals() -> Vec<Goal> {
    let all = format!("{FULL} certificates as `cargo xtask certs` makes them");
    let alternate = |starts: usize| {
        format!(
            "Enfilade and HAProxy are started alternately with these certificates, {starts} times each. The time ends when the server accepts a \
             connection. Enfilade reads all certificate files, and verifies a key only at the first handshake that needs it (`index = \"off\"`, \
             `check = \"lazy\"`). The value is the mean of the {starts} ratios"
        )
    };
    // One restart and one reload are measured in each round, after the start of both servers.
    let in_process = |work: &str| {
        format!(
            "{all}, in the page cache. In process, {ROUNDS} times: {work}. Each of these times is divided by the time of a start of HAProxy in the \
             same round, until HAProxy accepts a connection. The value is the mean of the {ROUNDS} ratios"
        )
    };
    let mut goals = vec![
        Goal::new(
            "warm",
            1.0 / 150.0,
            "times",
            "time of a start of Enfilade, divided by time of a start of HAProxy (certificates in the page cache)",
            format!("{all}, in the page cache. {}", alternate(ROUNDS)),
        ),
        Goal::new(
            "cold",
            1.0 / 45.0,
            "times",
            "time of a start of Enfilade, divided by time of a start of HAProxy (empty page cache)",
            format!("{all}. The page cache is dropped before each start. {}", alternate(COLD_ROUNDS)),
        ),
        Goal::new(
            "verified",
            1.0 / 8.0,
            "times",
            "time to verify the keys of all certificates, divided by time of a start of HAProxy",
            format!(
                "{all}, in the page cache. In process, Enfilade verifies the private key of each certificate, on all cores, once. This time is \
                 divided by the median time of {ROUNDS} starts of HAProxy, until HAProxy accepts a connection"
            ),
        ),
        Goal::new(
            "restart",
            1.0 / 250.0,
            "times",
            "time to load all certificates from the file `tls-index`, divided by time of a start of HAProxy",
            in_process(
                "Enfilade reads the index of all certificates, and asks the kernel whether each file changed",
            ),
        ),
        Goal::new(
            "reload",
            1.0 / 200.0,
            "times",
            "time of a reload after changed files, divided by time of a start of HAProxy",
            in_process(&format!(
                "{CHANGED} certificate files are replaced, then Enfilade checks all files and reads the changed ones. Only the time of the reload \
                 counts"
            )),
        ),
        Goal::new(
            "memory",
            1.0,
            "KiB",
            "resident memory of an idle server for each certificate",
            format!("{all}. {}. The difference is divided by {FULL}", memory_of(FULL)),
        ),
    ];
    goals.extend(goals_of_a_million());
    goals.extend(changed::goals());
    goals.extend(handshakes::goals());
    goals.extend(saturated::goals());
    goals.extend(spray::goals());
    goals
}

fn goals_of_a_million() -> [Goal; 2] {
    let million =
        format!("{MILLION} certificates as `cargo xtask certs` makes them (option `--n {MILLION}`)");
    [
        Goal::new(
            "million",
            6.0,
            "s",
            "time of a start with a million certificates, which are in the page cache",
            format!(
                "{million}, in the page cache. Enfilade is started {ROUNDS} times. The time ends when Enfilade accepts a connection. The value is \
                 the median"
            ),
        ),
        Goal::new(
            "million-memory",
            1.0,
            "GiB",
            "resident memory of an idle server for a million certificates",
            format!("{million}. {}", memory_of(MILLION)),
        ),
    ]
}

/// Describes how the memory with `count` certificates is measured. The description is a part of the field `workload` of goals.
fn memory_of(count: usize) -> String {
    format!(
        "Enfilade is started {ROUNDS} times with {count} certificates, and {ROUNDS} times with one certificate. Its resident memory is read \
         after each start. The median with one certificate is subtracted from the median with {count}"
    )
}

/// The certificates of a run, and the properties of the run.
struct Case<'c> {
    directory: &'c Path,
    scratch: &'c Scratch,
    count: usize,
    /// Whether the page cache can be dropped.
    is_cold_possible: bool,
    /// Whether HAProxy is started with these certificates.
    is_compared: bool,
    /// Whether the goals for [`FULL`] certificates are judged. In a small run they are judged, too, but a goal that does not hold has no effect.
    is_judged: bool,
}

impl Case<'_> {
    fn n(&self) -> u64 {
        self.count as u64
    }

    /// The id of a goal for [`FULL`] certificates; `None` if these goals are not judged.
    fn goal(&self, id: &'static str) -> Option<&'static str> {
        self.is_judged.then_some(id)
    }

    /// Makes another directory with the same files. The first `replaced` files are copies, which can be replaced. The other files are hard links, or
    /// copies if the file system does not permit links.
    fn copy(&self, name: &str, replaced: usize) -> Result<PathBuf, Failure> {
        let place = self.scratch.path().join(name);
        std::fs::create_dir_all(&place)?;
        let mut names = list(self.directory)?.names;
        names.sort();
        for (at, name) in names.iter().enumerate() {
            let (from, to) = (self.directory.join(name), place.join(name));
            let is_linked = at >= replaced && std::fs::hard_link(&from, &to).is_ok();
            if !is_linked {
                std::fs::copy(&from, &to)?;
            }
        }
        Ok(place)
    }

    /// Adds the samples of both servers to the report. If HAProxy has no samples, adds only the samples of Enfilade. If Enfilade has no samples, adds
    /// nothing.
    fn tell(
        &self,
        report: &mut Report,
        goal: Option<&'static str>,
        (what, unit): (&str, &'static str),
        [ours, theirs]: [&Samples; 2],
    ) {
        let (what, n) = (what.to_owned(), self.n());
        match (ours.len(), theirs.len()) {
            (0, _) => {}
            (_, 0) => {
                report.middle(&format!("{what}, Enfilade"), n, ours, unit);
            }
            _ => {
                let paired = Paired { what, n, unit, ours, peer: "HAProxy", theirs, floor: None };
                report.compare(goal, paired);
            }
        }
    }
}

pub(crate) fn run(report: &mut Report, count: usize) -> Result<(), Failure> {
    let directory = make::directory(count)?;
    let scratch = Scratch::new("certs")?;
    let is_cold_possible = drop_caches();
    if !is_cold_possible {
        report.missing(
            "starts with an empty page cache",
            "the page cache can be dropped only by root of the machine",
        );
    }
    // Each goal is for one number of certificates.
    report.keep_goals(|id| id.starts_with("million") == (count == MILLION));
    let case = Case {
        directory: &directory,
        scratch: &scratch,
        count,
        is_cold_possible,
        is_compared: haproxy::is_compared(report, count),
        is_judged: report.is_small || count == FULL,
    };
    started(report, &case)?;
    if count >= MILLION {
        // Handshakes are measured only with fewer certificates, because their cost does not depend on the number of certificates. `spray` is measured
        // only with fewer certificates, too.
        return Ok(());
    }
    handshakes::run(report, &scratch)?;
    spray::run(report, &directory, &scratch, count)
}

/// Measures starts, restarts, reloads and memory. With fewer than a million certificates, also measures renewals, and handshakes with all
/// certificates.
fn started(report: &mut Report, case: &Case<'_>) -> Result<(), Failure> {
    readers::run(report, case.directory, case.n(), case.is_cold_possible)?;
    let mut reloads = Reloads::new(case)?;
    let (verified, certificates) = inside::run(report, case)?;
    let mut restarts = Restarts::new(case, &certificates)?;
    drop(certificates);
    let programs = servers::both(case)?;
    let [ours, theirs] = starts::run(case, &programs, || {
        restarts.turn()?;
        reloads.turn()
    })?;
    restarts.others(report)?;
    for (id, what, own, peer) in [
        ("warm", "start with all certificates, warm", &ours.warm, &theirs.warm),
        ("cold", "start with all certificates, cold", &ours.cold, &theirs.cold),
        ("verified", "all keys verified, and a start", &verified, &theirs.warm),
        ("restart", "a restart with an index, every file asked, and a start", restarts.times(), &theirs.warm),
        ("reload", "a reload after 10 changed files, and a start", reloads.times(), &theirs.warm),
    ] {
        case.tell(report, case.goal(id), (what, "ms"), [own, peer]);
    }
    tell_memory(report, case, [&ours, &theirs]);
    if case.count >= MILLION {
        return Ok(());
    }
    drop(reloads);
    changed::run(report, case, &programs)?;
    used::run(report, case, &programs)?;
    saturated::run(report, case, &programs)
}

/// Reports the memory of idle servers, and judges the goals for it. With a million certificates, also judges the goal for the start.
fn tell_memory(report: &mut Report, case: &Case<'_>, [ours, theirs]: [&Starts; 2]) {
    let what = ("memory of each certificate while idle", "KiB");
    case.tell(report, None, what, [&ours.idle_kib, &theirs.idle_kib]);
    let idle = ours.idle_kib.middle();
    if case.is_judged {
        report.goal("memory", idle);
    }
    if case.count == MILLION {
        report.goal("million", ours.warm.middle().times(1e-3));
        report.goal("million-memory", idle.times(case.count as f64 / 1024.0 / 1024.0));
    }
}

/// Gives each element one turn. In every second round the order is reversed.
fn in_turns<T>(
    all: &mut [T],
    round: usize,
    turn: impl FnMut(&mut T) -> Result<(), Failure>,
) -> Result<(), Failure> {
    match round % 2 {
        0 => all.iter_mut().try_for_each(turn),
        _ => all.iter_mut().rev().try_for_each(turn),
    }
}

/// Drops the kernel's caches of files: pages, directory entries and inodes. Returns whether that was possible.
pub(crate) fn drop_caches() -> bool {
    let _ = Command::new("sync").status();
    let is_dropped = std::fs::write("/proc/sys/vm/drop_caches", "3").is_ok();
    pause(Duration::from_millis(300));
    is_dropped
}
