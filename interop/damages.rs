//! A store with random damage: no command ends by a signal or hangs. Each command that fails reports the problem and the next step. Each command that
//! succeeds prints the same output as before the damage.
//!
//! `cargo xtask damage --n 10000` is the campaign; the test runs a few of its rounds.

use crate::kill_loop::Random;
use crate::server::{BINARY, Scratch, Server, WITHOUT_PENALTIES, serving};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

const SMOKE: u64 = 200;
const PAGE: u64 = 4096;
/// A command takes some milliseconds. A command that runs for longer than this time hangs.
const HANG: Duration = Duration::from_secs(30);
/// In each round with a multiple of this number, the test also starts a server.
const SERVER_ROUNDS: u64 = 40;
const STORE: &str = "facts/data.mdb";
const SMALL: [&str; 3] = ["facts/high-water", "facts/lookout", "attempts"];
const BACKUP: &str = "BACKUP";
const COMMANDS: [&[&str]; 9] = [
    &["facts", "check"],
    &["facts", "dump"],
    &["facts", "backup", BACKUP, "--force"],
    &["facts", "log"],
    &["doctor"],
    &["user", "list"],
    &["group", "list"],
    &["token", "list", "alice@local"],
    &["role", "list"],
];
/// A message contains a next step if it contains one of these texts.
const STEPS: [&str; 7] = [
    "enfilade facts check",
    "enfilade facts restore FILE",
    "--accept-rollback",
    "--data",
    "map_mebibytes",
    "delete this file",
    "ulimit",
];

struct House {
    scratch: Scratch,
    files: BTreeMap<&'static str, Vec<u8>>,
    /// Two logins: a token with rights, and the same token with a wrong secret.
    logins: [String; 2],
    said: BTreeMap<usize, String>,
    answers: Vec<String>,
}

impl House {
    /// Creates users, groups and tokens, and changes some of these records. After these changes, the file has free pages and older versions of
    /// records.
    fn build() -> Self {
        let mut server = Server::start();
        let login = server.add_user("alice", "DatastoreReader");
        for n in 0..40 {
            server.cli(&["group", "add", &format!("group{n}"), "--comment", &"long ".repeat(n)]);
        }
        for n in 0..20 {
            server.cli(&["group", "remove", &format!("group{n}")]);
        }
        let wrong = format!("{}x", &login[..login.len() - 1]);
        server.stop();
        let scratch = std::mem::replace(&mut server.scratch, Scratch::new());
        let read = |name| (name, std::fs::read(scratch.path().join("data").join(name)).unwrap());
        let files = [&[STORE][..], &SMALL].concat().into_iter().map(read).collect();
        let mut house =
            House { scratch, files, logins: [login, wrong], said: BTreeMap::new(), answers: Vec::new() };
        for (number, command) in COMMANDS.into_iter().enumerate() {
            house.restore();
            let ran = house.run(command);
            assert!(ran.status.success(), "{command:?}: {}", ran.errors);
            house.said.insert(number, ran.said);
        }
        house.restore();
        house.answers = house.serve().unwrap_or_else(|ran| panic!("{}", ran.errors));
        house
    }

    fn data(&self) -> PathBuf {
        self.scratch.path().join("data")
    }

