//! Signals, and notifications to the service manager.

use crate::curl::{PROPFIND_0, curl};
use crate::server::{BINARY, Scratch, Server, wait_until};
use std::io::{BufRead, BufReader, Write};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::{Command, Stdio};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(10);

pub(crate) fn signal(name: &str, pid: u32) {
    assert!(Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().unwrap().success());
}

#[test]
fn a_certificate_is_exchanged_and_a_broken_one_leaves_what_was_there() {
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

    // A malformed configuration.
    let toml = server.data().join("enfilade.toml");
    std::fs::write(&toml, "[tls]\nlisten = nowhere\n").unwrap();
    signal("HUP", server.pid());
    wait_until(SOON, "the failure is told", || server.log().contains("reload failed") && metric("1"));
    let named = format!("configuration `{}`: line 2: invalid", toml.display());
    assert!(server.log().contains(&named), "{}", server.log());
    assert_eq!(status(), 207);

    // If a file is broken, the old certificate stays in use, and clients are served as before.
    std::fs::remove_file(&toml).unwrap();
    let pem = server.data().join("tls/localhost.pem");
    let good = std::fs::read(&pem).unwrap();
    let is_told = |file: &std::path::Path| {
        let said = format!("certificate `{}` is left out: the file contains no certificate", file.display());
        server.log().contains(&said)
    };
    std::fs::write(&pem, "no certificate").unwrap();
    signal("HUP", server.pid());
    wait_until(SOON, "the broken file is told", || is_told(&pem) && metric("1"));
    assert_eq!(status(), 207);

    // One file is usable, another one is broken.
    std::fs::write(&pem, &good).unwrap();
    let broken = server.data().join("tls/broken.pem");
    std::fs::write(&broken, "no certificate").unwrap();
    signal("HUP", server.pid());
    wait_until(SOON, "the other broken file is told", || is_told(&broken));
    assert_eq!(status(), 207);
    std::fs::remove_file(&broken).unwrap();

    // The certificate of another server: clients that trust only the old one refuse it.
    let other = Server::start();
    std::fs::copy(other.data().join("tls/localhost.pem"), &pem).unwrap();
    signal("HUP", server.pid());
    wait_until(SOON, "the new certificate is served", || {
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
    wait_until(SOON, "nothing is wrong any more", || metric("0"));
    // This change needs no signal, because the directory is watched.
    std::fs::write(&pem, good).unwrap();
    wait_until(SOON, "the old one is served again", || {
        let url = server.url("/.well-known/enfilade");
        let mut trusts = Command::new("curl");
        trusts.args(["--silent", "--output", "/dev/null", "--cacert"]).arg(server.certificate()).arg(&url);
        trusts.status().unwrap().success()
    });
}

#[test]
fn a_connection_goes_on_when_its_certificate_is_exchanged() {
    let server = Server::start();
    let mut client = Command::new("openssl")
        .args(["s_client", "-quiet", "-connect", &server.address, "-CAfile"])
        .arg(server.certificate())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut to = client.stdin.take().unwrap();
    let mut from = BufReader::new(client.stdout.take().unwrap());
    let mut ask = || {
        to.write_all(b"HEAD /.well-known/enfilade HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(from.read_line(&mut head).unwrap() > 0, "the connection ended: {head}");
        }
        head.starts_with("HTTP/1.1 200")
    };
    assert!(ask());
    let other = Server::start();
    std::fs::copy(other.data().join("tls/localhost.pem"), server.data().join("tls/localhost.pem")).unwrap();
    signal("HUP", server.pid());
    wait_until(SOON, "the certificate is exchanged", || {
        server.log().contains("reloaded: 1 certificate is served")
    });
    assert!(ask());
    client.kill().unwrap();
    client.wait().unwrap();
}

#[test]
fn a_reload_names_what_waits_for_a_restart_and_what_is_wrong_with_mirrored_files() {
    let server = Server::start();
    let configuration = "[tls]\nlisten = '127.0.0.1:1'\n[identity]\nhash_slots = 3\npenalties = false\n";
    std::fs::write(server.data().join("enfilade.toml"), configuration).unwrap();
    signal("HUP", server.pid());
    let named = "restart the server to apply these changed keys: `tls.listen`, `identity.penalties`\"";
    wait_until(SOON, "it is named", || server.log().contains(named));
    let threads = || {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap();
        let name = |task: std::io::Result<std::fs::DirEntry>| {
            std::fs::read_to_string(task.unwrap().path().join("comm"))
        };
        tasks.filter_map(|task| name(task).ok()).filter(|name| name == "hash\n").count()
    };
    wait_until(SOON, "there are three slots", || threads() == 3);

    let file = server.data().join("datastore.cfg");
    let mut text = std::fs::read_to_string(&file).unwrap();
    text.push_str("\nnonsense\n");
    std::fs::write(&file, &text).unwrap();
    let line = text.lines().count();
    let problem = format!("{}: line {line}: syntax error", file.display());
    let told = || server.log().matches(&problem).count();
    wait_until(SOON, "the problem is told", || told() == 1);
    signal("HUP", server.pid());
    wait_until(SOON, "the problem is told again", || told() == 2);
    assert!(!server.log().contains("reload failed"), "{}", server.log());
}

#[test]
fn the_service_manager_is_told_how_far_the_server_is() {
    let scratch = Scratch::new();
    let path = scratch.path().join("notify");
    told_over(&UnixDatagram::bind(&path).unwrap(), path.to_str().unwrap());
    let name = format!("enfilade-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    told_over(&UnixDatagram::bind_addr(&address).unwrap(), &format!("@{name}"));
}

fn told_over(socket: &UnixDatagram, name: &str) {
    let scratch = Scratch::new();
    socket.set_read_timeout(Some(SOON)).unwrap();
    let mut child = Command::new(BINARY)
        .arg("--data")
        .arg(scratch.path().join("data"))
        .args(["serve", "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0"])
        .env("NOTIFY_SOCKET", name)
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
    let reloading = told();
    let since = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap();
    assert!(since.parse::<u64>().unwrap() > 0, "{reloading}");
    assert_eq!(told(), "READY=1");
    signal("TERM", child.id());
    assert_eq!(told(), "STOPPING=1");
    assert!(child.wait().unwrap().success());
}
