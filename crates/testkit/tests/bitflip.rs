//! Flips one bit of a store, or truncates the store. After that, every request is answered as before, or refused, or the process ends. This also
//! holds without the high-water mark, because the damage must be found in the records of the store.
//!
//! `cargo xtask bitflip --n 10000` runs the campaign; `cargo test` runs a short form.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a campaign waits for processes and says how far it is"
)]

use enfilade_admin::{DatastoreEdit, NewUser, ReservedPaths, Target, TokenEdit, TokenTerms, UserEdit};
use enfilade_facts::tables::FileName;
use enfilade_facts::vocabulary::{Authid, DatastoreName, OperationKind, Role, Secret, StorePath, Userid};
use enfilade_facts::{Clocks, MirrorHealth, Refuse, Source};
use enfilade_identity::SecretAsk;
use enfilade_passage::{Blocking, Credential, House};
use enfilade_sources::files::file_set::FileSet;
use enfilade_sources::files::mirror::Mirror;
use enfilade_sources::lmdb::Lmdb;
use enfilade_testkit::{Scratch, change_context, hash_key};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

const PLACE: &str = "ENFILADE_BITFLIP_STORE";
/// The environment variable with the number of flips, which the campaign sets.
const COUNT: &str = "ENFILADE_CAMPAIGN_N";
const SEED: &str = "ENFILADE_CAMPAIGN_SEED";
const SMOKE: u64 = 100;
const HANG: Duration = Duration::from_secs(20);
const NOW: Clocks = Clocks { unix_seconds: 1_800_000_000, tick_millis: 1000, mirror: MirrorHealth::Current };
const USERS: u32 = 24;
const GROUPS: u32 = 6;
const MARK: &str = "high-water";
const FILES: [&str; 3] = ["data.mdb", "lock.mdb", MARK];

fn user(n: u32) -> Userid {
    format!("user{n}@local").parse().unwrap()
}

/// Creates users, groups, tokens, roles and datastores, with a history: the file also contains an older version of each record. Returns the logins,
/// including invalid ones.
fn build(place: &Path) -> Vec<(String, String)> {
    let lmdb = Lmdb::open(&place.join("facts")).unwrap();
    let files = FileSet::new(place);
    let reserved = ReservedPaths::default();
    let ctx = change_context(&lmdb, &files, &reserved, NOW);
    enfilade_admin::ensure_local_realm(&ctx, None).unwrap();
    for name in ["alpha", "beta", "gamma"] {
        let path = place.join(name).to_str().unwrap().to_owned();
        let edit = DatastoreEdit::Create { path, properties: Vec::new() };
        enfilade_admin::edit_datastore(&ctx, &name.parse().unwrap(), &edit).unwrap();
    }
    let path = |text: &str| text.parse().unwrap();
    let mut logins = Vec::new();
    for n in 0..GROUPS {
        enfilade_admin::add_group(&ctx, &format!("group{n}").parse().unwrap(), None, None, None).unwrap();
    }
    for n in 0..USERS {
        let userid = user(n);
        let new = NewUser::named(userid.clone());
        enfilade_admin::add_user(&ctx, &new).unwrap();
        let target = Target::User(userid.clone());
        for group in 0..GROUPS {
            if n % (group + 2) == 0 {
                enfilade_admin::add_member(&ctx, &format!("group{group}").parse().unwrap(), &target).unwrap();
            }
        }
        for name in ["one", "two", "three"] {
            let made = enfilade_admin::create_token(
                &ctx,
                &hash_key(),
                &userid,
                &name.parse().unwrap(),
                &TokenTerms::default(),
            )
            .unwrap();
            logins.push((made.tokenid.to_string(), made.value));
        }
        enfilade_admin::assign_role(&ctx, &path("/datastore/alpha"), &target, Role::DatastorePowerUser, true)
            .unwrap();
        enfilade_admin::assign_role(&ctx, &path("/datastore/beta"), &target, Role::DatastoreReader, true)
            .unwrap();
    }
    for n in 0..USERS {
        let (userid, target) = (user(n), Target::User(user(n)));
        match n % 6 {
            0 => {
                let edit = UserEdit { enabled: Some(false), ..UserEdit::default() };
                enfilade_admin::set_user(&ctx, &userid, &edit).unwrap();
            }
            1 => drop(
                enfilade_admin::remove_role(
                    &ctx,
                    &path("/datastore/alpha"),
                    &target,
                    Role::DatastorePowerUser,
                )
                .unwrap(),
            ),
            2 => drop(
                enfilade_admin::assign_role(&ctx, &path("/datastore/beta"), &target, Role::NoAccess, true)
                    .unwrap(),
            ),
            3 => drop(enfilade_admin::delete_token(&ctx, &userid, &"one".parse().unwrap()).unwrap()),
            4 => {
                let new =
                    enfilade_admin::regenerate_token(&ctx, &hash_key(), &userid, &"two".parse().unwrap(), 0)
                        .unwrap();
                logins.push((new.tokenid.to_string(), new.value));
            }
            _ => {
                let edit = TokenEdit { enabled: Some(false), ..TokenEdit::default() };
                enfilade_admin::set_token(&ctx, &userid, &"three".parse().unwrap(), &edit).unwrap();
            }
        }
        if n % 4 == 0 {
            enfilade_admin::remove_member(&ctx, &"group0".parse().unwrap(), &target).unwrap();
        }
    }
    let everybody = Target::Group("group1".parse().unwrap());
    enfilade_admin::assign_role(&ctx, &path("/datastore/gamma"), &everybody, Role::DatastoreReader, true)
        .unwrap();
    let offline = enfilade_facts::vocabulary::Maintenance::from_property("offline");
    let edit = DatastoreEdit::Maintenance(Some(offline));
    enfilade_admin::edit_datastore(&ctx, &"gamma".parse().unwrap(), &edit).unwrap();
    logins.extend(kept_in_files(&lmdb, &files));
    logins
}

