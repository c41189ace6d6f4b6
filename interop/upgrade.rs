//! Stores that older versions wrote are kept in `fixtures/format-N`. Each store is upgraded without loss.
//!
//! # When the format changes
//! To keep a store of the old format, run the binary of the last commit before the change. Run `init`, and create users with the passwords
//! `alice-password`, `bob-password` and `carol-password`. Run `bootstrap` with the password `boot-password`. Create groups in groups, roles, and the
//! tokens `alice@local!kept` and `alice@local!gone`; delete the second token. Disable `bob@local`. Write a valid `user.cfg`, and break it later.
//! Revoke a token over HTTP, and run `revoke user carol@local`. Create records in all newer tables. Create application credentials with access rules:
//! two of one user with a common rule, one of another user with the same rule, and one without rules, which an unrestricted application credential
//! created. Load a user and a group with ids of 32 bytes from a dump. The fixture consists of the data directory (`facts/data.mdb`,
//! `facts/high-water`, `keys/` and the files `*.cfg`), the output of that binary (`dump.jsonl` with secrets, `log.jsonl`, `backup`), and the values
//! of the two tokens (`tokens.json`). The paths of the datastores must lie below `/srv/house/datastores`, because the test replaces this prefix. The
//! content of the datastores is not kept.

use crate::command::{FAULTS, run, said, values, why};
use crate::curl::{PROPFIND_0, curl};
use crate::server::{Scratch, Server};
use enfilade_facts::format::{FORMAT, FORMAT_OLDEST};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

fn fixture(format: u32) -> PathBuf {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../interop/fixtures/format-{format}"));
    assert!(
        place.join("facts/data.mdb").exists(),
        "no store of format {format} is kept: see interop/upgrade.rs"
    );
    place
}

/// Copies a kept store to a data directory, and creates the directories of its datastores below the data directory.
pub(crate) fn lay_out(format: u32, data: &Path) {
    let from = fixture(format);
    let _ = std::fs::remove_dir_all(data);
    for name in ["", "facts", "keys", "keys/fernet"] {
        std::fs::create_dir(data.join(name)).unwrap();
        std::fs::set_permissions(data.join(name), PermissionsExt::from_mode(0o700)).unwrap();
        for file in std::fs::read_dir(from.join(name)).unwrap().map(Result::unwrap) {
            let is_said = ["jsonl", "json"].iter().any(|end| file.path().extension() == Some(end.as_ref()));
            if file.file_type().unwrap().is_file() && !is_said && file.file_name() != "backup" {
                let to = data.join(name).join(file.file_name());
                std::fs::copy(file.path(), &to).unwrap();
                std::fs::set_permissions(&to, PermissionsExt::from_mode(0o600)).unwrap();
            }
        }
    }
    let cfg = std::fs::read_to_string(data.join("datastore.cfg")).unwrap();
    let datastores = data.join("datastores");
    let cfg = cfg.replace("/srv/house/datastores", "/srv/house");
    std::fs::write(data.join("datastore.cfg"), cfg.replace("/srv/house", datastores.to_str().unwrap()))
        .unwrap();
    for name in ["main", "second"] {
        std::fs::create_dir_all(datastores.join(name)).unwrap();
    }
}

fn kept(format: u32, file: &str) -> Vec<Value> {
    values(&std::fs::read_to_string(fixture(format).join(file)).unwrap())
}

/// Whether the new value contains everything that the old value contains. The new value may contain more.
fn says(new: &Value, old: &Value) -> bool {
    match (new, old) {
        (Value::Object(new), Value::Object(old)) => old.iter().all(|(key, old)| {
            // The field `good` was a transaction number of LMDB. The transaction number belongs to no revision, so the field is not compared.
            key == "good" || new.get(key).is_some_and(|new| says(new, old))
        }),
        _ => new == old,
    }
}

/// The records of a dump of this format in their present form, in the order of their keys. Before format 6, the key of a name contained the name, and
/// the record was the id. Before format 8, there were no separate records for access rules.
fn records(format: u32, dump: &[Value]) -> Vec<Value> {
    let mut records = dump[1..].to_vec();
    for record in records.iter_mut().filter(|record| record["table"] == "names") {
        if let Some(name) = record["key"].as_object_mut().unwrap().remove("name") {
            record["row"] = json!({ "id": record["row"], "name": name });
        }
    }
    if format < 8 {
        give_rules_to_users(&mut records);
    }
    let key = |record: &Value| {
        let row = &record["row"];
        format!("{} {} {} {}", record["table"], record["key"], row["name"], row["id"])
    };
    records.sort_by_key(key);
    records
}

