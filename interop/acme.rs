//! Certificates of a real ACME authority (Pebble). Pebble validates the names by connecting to the server, and the server obtains and renews the
//! certificates itself. In other tests, real ACME clients (certbot, lego) obtain certificates, and the server answers their challenges over plain
//! HTTP.

use crate::certificates::shown;
use crate::command::values;
use crate::server::{Scratch, Server, until};
use crate::signals::{has_metric, metrics};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Starts a DNS server that resolves every name to this machine. Returns the address of the DNS server.
fn names() -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let mut room = [0; 1500];
        while let Ok((count, from)) = socket.recv_from(&mut room) {
            // A DNS question consists of the name, which ends with a zero byte, and four bytes for type and class.
            let question = &room[12..count];
            let Some(end) = question.iter().position(|byte| *byte == 0).map(|end| end + 5) else { continue };
            let is_address = question[end - 4..end - 2] == [0, 1];
            let mut answer = room[..2].to_vec();
            answer.extend([0x81, 0x80, 0, 1, 0, u8::from(is_address), 0, 0, 0, 0]);
            answer.extend(&question[..end]);
            if is_address {
                answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1]);
            }
            let _ = socket.send_to(&answer, from);
        }
    });
    address
}

pub(crate) struct Pebble(Child);

impl Drop for Pebble {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Pebble {
    /// Starts an authority that validates names at these ports. Returns the authority, and the URL of the authority's directory.
    pub(crate) fn start(place: &Path, http_port: u16, tls_port: u16) -> (Self, String) {
        let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let (listen, manage) = (free(), free());
        let made =
            rcgen::generate_simple_self_signed(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        std::fs::write(place.join("pebble.pem"), made.cert.pem()).unwrap();
        std::fs::write(place.join("pebble.key"), made.signing_key.serialize_pem()).unwrap();
        let config = serde_json::json!({ "pebble": {
            "listenAddress": listen.to_string(), "managementListenAddress": manage.to_string(),
            "certificate": place.join("pebble.pem"), "privateKey": place.join("pebble.key"),
            "httpPort": http_port, "tlsPort": tls_port, "ocspResponderURL": "",
            "externalAccountBindingRequired": false,
        }});
        std::fs::write(place.join("pebble.json"), config.to_string()).unwrap();
        let log = std::fs::File::create(place.join("pebble.log")).unwrap();
        let child = Command::new("pebble")
            .args(["-config", place.join("pebble.json").to_str().unwrap(), "-dnsserver", &names()])
            .envs([("PEBBLE_VA_NOSLEEP", "1"), ("PEBBLE_WFE_NONCEREJECT", "0"), ("PEBBLE_AUTHZREUSE", "0")])
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .expect("pebble is needed");
        let pebble = Pebble(child);
        let began = Instant::now();
        while std::net::TcpStream::connect(listen).is_err() {
            let log = || std::fs::read_to_string(place.join("pebble.log")).unwrap_or_default();
            assert!(began.elapsed() < Duration::from_secs(20), "{}", log());
            std::thread::sleep(Duration::from_millis(20));
        }
        (pebble, format!("https://localhost:{}/dir", listen.port()))
    }
}

fn port(address: &str) -> u16 {
    address.rsplit_once(':').unwrap().1.parse().unwrap()
}

/// The certificate that a client gets for this name, as OpenSSL prints it.
pub(crate) fn answered(address: &str, name: &str, more: &[&str]) -> String {
    let output = Command::new("openssl")
        .args(["s_client", "-connect", address, "-servername", name])
        .args(more)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A port to which the authority connects. It forwards connections to a listener of the server, or closes them.
pub(crate) struct Relay {
    pub(crate) port: u16,
    target: Arc<Mutex<Option<String>>>,
}

impl Relay {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let target = Arc::<Mutex<Option<String>>>::default();
        let now = Arc::clone(&target);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Some(target) = now.lock().unwrap().clone() else { continue };
                let Ok(server) = TcpStream::connect(target) else { continue };
                for (mut from, mut to) in
                    [(client.try_clone().unwrap(), server.try_clone().unwrap()), (server, client)]
                {
                    std::thread::spawn(move || {
                        let _ = std::io::copy(&mut from, &mut to);
                        let _ = to.shutdown(std::net::Shutdown::Write);
                    });
                }
            }
        });
        Relay { port, target }
    }

    pub(crate) fn lead_to(&self, target: Option<&str>) {
        *self.target.lock().unwrap() = target.map(str::to_owned);
    }
}

