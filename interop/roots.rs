//! Reserved paths: no datastore can contain files that the server itself reads or writes, independently of the way in which the datastore was
//! created. Over HTTP, datastores can be created only below the configured roots.

use crate::command::{run, said};
use crate::curl::curl;
use crate::server::{CLOSED, Scratch, Server};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The token of an administrator: for HTTP Basic, and as the header for the Proxmox API.
struct Admin {
    token: String,
    header: String,
}

fn admin(server: &Server) -> Admin {
    let token = server.add_token("admin@local!roots");
    let header = format!("Authorization: PBSAPIToken={token}");
    Admin { token, header }
}

fn create(server: &Server, admin: &Admin, name: &str, path: &Path) -> (u16, String) {
    let (name, path) = (format!("name={name}"), format!("path={}", path.display()));
    let answer = curl(
        server,
        "",
        "/api2/json/config/datastore",
        &["-H", &admin.header, "-X", "POST", "--data-urlencode", &name, "--data-urlencode", &path],
    );
    (answer.status, answer.text())
}

/// Paths of datastores that would contain files of the server.
fn own_places(server: &Server) -> Vec<PathBuf> {
    let data = server.data();
    let mut places: Vec<PathBuf> = ["", "keys", "keys/fernet", "facts", "tls", "locks", "made"]
        .iter()
        .map(|name| data.join(name))
        .collect();
    places.push(server.scratch.path().to_owned());
    places.push("/".into());
    places.push("/proc".into());
    places.push("/proc/self".into());
    places
}

#[test]
fn over_http_a_datastore_is_made_only_beneath_the_roots() {
    let server = Server::start_with(&[CLOSED]);
    let admin = admin(&server);
    let stores = server.data().join("datastores");
    let outside = server.scratch.path().join("outside");
    symlink(server.data().join("keys"), stores.join("link")).unwrap();
    let mut refused = own_places(&server);
    refused.extend([
        "/etc".into(),
        outside.clone(),
        stores.join("link"),
        stores.join("link/fernet"),
        stores.join("../keys"),
        stores.clone(),
    ]);
    for (n, path) in refused.iter().enumerate() {
        let (status, text) = create(&server, &admin, &format!("bad{n}"), path);
        assert_eq!(status, 400, "{}: {text}", path.display());
    }
    assert!(!outside.exists(), "a refused request must not create a directory");
    let (_, text) = create(&server, &admin, "bad", &outside);
    assert!(text.contains("[datastores] roots"), "{text}");
    // A datastore with a device is mounted below `/mnt/datastore`, which is not a configured root.
    let answer = curl(
        &server,
        "",
        "/api2/json/config/datastore",
        &["-H", &admin.header, "-X", "POST", "-d", "name=usb&path=/x&backing-device=0a"],
    );
    assert_eq!((answer.status, Path::new("/x").exists()), (400, false), "{}", answer.text());
    assert_eq!(create(&server, &admin, "good", &stores.join("good")).0, 200);
    assert_eq!(curl(&server, &admin.token, "/dav/good/", &["-X", "PROPFIND", "-H", "Depth: 0"]).status, 207);
}

#[test]
fn the_roots_can_be_set_and_hold_nothing_of_the_server() {
    let scratch = crate::server::Scratch::new();
    let (one, two) = (scratch.path().join("one"), scratch.path().join("two"));
    std::fs::create_dir(&one).unwrap();
    std::fs::create_dir(&two).unwrap();
    let roots = format!("{}:{}:/", one.display(), two.display());
    let server = Server::start_with(&[("ENFILADE_DATASTORES__ROOTS", &roots)]);
    let admin = admin(&server);
    for (n, path) in own_places(&server).iter().enumerate() {
        let (status, text) = create(&server, &admin, &format!("bad{n}"), path);
        assert_eq!(status, 400, "{}: {text}", path.display());
    }
    assert_eq!(create(&server, &admin, "first", &one.join("a")).0, 200);
    assert_eq!(create(&server, &admin, "second", &two.join("b/c")).0, 200);
}

