//! Sessions: the cost to check one, with few and with many revocations, in process and through Keystone's API.

mod comparison;
pub(crate) mod cloud;
pub(crate) mod http;

use crate::Failure;
use crate::peers;
use crate::report::Report;
use crate::scratch::Scratch;
use crate::stopwatch::{Samples, nanos, now, shared};
use crate::stores;
use cloud::Cloud;
use enfilade_facts::vocabulary::Secret;
use enfilade_identity::Wanted;
use enfilade_passage::{Credential, House};

const ROUNDS: usize = 15;
/// The number of sessions that are checked in turn. It is larger than the memo, so that no session is remembered at its next check.
const SESSIONS: usize = 64;
/// The number of remembered sessions.
const KNOWN: usize = 1_000;

pub(crate) fn run(report: &mut Report, small: bool) -> Result<(), Failure> {
    let sizes: &[u64] = if small { &[0, 10, 10_000] } else { &[0, 10, 10_000, 1_000_000] };
    let scratch = Scratch::new("fernet")?;
    let mut first: Option<(Cloud, f64)> = None;
    for revocations in sizes {
        let place = scratch.path().join(format!("facts-{revocations}"));
        let cloud = Cloud::build(&place, 10, *revocations)?;
        let known = door(report, &cloud, *revocations, 1)?;
        let Some((few, before)) = &first else {
            first = Some((cloud, known));
            continue;
        };
        if revocations == sizes.last().unwrap_or(&0) {
            let more = |what: &str| format!("{what}: what {revocations} revocations add");
            report.goal("revocations", &more("a session that is known"), known - before, 300.0, "ns");
            let added = looked_at_again(report, [(few, 0), (&cloud, *revocations)])?;
            let what = more("a session looked at again after a revocation elsewhere, in turns");
            report.goal("revocations-again", &what, added, 300.0, "ns");
            door(report, &cloud, *revocations, 10)?;
            making(report, &cloud)?;
        }
    }
    http::run(report, &scratch, small)?;
    match peers::keystone::missing().as_slice() {
        [] => comparison::run(report, small),
        missing => {
            eprintln!(
                "Keystone itself is not measured: {} missing; see `cargo xtask bench keystone --install`",
                missing.join(", ")
            );
            Ok(())
        }
    }
}

/// Runs only the comparison of Keystone and Enfilade.
pub(crate) fn compared_with_keystone(report: &mut Report, install: bool, small: bool) -> Result<(), Failure> {
    if install {
        peers::keystone::install()?;
    }
    match peers::keystone::missing().as_slice() {
        [] => comparison::run(report, small),
        missing => Err(format!(
            "{} missing; `cargo xtask bench keystone --install` fetches them",
            missing.join(", ")
        )
        .into()),
    }
}

/// Measures remembered sessions after an unrelated revocation, when only the new mark is read. A store with few revocations and one with many take
/// turns, so that noise of the machine affects both. Returns how many nanoseconds more a session takes with many revocations.
fn looked_at_again(report: &mut Report, clouds: [(&Cloud, u64); 2]) -> Result<f64, Failure> {
    let mut houses = Vec::new();
    for (cloud, revocations) in clouds {
        let house = cloud.house(64 << 20, 1)?;
        let known: Vec<Credential> =
            (0..KNOWN).map(|n| cloud.session(&house, n as u64 % 10)).collect::<Result<_, _>>()?;
        houses.push((cloud, revocations, house, known, Samples::default()));
    }
    let mut more = Samples::default();
    for round in 0..4 * ROUNDS as u64 {
        let mut took = Vec::new();
        for (cloud, revocations, house, known, samples) in &mut houses {
            let admit = |credential: &Credential| assert!(stores::come_in(house, credential).is_ok());
            cloud.revoke(*revocations + 1_000_000 + round)?;
            // The first session updates the index, so its time is not measured. In round 0 the sessions get into the memo.
            known.iter().take(1).for_each(admit);
            let began = now();
            known.iter().skip(1).for_each(admit);
            let each = began.elapsed().as_nanos() as f64 / (KNOWN - 1) as f64;
            if round > 0 {
                samples.push(each);
                took.push(each);
            }
        }
        if let [few, many] = took.as_slice() {
            more.push(many - few);
        }
    }
    for (_, revocations, _, _, samples) in &houses {
        report.middle("a session that is known, after a revocation elsewhere", *revocations, samples, "ns");
    }
    Ok(more.at(50))
}

fn door(report: &mut Report, cloud: &Cloud, revocations: u64, keys: u32) -> Result<f64, Failure> {
    let house = cloud.house(64 << 20, keys)?;
    let asks = |house: &House, count: usize| -> Result<Vec<Credential>, Failure> {
        (0..count).map(|n| cloud.session(house, n as u64 % 10)).collect()
    };
    let known = asks(&house, KNOWN)?;
    let admit =
        |n: usize| assert!(known.get(n % KNOWN).is_some_and(|one| stores::come_in(&house, one).is_ok()));
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
    // With a memo of one byte nothing is remembered: each session is decrypted, and judged on the facts.
    let forgetful = cloud.house(1, keys)?;
    let asks = asks(&forgetful, SESSIONS)?;
    let mut turn = asks.iter().cycle();
    let anew = nanos(ROUNDS, || {
        assert!(turn.next().is_some_and(|one| stores::come_in(&forgetful, one).is_ok()));
    });
    let anew = report.middle(&name("a session judged anew"), revocations, &anew, "ns");
    eprintln!("{revocations} revocations, {keys} keys: known {hot:.0} ns, judged anew {anew:.0} ns");
    Ok(hot)
}

fn making(report: &mut Report, cloud: &Cloud) -> Result<(), Failure> {
    let house = cloud.house(64 << 20, 2)?;
    let credential = cloud.session(&house, 0)?;
    let wanted = Wanted::Scope(cloud.scope());
    // The first session moves the horizon of issue times, which is a change of facts; later ones need no change.
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let first = stores::come_in(&house, &credential)?;
    runtime
        .block_on(async { { first }.issue(wanted).await })
        .map_err(|why| format!("not issued: {why:?}"))?;
    let made = nanos(ROUNDS, || {
        let visit = stores::come_in(&house, &credential);
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
