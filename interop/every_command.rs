//! Runs every command in every situation of an operator. The situations are: no data directory, the directory of another user, a running server, a
//! full disk, a read-only file system, a damaged store, a store of an older format, names that do not exist, and names with every legal character. A
//! command never ends by a signal, never reports success without effect, and never fails without a reason in its output.

use crate::command::{preload, why};
use crate::command_table::{COMMANDS, ELSEWHERE, Kind};
use crate::curl;
use crate::server::{BINARY, Scratch, Server, short_passwords};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use Kind::{Changes, Creates, Free, Reads};

pub(crate) struct House {
    pub(crate) scratch: Scratch,
    service: String,
    pub(crate) endpoint: String,
    link: String,
    /// The login of a token that no command of the table uses.
    login: String,
}

impl House {
    pub(crate) fn new() -> Self {
        let scratch = Scratch::new();
        let mut house = House {
            scratch,
            service: String::new(),
            endpoint: String::new(),
            link: String::new(),
            login: String::new(),
        };
        for line in [
            "init",
            "user add ann@local",
            "user add gone@local",
            "user disable gone@local",
            "group add staff",
            "group member add staff ann@local",
            "domain add corp",
            "domain add shut",
            "domain disable shut",
            "project add demo --domain corp",
            "role define reviewer",
            "role assign --path / --auth-id @staff DatastoreAudit",
            "token create ann@local!one",
            "acl map S-1-5-21-1-2-3-1111 ann@local",
            "user add ben@local",
            "application create wiki --host wiki.example.com",
        ] {
            house.must(line);
        }
        let token = house.must("token create ben@local!one");
        house.login = format!("ben@local!one:{}", token["value"].as_str().unwrap());
        house.link = house.must("link create main / --user ben@local")["id"].as_str().unwrap().to_owned();
        house.service = house.must("catalog service image glance")["id"].as_str().unwrap().to_owned();
        let line = format!("catalog endpoint {} admin https://127.0.0.1/", house.service);
        house.endpoint = house.must(&line)["id"].as_str().unwrap().to_owned();
        std::fs::write(house.scratch.path().join("acls"), "").unwrap();
        house
    }

    pub(crate) fn must(&self, line: &str) -> Value {
        let output = self.run(&self.scratch.path().join("data"), line, |_| {});
        assert!(output.status.success(), "{line}: {}", why(&output));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().next().map(|line| serde_json::from_str(line).unwrap()).unwrap_or_default()
    }

    fn run(&self, data: &Path, line: &str, prepare: impl FnOnce(&mut Command)) -> Output {
        self.run_by(Command::new(BINARY), data, line, prepare)
    }

    /// Runs a command. `command` starts the program, or starts another program, such as `unshare`, which then starts the program.
    fn run_by(
        &self,
        mut command: Command,
        data: &Path,
        line: &str,
        prepare: impl FnOnce(&mut Command),
    ) -> Output {
        let next_to = data.parent().unwrap().to_str().unwrap().to_owned();
        let words = line.split(' ').filter(|word| !word.is_empty());
        let words = words.map(|word| match word {
            "{S}" => self.service.clone(),
            "{E}" => self.endpoint.clone(),
            "{L}" => self.link.clone(),
            word => word.replace("{D}", &next_to),
        });
        command.args(["--json", "--data"]).arg(data).args(words).envs(short_passwords(data));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        prepare(&mut command);
        let mut child = command.spawn().unwrap();
        // The write fails if the command reads no password and closes its standard input.
        let _ = child.stdin.take().unwrap().write_all(b"a long enough password\n");
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.signal(), None, "{line} ended by a signal: {}", why(&output));
        assert!(!why(&output).contains("panicked"), "{line}: {}", why(&output));
        if !output.status.success() {
            let text = why(&output);
            let is_told = text.lines().any(|line| {
                let told = serde_json::from_str::<Value>(line).unwrap_or_default();
                told["error"]["message"].as_str().is_some_and(|text| text.len() > 10)
            });
            // `doctor`, `facts check` and `keys check` print their findings, and end with exit status 1.
            assert!(is_told || !output.stdout.is_empty(), "{line} failed without saying why: {text}");
        }
        output
    }

    /// A copy of the prepared data directory, for one command.
    fn copy(&self, name: &str) -> PathBuf {
        let place = self.scratch.path().join(name);
        self.copy_to(&place);
        place
    }

    fn copy_to(&self, place: &Path) {
        let copied = Command::new("cp").arg("-a").arg(self.scratch.path().join("data")).arg(place).status();
        assert!(copied.unwrap().success());
        // This command reads the copied files and updates the facts, because the copies have other inodes and times than the original files.
        assert!(self.run(place, "user list", |_| {}).status.success());
    }

    pub(crate) fn revision(&self, data: &Path) -> u64 {
        let output = self.run(data, "facts status", |_| {});
        let status: Value = serde_json::from_slice(&output.stdout).unwrap();
        status["revision"].as_u64().unwrap()
    }
}

