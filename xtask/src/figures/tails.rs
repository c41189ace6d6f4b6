//! The latencies of a record: percentiles, the longest latency, and the number of latencies.

use super::record::{Estimate, Record};
use super::shown::{plain, samples, with_unit};
use std::fmt::Write as _;

/// The name of each row of a tail ends with one of these words.
const PARTS: [&str; 4] = ["p50", "p99", "p99.9", "max"];

/// The latencies of one kind of requests.
struct Tail<'r> {
    what: &'r str,
    n: u64,
    unit: &'r str,
    parts: [Option<Estimate>; 4],
}

/// The table of latencies of a record; empty if it has none.
pub(super) fn table(record: &Record) -> String {
    let tails = tails(record);
    if tails.is_empty() {
        return String::new();
    }
    let mut table =
        "| latency | size | p50 | p99 | p99.9 | max | n |\n|---|---|---|---|---|---|---|\n".to_owned();
    for tail in tails {
        let cell =
            |part: &Option<Estimate>| part.map_or("–".to_owned(), |of| with_unit(of.value, tail.unit));
        let cells: Vec<String> = tail.parts.iter().map(cell).collect();
        let count = tail.parts.iter().flatten().next().map_or("–".to_owned(), |of| samples(*of));
        let _ = writeln!(table, "| {} | {} | {} | {count} |", plain(tail.what), tail.n, cells.join(" | "));
    }
    table.push('\n');
    table
}

fn tails(record: &Record) -> Vec<Tail<'_>> {
    let mut tails: Vec<Tail<'_>> = Vec::new();
    for (name, n, value, unit) in record.rows() {
        let Some((what, part)) = name.rsplit_once(", ") else { continue };
        let Some(part) = PARTS.iter().position(|known| *known == part) else { continue };
        if !tails.iter().any(|tail| (tail.what, tail.n) == (what, n)) {
            tails.push(Tail { what, n, unit, parts: [None; 4] });
        }
        let tail = tails.iter_mut().find(|tail| (tail.what, tail.n) == (what, n));
        if let Some(cell) = tail.and_then(|tail| tail.parts.get_mut(part)) {
            *cell = Some(value);
        }
    }
    tails
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn a_tail_has_all_percentiles_the_longest_latency_and_the_number_of_samples() {
        let row = |name: &str, value: f64| json!({ "name": name, "n": 7, "value": value, "unit": "ms", "samples": 5000 });
        let mut rows = vec![row("a walk, CPU", 1.0)];
        rows.extend(
            [("p50", 0.5), ("p99", 2.0), ("p99.9", 3.25), ("max", 120.0)]
                .map(|(part, value)| row(&format!("a walk, {part}"), value)),
        );
        rows.push(json!({ "name": "old, p99", "n": 7, "value": 4.0, "unit": "ms" }));
        rows.push(json!({ "name": "few, p99", "n": 7, "value": null, "unit": "ms", "why": "too few" }));
        let record = Record::new("x".to_owned(), json!({ "bench": "try", "rows": rows }));
        let lines: Vec<String> = table(&record).lines().skip(2).map(str::to_owned).collect();
        assert_eq!(
            lines,
            [
                "| a walk | 7 | 0.5 ms | 2 ms | 3.25 ms | 120 ms | 5000 |",
                "| old | 7 | – | 4 ms | – | – | – |",
                ""
            ]
        );
        assert_eq!(table(&Record::new("x".to_owned(), Value::Null)), "");
    }
}
