//! The results of a benchmark: rows, comparisons with peers, goals, and what could not be measured.

use crate::goals::Goal;
use crate::samples::{Estimate, Percentile, Samples};
use crate::stopwatch::now;
use std::fmt::Write as _;
use std::time::Instant;

/// A measured value.
pub(crate) struct Row {
    pub(crate) name: String,
    /// The size of the measured case, such as the number of records or threads.
    pub(crate) n: u64,
    /// The value, or why there is none.
    pub(crate) value: Result<Estimate, String>,
    pub(crate) unit: &'static str,
    /// Half of the interquartile range, relative to the value; `None` if the value is not a median of samples.
    pub(crate) spread: Option<f64>,
    /// The worst sample: the largest one, or the smallest one if the value is a rate.
    pub(crate) worst: f64,
}

/// The same work done by Enfilade and by a peer, in turns.
pub(crate) struct Paired<'s> {
    pub(crate) what: String,
    pub(crate) n: u64,
    pub(crate) unit: &'static str,
    pub(crate) ours: &'s Samples,
    pub(crate) peer: &'static str,
    pub(crate) theirs: &'s Samples,
    /// The lowest cost that any program can have for this work, measured in the same run.
    pub(crate) floor: Option<f64>,
}

/// The result of a [`Paired`].
pub(crate) struct Comparison {
    pub(crate) what: String,
    pub(crate) n: u64,
    pub(crate) unit: &'static str,
    pub(crate) ours: Estimate,
    pub(crate) peer: &'static str,
    pub(crate) theirs: Estimate,
    pub(crate) ratio: Estimate,
    pub(crate) floor: Option<f64>,
    pub(crate) goal: Option<&'static str>,
}

/// A goal with the measured value.
pub(crate) struct Judged {
    pub(crate) id: &'static str,
    pub(crate) n: Option<u64>,
    pub(crate) measured: Estimate,
}

/// A program that Enfilade was compared with.
pub(crate) struct Peer {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) configuration: String,
}

pub(crate) struct Report {
    began: Instant,
    pub(crate) bench: String,
    /// A small run does less work, so its goals are not judged.
    pub(crate) is_small: bool,
    pub(crate) goals: Vec<Goal>,
    pub(crate) rows: Vec<Row>,
    pub(crate) comparisons: Vec<Comparison>,
    pub(crate) judged: Vec<Judged>,
    pub(crate) peers: Vec<Peer>,
    /// What could not be measured, and why.
    pub(crate) missing: Vec<(String, String)>,
}

impl Report {
    pub(crate) fn new(bench: &str, is_small: bool, goals: Vec<Goal>) -> Self {
        Report {
            began: now(),
            bench: bench.to_owned(),
            is_small,
            goals,
            rows: Vec::new(),
            comparisons: Vec::new(),
            judged: Vec::new(),
            peers: Vec::new(),
            missing: Vec::new(),
        }
    }

    /// Adds a figure that was measured once.
    pub(crate) fn once(&mut self, name: &str, n: u64, value: f64, unit: &'static str) {
        self.estimate(name, n, Estimate::once(value), unit);
    }

    /// Adds a figure with its interval.
    pub(crate) fn estimate(&mut self, name: &str, n: u64, value: Estimate, unit: &'static str) {
        let worst = if is_rate(unit) { value.low } else { value.high };
        self.push(Row { name: name.to_owned(), n, value: Ok(value), unit, spread: None, worst });
    }

    /// Adds a row, and shows it at once. So a run that ends early has shown what it measured.
    fn push(&mut self, row: Row) {
        if let Ok(Estimate { value, .. }) = row.value {
            let [name, unit] = [&*row.name, row.unit];
            eprintln!("{:>5} s  {name} ({}): {} {unit}", self.seconds(), row.n, figure(value));
        }
        self.rows.push(row);
    }

    /// The time since the benchmark began, in whole seconds.
    pub(crate) fn seconds(&self) -> u64 {
        self.began.elapsed().as_secs()
    }

