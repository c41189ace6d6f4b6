//! Goals: limits of measured values. A goal keeps its id, its limit and its workload; `bench/GOALS.md` has the list, and a line for each goal that
//! was removed.

use crate::samples::Estimate;

/// A limit that a measured value must not exceed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Goal {
    pub(crate) id: &'static str,
    pub(crate) at_most: f64,
    pub(crate) unit: &'static str,
    /// The measured value.
    pub(crate) what: String,
    /// The work that is measured: amounts, connections, turns. The text is composed from the constants of the benchmark.
    pub(crate) workload: String,
}

impl Goal {
    pub(crate) fn new(
        id: &'static str,
        at_most: f64,
        unit: &'static str,
        what: impl Into<String>,
        workload: impl Into<String>,
    ) -> Self {
        Goal { id, at_most, unit, what: what.into(), workload: workload.into() }
    }

    /// A goal is judged by the worse end of the interval.
    pub(crate) fn holds(&self, measured: Estimate) -> bool {
        measured.high <= self.at_most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worse_end_of_the_interval_decides() {
        let goal = Goal::new("id", 1.1, "times", "what", "work");
        let measured = |high| Estimate { value: 1.0, low: 0.9, high, samples: 15 };
        assert!(goal.holds(measured(1.1)));
        assert!(!goal.holds(measured(1.11)));
        assert!(!goal.holds(Estimate::once(f64::NAN)));
    }
}
