//! A flood of wrong secrets, ten times as many as the cores can hash. Measures its effect on known clients, and whether new clients can log in.

use crate::Failure;
use crate::report::Report;
use crate::scratch::Scratch;
use crate::served::{Server, request_as};
use crate::stopwatch::{Samples, now};
use crate::stores::{self, Store, TOKENS_EACH, secret_of};
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The number of addresses that send the flood.
const FLOODING: u8 = 8;
/// The number of new clients per second.
const COLD_EACH_SECOND: u64 = 5;
const SECONDS: u64 = 10;
/// A new client that is admitted later than this counts as late.
const IN_TIME: Duration = Duration::from_secs(1);
/// How long a flooding client waits for a response.
const PATIENCE: Duration = Duration::from_secs(2);
/// The number of requests of known clients per second, far less than the server can answer.
const KNOWN_EACH_SECOND: u64 = 1_000;

pub(crate) fn run(report: &mut Report, small: bool) -> Result<(), Failure> {
    let seconds = if small { 3 } else { SECONDS };
    let tokens = COLD_EACH_SECOND * SECONDS * 4 + 10;
    let hashes = stores::hashed(tokens)?;
    // The time of one hash on this machine, in seconds, from the time of ten hashes.
    let each = {
        let began = now();
        stores::hashed(10)?;
        began.elapsed().as_secs_f64() / 10.0
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let rate = 10.0 * cores / each;
    report.once("hashes all cores could compute", cores as u64, cores / each, "hashes/s");
    for (penalties, name) in [("true", "with penalties"), ("false", "without penalties")] {
        let scratch = Scratch::new("flood")?;
        drop(Store::hashed(&scratch.path().join("facts"), &hashes)?);
        let data = scratch.path().join("data");
        stores::data_directory(&data, &scratch.path().join("facts"))?;
        let server = Server::start(&data, &[("ENFILADE_IDENTITY__PENALTIES", penalties)])?;
        let run = Run { server: &server, seconds, rate, next_cold: AtomicU64::new(10) };
        run.warm()?;
        // Three cases: known clients without the flood, known clients with the flood, and the flood alone.
        let quiet = run.measure(true, false)?;
        let flooded = run.measure(true, true)?;
        let alone = run.measure(false, true)?;
        report.once(&format!("{name}: wrong secrets sent"), u64::from(FLOODING), flooded.sent, "requests/s");
        let known = (flooded.cpu - alone.cpu) / flooded.known;
        let before = quiet.cpu / quiet.known;
        report.once(&format!("{name}: CPU of a known client's request, quiet"), 1, before, "µs");
        report.once(&format!("{name}: CPU of a known client's request, flooded"), 1, known, "µs");
        report.tail(&format!("{name}: a new client, flooded"), COLD_EACH_SECOND, &flooded.cold, "ms");
        let late = 100.0 * (1.0 - flooded.in_time / flooded.cold.len() as f64);
        report.once(
            &format!("{name}: new clients not in after a second, quiet"),
            COLD_EACH_SECOND,
            100.0 * (1.0 - quiet.in_time / quiet.cold.len() as f64),
            "%",
        );
        report.once(
            &format!("{name}: new clients not in after a second, flooded"),
            COLD_EACH_SECOND,
            late,
            "%",
        );
        let grown = (flooded.resident.max(alone.resident) - quiet.resident) / f64::from(1 << 20);
        report.once(&format!("{name}: resident memory more than before the flood"), 1, grown, "MiB");
        if penalties == "true" {
            report.goal(
                "known",
                "CPU of a known client's request, flooded to quiet",
                known / before,
                1.1,
                "times",
            );
            report.goal("cold", "new clients not in after a second, flooded", late, 5.0, "%");
            report.goal("memory", "resident memory more than before the flood", grown, 64.0, "MiB");
        }
    }
    Ok(())
}

struct Run<'s> {
    server: &'s Server,
    seconds: u64,
    rate: f64,
    next_cold: AtomicU64,
}

#[derive(Default)]
struct Measured {
    /// CPU of the server's threads except those that hash, in microseconds.
    cpu: f64,
    known: f64,
    sent: f64,
    cold: Samples,
    in_time: f64,
    resident: f64,
}

fn tokenid(n: u64) -> String {
    format!("user{}@local!t{}", n / TOKENS_EACH, n % TOKENS_EACH)
}

