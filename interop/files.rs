//! The files that people edit, with several servers, the command line and an editor at the same time.

use crate::curl::{command, curl};
use crate::server::{BINARY, Server, WITHOUT_PENALTIES};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn start() -> Server {
    Server::start_with(&[WITHOUT_PENALTIES])
}

/// On a slow machine, a promised time may be exceeded by this factor.
const SLACK: u32 = 20;
/// The beginning of the hash that `openssl passwd -5` prints for `correct horse`.
const HASH: &str = "$5$rounds=1000$abcdefgh$";

fn write(server: &Server, name: &str, text: &str) {
    // Writes a new file and renames it, like an editor.
    let path = server.data().join(name);
    let new = path.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(&new, &path).unwrap();
}

fn read_file(server: &Server, name: &str) -> String {
    std::fs::read_to_string(server.data().join(name)).unwrap()
}

/// Waits until `is_so` returns true, at most `seconds` times [`SLACK`]. Returns the elapsed time.
fn within(seconds: u32, what: &str, server: &Server, mut is_so: impl FnMut() -> bool) -> Duration {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(seconds.into()) * SLACK, "{what}: {}", server.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    began.elapsed()
}

/// The hash of a secret, made by OpenSSL.
fn hashed(secret: &str) -> String {
    let output =
        Command::new("openssl").args(["passwd", "-5", "-salt", "abcdefgh", secret]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Writes `user.cfg`, `acl.cfg` and `token.shadow` as on a Proxmox server: ann may write, her token may read. Returns the login of the token.
fn from_proxmox(server: &Server) -> String {
    write(server, "user.cfg", "user: ann@pbs\n\tcomment Ann\n\ntoken: ann@pbs!backup\n\n");
    write(server, "token.shadow", &format!("{{\"ann@pbs!backup\":\"{}\"}}", hashed("one secret")));
    write(
        server,
        "acl.cfg",
        "acl:1:/datastore/main:ann@pbs:DatastorePowerUser\nacl:1:/datastore/main:ann@pbs!backup:DatastoreReader\n",
    );
    "ann@pbs!backup:one secret".to_owned()
}

fn whoami(server: &Server, login: &str) -> u16 {
    curl(server, login, "/whoami", &[]).status
}

/// If a file is missing, a change of the file is refused, because the change would write a file that contains only the new record.
#[test]
fn a_missing_file_is_not_written_anew() {
    let server = start();
    let login = from_proxmox(&server);
    within(1, "the files are there", &server, || whoami(&server, &login) == 200);
    for (name, change) in [
        ("user.cfg", "user add carl@pbs"),
        ("acl.cfg", "role assign --path /datastore/main --auth-id ann@pbs Audit"),
        ("datastore.cfg", "datastore create other --path /nonexistent/other"),
    ] {
        let (path, aside) = (server.data().join(name), server.data().join("aside"));
        std::fs::rename(&path, &aside).unwrap();
        let output = server.cli_output(&change.split(' ').collect::<Vec<_>>(), "");
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && why.contains("is missing, and the server has records"), "{why}");
        assert!(!path.exists(), "{name}");
        std::fs::rename(&aside, &path).unwrap();
    }
    assert_eq!(curl(&server, &login, "/dav/main/", &["--request", "PROPFIND"]).status, 207);
}

/// A refused command changes no file, although files are usually changed before the facts.
#[test]
fn the_last_administrator_stays_in_the_files() {
    let server = start();
    write(&server, "user.cfg", "user: ann@pbs\n\n");
    write(&server, "acl.cfg", "acl:1:/:ann@pbs:Admin\nacl:1:/datastore/main:ann@pbs:Audit\n");
    let passwd = ["user", "passwd", "ann@pbs", "--password-stdin"];
    within(1, "ann is there", &server, || {
        server.cli_output(&passwd, "a long enough password\n").status.success()
    });
    within(1, "ann may administer", &server, || {
        server.cli_output(&["user", "disable", "admin@local"], "").status.success()
    });
    let files = || ["user.cfg", "acl.cfg"].map(|name| read_file(&server, name));
    let before = files();
    for line in [
        "user disable ann@pbs",
        "user set ann@pbs --expires 2020-01-01 --uid 7",
        "user remove ann@pbs",
        "role remove --path / --auth-id ann@pbs Admin",
        "role assign --path /access --auth-id ann@pbs NoAccess",
    ] {
        let output = server.cli_output(&line.split(' ').collect::<Vec<_>>(), "");
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && why.contains("nothing was changed: no user who can log in"),
            "{why}"
        );
    }
    assert_eq!(files(), before);
    let ann = server.cli(&["user", "list"]).into_iter().find(|row| row["user"] == "ann@pbs").unwrap();
    assert!(ann["uid"].is_null() && ann["enabled"] == true, "{ann}");
    server.cli(&["user", "disable", "ann@pbs", "--force"]);
    assert!(read_file(&server, "user.cfg").contains("enable false"));
}

