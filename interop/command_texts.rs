//! The messages of commands: what a command changed, and which name the operator probably meant.

use crate::command::why;
use crate::command_table::COMMANDS;
use crate::every_command::{House, without_json};

/// The error of a command with a mistyped name contains the name that the operator probably meant.
#[test]
fn the_error_about_a_name_says_what_is_meant() {
    let house = House::new();
    let data = house.scratch.path().join("data");
    house.must("project add demo --domain local");
    house.must("project add other --domain corp");
    for (line, parts) in [
        (
            "user add dave@example.com",
            ["`enfilade user add dave@local`", "`enfilade domain add example.com`"],
        ),
        ("user add dave@loca", ["did you mean `local`?", "`enfilade user add dave@local`"]),
        ("user disable dave@loca", ["there is no realm `loca`", "did you mean `local`?"]),
        ("user disable anm@local", ["there is no user `anm@local`", "did you mean `ann@local`?"]),
        ("user disable ann", ["expected `user@realm`", "such as `alice@local`"]),
        ("token list ann@local!one", ["expected a user", "`!` begins the name of an API token"]),
        ("revoke user ann@local!one", ["is an API token", "enfilade revoke token 'ann@local!one'"]),
        (
            "role assign --path main --auth-id ann@local Audit",
            ["role path `main`", "did you mean `/datastore/main`?"],
        ),
        ("project set demp --disable", ["there is no project `demp`", "did you mean `demo`?"]),
        (
            "project set demp@local --disable",
            ["there is no project `demp@local`", "did you mean `demo@local`?"],
        ),
        // The manager of a domain can create a project with any name in the domain. Therefore a name without a domain only means a project of the
        // domains Default and local.
        (
            "project set other --disable",
            ["neither the domain Default nor the domain local", "one of: other@corp"],
        ),
        (
            "token create ann@local!x --project demo@corp",
            ["has no role", "enfilade role assign --project demo@corp"],
        ),
    ] {
        let output = without_json(&data, line);
        let said = why(&output);
        assert!(!output.status.success(), "{line} said success");
        assert!(parts.iter().all(|part| said.contains(part)), "{line}: {said}");
    }
}

/// A command that changes a record refuses to run without an option. Otherwise it would report a change that did not happen.
#[test]
fn a_command_that_changes_a_record_needs_an_option() {
    let house = House::new();
    let data = house.scratch.path().join("data");
    let before = house.revision(&data);
    let names = COMMANDS.iter().filter(|(name, ..)| name.ends_with(" set") && *name != "acl set");
    let names: Vec<_> =
        names.map(|(name, _, arguments)| (name, arguments.split(' ').next().unwrap())).collect();
    assert_eq!(names.len(), 5, "{names:?}");
    for (name, subject) in names {
        let output = without_json(&data, &format!("{name} {subject}"));
        assert_eq!(output.status.code(), Some(2), "{name}: {output:?}");
        assert!(
            why(&output).contains("--comment") || why(&output).contains("--description"),
            "{}",
            why(&output)
        );
    }
    assert_eq!(house.revision(&data), before);
}

/// The secret of a token is shown once. If the secret cannot be written, the command does not report success.
#[test]
fn output_that_cannot_be_written_is_an_error() {
    let house = House::new();
    let data = house.scratch.path().join("data");
    let ran = |line: &str, out: std::process::Stdio| {
        let mut command = std::process::Command::new(crate::server::BINARY);
        command.arg("--data").arg(&data).args(line.split(' ')).stdout(out).output().unwrap()
    };
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    for line in ["token create ann@local!full", "user list"] {
        let output = ran(line, full().into());
        assert!(!output.status.success(), "{line} said success");
        assert!(why(&output).contains("standard output cannot be written"), "{line}: {}", why(&output));
    }
    let (reader, closed) = std::io::pipe().unwrap();
    drop(reader);
    assert!(ran("user list", closed.into()).status.success());
}

/// A help text that cannot be written is an error, too.
#[test]
fn a_help_text_that_cannot_be_written_is_an_error() {
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    for arguments in [&["--help"][..], &["--version"], &["token", "create", "--help"], &["help", "serve"]] {
        let ran = |out: std::process::Stdio| {
            std::process::Command::new(crate::server::BINARY).args(arguments).stdout(out).output().unwrap()
        };
        let output = ran(full().into());
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(why(&output).contains("standard output cannot be written"), "{}", why(&output));
        assert!(ran(std::process::Stdio::piped()).status.success(), "{arguments:?}");
        let (reader, closed) = std::io::pipe().unwrap();
        drop(reader);
        assert!(ran(closed.into()).status.success(), "{arguments:?}");
    }
}