/// Adds a record for each access rule of an application credential. Equal rules of a user get the same id: the id of the rule of the first
/// credential.
fn give_rules_to_users(records: &mut Vec<Value>) {
    let of = |records: &[Value], table: &str| -> Vec<Value> {
        let mut some: Vec<_> = records.iter().filter(|record| record["table"] == table).cloned().collect();
        some.sort_by_key(|record| record["key"].to_string());
        some
    };
    let credentials = of(records, "credentials");
    let request = |rule: &Value| ["service", "method", "path"].map(|part| rule[part].clone());
    let mut rules: Vec<Value> = Vec::new();
    for delegation in of(records, "delegations") {
        let credential = credentials.iter().find(|one| one["key"] == delegation["key"]).unwrap();
        let user = &credential["row"]["owner"];
        let mut own: Vec<Value> = Vec::new();
        for rule in delegation["row"]["rules"].as_array().unwrap() {
            let is_same =
                |known: &&Value| known["key"]["user"] == *user && request(&known["row"]) == request(rule);
            let known = rules.iter().find(is_same).map(|known| known["row"].clone());
            if known.is_none() {
                rules.push(json!({ "table": "access-rules", "key": { "user": user }, "row": rule }));
            }
            let rule = known.unwrap_or_else(|| rule.clone());
            if !own.contains(&rule) {
                own.push(rule);
            }
        }
        let is_it =
            |record: &&mut Value| record["table"] == "delegations" && record["key"] == delegation["key"];
        records.iter_mut().find(is_it).unwrap()["row"]["rules"] = Value::Array(own);
    }
    records.append(&mut rules);
}

/// Checks that a dump of the store has all records of the dump that the old version made.
fn has_all(format: u32, data: &Path) {
    let (old, new) = (kept(format, "dump.jsonl"), said(data, &["facts", "dump", "--secrets"]));
    let (old, new) = (records(format, &old), records(FORMAT, &new));
    assert_eq!(new.len(), old.len());
    for (old, new) in old.iter().zip(&new) {
        assert!(says(new, old), "{new} where it was {old}");
    }
}

/// Checks that the records are the same, and that the change log continues.
fn is_whole(format: u32, data: &Path) {
    assert_eq!(said(data, &["facts", "check"])[0]["sound"], true);
    has_all(format, data);
    // An upgrade keeps the id of the store. A restore gives the store another id.
    assert_eq!(said(data, &["facts", "dump"])[0]["store"], kept(format, "dump.jsonl")[0]["store"]);
    let log = said(data, &["facts", "log", "--last", "1000"]);
    let (last, before) = log.split_last().unwrap();
    assert_eq!(last["what"], format!("upgrade to format {FORMAT}"));
    assert_eq!(last["revision"], before.last().unwrap()["revision"].as_u64().unwrap() + 1);
    let old = kept(format, "log.jsonl");
    assert_eq!(old.len(), before.len());
    for (old, new) in old.iter().zip(before) {
        let number = old.get("change").unwrap_or(&old["revision"]);
        assert_eq!((&new["revision"], &new["what"]), (number, &old["what"]));
        assert_eq!((&new["who"], &new["time"]), (&old["who"], &old["time"]));
    }
}

#[test]
fn a_store_of_each_older_format_is_upgraded_by_command_and_nothing_else_touches_it() {
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    for format in FORMAT_OLDEST..FORMAT {
        lay_out(format, &data);
        let store = || std::fs::read(data.join("facts/data.mdb")).unwrap();
        let before = store();
        for arguments in [["user", "list"], ["facts", "status"], ["facts", "check"], ["token", "list"]] {
            let output = run(&data, &arguments, None);
            let why = why(&output);
            assert!(
                !output.status.success() && why.contains("enfilade facts upgrade"),
                "{arguments:?}: {why}"
            );
        }
        let tried = said(&data, &["facts", "upgrade", "--dry-run"]);
        let count = kept(format, "dump.jsonl").len() - 1;
        assert_eq!(tried[0]["upgraded"], false);
        assert_eq!(tried[0]["plan"]["from"], format);
        assert_eq!(tried[0]["plan"]["records"], count);
        assert!(store() == before, "format {format} was touched");

        let done = said(&data, &["facts", "upgrade"]);
        assert_eq!((&done[0]["upgraded"], &done[0]["plan"]["to"]), (&Value::Bool(true), &FORMAT.into()));
        is_whole(format, &data);
        assert_eq!(said(&data, &["facts", "upgrade"])[0]["upgraded"], false);

        // The backup that the upgrade made and the backup of the old version can be restored.
        let made = done[0]["plan"]["backup"].as_str().unwrap().to_owned();
        let then = fixture(format).join("backup");
        for backup in [made.as_str(), then.to_str().unwrap()] {
            let restored = said(&data, &["facts", "restore", backup, "--force", "--accept-rollback"]);
            assert_eq!(restored[0]["records"], count, "{backup}");
            has_all(format, &data);
        }
    }
}