/// Tests failures and their reasons, both kinds of challenges, and a second order for a certificate. All orders use one account.
#[test]
fn a_server_obtains_its_certificate() {
    let scratch = Scratch::new();
    let place = scratch.path();
    let (http, tls) = (Relay::start(), Relay::start());
    let (_pebble, directory) = Pebble::start(place, http.port, tls.port);
    let roots = place.join("pebble.pem");
    let names = ["files.acme.example", "www.acme.example"];
    let server = Server::start_with(&[
        ("ENFILADE_TLS__ACME", &names.join(", ")),
        ("ENFILADE_TLS__ACME_DIRECTORY", &directory),
        ("ENFILADE_TLS__ACME_CONTACT", "admin@acme.example"),
        ("ENFILADE_TLS__ACME_ROOTS", roots.to_str().unwrap()),
        ("ENFILADE_TLS__HTTP_LISTEN", "127.0.0.1:0"),
    ]);
    let environment = [("ENFILADE_TLS__ACME", names.join(", ")), ("ENFILADE_TLS__ACME_DIRECTORY", directory)];
    let environment = environment.each_ref().map(|(key, value)| (*key, value.as_str()));
    let doctor = || {
        let output = server.cli_output_with(&environment, &["doctor"], "");
        let said = values(&String::from_utf8_lossy(&output.stdout));
        said.into_iter().find(|finding| finding["what"] == "acme").unwrap()
    };
    let count = |what: &str| server.log().matches(what).count();
    let again = || crate::signals::signal("HUP", server.pid());
    let (failure, success) = ("the next attempt is in", "was obtained");
    let bundle = server.data().join("tls/acme-files.acme.example.pem");

    // The metrics show whether the last attempt failed, and when the next attempt is made.
    let has_time = |what: &str| {
        let begin = format!("enfilade_acme_{what}_timestamp_seconds ");
        metrics(&server).lines().any(|line| line.starts_with(&begin))
    };

    // HTTP-01 fails, then TLS-ALPN-01 fails, because both relays close each connection.
    until("a failure", &server, || count(failure) == 1);
    until("the metric", &server, || has_metric(&server, "enfilade_acme_failed 1"));
    assert!(has_time("next_attempt") && !has_time("obtained"), "{}", metrics(&server));
    again();
    until("another failure", &server, || count(failure) == 2);
    let said = doctor();
    assert_eq!(said["state"], "error");
    let says = said["says"].as_str().unwrap().to_lowercase();
    for part in ["no certificate for files.acme.example www.acme.example", "tls-alpn-01", "acme.example`: "] {
        assert!(says.contains(part), "{part}: {said}");
    }

    // The next attempt uses HTTP-01.
    http.lead_to(Some(&server.http));
    again();
    until("HTTP-01", &server, || count(success) == 1);
    assert_eq!((doctor()["state"].as_str(), count(failure)), (Some("ok"), 2));
    until("the metric", &server, || has_metric(&server, "enfilade_acme_failed 0"));
    assert!(has_time("obtained") && !has_time("next_attempt"), "{}", metrics(&server));
    for name in names {
        until(name, &server, || answered(&server.address, name, &[]).contains("Pebble Intermediate CA"));
    }
    // The server does not obtain another certificate before the renewal is due.
    again();

    // If the bundle is lost, the server obtains a new certificate. HTTP-01 fails, and then TLS-ALPN-01 succeeds.
    http.lead_to(None);
    tls.lead_to(Some(&server.address));
    std::fs::remove_file(&bundle).unwrap();
    again();
    until("a third failure", &server, || count(failure) == 3);
    again();
    until("TLS-ALPN-01", &server, || count(success) == 2);
    until("the new one", &server, || {
        answered(&server.address, names[1], &[]).contains("Pebble Intermediate CA")
    });

    // The next order begins with the kind of challenge that worked last.
    std::fs::remove_file(&bundle).unwrap();
    again();
    until("TLS-ALPN-01 again", &server, || count(success) == 3);
    assert_eq!(count(failure), 3);

    // The answers to challenges were removed. A client that offers the protocol of TLS-ALPN-01 gets no certificate.
    for left in [".http-01", ".tls-alpn-01"] {
        assert_eq!(std::fs::read_dir(server.data().join("acme").join(left)).unwrap().count(), 0, "{left}");
    }
    let strange = answered(&server.address, names[0], &["-alpn", "acme-tls/1"]);
    assert!(strange.contains("no peer certificate available"), "{strange}");
    let accounts = std::fs::read_dir(server.data().join("acme")).unwrap();
    let accounts = accounts.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(accounts.filter(|name| name.starts_with("account-")).count(), 1);
    assert!(!server.log().contains("PRIVATE KEY"));
}

