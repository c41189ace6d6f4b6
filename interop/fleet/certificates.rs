//! Certificates that all members of a fleet serve: certificates that an operator adds, and certificates that a member obtains from a real ACME
//! authority (Pebble).

use super::{Fleet, ready, told, why};
use crate::acme::{Pebble, Relay, answered};
use crate::certificates::shown;
use crate::command::{run, values};
use crate::server::{Scratch, Server, until};
use crate::signals::signal;
use enfilade_testkit::Etcd;
use serde_json::Value;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Writes a certificate for this name and its key to two files. Returns the paths, and a line that only this certificate contains.
fn make(place: &Path, name: &str) -> ([PathBuf; 2], String) {
    let mut params = rcgen::CertificateParams::new([name.to_owned()]).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    let key = rcgen::KeyPair::generate().unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    let paths = [place.join("w.crt"), place.join("w.key")];
    std::fs::write(&paths[0], &pem).unwrap();
    std::fs::write(&paths[1], key.serialize_pem()).unwrap();
    (paths, pem.lines().nth(4).unwrap().to_owned())
}

/// Adds a certificate for all members, by a command on one member. Returns a line of the certificate.
fn add(member: &Server, place: &Path, name: &str) -> String {
    let ([chain, key], line) = make(place, name);
    let said = member.cli(&["certs", "add", "--fleet", chain.to_str().unwrap(), key.to_str().unwrap()]);
    assert_eq!(said[0]["shared"], true, "{said:?}");
    line
}

fn serves(member: &Server, name: &str, line: &str) -> bool {
    shown(&member.address, Some(name), &[]) == name && answered(&member.address, name, &[]).contains(line)
}

fn doctor(member: &Server) -> Value {
    let output = member.cli_output(&["doctor"], "");
    let said = values(&String::from_utf8_lossy(&output.stdout));
    said.into_iter().find(|finding| finding["what"] == "fleet certificates").unwrap()
}

#[test]
fn a_certificate_that_one_member_adds_is_served_by_all() {
    const NAME: &str = "w.example";
    let mut fleet = Fleet::start();
    fleet.join("b");
    let place = fleet.scratch.path().to_owned();
    let first = add(&fleet.members[1], &place, NAME);
    for member in &fleet.members {
        until("it serves the certificate", member, || serves(member, NAME, &first));
        let listed = member.cli(&["certs", "list"]);
        let shared: Vec<&Value> = listed.iter().filter(|row| row["shared"] == true).collect();
        assert!(shared.len() == 1 && shared[0]["names"][0] == NAME, "{listed:?}");
        let file = member.data().join("tls-shared/w.pem");
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(doctor(member)["state"], "ok");
    }
    // etcd does not contain the key in plain text.
    let key = std::fs::read_to_string(place.join("w.key")).unwrap();
    let secret = key.lines().nth(1).unwrap();
    assert!(!fleet.etcd.control(&["get", "--prefix", "/enfilade"]).contains(secret));
    // A member that joins has the certificate before its first connection. A member that was stopped gets the newest certificate.
    fleet.join("c");
    assert!(serves(&fleet.members[2], NAME, &first));
    fleet.members[2].stop();
    let second = add(&fleet.members[0], &place, NAME);
    fleet.members[2].start_again();
    assert!(serves(&fleet.members[2], NAME, &second));
    for member in &fleet.members {
        until("it serves the new certificate", member, || serves(member, NAME, &second));
    }
    // If a certificate cannot be decrypted, only this certificate is refused: the member serves the last valid version.
    let sealed = || fleet.etcd.control(&["get", "--print-value-only", "/enfilade/certificate/w.pem"]);
    let good = sealed();
    fleet.etcd.control(&["put", "/enfilade/certificate/w.pem", "damaged"]);
    assert_ne!(sealed(), good);
    fleet.members[1].stop();
    fleet.members[1].start_again();
    let member = &fleet.members[1];
    assert!(serves(member, NAME, &second));
    until("it is ready", member, || ready(member) == 200);
    assert!(member.log().contains("certificate `w.pem` of the fleet cannot be used: it cannot be decrypted"));
    let said = doctor(member);
    assert!(said["state"] == "warning" && said["says"].as_str().unwrap().contains("decrypted"), "{said}");
    // A new certificate replaces the certificate that cannot be decrypted.
    let third = add(&fleet.members[0], &place, NAME);
    for member in &fleet.members {
        until("it serves the repaired certificate", member, || serves(member, NAME, &third));
    }
    until("the doctor is content", &fleet.members[1], || doctor(&fleet.members[1])["state"] == "ok");
    // If an operator deletes or adds a file in the directory, the member undoes this change.
    let directory = fleet.members[1].data().join("tls-shared");
    std::fs::remove_file(directory.join("w.pem")).unwrap();
    std::fs::write(directory.join("x.pem"), "not of the fleet").unwrap();
    until("the directory is that of the fleet", &fleet.members[1], || {
        directory.join("w.pem").exists() && !directory.join("x.pem").exists()
    });
    // If only the file of the certificate is given, the command finds the file of the key, and names it.
    let [chain, key] = ["w.crt", "w.key"].map(|file| place.join(file).display().to_string());
    let said = told(&fleet.members[1], &["certs", "add", "--fleet", &chain]);
    assert!(said.contains(&format!("with the key in `{key}`; running servers")), "{said}");
    // `certs remove` removes this certificate only with the option `--fleet`.
    let refused = why(&fleet.members[1].cli_output(&["certs", "remove", "w.pem"], ""));
    assert!(refused.contains("certs remove --fleet w.pem"), "{refused}");
    let refused = why(&fleet.members[1].cli_output(&["certs", "remove", "--fleet", "none.pem"], ""));
    assert!(refused.contains("the fleet has no certificate `none.pem`"), "{refused}");
    fleet.members[1].cli(&["certs", "remove", "--fleet", "w.pem"]);
    for member in &fleet.members {
        until("it is removed", member, || shown(&member.address, Some(NAME), &[]) != NAME);
        assert!(!member.data().join("tls-shared/w.pem").exists());
    }
}

