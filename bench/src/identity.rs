//! The Identity API at a hundred users and at a million: what creating one, showing one, finding one by name and listing the effective roles of one take of the
//! server's CPU.

use crate::Failure;
use crate::fernet::cloud::{self, Cloud};
use crate::fernet::http::serve;
use crate::report::Report;
use crate::scratch::Scratch;
use crate::served::Server;
use crate::stopwatch::Samples;
use crate::stores;
use std::net::Ipv4Addr;

/// How much of it may grow from the one to the other: the tree of facts is two levels deeper.
const GROWS: f64 = 1.5;

/// Both sizes, and what is asked of each.
struct Size {
    users: [u64; 2],
    reads: u64,
    writes: u64,
}

/// A server with so many users, and somebody who may everything.
struct Peer {
    users: u64,
    server: Server,
    token: String,
    made: u64,
}

pub(crate) fn run(report: &mut Report, small: bool) -> Result<(), Failure> {
    let size = match small {
        true => Size { users: [100, 10_000], reads: 500, writes: 50 },
        false => Size { users: [100, 1_000_000], reads: 4_000, writes: 400 },
    };
    let scratch = Scratch::new("identity")?;
    let mut peers = Vec::new();
    for users in size.users {
        eprintln!("making a cloud of {users} users");
        let served = serve(&scratch, users, 0, |_: &Cloud| Ok(()))?;
        peers.push(Peer {
            users,
            token: cloud::token(0, stores::id(17, 0))?,
            made: 0,
            server: served.server,
        });
    }
    let asks: [(&'static str, &str, u64, Ask); 5] = [
        ("create", "create a user", size.writes, create),
        ("show", "show a user", size.reads, |peer, n| {
            Ok(peer.get(&format!("/v3/users/{}", cloud::user(n % 100))))
        }),
        ("by-name", "list users by name and domain", size.reads, |peer, n| {
            Ok(peer.get(&format!("/v3/users?domain_id=default&name=user{}", n % 100)))
        }),
        ("effective", "effective assignments of a user", size.reads, |peer, n| {
            Ok(peer.get(&format!("/v3/role_assignments?user.id={}&effective", cloud::user(n % 100))))
        }),
        ("page", "a page of 20 users", size.reads / 10, |peer, n| {
            let after = cloud::user(n % peer.users);
            Ok(peer.get(&format!("/v3/users?limit=20&marker={after}")))
        }),
    ];
    for (id, what, times, ask) in asks {
        let mut samples = [Samples::default(), Samples::default()];
        // In turns, so that a noisy moment meets both.
        for _ in 0..7 {
            for (peer, samples) in peers.iter_mut().zip(&mut samples) {
                samples.push(peer.cpu_of(times, ask)?);
            }
        }
        let each: Vec<f64> = peers
            .iter()
            .zip(&samples)
            .map(|(peer, samples)| report.middle(&format!("{what}, CPU"), peer.users, samples, "µs"))
            .collect();
        if let [few, many] = each.as_slice() {
            report.goal(id, &format!("{what}, many users to few"), many / few, GROWS, "times");
        }
    }
    Ok(())
}

/// A request, for the n-th time.
type Ask = fn(&mut Peer, u64) -> Result<Vec<u8>, Failure>;

fn create(peer: &mut Peer, _: u64) -> Result<Vec<u8>, Failure> {
    peer.made += 1;
    let body = format!(r#"{{"user":{{"name":"new{}","domain_id":"default"}}}}"#, peer.made);
    let (token, length) = (&peer.token, body.len());
    let head = format!(
        "POST /v3/users HTTP/1.1\r\nHost: localhost\r\nX-Auth-Token: {token}\r\nContent-Length: {length}\r\n\r\n"
    );
    Ok([head.into_bytes(), body.into_bytes()].concat())
}

impl Peer {
    fn get(&self, path: &str) -> Vec<u8> {
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nX-Auth-Token: {}\r\n\r\n", self.token).into_bytes()
    }

    /// Microseconds of the server's CPU for each.
    fn cpu_of(&mut self, times: u64, ask: Ask) -> Result<f64, Failure> {
        // One that waited for the other server would be closed.
        let mut client = self.server.connect(Ipv4Addr::LOCALHOST)?;
        let before = self.server.cpu_nanos();
        for n in 0..times {
            let request = ask(self, n)?;
            match client.get(&request)? {
                200 | 201 => {}
                status => {
                    return Err(
                        format!("answered with {status}: {}", String::from_utf8_lossy(&request)).into()
                    );
                }
            }
        }
        Ok((self.server.cpu_nanos() - before) / times as f64 / 1e3)
    }
}
