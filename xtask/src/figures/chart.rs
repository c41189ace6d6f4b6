//! Pictures of goals: a bar for each measured value, divided by its limit.

use super::record::Goal;
use std::fmt::Write as _;

const WIDTH: f64 = 900.0;
const LABEL: f64 = 330.0;
const LINE: f64 = 24.0;
/// The width of a bar whose value equals the limit.
const LIMIT: f64 = 300.0;
/// The length of the longest bar, as a multiple of the limit. A longer bar is cut at this length.
const MOST: f64 = 1.6;

/// Draws the goals of a benchmark: a bar for each value, with a thin line for its interval. A dashed line shows the limit.
pub(crate) fn svg(bench: &str, goals: &[Goal<'_>]) -> String {
    let height = LINE * (goals.len() as f64 + 2.5);
    let line = LABEL + LIMIT;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n\
         <text x=\"8\" y=\"18\" font-weight=\"bold\">{}: measured, divided by the limit</text>\n",
        escaped(bench)
    );
    for (index, goal) in goals.iter().enumerate() {
        let top = LINE * (index as f64 + 1.5);
        // If the limit is zero, only the value zero meets it.
        let share = |value: f64| match goal.at_most {
            limit if limit > 0.0 => (value / limit).clamp(0.0, MOST),
            _ if value <= 0.0 => 0.0,
            _ => MOST,
        };
        let (length, low, high) =
            (LIMIT * share(goal.measured.value), share(goal.measured.low), share(goal.measured.high));
        let color = if goal.holds { "#4477aa" } else { "#cc3311" };
        let size = goal.n.map_or(String::new(), |n| format!(" ({n})"));
        let (from, to, middle) = (LABEL + LIMIT * low, LABEL + LIMIT * high, top + 8.0);
        let _ = writeln!(
            text,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}{size}</text>\
             <rect x=\"{LABEL}\" y=\"{top}\" width=\"{length:.1}\" height=\"16\" fill=\"{color}\"/>\
             <line x1=\"{from:.1}\" x2=\"{to:.1}\" y1=\"{middle}\" y2=\"{middle}\" stroke=\"#000000\"/>\
             <text x=\"{:.1}\" y=\"{}\">{:.2}</text>",
            LABEL - 8.0,
            top + 13.0,
            escaped(goal.id),
            to.max(LABEL + length) + 6.0,
            top + 13.0,
            if goal.at_most > 0.0 { goal.measured.value / goal.at_most } else { goal.measured.value },
        );
    }
    let _ = writeln!(
        text,
        "<line x1=\"{line}\" x2=\"{line}\" y1=\"{}\" y2=\"{}\" stroke=\"#000000\" stroke-dasharray=\"4 3\"/>\n</svg>",
        LINE + 4.0,
        height - LINE + 6.0
    );
    text
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::record::Estimate;

    fn goal(id: &str, value: f64, at_most: f64) -> Goal<'_> {
        let measured = Estimate { value, low: value, high: value, samples: None };
        Goal { id, n: None, what: "", unit: "", at_most, measured, holds: value <= at_most }
    }

    #[test]
    fn a_bar_is_as_long_as_the_value_and_never_leaves_the_picture() {
        let text = svg("x & y", &[goal("half", 0.5, 1.0), goal("far", 900.0, 1.0), goal("zero", 0.0, 0.0)]);
        assert!(text.contains("x &amp; y"));
        assert!(
            text.contains("width=\"150.0\"")
                && text.contains("width=\"480.0\"")
                && text.contains("width=\"0.0\"")
        );
        assert_eq!(text.matches("#cc3311").count(), 1);
        assert!(text.contains("900.00"));
    }
}
