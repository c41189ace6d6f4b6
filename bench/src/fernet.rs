//! Sessions: what a look at one costs, however much was revoked, and what it costs through Keystone's API.

mod cloud;
mod http;

use crate::Failure;
use crate::report::Report;
use crate::scratch::Scratch;
use crate::stopwatch::{Samples, nanos, now, shared};
use cloud::Cloud;
use enfilade_facts::vocabulary::Secret;
use enfilade_identity::{SessionAsk, Wanted};
use enfilade_passage::House;
use std::net::Ipv4Addr;

const ROUNDS: usize = 15;
/// So many that what is remembered of one is gone when it comes again, where four are remembered.
const SESSIONS: usize = 64;
/// So many that are known.
const KNOWN: usize = 1_000;

pub(crate) fn run(report: &mut Report, small: bool) -> Result<(), Failure> {
    let sizes: &[u64] = if small { &[0, 10, 10_000] } else { &[0, 10, 10_000, 1_000_000] };
    let scratch = Scratch::new("fernet")?;
    let mut first = None;
    for revocations in sizes {
        let place = scratch.path().join(format!("facts-{revocations}"));
        let cloud = Cloud::build(&place, 10, *revocations)?;
        let found = door(report, &cloud, *revocations, 1)?;
        let before = *first.get_or_insert(found);
        if revocations == sizes.last().unwrap_or(&0) {
            let more = |what: &str| format!("{what}: what {revocations} revocations add");
            let [known, looked] = [found.known - before.known, found.looked - before.looked];
            report.goal("revocations", &more("a session that is known"), known, 300.0, "ns");
            let what = "a session that is known, after a revocation elsewhere";
            report.goal("revocations-looked", &more(what), looked, 300.0, "ns");
            door(report, &cloud, *revocations, 10)?;
            making(report, &cloud)?;
        }
    }
    http::run(report, &scratch, small)
}

/// In nanoseconds.
#[derive(Clone, Copy)]
struct Door {
    /// A session that is known at this revision.
    known: f64,
    /// One that was at an earlier one: something else was revoked since.
    looked: f64,
}

fn door(report: &mut Report, cloud: &Cloud, revocations: u64, keys: u32) -> Result<Door, Failure> {
    let house = cloud.house(64 << 20, keys)?;
    let from = Ipv4Addr::LOCALHOST.into();
    let asks = |house: &House, count: usize| -> Result<Vec<SessionAsk>, Failure> {
        (0..count).map(|n| cloud.session(house, n as u64 % 10)).collect()
    };
    let known = asks(&house, KNOWN)?;
    let admit =
        |n: usize| assert!(known.get(n % KNOWN).is_some_and(|ask| house.admit_session(ask, from).is_ok()));
    (0..KNOWN).for_each(admit);
    let mut n = 0;
    let one = nanos(ROUNDS, || {
        n += 1;
        admit(n);
    });
    let name = |what: &str| match keys {
        1 => what.to_owned(),
        keys => format!("{what}, {keys} keys"),
    };
    let hot = report.middle(&name("a session that is known"), revocations, &one, "ns");
    let mut two = Samples::default();
    (0..ROUNDS).for_each(|_| two.push(shared(2, 200_000, admit)));
    report.middle(&name("a session that is known, 2 threads"), revocations, &two, "ns");
    if keys == 1 {
        report.goal(
            "door",
            &format!("a session that is known, {revocations} revocations"),
            hot,
            1_000.0,
            "ns",
        );
    }
    // Known before something else was revoked: one look at what was.
    let mut looked = Samples::default();
    for round in 0..ROUNDS as u64 {
        cloud.revoke(revocations + u64::from(keys) * 1_000 + round)?;
        // The first brings the index up.
        admit(0);
        let began = now();
        (1..KNOWN).for_each(admit);
        looked.push(began.elapsed().as_nanos() as f64 / (KNOWN - 1) as f64);
    }
    let what = name("a session that is known, after a revocation elsewhere");
    let looked = report.middle(&what, revocations, &looked, "ns");
    // The same where nothing is remembered: opened, and judged on the facts.
    let forgetful = cloud.house(1, keys)?;
    let asks = asks(&forgetful, SESSIONS)?;
    let mut turn = asks.iter().cycle();
    let anew = nanos(ROUNDS, || {
        assert!(turn.next().is_some_and(|ask| forgetful.admit_session(ask, from).is_ok()));
    });
    report.middle(&name("a session judged anew"), revocations, &anew, "ns");
    Ok(Door { known: hot, looked })
}

fn making(report: &mut Report, cloud: &Cloud) -> Result<(), Failure> {
    let house = cloud.house(64 << 20, 2)?;
    let ask = cloud.session(&house, 0)?;
    let from = Ipv4Addr::LOCALHOST.into();
    let wanted = Wanted::Scope(cloud.scope());
    let made = nanos(ROUNDS, || {
        let visit = house.admit_session(&ask, from);
        let made =
            visit.map(|mut visit| cloud::at_once(visit.issue(wanted)).is_some_and(|made| made.is_ok()));
        assert!(made.is_ok_and(|made| made));
    });
    report.middle("a session made of another", 1, &made, "ns");
    let password = Secret::new(b"a password").ok_or("no password")?;
    let mut samples = Samples::default();
    for _ in 0..11 {
        let began = now();
        enfilade_identity::hash_password(&password)?;
        samples.push(began.elapsed().as_secs_f64() * 1e3);
    }
    report.middle("a session by password: the hash (argon2id), once a minute", 1, &samples, "ms");
    Ok(())
}
