//! Numbers and texts as the page of benchmarks shows them.

use super::record::Estimate;

/// A limit as it is written in the code: as 1/N if it is below 1 and N is a whole number, otherwise as a number.
pub(super) fn limit(value: f64) -> String {
    match 1.0 / value {
        parts if value > 0.0 && value < 1.0 && (parts - parts.round()).abs() < 1e-9 => {
            format!("1/{parts:.0}")
        }
        _ => figure(value, ""),
    }
}

/// A text in a cell of a table. Text between two `$` would be shown as a formula.
pub(super) fn plain(text: &str) -> String {
    text.replace('|', "\\|").replace('$', "\\$")
}

pub(super) fn interval(of: Estimate, unit: &str) -> String {
    match of.samples {
        None => "–".to_owned(),
        Some(1) if of.low == of.high => "one sample".to_owned(),
        Some(_) => format!("{} to {}", figure(of.low, unit), figure(of.high, unit)),
    }
}

pub(super) fn samples(of: Estimate) -> String {
    of.samples.map_or("–".to_owned(), |samples| samples.to_string())
}

/// A value: from 100 on as a whole number, from 10 on with one decimal, below 10 with up to three decimals. A small ratio is shown as a fraction.
pub(super) fn figure(value: f64, unit: &str) -> String {
    match value.abs() {
        size if unit == "times" && size < 0.1 && size > 0.0 => format!("1/{}", figure(1.0 / value, "")),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}").trim_end_matches(".0").to_owned(),
        0.0 => "0".to_owned(),
        _ => format!("{value:.3}").trim_end_matches('0').trim_end_matches('.').to_owned(),
    }
}

/// A value with its unit.
pub(super) fn with_unit(value: f64, unit: &str) -> String {
    format!("{} {unit}", figure(value, unit))
}
