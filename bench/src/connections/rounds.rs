//! The rounds with one number of connections: the servers take turns, and only the server of a turn has the connections.

use super::line::{self, Protocol};
use super::planned::latencies;
use super::servers::{Measured, Servers};
use super::{EACH_SECOND, SMALL_FILE, Size};
use crate::Failure;
use crate::loop_process::LoopProcess;
use crate::report::{Paired, Report};
use crate::samples::{Estimate, Percentile, Samples};
use crate::stopwatch::pause;
use std::path::Path;
use std::time::Duration;

/// The pause after a turn, in which the server must close the connections of the turn.
const AFTER: Duration = Duration::from_secs(1);

/// The turns of one server.
struct Series<'s> {
    server: &'s Measured,
    /// Resident memory before the first turn, in bytes.
    before: u64,
    /// The largest resident memory at the end of a turn, in bytes.
    most: u64,
    latencies: Samples,
    p99: Samples,
    /// CPU of each request, in microseconds.
    cpu: Samples,
}

/// Measures all servers with `connections` connections.
pub(super) fn run(
    report: &mut Report,
    size: &Size,
    protocol: Protocol,
    connections: usize,
    place: &Path,
) -> Result<(), Failure> {
    let servers = Servers::start(report, protocol == Protocol::Http1, place)?;
    let mut all = Vec::new();
    for server in &servers.measured {
        all.push(Series::begin(server, protocol)?);
    }
    let name = format!("GET of 4 kB by {}", protocol.name());
    let (rounds, is_judged) = match protocol {
        Protocol::Http1 => (size.rounds, size.connections.last() == Some(&connections)),
        Protocol::Http2 => (size.rounds_of_http2, false),
    };
    for round in 0..rounds {
        eprintln!("{name}, {connections} connections: round {} of {rounds}", round + 1);
        turns(report, &mut all, size, protocol, connections)?;
        // Another server begins the next round.
        all.rotate_left(1);
    }
    all.sort_by_key(|series| servers.measured.iter().position(|one| std::ptr::eq(one, series.server)));
    tell(report, &all, &name, connections as u64, is_judged);
    Ok(())
}

/// One turn of each server. A peer that fails is not measured further.
fn turns(
    report: &mut Report,
    all: &mut Vec<Series<'_>>,
    size: &Size,
    protocol: Protocol,
    connections: usize,
) -> Result<(), Failure> {
    let mut failed = Vec::new();
    for series in all.iter_mut() {
        let name = series.server.peer.name;
        match series.turn(size, protocol, connections) {
            Ok(()) => {}
            Err(why) if name == "Enfilade" => return Err(why),
            Err(why) => {
                let what = format!("{name} with {connections} connections by {}", protocol.name());
                report.missing(what, why.to_string());
                failed.push(name);
            }
        }
    }
    all.retain(|series| !failed.contains(&series.server.peer.name));
    Ok(())
}

impl<'s> Series<'s> {
    /// Warms the server up with one connection: the server reads the file, and remembers the token.
    fn begin(server: &'s Measured, protocol: Protocol) -> Result<Self, Failure> {
        drop(line::open(server, protocol, SMALL_FILE, 1)?);
        pause(AFTER);
        let none = Samples::default;
        let before = (server.peer.resident)();
        Ok(Series { server, before, most: before, latencies: none(), p99: none(), cpu: none() })
    }

    fn turn(&mut self, size: &Size, protocol: Protocol, connections: usize) -> Result<(), Failure> {
        let peer = &self.server.peer;
        let mut lines = line::open(self.server, protocol, SMALL_FILE, connections)?;
        let count = EACH_SECOND * size.seconds;
        let before = (peer.cpu)()?;
        let took = latencies(&mut lines, Duration::from_micros(1_000_000 / EACH_SECOND), count)
            .map_err(|why| format!("{}: {why}", peer.name))?;
        self.cpu.push(((peer.cpu)()? - before) / count as f64 * 1e6);
        self.most = self.most.max((peer.resident)());
        self.p99.push(took.percentile(Percentile::P99)?.value);
        self.latencies.extend(&took);
        drop(lines);
        pause(AFTER);
        Ok(())
    }

    /// KiB of resident memory of each connection.
    fn memory(&self, connections: u64) -> Estimate {
        Estimate::once(self.most.saturating_sub(self.before) as f64 / connections as f64 / 1024.0)
    }
}

fn tell(report: &mut Report, all: &[Series<'_>], name: &str, connections: u64, is_judged: bool) {
    for series in all {
        let what = format!("{name}, {}", series.server.peer.name);
        report.tail(&what, connections, &series.latencies, "ms");
        let memory = series.memory(connections);
        report.estimate(&format!("{what}: memory of each connection"), connections, memory, "KiB");
        if is_judged && series.server.peer.name == "Enfilade" {
            report.goal_at("memory-10000", connections, memory);
        }
    }
    let Some((ours, others)) = all.split_first() else { return };
    let (loops, mut others): (Vec<_>, Vec<_>) =
        others.iter().partition(|series| series.server.peer.name == LoopProcess::NAME);
    others.sort_by(|one, other| one.p99.median().total_cmp(&other.p99.median()));
    let goal = is_judged.then_some("p99-10000");
    let p99 = Figure {
        name: format!("{name}, median p99 of the turns"),
        unit: "ms",
        of: |series| &series.p99,
        goal,
    };
    let cpu =
        Figure { name: format!("{name}, CPU of each"), unit: "µs", of: |series| &series.cpu, goal: None };
    for figure in [p99, cpu] {
        figure.tell(report, connections, ours, &others, loops.first().copied());
    }
}

/// A value that is measured in each turn: its name, its unit, its samples in a [`Series`], and its goal.
struct Figure {
    name: String,
    unit: &'static str,
    of: for<'a> fn(&'a Series<'_>) -> &'a Samples,
    goal: Option<&'static str>,
}

impl Figure {
    /// Compares Enfilade with the first of the other servers, and adds the figures of the remaining servers and of the loop without a server.
    fn tell(
        &self,
        report: &mut Report,
        n: u64,
        ours: &Series<'_>,
        others: &[&Series<'_>],
        floor: Option<&Series<'_>>,
    ) {
        let (ours, unit) = ((self.of)(ours), self.unit);
        let floor = floor.map(|floor| {
            report.middle(&format!("{}, {}", self.name, LoopProcess::NAME), n, (self.of)(floor), unit).value
        });
        let Some((first, rest)) = others.split_first() else {
            report.middle(&format!("{}, Enfilade", self.name), n, ours, unit);
            return;
        };
        let (what, peer, theirs) = (self.name.clone(), first.server.peer.name, (self.of)(first));
        report.compare(self.goal, Paired { what, n, unit, ours, peer, theirs, floor });
        for series in rest {
            let (peer, theirs) = (series.server.peer.name, (self.of)(series));
            report.middle(&format!("{}, {peer}", self.name), n, theirs, unit);
            let ratio = ours.over(theirs).mean();
            report.estimate(&format!("{}, Enfilade to {peer}", self.name), n, ratio, "times");
        }
    }
}
