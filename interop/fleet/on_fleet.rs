//! Tests of single servers, repeated on the first member of a fleet. The variable `ENFILADE_ON_FLEET` contains the number of members and the address
//! of etcd.

use crate::command::run;
use crate::decision_campaigns::number;
use crate::server::{first_line, serving};
use enfilade_testkit::Etcd;
use std::path::Path;
use std::process::{Child, Command};

const ON_FLEET: &str = "ENFILADE_ON_FLEET";

/// The other members of a fleet. They run until the end of the test.
#[derive(Default)]
pub(crate) struct Others(Vec<Child>);

impl Drop for Others {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Whether the tests run on a fleet.
pub(crate) fn is_asked() -> bool {
    asked().is_some()
}

/// The number of members, and the address of etcd.
fn asked() -> Option<(usize, String)> {
    let asked = std::env::var(ON_FLEET).ok()?;
    let (members, etcd) = asked.split_once(' ').unwrap();
    Some((members.parse().unwrap(), etcd.to_owned()))
}

/// Tests that CI runs on a fleet of three.
const SOME: [&str; 4] = [
    "freshness::",
    "lending::",
    "webdav::rclone_copies_both_ways",
    "keystone::a_token_is_issued_validated_and_revoked",
];

/// Tests that apply only to a server without a fleet, and the reason. docs/fleet.md describes the behaviour of a member.
const ONLY_ALONE: [(&str, &str); 25] = [
    ("fleet::", FLEET),
    ("acme::a_server_obtains_its_certificate", SHARED),
    ("keys::keys_are_made_rotated_and_not_dropped", SHARED),
    ("lost_keys::a_lost_key_of_tokens", SHARED),
    ("backup::a_drill_with_many_facts", DIRECT),
    ("compact::a_store_is_compacted", DIRECT),
    ("last_room::a_file_is_not_changed", DIRECT),
    ("last_room::no_access_is_given", DIRECT),
    ("last_room::what_users_do_for_themselves", DIRECT),
    ("nearly_full::at_the_real_end", DIRECT),
    ("nearly_full::what_takes_rights_away", DIRECT),
    ("together::of_two_servers_that_start_together", DIRECT),
    ("backup::a_house_that_is_restored_elsewhere", RESTORED),
    ("backup::what_cannot_be_restored", RESTORED),
    ("facts::a_running_server_obeys_a_restored_backup", RESTORED),
    ("files::what_a_dump_says_of_files", RESTORED),
    ("growth::a_copy_that_was_cut", RESTORED),
    ("import_cloud::keystone_itself_is_taken_over", RESTORED),
    ("lost_keys::facts_that_are_restored_without_their_key", RESTORED),
    ("stalled_log::after_a_restore", RESTORED),
    ("upgrade::a_server_upgrades_what_it_finds", "a member has the format of its fleet"),
    ("setup::a_server_is_ready_after_setup", "`setup` refuses on a member"),
    ("signals::a_start_without_the_configuration", "a member needs its configuration"),
    ("files::another_looks_when", WITHOUT_PROOF),
    ("facts::whoever_holds_up_all_writers", WITHOUT_PROOF),
];

const FLEET: &str = "has a fleet of its own";
const SHARED: &str = "the members share their keys and certificates through etcd";
const DIRECT: &str =
    "writes into the store directly, and only the log of the fleet may change the store of a member";
const RESTORED: &str = "`facts restore` refuses on a member, and a server that `restore` made is no member";
const WITHOUT_PROOF: &str = "a member that was stopped, or cannot write its store, answers 503";

/// Runs other tests of this program, with each server as the first member of a fleet: [`SOME`] in CI, and in the campaign all tests except
/// [`ONLY_ALONE`]. The size of the campaign is the number of members.
#[test]
fn what_is_true_of_a_server_alone_is_true_of_a_member() {
    let etcd = Etcd::start();
    let members = number(3);
    let mut tests = Command::new(std::env::current_exe().unwrap());
    tests.env(ON_FLEET, format!("{members} {}", etcd.address)).env_remove("ENFILADE_CAMPAIGN_N");
    match std::env::var_os("ENFILADE_CAMPAIGN_N") {
        None => tests.args(SOME),
        Some(_) => tests.args(ONLY_ALONE.iter().flat_map(|(name, _)| ["--skip", name])),
    };
    let output = tests.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.contains(" passed"), "{text}");
    println!("{}", text.lines().filter(|line| line.starts_with("test result")).collect::<String>());
}

/// Adds the section `[fleet]` to a new configuration of the first member, if tests run on a fleet.
pub(crate) fn keep(data: &Path) {
    if let Some((_, etcd)) = asked() {
        let config = std::fs::read_to_string(data.join("enfilade.toml")).unwrap();
        configure(data, &config, &etcd, &prefix(data), "a");
    }
}

fn passes(data: &Path, arguments: &[&str]) -> Vec<u8> {
    let output = run(data, arguments, None);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// If tests run on a fleet, makes the machine of this data directory the first member of a fleet. Returns the password of the administrator, or an
/// empty text if `data` already contained facts.
pub(crate) fn init(data: &Path) -> Option<String> {
    let (_, etcd) = asked()?;
    let config = || std::fs::read_to_string(data.join("enfilade.toml")).unwrap_or_default();
    let mut password = String::new();
    if !data.join("facts").exists() {
        let made = run(data, &["init"], None);
        let told: serde_json::Value = serde_json::from_slice(&made.stdout).unwrap_or_default();
        told["password"].as_str().unwrap_or_default().clone_into(&mut password);
        // If there is a `user.cfg` with an administrator, `init` makes the store, and refuses to make an administrator.
        assert!(data.join("facts").exists(), "{}", String::from_utf8_lossy(&made.stderr));
    }
    configure(data, &config(), &etcd, &prefix(data), "a");
    passes(data, &["fleet", "init"]);
    Some(password)
}

/// Lets the other members join, and starts them.
pub(crate) fn others(data: &Path) -> Others {
    let Some((members, etcd)) = asked() else { return Others::default() };
    let join = |name: &&str| {
        let (own, file) = (data.with_extension(name), data.with_extension(format!("{name}.invitation")));
        passes(data, &["fleet", "invite", name, file.to_str().unwrap()]);
        std::fs::create_dir(&own).unwrap();
        passes(&own, &["fleet", "join", file.to_str().unwrap()]);
        configure(&own, "", &etcd, &prefix(data), name);
        first_line(serving(&own, &[]).stderr(std::process::Stdio::null())).0
    };
    Others(["b", "c"].iter().take(members - 1).map(join).collect())
}

/// Each fleet has a separate prefix in the same etcd.
fn prefix(data: &Path) -> String {
    data.parent().unwrap().to_str().unwrap().to_owned()
}

fn configure(data: &Path, before: &str, etcd: &str, prefix: &str, name: &str) {
    let keys = format!("[fleet]\nname = \"{name}\"\netcd = \"{etcd}\"\nprefix = \"{prefix}\"\n");
    // The configuration file of a new server contains the heading of each table.
    let config = match before.contains("\n[fleet]\n") {
        true => before.replacen("[fleet]\n", &keys, 1),
        false => format!("{before}\n{keys}"),
    };
    std::fs::write(data.join("enfilade.toml"), config).unwrap();
}
