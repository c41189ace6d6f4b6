//! The permitted places of backups and data directories, and the effect of a restore on the content of datastores.

use crate::backup::{names, run, said, text};
use crate::server::{BINARY, Scratch, Server};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Keys, and files that contain keys, never get into a datastore, because users of the datastore could read them.
#[test]
fn no_command_puts_keys_into_a_datastore() {
    let server = Server::start();
    let here = server.scratch.path();
    let (data, served, link) = (server.data(), here.join("served"), here.join("link"));
    let file = here.join("f.tar");
    server.cli(&["datastore", "create", "second", "--path", text(&served)]);
    server.cli(&["backup", text(&file)]);
    // Creates a datastore that is not in the backup.
    let late = here.join("late");
    server.cli(&["datastore", "create", "late", "--path", text(&late)]);
    std::os::unix::fs::symlink(&served, &link).unwrap();
    let beneath_data = data.join("datastores/main");
    let before = [&served, &late, &beneath_data].map(|directory| names(directory));
    let is_refused = |data: &Path, arguments: &[&str], environment: &[(&str, &str)]| {
        // If the command is not refused, it may start a server, which `timeout` ends.
        let mut command = Command::new("timeout");
        command.args(["60", BINARY, "--json", "--data"]).arg(data).args(arguments);
        let output = command.envs(environment.iter().copied()).output().unwrap();
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success()
                && ["overlaps with datastore", "is in the data directory"]
                    .iter()
                    .any(|part| why.contains(part)),
            "{arguments:?}: {output:?}"
        );
        assert_eq!(
            [&served, &late, &beneath_data].map(|directory| names(directory)),
            before,
            "{arguments:?}"
        );
        why
    };
    for place in
        [&served, &served.join("new"), &link.join("new"), &late.join("new"), &beneath_data.join("new")]
    {
        let why = is_refused(place, &["restore", text(&file)], &[]);
        assert!(why.contains("nothing was changed"), "{why}");
    }
    // Without the original server, only the backup knows the server's datastores.
    std::fs::rename(&data, here.join("gone")).unwrap();
    for place in [&served.join("new"), &link.join("new")] {
        let mut command = Command::new(BINARY);
        let output = command.args(["--data"]).arg(place).args(["restore", text(&file)]).output().unwrap();
        assert!(
            String::from_utf8_lossy(&output.stderr).contains("overlaps with datastore `second`"),
            "{output:?}"
        );
        assert!(!output.status.success() && names(&served).is_empty());
    }
    std::fs::rename(here.join("gone"), &data).unwrap();

    let default = [("ENFILADE_DATA", text(&data))];
    let listen = ["serve", "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0"];
    for place in [&served.join("new"), &link.join("new"), &beneath_data.join("new")] {
        let why = is_refused(place, &["init"], &default);
        assert!(why.contains("nothing was created"), "{why}");
        is_refused(place, &listen, &default);
    }
    for place in [&served, &link, &beneath_data] {
        let file = place.join("x.tar");
        is_refused(&data, &["backup", text(&file)], &[]);
        is_refused(&data, &["backup", text(&place.join("x"))], &[]);
        is_refused(&data, &["facts", "backup", text(&file)], &[]);
        is_refused(&data, &["certs", "self-signed", "nas.lan", "--directory", text(place)], &[]);
        is_refused(&data, &["facts", "dump", text(&file), "--secrets"], &[]);
        for directory in [place, &place.join("backups")] {
            let environment = [("ENFILADE_BACKUP__DIRECTORY", text(directory))];
            let why = is_refused(&data, &["config", "check"], &environment);
            assert!(why.contains("`backup.directory`"), "{why}");
            is_refused(&data, &listen, &environment);
        }
    }
}

/// Restores over a data directory with the usual layout, in which the datastores are in the data directory.
#[test]
fn a_restore_with_force_keeps_the_content_of_datastores_and_says_what_is_next() {
    let scratch = Scratch::new();
    let path = |name: &str| scratch.path().join(name);
    let (data, file) = (path("data"), path("f.tar"));
    said(&data, &["init"]);
    said(&data, &["certs", "ca"]);
    let content = data.join("datastores/main/file");
    std::fs::write(&content, "content").unwrap();
    std::fs::write(data.join("enfilade.toml"), format!("[backup]\ndirectory = '{}'\n", path("b").display()))
        .unwrap();
    said(&data, &["backup", text(&file)]);
    // A datastore that its server refuses does not prevent the restore.
    let config = std::fs::read_to_string(data.join("datastore.cfg")).unwrap();
    std::fs::write(data.join("datastore.cfg"), format!("{config}datastore: everything\n\tpath /\n\n"))
        .unwrap();
    said(&data, &["backup", text(&file), "--force"]);
    std::fs::remove_dir_all(data.join("ca")).unwrap();
    said(&data, &["certs", "ca"]);
    let restored = said(&data, &["restore", text(&file), "--force"]);
    assert_eq!(std::fs::read_to_string(&content).unwrap(), "content");
    assert_eq!(restored["kept"], json!(data.join("datastores")));
    let aside = PathBuf::from(restored["set_aside"].as_str().unwrap());
    assert!(aside.join("facts").exists() && !aside.join("datastores").exists());
    let next = restored["next"].to_string();
    assert!(next.contains("another local CA") && next.contains("set another directory"), "{next}");
    let found = String::from_utf8(run(&data, &["doctor"], "").stdout).unwrap();
    let of_main = found.lines().find(|line| line.contains("datastore main")).unwrap();
    assert!(!of_main.contains("\"error\""), "{found}");

    // The text for people always ends with the next steps, and explains how to copy content together with its ACLs.
    let told = |data: &Path, arguments: &[&str]| {
        let output = Command::new(BINARY).arg("--data").arg(data).args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let again = told(&data, &["restore", text(&file), "--force"]);
    let next = again.split_once("\nnext:\n").unwrap_or_else(|| panic!("{again}")).1;
    assert!(next.contains("  - check: enfilade") && next.contains("  - start: enfilade"), "{again}");
    assert!(again.contains("the content of datastores was kept"), "{again}");
    // The log of the restored directory begins with the restore. The log of the directory that was moved aside contains the earlier changes.
    let log = format!("enfilade --data '{}' facts log", aside.display());
    assert!(
        again.contains(&format!("an earlier restore renamed a data directory to `{}`", aside.display())),
        "{again}"
    );
    assert!(again.matches("facts log --last 1000").count() == 2 && again.contains(&log), "{again}");
    let other = told(&path("other"), &["restore", text(&file)]);
    assert!(other.contains("rsync -aX"), "{other}");
    assert!(told(&data, &["backup", text(&path("g.tar"))]).contains("rsync -aX"));

    // The users of another server do not get access to the content of this server.
    let foreign = path("foreign");
    said(&foreign, &["init"]);
    said(&foreign, &["backup", text(&path("h.tar"))]);
    let restored = said(&data, &["restore", text(&path("h.tar")), "--force"]);
    assert!(restored["kept"].is_null() && !content.exists(), "{restored}");
    assert!(restored["next"].to_string().contains("the backup is from another server"), "{restored}");
}
