//! `enfilade facts compact` keeps the same facts in a shorter file, as a command or at the start of a server. If the compaction fails, the store is
//! unchanged or compacted.

use crate::command::{FAULTS, run, said, why};
use crate::curl::{PROPFIND_0, curl};
use crate::server::{Scratch, Server};
use enfilade_facts::tables::{Extra, ExtraKey, ResourceKind};
use enfilade_facts::vocabulary::UserId;
use enfilade_facts::{AuditRecord, Change, Source};
use enfilade_sources::lmdb::Lmdb;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Writes this many MiB to the store, and deletes the records again.
pub(crate) fn churn(data: &Path, mebibytes: u64) {
    let lmdb = Lmdb::open(&data.join("facts")).unwrap();
    let change = || {
        Change::new(AuditRecord { who: "a test".into(), what: "fill".into(), unix_seconds: 1, request: None })
    };
    let key = |n: u64| ExtraKey::of(ResourceKind::User, &UserId::from_bytes(u128::from(n).to_be_bytes()));
    let batches = |edit: &dyn Fn(&mut Change, u64)| {
        for batch in 0..mebibytes {
            let mut change = change();
            (0..16).for_each(|n| edit(&mut change, batch * 16 + n));
            lmdb.commit(&change).unwrap();
        }
    };
    batches(&|change, n| _ = change.put(&key(n), &Extra("x".repeat(65_000))));
    batches(&|change, n| _ = change.delete::<Extra>(&key(n)));
}

/// Every record of the store. The first line of the dump is left out, because it contains a time.
fn facts(data: &Path) -> Vec<Value> {
    said(data, &["facts", "dump", "--secrets"]).split_off(1)
}

fn status(server: &Server, login: &str) -> u16 {
    curl(server, login, "/dav/main/", &PROPFIND_0).status
}

#[test]
fn a_store_is_compacted_while_nobody_has_it_open_and_by_a_server_that_starts() {
    let mut server = Server::start();
    let data = server.data();
    let length = || std::fs::metadata(data.join("facts/data.mdb")).unwrap().len();
    let [alice, bob] = ["alice", "bob"].map(|name| server.add_user(name, "DatastoreReader"));
    let small = server.cli(&["facts", "status"])[0].clone();
    assert_eq!(small["worth_compacting"], false);
    churn(&data, 72);
    assert!(length() > 70 << 20);
    let before = facts(&data);

    // While a server runs, the command is refused, and `--dry-run` prints how much would be saved.
    let output = server.cli_output(&["facts", "compact"], "");
    let why = why(&output);
    assert!(
        !output.status.success()
            && why.contains("stop these processes first")
            && why.contains("run this command again"),
        "{why}"
    );
    let plan = server.cli(&["facts", "compact", "--dry-run"])[0].clone();
    assert_eq!(
        (&plan["compacted"], plan["plan"]["bytes_before"].as_u64()),
        (&Value::Bool(false), Some(length()))
    );
    assert!(plan["plan"]["won_bytes"].as_u64().unwrap() > 70 << 20, "{plan}");
    assert_eq!(server.cli(&["facts", "status"])[0]["worth_compacting"], true);
    let doctor = server.cli_output(&["doctor"], "");
    assert!(String::from_utf8_lossy(&doctor.stdout).contains("enfilade facts compact"));
    server.cli(&["token", "delete", "alice@local!test"]);
    let revision = server.cli(&["facts", "status"])[0]["revision"].as_u64().unwrap();

    server.kill_and_restart();
    assert!(server.log().contains("the facts were compacted"), "{}", server.log());
    assert!(length() < 2 << 20, "{}", length());
    assert_eq!([&alice, &bob].map(|login| status(&server, login)), [401, 207]);
    assert_eq!(server.cli(&["facts", "check"])[0]["sound"], true);
    let log = server.cli(&["facts", "log", "--last", "1"]);
    assert_eq!(
        (&log[0]["revision"], log[0]["what"].as_str()),
        (&(revision + 1).into(), Some("compact the facts"))
    );
    server.cli(&["token", "delete", "bob@local!test"]);
    assert_eq!(status(&server, &bob), 401);
    let after = facts(&data);
    let is_token = |row: &&Value| row["table"] == "credentials";
    assert_eq!(before.iter().filter(is_token).count(), after.iter().filter(is_token).count() + 2);
    // A second start does not compact again.
    server.kill_and_restart();
    assert_eq!(server.log().matches("were compacted").count(), 1);

    drop(server);
}