#[test]
fn access_rules_of_format_7_become_records_of_their_users() {
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    lay_out(7, &data);
    said(&data, &["facts", "upgrade"]);
    has_all(7, &data);
    let dump = said(&data, &["facts", "dump", "--secrets"]);
    let of = |table: &'static str| dump.iter().filter(move |record| record["table"] == table);
    let rules: Vec<&Value> = of("access-rules").collect();
    let copies: Vec<&Value> =
        of("delegations").flat_map(|record| record["row"]["rules"].as_array().unwrap()).collect();
    assert!(copies.iter().all(|copy| rules.iter().any(|rule| rule["row"] == **copy)), "{rules:?} {copies:?}");
    // The kept store has a rule that two credentials of a user share, another user with the same rule, and a credential that another credential
    // created.
    let users: BTreeSet<&str> = rules.iter().map(|rule| rule["key"]["user"].as_str().unwrap()).collect();
    let requests: BTreeSet<String> = rules.iter().map(|rule| rule["row"]["path"].to_string()).collect();
    assert!(users.len() > 1 && requests.len() < rules.len() && rules.len() < copies.len(), "{rules:?}");
    assert!(of("delegations").any(|record| record["row"]["by"].is_string()));
}

#[test]
fn a_server_upgrades_what_it_finds_and_everybody_is_who_they_were() {
    for format in [FORMAT_OLDEST, FORMAT - 1] {
        let server = Server::start_on(|data| lay_out(format, data), &[]);
        assert!(server.log().contains(&format!("upgrading the facts: format {format}")), "{}", server.log());
        let tokens: Value =
            serde_json::from_slice(&std::fs::read(fixture(format).join("tokens.json")).unwrap()).unwrap();
        let token = |name: &str| format!("alice@local!{name}:{}", tokens[name].as_str().unwrap());
        let status =
            |login: &str, store: &str| curl(&server, login, &format!("/dav/{store}/"), &PROPFIND_0).status;
        for (login, store, expected) in [
            ("alice@local:alice-password", "main", 207),
            ("alice@local:alice-password", "second", 207),
            ("alice@local:wrong", "main", 401),
            ("carol@local:carol-password", "main", 207),
            ("carol@local:carol-password", "second", 404),
            ("bob@local:bob-password", "main", 401),
            (&token("kept"), "main", 207),
            (&token("gone"), "main", 401),
        ] {
            assert_eq!(status(login, store), expected, "format {format}: {login} at {store}");
        }
        assert_eq!(server.cli(&["facts", "check"])[0]["sound"], true);
        server.cli(&["token", "delete", "alice@local!kept"]);
        assert_eq!(status(&token("kept"), "main"), 401);
    }
}

/// After any failed write and any kill, the store either has the old format and is unchanged, or has the new format and is complete.
#[test]
fn an_upgrade_that_is_cut_short_has_changed_nothing() {
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    let (mut runs, mut ended, mut before) = (0, 0, 0);
    // Outside of the campaign, the test tries every second write.
    let step = if std::env::var_os("ENFILADE_CAMPAIGN_N").is_some() { 1 } else { 2 };
    for fault in FAULTS {
        let mut at = 1;
        loop {
            lay_out(FORMAT - 1, &data);
            let mark = scratch.path().join("mark");
            let _ = std::fs::remove_file(&mark);
            let output = run(&data, &["facts", "upgrade"], Some((fault, at, &mark)));
            if !mark.exists() {
                assert!(output.status.success() && at > 10, "{fault} at {at}: is the library loaded?");
                break;
            }
            let again = said(&data, &["facts", "upgrade"]);
            before += u64::from(again[0]["upgraded"] == true);
            assert!(
                !output.status.success() || again[0]["upgraded"] == false,
                "{fault} at {at}: acknowledged"
            );
            is_whole(FORMAT - 1, &data);
            ended += u64::from(output.status.code().is_none());
            (at, runs) = (at + step, runs + 1);
        }
    }
    println!(
        "upgrade: {runs} faults: {ended} of them killed the upgrade, and after {before} of them the store still had the old format; \
         each store is whole"
    );
    assert!(before > 0 && before < runs, "{before} of {runs}");
}
