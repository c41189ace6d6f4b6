//! A fleet: how long a change takes until every member obeys it, compared with a write of etcd itself.

use crate::goals::Goal;
use crate::report::Report;
use crate::samples::{Percentile, SAMPLES_MIN, Samples};
use crate::scratch::Scratch;
use crate::stopwatch::{now, pause};
use crate::{Failure, clock};
use enfilade_facts::journal::digest;
use enfilade_facts::tables::Domain;
use enfilade_facts::vocabulary::DomainId;
use enfilade_facts::{At, AuditRecord, Change, Read as _, Revision, Source as _};
use enfilade_fleet::{About, Etcd, Log, Server};
use enfilade_sources::lmdb::{Lmdb, Terms};
use enfilade_testkit::Etcd as Machine;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

const MEMBERS: usize = 3;
const MACHINES: usize = 3;
const CHANGES: usize = 10_000;

pub(crate) fn goals() -> Vec<Goal> {
    let work = format!(
        "In process, {MEMBERS} members, each with a store in LMDB, and etcd in {MACHINES} processes, all on one machine. {CHANGES} times in turn: a \
         transaction of etcd that puts one new key, and a change of one record by one of the members, until all members have applied it. The p99 of all \
         changes divided by the p99 of all transactions"
    );
    let what = "time until all members of a fleet obey a change divided by time of a write of etcd";
    vec![Goal::new("acknowledged", 3.0, "times", what, work)]
}

pub(crate) fn run(report: &mut Report, small: bool) -> Result<(), Failure> {
    let is_installed = |program: &str| {
        Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
    };
    if !is_installed("etcd") {
        report.missing("a write of etcd", "etcd is not installed (Debian: etcd-server)");
        return Ok(());
    }
    report.peer("etcd", Machine::version(), format!("{MACHINES} processes with the default settings"));
    let count = if small { SAMPLES_MIN } else { CHANGES };
    let scratch = Scratch::new("fleet")?;
    let machines = Machine::start_machines(MACHINES);
    let addresses: Vec<String> = machines.iter().map(|machine| machine.address.clone()).collect();
    let (at, state) = stores(scratch.path())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let members = members(scratch.path(), &addresses, at, state, &runtime)?;
    let etcd = Etcd::at(&addresses, None)?;
    let (mut puts, mut changes) = (Samples::default(), Samples::default());
    let micros = |took: Duration| took.as_secs_f64() * 1e6;
    for (nth, member) in (0..count).zip(members.iter().cycle()) {
        // The beginning of a log is one transaction that puts one key, if it does not exist.
        let log = Log::new(etcd.clone(), &format!("/put/{nth}"), at.store);
        let began = now();
        runtime.block_on(log.begin(Revision(0), 0))?;
        puts.push(micros(began.elapsed()));
        let mut domain = Domain::new("local".parse()?);
        domain.description = Some(nth.to_string());
        let author =
            AuditRecord { who: "bench".into(), what: "a change".into(), unix_seconds: 7, request: None };
        let mut change = Change::new(author);
        change.put(&DomainId::from_bytes([1; 16]), &domain);
        let began = now();
        member.commit(&change)?;
        changes.push(micros(began.elapsed()));
    }
    report.tail("a transaction of etcd", count as u64, &puts, "µs");
    report.tail("a change, until all members have applied it", count as u64, &changes, "µs");
    let p99 = |samples: &Samples| samples.percentile(Percentile::P99);
    report.goal("acknowledged", p99(&changes)?.over(p99(&puts)?));
    Ok(())
}

/// Makes equal stores for all members. Returns the revision and the digest of their records.
fn stores(place: &Path) -> Result<(At, u128), Failure> {
    let first = place.join("0");
    let found = Lmdb::open(&first)?.read(|view| digest(view).map(|state| (view.at(), state)))??;
    Lmdb::set_replica(&first, Terms::default(), true)?;
    for member in 1..MEMBERS {
        let copy = place.join(member.to_string());
        std::fs::DirBuilder::new().mode(0o700).create(&copy)?;
        for file in std::fs::read_dir(&first)? {
            let file = file?;
            std::fs::copy(file.path(), copy.join(file.file_name()))?;
        }
    }
    Ok(found)
}

/// Starts the members, and waits until all are current.
fn members(
    place: &Path,
    addresses: &[String],
    at: At,
    state: u128,
    runtime: &Runtime,
) -> Result<Vec<Server>, Failure> {
    let log = || Ok::<_, Failure>(Log::new(Etcd::at(addresses, None)?, "/fleet", at.store));
    let name = |nth: usize| format!("m{nth}");
    let first = log()?;
    runtime.block_on(async {
        first.begin(at.revision, state).await?;
        first.admit_first(&name(0), 7).await?;
        for nth in 1..MEMBERS {
            let invitation = first.invite(&name(nth)).await?;
            first.accept(&invitation, &name(nth), 7).await?;
        }
        Ok::<_, Failure>(())
    })?;
    let mut members = Vec::new();
    for nth in 0..MEMBERS {
        let about = About { version: "0".to_owned(), host: "bench".to_owned(), pid: std::process::id() };
        let store = Arc::new(Lmdb::open(&place.join(nth.to_string()))?);
        let log = log()?.of_member(&name(nth));
        members.push(Server::start(&name(nth), about, store, log, || clock::now().tick_millis)?);
    }
    while !members.iter().all(Server::is_current) {
        pause(Duration::from_millis(10));
    }
    Ok(members)
}
