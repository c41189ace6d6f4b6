//! The limits that a server sets itself by means of the kernel: a library in the running server (`crates/testkit/preload`) tries forbidden actions.

use crate::command::preload;
use crate::curl::{command, curl};
use crate::server::{CLOSED, Scratch, Server, until, wait_until};
use serde_json::Value;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

const EPERM: &str = "1";
const EACCES: &str = "13";
const ENOSYS: &str = "38";

/// A server in which a test can try actions.
struct Tried {
    server: Server,
    /// The parent directory of the data directory. The server has no access to it.
    outside: std::path::PathBuf,
}

impl Tried {
    fn start(environment: &[(&str, &str)]) -> Self {
        let scratch = Scratch::new();
        let outside = scratch.path().to_owned();
        std::fs::write(outside.join("secret"), "of others").unwrap();
        let attempts = outside.join("data/attempts");
        let mut all =
            vec![("LD_PRELOAD", preload().to_str().unwrap()), ("ATTEMPTS", attempts.to_str().unwrap())];
        all.push(CLOSED);
        all.extend(environment);
        let server = Server::start_in(scratch, &all);
        Tried { server, outside }
    }

    fn ask(&self, attempts: &[&str]) {
        let file = self.outside.join("data/attempts");
        std::fs::write(file.with_extension("new"), attempts.join("\n")).unwrap();
        std::fs::rename(file.with_extension("new"), &file).unwrap();
        // If the attempt ends the server, the request gets no answer.
        let _ = command(&self.server, "").arg(self.server.url("/")).output().unwrap();
    }

