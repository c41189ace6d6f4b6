//! Runs commands that change something; some of them change users and tokens in edited files. In each run, another write, sync or rename fails, or
//! the command is killed at this call. The runs end when the command makes no further call of this kind. Afterwards, the facts are either the facts
//! before the command or the facts after the command. An acknowledged change is kept, the store opens, and every record is valid.

use crate::command::{self, FAULTS, Fault, passed};
use crate::server::Scratch;
use serde_json::Value;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// CI uses only the first two kinds of failures, because these kinds find most defects.
const CI_FAULTS: usize = 2;

const OPERATIONS: [&[&str]; 12] = [
    &["token", "create", "admin@local!new"],
    &["token", "delete", "admin@local!old"],
    &["user", "add", "bob@local"],
    &["user", "disable", "ann@pbs"],
    &["token", "create", "ann@pbs!new"],
    &["token", "regenerate", "ann@pbs!old"],
    &["group", "remove", "staff"],
    &["role", "assign", "--path", "/datastore/main", "--auth-id", "@staff", "DatastoreReader"],
    &["datastore", "create", "second", "--path", "CONTENT"],
    &["datastore", "maintenance", "main", "read-only"],
    &["facts", "restore", "BACKUP", "--force", "--accept-rollback"],
    &["facts", "backup", "NEW-BACKUP"],
];

fn run(data: &Path, arguments: &[&str], fault: Option<Fault<'_>>) -> Output {
    let here = data.parent().unwrap();
    let path = |name: &str| here.join(name).to_str().unwrap().to_owned();
    let arguments = arguments.iter().map(|argument| match *argument {
        "CONTENT" => path("content"),
        "BACKUP" => here.parent().unwrap().join("backup").to_str().unwrap().to_owned(),
        "NEW-BACKUP" => path("new-backup"),
        other => other.to_owned(),
    });
    let arguments: Vec<String> = arguments.collect();
    command::run(data, &arguments.iter().map(String::as_str).collect::<Vec<_>>(), fault)
}

fn must(data: &Path, arguments: &[&str]) -> String {
    passed(arguments, &run(data, arguments, None))
}

/// All facts, without values that are random in each run.
pub(crate) fn facts(data: &Path) -> Vec<String> {
    // This command makes the facts follow the edited files. Without it, only the next command or a running server would read the files.
    must(data, &["user", "list"]);
    let dump = must(data, &["facts", "dump"]);
    let lines = dump.lines().skip(1).map(|line| {
        let mut value: Value = serde_json::from_str(line).unwrap();
        if let Some(mark) = value["row"].as_object_mut().filter(|_| line.contains("\"revocations\"")) {
            // The time at which a revocation mark expires depends on the time of the run.
            mark.remove("until");
        }
        // The index of revocation marks also contains this time, in its keys.
        if let Some(second) = value.pointer_mut("/key/Ends/0") {
            *second = Value::Null;
        }
        forget(&mut value);
        value.to_string()
    });
    let mut lines: Vec<String> = lines.collect();
    lines.sort();
    lines
}

