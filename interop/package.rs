//! The Debian package: two builds are identical, lintian reports nothing, and a clean Debian installs, updates, removes and purges the package.

use crate::curl::PROPFIND_0;
use crate::debian_root::{DebianRoot, both};
use crate::server::{BINARY, Scratch, first_line};
use crate::signals::signal;
use crate::upgrade::lay_out;
use enfilade_facts::format::FORMAT;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The version of an older package, which differs from the newest package only in its version.
const OLDER: &str = "0.0.1";

/// The data directory of the server that the package installs.
const DATA: &str = "/var/lib/enfilade";

pub(crate) struct Built {
    scratch: Scratch,
}

impl Built {
    /// Packs the program that is tested.
    fn new() -> Self {
        Self::with(&[])
    }

    fn with(options: &[&str]) -> Self {
        let scratch = Scratch::new();
        let out = scratch.path().to_str().unwrap();
        // The package contains the helper, which is next to the binary.
        crate::privileged::program();
        let words = ["--out", out, "--binary", BINARY, "--compression", "gzip"];
        xtask::package::run(&[&words, options].concat()).unwrap();
        Built { scratch }
    }

    fn file(&self, end: &str) -> PathBuf {
        let files = std::fs::read_dir(self.scratch.path()).unwrap().map(|entry| entry.unwrap().path());
        let found = files.into_iter().find(|path| path.to_str().unwrap().ends_with(end));
        found.unwrap_or_else(|| panic!("the package has no file *{end}"))
    }

    /// Builds the same package with another version.
    fn with_version(&self, version: &str, to: &Path) {
        let tree = self.scratch.path().join("tree");
        let control = tree.join("DEBIAN/control");
        let text = std::fs::read_to_string(&control).unwrap();
        let (before, rest) = text.split_once("\nVersion: ").unwrap();
        let rest = rest.split_once('\n').unwrap().1;
        std::fs::write(&control, format!("{before}\nVersion: {version}\n{rest}")).unwrap();
        let mut build = Command::new("dpkg-deb");
        build.args(["--root-owner-group", "-Znone", "--build"]).arg(&tree).arg(to);
        assert!(build.output().unwrap().status.success());
        std::fs::write(&control, text).unwrap();
    }
}

/// A clean Debian with the package as `/opt/newest.deb`.
pub(crate) fn debian() -> Option<(DebianRoot, Built)> {
    let (root, built) = (DebianRoot::new()?, Built::new());
    std::fs::copy(built.file(".deb"), root.path("/opt/newest.deb")).unwrap();
    Some((root, built))
}

/// A server that runs in the Debian as the user of the package.
struct Installed<'r> {
    root: &'r DebianRoot,
    child: Child,
    /// `127.0.0.1:PORT` of HTTPS.
    address: String,
}

impl<'r> Installed<'r> {
    fn start(root: &'r DebianRoot) -> Self {
        let words = "setpriv --reuid=enfilade --regid=enfilade --init-groups enfilade --json --data /var/lib/enfilade serve \
                     --listen 127.0.0.1:0 --ops-listen 127.0.0.1:0";
        let words: Vec<&str> = words.split_whitespace().collect();
        let log = std::fs::File::create(root.path("/opt/log")).unwrap();
        let (child, line) = first_line(root.command(&words).stderr(log));
        let mut installed = Installed { root, child, address: String::new() };
        let told: Value =
            serde_json::from_str(&line).unwrap_or_else(|_| panic!("did not start: {}", installed.log()));
        told["listen"].as_str().unwrap().clone_into(&mut installed.address);
        installed
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.root.path("/opt/log")).unwrap()
    }

    /// The status of a request for the properties of a path.
    fn status(&self, login: &str, path: &str) -> String {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--max-time", "60", "--output", "/dev/null"]);
        curl.args(["--write-out", "%{http_code}", "--user", login, "--cacert"]);
        curl.arg(self.root.path(DATA).join("tls/localhost.crt")).args(PROPFIND_0);
        let output = curl.arg(format!("https://{}{path}", self.address)).output().unwrap();
        assert!(output.status.success(), "{}\n{}", both(&output), self.log());
        String::from_utf8(output.stdout).unwrap()
    }

    /// Ends the server as systemd does.
    fn stop(mut self) {
        signal("TERM", self.child.id());
        assert!(self.child.wait().unwrap().success(), "{}", self.log());
    }
}

