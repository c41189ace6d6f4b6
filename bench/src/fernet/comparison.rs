//! The cost of a validation by Keystone and by Enfilade, measured in turns with the same catalog and the same load.

use super::cloud::SERVICES;
use super::http;
use crate::Failure;
use crate::goals::Goal;
use crate::peers::keystone::Keystone;
use crate::report::{Paired, Report};
use crate::samples::Samples;
use crate::scratch::Scratch;
use crate::served::Https;
use crate::stopwatch::now;

const PAIRS: usize = 15;
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
        "CPU of a validation, divided by that of Keystone's own processes",
        workload,
    )]
}

pub(crate) fn run(report: &mut Report, small: bool) -> Result<(), Failure> {
    let scratch = Scratch::new("with-keystone")?;
    eprintln!("starting Keystone on a database of its own");
    let keystone = Keystone::start(&scratch)?;
    keystone.tell(report);
    let theirs = Https::new(keystone.address, &keystone.certificate)?;
    let validation = |[asker, subject]: [String; 2]| {
        let headers = [("X-Auth-Token", asker.as_str()), ("X-Subject-Token", &subject)];
        vec![http::request("/v3/auth/tokens", &headers); CONNECTIONS]
    };
    let scale = if small { 10 } else { 1 };
    let (their_each, our_each) = (EACH.0 / scale, EACH.1 / scale);
    // Returns the CPU microseconds of Keystone's processes, those of its database and memcached, and the requests per second.
    let ask_them = |asked: &[Vec<u8>]| -> Result<[f64; 3], Failure> {
        let count = (their_each * CONNECTIONS) as f64;
        let (began, before) = (now(), keystone.cpu()?);
        theirs.load_own(asked, their_each)?;
        let after = keystone.cpu()?;
        let each = |before: f64, after: f64| (after - before) / count * 1e6;
        Ok([each(before.0, after.0), each(before.1, after.1), count / began.elapsed().as_secs_f64()])
    };
    // First measures Keystone with a small catalog, as in an earlier measurement, to check that this Keystone is set up as well as that one.
    let few = validation(keystone.furnish(0..1)?);
    theirs.load_own(&few, 50)?;
    let [with_few, ..] = ask_them(&few)?;
    report.once("a validation by Keystone, CPU of its own processes", 3, with_few, "µs");
    let asked = validation(keystone.furnish(1..SERVICES)?);
    theirs.load_own(&asked, 50)?;
    let served = http::serve(&scratch, 100, 0, |_| Ok(()))?;
    let ours = vec![served.validate.first().cloned().unwrap_or_default(); CONNECTIONS];
    served.server.https.load_own(&ours, 500)?;
    let mut samples: [Samples; 5] = std::array::from_fn(|_| Samples::default());
    let [cpu, behind, rate, our_cpu, our_rate] = &mut samples;
    for pair in 0..PAIRS {
        let [their, their_behind, their_rate] = ask_them(&asked)?;
        cpu.push(their);
        behind.push(their_behind);
        rate.push(their_rate);
        let count = (our_each * CONNECTIONS) as f64;
        let (began, before) = (now(), served.server.cpu_nanos()?);
        served.server.https.load_own(&ours, our_each)?;
        our_rate.push(count / began.elapsed().as_secs_f64());
        let our = (served.server.cpu_nanos()? - before) / count / 1e3;
        our_cpu.push(our);
        eprintln!("pair {} of {PAIRS}: Keystone {their:.0} µs, ours {our:.1} µs", pair + 1);
    }
    let endpoints = SERVICES * 3;
    report.compare(
        Some("keystone"),
        Paired {
            what: "a validation over TLS with keep-alive, CPU of its own processes".to_owned(),
            n: endpoints,
            unit: "µs",
            ours: our_cpu,
            peer: "Keystone",
            theirs: cpu,
            floor: None,
        },
    );
    report.middle("the same, CPU of Keystone's database and memcached", endpoints, behind, "µs");
    report.middle("validations by Keystone", endpoints, rate, "requests/s");
    report.middle("validations by Enfilade", endpoints, our_rate, "requests/s");
    Ok(())
}
