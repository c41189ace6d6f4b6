//! What people and programs read: tables that line up, or JSON.

#![expect(clippy::print_stderr, reason = "this is the command line's voice")]

use serde_json::{Value, json};
use std::io::Write as _;

/// A line for people.
pub(crate) fn line(text: &str) {
    // A reader that went away (`| head`) is no error of ours.
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// A line for people that is no result.
pub(crate) fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// One JSON value on one line.
pub(crate) fn json_line(value: &Value) {
    line(&value.to_string());
}

/// Why the command failed.
pub(crate) fn error(json: bool, why: &anyhow::Error) {
    if json {
        eprintln!("{}", json!({ "error": { "message": format!("{why:#}") } }));
    } else {
        eprintln!("error: {why:#}");
    }
}

/// Seconds since the epoch as a date and time (RFC 3339, UTC).
pub(crate) fn time(unix_seconds: i64) -> String {
    let (days, seconds) = (unix_seconds.div_euclid(86_400), unix_seconds.rem_euclid(86_400));
    // Counted in eras of 400 years that begin on the first of March, so that a leap day is the last of its year.
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Either the JSON value or the line for people.
pub(crate) fn done(json: bool, value: &Value, text: &str) {
    if json { json_line(value) } else { line(text) }
}

/// A table: a heading and rows of the same number of cells, columns as wide as their widest cell.
pub(crate) fn table(heading: &[&str], rows: &[Vec<String>]) {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain(heading.get(column).map(|cell| cell.chars().count())).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heading.len()).map(width).collect();
    let print = |cells: &mut dyn Iterator<Item = &str>| {
        let padded: Vec<String> = cells.zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        line(padded.join("  ").trim_end());
    };
    print(&mut heading.iter().copied());
    for row in rows {
        print(&mut row.iter().map(String::as_str));
    }
}

#[cfg(test)]
mod tests {
    use super::time;

    #[test]
    fn times_as_dates() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (4_102_444_800, "2100-01-01T00:00:00Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(time(seconds), expected);
        }
    }
}
