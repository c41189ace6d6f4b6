//! `cargo xtask bench`: builds the server and the benchmarks with the release profile, and runs one benchmark.

use std::process::Command;

/// Runs a benchmark: the first word is its name, the others are its options.
pub(crate) fn run(words: &[&str]) -> Result<(), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let run = |what: &[&str]| {
        let status = Command::new(&cargo).args(what).args(["--release"]).current_dir(xtask::root()).status();
        status
            .map_err(|why| format!("cargo cannot be run: {why}"))?
            .success()
            .then_some(())
            .ok_or_else(String::new)
    };
    run(&["build", "--quiet", "-p", "enfilade", "-p", "enfilade-bench"]).map_err(|_| "the build failed")?;
    let program = xtask::root().join("target/release/enfilade-bench");
    let mut command = Command::new(&program);
    // The settings of the packaged unit: huge pages, because reads of a memo of a million tokens are random.
    command.env("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=4194304");
    let status = command.args(words).current_dir(xtask::root()).status();
    let status = status.map_err(|why| format!("`{}`: {why}", program.display()))?;
    if status.success() {
        Ok(())
    } else {
        Err("bench: a goal does not hold, or something could not be measured".into())
    }
}