#[test]
fn certbot_and_lego_get_certificates_for_a_running_server() {
    let scratch = Scratch::new();
    let place = scratch.path();
    let webroot = place.join("webroot");
    let challenges = webroot.join(".well-known/acme-challenge");
    std::fs::create_dir_all(&challenges).unwrap();
    let server = Server::start_with(&[
        ("ENFILADE_TLS__HTTP_LISTEN", "127.0.0.1:0"),
        ("ENFILADE_TLS__ACME_CHALLENGES", challenges.to_str().unwrap()),
    ]);
    let (_pebble, directory) = Pebble::start(place, port(&server.http), 1);
    let at = |name: &str| place.join(name).display().to_string();
    let run = |command: &mut Command| {
        let output = command.stdin(Stdio::null()).output().unwrap_or_else(|why| panic!("{command:?}: {why}"));
        let text =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let pebble = || std::fs::read_to_string(place.join("pebble.log")).unwrap_or_default();
        assert!(output.status.success(), "{text}\n{}", pebble());
    };
    run(Command::new("certbot")
        .args(["certonly", "--non-interactive", "--agree-tos", "--email", "a@acme.example", "--webroot"])
        .args([
            "--webroot-path",
            webroot.to_str().unwrap(),
            "--domain",
            "bot.acme.example",
            "--server",
            &directory,
        ])
        .args([
            "--config-dir",
            &at("certbot"),
            "--work-dir",
            &at("certbot-work"),
            "--logs-dir",
            &at("certbot-logs"),
        ])
        .env("REQUESTS_CA_BUNDLE", at("pebble.pem")));
    run(Command::new("lego")
        .args(["--server", &directory, "--email", "a@acme.example", "--accept-tos", "--path", &at("lego")])
        .args([
            "--domains",
            "lego.acme.example",
            "--http",
            "--http.webroot",
            webroot.to_str().unwrap(),
            "run",
        ])
        .env("LEGO_CA_CERTIFICATES", at("pebble.pem")));
    for (name, chain, key) in [
        (
            "bot.acme.example",
            "certbot/live/bot.acme.example/fullchain.pem",
            "certbot/live/bot.acme.example/privkey.pem",
        ),
        (
            "lego.acme.example",
            "lego/certificates/lego.acme.example.crt",
            "lego/certificates/lego.acme.example.key",
        ),
    ] {
        let parts = [chain, key].map(|part| std::fs::read_to_string(place.join(part)).unwrap());
        std::fs::write(at("bundle.pem"), parts.concat()).unwrap();
        server.cli(&["certs", "add", &at("bundle.pem"), "--name", &format!("{name}.pem")]);
        let began = Instant::now();
        loop {
            let text = answered(&server.address, name, &[]);
            if text.contains("Pebble Intermediate CA") {
                break;
            }
            assert!(began.elapsed() < Duration::from_secs(20), "{text}\n{}", server.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    // For a name without an ACME certificate, the server sends no ACME certificate.
    assert_ne!(shown(&server.address, Some("localhost"), &[]), "lego.acme.example");
}
