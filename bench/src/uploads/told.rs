//! The rows of the report about small files.

use super::targets::APACHE;
use super::{Case, Series, Spent};
use crate::report::{Paired, Report};
use crate::samples::Samples;

/// The name of the measurements of Apache with the cost of the syncs that Apache does not make.
const SYNCED: &str = "Apache with syncs";

/// A cost of a turn.
struct Cost {
    /// The name of the cost.
    what: String,
    unit: &'static str,
    of: fn(&Spent) -> f64,
    goal: Option<&'static str>,
}

/// Reports the time, the rate and the CPU of all servers. `loops` contains the loop with syncs, the loop without syncs, and the loop with shared
/// syncs. The cost of the loop with shared syncs is reported as the floor ([`Paired::floor`]).
pub(super) fn tell(report: &mut Report, case: &Case, n: u64, all: &[Series], loops: [&Series; 3]) {
    let name = case.name();
    let cost = |what: &str, unit: &'static str, of: fn(&Spent) -> f64, goal: Option<&'static str>| Cost {
        what: format!("{name}, {what}"),
        unit,
        of,
        goal,
    };
    let time = cost("time of all", "s", |spent| spent.seconds, case.time);
    let cpu = cost("CPU of each", "µs", |spent| spent.cpu, case.cpu);
    for cost in [&time, &cpu] {
        cost.tell(report, n, all, loops);
    }
    for Series { name: server, spent } in all.iter().chain(loops) {
        let rates: Samples = spent.iter().map(|spent| n as f64 / spent.seconds).collect();
        report.middle(&format!("{name}, {server}"), n, &rates, "files/s");
    }
    overlapping(report, &time, n, all, loops);
}

impl Cost {
    fn samples(&self, series: &Series) -> Samples {
        series.spent.iter().map(self.of).collect()
    }

    /// The costs of Apache with syncs. For each turn, the cost of the syncs is the difference between the two loops of the same round.
    fn with_syncs(&self, apache: &Series, [synced, unsynced, _]: [&Series; 3]) -> Samples {
        let syncs = synced.spent.iter().zip(&unsynced.spent);
        let syncs = syncs.map(|(with, without)| (self.of)(with) - (self.of)(without));
        apache.spent.iter().zip(syncs).map(|(spent, syncs)| (self.of)(spent) + syncs).collect()
    }

    fn tell(&self, report: &mut Report, n: u64, all: &[Series], loops: [&Series; 3]) {
        let Some((ours, others)) = all.split_first() else { return };
        let ours = &self.samples(ours);
        let apache = others.iter().find(|series| series.name == APACHE);
        match apache.map(|apache| self.with_syncs(apache, loops)) {
            Some(theirs) => {
                let [.., shared] = loops;
                let floor = Some(self.samples(shared).median());
                let (what, theirs) = (self.what.clone(), &theirs);
                let paired = Paired { what, n, unit: self.unit, ours, peer: SYNCED, theirs, floor };
                report.compare(self.goal, paired);
            }
            None => {
                report.middle(&format!("{}, Enfilade", self.what), n, ours, self.unit);
            }
        }
        for series in others {
            let theirs = self.samples(series);
            report.middle(&format!("{}, {}", self.what, series.name), n, &theirs, self.unit);
            let ratio = ours.over(&theirs).mean();
            report.estimate(&format!("{}, Enfilade to {}", self.what, series.name), n, ratio, "times");
        }
        for series in loops {
            report.middle(&format!("{}, {}", self.what, series.name), n, &self.samples(series), self.unit);
        }
    }
}

/// Compares Enfilade with an imagined server that makes the same syncs, and does all of its other work while it waits for them. The time of this
/// server is the longer of two measured times: the time of Apache, and the time of the loop with syncs.
fn overlapping(report: &mut Report, time: &Cost, n: u64, all: &[Series], [synced, ..]: [&Series; 3]) {
    let apache = all.iter().find(|series| series.name == APACHE);
    let (Some(ours), Some(apache)) = (all.first(), apache) else { return };
    let longer = apache.spent.iter().zip(&synced.spent).map(|(one, other)| one.seconds.max(other.seconds));
    let ratio = time.samples(ours).over(&longer.collect()).mean();
    let what = format!("{}, Enfilade to the longer one of Apache and the loop", time.what);
    report.estimate(&what, n, ratio, "times");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uploads::{CASES, goals};

    fn series(name: &'static str, spent: &[(f64, f64)]) -> Series {
        let spent = spent.iter().map(|&(seconds, cpu)| Spent { seconds, cpu }).collect();
        Series { name, spent }
    }

    #[test]
    fn the_syncs_of_the_same_round_are_added_to_apache() {
        let mut report = Report::new("uploads", false, goals());
        let ours = series("Enfilade", &[(2.0, 300.0), (4.0, 300.0)]);
        let apache = series(APACHE, &[(1.0, 200.0), (2.0, 200.0)]);
        let synced = series("the loop", &[(3.5, 150.0), (7.0, 150.0)]);
        let unsynced = series("the loop without syncs", &[(0.5, 50.0), (1.0, 50.0)]);
        let shared = series("the loop with shared syncs", &[(1.5, 120.0), (1.5, 120.0)]);
        let [_, case, _] = &CASES;
        tell(&mut report, case, 10, &[ours, apache], [&synced, &unsynced, &shared]);
        let floors: Vec<_> = report.comparisons.iter().map(|of| of.floor).collect();
        assert_eq!(floors, [Some(1.5), Some(120.0)], "the loop with shared syncs is the floor");
        let judged = |id: &str| report.judged.iter().find(|judged| judged.id == id).unwrap().measured.value;
        assert!((judged("rate-32") - 0.5).abs() < 1e-9);
        assert!((judged("cpu-32") - 1.0).abs() < 1e-9);
        let row = |end: &str| {
            let row = report.rows.iter().find(|row| row.name.ends_with(end)).unwrap();
            row.value.as_ref().unwrap().value
        };
        assert!((row("time of all, Enfilade to Apache") - 2.0).abs() < 1e-9);
        assert!((row("longer one of Apache and the loop") - 4.0 / 7.0).abs() < 1e-9);
    }
}
