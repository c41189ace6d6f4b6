//! Processes on one data directory check credentials while another process and commands revoke them. A check that begins after the acknowledgement of
//! a revocation must be refused. If the processes break rule 1, 2 or 3 of docs/freshness.md on purpose, the same test finds a wrong grant. So the test
//! can detect wrong grants.
//!
//! `cargo xtask race` is the campaign (10^6 checks and 10^4 revocations); the test makes fewer.

use crate::server::{BINARY, Scratch};
use enfilade_admin::{NewUser, ReservedPaths, TokenTerms};
use enfilade_facts::journal::Head;
use enfilade_facts::tables::Credential;
use enfilade_facts::vocabulary::{CredentialId, Secret, TokenName, Userid};
use enfilade_facts::{
    At, Change, Clocks, CommitError, Each, Found, Index, IndexError, Indexed, MemoSeed, MirrorHealth,
    Read as _, Snapshot, Source, SourceError, Table, View,
};
use enfilade_identity::{Ask, Context, IdentityMemo, SecretAsk, SessionState};
use enfilade_passage::{House, Parts};
use enfilade_sources::files::file_set::FileSet;
use enfilade_sources::lmdb::Lmdb;
use enfilade_testkit::change_context;
use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const SMOKE: u64 = 20_000;
const CHECKS_PER_REVOCATION: u64 = 100;
/// The number of checking processes.
const PROCESSES: usize = 2;
const THREADS: usize = 2;
/// For one of this many revocations, the test runs the real command.
const CLI_EVERY: usize = 50;
const NOW: Clocks = Clocks { unix_seconds: 1_800_000_000, tick_millis: 1, mirror: MirrorHealth::Current };
const PLACE: &str = "ENFILADE_RACE_PLACE";
const RULE: &str = "ENFILADE_RACE_WITHOUT";

/// An index of existing credentials, with which rule 3 can be broken.
#[derive(Clone)]
struct Live(Arc<BTreeSet<CredentialId>>);

impl Indexed for Live {
    const TABLES: &'static [Table] = &[Table::Credentials];

    fn build(view: &View<'_>) -> Result<Self, SourceError> {
        let rows = view.list::<Credential>(&[])?;
        Ok(Live(Arc::new(rows.into_iter().map(|(id, _)| id).collect())))
    }

    fn update(&mut self, view: &View<'_>, _: Table, key: &[u8]) -> Result<(), SourceError> {
        let id = CredentialId::from_bytes(key.try_into().unwrap());
        let live = Arc::make_mut(&mut self.0);
        match view.get::<Credential>(&id)? {
            Some(_) => live.insert(id),
            None => live.remove(&id),
        };
        Ok(())
    }
}

/// Shows facts under a wrong revision, as if the revision were read outside of the view (violates rule 1).
struct Misdated<'s> {
    inner: &'s dyn Snapshot,
    at: At,
    head: OnceCell<Vec<u8>>,
}

impl Snapshot for Misdated<'_> {
    fn at(&self) -> At {
        self.at
    }

    fn get<'s>(&'s self, table: Table, key: &[u8]) -> Result<Option<&'s [u8]>, SourceError> {
        if table != Table::Head || key != Head::KEY {
            return self.inner.get(table, key);
        }
        // The head contains the right revision. Therefore this code replaces it by a head with the wrong revision.
        let head = || Head { revision: self.at.revision, commit: 0 }.write().stored.unwrap();
        Ok(Some(self.head.get_or_init(head)))
    }

    fn scan(&self, table: Table, prefix: &[u8], each: Each<'_>) -> Result<(), SourceError> {
        self.inner.scan(table, prefix, each)
    }

    fn at_or_after(&self, table: Table, key: &[u8]) -> Result<Found<'_>, SourceError> {
        self.inner.at_or_after(table, key)
    }
}

struct WithoutRule1(Arc<Lmdb>);

impl Source for WithoutRule1 {
    fn at(&self) -> At {
        self.0.at()
    }

