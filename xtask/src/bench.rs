//! `cargo xtask bench`: builds the server and the benchmarks with the release profile, and runs one benchmark, or all of them.

use crate::{packages, peers};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus};
use std::time::Instant;

/// Runs a benchmark: the first word is its name, the other words are its options. `all` runs the benchmarks for which there is no record of this
/// source.
pub(crate) fn run(words: &[&str]) -> Result<(), String> {
    match words {
        ["all"] => all(false),
        ["all", "--install"] => all(true),
        ["all", other, ..] => Err(format!("no option `{other}` of `bench all`; known is --install")),
        words => {
            build()?;
            one(words)
        }
    }
}

fn build() -> Result<(), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(&cargo);
    build.args(["build", "--quiet", "--release", "-p", "enfilade", "-p", "enfilade-bench"]);
    let status =
        build.current_dir(xtask::root()).status().map_err(|why| format!("cargo cannot be run: {why}"))?;
    status.success().then_some(()).ok_or_else(|| "the build failed".to_owned())
}

fn one(words: &[&str]) -> Result<(), String> {
    let status =
        program().args(words).status().map_err(|why| format!("the benchmark cannot be run: {why}"))?;
    told(status)
}

/// The result of a benchmark's process.
fn told(status: ExitStatus) -> Result<(), String> {
    match (status.success(), status.signal()) {
        (true, _) => Ok(()),
        (false, Some(signal)) => {
            Err(format!("bench: signal {signal} ended the run, so it made no record; no goal was judged"))
        }
        (false, None) => Err("bench: a goal does not hold, or something could not be measured".into()),
    }
}

/// The program of the benchmarks.
fn program() -> Command {
    let mut command = Command::new(xtask::root().join("target/release/enfilade-bench"));
    // These are the settings of the packaged systemd unit. Huge pages are used because a memo of a million tokens is read at random places.
    command.env("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=4194304");
    if let Some(path) = peers::path() {
        command.env("PATH", path);
    }
    command.current_dir(xtask::root());
    command
}

/// Runs each benchmark of which there is no clean record of this source. If a run is interrupted, the next run continues with the remaining
/// benchmarks, and a second run of the same commit measures nothing again. With `install`, the programs with which Enfilade is compared are installed
/// first, because several benchmarks need the same program.
#[expect(clippy::disallowed_methods, reason = "a runner says how long each benchmark took")]
fn all(install: bool) -> Result<(), String> {
    if install {
        packages::install(packages::OF_BENCHMARKS)?;
        peers::install()?;
    }
    build()?;
    if install {
        println!("==> Keystone");
        let status = program().arg("install-keystone").status();
        if !status.is_ok_and(|status| status.success()) {
            return Err(
                "Keystone was not installed; `target/release/enfilade-bench install-keystone` tries again"
                    .to_owned(),
            );
        }
    }
    let listed =
        program().arg("runs").output().map_err(|why| format!("the benchmarks cannot be listed: {why}"))?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let benches: Vec<&str> = listed.lines().collect();
    let left = xtask::figures::not_measured(&xtask::root(), &benches)?;
    println!(
        "{} of {} benchmarks have a record that was made with the current source code",
        benches.len() - left.len(),
        benches.len()
    );
    let mut failed = Vec::new();
    for (n, bench) in left.iter().enumerate() {
        println!("\n==> {bench} ({} of {})", n + 1, left.len());
        let began = Instant::now();
        if let Err(why) = one(&bench.split(' ').collect::<Vec<_>>()) {
            println!("{bench}: {why}");
            failed.push(*bench);
        }
        println!("==> {bench} took {} s", began.elapsed().as_secs());
    }
    println!("\nrun `cargo xtask scoreboard` to write docs/benchmarks.md from the records");
    match failed.as_slice() {
        [] => Ok(()),
        failed => {
            Err(format!("bench: not every goal holds, or something is not measured: {}", failed.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_killed_run_is_not_a_goal_that_does_not_hold() {
        assert_eq!(told(ExitStatus::from_raw(0)), Ok(()));
        // In a wait status, the exit code is in the second byte, and the signal is in the first.
        assert!(told(ExitStatus::from_raw(1 << 8)).unwrap_err().contains("a goal does not hold"));
        assert!(told(ExitStatus::from_raw(15)).unwrap_err().contains("signal 15"));
    }
}
