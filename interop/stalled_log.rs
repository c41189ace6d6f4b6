//! No process reads the standard error of the server, or the server cannot write to it. This delays neither requests nor reads of the edited files.
//! The server counts lost log lines.

use crate::command::{run, said, values};
use crate::curl::curl;
use crate::server::{Server, WITHOUT_PENALTIES, until};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::Command;
use std::time::{Duration, Instant};

/// On a slow machine, a promised time may be exceeded by this factor.
const SLACK: u32 = 20;
/// The output of `openssl passwd -5 -salt 'rounds=1000$abcdefgh' 'one secret'`.
const HASH: &str = "$5$rounds=1000$abcdefgh$.OmcOw1WqW6aK5VHgxFl1hvYXPexsRlxvJQNAchEd36";

fn whoami(server: &Server, login: &str) -> u16 {
    curl(server, login, "/whoami", &[]).status
}

#[test]
fn files_are_followed_while_nobody_reads_the_log_and_no_change_is_lost() {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    // A few lines fill the pipe, because it is small.
    fcntl_setpipe_size(&writer, 4096).unwrap();
    let server = Server::start_logging_to(writer, &[WITHOUT_PENALTIES]);
    let write = |name: &str, text: &str| {
        let path = server.data().join(name);
        std::fs::write(path.with_extension("new"), text).unwrap();
        std::fs::rename(path.with_extension("new"), path).unwrap();
    };
    let within = |seconds: u32, what: &str, is_so: &dyn Fn() -> bool| {
        let began = Instant::now();
        while !is_so() {
            assert!(began.elapsed() < Duration::from_secs(seconds.into()) * SLACK, "{what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let with_hash = format!("{{\"ann@pbs!backup\":\"{HASH}\"}}");
    write("user.cfg", "user: ann@pbs\n\ntoken: ann@pbs!backup\n\n");
    write("token.shadow", &with_hash);
    let login = "ann@pbs!backup:one secret";
    within(1, "the token comes in", &|| whoami(&server, login) == 200);
    // Causes more log lines about requests, changes and warnings than fit into the pipe.
    for n in 0..12 {
        server.cli(&["user", "add", &format!("u{n}@local")]);
        (0..4).for_each(|_| assert_eq!(whoami(&server, "nobody@local:x"), 401));
    }
    write("datastore.cfg", &"datastore: wrong\n\tfoo bar\n\n".repeat(20));
    // After this time, the full pipe blocks each writing thread.
    std::thread::sleep(Duration::from_secs(2));
    write("token.shadow", "{}");
    within(1, "a hash that was taken out is refused", &|| whoami(&server, login) == 401);
    write("token.shadow", &with_hash);
    within(1, "a hash that came back is taken", &|| whoami(&server, login) == 200);
    // After the pipe is read again, the log contains every change in order.
    let mut changes = Vec::new();
    for line in BufReader::new(std::fs::File::from(reader)).lines() {
        let line = line.unwrap();
        let added = line.contains(r#""event":"change""#).then(|| line.split_once("user add u")).flatten();
        let number = added.and_then(|(_, rest)| rest.split_once('@')?.0.parse::<u32>().ok());
        changes.extend(number);
        if number == Some(11) {
            break;
        }
    }
    assert_eq!(changes, (0..12).collect::<Vec<_>>());
}

/// The value of a metric. If the metric has labels, `name` includes the labels.
fn metric(server: &Server, name: &str) -> u64 {
    let url = format!("http://{}/metrics", server.operations);
    let output = Command::new("curl").args(["--silent", "--max-time", "20", &url]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("{name}: {text}")).parse().unwrap()
}

/// The finding of `doctor` about the log.
fn about_log(findings: &[Value]) -> (String, String) {
    let found = findings.iter().find(|finding| finding["what"] == "audit log").unwrap();
    let text = |key: &str| found[key].as_str().unwrap().to_owned();
    (text("state"), text("says"))
}

#[test]
fn lines_that_cannot_be_written_are_counted_and_the_doctor_names_the_cause() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let server = Server::start_logging_to(full, &[WITHOUT_PENALTIES]);
    server.cli(&["user", "add", "ann@local"]);
    (0..3).for_each(|_| assert_eq!(whoami(&server, "nobody@local:x"), 401));
    let lost = || metric(&server, "enfilade_log_lines_lost_total{reason=\"write\"}");
    until("the lost lines are counted", &server, || lost() >= 3);
    assert_eq!(metric(&server, "enfilade_log_lines_lost_total{reason=\"queue\"}"), 0);
    let doctor = server.cli_output(&["doctor"], "");
    let (state, says) = about_log(&values(&String::from_utf8(doctor.stdout).unwrap()));
    assert_eq!(state, "warning", "{says}");
    for part in [
        format!("although a server runs (process {})", server.pid()).as_str(),
        "cannot write to its standard error `/dev/full`",
        "free disk space for the log",
        "enfilade_log_lines_lost_total",
    ] {
        assert!(says.contains(part), "{part}: {says}");
    }
}

/// A backup has no change log. Therefore the number of revisions after a restore is not the number of changes without a log line.
#[test]
fn after_a_restore_only_changes_that_a_server_will_write_are_told_of() {
    let server = Server::start();
    (0..5).for_each(|n| drop(server.cli(&["user", "add", &format!("u{n}@local")])));
    let file = server.scratch.path().join("backup");
    server.cli(&["backup", file.to_str().unwrap()]);
    let (mut waiting, mut newest) = (String::new(), 0);
    let restored = Server::start_on(
        |data| {
            said(data, &["restore", file.to_str().unwrap()]);
            // This command reads the restored files, and may change the facts to match the files.
            said(data, &["user", "list"]);
            newest = said(data, &["facts", "status"])[0]["revision"].as_u64().unwrap();
            let doctor = String::from_utf8(run(data, &["doctor"], None).stdout).unwrap();
            waiting = about_log(&values(&doctor)).1;
            // The restored datastore is still the content directory of the first server.
            assert!(doctor.contains("is in the data directory of another server"), "{doctor}");
        },
        &[],
    );
    let status = || restored.cli(&["facts", "status"])[0].clone();
    until("everything is in the log", &restored, || status()["shipped"] == status()["revision"]);
    let log = restored.log();
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let changes = lines.filter(|line| line["event"] == "change");
    let written = changes.filter(|line| line["revision"].as_u64().unwrap() <= newest).count() as u64;
    assert!(0 < written && written < newest, "{written} of {newest}: {log}");
    assert!(waiting.starts_with(&format!("{written} change")), "{written} were written: {waiting}");
    assert!(waiting.contains("no server runs"), "{waiting}");
}
