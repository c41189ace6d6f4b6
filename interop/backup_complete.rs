//! The content of a backup, the places where copies of the facts may be written, and the warnings after a restore of an older state.

use crate::backup::{names, run, said, text};
use crate::command::why;
use crate::every_command::without_json;
use crate::server::{BINARY, Scratch, Server, until};
use serde_json::{Value, json};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// The text that a command printed; it must have succeeded.
fn told(data: &Path, line: &str) -> String {
    let output = without_json(data, line);
    assert!(output.status.success(), "{line}: {}", why(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// The error of a command, which must have ended with exit status 1.
fn refused(data: &Path, arguments: &[&str]) -> String {
    let output = run(data, arguments, "");
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {output:?}");
    why(&output)
}

/// Creates a data directory with facts that follow `user.cfg`.
fn following(data: &Path) {
    said(data, &["init"]);
    std::fs::write(data.join("user.cfg"), "user: ann@pbs\n\n").unwrap();
    assert!(told(data, "user list").contains("ann@pbs"));
}

#[test]
fn a_backup_without_a_file_that_the_server_follows_is_not_made() {
    let scratch = Scratch::new();
    let path = |name: &str| scratch.path().join(name);
    let (data, target) = (path("data"), path("b.tar"));
    following(&data);
    let users = data.join("user.cfg");
    std::fs::remove_file(&users).unwrap();
    for link in [false, true] {
        if link {
            std::os::unix::fs::symlink(path("nowhere"), &users).unwrap();
        }
        for more in [&[][..], &["--acls"]] {
            let said = refused(&data, &[&["backup", text(&target)], more].concat());
            let expected = format!("`{}` is missing, and the server has read it before", users.display());
            assert!(said.contains(&expected) && said.contains("Restore it from an earlier backup"), "{said}");
            assert!(said.contains("was not made") && !target.exists(), "{said}");
        }
    }
    std::fs::remove_file(&users).unwrap();
    std::fs::rename(data.join("datastore.cfg"), path("away")).unwrap();
    let said_of_two = refused(&data, &["backup", text(&target)]);
    assert!(
        said_of_two.contains("datastore.cfg`, `") && said_of_two.contains("are missing"),
        "{said_of_two}"
    );
    std::fs::rename(path("away"), data.join("datastore.cfg")).unwrap();
    // An empty file is valid: there are no users.
    std::fs::write(&users, "").unwrap();
    said(&data, &["backup", text(&target)]);
    assert!(said(&data, &["restore", text(&target), "--check"])["records"].is_u64());
}

#[test]
fn a_backup_of_an_earlier_version_that_lacks_a_followed_file_is_not_called_complete() {
    let scratch = Scratch::new();
    let path = |name: &str| scratch.path().join(name);
    let (data, backup, new) = (path("data"), path("b"), path("new"));
    following(&data);
    said(&data, &["backup", text(&backup)]);
    said(&new, &["restore", text(&backup), "--check"]);
    // Replaces the manifest by the manifest of a backup that was made without the file.
    let manifest = std::fs::read_to_string(backup.join("manifest.json")).unwrap();
    let mut manifest: Value = serde_json::from_str(manifest.lines().next().unwrap()).unwrap();
    manifest["files"].as_array_mut().unwrap().retain(|file| file["path"] != "user.cfg");
    let line = format!("{manifest}\n");
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, line.as_bytes());
    let digest: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    std::fs::write(backup.join("manifest.json"), format!("{line}{digest}\n")).unwrap();
    let said_of_it = refused(&new, &["restore", text(&backup), "--check"]);
    assert!(
        said_of_it.contains("undamaged, but not complete. These files are missing: `user.cfg`"),
        "{said_of_it}"
    );
    assert!(!new.exists());
    let next = said(&new, &["restore", text(&backup)])["next"].clone();
    let first = next[0].as_str().unwrap();
    assert!(first.contains("not complete: it has no `user.cfg`"), "{next}");
    assert!(first.contains(&format!("to `{}` before you start", new.join("user.cfg").display())), "{next}");
}

#[test]
fn a_scheduled_backup_without_a_followed_file_fails_and_deletes_none() {
    let scratch = Scratch::new();
    let directory = scratch.path().join("backups");
    let environment = [
        ("ENFILADE_BACKUP__DIRECTORY", text(&directory)),
        ("ENFILADE_BACKUP__EVERY", "1s"),
        ("ENFILADE_BACKUP__KEEP", "2"),
    ];
    let server = Server::start_with(&environment);
    let users = server.data().join("user.cfg");
    std::fs::write(&users, "user: ann@pbs\n\n").unwrap();
    let lists = || String::from_utf8(server.cli_output(&["user", "list"], "").stdout).unwrap();
    until("the file is followed", &server, || lists().contains("ann@pbs"));
    let complete = || server.log().matches("is complete and verified").count();
    let before = complete();
    // The first of these backups may have begun before the file existed.
    until("backups are made", &server, || complete() >= before + 3);
    std::fs::rename(&users, scratch.path().join("away")).unwrap();
    until("the failure is told", &server, || {
        server.log().contains("user.cfg` is missing, and the server has read it before")
    });
    assert!(server.log().contains("the scheduled backup failed"), "{}", server.log());
    let kept = names(&directory);
    // Several more attempts fail.
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(names(&directory), kept);
    let doctor = server.cli_output_with(&environment, &["doctor"], "");
    let found = String::from_utf8(doctor.stdout).unwrap();
    let of_backups = found.lines().find(|line| line.contains("\"what\":\"backups\"")).unwrap();
    assert!(of_backups.contains("\"error\"") && of_backups.contains("user.cfg` is missing"), "{of_backups}");
    let url = format!("http://{}/metrics", server.operations);
    let metrics = Command::new("curl").args(["-s", &url]).output().unwrap();
    assert!(String::from_utf8(metrics.stdout).unwrap().contains("\nenfilade_backup_failed 1\n"));
    for name in kept.iter().filter(|name| name.ends_with(".tar")) {
        said(&scratch.path().join("new"), &["restore", text(&directory.join(name)), "--check"]);
    }
    let before = complete();
    std::fs::rename(scratch.path().join("away"), &users).unwrap();
    until("backups go on", &server, || complete() > before);
}

#[test]
fn a_copy_of_the_facts_replaces_no_file_that_exists() {
    let scratch = Scratch::new();
    let path = |name: &str| scratch.path().join(name);
    let (data, file, link) = (path("data"), path("file"), path("link"));
    said(&data, &["init"]);
    std::fs::write(&file, "old").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let key = data.join("keys/token-hash.key");
    let before = std::fs::read(&key).unwrap();
    for verb in ["dump", "backup"] {
        for existing in [&file, &link] {
            let said = refused(&data, &["facts", verb, text(existing)]);
            assert!(said.contains("already exists: give another name, or --force to replace it"), "{said}");
        }
        for inside in
            [key.clone(), data.join("facts/data.mdb"), data.join("copy"), data.join("datastores/copy")]
        {
            let said = refused(&data, &["facts", verb, text(&inside), "--force"]);
            assert!(said.contains("would be lost together with it"), "{said}");
        }
        assert_eq!(
            (std::fs::read(&file).unwrap(), std::fs::read(&key).unwrap()),
            (b"old".to_vec(), before.clone())
        );
        assert!(!data.join("copy").exists() && !data.join("datastores/copy").exists());
    }
    said(&data, &["facts", "check"]);
    let made = said(&data, &["facts", "dump", text(&file), "--force"]);
    assert!(made["records"].as_u64().unwrap() > 0 && made["secrets"] == false, "{made}");
    assert!(std::fs::read_to_string(&file).unwrap().starts_with("{\"enfilade_facts\":\"dump\""));
    let text_of = told(&data, &format!("facts dump {} --force --secrets", file.display()));
    assert!(
        text_of.contains(&format!("were written to `{}`; the dump contains hashes", file.display())),
        "{text_of}"
    );
    said(&data, &["facts", "backup", text(&file), "--force"]);
}

#[test]
fn a_copy_of_the_facts_is_written_to_a_device_or_a_pipe() {
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    said(&data, &["init"]);
    let pipe = scratch.path().join("pipe.tar");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for verb in ["dump", "backup"] {
        for more in [&[][..], &["--force"]] {
            let said = refused(&data, &[&["facts", verb, "/dev/full"], more].concat());
            assert!(said.contains("`/dev/full` cannot be written"), "{said}");
            assert_eq!(said.matches("No space left on device").count(), 1, "{said}");
        }
        assert!(std::fs::metadata("/dev/full").unwrap().file_type().is_char_device());
        let begin = format!("{{\"enfilade_facts\":\"{verb}\"").into_bytes();
        // The reader has a time limit, because opening a pipe without a writer blocks.
        let mut reader = Command::new("timeout");
        let reader = reader.args(["60", "cat"]).arg(&pipe).stdout(Stdio::piped()).spawn().unwrap();
        let made = said(&data, &["facts", verb, text(&pipe)]);
        assert!(made["records"].is_u64(), "{made}");
        let read = reader.wait_with_output().unwrap().stdout;
        assert!(read.starts_with(&begin), "{:?}", read.get(..40));
        assert!(std::fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
        // Standard output contains only the copy.
        for out in ["-", "/dev/stdout"] {
            let output = without_json(&data, &format!("facts {verb} {out}"));
            assert!(output.status.success() && output.stdout.starts_with(&begin), "{}", why(&output));
            let copy = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(!copy.contains("were written"), "{copy}");
            assert!(why(&output).contains("were written to standard output"), "{}", why(&output));
        }
    }
    assert!(why(&without_json(&data, "facts dump")).contains("; the dump contains no hashes of secrets"));
    // The command reads the backup again after it was written, which is not possible with a pipe.
    let said = refused(&data, &["backup", text(&pipe), "--force"]);
    assert!(said.contains("is a device or a pipe") && pipe.exists(), "{said}");
}

/// The first write fails because the disk is full. The error contains the reason only once.
#[test]
fn a_full_disk_is_told_once() {
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    said(&data, &["init"]);
    let mark = scratch.path().join("mark");
    for arguments in [["facts", "dump", "d"], ["facts", "backup", "b"], ["backup", "w.tar", "--force"]] {
        let target = scratch.path().join("new");
        std::fs::create_dir_all(&target).unwrap();
        let arguments: Vec<String> = arguments
            .iter()
            .map(|word| match *word {
                "d" | "b" | "w.tar" => text(&target.join(word)).to_owned(),
                word => word.to_owned(),
            })
            .collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut faults = 0;
        for at in 1.. {
            let _ = std::fs::remove_file(&mark);
            let output = crate::command::run(&data, &arguments, Some(("ENOSPC", at, &mark)));
            if !mark.exists() {
                break;
            }
            let said = why(&output);
            if said.contains("cannot be written") || said.contains("cannot be copied") {
                faults += 1;
                assert_eq!(said.matches("No space left").count(), 1, "{arguments:?} {at}: {said}");
            }
            let _ = std::fs::remove_dir_all(&target);
            std::fs::create_dir_all(&target).unwrap();
        }
        assert!(faults > 0, "{arguments:?}");
    }
}

#[test]
fn facts_of_an_older_state_say_what_is_valid_again() {
    let scratch = Scratch::new();
    let path = |name: &str| scratch.path().join(name);
    let (data, backup) = (path("data"), path("backup"));
    said(&data, &["init"]);
    said(&data, &["user", "add", "alice@local"]);
    said(&data, &["token", "create", "alice@local!laptop"]);
    said(&data, &["facts", "backup", text(&backup)]);
    let restored = said(&data, &["facts", "restore", text(&backup), "--force"]);
    assert!(restored["revocations_until"].is_null(), "{restored}");
    said(&data, &["token", "delete", "alice@local!laptop"]);
    said(&data, &["user", "disable", "alice@local"]);
    let restore = format!("facts restore {} --force --accept-rollback", backup.display());
    let text_of = told(&data, &restore);
    assert!(text_of.contains("changes after revision") && text_of.contains("are undone"), "{text_of}");
    assert!(text_of.contains("are lost; the old sessions, credentials and rights work again"), "{text_of}");
    assert!(text_of.contains("Make these changes again now"), "{text_of}");
    // The command in the message lists the changes that were undone.
    let begin = format!("enfilade --data '{}' ", data.display());
    let log = text_of.split_once(&begin).unwrap_or_else(|| panic!("{text_of}")).1.lines().next().unwrap();
    let listed = told(&data, log);
    for undone in ["token delete alice@local!laptop", "user set alice@local"] {
        assert!(listed.contains(undone), "{log}: {listed}");
    }
    assert!(!listed.contains("token create alice@local!laptop"), "{log}: {listed}");
    let restored = said(&data, &["facts", "restore", text(&backup), "--force", "--accept-rollback"]);
    assert!(restored["revocations_until"].is_i64(), "{restored}");
    // If the store is moved aside, no command can read its log.
    let text_of = told(&data, &format!("facts restore {} --set-aside --accept-rollback", backup.display()));
    assert!(text_of.contains("rights work again") && text_of.contains("\"event\":\"change\""), "{text_of}");
}

/// Revisions of different stores cannot be compared. A later revision of another store does not contain the revocations of this store.
#[test]
fn facts_of_another_store_are_not_said_to_contain_the_revocations_of_this_one() {
    let scratch = Scratch::new();
    let path = |name: &str| scratch.path().join(name);
    let (here, other, new, backup) = (path("here"), path("other"), path("new"), path("backup"));
    said(&here, &["init"]);
    said(&here, &["user", "add", "alice@local"]);
    said(&here, &["user", "disable", "alice@local"]);
    said(&other, &["init"]);
    for n in 0..9 {
        said(&other, &["user", "add", &format!("user-{n}@local")]);
    }
    said(&other, &["facts", "backup", text(&backup)]);
    let made = said(&new, &["facts", "restore", text(&backup)]);
    assert!(made["revocations_until"].is_null(), "a new store has no revocations: {made}");
    for option in ["--force", "--set-aside"] {
        let text_of = told(&here, &format!("facts restore {} {option}", backup.display()));
        for part in ["the copy is of the store ", "made in the replaced store after", "are not in the copy"] {
            assert!(text_of.contains(part), "{option}: {part}: {text_of}");
        }
        assert!(!text_of.contains("are undone"), "{option}: {text_of}");
        // These changes give the next copy a later revision than the restored store has.
        for n in 0..3 {
            said(&other, &["user", "add", &format!("next{option}-{n}@local")]);
        }
        std::fs::remove_file(&backup).unwrap();
        said(&other, &["facts", "backup", text(&backup)]);
    }
    let restored = said(&here, &["facts", "restore", text(&backup), "--force"]);
    assert!(restored["revocations_until"].is_i64(), "{restored}");
}

#[test]
fn a_store_that_went_back_and_is_accepted_says_what_is_lost() {
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    said(&data, &["init"]);
    let store = data.join("facts/data.mdb");
    let older = std::fs::read(&store).unwrap();
    said(&data, &["user", "add", "alice@local"]);
    said(&data, &["user", "disable", "alice@local"]);
    std::fs::write(&store, older).unwrap();
    let text_of = told(&data, "facts restore --accept-rollback");
    assert!(
        text_of.contains("are lost. The sessions, credentials and rights that these changes revoked"),
        "{text_of}"
    );
    assert!(text_of.contains("\"event\":\"change\" and a revision above"), "{text_of}");
}

/// The backup contains the files of Proxmox that the facts do not follow. Therefore the restored server warns of these files, too.
#[test]
fn a_restored_server_still_says_that_it_checks_no_second_factor() {
    let scratch = Scratch::new();
    let path = |name: &str| scratch.path().join(name);
    let (data, file, new) = (path("data"), path("b.tar"), path("new"));
    following(&data);
    let files = [
        (
            "tfa.json",
            "{\"users\":{\"ann@pbs\":{\"totp\":[{\"info\":{\"id\":\"1\"},\"entry\":\"otpauth://x\"}]}}}",
        ),
        ("shadow.json", "{}"),
        ("domains.cfg", "ldap: corp\n\tcomment The company\n\tserver1 ldap.example.org\n\n"),
    ];
    files.iter().for_each(|(name, text)| std::fs::write(data.join(name), text).unwrap());
    let warned = |data: &Path| {
        let output = run(data, &["doctor"], "");
        String::from_utf8(output.stdout).unwrap().contains("tfa.json is not in use")
    };
    assert!(warned(&data));
    said(&data, &["backup", text(&file)]);
    said(&new, &["restore", text(&file)]);
    for (name, text) in files {
        assert_eq!(std::fs::read_to_string(new.join(name)).unwrap(), text);
    }
    assert!(warned(&new));
}

/// A directory in which a user without special rights runs commands. If the test runs as root, its commands run as another user, because root may
/// read everything.
struct OfUser {
    scratch: Scratch,
    id: Option<u32>,
}

impl OfUser {
    fn new() -> Self {
        let scratch = Scratch::new();
        let id = rustix::process::geteuid().is_root().then_some(54_321);
        std::fs::set_permissions(scratch.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let of_user = OfUser { scratch, id };
        std::fs::create_dir(of_user.path("")).unwrap();
        std::os::unix::fs::chown(of_user.path(""), id, id).unwrap();
        of_user
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join("of-user").join(name)
    }

    fn run(&self, data: &Path, arguments: &[&str]) -> Output {
        let mut command = Command::new(BINARY);
        command.args(["--json", "--data"]).arg(data).args(arguments);
        self.id.into_iter().for_each(|id| _ = command.uid(id).gid(id));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", why(&output));
        output
    }

    fn said(&self, data: &Path, arguments: &[&str]) -> Value {
        serde_json::from_slice(&self.run(data, arguments).stdout).unwrap()
    }
}

#[test]
fn a_file_that_is_not_used_and_cannot_be_read_is_named_and_makes_no_backup_fail() {
    let user = OfUser::new();
    let (data, backup) = (user.path("data"), user.path("b"));
    user.said(&data, &["init"]);
    for name in ["shadow.json", "tfa.json"] {
        std::fs::write(data.join(name), "{}").unwrap();
        std::fs::set_permissions(data.join(name), PermissionsExt::from_mode(0o644)).unwrap();
    }
    let shut = data.join("shadow.json");
    std::fs::set_permissions(&shut, PermissionsExt::from_mode(0o000)).unwrap();
    let made = user.said(&data, &["backup", text(&backup)]);
    assert_eq!(made["left_out"], json!([shut]), "{made}");
    assert!(backup.join("tfa.json").exists() && !backup.join("shadow.json").exists());
}

#[test]
fn a_datastore_that_cannot_be_opened_is_not_said_to_be_missing() {
    let user = OfUser::new();
    let (data, shut, file) = (user.path("data"), user.path("shut"), user.path("b.tar"));
    user.said(&data, &["init"]);
    std::fs::create_dir(&shut).unwrap();
    std::os::unix::fs::chown(&shut, user.id, user.id).unwrap();
    user.said(&data, &["datastore", "create", "second", "--path", text(&shut.join("served"))]);
    user.said(&data, &["backup", text(&file)]);
    std::fs::set_permissions(&shut, PermissionsExt::from_mode(0o000)).unwrap();
    let restored = user.said(&user.path("new"), &["restore", text(&file)]);
    std::fs::set_permissions(&shut, PermissionsExt::from_mode(0o755)).unwrap();
    let steps: Vec<&str> = restored["next"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let step = steps.iter().find(|step| step.contains("datastore `second`")).unwrap();
    assert!(step.contains("cannot open") && step.contains("has mode 0000"), "{step}");
    assert!(!step.contains("is not on this machine"), "{step}");
}