fn lines(kinds: &[Kind]) -> Vec<(String, Kind)> {
    let rows = COMMANDS.iter().filter(|(_, kind, _)| kinds.contains(kind));
    rows.map(|(name, kind, arguments)| (format!("{name} {arguments}"), *kind)).collect()
}

/// The names of all commands.
pub(crate) fn names_of_commands() -> BTreeSet<&'static str> {
    COMMANDS.iter().map(|row| row.0).chain(ELSEWHERE.iter().map(|row| row.0)).chain(["man"]).collect()
}

#[test]
fn every_command_is_in_the_table() {
    let output = Command::new(BINARY).args(["reference", "commands", "--json"]).output().unwrap();
    let table: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = table["commands"].as_array().unwrap();
    let names: BTreeSet<&str> = rows.iter().map(|row| row["command"].as_str().unwrap()).collect();
    let is_group = |name: &&str| names.iter().any(|other| other.starts_with(&format!("{name} ")));
    let leaves: BTreeSet<&str> = names
        .iter()
        .filter(|name| !is_group(name))
        .filter_map(|name| name.strip_prefix("enfilade "))
        .collect();
    assert_eq!(leaves, names_of_commands());
}

#[test]
fn every_command_works_where_everything_is_right() {
    let house = House::new();
    for (at, (line, kind)) in lines(&[Free, Reads, Changes]).into_iter().enumerate() {
        let data = house.copy(&format!("right-{at}"));
        let before = house.revision(&data);
        let output = house.run(&data, &line, |_| {});
        assert!(output.status.success() || line.starts_with("doctor"), "{line}: {}", why(&output));
        let after = house.revision(&data);
        assert_eq!(after > before, kind == Changes, "{line}: revision {before}, then {after}");
    }
}

/// A running server does not block a command. The change of a successful command takes effect in the server at once: the command and the server have
/// the same revision.
#[test]
fn every_command_works_while_a_server_runs() {
    let house = House::new();
    for (line, kind) in lines(&[Free, Reads, Changes]) {
        let mut server = Server::start_on(|data| house.copy_to(data), &[]);
        let data = server.data();
        std::fs::write(data.with_file_name("acls"), "").unwrap();
        let before = house.revision(&data);
        let output = house.run(&data, &line, |_| {});
        assert!(output.status.success() || line.starts_with("doctor"), "{line}: {}", why(&output));
        let after = house.revision(&data);
        assert_eq!(after > before, kind == Changes, "{line}: revision {before}, then {after}");
        assert!(server.is_running(), "{line} ended the server: {}", server.log());
        // The request is sent without TLS, because `certs remove` removes the only certificate.
        let whoami = format!("http://{}/whoami", server.plain);
        let whoami = curl::command(&server, &house.login).arg(whoami).output().unwrap();
        let whoami: Value = serde_json::from_slice(&whoami.stdout).unwrap();
        assert_eq!(whoami["revision"].as_u64(), Some(after), "{line}: the server works with older facts");
    }
}

#[test]
fn without_a_data_directory_nothing_is_created() {
    let house = House::new();
    for (line, _) in lines(&[Reads, Changes]) {
        let data = house.scratch.path().join("mistyped");
        let output = house.run(&data, &line, |_| {});
        assert!(!output.status.success(), "{line} said success");
        assert!(why(&output).contains("is not a data directory of enfilade"), "{line}: {}", why(&output));
        assert!(!data.exists(), "{line} created the data directory");
    }
}

/// Only root can run a command as another user, so the test does nothing for other users.
#[test]
fn another_user_is_told_whose_the_data_directory_is() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let house = House::new();
    let data = house.scratch.path().join("data");
    std::fs::set_permissions(house.scratch.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let before = house.revision(&data);
    for (line, _) in lines(&[Reads, Changes, Creates]) {
        let output = house.run(&data, &line, |command| {
            command.uid(65_534).gid(65_534);
        });
        assert!(!output.status.success(), "{line} said success");
        assert!(why(&output).contains("belongs to user root"), "{line}: {}", why(&output));
    }
    assert_eq!(house.revision(&data), before);
}

