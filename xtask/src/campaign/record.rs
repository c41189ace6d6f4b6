//! The record of a campaign: its name and size, the tested source, and the last line of each of its tests.

use serde_json::json;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use xtask::figures::NOT_SOURCE;

/// A campaign that has ended.
pub(super) struct Ended<'c> {
    pub(super) name: &'c str,
    pub(super) n: u64,
    pub(super) seed: Option<u64>,
    pub(super) took: Duration,
    pub(super) passed: bool,
    /// The last line of each test.
    pub(super) results: Vec<String>,
}

/// The source that a campaign tests: its commit, and whether no file was changed after the commit.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Source {
    commit: String,
    is_clean: bool,
}

impl Source {
    pub(super) fn now() -> Self {
        let changed = said("git", &[&["status", "--porcelain", "--", "."], NOT_SOURCE.as_slice()].concat());
        let commit =
            said("git", &["rev-parse", "--short=10", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
        Source { commit, is_clean: changed.is_some_and(|changed| changed.is_empty()) }
    }
}

/// Writes a new file in `bench/runs`, and returns its path. `begun` is the source when the campaign began: if files were changed during the run, the
/// record says so.
///
/// # Errors
/// If the file cannot be written.
pub(super) fn write(ended: &Ended<'_>, begun: &Source) -> Result<PathBuf, String> {
    let date = said("date", &["-u", "+%F"]).unwrap_or_else(|| "undated".to_owned());
    let seconds = said("date", &["+%s"]).and_then(|seconds| seconds.parse::<u64>().ok());
    let record = json!({
        "campaign": ended.name,
        "n": ended.n,
        "seed": ended.seed,
        "date": date,
        "unix_seconds": seconds,
        "commit": begun.commit,
        "clean": begun.is_clean && *begun == Source::now(),
        "seconds": ended.took.as_secs(),
        "passed": ended.passed,
        "results": ended.results,
        "kernel": said("uname", &["-r"]).as_deref().and_then(|name| name.split('-').next()),
        "compiler": said("rustc", &["--version"]),
    });
    let runs = xtask::root().join("bench/runs");
    let name = format!("{date}-campaign-{}-{}", ended.name, begun.commit);
    let names = std::iter::once(String::new()).chain((2..).map(|nth| format!("-{nth}")));
    let mut paths = names.map(|nth| runs.join(format!("{name}{nth}.json")));
    let path = paths.find(|path| !path.exists()).ok_or("no name is free")?;
    std::fs::write(&path, format!("{record:#}\n")).map_err(|why| format!("`{}`: {why}", path.display()))?;
    Ok(path)
}

fn said(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).current_dir(xtask::root()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Collects the last line of each test from the output of `cargo test -- --nocapture --test-threads 1`.
#[derive(Default)]
pub(super) struct Results {
    last: Option<String>,
    found: Vec<String>,
}

impl Results {
    pub(super) fn line(&mut self, line: &str) {
        // The test program prints `test NAME ... `, then the output of the test, then the outcome on a separate line. If the test prints nothing, all
        // of this is on one line.
        let (is_first, text) = match line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... ")) {
            Some((_, text)) => (true, text),
            None => (false, line),
        };
        if is_first {
            self.last = None;
        }
        match text.trim() {
            "ok" | "FAILED" => self.found.extend(self.last.take()),
            "" => {}
            text => self.last = Some(text.to_owned()),
        }
    }

    pub(super) fn all(self) -> Vec<String> {
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_each_test_is_its_result() {
        let output = "\nrunning 3 tests\ntest a::first ...     10 of 20\n    20 of 20\nfirst: 20 states, 0 lost\nok\n\
            test a::silent ... ok\ntest b::broken ... one\nFAILED\n\ntest result: FAILED. 2 passed; 1 failed\n";
        let mut results = Results::default();
        output.lines().for_each(|line| results.line(line));
        assert_eq!(results.all(), ["first: 20 states, 0 lost", "one"]);
    }
}
