//! The first start and the first commands of a new user.

use crate::certificates::self_signed;
use crate::command::{run, said, why};
use crate::curl::{PROPFIND_1, curl};
use crate::fleet::on_fleet;
use crate::server::{BINARY, Scratch, Server, until};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn the_command_that_is_printed_works_when_pasted() {
    let scratch = Scratch::new();
    let mut child = Command::new(BINARY)
        .args(["serve", "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0", "--data"])
        .arg(scratch.path().join("data"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let command = lines.find(|line| line.trim_start().starts_with("curl ")).unwrap();
    let output = Command::new("sh").args(["-c", &command]).output().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let answer = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && answer.contains("<D:multistatus"), "{command}\n{answer}");
}

#[test]
fn a_directory_of_other_files_does_not_become_a_data_directory() {
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("holiday.jpg"), "").unwrap();
    let refused = run(&data, &["init"], None);
    assert!(!refused.status.success() && why(&refused).contains("such as `holiday.jpg`"), "{refused:?}");
    assert_eq!(std::fs::read_dir(&data).unwrap().count(), 1);
    std::fs::write(data.join("enfilade.toml"), "").unwrap();
    said(&data, &["init"]);
}

/// Runs a command on a data directory without a server. Returns whether it succeeded, and its output.
fn enfilade(data: &Path, arguments: &[&str]) -> (bool, String) {
    let output = Command::new(BINARY).arg("--data").arg(data).args(arguments).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).unwrap())
}

#[test]
fn a_start_that_cannot_listen_does_not_use_up_the_first_start() {
    let scratch = Scratch::new();
    let data = scratch.path().join("above/data");
    // An address for documentation (RFC 5737), which no machine has.
    let (is_well, said) =
        enfilade(&data, &["serve", "--listen", "192.0.2.1:8443", "--ops-listen", "127.0.0.1:0"]);
    assert!(!is_well && said.contains("does not have the address"), "{said}");
    assert!(!scratch.path().join("above").exists(), "a start that failed created something");
    let (is_well, said) = enfilade(&data, &["user", "list"]);
    assert!(!is_well && said.contains("is not a data directory"), "{said}");
    // Creates a store that contains only users, like a failed first start.
    assert!(enfilade(&data, &["init"]).0);
    for arguments in [
        &["datastore", "remove", "main"][..],
        &["role", "remove", "--path", "/", "--auth-id", "admin@local", "Admin", "--force"],
        &["user", "remove", "admin@local"],
        &["user", "add", "alice@local"],
    ] {
        let (is_well, said) = enfilade(&data, arguments);
        assert!(is_well, "{arguments:?}: {said}");
        assert_eq!(
            said.contains("no user who can log in has the role Admin"),
            arguments[0] == "role",
            "{said}"
        );
    }
    let (is_well, said) = enfilade(&data, &["init"]);
    assert!(is_well && said.contains("admin@local"), "{said}");
    assert!(enfilade(&data, &["role", "list"]).1.contains("admin@local"));
    let (is_well, said) = enfilade(&data, &["init"]);
    assert!(!is_well && said.contains("is already set up"), "{said}");
    let file = scratch.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert!(enfilade(&file, &["user", "list"]).1.contains("is a file, not a directory"));
}

