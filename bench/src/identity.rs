//! The Identity API in a small cloud and in a large cloud, which has as many users as the largest known cloud. The requests create a user, show a
//! user, find a user by name, list a user's effective roles, and list a page of users. For each, this benchmark measures the server's CPU and the
//! number of reads of the store. For each except the last, it also measures the CPU of Keystone if Keystone is installed. It also measures the cost
//! to list all users and all assignments, and to remove a whole domain.

mod comparison;
mod counted;
mod pages;
mod scale;

pub(crate) use self::scale::{add_projects, project};
use crate::Failure;
use crate::fernet::cloud;
use crate::fernet::http::serve;
use crate::goals::Goal;
use crate::machine::written_bytes;
use crate::peers::keystone;
use crate::report::Report;
use crate::samples::{Estimate, Samples};
use crate::scratch::Scratch;
use crate::served::Server;
use crate::stores;
use std::net::Ipv4Addr;
use std::path::PathBuf;

/// The largest allowed ratio of the CPU in the large cloud to the CPU in the small cloud. The B-tree of facts is two levels deeper in the large
/// cloud.
const GROWS: f64 = 1.5;

/// The size of a cloud. The cloud also has a project for each ten users, and ten assignments for each user.
#[derive(Clone, Copy)]
struct Size {
    users: u64,
    /// Users in a domain that is removed.
    leaving: u64,
}

/// A server with a cloud of the size `size`, and the token of an administrator.
struct Peer {
    size: Size,
    server: Server,
    facts: PathBuf,
    token: String,
    made: u64,
}

