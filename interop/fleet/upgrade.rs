//! A fleet of an older format, and large changes.

use super::{Fleet, told, why};
use crate::server::until;
use enfilade_facts::format::FORMAT;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// Writes bytes under a key, as an older program would.
fn put(fleet: &Fleet, key: &str, value: &[u8]) {
    let mut child = Command::new("etcdctl")
        .env("ETCDCTL_API", "3")
        .args(["--endpoints", &fleet.etcd.address, "put", key])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(value).unwrap();
    assert!(child.wait().unwrap().success());
}

/// The bytes under a key.
fn get(fleet: &Fleet, key: &str) -> Vec<u8> {
    let text = fleet.etcd.control(&["get", "--print-value-only", "--hex", key]);
    let hex = |byte| u8::from_str_radix(byte, 16).unwrap();
    text.trim().split("\\x").filter(|byte| !byte.is_empty()).map(hex).collect()
}

/// The fleet keeps its format until all members have the new program.
#[test]
fn a_fleet_of_an_older_format_is_upgraded_when_all_members_can_read_the_newer_one() {
    let mut fleet = Fleet::start();
    fleet.join("b");
    let upgraded = fleet.members[0].cli(&["fleet", "upgrade"]);
    assert_eq!(
        (&upgraded[0]["before"], &upgraded[0]["format"]),
        (&FORMAT.into(), &FORMAT.into()),
        "nothing to do"
    );
    // Writes the state that an older program would have written.
    let mut head = get(&fleet, "/enfilade/head");
    assert_eq!(head[..4], FORMAT.to_be_bytes());
    head[..4].copy_from_slice(&13_u32.to_be_bytes());
    put(&fleet, "/enfilade/head", &head);
    fleet.members[0].cli(&["user", "add", "ann@local"]);
    let status = |fleet: &Fleet| fleet.members[1].cli(&["fleet", "status"]);
    let found = status(&fleet);
    assert_eq!((&found[0]["format"], &found[0]["servers"][0]["reads_format"]), (&13.into(), &FORMAT.into()));
    let said = told(&fleet.members[1], &["facts", "upgrade"]);
    assert!(said.contains("`enfilade fleet upgrade` upgrades the format for all members"), "{said}");
    fleet.members[0].cli(&["datastore", "maintenance", "main", "offline"]);
    let set_home = ["datastore", "set", "main", "--home", "b"];
    let refused = why(&fleet.members[0].cli_output(&set_home, ""));
    assert!(refused.contains("needs format 14") && refused.contains("enfilade fleet upgrade"), "{refused}");
    let link = ["link", "create", "main", "/", "--user", "ann@local"];
    let refused = why(&fleet.members[0].cli_output(&link, ""));
    assert!(refused.contains("needs format 15") && refused.contains("enfilade fleet upgrade"), "{refused}");
    assert_eq!(get(&fleet, "/enfilade/head")[..4], 13_u32.to_be_bytes());
    // Registers a server of an older program.
    put(&fleet, "/enfilade/member/old", &7_i64.to_be_bytes());
    put(&fleet, "/enfilade/beat/old.1", &[1; 16]);
    put(&fleet, "/enfilade/node/old.1", &[1; 16]);
    let refused = why(&fleet.members[1].cli_output(&["fleet", "upgrade"], ""));
    assert!(
        refused.contains(&format!("cannot read format {FORMAT}")) && refused.contains(": old."),
        "{refused}"
    );
    for table in ["beat", "node"] {
        fleet.etcd.control(&["del", &format!("/enfilade/{table}/old.1")]);
    }
    let upgraded = fleet.members[1].cli(&["fleet", "upgrade"]);
    assert_eq!((&upgraded[0]["before"], &upgraded[0]["without_server"][0]), (&13.into(), &"old".into()));
    fleet.members[0].cli(&set_home);
    fleet.members[0].cli(&link);
    assert_eq!(status(&fleet)[0]["format"], FORMAT);
}

/// An edited file with many users is one change.
#[test]
fn a_change_of_several_mebibytes_comes_to_the_other_members() {
    const USERS: usize = 10_000;
    let mut fleet = Fleet::start();
    fleet.join("b");
    let users: String = (0..USERS).map(|nth| format!("user: u{nth}@pbs\n\n")).collect();
    let [a, b] = [0, 1].map(|nth| &fleet.members[nth]);
    let new = a.data().join("user.cfg.new");
    std::fs::write(&new, &users).unwrap();
    std::fs::rename(&new, a.data().join("user.cfg")).unwrap();
    let last = format!("u{}@pbs", USERS - 1);
    until("the users are there", b, || b.cli(&["user", "list"]).iter().any(|user| user["user"] == last));
    let large = fleet.etcd.control(&["get", "--prefix", "/enfilade/large/", "--keys-only"]);
    assert_ne!(large.trim(), "", "the change was not large");
    let token = a.add_token("admin@local!api");
    assert_eq!(fleet.statuses(&token), [200; 2]);
}
