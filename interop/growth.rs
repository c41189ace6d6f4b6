//! Backups and dumps are written and restored with little memory, for any number of records. They are complete, or they fail without effect. `cargo
//! xtask bench growth` measures ten million records.

use crate::curl::{PROPFIND_0, curl};
use crate::server::{BINARY, Scratch, Server};
use enfilade_facts::codec::Writer;
use enfilade_facts::tables::Domain;
use enfilade_facts::vocabulary::DomainId;
use enfilade_facts::{AuditRecord, Change, Read, Row, Source};
use enfilade_sources::lmdb::Lmdb;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{BufWriter, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The limit of anonymous memory: 128 MiB for the pages that a transaction of LMDB changes, and the rest for the program.
const ANONYMOUS_MAX: u64 = 160 << 20;
/// The text of this many records needs more memory than the limit. The pages that contain the records need more, too.
const RECORDS: u128 = 100_000;
const TEXT_BYTES: usize = 1_900;

fn row(n: u128) -> (DomainId, Domain) {
    let text = format!("{n:>TEXT_BYTES$}");
    (
        DomainId::from_bytes((n << 96).to_be_bytes()),
        Domain { description: Some(text), ..Domain::new("x1".parse().unwrap()) },
    )
}

/// Runs a command. Returns its output and its peak of anonymous memory, in bytes.
fn run(data: &Path, arguments: &[&str]) -> (Value, u64) {
    let mut command = Command::new(BINARY);
    command.args(["--json", "--data"]).arg(data).args(arguments);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut most = 0;
    while child.try_wait().unwrap().is_none() {
        let status = std::fs::read_to_string(&status).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0);
        most = most.max(kibibytes << 10);
        std::thread::sleep(Duration::from_millis(2));
    }
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    println!("{arguments:?}: {} MiB", most >> 20);
    (serde_json::from_slice(&output.stdout).unwrap_or_default(), most)
}