impl Run<'_> {
    /// Logs in with the first ten tokens, so that the server knows them.
    fn warm(&self) -> Result<(), Failure> {
        let mut client = self.server.connect(Ipv4Addr::LOCALHOST)?;
        for n in 0..10 {
            match client.get(&request_as("/whoami", &tokenid(n), &secret_of(n)))? {
                200 => {}
                status => return Err(format!("answered with {status}").into()),
            }
        }
        Ok(())
    }

    fn measure(&self, is_known: bool, is_flooded: bool) -> Result<Measured, Failure> {
        let (is_over, sent) = (AtomicBool::new(false), AtomicU64::new(0));
        let mut measured = Measured::default();
        let before = self.server.cpu_nanos_but("hash");
        let began = now();
        std::thread::scope(|scope| -> Result<(), Failure> {
            if is_flooded {
                for n in 0..FLOODING {
                    let (is_over, sent) = (&is_over, &sent);
                    scope.spawn(move || self.flood(n, is_over, sent));
                }
            }
            let known = is_known.then(|| scope.spawn(|| self.known()));
            // New clients take part in each case except the flood alone.
            let cold = is_known.then(|| scope.spawn(|| self.cold()));
            if let (Some(known), Some(cold)) = (known, cold) {
                measured.known = known.join().map_err(|_| "a client ended")?? as f64;
                let (samples, in_time) = cold.join().map_err(|_| "a client ended")??;
                measured.cold = samples;
                measured.in_time = in_time as f64;
            } else {
                std::thread::park_timeout(Duration::from_secs(self.seconds));
            }
            is_over.store(true, Ordering::Relaxed);
            measured.sent = sent.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64();
            measured.cpu = (self.server.cpu_nanos_but("hash") - before) / 1e3;
            measured.resident = self.server.resident() as f64;
            Ok(())
        })?;
        Ok(measured)
    }

    /// Sends wrong secrets for existing tokens from one address. Each secret has a connection of its own, which is closed if no response comes in
    /// time.
    fn flood(&self, address: u8, is_over: &AtomicBool, sent: &AtomicU64) {
        let from = Ipv4Addr::new(127, 0, 1, address + 1);
        let pause = Duration::from_secs_f64(f64::from(FLOODING) / self.rate);
        let mut waiting = VecDeque::new();
        let mut n = u64::from(address);
        let mut next = now();
        while !is_over.load(Ordering::Relaxed) {
            n += u64::from(FLOODING);
            let request = request_as("/whoami", &tokenid(10 + n % 40), &format!("wrong-{n}"));
            if let Ok(mut client) = self.server.connect(from)
                && client.send(&request).is_ok()
            {
                sent.fetch_add(1, Ordering::Relaxed);
                waiting.push_back((now(), client));
            }
            while waiting.front().is_some_and(|(since, _)| since.elapsed() > PATIENCE) {
                waiting.pop_front();
            }
            next += pause;
            std::thread::park_timeout(next.saturating_duration_since(now()));
        }
    }

    fn known(&self) -> Result<u64, String> {
        let mut client = self.server.connect(Ipv4Addr::LOCALHOST).map_err(|why| why.to_string())?;
        let began = now();
        for n in 0..KNOWN_EACH_SECOND * self.seconds {
            let request = request_as("/whoami", &tokenid(n % 10), &secret_of(n % 10));
            match client.get(&request).map_err(|why| why.to_string())? {
                200 => {}
                status => return Err(format!("a known client was answered with {status}")),
            }
            let due = Duration::from_micros(1_000_000 * n / KNOWN_EACH_SECOND);
            std::thread::park_timeout(due.saturating_sub(began.elapsed()));
        }
        Ok(KNOWN_EACH_SECOND * self.seconds)
    }

    /// Starts new clients, each from an address of its own. A client that is refused retries until its time limit.
    fn cold(&self) -> Result<(Samples, u64), String> {
        let began = now();
        let results: Vec<(f64, bool)> = std::thread::scope(|scope| {
            let running: Vec<_> = (0..COLD_EACH_SECOND * self.seconds)
                .map(|n| {
                    let due = Duration::from_millis(1_000 * n / COLD_EACH_SECOND);
                    std::thread::park_timeout(due.saturating_sub(began.elapsed()));
                    scope.spawn(move || self.new_client())
                })
                .collect();
            running.into_iter().filter_map(|one| one.join().ok()).collect()
        });
        let mut samples = Samples::default();
        results.iter().for_each(|(millis, _)| samples.push(*millis));
        Ok((samples, results.iter().filter(|(_, is_in)| *is_in).count() as u64))
    }

    fn new_client(&self) -> (f64, bool) {
        let n = self.next_cold.fetch_add(1, Ordering::Relaxed);
        let from = Ipv4Addr::new(127, 0, 2 + (n / 250) as u8, 1 + (n % 250) as u8);
        let request = request_as("/whoami", &tokenid(n), &secret_of(n));
        let began = now();
        let mut is_in = false;
        while !is_in && began.elapsed() < IN_TIME {
            let status = self.server.connect(from).and_then(|mut client| client.get(&request));
            is_in = status.is_ok_and(|status| status == 200) && began.elapsed() <= IN_TIME;
        }
        (began.elapsed().as_secs_f64() * 1e3, is_in)
    }
}
