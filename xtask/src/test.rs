//! `cargo xtask test`: what has to pass, step by step, and how long each step took.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Debian packages the tests use, and the program each brings.
const PACKAGES: [(&str, &str); 3] = [("rclone", "rclone"), ("curl", "curl"), ("openssl", "openssl")];

/// Whether missing packages are installed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packages {
    Install,
    Leave,
}

struct Step {
    name: &'static str,
    arguments: &'static [&'static str],
}

const STEPS: [Step; 3] = [
    Step { name: "format", arguments: &["fmt", "--all", "--check"] },
    Step { name: "lints", arguments: &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"] },
    // Unit, property, scenario, tidy and interop tests are all cargo tests.
    Step { name: "tests", arguments: &["test", "--workspace"] },
];

pub(crate) fn run(packages: Packages) -> Result<(), String> {
    let mut took = Vec::new();
    if packages == Packages::Install {
        took.push(("packages", timed(install)?));
    }
    for step in &STEPS {
        println!("==> {}: cargo {}", step.name, step.arguments.join(" "));
        let duration = timed(|| cargo(step));
        took.push((step.name, duration?));
    }
    println!("\n{:<10} {:>8}", "step", "seconds");
    for (name, duration) in took {
        println!("{name:<10} {:>8.1}", duration.as_secs_f64());
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a runner says how long its steps took")]
fn timed(step: impl FnOnce() -> Result<(), String>) -> Result<Duration, String> {
    let began = Instant::now();
    step()?;
    Ok(began.elapsed())
}

fn cargo(step: &Step) -> Result<(), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo).args(step.arguments).current_dir(xtask::root()).status();
    let status = status.map_err(|why| format!("cargo cannot be run: {why}"))?;
    if status.success() {
        return Ok(());
    }
    Err(format!(
        "\nstep `{}` failed; run it alone with `cargo {}`\n(is a component missing? `rustup component add rustfmt clippy`)",
        step.name,
        step.arguments.join(" ")
    ))
}

fn install() -> Result<(), String> {
    let missing: Vec<&str> =
        PACKAGES.iter().filter(|(_, program)| !is_in_path(program)).map(|(package, _)| *package).collect();
    println!("==> packages: {}", if missing.is_empty() { "all there".to_owned() } else { missing.join(" ") });
    if missing.is_empty() {
        return Ok(());
    }
    let line = format!("apt-get install -y --no-install-recommends {}", missing.join(" "));
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n");
    if !is_root || !is_in_path("apt-get") {
        return Err(format!("the tests need {}; run `sudo {line}`", missing.join(" and ")));
    }
    for command in ["apt-get update -q", &line] {
        let mut words = command.split(' ');
        let status = Command::new(words.next().unwrap_or_default())
            .args(words)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .status();
        if !status.is_ok_and(|status| status.success()) {
            return Err(format!("`{command}` failed"));
        }
    }
    Ok(())
}

fn is_in_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| Path::new(&directory).join(program).is_file())
}
