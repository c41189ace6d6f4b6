//! rclone: each user sees the permitted entries, and downloads are equal to uploads.

use crate::curl::{PROPFIND_0, PROPFIND_1, curl};
use crate::server::{Scratch, Server};
use enfilade_admin::{FileSet, NewAcl, ReservedPaths};
use enfilade_facts::vocabulary::StorePath;
use enfilade_facts::{Clocks, MirrorHealth};
use enfilade_sources::lmdb::Lmdb;
use enfilade_testkit::change_context;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Runs rclone with the server as the remote `e:`. Returns its output.
pub(crate) fn rclone(server: &Server, login: &str, arguments: &[&str]) -> String {
    let (user, secret) = login.split_once(':').unwrap();
    let obscured = Command::new("rclone").args(["obscure", secret]).output().expect("rclone is needed");
    let output = Command::new("rclone")
        .env("RCLONE_CONFIG", "/dev/null")
        .env("RCLONE_CONFIG_E_TYPE", "webdav")
        .env("RCLONE_CONFIG_E_VENDOR", "other")
        .env("RCLONE_CONFIG_E_URL", server.url("/dav/main"))
        .env("RCLONE_CONFIG_E_USER", user)
        .env("RCLONE_CONFIG_E_PASS", String::from_utf8(obscured.stdout).unwrap().trim())
        .args(["--ca-cert"])
        .arg(server.certificate())
        .args(["--retries", "1", "--timeout", "60s"])
        .args(arguments)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "rclone {arguments:?}: {errors}\n{}", server.log());
    String::from_utf8(output.stdout).unwrap()
}

/// Creates 1,000 directories with one file each. The group red can see a third of them, the group blue another third, and both groups the rest.
fn tree(server: &Server) {
    for (user, group) in [("alice", "red"), ("bob", "blue")] {
        server.cli(&["group", "add", group]);
        server.cli(&["group", "member", "add", group, &format!("{user}@local")]);
    }
    server.cli(&["acl", "set", "main", "/", "allow authenticated read"]);
    // This process opens the store of the running server, like a command.
    let facts = Lmdb::open(&server.data().join("facts")).unwrap();
    let root = server.data().join("datastores/main");
    let store = "main".parse().unwrap();
    let (files, reserved) = (FileSet::new(server.data()), ReservedPaths::default());
    let now = Clocks { unix_seconds: 1, tick_millis: 1, mirror: MirrorHealth::Current };
    let ctx = change_context(&facts, &files, &reserved, now);
    for n in 0..1000 {
        let name = format!("d{n:04}");
        std::fs::create_dir(root.join(&name)).unwrap();
        std::fs::write(root.join(&name).join("file.txt"), format!("content of {n}\n")).unwrap();
        let lines: &[&str] = match n % 3 {
            0 => &["allow @red read"],
            1 => &["allow @blue read"],
            _ => &["allow @red read", "allow @blue read"],
        };
        let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        for path in [name.clone(), format!("{name}/file.txt")] {
            let path = StorePath::from_plain(&path).unwrap();
            enfilade_admin::set_acl(&ctx, &store, &path, &NewAcl::Lines(lines.clone())).unwrap();
        }
    }
}

fn expected(hidden: usize) -> BTreeSet<String> {
    let visible = (0..1000).filter(|n| n % 3 != hidden);
    visible.flat_map(|n| [format!("d{n:04}/"), format!("d{n:04}/file.txt")]).collect()
}

#[test]
fn each_user_sees_exactly_the_permitted_part_of_a_thousand_directories() {
    let server = Server::start();
    let alice = server.add_user("alice", "DatastorePowerUser");
    let bob = server.add_user("bob", "DatastoreReader");
    tree(&server);
    for (login, hidden) in [(&alice, 1), (&bob, 0)] {
        let listed = rclone(&server, login, &["lsf", "-R", "e:"]);
        let listed: BTreeSet<String> = listed.lines().map(str::to_owned).collect();
        let expected = expected(hidden);
        let differing: Vec<_> = listed.symmetric_difference(&expected).take(5).collect();
        assert!(
            differing.is_empty(),
            "{} listed, {} expected, e.g. {differing:?}",
            listed.len(),
            expected.len()
        );
    }

    // Every visible file is downloaded byte for byte.
    let scratch = Scratch::new();
    let down = scratch.path().join("down");
    rclone(&server, &alice, &["copy", "e:", down.to_str().unwrap()]);
    let files: BTreeSet<String> = expected(1).into_iter().filter(|name| !name.ends_with('/')).collect();
    for name in &files {
        let original = std::fs::read(server.data().join("datastores/main").join(name)).unwrap();
        assert_eq!(std::fs::read(down.join(name)).unwrap(), original, "{name}");
    }
    assert_eq!(walk(&down).len(), files.len());

    hidden_answers_as_absent(&server, &alice);
}

