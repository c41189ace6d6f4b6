//! A store with a map that is nearly full. Changes that add records are refused, and the error contains the next step. Changes that remove rights are
//! accepted.

use crate::curl::{PROPFIND_0, curl};
use crate::gone::{Cloud, project};
use crate::server::{Server, WITHOUT_PENALTIES};
use enfilade_facts::limits::MAP_PERCENT_MAX;
use enfilade_facts::tables::{Extra, ExtraKey, ResourceKind, Revoked};
use enfilade_facts::vocabulary::UserId;
use enfilade_facts::{AuditRecord, Change, CommitError, Requester, Source};
use enfilade_sources::lmdb::{Lmdb, Status, Terms};
use serde_json::{Value, json};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

pub(crate) const MEBIBYTES: u64 = 16;
/// A factor that spreads consecutive numbers over all ids.
const MIXED: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
/// The next steps that the error names.
pub(crate) const WAY_OUT: [&str; 2] = ["`[facts] map_mebibytes`", "`enfilade facts compact`"];

pub(crate) fn set_map(data: &Path, mebibytes: u64) {
    let _ = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(data);
    std::fs::write(data.join("enfilade.toml"), format!("[facts]\nmap_mebibytes = {mebibytes}\n")).unwrap();
}

pub(crate) fn open(data: &Path) -> Lmdb {
    Lmdb::open_for(&data.join("facts"), Terms { group: None, map_bytes: Some(MEBIBYTES << 20) }).unwrap()
}

pub(crate) fn change() -> Change {
    let audit = AuditRecord { who: "a test".into(), what: "fill".into(), unix_seconds: 1, request: None };
    Change::requested_by(Requester::Administrator, audit)
}

/// Fills the store with records of users that do not exist. The last records are small.
pub(crate) fn fill(lmdb: &Lmdb) {
    let mut n = 0_u128;
    for bytes in [60_000, 4_000, 100] {
        loop {
            n += 1;
            let key = ExtraKey::of(ResourceKind::User, &UserId::from_bytes((1 << 100 | n).to_be_bytes()));
            match lmdb.commit(change().put(&key, &Extra("x".repeat(bytes)))) {
                Ok(_) => {}
                Err(CommitError::Full { .. }) => break,
                Err(why) => panic!("{why}"),
            }
        }
    }
    let is_within =
        |status: &Status| status.used_bytes < status.map_bytes / 100 * MAP_PERCENT_MAX + (64 << 10);
    let status = lmdb.status();
    assert!(is_within(&status) && 94 <= status.used_bytes * 100 / status.map_bytes, "{status:?}");
    // Pages with free space still accept a few small records. So this loop adds small records until they have used a part of the reserve.
    for n in 0_u128.. {
        if !is_within(&lmdb.status()) {
            break;
        }
        let mut change = change();
        (0..64).for_each(|m| _ = change.end(Revoked::Token((n << 64 | m << 120 | 1).to_be_bytes())));
        lmdb.commit(&change).unwrap();
    }
}

fn refused(server: &Server, arguments: &[&str]) {
    let output = server.cli_output(arguments, "a long password\n");
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && WAY_OUT.iter().all(|said| why.contains(said)),
        "{arguments:?}: {why}"
    );
}

pub(crate) fn status(server: &Server, login: &str) -> u16 {
    curl(server, login, "/dav/main/", &PROPFIND_0).status
}

