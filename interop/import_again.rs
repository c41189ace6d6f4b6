//! Repeated imports: an import does not restore a removed record, a failed import can be repeated, and the advised next steps have an effect.

use crate::migration::{enfilade, hash, proxmox, said, whoami};
use crate::server::{BINARY, Scratch, Server, WITHOUT_PENALTIES, until};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// The reason why a record of a report was left out.
fn left_out(report: &[Value], what: &str) -> String {
    let item = report.iter().find(|item| item["what"] == what);
    item.unwrap_or_else(|| panic!("{what}: {report:#?}"))["left_out"].as_str().unwrap_or_default().to_owned()
}

fn next(report: &[Value]) -> String {
    report.last().unwrap()["next"].to_string()
}

#[test]
fn removed_realms_and_datastores_stay_removed_and_the_list_survives_without_files() {
    let there = Scratch::new();
    let (source, stores) = (there.path().join("pbs"), there.path().join("stores"));
    proxmox(&source, &stores);
    std::fs::remove_file(source.join("tfa.json")).unwrap();
    let from = source.to_str().unwrap();
    let server =
        Server::start_on(|data| drop(said(data, &["import", "proxmox", from])), &[WITHOUT_PENALTIES]);
    assert!(!server.data().join("imported.json").exists());
    for removed in [
        &["datastore", "remove", "plain"][..],
        &["user", "remove", "carl@corp"],
        &["domain", "disable", "corp"],
        &["domain", "remove", "corp"],
    ] {
        server.cli(removed);
    }
    let users = std::fs::read_to_string(source.join("user.cfg")).unwrap();
    let bad = "acl:1:/datastore/x y:ann@pbs:DatastoreReader:\n";
    std::fs::write(source.join("user.cfg"), users + "user: dora@corp\n\nuser: zoe@pbs\n\n").unwrap();
    std::fs::write(source.join("acl.cfg"), bad).unwrap();
    // An earlier version wrote the list of imported records to a file. The names in this file are moved to the facts.
    let list = server.data().join("imported.json");
    std::fs::write(&list, "[\"user zoe@pbs\"]").unwrap();
    for options in [&[][..], &["--same-source"], &["--same-source", "--without-second-factor"]] {
        let again = server.cli(&[&["import", "proxmox", from], options].concat());
        assert_eq!(again.last().unwrap()["taken"], 0, "{options:?}: {again:#?}");
        let here = "removed or revoked on this server";
        for (what, why) in [
            ("datastore plain", here),
            ("realm corp", here),
            ("user carl@corp", here),
            ("user zoe@pbs", here),
            (
                "user dora@corp",
                "an earlier import made the realm `corp`, and the realm was later removed on this server",
            ),
        ] {
            assert!(left_out(&again, what).contains(why), "{what}: {}", left_out(&again, what));
        }
        assert!(next(&again).contains("in line 1 of acl.cfg"), "{}", next(&again));
    }
    assert!(!list.exists());
    let listed = |kind: &str| format!("{:?}", server.cli(&[kind, "list"]));
    assert!(!listed("datastore").contains("plain") && listed("datastore").contains("chunks"));
    assert!(!listed("domain").contains("corp") && listed("domain").contains("pbs"));
    // A damaged file with this list is an error for the import, and for `doctor`.
    std::fs::write(&list, "[").unwrap();
    let refused = server.cli_output(&["import", "proxmox", from], "");
    let doctor = String::from_utf8(server.cli_output(&["doctor"], "").stdout).unwrap();
    for said in [String::from_utf8(refused.stderr).unwrap(), doctor] {
        assert!(said.contains("imported.json` is damaged, so an import could bring back"), "{said}");
    }
}