    fn with_view(&self, look: &mut dyn FnMut(&View<'_>)) -> Result<(), SourceError> {
        self.0.snapshot(|inner| {
            // At this point another process has time to commit.
            std::thread::sleep(Duration::from_micros(200));
            look(&View::new(&Misdated { inner, at: self.0.at(), head: OnceCell::new() }));
        })
    }

    fn commit(&self, change: &Change) -> Result<At, CommitError> {
        self.0.commit(change)
    }
}

fn house(source: Arc<dyn Source>) -> Arc<House> {
    House::new(Parts {
        identity_memo: IdentityMemo::new(MemoSeed([1; 16]), 4 << 20),
        ..enfilade_testkit::parts_at(source, NOW)
    })
}

/// State that the processes share: whether to stop, and which revocations were acknowledged. Each item is one byte of a file, so that each process
/// immediately reads what another process wrote.
struct Board(File);

impl Board {
    fn open(place: &Path) -> Self {
        let mut options = File::options();
        Board(options.read(true).write(true).create(true).truncate(false).open(place.join("board")).unwrap())
    }

    fn get(&self, at: usize) -> bool {
        let mut byte = [0];
        self.0.read_at(&mut byte, at as u64).unwrap();
        byte == [1]
    }

    fn set(&self, at: usize) {
        self.0.write_all_at(&[1], at as u64).unwrap();
    }
}

struct Token {
    authid: String,
    secret: String,
    id: CredentialId,
}

impl Token {
    fn ask(&self) -> SecretAsk {
        SecretAsk {
            authid: self.authid.parse().unwrap(),
            secret: Secret::new(self.secret.as_bytes()).unwrap(),
        }
    }
}

fn tokens(place: &Path) -> Vec<Token> {
    let text = std::fs::read_to_string(place.join("tokens")).unwrap();
    let token = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        Token { authid: words[0].into(), secret: words[1].into(), id: words[2].parse().unwrap() }
    };
    text.lines().map(token).collect()
}

#[derive(Default)]
struct Counts {
    checks: AtomicU64,
    granted: AtomicU64,
    stale: AtomicU64,
}

impl Counts {
    fn count(&self, granted: bool, revoked_before: bool) {
        self.checks.fetch_add(1, Ordering::Relaxed);
        self.granted.fetch_add(u64::from(granted), Ordering::Relaxed);
        self.stale.fetch_add(u64::from(granted && revoked_before), Ordering::Relaxed);
    }
}

/// Chooses the next token to check: in most cases a token that is being revoked now, otherwise any token. Each token is checked several times,
/// because memos must have a verdict about it.
struct Choice {
    count: usize,
    front: usize,
    round: usize,
}

impl Choice {
    fn next(&mut self, board: &Board) -> usize {
        self.round += 1;
        while self.front < self.count && board.get(self.front + 1) {
            self.front += 1;
        }
        let step = self.round / 4;
        match step % 4 {
            0 => step.wrapping_mul(0x9e37_79b9) % self.count,
            near => (self.front.saturating_sub(2) + near).min(self.count - 1),
        }
    }
}

/// Checks tokens like the server: by door 2, and by the index at the revision of the view.
fn check_rightly(lmdb: &Arc<Lmdb>, source: Arc<dyn Source>, place: &Path, counts: &Counts) {
    let (tokens, board) = (tokens(place), Board::open(place));
    let (house, index) = (house(source), Index::<Live>::new());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut choice = Choice { count: tokens.len(), front: 0, round: 0 };
    while !board.get(0) {
        let token = choice.next(&board);
        let revoked_before = board.get(token + 1);
        let credential = enfilade_passage::Credential::Secret(tokens[token].ask());
        let admitted = runtime.block_on(house.admit(&credential, [127, 0, 0, 1].into())).is_ok();
        let is_live = loop {
            let live = lmdb.read(|view| index.read(view, |live| live.0.contains(&tokens[token].id))).unwrap();
            match live {
                Ok(live) => break live,
                Err(IndexError::Ahead) => {}
                Err(why) => panic!("{why}"),
            }
        };
        assert!(
            !is_live || admitted || board.get(0) || !revoked_before,
            "the index knows less than the facts"
        );
        counts.count(admitted, revoked_before);
        counts.count(is_live, revoked_before);
    }
}

/// The number of requests for which [`check_with_what_was_kept`] does not look at the present facts.
const KEPT_FOR: u64 = 400;

