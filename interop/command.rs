//! Commands on a data directory, and what they printed. One of a command's writes may fail, or all of its calls of one kind.

use crate::server::{BINARY, short_passwords};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

/// What a write, sync or rename does that fails (`crates/testkit/preload`). Those that go deepest come first.
pub(crate) const FAULTS: [&str; 5] = ["EIO", "kill-after", "short", "ENOSPC", "kill-before"];

/// What happens, at which call, and the file that is made when it does.
pub(crate) type Fault<'a> = (&'a str, u64, &'a Path);

/// The library that is loaded before the C library. Cargo builds no library of another package for a test, so the test
/// asks for it.
pub(crate) fn preload() -> &'static Path {
    static BUILT: LazyLock<PathBuf> = LazyLock::new(|| {
        let built = Command::new(env!("CARGO")).args(["build", "--quiet", "-p", "enfilade-preload"]).status();
        assert!(built.unwrap().success());
        let test = std::env::current_exe().unwrap();
        test.ancestors().nth(2).unwrap().join("libenfilade_preload.so")
    });
    &BUILT
}

fn variables<'a>((fault, at, mark): Fault<'a>) -> [(&'static str, String); 4] {
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    [
        ("LD_PRELOAD", path(preload())),
        ("FAULT", fault.to_owned()),
        ("FAULT_AT", at.to_string()),
        ("FAULT_MARK", path(mark)),
    ]
}

pub(crate) fn run(data: &Path, arguments: &[&str], fault: Option<Fault<'_>>) -> Output {
    let mut command = Command::new(BINARY);
    command.args(["--json", "--data"]).arg(data).args(arguments).envs(short_passwords(data));
    command.envs(fault.into_iter().flat_map(variables)).output().unwrap()
}

/// The same with a system call that fails or is held up each time: `NAME:error=EPERM`, `NAME:delay_enter=MICROSECONDS` (strace(1)).
pub(crate) fn traced(data: &Path, arguments: &[&str], inject: &str, fault: Option<Fault<'_>>) -> Command {
    let mut command = Command::new("strace");
    let call = inject.split(':').next().unwrap();
    command.args([
        "-f",
        "-o",
        "/dev/null",
        "-e",
        &format!("trace={call}"),
        "-e",
        &format!("inject={inject}"),
    ]);
    // Of strace itself nothing is counted.
    for (name, value) in fault.into_iter().flat_map(variables) {
        command.args(["-E", &format!("{name}={value}")]);
    }
    command.arg(BINARY).args(["--json", "--data"]).arg(data).args(arguments);
    command
}

/// What a command said that has to succeed.
pub(crate) fn passed(arguments: &[&str], output: &Output) -> String {
    assert!(output.status.success(), "{arguments:?}: {}", why(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The values it printed.
pub(crate) fn said(data: &Path, arguments: &[&str]) -> Vec<Value> {
    values(&passed(arguments, &run(data, arguments, None)))
}

/// One of each line.
pub(crate) fn values(lines: &str) -> Vec<Value> {
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What it said of its failure.
pub(crate) fn why(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