/// Without standard output, the operator would not see a new secret, and a copy of the facts would be lost. Therefore the command creates no secret
/// and writes no copy of the facts, but does its other work.
#[test]
fn no_secret_is_made_while_standard_output_is_closed() {
    let house = House::new();
    let data = house.scratch.path().join("data");
    let closed = |line: &str| {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "exec \"$0\" \"$@\" >&-", crate::server::BINARY, "--data"]).arg(&data);
        command.args(line.split(' ')).output().unwrap()
    };
    house.must("role assign --project demo@corp --auth-id ann@local reviewer");
    let before = house.revision(&data);
    for line in [
        "token create ann@local!closed",
        "token create ann@local!closed --project demo@corp",
        "token regenerate ann@local!one",
        "facts backup -",
        "facts dump",
        "facts dump /dev/stdout",
    ] {
        let output = closed(line);
        assert!(!output.status.success(), "{line} said success");
        assert!(why(&output).contains("standard output is closed"), "{line}: {}", why(&output));
    }
    assert_eq!(house.revision(&data), before);
    let output = closed("user add zoe@local");
    assert!(output.status.success() && house.revision(&data) > before, "{}", why(&output));
    // An operator who redirects the output to `/dev/null` does so on purpose.
    let mut command = std::process::Command::new(crate::server::BINARY);
    command.arg("--data").arg(&data).args(["token", "create", "zoe@local!null"]);
    let output = command.stdout(std::process::Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", why(&output));
    let mut command = std::process::Command::new(crate::server::BINARY);
    command.arg("--data").arg(&data).args(["facts", "dump"]);
    let output = command.stdout(std::process::Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", why(&output));
}

/// The output of a command describes what the command did.
#[test]
fn a_command_says_what_it_changed() {
    let house = House::new();
    let data = house.scratch.path().join("data");
    let says = |line: &str| {
        let output = without_json(&data, line);
        assert!(output.status.success(), "{line}: {}", why(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    house.must("token create ann@local!own --own-roles");
    for (line, part) in [
        ("project set demo@corp --disable", "project demo@corp: disabled; its sessions have ended"),
        ("project set demo@corp --enable --description=", "project demo@corp: description removed, enabled"),
        ("token set ann@local!one --disable --comment x", "token ann@local!one: disabled, comment x"),
        ("user set ann@local --uid 1000 --comment=", "user ann@local: comment removed, uid 1000"),
        (
            "datastore set main --comment x --project demo@corp",
            "datastore main: comment x, project demo@corp",
        ),
        ("catalog service image glance", "already exists, so nothing was changed"),
        ("catalog service volume cinder", "service cinder (volume) created"),
        (
            "catalog endpoint cinder public https://127.0.0.1/",
            "the public endpoint has the URL https://127.0.0.1/",
        ),
        ("catalog remove-service cinder", "service cinder removed"),
        (
            "role assign --path / --auth-id ann@local!own Admin",
            "has full effect only if the owner of the token",
        ),
        (
            "role assign --path / --auth-id ann@local!one Admin",
            "the role has no effect, because the token has all roles of its owner",
        ),
        ("role assign --path / --auth-id ann@local Admin", "ann@local has the role Admin on /"),
        ("role assign --path / --auth-id ann@local!own Admin", "ann@local!own has the role Admin on /"),
    ] {
        let said = says(line);
        assert!(said.contains(part), "{line}: {said}");
    }
    assert!(says("catalog list").contains(&house.endpoint));
    // A relative path begins at the current directory, and the answer says which directory that is.
    let here = &std::fs::canonicalize(house.scratch.path()).unwrap();
    for (json, expected) in [
        (
            &[][..],
            format!(
                "its content is in {} (`relative/abc` in the current directory)",
                here.join("relative/abc").display()
            ),
        ),
        (&["--json"], format!("\"path\":\"{}\"", here.join("relative/json").display())),
    ] {
        let (name, path) = if json.is_empty() { ("abc", "relative/abc") } else { ("json", "relative/json") };
        let mut command = std::process::Command::new(crate::server::BINARY);
        command.current_dir(here).arg("--data").arg(&data).args(json);
        let output = command.args(["datastore", "create", name, "--path", path]).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && said.contains(&expected), "{said}");
    }
    says("role assign --path /datastore/later --auth-id ann@local DatastoreReader --before-creation");
    let doctor = without_json(&data, "doctor").stdout;
    let doctor = String::from_utf8(doctor).unwrap();
    assert!(
        doctor.contains("1 role is assigned on /datastore/later, but there is no datastore `later`"),
        "{doctor}"
    );
    says("domain disable corp");
    says("role assign --project demo@corp --auth-id @staff reviewer");
    let log = says("facts log");
    for part in [
        "project demo@corp set: disabled",
        "domain disable corp",
        "role assign reviewer to @staff@local on project demo@corp",
    ] {
        assert!(log.contains(part), "{part}: {log}");
    }
}

/// If a disabled user gets a new password, the message says once why the user cannot log in.
#[test]
fn a_new_password_of_a_disabled_user_says_once_that_the_user_cannot_log_in() {
    let house = House::new();
    let data = house.scratch.path().join("data");
    house.must("user disable ann@local --force");
    let password = house.scratch.path().join("password");
    std::fs::write(&password, "a new password of ann\n").unwrap();
    let mut command = std::process::Command::new(crate::server::BINARY);
    command.arg("--data").arg(&data).args(["user", "passwd", "ann@local", "--password-stdin"]);
    let output = command.stdin(std::fs::File::open(&password).unwrap()).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(said.trim(), "user ann@local has a new password, but cannot log in: the user is disabled");
}
