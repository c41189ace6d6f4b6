//! Names with separate TLS options ("terms"), with the real binary. The tests use crt-lists as in HAProxy, tickets that are valid only under the
//! options of their name, client certificates, requests for the host of another name, and stapled OCSP responses.

use crate::certificates::{Haproxy, Witness, bundle, ecdsa, rsa, shown};
use crate::curl;
use crate::server::{Scratch, Server, until};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, ExtendedKeyUsagePurpose,
    IsCa, Issuer, KeyIdMethod, KeyPair, RevokedCertParams, SerialNumber, date_time_ymd,
};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_rustls::rustls::client::{
    ClientSessionStore, Resumption, Tls12ClientSessionValue, Tls13ClientSessionValue,
};
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, HandshakeKind, NamedGroup, SupportedProtocolVersion,
};

/// The serial number of the revoked certificate.
pub(crate) const MINE: [u8; 4] = [1, 2, 3, 4];

/// An authority that issues certificates.
pub(crate) struct Authority {
    pub(crate) pem: String,
    pub(crate) issuer: Issuer<'static, KeyPair>,
    key: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = ecdsa();
        let (pem, text) = (params.self_signed(&key).unwrap().pem(), key.serialize_pem());
        Authority { pem, issuer: Issuer::new(params, key), key: text }
    }

    /// A certificate for names (separated by commas), and its key.
    pub(crate) fn give(&self, name: &str, is_client: bool) -> (String, String) {
        let mut params =
            CertificateParams::new(name.split(',').map(str::to_owned).collect::<Vec<_>>()).unwrap();
        params.serial_number = (name == "mine").then(|| SerialNumber::from(MINE.to_vec()));
        params.distinguished_name.push(DnType::CommonName, name);
        if is_client {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        }
        let key = ecdsa();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    /// A revocation list with these serial numbers.
    pub(crate) fn revocations(&self, serials: &[[u8; 4]]) -> String {
        let revoked = serials.iter().map(|serial| RevokedCertParams {
            serial_number: SerialNumber::from(serial.to_vec()),
            revocation_time: date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2024, 1, 1),
            next_update: date_time_ymd(2099, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        params.signed_by(&self.issuer).unwrap().pem().unwrap()
    }
}

#[test]
fn a_crt_list_is_obeyed_as_haproxy_obeys_it() {
    let scratch = Scratch::new();
    let at = |name: &str| scratch.path().join(name).to_str().unwrap().to_owned();
    let (rsa, ecdsa) = (rsa(), ecdsa());
    for (file, names, key) in [
        ("a.pem", vec!["a.example", "both.example"], &rsa),
        ("b.pem", vec!["own-b.example"], &ecdsa),
        ("c.pem.rsa", vec!["c.example"], &rsa),
        ("c.pem.ecdsa", vec!["c.example"], &ecdsa),
        ("d.pem", vec!["*.d.example", "d.example"], &ecdsa),
        ("e.pem", vec!["e.example"], &ecdsa),
        ("f.pem", vec!["f.example"], &rsa),
    ] {
        std::fs::write(at(file), bundle(file, &names, key)).unwrap();
    }
    let list = format!(
        "# the first one is the default\n{}\n{} *.B.example b.example !no.b.example !never.b.example\n{}\n\
         {} [alpn h2 ssl-min-ver TLSv1.3]\n{} [ssl-max-ver TLSv1.2] e.example E2.example\n{} both.example *.b.example\n",
        at("a.pem"),
        at("b.pem"),
        at("c.pem"),
        at("d.pem"),
        at("e.pem"),
        at("f.pem")
    );
    std::fs::write(at("list"), list).unwrap();
    let ours =
        Server::start_with(&[("ENFILADE_TLS__CRT_LIST", &at("list")), ("ENFILADE_TLS__MATCH", "haproxy")]);
    let (_theirs, theirs) = Haproxy::start(scratch.path(), Path::new(&at("list")), "");
    let all: &[&str] = &[];
    let rsa_only: &[&str] = &["-sigalgs", "RSA-PSS+SHA256:RSA+SHA256"];
    for (name, takes, expected) in [
        (Some("a.example"), all, "a.pem"),
        (Some("x.b.example"), all, "b.pem"),
        (Some("b.example"), all, "b.pem"),
        // One line excludes this name from its wildcard, but another line does not.
        (Some("no.b.example"), all, "f.pem"),
        (Some("no.b.example"), rsa_only, "f.pem"),
        (Some("x.y.b.example"), all, "a.pem"),
        (Some("own-b.example"), all, "a.pem"),
        (Some("c.example"), all, "c.pem.ecdsa"),
        (Some("c.example"), rsa_only, "c.pem.rsa"),
        (Some("x.d.example"), all, "d.pem"),
        (Some("d.example"), &["-tls1_2"], "alert"),
        (Some("e.example"), all, "e.pem"),
        (Some("e2.example"), &["-tls1_2"], "e.pem"),
        (Some("e.example"), &["-tls1_3"], "alert"),
        (Some("both.example"), all, "a.pem"),
        (Some("f.example"), all, "a.pem"),
        (None, all, "a.pem"),
    ] {
        for (who, address) in [("HAProxy", &theirs), ("ours", &ours.address)] {
            let shown = shown(address, name, takes);
            assert!(
                shown == expected || shown.starts_with("alert") && expected == "alert",
                "{who}: {name:?} {takes:?}: {shown}"
            );
        }
    }
    // If the server does not support an option, it does not start, and the error names the line.
    std::fs::write(
        at("broken"),
        format!("{}\n{} [sigalgs X]\n{} [nonsense]\n", at("a.pem"), at("b.pem"), at("d.pem")),
    )
    .unwrap();
    let output = Command::new(crate::server::BINARY)
        .args(["--data", &at("data"), "serve", "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0"])
        .env("ENFILADE_TLS__CRT_LIST", at("broken"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success()
            && said.contains("broken:2: this server does not support `sigalgs`")
            && said.contains("broken:3: `nonsense`"),
        "{said}"
    );
}

/// A store of TLS sessions that offers the session of one name for another name, like a malicious client.
#[derive(Debug, Default)]
struct AnySession {
    older: Mutex<Option<Tls12ClientSessionValue>>,
    newer: Mutex<Vec<Tls13ClientSessionValue>>,
}

impl ClientSessionStore for AnySession {
    fn set_kx_hint(&self, _: ServerName<'static>, _: NamedGroup) {}
    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        None
    }
    fn set_tls12_session(&self, _: ServerName<'static>, value: Tls12ClientSessionValue) {
        *self.older.lock().unwrap() = Some(value);
    }
    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.older.lock().unwrap().clone()
    }
    fn remove_tls12_session(&self, _: &ServerName<'static>) {}
    fn insert_tls13_ticket(&self, _: ServerName<'static>, value: Tls13ClientSessionValue) {
        self.newer.lock().unwrap().push(value);
    }
    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.newer.lock().unwrap().pop()
    }
}

/// A client that presents this certificate if a server requests a client certificate. The library resumes a session only in the client that stored
/// it, so a test uses the same client for all its connections.
fn client(version: &'static SupportedProtocolVersion, shows: Option<&(String, String)>) -> ClientConfig {
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[version])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Witness::default()));
    let Some((pem, key)) = shows else { return config.with_no_client_auth() };
    let chain = vec![CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()];
    config.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap()).unwrap()
}