impl Drop for Installed<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn two_builds_are_the_same_the_checksums_are_signed_and_lintian_finds_nothing() {
    let keys = Scratch::new();
    let key = |name: &str| keys.path().join(name).to_str().unwrap().to_owned();
    let mut make = Command::new("minisign");
    make.args(["-G", "-W", "-p", &key("public"), "-s", &key("secret")]);
    assert!(make.output().expect("minisign is needed").status.success());
    let (first, second) = (&Built::new(), &Built::with(&["--sign", &key("secret")]));
    for end in [".deb", ".oci.tar", ".cdx.json", ".intoto.json", ".sha256"] {
        let [first, second] = [first, second].map(|built| std::fs::read(built.file(end)).unwrap());
        assert!(first == second, "two builds of *{end} differ");
    }
    let mut check = Command::new("sha256sum");
    check.args(["--check", "--strict"]).arg(first.file(".sha256")).current_dir(first.scratch.path());
    assert!(check.output().unwrap().status.success());
    let sums = second.file(".sha256");
    let is_signed = || {
        let mut verify = Command::new("minisign");
        verify.args(["-V", "-p", &key("public"), "-m"]).arg(&sums);
        verify.output().unwrap().status.success()
    };
    assert!(is_signed());
    let text = std::fs::read_to_string(&sums).unwrap();
    assert_eq!(text.lines().count(), 4, "the package, the image, the components, the provenance: {text}");
    std::fs::write(&sums, text.replace('0', "1")).unwrap();
    assert!(!is_signed());
    let mut lintian = Command::new("lintian");
    lintian.args(["--allow-root", "--fail-on", "error,warning", "--tag-display-limit", "0"]);
    let output = lintian.arg(first.file(".deb")).stdin(Stdio::null()).output().expect("lintian is needed");
    assert!(output.status.success() && output.stdout.is_empty(), "{}", both(&output));
}

#[test]
fn a_clean_debian_installs_updates_removes_and_purges_the_package() {
    let Some((root, built)) = debian() else { return };
    let before = root.files();
    built.with_version(OLDER, &root.path("/opt/older.deb"));
    let said = root.run("apt-get install -y /opt/older.deb");
    assert!(said.contains("to begin, run: enfilade setup"), "{said}");
    assert_eq!(root.run("dpkg --verify enfilade"), "");
    assert_eq!(root.run("stat --format=%U:%G:%a /var/lib/enfilade"), "enfilade:enfilade:700\n");
    assert_eq!(root.run("find /var/lib/enfilade -mindepth 1"), "", "nothing is started or made");

    // A server of the older version wrote this store.
    lay_out(FORMAT - 1, &root.path(DATA));
    let datastores = root.path(DATA).join("datastore.cfg");
    let text = std::fs::read_to_string(&datastores).unwrap();
    std::fs::write(&datastores, text.replace(root.place().to_str().unwrap(), "")).unwrap();
    root.run("chown -R enfilade:enfilade /var/lib/enfilade");

    let said = root.run("apt-get install -y /opt/newest.deb");
    assert!(!said.contains("to begin"), "{said}");
    assert_eq!(root.run("dpkg --verify enfilade"), "");
    let server = Installed::start(&root);
    assert!(
        server.log().contains(&format!("upgrading the facts: format {}", FORMAT - 1)),
        "{}",
        server.log()
    );
    assert_eq!(server.status("alice@local:alice-password", "/dav/main/"), "207");
    assert_eq!(server.status("alice@local:wrong", "/dav/main/"), "401");
    server.stop();

    root.run("apt-get install -y --reinstall /opt/newest.deb");
    assert_eq!(root.run("dpkg --verify enfilade"), "");
    let server = Installed::start(&root);
    assert_eq!(server.status("alice@local:alice-password", "/dav/main/"), "207");
    server.stop();
    let kept = root.run("find /var/lib/enfilade");

    let said = root.run("apt-get install -y --allow-downgrades /opt/older.deb");
    assert!(said.contains(&format!("version {OLDER} replaces the newer version")), "{said}");
    assert!(said.contains("restore the backup"), "{said}");
    root.run("apt-get remove -y enfilade");
    assert!(!root.path("/usr/bin/enfilade").exists());
    let said = root.run("apt-get purge -y enfilade");
    assert!(said.contains("/var/lib/enfilade is kept"), "{said}");
    assert_eq!(root.run("find /var/lib/enfilade"), kept, "the data stay");
    root.run("rm -r /var/lib/enfilade");
    let after = root.files();
    let more: Vec<&String> = after.iter().filter(|path| !before.contains(path)).collect();
    let fewer: Vec<&String> = before.iter().filter(|path| !after.contains(path)).collect();
    assert!(more.is_empty() && fewer.is_empty(), "left: {more:?}; removed: {fewer:?}");
}

