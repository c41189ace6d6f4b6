//! Real servers of a fleet, with etcd on three machines, while connections, servers and machines of etcd fail at random. No member grants what was
//! revoked, and no acknowledged change is lost.
//!
//! `cargo xtask nemesis` is the campaign; the test runs for half a minute.

mod client;
mod clocks;
mod disks;
mod files;

use super::{Fleet, configure, metric, ready};
use crate::command::run as run_on;
use crate::decision_campaigns::{number, seed};
use crate::key_directory::log_in;
use crate::kill_loop::Random;
use crate::server::{Scratch, Server, wait_until};
use crate::signals::signal;
use client::Client;
use clocks::Clocks;
use disks::Disk;
use enfilade_testkit::{Etcd, Relay};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The duration of the test, in seconds. A longer run is the campaign, which has four members instead of three.
const SMOKE: u64 = 30;
const MACHINES: usize = 3;
const WRITERS: u64 = 32;
const PASSWORD: &str = "wonderland-42-x";
const KEYS_MAX: (&str, &str) = ("ENFILADE_IDENTITY__MAX_ACTIVE_KEYS", "5000");
/// The wall clock of each member differs from the right time by at most this many seconds.
const CLOCK_OFF: u64 = 3_600;

/// The states of a permission, as the client knows them.
const GIVEN: u8 = 0;
const IN_DOUBT: u8 = 1;
const TAKEN: u8 = 2;

/// A permission of a user, until it is revoked.
struct Permission {
    /// An API token with its secret, or the token of a session.
    login: String,
    path: String,
    /// The expected status after the revocation.
    refusal: u16,
    state: AtomicU8,
    /// When the revocation was acknowledged, in milliseconds since the beginning of the run.
    taken: AtomicU64,
}

/// The ways to revoke a permission.
#[derive(Clone, Copy)]
enum Kind {
    Token,
    Role,
    Disabled,
    User,
    Session,
}

const KINDS: [Kind; 5] = [Kind::Token, Kind::Role, Kind::Disabled, Kind::User, Kind::Session];

#[derive(Default)]
struct Counts {
    granted: AtomicU64,
    refused: AtomicU64,
    not_current: AtomicU64,
    taken: AtomicU64,
    in_doubt: AtomicU64,
    faults: AtomicU64,
    replaced: AtomicU64,
    rotations: AtomicU64,
    files_read: AtomicU64,
    files_refused: AtomicU64,
    full: AtomicU64,
}

struct Run {
    admin: String,
    /// A session of the administrator, which creates other sessions.
    session: String,
    addresses: Vec<Mutex<String>>,
    /// The data directories of the members. The log of a member has the path of its data directory with the extension `log`.
    places: Vec<Mutex<PathBuf>>,
    permissions: Mutex<Vec<Arc<Permission>>>,
    counts: Counts,
    began: Instant,
    ends: Instant,
    /// Whether a check failed. A failed check ends the run.
    has_failed: AtomicBool,
}

impl Run {
    /// The last refusals in the log of a member.
    fn last_refusals(&self, member: usize) -> String {
        // The server writes its log with a delay.
        std::thread::sleep(Duration::from_secs(1));
        let place = self.places[member].lock().unwrap().with_extension("log");
        let log = std::fs::read_to_string(place).unwrap_or_default();
        let refusals: Vec<&str> = log.lines().filter(|line| line.contains("\"refuse\"")).collect();
        refusals[refusals.len().saturating_sub(40)..].join("\n")
    }

    /// The time since the beginning of the run, in milliseconds.
    fn millis(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.ends || self.has_failed.load(Ordering::Relaxed)
    }
}

/// Ends the run if a check fails in this thread.
struct Ends<'r>(&'r Run);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.has_failed.fetch_or(std::thread::panicking(), Ordering::Relaxed);
    }
}

