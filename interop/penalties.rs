//! A client that guesses passwords is delayed, then blocked. Other clients are not affected.

use crate::curl::{PROPFIND_0, command, curl};
use crate::server::Server;
use std::time::{Duration, Instant};

const FROM_ELSEWHERE: [&str; 2] = ["--interface", "127.0.0.2"];

fn status(server: &Server, login: &str, arguments: &[&str]) -> u16 {
    let arguments = [&PROPFIND_0, arguments].concat();
    curl(server, login, "/dav/main/", &arguments).status
}

#[test]
fn an_address_that_guesses_is_not_heard_while_everybody_else_is() {
    let server = Server::start();
    let alice = server.add_user("alice", "DatastoreReader");
    server.cli_output(&["user", "passwd", "alice@local", "--password-stdin"], "correct horse\n");
    // The guesses are sent at the same time, because their delays would add up otherwise.
    let guesses: Vec<_> = (0..25)
        .map(|n| {
            let mut guess = command(&server, &format!("u{n}@local!x:wrong"));
            guess.args(["--output", "/dev/null", "--write-out", "%{http_code}"]).arg(server.url("/whoami"));
            guess.stdout(std::process::Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let codes: Vec<String> = guesses
        .into_iter()
        .map(|guess| String::from_utf8(guess.wait_with_output().unwrap().stdout).unwrap())
        .collect();
    assert!(codes.iter().filter(|code| *code == "401").count() >= 20, "{codes:?}");
    let barred = curl(&server, "nobody@local!x:wrong", "/whoami", &[]);
    assert_eq!(barred.status, 429, "{barred:?}");
    let retry = barred
        .head
        .iter()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("retry-after: ")?.parse().ok());
    assert!(retry.is_some_and(|seconds: u64| (1..=60).contains(&seconds)), "{barred:?}");
    // A client at a blocked address must not cause slow hashes. A generated secret needs no slow hash, so it is accepted.
    assert_eq!(status(&server, "alice@local:correct horse", &[]), 429);
    assert_eq!(status(&server, &alice, &[]), 207);
    assert_eq!(status(&server, "alice@local:correct horse", &FROM_ELSEWHERE), 207);
    // The server now remembers the password, but refuses it from the blocked address. Otherwise a client at the blocked address could guess the
    // password without a delay.
    for password in ["correct horse", "correct mule"] {
        assert_eq!(status(&server, &format!("alice@local:{password}"), &[]), 429);
    }
    let log = server.log();
    assert!(log.contains("\"ID13\""), "{log}");
    let told = || {
        let findings = server.cli_output(&["doctor"], "").stdout;
        String::from_utf8(findings).unwrap().contains("somebody may be guessing passwords, ")
    };
    assert!((0..600).any(|_| told() || (std::thread::sleep(Duration::from_millis(100)), false).1));
}

#[test]
fn an_account_somebody_else_guesses_at_lets_its_owner_in_at_once() {
    let server = Server::start();
    let alice = server.add_user("alice", "DatastoreReader");
    let start = Instant::now();
    assert_eq!(status(&server, "alice@local!test:wrong", &FROM_ELSEWHERE), 401);
    assert!(start.elapsed() >= Duration::from_secs(1));
    assert_eq!(status(&server, "alice@local!test:wrong", &FROM_ELSEWHERE), 401);
    assert!(start.elapsed() >= Duration::from_secs(4));
    // The first delay would be a second. On a busy machine, a login may take this long without a delay, so one fast login of five is enough.
    let is_at_once = |_| {
        let owner = Instant::now();
        assert_eq!(status(&server, &alice, &[]), 207);
        let is_soon = owner.elapsed() < Duration::from_secs(1);
        if !is_soon {
            assert_eq!(status(&server, "alice@local!test:wrong", &FROM_ELSEWHERE), 401);
        }
        is_soon
    };
    assert!((0..5).any(is_at_once));
    assert_eq!(status(&server, "alice@local!test:wrong", &FROM_ELSEWHERE), 401);
    let counted = server.cli(&["penalties", "list"]);
    let hers = counted.iter().find(|one| one["subject"] == "alice@local!test");
    assert_eq!(hers.unwrap()["failures"], 1, "the login of the owner must reset the count: {counted:?}");
}

/// The subjects that a command of `enfilade penalties` prints.
fn penalised(server: &Server, arguments: &[&str]) -> Vec<String> {
    let lines = server.cli(&[&["penalties"], arguments].concat());
    let all = lines
        .iter()
        .flat_map(|line| line["cleared"].as_array().cloned().unwrap_or_else(|| vec![line.clone()]));
    all.map(|one| format!("{} {}", one["subject"].as_str().unwrap(), one["state"].as_str().unwrap()))
        .collect()
}

#[test]
fn penalties_of_all_servers_are_listed_and_cleared() {
    let server = Server::start();
    server.cli_output(&["user", "passwd", "admin@local", "--password-stdin"], "correct horse\n");
    let (mut other, address) = server.another_with_address(&[]);
    assert_eq!(penalised(&server, &["list"]), Vec::<String>::new());
    let guesses: Vec<_> = (0..25)
        .map(|n| {
            let mut guess = command(&server, &format!("u{n}@local!x:wrong"));
            guess
                .args(FROM_ELSEWHERE)
                .args(["--output", "/dev/null"])
                .arg(server.url("/whoami"))
                .spawn()
                .unwrap()
        })
        .collect();
    let mut guess = command(&server, "admin@local:wrong");
    guess.args(["--output", "/dev/null"]).arg(format!("https://{address}/whoami")).status().unwrap();
    guesses.into_iter().for_each(|mut guess| assert!(guess.wait().unwrap().success()));
    let right = || status(&server, "admin@local:correct horse", &FROM_ELSEWHERE);
    assert_eq!(right(), 429);
    let listed = penalised(&server, &["list"]);
    assert!(listed.contains(&"127.0.0.2 refused".to_owned()), "{listed:?}");
    // When 20 names have failed, the server refuses the address, so the last guesses do not delay their names.
    let names =
        listed.iter().filter(|line| line.starts_with('u') && line.ends_with("@local!x delayed")).count();
    assert!((20..=25).contains(&names), "{listed:?}");
    assert!(listed.contains(&"admin@local delayed".to_owned()), "the other server: {listed:?}");
    assert_eq!(penalised(&server, &["clear", "127.0.0.2"]), ["127.0.0.2 refused"]);
    assert_eq!(right(), 207);
    let again = server.cli_output(&["penalties", "clear", "127.0.0.2"], "");
    let said = String::from_utf8(again.stderr).unwrap();
    assert!(again.status.code() == Some(1) && said.contains("is neither delayed nor refused"), "{said}");
    assert_eq!(penalised(&server, &["clear", "admin@local"]), ["admin@local delayed"]);
    assert!(penalised(&server, &["clear"]).len() >= 20);
    assert_eq!(penalised(&server, &["list"]), Vec::<String>::new());
    // A killed server leaves its socket behind, and the next server replaces the socket.
    other.kill().unwrap();
    other.wait().unwrap();
    let (mut next, _) = server.another_with_address(&[]);
    assert_eq!(penalised(&server, &["list"]), Vec::<String>::new());
    assert_eq!(std::fs::read_dir(server.data().join("control")).unwrap().count(), 3);
    next.kill().unwrap();
    next.wait().unwrap();
}

#[test]
fn without_a_server_penalties_are_not_known_and_nothing_is_created() {
    let scratch = crate::server::Scratch::new();
    let data = scratch.path().join("nothing");
    let mut command = std::process::Command::new(crate::server::BINARY);
    let output = command.arg("--data").arg(&data).args(["penalties", "list"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && said.contains("no server runs with"), "{said}");
    assert!(!data.exists());
}
