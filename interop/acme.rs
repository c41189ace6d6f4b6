//! Certificates issued while the server runs: real ACME clients (certbot, lego) answer the challenge over the server's plain HTTP, a real
//! authority (Pebble) validates it, and the server serves the new certificate.

use crate::certificates::shown;
use crate::server::{Scratch, Server};
use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Says of every name that it is here. Its address.
fn names() -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let mut room = [0; 1500];
        while let Ok((count, from)) = socket.recv_from(&mut room) {
            // The question ends after its name, which ends with an empty label, its kind and its class.
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

struct Pebble(Child);

impl Drop for Pebble {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Pebble {
    /// An authority that looks for challenges at this port. Where its directory is.
    fn start(place: &Path, http_port: &str) -> (Self, String) {
        let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let (listen, manage) = (free(), free());
        let made =
            rcgen::generate_simple_self_signed(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        std::fs::write(place.join("pebble.pem"), made.cert.pem()).unwrap();
        std::fs::write(place.join("pebble.key"), made.signing_key.serialize_pem()).unwrap();
        let config = serde_json::json!({ "pebble": {
            "listenAddress": listen.to_string(), "managementListenAddress": manage.to_string(),
            "certificate": place.join("pebble.pem"), "privateKey": place.join("pebble.key"),
            "httpPort": http_port.parse::<u16>().unwrap(), "tlsPort": 1, "ocspResponderURL": "",
            "externalAccountBindingRequired": false,
        }});
        std::fs::write(place.join("pebble.json"), config.to_string()).unwrap();
        let log = std::fs::File::create(place.join("pebble.log")).unwrap();
        let child = Command::new("pebble")
            .args(["-config", place.join("pebble.json").to_str().unwrap(), "-dnsserver", &names()])
            .envs([("PEBBLE_VA_NOSLEEP", "1"), ("PEBBLE_WFE_NONCEREJECT", "0")])
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
    let (_pebble, directory) = Pebble::start(place, server.http.rsplit_once(':').unwrap().1);
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
            let answered = Command::new("openssl")
                .args(["s_client", "-connect", &server.address, "-servername", name])
                .stdin(Stdio::null())
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&answered.stdout).into_owned();
            if text.contains("Pebble Intermediate CA") {
                break;
            }
            assert!(began.elapsed() < Duration::from_secs(20), "{text}\n{}", server.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    // Clients of other names are served as before.
    assert_ne!(shown(&server.address, Some("localhost"), &[]), "lego.acme.example");
}
