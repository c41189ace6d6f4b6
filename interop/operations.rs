//! The operation ledger: every process sees all active operations, operations of a killed process are not counted, and no operation begins after a
//! datastore was closed.
//!
//! `cargo xtask operations` is the campaign (10,000 schedules with killed processes; a datastore is closed and opened 10,000 times under load).

use crate::curl::{command, curl};
use crate::server::{Scratch, Server};
use enfilade_datastore::{
    Ask, FleetPlace, Ledger, LedgerSlot, LedgerWords, OperationGuard, Phase, Process, Record, ledger_words,
};
use enfilade_facts::tables::Datastore;
use enfilade_facts::vocabulary::{DatastoreName, Maintenance, MaintenanceMode, OperationKind};
use enfilade_facts::{AuditRecord, Change, Clocks, MirrorHealth, Mounts, Read as _, Source};
use enfilade_passage::{House, Parts};
use enfilade_sources::lmdb::Lmdb;
use enfilade_sources::processes::{OwnWords, living};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const SLACK: u32 = 20;
const NOW: Clocks = Clocks { unix_seconds: 1_800_000_000, tick_millis: 1, mirror: MirrorHealth::Current };
const PLACE: &str = "ENFILADE_OPERATIONS_PLACE";
const STORES: [&str; 3] = ["tank", "tank.lock", "other"];

fn campaign(smoke: u64) -> u64 {
    std::env::var("ENFILADE_CAMPAIGN_N").ok().and_then(|n| n.parse().ok()).unwrap_or(smoke)
}

/// A pseudo-random sequence, which is the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % sides) as usize
    }
}

struct Own(OwnWords);

impl LedgerWords for Own {
    fn words(&self) -> &[AtomicU64] {
        self.0.words()
    }
}

fn ledger(place: &Path) -> Ledger {
    let words = OwnWords::take(place, ledger_words(64, 2), None).unwrap();
    Ledger::new(Arc::new(Own(words)), std::process::id(), 2, NOW)
}

fn everybody(place: &Path) -> Vec<Process> {
    let living = living(place).unwrap();
    living.iter().filter_map(|words| Process::read(words.count(), |at| words.word(at))).collect()
}

