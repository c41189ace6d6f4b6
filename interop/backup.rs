//! Backups of the whole server: during service, by a schedule, with a restore into another directory, with damaged files, and with a killed restore.

use crate::certificates::shown;
use crate::curl::{Answer, PROPFIND_0, PROPFIND_1, curl};
use crate::server::{BINARY, Scratch, Server, WITHOUT_PENALTIES, until};
use enfilade_facts::tables::Domain;
use enfilade_facts::vocabulary::DomainId;
use enfilade_facts::{AuditRecord, Change, Source};
use enfilade_sources::lmdb::Lmdb;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The number of records in the test of a large backup. The campaign uses a million records.
const RECORDS: u64 = 10_000;

/// Runs a command on a data directory, with a line of input.
pub(crate) fn run(data: &Path, arguments: &[&str], input: &str) -> Output {
    use std::io::Write as _;
    let mut command = Command::new(BINARY);
    command.args(["--json", "--data"]).arg(data).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that refuses its arguments can end before it reads its input.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

pub(crate) fn said(data: &Path, arguments: &[&str]) -> Value {
    let output = run(data, arguments, "");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn refused(data: &Path, arguments: &[&str], input: &str) -> String {
    let output = run(data, arguments, input);
    assert!(!output.status.success(), "{arguments:?} succeeded");
    assert_eq!(output.stdout, b"", "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

pub(crate) fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The credentials for the comparison of answers before the backup and after the restore.
struct Visitors {
    logins: Vec<String>,
    session: String,
}

fn session(server: &Server, user: &str, password: &str) -> Answer {
    let identity = json!({ "methods": ["password"], "password": { "user": {
        "name": user, "domain": { "name": "local" }, "password": password,
    }}});
    let body = json!({ "auth": { "identity": identity } }).to_string();
    curl(server, "", "/v3/auth/tokens", &["-H", "Content-Type: application/json", "-d", &body])
}

impl Visitors {
    /// Creates users with passwords and tokens, a session, a disabled user, and a user with a deleted token.
    fn move_in(server: &Server) -> Self {
        let mut logins = vec![format!("admin@local:{}", server.password), "nobody@local:x".to_owned()];
        logins.push(server.add_user("alice", "DatastoreReader"));
        logins.push(logins[2].replace("enf_", "enf_x"));
        logins.push(server.add_user("bob", "DatastoreAdmin"));
        logins.push(server.add_user("carol", "DatastoreAdmin"));
        logins.push(server.add_user("dave", "DatastoreAdmin"));
        server.cli(&["user", "disable", "carol@local"]);
        server.cli(&["token", "delete", "dave@local!test"]);
        let output =
            server.cli_output(&["user", "passwd", "alice@local", "--password-stdin"], "wonderland-42-x\n");
        assert!(output.status.success(), "{output:?}");
        logins.push("alice@local:wonderland-42-x".to_owned());
        let answer = session(server, "alice", "wonderland-42-x");
        let token = answer.head.iter().find_map(|line| line.strip_prefix("x-subject-token: "));
        let token = token.unwrap_or_else(|| panic!("{answer:?}")).to_owned();
        Visitors { logins, session: token }
    }

    /// The answers of a server to each credential.
    fn answers(&self, server: &Server) -> Vec<(String, u16, String)> {
        let mut answers = Vec::new();
        for path in ["/dav/", "/dav/main/", "/dav/second/", "/dav/second/secret", "/dav/main/file"] {
            for login in &self.logins {
                let answer = curl(server, login, path, &PROPFIND_1);
                answers.push((format!("{login} {path}"), answer.status, answer.text()));
            }
            let session = format!("X-Auth-Token: {}", self.session);
            let answer = curl(server, "", path, &[&PROPFIND_0[..], &["-H", &session]].concat());
            answers.push((format!("session {path}"), answer.status, answer.text()));
        }
        answers
    }
}

/// A server with content, ACLs, a second datastore and a separate certificate.
fn house() -> (Server, Visitors) {
    let server = Server::start_with(&[WITHOUT_PENALTIES]);
    let second = server.scratch.path().join("second");
    server.cli(&["datastore", "create", "second", "--path", text(&second)]);
    let visitors = Visitors::move_in(&server);
    server.cli(&["group", "add", "staff"]);
    server.cli(&["group", "member", "add", "staff", "bob@local"]);
    server.cli(&["role", "assign", "--path", "/datastore/second", "--auth-id", "@staff", "DatastoreReader"]);
    std::fs::write(server.data().join("datastores/main/file"), "content").unwrap();
    std::fs::write(second.join("secret"), "of the staff").unwrap();
    server.cli(&["acl", "set", "main", "/file", "allow bob@local full"]);
    let made = rcgen::generate_simple_self_signed(vec!["nas.example".to_owned()]).unwrap();
    let bundle = format!("{}{}", made.cert.pem(), made.signing_key.serialize_pem());
    std::fs::write(server.data().join("tls/nas.pem"), bundle).unwrap();
    server.cli(&["certs", "ca"]);
    std::fs::write(server.data().join("enfilade.toml"), "[limits]\nconnections = 500\n").unwrap();
    (server, visitors)
}

#[test]
fn a_house_that_is_restored_elsewhere_answers_every_credential_alike() {
    let (server, visitors) = house();
    let here = server.scratch.path();
    let expected = visitors.answers(&server);
    let statuses: std::collections::BTreeSet<u16> = expected.iter().map(|(_, status, _)| *status).collect();
    assert!(statuses.len() >= 3, "{statuses:?}");
    let key = age_key(here);
    let (directory, plain, closed) = (here.join("d"), here.join("f.tar"), here.join("f.tar.age"));
    let made = server.cli(&["backup", text(&directory), "--acls"])[0].clone();
    assert_eq!((&made["verified"], &made["encrypted"]), (&json!(true), &json!(false)));
    server.cli(&["backup", text(&plain)]);
    let made = server.cli(&["backup", text(&closed), "--recipient", &key.1])[0].clone();
    assert_eq!(made["encrypted"], true);
    let certificate = std::fs::read(server.certificate()).unwrap();
    for (backup, more) in
        [(&directory, vec![]), (&plain, vec![]), (&closed, vec!["--identity", text(&key.0)])]
    {
        let prepare = |data: &Path| {
            let restored = said(data, &[&["restore", text(backup)], &more[..]].concat());
            assert_eq!(restored["data"], json!(data));
            let next = restored["next"].to_string();
            assert!(next.contains("datastore `main` still uses"), "{next}");
            assert_eq!(backup == &directory, next.contains("acl restore second"), "{next}");
            // Only the owner can read the restored files.
            let wide = Command::new("find").arg(data).args(["-perm", "/077"]).output().unwrap().stdout;
            assert_eq!(String::from_utf8_lossy(&wide), "");
        };
        let other = Server::start_on(prepare, &[WITHOUT_PENALTIES]);
        assert_eq!(visitors.answers(&other), expected, "{}", other.log());
        assert_eq!(std::fs::read(other.certificate()).unwrap(), certificate);
        assert_eq!(session(&other, "alice", "wonderland-42-x").status, 201);
        for file in ["enfilade.toml", "ca/ca.key", "ca/ca.crt"] {
            let [restored, kept] = [&other, &server].map(|server| std::fs::read(server.data().join(file)));
            assert_eq!(restored.unwrap(), kept.unwrap(), "{file}");
        }
        assert!(shown(&other.address, Some("nas.example"), &[]).contains("rcgen"), "{}", other.log());
        // A token that is deleted on the restored server stays valid on the original server.
        other.cli(&["token", "delete", "alice@local!test"]);
        assert_eq!(curl(&other, &visitors.logins[2], "/dav/main/", &PROPFIND_0).status, 401);
    }
    assert_eq!(visitors.answers(&server), expected);
    // The backup contains the ACLs, and `acl restore` accepts them.
    let saved = std::fs::read_to_string(directory.join("acls/main.jsonl")).unwrap();
    assert!(saved.contains("\"/file\"") || saved.contains("\"file\""), "{saved}");
    assert!(server.cli_output(&["acl", "restore", "main"], &saved).status.success());
}

/// Creates an age key. Returns the file with the private key, and the recipient.
fn age_key(directory: &Path) -> (PathBuf, String) {
    let file = directory.join("key.txt");
    let made = Command::new("age-keygen").arg("-o").arg(&file).output().expect("age is needed");
    assert!(made.status.success());
    let text = std::fs::read_to_string(&file).unwrap();
    let public = text.lines().find_map(|line| line.strip_prefix("# public key: ")).unwrap().to_owned();
    (file, public)
}

#[test]
fn the_age_tool_opens_ours_and_we_open_its() {
    let server = Server::start();
    let here = server.scratch.path();
    let (file, public) = age_key(here);
    let (ours, tar, its) = (here.join("ours.age"), here.join("ours.tar"), here.join("its.age"));
    server.cli(&["backup", text(&ours), "--recipient", &public]);
    let age = |arguments: &[&str]| {
        let output = Command::new("age").args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    age(&["-d", "-i", text(&file), "-o", text(&tar), text(&ours)]);
    let listed = Command::new("tar").arg("-tf").arg(&tar).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(
        listed.starts_with("manifest.json\nfacts.backup\n") && listed.contains("keys/token-hash.key"),
        "{listed}"
    );
    let other = age_key(&{
        let other = here.join("other");
        std::fs::create_dir(&other).unwrap();
        other
    });
    age(&["-r", &other.1, "-r", &public, "-o", text(&its), text(&tar)]);
    for key in [&file, &other.0] {
        said(&here.join("new"), &["restore", text(&its), "--identity", text(key), "--check"]);
    }
    assert!(!here.join("new").exists());
}

#[test]
fn what_cannot_be_restored_changes_nothing() {
    let server = Server::start();
    let here = server.scratch.path();
    let (file, closed) = (here.join("f.tar"), here.join("f.age"));
    server.cli(&["backup", text(&file)]);
    let output = server.cli_output(&["backup", text(&closed), "--passphrase-stdin"], "correct horse\n");
    assert!(output.status.success(), "{output:?}");
    for (arguments, input, expected) in [
        (vec!["backup", text(&file)], "", "already exists: give another name, or --force"),
        (vec!["backup", text(&here.join("data"))], "", "already exists: give the name of a new directory"),
        (vec!["backup", text(&here.join("x.tar")), "--passphrase-stdin"], "x\n", "a name that ends in .age"),
        (vec!["backup", text(&here.join("x.age"))], "", "give --recipient AGE-RECIPIENT or --passphrase"),
        (
            vec!["backup", text(&here.join("x.age")), "--passphrase-stdin"],
            "\n",
            "the password or passphrase is empty",
        ),
        (vec!["backup", text(&here.join("x.age")), "--passphrase-stdin"], "short\n", "expected at least 12"),
        (vec!["backup", text(&here.join("no/x.tar"))], "", "is not a directory: make it with `mkdir -p"),
        (vec!["facts", "backup", text(&here.join("no/x"))], "", "is not a directory: make it with `mkdir -p"),
        (
            vec!["backup", text(&server.data().join("x.tar"))],
            "",
            "choose another directory, best on another disk",
        ),
        (
            vec!["backup", text(&server.data().join("keys/x"))],
            "",
            "choose another directory, best on another disk",
        ),
        (vec!["facts", "backup", text(&file)], "", "already exists: give another name, or --force"),
        (
            vec!["backup", text(&server.data().join("datastores/main/x.tar"))],
            "",
            "overlaps with datastore `main`",
        ),
        (
            vec!["facts", "restore", text(&file), "--force"],
            "",
            "contains more than the records of the store: run `enfilade restore",
        ),
        (
            vec!["facts", "restore", text(&closed), "--set-aside"],
            "",
            "contains more than the records of the store: run `enfilade restore",
        ),
    ] {
        let why = server.cli_output(&arguments, input);
        assert!(!why.status.success(), "{arguments:?}");
        let why = String::from_utf8(why.stderr).unwrap();
        assert!(why.contains(expected), "{arguments:?}: {why}");
    }
    server.cli(&["backup", text(&file), "--force"]);

    let damaged = here.join("damaged.tar");
    let bytes = std::fs::read(&file).unwrap();
    let cut = here.join("cut.tar");
    std::fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    let mut flipped = bytes.clone();
    let at = bytes.windows(11).rposition(|window| window == b"PRIVATE KEY").unwrap();
    // The changed byte is in the private key. After the end of the key, the archive has padding, and a change of padding has no effect.
    flipped[at - 30] ^= 1;
    std::fs::write(&damaged, flipped).unwrap();
    let foreign = here.join("foreign");
    std::fs::create_dir(&foreign).unwrap();
    std::fs::write(foreign.join("letter.txt"), "").unwrap();
    let before = names(here);
    let (new, of_another) = (here.join("new"), [server.data().join("keys/r"), server.data().join("sub")]);
    for (data, arguments, input, expected) in [
        (&new, vec![text(&cut)], "", "the backup is damaged"),
        (&new, vec![text(&damaged)], "", "differs from the manifest"),
        (&new, vec![text(&closed)], "", "the backup is encrypted: use --passphrase"),
        (&new, vec![text(&closed), "--passphrase-stdin"], "wrong horse\n", "the passphrase is wrong"),
        (&new, vec![text(&here.join("nowhere"))], "", "No such file or directory"),
        (&new, vec![text(&server.data())], "", "has no `manifest.json`"),
        (
            &new,
            vec![text(&server.data().join("datastore.cfg"))],
            "",
            "does not begin with the file `manifest.json`",
        ),
        (&here.join("data"), vec![text(&file)], "", "is not empty: give another one with --data, or --force"),
        (
            &here.join("data"),
            vec![text(&file), "--force"],
            "",
            "other processes have them open; stop these processes first",
        ),
        (&here.join("no/such"), vec![text(&file)], "", "make it with `mkdir -p`"),
        (&of_another[0], vec![text(&file)], "", "is in the data directory"),
        (&of_another[1], vec![text(&file)], "", "is in the data directory"),
        (&foreign, vec![text(&file), "--force"], "", "contains other files, such as `letter.txt`"),
        (&file, vec![text(&file), "--force"], "", "is a file, not a directory"),
    ] {
        let why = refused(data, &[&["restore"], &arguments[..]].concat(), input);
        assert!(why.contains(expected) && why.contains("nothing was changed"), "{arguments:?}: {why}");
        assert_eq!(names(here), before, "{arguments:?}");
    }
    assert_eq!(
        curl(&server, &format!("admin@local:{}", server.password), "/dav/main/", &PROPFIND_0).status,
        207
    );

    // With `--force` the old directory is renamed and kept.
    let output = run(&new, &["restore", text(&closed), "--passphrase-stdin"], "correct horse\n");
    assert!(output.status.success(), "{output:?}");
    said(&new, &["user", "add", "late@local"]);
    let again = said(&new, &["restore", text(&file), "--force"]);
    let aside = PathBuf::from(again["set_aside"].as_str().unwrap());
    let users = |data: &Path| String::from_utf8(run(data, &["user", "list"], "").stdout).unwrap();
    assert!(users(&aside).contains("late@local") && !users(&new).contains("late@local"));
}

/// The key that made the hashes of API tokens belongs to the facts. Neither a backup nor a restore accepts another key.
#[test]
fn a_backup_has_the_key_of_its_api_tokens() {
    let scratch = Scratch::new();
    let path = |name: &str| scratch.path().join(name);
    let (data, good, new) = (path("data"), path("good"), path("new"));
    said(&data, &["init"]);
    said(&data, &["user", "add", "alice@local"]);
    said(&data, &["token", "create", "alice@local!laptop"]);
    said(&data, &["backup", text(&good)]);
    said(&new, &["restore", text(&good)]);
    // Replaces the key in the backup by another key, and corrects the manifest.
    let other = [7; 32];
    let digest = |bytes: &[u8]| {
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes);
        digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    std::fs::write(good.join("keys/token-hash.key"), other).unwrap();
    let manifest = std::fs::read_to_string(good.join("manifest.json")).unwrap();
    let mut manifest: Value = serde_json::from_str(manifest.lines().next().unwrap()).unwrap();
    let files = manifest["files"].as_array_mut().unwrap();
    files.iter_mut().find(|file| file["path"] == "keys/token-hash.key").unwrap()["sha256"] =
        json!(digest(&other));
    let line = format!("{manifest}\n");
    std::fs::write(good.join("manifest.json"), format!("{line}{}\n", digest(line.as_bytes()))).unwrap();
    let why = refused(&path("third"), &["restore", text(&good)], "");
    assert!(why.contains("is not the key of the API tokens") && why.contains("nothing was changed"), "{why}");
    assert!(!path("third").exists() && !path("third.restoring").exists());

    let key = data.join("keys/token-hash.key");
    std::fs::write(&key, other).unwrap();
    let why = refused(&data, &["backup", text(&path("x"))], "");
    assert!(why.contains("is not the key of the API tokens"), "{why}");
    std::fs::remove_file(&key).unwrap();
    let why = refused(&data, &["backup", text(&path("x"))], "");
    assert!(why.contains("`keys/`") && why.contains("is missing"), "{why}");
    assert!(!path("x").exists());
}

/// If a restore is killed at any moment, the data directory is complete or does not exist, and the next restore succeeds.
#[test]
fn a_restore_that_is_killed_leaves_all_or_nothing() {
    let scratch = Scratch::new();
    let (data, file) = (scratch.path().join("data"), scratch.path().join("f.tar"));
    said(&data, &["init"]);
    fill(&data, 3_000);
    said(&data, &["backup", text(&file)]);
    let new = scratch.path().join("new");
    let start = || {
        let mut command = Command::new(BINARY);
        command.args(["--json", "--data"]).arg(&new).args(["restore", text(&file)]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let began = Instant::now();
    assert!(start().wait().unwrap().success());
    let whole = began.elapsed();
    std::fs::remove_dir_all(&new).unwrap();
    let (mut absent, mut complete) = (0, 0);
    for part in 0..20 {
        let mut child = start();
        std::thread::sleep(whole * part / 18);
        let _ = child.kill();
        child.wait().unwrap();
        match new.exists() {
            false => absent += 1,
            true => {
                complete += 1;
                assert_eq!(said(&new, &["facts", "check"])["sound"], true);
                assert_eq!(names(&new.join("keys")), names(&data.join("keys")));
                std::fs::remove_dir_all(&new).unwrap();
            }
        }
    }
    assert!(absent > 0, "{absent} absent, {complete} complete");
    assert!(start().wait().unwrap().success());
    assert!(new.exists() && !scratch.path().join("new.restoring").exists());
}

/// If a restore with `--force` is killed at any moment, either the old or the new data directory is in place.
#[test]
fn a_restore_with_force_that_is_killed_leaves_the_old_or_the_new() {
    let scratch = Scratch::new();
    let (data, file, new) =
        (scratch.path().join("data"), scratch.path().join("f.tar"), scratch.path().join("new"));
    said(&data, &["init"]);
    fill(&data, 1_000);
    said(&data, &["backup", text(&file)]);
    let start = || {
        let mut command = Command::new(BINARY);
        command.args(["--json", "--data"]).arg(&new).args(["restore", "--force", text(&file)]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let began = Instant::now();
    assert!(start().wait().unwrap().success());
    let whole = began.elapsed();
    let (mut old, mut restored) = (0, 0);
    for part in 0..12 {
        // Only the old directory has this file.
        let mark = new.join("of-the-old-one");
        std::fs::write(&mark, "").unwrap();
        let mut child = start();
        // The last restore is not killed. On a busy machine, it may take longer than the first restore.
        if part < 11 {
            std::thread::sleep(whole * part / 9);
            let _ = child.kill();
        }
        child.wait().unwrap();
        assert_eq!(said(&new, &["facts", "check"])["sound"], true, "killed at {part}");
        assert!(new.join("keys/token-hash.key").exists(), "killed at {part}");
        if mark.exists() { old += 1 } else { restored += 1 }
    }
    assert!(old > 0 && restored > 0, "{old} old, {restored} restored");
}

fn row(n: u64) -> (DomainId, Domain) {
    let description = Some(format!("the domain with the number {n}"));
    (
        DomainId::from_bytes((u128::from(n) << 96).to_be_bytes()),
        Domain { description, ..Domain::new("x1".parse().unwrap()) },
    )
}

fn change() -> Change {
    Change::new(AuditRecord { who: "a test".into(), what: "test".into(), unix_seconds: 1, request: None })
}

/// Adds many records to a store.
fn fill(data: &Path, records: u64) {
    let lmdb = Lmdb::open(&data.join("facts")).unwrap();
    for from in (0..records).step_by(5_000) {
        let mut change = change();
        for n in from..records.min(from + 5_000) {
            let (key, row) = row(n);
            change.put(&key, &row);
        }
        lmdb.commit(&change).unwrap();
    }
}

/// A server with many facts is backed up during service, while facts change, and is then restored. Every record is valid, and a token works.
#[test]
fn a_drill_with_many_facts() {
    let n = std::env::var("ENFILADE_CAMPAIGN_N").ok().and_then(|n| n.parse().ok()).unwrap_or(RECORDS);
    let server = Server::start();
    let login = server.add_user("alice", "DatastoreReader");
    fill(&server.data(), n);
    let file = server.scratch.path().join("house.tar");
    let lmdb = Lmdb::open(&server.data().join("facts")).unwrap();
    let (is_over, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let (made, backed_up) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let (key, row) = row(written.load(Ordering::Relaxed) * 7919 % n);
                lmdb.commit(change().put(&key, &Domain { enabled: false, ..row })).unwrap();
                written.fetch_add(1, Ordering::Relaxed);
            }
        });
        // On a busy machine the backup may end before the thread above has begun.
        while written.load(Ordering::Relaxed) < 2 && !writer.is_finished() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let began = Instant::now();
        let made = server.cli(&["backup", text(&file)])[0].clone();
        is_over.store(true, Ordering::Relaxed);
        writer.join().unwrap();
        (made, began.elapsed())
    });
    drop(lmdb);
    let written = written.into_inner();
    assert!(written > 1 && made["records"].as_u64().unwrap() > n, "{written}, {made}");
    let began = Instant::now();
    let mut restored = Duration::ZERO;
    let other = Server::start_on(
        |data| {
            let told = said(data, &["restore", text(&file)]);
            restored = began.elapsed();
            assert_eq!(told["records"], made["records"]);
            assert_eq!(told["of_revision"], made["revision"]);
        },
        &[],
    );
    assert_eq!(said(&other.data(), &["facts", "check"])["sound"], true);
    assert_eq!(curl(&other, &login, "/dav/main/", &PROPFIND_0).status, 207);
    println!(
        "{n} facts, {written} changes meanwhile: backup of {} MiB in {:.1} s, restore in {:.1} s, every record is sound, the token of a user works",
        made["bytes"].as_u64().unwrap() >> 20,
        backed_up.as_secs_f64(),
        restored.as_secs_f64()
    );
}

#[test]
fn a_server_makes_backups_on_a_schedule_and_keeps_some_of_them() {
    let scratch = Scratch::new();
    let directory = scratch.path().join("backups");
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("enfilade-20200101T000000Z.tar"), "of the operator").unwrap();
    let (key, public) = age_key(scratch.path());
    let environment = [
        ("ENFILADE_BACKUP__DIRECTORY", text(&directory)),
        ("ENFILADE_BACKUP__EVERY", "1s"),
        ("ENFILADE_BACKUP__KEEP", "2"),
        ("ENFILADE_BACKUP__RECIPIENTS", public.as_str()),
    ];
    let server = Server::start_with(&environment);
    // Two servers with one data directory: only one of them makes each backup.
    let mut another = server.another(&environment);
    let complete = || server.log().matches("is complete and verified").count();
    until("four backups are made", &server, || complete() >= 4);
    another.kill().unwrap();
    another.wait().unwrap();
    let kept: Vec<String> = names(&directory).into_iter().filter(|name| name.ends_with(".tar.age")).collect();
    assert!((2..=4).contains(&kept.len()), "{kept:?}");
    assert!(directory.join("enfilade-20200101T000000Z.tar").exists());
    let metrics = || {
        let output =
            Command::new("curl").args(["-s", &format!("http://{}/metrics", server.operations)]).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    let sample = |name: &str| {
        let text = metrics();
        let line =
            text.lines().find(|line| line.starts_with(name) && !line.starts_with('#')).map(str::to_owned);
        line.and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
    };
    until("the metrics follow", &server, || {
        sample("enfilade_backup_timestamp_seconds") > Some(1_000_000_000)
    });
    until("no failure is told", &server, || sample("enfilade_backup_failed") == Some(0));
    let doctor = |environment: &[(&str, &str)]| {
        let output = server.cli_output_with(environment, &["doctor"], "");
        let lines = String::from_utf8(output.stdout).unwrap();
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.into_iter().find(|line| line["what"] == "backups").unwrap()
    };
    // `doctor` warns after two intervals without a backup. The interval is long here, because a backup may be seconds late on a busy machine.
    let seldom = environment.map(|(name, value)| (name, if name.ends_with("EVERY") { "1h" } else { value }));
    assert_eq!(doctor(&seldom)["state"], "ok");
    // The backups of another directory do not count.
    let elsewhere = scratch.path().join("elsewhere");
    let moved = seldom
        .map(|(name, value)| (name, if name.ends_with("DIRECTORY") { text(&elsewhere) } else { value }));
    assert!(
        doctor(&moved)["says"].as_str().unwrap().contains("no backup was made in `[backup] directory` yet")
    );
    let inside = server.data().join("b");
    let within =
        seldom.map(|(name, value)| (name, if name.ends_with("DIRECTORY") { text(&inside) } else { value }));
    assert_eq!(doctor(&within)["state"], "error");
    let checked = server.cli_output_with(&within, &["config", "check"], "");
    let why = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(!checked.status.success() && why.contains("would be lost together with it"), "{why}");
    // No datastore can contain the directory of backups.
    for path in [&directory, &directory.join("below"), &scratch.path().to_owned()] {
        let output =
            server.cli_output_with(&environment, &["datastore", "create", "x", "--path", text(path)], "");
        assert!(!output.status.success(), "{output:?}");
    }
    drop(server);
    let newest = directory.join(names(&directory).into_iter().rfind(|name| name.ends_with(".age")).unwrap());
    let new = scratch.path().join("new");
    said(&new, &["restore", text(&newest), "--identity", text(&key)]);

    // If the directory of backups cannot be created, the server still serves, and its log contains the reason.
    let environment = [("ENFILADE_BACKUP__DIRECTORY", "/dev/null/backups"), ("ENFILADE_BACKUP__EVERY", "1s")];
    let server = Server::start_with(&environment);
    until("the failure is told", &server, || server.log().contains("the scheduled backup failed"));
    let output = server.cli_output_with(&environment, &["doctor"], "");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!output.status.success() && text.contains("/dev/null/backups"), "{text}");
}
