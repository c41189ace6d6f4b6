//! The server uses the certificates and revocation lists on the disk. This also holds after a reload with other paths, and after the removal of the
//! last certificate.

use crate::certificates::{bundle, ecdsa, shown};
use crate::server::{BINARY, Scratch, Server, wait_until};
use crate::signals::{has_metric, signal};
use crate::terms::{Authority, MINE};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The time within which the server must use changed files. It is much shorter than the interval at which the server checks all files, including
/// files that it does not watch.
const SOON: Duration = Duration::from_secs(10);

/// Changes the place of certificates in the configuration, and reloads the configuration.
fn reload(server: &Server, keys: &str) {
    std::fs::write(server.data().join("enfilade.toml"), format!("[tls]\n{keys}\n")).unwrap();
    signal("HUP", server.pid());
    let told = "reloaded: 1 certificate is served";
    wait_until(SOON, told, || server.log().contains(told));
}

/// Replaces a file by a rename, as recommended for files in use.
fn put(path: &Path, text: &str) {
    let new = path.with_file_name(".new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(new, path).unwrap();
}

#[test]
fn a_revocation_right_after_the_reload_that_names_the_list_counts_at_once() {
    let scratch = Scratch::new();
    let at = |name: &str| scratch.path().join(name);
    let authority = Authority::new("clients");
    let (pem, key) = authority.give("mine", true);
    for (file, text) in [
        ("client.pem", pem + &key),
        ("ca.pem", authority.pem.clone()),
        ("crl.pem", authority.revocations(&[])),
        ("api.pem", bundle("api", &["api.example"], &ecdsa())),
        ("list", "api.pem [verify required ca-file ca.pem crl-file crl.pem]\n".to_owned()),
    ] {
        std::fs::write(at(file), text).unwrap();
    }
    let server = Server::start();
    let port = server.address.rsplit_once(':').unwrap().1;
    let status = || {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--insecure", "--max-time", "20", "--output", "/dev/null"]);
        curl.args(["--resolve", &format!("api.example:{port}:127.0.0.1"), "--write-out", "%{http_code}"]);
        curl.arg("--cert").arg(at("client.pem"));
        let output = curl.arg(format!("https://api.example:{port}/.well-known/enfilade")).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    reload(&server, &format!("crt_list = '{}'", at("list").display()));
    assert_eq!(status(), "200", "{}", server.log());
    put(&at("crl.pem"), &authority.revocations(&[MINE]));
    wait_until(SOON, "the revoked certificate is refused", || status() == "000");
    // The server reports a list that it cannot use, and keeps the earlier list.
    put(&at("crl.pem"), "nothing");
    let told = "contains no revocation list in PEM form";
    wait_until(SOON, told, || server.log().contains(told));
    assert_eq!(status(), "000");
    assert!(has_metric(&server, "enfilade_reload_failed 1"));
}

/// Runs a command on the data directory of a server. Returns the text for people.
fn said(server: &Server, arguments: &[&str]) -> String {
    let output = Command::new(BINARY).arg("--data").arg(server.data()).args(arguments).output().unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(output.status.success(), "{arguments:?}: {said}");
    said
}

#[test]
fn a_directory_that_a_reload_names_is_watched_at_once() {
    let scratch = Scratch::new();
    let (other, new) = (scratch.path().join("certs2"), scratch.path().join("b.pem"));
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("a.pem"), bundle("a", &["a.example"], &ecdsa())).unwrap();
    std::fs::write(&new, bundle("b", &["b.example"], &ecdsa())).unwrap();
    let server = Server::start();
    reload(&server, &format!("certificates = '{}'", other.display()));
    let answers = |name: &str| shown(&server.address, Some(name), &[]);
    assert_eq!(answers("b.example"), "a");
    let added = said(&server, &["certs", "add", new.to_str().unwrap()]);
    assert!(added.contains("; the running server uses the certificate within a few seconds"), "{added}");
    wait_until(SOON, "the new certificate is served", || answers("b.example") == "b");
    let removed = said(&server, &["certs", "remove", "b.pem"]);
    assert!(
        removed.contains("; the running server stops using the certificate within a few seconds"),
        "{removed}"
    );
    wait_until(SOON, "the certificate is dropped", || answers("b.example") == "a");
    // No server serves this directory.
    std::fs::create_dir(scratch.path().join("other")).unwrap();
    let directory = scratch.path().join("other");
    let add = ["certs", "add", new.to_str().unwrap(), "--directory", directory.to_str().unwrap()];
    assert!(!said(&server, &add).contains("running server"));
}

#[test]
fn the_last_certificate_does_not_come_back_after_it_was_removed() {
    let server = Server::start();
    let answers = |name: &str| shown(&server.address, Some(name), &[]);
    assert_eq!(answers("localhost"), "localhost");
    let removed = said(&server, &["certs", "remove", "localhost.pem"]);
    assert!(
        removed
            .contains("no certificate is left; the running server uses the removed certificate until another certificate exists"),
        "{removed}"
    );
    let told =
        "certificates not reloaded, the earlier certificates stay in use: no usable certificate is left";
    wait_until(SOON, told, || server.log().contains(told));
    assert_eq!(answers("localhost"), "localhost");
    assert!(
        has_metric(&server, "enfilade_certificates 1") && has_metric(&server, "enfilade_reload_failed 1")
    );
    server.cli(&["certs", "self-signed", "y.example"]);
    wait_until(SOON, "the new certificate is served", || answers("y.example") == "y.example");
    assert_eq!(answers("localhost"), "y.example", "the removed certificate is gone");
    let told = "1 certificate is served from now on: +";
    wait_until(SOON, told, || server.log().contains(told));
    let is_told = |line: &str| line.contains(told) && line.contains("/tls/localhost.pem");
    assert!(server.log().lines().any(is_told), "{}", server.log());
    assert!(
        has_metric(&server, "enfilade_certificates 1") && has_metric(&server, "enfilade_reload_failed 0")
    );
}

#[test]
fn a_certificate_without_its_new_key_is_not_served() {
    let scratch = Scratch::new();
    let at = |name: &str| scratch.path().join("pairs").join(name);
    std::fs::create_dir(scratch.path().join("pairs")).unwrap();
    let pair = |name: &str| {
        let all = bundle(name, &["a.example"], &ecdsa());
        let (pem, key) = all.split_at(all.find("-----BEGIN PRIVATE KEY-----").unwrap());
        (pem.to_owned(), key.to_owned())
    };
    let (pem, key) = pair("old");
    std::fs::write(at("a.pem"), pem).unwrap();
    std::fs::write(at("a.pem.key"), key).unwrap();
    let server = Server::start();
    reload(&server, &format!("certificates = '{}'", scratch.path().join("pairs").display()));
    let answer = || shown(&server.address, Some("a.example"), &[]);
    assert_eq!(answer(), "old");
    // Each of the two files is complete after its rename, but they do not belong together before the second rename.
    let (pem, key) = pair("new");
    put(&at("a.pem"), &pem);
    let bad = || has_metric(&server, "enfilade_certificates_bad 1");
    wait_until(SOON, "the certificate without its key is found", bad);
    assert_eq!(answer(), "old");
    put(&at("a.pem.key"), &key);
    wait_until(SOON, "the new certificate is served", || answer() == "new");
    wait_until(SOON, "no file is bad", || has_metric(&server, "enfilade_certificates_bad 0"));
}
