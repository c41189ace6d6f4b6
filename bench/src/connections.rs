//! Many active connections at the same time: each one sends a GET of a small file from time to time, so that the total rate is the same with each number
//! of connections. The latency counts from the planned time of a request.

mod exchange;
mod http1;
mod http2;
mod line;
mod nginx;
mod planned;
mod rounds;
mod servers;

use crate::Failure;
use crate::goals::Goal;
use crate::report::Report;
use crate::scratch::Scratch;
use line::Protocol;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const FILE_BYTES: usize = 4_096;
/// The number of requests per second of all connections together, far fewer than a server can answer.
const EACH_SECOND: u64 = 2_000;
/// The open files of each process. Enfilade uses at most nine tenths of its limit, less 256, for connections.
const DESCRIPTORS: u64 = 16_384;
/// Clients wait for their turn to send. No server ends a connection meanwhile.
const IDLE_SECONDS: u64 = 120;

/// The amounts of work.
struct Size {
    /// The numbers of connections. The goals are for the last one.
    connections: [usize; 2],
    /// The length of a turn.
    seconds: u64,
    rounds: usize,
    rounds_of_http2: usize,
}

const SIZE: Size = Size { connections: [1_000, 10_000], seconds: 10, rounds: 7, rounds_of_http2: 3 };
const SMALL: Size = Size { connections: [50, 300], seconds: 1, rounds: 2, rounds_of_http2: 1 };

pub(crate) fn goals() -> Vec<Goal> {
    let Size { connections: [_, most], seconds, rounds, .. } = SIZE;
    let workload = format!(
        "HTTP/1.1 without TLS: {most} open connections, each in its turn sends a GET of {FILE_BYTES} bytes, {EACH_SECOND} a second in all, at planned \
         times. {rounds} rounds of {seconds} s to each server by turns: Enfilade, Apache with event workers, nginx"
    );
    vec![
        Goal::new(
            "p99-10000",
            1.0,
            "times",
            "p99 of a GET on one of many connections, divided by that of the better one of Apache and nginx",
            format!("{workload}. The mean of the quotients of a round"),
        ),
        Goal::new(
            "memory-10000",
            64.0,
            "KiB",
            "resident memory of each of many connections",
            format!(
                "{workload}. Enfilade's resident memory at the end of a turn, the largest one of all turns, minus that before the first turn, divided by the \
                 number of connections"
            ),
        ),
    ]
}

pub(crate) fn run(report: &mut Report, small: bool) -> Result<(), Failure> {
    let size = if small { SMALL } else { SIZE };
    raise_descriptors()?;
    let scratch = Scratch::new("connections")?;
    for protocol in [Protocol::Http1, Protocol::Http2] {
        for connections in size.connections {
            // The servers are started anew, so that the memory is that of these connections.
            let place = scratch.path().join(format!("{}-{connections}", protocol.place()));
            std::fs::create_dir(&place)?;
            rounds::run(report, &size, protocol, connections, &place)?;
        }
    }
    Ok(())
}

/// Lets this process, and the servers that it starts, open a file for each connection.
fn raise_descriptors() -> Result<(), Failure> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= DESCRIPTORS) {
        return Ok(());
    }
    let maximum = maximum.map(|maximum| maximum.max(DESCRIPTORS));
    setrlimit(Resource::Nofile, Rlimit { current: Some(DESCRIPTORS), maximum })
        .map_err(|why| format!("{DESCRIPTORS} open files are needed: {why}; raise `ulimit -Hn`").into())
}
