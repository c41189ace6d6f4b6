//! Records of benchmarks in `bench/runs`. Records of the first format can still be read. The pages list the data that these records lack.

use serde_json::Value;
use std::cmp::Ordering;
use std::path::Path;

/// A record of a benchmark.
pub(crate) struct Record {
    /// The name of the file, without `.json`.
    pub(crate) name: String,
    value: Value,
}

/// A value with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Estimate {
    pub(crate) value: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// `None` in a record of the first format.
    pub(crate) samples: Option<u64>,
}

/// A judged goal of a record.
pub(crate) struct Goal<'r> {
    pub(crate) id: &'r str,
    pub(crate) n: Option<u64>,
    pub(crate) what: &'r str,
    pub(crate) unit: &'r str,
    pub(crate) at_most: f64,
    pub(crate) measured: Estimate,
    pub(crate) holds: bool,
}

/// A comparison with another server.
pub(crate) struct Comparison<'r> {
    pub(crate) what: &'r str,
    pub(crate) n: u64,
    pub(crate) unit: &'r str,
    pub(crate) peer: &'r str,
    pub(crate) ours: Estimate,
    pub(crate) theirs: Estimate,
    pub(crate) ratio: Estimate,
    pub(crate) floor: Option<f64>,
}

/// The records of all kinds in `bench/runs`: the name of each file, without `.json`, and its content.
pub(super) fn read_files(root: &Path) -> Result<Vec<(String, Value)>, String> {
    let directory = root.join(super::RUNS);
    let entries = std::fs::read_dir(&directory).map_err(|why| format!("`{}`: {why}", directory.display()))?;
    let mut files = Vec::new();
    for entry in entries.flatten() {
        let file = entry.file_name().to_string_lossy().into_owned();
        let Some(name) = file.strip_suffix(".json") else { continue };
        let text = std::fs::read(entry.path()).map_err(|why| format!("`{file}`: {why}"))?;
        let value = serde_json::from_slice(&text).map_err(|why| format!("`{file}`: {why}"))?;
        files.push((name.to_owned(), value));
    }
    Ok(files)
}

/// Reads all records of benchmarks, the oldest first. Records of campaigns and of judges are left out.
pub(crate) fn read_all(root: &Path) -> Result<Vec<Record>, String> {
    let files = read_files(root)?.into_iter().filter(|(_, value)| value.get("bench").is_some());
    let mut records: Vec<Record> = files.map(|(name, value)| Record::new(name, value)).collect();
    records.sort_by(Record::by_age);
    Ok(records)
}

/// The data that a record of the first format lacks.
const LACKS: [(&str, &str); 10] = [
    ("/date", "date"),
    ("/command", "options"),
    ("/machine/file_system", "file system"),
    ("/build/compiler", "compiler"),
    ("/build/profile", "profile"),
    ("/peers", "versions of peers"),
    ("/rows/0/samples", "numbers of samples"),
    ("/rows/0/worst", "worst samples"),
    ("/goals/0/low", "intervals"),
    ("/goals/0/workload", "workloads"),
];

/// Goals that a record judged, although the same record says that their work was not measured: the benchmark, the goal, and the work.
const NOT_JUDGED: [(&str, &str, &str); 1] =
    [("passage", "reader-p99", "walks while changes are committed on a slow disk")];

impl Record {
    pub(crate) fn new(name: String, value: Value) -> Self {
        Record { name, value }
    }

    fn text(&self, pointer: &str) -> Option<&str> {
        self.value.pointer(pointer)?.as_str()
    }

    pub(crate) fn bench(&self) -> &str {
        self.text("/bench").unwrap_or_default()
    }

    /// The day of the run. In the first format, only the name of the record contains the day.
    pub(crate) fn date(&self) -> &str {
        self.text("/date").or_else(|| self.name.get(..10)).unwrap_or_default()
    }

    pub(crate) fn commit(&self) -> &str {
        let commit = self.text("/commit").unwrap_or_default();
        commit.strip_suffix("-dirty").unwrap_or(commit)
    }

    fn is_clean(&self) -> bool {
        let said = self.value.get("clean").and_then(Value::as_bool);
        said.unwrap_or_else(|| self.text("/commit").is_some_and(|commit| !commit.ends_with("-dirty")))
    }

