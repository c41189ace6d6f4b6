//! The CPU of busy servers: a few connections by HTTP/2 over TLS, each with one request after the other.

use super::floor::Floor;
use super::line::{self, Line, Protocol};
use super::planned;
use super::servers::{Measured, Servers};
use super::{PAGE, ServedFile};
use crate::Failure;
use crate::goals::Goal;
use crate::loop_process::LoopProcess;
use crate::report::{Paired, Report};
use crate::samples::Samples;
use std::path::Path;

/// The amounts of work.
pub(super) struct Size {
    connections: usize,
    /// The number of requests of all connections in a turn.
    requests: u64,
    rounds: usize,
}

pub(super) const SIZE: Size = Size { connections: 8, requests: 7_000, rounds: 15 };
pub(super) const SMALL: Size = Size { connections: 8, requests: 2_000, rounds: 2 };

const WHAT: &str = "GET of 25 kB by HTTP/2 over TLS, one after the other, CPU of each";

pub(super) fn goals() -> Vec<Goal> {
    let (Size { connections, requests, rounds }, ServedFile { bytes, .. }) = (SIZE, PAGE);
    vec![Goal::new(
        "busy-http2",
        1.0,
        "times",
        "CPU time of Enfilade for a GET of 25 kB by HTTP/2, divided by CPU time of nginx",
        format!(
            "HTTP/2 over TLS. {connections} connections send {requests} GET requests in all, for a file of {bytes} bytes; each connection sends the \
             next request when it has the response to the last one. Enfilade judges the token and the ACL of each request; nginx judges nothing. \
             {rounds} rounds; in each round Enfilade, Apache and nginx are measured one after the other. The value is the mean of the {rounds} ratios"
        ),
    )]
}

/// Measures all servers, and the loop without a server.
pub(super) fn run(report: &mut Report, size: &Size, place: &Path) -> Result<(), Failure> {
    std::fs::create_dir(place)?;
    let servers = Servers::start(report, false, place)?;
    let floor = Floor::start(place, &PAGE.below(&place.join("files")))?;
    let mut all = vec![(&floor.measured, Samples::default())];
    all.extend(servers.measured.iter().map(|server| (server, Samples::default())));
    for (server, _) in &all {
        // The server reads the file, and remembers the token.
        turn(server, size.connections, size.requests / 10)?;
    }
    for round in 0..size.rounds {
        eprintln!("{WHAT}: round {} of {}", round + 1, size.rounds);
        for (server, cpu) in &mut all {
            cpu.push(turn(server, size.connections, size.requests)?);
        }
        // The next round begins with another server.
        all.rotate_left(1);
    }
    tell(report, size, &all);
    Ok(())
}

/// The CPU of each request, in microseconds.
fn turn(server: &Measured, connections: usize, requests: u64) -> Result<f64, Failure> {
    let name = server.peer.name;
    let mut lines: Vec<Line> = line::open(server, Protocol::Http2, PAGE, connections)?;
    let before = (server.peer.cpu)()?;
    planned::one_after_the_other(&mut lines, requests).map_err(|why| format!("{name}: {why}"))?;
    Ok(((server.peer.cpu)()? - before) / requests as f64 * 1e6)
}

fn tell(report: &mut Report, size: &Size, all: &[(&Measured, Samples)]) {
    let n = size.connections as u64;
    let of = |name: &str| all.iter().find(|(server, _)| server.peer.name == name).map(|(_, cpu)| cpu);
    let (Some(floor), Some(ours)) = (of(LoopProcess::NAME), of("Enfilade")) else { return };
    let floor = report.middle(&format!("{WHAT}, {}", LoopProcess::NAME), n, floor, "µs");
    for (peer, goal) in [("nginx", Some("busy-http2")), ("Apache", None)] {
        if let Some(theirs) = of(peer) {
            let what = match peer {
                "nginx" => WHAT.to_owned(),
                peer => format!("{WHAT}, compared with {peer}"),
            };
            report
                .compare(goal, Paired { what, n, unit: "µs", ours, peer, theirs, floor: Some(floor.value) });
        }
    }
}
