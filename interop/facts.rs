//! Tests the store of facts of a running server. The store is restored, its change log is written, and its file is truncated. Another process blocks
//! all writers, and two users share the store.

use crate::curl::{PROPFIND_0, curl};
use crate::server::{BINARY, Server, wait_until};
use serde_json::Value;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A time limit for effects that normally take a second. The limit is long because machines may be busy.
const SOON: Duration = Duration::from_secs(30);

fn status(server: &Server, login: &str) -> u16 {
    curl(server, login, "/dav/main/", &PROPFIND_0).status
}

#[test]
fn a_running_server_obeys_a_restored_backup_at_once() {
    let server = Server::start();
    let file = server.scratch.path().join("backup");
    let file = file.to_str().unwrap();
    let login = server.add_user("alice", "DatastoreReader");
    let made = server.cli(&["facts", "backup", file]);
    server.cli(&["token", "delete", "alice@local!test"]);
    assert_eq!(status(&server, &login), 401);
    for (arguments, reason) in [
        (vec!["facts", "restore", file], "give --force"),
        (vec!["facts", "restore", file, "--force"], "add --accept-rollback"),
    ] {
        let output = server.cli_output(&arguments, "");
        assert!(!output.status.success());
        assert!(String::from_utf8_lossy(&output.stderr).contains(reason), "{output:?}");
        assert_eq!(status(&server, &login), 401);
    }
    let restored = server.cli(&["facts", "restore", file, "--force", "--accept-rollback"]);
    assert_ne!(restored[0]["store"], made[0]["store"]);
    assert_eq!(status(&server, &login), 207);
    assert_eq!(server.cli(&["facts", "check"])[0]["sound"], true);
    server.cli(&["token", "delete", "alice@local!test"]);
    assert_eq!(status(&server, &login), 401);
}

#[test]
fn every_change_comes_into_the_log_with_who_made_it() {
    let server = Server::start();
    server.add_user("alice", "DatastoreReader");
    let at = server.cli(&["token", "delete", "alice@local!test"])[0]["revision"].clone();
    let line = |what: &str| {
        let log = server.log();
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter(|line| line["event"] == "change").find(|line| line["what"] == what)
    };
    wait_until(SOON, "the change is in the log", || line("token delete alice@local!test").is_some());
    let deleted = line("token delete alice@local!test").unwrap();
    assert_eq!(deleted["revision"], at);
    assert!(deleted["who"].as_str().unwrap().starts_with("command line, uid "), "{deleted}");
    assert!(line("role assign DatastoreReader to alice@local on /datastore/main").is_some());
    let status = || server.cli(&["facts", "status"])[0].clone();
    wait_until(SOON, "everything is shipped", || status()["shipped"] == status()["revision"]);
    assert!(!server.log().contains("enf_"), "a secret is in the log");
}

#[test]
fn a_store_cut_short_under_a_server_ends_it_with_a_word_about_it() {
    let mut server = Server::start();
    let login = server.add_user("alice", "DatastoreReader");
    assert_eq!(status(&server, &login), 207);
    let data = std::fs::File::options().write(true).open(server.data().join("facts/data.mdb")).unwrap();
    data.set_len(4096).unwrap();
    let ended = server.wait();
    assert_eq!(ended.code(), Some(74), "{ended:?}");
    assert!(server.log().contains("enfilade facts restore"), "{}", server.log());
    let output = server.cli_output(&["facts", "status"], "");
    assert!(!output.status.success());
}

#[test]
fn whoever_holds_up_all_writers_is_named_and_readers_go_on() {
    let server = Server::start();
    let login = server.add_user("alice", "DatastoreReader");
    let lock = server.data().join("facts/writer.lock");
    let holder = Command::new("flock").arg(&lock).args(["sleep", "60"]).process_group(0).spawn().unwrap();
    let holder = Holder(holder);
    wait_until(SOON, "the lock is taken", || {
        std::fs::read_to_string("/proc/locks").unwrap().contains(&format!(" {} ", holder.0.id()))
    });
    signal("STOP", &holder.0);
    assert_eq!(status(&server, &login), 207);
    let output = server.cli_output(&["token", "delete", "alice@local!test"], "");
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(why.contains(&format!("process {} (`flock", holder.0.id())), "{why}");
    assert!(why.contains(&format!("kill -CONT {}", holder.0.id())), "{why}");
    assert_eq!(status(&server, &login), 207);
    drop(holder);
    server.cli(&["token", "delete", "alice@local!test"]);
    assert_eq!(status(&server, &login), 401);
}

/// A process. Dropping the value kills its process group.
struct Holder(Child);

impl Drop for Holder {
    fn drop(&mut self) {
        let group = format!("-{}", self.0.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        let _ = self.0.wait();
    }
}

fn signal(name: &str, child: &Child) {
    assert!(
        Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status().unwrap().success()
    );
}

/// Only root can run commands as two users. For other users, the tests of `lmdb::place` check the modes.
#[test]
fn daemons_of_two_users_share_a_directory_by_a_group() {
    let is_root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    if !is_root {
        return;
    }
    let scratch = enfilade_testkit::Scratch::new();
    let data = scratch.path().join("data");
    let group = 54321;
    let run = |user: u32, arguments: &[&str]| {
        let mut command = Command::new(BINARY);
        command
            .args(["--json", "--data"])
            .arg(&data)
            .args(arguments)
            .stderr(Stdio::piped())
            .stdout(Stdio::piped());
        command.env("ENFILADE_FACTS__GROUP", group.to_string()).uid(user).gid(group);
        command.output().unwrap()
    };
    std::fs::create_dir(&data).unwrap();
    std::os::unix::fs::chown(&data, Some(54321), Some(group)).unwrap();
    std::fs::set_permissions(&data, std::os::unix::fs::PermissionsExt::from_mode(0o770)).unwrap();
    // Both users must be able to reach the data directory.
    std::fs::set_permissions(scratch.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    for (user, arguments) in [
        (54321, vec!["init"]),
        (54321, vec!["user", "add", "alice@local"]),
        (54322, vec!["user", "add", "bob@local"]),
        (54321, vec!["user", "disable", "bob@local"]),
    ] {
        let output = run(user, &arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }
    let users = String::from_utf8(run(54322, &["user", "list"]).stdout).unwrap();
    assert_eq!(users.lines().count(), 3, "{users}");
}