/// Checks tokens in a wrong way. Depending on `rule`, one view is used for [`KEPT_FOR`] requests (violates rule 2), or an index is not updated for
/// [`KEPT_FOR`] requests (violates rule 3).
fn check_with_what_was_kept(lmdb: &Arc<Lmdb>, rule: &str, place: &Path, counts: &Counts) {
    let (tokens, board) = (tokens(place), Board::open(place));
    let memo = IdentityMemo::new(MemoSeed([1; 16]), 4 << 20);
    let (hash_key, sessions) = (enfilade_testkit::hash_key(), SessionState::default());
    let context = Context { hash_key: &hash_key, sessions: &sessions, memo: &memo };
    let mut choice = Choice { count: tokens.len(), front: 0, round: 0 };
    while !board.get(0) {
        lmdb.read(|view| {
            let index = Index::<Live>::new();
            let live = index.read(view, Live::clone).unwrap();
            for _ in 0..KEPT_FOR {
                let token = choice.next(&board);
                let revoked_before = board.get(token + 1);
                let granted = match rule {
                    "2" => {
                        let ask = tokens[token].ask();
                        enfilade_identity::open(view, || NOW, Ask::Secret(&ask), &context).is_ok()
                    }
                    _ => live.0.contains(&tokens[token].id),
                };
                counts.count(granted, revoked_before);
            }
        })
        .unwrap();
    }
}

/// The file that a process creates when it has begun to check.
fn ready(place: &Path, process: u32) -> PathBuf {
    place.join(format!("ready-{process}"))
}