    /// The results of attempts: `ok`, or the number of an error.
    fn results(&self, attempts: &[&str]) -> Vec<String> {
        self.ask(attempts);
        let done = self.outside.join("data/attempts.done");
        wait_until(Duration::from_secs(30), "the attempts", || done.exists());
        let text = std::fs::read_to_string(&done).unwrap();
        std::fs::remove_file(&done).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    fn path(&self, name: &str) -> String {
        self.outside.join(name).to_str().unwrap().to_owned()
    }

    fn states(&self) -> Vec<(String, String)> {
        let text = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
        let rows = self.server.cli_output(&["doctor"], "").stdout;
        let rows = String::from_utf8(rows).unwrap();
        let rows = rows.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        rows.filter(|row| ["landlock", "seccomp"].contains(&row["what"].as_str().unwrap()))
            .map(|row| (text(&row, "what"), text(&row, "state")))
            .collect()
    }
}

fn metrics(server: &Server) -> String {
    let output = Command::new("curl").args(["-s", &format!("http://{}/metrics", server.operations)]).output();
    String::from_utf8(output.unwrap().stdout).unwrap()
}

/// Whether a server reports that the kernel has Landlock.
fn has_landlock() -> bool {
    static ANSWER: LazyLock<bool> =
        LazyLock::new(|| metrics(&Server::start()).contains("enfilade_confined{limit=\"landlock\"} 1"));
    *ANSWER
}

#[test]
fn a_server_opens_only_its_own_files_and_ports() {
    if !has_landlock() {
        return println!("not asserted: this kernel has no Landlock");
    }
    let tried = Tried::start(&[]);
    let (secret, new, own) = (tried.path("secret"), tried.path("new"), tried.path("data/own"));
    let test = std::process::id().to_string();
    let operations = tried.server.operations.rsplit(':').next().unwrap().to_owned();
    let attempts: [(&str, &str, &str); 12] = [
        ("read", &secret, EACCES),
        ("write", &new, EACCES),
        ("remove", &secret, EACCES),
        ("read", "/root", EACCES),
        ("read", "/var/log/dpkg.log", EACCES),
        ("write", "/etc/enfilade-was-here", EACCES),
        ("bind", "65000", EACCES),
        ("connect", &operations, EACCES),
        ("signal", &test, EPERM),
        ("read", "/etc/hosts", "ok"),
        ("write", &own, "ok"),
        ("remove", &own, "ok"),
    ];
    let lines: Vec<String> = attempts.iter().map(|(what, on, _)| format!("{what} {on}")).collect();
    let found = tried.results(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    let expected: Vec<&str> = attempts.iter().map(|(_, _, result)| *result).collect();
    assert_eq!(found, expected, "{lines:?}");
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "of others");
    // The server still serves, and reports that it is confined.
    let ok = ["landlock", "seccomp"].map(|what| (what.to_owned(), "ok".to_owned()));
    assert_eq!(tried.states(), ok);
    let metrics = metrics(&tried.server);
    for limit in ["landlock", "seccomp"] {
        assert!(metrics.contains(&format!("enfilade_confined{{limit=\"{limit}\"}} 1")), "{metrics}");
    }
}

#[test]
fn a_server_makes_only_the_system_calls_that_it_needs() {
    let tried = Tried::start(&[]);
    let attempts = [
        ("writable-code", ENOSYS),
        ("code-later", ENOSYS),
        ("fork", ENOSYS),
        ("terminal", ENOSYS),
        ("socket 16", ENOSYS),
        // The number is the address family: 16 is netlink, and 2 is IPv4.
        ("socket 2", "ok"),
        // Sockets of TCP are allowed. Sockets of MPTCP, SCTP and SMC, and TCP Fast Open, are not allowed, because Landlock does not check their
        // ports.
        ("stream 6", "ok"),
        ("stream 262", ENOSYS),
        ("stream 132", ENOSYS),
        ("stream 256", ENOSYS),
        ("fast-open 9", ENOSYS),
        // Call 425 is io_uring_setup, and call 435 is clone3.
        ("call 425", ENOSYS),
        ("call 435", ENOSYS),
    ];
    let lines: Vec<&str> = attempts.iter().map(|(line, _)| *line).collect();
    let expected: Vec<&str> = attempts.iter().map(|(_, result)| *result).collect();
    assert_eq!(tried.results(&lines), expected, "{lines:?}");
    // Every thread has both filters and `no_new_privs`.
    let tasks = Path::new("/proc").join(tried.server.pid().to_string()).join("task");
    for task in std::fs::read_dir(tasks).unwrap().flatten() {
        let Ok(status) = std::fs::read_to_string(task.path().join("status")) else { continue };
        for line in ["NoNewPrivs:\t1", "Seccomp:\t2", "Seccomp_filters:\t2"] {
            assert!(status.contains(line), "{line}: {status}");
        }
    }
}

#[test]
fn a_call_of_an_attacker_ends_the_server() {
    // `run` is execve(2). The other numbers are the numbers of fsopen (430), open_tree (428) and move_mount (429), which are the same on every
    // architecture.
    for attempt in ["run /bin/true", "call 430", "call 428", "call 429"] {
        let mut tried = Tried::start(&[]);
        tried.ask(&[attempt]);
        let ended = tried.server.wait();
        // Signal 31 is SIGSYS.
        assert_eq!(ended.signal(), Some(31), "{attempt}: {ended:?}");
    }
}

#[test]
fn each_limit_can_be_switched_off() {
    let off = [("ENFILADE_PRIVILEGES__LANDLOCK", "false"), ("ENFILADE_PRIVILEGES__SECCOMP", "false")];
    let tried = Tried::start(&off);
    let secret = format!("read {}", tried.path("secret"));
    assert_eq!(tried.results(&[&secret, "socket 16", "fork"]), ["ok", "ok", "ok"]);
    let warning = ["landlock", "seccomp"].map(|what| (what.to_owned(), "warning".to_owned()));
    assert_eq!(tried.states(), warning);
}

#[test]
fn a_datastore_outside_of_the_known_directories_waits_for_a_restart() {
    if !has_landlock() {
        return println!("not asserted: this kernel has no Landlock");
    }
    let (scratch, place) = (Scratch::new(), Scratch::new());
    let mut server = Server::start_in(scratch, &[CLOSED]);
    let (known, late) = (server.data().join("datastores/late"), place.path().join("late"));
    let create = |name: &str, path: &Path| {
        let output = server.cli_output(&["datastore", "create", name, "--path", path.to_str().unwrap()], "");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(create("within", &known), "");
    let said = create("late", &late);
    assert!(said.contains("restart the server") && said.contains("late"), "{said}");
    let login = server.add_user("ann", "DatastoreAdmin");
    for store in ["within", "late"] {
        server.cli(&[
            "role",
            "assign",
            "--path",
            &format!("/datastore/{store}"),
            "--auth-id",
            "ann@local",
            "DatastoreAdmin",
        ]);
    }
    let status = |server: &Server, store: &str| {
        curl(server, &login, &format!("/dav/{store}/a"), &["-T", "/etc/hosts"]).status
    };
    assert_eq!(status(&server, "within"), 201);
    assert_eq!(status(&server, "late"), 503);
    until("the log says why", &server, || server.log().contains("CT28"));
    let doctor = String::from_utf8(server.cli_output(&["doctor"], "").stdout).unwrap();
    let explained = server.cli_output(&["explain", "ann@local", "late", "/"], "");
    assert!(String::from_utf8_lossy(&explained.stdout).contains("CT28"), "{explained:?}");
    let row = doctor.lines().find(|line| line.contains("\"datastore late\"")).unwrap().to_owned();
    assert!(row.contains("restart the server") && row.contains("\"error\""), "{row}");
    server.stop();
    server.start_again_with(&[CLOSED]);
    assert_eq!(status(&server, "late"), 201);
    let doctor = String::from_utf8(server.cli_output(&["doctor"], "").stdout).unwrap();
    assert!(!doctor.contains("restart the server"), "{doctor}");
}

#[test]
fn a_reload_with_a_directory_that_the_server_cannot_read_changes_nothing() {
    if !has_landlock() {
        return println!("not asserted: this kernel has no Landlock");
    }
    let (scratch, place) = (Scratch::new(), Scratch::new());
    let server = Server::start_in(scratch, &[CLOSED]);
    std::fs::copy(server.data().join("tls/localhost.pem"), place.path().join("localhost.pem")).unwrap();
    let config = format!("[tls]\ncertificates = \"{}\"\n", place.path().display());
    std::fs::write(server.data().join("enfilade.toml"), config).unwrap();
    crate::signals::signal("HUP", server.pid());
    until("the reload is refused", &server, || server.log().contains("reload failed"));
    assert!(server.log().contains("restart the server"), "{}", server.log());
}
