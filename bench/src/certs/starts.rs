//! Starts of Enfilade and of HAProxy with all certificates, in turns: the time to the first connection, and the memory while idle.

use super::readers::read_all;
use super::servers::Program;
use super::{COLD_ROUNDS, Case, FULL, ROUNDS, drop_caches, in_turns};
use crate::Failure;
use crate::samples::Samples;

/// The costs of the starts of one server.
#[derive(Default)]
pub(super) struct Starts {
    /// The milliseconds from a start to the first connection.
    pub(super) warm: Samples,
    pub(super) cold: Samples,
    /// The memory of a certificate after a warm start, in KiB.
    pub(super) idle_kib: Samples,
}

/// Starts Enfilade and HAProxy in turns, and calls `also` in each warm round. Returns the starts of both servers.
pub(super) fn run(
    case: &Case<'_>,
    programs: &[Program],
    mut also: impl FnMut() -> Result<(), Failure>,
) -> Result<[Starts; 2], Failure> {
    let mut starts = [Starts::default(), Starts::default()];
    let mut all: Vec<_> = programs.iter().zip(&mut starts).collect();
    // After this, the files are in the page cache.
    read_all(case.directory)?;
    for round in 0..ROUNDS {
        eprintln!("starts with {} certificates, warm, round {}", case.count, round + 1);
        in_turns(&mut all, round, |(program, starts)| match is_left_out(case, program, round) {
            true => Ok(()),
            false => starts.warm(case, program),
        })?;
        also()?;
    }
    let cold_rounds = if case.is_cold_possible { COLD_ROUNDS } else { 0 };
    for round in 0..cold_rounds {
        eprintln!("starts with {} certificates, cold, round {}", case.count, round + 1);
        in_turns(&mut all, round, |(program, starts)| match is_left_out(case, program, round) {
            true => Ok(()),
            false => starts.cold(case, program),
        })?;
    }
    Ok(starts)
}

/// Whether the program is not started in this round. With very many certificates a start of HAProxy takes a minute or more, and no goal is judged, so
/// HAProxy is started only in the first warm round and in the first cold round.
fn is_left_out(case: &Case<'_>, program: &Program, round: usize) -> bool {
    program.is_haproxy() && case.count > FULL && round > 0
}

impl Starts {
    fn warm(&mut self, case: &Case<'_>, program: &Program) -> Result<(), Failure> {
        let running = program.start(case.directory)?;
        self.warm.push(running.millis);
        self.idle_kib.push(program.own_kib(&running) / case.n() as f64);
        Ok(())
    }

    fn cold(&mut self, case: &Case<'_>, program: &Program) -> Result<(), Failure> {
        drop_caches();
        self.cold.push(program.start(case.directory)?.millis);
        Ok(())
    }
}
