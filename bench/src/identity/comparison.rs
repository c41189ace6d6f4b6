//! Sends the requests of the benchmark to Keystone and to Enfilade, over TLS, in turns.

use super::{ASKS, Peer, spoken};
use crate::Failure;
use crate::fernet::cloud;
use crate::goals::Goal;
use crate::peers::keystone::Keystone;
use crate::report::{Paired, Report};
use crate::samples::Samples;
use crate::scratch::Scratch;
use crate::served::Client;
use std::io::{Read, Write};

/// The number of requests of a sample: to Keystone, and to Enfilade.
const EACH: (u64, u64) = (40, 400);
const PAIRS: usize = 7;
const USERS: u64 = 100;

/// The requests that Keystone and Enfilade get, each with the id of its goal.
const SAME: [(&str, &str); 4] = [
    ("create", "create-beside"),
    ("show", "show-beside"),
    ("by-name", "by-name-beside"),
    ("effective", "effective-beside"),
];

pub(super) fn goals() -> Vec<Goal> {
    let (theirs, ours) = EACH;
    let goal = |(id, goal): (&str, &'static str)| {
        let what = ASKS.iter().find(|(known, ..)| *known == id).map_or("", |(_, what, ..)| what);
        let workload = format!(
            "Keystone with MariaDB and memcached, and the real server, both over TLS with {USERS} users. {PAIRS} pairs of turns; one connection \
             sends {theirs} requests to Keystone and {ours} to Enfilade. The CPU of Keystone's database and memcached does not count"
        );
        Goal::new(
            goal,
            1.0 / 20.0,
            "times",
            format!("{what}: CPU time of Enfilade, divided by CPU time of Keystone's own processes"),
            workload,
        )
    };
    SAME.into_iter().map(goal).collect()
}

pub(super) fn run(
    report: &mut Report,
    scratch: &Scratch,
    peer: &mut Peer,
    scale: u64,
) -> Result<(), Failure> {
    eprintln!("starting Keystone on a database of its own");
    let keystone = Keystone::start(scratch)?;
    keystone.tell(report);
    let [asker, _] = keystone.furnish(0..1)?;
    let mut theirs = keystone.https()?.connect()?;
    let ids = furnish(&mut theirs, &asker)?;
    let (their_each, our_each) = (EACH.0 / scale, EACH.1 / scale);
    for (id, goal) in SAME {
        let Some((_, what, _, ask)) = ASKS.into_iter().find(|(known, ..)| *known == id) else { continue };
        let (mut own, mut behind, mut ours) = (Samples::default(), Samples::default(), Samples::default());
        for pair in 0..PAIRS {
            let before = keystone.cpu()?;
            for n in 0..their_each {
                let (method, mut target, body) = ask(peer, n);
                // In Keystone the users have other ids.
                for (n, id) in (0..USERS).zip(&ids) {
                    target = target.replace(&cloud::user(n).to_string(), id);
                }
                told(&mut theirs, &(method, target, body), &asker)?;
            }
            let after = keystone.cpu()?;
            let each = |before: f64, after: f64| (after - before) / their_each as f64 * 1e6;
            own.push(each(before.0, after.0));
            behind.push(each(before.1, after.1));
            let mut client = peer.server.https.connect()?;
            let token = peer.token.clone();
            let before = peer.server.cpu_nanos()?;
            for n in 0..our_each {
                let asked = ask(peer, n);
                told(&mut client, &asked, &token)?;
            }
            ours.push((peer.server.cpu_nanos()? - before) / our_each as f64 / 1e3);
            eprintln!("{what}, compared with Keystone: {} of {PAIRS}", pair + 1);
        }
        let paired = Paired {
            what: format!("{what}, over TLS, CPU of its own processes"),
            n: USERS,
            unit: "µs",
            ours: &ours,
            peer: "Keystone",
            theirs: &own,
            floor: None,
        };
        report.compare(Some(goal), paired);
        report.middle("the same, CPU of Keystone's database and memcached", USERS, &behind, "µs");
    }
    Ok(())
}

/// Creates users in Keystone, each with a role. Returns their ids.
fn furnish<S: Read + Write>(client: &mut Client<S>, token: &str) -> Result<Vec<String>, Failure> {
    let mut first_id = |path: &str| {
        let text = told(client, &("GET", path.to_owned(), String::new()), token)?;
        id_in(&text).ok_or_else(|| Failure::from(format!("Keystone tells no id: {text}")))
    };
    let role = first_id("/v3/roles?name=reader")?;
    let project = first_id("/v3/projects?name=admin")?;
    let mut ids = Vec::new();
    for n in 0..USERS {
        let body = format!(r#"{{"user":{{"name":"user{n}","domain_id":"default"}}}}"#);
        let text = told(client, &("POST", "/v3/users".to_owned(), body), token)?;
        let id = id_in(&text).ok_or_else(|| format!("Keystone makes no user: {text}"))?;
        let path = format!("/v3/projects/{project}/users/{id}/roles/{role}");
        told(client, &("PUT", path, String::new()), token)?;
        ids.push(id);
    }
    Ok(ids)
}

/// Sends a request that must succeed. Returns the response.
fn told<S: Read + Write>(
    client: &mut Client<S>,
    asked: &(&str, String, String),
    token: &str,
) -> Result<String, Failure> {
    match client.get(&spoken(asked, token))? {
        200 | 201 | 204 => Ok(client.text()),
        status => Err(format!("answered with {status}: {} {}: {}", asked.0, asked.1, client.text()).into()),
    }
}

/// The first id in a response.
fn id_in(text: &str) -> Option<String> {
    let (_, after) = text.split_once(r#""id": ""#).or_else(|| text.split_once(r#""id":""#))?;
    Some(after.split_once('"')?.0.to_owned())
}
