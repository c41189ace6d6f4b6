//! Signals to the server, and its notifications to the service manager.

use crate::certificates::{bundle, ecdsa};
use crate::curl::{PROPFIND_0, curl};
use crate::server::{BINARY, Scratch, Server, serving, until, wait_until};
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
    let metric = |value: &str| has_metric(&server, &format!("enfilade_reload_failed {value}"));

    // A reload of a malformed configuration fails and changes nothing.
    let toml = server.data().join("enfilade.toml");
    std::fs::write(&toml, "[tls]\nlisten = nowhere\n").unwrap();
    signal("HUP", server.pid());
    wait_until(SOON, "the failure is told", || server.log().contains("reload failed") && metric("1"));
    let named = format!("configuration `{}`: line 2: invalid", toml.display());
    assert!(server.log().contains(&named), "{}", server.log());
    assert_eq!(status(), 207);

    // If a file is broken, the server continues to use the old certificate.
    std::fs::write(&toml, "").unwrap();
    let pem = server.data().join("tls/localhost.pem");
    let good = std::fs::read(&pem).unwrap();
    let is_told = |file: &std::path::Path, what: &str| {
        let said = format!("certificate `{}` {what}: the file contains no certificate", file.display());
        server.log().contains(&said)
    };
    std::fs::write(&pem, "no certificate").unwrap();
    signal("HUP", server.pid());
    wait_until(SOON, "the broken file is told", || {
        is_told(&pem, "cannot be used")
            && server.log().contains("; the server uses the earlier certificate until the next start")
            && server.log().contains("from now on; 1 certificate file cannot be used")
            && metric("0")
            && has_metric(&server, "enfilade_certificates_bad 1")
    });
    assert_eq!(status(), 207);

    // One file is usable, and another file is broken.
    std::fs::write(&pem, &good).unwrap();
    let broken = server.data().join("tls/broken.pem");
    std::fs::write(&broken, "no certificate").unwrap();
    signal("HUP", server.pid());
    wait_until(SOON, "the other broken file is told", || is_told(&broken, "is left out"));
    assert_eq!(status(), 207);
    std::fs::remove_file(&broken).unwrap();

    // Installs the certificate of another server. Clients that trust only the old certificate refuse this certificate.
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
    wait_until(SOON, "nothing is wrong any more", || has_metric(&server, "enfilade_certificates_bad 0"));
    // This change needs no signal, because the server watches the directory.
    std::fs::write(&pem, good).unwrap();
    wait_until(SOON, "the old one is served again", || {
        let url = server.url("/.well-known/enfilade");
        let mut trusts = Command::new("curl");
        trusts.args(["--silent", "--output", "/dev/null", "--cacert"]).arg(server.certificate()).arg(&url);
        trusts.status().unwrap().success()
    });
}

pub(crate) fn has_metric(server: &Server, sample: &str) -> bool {
    metrics(server).lines().any(|line| line == sample)
}

pub(crate) fn metrics(server: &Server) -> String {
    let output =
        Command::new("curl").args(["--silent", &format!("http://{}/metrics", server.operations)]).output();
    String::from_utf8(output.unwrap().stdout).unwrap()
}

