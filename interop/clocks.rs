//! The wall clock is set forward and back while a server runs, by seconds and by days. Revoked sessions stay revoked at every setting of the clock,
//! and a new session is valid immediately.

use crate::command::preload;
use crate::gone::{Cloud, enabled, project};
use crate::server::{Scratch, Server, WITHOUT_PENALTIES};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// After this time, a server has noticed that its clock was set.
const NOTICED: Duration = Duration::from_millis(150);

struct Clock {
    path: PathBuf,
    _scratch: Scratch,
}

impl Clock {
    fn new() -> Self {
        let scratch = Scratch::new();
        let path = scratch.path().join("ahead");
        std::fs::write(&path, [0; 8]).unwrap();
        Clock { path, _scratch: scratch }
    }

    fn environment(&self) -> [(&str, &str); 3] {
        let library = preload().to_str().unwrap();
        [("LD_PRELOAD", library), ("CLOCK_AHEAD", self.path.to_str().unwrap()), WITHOUT_PENALTIES]
    }

    /// Sets the clock this many seconds ahead of the right time.
    fn set(&self, ahead: i64) {
        use std::os::unix::fs::FileExt as _;
        let file = std::fs::File::options().write(true).open(&self.path).unwrap();
        file.write_all_at(&ahead.to_le_bytes(), 0).unwrap();
        std::thread::sleep(NOTICED);
    }
}

struct World {
    clock: Clock,
    cloud: Cloud,
    domain: String,
    user: String,
    project: String,
    of_user: String,
    of_group: String,
    in_group: String,
}

/// Each way to end a session of the user for the project.
const KINDS: [&str; 11] = [
    "token",
    "chain",
    "user disabled",
    "password",
    "user revoked",
    "role",
    "role of a group",
    "group",
    "project disabled",
    "project revoked",
    "domain disabled",
];

impl World {
    fn start() -> Self {
        let clock = Clock::new();
        let cloud = Cloud::on(Server::start_with(&clock.environment()));
        let domain = cloud.make("domain", json!({ "name": "tenant" }));
        let user = json!({ "name": "ann", "password": "anns", "domain_id": domain });
        let user = cloud.make("user", user);
        let project = cloud.make("project", json!({ "name": "work", "domain_id": domain }));
        let group = cloud.make("group", json!({ "name": "crew", "domain_id": domain }));
        let (member, reader) = (cloud.role("member"), cloud.role("reader"));
        let of_user = format!("/v3/projects/{project}/users/{user}/roles/{member}");
        let of_group = format!("/v3/projects/{project}/groups/{group}/roles/{reader}");
        let in_group = format!("/v3/groups/{group}/users/{user}");
        for path in [&of_user, &of_group, &in_group] {
            cloud.change("PUT", path, &Value::Null);
        }
        World { clock, cloud, domain, user, project, of_user, of_group, in_group }
    }

    fn login(&self) -> String {
        let token = self.cloud.login("ann", &self.domain, "anns", project("work", &self.domain)).unwrap();
        assert!(self.cloud.stands(&token).is_some(), "a new session is good at once");
        token
    }

    fn run(&self, arguments: &[&str], input: &str) {
        let output = self.cloud.server.cli_output_with(&self.clock.environment(), arguments, input);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn end(&self, kind: &str, token: &str) {
        let disable = |what: &str, id: &str| {
            for is_so in [false, true] {
                self.cloud.change("PATCH", &format!("/v3/{what}s/{id}"), &enabled(what, is_so));
            }
        };
        let take = |path: &str| {
            self.cloud.change("DELETE", path, &Value::Null);
            self.cloud.change("PUT", path, &Value::Null);
        };
        match kind {
            "token" => self.run(&["revoke", "token", "-"], token),
            "chain" => self.run(&["revoke", "chain", "-"], token),
            "user disabled" => disable("user", &self.user),
            "password" => {
                let body = json!({ "user": { "password": "anns" } });
                self.cloud.change("PATCH", &format!("/v3/users/{}", self.user), &body);
            }
            "user revoked" => self.run(&["revoke", "user", "ann@tenant"], ""),
            "role" => take(&self.of_user),
            "role of a group" => take(&self.of_group),
            "group" => take(&self.in_group),
            "project disabled" => disable("project", &self.project),
            "project revoked" => self.run(&["revoke", "project", "work@tenant"], ""),
            _ => disable("domain", &self.domain),
        }
    }
}

/// Sets the clock back by a minute and makes a revocation of each kind. The session ends, and stays invalid when the clock is right again.
#[test]
fn a_clock_that_is_set_back_loses_no_revocation() {
    let world = World::start();
    for kind in KINDS {
        world.clock.set(0);
        let token = world.login();
        world.clock.set(-60);
        assert!(world.cloud.stands(&token).is_some(), "{kind}");
        world.end(kind, &token);
        assert!(world.cloud.stands(&token).is_none(), "{kind}");
        let new = world.login();
        world.clock.set(0);
        assert!(world.cloud.stands(&token).is_none(), "{kind}: the clock is right again");
        assert!(world.cloud.stands(&new).is_some(), "{kind}");
    }
}

/// In each round: sets the clock, issues a session, sets the clock, revokes, sets the clock. The lifetime of tokens is longer than any error of the
/// clock, so no token expires during the test.
#[test]
fn clocks_that_are_set_at_random_bring_no_session_back() {
    let rounds = std::env::var("ENFILADE_CAMPAIGN_N").ok().and_then(|n| n.parse().ok()).unwrap_or(10_usize);
    let seed = std::env::var("ENFILADE_CAMPAIGN_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(7_u64);
    let mut state = seed;
    let mut roll = |sides: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % sides
    };
    let world = World::start();
    let (mut over, mut steps) = (Vec::<(&str, String)>::new(), 0_u64);
    let mut back = 0;
    for round in 0..rounds {
        let mut step = |roll: &mut dyn FnMut(u64) -> u64| {
            let most = [3, 90, 1_500][roll(3) as usize];
            world.clock.set(roll(2 * most + 1) as i64 - most as i64);
            steps += 1;
        };
        step(&mut roll);
        let token = world.login();
        if roll(4) != 0 {
            step(&mut roll);
        }
        let kind = KINDS[(round + roll(2) as usize) % KINDS.len()];
        world.end(kind, &token);
        over.push((kind, token));
        let new = world.login();
        step(&mut roll);
        assert!(
            world.cloud.stands(&new).is_some(),
            "{kind}: a new session is valid even if the clock is wrong"
        );
        // Checks the session that ended last, and some of the other sessions.
        for n in 0..over.len().min(4) {
            let at = if n == 0 { over.len() - 1 } else { roll(over.len() as u64) as usize };
            if world.cloud.stands(&over[at].1).is_some() {
                println!("round {round}: valid again after this revocation: {}", over[at].0);
                back += 1;
            }
        }
    }
    for ahead in [0, -1_500, 1_500] {
        world.clock.set(ahead);
        let is_back = |(kind, token): &&(&str, String)| {
            let is_so = world.cloud.stands(token).is_some();
            if is_so {
                println!("at the end, clock {ahead} s ahead: valid again after this revocation: {kind}");
            }
            is_so
        };
        back += over.iter().rev().take(100).filter(is_back).count();
    }
    println!("{rounds} revocations, the clock set {steps} times, {back} sessions that came back");
    assert_eq!(back, 0);
}