/// Makes one connection of a client. Returns whether it resumed a session.
fn resumes(address: &str, name: &str, client: &ClientConfig) -> Result<bool, String> {
    let server = ServerName::try_from(name.to_owned()).unwrap();
    let mut connection =
        ClientConnection::new(Arc::new(client.clone()), server).map_err(|why| why.to_string())?;
    let mut stream = TcpStream::connect(address).map_err(|why| why.to_string())?;
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut tls = tokio_rustls::rustls::Stream::new(&mut connection, &mut stream);
    let asked = format!("GET /.well-known/enfilade HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n");
    tls.write_all(asked.as_bytes()).map_err(|why| why.to_string())?;
    let mut answer = [0; 15];
    tls.read_exact(&mut answer).map_err(|why| why.to_string())?;
    let _ = tls.read_to_end(&mut Vec::new());
    // The server checks the options again at the request, because they may have changed since the handshake.
    match &answer {
        b"HTTP/1.1 200 OK" => Ok(connection.handshake_kind() == Some(HandshakeKind::Resumed)),
        other => Err(String::from_utf8_lossy(other).into_owned()),
    }
}

/// A server with a crt-list. The names in the list have different options.
struct Terms {
    scratch: Scratch,
    server: Server,
    authority: Authority,
}

const NAMES: [&str; 6] =
    ["plain.example", "same.example", "newer.example", "older.example", "asks.example", "may.example"];

