//! The page of benchmarks: goals and comparisons of the newest record of each benchmark. Goals that do not hold come first.

use super::reasons::Reason;
use super::record::{Comparison, Goal, Record};
use super::shown::{figure, interval, limit, plain, samples, with_unit};
use super::{chart, tails};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::Write as _;

pub(crate) const PAGE: &str = "docs/benchmarks.md";
/// The directory of pictures.
pub(crate) const PICTURES: &str = "docs/benchmarks";

const HEAD: &str = "\
# Benchmarks

<!-- Written by `cargo xtask scoreboard` from the records in bench/runs. Do not edit this page: run a benchmark, and write the page again. -->

How fast is Enfilade, compared with what, and how do I measure it myself? Each figure of this page is from a record in [bench/runs](../bench/runs):
for each benchmark, the newest record that was made while no file differed from its commit.

```sh
cargo xtask bench NAME           # measures, prints the goals, and writes a record; exits with 1 if a goal fails or something is not measured
cargo xtask bench NAME --small   # a short run, only to see that it works; without a record
cargo xtask bench all --install  # installs what Enfilade is compared with, then runs each benchmark that has no record of this commit
cargo xtask scoreboard           # writes this page from the records
```

A benchmark runs as root on Debian: it starts all servers itself, on loopback, and empties the page cache. Nothing else should run on the machine.
Most benchmarks need minutes; on two cores, `access` needs more than an hour. A measured value is shown at once, but the record is written at the end.

- A goal limits a measured value. It is judged by the worse end of the 95 % interval. The limit and the workload of a goal never change;
  [bench/GOALS.md](../bench/GOALS.md) has the workload of each, and says why a goal was removed. [bench/REASONS.md](../bench/REASONS.md) says why goals
  do not hold.
- A request passes five *doors*: 1 TLS, 2 identity, 3 datastore, 4 access, 5 content. A *walk* is the path of a request through the doors. A *memo* is a
  table of bounded size with remembered results. `/.well-known/enfilade` gives the smallest answer of the server, without a login; `/whoami` needs a
  token. [GLOSSARY.md](../GLOSSARY.md) has more words.
- Enfilade and the server that it is compared with (the column *peer*) are measured in the same run, mostly alternately. One measurement of one server is
  a *turn*, and a *pair* has one turn of each server. \"Median p99 of the turns\": each turn has a p99, and the row shows the median of these values.
  Compare ratios, not absolute times: the machines differ.
- The columns *Enfilade* and *peer* have medians. If the servers were measured in pairs, the ratio is the mean of the ratios of all pairs. So the ratio
  can differ from the quotient of the two medians, and the lower end of a wide interval can be negative. If the servers were not measured in pairs,
  *samples* is the smaller number of samples of the two. For example, three starts of Enfilade and one listing by Samba are 1 sample.
- \"CPU\" is the CPU time of all processes of a server, and \"CPU of each\" is this time for one request. \"CPU of its own processes\" leaves out the
  database and memcached of Keystone. \"Memory of its own\" is anonymous memory, without mapped files.
- \"Floor\" is a cost below which no program can be: the cost of the parts of the work that every program must do. It is measured in the same run, mostly
  by a loop without a server. In the table of goals that do not hold, Enfilade's cost is shown after the floor. If the limit is a ratio, the limit
  times the cost of the peer is about the highest cost with which the goal holds. A floor above Enfilade's cost is not shown.
- \"p99\" is the latency that 99 % of n requests do not exceed, \"max\" is the longest of the n latencies. A latency \"at planned times\" counts from the
  time at which the request should begin, also if the server is late.
- \"First touch\" is the first listing after a start with an empty page cache, so names and ACLs are read from the disk.
- \"Rebuilt\" is a part of Proxmox Backup Server that was rebuilt from descriptions (`bench/peers`), and \"the original\" is Proxmox Backup Server
  itself, measured on another machine. \"Without a cache\" is the version before 4.1.6, which hashes the secret of a token in each request.
  Goals about a rebuilt part alone do not measure Enfilade: they check that the rebuilt part does the same work as the original.
- \"Holds in 3 of 4\": the goal holds in 3 of the 4 usable records that measured it, older records included.
- An interval describes the differences within one run, and not between two runs. If you repeat a row, your interval should overlap with the interval of
  the page. For a ratio this is usual, also on another processor. A difference between two times and an absolute time can be quite different on
  another day, also on a machine of the same type.
