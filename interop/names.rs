//! A thousand names, each with a separate certificate of an authority. Common clients verify each name.

use crate::server::{Scratch, Server};
use crate::terms::Authority;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, NamedGroup, RootCertStore};

const NAMES: usize = 1_000;
/// A part of the response that no error page contains.
const ANSWER: &str = r#""whoami":"/whoami""#;

fn name(n: usize) -> String {
    format!("n{n}.example")
}

/// A server with a certificate for each of the thousand names, and the authority's certificate.
struct Thousand {
    server: Server,
    authority: PathBuf,
    _scratch: Scratch,
}

impl Thousand {
    fn new() -> Self {
        let scratch = Scratch::new();
        let authority = Authority::new("a thousand names");
        let directory = scratch.path().join("certificates");
        std::fs::create_dir(&directory).unwrap();
        for n in 0..NAMES {
            let (pem, key) = authority.give(&name(n), false);
            std::fs::write(directory.join(format!("{n:04}.pem")), pem + &key).unwrap();
        }
        let path = scratch.path().join("authority.pem");
        std::fs::write(&path, &authority.pem).unwrap();
        let server = Server::start_with(&[("ENFILADE_TLS__CERTIFICATES", directory.to_str().unwrap())]);
        Thousand { server, authority: path, _scratch: scratch }
    }
}

/// Starts a proxy that connects every name to the server, because the names do not resolve. Returns its address.
fn proxy(server: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, server) = (listener.local_addr().unwrap().to_string(), server.to_owned());
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (Ok(mut client), server) = (client, server.clone()) else { return };
            std::thread::spawn(move || {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    if client.read_exact(&mut byte).is_err() {
                        return;
                    }
                    head.push(byte[0]);
                }
                if !head.starts_with(b"CONNECT ") || client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").is_err() {
                    return;
                }
                let mut there = TcpStream::connect(server).unwrap();
                let (mut from, mut to) = (client.try_clone().unwrap(), there.try_clone().unwrap());
                let out = std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(std::net::Shutdown::Write);
                });
                let _ = std::io::copy(&mut there, &mut client);
                let _ = client.shutdown(std::net::Shutdown::Write);
                let _ = out.join();
            });
        }
    });
    address
}

#[test]
fn each_of_a_thousand_names_is_answered_with_its_certificate() {
    let thousand = Thousand::new();
    let (server, authority) = (&thousand.server, thousand.authority.to_str().unwrap());
    let output = Command::new("curl")
        .args([
            "--silent",
            "--show-error",
            "--cacert",
            authority,
            "--connect-to",
            &format!("::{}", server.address),
        ])
        .args(["--output", "/dev/null", "--write-out", "%{http_code} %{ssl_verify_result}\n"])
        .arg(format!("https://n[0-{}].example/.well-known/enfilade", NAMES - 1))
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let well = text.lines().filter(|line| *line == "200 0").count();
    assert_eq!(well, NAMES, "{}", String::from_utf8_lossy(&output.stderr));
    // For an unknown name, the server sends the default certificate, which the client refuses.
    let refused = Command::new("curl")
        .args(["--silent", "--cacert", authority, "--connect-to", &format!("::{}", server.address)])
        .arg("https://nobody.example/")
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(60));
    for n in (0..NAMES).step_by(97) {
        let output = Command::new("openssl")
            .args([
                "s_client",
                "-connect",
                &server.address,
                "-servername",
                &name(n),
                "-verify_hostname",
                &name(n),
            ])
            .args(["-CAfile", authority, "-verify_return_error"])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains("Verify return code: 0 (ok)"), "{text}");
    }
    let login = server.add_user("carol", "DatastoreReader");
    let (user, secret) = login.split_once(':').unwrap();
    let secret = Command::new("rclone").args(["obscure", secret]).output().unwrap().stdout;
    let secret = String::from_utf8(secret).unwrap().trim().to_owned();
    let proxy = format!("http://{}", proxy(&server.address));
    for n in [0, 499, 999] {
        let output = Command::new("rclone")
            .args([
                "--config",
                "/dev/null",
                "--ca-cert",
                authority,
                "--retries",
                "1",
                "--low-level-retries",
                "1",
                "lsf",
                ":webdav:",
            ])
            .args([
                "--webdav-url",
                &format!("https://{}/dav/main/", name(n)),
                "--webdav-user",
                user,
                "--webdav-pass",
                &secret,
            ])
            .env("HTTPS_PROXY", &proxy)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// `cargo xtask browser`: needs `chromium` and `certutil` (packages chromium and libnss3-tools).
#[test]
fn a_browser_takes_each_name_it_comes_for() {
    let Some(count) = std::env::var("ENFILADE_CAMPAIGN_N").ok().and_then(|n| n.parse::<usize>().ok()) else {
        // The browser is larger than all other packages together, so only the campaign needs it.
        return;
    };
    let thousand = Thousand::new();
    let home = thousand.server.scratch.path().join("home");
    let database = home.join(".pki/nssdb");
    std::fs::create_dir_all(&database).unwrap();
    let database = format!("sql:{}", database.display());
    for arguments in [
        vec!["-N", "--empty-password"],
        vec!["-A", "-t", "C,,", "-n", "authority", "-i", thousand.authority.to_str().unwrap()],
    ] {
        let status = Command::new("certutil").args(["-d", &database]).args(arguments).status();
        assert!(status.expect("certutil is needed: apt-get install libnss3-tools").success());
    }
    let proxy = proxy(&thousand.server.address);
    let dump = |host: &str| browser(&home, &proxy, &format!("https://{host}/.well-known/enfilade"));
    for n in (0..NAMES).step_by(NAMES / count.clamp(1, NAMES)) {
        let text = dump(&name(n));
        assert!(text.contains(ANSWER), "{}: {text}", name(n));
    }
    let refused = dump("nobody.example");
    assert!(!refused.contains(ANSWER), "{refused}");
}

fn browser(home: &Path, proxy: &str, url: &str) -> String {
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
        .arg(url)
        .env("HOME", home)
        .env_remove("DISPLAY")
        .stderr(Stdio::null())
        .args([
            &format!("--proxy-server=http://{proxy}"),
            &format!("--user-data-dir={}", home.join("profile").display()),
        ])
        .output();
    String::from_utf8_lossy(&output.expect("chromium is needed: apt-get install chromium").stdout)
        .into_owned()
}

/// A TLS ClientHello may be split into records at any place, and the records may arrive in pieces. The server selects the same certificate and the
/// same TLS options as for a whole ClientHello (CVE-2026-32305 was a failure to do this).
#[test]
fn a_hello_in_pieces_is_the_same_hello() {
    let thousand = Thousand::new();
    let address = &thousand.server.address;
    let pem = std::fs::read(&thousand.authority).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(&pem).unwrap()).unwrap();
    // With a key share for ML-KEM, the ClientHello does not fit into one packet.
    let mut provider = aws_lc_rs::default_provider();
    provider.kx_groups = vec![aws_lc_rs::kx_group::X25519MLKEM768, aws_lc_rs::kx_group::X25519];
    let config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let config = Arc::new(config);
    let mut largest = 0;
    for cut in 1.. {
        let name = name(cut * 7 % NAMES);
        let mut client =
            ClientConnection::new(Arc::clone(&config), ServerName::try_from(name.clone()).unwrap()).unwrap();
        let mut hello = Vec::new();
        client.write_tls(&mut hello).unwrap();
        let (head, message) = hello.split_at(5);
        assert_eq!(head[0], 22, "one record with the hello");
        largest = largest.max(message.len());
        if cut >= message.len() {
            break;
        }
        // Tries every place near the beginning and around the name, and every eleventh place in the key shares after it.
        if cut > 300 && cut % 11 != 0 {
            continue;
        }
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let (one, other) = message.split_at(cut);
        for piece in [one, other] {
            let length = u16::try_from(piece.len()).unwrap().to_be_bytes();
            // The head of the record is sent separately, in two parts.
            stream.write_all(&[&head[..3], &length[..1]].concat()).unwrap();
            stream.write_all(&[&length[1..], piece].concat()).unwrap();
        }
        while client.is_handshaking() {
            client.complete_io(&mut stream).unwrap_or_else(|why| panic!("cut at {cut}, {name}: {why}"));
        }
        let group = client.negotiated_key_exchange_group().unwrap().name();
        assert_eq!(group, NamedGroup::X25519MLKEM768, "cut at {cut}");
    }
    assert!(largest > 1_200, "{largest}");
}