/// A member that left keeps the certificates, and a new fleet has the certificates of its first member.
#[test]
fn the_certificates_outlive_the_fleet() {
    const NAME: &str = "w.example";
    let mut fleet = Fleet::start();
    let place = fleet.scratch.path().to_owned();
    let line = add(&fleet.members[0], &place, NAME);
    let data = fleet.members[0].data();
    let config = std::fs::read(data.join("enfilade.toml")).unwrap();
    let stop = |server: &mut Server| {
        signal("TERM", server.pid());
        server.wait();
    };
    stop(&mut fleet.members[0]);
    super::passes(&data, &["fleet", "leave"]);
    std::fs::write(data.join("enfilade.toml"), "").unwrap();
    let [chain, key] = ["w.crt", "w.key"].map(|file| place.join(file).display().to_string());
    let refused = why(&run(&data, &["certs", "add", "--fleet", &chain, &key], None));
    assert!(refused.contains("not a member of a fleet") && refused.contains("--directory"), "{refused}");
    fleet.members[0].start_again();
    assert!(serves(&fleet.members[0], NAME, &line));
    stop(&mut fleet.members[0]);
    std::fs::write(data.join("enfilade.toml"), config).unwrap();
    super::passes(&data, &["fleet", "init"]);
    fleet.members[0].start_again();
    assert!(serves(&fleet.members[0], NAME, &line));
    assert!(serves(fleet.join("b"), NAME, &line));
}