/// The lines that a start prints, up to the command to try.
fn start_lines(data: &Path) -> String {
    let mut command = Command::new(BINARY);
    command.arg("--data").arg(data).args(["serve", "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut text = String::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap) {
        text += &format!("{line}\n");
        if ["  enfilade ", "  curl "].iter().any(|begin| line.starts_with(begin)) {
            break;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    text
}

/// If the directory of an administrator's datastore is missing, the start names the directory, and does not say that no user has the rights.
#[test]
fn a_start_without_the_directory_of_its_datastore_says_so() {
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    assert!(enfilade(&data, &["init"]).0);
    std::fs::rename(data.join("datastores/main"), scratch.path().join("gone")).unwrap();
    let text = start_lines(&data);
    let told = "nobody can list datastore main: the datastore's directory `";
    assert!(text.contains(told) && text.contains("cannot be opened: No such file or directory"), "{text}");
    assert!(text.trim_end().ends_with(" doctor"), "{text}");
    std::fs::rename(scratch.path().join("gone"), data.join("datastores/main")).unwrap();
    assert!(start_lines(&data).contains("\ntry:\n  curl "));
}

/// Without `user.cfg`, no password is accepted. The start and `user passwd` name the missing file.
#[test]
fn a_missing_file_of_users_is_named() {
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    let users = data.join("user.cfg");
    std::fs::create_dir(&data).unwrap();
    std::fs::write(&users, "user: ann@pbs\n\n").unwrap();
    std::fs::write(data.join("enfilade.toml"), "[facts]\nstale_limit = 0\n").unwrap();
    let password = scratch.path().join("password");
    std::fs::write(&password, "a long enough password\n").unwrap();
    let passwd = || {
        let mut command = Command::new(BINARY);
        command.arg("--data").arg(&data).args(["user", "passwd", "root@pam", "--password-stdin"]);
        let output = command.stdin(std::fs::File::open(&password).unwrap()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(start_lines(&data).contains("nobody can log in yet; set a password:\n"));
    std::fs::rename(&users, scratch.path().join("user.cfg")).unwrap();
    // This command notices that the file is missing. The next start comes after the stale limit.
    assert!(enfilade(&data, &["user", "list"]).0);
    std::thread::sleep(std::time::Duration::from_secs(2));
    let text = start_lines(&data);
    let missing = format!("`{}`, which defines users, is missing; restore the file", users.display());
    assert!(text.contains(&format!("nobody can log in: {missing}, then check the server:\n")), "{text}");
    assert!(text.trim_end().ends_with(" doctor"), "{text}");
    let said = passwd();
    assert_eq!(said.trim(), format!("user root@pam has a new password, but cannot log in: {missing}"));
    std::fs::rename(scratch.path().join("user.cfg"), &users).unwrap();
    assert_eq!(passwd().trim(), "user root@pam has a new password");
}

/// Without an administrator, no user can administer the server over HTTP. Therefore the last administrator is not removed.
#[test]
fn the_last_administrator_is_not_removed_by_mistake() {
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    let succeeds = |line: &str| {
        let (is_well, said) = enfilade(&data, &line.split(' ').collect::<Vec<_>>());
        assert!(is_well, "{line}: {said}");
        said
    };
    let is_refused = |line: &str| {
        let (is_well, said) = enfilade(&data, &line.split(' ').collect::<Vec<_>>());
        let is_told = said.contains("nothing was changed: no user who can log in would have the role Admin")
            && said.contains("or add --force");
        assert!(!is_well && is_told, "{line}: {said}");
    };
    succeeds("init");
    is_refused("user remove admin@local");
    is_refused("user disable admin@local");
    is_refused("role remove --path / --auth-id admin@local Admin");
    for line in [
        "user add ann@local",
        "group add admins",
        "group member add admins ann@local",
        "role assign --path / --auth-id @admins Admin",
    ] {
        succeeds(line);
    }
    // A user without a password and token cannot log in.
    is_refused("user disable admin@local");
    succeeds("token create ann@local!way");
    succeeds("user disable admin@local");
    // A role of bob counts instead of the role of the group, so bob is no administrator.
    for line in [
        "user add bob@local",
        "token create bob@local!way",
        "group member add admins bob@local",
        "role assign --path / --auth-id bob@local Audit",
    ] {
        succeeds(line);
    }
    for line in [
        "user remove ann@local",
        "user set ann@local --expires 2020-01-01",
        "group remove admins",
        "group member remove admins ann@local",
        "role remove --path / --auth-id @admins Admin",
        "role assign --path / --auth-id ann@local NoAccess",
        "role assign --path / --auth-id ann@local Audit",
        "role assign --path /access --auth-id @admins NoAccess",
    ] {
        is_refused(line);
    }
    // If one of the named users is no member, the command removes no member.
    let (is_well, said) =
        enfilade(&data, &["group", "member", "remove", "admins", "ann@local", "admin@local"]);
    assert!(!is_well && said.contains("admin@local is not in @admins@local directly"), "{said}");
    is_refused("group member remove admins ann@local");
    succeeds("user set ann@local --expires 30d --comment x");
    let said = succeeds("group member remove admins ann@local --force");
    assert!(
        said.contains("warning: no user who can log in has the role Admin on / and /access any more"),
        "{said}"
    );
    succeeds("user remove ann@local");
    succeeds("user remove admin@local");
}

#[test]
fn an_acl_is_not_removed_by_mistake() {
    let server = Server::start();
    std::fs::write(server.data().join("datastores/main/file"), "x").unwrap();
    let set = |more: &[&str]| {
        let output = server.cli_output(&[&["acl", "set", "main", "/"][..], more].concat(), "");
        (output.status.success(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    };
    let (is_well, said) = set(&["allow admin@local full"]);
    assert!(is_well && said.contains(r#""entries_unchanged":1"#), "{said}");
    for more in [&[][..], &["--recursive"]] {
        let (is_well, said) = set(more);
        assert!(!is_well && said.contains("--empty"), "{said}");
    }
    let (is_well, said) = set(&["--empty"]);
    assert!(is_well && said.contains("allow admin@local full"), "{said}");
}

#[test]
fn whoami_and_health() {
    let server = Server::start();
    let login = format!("admin@local:{}", server.password);
    assert_eq!(curl(&server, &login, "/whoami", &[]).status, 200);
    until("it is logged", &server, || server.log().contains("\"path\":\"/whoami\",\"verdict\":\"permit\""));
    let token = server.add_token("admin@local!one");
    let who = curl(&server, &token, "/whoami", &[]);
    let value: serde_json::Value = serde_json::from_slice(&who.body).unwrap();
    assert_eq!((who.status, value["authid"].as_str()), (200, Some("admin@local!one")));
    let public = curl(&server, "", "/.well-known/enfilade", &[]);
    assert_eq!((public.status, public.body.len()), (200, who.body.len()));
    for (path, needle) in [
        ("/livez", "alive"),
        ("/healthz", "alive"),
        ("/readyz", "ready"),
        ("/readyz/datastores", "ready"),
        ("/metrics", "enfilade_requests_total"),
    ] {
        let url = format!("http://{}{path}", server.operations);
        let output = Command::new("curl").args(["--silent", "--max-time", "20", &url]).output().unwrap();
        assert!(String::from_utf8_lossy(&output.stdout).contains(needle), "{path}");
    }
}

#[test]
fn sigterm_lets_a_running_upload_finish_and_then_ends() {
    // At the limited rate, this upload takes ten seconds.
    const BYTES: usize = 4_000_000;
    let mut server = Server::start();
    let token = server.add_token("admin@local!up");
    let upload = crate::curl::command(&server, &token)
        .args(["--limit-rate", "400k", "--upload-file", "-", "--write-out", "%{http_code}"])
        .arg(server.url("/dav/main/slow.bin"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut upload = upload.unwrap();
    let mut input = upload.stdin.take().unwrap();
    let writer = std::thread::spawn(move || std::io::Write::write_all(&mut input, &vec![7; BYTES]).unwrap());
    until("the upload is under way", &server, || {
        let inside = server.cli(&["datastore", "operations", "main"]);
        !inside.is_empty() || upload.try_wait().unwrap().is_some()
    });
    let stopped = Command::new("kill").args(["-TERM", &server.pid().to_string()]).status().unwrap();
    assert!(stopped.success());
    let output = upload.wait_with_output().unwrap();
    writer.join().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "201", "{}", server.log());
    assert!(server.wait().success());
    let kept = std::fs::metadata(server.data().join("datastores/main/slow.bin")).unwrap();
    assert_eq!(kept.len(), BYTES as u64);
}

#[test]
fn passwords_and_what_the_command_line_lists() {
    let server = Server::start();
    let added = server.cli_output(&["user", "add", "carol@local", "--password-stdin"], "corr€ct horse\n");
    assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
    server.cli(&[
        "role",
        "assign",
        "--path",
        "/datastore/main",
        "--auth-id",
        "carol@local",
        "DatastorePowerUser",
    ]);
    assert_eq!(curl(&server, "carol@local:corr€ct horse", "/whoami", &[]).status, 200);
    assert_eq!(curl(&server, "carol@local:correct horse", "/whoami", &[]).status, 401);
    let changed = server.cli_output(&["user", "passwd", "carol@local", "--password-stdin"], "another\n");
    assert!(changed.status.success());
    assert_eq!(curl(&server, "carol@local:corr€ct horse", "/whoami", &[]).status, 401);
    assert_eq!(curl(&server, "carol@local:another", "/dav/main/", &PROPFIND_1).status, 207);
    server.cli(&["user", "disable", "carol@local"]);
    assert_eq!(curl(&server, "carol@local:another", "/whoami", &[]).status, 401);

    server.cli(&["group", "add", "staff", "--gid", "50"]);
    server.cli(&["group", "member", "add", "staff", "carol@local"]);
    let groups = server.cli(&["group", "list"]);
    assert_eq!(
        (groups[0]["group"].as_str(), groups[0]["members"][0].as_str()),
        (Some("@staff@local"), Some("carol@local"))
    );
    let users = server.cli(&["user", "list"]);
    assert_eq!(users.iter().filter(|user| user["enabled"] == true).count(), 1);
    assert_eq!(server.cli(&["role", "list"]).len(), 2);
    assert_eq!(server.cli(&["datastore", "list"])[0]["datastore"], "main");
    let twice = server.cli_output(&["group", "add", "staff"], "");
    assert!(!twice.status.success());
    assert!(String::from_utf8_lossy(&twice.stderr).contains("already exists"));
    let init = server.cli_output(&["init"], "");
    assert!(String::from_utf8_lossy(&init.stderr).contains("is already set up"));
}

#[test]
fn a_token_as_proxmox_clients_send_it_comes_in_and_its_use_is_seen() {
    let server = Server::start();
    let login = server.add_user("alice", "DatastoreReader");
    let header = format!("Authorization: PBSAPIToken={login}");
    let answer = curl(&server, "", "/whoami", &["--header", &header]);
    assert_eq!(answer.status, 200, "{answer:?}");
    let used = || server.cli(&["token", "show", "alice@local!test"])[0].clone();
    assert_eq!(used()["last_used_from"], "127.0.0.1");
    assert!(used()["last_used"].as_i64().unwrap() > 1_700_000_000);
    let fresh = server.cli(&["token", "regenerate", "alice@local!test", "--grace", "1h"])[0].clone();
    let fresh = format!("alice@local!test:{}", fresh["value"].as_str().unwrap());
    let statuses = || [&login, &fresh].map(|login| curl(&server, login, "/whoami", &[]).status);
    assert_eq!(statuses(), [200, 200]);
    server.cli(&["token", "set", "alice@local!test", "--end-grace"]);
    assert_eq!(statuses(), [401, 200]);
    server.cli(&["token", "set", "alice@local!test", "--disable"]);
    assert_eq!(curl(&server, &fresh, "/whoami", &[]).status, 401);
}

#[test]
fn the_doctor_names_what_is_wrong_and_nothing_when_nothing_is() {
    let server = Server::start();
    let findings = || {
        let output = server.cli_output(&["doctor"], "");
        let lines = String::from_utf8(output.stdout).unwrap();
        let findings: Vec<serde_json::Value> =
            lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        (output.status.success(), findings)
    };
    let (is_well, all) = findings();
    assert!(is_well && all.iter().all(|finding| finding["state"] != "error"), "{all:#?}");
    let wrong = |what: &str, says: &str| {
        let (is_well, all) = findings();
        let found = all.iter().find(|finding| finding["what"] == what && finding["state"] != "ok");
        let found = found.unwrap_or_else(|| panic!("{what}: {all:#?}"));
        assert!(found["says"].as_str().unwrap().contains(says), "{found}");
        is_well
    };
    let cfg = server.data().join("datastore.cfg");
    let good = std::fs::read_to_string(&cfg).unwrap();
    std::fs::write(&cfg, format!("{good}\nnonsense\n")).unwrap();
    if on_fleet::is_asked() {
        // On a member, only the server reads the edited files.
        until("the server reads the file", &server, || server.log().contains("syntax error"));
    }
    assert!(!wrong("datastore.cfg", "syntax error"));
    std::fs::write(&cfg, &good).unwrap();
    if on_fleet::is_asked() {
        until("the server reads the file again", &server, || findings().0);
    }
    std::fs::write(server.data().join("tls/bad.pem"), "x").unwrap();
    assert!(wrong("certificate", "bad.pem"));
    std::fs::remove_file(server.data().join("tls/bad.pem")).unwrap();
    let soon = server.data().join("tls/soon.pem");
    std::fs::write(&soon, self_signed("soon.example.org", 1)).unwrap();
    assert!(wrong("certificate", "soon.pem` expires at"));
    std::fs::rename(server.data().join("datastores/main"), server.data().join("datastores/gone")).unwrap();
    assert!(!wrong("datastore main", "datastores/main"));
}