#[test]
fn a_house_that_came_from_proxmox_is_served_as_its_files_say() {
    let server = start();
    let login = from_proxmox(&server);
    let taken = within(1, "the files are there", &server, || whoami(&server, &login) == 200);
    println!("files: a new token came in after {taken:?}");
    std::fs::write(server.data().join("datastores/main/plan.txt"), "x").unwrap();
    assert_eq!(curl(&server, &login, "/dav/main/plan.txt", &[]).status, 200);
    assert_eq!(curl(&server, &login, "/dav/main/new.txt", &["--upload-file", "/etc/hostname"]).status, 403);
    // A token that the command line creates is written to the files, and a parser with the rules of Proxmox reads it.
    let made = server.cli(&["token", "create", "ann@pbs!second", "--comment", "made here"]);
    let second = format!("ann@pbs!second:{}", made[0]["value"].as_str().unwrap());
    let read = |name: &str| std::fs::read_to_string(server.data().join(name)).unwrap();
    assert_eq!(
        read("user.cfg"),
        "user: ann@pbs\n\tcomment Ann\n\ntoken: ann@pbs!backup\n\ntoken: ann@pbs!second\n\tcomment made here\n\n"
    );
    let shadow: serde_json::Value = serde_json::from_str(&read("token.shadow")).unwrap();
    assert!(shadow["ann@pbs!second"].as_str().unwrap().starts_with(HASH.get(..15).unwrap()));
    // The new token has no separate role yet.
    assert_eq!(
        (whoami(&server, &second), curl(&server, &second, "/dav/main/plan.txt", &[]).status),
        (200, 404)
    );
    let assign =
        ["role", "assign", "--path", "/datastore/main", "--auth-id", "ann@pbs!second", "DatastoreBackup"];
    server.cli(&assign);
    assert_eq!(
        read("acl.cfg"),
        "acl:1:/datastore/main:ann@pbs:DatastorePowerUser\n\
         acl:1:/datastore/main:ann@pbs!backup:DatastoreReader\n\
         acl:1:/datastore/main:ann@pbs!second:DatastoreBackup\n"
    );
    assert_eq!(curl(&server, &second, "/dav/main/plan.txt", &[]).status, 200);
    let new = server.cli(&["token", "regenerate", "ann@pbs!second", "--grace", "1h"]);
    let renewed = format!("ann@pbs!second:{}", new[0]["value"].as_str().unwrap());
    assert_eq!((whoami(&server, &second), whoami(&server, &renewed)), (200, 200));
    server.cli(&["token", "set", "ann@pbs!second", "--end-grace"]);
    assert_eq!((whoami(&server, &second), whoami(&server, &renewed)), (401, 200));
    server.cli(&["user", "disable", "ann@pbs"]);
    assert!(read("user.cfg").contains("user: ann@pbs\n\tcomment Ann\n\tenable false\n\n"));
    assert_eq!((whoami(&server, &login), whoami(&server, &renewed)), (401, 401));
    server.cli(&["user", "enable", "ann@pbs"]);
    server.cli(&["token", "delete", "ann@pbs!second"]);
    assert_eq!((whoami(&server, &login), whoami(&server, &renewed)), (200, 401));
    assert!(!["user.cfg", "token.shadow", "acl.cfg"].iter().any(|name| read(name).contains("second")));
    server.cli(&["user", "add", "bob@pbs"]);
    assert!(read("user.cfg").ends_with("user: bob@pbs\n\n"));
    // The change log names the author.
    let log = server.cli(&["facts", "log"]);
    let what = |entry: &serde_json::Value| entry["what"].as_str().unwrap_or_default().to_owned();
    assert!(
        log.iter().any(|entry| what(entry) == "user add bob@pbs" && entry["who"] != "user.cfg"),
        "{log:?}"
    );
    assert!(log.iter().any(|entry| what(entry).starts_with("mirror ")), "{log:?}");
}

#[test]
fn a_token_taken_out_by_hand_is_refused_within_a_second() {
    let server = start();
    let login = from_proxmox(&server);
    within(1, "the token is there", &server, || whoami(&server, &login) == 200);
    let taken = |how: &str| {
        let took = within(1, how, &server, || whoami(&server, &login) == 401);
        println!("files: {how}: refused after {took:?}");
    };
    write(&server, "token.shadow", "{}");
    taken("its hash is gone");
    from_proxmox(&server);
    within(1, "it is back", &server, || whoami(&server, &login) == 200);
    // Changes the file in place, with the same length, and sets its modification time back.
    let path = server.data().join("token.shadow");
    let text = std::fs::read_to_string(&path).unwrap();
    let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
    std::fs::write(&path, text.replace("!backup", "!bakcup")).unwrap();
    File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
    taken("another name of the same length, with its time put back");
    from_proxmox(&server);
    within(1, "it is back", &server, || whoami(&server, &login) == 200);
    write(&server, "user.cfg", "user: ann@pbs\n\n");
    taken("its section is missing");
}

