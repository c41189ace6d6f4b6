//! A full disk: a server that starts reports the full disk, a running server continues to answer, and rights can be removed.

use crate::curl::{PROPFIND_0, PROPFIND_1, curl};
use crate::server::{BINARY, Server, WITHOUT_PENALTIES, first_line};
use enfilade_testkit::Scratch;
use serde_json::Value;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// Checks that all mapped files have allocated blocks. If the disk is full, a write to a page without a block would end the process.
#[test]
fn every_file_that_is_mapped_for_writing_has_its_place_on_the_disk() {
    let server = Server::start();
    let login = server.add_user("alice", "DatastoreReader");
    assert_eq!(curl(&server, &login, "/dav/main/", &PROPFIND_1).status, 207);
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", server.pid())).unwrap();
    // The fields of a line are addresses, permissions, offset, device, inode and path (proc(5)); the permission `s` means that the map is shared with
    // the file.
    let mapped = maps.lines().filter_map(|line| {
        let path = line.find('/').map(|at| Path::new(&line[at..]))?;
        (line.split_whitespace().nth(1) == Some("rw-s")).then_some(path)
    });
    let mut names = Vec::new();
    for path in mapped {
        let meta = std::fs::metadata(path).unwrap();
        assert!(
            meta.len() <= meta.blocks() * 512,
            "{}: {} bytes, {} of them on the disk",
            path.display(),
            meta.len(),
            meta.blocks() * 512
        );
        names.push(path.strip_prefix(server.data()).unwrap().to_str().unwrap().to_owned());
    }
    names.sort();
    let expected =
        ["attempts", "facts/high-water", "facts/lock.mdb", "facts/lookout", "locks/lock.mdb", "operations/0"];
    assert_eq!(names, expected);
}

/// Starts a server on a file system of this many MiB, which only the server and its child processes see. Returns `None` if the machine does not allow
/// this.
fn on_small_disk(scratch: &Scratch, mebibytes: u32) -> Option<(Child, String)> {
    let is_allowed =
        |program: &mut Command| program.stderr(Stdio::null()).status().is_ok_and(|s| s.success());
    if !is_allowed(Command::new("unshare").args(["-rm", "mount", "-t", "tmpfs", "none", "/mnt"])) {
        return None;
    }
    let data = scratch.path().join("data");
    std::fs::create_dir_all(&data).unwrap();
    let serve = format!(
        "mount -t tmpfs -o size={mebibytes}m none '{data}' && exec '{BINARY}' --json --data '{data}' serve --listen 127.0.0.1:0 \
         --ops-listen 127.0.0.1:0",
        data = data.display()
    );
    let log = std::fs::File::create(scratch.path().join("log")).unwrap();
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", &serve]).stderr(log);
    command.envs([("ENFILADE_TLS__PLAIN_LISTEN", "127.0.0.1:0"), WITHOUT_PENALTIES]);
    Some(first_line(&mut command))
}

