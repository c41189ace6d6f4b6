//! `cargo xtask test`: runs all steps that must pass, and prints the time of each.

use crate::packages;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Whether missing packages are installed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packages {
    Install,
    Leave,
}

/// The environment variable that sets how many tests of a test program run at once.
const THREADS: &str = "RUST_TEST_THREADS";

struct Step {
    name: &'static str,
    arguments: &'static [&'static str],
    /// The rustup component that the step needs, if it may be missing.
    component: Option<&'static str>,
}

const STEPS: [Step; 3] = [
    Step { name: "format", arguments: &["fmt", "--all", "--check"], component: Some("rustfmt") },
    Step {
        name: "lints",
        arguments: &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"],
        component: Some("clippy"),
    },
    // Unit, property, scenario, tidy and interop tests are all cargo tests.
    Step { name: "tests", arguments: &["test", "--workspace"], component: None },
];

pub(crate) fn run(packages: Packages) -> Result<(), String> {
    let mut took = Vec::new();
    let result = walk(packages, &mut took);
    println!("\n{:<10} {:>8}", "step", "seconds");
    for (name, duration) in took {
        println!("{name:<10} {:>8.1}", duration.as_secs_f64());
    }
    result
}

fn walk(packages: Packages, took: &mut Vec<(&'static str, Duration)>) -> Result<(), String> {
    if packages == Packages::Install {
        timed("packages", took, || packages::install(packages::OF_TESTS))?;
    }
    STEPS.iter().try_for_each(|step| timed(step.name, took, || cargo(step)))
}

#[expect(clippy::disallowed_methods, reason = "a runner says how long its steps took")]
fn timed(
    name: &'static str,
    took: &mut Vec<(&'static str, Duration)>,
    step: impl FnOnce() -> Result<(), String>,
) -> Result<(), String> {
    let began = Instant::now();
    let result = step();
    took.push((name, began.elapsed()));
    result
}

fn cargo(step: &Step) -> Result<(), String> {
    let line = format!("cargo {}", step.arguments.join(" "));
    println!("==> {}: {line}", step.name);
    if let Some(component) = step.component
        && !is_there(step)
    {
        return Err(format!(
            "step `{}` needs {component}; run `rustup component add {component}`",
            step.name
        ));
    }
    let mut command = command();
    if std::env::var_os(THREADS).is_none() {
        // More tests than cores run at once, because many tests wait for clocks and processes, and leave the cores idle.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        command.env(THREADS, (2 * cores).to_string());
    }
    let status = command.args(step.arguments).status();
    match status.map_err(|why| format!("cargo cannot be run: {why}"))? {
        status if status.success() => Ok(()),
        _ => Err(format!("step `{}` failed; run it alone with `{line}`", step.name)),
    }
}

/// Whether cargo has the subcommand of this step: runs it with `--version`.
fn is_there(step: &Step) -> bool {
    let asked = step.arguments.first().map(|subcommand| {
        command().args([subcommand, "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status()
    });
    asked.is_some_and(|status| status.is_ok_and(|status| status.success()))
}

fn command() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(xtask::root());
    command
}
