//! Repeats the benchmark with which Keystone's Fernet tokens were first measured, with the same numbers of requests. First there are 200 creations
//! and 200 validations, one after the other. Then there are 1,000 creations and 500 validations on 20 connections. Then there are 4,000 validations
//! on 20 connections, with more and more revocations.

use crate::Failure;
use crate::arrivals::latencies;
use crate::fernet::cloud::{self, Cloud};
use crate::fernet::http::{self, Served};
use crate::report::Report;
use crate::samples::Samples;
use crate::scratch::Scratch;
use crate::stopwatch::now;
use crate::stores::{self, audit};
use enfilade_facts::tables::{Password, User};
use enfilade_facts::vocabulary::Secret;
use enfilade_facts::{Change, Read, Source};
use enfilade_sources::lmdb::Lmdb;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const AT_ONCE: usize = 20;
/// The number of requests at planned times.
const PLANNED: u64 = 4_000;
const PASSWORD: &str = "a password";
/// The numbers of revocations. The last number is larger than in any real cloud.
const REVOCATIONS: [u64; 7] = [0, 100, 500, 1_000, 4_000, 10_000, 100_000];

pub(crate) fn run(report: &mut Report, small: bool) -> Result<(), Failure> {
    let scratch = Scratch::new("keystone-article")?;
    let served = http::serve(&scratch, 100, 0, give_password)?;
    let (by_password, by_token) = (login(true)?, login(false)?);
    let scale = if small { 10 } else { 1 };
    let run =
        |report: &mut Report, what: &str, n: u64, requests: &[Vec<u8>], count: usize, at_once: usize| {
            series(report, &served, what, n, requests, count / scale, at_once)
        };
    // The first login computes the hash of the password; the result is remembered for a minute. So the time of a hash is measured separately.
    let hashes = stores_hash()?;
    report.once("a password's hash", 1, hashes, "ms");
    run(report, "creations by password, one after the other", 200, &by_password, 200, 1)?;
    run(report, "validations, one after the other", 200, &served.validate, 200, 1)?;
    run(report, "creations by password, 20 at once", 1_000, &by_password, 1_000, AT_ONCE)?;
    let (rate, _) = run(report, "creations by token, 20 at once", 1_000, &by_token, 1_000, AT_ONCE)?;
    planned(report, &served, "creations by token", &by_token, rate)?;
    let (rate, _) = run(report, "validations, 20 at once", 500, &served.validate, 500, AT_ONCE)?;
    planned(report, &served, "validations", &served.validate, rate)?;
    let lmdb = Lmdb::open(&served.facts)?;
    let mut there = 0;
    let mut first = None;
    for revocations in REVOCATIONS {
        let mut change = Change::new(audit("revoke"));
        for n in there..revocations {
            change.end(cloud::mark(n));
        }
        if there < revocations {
            lmdb.commit(&change)?;
        }
        there = revocations;
        // After a change that adds many revocations, the first validation builds the server's index of revocations again.
        run(report, "the first validations after that", revocations, &served.validate, 10, 1)?;
        let (_, cpu) = run(
            report,
            "4,000 validations, 20 at once, by revocations",
            revocations,
            &served.validate,
            4_000,
            AT_ONCE,
        )?;
        let before = *first.get_or_insert(cpu);
        report.once("the same, CPU to that with none", revocations, cpu / before, "times");
    }
    Ok(())
}