#[test]
fn a_server_on_a_full_disk_goes_on_answering() {
    let scratch = Scratch::new();
    let Some((mut child, line)) = on_small_disk(&scratch, 256) else {
        println!("not asserted: a test may not mount a file system on this machine");
        return;
    };
    let log = || std::fs::read_to_string(scratch.path().join("log")).unwrap();
    let told: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("did not start: {}", log()));
    // By this path, the test reaches the file system of the server.
    let data = format!("/proc/{}/root{}/data", child.id(), scratch.path().display());
    let filled = Command::new("dd")
        .args(["if=/dev/zero", "bs=4k", "status=none", &format!("of={data}/fill")])
        .stderr(Stdio::null())
        .status();
    assert!(!filled.unwrap().success(), "the test could not fill the disk");
    let login = format!("{}:{}", told["admin"].as_str().unwrap(), told["password"].as_str().unwrap());
    let url = format!("http://{}/dav/main/", told["plain_listen"].as_str().unwrap());
    let status = || {
        let output = Command::new("curl")
            .args(["--silent", "--max-time", "60", "--output", "/dev/null", "--write-out", "%{http_code}"])
            .args(PROPFIND_1)
            .args(["--user", &login, &url])
            .output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    // Sends several requests at the same time, because some threads of the server have not yet read the store.
    let many = || {
        std::thread::scope(|scope| {
            let all: Vec<_> = (0..16).map(|_| scope.spawn(status)).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect::<Vec<_>>()
        })
    };
    for _ in 0..3 {
        assert_eq!(many(), ["207"; 16], "{}", log());
    }
    assert!(child.try_wait().unwrap().is_none(), "{}", log());
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_server_that_finds_no_room_says_so_and_does_not_start() {
    // The ledger file of a server needs more than 8 MiB.
    for mebibytes in [1, 2, 4, 8] {
        let scratch = Scratch::new();
        let Some((mut child, line)) = on_small_disk(&scratch, mebibytes) else {
            println!("not asserted: a test may not mount a file system on this machine");
            return;
        };
        if !line.is_empty() {
            child.kill().unwrap();
        }
        let ended = child.wait().unwrap();
        let log = || std::fs::read_to_string(scratch.path().join("log")).unwrap();
        assert_eq!(line, "", "{mebibytes} MiB");
        assert_eq!(ended.code(), Some(1), "{mebibytes} MiB: {}", log());
        let said = log().to_lowercase();
        assert!(said.contains("no space left") || said.contains("disk is full"), "{mebibytes} MiB: {said}");
    }
}

/// A server on a separate file system, and its data directory.
struct OnSmallDisk {
    scratch: Scratch,
    child: Child,
    url: String,
}

impl OnSmallDisk {
    fn start(mebibytes: u32) -> Option<Self> {
        let scratch = Scratch::new();
        let (child, line) = on_small_disk(&scratch, mebibytes)?;
        let log = || std::fs::read_to_string(scratch.path().join("log")).unwrap();
        let told: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("did not start: {}", log()));
        let url = format!("http://{}/dav/main/", told["plain_listen"].as_str().unwrap());
        Some(OnSmallDisk { scratch, child, url })
    }

    /// Runs a command in the namespaces of the server, in which its file system is mounted.
    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("nsenter");
        command.arg(format!("--target={}", self.child.id()));
        command.args(["--user", "--mount", "--preserve-credentials", "--", BINARY, "--json", "--data"]);
        command.arg(self.scratch.path().join("data"));
        command.args(arguments).stdin(Stdio::null()).output().unwrap()
    }

    /// Runs a command that must succeed. Returns the first JSON value that it printed.
    fn done(&self, arguments: &[&str]) -> Value {
        let output = self.run(arguments);
        let why = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "enfilade {arguments:?}: {why}");
        let line = output.stdout.split(|byte| *byte == b'\n').next().unwrap_or_default();
        serde_json::from_slice(line).unwrap_or_default()
    }

    /// Creates a user with a token and a role on `main`. Returns the login of the token.
    fn add_user(&self, name: &str, role: &str) -> String {
        let user = format!("{name}@local");
        self.done(&["user", "add", &user]);
        self.done(&["role", "assign", "--path", "/datastore/main", "--auth-id", &user, role]);
        let made = self.done(&["token", "create", &format!("{user}!test")]);
        format!("{}:{}", made["tokenid"].as_str().unwrap(), made["value"].as_str().unwrap())
    }

    /// The status of a request.
    fn status(&self, login: &str, arguments: &[&str], name: &str) -> String {
        let mut command = Command::new("curl");
        command
            .args(["--silent", "--max-time", "60", "--output", "/dev/null", "--write-out", "%{http_code}"])
            .args(["--user", login])
            .args(arguments)
            .arg(format!("{}{name}", self.url));
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    }

    /// Uploads the files `0`, `1`, … until there is no space for another page.
    fn upload_until_full(&self, login: &str) {
        let body = self.scratch.path().join("body");
        let mut n = 0;
        for bytes in [16 << 20, 1 << 20, 64 << 10, 4 << 10] {
            std::fs::write(&body, vec![7; bytes]).unwrap();
            let put = |n: i32| self.status(login, &["-T", body.to_str().unwrap()], &n.to_string());
            while put(n) == "201" {
                n += 1;
            }
            assert_eq!(put(n), "507", "file {n} of {bytes} bytes");
        }
    }
}