/// Checks that every reading verb gives the same answer for `d0001`, which alice may not see, and for `d1001`, which does not exist.
fn hidden_answers_as_absent(server: &Server, login: &str) {
    let verbs: [&[&str]; 9] = [
        &[],
        &["--head"],
        &["--header", "Range: bytes=0-3"],
        &["--header", "If-None-Match: *"],
        &["--header", "If-Match: \"x\""],
        &PROPFIND_0,
        &PROPFIND_1,
        &["--request", "DELETE"],
        &["--request", "OPTIONS"],
    ];
    for arguments in verbs {
        for (hidden, absent) in
            [("d0001", "d1001"), ("d0001/", "d1001/"), ("d0001/file.txt", "d1001/file.txt")]
        {
            let [hidden, absent] =
                [hidden, absent].map(|name| curl(server, login, &format!("/dav/main/{name}"), arguments));
            assert_eq!(hidden, absent, "{arguments:?}");
            assert!(hidden.status == 404 || arguments.contains(&"OPTIONS"), "{arguments:?}: {hidden:?}");
        }
    }
    // The creation of an entry with the name of a hidden entry is refused in the same way as any creation without the right.
    let without_right = curl(server, login, "/dav/main/new.txt", &["--upload-file", "/dev/null"]);
    let onto_hidden = curl(server, login, "/dav/main/d0001", &["--upload-file", "/dev/null"]);
    assert_eq!((onto_hidden.status, &onto_hidden), (403, &without_right));
    let below_hidden = curl(server, login, "/dav/main/d0001/new.txt", &["--upload-file", "/dev/null"]);
    let below_absent = curl(server, login, "/dav/main/d1001/new.txt", &["--upload-file", "/dev/null"]);
    // The answer names the directory of the request, whether it is hidden or absent.
    let said = below_hidden.text().replace("d0001", "d1001");
    assert_eq!(
        (below_hidden.status, below_hidden.head, said),
        (409, below_absent.head.clone(), below_absent.text())
    );
    let make = ["--request", "MKCOL"];
    let onto_hidden = curl(server, login, "/dav/main/d0001", &make);
    let without_right = curl(server, login, "/dav/main/new", &make);
    assert_eq!((onto_hidden.status, onto_hidden), (403, without_right));
}

#[test]
fn what_goes_up_comes_down_again() {
    let server = Server::start();
    let alice = server.add_user("alice", "DatastorePowerUser");
    let scratch = Scratch::new();
    let (up, down) = (scratch.path().join("up"), scratch.path().join("down"));
    for (name, bytes) in [
        ("empty", 0),
        ("small.txt", 10),
        ("deep/er/piece.bin", 262_144),
        ("deep/piece+1.bin", 262_145),
        ("ünïcode & <sp ace>/100%;x.bin", 5_000_000),
    ] {
        let path = up.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        // All pieces of the content differ. Therefore the test detects a piece in the wrong place.
        let content: Vec<u8> = (0..bytes).map(|n: u32| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        std::fs::write(path, content).unwrap();
    }
    rclone(&server, &alice, &["copy", up.to_str().unwrap(), "e:backup/today"]);
    rclone(&server, &alice, &["copy", "e:backup/today", down.to_str().unwrap()]);
    assert_eq!(sums(&up), sums(&down));
    // The file is changed. rclone detects the new size and sends the file again.
    std::fs::write(up.join("small.txt"), b"longer than before").unwrap();
    rclone(&server, &alice, &["copy", up.to_str().unwrap(), "e:backup/today"]);
    assert_eq!(rclone(&server, &alice, &["cat", "e:backup/today/small.txt"]), "longer than before");
    rclone(&server, &alice, &["delete", "e:backup/today"]);
    rclone(&server, &alice, &["rmdirs", "e:backup"]);
    assert_eq!(rclone(&server, &alice, &["lsf", "-R", "e:"]), "");
    assert_eq!(walk(&server.data().join("datastores/main")), Vec::<String>::new());
}

fn walk(directory: &Path) -> Vec<String> {
    let output =
        Command::new("find").arg(directory).args(["-type", "f", "-printf", "%P\n"]).output().unwrap();
    let mut names: Vec<String> =
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
    names.sort();
    names
}

fn sums(directory: &Path) -> Vec<String> {
    let names = walk(directory);
    assert!(!names.is_empty());
    let output = Command::new("sha256sum").current_dir(directory).args(&names).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}