    /// The command that repeats the run.
    pub(crate) fn command(&self) -> String {
        let told = self.text("/command").map(str::to_owned);
        told.unwrap_or_else(|| match self.size() {
            Some(n) => format!("cargo xtask bench {} --n {n}", self.bench()),
            None => format!("cargo xtask bench {}", self.bench()),
        })
    }

    /// The duration of the run; `None` in a record that lacks it.
    pub(crate) fn minutes(&self) -> Option<u64> {
        self.value.get("seconds").and_then(Value::as_u64).map(|seconds| seconds.div_ceil(60))
    }

    /// Whether this is a clean record of a full run of this benchmark. `words` are the name of the benchmark and its options.
    pub(crate) fn is_full_run_of(&self, words: &str) -> bool {
        let is_small = self.value.get("small").and_then(Value::as_bool) != Some(false);
        let command = self.command();
        !is_small
            && self.is_clean()
            && command.trim_end_matches(" --install") == format!("cargo xtask bench {words}")
    }

    /// The number that was given to the benchmark. In the first format, only the name of the record contains the number.
    pub(crate) fn size(&self) -> Option<&str> {
        if let Some(command) = self.text("/command") {
            return command.split_once("--n ").and_then(|(_, after)| after.split(' ').next());
        }
        let rest = self.name.get(11..)?.strip_prefix(self.bench())?.strip_prefix('-')?;
        let is_size = rest.chars().all(|c| c.is_ascii_digit()) && !self.commit().starts_with(rest);
        is_size.then_some(rest)
    }

    /// Processor, cores, memory, kernel and file system.
    pub(crate) fn machine(&self) -> String {
        let get = |key: &str| self.value.pointer(&format!("/machine/{key}"));
        let text = |key: &str| get(key).and_then(Value::as_str).unwrap_or("?");
        let cores = get("cores").and_then(Value::as_u64).unwrap_or(0);
        let (cpu, memory, kernel) = (text("cpu"), text("memory"), text("kernel"));
        let file_system = self
            .text("/machine/file_system")
            .map_or(String::new(), |found| format!(", {}", found.split(' ').next().unwrap_or_default()));
        format!("{cpu}, {cores} cores, {memory}, Linux {kernel}{file_system}")
    }

    /// The compiler, and the versions of the programs that Enfilade was compared with.
    pub(crate) fn programs(&self) -> String {
        let compiler = self.text("/build/compiler").map(str::to_owned);
        let peers = self.value.get("peers").and_then(Value::as_array).into_iter().flatten();
        let peer = |peer: &Value| {
            let text = |key: &str| peer.get(key).and_then(Value::as_str).unwrap_or("?").to_owned();
            format!("{} ({})", text("name"), text("version"))
        };
        compiler.into_iter().chain(peers.map(peer)).collect::<Vec<_>>().join("; ")
    }

