//! The results of a benchmark, as text and as JSON.

use crate::machine;
use crate::stopwatch::Samples;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// A measured value.
pub(crate) struct Row {
    pub(crate) name: String,
    /// The size of the measured case, such as the number of records or threads.
    pub(crate) n: u64,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    /// Half of the interquartile range, relative to the value; 0 for a single measurement.
    pub(crate) spread: f64,
}

/// A limit that a measurement must not exceed.
struct Goal {
    id: &'static str,
    what: String,
    measured: f64,
    goal: f64,
    unit: &'static str,
}

impl Goal {
    fn holds(&self) -> bool {
        self.measured <= self.goal
    }
}

pub(crate) struct Report {
    bench: String,
    rows: Vec<Row>,
    goals: Vec<Goal>,
}

impl Report {
    pub(crate) fn new(bench: &str) -> Self {
        Report { bench: bench.to_owned(), rows: Vec::new(), goals: Vec::new() }
    }

    pub(crate) fn name(&self) -> &str {
        &self.bench
    }

    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Adds a figure that was measured once.
    pub(crate) fn once(&mut self, name: &str, n: u64, value: f64, unit: &'static str) {
        self.rows.push(Row { name: name.to_owned(), n, value, unit, spread: 0.0 });
    }

    /// Adds the median of the samples, and returns it.
    pub(crate) fn middle(&mut self, name: &str, n: u64, samples: &Samples, unit: &'static str) -> f64 {
        let value = samples.at(50);
        self.rows.push(Row { name: name.to_owned(), n, value, unit, spread: samples.spread() });
        value
    }

    /// Adds the median and the 99th percentile. Returns the median.
    pub(crate) fn tail(&mut self, name: &str, n: u64, samples: &Samples, unit: &'static str) -> f64 {
        self.once(&format!("{name}, p99"), n, samples.at(99), unit);
        self.middle(&format!("{name}, p50"), n, samples, unit)
    }

    /// Adds a goal: the measured value must be at most `goal`.
    pub(crate) fn goal(
        &mut self,
        id: &'static str,
        what: &str,
        measured: f64,
        goal: f64,
        unit: &'static str,
    ) {
        self.goals.push(Goal { id, what: what.to_owned(), measured, goal, unit });
    }

    /// Adds a goal for a rebuilt program: its cost must be within a quarter of the original's. `ratio` is its cost divided by that of the original.
    pub(crate) fn faithful(&mut self, id: &'static str, what: &str, n: u64, ratio: f64) {
        self.once(what, n, ratio, "times");
        self.goal(id, &format!("{what}, off by"), (ratio - 1.0).abs(), 0.25, "times");
    }

    pub(crate) fn holds(&self) -> bool {
        self.goals.iter().all(Goal::holds)
    }

    pub(crate) fn to_json(&self) -> Value {
        let row = |row: &Row| json!({ "name": row.name, "n": row.n, "value": row.value, "unit": row.unit, "spread": row.spread });
        let goal = |goal: &Goal| {
            json!({
                "id": goal.id, "what": goal.what, "measured": goal.measured, "goal": goal.goal,
                "unit": goal.unit, "holds": goal.holds(),
            })
        };
        json!({
            "bench": self.bench, "machine": machine::machine(), "commit": machine::commit(),
            "rows": self.rows.iter().map(row).collect::<Vec<_>>(),
            "goals": self.goals.iter().map(goal).collect::<Vec<_>>(),
        })
    }

    pub(crate) fn to_text(&self) -> String {
        let width = self.rows.iter().map(|row| row.name.len()).chain(self.goals.iter().map(|g| g.what.len()));
        let width = width.max().unwrap_or(0);
        let mut text = format!("{:<width$}  {:>9}  {:>12}  {:<9}  SPREAD\n", "WHAT", "N", "VALUE", "UNIT");
        for Row { name, n, value, unit, spread } in &self.rows {
            let spread =
                if *spread == 0.0 { "once".to_owned() } else { format!("±{:.0} %", spread * 100.0) };
            let _ = writeln!(text, "{name:<width$}  {n:>9}  {:>12}  {unit:<9}  {spread}", figure(*value));
        }
        let _ = writeln!(text, "\n{:<width$}  {:>9}  {:>12}  UNIT", "GOAL", "AT MOST", "MEASURED");
        for goal in &self.goals {
            let Goal { what, measured, goal: most, unit, .. } = goal;
            let word = if goal.holds() { "holds" } else { "DOES NOT HOLD" };
            let _ = writeln!(
                text,
                "{what:<width$}  {:>9}  {:>12}  {unit:<9}  {word}",
                figure(*most),
                figure(*measured)
            );
        }
        text
    }
}

/// A value with three significant digits.
fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
