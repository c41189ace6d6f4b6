//! The keys of sessions in a fleet: a change on one member takes place on all members.

use super::{Fleet, why};
use crate::command::run;
use crate::key_directory::{log_in, use_token};
use crate::server::{Server, until};
use serde_json::Value;
use std::path::Path;
use std::process::Output;

const PASSWORD: &str = "wonderland-42-x";

impl Fleet {
    /// Sets the password of the administrator.
    fn with_password(self) -> Self {
        let set = ["user", "passwd", "admin@local", "--password-stdin"];
        let output = self.members[0].cli_output(&set, &format!("{PASSWORD}\n"));
        assert!(output.status.success(), "{}", said(&output));
        self
    }

    /// A digest of the keys that each server uses. The text is empty if the server does not run.
    fn keys(&self) -> Vec<String> {
        let rows = self.members[0].cli(&["fleet", "status"]);
        let of = |row: &Value| row["servers"][0]["keys"].as_str().unwrap_or_default().to_owned();
        rows.iter().map(of).collect()
    }

    fn have_equal_keys(&self) -> bool {
        let keys = self.keys();
        keys.iter().all(|one| *one == keys[0] && !one.is_empty())
    }

    fn log_in(&self, at: usize) -> String {
        let (status, token) = log_in(&self.members[at], PASSWORD);
        assert_eq!(status, 201, "{}", self.members[at].log());
        token
    }