/// Runs only as a child process of the tests below, and checks tokens. The environment names the directory and the rule to break.
#[test]
fn a_process_that_checks() {
    let Some(place) = std::env::var_os(PLACE).map(PathBuf::from) else { return };
    let rule = std::env::var(RULE).unwrap_or_default();
    let lmdb = Arc::new(Lmdb::open(&place.join("data/facts")).unwrap());
    let counts = Counts::default();
    std::thread::scope(|scope| {
        let check = || match rule.as_str() {
            "" => check_rightly(&lmdb, Arc::clone(&lmdb) as Arc<dyn Source>, &place, &counts),
            "1" => check_rightly(&lmdb, Arc::new(WithoutRule1(Arc::clone(&lmdb))), &place, &counts),
            rule => check_with_what_was_kept(&lmdb, rule, &place, &counts),
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(check)).collect();
        // Creates the file only after some checks, because nothing must be revoked before all processes check tokens.
        while counts.checks.load(Ordering::Relaxed) < 100
            && !threads.iter().all(|thread| thread.is_finished())
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::fs::write(ready(&place, std::process::id()), "").unwrap();
        // The end of a scope waits for the closures of the threads, but not for the exit of the threads. A thread frees its reader slot at its exit.
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    let [checks, granted, stale] =
        [&counts.checks, &counts.granted, &counts.stale].map(|count| count.load(Ordering::Relaxed));
    std::fs::write(
        place.join(format!("result-{}", std::process::id())),
        format!("{checks} {granted} {stale}"),
    )
    .unwrap();
}

struct Outcome {
    checks: u64,
    granted: u64,
    stale: u64,
}

fn prepare(place: &Path, count: usize) -> PathBuf {
    let data = place.join("data");
    assert!(
        Command::new(BINARY)
            .arg("--data")
            .arg(&data)
            .arg("init")
            .stdout(Stdio::null())
            .status()
            .unwrap()
            .success()
    );
    let lmdb = Lmdb::open(&data.join("facts")).unwrap();
    let (files, reserved) = (FileSet::new(&data), ReservedPaths::default());
    let ctx = change_context(&lmdb, &files, &reserved, NOW);
    let owner: Userid = "robot@local".parse().unwrap();
    let new = NewUser::named(owner.clone());
    enfilade_admin::add_user(&ctx, &new).unwrap();
    let made = (0..count).map(|n| {
        let name: TokenName = format!("t{n}").parse().unwrap();
        enfilade_admin::create_token(
            &ctx,
            &enfilade_testkit::hash_key(),
            &owner,
            &name,
            &TokenTerms::default(),
        )
        .unwrap()
    });
    let made: Vec<_> = made.collect();
    let ids = enfilade_admin::list_tokens(&lmdb, Some(&owner)).unwrap();
    let ids: std::collections::HashMap<_, _> =
        ids.into_iter().map(|token| (token.tokenid, token.id)).collect();
    let line = |token: &enfilade_admin::NewToken| {
        let authid = token.tokenid.to_string();
        format!("{authid} {} {}\n", token.value, ids[&authid])
    };
    std::fs::write(place.join("tokens"), made.iter().map(line).collect::<String>()).unwrap();
    data
}

/// Makes revocations while the processes check tokens. The processes stop after enough checks.
fn race(checks: u64, without: &str) -> Outcome {
    let scratch = Scratch::new();
    let place = scratch.path();
    let count = (checks / CHECKS_PER_REVOCATION) as usize;
    let data = prepare(place, count);
    let board = Board::open(place);
    let said = |n: usize| place.join(format!("said-{n}"));
    let start = |n: usize| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "race::a_process_that_checks"]).env(PLACE, place).env(RULE, without);
        command.stdout(std::fs::File::create(said(n)).unwrap()).spawn().unwrap()
    };
    let children: Vec<Child> = (0..PROCESSES).map(start).collect();
    let is_ready = |child: &Child| ready(place, child.id()).exists();
    let began = Instant::now();
    // A child process that ended early has printed the reason, and is detected below.
    while !children.iter().all(is_ready) && began.elapsed() < Duration::from_secs(120) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let lmdb = Lmdb::open(&data.join("facts")).unwrap();
    let (files, reserved) = (FileSet::new(&data), ReservedPaths::default());
    let ctx = change_context(&lmdb, &files, &reserved, NOW);
    let owner: Userid = "robot@local".parse().unwrap();
    for n in 0..count {
        let name: TokenName = format!("t{n}").parse().unwrap();
        if n % CLI_EVERY == 0 {
            let token = format!("robot@local!t{n}");
            let mut command = Command::new(BINARY);
            command
                .args(["--json", "--data"])
                .arg(&data)
                .args(["token", "delete", &token])
                .stdout(Stdio::null());
            assert!(command.status().unwrap().success());
        } else {
            enfilade_admin::delete_token(&ctx, &owner, &name).unwrap();
        }
        // The revocation is acknowledged now. Every check that begins later must be refused.
        board.set(n + 1);
        if !without.is_empty() {
            // During this pause, a process would use a wrongly remembered verdict.
            std::thread::sleep(Duration::from_millis(2));
        }
        if n % 1000 == 999 {
            println!("{:>6} of {count} revoked", n + 1);
        }
    }
    // The processes check for a little longer, so that late wrong grants are counted, too.
    std::thread::sleep(Duration::from_millis(200));
    board.set(0);
    let mut outcome = Outcome { checks: 0, granted: 0, stale: 0 };
    for (n, mut child) in children.into_iter().enumerate() {
        let status = child.wait().unwrap();
        assert!(status.success(), "{status}: {}", std::fs::read_to_string(said(n)).unwrap());
        let result = std::fs::read_to_string(place.join(format!("result-{}", child.id()))).unwrap();
        let numbers: Vec<u64> = result.split(' ').map(|number| number.parse().unwrap()).collect();
        outcome.checks += numbers[0];
        outcome.granted += numbers[1];
        outcome.stale += numbers[2];
    }
    outcome
}

#[test]
fn nothing_is_granted_after_its_revocation_was_acknowledged() {
    let checks = std::env::var("ENFILADE_CAMPAIGN_N").ok().and_then(|n| n.parse().ok()).unwrap_or(SMOKE);
    let Outcome { checks: made, granted, stale } = race(checks, "");
    println!(
        "race: {made} checks against {} revocations, {granted} granted: {stale} granted after a revocation",
        checks / CHECKS_PER_REVOCATION
    );
    assert_eq!(stale, 0);
    assert!(granted > 0 && made > checks / 10, "{made} checks, {granted} granted");
}

#[test]
fn without_a_rule_the_race_finds_a_stale_grant() {
    for rule in ["1", "2", "3"] {
        // One race is nearly always enough. On a busy machine, another race may be necessary.
        let found = (0..10).any(|_| {
            let Outcome { checks, stale, .. } = race(SMOKE, rule);
            println!("race without rule {rule}: {checks} checks, {stale} granted after a revocation");
            stale > 0
        });
        assert!(found, "without rule {rule}, no race found a wrong grant");
    }
}