#[test]
fn the_command_line_refuses_what_the_server_uses() {
    let server = Server::start();
    for (n, path) in own_places(&server).iter().enumerate() {
        let name = format!("bad{n}");
        let refused =
            server.cli_output(&["datastore", "create", &name, "--path", path.to_str().unwrap()], "");
        let errors = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(
            !refused.status.success() && errors.contains("overlaps with"),
            "{}: {errors}",
            path.display()
        );
    }
    let outside = server.scratch.path().join("outside");
    server.cli(&["datastore", "create", "good", "--path", outside.to_str().unwrap()]);
}

fn bind(from: &Path, to: &Path) -> bool {
    Command::new("mount").arg("--bind").args([from, to]).status().is_ok_and(|status| status.success())
}

#[test]
fn a_root_is_judged_by_what_was_opened_whatever_files_and_links_say() {
    let server = Server::start();
    let admin = admin(&server);
    let (data, scratch) = (server.data(), server.scratch.path().to_owned());
    let status =
        |name: &str, file: &str| curl(&server, &admin.token, &format!("/dav/{name}/{file}"), &[]).status;
    // The test edits `datastore.cfg` by hand.
    let link = scratch.join("link");
    symlink(&data, &link).unwrap();
    let config = data.join("datastore.cfg");
    let before = std::fs::read_to_string(&config).unwrap();
    let places = [
        ("keys", data.join("keys"), "fernet/1"),
        ("facts", data.join("facts"), "data.mdb"),
        ("above", scratch.clone(), "data/keys/fernet/1"),
        ("linked", link.join("keys"), "fernet/1"),
        ("everything", "/".into(), "etc/hostname"),
    ];
    let sections: String = places
        .iter()
        .map(|(name, path, _)| format!("datastore: {name}\n\tpath {}\n\n", path.display()))
        .collect();
    std::fs::write(&config, format!("{before}{sections}")).unwrap();
    let doctor = || String::from_utf8(server.cli_output(&["doctor"], "").stdout).unwrap();
    let says = doctor();
    for (name, _, file) in &places {
        assert_eq!(status(name, file), 503, "{name}");
        let is_told = |line: &str| {
            let words =
                [format!("datastore {name}\""), "\"error\"".into(), "which the server reserves".into()];
            words.iter().all(|word| line.contains(word))
        };
        assert!(says.lines().any(is_told), "{name}: {says}");
    }
    assert!(server.log().contains("\"code\":\"CT23\""), "{}", server.log());
    // Commands refuse this datastore, too.
    let output = server.cli_output(&["acl", "get", "keys", "/"], "");
    assert!(String::from_utf8_lossy(&output.stderr).contains("overlaps with"), "{output:?}");
    let review = server.cli_output(&["acl", "review", "keys"], "");
    assert!(String::from_utf8_lossy(&review.stderr).contains("overlaps with"), "{review:?}");
    std::fs::write(&config, before).unwrap();

    // A link, and then a mount, replaces the directory of a valid datastore. Then another file is mounted over a file in the directory.
    let place = scratch.join("tank");
    server.cli(&["datastore", "create", "tank", "--path", place.to_str().unwrap()]);
    std::fs::write(place.join("file"), "content").unwrap();
    assert_eq!(status("tank", "file"), 200);
    std::fs::rename(&place, scratch.join("aside")).unwrap();
    symlink(data.join("keys"), &place).unwrap();
    // The server closes a root without active operations at the next change, and opens it again for the next request.
    server.cli(&["user", "add", "a@local"]);
    let until = |expected: u16, file: &str| {
        for _ in 0..3000 {
            if status("tank", file) == expected {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        panic!("the status for {file} did not become {expected}");
    };
    until(503, "file");
    assert_eq!(status("tank", "fernet/1"), 503);
    std::fs::remove_file(&place).unwrap();
    std::fs::create_dir(&place).unwrap();
    if !bind(&data.join("keys/fernet"), &place) {
        return println!("not asserted: nothing can be mounted here");
    }
    let answer = {
        until(503, "1");
        status("tank", "1")
    };
    assert!(Command::new("umount").arg(&place).status().unwrap().success());
    assert_eq!(answer, 503);
    // Mounts below a root are not served.
    std::fs::write(place.join("over"), "").unwrap();
    until(200, "over");
    assert!(bind(&data.join("keys/token-hash.key"), &place.join("over")));
    let answer = status("tank", "over");
    assert!(Command::new("umount").arg(place.join("over")).status().unwrap().success());
    assert_eq!(answer, 404);
}

/// The response about a path outside of the roots does not depend on the existing files there. A refused request leaves no files behind.
#[test]
fn a_refused_datastore_tells_nothing_and_leaves_nothing() {
    let server = Server::start_with(&[CLOSED]);
    let admin = admin(&server);
    let (stores, scratch) = (server.data().join("datastores"), server.scratch.path().to_owned());
    std::fs::create_dir(scratch.join("there")).unwrap();
    std::fs::write(scratch.join("file"), "").unwrap();
    symlink(&stores, scratch.join("into")).unwrap();
    symlink(scratch.join("there"), scratch.join("away")).unwrap();
    let told = |path: &Path| {
        let (status, text) = create(&server, &admin, "bad", path);
        (status, text.replace(&path.display().to_string(), "PATH"))
    };
    let absent = told(&scratch.join("absent"));
    assert_eq!(absent.0, 400);
    for place in ["there", "file", "into/x", "away", "away/x", "there/x", "absent/x", "into/main"] {
        assert_eq!(told(&scratch.join(place)), absent, "{place}");
    }
    for (more, place) in [
        // The name is already used.
        ("name=main", "new"),
        ("name=main", "new/deep"),
        ("name=fresh&maintenance-mode=type%3Dnonsense", "new/deep"),
        ("name=fresh&comment=two%0Alines", "new/deep"),
    ] {
        let form = format!("{more}&path={}", stores.join(place).display());
        let arguments = ["-H", &admin.header, "-X", "POST", "-d", &form];
        let answer = curl(&server, "", "/api2/json/config/datastore", &arguments);
        assert_eq!(answer.status, 400, "{form}: {}", answer.text());
        assert!(!stores.join("new").exists(), "{form}");
    }
}

/// Only properties that Proxmox allows to delete can be deleted.
#[test]
fn what_cannot_be_deleted_from_a_datastore_is_refused() {
    let server = Server::start();
    let admin = admin(&server);
    let config = || std::fs::read_to_string(server.data().join("datastore.cfg")).unwrap();
    let change = |form: &str| {
        let arguments = ["-H", &admin.header, "-X", "PUT", "-d", form];
        curl(&server, "", "/api2/json/config/datastore/main", &arguments)
    };
    assert_eq!(change("comment=kept").status, 200);
    let before = config();
    for form in [
        "delete=path",
        "delete=path%2Ccomment",
        "delete=comment%2Cpath",
        "delete=name",
        "delete=",
        "delete=comment&delete=path",
    ] {
        let answer = change(form);
        assert_eq!((answer.status, config()), (400, before.clone()), "{form}: {}", answer.text());
    }
    assert_eq!(change("delete=comment").status, 200);
    assert!(!config().contains("kept"));
}

/// If the server's user may not enter a directory, `doctor` names the owner and the mode of the directory. The test needs directories of two users:
/// root, and the user of the server. Only root can create them, so the test does nothing if another user runs it.
#[test]
fn a_directory_that_is_shut_is_not_called_missing() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let scratch = Scratch::new();
    let (data, shut) = (scratch.path().join("data"), scratch.path().join("shut"));
    let content = shut.join("content");
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(scratch.path(), 0o755);
    std::fs::create_dir_all(&content).unwrap();
    said(&data, &["init"]);
    said(&data, &["datastore", "create", "tank", "--path", content.to_str().unwrap()]);
    for place in [&data, &content] {
        assert!(Command::new("chown").args(["-R", "65534:65534"]).arg(place).status().unwrap().success());
    }
    // `doctor` checks with the rights of the owner of the data directory.
    let doctor = || String::from_utf8(run(&data, &["doctor"], None).stdout).unwrap();
    mode(&shut, 0o755);
    assert!(!doctor().contains("the user of this process"), "{}", doctor());
    mode(&content, 0o000);
    let says = doctor();
    let by = format!("`{}` belongs to user ", content.display());
    assert!(says.contains("exists, but the user of this process cannot read it"), "{says}");
    assert!(says.contains(&by) && says.contains("has mode 0000"), "{says}");
    mode(&shut, 0o700);
    let says = doctor();
    let by = format!("`{}` belongs to user root and has mode 0700", shut.display());
    assert!(says.contains("cannot be reached by the user of this process") && says.contains(&by), "{says}");
    assert!(!says.contains("create the directory, or mount"), "{says}");
}
