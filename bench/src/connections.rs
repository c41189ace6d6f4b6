//! Many active connections at the same time. Each connection sends a GET of a small file from time to time. The total rate is the same with each
//! number of connections. The latency counts from the planned time of a request. [`busy`] measures the CPU of busy servers instead.

mod busy;
mod exchange;
mod floor;
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
use std::path::{Path, PathBuf};

pub(crate) use floor::serve as serve_floor;

/// A file that all servers serve.
#[derive(Clone, Copy)]
struct ServedFile {
    path: &'static str,
    bytes: usize,
}

impl ServedFile {
    /// The path of the file on the disk, in the directory `files`.
    fn below(self, files: &Path) -> PathBuf {
        files.join(self.path.trim_start_matches('/'))
    }
}

/// The file that clients get by the requests at planned times.
const SMALL_FILE: ServedFile = ServedFile { path: "/one", bytes: 4_096 };
/// The file that clients get from busy servers.
const PAGE: ServedFile = ServedFile { path: "/page", bytes: 25_000 };
/// The number of requests per second of all connections together, far fewer than a server can answer.
const EACH_SECOND: u64 = 2_000;
/// The smallest limit of open files for each process. Enfilade uses at most nine tenths of its limit, less 256, for connections.
const DESCRIPTORS: u64 = 16_384;
/// The idle limit of each server. It is longer than the time between two requests on a connection, so no server ends a connection between requests.
const IDLE_SECONDS: u64 = 120;

/// The amounts of work.
struct Size {
    /// The numbers of connections. The goals are for the last number.
    connections: [usize; 2],
    /// The length of a turn.
    seconds: u64,
    rounds: usize,
    rounds_of_http2: usize,
    busy: busy::Size,
}

const SIZE: Size =
    Size { connections: [1_000, 10_000], seconds: 10, rounds: 7, rounds_of_http2: 3, busy: busy::SIZE };
const SMALL: Size =
    Size { connections: [50, 300], seconds: 1, rounds: 2, rounds_of_http2: 1, busy: busy::SMALL };

pub(crate) fn goals() -> Vec<Goal> {
    let Size { connections: [_, most], seconds, rounds, .. } = SIZE;
    let ServedFile { bytes: file_bytes, .. } = SMALL_FILE;
    let workload = format!(
        "HTTP/1.1 without TLS. {most} connections are open. A client sends {EACH_SECOND} GET requests a second in all, for a file of {file_bytes} \
         bytes, at planned times; it uses the connections one after the other. There are {rounds} rounds. In each round Enfilade, Apache with event \
         workers, and nginx are measured one after the other, each for {seconds} s"
    );
    let mut goals = vec![
        Goal::new(
            "p99-10000",
            1.0,
            "times",
            format!(
                "p99 latency of Enfilade for a GET with {most} open connections, divided by p99 latency of the better of Apache and nginx"
            ),
            format!(
                "{workload}. A latency counts from the planned time of the request. Each measurement has a p99. The better one of Apache and nginx \
                 has the lower median of its p99. The value is the mean of the {rounds} ratios"
            ),
        ),
        Goal::new(
            "memory-10000",
            64.0,
            "KiB",
            format!("resident memory of Enfilade for each of {most} open connections"),
            format!(
                "{workload}. Enfilade's resident memory is read before its first measurement and at the end of each. The first value is subtracted \
                 from the largest value, and the difference is divided by the number of connections"
            ),
        ),
    ];
    goals.extend(busy::goals());
    goals
}

pub(crate) fn run(report: &mut Report, small: bool) -> Result<(), Failure> {
    let size = if small { SMALL } else { SIZE };
    raise_descriptors()?;
    let scratch = Scratch::new("connections")?;
    for protocol in [Protocol::Http1, Protocol::Http2] {
        for connections in size.connections {
            // The servers are started again, so that their memory contains nothing of earlier connections.
            let place = scratch.path().join(format!("{}-{connections}", protocol.place()));
            std::fs::create_dir(&place)?;
            rounds::run(report, &size, protocol, connections, &place)?;
        }
    }
    busy::run(report, &size.busy, &scratch.path().join("busy"))
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
