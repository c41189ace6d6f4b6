//! A full disk: a server that starts reports it, and a running server continues to answer.

use crate::curl::{PROPFIND_1, curl};
use crate::server::{BINARY, Server, first_line};
use enfilade_testkit::Scratch;
use serde_json::Value;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Checks that all mapped files are allocated: if the disk is full, a write to a page without disk space would end the process.
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

/// Starts a server on a file system of this many MiB, which only the server and its children see. `None` if the machine does not allow this.
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
    command.args(["-rm", "sh", "-c", &serve]).env("ENFILADE_TLS__PLAIN_LISTEN", "127.0.0.1:0").stderr(log);
    Some(first_line(&mut command))
}

#[test]
fn a_server_on_a_full_disk_goes_on_answering() {
    let scratch = Scratch::new();
    let Some((mut child, line)) = on_small_disk(&scratch, 256) else {
        println!("this machine mounts nothing for a test");
        return;
    };
    let log = || std::fs::read_to_string(scratch.path().join("log")).unwrap();
    let told: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("did not start: {}", log()));
    // The path through which this process reaches the server's file system.
    let data = format!("/proc/{}/root{}/data", child.id(), scratch.path().display());
    let filled = Command::new("dd")
        .args(["if=/dev/zero", "bs=4k", "status=none", &format!("of={data}/fill")])
        .stderr(Stdio::null())
        .status();
    assert!(!filled.unwrap().success(), "the disk was to be full");
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
    // Several requests at the same time, so that threads read that have not read before.
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
            println!("this machine mounts nothing for a test");
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
