//! The page of campaigns: the newest record of each campaign, and of each group of judges.

use super::record::read_files;
use crate::campaigns::CAMPAIGNS;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

pub(crate) const PAGE: &str = "docs/campaigns.md";

const HEAD: &str = "\
# Campaigns

<!-- Written by `cargo xtask scoreboard` from the records in bench/runs. Do not edit this page: run a campaign, and write the page again. -->

A *campaign* is a long test that tries to break the server. This page shows, for each campaign, the newest run on a clean checkout (without
uncommitted changes). [reliability.md](reliability.md) describes most campaigns, and has the results of earlier runs, which were
written down by hand. What the number in the column *size* counts depends on the campaign: for `nemesis` and `planted` it is a time in seconds, for
`on-fleet` it is the number of members. The column *result* has the last line that each test of the campaign printed.

```sh
cargo xtask NAME [--n N] [--seed N]   # runs a campaign of this size, and writes a record; exits with 1 if a check fails
cargo xtask judges NAME               # runs other people's test suites, and writes a record
cargo xtask scoreboard                # writes this page from the records
```
";

/// A record of a campaign or of judges.
pub(super) struct Run {
    name: String,
    value: Value,
}

/// The records in `bench/runs` that are not of benchmarks, the oldest first.
pub(super) fn read_all(root: &Path) -> Result<Vec<Run>, String> {
    let is_run = |value: &Value| value.get("campaign").is_some() || value.get("judges").is_some();
    let files = read_files(root)?.into_iter().filter(|(_, value)| is_run(value));
    let mut runs: Vec<Run> = files.map(|(name, value)| Run { name, value }).collect();
    let seconds = |run: &Run| run.value.get("unix_seconds").and_then(Value::as_i64).unwrap_or(0);
    runs.sort_by_key(|run| (run.text("date"), seconds(run), run.name.clone()));
    Ok(runs)
}

impl Run {
    fn text(&self, key: &str) -> String {
        self.value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    fn number(&self, key: &str) -> u64 {
        self.value.get(key).and_then(Value::as_u64).unwrap_or(0)
    }

    fn is(&self, key: &str) -> bool {
        self.value.get(key).and_then(Value::as_bool) == Some(true)
    }

    /// The date as a link to the record, and the commit.
    fn source(&self) -> String {
        format!("[{}](../bench/runs/{}.json), {}", self.text("date"), self.name, self.text("commit"))
    }

    fn list(&self, key: &str) -> impl Iterator<Item = &Value> {
        self.value.get(key).and_then(Value::as_array).into_iter().flatten()
    }
}

/// The text of the page.
pub(super) fn written(runs: &[Run]) -> String {
    let mut page = HEAD.to_owned();
    let newest: BTreeMap<String, &Run> =
        runs.iter().filter(|run| run.is("clean")).map(|run| (run.text("campaign"), run)).collect();
    page.push_str("\n## Newest record of each campaign\n");
    if !newest.is_empty() {
        page.push_str("\n| campaign | size | date, commit | minutes | result |\n|---|---|---|---|---|\n");
    }
    // A campaign that failed comes first.
    let (passed, failed): (Vec<&Run>, Vec<&Run>) = newest.values().partition(|run| run.is("passed"));
    for run in failed.into_iter().chain(passed) {
        let verdict = if run.is("passed") { "" } else { "**failed**: " };
        let results: Vec<String> =
            run.list("results").filter_map(Value::as_str).map(|text| text.replace('|', "\\|")).collect();
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {} | {verdict}{} |",
            run.text("campaign"),
            run.number("n"),
            run.source(),
            run.number("seconds").div_ceil(60),
            results.join("; ")
        );
    }
    let open: Vec<String> = CAMPAIGNS
        .iter()
        .filter(|campaign| !newest.contains_key(campaign.name))
        .map(|campaign| format!("`{}` ({})", campaign.name, campaign.n))
        .collect();
    if !open.is_empty() {
        let _ = writeln!(
            page,
            "\nThese campaigns have no record yet (in parentheses: the size of a full run): {}.",
            open.join(", ")
        );
    }
    judges(&mut page, runs);
    page
}

fn judges(page: &mut String, runs: &[Run]) {
    let of_judges = runs.iter().filter(|run| run.value.get("judges").is_some());
    let newest: BTreeMap<String, &Run> = of_judges.map(|run| (run.text("judges"), run)).collect();
    page.push_str("\n## Newest record of the test suites of other projects\n\n");
    page.push_str("In the column *group*, `identity` means test suites for the Identity API, and `wire` means test suites for TLS, HTTP and WebDAV.\n\n");
    page.push_str("| group | suite | version | passed | skipped, with a reason | failed | date, commit |\n|---|---|---|---|---|---|---|\n");
    for (group, run) in newest {
        for row in run.list("rows") {
            let text = |key: &str| row.get(key).and_then(Value::as_str).unwrap_or("–");
            let number = |key: &str| row.get(key).and_then(Value::as_u64).unwrap_or(0);
            let _ = writeln!(
                page,
                "| {group} | {} | {} | {} | {} | {} | {} |",
                text("judge"),
                text("version"),
                number("passed"),
                number("skipped"),
                number("failed"),
                run.source()
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_newest_clean_record_is_shown_and_a_failed_one_first() {
        let run = |name: &str, value: Value| Run { name: name.to_owned(), value };
        let of = |campaign: &str, clean: bool, passed: bool, result: &str| {
            json!({ "campaign": campaign, "n": 7, "clean": clean, "passed": passed, "seconds": 61, "date": "2026-11-26",
                "commit": "abc", "results": [result] })
        };
        let page = written(&[
            run("1", of("race", true, true, "old")),
            run("2", of("race", true, true, "0 stale | 0 lost")),
            run("3", of("race", false, true, "of changed files")),
            run("4", of("trees", true, false, "one lost")),
        ]);
        let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
        assert_eq!(
            rows,
            [
                "| `trees` | 7 | [2026-11-26](../bench/runs/4.json), abc | 2 | **failed**: one lost |",
                "| `race` | 7 | [2026-11-26](../bench/runs/2.json), abc | 2 | 0 stale \\| 0 lost |",
            ]
        );
        assert!(page.contains("`bitflip` (10000)") && !page.contains("`race` (1000000)"));
    }
}
