//! `kill -9` at any moment: acknowledged changes are kept, and every change is complete or has no effect.
//!
//! `cargo xtask kill-loop --n 2000` is the campaign; the test runs only some rounds. `every_io.rs` tests every single write of a change.

use crate::curl::curl;
use crate::server::{BINARY, Server};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const SMOKE: u64 = 90;
/// The number of writers at the same time.
const WRITERS: u64 = 3;
/// Once in this many rounds, the test also kills the server.
const SERVER_ROUNDS: u64 = 10;
/// The longest time before a kill. A command takes some milliseconds on an idle machine, so most kills happen while it runs.
const KILL_WITHIN_MICROS: u64 = 12_000;
/// The longest time before a kill on a busy machine.
const KILL_WITHIN_MICROS_MAX: u64 = 3_000_000;

pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

enum Attempt {
    Create(String),
    Delete(String),
}

fn spawn(data: &Path, attempt: &Attempt) -> Child {
    let (verb, name) = match attempt {
        Attempt::Create(name) => ("create", name),
        Attempt::Delete(name) => ("delete", name),
    };
    Command::new(BINARY)
        .args(["--json", "--data"])
        .arg(data)
        .args(["token", verb, &format!("admin@local!{name}")])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Tokens that must exist, with their secrets; tokens without an acknowledgement; and tokens that must not exist.
#[derive(Default)]
struct Known {
    there: BTreeMap<String, String>,
    open: BTreeSet<String>,
    gone: BTreeSet<String>,
}

impl Known {
    /// Records the result of an attempt. A complete line of output is an acknowledgement, even if the process was killed afterwards.
    fn learn(&mut self, attempt: Attempt, said: &str) {
        let said: Option<Value> = serde_json::from_str(said).ok();
        match (attempt, said) {
            (Attempt::Create(name), Some(said)) => {
                self.there.insert(name, said["value"].as_str().unwrap().to_owned());
            }
            (Attempt::Delete(name), Some(_)) => drop(self.gone.insert(name)),
            (Attempt::Create(name) | Attempt::Delete(name), None) => drop(self.open.insert(name)),
        }
    }

    fn check(&self, server: &Server) {
        let listed: BTreeSet<String> = server
            .cli(&["token", "list", "admin@local"])
            .iter()
            .map(|token| token["tokenid"].as_str().unwrap().trim_start_matches("admin@local!").to_owned())
            .collect();
        let lost: Vec<_> = self.there.keys().filter(|name| !listed.contains(*name)).collect();
        assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
        let back: Vec<_> = self.gone.intersection(&listed).collect();
        assert!(back.is_empty(), "deleted and back: {back:?}");
        let known = |name: &String| self.there.contains_key(name) || self.open.contains(name);
        let strange: Vec<_> = listed.iter().filter(|name| !known(name)).collect();
        assert!(strange.is_empty(), "nobody made: {strange:?}");
        let checked = server.cli(&["facts", "check"]);
        assert_eq!(checked[0]["sound"], true, "{checked:?}");
    }
}

#[test]
fn whatever_is_killed_what_was_acknowledged_is_there() {
    let number =
        |name: &str, default: u64| std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(default);
    let kills = number("ENFILADE_CAMPAIGN_N", SMOKE);
    let mut random = Random(number("ENFILADE_CAMPAIGN_SEED", 2_463_534_242) | 1);
    let mut server = Server::start();
    let data = server.data();
    let mut known = Known::default();
    let (mut names, mut killed, mut acknowledged) = (0, 0, 0);
    let mut round = 0;
    let mut kill_within = KILL_WITHIN_MICROS;
    // On a busy machine, a command takes longer, and at first most commands are killed before they end.
    while killed < kills || (acknowledged <= kills / 20 && killed < 20 * kills) {
        round += 1;
        let acknowledged_before = acknowledged;
        let attempts: Vec<Attempt> = (0..WRITERS)
            .map(|_| {
                let old = random.below(3) == 0;
                match known.there.keys().next().cloned().filter(|_| old) {
                    Some(name) => {
                        known.there.remove(&name);
                        Attempt::Delete(name)
                    }
                    None => {
                        names += 1;
                        Attempt::Create(format!("t{names}"))
                    }
                }
            })
            .collect();
        let mut children: Vec<Child> = attempts.iter().map(|attempt| spawn(&data, attempt)).collect();
        for child in &mut children {
            std::thread::sleep(Duration::from_micros(random.below(kill_within / WRITERS)));
            killed += u64::from(child.try_wait().unwrap().is_none());
            child.kill().unwrap();
        }
        if round % SERVER_ROUNDS == 0 {
            server.kill_and_restart();
            killed += 1;
        }
        for (attempt, mut child) in attempts.into_iter().zip(children) {
            child.wait().unwrap();
            let mut said = String::new();
            child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
            acknowledged += u64::from(said.ends_with('\n'));
            known.learn(attempt, &said);
        }
        // Commands get more time before the kill until one of them is acknowledged, and less time afterwards.
        kill_within = match acknowledged == acknowledged_before {
            true => (kill_within * 5 / 4).min(KILL_WITHIN_MICROS_MAX),
            false => (kill_within * 4 / 5).max(KILL_WITHIN_MICROS),
        };
        if round % 25 == 0 {
            known.check(&server);
            println!("{killed:>6} of {kills} killed, {acknowledged} changes acknowledged, none lost");
        }
    }
    known.check(&server);
    for (name, secret) in known.there.iter().take(50) {
        let login = format!("admin@local!{name}:{secret}");
        assert_eq!(curl(&server, &login, "/whoami", &[]).status, 200, "{name}");
    }
    println!(
        "kill-loop: {killed} processes killed, {acknowledged} changes acknowledged: 0 lost, 0 half made, 0 undone"
    );
    assert!(acknowledged > kills / 20, "only {acknowledged} changes were acknowledged at all");
}
