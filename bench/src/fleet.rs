//! Measures how long a change of a fleet takes until every member obeys it, compared with a write of etcd itself. Also measures a member that missed
//! changes, a machine that joins a fleet, requests to a member, and the space that etcd needs.

mod direct;
mod log_size;
mod request;

use crate::goals::Goal;
use crate::report::Report;
use crate::samples::{Estimate, Percentile, SAMPLES_MIN, Samples};
use crate::scratch::Scratch;
use crate::served::Server;
use crate::stopwatch::{now, pause};
use crate::stores::{self, Store};
use crate::{Failure, clock};
use direct::Listens;
use enfilade_facts::journal::digest;
use enfilade_facts::tables::Domain;
use enfilade_facts::vocabulary::DomainId;
use enfilade_facts::{At, Change, Read as _, Revision, Source as _};
use enfilade_fleet::{About, Etcd, Log, Reach, Server as Member};
use enfilade_sources::lmdb::{Lmdb, Terms};
use enfilade_testkit::Etcd as Machine;
use std::ffi::OsStr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

const MEMBERS: usize = 3;
const MACHINES: usize = 3;
const CHANGES: usize = 10_000;
/// The number of changes that a member misses, and the number of members that miss changes.
const MISSED: usize = 10_000;
const LATE: usize = 3;
/// The pause in which the members connect to each other.
const CONNECTED: Duration = Duration::from_millis(500);
/// The number of tokens of a large fleet.
const TOKENS: u64 = 1_000_000;

pub(crate) fn goals() -> Vec<Goal> {
    let work = format!(
        "In process, {MEMBERS} members, each with a store in LMDB, and etcd in {MACHINES} processes, all on one machine. The members \
         are connected over TLS, as with `[fleet] listen`. {CHANGES} times in turn: a \
         transaction of etcd that puts one new key, and a change of one record by one of the members, until all members have applied it. The p99 of all \
         changes divided by the p99 of all transactions"
    );
    let what = "time until all members of a fleet obey a change, divided by time of a write of etcd";
    let missed = format!(
        "In process, two members, and etcd in {MACHINES} processes, all on one machine. One member makes {MISSED} changes of one record while the other does \
         not run. From the start of the other until it has its first proof. {LATE} times"
    );
    let joins = format!(
        "The facts are {TOKENS} API tokens and their users. etcd has {MACHINES} processes on the same machine. From the start of `enfilade fleet join` until the \
         server of the new member listens. Once"
    );
    let size = format!(
        "In process. One machine of etcd with --auto-compaction-mode=periodic --auto-compaction-retention=1m gets {} changes of one record, {} in each entry of \
         the log. A member with a store in LMDB applies them, and trims the log. The size is read {} s after the last change",
        log_size::CHANGES,
        log_size::AT_ONCE,
        log_size::REST.as_secs()
    );
    vec![
        Goal::new("acknowledged-direct", 3.0, "times", what, work),
        Goal::new("missed", 5.0, "s", "time until a member has the changes that it missed", missed),
        Goal::new(
            "log-size-after",
            96.0,
            "MiB",
            "space that the data of etcd needs after very many changes",
            size,
        ),
        request::goal(),
        Goal::new("join", 60.0, "s", "time until a new member of a large fleet serves", joins),
    ]
}

