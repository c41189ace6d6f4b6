//! `cargo xtask mutants`: makes small changes of the code (mutants), one at a time, and checks that a test fails for each mutant. cargo-mutants lists
//! the mutants. All mutants for which a switch can be written are built together, into the same test programs. An environment variable switches one
//! of these mutants on (`switch.rs`). cargo-mutants builds and runs the other mutants.

mod alone;
mod build;
mod digest;
mod judge;
mod list;
mod results;
mod switch;

use list::Mutant;
use results::{Outcome, Results};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// Parts of the code, the most important first.
const AREAS: [(&str, &[&str]); 9] = [
    (
        "the walk",
        &["crates/passage/src/walk.rs", "crates/passage/src/admission.rs", "crates/passage/src/reach.rs"],
    ),
    ("the journal", &["crates/facts/src/journal.rs"]),
    ("LMDB", &["crates/sources/src/lmdb"]),
    ("doors 2 to 4", &["crates/door-2-identity", "crates/door-3-datastore", "crates/door-4-access"]),
    ("passage", &["crates/passage"]),
    ("facts", &["crates/facts"]),
    ("sources", &["crates/sources"]),
    ("door 5", &["crates/door-5-content"]),
    ("door 1", &["crates/door-1-tls"]),
];

/// The options of the command.
#[derive(Default)]
struct Asked {
    only: Vec<String>,
    minutes: Option<u64>,
    shard: Option<(usize, usize)>,
    json: bool,
    /// Judge survivors without a reason again, because new tests were written.
    again: bool,
    /// Judge every survivor again, also survivors with a reason.
    accepted: bool,
    /// Also judge survivors by the tests of the binary.
    interop: bool,
    /// Parts of the names of the test programs that judge; if empty, all test programs judge.
    judges: Vec<String>,
    /// The maximum processor time of a test that judges. Slower tests are left out.
    longest: Option<Duration>,
    /// The number of mutants that are judged at the same time.
    jobs: usize,
    /// Only build the test programs.
    build: bool,
    /// Only report known results; run nothing.
    report: bool,
}

/// Runs the mutants that have no result yet, reports all results, and fails if a survivor has no reason.
pub(crate) fn run(words: &[&str]) -> Result<(), String> {
    let asked = asked(words)?;
    let place = build::Place { root: xtask::root().join("target/mutants") };
    std::fs::create_dir_all(&place.root).map_err(|why| format!("`{}`: {why}", place.root.display()))?;
    let place = build::Place { root: place.root.canonicalize().map_err(|why| why.to_string())? };
    let mutants = list::all()?;
    let page = xtask::root().join("xtask/mutants.toml");
    let text = std::fs::read_to_string(&page).map_err(|why| format!("`{}`: {why}", page.display()))?;
    let reasons = results::reasons(&text)?;
    let kept = xtask::root().join("xtask/mutants.jsonl");
    let mut results = Results::read(&kept, &place.root.join("log.jsonl"), &mutants)?;
    let chosen = chosen(&mutants, &asked);
    if !asked.report {
        work(&place, &mutants, &chosen, &mut results, &reasons, &asked)?;
    }
    say(&chosen, &results, &reasons, asked.json);
    let wrong = results::wrong(&mutants, &chosen, &results, &reasons);
    if wrong.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{}\nmutants: {} problems; for a survivor, write a test, or a reason in xtask/mutants.toml; \
         remove a reason that is not needed",
        wrong.join("\n"),
        wrong.len()
    ))
}

fn asked(words: &[&str]) -> Result<Asked, String> {
    let mut asked = Asked { jobs: 1, ..Asked::default() };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().copied().ok_or_else(|| format!("`{word}` needs a value"));
        match *word {
            "--only" => asked.only.push(value()?.to_owned()),
            "--minutes" => asked.minutes = Some(value()?.parse().map_err(|_| "`--minutes` needs a number")?),
            "--shard" => {
                let given =
                    value()?.split_once('/').and_then(|(k, n)| Some((k.parse().ok()?, n.parse().ok()?)));
                let shard = given.filter(|(k, n)| (1..=*n).contains(k));
                asked.shard = Some(shard.ok_or("`--shard` needs K/N, with K from 1 to N")?);
            }
            "--json" => asked.json = true,
            "--again" => asked.again = true,
            "--accepted" => asked.accepted = true,
            "--interop" => asked.interop = true,
            "--judges" => asked.judges.push(value()?.to_owned()),
            "--seconds" => {
                let seconds = value()?.parse().map_err(|_| "`--seconds` needs a number")?;
                asked.longest = Some(Duration::from_secs(seconds));
            }
            "--jobs" => {
                let jobs = value()?.parse().ok().filter(|jobs| *jobs > 0);
                asked.jobs = jobs.ok_or("`--jobs` needs a number from 1")?;
            }
            "--build" => asked.build = true,
            "--report" => asked.report = true,
            other => {
                let known = "--only, --minutes, --shard, --again, --accepted, --interop, --judges, --seconds, --jobs, --build, --report and --json";
                return Err(format!("no option `{other}`; known are {known}"));
            }
        }
    }
    Ok(asked)
}

