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
use std::net::Ipv4Addr;

const ROUNDS: usize = 15;
/// So many that what is remembered of one is gone when it comes again, where four are remembered.
const SESSIONS: usize = 64;

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
            report.goal("revocations-hot", &more("a session that is known"), found.0 - before.0, 300.0, "ns");
            report.goal("revocations-anew", &more("a session judged anew"), found.1 - before.1, 300.0, "ns");
            door(report, &cloud, *revocations, 10)?;
            making(report, &cloud)?;
        }
    }
    http::run(report, &scratch, small)
}

/// A session that is known, and one that is not, in nanoseconds.
fn door(report: &mut Report, cloud: &Cloud, revocations: u64, keys: u32) -> Result<(f64, f64), Failure> {
    let house = cloud.house(64 << 20, keys)?;
    let ask = cloud.session(&house, 0)?;
    let from = Ipv4Addr::LOCALHOST.into();
    let known = || assert!(house.admit_session(std::hint::black_box(&ask), from).is_ok());
    known();
    let one = nanos(ROUNDS, known);
    let name = |what: &str| match keys {
        1 => what.to_owned(),
        keys => format!("{what}, {keys} keys"),
    };
    let hot = report.middle(&name("a session that is known"), revocations, &one, "ns");
    let two: Samples = {
        let mut samples = Samples::default();
        (0..ROUNDS).for_each(|_| samples.push(shared(2, 200_000, |_| known())));
        samples
    };
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
    // The same where nothing is remembered: opened, and judged on the facts.
    let forgetful = cloud.house(1, keys)?;
    let asks: Vec<SessionAsk> =
        (0..SESSIONS).map(|n| cloud.session(&forgetful, n as u64 % 10)).collect::<Result<_, _>>()?;
    let mut turn = asks.iter().cycle();
    let anew = nanos(ROUNDS, || {
        assert!(turn.next().is_some_and(|ask| forgetful.admit_session(ask, from).is_ok()));
    });
    let anew = report.middle(&name("a session judged anew"), revocations, &anew, "ns");
    Ok((hot, anew))
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
