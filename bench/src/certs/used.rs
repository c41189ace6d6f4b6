//! The memory of a server after a handshake with every certificate. HAProxy parses all private keys at its start. Enfilade parses a key at the first
//! handshake that needs the key, and keeps the last 16,384 keys.

use super::handshakes::{client, shake};
use super::servers::Program;
use super::{Case, FULL, in_turns, make};
use crate::Failure;
use crate::report::Report;
use crate::samples::Samples;
use crate::stopwatch::pause;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const ROUNDS: usize = 3;
const CLIENTS: usize = 4;
/// The pause after the last handshake, in which the server closes its connections.
const CLOSING: Duration = Duration::from_secs(1);

/// The memory of one server, in MiB, minus the memory after a start with one certificate.
struct Memory<'p> {
    program: &'p Program,
    idle: Samples,
    used: Samples,
}

pub(super) fn run(report: &mut Report, case: &Case<'_>, programs: &[Program]) -> Result<(), Failure> {
    let new = |program| Memory { program, idle: Samples::default(), used: Samples::default() };
    let mut all: Vec<_> = programs.iter().map(new).collect();
    // With very many certificates a start of HAProxy takes a minute or more, and no goal is judged, so there is only one round.
    let rounds = if case.count > FULL { 1 } else { ROUNDS };
    for round in 0..rounds {
        eprintln!("a handshake with each of {} certificates, round {}", case.count, round + 1);
        in_turns(&mut all, round, |memory| memory.measure(case))?;
    }
    let none = Samples::default();
    let of = |is_haproxy: bool| {
        let memory = all.iter().find(|memory| memory.program.is_haproxy() == is_haproxy);
        memory.map_or((&none, &none), |memory| (&memory.idle, &memory.used))
    };
    let (ours, theirs) = (of(false), of(true));
    case.tell(report, None, ("memory of all certificates while idle", "MiB"), [ours.0, theirs.0]);
    let what = "memory of all certificates after a handshake with each";
    case.tell(report, None, (what, "MiB"), [ours.1, theirs.1]);
    Ok(())
}

impl Memory<'_> {
    fn measure(&mut self, case: &Case<'_>) -> Result<(), Failure> {
        let running = self.program.start(case.directory)?;
        self.idle.push(self.program.own_kib(&running) / 1024.0);
        shake_with_each(running.address, case.count)?;
        pause(CLOSING);
        self.used.push(self.program.own_kib(&running) / 1024.0);
        Ok(())
    }
}

/// Makes a full handshake for a name of each certificate. Returns an error if a handshake fails.
fn shake_with_each(address: SocketAddr, count: usize) -> Result<(), Failure> {
    let (config, next) = (client(false)?, AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let run = || -> Result<(), String> {
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= count {
                    return Ok(());
                }
                let name = make::names_of(n).pop().unwrap_or_default().replace('*', "x");
                shake(address, &config, &name).map_err(|why| format!("a handshake for `{name}`: {why}"))?;
            }
        };
        let running: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(run)).collect();
        running.into_iter().try_for_each(|one| one.join().map_err(|_| "a client ended")?)
    })
    .map_err(|why: String| why.into())
}
