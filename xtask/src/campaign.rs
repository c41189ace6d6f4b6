//! Runs a campaign. Each run writes a record to `bench/runs`; `cargo xtask scoreboard` writes docs/campaigns.md from the records.

mod planted;
mod record;
mod rolling;

use record::{Ended, Results, Source};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant;
use xtask::campaigns::CAMPAIGNS;

/// Whether a campaign of this name exists.
pub(crate) fn knows(name: &str) -> bool {
    CAMPAIGNS.iter().any(|campaign| campaign.name == name)
}

/// Runs a campaign: `--n N` for its size (or `--minutes N` for `nemesis`, `nemesis-in-process` and `planted`), `--seed N` for its random numbers,
/// `--no-record` to write no record.
#[expect(clippy::disallowed_methods, reason = "the record says how long the campaign took")]
pub(crate) fn run(name: &str, options: &[&str]) -> Result<(), String> {
    let campaign = CAMPAIGNS.iter().find(|campaign| campaign.name == name).ok_or("no such campaign")?;
    let (mut n, mut seed, mut is_recorded) = (campaign.n, None, true);
    let mut options = options.iter();
    while let Some(option) = options.next() {
        if *option == "--no-record" {
            is_recorded = false;
            continue;
        }
        let value = options.next().and_then(|value| value.parse::<u64>().ok());
        let value = value.ok_or_else(|| format!("`{option}` needs a number"))?;
        match *option {
            "--n" => n = value,
            // The size of these campaigns is their time in seconds.
            "--minutes" if name.starts_with("nemesis") || name == planted::NAME => n = value * 60,
            "--seed" => seed = Some(value),
            other => return Err(format!("no option `{other}`; known are --n, --seed and --no-record")),
        }
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.arg("test").args(campaign.test).args(["--", "--nocapture", "--test-threads", "1"]);
    command.env("ENFILADE_CAMPAIGN_N", n.to_string()).current_dir(xtask::root());
    // proptest gets a tenth of the number, and at least 256 cases, because a case of proptest takes longer than a step of a campaign.
    command.env("PROPTEST_CASES", (n / 10).max(256).to_string());
    if let Some(seed) = seed {
        command.env("ENFILADE_CAMPAIGN_SEED", seed.to_string());
    }
    if name == rolling::NAME {
        command.env("ENFILADE_OLDER", rolling::build()?);
    }
    let (source, began) = (Source::now(), Instant::now());
    let (passed, results) = match name {
        planted::NAME => planted::run(n, seed)?,
        _ => watched(&mut command)?,
    };
    if is_recorded {
        let took = began.elapsed();
        let path = record::write(&Ended { name, n, seed, took, passed, results }, &source)?;
        eprintln!("the record is {}", path.display());
    }
    if passed { Ok(()) } else { Err(format!("{name}: a check failed, see above")) }
}

/// Runs the tests, and prints their output. Returns whether all tests passed, and the last line of each test.
fn watched(command: &mut Command) -> Result<(bool, Vec<String>), String> {
    let failed = |why: std::io::Error| format!("cargo cannot be run: {why}");
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(failed)?;
    let mut results = Results::default();
    for line in child.stdout.take().into_iter().flat_map(|out| BufReader::new(out).lines()) {
        let line = line.map_err(failed)?;
        println!("{line}");
        results.line(&line);
    }
    let status = child.wait().map_err(failed)?;
    Ok((status.success(), results.all()))
}
