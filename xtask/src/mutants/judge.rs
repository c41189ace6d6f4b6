//! Records which tests execute which mutated places, and judges a mutant by the tests that execute its place.

use super::build::{Place, Program};
use super::digest::digest;
use super::list::Mutant;
use super::results::{Found, Outcome};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// The maximum processor time of a single test without a mutant, unless `--seconds` sets another limit. The elapsed time may be [`SLACK_TIMES`] times
/// as long.
pub(super) const RECORDING_MAX: Duration = Duration::from_secs(150);

/// The time limit of a run of tests: this factor times the time without a mutant, plus a constant. `SLACK` is for processor time. `CLOCK_SLACK` is
/// for elapsed time; it is larger than `SLACK`, so that a busy machine does not cause a timeout.
const SLACK_TIMES: u32 = 5;
const SLACK: Duration = Duration::from_secs(4);
const CLOCK_SLACK: Duration = Duration::from_secs(60);

/// A test that takes at most this time is quick: the quick tests of all programs are run before any longer test.
const QUICK: Duration = Duration::from_millis(300);

/// The number of units of processor time in `/proc` per second.
const TICKS: u64 = 100;

/// The signal that ends a program which exceeded its limit of processor time (`SIGXCPU`).
const TOOK_TOO_MUCH: i32 = 24;

/// The limit of a test's data segment, in KiB: a mutant may allocate without end.
const MEMORY_MAX_KIB: u32 = 6 << 20;

/// The elapsed time and the processor time of a run.
#[derive(Clone, Copy, Debug, Default)]
struct Took {
    clock: Duration,
    processor: Duration,
}

impl Took {
    fn limits(self) -> Took {
        Took {
            clock: self.clock * SLACK_TIMES + CLOCK_SLACK,
            processor: self.processor * SLACK_TIMES + SLACK,
        }
    }
}

/// A test, its times, and the mutants whose places it executes.
pub(super) struct Test {
    name: String,
    took: Took,
    reached: HashSet<u32>,
}

/// A test program that was run once without a mutant.
pub(super) struct Judge {
    program: Program,
    tests: Vec<Test>,
}

/// Runs each test alone without a mutant, and records the mutants whose places it executes. Records of an unchanged program are used again. Tests
/// that need more processor time than `longest` do not judge.
pub(super) fn record(place: &Place, programs: Vec<Program>, longest: Duration) -> Result<Vec<Judge>, String> {
    let kept = place.root.join("reached");
    std::fs::create_dir_all(&kept).map_err(|why| format!("`{}`: {why}", kept.display()))?;
    let mut judges = Vec::new();
    for program in programs {
        let content =
            std::fs::read(&program.path).map_err(|why| format!("`{}`: {why}", program.path.display()))?;
        let (name, seconds) = (program.name.replace(' ', "-"), longest.as_secs());
        let path = kept.join(format!("{name}-{seconds}-{:016x}.json", digest(&content)));
        let known = std::fs::read_to_string(&path).ok().and_then(|text| known(&text));
        let tests = match known {
            Some(tests) => tests,
            None => {
                let tests = record_all(place, &program, longest)?;
                let rows: Vec<Value> = tests
                    .iter()
                    .map(|test| {
                        let (clock, processor) = (test.took.clock.as_millis(), test.took.processor.as_millis());
                        json!({ "name": test.name, "ms": clock as u64, "processor": processor as u64, "reached": test.reached })
                    })
                    .collect();
                let text = Value::Array(rows).to_string();
                std::fs::write(&path, text).map_err(|why| format!("`{}`: {why}", path.display()))?;
                tests
            }
        };
        judges.push(Judge { program, tests });
    }
    Ok(judges)
}

fn known(text: &str) -> Option<Vec<Test>> {
    let rows: Vec<Value> = serde_json::from_str(text).ok()?;
    let test = |row: &Value| {
        let ids = row.get("reached")?.as_array()?.iter();
        let time = |key: &str| row.get(key)?.as_u64().map(Duration::from_millis);
        Some(Test {
            name: row.get("name")?.as_str()?.to_owned(),
            took: Took { clock: time("ms")?, processor: time("processor")? },
            reached: ids.filter_map(|id| u32::try_from(id.as_u64()?).ok()).collect(),
        })
    };
    rows.iter().map(test).collect()
}