impl Drop for OnSmallDisk {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn who_fills_the_disk_can_be_kept_out() {
    let Some(server) = OnSmallDisk::start(256) else {
        println!("not asserted: a test may not mount a file system on this machine");
        return;
    };
    let alice = server.add_user("alice", "DatastorePowerUser");
    let others: Vec<String> =
        (0..24).map(|n| server.add_user(&format!("other{n}"), "DatastoreReader")).collect();
    server.upload_until_full(&alice);
    // New users are accepted until they would use the disk reserve (`crates/sources/src/lmdb/disk_reserve.rs`).
    let comment = "x".repeat(1_000);
    let refused = (0..2_000).find_map(|n| {
        let output = server.run(&["user", "add", &format!("more{n}@local"), "--comment", &comment]);
        (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned())
    });
    let why = refused.unwrap();
    for said in ["the disk is full: make room", "kept for changes that take rights away"] {
        assert!(why.contains(said), "{why}");
    }
    // The next request obeys each change, also after many changes.
    let status = |login: &str| server.status(login, &PROPFIND_0, "");
    for (n, login) in others.iter().enumerate() {
        assert_eq!(status(login), "207", "{n}");
        let user = format!("other{n}@local");
        let (arguments, expected) = match n % 3 {
            0 => (vec!["revoke", "user", &user, "--everything"], "401"),
            1 => (vec!["user", "disable", &user], "401"),
            _ => {
                let path = ["role", "remove", "--path", "/datastore/main", "--auth-id"];
                ([&path[..], &[&user, "DatastoreReader"]].concat(), "404")
            }
        };
        server.done(&arguments);
        assert_eq!(status(login), expected, "{arguments:?}");
    }
    let add = ["user", "add", "bob@local", "--comment", &comment];
    assert!(!server.run(&add).status.success());
    server.done(&["user", "disable", "alice@local"]);
    assert_eq!(status(&alice), "401");
    assert_eq!(server.done(&["facts", "check"])["sound"], true);
    // By this path, the test reaches the file system of the server.
    let root = format!("/proc/{}/root", server.child.id());
    let file = format!("{root}{}/data/datastores/main/0", server.scratch.path().display());
    std::fs::remove_file(file).unwrap();
    server.done(&add);
}

/// The server follows an edited file even if the edit gives rights and uses a part of the disk reserve. If the facts did not follow the file, the
/// server would refuse all records of the file. A command that gives rights is refused before it changes the file.
#[test]
fn an_edited_file_is_followed_until_the_disk_is_really_full() {
    let Some(server) = OnSmallDisk::start(256) else {
        println!("not asserted: a test may not mount a file system on this machine");
        return;
    };
    let alice = server.add_user("alice", "DatastorePowerUser");
    let body = server.scratch.path().join("small");
    std::fs::write(&body, vec![7; 128 << 10]).unwrap();
    assert_eq!(server.status(&alice, &["-T", body.to_str().unwrap()], "small"), "201");
    server.upload_until_full(&alice);
    // New records use the part of the reserve above its required size.
    let comment = "x".repeat(1_000);
    let fill_reserve = |prefix: &str| {
        let is_refused = (0..2_000).any(|n| {
            let output = server.run(&["user", "add", &format!("{prefix}{n}@local"), "--comment", &comment]);
            let why = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success() || why.contains("the disk is full"), "{why}");
            !output.status.success()
        });
        assert!(is_refused, "the test could not fill the disk");
    };
    fill_reserve("more");
    // There is enough space for a file, but not for a new reserve.
    let data = format!("/proc/{}/root{}/data", server.child.id(), server.scratch.path().display());
    let data = Path::new(&data);
    std::fs::remove_file(data.join("datastores/main/small")).unwrap();
    // The server removes the rest of a refused upload after its answer. Therefore the free space may be larger than the removed file.
    fill_reserve("again");