/// If the owner may not write, the message says this, and does not advise to become the owner. Only root can run a command as another user, so the
/// test does nothing for other users.
#[test]
fn an_owner_that_may_not_write_is_told_the_mode() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let house = House::new();
    let data = house.scratch.path().join("data");
    std::fs::set_permissions(house.scratch.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let given = Command::new("chown").args(["-R", "65534:65534"]).arg(&data).status();
    assert!(given.unwrap().success());
    std::fs::set_permissions(&data, PermissionsExt::from_mode(0o500)).unwrap();
    for line in ["user list", "user add new@local", "doctor", "serve"] {
        let output = house.run(&data, line, |command| {
            command.uid(65_534).gid(65_534);
        });
        let said = why(&output);
        assert!(!output.status.success() && said.contains("is not writable by its owner"), "{line}: {said}");
        assert!(said.contains("chmod u+rwx") && !said.contains("sudo"), "{line}: {said}");
    }
    // `doctor` checks with the rights of the owner, also if root runs it.
    let output = house.run(&data, "doctor", |_| {});
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!output.status.success() && said.contains("is not writable by its owner"), "{said}");
}

#[test]
fn a_name_that_does_not_exist_is_an_error_and_changes_nothing() {
    let house = House::new();
    let data = house.scratch.path().join("data");
    let before = house.revision(&data);
    let unknown = "0123456789abcdef0123456789abcdef";
    for line in [
        "user passwd who@local --password-stdin",
        "user set who@local --comment x",
        "user remove who@local",
        "user disable who@local",
        "user enable who@local",
        "user add new@nowhere",
        "user access who@local",
        "token list who@local",
        "session list who@local",
        "datastore operations who",
        "group remove who",
        "group member add who ann@local",
        "group member add staff who@local",
        "group member remove staff who@local",
        "domain enable who",
        "domain disable who",
        "domain remove who",
        "project add new --domain who",
        "project add new@who",
        "project add new@corp --domain corp",
        "project set who --description x",
        "project remove who",
        "role assign --path /datastore/mian --auth-id ann@local DatastoreReader",
        "role assign --path / --auth-id who@local DatastoreReader",
        "role assign --path / --auth-id ann@local Owner",
        "role assign --project who --auth-id ann@local reviewer",
        "role remove --path / --auth-id ann@local DatastoreReader",
        "role undefine who",
        "role define new --implies who",
        "role define new --implies reviewer --implies who",
        "user set ann@local --comment x --default-project who",
        "datastore set main --comment x --project who",
        "catalog remove-service who",
        "catalog endpoint who public https://127.0.0.1/",
        "revoke group who",
        "catalog remove-service {U}",
        "catalog remove-endpoint {U}",
        "catalog endpoint {U} public https://127.0.0.1/",
        "token create who@local!x",
        "token create ann@local!x --project demo@corp --role reviewer",
        "token create ann@local!x --project demo@corp",
        "backup {D}/house.tar.gz",
        "token show ann@local!who",
        "token set ann@local!who --comment x",
        "token regenerate ann@local!who",
        "token upgrade ann@local!who",
        "token delete ann@local!who",
        "revoke user who@local",
        "revoke project who",
        "revoke project demo@who",
        "revoke domain who",
        "revoke ec2-key who",
        "revoke trust {U}",
        "revoke access-token {U}",
        "session end who@local",
        "datastore show who",
        "datastore set who --comment x",
        "datastore maintenance who read-only",
        "datastore remove who",
        "acl get who /",
        "acl set who / protected",
        "acl get main /who",
        "acl review who",
        "acl unmap S-1-5-21-1-2-3-4",
        "acl map S-1-5-21-1-2-3-4 who@local",
        "certs remove who.pem",
        "certs add {D}/who.pem",
        "explain who@local main /",
        "explain ann@local who /",
        "config check {D}/who.toml",
        "facts restore {D}/who --force",
        "facts load {D}/who --force",
    ] {
        let output = house.run(&data, &line.replace("{U}", unknown), |_| {});
        assert!(!output.status.success(), "{line} said success: {output:?}");
    }
    assert_eq!(house.revision(&data), before);
}

/// Runs a command with output for people. With `--json`, usage errors are output for people, too.
pub(crate) fn without_json(data: &Path, line: &str) -> Output {
    Command::new(BINARY).arg("--data").arg(data).args(line.split(' ')).output().unwrap()
}

/// The first write, sync or rename of a command fails because the disk is full.
#[test]
fn on_a_full_disk_a_command_fails_and_changes_nothing_or_does_all_of_it() {
    let house = House::new();
    for (at, (line, kind)) in lines(&[Reads, Changes]).into_iter().enumerate() {
        let data = house.copy(&format!("full-{at}"));
        let before = house.revision(&data);
        let output = house.run(&data, &line, |command| {
            command.env("LD_PRELOAD", preload()).env("FAULT", "ENOSPC").env("FAULT_AT", "1");
        });
        let after = house.revision(&data);
        match (output.status.success(), kind) {
            (true, Changes) => assert!(after > before, "{line} said success and changed nothing"),
            (false, Changes) => assert_eq!(after, before, "{line} failed and changed the facts"),
            _ => {}
        }
    }
}

