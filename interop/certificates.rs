//! Certificates of the real server. It selects the same certificate as HAProxy, and replaces changed certificates under load without a failed
//! handshake.
//!
//! `cargo xtask reloads` is the campaign (1,000 changes under load).

use crate::server::{Scratch, Server, free_port, until};
use enfilade_tls::Leaf;
use rcgen::{CertificateParams, DnType, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256, RsaKeySize};
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{self, ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme};

pub(crate) fn rsa() -> KeyPair {
    KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).unwrap()
}

pub(crate) fn ecdsa() -> KeyPair {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap()
}

/// A PEM file with a key and a certificate for these DNS names. The common name of the certificate shows which file the server sent.
pub(crate) fn bundle(file: &str, names: &[&str], key: &KeyPair) -> String {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.distinguished_name.push(DnType::CommonName, file);
    let made = params.self_signed(key).unwrap();
    format!("{}{}", made.pem(), key.serialize_pem())
}

pub(crate) struct Haproxy(Child);

impl Haproxy {
    pub(crate) fn start(scratch: &Path, directory: &Path, rest: &str) -> (Self, String) {
        let address = format!("127.0.0.1:{}", free_port());
        let config = scratch.join(format!("haproxy{rest}.cfg"));
        let text = format!(
            "global\n  maxconn 100\ndefaults\n  mode http\n  timeout connect 5s\n  timeout client 5s\n  timeout server 5s\n\
             frontend f\n  bind {address} ssl {} {rest}\n  http-request return status 200\n",
            match directory.is_dir() {
                true => format!("crt {}", directory.display()),
                false => format!("crt-list {}", directory.display()),
            }
        );
        std::fs::write(&config, text).unwrap();
        let child = Command::new("haproxy").args(["-db", "-f"]).arg(&config).stderr(Stdio::null()).spawn();
        let child = child.expect("haproxy is needed");
        let began = Instant::now();
        while TcpStream::connect(&address).is_err() {
            assert!(
                began.elapsed() < Duration::from_secs(20),
                "HAProxy does not start: {}",
                config.display()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        (Haproxy(child), address)
    }
}

impl Drop for Haproxy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The common name of the certificate that OpenSSL's client gets, or the alert.
pub(crate) fn shown(address: &str, name: Option<&str>, takes: &[&str]) -> String {
    let mut command = Command::new("openssl");
    command.args(["s_client", "-connect", address]).args(takes).stdin(Stdio::null());
    match name {
        Some(name) => command.args(["-servername", name]),
        None => command.arg("-noservername"),
    };
    let output = command.output().unwrap();
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let subject = text.lines().find_map(|line| line.trim().strip_prefix("subject=CN = "));
    let alert = text.lines().find_map(|line| line.split_once("SSL alert number ").map(|(_, number)| number));
    subject.map_or_else(|| format!("alert {}", alert.unwrap_or("none")), str::to_owned)
}

#[test]
fn the_choice_is_haproxys_where_that_is_wanted() {
    let scratch = Scratch::new();
    let directory = scratch.path().join("certificates");
    std::fs::create_dir(&directory).unwrap();
    let (rsa, ecdsa) = (rsa(), ecdsa());
    for (file, names, key) in [
        ("10exact", vec!["www.q.example"], &rsa),
        ("20wild", vec!["*.q.example"], &ecdsa),
        ("30first", vec!["dup.example", "MiXeD.example"], &ecdsa),
        ("40second", vec!["dup.example"], &ecdsa),
        ("50rsa", vec!["dup.example", "rsa.example"], &rsa),
        ("60cn.example", vec!["san.example"], &ecdsa),
    ] {
        std::fs::write(directory.join(file), bundle(file, &names, key)).unwrap();
    }
    // HAProxy and the server ignore hidden files and directories.
    std::fs::write(directory.join(".hidden"), "no certificate").unwrap();
    std::fs::create_dir(directory.join("sub")).unwrap();
    let place = directory.to_str().unwrap();
    let start = |matching: &str, strict: &str| {
        Server::start_with(&[
            ("ENFILADE_TLS__CERTIFICATES", place),
            ("ENFILADE_TLS__MATCH", matching),
            ("ENFILADE_TLS__STRICT_SNI", strict),
        ])
    };
    let ((_theirs, theirs), ours) =
        (Haproxy::start(scratch.path(), &directory, ""), start("haproxy", "false"));
    let exact_first = start("exact-first", "false");
    let all: &[&str] = &[];
    let rsa_only: &[&str] = &["-sigalgs", "RSA-PSS+SHA256:RSA+SHA256"];
    for (name, takes, expected, exact) in [
        (Some("www.q.example"), all, "20wild", "10exact"),
        (Some("WWW.Q.example"), all, "20wild", "10exact"),
        (Some("x.q.example"), all, "20wild", "20wild"),
        (Some("a.b.q.example"), all, "10exact", "10exact"),
        (Some("q.example"), all, "10exact", "10exact"),
        (Some("dup.example"), all, "30first", "30first"),
        (Some("dup.example"), rsa_only, "50rsa", "50rsa"),
        (Some("rsa.example"), all, "50rsa", "50rsa"),
        (Some("mixed.example"), all, "30first", "30first"),
        (Some("san.example"), all, "60cn.example", "60cn.example"),
        (Some("60cn.example"), all, "60cn.example", "60cn.example"),
        (Some("unknown.example"), all, "10exact", "10exact"),
        (None, all, "10exact", "10exact"),
    ] {
        let said = shown(&theirs, name, takes);
        assert_eq!(said, expected, "HAProxy, {name:?} {takes:?}");
        assert_eq!(shown(&ours.address, name, takes), said, "{name:?} {takes:?}\n{}", ours.log());
        assert_eq!(shown(&exact_first.address, name, takes), exact, "{name:?} {takes:?}");
    }
    // With strict names, HAProxy and the server answer a client with an unknown name, or without a name, with the same alert.
    let ((_theirs, theirs), ours) =
        (Haproxy::start(scratch.path(), &directory, "strict-sni"), start("haproxy", "true"));
    for name in [Some("unknown.example"), Some("sub.dup.example")] {
        assert_eq!(shown(&theirs, name, all), "alert 112");
        assert_eq!(shown(&ours.address, name, all), "alert 112");
    }
    assert_eq!(shown(&ours.address, None, all), "alert 112");
    assert_eq!(shown(&ours.address, Some("dup.example"), all), "30first");
}

#[test]
fn a_key_that_is_anothers_is_found_in_the_background_and_stops_an_eager_start() {
    let scratch = Scratch::new();
    let directory = scratch.path().join("certificates");
    std::fs::create_dir(&directory).unwrap();
    let (one, other) = (ecdsa(), ecdsa());
    std::fs::write(directory.join("a.pem"), bundle("a.example", &["a.example", "both.example"], &one))
        .unwrap();
    let wrong = bundle("b.example", &["b.example", "both.example"], &other);
    let leaf = wrong.split_inclusive("-----END CERTIFICATE-----\n").next().unwrap();
    std::fs::write(directory.join("0b.pem"), format!("{leaf}{}", one.serialize_pem())).unwrap();
    std::fs::write(directory.join("readme"), "hello").unwrap();
    let place = directory.to_str().unwrap();
    let server = Server::start_with(&[("ENFILADE_TLS__CERTIFICATES", place)]);
    let began = Instant::now();
    // When the server has found the wrong key in `0b.pem`, it sends the certificate of `a.pem`, also for unknown names.
    while shown(&server.address, Some("both.example"), &[]) != "a.example" {
        assert!(began.elapsed() < Duration::from_secs(20), "{}", server.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    for told in [
        "0b.pem` is left out: the private key belongs to another certificate",
        "readme` is left out: the file contains no certificate",
    ] {
        until("it is logged", &server, || server.log().contains(told));
    }
    let list = |arguments: &[&str]| {
        let mut all = vec!["certs"];
        all.extend(arguments);
        all.extend(["--directory", place]);
        server.cli_output(&all, "")
    };
    let checked = list(&["check"]);
    assert!(!checked.status.success());
    let said = String::from_utf8(checked.stdout).unwrap();
    assert!(said.contains("0b.pem") && said.contains("readme") && !said.contains("a.pem"), "{said}");
    let said = String::from_utf8(list(&["list"]).stdout).unwrap();
    assert!(said.contains("\"both.example\"") && said.contains("ECDSA"), "{said}");
    let said = String::from_utf8(list(&["show", "a.example"]).stdout).unwrap();
    assert!(said.contains("a.pem") && said.contains("\"default\":false"), "{said}");
    // The first file with this name has the key of another certificate, so the server sends the certificate of the second file.
    let said = String::from_utf8(list(&["show", "both.example"]).stdout).unwrap();
    assert!(said.contains("a.pem") && !said.contains("0b.pem") && said.contains("\"error\":null"), "{said}");
    // `certs add` refuses an unusable bundle. The server uses a usable bundle without a signal.
    let outside = scratch.path().join("new.pem");
    std::fs::write(&outside, wrong.replace("PRIVATE", "PUBLIC")).unwrap();
    let add = ["add", outside.to_str().unwrap()];
    assert!(!list(&add).status.success());
    std::fs::write(&outside, bundle("new.example", &["new.example"], &one)).unwrap();
    assert!(list(&add).status.success());
    let until_shown = |name: &str, expected: &str| {
        let began = Instant::now();
        while shown(&server.address, Some(name), &[]) != expected {
            assert!(began.elapsed() < Duration::from_secs(20), "{}", server.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    until_shown("new.example", "new.example");
    // The command warns of a certificate that no client would get, and of a certificate that becomes the default.
    for (name, warning) in
        [("zz.pem", "get the certificate `"), ("0.pem", "this certificate is now the default certificate")]
    {
        let said = list(&[&add[..], &["--name", name]].concat());
        let text = String::from_utf8(said.stdout).unwrap();
        assert!(said.status.success() && text.contains(warning), "{text}");
        assert!(list(&["remove", name]).status.success());
    }
    assert!(list(&["remove", "new.pem"]).status.success());
    until_shown("new.example", "a.example");
    for name in ["../a.pem", ".a.pem", "a.key"] {
        assert!(!list(&["remove", name]).status.success(), "{name}");
    }
    // With `check = "eager"`, the server does not start, and reports all problems.
    let eager = Command::new(crate::server::BINARY)
        .args(["--data", scratch.path().join("data").to_str().unwrap(), "serve", "--listen", "127.0.0.1:0"])
        .args(["--ops-listen", "127.0.0.1:0"])
        .envs([("ENFILADE_TLS__CERTIFICATES", place), ("ENFILADE_TLS__CHECK", "eager")])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&eager.stderr).into_owned();
    assert!(!eager.status.success());
    assert!(
        said.contains("2 certificates cannot be used") && said.contains("0b.pem") && said.contains("readme"),
        "{said}"
    );
}

/// A self-signed certificate and its key, in PEM, by OpenSSL.
pub(crate) fn self_signed(name: &str, days: u32) -> Vec<u8> {
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]);
    openssl.args(["-days", &days.to_string(), "-subj", &format!("/CN={name}")]);
    openssl.args(["-addext", &format!("subjectAltName=DNS:{name}"), "-keyout", "-", "-out", "-"]);
    let made = openssl.output().expect("openssl is needed");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    made.stdout
}

/// Accepts any certificate, and records it.
#[derive(Debug, Default)]
pub(crate) struct Witness(pub(crate) Mutex<Option<CertificateDer<'static>>>);

impl ServerCertVerifier for Witness {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        *self.0.lock().unwrap() = Some(leaf.clone().into_owned());
        Ok(ServerCertVerified::assertion())
    }

    // The signature of the handshake is verified, which proves that the server has the key of the certificate.
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = aws_lc_rs::default_provider().signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, leaf, signature, &algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = aws_lc_rs::default_provider().signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, leaf, signature, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        aws_lc_rs::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

/// Makes one handshake. Returns the names in the certificate.
fn handshake(address: &str, name: &str) -> Result<Vec<String>, String> {
    static PROVIDER: OnceLock<Arc<rustls::crypto::CryptoProvider>> = OnceLock::new();
    let provider = PROVIDER.get_or_init(|| Arc::new(aws_lc_rs::default_provider()));
    let witness = Arc::new(Witness::default());
    let config =
        ClientConfig::builder_with_provider(Arc::clone(provider)).with_safe_default_protocol_versions();
    let config = config.unwrap().dangerous().with_custom_certificate_verifier(Arc::clone(&witness) as Arc<_>);
    let config = Arc::new(config.with_no_client_auth());
    let said = |why: &dyn std::fmt::Display| format!("{name}: {why}");
    let server = ServerName::try_from(name.to_owned()).unwrap();
    let mut connection = ClientConnection::new(config, server).map_err(|why| said(&why))?;
    let mut stream = TcpStream::connect(address).map_err(|why| said(&why))?;
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut tls = rustls::Stream::new(&mut connection, &mut stream);
    let asked = format!("GET /.well-known/enfilade HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n");
    tls.write_all(asked.as_bytes()).map_err(|why| said(&why))?;
    let mut answer = [0; 15];
    tls.read_exact(&mut answer).map_err(|why| said(&why))?;
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
    let leaf = witness.0.lock().unwrap().take().ok_or("no certificate was shown")?;
    Ok(Leaf::of_der(&leaf).map_err(str::to_owned)?.names)
}

#[test]
fn names_that_stay_are_served_whatever_is_added_replaced_removed_or_broken() {
    let changes = std::env::var("ENFILADE_CAMPAIGN_N").ok().and_then(|n| n.parse().ok()).unwrap_or(40_u64);
    let scratch = Scratch::new();
    let directory = scratch.path().join("certificates");
    std::fs::create_dir(&directory).unwrap();
    let keys = [ecdsa(), ecdsa(), rsa()];
    const STAY: usize = 20;
    let stays = |n: usize| format!("stays{n}.example");
    // A file is replaced by a rename, as recommended for files in use.
    let write = |file: &str, text: &str| {
        let hidden = directory.join(format!(".{file}"));
        std::fs::write(&hidden, text).unwrap();
        std::fs::rename(hidden, directory.join(file)).unwrap();
    };
    for n in 0..STAY {
        write(&format!("stays{n}.pem"), &bundle("x", &[&stays(n), &format!("*.{}", stays(n))], &keys[n % 3]));
    }
    let server = Server::start_with(&[("ENFILADE_TLS__CERTIFICATES", directory.to_str().unwrap())]);
    let (stop, shaken) = (AtomicBool::new(false), AtomicU64::new(0));
    let problems: Mutex<Vec<String>> = Mutex::default();
    let there: Mutex<BTreeMap<String, ()>> = Mutex::default();
    let (began, mut half) = (Instant::now(), 0);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (stop, shaken, problems, address) = (&stop, &shaken, &problems, server.address.as_str());
            scope.spawn(move || {
                let mut n = thread;
                while !stop.load(Ordering::Relaxed) {
                    n += 7;
                    let name = stays(n % STAY);
                    let asked = if n % 5 == 0 { format!("www.{name}") } else { name.clone() };
                    match handshake(address, &asked) {
                        Ok(names) if names.contains(&name) => drop(shaken.fetch_add(1, Ordering::Relaxed)),
                        Ok(names) => {
                            problems.lock().unwrap().push(format!("{asked} was answered with {names:?}"))
                        }
                        Err(why) => problems.lock().unwrap().push(why),
                    }
                    // Without this pause, each thread would keep a core busy.
                    std::thread::sleep(Duration::from_millis(2));
                }
            });
        }
        for n in 0..changes {
            let file = format!("other{}.pem", n * 13 % 29);
            let own = format!("other{}.example", n * 13 % 29);
            match n % 5 {
                0 => write(&file, "no certificate"),
                1 => {
                    let _ = std::fs::remove_file(directory.join(&file));
                    there.lock().unwrap().remove(&own);
                }
                // Renews one of the certificates that are never removed.
                2 => {
                    let at = n as usize % STAY;
                    let names = [stays(at), format!("*.{}", stays(at))];
                    let names: Vec<&str> = names.iter().map(String::as_str).collect();
                    write(&format!("stays{at}.pem"), &bundle("x", &names, &keys[(n as usize + 1) % 3]));
                }
                _ => {
                    write(&file, &bundle("x", &[&own], &keys[n as usize % 3]));
                    there.lock().unwrap().insert(own, ());
                }
            }
            // In the campaign every change is followed by a reload, and in the test every tenth change.
            if changes > 500 || n % 10 == 9 {
                crate::signals::signal("HUP", server.pid());
            }
            std::thread::sleep(Duration::from_millis(25));
            if n == changes / 2 {
                half = resident(server.pid());
            }
            if changes > 500 && n % 100 == 99 {
                println!("{} of {changes} changes, {} handshakes", n + 1, shaken.load(Ordering::Relaxed));
            }
        }
        // The server soon uses the certificate that was added last.
        let began = Instant::now();
        write("last.pem", &bundle("x", &["last.example"], &keys[0]));
        while handshake(&server.address, "last.example")
            .is_ok_and(|names| !names.contains(&"last.example".to_owned()))
        {
            assert!(began.elapsed() < Duration::from_secs(20), "{}", server.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        // On a busy machine, all changes may be made before enough handshakes have happened.
        let began = Instant::now();
        while shaken.load(Ordering::Relaxed) <= changes && began.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(20));
        }
        stop.store(true, Ordering::Relaxed);
    });
    let problems = problems.into_inner().unwrap();
    assert!(problems.is_empty(), "{problems:?}\n{}", server.log());
    let shaken = shaken.into_inner();
    assert!(shaken > changes, "{shaken} handshakes");
    // The memory of old certificate sets is freed.
    let (rate, end) = (shaken as f64 / began.elapsed().as_secs_f64(), resident(server.pid()));
    assert!(
        end < half + half / 5 + 4096,
        "memory of the server: {half} KiB after half of the changes, {end} KiB at the end"
    );
    println!(
        "{changes} changes, {shaken} handshakes ({rate:.0}/s), 0 failed, 0 with another certificate; memory of the server: {half} KiB after half of the changes, \
         {end} KiB at the end"
    );
}

/// The memory of a process, in KiB.
fn resident(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn plain_http_leads_to_https_and_shows_an_authority_what_it_asks_for() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path().join("a-Token_1"), "a-Token_1.thumbprint").unwrap();
    std::fs::write(scratch.path().join("secret.txt"), "no").unwrap();
    let server = Server::start_with(&[
        ("ENFILADE_TLS__HTTP_LISTEN", "127.0.0.1:0"),
        ("ENFILADE_TLS__ACME_CHALLENGES", scratch.path().to_str().unwrap()),
    ]);
    let curl = |rest: &[&str], path: &str| {
        let mut command = Command::new("curl");
        command.args(["--silent", "--path-as-is", "--write-out", "|%{http_code} %{redirect_url}"]).args(rest);
        let output = command.arg(format!("http://{}{path}", server.http)).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let to = |path: &str| format!("|308 https://{}{path}", server.address);
    assert_eq!(curl(&[], "/dav/main/?x=1"), to("/dav/main/?x=1"));
    assert_eq!(curl(&["-X", "PROPFIND"], "/dav/main/"), to("/dav/main/"));
    // Follows the redirect with curl.
    let output = Command::new("curl")
        .args(["--silent", "--location", "--cacert", server.certificate().to_str().unwrap()])
        .arg(format!("http://{}/.well-known/enfilade", server.http))
        .output();
    assert!(String::from_utf8(output.unwrap().stdout).unwrap().contains("\"enfilade\":true"));
    let challenge = "/.well-known/acme-challenge/";
    assert_eq!(curl(&[], &format!("{challenge}a-Token_1")), "a-Token_1.thumbprint|200 ");
    for other in ["", "none", "secret.txt", "../Cargo.toml", "%2e%2e/a-Token_1"] {
        let said = curl(&[], &format!("{challenge}{other}"));
        assert!(said.ends_with("|404 "), "{other}: {said}");
    }
    for (path, verdict, status) in
        [("a-Token_1", "permit", 200), ("secret.txt", "refuse", 404), ("../Cargo.toml", "refuse", 404)]
    {
        let is_told = |line: &str| {
            line.contains("\"face\":\"http\"")
                && line.contains(&format!("\"path\":\"{challenge}{path}\",\"verdict\":\"{verdict}\""))
                && line.contains(&format!("\"status\":{status},"))
        };
        until("it is logged", &server, || server.log().lines().any(is_told));
    }
    assert!(!server.log().contains("?x=1"), "a query may have a secret");
}

#[test]
fn a_load_balancer_that_is_trusted_says_who_is_there_and_nobody_else_may() {
    let ask = |server: &Server, head: &[u8]| {
        let mut stream = TcpStream::connect(&server.plain).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(head).unwrap();
        let _ = stream.write_all(b"GET /whoami HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    };
    let header: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x07\xc0\0\x02\x01\x12\x34\0\x50";
    let trusting = Server::start_with(&[("ENFILADE_TLS__PROXY_FROM", "127.0.0.0/8, ::1")]);
    assert!(ask(&trusting, header).starts_with("HTTP/1.1 401"));
    assert_eq!(ask(&trusting, b""), "", "an address in `proxy_from` must send a PROXY header");
    let began = Instant::now();
    while !trusting.log().contains("\"peer\":\"192.0.2.7") {
        assert!(began.elapsed() < Duration::from_secs(20), "{}", trusting.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    let server = Server::start();
    assert!(ask(&server, header).starts_with("HTTP/1.1 400"), "{}", ask(&server, header));
    assert!(ask(&server, b"").starts_with("HTTP/1.1 401"));
}
