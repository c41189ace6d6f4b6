//! Instructions of pure computations, counted by callgrind, so that noise of the machine does not matter.

use crate::Failure;
use crate::report::Report;
use crate::stores;
use enfilade_facts::tables::Datastore;
use enfilade_facts::vocabulary::{DatastoreName, OperationKind};
use enfilade_facts::{Change, Clocks, MemoSeed, MirrorHealth, Mounts, Read, Source, StoreId, View, WordMemo};
use enfilade_identity::{Ask, Context, IdentityMemo, SessionState};
use enfilade_sources::memory::Memory;
use std::hint::black_box;
use std::process::Command;

const PARTS: [(&str, &str); 5] = [
    ("known", "door 2, known at this revision"),
    ("again", "door 2, asked again after a change elsewhere"),
    ("door-3", "door 3, on a fresh view"),
    ("key", "a memo key of 36 bytes"),
    ("probe", "a memo probe"),
];
const TIMES: u64 = 500;

/// Counts the instructions of a process with many rounds and of a process without rounds, so that the difference contains no setup.
pub(crate) fn run(report: &mut Report) -> Result<(), Failure> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        report.missing("instructions of the doors", "valgrind is not installed (`apt-get install valgrind`)");
        return Ok(());
    }
    for (part, name) in PARTS {
        for tokens in [100, 10_000] {
            let (once, more) = (counted(part, tokens, 0)?, counted(part, tokens, TIMES)?);
            report.once(name, tokens, (more - once) as f64 / TIMES as f64, "instructions");
        }
    }
    Ok(())
}

fn counted(part: &str, tokens: u64, times: u64) -> Result<u64, Failure> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe()?)
        .args(["passage-part", part, &tokens.to_string(), &times.to_string()])
        .output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("under callgrind: {text}").into());
    }
    let line = text.lines().find_map(|line| line.split_once("Collected :"));
    let count = line.and_then(|(_, count)| count.trim().parse().ok());
    count.ok_or_else(|| format!("callgrind counted nothing: {text}").into())
}

/// Repeats one part of the benchmark `times` times, in a separate process under callgrind.
pub(crate) fn part(part: &str, tokens: u64, times: u64) -> Result<(), Failure> {
    let memory = Memory::new(StoreId(7));
    stores::fill(&memory, tokens, stores::keyed())?;
    let key = stores::hash_key();
    let memo = IdentityMemo::new(MemoSeed([1; 16]), 16 << 20);
    let ask = stores::ask(1)?;
    // The time is fixed, because callgrind does not support the memory page from which the kernel's time is read.
    let now = Clocks { unix_seconds: 1_800_000_000, tick_millis: 1, mirror: MirrorHealth::Current };
    let sessions = SessionState::default();
    let context = Context { hash_key: &key, sessions: &sessions, memo: &memo };
    let permit = enfilade_identity::open(&memory, || now, Ask::Secret(&ask), &context);
    let permit = permit.map_err(|_| "the right secret was refused")?;
    let words = WordMemo::<u64>::new(MemoSeed([1; 16]), 1 << 20);
    let word = words.key("n").number(1).key();
    words.put(word, 1);
    let name: DatastoreName = "tank".parse()?;
    let mut change = Change::new(stores::audit("furnish"));
    change.put(&name, &Datastore { path: "/tank".to_owned(), ..Datastore::default() });
    memory.commit(&change)?;
    let mounts = Mounts::default();
    // In the part `known`, all rounds use one view, so that taking a view is not counted. The first round judges the credential; later rounds find it
    // in the memo.
    let known = |view: &View<'_>| enfilade_identity::open(view, || now, Ask::Secret(&ask), &context);
    if part == "known" {
        return Ok(memory.read(|view| (0..=times).for_each(|_| drop(black_box(known(view)))))?);
    }
    for _ in 0..times {
        match part {
            "again" => {
                let again = memory.read(|view| enfilade_identity::reopen(view, now, &permit, &context));
                assert!(again?.is_ok());
            }
            "door-3" => {
                let phase = enfilade_datastore::Phase::Entering;
                let ask = enfilade_datastore::Ask { name: &name, kind: OperationKind::Read, phase };
                let found = memory.read(|view| {
                    let record = enfilade_datastore::Record::on(view, &name)?;
                    Ok::<_, Failure>(
                        enfilade_datastore::open(
                            &record,
                            now,
                            (&mounts, &enfilade_datastore::FleetPlace::Alone),
                            &ask,
                        )
                        .is_ok(),
                    )
                });
                assert!(found??);
            }
            "key" => drop(black_box(words.key("step").bytes(black_box(&[7; 36])).key())),
            "probe" => drop(black_box(words.get(black_box(word)))),
            other => return Err(format!("no part `{other}`").into()),
        }
    }
    black_box(memory.at());
    Ok(())
}
