//! Why goals do not hold: the table in `bench/REASONS.md`, with figures of the newest record.

use super::REASONS;
use super::record::{Goal, Record};
use super::shown::with_unit;
use std::path::Path;

/// A row of the table.
#[derive(Debug, PartialEq)]
pub(crate) struct Reason {
    pub(crate) bench: String,
    pub(crate) goals: Vec<String>,
    /// The keys of two rows of the record: the lowest cost that any program can have for the work, and the cost of Enfilade.
    floor: Option<[String; 2]>,
    /// The text. `{row NAME (N)}` and `{goal ID}` are places for values of the record.
    text: String,
}

/// Reads the table.
pub(crate) fn read_all(root: &Path) -> Result<Vec<Reason>, String> {
    let text = std::fs::read_to_string(root.join(REASONS)).map_err(|why| format!("`{REASONS}`: {why}"))?;
    read(&text)
}

fn read(text: &str) -> Result<Vec<Reason>, String> {
    let rows = text.lines().enumerate().filter(|(_, line)| line.starts_with('|'));
    rows.skip(2)
        .map(|(at, line)| row(line).ok_or_else(|| format!("line {}: expected five cells", at + 1)))
        .collect()
}

fn row(line: &str) -> Option<Reason> {
    let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
    let [bench, goals, floor, ours, text] = cells.try_into().ok()?;
    let floor = (floor != "–").then(|| [floor, ours].map(|key| key.trim_matches('`').to_owned()));
    let goals = goals.split(',').map(|id| id.trim().trim_matches('`').to_owned()).collect();
    Some(Reason { bench: bench.to_owned(), goals, floor, text: text.to_owned() })
}

impl Reason {
    /// Whether this is the reason of a goal.
    pub(crate) fn is_of(&self, bench: &str, goal: &Goal<'_>) -> bool {
        self.bench == bench && self.goals.iter().any(|id| id == goal.id)
    }

    /// The text with the values of the record.
    pub(crate) fn filled(&self, record: &Record) -> Result<String, String> {
        let mut filled = String::new();
        let mut rest = self.text.as_str();
        while let Some((before, after)) = rest.split_once('{') {
            let (key, after) = after.split_once('}').ok_or_else(|| format!("no `}}` after `{after:.20}`"))?;
            let (value, unit) = record.figure(key)?;
            filled.push_str(before);
            filled.push_str(&with_unit(value, unit));
            rest = after;
        }
        filled.push_str(rest);
        Ok(filled)
    }

    /// The floor and the cost of Enfilade, as text. `None` if there is no floor.
    pub(crate) fn floor(&self, record: &Record) -> Option<Result<String, String>> {
        let [floor, ours] = self.floor.as_ref()?;
        Some(record.figure(floor).and_then(|(floor, unit)| {
            let (ours, other) = record.figure(ours)?;
            match unit == other && floor <= ours {
                true => Ok(format!("{}; Enfilade: {}", with_unit(floor, unit), with_unit(ours, unit))),
                false => Err(format!(
                    "{floor} {unit} is no floor of {ours} {other} (it is higher, or its unit differs)"
                )),
            }
        }))
    }
}

/// What is wrong with the table: goals without a reason, reasons of goals that hold, and figures that the newest record does not have.
pub(crate) fn check(newest: &[&Record], reasons: &[Reason]) -> Vec<String> {
    let mut wrong = Vec::new();
    for record in newest {
        for goal in record.goals().filter(|goal| !goal.holds) {
            let count = reasons.iter().filter(|reason| reason.is_of(record.bench(), &goal)).count();
            if count != 1 {
                let (bench, id) = (record.bench(), goal.id);
                wrong.push(format!(
                    "`{id}` of `{bench}` does not hold and has {count} rows: exactly one row must say why"
                ));
            }
        }
    }
    for reason in reasons {
        let mut of = Vec::new();
        for id in &reason.goals {
            let fails = |record: &&&Record| {
                let mut goals = record.goals();
                record.bench() == reason.bench && goals.any(|goal| goal.id == id && !goal.holds)
            };
            match newest.iter().find(fails) {
                Some(record) => of.push(record),
                None => wrong.push(format!(
                    "`{id}` of `{}` holds in the newest record, or is not in it: remove the id from its row",
                    reason.bench
                )),
            }
        }
        for record in of {
            let filled = reason.filled(record).map(drop);
            let floor = reason.floor(record).unwrap_or_else(|| Ok(String::new())).map(drop);
            wrong.extend([filled, floor].into_iter().filter_map(Result::err).map(|why| {
                format!(
                    "the row of `{}` of `{}`: {why} in {}",
                    reason.goals.join("`, `"),
                    reason.bench,
                    record.name
                )
            }));
        }
    }
    wrong.sort();
    wrong.dedup();
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const HEAD: &str = "# x\n\n| benchmark | goals | floor | Enfilade | why |\n|---|---|---|---|---|\n";

    fn record(holds: bool) -> Record {
        let goal = |id: &str, holds: bool| json!({ "id": id, "what": "x", "measured": 1.5, "goal": 1.0, "unit": "times", "holds": holds });
        let row = |name: &str, value: f64| json!({ "name": name, "n": 4, "value": value, "unit": "ms" });
        let value: Value = json!({
            "bench": "try", "commit": "abc1234", "goals": [goal("one", holds), goal("two", true)],
            "rows": [row("the loop", 6.1), row("ours", 9.0)],
        });
        Record::new("2026-11-20-try".to_owned(), value)
    }

    fn wrong(rows: &str, holds: bool) -> Vec<String> {
        check(&[&record(holds)], &read(&format!("{HEAD}{rows}")).unwrap())
    }

    #[test]
    fn a_goal_that_does_not_hold_needs_a_reason_and_one_that_holds_must_not_have_one() {
        let reason = "| try | `one` | `row the loop` | `row ours (4)` | It reads {row the loop (4)}, and is {goal one}. |\n";
        assert!(wrong(reason, false).is_empty());
        assert_eq!(
            wrong("", false),
            ["`one` of `try` does not hold and has 0 rows: exactly one row must say why"]
        );
        assert!(wrong("", true).is_empty());
        assert!(wrong(reason, true)[0].contains("`one` of `try` holds in the newest record"));
        assert!(wrong("| try | `one`, `two` | – | – | x |\n", false)[0].contains("`two` of `try` holds"));
        assert_eq!(
            wrong(&reason.repeat(2), false)[0],
            "`one` of `try` does not hold and has 2 rows: exactly one row must say why"
        );
    }

    #[test]
    fn the_figures_are_those_of_the_record() {
        let reasons = read(&format!(
            "{HEAD}| try | `one` | `row the loop` | `row ours` | Reads take {{row the loop}}. |\n"
        ))
        .unwrap();
        assert_eq!(reasons[0].filled(&record(false)).unwrap(), "Reads take 6.1 ms.");
        assert_eq!(reasons[0].floor(&record(false)), Some(Ok("6.1 ms; Enfilade: 9 ms".to_owned())));
        assert!(
            wrong("| try | `one` | – | – | It takes {row gone}. |\n", false)[0].contains("no `row gone`")
        );
        let above = "| try | `one` | `row ours` | `row the loop` | x |\n";
        assert!(wrong(above, false)[0].contains("is no floor"));
        assert!(read(&format!("{HEAD}| try | `one` | x |\n")).is_err());
    }
}