#[test]
fn one_broken_file_is_told_everywhere_and_the_others_work() {
    let server = start();
    let login = from_proxmox(&server);
    within(1, "the token is there", &server, || whoami(&server, &login) == 200);
    let cfg = std::fs::read_to_string(server.data().join("datastore.cfg")).unwrap();
    write(&server, "datastore.cfg", &format!("{cfg}datastore: other\n\tpth /x\n"));
    let metrics = || {
        let metrics =
            Command::new("curl").args(["-s", &format!("http://{}/metrics", server.operations)]).output();
        String::from_utf8(metrics.unwrap().stdout).unwrap()
    };
    within(1, "the metrics tell", &server, || {
        metrics().contains("enfilade_file_problems{file=\"datastore.cfg\"} 1")
    });
    let line = "enfilade_file_problem{file=\"datastore.cfg\",line=\"5\",reason=\"unknown property …\"} 1";
    assert!(metrics().contains(line), "{}", metrics());
    assert!(metrics().contains("enfilade_file_problems{file=\"user.cfg\"} 0"), "{}", metrics());
    assert!(metrics().contains("enfilade_file_refuses{file=\"datastore.cfg\"} 0"), "{}", metrics());
    let wrong = "datastore.cfg: line 5: unknown property 'pth'";
    within(1, "the log tells", &server, || server.log().contains(wrong));
    let doctor = server.cli_output(&["doctor"], "");
    let doctor = String::from_utf8(doctor.stdout).unwrap();
    assert!(
        doctor.contains("line 5: unknown property 'pth'") && doctor.contains("last valid at revision"),
        "{doctor}"
    );
    assert_eq!(curl(&server, &login, "/dav/main/", &["-X", "PROPFIND", "-H", "Depth: 0"]).status, 207);
    // An unusable hash is reported, and only the token with this hash is refused.
    let weak = read_file(&server, "token.shadow").replace('}', ",\"ann@pbs!weak\":\"$1$x$y\"}");
    write(&server, "token.shadow", &weak);
    write(&server, "user.cfg", &(read_file(&server, "user.cfg") + "token: ann@pbs!weak\n\n"));
    let doctor = String::from_utf8(server.cli_output(&["doctor"], "").stdout).unwrap();
    assert!(doctor.contains("token ann@pbs!weak") && doctor.contains("unknown scheme"), "{doctor}");
    assert_eq!((whoami(&server, &login), whoami(&server, "ann@pbs!weak:x")), (200, 401));
}

#[test]
fn an_editor_that_takes_the_lock_never_loses_an_update() {
    let server = start();
    from_proxmox(&server);
    within(1, "the files are there", &server, || server.cli(&["user", "list"]).len() == 3);
    const EACH: usize = 12;
    // A script edits the file while it holds the lock, with `flock` of util-linux.
    let script = "for n in $(seq 12); do flock .user.lck sh -c '\
                  cp user.cfg user.tmp && sleep 0.02 && printf \"user: e%s@pbs\\n\\n\" '$n' >> user.tmp && mv user.tmp user.cfg'; done";
    let mut editor = Command::new("sh").args(["-c", script]).current_dir(server.data()).spawn().unwrap();
    for n in 0..EACH {
        server.cli(&["user", "add", &format!("c{n}@pbs")]);
    }
    assert!(editor.wait().unwrap().success());
    let text = std::fs::read_to_string(server.data().join("user.cfg")).unwrap();
    for n in 0..EACH {
        assert!(text.contains(&format!("user: c{n}@pbs\n")), "c{n}\n{text}");
        assert!(text.contains(&format!("user: e{}@pbs\n", n + 1)), "e{}\n{text}", n + 1);
    }
    // The users are ann, the two administrators, and all added users.
    within(1, "the facts follow", &server, || server.cli(&["user", "list"]).len() == 3 + 2 * EACH);
}

/// Another server with the same data directory, and its address.
struct Second(Child, String);

impl Second {
    fn start(data: &Path, log: &Path) -> Self {
        let log = File::options().create(true).append(true).open(log).unwrap();
        let mut child = Command::new(BINARY)
            .args(["--json", "--data"])
            .arg(data)
            .args(["serve", "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0"])
            .envs([WITHOUT_PENALTIES, ("ENFILADE_FACTS__STALE_LIMIT", "10")])
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line)
            .unwrap();
        let told: serde_json::Value = serde_json::from_str(&line).unwrap();
        Second(child, told["listen"].as_str().unwrap().to_owned())
    }

    fn whoami(&self, server: &Server, login: &str) -> u16 {
        let mut curl = command(server, login);
        curl.args(["--output", "/dev/null", "--write-out", "%{http_code}"]);
        let output = curl.arg(format!("https://{}/whoami", self.1)).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().parse().unwrap_or(0)
    }
}