fn area(file: &str) -> usize {
    let of = |(_, paths): &(&str, &[&str])| paths.iter().any(|path| file.starts_with(path));
    AREAS.iter().position(of).unwrap_or(AREAS.len())
}

/// The selected mutants, in the order of `--only`. Without `--only`, the mutants of the most important area come first.
fn chosen<'m>(mutants: &'m [Mutant], asked: &Asked) -> Vec<&'m Mutant> {
    let wanted = |mutant: &&Mutant| {
        let (k, n) = asked.shard.unwrap_or((1, 1));
        let is_here =
            asked.only.is_empty() || asked.only.iter().any(|path| mutant.file.starts_with(path.as_str()));
        is_here && usize::try_from(mutant.id).is_ok_and(|id| id % n == k - 1)
    };
    let mut chosen: Vec<&Mutant> = mutants.iter().filter(wanted).collect();
    let nth_asked = |file: &str| asked.only.iter().position(|path| file.starts_with(path.as_str()));
    chosen.sort_by_key(|mutant| (nth_asked(&mutant.file), area(&mutant.file)));
    chosen
}

#[expect(clippy::disallowed_methods, reason = "a runner stops after the time it is given")]
fn work(
    place: &build::Place,
    mutants: &[Mutant],
    chosen: &[&Mutant],
    results: &mut Results,
    reasons: &[results::Reason],
    asked: &Asked,
) -> Result<(), String> {
    let began = Instant::now();
    let is_accepted = |mutant: &Mutant| reasons.iter().any(|reason| reason.is_of(mutant));
    let is_asked_again =
        |mutant: &Mutant| asked.accepted || ((asked.again || asked.interop) && !is_accepted(mutant));
    let is_open = |results: &Results, mutant: &Mutant| match results.of(mutant) {
        None => true,
        Some(found) => !found.alone && found.outcome.survives() && is_asked_again(mutant),
    };
    // All mutants of a file are built, so that a later run can continue with the same test programs.
    let files: HashSet<&str> =
        chosen.iter().filter(|mutant| is_open(results, mutant)).map(|mutant| mutant.file.as_str()).collect();
    let built: Vec<&Mutant> = mutants.iter().filter(|mutant| files.contains(mutant.file.as_str())).collect();
    let is_over = || asked.minutes.is_some_and(|minutes| began.elapsed() > Duration::from_secs(60 * minutes));
    if !built.is_empty() {
        let mut programs = build::build(place, &built, results, asked.interop)?;
        let judges = |name: &str| asked.judges.iter().any(|part| name.contains(part.as_str()));
        programs.retain(|program| asked.judges.is_empty() || judges(&program.name));
        println!("mutants: built in {:.0} s", began.elapsed().as_secs_f64());
        if asked.build {
            return Ok(());
        }
        let judges = judge::record(place, programs, asked.longest.unwrap_or(judge::RECORDING_MAX))?;
        let open: Vec<&Mutant> = chosen.iter().copied().filter(|mutant| is_open(results, mutant)).collect();
        judge_all(place, &judges, &open, results, asked.jobs, &is_over)?;
    }
    let is_alone = |mutant: &&&Mutant| {
        let asked_again =
            |found: &results::Found| found.alone && found.outcome.survives() && is_asked_again(mutant);
        results.of(mutant).is_some_and(|found| found.outcome == Outcome::Alone || asked_again(found))
    };
    let alone: Vec<&Mutant> = chosen.iter().filter(is_alone).copied().collect();
    if is_over() || alone.is_empty() {
        return Ok(());
    }
    alone::run(place, &alone, results)
}

