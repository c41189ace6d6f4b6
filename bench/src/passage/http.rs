//! A request over TLS with a door and without one: what it costs the server.

use crate::Failure;
use crate::report::Report;
use crate::scratch::Scratch;
use crate::served::{Server, request_as};
use crate::stopwatch::Samples;
use crate::stores::{self, TOKENS_EACH};

const PAIRS: usize = 15;
const CONNECTIONS: usize = 4;

pub(crate) fn run(report: &mut Report, scratch: &Scratch, tokens: u64, small: bool) -> Result<(), Failure> {
    let each = if small { 1_000 } else { 25_000 };
    let data = scratch.path().join("data");
    stores::data_directory(&data, &scratch.path().join("facts"))?;
    let server = Server::start(&data, &[])?;
    // The same request to both, credential and all, so that what differs is the door; without a door nobody looks at it.
    let to = |path: &str| -> Vec<Vec<u8>> {
        let tokenid = |n| format!("user{}@local!t{}", n / TOKENS_EACH, n % TOKENS_EACH);
        (0..tokens).map(|n| request_as(path, &tokenid(n), &stores::secret_of(n))).collect()
    };
    let (open, guarded) = (to("/.well-known/enfilade"), to("/whoami"));
    // Each token once, so that all of them are live.
    server.load(&guarded, CONNECTIONS, guarded.len() / CONNECTIONS + 1)?;
    server.load(&open, CONNECTIONS, each)?;
    let (mut without, mut with, mut ratios) = (Samples::default(), Samples::default(), Samples::default());
    for pair in 0..PAIRS {
        let turn = |requests: &[Vec<u8>]| -> Result<f64, Failure> {
            let before = server.cpu_nanos();
            server.load(requests, CONNECTIONS, each)?;
            Ok((server.cpu_nanos() - before) / (each * CONNECTIONS) as f64 / 1e3)
        };
        // Whoever is first is not always the same one.
        let (open, guarded) = match pair % 2 {
            0 => (turn(&open)?, turn(&guarded)?),
            _ => {
                let guarded = turn(&guarded)?;
                (turn(&open)?, guarded)
            }
        };
        without.push(open);
        with.push(guarded);
        ratios.push(guarded / open);
        eprintln!("pair {} of {PAIRS}: {open:.2} µs, {guarded:.2} µs", pair + 1);
    }
    report.middle("over TLS, /.well-known/enfilade, server CPU", tokens, &without, "µs");
    report.middle("over TLS, /whoami with a token, server CPU", tokens, &with, "µs");
    let (mean, half) = ratios.mean();
    report.once("over TLS, with a door to without one, mean", tokens, mean, "times");
    report.once("the same, half of the 95 % interval", tokens, half, "times");
    report.goal(
        "door",
        "server CPU of /whoami to that of /.well-known/enfilade, upper end",
        mean + half,
        1.1,
        "times",
    );
    Ok(())
}
