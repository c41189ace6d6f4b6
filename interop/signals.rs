//! Signals, and what the service manager is told.

use crate::curl::{PROPFIND_0, curl};
use crate::server::{BINARY, Scratch, Server};
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(10);

fn signal(name: &str, pid: u32) {
    assert!(Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().unwrap().success());
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < SOON, "{what}: not within {SOON:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_certificate_is_exchanged_and_whatever_is_broken_leaves_everything_as_it_was() {
    let server = Server::start();
    let login = server.add_user("alice", "DatastoreReader");
    let status = || curl(&server, &login, "/dav/main/", &PROPFIND_0).status;
    assert_eq!(status(), 207);
    let metric = |value: &str| {
        let output = Command::new("curl")
            .args(["--silent", &format!("http://{}/metrics", server.operations)])
            .output();
        String::from_utf8(output.unwrap().stdout)
            .unwrap()
            .contains(&format!("enfilade_reload_failed {value}"))
    };

    // A configuration nobody can read.
    let toml = server.data().join("enfilade.toml");
    std::fs::write(&toml, "[tls]\nlisten = nowhere\n").unwrap();
    signal("HUP", server.pid());
    wait_until("the failure is told", || server.log().contains("nothing was reloaded") && metric("1"));
    assert!(server.log().contains("line 2"), "{}", server.log());
    assert_eq!(status(), 207);

    // No certificate that can be used.
    std::fs::remove_file(&toml).unwrap();
    let pem = server.data().join("tls/localhost.pem");
    let good = std::fs::read(&pem).unwrap();
    std::fs::write(&pem, "no certificate").unwrap();
    let failures = || server.log().matches("nothing was reloaded").count();
    signal("HUP", server.pid());
    wait_until("the second failure is told", || failures() == 2);
    assert_eq!(status(), 207);

    // Another house's certificate: whoever trusts the old one alone is not served any more.
    let other = Server::start();
    std::fs::copy(other.data().join("tls/localhost.pem"), &pem).unwrap();
    signal("HUP", server.pid());
    wait_until("the new certificate is served", || {
        let url = server.url("/.well-known/enfilade");
        let trusts = |file| {
            Command::new("curl")
                .args(["--silent", "--output", "/dev/null", "--cacert"])
                .arg(file)
                .arg(&url)
                .status()
        };
        trusts(other.certificate()).unwrap().success() && !trusts(server.certificate()).unwrap().success()
    });
    assert!(metric("0"));
    std::fs::write(&pem, good).unwrap();
    signal("HUP", server.pid());
    wait_until("the old one is served again", || {
        let url = server.url("/.well-known/enfilade");
        let mut trusts = Command::new("curl");
        trusts.args(["--silent", "--output", "/dev/null", "--cacert"]).arg(server.certificate()).arg(&url);
        trusts.status().unwrap().success()
    });
}

#[test]
fn the_service_manager_is_told_how_far_the_server_is() {
    let scratch = Scratch::new();
    let path = scratch.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(SOON)).unwrap();
    let mut child = Command::new(BINARY)
        .arg("--data")
        .arg(scratch.path().join("data"))
        .args(["serve", "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0"])
        .env("NOTIFY_SOCKET", &path)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let told = || {
        let mut bytes = [0; 256];
        let count = socket.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..count]).into_owned()
    };
    assert_eq!(told(), "READY=1");
    signal("HUP", child.id());
    assert!(told().starts_with("RELOADING=1\nMONOTONIC_USEC="));
    assert_eq!(told(), "READY=1");
    signal("TERM", child.id());
    assert_eq!(told(), "STOPPING=1");
    assert!(child.wait().unwrap().success());
}
