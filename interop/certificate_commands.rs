//! The output of `certs` and of the commands that examine the configuration, about certificates, keys and revocation lists.

use crate::certificate_files::{enfilade, openssl, write_parts};
use crate::certificates::{bundle, rsa};
use crate::server::{BINARY, Scratch};
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

/// `openssl ca -gencrl` makes a revocation list of version 1 if its configuration has no `crlnumber`.
#[test]
fn a_revocation_list_without_a_number_is_named_and_other_certificates_are_shown() {
    let scratch = Scratch::new();
    let place = scratch.path();
    write_parts(place);
    let text = |file: &str| std::fs::read_to_string(place.join(file)).unwrap();
    let write = |file: &str, text: &str| std::fs::write(place.join(file), text).unwrap();
    let new = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=clients -keyout ca.key -out ca.pem";
    openssl(place, new);
    let configuration =
        "[ca]\ndefault_ca = own\n[own]\ndatabase = index.txt\ndefault_md = sha256\ndefault_crl_days = 30\n";
    write("ca.cnf", configuration);
    write("index.txt", "");
    let make = "ca -gencrl -config ca.cnf -cert ca.pem -keyfile ca.key -out crl.pem";
    openssl(place, make);
    write("nas.pem", &(text("leaf.crt") + &text("plain.key")));
    write(
        "list",
        "data/tls/localhost.pem\nnas.pem [verify required ca-file ca.pem crl-file crl.pem] nas.example\n",
    );
    write("data/enfilade.toml", "[tls]\ncrt_list = '../list'\n");
    let run = |arguments: &[&str]| {
        let ran = enfilade(place, arguments, "");
        let [out, why] = [ran.stdout, ran.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        (ran.status.success(), out, why)
    };
    let why = [
        "list:2: `crl-file crl.pem`: a revocation list in the file has X.509 version 1",
        "set `crlnumber` in the `openssl` configuration",
    ];
    for arguments in [&["config", "check"][..], &["doctor"], &["certs", "check"]] {
        let (is_well, out, err) = run(arguments);
        let said = out + &err;
        assert!(!is_well && why.iter().all(|why| said.contains(why)), "{arguments:?}: {said}");
    }
    // `doctor` does not call a configuration valid if a server cannot start with it.
    let (_, out, _) = run(&["doctor"]);
    let mut findings = out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let found = findings.find(|finding| finding["what"] == "configuration").unwrap();
    assert_eq!(found["state"], "error", "{found}");
    // Commands that only display certificates display the other certificates.
    let (is_well, out, _) = run(&["certs", "list"]);
    let has = |part: &str| out.contains(part);
    assert!(!is_well && has("localhost.pem") && has("nas.pem") && has("list:2"), "{out}");
    let (is_well, out, err) = run(&["certs", "show", "localhost"]);
    assert!(
        is_well && out.contains("localhost.pem") && err.contains("no server starts with this"),
        "{out}{err}"
    );
    let (is_well, out, _) = run(&["certs", "show", "nas.example"]);
    assert!(!is_well && out.contains("nas.pem") && out.contains("`crl-file crl.pem`"), "{out}");
    // The list is accepted when its configuration has a `crlnumber`, as the message advises.
    write("ca.cnf", &format!("{configuration}crlnumber = number\n"));
    write("number", "01\n");
    openssl(place, make);
    for arguments in [&["config", "check"][..], &["certs", "check"], &["certs", "show", "nas.example"]] {
        let (is_well, out, err) = run(arguments);
        assert!(is_well, "{arguments:?}: {out}{err}");
    }
}

#[test]
fn adding_names_the_key_file_that_was_taken_and_a_changed_kind_of_key() {
    let scratch = Scratch::new();
    let place = scratch.path();
    write_parts(place);
    let add = |file: &str| {
        let added = enfilade(place, &["certs", "add", file, "--name", "nas.pem"], "");
        assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
        serde_json::from_slice::<Value>(&added.stdout).unwrap()
    };
    std::fs::copy(place.join("plain.key"), place.join("leaf.key")).unwrap();
    assert_eq!(add("leaf.crt")["key_file"], "leaf.key");
    let mut command = Command::new(BINARY);
    command.args(["--data", "data", "certs", "add", "leaf.crt", "--name", "nas.pem"]).current_dir(place);
    let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
    assert!(said.contains(", with the key in `leaf.key`"), "{said}");
    std::fs::rename(place.join("leaf.key"), place.join("leaf.crt.key")).unwrap();
    assert_eq!(add("leaf.crt")["key_file"], "leaf.crt.key");
    std::fs::write(place.join("rsa.pem"), bundle("nas.example", &["nas.example"], &rsa())).unwrap();
    let changed = "the kind of key changed from ECDSA to RSA";
    let renewed = add("rsa.pem");
    assert_eq!((&renewed["replaced"], &renewed["key_file"]), (&true.into(), &Value::Null));
    assert!(renewed["warnings"].to_string().contains(changed), "{renewed}");
    let again = add("rsa.pem");
    assert!(!again["warnings"].to_string().contains("the kind of key"), "{again}");
}

#[test]
fn one_watched_certificate_is_singular() {
    let scratch = Scratch::new();
    let place = scratch.path();
    write_parts(place);
    let mut command = Command::new(BINARY);
    command.args(["--data", "data", "certs", "watch"]).current_dir(place);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(line.contains("watching 1 certificate; end with Ctrl-C"), "{line}");
}
