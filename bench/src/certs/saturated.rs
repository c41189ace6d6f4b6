//! Measures the server's CPU for a handshake when many clients connect at the same time, so that all cores are busy. HAProxy and Enfilade have the
//! same certificates and the same clients, with one certificate and with many.

use super::handshakes::{client, shake, shaken};
use super::running::Running;
use super::servers::Program;
use super::{Case, FULL, in_turns, make};
use crate::Failure;
use crate::goals::Goal;
use crate::report::Report;
use crate::samples::Samples;
use crate::stopwatch::{cpu_nanos, now, pause};
use rustls::{ClientConfig, ProtocolVersion};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const CLIENTS: usize = 16;
const ROUNDS: usize = 7;
/// The number of handshakes in a turn.
const EACH: usize = 3_200;
const EACH_SMALL: usize = 320;
/// The number of names for which the answers of both servers are compared.
const COMPARED: usize = 20;
/// The time in which a server becomes idle.
const IDLE: Duration = Duration::from_millis(50);

pub(super) fn goals() -> Vec<Goal> {
    let workload = format!(
        "Two cases: 1 certificate, and {FULL} certificates as `cargo xtask certs` makes them. In each case Enfilade and HAProxy are measured \
         alternately, {ROUNDS} times each. Each time, {CLIENTS} clients make {EACH} full TLS handshakes in all; a client begins its next handshake \
         when its last one has ended. The handshakes use TLS 1.3, X25519 and ECDSA P-256. For each certificate with such a key there is one name, \
         and the handshakes use these names one after the other. Each name was used before the measurement. The server's CPU time counts, also for \
         the accept and the close of each connection. The value of a case is the mean of the {ROUNDS} ratios"
    );
    let what = "CPU time of Enfilade for a full TLS handshake while all cores are busy, divided by CPU time of HAProxy";
    vec![Goal::new("handshake-cpu", 1.0, "times", what, workload)]
}

pub(super) fn run(report: &mut Report, case: &Case<'_>, programs: &[Program]) -> Result<(), Failure> {
    let one = case.scratch.path().join("saturated");
    std::fs::create_dir_all(&one)?;
    std::fs::copy(case.directory.join("0000000.pem"), one.join("0000000.pem"))?;
    measure(report, &Case { directory: &one, count: 1, ..*case }, programs)?;
    measure(report, case, programs)
}

/// Measures both servers with the certificates of a case.
fn measure(report: &mut Report, case: &Case<'_>, programs: &[Program]) -> Result<(), Failure> {
    let names = names(case.count);
    let started = programs.iter().map(|program| program.start(case.directory));
    let started = started.collect::<Result<Vec<_>, _>>()?;
    if let [ours, theirs] = started.as_slice() {
        are_alike(ours, theirs, &names)?;
    }
    let each = if report.is_small { EACH_SMALL } else { EACH };
    for (resumes, id) in [(false, Some("handshake-cpu")), (true, None)] {
        let new = |running| Turns::new(running, &names, each, resumes);
        let mut all = started.iter().map(new).collect::<Result<Vec<_>, _>>()?;
        for round in 0..ROUNDS {
            eprintln!("handshakes with {} certificates, resumed: {resumes}, round {}", case.count, round + 1);
            in_turns(&mut all, round, Turns::once)?;
        }
        tell(report, case, id.and_then(|id| case.goal(id)), resumes, &all);
    }
    Ok(())
}

/// A name of each certificate with an ECDSA key. These certificates have even numbers.
fn names(count: usize) -> Vec<String> {
    let name = |n| make::names_of(n).pop().unwrap_or_default().replace('*', "x");
    (0..count).step_by(2).map(name).collect()
}

/// Checks that both servers answer with the same certificates, protocol, cipher suite and key exchange. Only then are the handshakes the same work.
fn are_alike(ours: &Running, theirs: &Running, names: &[String]) -> Result<(), Failure> {
    let config = client(false)?;
    for name in names.iter().step_by(names.len().div_ceil(COMPARED)) {
        let [own, other] = [ours, theirs].map(|server| shaken(server.address, &config, name));
        let (own, other) = (own?, other?);
        if own.protocol_version() != Some(ProtocolVersion::TLSv1_3) {
            return Err(format!("`{name}` gets protocol {:?}, not TLS 1.3", own.protocol_version()).into());
        }
        let is_alike = own.peer_certificates() == other.peer_certificates()
            && own.protocol_version() == other.protocol_version()
            && own.negotiated_cipher_suite() == other.negotiated_cipher_suite()
            && own.negotiated_key_exchange_group().map(|group| group.name())
                == other.negotiated_key_exchange_group().map(|group| group.name());
        if !is_alike {
            return Err(format!(
                "`{name}` gets another certificate, protocol, cipher suite or key exchange from HAProxy"
            )
            .into());
        }
    }
    Ok(())
}

/// A client, and the name for which it resumes sessions.
struct Client<'n> {
    config: Arc<ClientConfig>,
    own: &'n str,
}