#[test]
fn no_copy_is_in_memory_as_a_whole() {
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    let file = |name: &str| scratch.path().join(name).to_str().unwrap().to_owned();
    let (jsonl, backup) = (file("jsonl"), file("backup"));
    let mut to = BufWriter::new(std::fs::File::create(&jsonl).unwrap());
    let origin = json!({
        "enfilade_facts": "dump", "format": 3, "store": "", "revision": 7, "unix_seconds": 1, "records": RECORDS as u64,
        "secrets": true,
    });
    writeln!(to, "{origin}").unwrap();
    for n in 0..RECORDS {
        let (key, row) = row(n);
        writeln!(to, "{}", json!({ "table": Domain::TABLE.name(), "key": key, "row": row })).unwrap();
    }
    to.into_inner().unwrap();

    let (loaded, load) = run(&data, &["facts", "load", &jsonl]);
    assert_eq!((&loaded["records"], &loaded["revision"]), (&json!(RECORDS as u64), &json!(8)));

    // A thread changes facts during the backup.
    let lmdb = Lmdb::open(&data.join("facts")).unwrap();
    let (is_over, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let taken = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let (key, row) = row(u128::from(written.load(Ordering::Relaxed)) * 7919 % RECORDS);
                let audit =
                    AuditRecord { who: "a test".into(), what: "test".into(), unix_seconds: 1, request: None };
                lmdb.commit(Change::new(audit).put(&key, &Domain { enabled: false, ..row })).unwrap();
                written.fetch_add(1, Ordering::Relaxed);
            }
        });
        // On a busy machine the backup may end before the thread above has begun.
        while written.load(Ordering::Relaxed) <= 10 && !writer.is_finished() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let taken = run(&data, &["facts", "backup", &backup]);
        is_over.store(true, Ordering::Relaxed);
        writer.join().unwrap();
        taken
    });
    let written = written.into_inner();
    let before = lmdb.at();
    drop(lmdb);
    let (told, back_up) = taken;
    assert_eq!(told["records"], RECORDS as u64);
    let revision = told["revision"].as_u64().unwrap();
    assert!(written > 10 && revision > 8, "{written} changes, and the backup is of revision {revision}");

    // A restore is killed while it writes, and has changed nothing. The length of the file shows the progress.
    let written_to = || std::fs::metadata(data.join("facts/data.mdb")).unwrap().len();
    let is_at_first = written_to();
    for mebibytes in [5, 40, 90] {
        let mut command = Command::new(BINARY);
        command.args(["--data"]).arg(&data).args([
            "facts",
            "restore",
            &backup,
            "--force",
            "--accept-rollback",
        ]);
        let mut child = command.stdout(Stdio::null()).spawn().unwrap();
        let has_come = || written_to() >= is_at_first + (mebibytes << 20);
        while !has_come() && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(has_come(), "the restore ended before it had written {mebibytes} MiB");
        let _ = child.kill();
        if child.wait().unwrap().success() {
            println!("after {mebibytes} MiB the restore was faster than the kill");
            break;
        }
        assert_eq!(Lmdb::open(&data.join("facts")).unwrap().at(), before);
    }

    let (restored, restore) = run(&data, &["facts", "restore", &backup, "--force", "--accept-rollback"]);
    assert_eq!((&restored["records"], &restored["of_revision"]), (&json!(RECORDS as u64), &json!(revision)));
    assert_eq!(run(&data, &["facts", "check"]).0["sound"], true);

    // The backup contains exactly the changes up to its revision.
    let expected: BTreeSet<u128> = (0..u128::from(revision - 8)).map(|n| n * 7919 % RECORDS).collect();
    let lmdb = Lmdb::open(&data.join("facts")).unwrap();
    let mut disabled = 0;
    let scanned = lmdb.read(|view| {
        view.scan::<Domain>(&[], |_, row| {
            disabled += usize::from(!row.enabled);
            ControlFlow::Continue(())
        })
    });
    scanned.unwrap().unwrap();
    assert_eq!(disabled, expected.len());

    let mut value = Writer::default();
    row(0).1.encode(&mut value);
    let all = u64::try_from(RECORDS).unwrap() * value.into_bytes().len() as u64;
    assert!(ANONYMOUS_MAX < all, "{all} bytes of records are too few for this test");
    for (what, most) in [("load", load), ("backup", back_up), ("restore", restore)] {
        assert!(most < ANONYMOUS_MAX, "{what}: {} MiB", most >> 20);
    }
}

#[test]
fn a_copy_that_was_cut_changes_nothing_and_one_from_a_pipe_is_taken_in() {
    let server = Server::start();
    let login = server.add_user("alice", "DatastoreReader");
    let file = |name: &str| server.scratch.path().join(name).to_str().unwrap().to_owned();
    let (backup, dump, cut) = (file("backup"), file("dump"), file("cut"));
    server.cli(&["facts", "backup", &backup]);
    server.cli(&["facts", "dump", &dump, "--secrets"]);
    server.cli(&["user", "disable", "alice@local"]);
    let status = || curl(&server, &login, "/dav/main/", &PROPFIND_0).status;
    let revision = || server.cli(&["facts", "status"])[0]["revision"].clone();
    let before = revision();
    for (whole, verb, expected) in [
        (&backup, "restore", "the backup ends too early: it was cut short when it was written or copied"),
        (&dump, "load", "but its first line says"),
    ] {
        let bytes = std::fs::read(whole).unwrap();
        let end = bytes.trim_ascii_end().len() - 30;
        let end =
            if verb == "load" { bytes[..end].iter().rposition(|byte| *byte == b'\n').unwrap() } else { end };
        std::fs::write(&cut, &bytes[..end]).unwrap();
        let output = server.cli_output(&["facts", verb, &cut, "--force", "--accept-rollback"], "");
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && why.contains(expected), "{why}");
        assert!(why.contains("nothing was changed"), "{why}");
        assert_eq!((status(), revision()), (401, before.clone()));
    }
    let input = std::fs::read_to_string(&dump).unwrap();
    let output = server.cli_output(&["facts", "load", "/dev/stdin", "--force", "--accept-rollback"], &input);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(status(), 207);
}
