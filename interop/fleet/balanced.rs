//! Real clients of a fleet behind HAProxy, while members and machines of etcd are killed. HAProxy has the configuration of docs/fleet.md.

use super::{Fleet, ready};
use crate::decision_campaigns::number;
use crate::proxmox::python_path;
use crate::proxy::Proxy;
use crate::server::{Scratch, Server, WITHOUT_PENALTIES, wait_until};
use crate::signals::signal;
use enfilade_testkit::{Etcd, free_port};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The number of files that rclone copies. The campaign has 10,000.
const FILES: u64 = 500;
/// The number of faults. The campaign continues until all files are copied.
const SMOKE: usize = 6;
const MEMBERS: usize = 3;
const PASSWORD: &str = "the administrator's";

/// The configuration in docs/fleet.md, with the ports of the members, and with `localhost` as the host name for files.
fn configuration(address: &str, ports: &[(String, String)]) -> String {
    let page = std::fs::read_to_string(root().join("docs/fleet.md")).unwrap();
    let (_, rest) = page.split_once("```haproxy\n").unwrap();
    let mut text = rest.split_once("```").unwrap().0.replace("bind :443", &format!("bind {address}"));
    text = text.replace("files.example.com", "localhost");
    for (nth, (listen, operations)) in ports.iter().enumerate() {
        let port = operations.rsplit(':').next().unwrap();
        text = text.replace(&format!("10.0.0.{}:8443 port 9443", nth + 1), &format!("{listen} port {port}"));
    }
    assert!(!text.contains("10.0.0."), "{text}");
    text
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Ends the members and the machines of etcd, one after another, and starts them again.
fn disturb(
    servers: &mut [Server],
    ports: &[(String, String)],
    machines: &mut [Etcd],
    goes_on: impl Fn(usize) -> bool,
) {
    for nth in 0.. {
        let (member, machine) = (nth % MEMBERS, nth / 2 % machines.len());
        match nth % 2 {
            0 => {
                servers[member].stop();
                std::thread::sleep(Duration::from_secs(1));
                servers[member].start_again_with(&environment(&ports[member]));
            }
            _ if nth % 4 == 1 => {
                machines[machine].kill();
                std::thread::sleep(Duration::from_secs(2));
                machines[machine].start_again();
            }
            _ => {
                signal("TERM", servers[member].pid());
                servers[member].wait();
                servers[member].start_again_with(&environment(&ports[member]));
            }
        }
        wait_until(Duration::from_secs(60), "the member is ready", || ready(&servers[member]) == 200);
        if !goes_on(nth + 1) {
            return;
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn environment((listen, operations): &(String, String)) -> [(&str, &str); 4] {
    [
        WITHOUT_PENALTIES,
        ("ENFILADE_TLS__LISTEN", listen),
        ("ENFILADE_TLS__PROXY_FROM", "127.0.0.1"),
        ("ENFILADE_OPERATIONS__LISTEN", operations),
    ]
}

/// Copies files through HAProxy with rclone. By default, rclone repeats failed requests.
fn copy(address: &str, certificate: &Path, login: &str, from: &Path) {
    let (user, secret) = login.split_once(':').unwrap();
    let obscured = Command::new("rclone").args(["obscure", secret]).output().unwrap();
    let port = address.rsplit(':').next().unwrap();
    let output = Command::new("rclone")
        .env("RCLONE_CONFIG", "/dev/null")
        .env("RCLONE_CONFIG_E_TYPE", "webdav")
        .env("RCLONE_CONFIG_E_VENDOR", "other")
        .env("RCLONE_CONFIG_E_URL", format!("https://localhost:{port}/dav/main"))
        .env("RCLONE_CONFIG_E_USER", user)
        .env("RCLONE_CONFIG_E_PASS", String::from_utf8(obscured.stdout).unwrap().trim())
        .args(["copy", "--transfers", "8", "--retries", "10", "--retries-sleep", "1s", "--ca-cert"])
        .arg(certificate)
        .arg(from)
        .arg("e:copied")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn clients_behind_haproxy_get_no_wrong_answer_while_members_and_etcd_are_killed() {
    let scratch = Scratch::new();
    let place = scratch.path();
    let mut machines = Etcd::start_machines(3);
    let etcd: Vec<String> = machines.iter().map(|machine| machine.address.clone()).collect();
    let of_port = || format!("127.0.0.1:{}", free_port());
    let ports: Vec<(String, String)> = (0..MEMBERS).map(|_| (of_port(), of_port())).collect();
    let mut servers = Fleet::of_servers_with(&vec![etcd; MEMBERS], |nth| environment(&ports[nth]).to_vec());
    let certificate = place.join("certificate.pem");
    std::fs::copy(servers[0].certificate(), &certificate).unwrap();
    // All members have one certificate, as docs/fleet.md says.
    for nth in 1..MEMBERS {
        for file in ["tls/localhost.crt", "tls/localhost.pem"] {
            std::fs::copy(servers[0].data().join(file), servers[nth].data().join(file)).unwrap();
        }
        servers[nth].stop();
        servers[nth].start_again_with(&environment(&ports[nth]));
    }
    let proxy_address = of_port();
    std::fs::write(place.join("haproxy.cfg"), configuration(&proxy_address, &ports)).unwrap();
    let url = format!("https://{proxy_address}/v3");
    let bootstrap = ["bootstrap", "--password-stdin", "--public-url", &url];
    assert!(servers[0].cli_output(&bootstrap, PASSWORD).status.success());
    let admin = servers[0].add_token("admin@local!fleet");
    let login = servers[0].add_token("admin@local!files");
    let files = place.join("files");
    std::fs::create_dir(&files).unwrap();
    let count = number(FILES);
    for n in 0..count {
        std::fs::write(files.join(format!("{n:05}")), format!("content of {n}\n")).unwrap();
    }
    let proxy = Proxy::start("haproxy", place, "haproxy.cfg", proxy_address);
    let port = proxy.address.rsplit(':').next().unwrap();
    // Before its first checks, HAProxy assumes that all members serve files.
    let status = || {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--max-time", "5", "--output", "/dev/null", "--write-out", "%{http_code}"]);
        curl.args(["--request", "PROPFIND", "--header", "Depth: 0", "--user", &login]);
        let url = format!("https://localhost:{port}/dav/main/");
        curl.arg("--cacert").arg(&certificate).arg(url).output().unwrap().stdout
    };
    wait_until(Duration::from_secs(30), "HAProxy knows the member with the files", || {
        (0..2 * MEMBERS).all(|_| status() == b"207")
    });
    let (token, secret) = admin.split_once(':').unwrap();
    let stop = place.join("stop");
    let clients = Command::new("python3")
        .arg(root().join("interop/fleet_clients.py"))
        .arg(port)
        .arg(&certificate)
        .args([token, secret, &url, PASSWORD])
        .arg(&stop)
        .env("PYTHONPATH", python_path())
        .env("PYTHONWARNINGS", "ignore")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::scope(|scope| {
        let copying = scope.spawn(|| copy(&proxy.address, &certificate, &login, &files));
        let is_campaign = count > FILES;
        disturb(&mut servers, &ports, &mut machines, |done| {
            done < SMOKE || is_campaign && !copying.is_finished()
        });
    });
    std::fs::write(&stop, "").unwrap();
    let output = clients.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let counts: Value = serde_json::from_slice(&output.stdout).unwrap();
    println!("balanced: {count} files copied, {counts}");
    assert!(
        ["sessions", "tokens", "commands"].iter().all(|what| counts[what].as_u64().unwrap() > 0),
        "{counts}"
    );
    let copied = servers[0].data().join("datastores/main/copied");
    let same = Command::new("diff").args(["-r"]).args([&files, &copied]).output().unwrap();
    assert!(same.status.success(), "{}", String::from_utf8_lossy(&same.stdout));
    assert_eq!(std::fs::read_dir(&copied).unwrap().count() as u64, count);
}
