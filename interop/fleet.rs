//! A fleet of real servers, on a real etcd. After one member revokes a right, no other member grants it.

mod balanced;
mod certificates;
mod keys;
mod moving;
mod nemesis;
pub(crate) mod on_fleet;
mod passing;
mod reports;
mod rolling;
mod takeover;
mod tls;
mod upgrade;

use crate::command::run;
use crate::curl::curl;
use crate::server::{BINARY, Scratch, Server, until};
use crate::signals::signal;
use enfilade_testkit::Etcd;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// The time for which a proof is valid (1 s, the default of `[fleet] proof_millis`), plus time for the answer of a machine that is busy with other
/// tests.
const PROOF_ENDS: Duration = Duration::from_secs(5);

struct Fleet {
    etcd: Etcd,
    scratch: Scratch,
    members: Vec<Server>,
}

fn why(output: &Output) -> String {
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn passes(data: &Path, arguments: &[&str]) {
    let output = run(data, arguments, None);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The text that a command on the member prints for people.
fn told(member: &Server, arguments: &[&str]) -> String {
    let output = Command::new(BINARY).arg("--data").arg(member.data()).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn configure(data: &Path, etcd: &[String], name: &str) {
    let config = format!("[fleet]\nname = \"{name}\"\netcd = {etcd:?}\n");
    std::fs::write(data.join("enfilade.toml"), config).unwrap();
}

impl Fleet {
    /// A fleet of one member, which was a server without a fleet before.
    fn start() -> Self {
        let (etcd, scratch) = (Etcd::start(), Scratch::new());
        let members = Self::of_servers(&[vec![etcd.address.clone()]], &[]);
        Fleet { etcd, scratch, members }
    }

    /// Starts the servers of a fleet. For each server, `etcd` contains the addresses of the machines of etcd.
    fn of_servers(etcd: &[Vec<String>], environment: &[(&str, &str)]) -> Vec<Server> {
        Self::of_servers_with(etcd, |_| environment.to_vec())
    }

    /// Like [`Fleet::of_servers`], with an environment for each server.
    fn of_servers_with<'e>(
        etcd: &[Vec<String>],
        environment: impl Fn(usize) -> Vec<(&'e str, &'e str)>,
    ) -> Vec<Server> {
        let mut servers: Vec<Server> = Vec::new();
        for (etcd, name) in etcd.iter().zip(["a", "b", "c", "d", "e"]) {
            let prepare = |data: &Path| match servers.first() {
                None => {
                    passes(data, &["init"]);
                    configure(data, etcd, name);
                    passes(data, &["fleet", "init"]);
                }
                Some(first) => {
                    let invitation = data.with_extension("invitation");
                    let file = invitation.to_str().unwrap();
                    first.cli(&["fleet", "invite", name, file]);
                    std::fs::create_dir(data).unwrap();
                    passes(data, &["fleet", "join", file]);
                    configure(data, etcd, name);
                }
            };
            let started = Server::start_on(prepare, &environment(servers.len()));
            servers.push(started);
        }
        servers
    }

    fn invite(&self, name: &str) -> PathBuf {
        let file = self.scratch.path().join(format!("{name}.invitation"));
        let _ = std::fs::remove_file(&file);
        self.members[0].cli(&["fleet", "invite", name, file.to_str().unwrap()]);
        file
    }

    fn join(&mut self, name: &str) -> &Server {
        let file = self.invite(name);
        let joined = Server::start_on(
            |data| {
                std::fs::create_dir(data).unwrap();
                passes(data, &["fleet", "join", file.to_str().unwrap()]);
            },
            &[],
        );
        self.members.push(joined);
        self.members.last().unwrap()
    }

    /// The statuses of the answers of all members to this token.
    fn statuses(&self, token: &str) -> Vec<u16> {
        self.members.iter().map(|member| curl(member, token, "/whoami", &[]).status).collect()
    }
}

fn metric(server: &Server, name: &str) -> f64 {
    let output = std::process::Command::new("curl")
        .args(["--silent", "--max-time", "20", &format!("http://{}/metrics", server.operations)])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {text}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

fn ready(server: &Server) -> u16 {
    let output = std::process::Command::new("curl")
        .args(["--silent", "--max-time", "20", "--output", "/dev/null", "--write-out", "%{http_code}"])
        .arg(format!("http://{}/readyz", server.operations))
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap().parse().unwrap()
}

#[test]
fn what_one_member_revokes_no_member_grants() {
    const ROUNDS: usize = 5;
    let mut fleet = Fleet::start();
    fleet.join("b");
    fleet.join("c");
    let members = &fleet.members;
    members[0].cli(&["user", "add", "ann@local"]);
    for round in 0..ROUNDS {
        let [maker, ender] = [round % 3, (round + 1) % 3];
        let token = members[maker].add_token("ann@local!t");
        assert_eq!(fleet.statuses(&token), [200; 3], "made by member {maker}");
        members[ender].cli(&["token", "delete", "ann@local!t"]);
        assert_eq!(fleet.statuses(&token), [401; 3], "deleted by member {ender}");
    }
    // A change that a server makes over HTTP also takes effect on all members at once.
    let admin = members[1].add_token("admin@local!api");
    let token = members[0].add_token("ann@local!http");
    assert_eq!(fleet.statuses(&token), [200; 3]);
    let path = "/api2/json/access/users/ann@local/token/http";
    let deleted = {
        let (id, secret) = admin.split_once(':').unwrap();
        let header = format!("Authorization: PBSAPIToken={id}:{secret}");
        curl(&members[1], "", path, &["--request", "DELETE", "--header", &header])
    };
    assert_eq!(deleted.status, 200, "{}", deleted.text());
    assert_eq!(fleet.statuses(&token), [401; 3]);
    assert!(metric(&members[1], "enfilade_fleet_acknowledged_total") >= 1.0);
    assert!(metric(&members[2], "enfilade_fleet_proof_age_seconds") < 1.0);
    assert_eq!(metric(&members[2], "enfilade_fleet_changes_behind"), 0.0);
    // Files are served by one member only.
    assert_eq!(curl(&members[1], &admin, "/dav/main/", &[]).status, 421);
    until("it says why", &members[1], || members[1].log().contains("served by member `a`"));
    assert_eq!(curl(&members[0], &admin, "/dav/main/", &["--request", "PROPFIND"]).status, 207);
}

/// Members without contact to etcd grant nothing. They recover without help when etcd answers again.
#[test]
fn a_member_that_cannot_prove_that_it_is_current_refuses() {
    let mut fleet = Fleet::start();
    fleet.join("b");
    let token = fleet.members[0].add_token("admin@local!api");
    assert_eq!(fleet.statuses(&token), [200; 2]);
    fleet.etcd.signal("-STOP");
    std::thread::sleep(Duration::from_millis(1_200));
    assert_eq!(fleet.statuses(&token), [503; 2]);
    assert!(fleet.members.iter().all(|member| ready(member) == 503));
    assert!(fleet.members[1].log().contains("cannot prove that its facts are current"));
    // A command that reads prints the age of its answer. A command that changes facts fails.
    for member in &fleet.members {
        let listed = member.cli_output(&["user", "list"], "");
        let said = String::from_utf8_lossy(&listed.stderr).into_owned();
        assert!(listed.status.success() && said.contains("may use old facts"), "{said}");
    }
    let login = format!("admin@local:{}", fleet.members[0].password);
    let path = "/api2/json/access/users?userid=eve%40local";
    assert_eq!(curl(&fleet.members[0], &login, path, &["--request", "POST"]).status, 503);
    let refused = why(&fleet.members[1].cli_output(&["user", "add", "eve@local"], ""));
    assert!(refused.contains("etcd does not answer"), "{refused}");
    fleet.etcd.signal("-CONT");
    let healed = Instant::now();
    for member in &fleet.members {
        until("it comes back by itself", member, || {
            curl(member, &token, "/whoami", &[]).status == 200 && ready(member) == 200
        });
    }
    assert!(healed.elapsed() < 5 * PROOF_ENDS, "{:?}", healed.elapsed());
    assert!(metric(&fleet.members[1], "enfilade_fleet_refused_total") >= 1.0);
}

/// With `[fleet] strict`, a request is served only after etcd confirmed that the facts are current, even if the last proof is still valid.
#[test]
fn a_strict_member_asks_before_each_request() {
    let etcd = Etcd::start();
    let servers = Fleet::of_servers_with(&[vec![etcd.address.clone()]], |_| {
        vec![("ENFILADE_FLEET__STRICT", "true"), ("ENFILADE_FLEET__PROOF_MILLIS", "5000")]
    });
    let member = &servers[0];
    let token = member.add_token("admin@local!api");
    let status = || curl(member, &token, "/whoami", &[]).status;
    assert_eq!(status(), 200);
    etcd.signal("-STOP");
    // The last proof would be valid for five seconds.
    let began = Instant::now();
    assert_eq!(status(), 503);
    assert!(began.elapsed() >= Duration::from_millis(4_900), "{:?}", began.elapsed());
    etcd.signal("-CONT");
    until("it serves again", member, || status() == 200);
}

/// A killed member delays changes until its lease in etcd expires. After its restart, the member receives the changes that it missed.
#[test]
fn a_member_that_is_killed_delays_changes_and_comes_back() {
    let mut fleet = Fleet::start();
    fleet.join("b");
    let token = fleet.members[0].add_token("admin@local!api");
    assert_eq!(fleet.statuses(&token), [200; 2]);
    fleet.members[1].stop();
    let status = |fleet: &Fleet| fleet.members[0].cli(&["fleet", "status"]);
    let servers = |fleet: &Fleet, name: &str| -> Vec<Value> {
        let all = status(fleet);
        let row = all.iter().find(|row| row["member"] == name).unwrap();
        row["servers"].as_array().unwrap().clone()
    };
    // The token is revoked while member b is stopped.
    fleet.members[0].cli(&["token", "delete", "admin@local!api"]);
    until("the killed server is forgotten", &fleet.members[0], || servers(&fleet, "b").is_empty());
    let began = Instant::now();
    fleet.members[0].cli(&["user", "add", "ann@local"]);
    assert!(began.elapsed() < PROOF_ENDS, "nobody is waited for: {:?}", began.elapsed());
    fleet.members[1].start_again();
    assert_eq!(fleet.statuses(&token), [401; 2]);
    let found = servers(&fleet, "b");
    assert_eq!((found.len(), &found[0]["is_heard"]), (1, &Value::Bool(true)), "{found:?}");
    // A server that is stopped properly delays no change.
    signal("TERM", fleet.members[1].pid());
    fleet.members[1].wait();
    assert_eq!(servers(&fleet, "b").len(), 0);
}

#[test]
fn what_does_not_belong_to_a_fleet_is_refused() {
    let mut fleet = Fleet::start();
    fleet.join("b");
    let refused = |data: &Path, arguments: &[&str]| why(&run(data, arguments, None));
    // An invitation can be used only once.
    let used = fleet.invite("c");
    let used = used.to_str().unwrap();
    passes(&fleet.scratch.path().join("c"), &["fleet", "join", used]);
    let twice = refused(&fleet.scratch.path().join("c2"), &["fleet", "join", used]);
    assert!(twice.contains("the invitation was used already"), "{twice}");
    // A backup cannot be used as an invitation.
    let backup = fleet.scratch.path().join("house.tar");
    fleet.members[0].cli(&["backup", backup.to_str().unwrap()]);
    let no = refused(&fleet.scratch.path().join("d"), &["fleet", "join", backup.to_str().unwrap()]);
    assert!(no.contains("is not an invitation"), "{no}");
    // A command cannot compact or restore the copy of the facts on one member alone.
    let data = fleet.members[1].data();
    fleet.members[1].stop();
    let copy = fleet.scratch.path().join("facts.backup");
    passes(&data, &["facts", "backup", copy.to_str().unwrap()]);
    let copy = copy.to_str().unwrap();
    for arguments in [
        &["facts", "compact"][..],
        &["facts", "restore", copy, "--force"],
        &["facts", "restore", copy, "--set-aside"],
    ] {
        let no = refused(&data, arguments);
        assert!(no.contains("on this machine alone"), "{arguments:?}: {no}");
    }
    // Without the section [fleet], the copy cannot be used. With the section, a store without a fleet cannot be used.
    std::fs::write(data.join("enfilade.toml"), "").unwrap();
    let no = refused(&data, &["user", "list"]);
    assert!(no.contains("does not set `fleet.etcd`"), "{no}");
    let alone = fleet.scratch.path().join("alone");
    passes(&alone, &["init"]);
    configure(&alone, std::slice::from_ref(&fleet.etcd.address), "e");
    let no = refused(&alone, &["user", "list"]);
    assert!(no.contains("this machine is not a member of a fleet"), "{no}");
    // `fleet init` is refused, because etcd contains the log of another store.
    let no = refused(&alone, &["fleet", "init"]);
    assert!(no.contains("it is the log of the store") || no.contains("there is a log already"), "{no}");
    configure(&data, std::slice::from_ref(&fleet.etcd.address), "x");
    let no = why(&run(&data, &["fleet", "expel", "nobody"], None));
    assert!(no.contains("the fleet has no member `nobody`; its members are a, b, c"), "{no}");
}

/// Of three members, one is expelled and one leaves. The last member works alone. At the end, the copies of the last member and of the expelled
/// member become independent stores.
#[test]
fn members_leave_and_the_last_one_works_alone() {
    let mut fleet = Fleet::start();
    fleet.join("b");
    fleet.join("c");
    let token = fleet.members[0].add_token("admin@local!api");
    assert_eq!(fleet.statuses(&token), [200; 3]);
    fleet.members[0].cli(&["fleet", "expel", "c"]);
    std::thread::sleep(Duration::from_millis(1_300));
    assert_eq!(fleet.statuses(&token), [200, 200, 503]);
    until("it says why", &fleet.members[2], || {
        fleet.members[2].log().contains("`c` is not a member of this fleet")
    });
    // The fleet follows the edited files of member a.
    let (a, b) = (fleet.members[0].data(), fleet.members[1].data());
    let refused = why(&run(&a, &["fleet", "leave"], None));
    assert!(refused.contains("stop the server"), "{refused}");
    fleet.members[0].stop();
    until("the killed server is forgotten", &fleet.members[1], || {
        let rows = fleet.members[1].cli(&["fleet", "status"]);
        rows.iter().any(|row| row["member"] == "a" && row["servers"].as_array().unwrap().is_empty())
    });
    let refused = why(&run(&a, &["fleet", "leave"], None));
    assert!(refused.contains("fleet follow-files"), "{refused}");
    let refused = why(&run(&b, &["fleet", "follow-files"], None));
    assert!(refused.contains("datastore.cfg` is missing, but the fleet has read such a file"), "{refused}");
    std::fs::copy(a.join("datastore.cfg"), b.join("datastore.cfg")).unwrap();
    fleet.members[1].cli(&["fleet", "follow-files"]);
    passes(&a, &["fleet", "leave"]);
    assert!(why(&run(&a, &["user", "add", "x@local"], None)).contains("`a` is not a member"));
    // The last member works without the others.
    fleet.members[1].cli(&["user", "add", "ann@local"]);
    signal("TERM", fleet.members[1].pid());
    fleet.members[1].wait();
    passes(&b, &["fleet", "leave"]);
    std::fs::write(b.join("enfilade.toml"), "").unwrap();
    passes(&b, &["user", "add", "bob@local"]);
    fleet.members[1].start_again();
    assert_eq!(curl(&fleet.members[1], &token, "/whoami", &[]).status, 200);
    assert_eq!(fleet.etcd.control(&["get", "--prefix", "/enfilade", "--keys-only"]).trim(), "");
    // A copy of the facts that is left without its fleet can become an independent store.
    let c = fleet.members[2].data();
    fleet.members[2].stop();
    assert!(why(&run(&c, &["fleet", "recover"], None)).contains("--force"));
    // If an edited file on this machine is missing or differs from the file that the fleet read, deleted records could become valid again.
    let refused = why(&run(&c, &["fleet", "recover", "--force"], None));
    assert!(
        refused.contains("datastore.cfg` is missing, but") && refused.contains("--accept-files"),
        "{refused}"
    );
    std::fs::copy(b.join("datastore.cfg"), c.join("datastore.cfg")).unwrap();
    passes(&c, &["fleet", "recover", "--force"]);
    std::fs::write(c.join("enfilade.toml"), "").unwrap();
    passes(&c, &["user", "add", "bob@local"]);
}
