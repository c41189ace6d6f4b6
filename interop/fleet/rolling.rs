//! The program of a fleet is updated, one member after the other, while the other members serve.
//!
//! `cargo xtask rolling` builds an older program, and sets `ENFILADE_OLDER` to its path. Otherwise the members are restarted with the same program.

use super::{configure, ready};
use crate::command::program_on;
use crate::curl::curl;
use crate::decision_campaigns::number;
use crate::server::{BINARY, Scratch, Server, WITHOUT_PENALTIES, until};
use crate::signals::signal;
use enfilade_testkit::Etcd;
use std::path::Path;

/// How many tokens are made, checked and deleted after each step. The campaign has more.
const ROUNDS: u64 = 3;
const NAMES: [&str; 3] = ["a", "b", "c"];

/// The members, of which some may be stopped.
struct Members {
    servers: Vec<Server>,
    /// An API token of the administrator.
    admin: String,
    /// How many API tokens were deleted.
    deleted: u64,
}

impl Members {
    /// Starts a fleet with this program.
    fn start(etcd: &Etcd, program: &str) -> Self {
        let (mut servers, mut admin) = (Vec::<Server>::new(), String::new());
        let run = |data: &Path, arguments: &[&str]| {
            let output = program_on(program, data, arguments).output().unwrap();
            assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
            output.stdout
        };
        for name in NAMES {
            let scratch = Scratch::new();
            let data = scratch.path().join("data");
            let addresses = [etcd.address.clone()];
            match servers.first() {
                None => {
                    run(&data, &["init"]);
                    let token = run(&data, &["token", "create", "admin@local!api"]);
                    let token: serde_json::Value = serde_json::from_slice(&token).unwrap();
                    admin = format!(
                        "{}:{}",
                        token["tokenid"].as_str().unwrap(),
                        token["value"].as_str().unwrap()
                    );
                    run(&data, &["user", "add", "ann@local"]);
                    configure(&data, &addresses, name);
                    run(&data, &["fleet", "init"]);
                }
                Some(first) => {
                    let file = data.with_extension("invitation");
                    let file = file.to_str().unwrap();
                    run(&first.data(), &["fleet", "invite", name, file]);
                    std::fs::create_dir(&data).unwrap();
                    run(&data, &["fleet", "join", file]);
                    configure(&data, &addresses, name);
                }
            }
            servers.push(Server::start_program(program, scratch, &[WITHOUT_PENALTIES]));
        }
        Members { servers, admin, deleted: 0 }
    }

    fn call(&self, member: usize, method: &str, path: &str) -> String {
        let (id, secret) = self.admin.split_once(':').unwrap();
        let header = format!("Authorization: PBSAPIToken={id}:{secret}");
        let answer = curl(&self.servers[member], "", path, &["--request", method, "--header", &header]);
        assert_eq!(answer.status, 200, "{method} {path} at {}: {}", NAMES[member], answer.text());
        answer.text()
    }

    /// Makes tokens at one member, and deletes them at another member. All members in `running` must obey each change at once.
    fn obey(&mut self, running: &[usize]) {
        for round in 0..number(ROUNDS) as usize {
            let [maker, ender] = [round, round + 1].map(|nth| running[nth % running.len()]);
            let path = format!("/api2/json/access/users/ann@local/token/t{}", self.deleted);
            let made: serde_json::Value = serde_json::from_str(&self.call(maker, "POST", &path)).unwrap();
            let made = &made["data"];
            let token = format!("{}:{}", made["tokenid"].as_str().unwrap(), made["value"].as_str().unwrap());
            let status = |nth: &usize| curl(&self.servers[*nth], &token, "/whoami", &[]).status;
            let statuses = || running.iter().map(status).collect::<Vec<_>>();
            assert_eq!(statuses(), vec![200; running.len()], "made at {}", NAMES[maker]);
            self.call(ender, "DELETE", &path);
            assert_eq!(statuses(), vec![401; running.len()], "deleted at {}", NAMES[ender]);
            self.deleted += 1;
        }
    }
}

#[test]
fn the_program_of_a_fleet_is_updated_while_it_serves() {
    let etcd = Etcd::start();
    let older = std::env::var("ENFILADE_OLDER").ok();
    let mut members = Members::start(&etcd, older.as_deref().unwrap_or(BINARY));
    let everybody = [0, 1, 2];
    members.obey(&everybody);
    for (nth, others) in [[1, 2], [0, 2], [0, 1]].iter().enumerate() {
        signal("TERM", members.servers[nth].pid());
        members.servers[nth].wait();
        members.obey(others);
        members.servers[nth].start_again_with(&[WITHOUT_PENALTIES]);
        until("it is ready", &members.servers[nth], || ready(&members.servers[nth]) == 200);
        members.obey(&everybody);
        if older.is_some() && nth < 2 {
            let refused = super::why(&members.servers[nth].cli_output(&["fleet", "upgrade"], ""));
            assert!(refused.contains("cannot read format"), "{refused}");
        }
    }
    let upgraded = members.servers[1].cli(&["fleet", "upgrade"]).remove(0);
    assert_eq!(upgraded["before"] == upgraded["format"], older.is_none(), "{upgraded}");
    members.obey(&everybody);
    // Writes a record that only the newest format has.
    members.servers[0].cli(&["datastore", "maintenance", "main", "offline"]);
    members.servers[2].cli(&["datastore", "set", "main", "--home", "b"]);
    members.obey(&everybody);
    println!(
        "rolling: from format {} to {}, three members updated, {} tokens deleted, each refused by all running members at once",
        upgraded["before"], upgraded["format"], members.deleted
    );
}