fn forget(value: &mut Value) {
    match value {
        Value::String(text) => {
            let is_id = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
            // The SIDs that a store issues depend on the store's id, and each restore creates a new id.
            let is_sid = text.starts_with("S-1-5-21-");
            if is_id || is_sid || text.starts_with("/") && text.contains("/content") {
                *text = "*".into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(forget),
        Value::Object(fields) => {
            fields.remove("created");
            fields.remove("since");
            fields.remove("issued_before");
            fields.remove("revoked_at");
            // The version of a file consists of inode and times, which differ in a copy.
            fields.remove("version");
            fields.values_mut().for_each(forget);
        }
        _ => {}
    }
}

pub(crate) fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    std::fs::create_dir(to).unwrap();
    let copied = Command::new("cp").arg("-a").arg(from).arg(to.join("data")).status().unwrap();
    assert!(copied.success());
    // `datastore.cfg` contains the absolute path of the content directory, and every copy has a separate content directory.
    let cfg = to.join("data/datastore.cfg");
    let text = std::fs::read_to_string(&cfg).unwrap();
    assert!(text.contains("main"));
}

/// Runs the operation with a failure at call `at`. Returns `None` if the program made fewer calls.
fn fault_at(
    good: &Path,
    scratch: &Path,
    operation: &[&str],
    fault: &str,
    at: u64,
) -> Option<(Output, PathBuf)> {
    let place = scratch.join("faulted");
    copy(good, &place);
    let mark = place.join("mark");
    let output = run(&place.join("data"), operation, Some((fault, at, &mark)));
    mark.exists().then(|| (output, place.join("data")))
}

#[test]
fn whatever_write_fails_or_is_the_last_the_facts_are_those_before_or_after() {
    let is_campaign = std::env::var_os("ENFILADE_CAMPAIGN_N").is_some();
    let faults = if is_campaign { FAULTS.as_slice() } else { &FAULTS[..CI_FAULTS] };
    let scratch = Scratch::new();
    let good = scratch.path().join("good");
    must(&good, &["init"]);
    must(&good, &["token", "create", "admin@local!old"]);
    must(&good, &["facts", "backup", scratch.path().join("backup").to_str().unwrap()]);
    must(&good, &["group", "add", "staff"]);
    must(&good, &["group", "member", "add", "staff", "admin@local"]);
    std::fs::write(good.join("user.cfg"), "user: ann@pbs\n\ntoken: ann@pbs!old\n\n").unwrap();
    std::fs::write(good.join("token.shadow"), "{\"ann@pbs!old\":\"$5$old$x\"}").unwrap();
    std::fs::write(good.join("acl.cfg"), "acl:1:/datastore/main:ann@pbs:DatastoreReader\n").unwrap();
    let before = facts(&good);
    let (mut runs, mut ended) = (0, 0);
    for operation in OPERATIONS {
        let whole = scratch.path().join("whole");
        copy(&good, &whole);
        must(&whole.join("data"), operation);
        let after = facts(&whole.join("data"));
        for fault in faults {
            let mut at = 1;
            while let Some((output, data)) = fault_at(&good, scratch.path(), operation, fault, at) {
                let what = format!("{operation:?}, {fault} at {at}");
                let now = facts(&data);
                assert!(
                    now == before || now == after,
                    "{what}: the facts are neither those before nor those after\n{now:#?}\n{output:?}"
                );
                if output.status.success() {
                    assert_eq!(now, after, "{what}: success was reported, but the change is missing");
                } else if output.status.signal().is_none() {
                    let why = String::from_utf8_lossy(&output.stderr).into_owned();
                    assert!(why.contains("error"), "{what}: {why}");
                }
                ended += u64::from(output.status.signal().is_some());
                let checked = must(&data, &["facts", "check"]);
                assert!(checked.contains("\"sound\":true"), "{what}: {checked}");
                (at, runs) = (at + 1, runs + 1);
            }
            assert!(at > 3, "{operation:?} did only {at} writes: is the library loaded?");
        }
        println!("{operation:?}: after each fault, the facts were those before or after the command");
    }
    println!(
        "faults: {runs} faults, {ended} of them ended the program; each time, the facts were those before or after the command"
    );
}

#[test]
fn a_first_start_that_fails_can_be_done_again() {
    let scratch = Scratch::new();
    let mut at = 1;
    loop {
        let place = scratch.path().join(at.to_string());
        std::fs::create_dir(&place).unwrap();
        let (data, mark) = (place.join("data"), place.join("mark"));
        let first = run(&data, &["init"], Some(("kill-after", at, &mark)));
        if !mark.exists() {
            assert!(first.status.success());
            break;
        }
        let again = run(&data, &["init"], None);
        let why = String::from_utf8_lossy(&again.stderr).into_owned();
        assert!(again.status.success() || why.contains("is already set up"), "at {at}: {why}");
        assert!(must(&data, &["user", "list"]).contains("admin@local"), "at {at}");
        assert!(must(&data, &["datastore", "list"]).contains("\"main\""), "at {at}");
        std::fs::remove_dir_all(&place).unwrap();
        at += if at < 20 { 1 } else { 3 };
    }
    assert!(at > 20, "{at}");
}

/// A restore that replaces a store that cannot be opened. After a failure, either the old store or the complete new store is in place.
#[test]
fn a_store_that_cannot_be_opened_stays_until_the_restored_one_is_whole() {
    const RESTORE: &[&str] = &["facts", "restore", "BACKUP", "--force", "--accept-rollback"];
    const DAMAGED: [u8; 8192] = [7; 8192];
    let scratch = Scratch::new();
    let good = scratch.path().join("good");
    must(&good, &["init"]);
    must(&good, &["facts", "backup", scratch.path().join("backup").to_str().unwrap()]);
    let after = facts(&good);
    std::fs::write(good.join("facts/data.mdb"), DAMAGED).unwrap();
    let (mut stayed, mut restored) = (0, 0);
    for fault in FAULTS {
        let mut at = 1;
        while let Some((output, data)) = fault_at(&good, scratch.path(), RESTORE, fault, at) {
            let what = format!("{fault} at {at}: {output:?}");
            if std::fs::read(data.join("facts/data.mdb")).unwrap() == DAMAGED {
                assert!(!output.status.success(), "{what}");
                must(&data, RESTORE);
                stayed += 1;
            } else {
                restored += 1;
            }
            assert_eq!(facts(&data), after, "{what}");
            assert!(must(&data, &["facts", "check"]).contains("\"sound\":true"), "{what}");
            at += 1;
        }
        assert!(at > 3, "{fault}: only {at} writes: is the library loaded?");
    }
    println!(
        "restore over damage: {stayed} times the old store stayed, {restored} times the new one was in place"
    );
    assert!(stayed > 10 && restored > 0, "{stayed}, {restored}");
}