- \"**no** (interval)\": the measured value is below the limit, and only the worse end of the interval is above it. Another run can have the opposite
  result.
- Older records have no intervals and no numbers of samples (`–`). Each record says what else it lacks.

What is not on this page: [reliability.md](reliability.md) has the campaigns that try to break the server.
";

/// All files of the page: paths from the repository's root, and texts.
/// `goals` is the text of `bench/GOALS.md`, and `reasons` says why goals do not hold.
pub(crate) fn written(records: &[Record], goals: &str, reasons: &[Reason]) -> Vec<(String, String)> {
    let usable: Vec<&Record> = usable(records).collect();
    let newest = newest(records);
    let mut page = HEAD.to_owned();
    let links: Vec<String> =
        newest.iter().map(|record| titled(record)).map(|name| format!("[`{name}`](#{name})")).collect();
    let _ = writeln!(page, "\nThe benchmarks: {}.", links.join(", "));
    let mut files = Vec::new();
    failing(&mut page, goals, &newest, &usable, reasons);
    without_record(&mut page, goals, newest.iter().copied());
    for record in &newest {
        let (bench, name) = (record.bench(), titled(record));
        let _ = writeln!(page, "\n## `{name}`\n");
        if let Some(size) = size_of(goals, bench) {
            let _ = writeln!(page, "In the column *size*: {size}.\n");
        }
        let judged = ordered(record.goals());
        if !judged.is_empty() {
            let _ = writeln!(page, "![goals of {name}](benchmarks/{name}.svg)\n");
            page.push_str("| goal | at most | measured | interval | samples | holds | holds in |\n|---|---|---|---|---|---|---|\n");
            for goal in &judged {
                let _ = writeln!(page, "| {}: {} |", sized(goal), row(goals, goal, record, &usable));
            }
            page.push('\n');
            files.push((format!("{PICTURES}/{name}.svg"), chart::svg(&name, &judged)));
        }
        comparisons(&mut page, record);
        page.push_str(&tails::table(record));
        about(&mut page, record);
    }
    unused(&mut page, records);
    files.push((PAGE.to_owned(), page));
    files
}

/// The heading of a record on the page: its benchmark, and its size if it has one.
fn titled(record: &Record) -> String {
    let bench = record.bench();
    record.size().map_or(bench.to_owned(), |size| format!("{bench}-{size}"))
}

/// The meaning of the sizes of a benchmark, from the table in `bench/GOALS.md`.
fn size_of<'t>(goals: &'t str, bench: &str) -> Option<&'t str> {
    let table = goals.split_once("\n## Sizes\n")?.1.split("\n## ").next()?;
    table.lines().find_map(|line| line.strip_prefix(&format!("| {bench} | "))?.strip_suffix(" |"))
}

/// The records that the page may use.
fn usable(records: &[Record]) -> impl Iterator<Item = &Record> {
    records.iter().filter(|record| record.refusal().is_none())
}

/// The newest record of each benchmark and size. `records` must be in the order of their age, the oldest first.
pub(crate) fn newest(records: &[Record]) -> Vec<&Record> {
    let newest: BTreeMap<(&str, Option<&str>), &Record> =
        usable(records).map(|record| ((record.bench(), record.size()), record)).collect();
    newest.into_values().collect()
}

/// Sorts the goals: first the goals that do not hold, then the goals that are closest to their limit.
fn ordered<'r>(goals: impl Iterator<Item = Goal<'r>>) -> Vec<Goal<'r>> {
    let mut goals: Vec<Goal<'r>> = goals.collect();
    goals.sort_by(|one, other| {
        let share =
            |goal: &Goal<'_>| if goal.at_most > 0.0 { goal.measured.high / goal.at_most } else { 0.0 };
        one.holds.cmp(&other.holds).then_with(|| share(other).total_cmp(&share(one)))
    });
    goals
}

/// The id of a goal and its size, if it has one.
fn sized(goal: &Goal<'_>) -> String {
    goal.n.map_or_else(|| format!("`{}`", goal.id), |n| format!("`{}` ({n})", goal.id))
}