#[test]
fn nobody_is_told_to_do_what_has_no_effect() {
    let there = Scratch::new();
    let (source, stores) = (there.path().join("pbs"), there.path().join("stores"));
    proxmox(&source, &stores);
    let from = source.to_str().unwrap();
    let data = there.path().join("data");
    // Bob has a second factor in the source. With this option, bob gets his password.
    said(&data, &["import", "proxmox", from, "--without-second-factor"]);
    for options in [&[][..], &["--same-source", "--without-second-factor"]] {
        let text = said(&data, &[&["--json", "import", "proxmox", from], options].concat());
        let again: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let factor = left_out(&again, "second factor bob@pbs");
        assert!(factor.ends_with("the user can log in with the password alone"), "{factor}");
        assert!(!next(&again).contains("bob@pbs"), "{}", next(&again));
    }
    // Repeats the test with files that the server follows, and after all credentials of bob were revoked.
    let server = Server::start_on(|data| proxmox(data, there.path()), &[WITHOUT_PENALTIES]);
    let own = server.data();
    let own = own.to_str().unwrap();
    let report = server.cli(&["import", "proxmox", own]);
    assert!(next(&report).contains("--without-second-factor --same-source"), "{}", next(&report));
    server.cli(&["import", "proxmox", own, "--without-second-factor", "--same-source"]);
    assert_eq!(whoami(&server, "bob@pbs:bob's"), 200);
    server.cli(&["revoke", "user", "bob@pbs", "--everything"]);
    for options in [&[][..], &["--without-second-factor", "--same-source"]] {
        let again = server.cli(&[&["import", "proxmox", own], options].concat());
        let why = left_out(&again, "password bob@pbs");
        assert!(why.contains("the sessions of the user were revoked on this server"), "{why}");
        let next = next(&again);
        assert!(!next.contains("--without-second-factor") && !next.contains("bob@pbs"), "{next}");
    }
    assert_eq!(whoami(&server, "bob@pbs:bob's"), 401);
}

#[test]
fn roles_on_namespaces_in_followed_files_are_warned_of() {
    let there = Scratch::new();
    let server = Server::start_on(
        |data| {
            proxmox(data, there.path());
            std::fs::create_dir_all(there.path().join("plain/ns/secret")).unwrap();
            let acl =
                "acl:1:/datastore:ann@pbs:DatastoreReader\nacl:1:/datastore/plain/secret:ann@pbs:NoAccess\n";
            std::fs::write(data.join("acl.cfg"), acl).unwrap();
        },
        &[WITHOUT_PENALTIES],
    );
    let says = "acl.cfg: line 2: NoAccess of ann@pbs on /datastore/plain/secret has no effect (access is not blocked), because `";
    let then = "are in /datastore/plain/ns/secret: write this path in the line";
    until("the line is logged", &server, || server.log().contains(says) && server.log().contains(then));
    let doctor = || String::from_utf8(server.cli_output(&["doctor"], "").stdout).unwrap();
    assert!(doctor().contains(says) && doctor().contains(then), "{}", doctor());
    let acl = server.data().join("acl.cfg");
    let moved = std::fs::read_to_string(&acl).unwrap().replace("/plain/secret", "/plain/ns/secret");
    std::fs::write(acl, moved).unwrap();
    assert!(!doctor().contains("access is not blocked"), "{}", doctor());
}

