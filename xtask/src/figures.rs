//! Figures: records of benchmarks, the pages that are written from the records, and the references to records in other pages.

pub(crate) mod record;
pub(crate) mod reference;
pub(crate) mod scoreboard;
pub(crate) mod chart;
pub(crate) mod reasons;
pub(crate) mod kept;
mod tails;
mod shown;
mod campaigns;

use record::Record;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// The directory of records.
pub(crate) const RUNS: &str = "bench/runs";
/// The list of goals.
const GOALS: &str = "bench/GOALS.md";
/// The page that says why goals do not hold.
pub(crate) const REASONS: &str = "bench/REASONS.md";

/// Writes the page of benchmarks, its pictures and the page of campaigns from the records.
///
/// # Errors
/// If a record cannot be read, or a file cannot be written.
pub fn write(root: &Path) -> Result<(), String> {
    let pictures = root.join(scoreboard::PICTURES);
    let wanted = written(root)?;
    // A picture is removed if its benchmark has no record any more.
    for entry in std::fs::read_dir(&pictures).into_iter().flatten().flatten() {
        let path = format!("{}/{}", scoreboard::PICTURES, entry.file_name().to_string_lossy());
        if wanted.iter().all(|(wanted, _)| *wanted != path) {
            std::fs::remove_file(entry.path()).map_err(|why| format!("`{path}`: {why}"))?;
        }
    }
    std::fs::create_dir_all(&pictures).map_err(|why| format!("`{}`: {why}", pictures.display()))?;
    wanted.iter().try_for_each(|(path, text)| {
        std::fs::write(root.join(path), text).map_err(|why| format!("`{path}`: {why}"))
    })
}

/// Computes the page of benchmarks with its pictures, and the page of campaigns, from the records: paths and texts.
pub(crate) fn written(root: &Path) -> Result<Vec<(String, String)>, String> {
    let goals = std::fs::read_to_string(root.join(GOALS)).map_err(|why| format!("`{GOALS}`: {why}"))?;
    let mut files = scoreboard::written(&record::read_all(root)?, &goals, &reasons::read_all(root)?);
    files.push((campaigns::PAGE.to_owned(), campaigns::written(&campaigns::read_all(root)?)));
    Ok(files)
}

/// Files that are written from measurements, and do not count as source.
pub const NOT_SOURCE: [&str; 5] = [
    ":(exclude)bench/runs",
    ":(exclude)bench/REASONS.md",
    ":(exclude)docs/benchmarks",
    ":(exclude)docs/benchmarks.md",
    ":(exclude)docs/campaigns.md",
];

/// The benchmarks, each with its options, for which there is no record of a full run of the present source.
///
/// # Errors
/// If a record cannot be read.
pub fn not_measured<'n>(root: &Path, benches: &[&'n str]) -> Result<Vec<&'n str>, String> {
    let records = record::read_all(root)?;
    let is_of_this_source = |commit: &str| {
        let differ = [&["diff", "--quiet", commit, "--", "."], NOT_SOURCE.as_slice()].concat();
        git(root, &differ).is_some()
    };
    let has_record = |words: &str| {
        let of_bench = records.iter().filter(|record| record.is_full_run_of(words));
        of_bench.map(Record::commit).any(is_of_this_source)
    };
    Ok(benches.iter().copied().filter(|words| !has_record(words)).collect())
}

/// The commits of the history; `None` if this directory has no complete history.
pub(crate) fn history(root: &Path) -> Option<BTreeSet<String>> {
    let is_shallow = git(root, &["rev-parse", "--is-shallow-repository"])?.trim() != "false";
    let commits = git(root, &["rev-list", "HEAD"]).filter(|_| !is_shallow)?;
    Some(commits.lines().map(str::to_owned).collect())
}

/// Which changes of records the history of this directory does not show, and why. `None` if it shows all changes.
#[must_use]
pub fn unknown_changes(root: &Path) -> Option<String> {
    kept::compare(root, kept::SINCE).unknown
}

fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).current_dir(root).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Why a document may not use figures of this record; `None` if it may.
pub(crate) fn refusal(record: &Record, history: Option<&BTreeSet<String>>) -> Option<String> {
    let commit = record.commit();
    let is_known = |commits: &BTreeSet<String>| {
        commits.range(commit.to_owned()..).next().is_some_and(|found| found.starts_with(commit))
    };
    record.refusal().or_else(|| {
        let is_unknown = history.is_some_and(|commits| !is_known(commits));
        is_unknown.then(|| format!("commit {commit} is not in the history"))
    })
}