/// The rows of the table of goals in `bench/GOALS.md`: the cells of each row.
fn listed(goals: &str) -> impl Iterator<Item = Vec<&str>> {
    let section = goals.split_once("\n## Goals\n").map_or("", |(_, after)| after);
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with('|'));
    rows.map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
}

/// The measured value of a goal in words, from `bench/GOALS.md`. The workload of an id never changes, so the words are also right for older records.
fn what<'t>(goals: &'t str, bench: &str, goal: &Goal<'t>) -> &'t str {
    let id = format!("`{}`", goal.id);
    let of = |cells: Vec<&'t str>| match cells.as_slice() {
        [of, found, _, what, ..] if *of == bench && *found == id => Some(*what),
        _ => None,
    };
    listed(goals).find_map(of).unwrap_or(goal.what)
}

/// The cells of a goal after its name.
fn row(goals: &str, goal: &Goal<'_>, record: &Record, usable: &[&Record]) -> String {
    let holds = match goal.holds {
        true => "yes",
        false if goal.measured.value <= goal.at_most => "**no** (interval)",
        false => "**no**",
    };
    let (good, all) = held(goal, record, usable);
    format!(
        "{} | {} {} | {} | {} | {} | {holds} | {good} of {all}",
        plain(what(goals, record.bench(), goal)),
        limit(goal.at_most),
        goal.unit,
        figure(goal.measured.value, goal.unit),
        interval(goal.measured, goal.unit),
        samples(goal.measured),
    )
}

/// In how many usable records of the benchmark the goal holds, and in how many it was measured.
fn held(goal: &Goal<'_>, record: &Record, usable: &[&Record]) -> (usize, usize) {
    let of = |other: &&&Record| (other.bench(), other.size()) == (record.bench(), record.size());
    let measured = usable.iter().filter(of).filter_map(|other| {
        let mut cases = other
            .goals()
            .filter(|found| found.id == goal.id && (found.n, goal.n).0.is_none_or(|n| Some(n) == goal.n))
            .peekable();
        cases.peek()?;
        Some(cases.all(|found| found.holds))
    });
    let all: Vec<bool> = measured.collect();
    (all.iter().filter(|holds| **holds).count(), all.len())
}

/// Writes the goals that do not hold, of all benchmarks, with the reasons, and the measurements that were not possible.
fn failing(page: &mut String, goals: &str, newest: &[&Record], usable: &[&Record], reasons: &[Reason]) {
    let (mut rows, mut missing, mut all) = (String::new(), String::new(), 0);
    let mut said: Vec<(&Reason, &Record)> = Vec::new();
    for record in newest.iter().copied() {
        for goal in ordered(record.goals()) {
            all += 1;
            if goal.holds {
                continue;
            }
            let reason = reasons.iter().find(|reason| reason.is_of(record.bench(), &goal));
            let floor =
                reason.and_then(|reason| reason.floor(record)?.ok()).unwrap_or_else(|| "–".to_owned());
            let cells = row(goals, &goal, record, usable);
            let _ = writeln!(rows, "| `{}` | {}: {cells} | {floor} |", record.bench(), sized(&goal));
            if let Some(reason) = reason.filter(|reason| said.iter().all(|(other, _)| other != reason)) {
                said.push((reason, record));
            }
        }
        for (what, why) in record.not_measured() {
            let _ = writeln!(missing, "- `{}`: {what}: {why}", record.bench());
        }
    }
    let failed = rows.lines().count();
    let _ = writeln!(
        page,
        "\n## Goals that do not hold\n\n{failed} of {all} goals do not hold in the newest record."
    );
    if failed > 0 {
        page.push_str("\n| benchmark | goal | at most | measured | interval | samples | holds | holds in | floor |\n|---|---|---|---|---|---|---|---|---|\n");
        page.push_str(&rows);
    }
    if !said.is_empty() {
        page.push_str("\nWhy these goals do not hold, and what would have to change:\n\n");
        for (reason, record) in said {
            let text = reason.filled(record).unwrap_or_else(|why| why);
            let _ = writeln!(page, "- `{}`, `{}`: {}", reason.bench, reason.goals.join("`, `"), plain(&text));
        }
    }
    if !missing.is_empty() {
        let _ = write!(page, "\nNot measured in these records:\n\n{missing}");
    }
}

