//! Benchmarks: `cargo xtask bench NAME`. Two things that are compared are always measured in the same run.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a command-line tool")]

// The clock module of the server, because a benchmark in this process needs the same clock.
#[path = "../../crates/enfilade/src/clock.rs"]
mod clock;
mod access;
mod article;
mod certs;
mod content;
mod datastores;
mod facts;
mod fernet;
mod flood;
mod growth;
mod identity;
mod machine;
mod passage;
mod peers;
mod plot;
mod report;
mod scratch;
mod served;
mod stopwatch;
mod stores;
mod tokens;

use report::Report;
use std::path::PathBuf;
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

/// Whether every goal held.
fn run(arguments: &[String]) -> Result<bool, Failure> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    // A benchmark starts this program again with these words to work in another process.
    if let ["facts-watcher", place] = words.as_slice() {
        return facts::watch(place.as_ref()).map(|()| true);
    }
    if let ["make-certs", place, count] = words.as_slice() {
        return certs::make(place.as_ref(), count.parse()?).map(|()| true);
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
    if let ["passage-part", part, tokens, times] = words.as_slice() {
        return passage::pure::part(part, tokens.parse()?, times.parse()?).map(|()| true);
    }
    let (name, options) = words.split_first().ok_or(
        "expected a name; known are access, access-alone, certs, content, datastores, facts, fernet, flood, growth, growth-revocations, identity, keystone, keystone-article, passage and tokens",
    )?;
    let (mut json, mut plot, mut small, mut install) = (false, None, false, false);
    let mut count = if *name == "growth-revocations" { 10_000_000 } else { 25_000 };
    let mut options = options.iter();
    while let Some(option) = options.next() {
        match *option {
            "--json" => json = true,
            "--small" => small = true,
            "--install" if *name == "keystone" => install = true,
            "--n" if matches!(*name, "certs" | "growth-revocations") => {
                count = options.next().ok_or("`--n` needs a number")?.parse()?;
            }
            "--plot" => plot = Some(PathBuf::from(options.next().ok_or("`--plot` needs a directory")?)),
            other => {
                return Err(format!("no option `{other}`; known are --json, --plot DIR and --small").into());
            }
        }
    }
    let mut report = Report::new(name);
    match *name {
        "access" => access::run(&mut report, small)?,
        "access-alone" => access::alone(&mut report, small)?,
        "certs" => certs::run(&mut report, if small { 500 } else { count })?,
        "content" => content::run(&mut report, small)?,
        "datastores" => datastores::run(&mut report, small)?,
        "facts" => facts::run(&mut report, small)?,
        "fernet" => fernet::run(&mut report, small)?,
        "flood" => flood::run(&mut report, small)?,
        "growth" => growth::run(&mut report, small)?,
        "growth-revocations" => {
            growth::revocations::run(&mut report, if small { 10_000 } else { count as u64 })?;
        }
        "identity" => identity::run(&mut report, small)?,
        "keystone" => fernet::compared_with_keystone(&mut report, install, small)?,
        "keystone-article" => article::run(&mut report, small)?,
        "passage" => passage::run(&mut report, small)?,
        "tokens" => tokens::run(&mut report, small)?,
        other => {
            return Err(format!(
                "no benchmark `{other}`; known are access, access-alone, certs, content, datastores, facts, fernet, flood, growth, growth-revocations, identity, keystone, keystone-article, passage and tokens"
            )
            .into());
        }
    }
    match json {
        true => println!("{}", report.to_json()),
        false => print!("{}", report.to_text()),
    }
    if let Some(directory) = plot {
        plot::write(&report, &directory)?;
    }
    Ok(report.holds())
}