    /// Adds the median of the samples, and returns it.
    pub(crate) fn middle(&mut self, name: &str, n: u64, samples: &Samples, unit: &'static str) -> Estimate {
        let value = samples.middle();
        let worst = if is_rate(unit) { samples.least() } else { samples.most() };
        let spread = Some(samples.spread());
        self.push(Row { name: name.to_owned(), n, value: Ok(value), unit, spread, worst });
        value
    }

    /// Adds the percentiles of latencies and the largest latency. If there are too few samples, the rows of the percentiles say so and have no value.
    pub(crate) fn tail(&mut self, name: &str, n: u64, samples: &Samples, unit: &'static str) {
        let (count, worst) = (samples.len(), samples.most());
        let of = |value| Estimate { value, low: value, high: value, samples: count };
        let percentile =
            |which: Percentile| (which.name(), samples.percentile(which).map_err(|why| why.to_string()));
        for (which, value) in Percentile::ALL.map(percentile).into_iter().chain([("max", Ok(of(worst)))]) {
            self.push(Row { name: format!("{name}, {which}"), n, value, unit, spread: None, worst });
        }
    }

    /// Adds the median costs of Enfilade and of a peer, and the quotient. Returns the quotient: the mean of the quotients of all pairs of samples. If
    /// the samples are not in pairs, or if there is only one pair, it is the quotient of the medians.
    pub(crate) fn compare(&mut self, goal: Option<&'static str>, paired: Paired<'_>) -> Estimate {
        let Paired { what, n, unit, ours, peer, theirs, floor } = paired;
        let paired = ours.len() == theirs.len();
        let (own, other) = (
            self.middle(&format!("{what}, Enfilade"), n, ours, unit),
            self.middle(&format!("{what}, {peer}"), n, theirs, unit),
        );
        let ratio = if paired && ours.len() > 1 { ours.over(theirs).mean() } else { own.over(other) };
        self.estimate(&format!("{what}, Enfilade to {peer}"), n, ratio, "times");
        if let Some(id) = goal {
            self.goal_at(id, n, ratio);
        }
        let (ours, theirs) = (own, other);
        self.comparisons.push(Comparison { what, n, unit, ours, peer, theirs, ratio, floor, goal });
        ratio
    }

    /// Judges a goal.
    pub(crate) fn goal(&mut self, id: &'static str, measured: Estimate) {
        self.judged.push(Judged { id, n: None, measured });
    }

    /// Judges a goal that is measured with several sizes.
    pub(crate) fn goal_at(&mut self, id: &'static str, n: u64, measured: Estimate) {
        self.judged.push(Judged { id, n: Some(n), measured });
    }

    /// Judges a rebuilt program by its cost, divided by the cost of the original. The goal limits the difference between this ratio and 1.
    pub(crate) fn faithful(&mut self, id: &'static str, what: &str, n: u64, ratio: Estimate) {
        self.estimate(what, n, ratio, "times");
        let [value, low, high] = [ratio.value, ratio.low, ratio.high].map(|ratio| (ratio - 1.0).abs());
        let worse = value.max(low).max(high);
        self.goal_at(id, n, Estimate { value, low: value, high: worse, samples: ratio.samples });
    }

    /// Records that something could not be measured, which makes the run fail.
    pub(crate) fn missing(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.missing.push((what.into(), why.into()));
    }

    /// Adds a program that Enfilade is compared with. Each name is added only once.
    pub(crate) fn peer(
        &mut self,
        name: impl Into<String>,
        version: impl Into<String>,
        configuration: impl Into<String>,
    ) {
        let (name, version, configuration) = (name.into(), version.into(), configuration.into());
        if self.peers.iter().all(|peer| peer.name != name) {
            self.peers.push(Peer { name, version, configuration });
        }
    }

    /// Keeps only the goals that belong to the options of this run: `keeps` returns true for their ids.
    pub(crate) fn keep_goals(&mut self, keeps: impl Fn(&str) -> bool) {
        self.goals.retain(|goal| keeps(goal.id));
    }

