//! Measures how much CPU the limits of the process (`[privileges] landlock` and `seccomp`) cost a request.

use crate::Failure;
use crate::goals::Goal;
use crate::report::Report;
use crate::samples::Samples;
use crate::scratch::Scratch;
use crate::served::{Server, request_as};
use crate::stores::{self, Store, TOKENS_EACH};
use std::path::Path;
use std::process::Command;

const PAIRS: usize = 75;
const CONNECTIONS: usize = 4;
/// The number of requests on each connection in a turn.
const EACH: usize = 5_000;
const TOKENS: u64 = 100;
/// The size of the file, in bytes.
const FILE_BYTES: usize = 4_096;
const OFF: [(&str, &str); 2] =
    [("ENFILADE_PRIVILEGES__LANDLOCK", "false"), ("ENFILADE_PRIVILEGES__SECCOMP", "false")];

/// The measured requests: the goal, its limit, the name of the rows, and the path.
const REQUESTS: [(&str, f64, &str, &str); 2] = [
    ("confined-request", 1.05, "a request that opens no file", "/whoami"),
    ("confined-file", 1.10, "a download of a small file", "/dav/main/file"),
];

pub(crate) fn goals() -> Vec<Goal> {
    let goal = |(id, limit, what, path): (&'static str, f64, &str, &str)| {
        let work = format!(
            "Two servers on one machine, with equal data: one with Landlock and seccomp, one with neither. They get `{path}` over TLS alternately, {PAIRS} times \
             each; the order changes each time. Each time, {CONNECTIONS} connections send {EACH} requests each, one after the other; each connection has \
             one token. The file has {FILE_BYTES} bytes. The value is the mean of the {PAIRS} ratios"
        );
        let what = format!(
            "CPU time of {what} with the limits of the process, divided by its CPU time without them"
        );
        Goal::new(id, limit, "times", what, work)
    };
    REQUESTS.map(goal).into()
}

pub(crate) fn run(report: &mut Report, small: bool) -> Result<(), Failure> {
    let each = if small { 100 } else { EACH };
    let scratch = Scratch::new("confinement")?;
    let of = |name: &str, environment: &[(&str, &str)]| {
        let data = scratch.path().join(name);
        prepare(&data, &scratch.path().join("facts"))?;
        Server::start(&data, environment)
    };
    let (confined, free) = (of("confined", &[])?, of("free", &OFF)?);
    for server in [&confined, &free] {
        server.settle()?;
    }
    for (goal, _, name, path) in REQUESTS {
        let requests: Vec<Vec<u8>> = (0..CONNECTIONS as u64)
            .map(|n| {
                let tokenid = format!("user{}@local!t{}", n / TOKENS_EACH, n % TOKENS_EACH);
                request_as(path, &tokenid, &stores::secret_of(n))
            })
            .collect();
        let turn = |server: &Server| -> Result<f64, Failure> {
            let before = server.cpu_nanos()?;
            server.https.load_own(&requests, each)?;
            Ok((server.cpu_nanos()? - before) / (each * CONNECTIONS) as f64 / 1e3)
        };
        // Each token is used before the measurement, so that the servers remember all tokens.
        for server in [&confined, &free] {
            turn(server)?;
        }
        let (mut of_confined, mut of_free) = (Samples::default(), Samples::default());
        for pair in 0..PAIRS {
            // The order of the two servers alternates.
            let (first, second) = match pair % 2 {
                0 => (turn(&confined)?, turn(&free)?),
                _ => {
                    let of_free = turn(&free)?;
                    (turn(&confined)?, of_free)
                }
            };
            of_confined.push(first);
            of_free.push(second);
            eprintln!(
                "{path}, pair {} of {PAIRS}: with limits {first:.2} µs, without {second:.2} µs",
                pair + 1
            );
        }
        report.middle(&format!("{name}, with the limits, server CPU"), TOKENS, &of_confined, "µs");
        report.middle(&format!("{name}, without the limits, server CPU"), TOKENS, &of_free, "µs");
        report.goal(goal, of_confined.over(&of_free).mean());
    }
    Ok(())
}

/// Makes a data directory with tokens, and with a file that the tokens of the first user may read.
fn prepare(data: &Path, facts: &Path) -> Result<(), Failure> {
    drop(Store::generated(facts, TOKENS)?);
    stores::data_directory(data, facts)?;
    let program = std::env::current_exe()?.with_file_name("enfilade");
    for words in [
        &["init"][..],
        &["role", "assign", "--path", "/datastore/main", "--auth-id", "user0@local", "DatastoreReader"],
    ] {
        let done = Command::new(&program).arg("--data").arg(data).args(words).output()?;
        if !done.status.success() {
            return Err(String::from_utf8_lossy(&done.stderr).into_owned().into());
        }
    }
    Ok(std::fs::write(data.join("datastores/main/file"), vec![b'x'; FILE_BYTES])?)
}
