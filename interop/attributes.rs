//! ACLs and dead properties. The server can always store an ACL, even if the file has many dead properties. Dead properties are copied only for users
//! who may read them. A moved object inherits ACL entries from its new directory only if the user may read the object's data. Another test of this
//! file checks that the server does not open pipes.

use crate::curl::{Answer, curl};
use crate::server::Server;
use rustix::fs::{XattrFlags, setxattr};
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::Duration;

fn set_property(server: &Server, login: &str, path: &str, value: &str) -> Answer {
    let body = format!(
        "<D:propertyupdate xmlns:D='DAV:'><D:set><D:prop><x:note xmlns:x='urn:x'>{value}</x:note></D:prop></D:set></D:propertyupdate>"
    );
    curl(server, login, path, &["-X", "PROPPATCH", "-d", &body])
}

fn property(server: &Server, login: &str, path: &str) -> bool {
    let body = "<D:propfind xmlns:D='DAV:'><D:prop><x:note xmlns:x='urn:x'/></D:prop></D:propfind>";
    let answer = curl(server, login, path, &["-X", "PROPFIND", "-H", "Depth: 0", "-d", body]);
    assert_eq!(answer.status, 207, "{}", answer.text());
    answer.text().contains("HTTP/1.1 200")
}

#[test]
fn dead_properties_never_keep_a_right_from_being_withdrawn() {
    let server = Server::start();
    let bob = server.add_user("bob", "DatastorePowerUser");
    assert_eq!(curl(&server, &bob, "/dav/main/file", &["-X", "PUT", "-d", "x"]).status, 201);
    let fits = |bytes: usize| {
        set_property(&server, &bob, "/dav/main/file", &"v".repeat(bytes)).text().contains("HTTP/1.1 200")
    };
    // Finds the largest size that fits, by bisection.
    let (mut least, mut most) = (0, 60_000);
    if fits(most) {
        return println!(
            "not asserted: this file system does not limit the total size of a file's attributes"
        );
    }
    while least + 1 < most {
        let middle = usize::midpoint(least, most);
        if fits(middle) { least = middle } else { most = middle }
    }
    assert!(fits(least));
    let lines: Vec<String> = (0..20).map(|n| format!("allow S-1-5-21-7-7-7-{} read", 2000 + n)).collect();
    let mut acl = vec!["acl", "set", "main", "/file", "deny bob@local full"];
    acl.extend(lines.iter().map(String::as_str));
    server.cli(&acl);
    assert_eq!(curl(&server, &bob, "/dav/main/file", &[]).status, 404);
}

#[test]
fn a_copy_has_the_properties_its_maker_may_read() {
    let server = Server::start();
    let admin = server.add_token("admin@local!test");
    let alice = server.add_user("alice", "DatastorePowerUser");
    server.cli(&["datastore", "set", "main", "--visible-by", "read-attributes,read-acl"]);
    let root = server.data().join("datastores/main");
    std::fs::create_dir_all(root.join("tree/inner")).unwrap();
    std::fs::create_dir(root.join("goal")).unwrap();
    std::fs::write(root.join("tree/inner/file"), "x").unwrap();
    server.cli(&["acl", "set", "main", "/goal", "allow authenticated full inherit=files,dirs"]);
    let members = ["tree", "tree/inner", "tree/inner/file"];
    for member in members {
        let answer = set_property(&server, &admin, &format!("/dav/main/{member}"), "secret");
        assert!(answer.text().contains("HTTP/1.1 200"), "{}", answer.text());
    }
    let read = "allow alice@local read-data,read-attributes,read-acl";
    for (to, right, expected) in [("without", "", false), ("with", ",read-named-attributes", true)] {
        let acl = format!("{read}{right}");
        members
            .iter()
            .for_each(|member| drop(server.cli(&["acl", "set", "main", &format!("/{member}"), &acl])));
        assert_eq!(property(&server, &alice, "/dav/main/tree/inner/file"), expected);
        for (from, to) in [("tree", to.to_owned()), ("tree/inner/file", format!("{to}-file"))] {
            let destination = format!("Destination: /dav/main/goal/{to}");
            let copied =
                curl(&server, &alice, &format!("/dav/main/{from}"), &["-X", "COPY", "-H", &destination]);
            assert_eq!(copied.status, 201, "{}", copied.text());
        }
        for copy in [to.to_owned(), format!("{to}/inner"), format!("{to}/inner/file"), format!("{to}-file")] {
            assert_eq!(property(&server, &admin, &format!("/dav/main/goal/{copy}")), expected, "{copy}");
        }
    }
}

#[test]
fn what_may_not_be_read_does_not_inherit_by_being_moved() {
    let server = Server::start();
    let alice = server.add_user("alice", "DatastorePowerUser");
    server.cli(&["datastore", "set", "main", "--visible-by", "read-attributes", "--moves", "inherit"]);
    let root = server.data().join("datastores/main");
    std::fs::create_dir(root.join("goal")).unwrap();
    server.cli(&["acl", "set", "main", "/goal", "allow alice@local full inherit=files,dirs"]);
    for (name, acl, moved, read) in [
        ("closed", "allow alice@local read-attributes,delete", 207, 403),
        ("open", "allow alice@local read-attributes,delete,read-data", 201, 200),
    ] {
        std::fs::write(root.join(name), "secret").unwrap();
        server.cli(&["acl", "set", "main", &format!("/{name}"), acl]);
        let destination = format!("Destination: /dav/main/goal/{name}");
        let answer = curl(&server, &alice, &format!("/dav/main/{name}"), &["-X", "MOVE", "-H", &destination]);
        assert_eq!(answer.status, moved, "{name}: {}", answer.text());
        assert_eq!(curl(&server, &alice, &format!("/dav/main/goal/{name}"), &[]).status, read, "{name}");
        let acl = server.cli(&["acl", "get", "main", &format!("/goal/{name}")])[0]["acl"].to_string();
        assert_eq!(acl.contains("full"), read == 200, "{acl}");
    }
}

