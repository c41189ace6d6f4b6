//! Latencies of uploads at planned times.

use super::{Bench, Case, remove_all};
use crate::Failure;
use crate::arrivals::latencies;
use crate::samples::Samples;
use std::sync::atomic::Ordering;
use std::time::Duration;

impl Bench<'_> {
    /// Puts files at planned times to each server in turns, and reports the percentiles of the latencies.
    pub(super) fn planned(&mut self, case: &Case) -> Result<(), Failure> {
        let mut all: Vec<(&'static str, Samples)> = Vec::new();
        for target in self.targets.iter().filter(|target| !case.by_tls || target.https.is_some()) {
            all.push((target.peer.name, Samples::default()));
        }
        let count = case.each_second * self.size.planned_seconds;
        let every = Duration::from_micros(1_000_000 / case.each_second);
        for round in 0..self.size.rounds {
            eprintln!("{}, at planned times: round {} of {}", case.name(), round + 1, self.size.rounds);
            for (name, samples) in &mut all {
                let Some(target) = self.targets.iter().find(|target| target.peer.name == *name) else {
                    continue;
                };
                let first = self.named.fetch_add(count as usize, Ordering::Relaxed);
                let senders = self.senders(target, case)?;
                rustix::fs::sync();
                samples
                    .extend(&latencies(every, count, senders, |sender, n| sender.put(first + n as usize))?);
                remove_all(&target.peer.up, count as usize)?;
            }
            // Another server begins the next round.
            all.rotate_left(1);
        }
        all.sort_by_key(|(name, _)| self.targets.iter().position(|target| target.peer.name == *name));
        for (name, samples) in &all {
            let what = format!("{}, at planned times, {name}", case.name());
            self.report.tail(&what, case.each_second, samples, "ms");
        }
        Ok(())
    }
}
