//! A spraying client connects to one new name after another, so the server must read and parse a key each time. This module measures how much these
//! reads delay probing clients, which connect to other names. The delay is compared with the delay at the same rate of handshakes for names whose
//! keys are in memory.

use super::handshakes::{client, shake};
use super::make;
use crate::Failure;
use crate::arrivals::{Schedule, latencies};
use crate::goals::Goal;
use crate::report::Report;
use crate::samples::{Percentile, Samples};
use crate::scratch::Scratch;
use crate::served::Server;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// The number of names whose keys are in memory.
const WARM: usize = 64;
/// The smallest number of rounds. A round has two turns. In the "warm" turn, the spraying clients connect to names whose keys are in memory. In the
/// "cold" turn, they connect to new names.
const ROUNDS_MIN: usize = 8;
const ROUNDS_MAX: usize = 80;
const TURN: Duration = Duration::from_secs(4);
/// The time between two handshakes of the spraying clients together.
const SPRAY_EVERY: Duration = Duration::from_millis(4);
const SPRAYERS: usize = 4;
/// The time between two handshakes of the probing clients together. The latency of these handshakes is measured.
const PROBE_EVERY: Duration = Duration::from_millis(5);
const PROBERS: usize = 4;

pub(super) fn goals() -> Vec<Goal> {
    let workload = format!(
        "The server has {} certificates as `cargo xtask certs` makes them. A name is known if the key of its certificate is in the server's memory: \
         {WARM} names are known from the beginning. A first group of {SPRAYERS} clients makes a handshake every {} ms. A second group of {PROBERS} \
         clients makes a handshake every {} ms for one of the {WARM} known names. All handshakes begin at planned times. The latency of each \
         handshake of the second group is measured from its planned time. A round has two parts of {} s: in one part the first group uses the {WARM} \
         known names, in the other part it uses new names, each name once. There are {ROUNDS_MIN} to {ROUNDS_MAX} rounds, until each name was used. \
         The p99 of all latencies in the parts with new names is divided by the p99 of all latencies in the parts with known names",
        super::FULL,
        SPRAY_EVERY.as_millis(),
        PROBE_EVERY.as_millis(),
        TURN.as_secs()
    );
    vec![Goal::new(
        "spray-open",
        2.0,
        "times",
        "p99 latency of handshakes for known names while other clients use new names, divided by the p99 latency while the other clients also use known names",
        workload,
    )]
}

pub(super) fn run(
    report: &mut Report,
    directory: &Path,
    scratch: &Scratch,
    count: usize,
) -> Result<(), Failure> {
    let data = scratch.path().join("sprayed");
    drop(Server::start(&data, &[])?);
    let with = directory.to_string_lossy();
    let environment = [("ENFILADE_TLS__CHECK", "lazy"), ("ENFILADE_TLS__CERTIFICATES", &*with)];
    let server = Server::start_trusting(&data, &environment, &data.join("tls/localhost.crt"))?;
    let address = server.https.address();
    let config = client(false)?;
    let name = |n: usize| make::names_of(n).pop().unwrap_or_default().replace('*', "x");
    for n in 0..WARM {
        shake(address, &config, &name(n))?;
    }
    let next = AtomicUsize::new(WARM);
    // The step and the number of names have no common divisor, so that the used names are spread evenly and each is used once.
    let cold = || name(WARM + next.fetch_add(1, Ordering::Relaxed) * 7_919 % (count - WARM));
    let asked = || next.load(Ordering::Relaxed) - WARM;
    let warm_asked = AtomicUsize::new(0);
    let turn = |is_cold: bool| -> Result<Samples, Failure> {
        let is_over = AtomicBool::new(false);
        let schedule = Schedule::new(SPRAY_EVERY, u64::MAX);
        std::thread::scope(|scope| {
            for _ in 0..SPRAYERS {
                scope.spawn(|| {
                    while let Some((n, _)) = schedule.next() {
                        if is_over.load(Ordering::Relaxed) {
                            break;
                        }
                        let name = if is_cold {
                            cold()
                        } else {
                            warm_asked.fetch_add(1, Ordering::Relaxed);
                            name(n as usize % WARM)
                        };
                        // A failed handshake of a spraying client is ignored. A failed handshake of a probing client ends the benchmark with an
                        // error.
                        let _ = shake(address, &config, &name);
                    }
                });
            }
            let probes = (TURN.as_millis() / PROBE_EVERY.as_millis()) as u64;
            let probed = latencies(PROBE_EVERY, probes, vec![(); PROBERS], |(), n| {
                shake(address, &config, &name(n as usize % WARM)).map(drop).map_err(|why| why.to_string())
            });
            is_over.store(true, Ordering::Relaxed);
            Ok(probed?)
        })
    };
    let (mut warm, mut sprayed) = (Samples::default(), Samples::default());
    let mut rounds = 0;
    while rounds < ROUNDS_MIN || asked() < count - WARM && rounds < ROUNDS_MAX {
        // Each round has a warm and a cold turn. Their order alternates.
        for is_cold in [rounds % 2 == 0, rounds % 2 != 0] {
            let samples = turn(is_cold)?;
            if is_cold {
                sprayed.extend(&samples)
            } else {
                warm.extend(&samples)
            };
        }
        rounds += 1;
        eprintln!("{} of {} new names were used", asked().min(count - WARM), count - WARM);
    }
    let asked = [(warm_asked.into_inner(), "warm"), (next.into_inner() - WARM, "cold")];
    tell(report, count, rounds, asked, [&warm, &sprayed]);
    Ok(())
}

/// Reports the number of new names that the spraying clients used, the rate of their handshakes, and the latencies of the probing clients.
fn tell(
    report: &mut Report,
    count: usize,
    rounds: usize,
    asked: [(usize, &str); 2],
    [warm, sprayed]: [&Samples; 2],
) {
    let cold = asked.map(|(asked, _)| asked)[1].min(count - WARM);
    let seconds = rounds as f64 * TURN.as_secs_f64();
    report.once("names that were sprayed, each once", count as u64, cold as f64, "names");
    for (asked, what) in asked {
        report.once(
            &format!("handshakes to {what} names while others are timed"),
            count as u64,
            asked as f64 / seconds,
            "handshakes/s",
        );
    }
    for (samples, what) in [(warm, "known names"), (sprayed, "new names")] {
        report.tail(
            &format!("a handshake to a known name while others go to {what}"),
            count as u64,
            samples,
            "ms",
        );
    }
    if let (Ok(sprayed), Ok(warm)) = (sprayed.percentile(Percentile::P99), warm.percentile(Percentile::P99)) {
        report.goal("spray-open", sprayed.over(warm));
    }
}
