//! Compares `GET /v3/auth/tokens` over TLS with the smallest response of the server: without revocations, with a million revocations, and while new
//! revocations are committed.

use super::cloud::{self, Cloud};
use crate::Failure;
use crate::goals::Goal;
use crate::report::Report;
use crate::samples::Samples;
use crate::scratch::Scratch;
use crate::served::Server;
use crate::stopwatch::now;
use crate::stores::{self, audit};
use enfilade_facts::{Change, Source};
use enfilade_sources::lmdb::Lmdb;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const PAIRS: usize = 15;
/// The number of pairs of turns for `grown-pairs`. The limit is near 1, so the interval must be narrow.
const GROWN_PAIRS: usize = 121;
const CONNECTIONS: usize = 4;
/// The number of revocations that are committed per second.
const ARRIVING: u64 = 100;
/// The number of requests on each connection in a turn.
const EACH: usize = 2_500;
/// The numbers of users of the small and of the large cloud. The large cloud has as many revocations as users.
const USERS: (u64, u64) = (100, 1_000_000);

pub(super) fn goals() -> Vec<Goal> {
    let (few, many) = USERS;
    let turns_of = |pairs: usize| {
        format!(
            "The real server over TLS, a catalog of {} endpoints. {pairs} pairs of turns; in a turn {CONNECTIONS} connections send {EACH} requests \
             each, one after the other",
            cloud::SERVICES * 3
        )
    };
    let turns = turns_of(PAIRS);
    let one = |cloud: &str| {
        format!(
            "{turns}. {cloud}. The same token in each request; the smallest answer is `/.well-known/enfilade`"
        )
    };
    let large = format!("{many} users, {many} revocations");
    let arriving = format!(
        "{turns}. {large}. The same token in each request; in every second turn another process commits {ARRIVING} revocations a second"
    );
    let validation = "CPU time to validate a session's token";
    let smallest = "CPU time of the server's smallest answer";
    vec![
        Goal::new(
            "validate",
            2.5,
            "times",
            format!("{validation} with {few} users, divided by {smallest}"),
            one(&format!("{few} users, no revocations")),
        ),
        Goal::new(
            "validate-many",
            2.5,
            "times",
            format!("{validation} with {many} users and as many revocations, divided by {smallest}"),
            one(&format!("{large}; the smallest answer is of a server with {few} users")),
        ),
        Goal::new(
            "grown-pairs",
            1.05,
            "times",
            format!(
                "{validation} with {many} users and as many revocations, divided by CPU time with {few} users and no revocations"
            ),
            format!(
                "{}. {large}; and {few} users, no revocations. The same token in each request",
                turns_of(GROWN_PAIRS)
            ),
        ),
        Goal::new(
            "arriving",
            1.2,
            "times",
            format!(
                "{validation} while revocations are committed, divided by CPU time while none are committed"
            ),
            arriving,
        ),
    ]
}

/// A server with a cloud, and the requests to this server.
pub(crate) struct Served {
    pub(crate) server: Server,
    /// The directory of the server's facts.
    pub(crate) facts: PathBuf,
    smallest: Vec<Vec<u8>>,
    /// The request that validates one token.
    pub(crate) validate: Vec<Vec<u8>>,
    many: Vec<Vec<u8>>,
}

pub(super) fn run(report: &mut Report, scratch: &Scratch, small: bool) -> Result<(), Failure> {
    let (many, each) = if small { (10_000, 500) } else { (USERS.1, EACH) };
    let few = serve(scratch, USERS.0, 0, |_| Ok(()))?;
    let large = serve(scratch, many, many, |_| Ok(()))?;
    for served in [&few, &large] {
        served.server.load(&served.smallest, CONNECTIONS, each)?;
        served.server.load(&served.many, CONNECTIONS, served.many.len())?;
        served.server.load(&served.validate, CONNECTIONS, each)?;
    }
    let turn = |served: &Served, requests: &[Vec<u8>]| -> Result<f64, Failure> {
        let before = served.server.cpu_nanos()?;
        served.server.load(requests, CONNECTIONS, each)?;
        Ok((served.server.cpu_nanos()? - before) / (each * CONNECTIONS) as f64 / 1e3)
    };
    let mut samples: [Samples; 4] = std::array::from_fn(|_| Samples::default());
    let [smallest, at_few, at_many, distinct] = &mut samples;
    let both = |pair: usize| -> Result<(f64, f64), Failure> {
        if pair.is_multiple_of(2) {
            return Ok((turn(&few, &few.validate)?, turn(&large, &large.validate)?));
        }
        let much = turn(&large, &large.validate)?;
        Ok((turn(&few, &few.validate)?, much))
    };
    for pair in 0..PAIRS {
        let nothing = turn(&few, &few.smallest)?;
        let (little, much) = both(pair)?;
        smallest.push(nothing);
        at_few.push(little);
        at_many.push(much);
        distinct.push(turn(&large, &large.many)?);
        eprintln!(
            "pair {} of {PAIRS}: smallest answer {nothing:.1} µs; validation {little:.1} µs, \
             in the large cloud {much:.1} µs",
            pair + 1
        );
    }
    report.middle("over TLS, the smallest answer, server CPU", 100, smallest, "µs");
    report.middle("over TLS, a validation with a catalog of 30 endpoints, server CPU", 100, at_few, "µs");
    report.middle("over TLS, a validation with a catalog of 30 endpoints, server CPU", many, at_many, "µs");
    report.middle("the same, of a thousand tokens in turn", many, distinct, "µs");
    report.goal("validate", at_few.over(smallest).mean());
    report.goal("validate-many", at_many.over(smallest).mean());
    for pair in PAIRS..GROWN_PAIRS {
        let (little, much) = both(pair)?;
        at_few.push(little);
        at_many.push(much);
    }
    let grown = at_many.over(at_few).mean();
    report.estimate("a validation with many revocations to one with none", many, grown, "times");
    report.goal("grown-pairs", grown);
    arriving(report, &large, each, many)
}