#[test]
fn a_moved_member_without_room_for_what_it_inherits_keeps_its_properties_and_is_named() {
    let server = Server::start();
    let bob = server.add_user("bob", "DatastorePowerUser");
    server.cli(&["datastore", "set", "main", "--moves", "inherit"]);
    let root = server.data().join("datastores/main");
    std::fs::create_dir(root.join("goal")).unwrap();
    for name in ["tree", "other"] {
        std::fs::create_dir(root.join(name)).unwrap();
        std::fs::write(root.join(name).join("file"), "x").unwrap();
    }
    server.cli(&["acl", "set", "main", "/", "allow bob@local full inherit=files,dirs", "--recursive"]);
    let full = set_property(&server, &bob, "/dav/main/tree/file", &"v".repeat(2500));
    assert!(full.text().contains("HTTP/1.1 200"), "{}", full.text());
    if set_property(&server, &bob, "/dav/main/tree/file", &"v".repeat(60_000)).text().contains("HTTP/1.1 200")
    {
        return println!(
            "not asserted: this file system does not limit the total size of a file's attributes"
        );
    }
    // Another program on the machine adds an attribute.
    setxattr(root.join("other/file"), "user.note", &[b'v'; 2500], XattrFlags::empty()).unwrap();
    let lines: Vec<String> =
        (0..60).map(|n| format!("allow S-1-5-21-7-7-7-{} read inherit=files", 2000 + n)).collect();
    let mut acl = vec!["acl", "set", "main", "/goal", "allow bob@local full inherit=files,dirs"];
    acl.extend(lines.iter().map(String::as_str));
    server.cli(&acl);
    for name in ["tree", "other"] {
        let destination = format!("Destination: /dav/main/goal/{name}");
        let answer = curl(&server, &bob, &format!("/dav/main/{name}"), &["-X", "MOVE", "-H", &destination]);
        let text = answer.text();
        assert_eq!((answer.status, text.matches("<D:response>").count()), (207, 1), "{name}: {text}");
        assert!(
            text.contains("507 Insufficient Storage") && text.contains(&format!("goal/{name}/file<")),
            "{text}"
        );
    }
    assert!(property(&server, &bob, "/dav/main/goal/tree/file"));
}

#[test]
fn what_has_no_acl_inherits_nfs4_acls_when_it_is_moved() {
    let server = Server::start();
    let alice = server.add_user("alice", "DatastorePowerUser");
    server.cli(&["user", "set", "alice@local", "--uid", "4100"]);
    server.cli(&["datastore", "set", "main", "--acls", "nfs4", "--moves", "inherit"]);
    let root = server.data().join("datastores/main");
    std::fs::create_dir_all(root.join("tree/below")).unwrap();
    std::fs::create_dir(root.join("goal")).unwrap();
    std::fs::write(root.join("tree/below/file"), "x").unwrap();
    for path in ["tree", "tree/below", "tree/below/file"] {
        std::os::unix::fs::chown(root.join(path), Some(4100), Some(4100)).unwrap();
    }
    server.cli(&["acl", "set", "main", "/", "allow everyone full"]);
    server.cli(&["acl", "set", "main", "/goal", "allow everyone full inherit=files,dirs"]);
    let moved =
        curl(&server, &alice, "/dav/main/tree", &["-X", "MOVE", "-H", "Destination: /dav/main/goal/tree"]);
    assert_eq!(moved.status, 201, "{}", moved.text());
    for path in ["/goal/tree", "/goal/tree/below", "/goal/tree/below/file"] {
        let acl = server.cli(&["acl", "get", "main", path])[0]["acl"].to_string();
        assert!(acl.contains("everyone full"), "{path}: {acl}");
    }
}

#[test]
fn no_request_opens_a_pipe() {
    let server = Server::start();
    let login = server.add_token("admin@local!test");
    let pipe = server.data().join("datastores/main/pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // Opening a pipe for writing blocks until another process opens the pipe for reading. Therefore this thread notices if the server opens the pipe.
    let (told, writer_goes_on) = channel();
    let writer = std::thread::spawn({
        let pipe = pipe.clone();
        move || told.send(std::fs::File::options().write(true).open(pipe).is_ok()).unwrap()
    });
    std::thread::sleep(Duration::from_millis(300));
    for (method, header) in [
        ("GET", "Accept: */*"),
        ("PROPFIND", "Depth: 0"),
        ("PUT", "Accept: */*"),
        ("DELETE", "Accept: */*"),
        ("PROPPATCH", "Accept: */*"),
        ("MOVE", "Destination: /dav/main/other"),
        ("COPY", "Destination: /dav/main/other"),
        ("LOCK", "Depth: 0"),
    ] {
        let answer = curl(&server, &login, "/dav/main/pipe", &["-X", method, "-H", header]);
        assert!(answer.status >= 400, "{method}: {}", answer.status);
    }
    assert_eq!(curl(&server, &login, "/dav/main/", &["-X", "PROPFIND", "-H", "Depth: 1"]).status, 207);
    assert!(writer_goes_on.recv_timeout(Duration::from_millis(300)).is_err(), "the pipe was opened");
    let _reader = std::fs::File::open(&pipe).unwrap();
    assert!(writer_goes_on.recv_timeout(Duration::from_secs(10)).unwrap());
    writer.join().unwrap();
}