impl Terms {
    fn new() -> Self {
        let scratch = Scratch::new();
        let authority = Authority::new("clients");
        std::fs::write(scratch.path().join("ca.pem"), &authority.pem).unwrap();
        let key = ecdsa();
        for name in NAMES {
            std::fs::write(scratch.path().join(format!("{name}.pem")), bundle(name, &[name], &key)).unwrap();
        }
        let list = scratch.path().join("list");
        std::fs::write(&list, Self::list("")).unwrap();
        let server = Server::start_with(&[("ENFILADE_TLS__CRT_LIST", list.to_str().unwrap())]);
        Terms { scratch, server, authority }
    }

    /// The crt-list, with additional options for the name `same.example`.
    fn list(of_same: &str) -> String {
        format!(
            "plain.example.pem\nsame.example.pem {of_same}\nnewer.example.pem [ssl-min-ver TLSv1.3]\nolder.example.pem [ssl-max-ver TLSv1.2]\n\
             asks.example.pem [verify required ca-file ca.pem]\nmay.example.pem [verify optional ca-file ca.pem]\n"
        )
    }
}

#[test]
fn a_ticket_is_good_for_its_name_and_terms_and_for_nothing_else() {
    let terms = Terms::new();
    let shown = terms.authority.give("somebody", true);
    let list = terms.scratch.path().join("list");
    let (child, second) =
        terms.server.another_with_address(&[("ENFILADE_TLS__CRT_LIST", list.to_str().unwrap())]);
    let (_ended, here) = (Ended(child), &terms.server.address);
    let with = |client: &ClientConfig| {
        let mut client = client.clone();
        client.resumption = Resumption::store(Arc::new(AnySession::default()));
        client
    };
    let mut went_on = 0;
    for version in [&TLS12, &TLS13] {
        let spoken = |name: &str| match name {
            "newer.example" => version.version == TLS13.version,
            "older.example" => version.version == TLS12.version,
            _ => true,
        };
        let client = client(version, Some(&shown));
        for from in NAMES.into_iter().filter(|name| spoken(name)) {
            for to in NAMES {
                for address in [here, &second] {
                    let client = with(&client);
                    assert_eq!(resumes(here, from, &client), Ok(false), "{from}");
                    let second = resumes(address, to, &client);
                    assert_eq!(second.is_ok(), spoken(to), "{from} to {to}: {second:?}");
                    // Connections to a name that requests client certificates are never resumed.
                    let may_go_on = from == to && !["asks.example", "may.example"].contains(&to);
                    assert_eq!(
                        second.unwrap_or(false),
                        may_go_on,
                        "{from} to {to} at {address}, {version:?}"
                    );
                    went_on += usize::from(may_go_on);
                }
            }
        }
    }
    assert_eq!(went_on, 12, "resumed connections: a ticket is valid for its name, in both processes");
    // After a change of its options, a name accepts no older ticket.
    for version in [&TLS12, &TLS13] {
        let change = |of_same: &str| std::fs::write(&list, Terms::list(of_same)).unwrap();
        let client = client(version, None);
        let is_so = |expected: Option<bool>, client: &ClientConfig| {
            until("the connection resumes as expected", &terms.server, || {
                resumes(here, "same.example", client).ok() == expected
            });
        };
        let client = with(&client);
        assert_eq!(resumes(here, "same.example", &client), Ok(false));
        assert_eq!(resumes(here, "same.example", &client), Ok(true));
        change("[verify required ca-file ca.pem]");
        is_so(None, &client);
        change("[curves X25519] same.example");
        is_so(Some(false), &client);
        is_so(Some(true), &client);
        change("");
        is_so(Some(false), &client);
    }
}