/// Judges mutants, `jobs` at a time, until all are judged or the time is over.
#[expect(clippy::disallowed_methods, reason = "a runner stops after the time it is given")]
fn judge_all(
    place: &build::Place,
    judges: &[judge::Judge],
    open: &[&Mutant],
    results: &mut Results,
    jobs: usize,
    is_over: &(impl Fn() -> bool + Sync),
) -> Result<(), String> {
    let (count, started, mut done) = (open.len(), Instant::now(), 0);
    let next = Mutex::new(open.iter().copied());
    let (sender, receiver) = channel();
    std::thread::scope(|scope| {
        for job in 0..jobs {
            let (sender, next, scratch) = (sender.clone(), &next, place.scratch(job));
            scope.spawn(move || {
                while !is_over() {
                    let mutant = next.lock().ok().and_then(|mut next| next.next());
                    let Some(mutant) = mutant else { break };
                    if sender.send((mutant, judge::judge(&scratch, judges, mutant))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        for (mutant, found) in receiver {
            let found = found?;
            done += 1;
            let each = started.elapsed().as_secs_f64() / f64::from(done);
            let (outcome, by) = (found.outcome.name(), &found.by);
            println!("{done:>5}/{count} {each:.1} s each  {outcome:<9} {} {by}", mutant.full_name);
            results.keep(mutant, found)?;
        }
        Ok::<_, String>(())
    })?;
    let left = open.iter().filter(|mutant| results.of(mutant).is_none()).count();
    if left > 0 {
        println!("mutants: the time is over, {left} are left");
    }
    Ok(())
}

/// Prints the table of areas, as text or as JSON.
fn say(chosen: &[&Mutant], results: &Results, reasons: &[results::Reason], as_json: bool) {
    let mut rows = Vec::new();
    for (nth, (name, _)) in AREAS.iter().enumerate() {
        let here: Vec<&&Mutant> = chosen.iter().filter(|mutant| area(&mutant.file) == nth).collect();
        let count = |of: &dyn Fn(Outcome) -> bool| {
            here.iter().filter(|mutant| results.of(mutant).is_some_and(|found| of(found.outcome))).count()
        };
        let survivors =
            here.iter().filter(|mutant| results.of(mutant).is_some_and(|found| found.outcome.survives()));
        let with_reason =
            survivors.filter(|mutant| reasons.iter().any(|reason| reason.is_of(mutant))).count();
        let ran = count(&|outcome| outcome != Outcome::Alone);
        rows.push((
            *name,
            [
                here.len(),
                ran,
                count(&Outcome::is_caught),
                count(&|outcome| outcome == Outcome::TimedOut),
                count(&|outcome| outcome == Outcome::Unviable),
                count(&Outcome::survives),
                with_reason,
            ],
        ));
    }
    let titles = ["mutants", "ran", "caught", "timed out", "unviable", "survived", "with a reason"];
    if as_json {
        let rows = rows.iter().map(|(name, counts)| {
            let counts = titles.iter().zip(counts).map(|(title, count)| ((*title).to_owned(), json!(count)));
            Value::Object(counts.chain([("area".to_owned(), json!(name))]).collect())
        });
        let survivors = chosen.iter().filter_map(|mutant| {
            let found = results.of(mutant).filter(|found| found.outcome.survives())?;
            let has_reason = reasons.iter().any(|reason| reason.is_of(mutant));
            Some(json!({ "mutant": mutant.full_name, "at": mutant.at, "outcome": found.outcome.name(), "reason": has_reason }))
        });
        println!(
            "{}",
            json!({ "areas": rows.collect::<Vec<_>>(), "survivors": survivors.collect::<Vec<_>>() })
        );
        return;
    }
    for file in results.void() {
        println!("mutants: `{file}` changed since it was judged: its results do not count");
    }
    println!("{:<14}{}", "area", titles.map(|title| format!("{title:>14}")).concat());
    for (name, counts) in rows.iter().filter(|(_, [all, ..])| *all > 0) {
        println!("{name:<14}{}", counts.map(|count| format!("{count:>14}")).concat());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options() {
        for (words, ok) in [
            (&["--only", "crates/facts", "--minutes", "5", "--shard", "2/4", "--json"][..], true),
            (&["--shard", "0/4"], false),
            (&["--shard", "5/4"], false),
            (&["--minutes", "many"], false),
            (&["--jobs", "2", "--seconds", "10"], true),
            (&["--again", "--accepted"], true),
            (&["--jobs", "0"], false),
            (&["--only"], false),
            (&["--all"], false),
        ] {
            assert_eq!(asked(words).is_ok(), ok, "{words:?}");
        }
    }

    #[test]
    fn every_area_is_there() {
        for (name, paths) in AREAS {
            for path in paths {
                assert!(xtask::root().join(path).exists(), "{name}: {path}");
                assert_eq!(AREAS[area(path)].0, name);
            }
        }
    }
}
