//! Records of runs, as JSON in `bench/runs`. A record is never overwritten: its name has the date, the benchmark and the commit, and a second run of
//! the same commit gets another name.

use crate::Failure;
use crate::machine::{self, Tree};
use crate::report::{Comparison, Judged, Peer, Report, Row};
use crate::samples::Estimate;
use enfilade_facts::vocabulary::date_of;
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The number of the format of records. Records without such a number have an older format. The reader in `xtask` lists the data that they lack.
const FORMAT: u64 = 2;

/// A run of a benchmark.
pub(crate) struct Run {
    /// The options, as they were given.
    pub(crate) options: Vec<String>,
    /// The time of the start.
    pub(crate) unix_seconds: i64,
    /// The source at the start.
    pub(crate) tree: Tree,
}

impl Run {
    /// A run that begins now.
    pub(crate) fn begin(options: &[&str]) -> Self {
        Run { options: measuring(options), unix_seconds: crate::clock::now().unix_seconds, tree: Tree::now() }
    }

    /// Ends the run. The source counts as clean only if it did not change during the run.
    pub(crate) fn end(self) -> Self {
        let tree = self.tree.unless_changed(&Tree::now());
        Run { tree, ..self }
    }

    fn date(&self) -> String {
        let (year, month, day) = date_of(self.unix_seconds.div_euclid(86_400));
        format!("{year:04}-{month:02}-{day:02}")
    }

    /// The name of the record, without a number and without `.json`.
    fn name(&self, bench: &str) -> String {
        let dirty = if self.tree.is_clean { "" } else { "-dirty" };
        format!("{}-{bench}-{}{dirty}", self.date(), self.tree.commit)
    }
}

/// The options that affect the measurement, without the options that only determine what happens to the results.
fn measuring(options: &[&str]) -> Vec<String> {
    let (mut kept, mut options) = (Vec::new(), options.iter());
    while let Some(option) = options.next() {
        match *option {
            "--runs" => drop(options.next()),
            "--json" | "--no-record" => {}
            other => kept.push(other.to_owned()),
        }
    }
    kept
}

pub(crate) fn to_json(report: &Report, run: &Run) -> Value {
    let command = ["cargo", "xtask", "bench", &report.bench].into_iter();
    let command: Vec<&str> = command.chain(run.options.iter().map(String::as_str)).collect();
    let environment: serde_json::Map<String, Value> = std::env::vars()
        .filter(|(name, _)| name == "GLIBC_TUNABLES" || name == "TMPDIR" || name.starts_with("ENFILADE_"))
        .map(|(name, value)| (name, Value::String(value)))
        .collect();
    json!({
        "format": FORMAT, "bench": report.bench, "date": run.date(), "unix_seconds": run.unix_seconds,
        "commit": run.tree.commit, "tree": run.tree.tree, "clean": run.tree.is_clean,
        "seconds": report.seconds(), "command": command.join(" "), "small": report.is_small, "environment": environment,
        "machine": machine::machine(&std::env::temp_dir()), "build": machine::build(),
        "peers": report.peers.iter().map(peer).collect::<Vec<_>>(),
        "rows": report.rows.iter().map(row).collect::<Vec<_>>(),
        "comparisons": report.comparisons.iter().map(comparison).collect::<Vec<_>>(),
        "goals": report.judged.iter().filter_map(|judged| goal(report, judged)).collect::<Vec<_>>(),
        "not_measured": not_measured(report),
    })
}

fn peer(peer: &Peer) -> Value {
    json!({ "name": peer.name, "version": peer.version, "configuration": peer.configuration })
}

fn estimate(Estimate { value, low, high, samples }: &Estimate) -> Value {
    json!({ "value": value, "low": low, "high": high, "samples": samples })
}

fn row(Row { name, n, value, unit, spread, worst }: &Row) -> Value {
    match value {
        Ok(Estimate { value, low, high, samples }) => json!({
            "name": name, "n": n, "value": value, "unit": unit, "spread": spread, "low": low, "high": high,
            "samples": samples, "worst": worst,
        }),
        Err(why) => json!({ "name": name, "n": n, "value": null, "unit": unit, "why": why, "worst": worst }),
    }
}

fn comparison(of: &Comparison) -> Value {
    json!({
        "what": of.what, "n": of.n, "unit": of.unit, "ours": estimate(&of.ours), "peer": of.peer,
        "theirs": estimate(&of.theirs), "ratio": estimate(&of.ratio), "floor": of.floor, "goal": of.goal,
    })
}

fn goal(report: &Report, judged: &Judged) -> Option<Value> {
    let goal = report.goal_of(judged)?;
    let Estimate { value, low, high, samples } = judged.measured;
    Some(json!({
        "id": goal.id, "n": judged.n, "what": goal.what, "workload": goal.workload, "goal": goal.at_most, "unit": goal.unit,
        "measured": value, "low": low, "high": high, "samples": samples,
        // The goals of a small run are not judged, because a small run has another workload.
        "holds": (!report.is_small).then(|| goal.holds(judged.measured)),
    }))
}

