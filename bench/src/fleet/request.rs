//! Measures the CPU of a request on a member of a fleet, compared with a server that is in no fleet.

use crate::Failure;
use crate::goals::Goal;
use crate::report::Report;
use crate::samples::Samples;
use crate::served::{Server, request_as};
use crate::stores::{self, Store, TOKENS_EACH};
use std::ffi::OsStr;
use std::path::Path;

const PAIRS: usize = 75;
const CONNECTIONS: usize = 4;
/// The number of requests on each connection in a turn.
const EACH: usize = 5_000;
const TOKENS: u64 = 10_000;

pub(super) fn goal() -> Goal {
    let work = format!(
        "Two servers on one machine, each with {TOKENS} API tokens: one alone, one as the only member of a fleet. They get `/whoami` over TLS alternately, {PAIRS} \
         times each; the order changes each time. Each time, {CONNECTIONS} connections send {EACH} requests each, one after the other; each connection has \
         one token. The value is the mean of the {PAIRS} ratios"
    );
    let what = "CPU time of a request on a member of a fleet, divided by its CPU time on a server alone";
    Goal::new("request-pairs", 1.05, "times", what, work)
}

pub(super) fn run(
    report: &mut Report,
    place: &Path,
    addresses: &[String],
    small: bool,
) -> Result<(), Failure> {
    let each = if small { 1_000 } else { EACH };
    let (alone, member) = (place.join("alone"), place.join("member"));
    std::fs::create_dir(place)?;
    for data in [&alone, &member] {
        let facts = place.join("facts");
        drop(Store::generated(&facts, TOKENS)?);
        stores::data_directory(data, &facts)?;
        super::enfilade(data, &[OsStr::new("init")])?;
    }
    super::configure(&member, "a", "/request", addresses)?;
    super::enfilade(&member, &["fleet", "init"].map(OsStr::new))?;
    let (alone, member) = (Server::start(&alone, &[])?, Server::start(&member, &[])?);
    let requests: Vec<Vec<u8>> = (0..CONNECTIONS as u64)
        .map(|n| {
            let tokenid = format!("user{}@local!t{}", n / TOKENS_EACH, n % TOKENS_EACH);
            request_as("/whoami", &tokenid, &stores::secret_of(n))
        })
        .collect();
    let turn = |server: &Server| -> Result<f64, Failure> {
        let before = server.cpu_nanos()?;
        server.https.load_own(&requests, each)?;
        Ok((server.cpu_nanos()? - before) / (each * CONNECTIONS) as f64 / 1e3)
    };
    // Each token is used before the measurement, so that the servers remember all tokens.
    for server in [&alone, &member] {
        server.settle()?;
        turn(server)?;
    }
    let (mut of_alone, mut of_member) = (Samples::default(), Samples::default());
    for pair in 0..PAIRS {
        // The order of the two servers alternates.
        let (first, second) = match pair % 2 {
            0 => (turn(&alone)?, turn(&member)?),
            _ => {
                let of_member = turn(&member)?;
                (turn(&alone)?, of_member)
            }
        };
        of_alone.push(first);
        of_member.push(second);
        eprintln!("pair {} of {PAIRS}: alone {first:.2} µs, member {second:.2} µs", pair + 1);
    }
    report.middle("a request on a server alone, server CPU", TOKENS, &of_alone, "µs");
    report.middle("a request on a member, server CPU", TOKENS, &of_member, "µs");
    report.goal("request-pairs", of_member.over(&of_alone).mean());
    Ok(())
}