    /// The data that the record lacks.
    pub(crate) fn lacks(&self) -> Vec<&'static str> {
        let has_list = |pointer: &str| {
            let list = pointer.split('/').nth(1).filter(|_| pointer.contains("/0/"));
            list.is_none_or(|list| self.value.pointer(&format!("/{list}/0")).is_some())
        };
        LACKS
            .iter()
            .filter(|(pointer, _)| has_list(pointer) && self.value.pointer(pointer).is_none())
            .map(|(_, what)| *what)
            .collect()
    }

    /// The reason in the record itself why no document may use it; `None` if there is no such reason.
    pub(crate) fn refusal(&self) -> Option<String> {
        if !self.is_clean() {
            return Some("when it was measured, the source had changes that were not committed".to_owned());
        }
        let is_small = self.value.get("small").and_then(Value::as_bool) == Some(true);
        is_small.then(|| "a small run has another workload".to_owned())
    }

    fn list(&self, key: &str) -> impl Iterator<Item = &Value> {
        self.value.get(key).and_then(Value::as_array).into_iter().flatten()
    }

    /// The goals that were measured.
    pub(crate) fn goals(&self) -> impl Iterator<Item = Goal<'_>> {
        let is_missing = |id: &str| {
            let (_, _, work) =
                NOT_JUDGED.iter().find(|(bench, goal, _)| (*bench, *goal) == (self.bench(), id))?;
            self.not_measured().any(|(what, _)| what == *work).then_some(())
        };
        self.list("goals").filter_map(move |goal| {
            let id = goal.get("id")?.as_str()?;
            if is_missing(id).is_some() {
                return None;
            }
            Some(Goal {
                id,
                n: goal.get("n").and_then(Value::as_u64),
                what: goal.get("what")?.as_str()?,
                unit: goal.get("unit")?.as_str()?,
                at_most: goal.get("goal")?.as_f64()?,
                measured: estimate(goal, "measured")?,
                holds: goal.get("holds")?.as_bool()?,
            })
        })
    }

    pub(crate) fn comparisons(&self) -> impl Iterator<Item = Comparison<'_>> {
        self.list("comparisons").filter_map(|of| {
            let part = |key: &str| estimate(of.get(key)?, "value");
            Some(Comparison {
                what: of.get("what")?.as_str()?,
                n: of.get("n")?.as_u64()?,
                unit: of.get("unit")?.as_str()?,
                peer: of.get("peer")?.as_str()?,
                ours: part("ours")?,
                theirs: part("theirs")?,
                ratio: part("ratio")?,
                floor: of.get("floor").and_then(Value::as_f64),
            })
        })
    }

    /// The rows that have a value: the name, the size, and the value with its unit.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&str, u64, Estimate, &str)> {
        self.list("rows").filter_map(|row| {
            let unit = row.get("unit")?.as_str()?;
            Some((row.get("name")?.as_str()?, row.get("n")?.as_u64()?, estimate(row, "value")?, unit))
        })
    }

    /// The measurements that were not possible: the name, and the reason if there is one.
    pub(crate) fn not_measured(&self) -> impl Iterator<Item = (&str, &str)> {
        self.list("not_measured").filter_map(|of| {
            let what = of.get("goal").or_else(|| of.get("what"))?.as_str()?;
            Some((what, of.get("why").and_then(Value::as_str).unwrap_or("not measured")))
        })
    }

    /// The value and the unit of a row or a goal: `row NAME`, `row NAME (N)`, `goal ID` or `goal ID (N)`.
    pub(crate) fn figure(&self, key: &str) -> Result<(f64, &str), String> {
        let (list, name, value) = match key.split_once(' ') {
            Some(("row", rest)) => ("rows", rest, ("name", "value")),
            Some(("goal", rest)) => ("goals", rest, ("id", "measured")),
            _ => return Err(format!("`{key}`: expected `row NAME (N)` or `goal ID`")),
        };
        let sized = name.strip_suffix(')').and_then(|name| name.rsplit_once(" ("));
        let sized = sized.and_then(|(name, n)| Some((name, n.replace(',', "").parse::<u64>().ok()?)));
        let (name, n) = sized.map_or((name, None), |(name, n)| (name, Some(n)));
        let fits = |found: &&Value| {
            let is_named = found.get(value.0).and_then(Value::as_str) == Some(name);
            is_named && n.is_none_or(|n| found.get("n").and_then(Value::as_u64) == Some(n))
        };
        let mut found = self.list(list).filter(fits);
        let (first, second) = (found.next(), found.next());
        match (first, second) {
            (Some(one), None) => {
                let number = one.get(value.1).and_then(Value::as_f64);
                let unit = one.get("unit").and_then(Value::as_str).unwrap_or_default();
                number.map(|number| (number, unit)).ok_or_else(|| format!("`{key}` has no value"))
            }
            (None, _) => Err(format!("no `{key}`")),
            (Some(_), Some(_)) => Err(format!("several `{key}`: say which, with the size in parentheses")),
        }
    }

    /// The order of the runs. Records of the first format have no time, so the records of one day are in the order of their names.
    fn by_age(&self, other: &Record) -> Ordering {
        let seconds = |record: &Record| record.value.get("unix_seconds").and_then(Value::as_i64).unwrap_or(0);
        (self.date(), seconds(self), &self.name).cmp(&(other.date(), seconds(other), &other.name))
    }
}