/// Writes the goals that are not in the newest record of their benchmark, because the goals are newer than the record, or because there is no record.
fn without_record<'r>(page: &mut String, goals: &str, newest: impl Iterator<Item = &'r Record> + Clone) {
    let known = |bench: &str, id: &str| {
        newest
            .clone()
            .filter(|record| record.bench() == bench)
            .any(|record| record.goals().any(|goal| goal.id == id))
    };
    let row = |cells: Vec<&str>| {
        let &[bench, id, limit, what, ..] = cells.as_slice() else { return None };
        let is_open = id.starts_with('`') && !known(bench, id.trim_matches('`'));
        is_open.then(|| format!("| `{bench}` | {id}: {} | {limit} |\n", plain(what)))
    };
    let rows: Vec<String> = listed(goals).filter_map(row).collect();
    if !rows.is_empty() {
        let _ = write!(
            page,
            "\n## Goals that are not measured yet\n\n{} no value in the newest record. A goal that is not measured does not hold.\n\n\
             | benchmark | goal | at most |\n|---|---|---|\n{}",
            if rows.len() == 1 { "1 goal has".to_owned() } else { format!("{} goals have", rows.len()) },
            rows.concat()
        );
    }
}

/// Writes the comparisons of a record. Comparisons in which Enfilade is slower come first.
fn comparisons(page: &mut String, record: &Record) {
    let mut all: Vec<Comparison<'_>> = record.comparisons().collect();
    if all.is_empty() {
        return;
    }
    all.sort_by(|one, other| other.ratio.high.partial_cmp(&one.ratio.high).unwrap_or(Ordering::Equal));
    page.push_str("| work | size | Enfilade | peer | ratio | interval | samples | floor |\n|---|---|---|---|---|---|---|---|\n");
    for of in all {
        let floor = of.floor.filter(|floor| *floor <= of.ours.value);
        let floor = floor.map_or("–".to_owned(), |floor| with_unit(floor, of.unit));
        let _ = writeln!(
            page,
            "| {} | {} | {} {} | {}: {} {} | {} | {} | {} | {floor} |",
            plain(of.what),
            of.n,
            figure(of.ours.value, of.unit),
            of.unit,
            of.peer,
            figure(of.theirs.value, of.unit),
            of.unit,
            figure(of.ratio.value, "times"),
            interval(of.ratio, "times"),
            samples(of.ratio)
        );
    }
    page.push('\n');
}

/// Writes how the record was made, and how to repeat it.
fn about(page: &mut String, record: &Record) {
    let _ = writeln!(
        page,
        "Record: [{}](../bench/runs/{}.json), commit {}, {}. To repeat: `{}`{}.",
        record.date(),
        record.name,
        record.commit(),
        record.machine(),
        record.command(),
        record.minutes().map(|minutes| format!(" ({minutes} min on this machine)")).unwrap_or_default()
    );
    let programs = record.programs();
    if !programs.is_empty() {
        let _ = writeln!(page, "Programs: {programs}.");
    }
    let lacks = record.lacks();
    if !lacks.is_empty() {
        let _ = writeln!(page, "The record lacks: {}.", lacks.join(", "));
    }
}

