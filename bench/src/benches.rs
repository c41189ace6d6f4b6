//! The list of benchmarks. The tests compare their goals with `bench/GOALS.md` and with the records.

use crate::goals::Goal;

/// The goals of a benchmark.
type Goals = fn() -> Vec<Goal>;

/// The benchmarks, with the goals of each.
pub(crate) const BENCHES: [(&str, Goals); 21] = [
    ("access", crate::access::goals),
    ("access-alone", crate::access::goals_alone),
    ("certs", crate::certs::goals),
    ("confinement", crate::confinement::goals),
    ("connections", crate::connections::goals),
    ("content", crate::content::goals),
    ("datastores", crate::datastores::goals),
    ("decisions", crate::decisions::goals),
    ("facts", crate::facts::goals),
    ("fernet", crate::fernet::goals),
    ("fleet", crate::fleet::goals),
    ("flood", crate::flood::goals),
    ("growth", crate::growth::goals),
    ("growth-revocations", Vec::new),
    ("identity", crate::identity::goals),
    ("import", crate::import::goals),
    ("keystone", crate::fernet::comparison::goals),
    ("keystone-article", Vec::new),
    ("passage", crate::passage::goals),
    ("tokens", crate::tokens::goals),
    ("uploads", crate::uploads::goals),
];

/// The names of the benchmarks, separated by commas.
pub(crate) fn names() -> String {
    BENCHES.map(|(name, _)| name).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::collections::BTreeMap;
    use std::path::Path;

    const PAGE: &str = include_str!("../GOALS.md");

    /// The table below this heading in `bench/GOALS.md`: its rows, each as a list of cells.
    fn table(heading: &str) -> Vec<Vec<String>> {
        let (_, after) = PAGE.split_once(&format!("\n## {heading}\n")).expect("the heading is on the page");
        let section = after.split("\n## ").next().unwrap();
        let rows = section.lines().filter(|line| line.starts_with('|')).skip(2);
        rows.map(|row| row.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect())
            .collect()
    }

    fn row(bench: &str, goal: &Goal) -> Vec<String> {
        let limit = format!("{} {}", limit(goal.at_most), goal.unit);
        vec![bench.to_owned(), format!("`{}`", goal.id), limit, goal.what.clone(), goal.workload.clone()]
    }

    /// A limit as text: as 1/N if a limit below 1 is such a fraction, otherwise as a number.
    fn limit(value: f64) -> String {
        match 1.0 / value {
            parts if value > 0.0 && value < 1.0 && (parts - parts.round()).abs() < 1e-9 => {
                format!("1/{parts:.0}")
            }
            _ => format!("{}", (value * 1e3).round() / 1e3),
        }
    }

    fn removed() -> Vec<(String, String)> {
        let mut removed = Vec::new();
        for row in table("Goals that were removed") {
            let quoted = |cell: &str| -> Vec<String> {
                cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
            };
            for id in quoted(&row[0]) {
                removed.extend(quoted(&row[1]).into_iter().map(|bench| (bench, id.clone())));
            }
        }
        removed
    }

    #[test]
    fn each_goal_has_the_limit_and_the_workload_of_the_page() {
        let wanted: Vec<Vec<String>> = BENCHES
            .iter()
            .flat_map(|(bench, goals)| goals().into_iter().map(|goal| row(bench, &goal)))
            .collect();
        let page = table("Goals");
        let text = |rows: &[Vec<String>]| {
            rows.iter().map(|row| format!("| {} |", row.join(" | "))).collect::<Vec<_>>()
        };
        let (wanted, page) = (text(&wanted), text(&page));
        let changed: Vec<_> = wanted.iter().filter(|row| !page.contains(row)).collect();
        let gone: Vec<_> = page.iter().filter(|row| !wanted.contains(row)).collect();
        let lines = |rows: &[&String]| rows.iter().map(|row| format!("{row}\n")).collect::<String>();
        assert!(
            changed.is_empty() && gone.is_empty(),
            "a goal keeps its id, its limit and its workload: give a changed one a new id, and add a line for the removed one to `Goals that were \
             removed` in bench/GOALS.md\nnot on the page:\n{}not in the code:\n{}",
            lines(&changed),
            lines(&gone)
        );
    }

    #[test]
    fn an_id_is_used_once_and_not_again_after_its_removal() {
        for (bench, goals) in BENCHES {
            let mut seen = BTreeMap::new();
            for goal in goals() {
                assert_eq!(seen.insert(goal.id, ()), None, "{bench}: {}", goal.id);
                let is_removed = removed().contains(&(bench.to_owned(), goal.id.to_owned()));
                assert!(!is_removed, "{bench}: `{}` was removed: take another id", goal.id);
            }
        }
    }

    #[test]
    fn each_goal_of_a_record_is_still_there_or_has_a_line_that_says_why_not() {
        let removed = removed();
        let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("runs");
        for file in std::fs::read_dir(runs).unwrap().flatten() {
            let record: Value = serde_json::from_slice(&std::fs::read(file.path()).unwrap()).unwrap();
            let Some(bench) = record["bench"].as_str() else { continue };
            let goals = BENCHES.iter().find(|(name, _)| *name == bench).map(|(_, goals)| goals()).unwrap();
            for judged in record["goals"].as_array().into_iter().flatten() {
                let id = judged["id"].as_str().unwrap();
                let place = format!("{}: goal `{id}`", file.path().display());
                let Some(goal) = goals.iter().find(|goal| goal.id == id) else {
                    assert!(removed.contains(&(bench.to_owned(), id.to_owned())), "{place} has no line");
                    continue;
                };
                assert_eq!(judged["goal"].as_f64(), Some(goal.at_most), "{place} has another limit");
                if let Some(workload) = judged["workload"].as_str() {
                    assert_eq!(workload, goal.workload, "{place} has another workload");
                }
            }
        }
    }
}
