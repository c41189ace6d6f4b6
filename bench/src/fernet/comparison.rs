//! The cost of a validation by Keystone and by Enfilade, measured in turns with the same catalog and the same load.

use super::cloud::SERVICES;
use super::http;
use crate::Failure;
use crate::goals::Goal;
use crate::peers::keystone::Keystone;
use crate::report::{Paired, Report};
use crate::samples::Samples;
use crate::scratch::Scratch;
use crate::stopwatch::now;

const PAIRS: usize = 15;
/// The number of pairs with a catalog of one service.
const FEW_PAIRS: usize = 7;
const CONNECTIONS: usize = 4;
/// The number of validations on each connection: to Keystone, and to Enfilade.
const EACH: (usize, usize) = (200, 10_000);

pub(crate) fn goals() -> Vec<Goal> {
    let (theirs, ours) = EACH;
    let workload = format!(
        "Keystone with MariaDB and memcached, and the real server, both over TLS with a catalog of {} endpoints. {PAIRS} pairs of turns; \
         {CONNECTIONS} connections repeat one validation each, {theirs} times to Keystone and {ours} times to Enfilade. The CPU of Keystone's \
         database and memcached does not count",
        SERVICES * 3
    );
    vec![Goal::new(
        "keystone",
        1.0 / 150.0,
        "times",
        "CPU time of Enfilade to validate a session's token, divided by CPU time of Keystone's own processes",
        workload,
    )]
}

/// The samples of Keystone and of Enfilade with one catalog.
#[derive(Default)]
struct Turns {
    /// CPU microseconds of a validation, of Keystone's own processes.
    theirs: Samples,
    /// CPU microseconds of a validation, of the database and the memcached that Keystone uses.
    behind: Samples,
    their_rate: Samples,
    ours: Samples,
    our_rate: Samples,
    /// The number of lookups in memcached per validation that found an entry, and the number of lookups that found none.
    hits: Samples,
    misses: Samples,
}

pub(crate) fn run(report: &mut Report, small: bool) -> Result<(), Failure> {
    let scratch = Scratch::new("with-keystone")?;
    eprintln!("starting Keystone on a database of its own");
    let keystone = Keystone::start(&scratch)?;
    keystone.tell(report);
    let scale = if small { 10 } else { 1 };
    for (from, services, pairs) in [(0, 1, FEW_PAIRS), (1, SERVICES, PAIRS)] {
        let asked = keystone.furnish(from..services)?;
        let turns = take_turns(&scratch, &keystone, asked, services, pairs, scale)?;
        tell(report, services * 3, &turns);
    }
    Ok(())
}

/// Sends the same validations to Keystone and to Enfilade, in turns.
fn take_turns(
    scratch: &Scratch,
    keystone: &Keystone,
    [asker, subject]: [String; 2],
    services: u64,
    pairs: usize,
    scale: usize,
) -> Result<Turns, Failure> {
    let (theirs, mut turns) = (keystone.https()?, Turns::default());
    let headers = [("X-Auth-Token", asker.as_str()), ("X-Subject-Token", &subject)];
    let asked = vec![http::request("/v3/auth/tokens", &headers); CONNECTIONS];
    let (their_each, our_each) = (EACH.0 / scale, EACH.1 / scale);
    theirs.load_own(&asked, 50)?;
    let served = http::serve_catalog(scratch, 100, services, 0, |_| Ok(()))?;
    let ours = vec![served.validate.first().cloned().unwrap_or_default(); CONNECTIONS];
    served.server.https.load_own(&ours, 500)?;
    for pair in 0..pairs {
        let count = (their_each * CONNECTIONS) as f64;
        let (began, before, cache) = (now(), keystone.cpu()?, keystone.cache()?);
        theirs.load_own(&asked, their_each)?;
        turns.their_rate.push(count / began.elapsed().as_secs_f64());
        let (after, cache_after) = (keystone.cpu()?, keystone.cache()?);
        let their = (after.0 - before.0) / count * 1e6;
        turns.theirs.push(their);
        turns.behind.push((after.1 - before.1) / count * 1e6);
        turns.hits.push((cache_after.0 - cache.0) as f64 / count);
        turns.misses.push((cache_after.1 - cache.1) as f64 / count);
        let count = (our_each * CONNECTIONS) as f64;
        let (began, before) = (now(), served.server.cpu_nanos()?);
        served.server.https.load_own(&ours, our_each)?;
        turns.our_rate.push(count / began.elapsed().as_secs_f64());
        let our = (served.server.cpu_nanos()? - before) / count / 1e3;
        turns.ours.push(our);
        eprintln!("pair {} of {pairs}: Keystone {their:.0} µs, ours {our:.1} µs", pair + 1);
    }
    Ok(turns)
}

fn tell(report: &mut Report, endpoints: u64, turns: &Turns) {
    report.compare(
        (endpoints == SERVICES * 3).then_some("keystone"),
        Paired {
            what: "a validation over TLS with keep-alive, CPU of its own processes".to_owned(),
            n: endpoints,
            unit: "µs",
            ours: &turns.ours,
            peer: "Keystone",
            theirs: &turns.theirs,
            floor: None,
        },
    );
    report.middle("the same, CPU of Keystone's database and memcached", endpoints, &turns.behind, "µs");
    report.middle("values that Keystone finds in memcached, for each", endpoints, &turns.hits, "values");
    report.middle("values that Keystone does not find there", endpoints, &turns.misses, "values");
    report.middle("validations by Keystone", endpoints, &turns.their_rate, "requests/s");
    report.middle("validations by Enfilade", endpoints, &turns.our_rate, "requests/s");
}