/// A second server. Dropping the value kills it.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The status that curl gets for a path of a host, on a connection to a name, with these additional arguments.
fn asked(terms: &Terms, name: &str, host: &str, path: &str, more: &[&str]) -> String {
    let address = &terms.server.address;
    let port = address.rsplit_once(':').unwrap().1;
    let output = Command::new("curl")
        .args([
            "--silent",
            "--insecure",
            "--max-time",
            "20",
            "--output",
            "/dev/null",
            "--write-out",
            "%{http_code}",
        ])
        .args(["--resolve", &format!("{name}:{port}:127.0.0.1"), "--header", &format!("Host: {host}")])
        .args(more)
        .arg(format!("https://{name}:{port}{path}"))
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_host_with_other_terms_is_not_to_be_had_on_a_connection_to_another() {
    let terms = Terms::new();
    let place = terms.scratch.path();
    let (pem, key) = terms.authority.give("somebody", true);
    std::fs::write(place.join("client.pem"), pem + &key).unwrap();
    let shows = ["--cert", &place.join("client.pem").display().to_string()].map(str::to_owned);
    let of = |name: &str| match name {
        "plain.example" | "same.example" | "nobody.example" => "usual".to_owned(),
        other => other.to_owned(),
    };
    for http in ["--http1.1", "--http2"] {
        for name in NAMES.into_iter().chain(["nobody.example"]) {
            for host in NAMES.into_iter().chain(["nobody.example", "PLAIN.example:8443", "asks.example."]) {
                let expected =
                    of(name) == of(host.to_ascii_lowercase().trim_end_matches(":8443").trim_end_matches('.'));
                let more = [http, &shows[0], &shows[1]];
                let status = asked(&terms, name, host, "/.well-known/enfilade", &more);
                assert_eq!(status, if expected { "200" } else { "421" }, "{http} {name}, Host: {host}");
            }
        }
    }
}

#[test]
fn whoever_shows_a_certificate_is_whose_token_it_is() {
    let terms = Terms::new();
    let (place, server) = (terms.scratch.path(), &terms.server);
    let write = |name: &str, (pem, key): (String, String)| {
        let path = place.join(name);
        std::fs::write(&path, pem + &key).unwrap();
        path.display().to_string()
    };
    let mine = write("mine.pem", terms.authority.give("mine", true));
    let unbound = write("unbound.pem", terms.authority.give("unbound", true));
    let foreign = write("foreign.pem", Authority::new("others").give("mine", true));
    server.add_user("alice", "DatastoreReader");
    server.cli(&["token", "create", "alice@local!laptop", "--certificate", &mine]);
    let list = ["--request", "PROPFIND", "--header", "Depth: 0"];
    let listed = |name: &str, more: &[&str]| asked(&terms, name, name, "/dav/main/", &[&list, more].concat());
    let with = |name: &str, certificate: &str| listed(name, &["--cert", certificate]);
    for name in ["asks.example", "may.example"] {
        assert_eq!(with(name, &mine), "207", "{name}: {}", server.log());
        assert_eq!(with(name, &unbound), "401");
        // No trusted authority issued this certificate, so the handshake fails.
        assert_eq!(with(name, &foreign), "000");
    }
    // A name that does not request client certificates ignores them.
    assert_eq!(with("plain.example", &mine), "401");
    assert_eq!(listed("may.example", &[]), "401");
    assert_eq!(listed("asks.example", &[]), "000");
    // After a change of the revocation list, the next handshake with a revoked certificate is refused.
    let revoke = |serials: &[[u8; 4]]| {
        std::fs::write(place.join("crl.pem"), terms.authority.revocations(serials)).unwrap();
    };
    revoke(&[]);
    let list = Terms::list("[verify required ca-file ca.pem crl-file crl.pem]");
    std::fs::write(place.join("list"), list).unwrap();
    until("the new certificates are served", server, || with("same.example", &mine) == "207");
    revoke(&[MINE]);
    until("the new certificates are served", server, || with("same.example", &mine) == "000");
    assert_eq!(with("same.example", &unbound), "401");
    // If the request has another credential, right or wrong, only this credential is used.
    let second = ["--cert", &mine, "--user", "alice@local!laptop:wrong"];
    assert_eq!(listed("asks.example", &second), "401");
    // The fingerprint of the certificate is public, so it is not accepted as a secret.
    let shown = &server.cli(&["token", "show", "alice@local!laptop"])[0];
    let digits = shown.to_string().split("SHA-256 ").nth(1).unwrap()[..64].to_owned();
    let login = format!("alice@local!laptop:{digits}");
    assert_eq!(curl::curl(server, &login, "/dav/main/", &["--insecure"]).status, 401);
    // A certificate can be bound to only one token. Like any token, this token can be disabled and deleted with immediate effect.
    let again = server.cli_output(&["token", "create", "alice@local!other", "--certificate", &mine], "");
    assert!(!again.status.success() && String::from_utf8_lossy(&again.stderr).contains("alice@local!laptop"));
    server.cli(&["token", "set", "alice@local!laptop", "--disable"]);
    assert_eq!(with("asks.example", &mine), "401");
    server.cli(&["token", "set", "alice@local!laptop", "--enable"]);
    assert_eq!(with("asks.example", &mine), "207");
    assert!(!server.cli_output(&["token", "regenerate", "alice@local!laptop"], "").status.success());
    server.cli(&["token", "delete", "alice@local!laptop"]);
    assert_eq!(with("asks.example", &mine), "401");
    server.cli(&["token", "create", "alice@local!other", "--certificate", &mine]);
    assert_eq!(with("asks.example", &mine), "207");
    // `user access` lists the client certificate, and `revoke user --everything` ends it.
    let access = server.cli(&["user", "access", "alice@local"])[0].to_string();
    assert!(access.contains("client certificate") && access.contains("alice@local!other"), "{access}");
    let said = &server.cli(&["revoke", "user", "alice@local", "--everything"])[0];
    assert_eq!(said["ended"]["client_certificates"], 1, "{said}");
    assert_eq!(with("asks.example", &mine), "401");
    server.cli(&["token", "create", "alice@local!other", "--certificate", &mine]);
    assert_eq!(with("asks.example", &mine), "207");
    // The token is deleted with its user. Afterwards, the certificate can be bound to a token of another user.
    server.cli(&["user", "remove", "alice@local"]);
    assert_eq!(with("asks.example", &mine), "401");
    server.add_user("bob", "DatastoreReader");
    server.cli(&["token", "create", "bob@local!laptop", "--certificate", &mine]);
    assert_eq!(with("asks.example", &mine), "207");
}

#[test]
fn what_an_authority_says_is_stapled_while_it_is_good() {
    let scratch = Scratch::new();
    let at = |name: &str| scratch.path().join(name).display().to_string();
    let authority = Authority::new("an authority");
    let (pem, key) = authority.give("stapled.example", false);
    let directory = scratch.path().join("certificates");
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("a.pem"), format!("{pem}{}{key}", authority.pem)).unwrap();
    std::fs::write(at("ca.pem"), &authority.pem).unwrap();
    std::fs::write(at("ca.key"), &authority.key).unwrap();
    std::fs::write(at("leaf.pem"), &pem).unwrap();
    let openssl = |arguments: &[&str]| {
        let output = Command::new("openssl")
            .args(arguments)
            .current_dir(scratch.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    };
    // OpenSSL's OCSP responder creates the answer. The index of the responder contains the certificate.
    let serial = openssl(&["x509", "-in", "leaf.pem", "-noout", "-serial"]);
    let serial = serial.trim().trim_start_matches("serial=").to_owned();
    std::fs::write(at("index.txt"), format!("V\t491231235959Z\t\t{serial}\tunknown\t/CN=stapled.example\n"))
        .unwrap();
    let answer = |days: &str, into: &str| {
        openssl(&["ocsp", "-issuer", "ca.pem", "-cert", "leaf.pem", "-reqout", "request.der", "-no_nonce"]);
        openssl(&[
            "ocsp",
            "-index",
            "index.txt",
            "-rsigner",
            "ca.pem",
            "-rkey",
            "ca.key",
            "-CA",
            "ca.pem",
            "-reqin",
            "request.der",
            "-respout",
            into,
            "-ndays",
            days,
        ])
    };
    let said = answer("3", "good.der");
    assert!(Path::new(&at("good.der")).exists(), "{said}");
    let server = Server::start_with(&[("ENFILADE_TLS__CERTIFICATES", directory.to_str().unwrap())]);
    let stapled = || {
        let text = openssl(&[
            "s_client",
            "-connect",
            &server.address,
            "-servername",
            "stapled.example",
            "-status",
            "-CAfile",
            "ca.pem",
        ]);
        assert!(text.contains("Verify return code: 0 (ok)"), "{text}");
        text.contains("OCSP Response Status: successful")
    };
    assert!(!stapled());
    std::fs::copy(at("good.der"), directory.join("a.pem.ocsp")).unwrap();
    until("the new certificates are served", &server, stapled);
    // The server does not staple a malformed response, or a response for another certificate, and logs a warning.
    std::fs::write(directory.join("a.pem.ocsp"), "nonsense").unwrap();
    until("the new certificates are served", &server, || !stapled());
    until("it is logged", &server, || {
        server.log().contains("a.pem` is served, but the OCSP response in the `.ocsp` file is not sent")
    });
}

#[test]
fn a_restart_takes_what_it_knows_from_the_index_and_a_broken_one_for_none() {
    let scratch = Scratch::new();
    let directory = scratch.path().join("certificates");
    std::fs::create_dir(&directory).unwrap();
    let key = ecdsa();
    for n in 0..30 {
        let name = format!("n{n}.example");
        std::fs::write(directory.join(format!("{n:02}.pem")), bundle(&name, &[&name], &key)).unwrap();
    }
    // A new file could change again without a new time stamp. Therefore the server would read the file again. The pause prevents the second read.
    std::thread::sleep(Duration::from_millis(100));
    let place = directory.to_str().unwrap();
    for how in ["checked", "trusted", "off"] {
        let environment = [("ENFILADE_TLS__CERTIFICATES", place), ("ENFILADE_TLS__INDEX", how)];
        let server = Server::start_with(&environment);
        let index = server.data().join("tls-index");
        until("the index is written", &server, || index.exists());
        assert_eq!(shown(&server.address, Some("n7.example"), &[]), "n7.example");
        // One certificate is replaced.
        std::fs::write(directory.join("07.pem"), bundle("new", &["n7.example", "new.example"], &key))
            .unwrap();
        let (child, second) = server.another_with_address(&environment);
        let _ended = Ended(child);
        until("the new certificates are served", &server, || {
            shown(&second, Some("new.example"), &[]) == "new"
        });
        assert_eq!(shown(&second, Some("n29.example"), &[]), "n29.example");
        let mut bytes = std::fs::read(&index).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&index, bytes).unwrap();
        let (child, second) = server.another_with_address(&environment);
        let _ended = Ended(child);
        assert_eq!(shown(&second, Some("new.example"), &[]), "new");
        std::fs::write(directory.join("07.pem"), bundle("n7.example", &["n7.example"], &key)).unwrap();
    }
}

#[test]
fn everything_is_read_again_by_the_api_too_and_it_says_what_came_of_that() {
    let terms = Terms::new();
    let server = &terms.server;
    let path = "/api2/json/nodes/localhost/services/enfilade/reload";
    let admin = format!("admin@local:{}", server.password);
    let reload = |login: &str| curl::curl(server, login, path, &["--insecure", "--request", "POST"]);
    let whole = reload(&admin);
    assert_eq!(
        (whole.status, whole.text().contains("6 certificates are served")),
        (200, true),
        "{}",
        whole.text()
    );
    std::fs::write(terms.scratch.path().join("list"), "plain.example.pem [nonsense]").unwrap();
    let broken = reload(&admin);
    assert_eq!(broken.status, 400);
    assert!(broken.text().contains("list:1: `nonsense` is not an option"), "{}", broken.text());
    assert_eq!(shown(&server.address, Some("same.example"), &[]), "same.example");
    let reader = server.add_user("reader", "DatastoreAdmin");
    assert_eq!(reload(&reader).status, 403);
    assert_eq!(curl::curl(server, &admin, path, &["--insecure"]).status, 405);
}
