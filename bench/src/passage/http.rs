//! The server's cost of a request over TLS, with and without the doors.

use super::TOKENS;
use crate::Failure;
use crate::goals::Goal;
use crate::report::Report;
use crate::samples::Samples;
use crate::scratch::Scratch;
use crate::served::{Server, request_as};
use crate::stores::{self, TOKENS_EACH};

const PAIRS: usize = 15;
const CONNECTIONS: usize = 4;
/// The number of requests on each connection in a turn.
const EACH: usize = 25_000;

pub(super) fn goals() -> Vec<Goal> {
    let workload = |credential: &str| {
        format!(
            "The server has {TOKENS} API tokens with generated secrets, and has verified each of them before. `/whoami` needs a token; \
             `/.well-known/enfilade` gets one, too, but ignores it. Both paths are requested alternately over TLS, {PAIRS} times each; the order \
             changes each time. Each time, {CONNECTIONS} connections send {EACH} requests each, one after the other. {credential}. The value is the \
             mean of the {PAIRS} ratios"
        )
    };
    let what = |token: &str| {
        format!(
            "CPU time of `/whoami`, divided by CPU time of `/.well-known/enfilade` ({token} in each request)"
        )
    };
    let (same, another) = (
        "Each connection has one token for all of its requests",
        "Each request has another token than the request before it",
    );
    vec![
        Goal::new("door", 1.1, "times", what("the same token"), workload(same)),
        Goal::new("door-another", 1.1, "times", what("another token"), workload(another)),
    ]
}

/// Measures the server's cost of a request over TLS, with and without the doors. `in_turn` is the time of door 2 in process in nanoseconds, if no
/// call uses the token of the previous call.
pub(crate) fn run(
    report: &mut Report,
    scratch: &Scratch,
    tokens: u64,
    small: bool,
    in_turn: f64,
) -> Result<(), Failure> {
    let each = if small { 1_000 } else { EACH };
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
    pairs(report, "door", &server, tokens, each, "a token", &load_own)?;
    let load = |door: bool| server.load(if door { &guarded } else { &open }, CONNECTIONS, each);
    let without = pairs(report, "door-another", &server, tokens, each, "each token in turn", &load)?;
    let floor = without + in_turn / 1e3;
    report.once(
        "over TLS with each token in turn, without a door, and door 2 in process",
        tokens,
        floor,
        "µs",
    );
    Ok(())
}

/// Measures the cost with the doors and the cost without them. Returns the cost without them, in microseconds.
fn pairs(
    report: &mut Report,
    goal: &'static str,
    server: &Server,
    tokens: u64,
    each: usize,
    by: &str,
    load: &dyn Fn(bool) -> Result<(), Failure>,
) -> Result<f64, Failure> {
    let (mut without, mut with) = (Samples::default(), Samples::default());
    for pair in 0..PAIRS {
        let turn = |door: bool| -> Result<f64, Failure> {
            let before = server.cpu_nanos()?;
            load(door)?;
            Ok((server.cpu_nanos()? - before) / (each * CONNECTIONS) as f64 / 1e3)
        };
        // The order of the two measurements alternates.
        let (open, guarded) = match pair % 2 {
            0 => (turn(false)?, turn(true)?),
            _ => {
                let guarded = turn(true)?;
                (turn(false)?, guarded)
            }
        };
        without.push(open);
        with.push(guarded);
        eprintln!("{by}, pair {} of {PAIRS}: {open:.2} µs, with doors {guarded:.2} µs", pair + 1);
    }
    let of = |path: &str| format!("over TLS with {by}, {path}, server CPU");
    let without_doors = report.middle(&of("/.well-known/enfilade"), tokens, &without, "µs");
    report.middle(&of("/whoami"), tokens, &with, "µs");
    let ratio = with.over(&without).mean();
    report.estimate(&format!("over TLS with {by}, with a door to without one"), tokens, ratio, "times");
    report.goal(goal, ratio);
    Ok(without_doors.value)
}
