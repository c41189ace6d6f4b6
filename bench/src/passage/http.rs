//! The server's cost of a request over TLS, with and without the doors.

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
    // Both paths get the same request with a credential, so that only the doors differ; the path without doors ignores the credential.
    let to = |path: &str| -> Vec<Vec<u8>> {
        let tokenid = |n| format!("user{}@local!t{}", n / TOKENS_EACH, n % TOKENS_EACH);
        (0..tokens).map(|n| request_as(path, &tokenid(n), &stores::secret_of(n))).collect()
    };
    let (open, guarded) = (to("/.well-known/enfilade"), to("/whoami"));
    // Each token is used once, so that the server knows all of them.
    server.load(&guarded, CONNECTIONS, guarded.len() / CONNECTIONS + 1)?;
    server.load(&open, CONNECTIONS, each)?;
    // Real clients repeat their own token. A different token in each request is the worst case.
    let own = |requests: &[Vec<u8>]| -> Vec<Vec<u8>> {
        requests.iter().step_by(requests.len() / CONNECTIONS).take(CONNECTIONS).cloned().collect()
    };
    let (open_own, guarded_own) = (own(&open), own(&guarded));
    let load_own = |door: bool| server.https.load_own(if door { &guarded_own } else { &open_own }, each);
    let door = pairs(report, &server, tokens, each, "a token", &load_own)?;
    let what = "server CPU of /whoami to that of /.well-known/enfilade, upper end";
    report.goal("door", what, door, 1.1, "times");
    let load = |door: bool| server.load(if door { &guarded } else { &open }, CONNECTIONS, each);
    pairs(report, &server, tokens, each, "each token in turn", &load)?;
    Ok(())
}

/// Returns the cost with the doors divided by the cost without them: the upper end of the 95 % confidence interval.
fn pairs(
    report: &mut Report,
    server: &Server,
    tokens: u64,
    each: usize,
    by: &str,
    load: &dyn Fn(bool) -> Result<(), Failure>,
) -> Result<f64, Failure> {
    let (mut without, mut with, mut ratios) = (Samples::default(), Samples::default(), Samples::default());
    for pair in 0..PAIRS {
        let turn = |door: bool| -> Result<f64, Failure> {
            let before = server.cpu_nanos();
            load(door)?;
            Ok((server.cpu_nanos() - before) / (each * CONNECTIONS) as f64 / 1e3)
        };
        // The order of the two alternates.
        let (open, guarded) = match pair % 2 {
            0 => (turn(false)?, turn(true)?),
            _ => {
                let guarded = turn(true)?;
                (turn(false)?, guarded)
            }
        };
        without.push(open);
        with.push(guarded);
        ratios.push(guarded / open);
        eprintln!("{by}, pair {} of {PAIRS}: {open:.2} µs, {guarded:.2} µs", pair + 1);
    }
    report.middle(&format!("over TLS with {by}, /.well-known/enfilade, server CPU"), tokens, &without, "µs");
    report.middle(&format!("over TLS with {by}, /whoami, server CPU"), tokens, &with, "µs");
    let (mean, half) = ratios.mean();
    report.once(&format!("over TLS with {by}, with a door to without one, mean"), tokens, mean, "times");
    report.once("the same, half of the 95 % interval", tokens, half, "times");
    Ok(mean + half)
}