fn unused(page: &mut String, records: &[Record]) {
    let refused = records.iter().filter_map(|record| Some((record, record.refusal()?)));
    let rows: Vec<String> = refused
        .map(|(record, why)| format!("- [{0}](../bench/runs/{0}.json): {why}\n", record.name))
        .collect();
    if !rows.is_empty() {
        let _ = write!(page, "\n## Records that are not used\n\n{}", rows.concat());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn record(name: &str, goals: &[(&str, f64, bool)], more: &Value) -> Record {
        let goals: Vec<Value> = goals
            .iter()
            .map(|(id, value, holds)| {
                json!({ "id": id, "what": format!("what {id} is"), "measured": value, "goal": 1.0, "unit": "times", "holds": holds })
            })
            .collect();
        let mut value = json!({ "bench": "try", "commit": "abc1234", "goals": goals });
        for (key, one) in more.as_object().unwrap() {
            value[key] = one.clone();
        }
        Record::new(name.to_owned(), value)
    }

    fn page_of(records: &[Record]) -> String {
        written(records, "", &[]).into_iter().find(|(path, _)| path == PAGE).map(|(_, text)| text).unwrap()
    }

    #[test]
    fn what_does_not_hold_is_first_and_the_newest_record_counts() {
        let records = [
            record("2026-11-20-try", &[("one", 0.5, true), ("two", 0.2, true)], &json!({})),
            record("2026-11-21-try", &[("one", 0.9, true), ("two", 1.5, false)], &json!({})),
        ];
        let page = page_of(&records);
        assert!(page.contains("1 of 2 goals do not hold"));
        let failing = page
            .find("| `try` | `two`: what two is | 1 times | 1.5 | – | – | **no** | 1 of 2 | – |")
            .unwrap();
        let section = page.find("## `try`").unwrap();
        let (two, one) = (page.rfind("| `two`").unwrap(), page.rfind("| `one`").unwrap());
        assert!(failing < section && section < two && two < one);
        assert!(
            page.contains("bench/runs/2026-11-21-try.json")
                && !page.contains("bench/runs/2026-11-20-try.json")
        );
        assert!(page.contains("The record lacks: date, options"));
    }

    #[test]
    fn a_record_of_changed_files_is_named_and_not_used() {
        let records = [
            record("2026-11-20-try", &[("one", 0.5, true)], &json!({})),
            record("2026-11-21-try", &[("one", 1.5, false)], &json!({ "commit": "abc1234-dirty" })),
        ];
        let page = page_of(&records);
        assert!(page.contains("0 of 1 goals do not hold"));
        assert!(page.contains("[2026-11-21-try](../bench/runs/2026-11-21-try.json): when it was measured"));
    }

    #[test]
    fn a_comparison_has_the_interval_the_samples_and_the_floor() {
        let estimate =
            |value: f64| json!({ "value": value, "low": value * 0.9, "high": value * 1.1, "samples": 15 });
        let of = |what: &str, ratio: f64| {
            json!({
                "what": what, "n": 7, "unit": "ms", "peer": "It", "ours": estimate(10.0 * ratio), "theirs": estimate(10.0),
                "ratio": estimate(ratio), "floor": 4.0,
            })
        };
        let comparisons = json!([of("fast", 0.05), of("slow", 1.5)]);
        let page = page_of(&[record(
            "2026-11-20-try",
            &[],
            &json!({ "comparisons": comparisons, "command": "cargo xtask bench try", "seconds": 61 }),
        )]);
        // The floor of `fast` is higher than the cost of `fast`, so the page shows no floor.
        let slow = page.find("| slow | 7 | 15 ms | It: 10 ms | 1.5 | 1.35 to 1.65 | 15 | 4 ms |").unwrap();
        let fast = page.find("| fast | 7 | 0.5 ms | It: 10 ms | 1/20 | 1/22.2 to 1/18.2 | 15 | – |").unwrap();
        assert!(slow < fast);
        assert!(page.contains("To repeat: `cargo xtask bench try` (2 min on this machine)."));
    }

    #[test]
    fn a_goal_without_a_record_is_named() {
        let goals = "x\n## Sizes\n\n| benchmark | size |\n|---|---|\n| try | the number of files |\n\n## Goals\n\n| benchmark | id | at most | value | workload |\n|---|---|---|---|---|\n\
                     | try | `one` | 1 times | a cost | work |\n| try | `new` | 1/2 times | another cost | work |\n\n## Goals that were removed\n\n\
                     | `old` | `try` | abc | x | y |\n";
        let records = [record("2026-11-20-try", &[("one", 0.5, true)], &json!({}))];
        let page = written(&records, goals, &[]).pop().map(|(_, text)| text).unwrap();
        assert!(page.contains("| `try` | `new`: another cost | 1/2 times |"));
        assert!(page.contains("| `one`: a cost | 1 times | 0.5 |"), "the words of the list count: {page}");
        assert!(page.contains("## `try`\n\nIn the column *size*: the number of files.\n"), "{page}");
        assert!(
            page.contains("1 goal has no value in the newest record")
                && !page.contains("| `try` | `one`: a cost")
        );
    }

    #[test]
    fn each_benchmark_with_goals_has_a_picture() {
        let files = written(&[record("2026-11-20-try", &[("one", 0.5, true)], &json!({}))], "", &[]);
        assert!(
            files.iter().any(|(path, text)| path == "docs/benchmarks/try.svg" && text.starts_with("<svg"))
        );
    }
}