pub(crate) fn run(report: &mut Report, small: bool) -> Result<(), Failure> {
    let is_installed = |program: &str| {
        Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
    };
    if !is_installed("etcd") {
        report.missing(
            "a write of etcd",
            "etcd is not installed (`cargo xtask bench all --install` installs it)",
        );
        return Ok(());
    }
    report.peer("etcd", Machine::version(), format!("{MACHINES} processes with the default settings"));
    let count = if small { SAMPLES_MIN } else { CHANGES };
    let scratch = Scratch::new("fleet")?;
    let machines = Machine::start_machines(MACHINES);
    let addresses: Vec<String> = machines.iter().map(|machine| machine.address.clone()).collect();
    let (at, state) = stores(scratch.path(), MEMBERS)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    begin(&addresses, "/fleet", (at, state), MEMBERS)?;
    let of_connections = direct::runtime()?;
    let mut listens = Vec::new();
    for _ in 0..MEMBERS {
        listens.push(of_connections.block_on(Listens::new())?);
    }
    let start = |(nth, listens): (usize, &Listens)| {
        let reach = Some(listens.reach.clone());
        member(scratch.path(), &addresses, ("/fleet", at), (nth, reach)).map(Arc::new)
    };
    let members = listens.iter().enumerate().map(start).collect::<Result<Vec<_>, _>>()?;
    wait_until(|| members.iter().all(|member| member.is_current()));
    let etcd = Etcd::at(&addresses, None)?;
    let log = Log::new(etcd.clone(), "/fleet", at.store);
    let status = runtime.block_on(log.status())?;
    of_connections.block_on(direct::connect(&members, listens, status))?;
    pause(CONNECTED);
    let (mut puts, mut changes) = (Samples::default(), Samples::default());
    let micros = |took: Duration| took.as_secs_f64() * 1e6;
    for (nth, member) in (0..count).zip(members.iter().cycle()) {
        // `Log::begin` is one transaction of etcd, which puts one key if the key does not exist.
        let log = Log::new(etcd.clone(), &format!("/put/{nth}"), at.store);
        let began = now();
        runtime.block_on(log.begin(Revision(0), 0))?;
        puts.push(micros(began.elapsed()));
        let change = change(nth)?;
        let began = now();
        member.commit(&change)?;
        changes.push(micros(began.elapsed()));
    }
    drop((members, of_connections));
    missed(report, scratch.path(), &addresses, small)?;
    join(report, scratch.path(), &addresses, small)?;
    request::run(report, &scratch.path().join("request"), &addresses, small)?;
    log_size::run(report, &scratch.path().join("size"), small)?;
    report.tail("a transaction of etcd", count as u64, &puts, "µs");
    report.tail("a change, until all members have applied it", count as u64, &changes, "µs");
    let p99 = |samples: &Samples| samples.percentile(Percentile::P99);
    report.goal("acknowledged-direct", p99(&changes)?.over(p99(&puts)?));
    Ok(())
}

/// A change of one record.
fn change(nth: usize) -> Result<Change, Failure> {
    let mut domain = Domain::new("local".parse()?);
    domain.description = Some(nth.to_string());
    let mut change = Change::new(stores::audit("a change"));
    change.put(&DomainId::from_bytes([1; 16]), &domain);
    Ok(change)
}

/// Measures how long a member needs after its start to apply many changes that it missed.
fn missed(report: &mut Report, place: &Path, addresses: &[String], small: bool) -> Result<(), Failure> {
    let place = place.join("missed");
    let (at, state) = stores(&place, 1 + LATE)?;
    begin(addresses, "/missed", (at, state), 1 + LATE)?;
    let start = |nth: usize| member(&place, addresses, ("/missed", at), (nth, None));
    let first = start(0)?;
    wait_until(|| first.is_current());
    let count = if small { 100 } else { MISSED };
    for nth in 0..count {
        first.commit(&change(nth)?)?;
    }
    let mut took = Samples::default();
    for late in 1..=LATE {
        let began = now();
        let member = start(late)?;
        wait_until(|| member.is_current());
        took.push(began.elapsed().as_secs_f64());
    }
    report.middle("a member applies the changes that it missed", count as u64, &took, "s");
    report.goal("missed", took.mean());
    Ok(())
}