impl Drop for Second {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), signal).unwrap();
}

#[test]
fn another_looks_when_the_one_that_looked_is_stopped() {
    let server = start();
    let login = from_proxmox(&server);
    within(1, "the token is there", &server, || whoami(&server, &login) == 200);
    let second = Second::start(&server.data(), &server.data().with_extension("second.log"));
    assert_eq!(second.whoami(&server, &login), 200);
    let mut stopped = Instant::now();
    signal(server.pid(), Signal::STOP);
    write(&server, "token.shadow", "{}");
    within(5, "the other looks", &server, || {
        if stopped.elapsed() > Duration::from_secs(6) {
            // If the process was stopped in the middle of a commit, it holds the write lock of the store. In this case, the process is continued, and
            // stopped again at another moment.
            signal(server.pid(), Signal::CONT);
            std::thread::sleep(Duration::from_millis(100));
            signal(server.pid(), Signal::STOP);
            stopped = Instant::now();
        }
        second.whoami(&server, &login) == 401
    });
    println!("files: the second server read the files {:?} after the first was stopped", stopped.elapsed());
    from_proxmox(&server);
    within(5, "the second server still reads the files", &server, || second.whoami(&server, &login) == 200);
    write(&server, "token.shadow", "{}");
    within(5, "the second server still reads the files", &server, || second.whoami(&server, &login) == 401);
    // The resumed process does not write its old state.
    signal(server.pid(), Signal::CONT);
    for _ in 0..20 {
        assert_eq!((whoami(&server, &login), second.whoami(&server, &login)), (401, 401));
        std::thread::sleep(Duration::from_millis(50));
    }
    // When the second server ends, the first server reads the files again.
    drop(second);
    from_proxmox(&server);
    within(5, "the first looks again", &server, || whoami(&server, &login) == 200);
}

#[test]
fn what_nobody_is_able_to_look_at_refuses_after_the_stale_limit() {
    let server = start();
    let login = from_proxmox(&server);
    within(1, "the token is there", &server, || whoami(&server, &login) == 200);
    let second = Second::start(&server.data(), &server.data().with_extension("second.log"));
    assert_eq!(second.whoami(&server, &login), 200);
    let admin = format!("admin@local:{}", server.password);
    assert_eq!(second.whoami(&server, &admin), 200);
    // The record about `acl.cfg` on the disk is damaged, so no server can compare the files with the facts.
    let dump = server.cli(&["facts", "dump"]);
    let row = dump.iter().find(|row| row["key"] == "acl.cfg").unwrap();
    let digest = row["row"]["digest"].as_str().unwrap();
    let digest: Vec<u8> =
        (0..16).map(|n| u8::from_str_radix(&digest[2 * n..2 * n + 2], 16).unwrap()).collect();
    let path = server.data().join("facts/data.mdb");
    let bytes = std::fs::read(&path).unwrap();
    let places: Vec<usize> = (0..bytes.len() - 16).filter(|at| bytes[*at..at + 16] == digest).collect();
    assert!(!places.is_empty());
    let file = File::options().write(true).open(&path).unwrap();
    for at in places {
        std::os::unix::fs::FileExt::write_all_at(&file, &[bytes[at] ^ 1], at as u64).unwrap();
    }
    file.sync_all().unwrap();
    let took = within(12, "it refuses", &server, || second.whoami(&server, &login) == 503);
    println!("files: mirrored records were refused after {took:?}; the limit is 10 s");
    // Records that are not in edited files are not affected.
    assert_eq!(second.whoami(&server, &admin), 200);
    let mut log = String::new();
    within(2, "the log says so", &server, || {
        log = std::fs::read_to_string(server.data().with_extension("second.log")).unwrap();
        log.contains("no server has been able to read the files") && log.contains("\"ID14\"")
    });
}

#[test]
fn what_a_dump_says_of_files_is_compared_with_them_again() {
    let server = start();
    let login = from_proxmox(&server);
    within(1, "the token is there", &server, || whoami(&server, &login) == 200);
    // The dump contains no secrets, so the hashes after its import are unusable. The files have not changed, but the server must read them again.
    let dump = server.scratch.path().join("dump");
    let dump = dump.to_str().unwrap();
    server.cli(&["facts", "dump", dump]);
    server.cli(&["facts", "load", dump, "--force"]);
    within(2, "the hash is the file's again", &server, || whoami(&server, &login) == 200);
}