/// Writes five users and tokens to mirrored files, and then changes the files. The second user is removed, the third loses its role, and the fourth
/// its hash. The section of the fifth user is malformed for longer than the stale limit.
fn kept_in_files(lmdb: &Lmdb, files: &FileSet) -> Vec<(String, String)> {
    let secret = |n: u32| format!("secret of {n}");
    let write = |file, text: String| std::fs::write(files.path(file), text).unwrap();
    let look = |seconds: i64| {
        let now = Clocks { unix_seconds: NOW.unix_seconds + seconds, ..NOW };
        Mirror::new(files.clone()).look(lmdb, now).unwrap()
    };
    let users = |which: &[u32], broken: &str| {
        let section = |n: &u32| {
            let broken = if *n == 5 { broken } else { "" };
            format!("user: kept{n}@pbs\n\ntoken: kept{n}@pbs!one\n{broken}\n")
        };
        which.iter().map(section).collect::<String>()
    };
    let hashes = |which: &[u32]| {
        let hash = |n: &u32| enfilade_identity::hash_generated(&secret(*n), [7; 12]).unwrap();
        let entry = |n: &u32| format!("\"kept{n}@pbs!one\":\"{}\"", hash(n));
        format!("{{{}}}", which.iter().map(entry).collect::<Vec<_>>().join(","))
    };
    let roles = |which: &[u32]| {
        let line =
            |n: &u32| format!("acl:1:/datastore/alpha:kept{n}@pbs,kept{n}@pbs!one:DatastorePowerUser\n");
        which.iter().map(line).collect::<String>()
    };
    write(FileName::Users, users(&[1, 2, 3, 4, 5], ""));
    write(FileName::Secrets, hashes(&[1, 2, 3, 4, 5]));
    write(FileName::Acl, roles(&[1, 2, 3, 4, 5]));
    assert!(look(0).problems.is_empty());
    write(FileName::Users, users(&[1, 3, 4, 5], "\tnonsense\n"));
    write(FileName::Secrets, hashes(&[1, 2, 3, 5]));
    write(FileName::Acl, roles(&[1, 2, 4, 5]));
    look(1);
    // An entry that is removed from a file with errors is stale at first.
    assert_eq!(look(100).problems.len(), 3);
    (1..=5).map(|n| (format!("kept{n}@pbs!one"), secret(n))).collect()
}

/// The answer for every login and datastore, one line each. `+` at the start means access.
async fn answers(logins: &[(String, String)], source: Arc<dyn Source>) -> Vec<String> {
    let house = House::new(enfilade_testkit::parts_at(source, NOW));
    let mut lines = Vec::new();
    for (authid, secret) in logins {
        let authid: Authid = authid.parse().unwrap();
        let ask = SecretAsk { authid, secret: Secret::new(secret.as_bytes()).unwrap() };
        let visit = match house.admit(&Credential::Secret(ask), [127, 0, 0, 1].into()).await {
            Ok(visit) => visit,
            Err(refusal) => {
                lines.extend((0..4).map(|_| refusal.code().to_owned()));
                continue;
            }
        };
        let principal = visit.principal();
        lines.push(format!("+{} {} {:?}", principal.authid, principal.user, principal.groups));
        for (store, kind) in
            [("alpha", OperationKind::Write), ("beta", OperationKind::Read), ("gamma", OperationKind::Read)]
        {
            let name: DatastoreName = store.parse().unwrap();
            let seen = visit.clone().enter(&name, kind, Blocking).and_then(|stay| match kind {
                OperationKind::Write => stay.upload(StorePath::from_plain("new").unwrap(), None).map(drop),
                _ => stay.list(StorePath::from_plain("").unwrap()).map(drop),
            });
            lines.push(seen.map_or_else(|refusal| refusal.code().to_owned(), |()| "+".to_owned()));
        }
    }
    lines
}

