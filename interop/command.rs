//! Runs commands on a data directory and parses their output. A single write of a command can be made to fail, or all of its system calls of one
//! kind.

use crate::server::{BINARY, short_passwords};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

/// The kinds of failures of an operation on a file (`crates/testkit/preload`). The kinds that find most defects come first, because some tests use
/// only the first kinds.
pub(crate) const FAULTS: [&str; 5] = ["EIO", "kill-after", "short", "ENOSPC", "kill-before"];

/// The kind of failure, the number of the call that fails, and a file that is created at the failure.
pub(crate) type Fault<'a> = (&'a str, u64, &'a Path);

/// The path of the library that is loaded before the C library. Cargo does not build the library for this test, because the library is in another
/// package. So this function builds it.
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
    let mut command = program_on(BINARY, data, arguments);
    command.envs(fault.into_iter().flat_map(variables)).output().unwrap()
}

/// A command of this program on a data directory.
pub(crate) fn program_on(program: &str, data: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(["--json", "--data"]).arg(data).args(arguments).envs(short_passwords(data));
    command
}

/// Like [`run`], under strace(1). strace makes all calls of one system call fail (`NAME:error=EPERM`), or delays them
/// (`NAME:delay_enter=MICROSECONDS`).
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
    // The variables are set only for the command, because calls of strace itself must not be counted.
    for (name, value) in fault.into_iter().flat_map(variables) {
        command.args(["-E", &format!("{name}={value}")]);
    }
    command.arg(BINARY).args(["--json", "--data"]).arg(data).args(arguments);
    command
}

/// The output of a command, which must have succeeded.
pub(crate) fn passed(arguments: &[&str], output: &Output) -> String {
    assert!(output.status.success(), "{arguments:?}: {}", why(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The JSON values that a command prints; the command must succeed.
pub(crate) fn said(data: &Path, arguments: &[&str]) -> Vec<Value> {
    values(&passed(arguments, &run(data, arguments, None)))
}

/// Parses each line as a JSON value.
pub(crate) fn values(lines: &str) -> Vec<Value> {
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The text on standard error.
pub(crate) fn why(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