/// A change of a file has the same effect on metrics and log as a signal.
#[test]
fn metrics_and_log_follow_changes_of_watched_files() {
    let scratch = Scratch::new();
    let place = scratch.path();
    let whole = bundle("a", &["a.example"], &ecdsa());
    let (certificate, key) = whole.split_at(whole.find("-----BEGIN PRIVATE").unwrap());
    let write = |file: &str, text: &str| std::fs::write(place.join(file), text).unwrap();
    write("a.pem", certificate);
    write("a.key", key);
    write("b.pem", &bundle("b", &["b.example"], &ecdsa()));
    write("list", "a.pem\nb.pem\n");
    let list = place.join("list").display().to_string();
    let server = Server::start_with(&[("ENFILADE_TLS__CRT_LIST", &list)]);
    let answers = |name: &str| crate::certificates::shown(&server.address, Some(name), &[]);
    assert_eq!((answers("a.example").as_str(), answers("b.example").as_str()), ("a", "b"));
    let until_metrics = |failed: u8, bad: u8| {
        until("the metrics", &server, || {
            has_metric(&server, &format!("enfilade_reload_failed {failed}"))
                && has_metric(&server, &format!("enfilade_certificates_bad {bad}"))
        });
    };
    let until_told = |text: &str| until(text, &server, || server.log().contains(text));
    until_metrics(0, 0);
    // The server refuses the list, which is repaired later.
    write("list", "a.pem\nb.pem [nonsense]\n");
    until_metrics(1, 0);
    write("list", "a.pem\nb.pem\n");
    until_metrics(0, 0);
    // If a file changed shortly before the start, the server reads the file again together with the list. The key of the file is in memory only after
    // the next handshake. So the test makes a handshake before it removes the key file.
    assert_eq!(answers("a.example"), "a");
    // The key file `a.key` is removed, and restored later.
    std::fs::remove_file(place.join("a.key")).unwrap();
    until_told(&format!(
        "certificate `{}` cannot be used: the file contains no private key",
        place.join("a.pem").display()
    ));
    until_metrics(0, 1);
    assert_eq!(answers("a.example"), "a");
    write("a.key", key);
    until_metrics(0, 0);
    until_told(&format!("2 certificates are served from now on: +{}", place.join("a.pem").display()));
    // A listed file is removed.
    std::fs::remove_file(place.join("b.pem")).unwrap();
    until_told(&format!("certificate `{}` cannot be used: No such file", place.join("b.pem").display()));
    until_metrics(0, 1);
    assert_eq!(answers("b.example"), "b");
    // If a file breaks before the first handshake with its certificate, the server has no earlier key for this certificate.
    write("c.pem", &bundle("c", &["c.example"], &ecdsa()));
    write("list", "a.pem\nb.pem\nc.pem\n");
    until_told(&format!("+{}", place.join("c.pem").display()));
    write("c.pem", "nothing");
    until_told(
        "; the server has no earlier key for this certificate in memory, so TLS handshakes for its names fail",
    );
    until_metrics(0, 2);
}

/// Without the configuration file, every key would have its default, and the server would answer for names without a certificate.
#[test]
fn a_configuration_that_was_removed_is_no_reload() {
    let server = Server::start();
    let own = server.data().join("enfilade.toml");
    std::fs::write(&own, "[tls]\nstrict_sni = true\n").unwrap();
    let shown = || crate::certificates::shown(&server.address, Some("unknown.example"), &[]);
    signal("HUP", server.pid());
    wait_until(SOON, "the names are strict", || shown() == "alert 112");
    std::fs::remove_file(&own).unwrap();
    signal("HUP", server.pid());
    let missing = format!("reload failed, nothing changed: configuration `{}` is missing", own.display());
    wait_until(SOON, "the missing file is told", || server.log().contains(&missing));
    assert_eq!(shown(), "alert 112");
    assert!(has_metric(&server, "enfilade_reload_failed 1"));
    is_missed(&server);
    std::fs::write(&own, "").unwrap();
    signal("HUP", server.pid());
    wait_until(SOON, "an empty file is a decision", || shown() != "alert 112");
}

/// Checks that the next start is refused, and that every command is refused that could change the facts with the default settings. Commands for a
/// repair must work.
fn is_missed(server: &Server) {
    let started = serving(&server.data(), &[]).output().unwrap();
    let refused =
        [&["config", "check"][..], &["doctor"], &["user", "list"], &["group", "add", "late"], &["init"]];
    let refused = refused.map(|command| server.cli_output(command, ""));
    for output in refused.into_iter().chain([started]) {
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        let is_told = said.contains("enfilade.toml` is missing, but existed before. ");
        assert!(!output.status.success() && is_told && said.contains("(`touch '"), "{said}");
    }
    assert_eq!(server.cli(&["facts", "check"])[0]["sound"], true);
    server.cli(&["certs", "list"]);
    let dump = server.cli_output(&["facts", "dump"], "");
    assert!(dump.status.success() && !String::from_utf8(dump.stdout).unwrap().contains("late"));
}

/// Without the configuration file that the first start wrote, a start would use the default of every key without a message.
#[test]
fn a_start_without_the_configuration_that_was_there_is_refused() {
    let mut server = Server::start();
    let own = server.data().join("enfilade.toml");
    // A reload reports that the file is missing, because this server has written the file.
    std::fs::remove_file(&own).unwrap();
    signal("HUP", server.pid());
    let missing = format!("reload failed, nothing changed: configuration `{}` is missing", own.display());
    wait_until(SOON, "the missing file is told", || server.log().contains(&missing));
    server.stop();
    is_missed(&server);
    // An empty file is accepted, because it exists.
    std::fs::write(&own, "").unwrap();
    server.cli(&["config", "check"]);
    assert_eq!(server.cli(&["user", "list"]).len(), 1);
    server.kill_and_restart();
}

