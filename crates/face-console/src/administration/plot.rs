//! Small plots of the main figures, as SVG.

use enfilade_faces::{HISTORY_MINUTES, Minute};
use maud::{Markup, html};
use std::fmt::Write as _;

/// The height of a plot, in units of the SVG. A minute is one unit wide.
const HEIGHT: f64 = 40.0;

/// A figure that has a value for each minute.
pub(crate) struct Figure {
    pub(crate) label: &'static str,
    pub(crate) of: fn(&Minute) -> u64,
    pub(crate) shown: fn(u64) -> String,
}

/// The plot of a figure: a line, the newest value, and the largest value. The newest minute is at the right.
pub(crate) fn plot(figure: &Figure, minutes: &[Minute]) -> Markup {
    let values: Vec<u64> = minutes.iter().map(figure.of).collect();
    let (now, most) = (values.last().copied().unwrap_or(0), values.iter().copied().max().unwrap_or(0));
    let (now, most_text) = ((figure.shown)(now), (figure.shown)(most));
    let label = format!("{}: now {now}, at most {most_text}", figure.label);
    html! {
        figure.plot {
            figcaption { (figure.label) }
            strong { (now) }
            svg viewBox={ "0 0 " (HISTORY_MINUTES) " " (HEIGHT) } preserveAspectRatio="none" role="img" aria-label=(label) {
                polyline points=(points(&values, most)) fill="none" vector-effect="non-scaling-stroke" {}
            }
            span.weak { "at most " (most_text) }
        }
    }
}

/// The corners of the line. The largest value is at the top, and 0 is at the bottom.
fn points(values: &[u64], most: u64) -> String {
    let first = HISTORY_MINUTES.saturating_sub(values.len());
    let mut text = String::new();
    for (at, value) in values.iter().enumerate() {
        let height = if most == 0 { 0.0 } else { *value as f64 / most as f64 * (HEIGHT - 2.0) };
        let _ = write!(text, "{}{},{:.1}", if at == 0 { "" } else { " " }, first + at, HEIGHT - 1.0 - height);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_value_is_at_the_top_and_the_newest_at_the_right() {
        assert_eq!(points(&[0, 5, 10], 10), "177,39.0 178,20.0 179,1.0");
        assert_eq!(points(&[0, 0], 0), "178,39.0 179,39.0");
        assert_eq!(points(&[], 0), "");
    }

    #[test]
    fn a_plot_says_its_values_as_text() {
        let figure = Figure {
            label: "Requests in a minute",
            of: |minute| minute.requests,
            shown: |value| value.to_string(),
        };
        let minute = |requests| Minute { requests, ..Minute::default() };
        let svg = plot(&figure, &[minute(7), minute(3)]).into_string();
        assert!(svg.contains("aria-label=\"Requests in a minute: now 3, at most 7\""), "{svg}");
        assert!(!svg.contains("style="), "the content security policy forbids inline styles: {svg}");
    }
}
