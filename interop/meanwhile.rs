//! When the result of a request becomes visible, the server takes concurrent changes by other requests into
//! account.

use crate::curl::curl;
use crate::server::Server;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const LOCK: &str = "<D:lockinfo xmlns:D='DAV:'><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockinfo>";

/// A PUT. The client has sent the first half of its body.
struct Slow(TcpStream);

impl Slow {
    fn begin(server: &Server, login: &str, path: &str, headers: &str) -> Self {
        let (user, secret) = login.split_once(':').unwrap();
        let mut stream = TcpStream::connect(&server.plain).unwrap();
        let head = format!(
            "PUT /dav/main/{path} HTTP/1.1\r\nHost: x\r\nAuthorization: PBSAPIToken={user}:{secret}\r\n{headers}Content-Length: 600000\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&vec![b'n'; 300_000]).unwrap();
        let slow = Slow(stream);
        slow.until_begun(server);
        slow
    }

    /// Waits for the hidden file to which the server writes the bytes.
    fn until_begun(&self, server: &Server) {
        let main = server.data().join("datastores/main");
        for _ in 0..6000 {
            let is_hidden = |name: std::ffi::OsString| name.to_string_lossy().starts_with(".enfilade-");
            let mut entries = std::fs::read_dir(&main).unwrap();
            let begun = entries.find(|entry| is_hidden(entry.as_ref().unwrap().file_name()));
            if begun.is_some_and(|entry| entry.unwrap().metadata().is_ok_and(|found| found.len() > 0)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the upload did not begin");
    }

    /// Sends the rest. Returns the status.
    fn finish(mut self) -> u16 {
        self.0.write_all(&vec![b'n'; 300_000]).unwrap();
        let mut answer = [0; 4096];
        let count = self.0.read(&mut answer).unwrap();
        let text = String::from_utf8_lossy(&answer[..count]).into_owned();
        text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{text}"))
    }
}

fn server() -> (Server, String, String) {
    let server = Server::start();
    let (alice, bob) =
        (server.add_user("alice", "DatastorePowerUser"), server.add_user("bob", "DatastorePowerUser"));
    server.cli(&["acl", "set", "main", "/", "allow authenticated full inherit=files,dirs"]);
    (server, alice, bob)
}

fn put(server: &Server, login: &str, path: &str, content: &str) -> u16 {
    curl(server, login, &format!("/dav/main/{path}"), &["--request", "PUT", "--data", content]).status
}

fn content(server: &Server, path: &str) -> String {
    std::fs::read_to_string(server.data().join("datastores/main").join(path)).unwrap_or_default()
}

#[test]
fn a_lock_that_is_taken_during_an_upload_keeps_it_out() {
    let (server, alice, bob) = server();
    assert_eq!(put(&server, &bob, "file", "old"), 201);
    for path in ["file", "new"] {
        let slow = Slow::begin(&server, &alice, path, "");
        let lock = ["--request", "LOCK", "--data", LOCK];
        let locked = curl(&server, &bob, &format!("/dav/main/{path}"), &lock);
        assert!([200, 201].contains(&locked.status), "{}", locked.text());
        let status = slow.finish();
        // A lock on an unused name creates an empty file (RFC 4918 §7.3), so the name exists before the
        // upload ends.
        assert!([423, 409].contains(&status), "{path}: {status}");
        let expected = if path == "file" { "old" } else { "" };
        assert_eq!(content(&server, path), expected);
    }
    assert_eq!(
        Slow::begin(&server, &alice, "free", "").finish(),
        201,
        "an upload to a name without a lock must succeed"
    );
}

#[test]
fn a_condition_is_judged_again_when_the_upload_becomes_visible() {
    let (server, alice, bob) = server();
    assert_eq!(put(&server, &bob, "file", "old"), 201);
    let etag = || {
        let answer = curl(&server, &alice, "/dav/main/file", &["--head"]);
        answer.head.iter().find_map(|line| line.strip_prefix("etag: ").map(str::to_owned)).unwrap()
    };
    let before = etag();
    let slow = Slow::begin(&server, &alice, "file", &format!("If-Match: {before}\r\n"));
    // Another program changes the file in place, so the name still belongs to the same file.
    std::fs::write(server.data().join("datastores/main/file"), "changed").unwrap();
    assert_ne!(etag(), before);
    assert_eq!(slow.finish(), 412);
    assert_eq!(content(&server, "file"), "changed");
    let slow = Slow::begin(&server, &alice, "other", "If-None-Match: *\r\n");
    assert_eq!(put(&server, &bob, "other", "first"), 201);
    assert_eq!(slow.finish(), 412);
    assert_eq!(content(&server, "other"), "first");
    let slow = Slow::begin(&server, &alice, "file", &format!("If-Match: {}\r\n", etag()));
    assert_eq!(slow.finish(), 204);
}

#[test]
fn a_condition_of_a_copy_is_judged_again_when_the_copy_becomes_visible() {
    let (server, alice, bob) = server();
    let main = server.data().join("datastores/main");
    std::fs::create_dir(main.join("many")).unwrap();
    (0..4000).for_each(|n| std::fs::write(main.join("many").join(n.to_string()), "x").unwrap());
    server.cli(&["acl", "set", "main", "/", "allow authenticated full inherit=files,dirs", "--recursive"]);
    assert_eq!(put(&server, &bob, "flag", "old"), 201);
    let etag = || {
        let answer = curl(&server, &alice, "/dav/main/flag", &["--head"]);
        answer.head.iter().find_map(|line| line.strip_prefix("etag: ").map(str::to_owned)).unwrap()
    };
    let is_hidden = |name: std::ffi::OsString| name.to_string_lossy().starts_with(".enfilade-");
    let has_hidden = || std::fs::read_dir(&main).unwrap().any(|entry| is_hidden(entry.unwrap().file_name()));
    for (changes, expected) in [(true, 412), (false, 201)] {
        // If a copy ends before bob's change, the test tries another copy.
        let is_met = (0..10).any(|turn| {
            let _ = std::fs::remove_dir_all(main.join("copy"));
            let condition = format!("If: </dav/main/flag> ([{}])", etag());
            let (copied, is_late) = std::thread::scope(|scope| {
                let copy = scope.spawn(|| {
                    let to = "Destination: /dav/main/copy";
                    let arguments = ["--request", "COPY", "--header", to, "--header", &condition];
                    curl(&server, &alice, "/dav/main/many", &arguments)
                });
                let mut is_late = false;
                if changes {
                    while !has_hidden() && !copy.is_finished() {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    assert_eq!(put(&server, &bob, "flag", &format!("new {turn}")), 204);
                    is_late = !has_hidden();
                }
                (copy.join().unwrap(), is_late)
            });
            if is_late && copied.status == 201 {
                return false;
            }
            assert_eq!(copied.status, expected, "{}", copied.text());
            assert_eq!(main.join("copy").exists(), !changes);
            assert!(!has_hidden());
            true
        });
        assert!(is_met, "every copy was over before the change");
    }
}

#[test]
fn an_upload_into_a_directory_that_is_moved_away_or_deleted_is_not_acknowledged() {
    let (server, alice, bob) = server();
    for (method, more) in [
        ("MOVE", vec!["--header", "Destination: /dav/main/away"]),
        ("DELETE", vec![]),
        ("another program", vec![]),
    ] {
        let made = curl(&server, &bob, "/dav/main/dir", &["--request", "MKCOL"]);
        assert_eq!(made.status, 201);
        let (user, secret) = alice.split_once(':').unwrap();
        let mut stream = TcpStream::connect(&server.plain).unwrap();
        let head = format!(
            "PUT /dav/main/dir/file HTTP/1.1\r\nHost: x\r\nAuthorization: PBSAPIToken={user}:{secret}\r\nContent-Length: 600000\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&vec![b'n'; 300_000]).unwrap();
        let directory = server.data().join("datastores/main/dir");
        for _ in 0..6000 {
            if std::fs::read_dir(&directory).unwrap().count() > 0 {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let gone = match method {
            // Another program does not check whether an upload is running.
            "another program" => {
                std::fs::rename(&directory, directory.with_file_name("away")).unwrap();
                201
            }
            _ => curl(&server, &bob, "/dav/main/dir", &[vec!["--request", method], more].concat()).status,
        };
        let status = Slow(stream).finish();
        match gone {
            201 | 204 => assert_eq!(status, 409, "{method}"),
            // The running upload prevented the deletion of its directory.
            207 | 409 => assert_eq!(status, 201, "{method}"),
            other => panic!("{method}: {other}"),
        }
        if status == 201 {
            assert_eq!(content(&server, "dir/file").len(), 600_000);
        }
        let _ = std::fs::remove_dir_all(server.data().join("datastores/main/dir"));
        let _ = std::fs::remove_dir_all(server.data().join("datastores/main/away"));
    }
}

#[test]
fn an_upload_that_is_refused_has_changed_nothing_while_its_directory_is_moved_to_and_fro() {
    let (server, alice, bob) = server();
    assert_eq!(curl(&server, &bob, "/dav/main/dir", &["--request", "MKCOL"]).status, 201);
    assert_eq!(put(&server, &bob, "dir/file", "old"), 201);
    let mut acknowledged = 0;
    for round in 0..60 {
        let new = format!("new {round}");
        let before = [content(&server, "dir/file"), content(&server, "away/file")].concat();
        let (status, moved) = std::thread::scope(|scope| {
            let upload = scope.spawn(|| put(&server, &alice, "dir/file", &new));
            std::thread::sleep(Duration::from_micros(500 * (round % 12)));
            let destination = "Destination: /dav/main/away";
            let arguments = ["--request", "MOVE", "--header", destination];
            let moved = curl(&server, &bob, "/dav/main/dir", &arguments).status;
            (upload.join().unwrap(), moved)
        });
        let after = [content(&server, "dir/file"), content(&server, "away/file")].concat();
        match status {
            201 | 204 => assert_eq!(after, new, "round {round}: acknowledged with {status}, MOVE {moved}"),
            status => assert_eq!(after, before, "round {round}: refused with {status}, MOVE {moved}"),
        }
        acknowledged += u32::from(status < 300);
        if moved == 201 {
            let back = ["--request", "MOVE", "--header", "Destination: /dav/main/dir"];
            assert_eq!(curl(&server, &bob, "/dav/main/away", &back).status, 201);
        }
    }
    assert!(acknowledged > 0);
}
