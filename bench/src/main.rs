//! Benchmarks: `cargo xtask bench NAME`. Two things that are compared are always measured in the same run.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a command-line tool")]

// A benchmark in this process needs the clock of the server, so it uses the server's clock module.
#[path = "../../crates/enfilade/src/clock.rs"]
mod clock;
mod access;
mod arrivals;
mod article;
mod benches;
mod certs;
mod confinement;
mod connections;
mod content;
mod datastores;
mod decisions;
mod facts;
mod fernet;
mod fleet;
mod flood;
mod goals;
mod growth;
mod identity;
mod import;
mod loop_process;
mod machine;
mod memory_reads;
mod passage;
mod peers;
mod plain_loop;
mod record;
mod report;
mod samples;
mod scratch;
mod served;
mod stopwatch;
mod stores;
mod system_calls;
mod tokens;
mod uploads;

use record::Run;
use report::Report;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("bench: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a benchmark. Returns whether every goal held.
fn run(arguments: &[String]) -> Result<bool, Failure> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    // A benchmark starts this program again with words such as these, to do a part of its work in another process.
    if let ["facts-watcher", place] = words.as_slice() {
        return facts::watch(place.as_ref()).map(|()| true);
    }
    // `cargo xtask bench all` asks for the runs that make all records.
    if let ["runs"] = words.as_slice() {
        benches::BENCHES.iter().for_each(|(name, _)| println!("{name}"));
        println!("certs --n 1000000");
        return Ok(true);
    }
    // `cargo xtask bench all --install` asks for Keystone before the first benchmark.
    if let ["install-keystone"] = words.as_slice() {
        return peers::keystone::install().map(|()| true);
    }
    if let ["make-certs", place, count] = words.as_slice() {
        return certs::make(place.as_ref(), count.parse()?).map(|()| true);
    }
    if let ["connections-floor", address, place, file] = words.as_slice() {
        return connections::serve_floor(address.parse()?, place.as_ref(), file.as_ref()).map(|()| true);
    }
    if let ["plain-loop", address, file] = words.as_slice() {
        return plain_loop::serve(address.parse()?, file.as_ref()).map(|()| true);
    }
    if let ["growth-revocations-part", place] = words.as_slice() {
        return growth::revocations::part(place.as_ref()).map(|()| true);
    }
    if let ["access-part", acls, tree, groups] = words.as_slice() {
        return access::part(acls, tree, groups.parse()?).map(|()| true);
    }
    if let ["datastores-part", part, times] = words.as_slice() {
        return datastores::part(part, times.parse()?).map(|()| true);
    }
    if let ["tokens-part", part, times] = words.as_slice() {
        return tokens::part(part, times.parse()?).map(|()| true);
    }
    if let ["passage-commits", place] = words.as_slice() {
        return passage::slow_writer::commit(place.as_ref()).map(|()| true);
    }
    if let ["passage-part", part, tokens, times] = words.as_slice() {
        return passage::pure::part(part, tokens.parse()?, times.parse()?).map(|()| true);
    }
    let (name, options) =
        words.split_first().ok_or_else(|| format!("expected a benchmark: one of {}", benches::names()))?;
    let (_, goals) = benches::BENCHES
        .iter()
        .find(|(known, _)| known == name)
        .ok_or_else(|| format!("no benchmark `{name}`; known are {}", benches::names()))?;
    let run = Run::begin(options);
    let options = Options::parse(name, options)?;
    let mut report = Report::new(name, options.small, goals());
    measure(&mut report, name, &options).map_err(|why| {
        format!("{why}\nthe run ended early, so it made no record; its figures until then are above")
    })?;
    let run = run.end();
    let record = record::to_json(&report, &run);
    match options.json {
        true => println!("{record}"),
        false => print!("{}", report.to_text()),
    }
    if let Some(directory) = &options.runs {
        let path = record::write(directory, &record, &run, name)?;
        eprintln!("the record is {}", path.display());
    }
    let failed = report.failed();
    if !failed.is_empty() {
        eprintln!(
            "the run is complete; these goals do not hold, or were not measured: {}",
            failed.join(", ")
        );
    }
    Ok(report.holds())
}

struct Options {
    json: bool,
    small: bool,
    install: bool,
    /// The number of certificates or revocations.
    count: Option<usize>,
    /// The directory of records. If no directory is given, a full run uses `bench/runs`. A small run then writes no record, because its workload is
    /// not the workload of the goals.
    runs: Option<PathBuf>,
}

impl Options {
    fn parse(name: &str, words: &[&str]) -> Result<Self, Failure> {
        let (mut json, mut small, mut install, mut count) = (false, false, false, None);
        let (mut runs, mut is_recorded) = (None, true);
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--json" => json = true,
                "--small" => small = true,
                "--no-record" => is_recorded = false,
                "--install" if name == "keystone" => install = true,
                "--n" if matches!(name, "certs" | "growth-revocations") => {
                    count = Some(words.next().ok_or("`--n` needs a number")?.parse()?);
                }
                "--runs" => runs = Some(PathBuf::from(words.next().ok_or("`--runs` needs a directory")?)),
                other => {
                    return Err(format!(
                        "no option `{other}`; known are --json, --small, --runs DIR and --no-record"
                    )
                    .into());
                }
            }
        }
        let usual = || (!small).then(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("runs"));
        let runs = if is_recorded { runs.or_else(usual) } else { None };
        Ok(Options { json, small, install, count, runs })
    }
}

fn measure(report: &mut Report, name: &str, options: &Options) -> Result<(), Failure> {
    let small = options.small;
    match name {
        "access" => access::run(report, small),
        "access-alone" => access::alone(report, small),
        "certs" => certs::run(report, if small { 500 } else { options.count.unwrap_or(certs::FULL) }),
        "confinement" => confinement::run(report, small),
        "connections" => connections::run(report, small),
        "content" => content::run(report, small),
        "datastores" => datastores::run(report, small),
        "decisions" => decisions::run(report, small),
        "facts" => facts::run(report, small),
        "fernet" => fernet::run(report, small),
        "fleet" => fleet::run(report, small),
        "flood" => flood::run(report, small),
        "growth" => growth::run(report, small),
        "growth-revocations" => {
            let count = if small { 10_000 } else { options.count.unwrap_or(10_000_000) };
            growth::revocations::run(report, count as u64)
        }
        "identity" => identity::run(report, small),
        "import" => import::run(report, small),
        "keystone" => fernet::compared_with_keystone(report, options.install, small),
        "keystone-article" => article::run(report, small),
        "passage" => passage::run(report, small),
        "tokens" => tokens::run(report, small),
        "uploads" => uploads::run(report, small),
        other => Err(format!("no benchmark `{other}`").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_run_is_recorded_only_where_it_is_told_to() {
        let runs = |words: &[&str]| Options::parse("passage", words).unwrap().runs;
        assert!(runs(&[]).unwrap().ends_with("bench/runs"));
        assert_eq!(runs(&["--small"]), None);
        assert_eq!(runs(&["--small", "--runs", "/x"]), Some("/x".into()));
        assert_eq!(runs(&["--no-record"]), None);
        assert!(Options::parse("passage", &["--n", "5"]).is_err());
        assert_eq!(Options::parse("certs", &["--n", "5"]).unwrap().count, Some(5));
    }
}
