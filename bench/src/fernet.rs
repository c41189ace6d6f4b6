//! Sessions: the cost to check a session, with few and with many revocations, in process and through Keystone's API.

pub(crate) mod comparison;
pub(crate) mod cloud;
pub(crate) mod http;

use crate::Failure;
use crate::goals::Goal;
use crate::peers;
use crate::report::Report;
use crate::samples::{Estimate, Samples};
use crate::scratch::Scratch;
use crate::stopwatch::{nanos, now, shared};
use crate::stores;
use cloud::Cloud;
use enfilade_facts::vocabulary::Secret;
use enfilade_identity::Wanted;
use enfilade_passage::{Credential, House};

const ROUNDS: usize = 15;
/// The number of sessions that are checked one after the other, again and again. The memo has no space for so many sessions, so no session is
/// remembered at its next check.
const SESSIONS: usize = 64;
/// The number of remembered sessions.
const KNOWN: usize = 1_000;
/// The numbers of revocations.
const SIZES: [u64; 4] = [0, 10, 10_000, 1_000_000];
/// The number of pairs of turns of [`looked_at_again`].
const AGAIN: usize = 4 * ROUNDS - 1;
/// The number of pairs of turns of [`judged_anew`]. The goal limits the time that revocations add. The judgement of a session takes 50 times this
/// limit, so many pairs are needed.
const ANEW: usize = 401;

pub(crate) fn goals() -> Vec<Goal> {
    let [none, .., most] = SIZES;
    let door = format!(
        "In process, door 2, with {SIZES:?} revocations in the store. {KNOWN} sessions in turn, all remembered; {ROUNDS} rounds of 5 ms or longer"
    );
    let added = format!("{door}; the median with {most} revocations minus that with {none}");
    let anew = format!(
        "In process, door 2 with a memo of one byte, which remembers nothing. {SESSIONS} sessions in turn; {ANEW} pairs of rounds of 5 ms or longer, \
         in turns: {most} revocations, then {none}. The median of the differences"
    );
    let again = format!(
        "In process, door 2. A store without revocations and one with {most} in turns, {AGAIN} pairs: one revocation is committed, the first \
         session is not measured, then {} remembered sessions. The mean of the differences",
        KNOWN - 1
    );
    let mut goals = vec![
        Goal::new("door", 1_000.0, "ns", "time of door 2 to check a session that it remembers", door),
        Goal::new(
            "revocations",
            300.0,
            "ns",
            format!("time that {most} revocations add to the check of a session that door 2 remembers"),
            added,
        ),
        Goal::new(
            "revocations-judged",
            300.0,
            "ns",
            format!(
                "time that {most} revocations add to the check of a session that door 2 does not remember"
            ),
            anew,
        ),
        Goal::new(
            "revocations-again",
            300.0,
            "ns",
            format!(
                "time that {most} stored revocations add to the check of a remembered session, if a new revocation was committed since its last check"
            ),
            again,
        ),
    ];
    goals.extend(http::goals());
    goals.extend(comparison::goals());
    goals
}

pub(crate) fn run(report: &mut Report, small: bool) -> Result<(), Failure> {
    let sizes: &[u64] = if small { &[0, 10, 10_000] } else { &SIZES };
    let scratch = Scratch::new("fernet")?;
    let mut first: Option<(Cloud, Estimate)> = None;
    for revocations in sizes {
        let place = scratch.path().join(format!("facts-{revocations}"));
        let cloud = Cloud::build(&place, 10, cloud::SERVICES, *revocations)?;
        let known = door(report, &cloud, *revocations, 1)?;
        let Some((few, before)) = &first else {
            first = Some((cloud, known));
            continue;
        };
        if revocations == sizes.last().unwrap_or(&0) {
            report.goal("revocations", known.minus(*before));
            let added = judged_anew([few, &cloud])?;
            report.estimate(
                "a session judged anew: the time that revocations add",
                *revocations,
                added,
                "ns",
            );
            report.goal("revocations-judged", added);
            let added = looked_at_again(report, [(few, 0), (&cloud, *revocations)])?;
            report.goal("revocations-again", added);
            door(report, &cloud, *revocations, 10)?;
            making(report, &cloud)?;
        }
    }
    http::run(report, &scratch, small)?;
    match peers::keystone::missing().as_slice() {
        [] => comparison::run(report, small),
        missing => {
            report.missing("a validation by Keystone", peers::keystone::how_to_install(missing));
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
        missing => Err(peers::keystone::how_to_install(missing).into()),
    }
}

/// Measures remembered sessions after an unrelated revocation. The index of revocations then reads only the new mark. A store with few revocations
/// and a store with many take turns, so that noise of the machine affects both stores. Returns how many nanoseconds more a session takes with many
/// revocations.
fn looked_at_again(report: &mut Report, clouds: [(&Cloud, u64); 2]) -> Result<Estimate, Failure> {
    let mut houses = Vec::new();
    for (cloud, revocations) in clouds {
        let house = cloud.house(64 << 20, 1)?;
        let known: Vec<Credential> =
            (0..KNOWN).map(|n| cloud.session(&house, n as u64 % 10)).collect::<Result<_, _>>()?;
        houses.push((cloud, revocations, house, known, Samples::default()));
    }
    let mut more = Samples::default();
    for round in 0..=AGAIN as u64 {
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
    Ok(more.mean())
}

/// Measures sessions about which nothing is remembered, in turns: in a store with few revocations, and in a store with many. Returns how many
/// nanoseconds more a session takes with many revocations.
fn judged_anew(clouds: [&Cloud; 2]) -> Result<Estimate, Failure> {
    let mut houses = Vec::new();
    for cloud in clouds {
        let house = cloud.house(1, 1)?;
        let asks: Vec<Credential> =
            (0..SESSIONS).map(|n| cloud.session(&house, n as u64 % 10)).collect::<Result<_, _>>()?;
        houses.push((house, asks));
    }
    let mut more = Samples::default();
    for _ in 0..ANEW {
        let took: Vec<f64> = houses
            .iter()
            .rev()
            .map(|(house, asks)| {
                let mut turn = asks.iter().cycle();
                let once = || assert!(turn.next().is_some_and(|one| stores::come_in(house, one).is_ok()));
                nanos(1, once).median()
            })
            .collect();
        if let [many, few] = took.as_slice() {
            more.push(many - few);
        }
    }
    Ok(more.middle())
}

fn door(report: &mut Report, cloud: &Cloud, revocations: u64, keys: u32) -> Result<Estimate, Failure> {
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
        report.goal_at("door", revocations, hot);
    }
    // With a memo of one byte, no verdict is remembered: each session is decrypted, and judged on the facts.
    let forgetful = cloud.house(1, keys)?;
    let asks = asks(&forgetful, SESSIONS)?;
    let mut turn = asks.iter().cycle();
    let anew = nanos(ROUNDS, || {
        assert!(turn.next().is_some_and(|one| stores::come_in(&forgetful, one).is_ok()));
    });
    let anew = report.middle(&name("a session judged anew"), revocations, &anew, "ns");
    eprintln!(
        "{revocations} revocations, {keys} keys: known {:.0} ns, judged anew {:.0} ns",
        hot.value, anew.value
    );
    Ok(hot)
}

fn making(report: &mut Report, cloud: &Cloud) -> Result<(), Failure> {
    let house = cloud.house(64 << 20, 2)?;
    let credential = cloud.session(&house, 0)?;
    let wanted = Wanted::Scope(cloud.scope());
    // The first session moves the horizon of issue times, which is a change of facts. Later sessions need no change.
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