fn not_measured(report: &Report) -> Vec<Value> {
    let goals = report.unmeasured().filter(|_| !report.is_small);
    let goals = goals.map(|goal| json!({ "goal": goal.id, "what": goal.what }));
    let others = report.missing.iter().map(|(what, why)| json!({ "what": what, "why": why }));
    goals.chain(others).collect()
}

/// Writes a record under a name that is not taken yet. Returns its path.
pub(crate) fn write(directory: &Path, record: &Value, run: &Run, bench: &str) -> Result<PathBuf, Failure> {
    std::fs::create_dir_all(directory)?;
    let name = run.name(bench);
    // The record gets its name when it is complete, and only if no file has this name.
    let temporary = directory.join(format!(".{name}-{}", std::process::id()));
    let mut file = std::fs::File::create(&temporary)?;
    file.write_all(record.to_string().as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    let mut named = Err("too many records have this name".into());
    for number in 1..1_000 {
        let number = if number == 1 { String::new() } else { format!("-{number}") };
        let path = directory.join(format!("{name}{number}.json"));
        match std::fs::hard_link(&temporary, &path) {
            Ok(()) => {
                named = Ok(path);
                break;
            }
            Err(why) if why.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(why) => {
                named = Err(format!("the record cannot be written to {}: {why}", path.display()).into());
                break;
            }
        }
    }
    std::fs::remove_file(&temporary)?;
    named
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::goals::Goal;
    use crate::samples::Samples;
    use crate::scratch::Scratch;

    fn run(is_clean: bool) -> Run {
        let tree = Tree { commit: "0123456789".into(), tree: "abcdef".into(), is_clean };
        // The time is 2026-11-26, one second before midnight.
        Run { options: vec!["--n".into(), "5".into()], unix_seconds: 1_795_737_599, tree }
    }

    #[test]
    fn a_record_is_never_overwritten() {
        let scratch = Scratch::new("record").unwrap();
        let name = |n: u64| {
            let path = write(scratch.path(), &json!({ "n": n }), &run(true), "passage").unwrap();
            path.file_name().unwrap().to_string_lossy().into_owned()
        };
        let names = [name(1), name(2), name(3)];
        assert_eq!(names[0], "2026-11-26-passage-0123456789.json");
        assert_eq!(names[1], "2026-11-26-passage-0123456789-2.json");
        assert_eq!(names[2], "2026-11-26-passage-0123456789-3.json");
        let first: Value =
            serde_json::from_slice(&std::fs::read(scratch.path().join(&names[0])).unwrap()).unwrap();
        assert_eq!(first["n"], 1);
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 3);
    }

    #[test]
    fn a_record_has_the_options_that_change_the_measurement() {
        assert_eq!(
            measuring(&["--json", "--n", "5", "--runs", "somewhere", "--small"]),
            ["--n", "5", "--small"]
        );
    }

    #[test]
    fn a_record_of_changed_files_says_so_in_its_name_and_in_itself() {
        let report = Report::new("passage", false, Vec::new());
        assert_eq!(run(false).name("passage"), "2026-11-26-passage-0123456789-dirty");
        assert_eq!(to_json(&report, &run(false))["clean"], false);
        assert_eq!(to_json(&report, &run(true))["clean"], true);
    }

    #[test]
    fn a_record_says_how_it_was_made_and_what_it_lacks() {
        let goal = |id| Goal::new(id, 1.5, "times", "a cost", "4 connections");
        let mut report = Report::new("passage", false, vec![goal("one"), goal("two")]);
        report.middle("asked", 7, &Samples::from_iter([1.0, 2.0, 9.0]), "ms");
        report.tail("late", 7, &Samples::from_iter([1.0, 2.0]), "ms");
        report.goal("one", Estimate { value: 1.0, low: 0.5, high: 2.0, samples: 3 });
        report.peer("it", "1.0", "listen 80");
        report.missing("Samba", "not installed");
        let record = to_json(&report, &run(true));
        assert_eq!(record["command"], "cargo xtask bench passage --n 5");
        for key in ["cpu", "cores", "memory", "kernel", "file_system"] {
            assert!(!record["machine"][key].is_null(), "{key}");
        }
        for key in ["compiler", "profile"] {
            assert!(!record["build"][key].is_null(), "{key}");
        }
        assert_eq!(record["rows"][0]["samples"], 3);
        assert_eq!(record["rows"][0]["worst"], 9.0);
        assert_eq!(record["rows"][1]["why"], "not enough samples: 2 of 1000");
        assert_eq!(record["goals"][0]["holds"], false, "the worse end of the interval decides");
        assert_eq!(record["goals"][0]["workload"], "4 connections");
        assert_eq!(record["not_measured"][0]["goal"], "two");
        assert_eq!(record["not_measured"][1]["what"], "Samba");
        assert_eq!(record["peers"][0]["configuration"], "listen 80");
    }
}
