//! References from a figure in a document to a record: `37 µs<!-- figure RECORD: row NAME (N) -->`, or `goal ID`. RECORD is the name of a file in
//! `bench/runs` without `.json`.

/// A figure in a document, and the record that it is taken from.
#[derive(Debug, PartialEq)]
pub(crate) struct Reference<'t> {
    /// The number and the unit as they are written.
    pub(crate) figure: &'t str,
    pub(crate) record: &'t str,
    pub(crate) key: &'t str,
}

const OPEN: &str = "<!-- figure ";
const CLOSE: &str = "-->";

/// Units, with their sizes: seconds, bytes, and parts of one.
const UNITS: [(&str, char, f64); 15] = [
    ("ns", 's', 1e-9),
    ("µs", 's', 1e-6),
    ("ms", 's', 1e-3),
    ("s", 's', 1.0),
    ("min", 's', 60.0),
    ("bytes", 'b', 1.0),
    ("KiB", 'b', 1024.0),
    ("MiB", 'b', 1_048_576.0),
    ("GiB", 'b', 1_073_741_824.0),
    ("%", '1', 0.01),
    ("times", '1', 1.0),
    ("×", '1', 1.0),
    ("requests/s", 'r', 1.0),
    ("requests a second", 'r', 1.0),
    ("instructions", 'i', 1.0),
];

/// Units that only figures of speed have. A figure with such a unit needs a reference.
const SPEEDS: [&str; 4] = ["ns", "µs", "requests/s", "requests a second"];

/// The references of a line.
pub(crate) fn references(line: &str) -> Vec<Result<Reference<'_>, String>> {
    let mut found = Vec::new();
    for (at, _) in line.match_indices(OPEN) {
        let (before, after) =
            (line.get(..at).unwrap_or_default(), line.get(at + OPEN.len()..).unwrap_or_default());
        let parts = after.split_once(CLOSE).and_then(|(inside, _)| inside.trim().split_once(": "));
        let reference = match (parts, last_figure(before)) {
            (Some((record, key)), Some(figure)) => Ok(Reference { figure, record, key }),
            (None, _) => Err(format!("expected `{OPEN}RECORD: KEY {CLOSE}` in one line")),
            (_, None) => Err("there is no number before the reference".to_owned()),
        };
        found.push(reference);
    }
    found
}

/// The last number of the text, to the end of the text.
fn last_figure(text: &str) -> Option<&str> {
    let text = text.trim_end_matches(['*', '`', ' ']);
    let end = text.rfind(|c: char| c.is_ascii_digit())? + 1;
    let digits = text.get(..end)?;
    let start = digits
        .rfind(|c: char| !(c.is_ascii_digit() || ".,/".contains(c)))
        .map_or(0, |at| at + digits.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8));
    text.get(start..)
}

/// Whether a written figure is the value of a record, rounded to its digits.
pub(crate) fn agrees(figure: &str, value: f64, unit: &str) -> Result<bool, String> {
    let end = figure.find(|c: char| !(c.is_ascii_digit() || ".,/".contains(c))).unwrap_or(figure.len());
    let (number, written) = figure.split_at(end);
    let known = |unit: &str| UNITS.iter().find(|(name, ..)| *name == unit.trim());
    let value = match (known(written), known(unit)) {
        (Some((_, kind, size)), Some((_, other, from))) if kind == other => value * from / size,
        (Some(_), Some(_)) => return Err(format!("the record has another unit: {unit}")),
        _ => value,
    };
    let (digits, value) = match number.split_once('/') {
        Some(("1", parts)) => (parts, 1.0 / value),
        Some(_) => return Err(format!("`{number}`: a fraction begins with 1")),
        None => (number, value),
    };
    let digits = digits.replace(',', "");
    let shown: f64 = digits.parse().map_err(|_| format!("`{number}` is not a number"))?;
    Ok((shown - value).abs() <= step(&digits) / 2.0 * (1.0 + 1e-9))
}

/// The place value of the last digit that counts. Zeros at the end of a whole number do not count after the first two digits.
fn step(digits: &str) -> f64 {
    let whole = digits.trim_start_matches('0');
    match digits.split_once('.') {
        Some((_, decimals)) => 0.1_f64.powi(i32::try_from(decimals.len()).unwrap_or(0)),
        None => {
            let zeros = whole.len() - whole.trim_end_matches('0').len();
            10_f64.powi(i32::try_from(zeros.min(whole.len().saturating_sub(2))).unwrap_or(0))
        }
    }
}

/// The figures of speed in a line that have no reference.
pub(crate) fn unreferenced(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for unit in SPEEDS {
        for (at, _) in line.match_indices(unit) {
            let (before, after) =
                (line.get(..at).unwrap_or_default(), line.get(at + unit.len()..).unwrap_or_default());
            let is_whole = !after.starts_with(|c: char| c.is_alphanumeric() || c == '/' || c == '_');
            let is_counted =
                before.strip_suffix(' ').unwrap_or(before).ends_with(|c: char| c.is_ascii_digit());
            let after = after.trim_start_matches(['*', '`', ' ']);
            if is_whole && is_counted && !after.starts_with(OPEN) {
                found.extend(last_figure(line.get(..at + unit.len()).unwrap_or_default()));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_read_with_the_figure_before_it() {
        let line =
            "takes **37 µs**<!-- figure 2026-x: row a: b (7) -->, 1/37<!-- figure y: goal door --> of it";
        let found: Vec<_> = references(line).into_iter().map(Result::unwrap).collect();
        assert_eq!(found[0], Reference { figure: "37 µs", record: "2026-x", key: "row a: b (7)" });
        assert_eq!(found[1], Reference { figure: "1/37", record: "y", key: "goal door" });
        assert!(references("37 µs<!-- figure no key -->")[0].is_err());
        assert!(references("none<!-- figure y: goal door -->")[0].is_err());
    }

    #[test]
    fn a_figure_agrees_if_it_is_the_rounded_value() {
        for (figure, value, unit, agrees_with) in [
            ("37 µs", 36.6, "µs", true),
            ("37 µs", 37.6, "µs", false),
            ("37 µs", 0.0366, "ms", true),
            ("0.037 ms", 36.6, "µs", true),
            ("1/37", 0.027, "times", true),
            ("1/37", 0.0264, "times", false),
            ("1.06 times", 1.0558, "times", true),
            ("1.05 times", 1.0558, "times", false),
            ("16 %", 0.158, "times", true),
            ("2,744,000 requests/s", 2_743_700.0, "requests/s", true),
            ("2,744,000 requests/s", 2_742_000.0, "requests/s", false),
            ("100", 97.0, "", true),
            ("100", 94.0, "", false),
        ] {
            assert_eq!(agrees(figure, value, unit), Ok(agrees_with), "{figure} of {value} {unit}");
        }
        assert!(agrees("37 µs", 37.0, "MiB").is_err());
        assert!(agrees("2/3", 0.66, "times").is_err());
    }

    #[test]
    fn a_figure_of_speed_needs_a_reference() {
        assert_eq!(unreferenced("it takes 15 µs instead of 9 µs<!-- figure x: goal y -->"), ["15 µs"]);
        assert_eq!(unreferenced("answers 22,900 requests a second"), ["22,900 requests a second"]);
        assert!(unreferenced("waits 250 ms; `5 nsec`; turns of ns; 3 requests/second").is_empty());
    }
}
