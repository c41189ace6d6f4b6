//! Measures doors 2 to 4 in four ways. Three are in process, without a network: the time, the latency during commits on a slow disk, and the number
//! of instructions. The fourth is through the real server over TLS.

mod http;
pub(crate) mod pure;
mod slow_disk;
pub(crate) mod slow_writer;

use crate::Failure;
use crate::goals::Goal;
use crate::report::Report;
use crate::samples::Samples;
use crate::scratch::Scratch;
use crate::stopwatch::{nanos, now};
use crate::stores::{self, Store};
use enfilade_facts::tables::{Assignment, AssignmentKey, Datastore, Who};
use enfilade_facts::vocabulary::{AccessMask, DatastoreName, OperationKind, Role, Secret, StorePath, UserId};
use enfilade_facts::{Change, Source};
use enfilade_passage::{Blocking, House, SecretAsk as Ask};
use slow_disk::Walk;
use std::sync::Arc;

const ROUNDS: usize = 21;
const TOKENS: u64 = 100_000;
/// The distance from one token to the next. It has no common divisor with the number of tokens, so all tokens are used before a token is used again.
const STRIDE: usize = 7_919;

pub(crate) fn goals() -> Vec<Goal> {
    http::goals().into_iter().chain([slow_disk::goal()]).collect()
}

pub(crate) fn run(report: &mut Report, small: bool) -> Result<(), Failure> {
    let tokens = if small { 1_000 } else { TOKENS };
    let scratch = Scratch::new("passage")?;
    let in_turn = in_process(report, &scratch, tokens, small)?;
    pure::run(report)?;
    http::run(report, &scratch, tokens, small, in_turn)
}

/// Creates a datastore with a file that the first user may read. Returns its name.
fn furnish(store: &Store, scratch: &Scratch) -> Result<DatastoreName, Failure> {
    let name: DatastoreName = "tank".parse()?;
    let place = scratch.path().join("tank");
    std::fs::create_dir_all(&place)?;
    std::fs::write(place.join("file"), "some content")?;
    let path = place.to_str().ok_or("the scratch directory is not UTF-8")?.to_owned();
    let mut change = Change::new(stores::audit("furnish"));
    change.put(&name, &Datastore { path, ..Datastore::default() });
    let role = Assignment { roles: vec![(Role::DatastoreAdmin, true)], fault: None };
    let key = AssignmentKey {
        path: "/datastore/tank".parse()?,
        who: Who::User(UserId::from_bytes(stores::id(1, 0))),
    };
    change.put(&key, &role);
    store.lmdb.commit(&change)?;
    Ok(name)
}

/// Asks doors 2 to 4 about a file, from the credential to the permit: everything except HTTP and content.
fn walk(house: &Arc<House>, ask: &Ask, store: &DatastoreName, path: &StorePath) -> Result<(), Failure> {
    let visit = stores::visit(house, ask)?;
    let mut stay =
        visit.enter(store, OperationKind::Read, Blocking).map_err(|refusal| refusal.to_string())?;
    stay.find(path, AccessMask::READ_DATA, Blocking).map_err(|refusal| refusal.to_string())?;
    Ok(())
}

/// Measures doors 2 to 4 in this process. Returns the time of door 2 in nanoseconds, if no call uses the token of the previous call.
fn in_process(report: &mut Report, scratch: &Scratch, tokens: u64, small: bool) -> Result<f64, Failure> {
    let facts = scratch.path().join("facts");
    let store = Store::generated(&facts, tokens)?;
    let datastore = furnish(&store, scratch)?;
    let house = store.house(128 << 20);
    let path = StorePath::from_plain("/file").map_err(|why| format!("{why:?}"))?;
    let ask = store.ask(1)?;
    let wrong = Ask { secret: Secret::new(b"enf_wrong").ok_or("no secret")?, ..ask.clone() };
    let nobody = Ask { authid: "nobody@local!none".parse()?, ..ask.clone() };
    walk(&house, &ask, &datastore, &path)?;

    let warm = nanos(ROUNDS, || assert!(stores::admit(&house, &ask).is_ok()));
    report.middle("warm: door 2", tokens, &warm, "ns");
    let in_turn = another_token_each_time(report, &store, &house, tokens)?;
    let warm = nanos(ROUNDS, || assert!(walk(&house, &ask, &datastore, &path).is_ok()));
    report.middle("warm: doors 2 to 4, the file opened", tokens, &warm, "ns");
    let refused = nanos(ROUNDS, || assert!(stores::admit(&house, &wrong).is_err()));
    report.middle("refused: wrong secret", tokens, &refused, "ns");
    let refused = nanos(ROUNDS, || assert!(stores::admit(&house, &nobody).is_err()));
    report.middle("refused: unknown user", tokens, &refused, "ns");
    // Measures the first walk after an unrelated change, and the first walk after a start.
    let mut after = Samples::default();
    for n in 0..201 {
        let mut change = Change::new(stores::audit("role assign"));
        let key = AssignmentKey {
            path: "/datastore/other".parse()?,
            who: Who::User(UserId::from_bytes(stores::id(1, 5))),
        };
        change.put(&key, &Assignment { roles: vec![(Role::Audit, n % 2 == 0)], fault: None });
        store.lmdb.commit(&change)?;
        let began = now();
        walk(&house, &ask, &datastore, &path)?;
        after.push(began.elapsed().as_nanos() as f64);
    }
    report.middle("cold: the first walk after a change elsewhere", tokens, &after, "ns");
    let mut cold = Samples::default();
    for _ in 0..51 {
        let house = store.house(1 << 20);
        let began = now();
        walk(&house, &ask, &datastore, &path)?;
        cold.push(began.elapsed().as_nanos() as f64);
    }
    report.middle("cold: the first walk after a start", tokens, &cold, "ns");
    let (facts, datastore) = (facts.as_path(), &datastore);
    Walk { store: &store, facts, house: &house, ask: &ask, datastore, path: &path }.run(report, small)?;
    Ok(in_turn)
}

/// Measures door 2 in the worst case: another token each time, and tokens that follow each other are far apart in memory.
fn another_token_each_time(
    report: &mut Report,
    store: &Store,
    house: &Arc<House>,
    tokens: u64,
) -> Result<f64, Failure> {
    let asks: Vec<Ask> = (0..tokens).map(|n| store.ask(n)).collect::<Result<_, _>>()?;
    for ask in &asks {
        stores::admit(house, ask)?;
    }
    let mut next = 0;
    let in_turn = nanos(ROUNDS, || {
        next = (next + STRIDE) % asks.len();
        assert!(asks.get(next).is_some_and(|ask| stores::admit(house, ask).is_ok()));
    });
    Ok(report.middle("warm: door 2, another token each time", tokens, &in_turn, "ns").value)
}