/// Renewal programs write the file to which a link points, and operators move whole directories.
#[test]
fn changes_behind_links_and_of_the_whole_directory_are_noticed() {
    let scratch = Scratch::new();
    let [tls, outside, away] = ["tls", "outside", "away"].map(|name| scratch.path().join(name));
    std::fs::create_dir(&tls).unwrap();
    std::fs::create_dir(&outside).unwrap();
    let write = |name: &str| {
        let new = outside.join("new");
        std::fs::write(&new, bundle(name, &["a.example"], &ecdsa())).unwrap();
        std::fs::rename(new, outside.join("a.pem")).unwrap();
    };
    write("old");
    std::os::unix::fs::symlink("../outside/a.pem", tls.join("a.pem")).unwrap();
    let server = Server::start_with(&[("ENFILADE_TLS__CERTIFICATES", tls.to_str().unwrap())]);
    let shown = || crate::certificates::shown(&server.address, Some("a.example"), &[]);
    assert_eq!(shown(), "old");
    write("renewed");
    until("the renewed certificate", &server, || shown() == "renewed");
    let until_metric =
        |sample: &str| until(sample, &server, || has_metric(&server, &format!("enfilade_{sample}")));
    // The log names entries that are not files, even if they appear while the server runs.
    std::os::unix::fs::symlink("/nowhere", tls.join("gone.pem")).unwrap();
    assert!(Command::new("mkfifo").arg(tls.join("pipe.pem")).status().unwrap().success());
    for told in ["gone.pem` is left out: No such file", "pipe.pem` is left out: it is not a regular file"] {
        until(told, &server, || server.log().contains(told));
    }
    until_metric("certificates_bad 2");
    std::fs::remove_file(tls.join("gone.pem")).unwrap();
    std::fs::remove_file(tls.join("pipe.pem")).unwrap();
    until_metric("certificates_bad 0");
    // The key of the new certificate is not in memory when the directory is moved away.
    std::fs::write(tls.join("b.pem"), bundle("b", &["b.example"], &ecdsa())).unwrap();
    until("the new certificate", &server, || server.log().contains("2 certificates are served from now on"));
    assert_eq!(shown(), "renewed");
    std::fs::rename(&tls, &away).unwrap();
    until_metric("reload_failed 1");
    let told = format!(
        "cannot read the key of {}: TLS handshakes with these certificates fail",
        tls.join("b.pem").display()
    );
    until(&told, &server, || server.log().contains(&told));
    assert_eq!(shown(), "renewed");
    std::fs::rename(&away, &tls).unwrap();
    until_metric("reload_failed 0");
}

/// A service manager may read standard output and standard error as one stream. Each line of this stream is JSON.
#[test]
fn every_line_is_json_where_output_and_log_are_one_stream() {
    let scratch = Scratch::new();
    let log = scratch.path().join("journal");
    let stream = std::fs::File::create(&log).unwrap();
    let data = scratch.path().join("data");
    let serve = || {
        let mut command = Command::new(BINARY);
        command.arg("--data").arg(&data).args([
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--ops-listen",
            "127.0.0.1:0",
        ]);
        let out = (stream.try_clone().unwrap(), stream.try_clone().unwrap());
        command.stdout(out.0).stderr(out.1).spawn().unwrap()
    };
    let text = || std::fs::read_to_string(&log).unwrap();
    // The first server of a new data directory reports no missing file.
    let init = Command::new(BINARY).arg("--data").arg(&data).arg("init").output().unwrap();
    assert!(init.status.success(), "{init:?}");
    for start in 1..=2 {
        let mut child = serve();
        wait_until(SOON, "the start is told", || {
            text().matches("\"message\":\"operations  http://").count() == start
        });
        child.kill().unwrap();
        child.wait().unwrap();
    }
    for line in text().lines() {
        assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "{line}");
    }
    assert!(text().contains("\"message\":\"enfilade ") && !text().contains("session tickets"), "{}", text());
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
    server.configure(configuration);
    signal("HUP", server.pid());
    let named =
        "restart the server to apply these changed configuration keys: `tls.listen`, `identity.penalties`\"";
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