fn ask(place: &Path, logins: &[(String, String)]) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut text = String::new();
    match Lmdb::open(&place.join("facts")) {
        Err(why) => {
            let _ = writeln!(text, "closed {why}");
        }
        Ok(lmdb) => {
            let lines = runtime.block_on(answers(logins, Arc::new(lmdb)));
            for line in lines {
                let _ = writeln!(text, "{line}");
            }
        }
    }
    text
}

/// The worker process runs this function with an environment variable that names a store. In a usual test run, this function does nothing. The worker
/// answers, waits for a byte on standard input, and answers again. Meanwhile the store stays open.
#[test]
fn whoever_is_asked() {
    let Some(place) = std::env::var_os(PLACE).map(PathBuf::from) else { return };
    let logins = std::fs::read_to_string(place.join("logins")).unwrap();
    let logins: Vec<(String, String)> =
        logins.lines().filter_map(|line| line.split_once(' ')).map(|(a, b)| (a.into(), b.into())).collect();
    let open = Lmdb::open(&place.join("facts"));
    let mut answers = std::fs::File::create(place.join("before")).unwrap();
    answers.write_all(ask(&place, &logins).as_bytes()).unwrap();
    println!("\nanswered");
    std::io::stdout().flush().unwrap();
    std::io::stdin().read_exact(&mut [0]).unwrap();
    std::fs::write(place.join("after"), ask(&place, &logins)).unwrap();
    drop(open);
}

/// The worker process and its output. The pipe stays open until the process has ended.
struct Asked(Child, BufReader<ChildStdout>);

impl Asked {
    fn start(place: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "whoever_is_asked", "--nocapture"]).env(PLACE, place);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        Asked(child, said)
    }

    /// Waits until the process has answered once. Returns false if the process ended before its first answer.
    fn answered(&mut self) -> bool {
        (&mut self.1).lines().map_while(Result::ok).any(|line| line == "answered")
    }

    /// Waits until the process has ended. Returns whether it succeeded; `None` if it hangs.
    fn ended(mut self) -> Option<bool> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return Some(status.success());
            }
            if start.elapsed() > HANG {
                self.0.kill().unwrap();
                self.0.wait().unwrap();
                return None;
            }
            std::thread::sleep(Duration::from_micros(300));
        }
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