    /// The goals that were not measured.
    pub(crate) fn unmeasured(&self) -> impl Iterator<Item = &Goal> {
        self.goals.iter().filter(|goal| !self.judged.iter().any(|judged| judged.id == goal.id))
    }

    /// The definition of a goal. A benchmark that judges an unknown goal has a bug.
    pub(crate) fn goal_of(&self, judged: &Judged) -> Option<&Goal> {
        self.goals.iter().find(|goal| goal.id == judged.id)
    }

    /// Whether everything was measured, and every goal holds. The goals of a small run are not judged.
    pub(crate) fn holds(&self) -> bool {
        let holds = |judged: &Judged| self.goal_of(judged).is_some_and(|goal| goal.holds(judged.measured));
        let all_hold = || self.unmeasured().next().is_none() && self.judged.iter().all(holds);
        self.missing.is_empty() && (self.is_small || all_hold())
    }

    /// The ids of the goals that do not hold or were not measured. A small run has no such goals.
    pub(crate) fn failed(&self) -> Vec<&str> {
        if self.is_small {
            return Vec::new();
        }
        let failed = |goal: &&Goal| {
            let mut judged = self.judged.iter().filter(|judged| judged.id == goal.id).peekable();
            judged.peek().is_none() || judged.any(|judged| !goal.holds(judged.measured))
        };
        self.goals.iter().filter(failed).map(|goal| goal.id).collect()
    }

    pub(crate) fn to_text(&self) -> String {
        let width = self.rows.iter().map(|row| row.name.chars().count());
        let width = width.chain(self.goals.iter().map(|goal| goal.what.chars().count())).max().unwrap_or(0);
        let mut text = format!(
            "{:<width$}  {:>9}  {:>12}  {:<11}  {:>12}  {:>8}  SPREAD\n",
            "WHAT", "SIZE", "VALUE", "UNIT", "WORST", "SAMPLES"
        );
        for Row { name, n, value, unit, spread, worst } in &self.rows {
            let spread = spread.map_or(String::new(), |spread| format!("±{:.0} %", spread * 100.0));
            let _ = match value {
                Ok(estimate) => writeln!(
                    text,
                    "{name:<width$}  {n:>9}  {:>12}  {unit:<11}  {:>12}  {:>8}  {spread}",
                    figure(estimate.value),
                    figure(*worst),
                    estimate.samples
                ),
                Err(why) => writeln!(text, "{name:<width$}  {n:>9}  {why}"),
            };
        }
        let _ = writeln!(
            text,
            "WORST is the worst sample. If a value was computed from several samples, WORST is the worse end of its 95 % interval.\n\n\
             {:<width$}  {:>9}  {:>9}  {:>20}  {:>8}",
            "GOAL", "AT MOST", "MEASURED", "95 % INTERVAL", "SAMPLES"
        );
        for judged in &self.judged {
            let Some(goal) = self.goal_of(judged) else { continue };
            let word = match (self.is_small, goal.holds(judged.measured)) {
                (true, _) => "small run, not judged",
                (false, true) => "holds",
                (false, false) => "DOES NOT HOLD",
            };
            let size = judged.n.map_or(String::new(), |n| format!(" ({n})"));
            let Estimate { value, low, high, samples } = judged.measured;
            let shown = |value| match goal.unit {
                "times" => ratio(value),
                _ => figure(value),
            };
            let _ = writeln!(
                text,
                "{:<width$}  {:>9}  {:>9}  {:>20}  {samples:>8}  {word}: {}{size}, {}",
                goal.what,
                shown(goal.at_most),
                shown(value),
                format!("{} to {}", shown(low), shown(high)),
                goal.id,
                goal.unit
            );
        }
        for goal in self.unmeasured() {
            let word = if self.is_small { "not in a small run" } else { "NOT MEASURED" };
            let _ = writeln!(text, "{:<width$}  {:>9}  {word}: {}", goal.what, figure(goal.at_most), goal.id);
        }
        for (what, why) in &self.missing {
            let _ = writeln!(text, "NOT MEASURED: {what}: {why}");
        }
        text
    }
}