/// Sends requests on `at_once` connections, each as soon as the previous request on the connection was answered. Reports the requests per second, the
/// mean CPU of a request, and the median time of a request. Returns the requests per second, and the mean CPU of a request in milliseconds.
fn series(
    report: &mut Report,
    served: &Served,
    what: &str,
    n: u64,
    requests: &[Vec<u8>],
    count: usize,
    at_once: usize,
) -> Result<(f64, f64), Failure> {
    let next = AtomicUsize::new(0);
    let before = served.server.cpu_nanos()?;
    let began = now();
    let times = std::thread::scope(|scope| {
        let client = || -> Result<Samples, String> {
            let mut client = served.server.https.connect().map_err(|why| why.to_string())?;
            let mut mine = Samples::default();
            while let Some(turn) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|turn| *turn < count) {
                let began = now();
                answered(client.get(requests.get(turn % requests.len()).ok_or("no request")?), what)?;
                mine.push(began.elapsed().as_secs_f64() * 1e3);
            }
            Ok(mine)
        };
        let running: Vec<_> = (0..at_once).map(|_| scope.spawn(client)).collect();
        let mut all = Samples::default();
        for one in running {
            all.extend(&one.join().map_err(|_| "a client ended")??);
        }
        Ok::<_, String>(all)
    })?;
    let rate = count as f64 / began.elapsed().as_secs_f64();
    let cpu = (served.server.cpu_nanos()? - before) / count as f64 / 1e6;
    report.once(&format!("{what}: a second"), n, rate, "requests/s");
    report.once(&format!("{what}: server CPU of each"), n, cpu, "ms");
    report.middle(&format!("{what}: time in a closed loop"), n, &times, "ms");
    Ok((rate, cpu))
}

/// Sends requests at planned times, at half the rate that the closed loop of [`series`] reached. Reports their latencies.
fn planned(
    report: &mut Report,
    served: &Served,
    what: &str,
    requests: &[Vec<u8>],
    rate: f64,
) -> Result<(), Failure> {
    let clients = (0..AT_ONCE).map(|_| served.server.https.connect()).collect::<Result<Vec<_>, _>>()?;
    let every = Duration::from_secs_f64(2.0 / rate);
    let times = latencies(every, PLANNED, clients, |client, n| {
        answered(client.get(requests.get(n as usize % requests.len()).ok_or("no request")?), what)
    })?;
    report.tail(&format!("{what}, at planned times, half of the rate"), PLANNED, &times, "ms");
    Ok(())
}

fn answered(status: Result<u16, Failure>, what: &str) -> Result<(), String> {
    match status.map_err(|why| why.to_string())? {
        200 | 201 => Ok(()),
        status => Err(format!("{what}: answered with {status}")),
    }
}

fn give_password(cloud: &Cloud) -> Result<(), Failure> {
    let id = cloud::user(0);
    let lmdb = cloud.lmdb();
    let row = lmdb.read(|view| view.get::<User>(&id))??.ok_or("no user")?;
    let secret = Secret::new(PASSWORD.as_bytes()).ok_or("no password")?;
    let mut change = Change::new(audit("a password"));
    change
        .put(&id, &User { password: Some(Password::of(enfilade_identity::hash_password(&secret)?)), ..row });
    lmdb.commit(&change)?;
    Ok(())
}

fn stores_hash() -> Result<f64, Failure> {
    let secret = Secret::new(PASSWORD.as_bytes()).ok_or("no password")?;
    let began = now();
    enfilade_identity::hash_password(&secret)?;
    Ok(began.elapsed().as_secs_f64() * 1e3)
}

/// The request that creates a token for the project.
fn login(by_password: bool) -> Result<Vec<Vec<u8>>, Failure> {
    let identity = match by_password {
        true => format!(
            r#""methods":["password"],"password":{{"user":{{"name":"user0","domain":{{"id":"default"}},"password":"{PASSWORD}"}}}}"#
        ),
        false => format!(r#""methods":["token"],"token":{{"id":"{}"}}"#, cloud::token(0, stores::id(15, 0))?),
    };
    let scope = format!(r#""scope":{{"project":{{"id":"{}"}}}}"#, cloud::PROJECT);
    let body = format!(r#"{{"auth":{{"identity":{{{identity}}},{scope}}}}}"#);
    let head = format!(
        "POST /v3/auth/tokens HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    Ok(vec![format!("{head}{body}").into_bytes()])
}