/// The header with an API token or the token of a session.
fn credential(login: &str) -> String {
    match login.contains('!') {
        true => format!("Authorization: PBSAPIToken={login}"),
        false => format!("X-Auth-Token: {login}"),
    }
}

/// Checks permissions at one member.
fn check(run: &Run, member: usize) {
    let _ends = Ends(run);
    let (mut client, mut random) =
        (Client::new(&run.addresses[member]), Random(seed() + 100 + member as u64));
    while !run.is_over() {
        let permission = {
            let all = run.permissions.lock().unwrap();
            // In most cases, one of the newest permissions is chosen.
            let newest = if random.below(4) == 0 { all.len() } else { all.len().min(64) };
            all.len()
                .checked_sub(1 + random.below(newest.max(1) as u64) as usize)
                .map(|nth| Arc::clone(&all[nth]))
        };
        let Some(permission) = permission else { continue };
        let before = permission.state.load(Ordering::SeqCst);
        let answer = client.ask("GET", &permission.path, &credential(&permission.login), "");
        let after = permission.state.load(Ordering::SeqCst);
        let id = permission.login.split(':').next().unwrap();
        match answer {
            Some((200, _)) => {
                assert!(
                    before != TAKEN || after != TAKEN,
                    "stale: member {member} granted {id} {}; the revocation was acknowledged {} ms after the beginning, and this check was made {} ms after the beginning",
                    permission.path,
                    permission.taken.load(Ordering::SeqCst),
                    run.millis()
                );
                run.counts.granted.fetch_add(1, Ordering::Relaxed);
            }
            Some((status, body)) if status == permission.refusal => {
                assert!(
                    before != GIVEN || after != GIVEN,
                    "lost: member {member} refused {id}: {status} {body}\n{}",
                    run.last_refusals(member)
                );
                run.counts.refused.fetch_add(1, Ordering::Relaxed);
            }
            Some((503, _)) | None => {
                run.counts.not_current.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(2));
            }
            Some((status, body)) => panic!("member {member}, {id}: {status} {body}"),
        }
    }
}

/// Makes changes. Each change is sent to a random member.
struct Writer<'a> {
    run: &'a Run,
    clients: Vec<Client<'a>>,
    random: Random,
}

