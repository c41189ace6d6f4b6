//! If a client connects to one new name after another, the server must read and parse a key each time. This module measures how this delays clients
//! of other names, compared with the same rate of handshakes for names whose keys are in memory.

use super::handshakes::{client, shake};
use super::make;
use crate::Failure;
use crate::report::Report;
use crate::scratch::Scratch;
use crate::served::Server;
use crate::stopwatch::{Samples, now, pause};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// The number of names whose keys are in memory.
const WARM: usize = 64;
/// The smallest number of rounds. A round has two turns: in one the spraying clients connect to names whose keys are in memory ("warm"), in the other
/// to new names ("cold").
const ROUNDS_MIN: usize = 8;
const ROUNDS_MAX: usize = 80;
const TURN: Duration = Duration::from_secs(4);
/// The time between two handshakes of one of the two spraying clients.
const SPRAY_EVERY: Duration = Duration::from_millis(4);
const PROBE_EVERY: Duration = Duration::from_millis(10);

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
        std::thread::scope(|scope| {
            for sprayer in 0..2 {
                let (is_over, cold, config, warm_asked) = (&is_over, &cold, &config, &warm_asked);
                scope.spawn(move || {
                    let mut n = sprayer;
                    while !is_over.load(Ordering::Relaxed) {
                        let began = now();
                        n += 3;
                        let name = if is_cold {
                            cold()
                        } else {
                            warm_asked.fetch_add(1, Ordering::Relaxed);
                            name(n % WARM)
                        };
                        // Failures here are ignored; those of the probing client are counted.
                        let _ = shake(address, config, &name);
                        pause(SPRAY_EVERY.saturating_sub(began.elapsed()));
                    }
                });
            }
            let (mut samples, whole) = (Samples::default(), now());
            let probed = (|| {
                for n in 0.. {
                    if whole.elapsed() > TURN {
                        break;
                    }
                    let began = now();
                    shake(address, &config, &name(n % WARM))?;
                    samples.push(began.elapsed().as_secs_f64() * 1e3);
                    pause(PROBE_EVERY.saturating_sub(began.elapsed()));
                }
                Ok::<_, Failure>(())
            })();
            is_over.store(true, Ordering::Relaxed);
            probed.map(|()| samples)
        })
    };
    let (mut warm, mut sprayed) = (Samples::default(), Samples::default());
    let mut rounds = 0;
    while rounds < ROUNDS_MIN || asked() < count - WARM && rounds < ROUNDS_MAX {
        // Each round has a warm and a cold turn; which one is first alternates.
        for is_cold in [rounds % 2 == 0, rounds % 2 != 0] {
            let samples = turn(is_cold)?;
            if is_cold {
                sprayed.extend(&samples)
            } else {
                warm.extend(&samples)
            };
        }
        rounds += 1;
        eprintln!("{} of {} cold names were asked", asked().min(count - WARM), count - WARM);
    }
    let asked = [(warm_asked.into_inner(), "warm"), (next.into_inner() - WARM, "cold")];
    tell(report, count, rounds, asked, [&warm, &sprayed]);
    Ok(())
}

/// Reports the number of sprayed names, the rate of handshakes, and the times of the probes.
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
            "a second",
        );
    }
    for (samples, what) in
        [(warm, "names whose keys are there"), (sprayed, "names that were not requested before")]
    {
        for (at, which) in [(50, "middle"), (99, "99th hundredth")] {
            report.once(
                &format!("a handshake to a warm name while others go to {what}, {which}"),
                count as u64,
                samples.at(at),
                "ms",
            );
        }
    }
    report.goal(
        "spray",
        "99th percentile of handshakes to warm names, while others use cold names, to that while others use warm names",
        sprayed.at(99) / warm.at(99),
        2.0,
        "times",
    );
}