/// Whether a value with this unit is a rate, for which a larger value is better.
fn is_rate(unit: &str) -> bool {
    unit.ends_with("/s") || unit.ends_with("/CPU s")
}

/// A value with about three significant digits. Values from 100 on are rounded to whole numbers.
fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 || size == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// A ratio as docs/benchmarks.md shows it: a small ratio is a fraction.
fn ratio(value: f64) -> String {
    match value {
        small if small > 0.0 && small < 0.1 => format!("1/{}", figure(1.0 / small)),
        _ => figure(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(is_small: bool) -> Report {
        let goal = |id| Goal::new(id, 1.0, "times", format!("what {id} is"), "work");
        Report::new("try", is_small, vec![goal("one"), goal("two")])
    }

    #[test]
    fn a_goal_that_was_not_measured_fails() {
        let mut report = report(false);
        report.goal("one", Estimate::once(0.5));
        assert!(!report.holds());
        assert!(report.to_text().contains("NOT MEASURED: two"));
        assert_eq!(report.failed(), ["two"]);
        report.goal("two", Estimate::once(0.5));
        assert!(report.holds() && report.failed().is_empty());
    }

    #[test]
    fn a_missing_peer_fails_although_every_goal_holds() {
        for is_small in [false, true] {
            let mut report = report(is_small);
            report.goal("one", Estimate::once(0.5));
            report.goal("two", Estimate::once(0.5));
            assert!(report.holds());
            report.missing("a comparison", "the peer is not installed");
            assert!(!report.holds());
            assert!(report.to_text().contains("NOT MEASURED: a comparison: the peer is not installed"));
        }
    }

    #[test]
    fn each_case_of_a_goal_must_hold_at_its_worse_end() {
        let mut report = report(false);
        report.goal("two", Estimate::once(1.0));
        report.goal_at("one", 10, Estimate { value: 0.5, low: 0.4, high: 0.9, samples: 5 });
        assert!(report.holds());
        report.goal_at("one", 100, Estimate { value: 0.9, low: 0.8, high: 1.01, samples: 5 });
        assert!(!report.holds());
        assert_eq!(report.failed(), ["one"]);
    }

    #[test]
    fn an_unknown_goal_fails() {
        let mut report = report(false);
        for id in ["one", "two", "three"] {
            report.goal(id, Estimate::once(0.5));
        }
        assert!(!report.holds());
    }

    #[test]
    fn the_tail_of_few_samples_has_its_largest_only() {
        let mut report = report(false);
        report.tail("asked", 1, &(1..=10).map(f64::from).collect(), "ms");
        let told: Vec<_> =
            report.rows.iter().map(|row| row.value.as_ref().ok().map(|value| value.value)).collect();
        assert_eq!(told, [None, None, None, Some(10.0)]);
        assert!(report.to_text().contains("not enough samples: 10 of 1000"));
    }

    #[test]
    fn a_comparison_is_judged_by_its_pairs() {
        let mut report = report(false);
        // The machine became three times as slow in the middle, which affects both: the quotient is the same.
        let (ours, theirs) = (Samples::from_iter([1.0, 1.1, 3.0]), Samples::from_iter([2.0, 2.2, 6.0]));
        let paired = Paired {
            what: "work".into(),
            n: 1,
            unit: "ms",
            ours: &ours,
            peer: "it",
            theirs: &theirs,
            floor: None,
        };
        let ratio = report.compare(Some("one"), paired);
        assert!((ratio.value - 0.5).abs() < 1e-9 && (ratio.high - 0.5).abs() < 1e-9);
        assert_eq!(report.comparisons.first().and_then(|found| found.goal), Some("one"));
    }

    #[test]
    fn the_worst_of_a_rate_is_its_smallest() {
        let mut report = report(false);
        report.middle("asked", 1, &Samples::from_iter([3.0, 1.0, 2.0]), "requests/s");
        report.middle("waited", 1, &Samples::from_iter([3.0, 1.0, 2.0]), "ms");
        assert_eq!(report.rows.iter().map(|row| row.worst).collect::<Vec<_>>(), [1.0, 3.0]);
    }
}