#[derive(Clone, Debug)]
enum Damage {
    Flip { file: &'static str, byte: u64, bit: u8 },
    Cut { file: &'static str, bytes: u64 },
}

impl Damage {
    fn any(random: &mut Random, is_marked: bool, size: impl Fn(&str) -> u64) -> Self {
        let file = match random.below(40) {
            0 if is_marked => MARK,
            1 => FILES[1],
            // Hits one of LMDB's two meta pages, which contain the newest roots and their transaction ids.
            2 => {
                let byte = random.below(2) * 4096 + random.below(256);
                return Damage::Flip { file: FILES[0], byte, bit: random.below(8) as u8 };
            }
            _ => FILES[0],
        };
        let bytes = size(file);
        if random.below(50) == 0 {
            return Damage::Cut { file, bytes: random.below(bytes) };
        }
        // Half of the flips hit headers and pointers of pages, where they do the most damage.
        let byte = match (file, random.below(2)) {
            (MARK, _) => random.below(64),
            (_, 0) => random.below(bytes / 4096) * 4096 + random.below(128),
            _ => random.below(bytes),
        };
        Damage::Flip { file, byte, bit: random.below(8) as u8 }
    }

    /// Writes the damage through the page cache, so that a process that has the file mapped sees it at once.
    fn inflict(&self, facts: &Path) {
        match self {
            Damage::Flip { file, byte, bit } => {
                let file = std::fs::File::options().read(true).write(true).open(facts.join(file)).unwrap();
                let mut value = [0];
                file.read_exact_at(&mut value, *byte).unwrap();
                file.write_all_at(&[value[0] ^ (1 << bit)], *byte).unwrap();
            }
            Damage::Cut { file, bytes } => {
                std::fs::File::options().write(true).open(facts.join(file)).unwrap().set_len(*bytes).unwrap();
            }
        }
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Verdicts {
    same: u64,
    refused: u64,
    ended: u64,
    wrong: Vec<String>,
}

impl Verdicts {
    fn judge(&mut self, what: &str, good: &str, got: Option<&str>) {
        let Some(got) = got else {
            self.ended += 1;
            return;
        };
        if got == good {
            self.same += 1;
        } else if got.starts_with("closed ") {
            self.refused += 1;
        } else {
            let (good, got): (Vec<&str>, Vec<&str>) = (good.lines().collect(), got.lines().collect());
            let let_in = got.iter().zip(&good).find(|(got, good)| got.starts_with('+') && got != good);
            match let_in {
                Some((got, good)) => self.wrong.push(format!("{what}: `{got}` where it was `{good}`")),
                None if got.len() != good.len() => self.wrong.push(format!("{what}: answers are missing")),
                None => self.refused += 1,
            }
        }
    }
}

fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    std::fs::create_dir_all(to.join("facts")).unwrap();
    std::fs::set_permissions(to.join("facts"), PermissionsExt::from_mode(0o700)).unwrap();
    std::fs::copy(from.join("logins"), to.join("logins")).unwrap();
    for file in FILES {
        std::fs::copy(from.join("facts").join(file), to.join("facts").join(file)).unwrap();
    }
}

#[test]
fn a_flipped_bit_never_lets_anybody_in() {
    let number = |name, default| std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(default);
    let (count, seed) = (number(COUNT, SMOKE), number(SEED, 88_172_645_463_325_252));
    let scratch = Scratch::new();
    let place = scratch.path().join("good");
    std::fs::create_dir(&place).unwrap();
    let logins = build(&place);
    let text: String = logins.iter().map(|(authid, secret)| format!("{authid} {secret}\n")).collect();
    std::fs::write(place.join("logins"), text).unwrap();
    let good = ask(&place, &logins);
    let let_in = good.lines().filter(|line| line.starts_with('+')).count();
    assert!(let_in > 100 && good.lines().count() > let_in + 100, "{let_in} of {}", good.lines().count());

    let mut random = Random(seed | 1);
    let size = |file: &str| std::fs::metadata(place.join("facts").join(file)).unwrap().len();
    let mut verdicts = Verdicts::default();
    let bad = scratch.path().join("bad");
    let began = Instant::now();
    for n in 0..count {
        copy(&place, &bad);
        // One third of the flips happen while the process has the store open. The others happen before the process starts, half of them in a store
        // without the high-water mark.
        let (is_live, is_marked) = (n % 3 == 0, n % 3 != 1);
        let damage = Damage::any(&mut random, is_marked, size);
        let state = match (is_live, is_marked) {
            (true, _) => "open",
            (false, true) => "closed",
            (false, false) => "closed, without the mark",
        };
        let what = format!("seed {seed}, number {n}, {damage:?}, {state}");
        if !is_marked {
            std::fs::remove_file(bad.join("facts").join(MARK)).unwrap();
        }
        if !is_live {
            damage.inflict(&bad.join("facts"));
        }
        let mut asked = Asked::start(&bad);
        let mut pipe = asked.0.stdin.take().unwrap();
        if asked.answered() {
            if is_live {
                damage.inflict(&bad.join("facts"));
            }
            let _ = pipe.write_all(b"x");
        }
        match asked.ended() {
            None => verdicts.wrong.push(format!("{what}: the process hangs")),
            Some(whole) => {
                let read = |name: &str| std::fs::read_to_string(bad.join(name)).ok();
                let before = read("before").filter(|text| !text.is_empty());
                if is_live && before.as_deref() != Some(good.as_str()) {
                    verdicts.wrong.push(format!("{what}: other answers before the damage"));
                }
                let got = if whole { read("after") } else { None };
                verdicts.judge(&what, &good, got.as_deref());
            }
        }
        if (n + 1) % 500 == 0 {
            let per_second = (n + 1) as f64 / began.elapsed().as_secs_f64();
            let Verdicts { same, refused, ended, wrong } = &verdicts;
            println!(
                "{:>6} of {count}: {same} same, {refused} refused, {ended} ended, {} wrong ({per_second:.0}/s)",
                n + 1,
                wrong.len()
            );
        }
    }
    let Verdicts { same, refused, ended, wrong } = &verdicts;
    println!(
        "bitflip: {count} flips: {same} answered the same, {refused} refused, {ended} ended the process, {} wrong",
        wrong.len()
    );
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(*refused > 0 && *same > 0, "no flip was detected, or none was harmless");
}