#[test]
fn offline_waits_for_a_download_and_the_store_can_be_unmounted_then() {
    let server = Server::start();
    let token = server.add_token("admin@local!slow");
    let big = std::fs::File::create(server.data().join("datastores/main/big.bin")).unwrap();
    big.set_len(64 << 20).unwrap();
    let download = |rate: &str| {
        let mut download = command(&server, &token);
        download.args(["--limit-rate", rate, "--output", "/dev/null"]).arg(server.url("/dav/main/big.bin"));
        download.stderr(Stdio::null()).spawn().unwrap()
    };
    let inside = || server.cli(&["datastore", "operations", "main"]);
    let until = |what: &str, held: &dyn Fn() -> bool| {
        let began = Instant::now();
        while !held() {
            assert!(began.elapsed() < Duration::from_secs(5) * SLACK, "{what}: {:?}", inside());
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let mut slow = download("3M");
    until("it is counted", &|| !inside().is_empty());
    let counted = &inside()[0];
    assert_eq!((counted["read"].as_u64(), counted["write"].as_u64()), (Some(1), Some(0)));
    assert_eq!(counted["process"].as_u64(), Some(u64::from(server.pid())));
    // A read-only datastore permits reads, so `--wait` returns at once.
    server.cli(&["datastore", "maintenance", "main", "read-only", "--wait"]);
    assert!(slow.try_wait().unwrap().is_none());
    let output = server.cli_output(&["datastore", "maintenance", "main", "offline", "--wait"], "");
    assert!(output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains("waiting for process") && said.contains("1 running reads, 0 running writes"),
        "{said}"
    );
    assert!(inside().is_empty());
    until("a new download is refused", &|| curl(&server, &token, "/dav/main/big.bin", &[]).status == 503);
    assert!(slow.wait().unwrap().success(), "a download that began before must run to its end");
    // No file of the datastore is open, so it could be unmounted.
    let root = server.data().join("datastores/main");
    let open = std::fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap();
    let of_store = |path: &PathBuf| path.starts_with(&root);
    let open: Vec<_> =
        open.filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok()).filter(of_store).collect();
    assert_eq!(open, Vec::<PathBuf>::new());
    server.cli(&["datastore", "maintenance", "main", "none"]);
    assert_eq!(curl(&server, &token, "/dav/main/", &["--request", "OPTIONS"]).status, 200);
}

#[test]
fn a_server_that_is_killed_is_waited_for_no_longer() {
    let mut server = Server::start();
    let token = server.add_token("admin@local!slow");
    let big = std::fs::File::create(server.data().join("datastores/main/big.bin")).unwrap();
    big.set_len(1 << 30).unwrap();
    let mut slow = command(&server, &token)
        .args(["--limit-rate", "1M", "--output", "/dev/null"])
        .arg(server.url("/dav/main/big.bin"))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let began = Instant::now();
    while server.cli(&["datastore", "operations"]).is_empty() {
        assert!(began.elapsed() < Duration::from_secs(5) * SLACK);
        std::thread::sleep(Duration::from_millis(20));
    }
    server.kill_and_restart();
    server.cli(&["datastore", "maintenance", "main", "offline", "--wait"]);
    assert_eq!(server.cli(&["datastore", "operations"]), Vec::<serde_json::Value>::new());
    let _ = slow.kill();
    slow.wait().unwrap();
}

/// Runs only as a child process of the test below. Its standard input says when it begins and ends operations on datastores.
#[test]
fn a_process_that_enters_and_leaves() {
    let Some(place) = std::env::var_os(PLACE).map(PathBuf::from) else { return };
    let ledger = ledger(&place);
    let mut inside: BTreeMap<u64, OperationGuard> = BTreeMap::new();
    let enter = |store: usize, kind: OperationKind| {
        let name: DatastoreName = STORES[store % STORES.len()].parse().unwrap();
        ledger.enter(&name, &LedgerSlot::default(), kind, NOW).unwrap()
    };
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        match line.split(' ').collect::<Vec<_>>().as_slice() {
            ["enter", id, store, kind] => {
                let kind = if *kind == "read" { OperationKind::Read } else { OperationKind::Write };
                inside.insert(id.parse().unwrap(), enter(store.parse().unwrap(), kind));
            }
            ["leave", id] => drop(inside.remove(&id.parse().unwrap())),
            // Begins and ends operations until the process is killed.
            ["storm"] => std::thread::scope(|scope| {
                for thread in 0..2 {
                    let enter = &enter;
                    scope.spawn(move || {
                        for n in thread.. {
                            drop(enter(n, OperationKind::Write));
                        }
                    });
                }
                println!("#ok");
            }),
            other => panic!("{other:?}"),
        }
        println!("#ok");
    }
}

struct Worker {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    inside: BTreeMap<u64, (usize, bool)>,
    storms: bool,
}