/// Measures how long a machine needs to join a fleet with many facts.
fn join(report: &mut Report, place: &Path, addresses: &[String], small: bool) -> Result<(), Failure> {
    let tokens = if small { 1_000 } else { TOKENS };
    let (facts, first, second) = (place.join("facts"), place.join("first"), place.join("second"));
    drop(Store::generated(&facts, tokens)?);
    stores::data_directory(&first, &facts)?;
    std::fs::DirBuilder::new().mode(0o700).create(&second)?;
    let invitation = place.join("invitation");
    let [fleet, name] = ["fleet", "b"].map(OsStr::new);
    enfilade(&first, &[OsStr::new("init")])?;
    configure(&first, "a", "/join", addresses)?;
    configure(&second, "b", "/join", addresses)?;
    enfilade(&first, &[fleet, OsStr::new("init")])?;
    enfilade(&first, &[fleet, OsStr::new("invite"), name, invitation.as_os_str()])?;
    let began = now();
    enfilade(&second, &[fleet, OsStr::new("join"), invitation.as_os_str()])?;
    let server = Server::start(&second, &[]);
    let took = began.elapsed().as_secs_f64();
    drop(server?);
    report.once("a machine joins a fleet", tokens, took, "s");
    report.goal("join", Estimate::once(took));
    Ok(())
}

/// Writes the section `[fleet]` of a member.
fn configure(data: &Path, name: &str, prefix: &str, addresses: &[String]) -> std::io::Result<()> {
    let text = format!("[fleet]\nname = \"{name}\"\netcd = {addresses:?}\nprefix = \"{prefix}\"\n");
    std::fs::write(data.join("enfilade.toml"), text)
}

/// Runs a command of `enfilade`.
fn enfilade(data: &Path, words: &[&OsStr]) -> Result<(), Failure> {
    let program = std::env::current_exe()?.with_file_name("enfilade");
    let done = Command::new(program).arg("--data").arg(data).args(words).output()?;
    match done.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&done.stderr).into_owned().into()),
    }
}

/// Makes `count` equal stores. Returns the revision and the digest of their records.
fn stores(place: &Path, count: usize) -> Result<(At, u128), Failure> {
    let directory = |path: &Path| std::fs::DirBuilder::new().mode(0o700).recursive(true).create(path);
    directory(place)?;
    let first = place.join("0");
    let found = Lmdb::open(&first)?.read(|view| digest(view).map(|state| (view.at(), state)))??;
    Lmdb::set_replica(&first, Terms::default(), true)?;
    for member in 1..count {
        let copy = place.join(member.to_string());
        directory(&copy)?;
        for file in std::fs::read_dir(&first)? {
            let file = file?;
            std::fs::copy(file.path(), copy.join(file.file_name()))?;
        }
    }
    Ok(found)
}

fn wait_until(is_so: impl Fn() -> bool) {
    while !is_so() {
        pause(Duration::from_millis(1));
    }
}

/// Begins a log, and admits `members` members: `m0`, `m1` and so on.
fn begin(addresses: &[String], prefix: &str, (at, state): (At, u128), members: usize) -> Result<(), Failure> {
    let log = Log::new(Etcd::at(addresses, None)?, prefix, at.store);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        log.begin(at.revision, state).await?;
        log.admit_first("m0", 7).await?;
        for nth in 1..members {
            let name = format!("m{nth}");
            log.accept(&log.invite(&name).await?, &name, 7).await?;
        }
        Ok(())
    })
}

/// Starts a member.
fn member(
    place: &Path,
    addresses: &[String],
    (prefix, at): (&str, At),
    (nth, reach): (usize, Option<Reach>),
) -> Result<Member, Failure> {
    let name = format!("m{nth}");
    let about = About { version: "0".to_owned(), host: "bench".to_owned(), pid: std::process::id(), reach };
    let store = Arc::new(Lmdb::open(&place.join(nth.to_string()))?);
    let log = Log::new(Etcd::at(addresses, None)?, prefix, at.store).of_member(&name);
    Ok(Member::start(&name, about, store, log, || clock::now().tick_millis)?)
}
