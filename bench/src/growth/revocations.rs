//! Measures the memory of the index of many revocations in a process, the cost of a session with this index and without it, and the cost of a purge.

use crate::Failure;
use crate::clock;
use crate::fernet::cloud::{Cloud, SERVICES};
use crate::machine::anonymous_bytes;
use crate::report::Report;
use crate::samples::Samples;
use crate::scratch::Scratch;
use crate::stopwatch::{nanos, now};
use crate::stores::{self, audit, id};
use enfilade_admin::keystone::purge_revocations;
use enfilade_admin::{ChangeContext, LimitModel, PasswordRules, ReservedPaths};
use enfilade_facts::limits::REVOCATIONS_INDEXED_MAX;
use enfilade_facts::tables::Revoked;
use enfilade_facts::{Change, Index, Read, Source};
use enfilade_identity::Revocations;
use enfilade_passage::Credential;
use enfilade_sources::files::file_set::FileSet;
use enfilade_sources::lmdb::Lmdb;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

const ROUNDS: usize = 15;
/// The number of sessions that are checked one after the other, again and again. The memo has no space for so many sessions.
const SESSIONS: u64 = 64;
/// The number of marks in one change. The ids are random, so each change writes nearly every page of the table. With few large changes, each page is
/// written only a few times.
const AT_ONCE: u64 = 500_000;
/// The number of expired marks in a purge.
const PASSED: u64 = 1_000;

pub(crate) fn run(report: &mut Report, most: u64) -> Result<(), Failure> {
    let scratch = Scratch::new("growth-revocations")?;
    let place = scratch.path().join("facts");
    let cloud = Cloud::build(&place, 10, SERVICES, 0)?;
    // The first purge indexes the marks by their expiry. A server does this soon after its first start.
    purge(&cloud)?;
    let mut known = 0;
    for n in [most / 100, most / 10, most] {
        set(report, &cloud, known..n)?;
        known = n;
        judge(report, &cloud, &place, n)?;
    }
    if REVOCATIONS_INDEXED_MAX <= known {
        set(report, &cloud, known..REVOCATIONS_INDEXED_MAX + 1)?;
        judge(report, &cloud, &place, REVOCATIONS_INDEXED_MAX + 1)?;
    }
    Ok(())
}

/// The mark that revokes the token with the number `n`.
fn mark(n: u64) -> Revoked {
    Revoked::Token(id(12, n))
}

fn set(report: &mut Report, cloud: &Cloud, numbers: std::ops::Range<u64>) -> Result<(), Failure> {
    let (count, began) = (numbers.end - numbers.start, now());
    let mut change = Change::new(audit("revoke"));
    for n in numbers.clone() {
        change.end(mark(n));
        if n % AT_ONCE == AT_ONCE - 1 || n + 1 == numbers.end {
            cloud.lmdb().commit(&change)?;
            change = Change::new(audit("revoke"));
            eprintln!("{} revocations", n + 1);
        }
    }
    let each = began.elapsed().as_secs_f64() * 1e6 / count.max(1) as f64;
    report.once("one revocation of many in a change", numbers.end, each, "µs");
    let status = cloud.lmdb().status();
    report.once(
        "in use of the file, for each",
        numbers.end,
        status.used_bytes as f64 / numbers.end as f64,
        "bytes",
    );
    Ok(())
}

/// Runs in a separate process. Prints the time and memory that the index takes.
pub(crate) fn part(place: &Path) -> Result<(), Failure> {
    let lmdb = Lmdb::open(place)?;
    let index = Index::<Revocations>::new();
    let (before, began) = (own_bytes()?, now());
    let count = lmdb.read(|view| index.read(view, Revocations::count))??;
    let millis = began.elapsed().as_secs_f64() * 1e3;
    let grown = own_bytes()?.saturating_sub(before);
    println!("{}", json!({ "count": count, "millis": millis, "bytes": grown }));
    Ok(())
}

fn judge(report: &mut Report, cloud: &Cloud, place: &Path, n: u64) -> Result<(), Failure> {
    let me = std::env::current_exe()?;
    let said = Command::new(me).arg("growth-revocations-part").arg(place).output()?;
    let said: Value = serde_json::from_slice(&said.stdout)?;
    let number = |key: &str| said.get(key).and_then(Value::as_f64).ok_or("the index could not be made");
    if number("count")? as u64 != n {
        return Err(format!("{said}: expected {n} revocations").into());
    }
    report.once("the index of a process, made anew", n, number("millis")?, "ms");
    report.once("memory of its own for it", n, number("bytes")? / f64::from(1 << 20), "MiB");
    let house = cloud.house(1, 1)?;
    if house.revocations().map_err(|_| "the revocations cannot be counted")? != n {
        return Err("the index of this process has another number of revocations".into());
    }

    let credentials: Vec<Credential> =
        (0..SESSIONS).map(|n| cloud.session(&house, n % 10)).collect::<Result<_, _>>()?;
    let mut turn = credentials.iter().cycle();
    let anew = nanos(ROUNDS, || {
        assert!(turn.next().is_some_and(|one| stores::come_in(&house, one).is_ok()));
    });
    report.middle("a session judged anew", n, &anew, "ns");

    let (mut one, mut again) = (Samples::default(), Samples::default());
    for round in 0..101 {
        let mut change = Change::new(audit("revoke"));
        // The end of the mark is long ago, so that the purge below deletes the mark.
        change.end_until(mark(1 << 40 | n << 8 | round), 1);
        let began = now();
        cloud.lmdb().commit(&change)?;
        one.push(began.elapsed().as_secs_f64() * 1e6);
        let (first, began) = (credentials.first().ok_or("no session")?, now());
        assert!(stores::come_in(&house, first).is_ok());
        again.push(began.elapsed().as_secs_f64() * 1e6);
    }
    report.middle("one revocation, alone", n, &one, "µs");
    report.middle("the first session after it", n, &again, "µs");
    drop(house);

    purge(cloud)?;
    let began = now();
    let nothing = purge(cloud)?;
    report.once("a purge that finds nothing", n, began.elapsed().as_secs_f64() * 1e3, "ms");
    let mut change = Change::new(audit("revoke"));
    for passed in 0..PASSED {
        change.end_until(mark(1 << 41 | passed), 1);
    }
    cloud.lmdb().commit(&change)?;
    let began = now();
    let purged = purge(cloud)?;
    report.once("a purge of 1,000", n, began.elapsed().as_secs_f64() * 1e3, "ms");
    if (nothing, purged as u64) != (0, PASSED) {
        return Err(format!("{nothing} and {purged} were purged, expected 0 and {PASSED}").into());
    }
    eprintln!("{n} revocations are measured");
    Ok(())
}

fn purge(cloud: &Cloud) -> Result<usize, Failure> {
    let files = FileSet::new(Path::new("/nowhere"));
    let reserved = ReservedPaths::default();
    let ctx = ChangeContext {
        facts: cloud.lmdb(),
        files: &files,
        passwords: PasswordRules::NONE,
        limit_model: LimitModel::default(),
        reserved: &reserved,
        roots: None,
        keeps_administrators: false,
        request: None,
        who: "a benchmark",
        requester: enfilade_facts::Requester::Administrator,
        now: clock::now(),
    };
    Ok(purge_revocations(&ctx, 0)?)
}

fn own_bytes() -> Result<u64, Failure> {
    Ok(anonymous_bytes("self").ok_or("the memory of a process cannot be read on this machine")?)
}