    let file = data.join("user.cfg");
    let text = || std::fs::read_to_string(&file).unwrap();
    let has = |user: &str| {
        let output = server.run(&["user", "list"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).contains(user)
    };
    let users: String =
        (0..40).map(|n| format!("user: u{n}@pbs\n\tcomment {}\n\n", &comment[500..])).collect();
    std::fs::write(&file, format!("user: ann@pbs\n\n{users}")).unwrap();
    assert!(has("ann@pbs"));
    let before = text();
    let output = server.run(&["user", "add", "bob@pbs"]);
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && why.contains("the disk is full: make room"), "{why}");
    assert!(!why.contains("the change is in the file"), "{why}");
    assert!(text() == before && !has("bob@pbs"));
    // A command that removes rights changes the file, and another edit is followed, too.
    server.done(&["user", "disable", "ann@pbs"]);
    assert_ne!(text(), before);
    std::fs::write(&file, text() + "user: carol@pbs\n\n").unwrap();
    assert!(has("carol@pbs"));
    assert_eq!(server.status(&alice, &PROPFIND_0, ""), "207");
    assert_eq!(server.done(&["facts", "check"])["sound"], true);
    std::fs::remove_file(data.join("datastores/main/0")).unwrap();
    server.done(&["user", "add", "bob@pbs"]);
    assert!(has("bob@pbs"));
}

/// Runs a shell script that can mount file systems. `None` if the machine does not allow this.
fn run_mounting(scratch: &Scratch, script: &str) -> Option<String> {
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", script]).env("BINARY", BINARY).env("PLACE", scratch.path());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.code() == Some(99) {
        println!("not asserted: a test may not mount a file system on this machine");
        return None;
    }
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    Some(said)
}

#[test]
fn a_compaction_on_a_full_disk_is_refused_and_leaves_nothing() {
    let scratch = Scratch::new();
    // Each line that the script prints contains the exit code, the number of files that must not exist, and the output.
    let script = r#"
        data="$PLACE/data"; mkdir "$data" && mount -t tmpfs -o size=64m none "$data" 2>/dev/null || exit 99
        "$BINARY" --data "$data" init >/dev/null 2>"$PLACE/said" || { cat "$PLACE/said"; exit 1; }
        dd if=/dev/zero of="$data/fill" bs=4k status=none 2>/dev/null
        for round in $(seq 64); do
            "$BINARY" --data "$data" facts compact >"$PLACE/said" 2>&1; code=$?
            echo "$code $(ls "$data/facts" | grep -c -e compacting -e faulted) $(tr '\n' ' ' <"$PLACE/said")"
            [ "$code" = 0 ] && break
            truncate -s -16K "$data/fill"
        done
        "$BINARY" --data "$data" facts check >/dev/null 2>&1 && echo sound
    "#;
    let Some(said) = run_mounting(&scratch, script) else { return };
    let lines: Vec<&str> = said.lines().collect();
    let [refused @ .., done, "sound"] = &lines[..] else { panic!("{said}") };
    assert!(refused.len() > 3 && done.starts_with("0 0 "), "{said}");
    for line in refused {
        assert!(line.starts_with("1 0 ") && line.contains("nothing was changed"), "{line}");
        assert_eq!(line.matches("make room").count(), 1, "{line}");
    }
}

#[test]
fn a_store_that_cannot_be_made_for_lack_of_space_does_not_count_as_damaged() {
    let scratch = Scratch::new();
    // The lock file of LMDB needs 264 KiB, and the temporary lock file of a new store needs the same.
    let script = r#"
        data="$PLACE/data"; mkdir "$data" || exit 1
        for kib in $(seq 256 4 300) 512 540; do
            mount -t tmpfs -o size=${kib}k none "$data" 2>/dev/null || exit 99
            "$BINARY" --data "$data" init >/dev/null 2>&1; code=$?
            echo "$code $(ls "$data/facts" 2>/dev/null | grep -c faulted)"
            umount "$data"
        done
    "#;
    let Some(said) = run_mounting(&scratch, script) else { return };
    assert_eq!(said.lines().collect::<Vec<_>>(), ["1 0"; 14], "{said}");
}
