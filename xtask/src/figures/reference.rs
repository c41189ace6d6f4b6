//! References from a figure in a document to a record: `37 µs<!-- figure RECORD: row NAME (N) -->`, or with `goal ID` in place of `row NAME (N)`.
//! RECORD is the name of a file in `bench/runs` without `.json`.

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

/// Units. Each has a kind (time, bytes, ratio, rate or instructions), and its size in the basic unit of the kind.
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

/// Words of a sentence that says what was measured. In such a sentence, each figure needs a reference.
const MEASURED: [&str; 10] = [
    "measured",
    "measurement",
    "takes",
    "took",
    "costs",
    "faster",
    "slower",
    "per second",
    "a second",
    "throughput",
];

/// In a sentence with one of the words [`MEASURED`], figures with these units need a reference. Figures with a unit of [`SPEEDS`] need a reference in
/// every sentence.
const MEASURES: [&str; 14] =
    ["ms", "s", "min", "seconds", "minutes", "hours", "KiB", "MiB", "GiB", "kB", "MB", "GB", "%", "times"];

/// Words directly before a number that make it a limit or a condition, not something that was measured.
const LIMITS: [&str; 14] = [
    "at most", "at least", "up to", "than", "after", "within", "every", "above", "below", "until", "for",
    "over", "last", "first",
];

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

/// The end of the text, from its last number on.
fn last_figure(text: &str) -> Option<&str> {
    let text = text.trim_end_matches(['*', '`', ' ']);
    let end = text.rfind(|c: char| c.is_ascii_digit())? + 1;
    let digits = text.get(..end)?;
    let start = digits
        .rfind(|c: char| !(c.is_ascii_digit() || ".,/".contains(c)))
        .map_or(0, |at| at + digits.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8));
    text.get(start..)
}

/// Whether a written figure is the value of a record, rounded to the digits of the written figure.
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

