//! `enfilade setup` with options, with answers on a terminal, and repeated.

use crate::command::{said, why};
use crate::curl::{PROPFIND_0, curl};
use crate::server::{BINARY, Scratch, Server};
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs the command without a terminal.
fn setup(data: &Path, options: &[&str], input: &str) -> Output {
    let mut command = Command::new(BINARY);
    command.args(["--json", "--data"]).arg(data).arg("setup").args(options);
    command.current_dir(data.parent().unwrap()).env_remove("SUDO_USER");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that refuses its options does not read its input.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn made(output: &Output) -> Value {
    assert!(output.status.success(), "{}", why(output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_server_is_ready_after_setup_and_a_second_setup_changes_nothing() {
    let mut first = Value::Null;
    let prepare = |data: &Path| {
        let outside = data.with_file_name("files");
        let options = ["--user", "alice", "--datastore", "tank", "--path", outside.to_str().unwrap()];
        first = made(&setup(data, &options, ""));
    };
    let server = Server::start_on(prepare, &[]);
    let [token, secret, password] =
        ["tokenid", "value", "password"].map(|key| first[key].as_str().unwrap().to_owned());
    assert_eq!((first["user"].as_str(), token.as_str()), (Some("alice@local"), "alice@local!setup"));
    let status =
        |login: &str, store: &str| curl(&server, login, &format!("/dav/{store}/"), &PROPFIND_0).status;
    for login in [format!("{token}:{secret}"), format!("alice@local:{password}")] {
        assert_eq!(status(&login, "tank"), 207);
        let put = curl(&server, &login, "/dav/tank/file", &["--upload-file", "/etc/hostname"]);
        assert!([201, 204].contains(&put.status), "{put:?}");
    }
    let admin = first["admin_password"].as_str().unwrap();
    assert_eq!(curl(&server, &format!("admin@local:{admin}"), "/whoami", &[]).status, 200);
    let stores = server.cli(&["datastore", "list"]);
    assert_eq!((stores.len(), stores[0]["datastore"].as_str()), (1, Some("tank")), "there is no `main`");

    // Runs the same command again, while the server runs.
    let revision = || server.cli(&["facts", "status"])[0]["revision"].clone();
    let before = revision();
    let outside = server.data().with_file_name("files");
    let again = setup(
        &server.data(),
        &["--user", "alice@local", "--datastore", "tank", "--path", outside.to_str().unwrap(), "--yes"],
        "",
    );
    let again = made(&again);
    assert_eq!(revision(), before);
    for key in ["admin", "admin_password", "password", "value", "start"] {
        assert_eq!(again[key], Value::Null, "{key}");
    }
    for key in ["user_created", "datastore_created"] {
        assert_eq!((&first[key], &again[key]), (&Value::Bool(true), &Value::Bool(false)), "{key}");
    }
    assert_eq!(again["running"], true);
    assert_eq!(again["roles"], serde_json::json!(["DatastorePowerUser"]));
    assert_eq!(again["url"], format!("https://{}/dav/tank/", server.address));
    assert_eq!(status(&format!("{token}:{secret}"), "tank"), 207);

    // Another run of the command adds a second user and a second datastore.
    let more = made(&setup(&server.data(), &["--user", "bob", "--password-stdin"], "a password of bob\n"));
    assert_eq!((&more["password"], &more["datastore"]), (&Value::Null, &Value::from("main")));
    assert_eq!(status("bob@local:a password of bob", "main"), 207);
    assert_eq!(status("bob@local:a password of bob", "tank"), 404);
}

#[test]
fn what_setup_refuses_it_refuses_before_anything_is_made() {
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    let refused = |options: &[&str], input: &str, needle: &str| {
        let output = setup(&data, options, input);
        assert!(!output.status.success() && why(&output).contains(needle), "{options:?}: {}", why(&output));
    };
    refused(&["--user", "admin"], "", "give the user of the datastore another name");
    refused(&["--user", "a@b@c!d"], "", "expected");
    refused(&["--user", "alice", "--password-stdin"], "short\n", "too short");
    refused(&["--user", "alice", "--datastore", "../x"], "", "datastore");
    if rustix::process::geteuid().is_root() {
        refused(&[], "", "add --user NAME");
    }
    assert!(!data.exists());
    made(&setup(&data, &["--user", "alice"], ""));
    let elsewhere = scratch.path().join("elsewhere");
    refused(
        &["--user", "alice", "--path", elsewhere.to_str().unwrap()],
        "",
        "exists already, and its content is in",
    );
    let deep = scratch.path().join("no/such/place");
    refused(
        &["--user", "alice", "--datastore", "other", "--path", deep.to_str().unwrap()],
        "",
        "cannot be made",
    );
    assert!(!elsewhere.exists());
}

/// Runs the command on a separate terminal, which script(1) creates. Types each answer when the question appears.
fn typed(data: &Path, answers: &[(&str, &str)]) -> (bool, String) {
    let line = format!("{BINARY} --data {} setup", data.display());
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--command", &line, "/dev/null"]).env("SUDO_USER", "carol");
    command.current_dir(data.parent().unwrap()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("script(1) is needed");
    let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut text = String::new();
    for (question, answer) in answers {
        let from = text.len();
        while !text[from..].contains(question) {
            let mut bytes = [0; 4096];
            let count = output.read(&mut bytes).unwrap();
            assert!(count > 0, "{question}: not asked: {text}");
            text.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
        input.write_all(answer.as_bytes()).unwrap();
    }
    let mut rest = Vec::new();
    output.read_to_end(&mut rest).unwrap();
    text.push_str(&String::from_utf8_lossy(&rest));
    (child.wait().unwrap().success(), text)
}

#[test]
fn setup_asks_on_a_terminal_and_takes_the_proposals() {
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    let path = scratch.path().join("photos");
    let to_path = format!("{}\n", path.display());
    // Enter accepts the proposed name of the user, and a random password. The first name of the datastore is invalid, so the command asks again.
    let (is_well, text) = typed(
        &data,
        &[
            ("name of the user [carol]: ", "\n"),
            ("new password of carol@local", "\n"),
            ("name of the datastore [main]: ", "../x\n"),
            ("name of the datastore [main]: ", "photos\n"),
            ("directory with the content of photos", &to_path),
        ],
    );
    assert!(is_well, "{text}");
    for needle in [
        "expected 3 to 32 letters",
        "administrator admin@local   password ",
        "carol@local   password ",
        "carol@local!setup   secret enf_",
        "start the server:",
        "rclone config create",
        "mount -t davfs",
    ] {
        assert!(text.contains(needle), "{needle}: {text}");
    }
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
    assert_eq!(said(&data, &["datastore", "list"])[0]["path"], path.to_str().unwrap());
    // At the second run, the command asks neither for the password nor for the directory.
    let again = [("name of the user", "\n"), ("name of the datastore", "photos\n")];
    let (is_well, text) = typed(&data, &again);
    assert!(is_well && text.contains("existed already") && !text.contains("new password"), "{text}");
    assert!(text.contains("carol@local has the role DatastorePowerUser on photos"), "{text}");
    // The operator ends the input with Ctrl-D.
    let (is_well, text) = typed(&data, &[("name of the user", "\u{4}")]);
    assert!(!is_well && text.contains("ended before the answer"), "{text}");
}