impl Worker {
    fn start(place: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "operations::a_process_that_enters_and_leaves", "--nocapture"]);
        command.env(PLACE, place).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (to, from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Worker { child, to, from, inside: BTreeMap::new(), storms: false }
    }

    fn tell(&mut self, line: &str) {
        writeln!(self.to, "{line}").unwrap();
        let mut said = String::new();
        // The test runner of the child process prints other lines, too.
        while !said.contains("#ok") {
            said.clear();
            assert_ne!(self.from.read_line(&mut said).unwrap(), 0, "the process ended");
        }
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
fn whatever_is_killed_the_ledger_counts_who_lives() {
    const STEPS: usize = 10;
    let schedules = campaign(30);
    let scratch = Scratch::new();
    let place = scratch.path().join("operations");
    let mut dice = Dice(7);
    let mut workers: [Option<Worker>; 8] = Default::default();
    let (mut next, mut killed, mut entered) = (0, 0, 0);
    for schedule in 0..schedules {
        for _ in 0..STEPS {
            let slot = &mut workers[dice.roll(8)];
            let Some(worker) = slot else {
                *slot = Some(Worker::start(&place));
                continue;
            };
            match dice.roll(40) {
                0 | 1 => {
                    slot.take().unwrap().kill();
                    killed += 1;
                }
                2 if !worker.storms => {
                    worker.tell("storm");
                    worker.storms = true;
                }
                n if n < 15 && !worker.storms && !worker.inside.is_empty() => {
                    let which = dice.roll(worker.inside.len() as u64);
                    let id = *worker.inside.keys().nth(which).unwrap();
                    worker.inside.remove(&id);
                    worker.tell(&format!("leave {id}"));
                }
                n if !worker.storms => {
                    let (store, writes) = (dice.roll(3), n % 2 == 0);
                    let kind = if writes { "write" } else { "read" };
                    worker.tell(&format!("enter {next} {store} {kind}"));
                    worker.inside.insert(next, (store, writes));
                    (next, entered) = (next + 1, entered + 1);
                }
                _ => {
                    // Two threads that begin and end operations without a pause are killed soon, because other tests need the processor.
                    slot.take().unwrap().kill();
                    killed += 1;
                }
            }
        }
        let found = everybody(&place);
        for worker in workers.iter_mut().flatten().filter(|worker| !worker.storms) {
            let mut expected: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
            for (store, writes) in worker.inside.values() {
                let count = expected.entry(STORES[*store]).or_default();
                if *writes { count.1 += 1 } else { count.0 += 1 }
            }
            let own = found.iter().find(|process| process.id == worker.child.id());
            let inside = own.map(|process| process.inside.clone()).unwrap_or_default();
            let counted: BTreeMap<&str, (u64, u64)> = inside
                .iter()
                .map(|(name, active)| (name.as_str(), (active.readers, active.writers)))
                .collect();
            assert_eq!(counted, expected, "schedule {schedule}");
        }
        let lives = |id: u32| workers.iter().flatten().any(|worker| worker.child.id() == id);
        assert!(found.iter().all(|process| lives(process.id)), "schedule {schedule}: {found:?}");
        if schedules > 1_000 && schedule.is_multiple_of(500) {
            println!("{schedule} of {schedules} schedules");
        }
    }
    workers.into_iter().flatten().for_each(Worker::kill);
    assert_eq!(everybody(&place), []);
    println!(
        "{schedules} schedules, {entered} operations begun, {killed} processes killed: all counts were right"
    );
}

pub(crate) fn house(source: Arc<Lmdb>, ledger: Ledger) -> Arc<House> {
    House::new(Parts { ledger, ..enfilade_testkit::parts_at(source, NOW) })
}

fn switch(lmdb: &Lmdb, name: &DatastoreName, offline: bool) {
    let mode = Maintenance { mode: MaintenanceMode::Offline, message: None };
    let row =
        Datastore { path: "/tank".into(), maintenance: offline.then_some(mode), ..Datastore::default() };
    let audit = AuditRecord {
        who: "a test".into(),
        what: "switch".into(),
        unix_seconds: NOW.unix_seconds,
        request: None,
    };
    let mut change = Change::new(audit);
    change.put(name, &row);
    lmdb.commit(&change).unwrap();
}

/// Failures under load: operations that began after the datastore was closed, and operations that the ledger did not show.
struct Outcome {
    attempts: u64,
    late: u64,
    unseen: u64,
}

/// Two servers, each with threads that write as often as possible, while the datastore is closed and opened repeatedly.
fn under_load(switches: u64, enters_first: bool) -> Outcome {
    let scratch = Scratch::new();
    let (place, name) = (scratch.path().join("operations"), "tank".parse::<DatastoreName>().unwrap());
    let lmdb = Arc::new(Lmdb::open(&scratch.path().join("facts")).unwrap());
    switch(&lmdb, &name, false);
    let houses = [0, 1].map(|_| house(Arc::clone(&lmdb), ledger(&place)));
    // `turn` is odd while the datastore is closed.
    let (turn, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let [attempts, late, unseen, inside] = [0; 4].map(AtomicU64::new);
    let spare = Ledger::private(4, NOW);
    let write = |house: &House| -> Option<OperationGuard> {
        if enters_first {
            return house.look_up(&name, OperationKind::Write).ok().map(|(_, guard)| guard);
        }
        // The wrong order: the operation is first judged and then counted.
        let record = lmdb.read(|view| Record::on(view, &name)).unwrap().unwrap();
        let ask = Ask { name: &name, kind: OperationKind::Write, phase: Phase::Entering };
        let permit = enfilade_datastore::open(&record, NOW, (&Mounts::default(), &FleetPlace::Alone), &ask);
        std::thread::sleep(Duration::from_micros(200));
        permit.ok().and_then(|_| spare.enter(&name, &LedgerSlot::default(), OperationKind::Write, NOW).ok())
    };
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for house in houses.iter().cycle().take(4) {
            let (write, turn, stop) = (&write, &turn, &stop);
            let (attempts, late, inside) = (&attempts, &late, &inside);
            let thread = scope.spawn(move || {
                while !stop.load(Ordering::SeqCst) {
                    let before = turn.load(Ordering::SeqCst);
                    let guard = write(house);
                    attempts.fetch_add(1, Ordering::Relaxed);
                    if let Some(guard) = guard {
                        inside.fetch_add(1, Ordering::SeqCst);
                        // The operation is late: the datastore was closed before the operation began, and was not opened since.
                        let is_late = before % 2 == 1 && turn.load(Ordering::SeqCst) == before;
                        late.fetch_add(u64::from(is_late), Ordering::Relaxed);
                        std::thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(guard);
                    } else {
                        std::thread::yield_now();
                    }
                }
            });
            threads.push(thread);
        }
        for _ in 0..switches {
            switch(&lmdb, &name, true);
            turn.fetch_add(1, Ordering::SeqCst);
            let counted = |process: &Process| process.inside.iter().any(|(_, active)| active.writers > 0);
            while everybody(&place).iter().any(counted) || spare.active(&name).writers > 0 {
                std::thread::yield_now();
            }
            // If an operation is running now, the ledger did not show it.
            for _ in 0..20 {
                unseen.fetch_add(u64::from(inside.load(Ordering::SeqCst) > 0), Ordering::Relaxed);
                std::thread::yield_now();
            }
            turn.fetch_add(1, Ordering::SeqCst);
            switch(&lmdb, &name, false);
        }
        stop.store(true, Ordering::SeqCst);
        // LMDB does not permit closing a store while a thread that has read from it ends. The scope waits only for the end of the closures, so the
        // threads are joined here.
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    let [attempts, late, unseen] = [attempts, late, unseen].map(AtomicU64::into_inner);
    Outcome { attempts, late, unseen }
}

#[test]
fn after_a_store_was_closed_nobody_begins_to_write_and_whoever_is_inside_is_counted() {
    let Outcome { attempts, late, unseen } = under_load(campaign(60), true);
    println!("{attempts} attempts to write: {late} after the store was closed, {unseen} uncounted");
    assert_eq!((late, unseen), (0, 0));
    assert!(attempts > 0);
    // In the wrong order (judged before counted) an operation runs that the ledger does not show. How soon this happens depends on the machine, so
    // several attempts are made.
    let mut is_met = false;
    for _ in 0..50 {
        let Outcome { attempts, late, unseen } = under_load(60, false);
        println!(
            "wrong order: {attempts} attempts to write: {late} after the store was closed, {unseen} uncounted"
        );
        is_met |= unseen > 0;
        if is_met {
            break;
        }
    }
    assert!(is_met);
}