fn record_all(place: &Place, program: &Program, longest: Duration) -> Result<Vec<Test>, String> {
    let limits = Took { clock: longest * SLACK_TIMES, processor: longest };
    let listed = Command::new(&program.path)
        .args(["--list", "--format", "terse"])
        .current_dir(&program.place)
        .output()
        .map_err(|why| format!("`{}`: {why}", program.path.display()))?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let names: Vec<&str> = listed.lines().filter_map(|line| line.strip_suffix(": test")).collect();
    let reached = place.root.join("reached.txt");
    let mut tests = Vec::new();
    for name in names {
        let _ = std::fs::remove_file(&reached);
        let (ran, took) = run(&place.scratch(0), program, &[name], None, Some(&reached), limits)?;
        if ran != Ran::Passed {
            println!(
                "mutants: {} {name} does not pass without a mutant ({ran:?}) and judges none",
                program.name
            );
            continue;
        }
        let text = std::fs::read_to_string(&reached).unwrap_or_default();
        tests.push(Test {
            name: name.to_owned(),
            took,
            reached: text.lines().filter_map(|id| id.parse().ok()).collect(),
        });
    }
    let took: Duration = tests.iter().map(|test| test.took.clock).sum();
    println!("mutants: {}: {} tests, {:.1} s", program.name, tests.len(), took.as_secs_f64());
    Ok(tests)
}

/// Judges a mutant by the tests that execute its place. First the quick tests run, beginning with the tests of the mutant's crate. Then the longer
/// tests run, the fastest program first.
pub(super) fn judge(scratch: &Path, judges: &[Judge], mutant: &Mutant) -> Result<Found, String> {
    let mut runs: Vec<(bool, bool, Took, &Judge, Vec<&str>)> = Vec::new();
    for judge in judges {
        let reaching = judge.tests.iter().filter(|test| test.reached.contains(&mutant.id));
        let (quick, long): (Vec<&Test>, Vec<&Test>) = reaching.partition(|test| test.took.clock <= QUICK);
        let is_other = judge.program.package != mutant.package;
        for (is_long, tests) in [(false, quick), (true, long)] {
            if !tests.is_empty() {
                let clock = tests.iter().map(|test| test.took.clock).sum();
                let took = Took { clock, processor: tests.iter().map(|test| test.took.processor).sum() };
                let names = tests.iter().map(|test| test.name.as_str()).collect();
                runs.push((is_long, is_other, took, judge, names));
            }
        }
    }
    runs.sort_by_key(|(is_long, is_other, took, ..)| (*is_long, *is_other && !*is_long, took.clock));
    let found = |outcome, by| Ok(Found { outcome, by, alone: false });
    if runs.is_empty() {
        return found(Outcome::Unreached, String::new());
    }
    for (_, _, took, judge, names) in runs {
        let Program { name, package, .. } = &judge.program;
        let (ran, _) = run(scratch, &judge.program, &names, Some(mutant.id), None, took.limits())?;
        match ran {
            Ran::Passed => {}
            Ran::Failed(test) => {
                let is_binary = package == "enfilade";
                let outcome = if is_binary { Outcome::CaughtByBinary } else { Outcome::Caught };
                return found(outcome, format!("{name} {test}"));
            }
            Ran::TooLong(why) => return found(Outcome::TimedOut, format!("{name} by the {why}")),
        }
    }
    found(Outcome::Survived, String::new())
}