/// The figures of a sentence about a measurement that have no reference. Figures in backquotes are settings, not measurements.
pub(crate) fn unreferenced_measures(sentence: &str) -> Vec<&str> {
    let is_whole = |(at, word): (usize, &str)| {
        let before = sentence.get(..at).and_then(|before| before.chars().next_back());
        let after = sentence.get(at + word.len()..).and_then(|after| after.chars().next());
        [before, after].into_iter().flatten().all(|c| !c.is_alphanumeric())
    };
    if !MEASURED.iter().any(|word| sentence.match_indices(*word).any(is_whole)) {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut end = 0;
    while let Some(rest) = sentence.get(end..)
        && let Some(start) = rest.find(|c: char| c.is_ascii_digit())
    {
        let start = end + start;
        let before = sentence.get(..start).unwrap_or_default();
        let number = sentence.get(start..).unwrap_or_default();
        let length =
            number.find(|c: char| !(c.is_ascii_digit() || ".,/".contains(c))).unwrap_or(number.len());
        end = start + length;
        let after = number.get(length..).unwrap_or_default();
        let word = after.strip_prefix(' ').unwrap_or(after);
        let unit = word
            .find(|c: char| !(c.is_alphabetic() || c == '%'))
            .map_or(word, |at| word.get(..at).unwrap_or_default());
        let is_part = number.starts_with("1/") && length > 2;
        let is_measure = MEASURES.contains(&unit) || is_part;
        let is_name = before.ends_with(|c: char| c.is_alphanumeric() || "-_./§#".contains(c));
        let is_code = before.matches('`').count() % 2 == 1;
        // The name of a row in a reference may contain figures.
        let is_comment =
            before.rfind(OPEN).is_some_and(|open| before.rfind(CLOSE).is_none_or(|close| close < open));
        let is_limit = LIMITS.iter().any(|word| before.trim_end_matches([' ', '(', '*']).ends_with(word));
        let tail = if MEASURES.contains(&unit) { word.get(unit.len()..).unwrap_or_default() } else { after };
        if is_measure
            && !is_name
            && !is_code
            && !is_comment
            && !is_limit
            && !tail.trim_start_matches(['*', '`', ' ']).starts_with(OPEN)
        {
            let length = number.len() - tail.len();
            found.push(number.get(..length).unwrap_or_default());
        }
    }
    found
}

/// The sentences of a document outside of code, each with the number of its first line. A sentence also ends at the end of a cell of a table.
pub(crate) fn sentences(text: &str) -> Vec<(usize, String)> {
    let (mut found, mut open, mut is_code) = (Vec::new(), (0, String::new()), false);
    for (index, line) in text.lines().enumerate() {
        let line_of = index + 1;
        let trimmed = line.trim();
        let mut end = |open: &mut (usize, String)| {
            let (line, sentence) = std::mem::take(open);
            if !sentence.is_empty() {
                found.push((line, sentence));
            }
        };
        if trimmed.starts_with("```") {
            is_code = !is_code;
        }
        let is_item = trimmed.starts_with("- ")
            || trimmed.starts_with('#')
            || trimmed.split_once(". ").is_some_and(|(n, _)| n.parse::<u8>().is_ok());
        if is_code || trimmed.is_empty() || trimmed.starts_with('|') || is_item {
            end(&mut open);
        }
        if is_code || trimmed.starts_with("```") {
            continue;
        }
        let cells = if trimmed.starts_with('|') {
            trimmed.trim_matches('|').split(" | ").collect()
        } else {
            vec![trimmed]
        };
        let is_table = trimmed.starts_with('|');
        for cell in cells {
            for part in cell.split_inclusive(". ") {
                let (line, sentence) = &mut open;
                if sentence.is_empty() {
                    *line = line_of;
                } else if !sentence.ends_with(' ') {
                    sentence.push(' ');
                }
                sentence.push_str(part);
                if part.ends_with(". ") || part.ends_with('.') || is_table {
                    end(&mut open);
                }
            }
        }
    }
    if !open.1.is_empty() {
        found.push(open);
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

    #[test]
    fn a_figure_in_a_sentence_about_a_measurement_needs_a_reference() {
        for (sentence, found) in [
            ("An upgrade takes 9 to 15 s on two cores.", vec!["15 s"]),
            ("An upgrade takes about 15 s on two cores.", vec!["15 s"]),
            ("A start took 28.8 s<!-- figure x: row y -->, or 1/171 of it, measured twice.", vec!["1/171"]),
            ("It is 544 times faster and needs **16 MiB**.", vec!["544 times", "16 MiB"]),
            ("It costs 30% more.", vec!["30%"]),
            ("The answer takes up to 10 seconds, at most 2 MiB, or `[facts] stale_limit = 60 s`.", vec![]),
            ("The default is 60 s, and `idle_seconds` is 10 seconds.", vec![]),
            ("It takes 3 files, version 2.6.0, HTTP/1.1, and RFC-7 s.", vec![]),
            ("A mistake costs nothing.", vec![]),
            ("A download takes 5 ms<!-- figure x: row GET of 4 kB (5) -->.", vec![]),
        ] {
            let expected: Vec<&str> = found;
            assert_eq!(unreferenced_measures(sentence), expected, "{sentence}");
        }
    }

    #[test]
    fn a_sentence_goes_over_lines_and_ends_at_its_point() {
        let text = "# x\n\nIt takes\n15 s. One.\n\n```sh\nno\n```\n- a\n- b\n\n| c | d. e |\n";
        let found: Vec<(usize, String)> =
            sentences(text).into_iter().map(|(line, text)| (line, text.trim().to_owned())).collect();
        let expected = [
            (1, "# x"),
            (3, "It takes 15 s."),
            (4, "One."),
            (9, "- a"),
            (10, "- b"),
            (12, "c"),
            (12, "d."),
            (12, "e"),
        ];
        assert_eq!(found, expected.map(|(line, text)| (line, text.to_owned())));
    }
}