    /// The statuses of the answers of all members to the token of a session.
    fn uses(&self, token: &str) -> Vec<u16> {
        self.members.iter().map(|member| use_token(member, token)).collect()
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn files(server: &Server) -> Vec<(String, Vec<u8>)> {
    let file = |entry: std::fs::DirEntry| {
        (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())
    };
    let mut files: Vec<_> = std::fs::read_dir(server.data().join("keys/fernet"))
        .unwrap()
        .map(|entry| file(entry.unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn a_rotation_on_one_member_is_one_on_all() {
    let mut fleet = Fleet::start().with_password();
    fleet.join("b");
    fleet.join("c");
    until("all have the same keys", &fleet.members[0], || fleet.have_equal_keys());
    let first = fleet.log_in(0);
    for round in 0..3 {
        let before = fleet.keys();
        fleet.members[round].cli(&["keys", "rotate", "--force"]);
        // The command has ended, so every server uses the new keys now.
        assert!(fleet.have_equal_keys() && fleet.keys() != before, "{:?}", fleet.keys());
        assert_eq!(files(&fleet.members[1]), files(&fleet.members[0]));
        assert_eq!(files(&fleet.members[2]), files(&fleet.members[0]));
        let token = fleet.log_in((round + 1) % 3);
        assert_eq!(fleet.uses(&token), [200; 3]);
    }
    assert_eq!(fleet.uses(&first), [401; 3], "its key was deleted with --force");
    // A stopped member has the newest keys when it serves again.
    let token = fleet.log_in(0);
    fleet.members[2].stop();
    fleet.members[1].cli(&["keys", "replace", "--force"]);
    fleet.members[2].start_again();
    assert_eq!(fleet.uses(&token), [401; 3], "an attacker may have the old keys");
    let token = fleet.log_in(2);
    assert_eq!(fleet.uses(&token), [200; 3]);
    // A machine that joins has the newest keys, although the keys were changed after its invitation.
    let file = fleet.invite("d");
    fleet.members[0].cli(&["keys", "rotate", "--force"]);
    let joined = Server::start_on(
        |data| {
            std::fs::create_dir(data).unwrap();
            super::passes(data, &["fleet", "join", file.to_str().unwrap()]);
        },
        &[],
    );
    fleet.members.push(joined);
    let token = fleet.log_in(0);
    assert_eq!(fleet.uses(&token), [200; 4]);
}

/// A member that cannot get the newest keys refuses all sessions. With the old keys, it could accept a session of an attacker who has these keys.
#[test]
fn a_member_that_cannot_get_the_newest_keys_refuses() {
    let mut fleet = Fleet::start().with_password();
    fleet.join("b");
    let key = fleet.members[1].data().join("keys/token-hash.key");
    let right = std::fs::read(&key).unwrap();
    std::fs::write(&key, [b'x'; 32]).unwrap();
    let rotated = fleet.members[0].cli_output(&["keys", "rotate"], "");
    assert!(
        rotated.status.success()
            && said(&rotated).contains("do not use the new keys yet (the member, a dot, and an id): b."),
        "{}",
        said(&rotated)
    );
    let token = fleet.log_in(0);
    assert_eq!(fleet.uses(&token), [200, 503]);
    until("it says why", &fleet.members[1], || {
        fleet.members[1].log().contains("the keys of sessions of the fleet cannot be decrypted")
    });
    std::fs::write(&key, right).unwrap();
    until("it serves again", &fleet.members[1], || fleet.uses(&token) == [200; 2]);
    // If two members change the keys at the same time, either both changes succeed one after another, or one
    // change is refused.
    let [one, other] = [0, 1].map(|member: usize| fleet.members[member].data());
    let rotate = |data: &Path| run(data, &["keys", "rotate", "--force"], None);
    let outcomes = std::thread::scope(|scope| {
        let both = [&one, &other].map(|data| scope.spawn(|| rotate(data)));
        both.map(|thread| thread.join().unwrap())
    });
    for output in outcomes.iter().filter(|output| !output.status.success()) {
        assert!(why(output).contains("changed the keys of sessions at the same time"), "{}", said(output));
    }
    until("both have the same keys", &fleet.members[0], || fleet.have_equal_keys());
    assert_eq!(files(&fleet.members[0]), files(&fleet.members[1]));
}

/// A server does not undo a change of its keys by hand. `doctor` reports the change, and `keys share` gives the keys of one member to all members.
#[test]
fn keys_that_were_changed_by_hand_are_found_and_can_be_shared() {
    let mut fleet = Fleet::start().with_password();
    fleet.join("b");
    until("both have the same keys", &fleet.members[0], || fleet.have_equal_keys());
    let [a, b] = [0, 1].map(|member: usize| fleet.members[member].data());
    let warns = |data: &Path| said(&run(data, &["doctor"], None)).contains("different keys of sessions");
    assert!(!warns(&a));
    std::fs::remove_file(b.join("keys/fernet/0")).unwrap();
    until("they have other keys", &fleet.members[0], || !fleet.have_equal_keys());
    assert!(warns(&a));
    assert!(said(&run(&a, &["doctor"], None)).contains("`enfilade fleet status` shows the servers"));
    fleet.members[0].cli(&["keys", "share"]);
    assert!(fleet.have_equal_keys() && !warns(&a));
    assert_eq!(files(&fleet.members[0]), files(&fleet.members[1]));
}

/// Only one member rotates the keys, although all members have the configuration for rotation.
#[test]
fn a_fleet_rotates_its_keys_by_itself() {
    let fleet = {
        let (etcd, scratch) = (enfilade_testkit::Etcd::start(), crate::server::Scratch::new());
        let addresses = vec![vec![etcd.address.clone()]; 2];
        let often =
            [("ENFILADE_IDENTITY__ROTATE_EVERY", "1s"), ("ENFILADE_IDENTITY__MAX_ACTIVE_KEYS", "5000")];
        let members = Fleet::of_servers(&addresses, &often);
        Fleet { etcd, scratch, members }.with_password()
    };
    let rotated = |at: usize| fleet.members[at].log().matches("the Fernet keys were rotated").count();
    until("the keys are rotated again and again", &fleet.members[0], || rotated(0) >= 3);
    assert_eq!(rotated(1), 0, "it gets the keys of the other member");
    let token = fleet.log_in(1);
    assert_eq!(fleet.uses(&token), [200; 2]);
}