#[test]
fn what_takes_rights_away_passes_when_the_map_is_nearly_full() {
    let server = Server::start_on(|data| set_map(data, MEBIBYTES), &[WITHOUT_PENALTIES]);
    let cloud = Cloud::on(server);
    let server = &cloud.server;
    let read = "DatastoreReader";
    let [alice, bob, carol, dave] = ["alice", "bob", "carol", "dave"].map(|name| server.add_user(name, read));
    let by_password = |name: &str, password: &str| status(server, &format!("{name}@local:{password}"));
    assert!(
        server
            .cli_output(&["user", "passwd", "carol@local", "--password-stdin"], "the old password\n")
            .status
            .success()
    );
    let tokens: Vec<String> = (0..12).map(|n| server.add_token(&format!("alice@local!t{n}"))).collect();
    let people: Vec<String> = (0..12)
        .map(|n| {
            cloud.make("user", json!({ "name": format!("p{n}"), "domain_id": "default", "password": "pw" }))
        })
        .collect();
    let member = cloud.role("member");
    let of = cloud.make("project", json!({ "name": "of", "domain_id": "default" }));
    for person in &people {
        cloud.change("PUT", &format!("/v3/projects/{of}/users/{person}/roles/{member}"), &Value::Null);
    }
    let session = |n: usize| cloud.login(&format!("p{n}"), "default", "pw", project("of", "default"));
    server.cli(&["group", "add", "readers"]);
    server.cli(&["group", "member", "add", "readers", "dave@local"]);

    fill(&open(&server.data()));
    for arguments in [
        &["user", "add", "eve@local"][..],
        &["token", "create", "alice@local!more"],
        &["user", "set", "alice@local", "--comment", "somebody"],
        &["group", "add", "writers"],
        &["role", "assign", "--path", "/datastore/main", "--auth-id", "@readers", read],
    ] {
        refused(server, arguments);
    }
    let admin = || cloud.login("admin", "default", "pw", project("admin", "default")).unwrap();
    let (code, said) = cloud.call(
        &admin(),
        "POST",
        "/v3/users",
        &json!({ "user": { "name": "eve", "domain_id": "default" } }),
    );
    assert!(code == 503 && WAY_OUT.iter().all(|way| said.to_string().contains(way)), "{code} {said}");

    // The next request obeys each change, also after many changes.
    for (n, token) in tokens.iter().enumerate() {
        assert_eq!(status(server, token), 207, "{n}");
        let name = format!("alice@local!t{n}");
        let path = format!("/api2/json/access/users/alice%40local/token/t{n}");
        let by_admin = |arguments: &[&str]| {
            let answer = curl(server, &format!("admin@local:{}", server.password), &path, arguments);
            assert_eq!(answer.status, 200, "{arguments:?}: {}", answer.text());
        };
        match n % 4 {
            0 => drop(server.cli(&["token", "delete", &name])),
            1 => drop(server.cli(&["token", "regenerate", &name])),
            2 => by_admin(&["--request", "PUT", "--data", "enable=0"]),
            _ => by_admin(&["--request", "DELETE"]),
        }
        assert_eq!(status(server, token), 401, "{n}");
        refused(server, &["token", "create", &format!("{name}-again")]);
    }
    for (n, person) in people.iter().enumerate() {
        let token = session(n).unwrap();
        assert!(cloud.stands(&token).is_some(), "{n}");
        match n % 6 {
            0 => {
                let token = format!("X-Subject-Token: {token}");
                let admin = format!("X-Auth-Token: {}", admin());
                let gone = ["--request", "DELETE", "--header", &token, "--header", &admin];
                assert_eq!(curl(server, "", "/v3/auth/tokens", &gone).status, 204);
            }
            1 => drop(server.cli(&["revoke", "user", &format!("p{n}@Default")])),
            2 => drop(cloud.change("DELETE", &format!("/v3/users/{person}"), &Value::Null)),
            3 => {
                let disabled = json!({ "user": { "enabled": false } });
                drop(cloud.change("PATCH", &format!("/v3/users/{person}"), &disabled));
            }
            4 => {
                let path = format!("/v3/projects/{of}/users/{person}/roles/{member}");
                drop(cloud.change("DELETE", &path, &Value::Null));
            }
            _ => {
                let password = json!({ "user": { "password": "another one" } });
                drop(cloud.change("PATCH", &format!("/v3/users/{person}"), &password));
            }
        }
        assert!(cloud.stands(&token).is_none(), "{n}");
    }
    assert_eq!([&alice, &bob, &carol, &dave].map(|login| status(server, login)), [207; 4]);
    server.cli(&["user", "disable", "bob@local"]);
    server.cli(&["user", "remove", "dave@local"]);
    assert_eq!(by_password("carol", "the old password"), 207);
    let passwd =
        server.cli_output(&["user", "passwd", "carol@local", "--password-stdin"], "the new password\n");
    assert!(passwd.status.success(), "{}", String::from_utf8_lossy(&passwd.stderr));
    assert_eq!(["the old password", "the new password"].map(|word| by_password("carol", word)), [401, 207]);
    server.cli(&["user", "set", "alice@local", "--expires", "2001-09-09"]);
    assert_eq!([&alice, &bob, &carol, &dave].map(|login| status(server, login)), [401, 401, 207, 401]);
    refused(server, &["user", "enable", "bob@local"]);
    assert_eq!(server.cli(&["facts", "check"])[0]["sound"], true);
    let worth: Vec<_> = server.cli_output(&["doctor"], "").stdout;
    assert!(String::from_utf8_lossy(&worth).contains("map_mebibytes"), "the doctor says nothing");
}

#[test]
fn at_the_real_end_of_the_map_nothing_is_lost_and_a_larger_map_is_the_way_on() {
    let mut server = Server::start_on(|data| set_map(data, MEBIBYTES), &[]);
    let (alice, bob) =
        (server.add_user("alice", "DatastoreReader"), server.add_user("bob", "DatastoreReader"));
    let lmdb = open(&server.data());
    fill(&lmdb);
    // Commits revocation marks of tokens that do not exist, until no more mark fits.
    let (mut n, mut acknowledged, mut at_once, mut last) = (0_u128, Vec::new(), 256_u128, String::new());
    while at_once > 0 {
        let marks: Vec<Revoked> =
            (n..n + at_once).map(|n| Revoked::Token(n.wrapping_mul(MIXED).to_be_bytes())).collect();
        let mut change = change();
        marks.iter().for_each(|mark| _ = change.end(*mark));
        match lmdb.commit(&change) {
            Ok(_) => acknowledged.extend(marks),
            Err(why) => (last, at_once) = (why.to_string(), at_once / 4),
        }
        n += at_once.max(1) * 4;
    }
    assert!(acknowledged.len() > 1_000, "{}", acknowledged.len());
    assert!(WAY_OUT.iter().all(|way| last.contains(way)) && last.contains("nothing was changed"), "{last}");
    drop(lmdb);
    // A change may still find freed pages. Either the change succeeds and takes effect, or it is refused and has no effect.
    let passed = server.cli_output(&["token", "delete", "alice@local!test"], "");
    let why = String::from_utf8_lossy(&passed.stderr).into_owned();
    match passed.status.success() {
        true => assert_eq!(status(&server, &alice), 401),
        false => {
            assert!(status(&server, &alice) == 207 && WAY_OUT.iter().all(|way| why.contains(way)), "{why}")
        }
    }
    assert_eq!(status(&server, &bob), 207);
    assert_eq!(server.cli(&["facts", "check"])[0]["sound"], true);

    set_map(&server.data(), 2 * MEBIBYTES);
    server.kill_and_restart();
    assert_eq!(status(&server, &bob), 207);
    server.cli(&["user", "add", "eve@local"]);
    server.cli(&["user", "disable", "bob@local"]);
    assert_eq!(status(&server, &bob), 401);
    let counts = &server.cli(&["facts", "check"])[0];
    assert_eq!(counts["sound"], true);
    let marks = counts["tables"]["revocations"].as_u64().unwrap();
    assert!(marks >= acknowledged.len() as u64, "{marks} of {}", acknowledged.len());
}