    /// Writes the original content to every file.
    fn restore(&self) {
        for (name, bytes) in &self.files {
            self.write(name, bytes);
        }
        let _ = std::fs::remove_file(self.data().join("facts/faulted"));
        let _ = std::fs::remove_file(self.data().join("facts/lock.mdb"));
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.data().join(name);
        std::fs::write(&path, bytes).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        let backup = self.scratch.path().join("backup");
        let mut command = Command::new(BINARY);
        command.args(["--json", "--data"]).arg(self.data());
        for argument in arguments {
            match *argument {
                BACKUP => command.arg(&backup),
                argument => command.arg(argument),
            };
        }
        let mut ran = Ran::of(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        if arguments.contains(&BACKUP) && ran.status.success() {
            // The first line of a backup contains the time of the backup.
            let whole = std::fs::read(&backup).unwrap();
            let head = whole.iter().position(|byte| *byte == b'\n').unwrap_or(0);
            ran.said = format!("{} bytes, {:?}", whole.len() - head, whole.get(whole.len() - 24..));
        }
        // The last use of a token is stored outside of the facts, so it may differ.
        if arguments.starts_with(&["token"]) {
            ran.said = ran.said.split(',').filter(|field| !field.contains("last_used")).collect();
        }
        if arguments == ["facts", "dump"] {
            ran.said = ran.said.lines().skip(1).collect::<Vec<_>>().join("\n");
        }
        if arguments == ["doctor"] && ran.status.success() {
            // Only the finding about the facts is compared, because the other findings contain times and numbers that differ.
            let facts = |line: &&str| line.contains("\"what\":\"facts\"");
            ran.said = ran.said.lines().filter(facts).collect();
        }
        ran
    }

    /// Starts a server and sends requests to it. Returns the answers, or the result of the server's process.
    fn serve(&self) -> Result<Vec<String>, Ran> {
        let errors = self.scratch.path().join("errors");
        let log = std::fs::File::create(&errors).unwrap();
        let mut child =
            serving(&self.data(), &[WITHOUT_PENALTIES]).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let told: Option<serde_json::Value> = serde_json::from_str(&line).ok();
        let plain = told.as_ref().and_then(|told| told["plain_listen"].as_str());
        let answers: Vec<String> = plain.map_or(Vec::new(), |plain| self.ask(plain));
        if plain.is_some() && child.try_wait().unwrap().is_none() {
            child.kill().unwrap();
            child.wait().unwrap();
            return Ok(answers);
        }
        let status = wait(&mut child);
        Err(Ran { status, said: line, errors: std::fs::read_to_string(&errors).unwrap() })
    }

    fn ask(&self, plain: &str) -> Vec<String> {
        let asked = self.logins.iter().flat_map(|login| {
            [
                ("GET", "/whoami"),
                ("PROPFIND", "/dav/main/"),
                ("GET", "/dav/main/absent"),
                ("PUT", "/dav/main/x"),
            ]
            .map(|(method, path)| {
                let output = Command::new("curl")
                    .args(["--silent", "--max-time", "20", "--user", login, "--request", method])
                    .args(["--header", "Depth: 0", "--output", "/dev/null", "--write-out", "%{http_code}"])
                    .arg(format!("http://{plain}{path}"))
                    .output();
                format!("{method} {path} {}", String::from_utf8_lossy(&output.unwrap().stdout))
            })
        });
        asked.collect()
    }
}

/// The result of a process.
struct Ran {
    status: ExitStatus,
    said: String,
    errors: String,
}

impl Ran {
    fn of(mut child: std::process::Child) -> Self {
        let (mut out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let reader = std::thread::spawn(move || {
            let mut said = String::new();
            out.read_to_string(&mut said).map(|_| said)
        });
        let errors = std::thread::spawn(move || {
            let mut errors = String::new();
            err.read_to_string(&mut errors).map(|_| errors)
        });
        let status = wait(&mut child);
        Ran {
            status,
            said: reader.join().unwrap().unwrap_or_default(),
            errors: errors.join().unwrap().unwrap_or_default(),
        }
    }

    /// The fault of a failed process: it hangs, ended by a signal, panicked, or names no next step. `None` if there is no such fault.
    fn fault(&self) -> Option<&'static str> {
        let text = format!("{}{}", self.said, self.errors);
        match () {
            () if self.status.signal() == Some(9) => Some("it hangs"),
            () if self.status.signal().is_some() => Some("it ended by a signal"),
            () if text.contains("panicked at") => Some("it panicked"),
            () if !STEPS.iter().any(|step| text.contains(step)) => Some("it says no next step"),
            () => None,
        }
    }
}

/// Waits for a process, and kills it if it hangs.
fn wait(child: &mut std::process::Child) -> ExitStatus {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if HANG < began.elapsed() {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Changes the content of a file. Returns a description of the change.
fn damage(bytes: &mut Vec<u8>, random: &mut Random) -> String {
    let length = bytes.len() as u64;
    let pages = (length / PAGE).max(1);
    // In half of the cases, the place is in the header of a page or in a meta page.
    let at = match random.below(4) {
        0 => random.below(2 * PAGE.min(length / 2)),
        1 => (random.below(pages) * PAGE + random.below(96)).min(length - 1),
        _ => random.below(length),
    };
    let until = |count: u64| (at + count).min(length) as usize;
    let from = at as usize;
    match random.below(8) {
        0 => {
            bytes[from] ^= 1 << random.below(8);
            format!("a bit of byte {at}")
        }
        1 => {
            let count = 1 + random.below(16);
            bytes[from..until(count)].iter_mut().for_each(|byte| *byte = random.below(256) as u8);
            format!("{count} bytes at {at}")
        }
        2 => {
            let count = 1 + random.below(2 * PAGE);
            bytes[from..until(count)].iter_mut().for_each(|byte| *byte = random.below(256) as u8);
            format!("{count} bytes at {at}")
        }
        3 => {
            let count = 1 + random.below(2 * PAGE);
            bytes[from..until(count)].fill(0);
            format!("{count} zeros at {at}")
        }
        4 => {
            bytes.truncate(from);
            format!("cut to {at} bytes")
        }
        5 => {
            let (one, other) = (random.below(pages) * PAGE, random.below(pages) * PAGE);
            for n in 0..PAGE.min(length) {
                bytes.swap((one + n) as usize, (other + n) as usize);
            }
            format!("page {} and page {} swapped", one / PAGE, other / PAGE)
        }
        6 => {
            let (one, other) = (random.below(pages) * PAGE, random.below(pages) * PAGE);
            let copied = bytes[one as usize..((one + PAGE).min(length)) as usize].to_vec();
            bytes[other as usize..other as usize + copied.len()].copy_from_slice(&copied);
            format!("page {} written over page {}", one / PAGE, other / PAGE)
        }
        _ => {
            let number = [0_u64, 1, u64::MAX, 0xffff_ffff, random.below(pages * 2), random.below(1 << 40)];
            let number = number[random.below(number.len() as u64) as usize].to_ne_bytes();
            let width = [2, 4, 8][random.below(3) as usize];
            let from = from & !1;
            let end = (from + width).min(bytes.len());
            bytes[from..end].copy_from_slice(&number[..end - from]);
            format!("the number {number:?} of {width} bytes at {from}")
        }
    }
}

/// Whether each answer is the same as with the undamaged store, or an error of the server.
fn is_like(answers: &[String], before: &[String]) -> bool {
    let is_error = |answer: &String| answer.ends_with(" 000") || answer.rsplit(' ').next() >= Some("500");
    answers.iter().zip(before).all(|(answer, before)| answer == before || is_error(answer))
}

#[test]
fn no_damage_ends_a_process_without_a_message_or_changes_what_it_says() {
    let number =
        |name: &str, default: u64| std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(default);
    let (n, seed) = (number("ENFILADE_CAMPAIGN_N", SMOKE), number("ENFILADE_CAMPAIGN_SEED", 1));
    println!("damage: {n} damages, seed {seed}");
    let house = House::build();
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let (mut faults, mut refused, mut same, mut ended) = (Vec::new(), 0, 0, 0);
    for round in 1..=n {
        house.restore();
        let name = match random.below(6) {
            0 => SMALL[random.below(3) as usize],
            _ => STORE,
        };
        let mut bytes = house.files[name].clone();
        let what = damage(&mut bytes, &mut random);
        house.write(name, &bytes);
        let mut found = |who: &str, why: &str, ran: &Ran| {
            faults.push(format!(
                "{round}: {name}, {what}: {who}: {why}: {} {} {}",
                ran.status, ran.said, ran.errors
            ));
        };
        for _ in 0..2 {
            let chosen = random.below(COMMANDS.len() as u64) as usize;
            let ran = house.run(COMMANDS[chosen]);
            let who = COMMANDS[chosen].join(" ");
            ended += u64::from(ran.status.code() == Some(74));
            match ran.status.success() {
                true if ran.said == house.said[&chosen] => same += 1,
                true => found(&who, "its output differs from the output before the damage", &ran),
                false => {
                    refused += 1;
                    if let Some(why) = ran.fault() {
                        found(&who, why, &ran);
                    }
                }
            }
        }
        if round % SERVER_ROUNDS == 0 {
            match house.serve() {
                Ok(answers) if is_like(&answers, &house.answers) => {}
                Ok(answers) => faults.push(format!("{round}: {name}, {what}: serve: {answers:?}")),
                Err(ran) => {
                    if let Some(why) = ran.fault() {
                        found("serve", why, &ran);
                    }
                }
            }
        }
        if round % 500 == 0 {
            println!(
                "{round:>6} of {n}: {refused} commands failed ({ended} with exit status 74), {same} printed the same as before, {} wrong",
                faults.len()
            );
        }
    }
    println!(
        "damage: {n} damages, seed {seed}: {refused} commands failed ({ended} with exit status 74, by the signal handler), {same} \
        printed the same as before; {} wrong",
        faults.len()
    );
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(refused > n / 4 && same > n / 4, "{refused} refused, {same} the same");
}

/// Damages the store of a running server and sends a request. Returns the server and the answer.
fn under_a_server(damage: impl Fn(&std::fs::File)) -> (Server, String) {
    let server = Server::start_with(&[("ENFILADE_FACTS__MAP_MEBIBYTES", "16")]);
    let login = server.add_user("alice", "DatastoreReader");
    let ask = || {
        let output = Command::new("curl")
            .args([
                "--silent",
                "--max-time",
                "20",
                "--user",
                &login,
                "--output",
                "/dev/null",
                "--write-out",
                "%{http_code}",
            ])
            .arg(format!("http://{}/whoami", server.plain))
            .output();
        String::from_utf8_lossy(&output.unwrap().stdout).into_owned()
    };
    assert_eq!(ask(), "200");
    damage(&std::fs::OpenOptions::new().write(true).open(server.data().join(STORE)).unwrap());
    // Increments the revision in `high-water`. Therefore the server uses no remembered decision, and reads the damaged store.
    let mark = server.data().join("facts/high-water");
    let mut words = std::fs::read(&mark).unwrap();
    words[24] = words[24].wrapping_add(1);
    let file = std::fs::OpenOptions::new().write(true).open(&mark).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &words, 0).unwrap();
    let answer = ask();
    (server, answer)
}

#[test]
fn a_server_whose_store_is_cut_short_ends_with_a_message_and_the_next_start_refuses() {
    let (mut server, answer) = under_a_server(|file| file.set_len(2 * PAGE).unwrap());
    assert_ne!(answer, "200");
    let status = server.wait();
    let log = server.log();
    assert_eq!(status.code(), Some(74), "{status} {log}");
    assert!(log.contains("damaged pages in `") && log.contains("facts restore FILE --set-aside"), "{log}");
    assert!(server.data().join("facts/faulted").exists());
    let refused = serving(&server.data(), &[]).output().unwrap();
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && why.contains("enfilade facts check"), "{why}");
    // `facts check` describes the damage. The file `faulted`, which blocks the store, stays.
    let checked = server.cli_output(&["facts", "check"], "");
    let why = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(checked.status.code() == Some(1) && why.contains("are damaged"), "{why}");
    assert!(server.data().join("facts/faulted").exists());
}

#[test]
fn a_store_that_was_refused_after_a_fault_is_opened_again_when_its_pages_are_sound() {
    let mut server = Server::start();
    server.stop();
    std::fs::write(server.data().join("facts/faulted"), "").unwrap();
    for command in [&["user", "list"][..], &["doctor"], &["facts", "dump"]] {
        let refused = server.cli_output(command, "");
        let why = format!(
            "{}{}",
            String::from_utf8_lossy(&refused.stdout),
            String::from_utf8_lossy(&refused.stderr)
        );
        assert!(
            refused.status.code() == Some(1) && why.contains("enfilade facts check"),
            "{command:?}: {why}"
        );
    }
    assert_eq!(server.cli(&["facts", "check"])[0]["accepted_after_fault"], true);
    assert_eq!(server.cli(&["facts", "check"])[0]["accepted_after_fault"], false);
    server.kill_and_restart();
}

#[test]
fn damaged_locks_are_refused_with_the_way_to_go_on() {
    let mut server = Server::start();
    server.stop();
    let locks = server.data().join("locks");
    std::fs::write(locks.join("data.mdb"), vec![0xa5; 3 * PAGE as usize]).unwrap();
    let refused = serving(&server.data(), &[]).output().unwrap();
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        refused.status.code() == Some(1) && why.contains("then remove only the subdirectory `locks`"),
        "{why}"
    );
    std::fs::remove_dir_all(&locks).unwrap();
    server.kill_and_restart();
}
