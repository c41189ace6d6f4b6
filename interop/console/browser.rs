//! The console in Debian's Chromium. Playwright controls the browser, and axe-core checks the pages.

use super::{PASSWORD, server, set_password};
use crate::server::Scratch;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A directory with the packages of `interop/console/package-lock.json`. They are downloaded once.
fn from_npm() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (wanted, place) = (root.join("interop/console"), root.join("target/interop-node"));
    let mark = place.join("package-lock.json");
    let lock = std::fs::read(wanted.join("package-lock.json")).unwrap();
    if std::fs::read(&mark).ok() != Some(lock.clone()) {
        std::fs::create_dir_all(&place).unwrap();
        std::fs::copy(wanted.join("package.json"), place.join("package.json")).unwrap();
        let _ = std::fs::remove_file(&mark);
        std::fs::copy(wanted.join("package-lock.json"), place.join("npm-shrinkwrap.json")).unwrap();
        let install = Command::new("npm")
            .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
            .current_dir(&place)
            .output()
            .expect("npm is needed");
        assert!(install.status.success(), "{}", String::from_utf8_lossy(&install.stderr));
        std::fs::write(&mark, lock).unwrap();
    }
    place
}

#[test]
fn people_use_the_console_with_a_browser() {
    let place = from_npm();
    let server = server();
    server.cli(&["acl", "set", "main", "/", "allow authenticated full inherit=files,dirs", "--recursive"]);
    server.cli(&["user", "add", "root@local"]);
    set_password(&server, "root@local");
    server.cli(&["role", "assign", "--path", "/", "--auth-id", "root@local", "Admin"]);
    // Users can choose comments and file names that contain HTML. Each list must show such a text as plain text.
    let evil = "<svg onload=\"document.title='owned'\">";
    server.cli(&["group", "add", "staff"]);
    server.cli(&["group", "member", "add", "staff", "bob@local"]);
    server.cli(&["user", "set", "bob@local", "--comment", evil]);
    server.cli(&["token", "create", "alice@local!old", "--comment", evil]);
    let main = server.data().join("datastores/main");
    for n in 0..300 {
        std::fs::write(main.join(format!("report {n:04}.txt")), "x").unwrap();
    }
    for name in ["photos", "letters", evil, "ä ö ü", "javascript:alert(1)"] {
        std::fs::create_dir(main.join(name)).unwrap();
    }
    std::fs::create_dir(main.join("inbox")).unwrap();
    server.cli(&["acl", "set", "main", "/inbox", "allow authenticated full inherit=files,dirs"]);
    std::fs::write(main.join("letters").join(evil.replace('/', "")), "a letter").unwrap();
    let scratch = Scratch::new();
    let pictures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/pages/console");
    std::fs::create_dir_all(&pictures).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop/console/in_chromium.js");
    // Passkeys work only with a host name, not with an IP address.
    let address = server.url("").replace("127.0.0.1", "localhost");
    let output = Command::new("node")
        .arg(script)
        .args([address.as_str(), pictures.to_str().unwrap(), scratch.path().to_str().unwrap()])
        .env("NODE_PATH", place.join("node_modules"))
        .output()
        .expect("node is needed");
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.ends_with("done\n"), "{said}{errors}\n{}", server.log());
    assert!(!server.log().contains(PASSWORD));
}