/// The turns of one server.
struct Turns<'s> {
    server: &'s Running,
    names: &'s [String],
    clients: Vec<Client<'s>>,
    each: usize,
    resumes: bool,
    /// The number of names that were used so far.
    used: AtomicUsize,
    /// The CPU of a handshake, in microseconds.
    cpu: Samples,
    /// Handshakes per second, and per second of the server's CPU.
    rate: Samples,
    rate_of_cpu: Samples,
    /// The number of cores that server and clients used.
    cores: Samples,
}

impl<'s> Turns<'s> {
    /// Before the first turn, each client that resumes sessions makes a handshake for its own name. If the clients do not resume, each name is used
    /// once.
    fn new(server: &'s Running, names: &'s [String], each: usize, resumes: bool) -> Result<Self, Failure> {
        let own = names.iter().step_by(names.len().div_ceil(CLIENTS)).cycle().take(CLIENTS);
        let new = |own: &'s String| Ok(Client { config: client(resumes)?, own });
        let clients = own.map(new).collect::<Result<Vec<_>, Failure>>()?;
        let [cpu, rate, rate_of_cpu, cores] = std::array::from_fn(|_| Samples::default());
        let used = AtomicUsize::new(0);
        let turns = Turns { server, names, clients, each, resumes, used, cpu, rate, rate_of_cpu, cores };
        if resumes {
            let first = |client: &Client<'_>| shake(server.address, &client.config, client.own).map(drop);
            turns.clients.iter().try_for_each(first)?;
        } else {
            turns.shake_all(names.len())?;
        }
        Ok(turns)
    }

    /// Measures one turn.
    fn once(&mut self) -> Result<(), Failure> {
        pause(IDLE);
        let itself = std::process::id();
        let (server, clients, began) = (self.server.cpu_millis()?, cpu_nanos(itself)?, now());
        let resumed = self.shake_all(self.each)?;
        let (seconds, clients) = (began.elapsed().as_secs_f64(), cpu_nanos(itself)? - clients);
        // During this pause the server finishes its work on the last connections.
        pause(IDLE);
        let server = (self.server.cpu_millis()? - server) / 1e3;
        let is_expected = if self.resumes { resumed * 100 >= self.each * 99 } else { resumed == 0 };
        if !is_expected {
            return Err(format!("unexpected number of resumed handshakes: {resumed} of {}", self.each).into());
        }
        let each = self.each as f64;
        self.cpu.push(server / each * 1e6);
        self.rate.push(each / seconds);
        self.rate_of_cpu.push(each / server);
        self.cores.push((server + clients / 1e9) / seconds);
        Ok(())
    }

    /// Makes `count` handshakes, by all clients together. Returns how many sessions were resumed.
    fn shake_all(&self, count: usize) -> Result<usize, Failure> {
        let left = AtomicUsize::new(count);
        let resumed = AtomicUsize::new(0);
        let run = |client: &Client<'_>| -> Result<(), String> {
            let take = |left: usize| left.checked_sub(1);
            while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
                let name = self.name(client);
                let is_resumed = shake(self.server.address, &client.config, name)
                    .map_err(|why| format!("a handshake for `{name}`: {why}"))?;
                resumed.fetch_add(usize::from(is_resumed), Ordering::Relaxed);
            }
            Ok(())
        };
        let run = &run;
        std::thread::scope(|scope| -> Result<(), String> {
            let running: Vec<_> =
                self.clients.iter().map(|client| scope.spawn(move || run(client))).collect();
            running.into_iter().try_for_each(|one| one.join().map_err(|_| "a client ended")?)
        })?;
        Ok(resumed.into_inner())
    }

    /// The name of the next handshake: the client's own name if the client has tickets for it, otherwise the next of all names.
    fn name<'a>(&'a self, client: &'a Client<'_>) -> &'a str {
        if self.resumes {
            return client.own;
        }
        let n = self.used.fetch_add(1, Ordering::Relaxed) % self.names.len();
        self.names.get(n).map_or(client.own, String::as_str)
    }
}

fn tell(report: &mut Report, case: &Case<'_>, goal: Option<&'static str>, resumes: bool, all: &[Turns<'_>]) {
    let [ours, others @ ..] = all else { return };
    let how = if resumes { "resumed" } else { "full" };
    let what = format!("a handshake while all cores are busy, ECDSA P-256, {how}");
    let none = Samples::default();
    let theirs = others.first().map_or(&none, |theirs| &theirs.cpu);
    case.tell(report, goal, (&format!("{what}, server CPU"), "µs"), [&ours.cpu, theirs]);
    for (turns, server) in all.iter().zip(["Enfilade", "HAProxy"]) {
        let rows = [
            (&turns.rate_of_cpu, "handshakes/CPU s"),
            (&turns.rate, "handshakes/s"),
            (&turns.cores, "cores"),
        ];
        for (samples, unit) in rows {
            report.middle(&format!("{what}, {server}"), case.n(), samples, unit);
        }
    }
}