fn estimate(of: &Value, key: &str) -> Option<Estimate> {
    let value = of.get(key)?.as_f64()?;
    let end = |key: &str| of.get(key).and_then(Value::as_f64).unwrap_or(value);
    Some(Estimate {
        value,
        low: end("low"),
        high: end("high"),
        samples: of.get("samples").and_then(Value::as_u64),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn record(name: &str, value: &Value) -> Record {
        Record::new(name.to_owned(), value.clone())
    }

    #[test]
    fn an_old_record_is_read_and_says_what_it_lacks() {
        let value = json!({
            "bench": "passage", "commit": "b9dd498", "machine": { "cpu": "AMD EPYC", "cores": 2 },
            "rows": [{ "name": "asked", "n": 4, "value": 2.0, "unit": "µs", "spread": 0.0 }],
            "goals": [{ "id": "door", "what": "cost", "measured": 1.05, "goal": 1.1, "unit": "times", "holds": true }],
        });
        let old = record("2026-11-24-passage-b9dd498", &value);
        assert_eq!((old.date(), old.commit(), old.refusal()), ("2026-11-24", "b9dd498", None));
        assert_eq!(old.lacks().len(), LACKS.len());
        let goal = old.goals().next().unwrap();
        assert_eq!((goal.id, goal.measured.high, goal.measured.samples), ("door", 1.05, None));
        assert_eq!(old.command(), "cargo xtask bench passage");
        assert_eq!(old.figure("row asked (4)"), Ok((2.0, "µs")));
        assert_eq!(old.figure("goal door"), Ok((1.05, "times")));
        assert!(old.figure("row asked (5)").is_err() && old.figure("asked").is_err());
    }

    #[test]
    fn a_goal_is_not_judged_if_the_record_says_that_its_work_was_not_measured() {
        let of = |not_measured: Value| {
            let goal = |id: &str| json!({ "id": id, "what": "x", "measured": 3.3, "goal": 2.0, "unit": "times", "holds": false });
            let value = json!({ "bench": "passage", "goals": [goal("reader-p99"), goal("door")], "not_measured": not_measured });
            record("2026-11-27-passage", &value).goals().map(|goal| goal.id.to_owned()).collect::<Vec<_>>()
        };
        let what = "walks while changes are committed on a slow disk";
        assert_eq!(of(json!([{ "what": what, "why": "the disk is fast" }])), ["door"]);
        assert_eq!(of(json!([{ "what": "other", "why": "x" }])), ["reader-p99", "door"]);
        assert_eq!(of(json!([])), ["reader-p99", "door"]);
    }

    #[test]
    fn a_record_of_changed_files_or_of_a_small_run_is_refused() {
        let of = |value: Value| record("2026-11-24-passage", &value).refusal();
        assert!(of(json!({ "bench": "passage", "commit": "b9dd498-dirty" })).is_some());
        assert!(of(json!({ "bench": "passage", "commit": "b9dd498", "clean": false })).is_some());
        assert!(
            of(json!({ "bench": "passage", "commit": "b9dd498", "clean": true, "small": true })).is_some()
        );
        assert_eq!(
            of(json!({ "bench": "passage", "commit": "b9dd498", "clean": true, "small": false })),
            None
        );
    }

    #[test]
    fn the_size_is_in_the_name_of_an_old_record() {
        let size = |name: &str, commit: &str| {
            let value = json!({ "bench": "certs", "commit": commit });
            record(name, &value).size().map(str::to_owned)
        };
        assert_eq!(size("2026-11-22-certs-100100", "e9234c3").as_deref(), Some("100100"));
        assert_eq!(size("2026-11-22-certs", "e9234c3"), None);
        assert_eq!(size("2026-11-22-certs-1234567", "1234567"), None);
        assert_eq!(size("2026-11-22-certs-e9234c3", "e9234c3"), None);
    }

    #[test]
    fn a_row_of_several_sizes_needs_its_size() {
        let rows =
            json!([{ "name": "a (b)", "n": 1, "value": 1.0 }, { "name": "a (b)", "n": 2, "value": 2.0 }]);
        let record = record("x", &json!({ "bench": "x", "rows": rows }));
        assert!(record.figure("row a (b)").unwrap_err().contains("several"));
        assert_eq!(record.figure("row a (b) (2)").map(|found| found.0), Ok(2.0));
    }
}