/// One member orders a certificate, another member answers the authority, and all members serve the certificate. When the ordering member is killed,
/// another member orders.
#[test]
fn one_member_obtains_a_certificate_for_all() {
    const NAMES: [&str; 2] = ["files.acme.example", "www.acme.example"];
    const BUNDLE: &str = "acme-files.acme.example.pem";
    let (etcd, scratch) = (Etcd::start(), Scratch::new());
    let (http, tls) = (Relay::start(), Relay::start());
    let (_pebble, directory) = Pebble::start(scratch.path(), http.port, tls.port);
    let (names, roots) = (NAMES.join(", "), scratch.path().join("pebble.pem"));
    let environment = [
        ("ENFILADE_TLS__ACME", names.as_str()),
        ("ENFILADE_TLS__ACME_DIRECTORY", &directory),
        ("ENFILADE_TLS__ACME_ROOTS", roots.to_str().unwrap()),
        ("ENFILADE_TLS__HTTP_LISTEN", "127.0.0.1:0"),
    ];
    let members = Fleet::of_servers(&vec![vec![etcd.address.clone()]; 3], &environment);
    let mut fleet = Fleet { etcd, scratch, members };
    let lead_to = |server: &Server| {
        http.lead_to(Some(&server.http));
        tls.lead_to(Some(&server.address));
    };
    let count = |server: &Server, what: &str| server.log().matches(what).count();
    let total =
        |fleet: &Fleet, what: &str| fleet.members.iter().map(|member| count(member, what)).sum::<usize>();
    let all_serve = |members: &[&Server]| {
        for (member, name) in members.iter().zip(NAMES.into_iter().cycle()) {
            until("it serves the certificate", member, || {
                answered(&member.address, name, &[]).contains("Pebble Intermediate CA")
            });
        }
    };
    let path = |server: &Server| server.data().join("tls-shared").join(BUNDLE);
    let file = |server: &Server| std::fs::read(path(server)).unwrap();
    let acme = |server: &Server| {
        let output = server.cli_output_with(&environment, &["doctor"], "");
        let said = values(&String::from_utf8_lossy(&output.stdout));
        said.into_iter().find(|finding| finding["what"] == "acme").unwrap()
    };
    let remove = |fleet: &Fleet| {
        fleet.members[1].cli(&["certs", "remove", "--fleet", BUNDLE]);
        for member in &fleet.members {
            until("it is removed", member, || !path(member).exists());
        }
    };
    // A member tries to order after SIGHUP, and once a minute.
    let ask = |server: &Server| {
        signal("HUP", server.pid());
        std::thread::sleep(Duration::from_secs(1));
    };
    // The first member tried at its start, and the authority could reach no member. The other members see this and wait.
    let (failure, success) = ("the next attempt is in", "was obtained:");
    until("a failure", &fleet.members[0], || count(&fleet.members[0], failure) == 1);
    assert_eq!(total(&fleet, "obtaining a certificate"), 1);

    // Member a orders, and the authority reaches only member b (TLS-ALPN-01).
    lead_to(&fleet.members[1]);
    signal("HUP", fleet.members[0].pid());
    until("member a obtains it", &fleet.members[0], || count(&fleet.members[0], success) == 1);
    let [a, b, c] = [&fleet.members[0], &fleet.members[1], &fleet.members[2]];
    all_serve(&[a, b, c]);
    for member in [a, b, c] {
        until("all have one certificate", member, || file(member) == file(a));
        until("the doctor knows", member, || acme(member)["state"] == "ok");
    }

    // The authority reaches only the port for HTTP of member b.
    tls.lead_to(None);
    remove(&fleet);
    until("the kind that worked last fails", a, || {
        ask(a);
        total(&fleet, failure) >= 2
    });
    until("HTTP-01", a, || {
        ask(a);
        total(&fleet, success) == 2
    });
    assert!(b.log().contains("/.well-known/acme-challenge/"), "{}", b.log());
    all_serve(&[a, b, c]);
    for member in [a, b, c] {
        until("no answer is left", member, || {
            let left = [".http-01", ".tls-alpn-01"].map(|left| member.data().join("acme").join(left));
            left.iter().all(|left| std::fs::read_dir(left).unwrap().count() == 0)
        });
    }

    // The ordering member is killed while the authority waits for an answer that does not come.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    http.lead_to(Some(&address));
    tls.lead_to(Some(&address));
    remove(&fleet);
    signal("HUP", a.pid());
    let key = format!("/enfilade/order/{BUNDLE}");
    let holder = |fleet: &Fleet| fleet.etcd.control(&["get", "--print-value-only", &key]).trim().to_owned();
    until("a member has the order", a, || !holder(&fleet).is_empty());
    let killed = ["a.", "b.", "c."].iter().position(|name| holder(&fleet).starts_with(name)).unwrap();
    fleet.members[killed].stop();
    let (next, other) = (&fleet.members[(killed + 1) % 3], &fleet.members[(killed + 2) % 3]);
    lead_to(other);
    until("another member obtains it", next, || {
        ask(next);
        total(&fleet, success) == 3
    });
    all_serve(&[next, other]);
    until("both have it", next, || path(next).exists() && path(other).exists() && file(next) == file(other));
    until("the order ends", next, || holder(&fleet).is_empty());
    let newest = file(next);
    fleet.members[killed].start_again_with(&environment);
    assert_eq!(file(&fleet.members[killed]), newest, "it has the certificate before its first connection");
}