#[test]
fn by_command_it_says_what_was_won() {
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    said(&data, &["init"]);
    churn(&data, 3);
    let before = facts(&data);
    let plan = said(&data, &["facts", "compact", "--dry-run"]);
    let done = said(&data, &["facts", "compact"]);
    let bytes = |said: &[Value], key: &str| said[0]["plan"][key].as_u64().unwrap();
    let length = std::fs::metadata(data.join("facts/data.mdb")).unwrap().len();
    assert_eq!(
        (bytes(&done, "bytes_after"), bytes(&done, "bytes_before")),
        (length, bytes(&plan, "bytes_before"))
    );
    assert!(bytes(&plan, "bytes_after").abs_diff(length) <= 64 * 1024, "{plan:?} {done:?}");
    assert!(bytes(&done, "won_bytes") > 2 << 20);
    assert_eq!(facts(&data), before);
    assert_eq!(said(&data, &["facts", "check"])[0]["sound"], true);
    // The facts can also be read without `high-water`, the file with the newest revision.
    std::fs::remove_file(data.join("facts/high-water")).unwrap();
    assert_eq!(facts(&data), before);
    said(&data, &["token", "create", "admin@local!new"]);
}

/// After any failed write and any kill, the facts are unchanged, either in the old file or in the compacted file.
#[test]
fn a_compaction_that_is_cut_short_has_changed_nothing() {
    let is_campaign = std::env::var_os("ENFILADE_CAMPAIGN_N").is_some();
    let scratch = Scratch::new();
    let good = scratch.path().join("good");
    said(&good, &["init"]);
    said(&good, &["token", "create", "admin@local!kept"]);
    let before = facts(&good);
    let revision = |data: &Path| said(data, &["facts", "status"])[0]["revision"].as_u64().unwrap();
    let old = revision(&good);
    let (data, mark) = (scratch.path().join("data"), scratch.path().join("mark"));
    let (mut runs, mut compacted) = (0, 0);
    for fault in if is_campaign { &FAULTS[..] } else { &FAULTS[..2] } {
        for at in 1.. {
            let _ = std::fs::remove_dir_all(&data);
            let _ = std::fs::remove_file(&mark);
            assert!(Command::new("cp").arg("-a").args([&good, &data]).status().unwrap().success());
            let output = run(&data, &["facts", "compact"], Some((fault, at, &mark)));
            if !mark.exists() {
                assert!(output.status.success() && at > 10, "{fault} at {at}: is the library loaded?");
                break;
            }
            assert_eq!(facts(&data), before, "{fault} at {at}");
            assert!(!data.join("facts/compacting").exists(), "{fault} at {at}");
            let is_new = revision(&data) == old + 1;
            assert!(
                is_new || revision(&data) == old && !output.status.success(),
                "{fault} at {at}: acknowledged"
            );
            said(&data, &["token", "delete", "admin@local!kept"]);
            assert_eq!(said(&data, &["facts", "check"])[0]["sound"], true, "{fault} at {at}");
            (runs, compacted) = (runs + 1, compacted + u64::from(is_new));
        }
    }
    println!(
        "compact: {runs} faults; after {compacted} of them the new file was in place; every store is sound"
    );
    assert!(0 < compacted && compacted < runs, "{compacted} of {runs}");
}
