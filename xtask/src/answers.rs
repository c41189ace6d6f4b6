//! `cargo xtask answers`: checks the recorded answers (`interop/answers.rs`), writes them in full, or records them again.

use std::process::Command;

/// Runs the test of recorded answers. `--keep DIR` writes all answers in full to this directory, `--accept` records the answers of this build.
pub(crate) fn run(options: &[&str]) -> Result<(), String> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["test", "-p", "enfilade", "--test", "interop", "answers::"]).current_dir(xtask::root());
    let mut options = options.iter();
    while let Some(option) = options.next() {
        match (*option, options.as_slice()) {
            ("--accept", _) => {
                command.env("ENFILADE_ANSWERS_ACCEPT", "1");
            }
            ("--keep", [directory, ..]) => {
                let directory = std::path::absolute(directory)
                    .map_err(|why| format!("`{directory}` is not a usable path: {why}"))?;
                command.env("ENFILADE_ANSWERS_KEEP", directory);
                options.next();
            }
            _ => return Err(format!("`{option}`: expected --keep DIRECTORY or --accept")),
        }
    }
    let status = command.status().map_err(|why| format!("cargo cannot be run: {why}"))?;
    if status.success() {
        Ok(())
    } else {
        Err("answers: some differ from the recorded ones, see above".to_owned())
    }
}