/// Checks that each command that changes facts fails, because it cannot use the store. The message says what to do, and the store stays unchanged.
fn is_refused(house: &House, data: &Path, says: &str) {
    let store = || std::fs::read(data.join("facts/data.mdb")).unwrap();
    let before = store();
    for (line, kind) in lines(&[Reads, Changes]) {
        let output = house.run(data, &line, |_| {});
        let is_told = why(&output).contains(says);
        assert!(kind == Reads || !output.status.success() && is_told, "{line}: {}", why(&output));
        assert!(store() == before, "{line} changed the store");
    }
}

#[test]
fn a_damaged_store_is_refused_with_the_next_step() {
    let house = House::new();
    let data = house.copy("damaged");
    let file = data.join("facts/data.mdb");
    let mut bytes = std::fs::read(&file).unwrap();
    // Damages every page except the two meta pages, which point to the tables.
    bytes[2 * 4096..].chunks_mut(4096).for_each(|page| page[..16].fill(0xff));
    std::fs::write(&file, bytes).unwrap();
    is_refused(&house, &data, "enfilade facts restore");
}

#[test]
fn a_store_of_an_older_format_is_refused_with_the_next_step() {
    let house = House::new();
    let data = house.scratch.path().join("older");
    crate::upgrade::lay_out(enfilade_facts::format::FORMAT - 1, &data);
    is_refused(&house, &data, "enfilade facts upgrade");
}

/// Only root can mount, so the test does nothing for other users.
#[test]
fn on_a_read_only_file_system_no_change_succeeds() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let house = House::new();
    let data = house.scratch.path().join("data");
    let before = house.revision(&data);
    // The script mounts the directory read-only in a separate mount namespace, and runs the command in this namespace.
    let script = "mount --bind \"$0\" \"$0\" && mount -o remount,ro,bind \"$0\" && exec \"$@\"";
    for (line, kind) in lines(&[Reads, Changes, Creates]) {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script]).arg(&data).arg(BINARY);
        let output = house.run_by(command, &data, &line, |_| {});
        assert!(kind == Reads || !output.status.success(), "{line} said success");
        assert_eq!(house.revision(&data), before, "{line}");
    }
}

#[test]
fn names_with_every_legal_character_are_taken_by_every_command() {
    let house = House::new();
    let data = house.scratch.path().join("data");
    let visible = (33..=126_u8).map(char::from).chain(['\u{fc}', '\u{540d}', '\u{1f980}']);
    // Names of users may contain all characters except `:` and `/`. A name that begins with `@`, or the name `!`, would have another meaning.
    let user: String = visible.filter(|letter| !":/".contains(*letter)).collect();
    let users: Vec<String> = user
        .chars()
        .collect::<Vec<_>>()
        .chunks(40)
        .map(|part| format!("u{}@local", part.iter().collect::<String>()))
        .collect();
    let plain = "aZ09_.-z";
    for user in &users {
        for line in [
            ["user", "add", user].as_slice(),
            &["user", "set", user, "--comment", "x"],
            &["user", "disable", user],
            &["user", "enable", user],
            &["user", "passwd", user, "--password-stdin"],
            &["user", "access", user],
            &["group", "member", "add", "staff", user],
            &["role", "assign", "--path", "/datastore/main", "--auth-id", user, "DatastoreReader"],
            &["explain", user, "main", "/"],
            &["token", "create", &format!("{user}!{plain}")],
            &["token", "show", &format!("{user}!{plain}")],
            &["revoke", "user", user],
            &["token", "delete", &format!("{user}!{plain}")],
            &["role", "remove", "--path", "/datastore/main", "--auth-id", user, "DatastoreReader"],
            &["group", "member", "remove", "staff", user],
            &["user", "remove", user],
        ] {
            let output = house.run(&data, "", |command| {
                command.args(line);
            });
            assert!(output.status.success(), "{line:?}: {}", why(&output));
        }
    }
    for line in [
        "group add N",
        "group member add N ann@local",
        "group member remove N ann@local",
        "revoke group N",
        "group remove N",
        "domain add N",
        "domain disable N",
        "domain enable N",
        "domain remove N",
        "project add N --domain corp",
        "project set N@corp --description x",
        "revoke project N@corp",
        "project remove N@corp",
        "role define N",
        "role assign --project demo@corp --auth-id ann@local N",
        "role undefine N",
        "datastore create N --path {D}/N",
        "datastore show N",
        "datastore set N --comment x",
        "datastore maintenance N offline",
        "datastore remove N",
    ] {
        house.must(&line.replace('N', plain));
    }
}