#[test]
fn an_import_whose_keys_cannot_be_created_says_that_everything_else_was_imported() {
    let there = Scratch::new();
    let (source, data) = (there.path().join("pbs"), there.path().join("data"));
    proxmox(&source, &there.path().join("stores"));
    let from = source.to_str().unwrap();
    std::fs::create_dir_all(data.join("keys")).unwrap();
    for directory in [&data, &data.join("keys")] {
        std::fs::set_permissions(directory, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    }
    std::fs::write(data.join("keys/fernet"), "not a directory").unwrap();
    let failed = enfilade(&data, &["import", "proxmox", from]);
    let why = String::from_utf8(failed.stderr).unwrap();
    let expected = "the records were imported, but login tickets need Fernet keys";
    assert!(!failed.status.success() && why.contains(expected) && why.contains("keys init"), "{why}");
    assert!(said(&data, &["user", "list"]).contains("ann@pbs"));
    std::fs::remove_file(data.join("keys/fernet")).unwrap();
    said(&data, &["import", "proxmox", from]);
    assert!(data.join("keys/fernet").is_dir());
}

#[test]
fn the_samples_of_the_page_about_files_can_be_imported() {
    let there = Scratch::new();
    let page =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/files.md")).unwrap();
    let samples = page.split_once("\n## Samples\n").unwrap().1.split("\n## ").next().unwrap();
    let tank = there.path().join("tank");
    std::fs::create_dir_all(&tank).unwrap();
    let source = there.path().join("pbs");
    std::fs::create_dir_all(&source).unwrap();
    for name in ["user.cfg", "token.shadow", "acl.cfg", "datastore.cfg", "tfa.json"] {
        let after = samples.split_once(&format!("\n`{name}`: ")).unwrap_or_else(|| panic!("{name}")).1;
        let block = after.split("```").nth(1).unwrap().split_once('\n').unwrap().1;
        let text =
            block.replace("$5$rounds=1000$…", &hash("one")).replace("/srv/tank", tank.to_str().unwrap());
        std::fs::write(source.join(name), text).unwrap();
    }
    let data = there.path().join("data");
    let text = said(&data, &["--json", "import", "proxmox", source.to_str().unwrap()]);
    let report: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for what in [
        "user ann@pbs",
        "token ann@pbs!backup",
        "roles ann@pbs on /datastore/tank",
        "roles ann@pbs!backup on /datastore/tank",
        "datastore tank",
    ] {
        assert_eq!(left_out(&report, what), "", "{what}");
    }
    assert!(left_out(&report, "second factor ann@pbs").starts_with("totp: "));
    let lines = report.iter().filter(|item| item["left_out"].to_string().contains("line "));
    assert_eq!(lines.count(), 0, "{report:#?}");
}

/// Imports 2,000 users on a file system of 64 MiB with little free space, with and without an earlier server. Then frees space, and imports again.
const ON_A_FULL_DISK: &str = r#"
mount -t tmpfs -o size=64m none "$DISK" || exit 9
enfilade() { "$BINARY" --data "$DISK/data" "$@"; }
if [ "$INIT" = init ]; then enfilade init >"$OUT/init" || exit 8; fi
cp "$DISK/data/datastore.cfg" "$OUT/before" 2>/dev/null || : >"$OUT/before"
free=$(df -k --output=avail "$DISK" | tail -n 1)
dd if=/dev/zero of="$DISK/fill" bs=1k count=$((free - ROOM)) status=none
enfilade import proxmox "$SOURCE" >"$OUT/first" 2>"$OUT/why"
echo $? >"$OUT/status"
ls -A "$DISK/data" >"$OUT/left" 2>/dev/null
cp "$DISK/data/datastore.cfg" "$OUT/after" 2>/dev/null || : >"$OUT/after"
rm "$DISK/fill"
enfilade import proxmox "$SOURCE" >"$OUT/second" || exit 7
enfilade datastore list >"$OUT/datastores" || exit 6
enfilade role list >"$OUT/roles" || exit 5
"#;

fn import_on_a_full_disk(there: &Path, source: &Path, room: u32, init: &str) -> bool {
    let out = there.join(format!("out-{room}-{init}"));
    let disk = there.join("disk");
    for directory in [&out, &disk] {
        std::fs::create_dir_all(directory).unwrap();
    }
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", ON_A_FULL_DISK]);
    let output = command
        .envs([("BINARY", BINARY), ("INIT", init), ("ROOM", room.to_string().as_str())])
        .envs([("DISK", &disk), ("OUT", &out), ("SOURCE", &source.to_path_buf())])
        .output()
        .unwrap();
    let read = |name: &str| std::fs::read_to_string(out.join(name)).unwrap_or_default();
    let why = read("why");
    let case = format!("{room} KiB, {init}: {why} {}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{case}");
    assert!(read("datastores").contains("tank") && read("roles").contains("u7@pbs"), "{case}");
    if read("status").trim() == "0" {
        return false;
    }
    let lower = why.to_lowercase();
    assert!(lower.contains("no space left") || lower.contains("disk is full"), "{case}");
    assert!(!why.contains("has errors"), "{case}");
    if !why.contains("were imported") {
        assert_eq!(read("after"), read("before"), "{case}");
        assert!(init == "init" || read("left").is_empty(), "{case}: {}", read("left"));
    }
    true
}

#[test]
fn an_import_on_a_full_disk_changes_nothing_says_so_and_can_be_repeated() {
    let there = Scratch::new();
    let is_allowed = Command::new("unshare").args(["-rm", "mount", "-t", "tmpfs", "none", "/mnt"]).output();
    if !is_allowed.is_ok_and(|output| output.status.success()) {
        println!("not asserted: a test may not mount a file system on this machine");
        return;
    }
    let (source, tank) = (there.path().join("pbs"), there.path().join("tank"));
    for directory in [&source, &tank] {
        std::fs::create_dir_all(directory).unwrap();
    }
    let users: String = (0..2_000).map(|n| format!("user: u{n}@pbs\n\n")).collect();
    let write = |name: &str, text: &str| std::fs::write(source.join(name), text).unwrap();
    write("user.cfg", &users);
    write("shadow.json", &format!("{{\"u7\":\"{}\"}}", hash("seven")));
    write("acl.cfg", "acl:1:/datastore/tank:u7@pbs:DatastoreReader\n");
    write("datastore.cfg", &format!("datastore: tank\n\tpath {}\n\n", tank.display()));
    for init in ["init", "new"] {
        let failed =
            [64, 1_024, 3_072, 8_192].map(|room| import_on_a_full_disk(there.path(), &source, room, init));
        assert!(failed[0], "{init}: the disk had room for everything");
    }
}
