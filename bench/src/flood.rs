//! Measures the effect of a flood of wrong secrets on known clients, and whether new clients can log in. The flood has ten times as many secrets as
//! the cores can hash.

use crate::Failure;
use crate::arrivals::{Schedule, latencies};
use crate::goals::Goal;
use crate::report::Report;
use crate::samples::{Estimate, Samples};
use crate::scratch::Scratch;
use crate::served::{Server, request_as};
use crate::stopwatch::now;
use crate::stores::{self, Store, TOKENS_EACH, secret_of};
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The number of addresses that send the flood.
const FLOODING: u8 = 8;
/// The number of new clients per second.
const COLD_EACH_SECOND: u64 = 5;
const SECONDS: u64 = 10;
/// A new client that is admitted later than this counts as late.
const IN_TIME: Duration = Duration::from_secs(1);
/// How long a flooding client keeps a connection open.
const PATIENCE: Duration = Duration::from_secs(2);
/// The number of requests of known clients per second, far less than the server can answer.
const KNOWN_EACH_SECOND: u64 = 1_000;

pub(crate) fn goals() -> Vec<Goal> {
    let flood = format!(
        "The clients use no TLS. The server has penalties, and its tokens have yescrypt hashes of cost 5. A client is known if the server has \
         verified its token before; other clients are new. The flood: {FLOODING} addresses send wrong secrets, each secret on its own connection, \
         ten times as many as all cores can hash. There are three phases of {SECONDS} s: known and new clients without the flood; known and new \
         clients with the flood; the flood alone. Known clients send {KNOWN_EACH_SECOND} requests a second on one connection. {COLD_EACH_SECOND} new \
         clients a second begin to log in, each from its own address"
    );
    let new = format!(
        "{flood}. A new client repeats its request until it is admitted, or until one second has passed"
    );
    let known = format!(
        "{flood}. The server's CPU time counts without the CPU time of the threads that compute hashes. The CPU time of the third phase is \
         subtracted from that of the second phase. The CPU time of a phase is divided by the number of requests of known clients"
    );
    let memory = format!(
        "{flood}. The server's resident memory is read at the end of each phase. The value is the larger one of the phases with the flood minus that \
         of the first phase"
    );
    vec![
        Goal::new(
            "known",
            1.1,
            "times",
            "CPU time of the server for a request of a known client during the flood, divided by CPU time without the flood",
            known,
        ),
        Goal::new(
            "cold",
            5.0,
            "%",
            "share of new clients that are not admitted within a second during the flood",
            new,
        ),
        Goal::new("memory", 64.0, "MiB", "growth of the resident memory of the server by the flood", memory),
    ]
}

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
        // Three cases: known and new clients without the flood, known and new clients with the flood, and the flood alone.
        let quiet = run.measure(true, false)?;
        let flooded = run.measure(true, true)?;
        let alone = run.measure(false, true)?;
        report.once(&format!("{name}: wrong secrets sent"), u64::from(FLOODING), flooded.sent, "requests/s");
        let known = (flooded.cpu - alone.cpu) / flooded.known.len() as f64;
        let before = quiet.cpu / quiet.known.len() as f64;
        report.once(&format!("{name}: CPU of a known client's request, quiet"), 1, before, "µs");
        report.once(&format!("{name}: CPU of a known client's request, flooded"), 1, known, "µs");
        let new = |of: &Measured| 100.0 * (1.0 - of.in_time / of.cold.len() as f64);
        for (measured, when) in [(&quiet, "quiet"), (&flooded, "flooded")] {
            report.tail(&format!("{name}: a known client, {when}"), KNOWN_EACH_SECOND, &measured.known, "ms");
            report.tail(&format!("{name}: a new client, {when}"), COLD_EACH_SECOND, &measured.cold, "ms");
            let what = format!("{name}: new clients not in after a second, {when}");
            report.once(&what, COLD_EACH_SECOND, new(measured), "%");
        }
        for (measured, when) in [(&quiet, "quiet"), (&flooded, "flooded"), (&alone, "the flood alone")] {
            let each_second = |micros: f64| micros / 1e3 / measured.seconds;
            let of = |what: &str| format!("{name}: CPU of {what} in a second, {when}");
            report.once(&of("the threads that hash"), 1, each_second(measured.hashing), "ms");
            report.once(&of("all other threads"), 1, each_second(measured.cpu), "ms");
        }
        let grown = (flooded.resident.max(alone.resident) - quiet.resident) / f64::from(1 << 20);
        report.once(&format!("{name}: resident memory more than before the flood"), 1, grown, "MiB");
        if penalties == "true" {
            report.goal("known", Estimate::once(known / before));
            report.goal("cold", Estimate::once(new(&flooded)));
            report.goal("memory", Estimate::once(grown));
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
    /// CPU of the server's threads except the threads that compute hashes, in microseconds.
    cpu: f64,
    /// CPU of the threads that compute hashes, in microseconds.
    hashing: f64,
    /// The length of the measurement.
    seconds: f64,
    /// Milliseconds from the planned time of a known client's request to its response.
    known: Samples,
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
        let (before, hashing) = (self.server.cpu_nanos()?, self.server.cpu_nanos_of_hashes()?);
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
                measured.known = known.join().map_err(|_| "a client ended")??;
                let (samples, in_time) = cold.join().map_err(|_| "a client ended")??;
                measured.cold = samples;
                measured.in_time = in_time as f64;
            } else {
                std::thread::park_timeout(Duration::from_secs(self.seconds));
            }
            is_over.store(true, Ordering::Relaxed);
            measured.seconds = began.elapsed().as_secs_f64();
            measured.sent = sent.load(Ordering::Relaxed) as f64 / measured.seconds;
            measured.hashing = (self.server.cpu_nanos_of_hashes()? - hashing) / 1e3;
            measured.cpu = (self.server.cpu_nanos()? - before) / 1e3 - measured.hashing;
            measured.resident = self.server.resident() as f64;
            Ok(())
        })?;
        Ok(measured)
    }

    /// Sends wrong secrets for existing tokens from one address. Each secret is sent on a new connection. The response is not read, and the
    /// connection is closed after [`PATIENCE`].
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

    /// Known clients send requests on one connection, at planned times.
    fn known(&self) -> Result<Samples, String> {
        let client = self.server.connect(Ipv4Addr::LOCALHOST).map_err(|why| why.to_string())?;
        let every = Duration::from_micros(1_000_000 / KNOWN_EACH_SECOND);
        latencies(every, KNOWN_EACH_SECOND * self.seconds, vec![client], |client, n| {
            let request = request_as("/whoami", &tokenid(n % 10), &secret_of(n % 10));
            match client.get(&request).map_err(|why| why.to_string())? {
                200 => Ok(()),
                status => Err(format!("a known client was answered with {status}")),
            }
        })
    }

    /// Starts new clients at planned times, each from another address. A client that is refused retries until its time limit.
    fn cold(&self) -> Result<(Samples, u64), String> {
        let schedule =
            Schedule::new(Duration::from_millis(1_000 / COLD_EACH_SECOND), COLD_EACH_SECOND * self.seconds);
        let results = std::thread::scope(|scope| {
            let mut running = Vec::new();
            while let Some((_, due)) = schedule.next() {
                running.push(scope.spawn(move || self.new_client(due)));
            }
            running
                .into_iter()
                .map(|one| one.join().map_err(|_| "a client ended".to_owned()))
                .collect::<Result<Vec<(f64, bool)>, _>>()
        })?;
        let in_time = results.iter().filter(|(_, is_in)| *is_in).count() as u64;
        Ok((results.iter().map(|(millis, _)| *millis).collect(), in_time))
    }

    /// The milliseconds from the planned time until the client is admitted, or gives up. Also returns whether the client was admitted in time.
    fn new_client(&self, due: Instant) -> (f64, bool) {
        let n = self.next_cold.fetch_add(1, Ordering::Relaxed);
        let from = Ipv4Addr::new(127, 0, 2 + (n / 250) as u8, 1 + (n % 250) as u8);
        let request = request_as("/whoami", &tokenid(n), &secret_of(n));
        let mut is_in = false;
        while !is_in && due.elapsed() < IN_TIME {
            let status = self.server.connect(from).and_then(|mut client| client.get(&request));
            is_in = status.is_ok_and(|status| status == 200) && due.elapsed() <= IN_TIME;
        }
        (due.elapsed().as_secs_f64() * 1e3, is_in)
    }
}