/// Measures validations while revocations are committed: of one token again and again, as in Keystone's benchmark, and of a thousand tokens in turn.
fn arriving(report: &mut Report, large: &Served, each: usize, many: u64) -> Result<(), Failure> {
    let lmdb = Lmdb::open(&large.facts)?;
    for (what, requests, is_goal) in
        [("one token", &large.validate, true), ("a thousand tokens in turn", &large.many, false)]
    {
        let mut ratios = Samples::default();
        for pair in 0..PAIRS {
            let quiet = cpu_of(&large.server, requests, each)?;
            let stop = AtomicBool::new(false);
            let busy = std::thread::scope(|scope| {
                let writer = scope.spawn(|| revoke(&lmdb, &stop, many + pair as u64 * 100_000));
                let busy = cpu_of(&large.server, requests, each);
                stop.store(true, Ordering::Relaxed);
                let written =
                    writer.join().map_err(|_| "the writer ended")?.map_err(|why| why.to_string())?;
                busy.map(|busy| (busy, written)).map_err(|why| why.to_string())
            });
            let (busy, rate) = busy?;
            eprintln!(
                "{what}, pair {} of {PAIRS}: {quiet:.1} µs, {busy:.1} µs at {rate:.0} revocations a second",
                pair + 1
            );
            ratios.push(busy / quiet);
        }
        let ratio = ratios.mean();
        let name = format!(
            "{what}: a validation while {ARRIVING} revocations a second arrive, to one while none does"
        );
        report.estimate(&name, many, ratio, "times");
        if is_goal {
            report.goal("arriving", ratio);
        }
    }
    Ok(())
}

fn cpu_of(server: &Server, requests: &[Vec<u8>], each: usize) -> Result<f64, Failure> {
    let before = server.cpu_nanos()?;
    server.load(requests, CONNECTIONS, each)?;
    Ok((server.cpu_nanos()? - before) / (each * CONNECTIONS) as f64 / 1e3)
}

/// Commits [`ARRIVING`] revocations per second. Returns the reached number per second.
fn revoke(lmdb: &Lmdb, stop: &AtomicBool, first: u64) -> Result<f64, String> {
    let began = now();
    let mut n = 0;
    while !stop.load(Ordering::Relaxed) {
        let mut change = Change::new(audit("revoke"));
        change.end(cloud::mark(first + n));
        lmdb.commit(&change).map_err(|why| why.to_string())?;
        n += 1;
        let due = Duration::from_secs_f64(n as f64 / ARRIVING as f64);
        std::thread::park_timeout(due.saturating_sub(began.elapsed()));
    }
    Ok(n as f64 / began.elapsed().as_secs_f64())
}

/// Builds a cloud, lets `furnish` add records to it, and serves it.
pub(crate) fn serve(
    scratch: &Scratch,
    users: u64,
    revocations: u64,
    furnish: impl FnOnce(&Cloud) -> Result<(), Failure>,
) -> Result<Served, Failure> {
    serve_catalog(scratch, users, cloud::SERVICES, revocations, furnish)
}

/// Like [`serve`], but with `services` services in the catalog.
pub(super) fn serve_catalog(
    scratch: &Scratch,
    users: u64,
    services: u64,
    revocations: u64,
    furnish: impl FnOnce(&Cloud) -> Result<(), Failure>,
) -> Result<Served, Failure> {
    let place = scratch.path().join(format!("served-{users}-{services}"));
    std::fs::create_dir_all(&place)?;
    let cloud = Cloud::build(&place.join("facts"), users, services, revocations)?;
    furnish(&cloud)?;
    drop(cloud);
    let data = place.join("data");
    stores::data_directory(&data, &place.join("facts"))?;
    let keys = data.join("keys/fernet");
    std::fs::create_dir(&keys)?;
    for n in [0, 1] {
        std::fs::write(keys.join(n.to_string()), base64url(&cloud::key(n)))?;
    }
    let server = Server::start(&data, &[])?;
    let asker = cloud::token(0, stores::id(15, 0))?;
    let validation = |n: u64| -> Result<Vec<u8>, Failure> {
        let subject = cloud::token(n % 100, stores::id(15, 1 + n))?;
        Ok(request("/v3/auth/tokens", &[("X-Auth-Token", &asker), ("X-Subject-Token", &subject)]))
    };
    let smallest =
        vec![request("/.well-known/enfilade", &[("X-Auth-Token", &asker), ("X-Subject-Token", &asker)])];
    let many = (0..1_000).map(validation).collect::<Result<_, _>>()?;
    Ok(Served { server, facts: data.join("facts"), smallest, validate: vec![validation(0)?], many })
}

pub(super) fn request(path: &str, headers: &[(&str, &str)]) -> Vec<u8> {
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n{headers}\r\n").into_bytes()
}

/// Base64url with padding (RFC 4648 §5). A file with a Fernet key contains the key in this form.
fn base64url(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let digit = |n: u32| char::from(DIGITS.get(n as usize & 63).copied().unwrap_or(b'A'));
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let word =
            three.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        text.extend((0..=three.len()).map(|n| digit(word >> (18 - 6 * n))));
        text.extend(std::iter::repeat_n('=', 3 - three.len()));
    }
    text
}