#[derive(Debug, PartialEq, Eq)]
enum Ran {
    Passed,
    Failed(String),
    /// The elapsed time (`clock`) or the processor time (`processor`) exceeded its limit.
    TooLong(&'static str),
}

/// Runs tests of a program until the first failure. Child processes of the program are killed at the end.
#[expect(clippy::disallowed_methods, reason = "a runner gives up on what takes too long")]
fn run(
    scratch: &Path,
    program: &Program,
    tests: &[&str],
    mutant: Option<u32>,
    reached: Option<&Path>,
    limits: Took,
) -> Result<(Ran, Took), String> {
    let failed = |why: std::io::Error| format!("`{}`: {why}", program.path.display());
    let _ = std::fs::remove_dir_all(scratch);
    std::fs::create_dir_all(scratch).map_err(failed)?;
    let seconds = limits.processor.as_secs().max(1);
    let limited = format!("ulimit -d {MEMORY_MAX_KIB}; ulimit -S -t {seconds}; exec \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &limited, "sh"]).arg(&program.path);
    command.arg("--exact").args(tests).current_dir(&program.place).process_group(0);
    command.env("CARGO_MANIFEST_DIR", &program.place).env("TMPDIR", scratch).env("PROPTEST_CASES", "256");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    mutant.iter().for_each(|id| _ = command.env("MUTANT_ON", id.to_string()));
    reached.iter().for_each(|path| _ = command.env("MUTANTS_REACHED", path));
    let began = Instant::now();
    let mut child = command.spawn().map_err(failed)?;
    let ran = follow(&mut child, began + limits.clock);
    let took = Took { clock: began.elapsed(), processor: processor(child.id()).unwrap_or_default() };
    // Kills the process group, so that no server of a test keeps running.
    let _ =
        Command::new("kill").args(["-9", "--", &format!("-{}", child.id())]).stderr(Stdio::null()).status();
    let status = child.wait().map_err(failed)?;
    let ran = match ran {
        Some(ran) => ran,
        None if status.success() => Ran::Passed,
        None if status.signal() == Some(TOOK_TOO_MUCH) => Ran::TooLong("processor"),
        None => Ran::Failed(format!("ends with {status}")),
    };
    Ok((ran, took))
}

/// Reads the output of the tests until all tests have passed, a test fails, or the time is over. `None` if the program ends without any of these.
#[expect(clippy::disallowed_methods, reason = "a runner gives up on what takes too long")]
fn follow(child: &mut Child, until: Instant) -> Option<Ran> {
    let lines: Receiver<String> = {
        let (sender, receiver) = channel();
        let out = child.stdout.take()?;
        std::thread::spawn(move || {
            for line in BufReader::new(out).split(b'\n').map_while(Result::ok) {
                if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                    break;
                }
            }
        });
        receiver
    };
    loop {
        match lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                if let Some(name) = failed_test(&line) {
                    return Some(Ran::Failed(name.to_owned()));
                }
                if line.starts_with("test result: ok.") {
                    // Does not wait for the end of the output, because a process that a test left running may hold the pipe open.
                    return Some(Ran::Passed);
                }
            }
            Err(RecvTimeoutError::Timeout) => return Some(Ran::TooLong("clock")),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    while Instant::now() < until {
        match child.try_wait() {
            Ok(Some(_)) | Err(_) => return None,
            Ok(None) => std::thread::park_timeout(Duration::from_millis(5)),
        }
    }
    Some(Ran::TooLong("clock"))
}

/// The processor time of a process that was not waited for yet, and of its ended children.
fn processor(id: u32) -> Option<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // After the name are the state, ten numbers, and four times: user and system time of the process, and of its children.
    let times = text.rsplit_once(')')?.1.split_whitespace().skip(11).take(4);
    let ticks: u64 = times.filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Some(Duration::from_millis(ticks * 1_000 / TICKS))
}

fn failed_test(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_tests_say() {
        assert_eq!(failed_test("test a::b ... FAILED"), Some("a::b"));
        assert_eq!(failed_test("test a::b ... ok"), None);
        assert_eq!(failed_test("test result: FAILED. 0 passed"), None);
        let row = json!([{ "name": "a", "ms": 12, "processor": 5, "reached": [1, 2] }]).to_string();
        let tests = known(&row).unwrap();
        let Took { clock, processor } = tests[0].took;
        assert_eq!((clock.as_millis(), processor.as_millis(), tests[0].reached.len()), (12, 5, 2));
        assert!(known("[{}]").is_none());
    }

    #[test]
    fn a_run_ends_at_the_first_failure_and_in_time() {
        let place = Place { root: std::env::temp_dir().join(format!("xtask-judge-{}", std::process::id())) };
        std::fs::create_dir_all(&place.root).unwrap();
        let path = place.root.join("program");
        for (script, limit, expected) in [
            ("echo 'test a ... ok'; echo 'test result: ok. 1 passed'", 50, Ran::Passed),
            ("echo 'test a ... FAILED'; sleep 100", 50, Ran::Failed("a".into())),
            ("sleep 100", 1, Ran::TooLong("clock")),
            ("while :; do :; done", 1, Ran::TooLong("processor")),
            ("exit 0", 50, Ran::Passed),
            ("exit 7", 50, Ran::Failed("ends with exit status: 7".into())),
        ] {
            std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            assert!(Command::new("chmod").arg("+x").arg(&path).status().unwrap().success());
            let program = Program {
                name: "p".into(),
                package: "p".into(),
                path: path.clone(),
                place: place.root.clone(),
            };
            let processor = Duration::from_secs(limit);
            let limits = Took { clock: processor * 5, processor };
            let ran = run(&place.scratch(0), &program, &["a"], None, None, limits).unwrap();
            assert_eq!(ran.0, expected, "{script}");
        }
        std::fs::remove_dir_all(&place.root).unwrap();
    }
}
