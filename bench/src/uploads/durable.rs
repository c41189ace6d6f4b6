//! Compares uploads to Enfilade and to Apache, if both answer only when a file is on the disk. For this, Apache writes to a synchronous directory.

use super::targets::{DURABLE, Target};
use super::{Bench, CASES, FILE_BYTES, SIZE, Spent};
use crate::Failure;
use crate::goals::Goal;
use crate::report::Paired;
use crate::samples::Samples;

const PAIRS: usize = 15;
const SMALL_PAIRS: usize = 2;
const CPU: &str = "cpu-32-durable";
const RATE: &str = "rate-32-durable";

pub(super) fn goals() -> [Goal; 2] {
    let work = format!(
        "Without TLS. {PAIRS} pairs of turns; the order changes each time. In a turn, 32 connections send at the same time {} PUT requests in all, of \
         {FILE_BYTES} bytes each, to new names in one directory. Enfilade syncs each file. Apache's mod_dav writes to a directory with the attributes \
         `S` and `D` (chattr), so each of its changes is on the disk before the system call returns. The value is the mean of the {PAIRS} ratios",
        SIZE.files
    );
    let than = "of Apache with a synchronous directory";
    let cpu = format!("CPU time of Enfilade for a PUT of a small file, divided by CPU time {than}");
    let time = format!("time of Enfilade for all PUTs of small files, divided by time {than}");
    [Goal::new(CPU, 1.0, "times", cpu, work.clone()), Goal::new(RATE, 1.0 / 1.5, "times", time, work)]
}

impl Bench<'_> {
    /// Puts all files to both servers, in pairs of turns. Without the synchronous directory, nothing is measured.
    pub(super) fn durable(&mut self) -> Result<(), Failure> {
        let [_, case, _] = &CASES;
        let (Some(ours), Some(theirs)) =
            (self.targets.first(), self.targets.iter().find(|target| target.peer.name == DURABLE))
        else {
            return Ok(());
        };
        let pairs = if self.report.is_small { SMALL_PAIRS } else { PAIRS };
        let mut spent: [Vec<Spent>; 2] = [Vec::new(), Vec::new()];
        for round in 0..pairs {
            eprintln!("{}, in pairs: pair {} of {pairs}", case.name(), round + 1);
            let mut turns: Vec<(&Target, &mut Vec<Spent>)> =
                [ours, theirs].into_iter().zip(&mut spent).collect();
            if round % 2 == 1 {
                turns.reverse();
            }
            for (target, spent) in turns {
                spent.push(self.put_all(target, case)?);
            }
        }
        let n = self.size.files as u64;
        let mut tell = |goal, what: &str, unit, of: fn(&Spent) -> f64| {
            let [ours, theirs] = spent.each_ref().map(|spent| spent.iter().map(of).collect::<Samples>());
            let what = format!("{}, in pairs, {what}", case.name());
            let paired = Paired { what, n, unit, ours: &ours, peer: DURABLE, theirs: &theirs, floor: None };
            self.report.compare(Some(goal), paired);
        };
        tell(CPU, "CPU of each", "µs", |spent| spent.cpu);
        tell(RATE, "time of all", "s", |spent| spent.seconds);
        Ok(())
    }
}