impl Writer<'_> {
    /// Makes a change, and tries again until the change is acknowledged. Returns `None` if an earlier try may have made the change already.
    fn change(&mut self, method: &str, path: &str, body: &str) -> Option<Value> {
        let (path, mut is_in_doubt) = (format!("/api2/json/access/{path}"), false);
        loop {
            let nth = self.random.below(self.clients.len() as u64) as usize;
            match self.clients[nth].ask(method, &path, &credential(&self.run.admin), body) {
                Some((200, text)) => {
                    return Some(serde_json::from_str::<Value>(&text).unwrap()["data"].take());
                }
                Some((400 | 404, text)) => {
                    assert!(
                        is_in_doubt,
                        "stale: member {nth} does not know an acknowledged change: {method} {path}: {text}"
                    );
                    self.run.counts.in_doubt.fetch_add(1, Ordering::Relaxed);
                    return None;
                }
                Some((503, _)) | None => is_in_doubt = true,
                Some((status, text)) => panic!("member {nth}: {method} {path}: {status} {text}"),
            }
            let is_late = Instant::now() >= self.run.ends + Duration::from_secs(60);
            if is_late || self.run.has_failed.load(Ordering::Relaxed) {
                return None;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn add_token(&mut self, user: &str, name: &str) -> Option<String> {
        let made = self.change("POST", &format!("users/{user}/token/{name}"), "")?;
        Some(format!("{}:{}", made["tokenid"].as_str().unwrap(), made["value"].as_str().unwrap()))
    }

    /// Issues or ends a session at a random member. Tries again until this succeeds. Returns `None` if the run ends earlier, or if an earlier try may
    /// have ended the session already: then no member has acknowledged the end of the session.
    fn session(&mut self, method: &str, subject: Option<&str>) -> Option<String> {
        let parent = &self.run.session;
        let subject = subject.map(|subject| format!("\r\nX-Subject-Token: {subject}")).unwrap_or_default();
        let credential = format!("X-Auth-Token: {parent}{subject}");
        let body = match method {
            "POST" => {
                let identity = json!({ "methods": ["token"], "token": { "id": parent } });
                json!({ "auth": { "identity": identity } }).to_string()
            }
            _ => String::new(),
        };
        let mut is_in_doubt = false;
        loop {
            let nth = self.random.below(self.clients.len() as u64) as usize;
            match self.clients[nth].ask(method, "/v3/auth/tokens", &credential, &body) {
                Some((201 | 204, text)) => return Some(text),
                Some((404, _)) if method == "DELETE" && is_in_doubt => {
                    self.run.counts.in_doubt.fetch_add(1, Ordering::Relaxed);
                    return None;
                }
                Some((503, _)) | None => is_in_doubt = true,
                Some((status, text)) => panic!(
                    "member {nth}: {method} of a session: {status} {text}\n{}",
                    self.run.last_refusals(nth)
                ),
            }
            let is_late = Instant::now() >= self.run.ends + Duration::from_secs(60);
            if is_late || self.run.has_failed.load(Ordering::Relaxed) {
                return None;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Gives a permission and revokes it. Returns `None` if it is not known whether a change was made.
    fn give_and_take(&mut self, kind: Kind, own: &str, login: &str, nth: u64) -> Option<()> {
        let (mut path, mut refusal, mut used) = ("/whoami", 401, login.to_owned());
        let user = format!("{own}-{nth}@local");
        // Only the token's role changes. The user always has the role.
        let of_role = format!("path=/access/users&role=Audit&auth-id={}", login.split(':').next().unwrap());
        let of_own = format!("users/{own}@local");
        match kind {
            Kind::Token => used = self.add_token(&format!("{own}@local"), &format!("t{nth}"))?,
            Kind::Role => {
                (path, refusal) = ("/api2/json/access/users/admin@local", 403);
                self.change("PUT", "acl", &of_role)?;
            }
            Kind::Disabled => drop(self.change("PUT", &of_own, "enable=1")?),
            Kind::User => {
                self.change("POST", "users", &format!("userid={user}"))?;
                used = self.add_token(&user, "t")?;
            }
            Kind::Session => {
                (path, used) = ("/v3/auth/projects", self.session("POST", None)?);
            }
        }
        let (state, taken) = (AtomicU8::new(GIVEN), AtomicU64::new(0));
        let permission = Arc::new(Permission { login: used, path: path.to_owned(), refusal, state, taken });
        self.run.permissions.lock().unwrap().push(Arc::clone(&permission));
        std::thread::sleep(Duration::from_millis(self.random.below(40)));
        permission.state.store(IN_DOUBT, Ordering::SeqCst);
        match kind {
            Kind::Token => self.change("DELETE", &format!("users/{own}@local/token/t{nth}"), "")?,
            Kind::Role => self.change("PUT", "acl", &format!("{of_role}&delete=1"))?,
            Kind::Disabled => self.change("PUT", &of_own, "enable=0")?,
            Kind::User => self.change("DELETE", &format!("users/{user}"), "")?,
            Kind::Session => self.session("DELETE", Some(&permission.login)).map(Value::from)?,
        };
        permission.taken.store(self.run.millis(), Ordering::SeqCst);
        permission.state.store(TAKEN, Ordering::SeqCst);
        self.run.counts.taken.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(self.random.below(40)));
        if matches!(kind, Kind::Role | Kind::Disabled) {
            // The permission is given again.
            permission.state.store(IN_DOUBT, Ordering::SeqCst);
        }
        Some(())
    }
}

fn write(run: &Run, writer: u64) {
    let _ends = Ends(run);
    let clients = (0..run.addresses.len()).map(|member| Client::new(&run.addresses[member])).collect();
    let mut writer_of = Writer { run, clients, random: Random(seed() + 200 + writer) };
    let kind = KINDS[writer as usize % KINDS.len()];
    let own = format!("w{writer}");
    writer_of.change("POST", "users", &format!("userid={own}@local"));
    writer_of.change("PUT", "acl", &format!("path=/access/users&role=Audit&auth-id={own}@local"));
    let mut login = None;
    for nth in 0.. {
        if run.is_over() {
            return;
        }
        login = login.or_else(|| writer_of.add_token(&format!("{own}@local"), &format!("own{nth}")));
        if let Some(login) = &login {
            let _ = writer_of.give_and_take(kind, &own, login, nth);
        }
    }
}

/// A pause, which ends early if the run ends.
fn pause(run: &Run, millis: u64) {
    let left = run.ends.saturating_duration_since(Instant::now());
    std::thread::sleep(left.min(Duration::from_millis(millis)));
}

/// Servers stop, are killed and start again. Their connections to etcd are interrupted or slow.
fn disturb_members(
    run: &Run,
    servers: &mut [Server],
    relays: &[Vec<Relay>],
    (etcd, clocks): (&[Vec<String>], &Clocks),
    disk: Option<&Disk>,
) {
    let mut random = Random(seed());
    let mut names: Vec<String> = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
    // The test is too short to replace a member.
    let kinds = if servers.len() > 3 { 8 } else { 7 };
    let mut member = 0;
    while !run.is_over() {
        // The same member is often chosen again.
        if random.below(3) != 0 {
            member = random.below(servers.len() as u64) as usize;
        }
        let most = [900, 4_000][random.below(2) as usize];
        let millis = random.below(most);
        let (server, of_etcd) = (&mut servers[member], random.below(MACHINES as u64) as usize);
        let directions = [&[0, 1][..], &[0], &[1]][random.below(3) as usize];
        let cut = |relays: &[Relay], holds: bool| {
            for relay in relays {
                directions.iter().for_each(|direction| relay.both()[*direction].hold(holds));
            }
        };
        match random.below(kinds) {
            // The first member is never replaced, because it follows the edited files.
            7 if member > 0 && !disk.is_some_and(|disk| disk.is_of(member)) => {
                replace(run, servers, member, &mut names, (etcd, clocks))
            }
            5 => {
                let off = random.below(2 * CLOCK_OFF + 1) as i64 - CLOCK_OFF as i64;
                clocks.set(member, off);
            }
            // Without an answer from etcd, the command changes nothing.
            6 => {
                let rotated = server.cli_output_with(&[KEYS_MAX], &["keys", "rotate"], "");
                run.counts.rotations.fetch_add(u64::from(rotated.status.success()), Ordering::Relaxed);
            }
            0 => {
                cut(&relays[member], true);
                pause(run, millis);
                cut(&relays[member], false);
            }
            1 => {
                cut(&relays[member][of_etcd..=of_etcd], true);
                pause(run, millis);
                cut(&relays[member][of_etcd..=of_etcd], false);
            }
            2 => {
                // The delays of all directions together are below 0.4 s, because a member waits no longer than 0.4 s for an answer.
                let most = random.below(380 / directions.len() as u64);
                let delay = |millis| {
                    let relays = relays[member].iter().map(Relay::both);
                    let slow =
                        relays.flat_map(|both| directions.iter().map(move |direction| both[*direction]));
                    slow.for_each(|direction| direction.delay(Duration::from_millis(millis)));
                };
                delay(most);
                pause(run, millis);
                // Data in transit does not arrive any more.
                cut(&relays[member], true);
                pause(run, 1_000 + random.below(600));
                cut(&relays[member], false);
                delay(0);
            }
            3 => {
                signal("STOP", server.pid());
                pause(run, millis);
                signal("CONT", server.pid());
            }
            _ => {
                server.stop();
                pause(run, millis);
                let _free = disk.and_then(|disk| disk.is_free(member));
                server.start_again_with(&clocks.environment(member));
                run.addresses[member].lock().unwrap().clone_from(&server.plain);
            }
        }
        run.counts.faults.fetch_add(1, Ordering::Relaxed);
        pause(run, random.below(1_500));
    }
}

/// Expels a member, and lets another machine join in its place. Repeats each command until etcd answers.
fn replace(
    run: &Run,
    servers: &mut [Server],
    member: usize,
    names: &mut [String],
    (etcd, clocks): (&[Vec<String>], &Clocks),
) {
    let name = format!("{}x", names[member]);
    let (expelled, other) =
        (std::mem::replace(&mut names[member], name.clone()), (member + 1) % servers.len());
    servers[member].stop();
    let repeated = |arguments: &[&str], done: &str| {
        while !run.is_over() {
            let output = servers[other].cli_output(arguments, "");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            if output.status.success() || said.contains(done) {
                return;
            }
            pause(run, 100);
        }
    };
    repeated(&["fleet", "expel", &expelled], "has no member");
    let place = Scratch::new();
    for nth in 0.. {
        if run.is_over() {
            return;
        }
        let invitation = place.path().join(nth.to_string());
        let file = invitation.to_str().unwrap();
        repeated(&["fleet", "invite", &name, file], "exists already");
        let data = place.path().join(format!("data{nth}"));
        std::fs::create_dir(&data).unwrap();
        if run_on(&data, &["fleet", "join", file], None).status.success() {
            configure(&data, &etcd[member], &name);
            servers[member] =
                Server::start_on(|into| std::fs::rename(&data, into).unwrap(), &clocks.environment(member));
            run.addresses[member].lock().unwrap().clone_from(&servers[member].plain);
            *run.places[member].lock().unwrap() = servers[member].data();
            run.counts.replaced.fetch_add(1, Ordering::Relaxed);
            return;
        }
        pause(run, 100);
    }
}

/// Machines of etcd stop, are killed and start again; another machine becomes the leader; the history is compacted.
fn disturb_etcd(run: &Run, machines: &mut [Etcd]) {
    let mut random = Random(seed() + 1);
    while !run.is_over() {
        pause(run, 1_000 + random.below(4_000));
        let machine = &mut machines[random.below(MACHINES as u64) as usize];
        let millis = random.below(3_000);
        match random.below(4) {
            0 => {
                machine.signal("-STOP");
                pause(run, millis);
                machine.signal("-CONT");
            }
            1 => {
                machine.kill();
                pause(run, millis);
                machine.start_again();
            }
            2 => {
                let status = machine.try_control(&["endpoint", "status", "--write-out", "json"]);
                let status: Value = serde_json::from_slice(&status.stdout).unwrap_or_default();
                // Only the leader can transfer its role, so most attempts fail.
                let id = &status[0]["Status"]["header"]["member_id"];
                for other in machines.iter() {
                    let _ = other.try_control(&["move-leader", &format!("{:x}", id.as_u64().unwrap_or(0))]);
                }
            }
            _ => {
                let status = machine.try_control(&["endpoint", "status", "--write-out", "json"]);
                let status: Value = serde_json::from_slice(&status.stdout).unwrap_or_default();
                let revision = status[0]["Status"]["header"]["revision"].as_u64().unwrap_or(0);
                let _ = machine.try_control(&["compact", &revision.to_string()]);
                let _ = machine.try_control(&["defrag"]);
            }
        }
        run.counts.faults.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn no_member_grants_what_was_revoked_while_everything_fails() {
    let seconds = number(SMOKE);
    let members = if seconds > SMOKE { 4 } else { 3 };
    let mut machines = Etcd::start_machines(MACHINES);
    let urls = |relays: &[Relay]| relays.iter().map(|relay| format!("http://{}", relay.address)).collect();
    let relays: Vec<Vec<Relay>> = (0..members)
        .map(|_| machines.iter().map(|one| Relay::to(one.address.trim_start_matches("http://"))).collect())
        .collect();
    let etcd: Vec<Vec<String>> = relays.iter().map(|relays| urls(relays)).collect();
    let clocks = Clocks::new(members);
    let mut servers = Fleet::of_servers_with(&etcd, |member| clocks.environment(member));
    servers[members - 1].stop();
    let disk = Disk::of(members - 1, &servers[members - 1]);
    servers[members - 1].start_again_with(&clocks.environment(members - 1));
    let set = ["user", "passwd", "admin@local", "--password-stdin"];
    assert!(servers[0].cli_output(&set, &format!("{PASSWORD}\n")).status.success());
    let run = Run {
        session: log_in(&servers[0], PASSWORD).1,
        admin: servers[0].add_token("admin@local!nemesis"),
        addresses: servers.iter().map(|server| Mutex::new(server.plain.clone())).collect(),
        places: servers.iter().map(|server| Mutex::new(server.data())).collect(),
        permissions: Mutex::default(),
        counts: Counts::default(),
        began: Instant::now(),
        ends: Instant::now() + Duration::from_secs(seconds),
        has_failed: AtomicBool::new(false),
    };
    std::thread::scope(|scope| {
        let (run, relays, clocks) = (&run, &relays, &clocks);
        (0..members).for_each(|member| drop(scope.spawn(move || check(run, member))));
        (0..WRITERS).for_each(|writer| drop(scope.spawn(move || write(run, writer))));
        scope.spawn(|| disturb_members(run, &mut servers, relays, (&etcd, clocks), disk.as_ref()));
        disk.iter().for_each(|disk| drop(scope.spawn(move || disk.fill(run))));
        scope.spawn(|| disturb_etcd(run, &mut machines));
        scope.spawn(|| files::write_and_read(run));
    });
    // All members become current again, and answer alike about every permission. A member with different records does not become current.
    for (member, server) in servers.iter().enumerate() {
        let within = Duration::from_secs(60);
        wait_until(within, &format!("member {member} becomes current"), || ready(server) == 200);
        assert_eq!(metric(server, "enfilade_fleet_changes_behind"), 0.0);
    }
    let permissions = run.permissions.lock().unwrap();
    for member in 0..members {
        let mut client = Client::new(&run.addresses[member]);
        for permission in permissions.iter() {
            let state = permission.state.load(Ordering::SeqCst);
            let (status, body) =
                client.ask("GET", &permission.path, &credential(&permission.login), "").unwrap();
            let id = permission.login.split(':').next().unwrap();
            assert!(
                state != TAKEN || status == permission.refusal,
                "stale: member {member}, {id}: {status} {body}"
            );
            assert!(state != GIVEN || status == 200, "lost: member {member}, {id}: {status} {body}");
        }
    }
    let Counts { granted, refused, not_current, taken, in_doubt, faults, .. } = &run.counts;
    let Counts { replaced, rotations, files_read, files_refused, full, .. } = &run.counts;
    let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
    println!(
        "nemesis: {}, {} checks at {members} members ({} granted, {} refused, {} without a proof), {} revocations acknowledged, {} changes in doubt, {} faults, \
         {} members replaced, {} rotations of keys, {} times a full disk, {} files read and {} refused after a confirmed change; 0 stale, 0 lost, 0 diverged",
        Etcd::version(),
        of(granted) + of(refused) + of(not_current),
        of(granted),
        of(refused),
        of(not_current),
        of(taken),
        of(in_doubt),
        of(faults),
        of(replaced),
        of(rotations),
        of(full),
        of(files_read),
        of(files_refused)
    );
    assert!(
        [granted, refused, not_current, taken, faults, files_read, files_refused]
            .iter()
            .all(|count| of(count) > 0)
    );
}