/// The three commands of a new operator: install, set up, use. Because systemd does not run in the clean Debian, the second command prints how to
/// start the server.
#[test]
fn after_install_and_setup_a_client_of_the_new_user_works() {
    let Some((root, _built)) = debian() else { return };
    root.run("apt-get install -y /opt/newest.deb");
    root.run("mkdir -p /srv");
    let line = "enfilade --json setup --user ann --datastore files --path /srv/files --certificate /opt/enfilade.crt";
    let output = root.command(&line.split(' ').collect::<Vec<_>>()).output().unwrap();
    assert!(output.status.success(), "{}", both(&output));
    let made: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(made["start"], format!("runuser -u enfilade -- enfilade --data {DATA} serve"));
    assert_eq!(
        root.run("find /var/lib/enfilade ! -user enfilade"),
        "",
        "all belongs to the user of the server"
    );
    assert_eq!(root.run("stat --format=%U:%a /srv/files"), "enfilade:700\n");
    assert_eq!(root.run("stat --format=%a /opt/enfilade.crt"), "644\n");
    assert!(!root.path(DATA).join("initial-password").exists(), "the password was shown");

    let server = Installed::start(&root);
    let [token, secret] = ["tokenid", "value"].map(|key| made[key].as_str().unwrap());
    let rclone = |arguments: &[&str]| {
        let obscured = Command::new("rclone").args(["obscure", secret]).output().expect("rclone is needed");
        let mut command = Command::new("rclone");
        command
            .env("RCLONE_CONFIG", "/dev/null")
            .env("RCLONE_CONFIG_E_TYPE", "webdav")
            .env("RCLONE_CONFIG_E_VENDOR", "other")
            .env("RCLONE_CONFIG_E_URL", format!("https://{}/dav/files", server.address))
            .env("RCLONE_CONFIG_E_USER", token)
            .env("RCLONE_CONFIG_E_PASS", String::from_utf8(obscured.stdout).unwrap().trim());
        command.args(["--retries", "1", "--timeout", "60s", "--ca-cert"]);
        let output = command.arg(root.path("/opt/enfilade.crt")).args(arguments).output().unwrap();
        assert!(output.status.success(), "rclone {arguments:?}: {}\n{}", both(&output), server.log());
        output.stdout
    };
    rclone(&["copyto", BINARY, "e:sub/program"]);
    assert!(rclone(&["cat", "e:sub/program"]) == std::fs::read(BINARY).unwrap());
    assert_eq!(root.run("stat --format=%U /srv/files/sub/program"), "enfilade\n");

    // A second setup changes nothing, also while the server runs.
    let output = root.command(&line.split(' ').collect::<Vec<_>>()).output().unwrap();
    let again: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", both(&output)));
    assert_eq!((&again["value"], &again["running"]), (&Value::Null, &Value::Bool(true)));
    assert_eq!(rclone(&["lsf", "e:"]), b"sub/\n");
    server.stop();
}