/// The server's parser reads the same names and dates from a leaf certificate as OpenSSL.
#[test]
fn names_and_dates_are_those_openssl_reads() {
    let scratch = Scratch::new();
    let server = Server::start();
    let directory = scratch.path().join("certificates");
    std::fs::create_dir(&directory).unwrap();
    let (authority, keys) =
        (Authority::new("both"), [crate::certificates::ecdsa(), crate::certificates::rsa()]);
    for n in 0..40_i32 {
        let names: Vec<String> = (0..1 + n % 7).map(|name| format!("{name}.File{n}.example")).collect();
        let mut params = rcgen::CertificateParams::new(names).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, format!("cn{n}.example"));
        params.not_before = rcgen::date_time_ymd(1990 + n * 3, 1, 31);
        params.not_after = rcgen::date_time_ymd(2045 + n, 2, 28);
        let key = &keys[n as usize % 2];
        let pem = params.signed_by(key, &authority.issuer).unwrap().pem() + &key.serialize_pem();
        std::fs::write(directory.join(format!("{n}.pem")), pem).unwrap();
    }
    let rows = server.cli(&["certs", "list", "--directory", directory.to_str().unwrap()]);
    assert_eq!(rows.len(), 40);
    for row in rows {
        let file = row["file"].as_str().unwrap();
        let output = Command::new("openssl")
            .args([
                "x509",
                "-in",
                file,
                "-noout",
                "-subject",
                "-dates",
                "-dateopt",
                "iso_8601",
                "-ext",
                "subjectAltName",
                "-text",
            ])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut names: Vec<String> = text
            .split(['\n', ','])
            .filter_map(|part| part.trim().strip_prefix("DNS:"))
            .map(str::to_ascii_lowercase)
            .collect();
        let common = text.lines().find_map(|line| line.strip_prefix("subject=CN = ")).unwrap();
        names.push(common.to_owned());
        names.sort();
        names.dedup();
        assert_eq!(row["names"], serde_json::json!(names), "{file}");
        let kind = if text.contains("id-ecPublicKey") { "ECDSA" } else { "RSA" };
        assert_eq!(row["key"], kind, "{file}");
        for (line, at) in [("notBefore=", "not_before"), ("notAfter=", "not_after")] {
            let date = text.lines().find_map(|text| text.strip_prefix(line)).unwrap();
            let said = Command::new("date").args(["-u", "-d", date, "+%s"]).output().unwrap().stdout;
            let said: i64 = String::from_utf8(said).unwrap().trim().parse().unwrap();
            assert_eq!(row[at], said, "{file}: {date}");
        }
    }
}