/// A function that makes the n-th request of a kind: method, target and body.
type Ask = fn(&mut Peer, u64) -> (&'static str, String, String);

/// The measured requests: id, description, number of requests in a sample, and the function that makes them.
const ASKS: [(&str, &str, u64, Ask); 5] = [
    ("create", "create a user", 400, |peer, _| {
        peer.made += 1;
        let body = format!(r#"{{"user":{{"name":"new{}","domain_id":"default"}}}}"#, peer.made);
        ("POST", "/v3/users".to_owned(), body)
    }),
    ("show", "show a user", 4_000, |_, n| {
        ("GET", format!("/v3/users/{}", cloud::user(n % 100)), String::new())
    }),
    ("by-name", "list users by name and domain", 4_000, |_, n| {
        ("GET", format!("/v3/users?domain_id=default&name=user{}", n % 100), String::new())
    }),
    ("effective", "list all roles of a user, also through groups", 4_000, |_, n| {
        let user = cloud::user(n % 100);
        ("GET", format!("/v3/role_assignments?user.id={user}&effective"), String::new())
    }),
    ("page", "a page of 20 users", 400, |peer, n| {
        let after = cloud::user(n % peer.size.users);
        ("GET", format!("/v3/users?limit=20&marker={after}"), String::new())
    }),
];

const FEW: Size = Size { users: 100, leaving: 100 };
const MANY: Size = Size { users: 1_000_000, leaving: 100_000 };
/// The number of turns of each cloud.
const TURNS: usize = 7;

pub(crate) fn goals() -> Vec<Goal> {
    let clouds = format!(
        "The real server in a cloud of {} users and in one of {}, each with a project for ten users and ten assignments for each user",
        FEW.users, MANY.users
    );
    let probes =
        format!("{clouds}. One request of each of {} kinds: the reads of the store are counted", ASKS.len());
    let mut goals = vec![Goal::new(
        "probes",
        0.0,
        "requests",
        "number of kinds of requests that read the store more often or less often with many users than with few users",
        probes,
    )];
    for (id, what, times, _) in ASKS {
        let workload = format!(
            "{clouds}. {TURNS} pairs of turns without TLS; in a turn one connection sends {times} requests"
        );
        let what = format!(
            "{what}: CPU time of the server with {} users, divided by CPU time with {} users",
            MANY.users, FEW.users
        );
        goals.push(Goal::new(id, GROWS, "times", what, workload));
    }
    goals.extend(comparison::goals());
    goals.extend(scale::goals());
    goals
}

pub(crate) fn run(report: &mut Report, small: bool) -> Result<(), Failure> {
    let (sizes, scale) = match small {
        true => ([FEW, Size { users: 10_000, leaving: 1_000 }], 8),
        false => ([FEW, MANY], 1),
    };
    let scratch = Scratch::new("identity")?;
    let (mut peers, mut probes) = (Vec::new(), Vec::new());
    for size in sizes {
        eprintln!("making a cloud of {} users", size.users);
        let served = serve(&scratch, size.users, 0, |cloud| {
            scale::furnish(cloud, size)?;
            probes.push(counted::probes(cloud, scratch.path(), &requests(size))?);
            Ok(())
        })?;
        let token = cloud::token(0, stores::id(17, 0))?;
        peers.push(Peer { size, token, made: 0, server: served.server, facts: served.facts });
    }
    if let [few, many] = probes.as_slice() {
        for (((_, what, ..), few), many) in ASKS.iter().zip(few).zip(many) {
            report.once(&format!("{what}, looks at the store"), sizes[0].users, *few as f64, "looks");
            report.once(&format!("{what}, looks at the store"), sizes[1].users, *many as f64, "looks");
        }
        let grown = few.iter().zip(many).filter(|(few, many)| few != many).count();
        report.goal("probes", Estimate::once(grown as f64));
    }
    for (id, what, times, ask) in ASKS {
        let mut samples = [Samples::default(), Samples::default()];
        let mut written = [Samples::default(), Samples::default()];
        // The servers take turns, so that noise of the machine affects both.
        for _ in 0..TURNS {
            for ((peer, samples), written) in peers.iter_mut().zip(&mut samples).zip(&mut written) {
                let (process, count) = (peer.server.child.0.id(), times / scale);
                let before = written_bytes(process)?;
                samples.push(peer.cpu_of(count, ask)?);
                written.push((written_bytes(process)? - before) / count as f64 / 1024.0);
            }
        }
        for ((peer, samples), written) in peers.iter().zip(&samples).zip(&written) {
            report.middle(&format!("{what}, CPU"), peer.size.users, samples, "µs");
            if id == "create" {
                // If a B-tree has more levels, a change of one record writes more pages.
                let kib =
                    report.middle(&format!("{what}, written to files"), peer.size.users, written, "KiB");
                let floor = pages::written_alone(scratch.path(), kib.value)?;
                let name = format!("{what}: only as many bytes written and synced, CPU");
                report.middle(&name, peer.size.users, &floor, "µs");
            }
        }
        let [few, many] = &samples;
        report.goal(id, many.over(few).mean());
    }
    let missing = keystone::missing();
    match (missing.as_slice(), peers.first_mut()) {
        ([], Some(peer)) => comparison::run(report, &scratch, peer, scale)?,
        _ => report.missing("the same requests to Keystone", keystone::how_to_install(&missing)),
    }
    match peers.pop() {
        Some(large) => scale::run(report, &large),
        None => Ok(()),
    }
}

/// One request of each kind. For each of them, the reads of the store are counted.
fn requests(size: Size) -> Vec<(&'static str, String, String)> {
    let after = cloud::user(50);
    vec![
        ("POST", "/v3/users".into(), r#"{"user":{"name":"counted","domain_id":"default"}}"#.into()),
        ("GET", format!("/v3/users/{}", cloud::user(7)), String::new()),
        ("GET", "/v3/users?domain_id=default&name=user7".into(), String::new()),
        ("GET", format!("/v3/role_assignments?user.id={}&effective", cloud::user(7)), String::new()),
        ("GET", format!("/v3/users?limit={}&marker={after}", 20.min(size.users)), String::new()),
    ]
}

/// A request as bytes of HTTP.
fn spoken((method, target, body): &(&str, String, String), token: &str) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "{method} {target} HTTP/1.1\r\nHost: localhost\r\nX-Auth-Token: {token}\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    [head.into_bytes(), body.clone().into_bytes()].concat()
}

impl Peer {
    /// Microseconds of the server's CPU for each request.
    fn cpu_of(&mut self, times: u64, ask: Ask) -> Result<f64, Failure> {
        // Each sample has a new connection, because the server would close a connection that is idle while the other server is measured.
        let mut client = self.server.connect(Ipv4Addr::LOCALHOST)?;
        let before = self.server.cpu_nanos()?;
        for n in 0..times {
            let asked = ask(self, n);
            let status = client.get(&spoken(&asked, &self.token))?;
            if !matches!(status, 200 | 201) {
                return Err(format!("answered with {status}: {} {}", asked.0, asked.1).into());
            }
        }
        Ok((self.server.cpu_nanos()? - before) / times as f64 / 1e3)
    }
}
