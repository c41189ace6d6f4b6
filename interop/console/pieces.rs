//! Uploads in pieces, as the script of the console sends them.

use super::{Browser, Page, server, server_with};
use crate::server::{Server, until};
use std::path::PathBuf;

fn world_with(environment: &[(&str, &str)]) -> Server {
    let server = server_with(environment);
    server.cli(&["acl", "set", "main", "/", "allow authenticated full inherit=files,dirs", "--recursive"]);
    server
}

/// Sends a request of the script.
fn send(browser: &Browser<'_>, method: &str, path: &str, content: &str, more: &[&str]) -> Page {
    let csrf = format!("X-Csrf-Token: {}", browser.open("/console/").csrf());
    let origin = browser.origin();
    let arguments = ["--request", method, "--header", &csrf, "--header", &origin, "--data-binary", content];
    browser.send(&format!("/console/uploads/main/{path}"), &[&arguments[..], more].concat())
}

/// Begins an upload. Returns its name, and the number of received bytes.
fn begin(browser: &Browser<'_>, path: &str, bytes: u64) -> (String, u64) {
    let path = path.replace(' ', "%20");
    let page = send(browser, "PUT", &format!("{path}?bytes={bytes}&modified=7"), "", &[]);
    assert_eq!(page.status, 200, "{}", page.text());
    let text = page.text();
    let (name, received) = text.split_once(' ').unwrap();
    (name.to_owned(), received.parse().unwrap())
}

fn append(browser: &Browser<'_>, path: &str, name: &str, at: u64, piece: &str) -> (u16, String) {
    let path = path.replace(' ', "%20");
    let page = send(browser, "PATCH", &format!("{path}?upload={name}&at={at}"), piece, &[]);
    (page.status, page.text())
}

fn kept(server: &Server) -> Vec<PathBuf> {
    let all = server.data().join("datastores/main/.enfilade-uploads");
    let entries =
        |path: &PathBuf| std::fs::read_dir(path).into_iter().flatten().map(|entry| entry.unwrap().path());
    entries(&all).flat_map(|user| entries(&user).collect::<Vec<_>>()).collect()
}

#[test]
fn an_upload_goes_on_where_it_was_interrupted() {
    let mut server = world_with(&[]);
    let main = server.data().join("datastores/main");
    let name = {
        let alice = Browser::new(&server);
        alice.sign_in("alice");
        let (name, received) = begin(&alice, "large file", 12);
        assert_eq!((name.len(), received), (32, 0));
        assert_eq!(append(&alice, "large file", &name, 0, "01234"), (200, "5".to_owned()));
        assert!(!main.join("large file").exists());
        // A request with the same path and size continues the same upload. A request with another size begins another upload.
        assert_eq!(begin(&alice, "large file", 12), (name.clone(), 5));
        assert_ne!(begin(&alice, "large file", 13).0, name);
        // A piece that begins at another byte is not written.
        for at in [0, 4, 6] {
            assert_eq!(append(&alice, "large file", &name, at, "xxx"), (200, "5".to_owned()), "{at}");
        }
        // More bytes than announced are refused.
        assert_eq!(append(&alice, "large file", &name, 5, "56789abcd").0, 412);
        name
    };
    server.kill_and_restart();
    let alice = Browser::new(&server);
    alice.sign_in("alice");
    assert_eq!(begin(&alice, "large file", 12), (name.clone(), 5));
    assert_eq!(append(&alice, "large file", &name, 5, "56789ab").0, 201, "{}", server.log());
    assert_eq!(std::fs::read_to_string(main.join("large file")).unwrap(), "0123456789ab");
    assert!(!crate::server::read_acl(&main.join("large file")).is_empty(), "the file inherited an ACL");
    assert_eq!(kept(&server).len(), 1, "only the upload of the other size is left");
    // An existing file is replaced only if the user confirmed it, and keeps its ACL.
    server.cli(&["acl", "set", "main", "/large file", "allow alice@local full"]);
    let acl = crate::server::read_acl(&main.join("large file"));
    let is_new = ["--header", "If-None-Match: *"];
    assert_eq!(send(&alice, "PUT", "large%20file?bytes=3&modified=7", "", &is_new).status, 412);
    let (name, _) = begin(&alice, "large file", 3);
    let late = send(&alice, "PATCH", &format!("large%20file?upload={name}&at=0"), "abc", &is_new);
    assert_eq!(late.status, 412);
    // The server kept the received bytes. An empty piece completes the upload, and the file gets its name.
    assert_eq!(append(&alice, "large file", &name, 3, "").0, 204);
    assert_eq!(std::fs::read_to_string(main.join("large file")).unwrap(), "abc");
    assert_eq!(crate::server::read_acl(&main.join("large file")), acl);
}

#[test]
fn an_upload_belongs_to_its_user_and_needs_the_right_at_every_piece() {
    let server = world_with(&[]);
    server.add_user("carol", "DatastorePowerUser");
    super::set_password(&server, "carol@local");
    let [alice, bob, carol] = ["alice", "bob", "carol"].map(|user| {
        let browser = Browser::new(&server);
        browser.sign_in(user);
        browser
    });
    assert_eq!(send(&bob, "PUT", "x?bytes=3&modified=7", "", &[]).status, 403);
    let (name, _) = begin(&alice, "x", 6);
    let absent = append(&carol, "x", &"0".repeat(32), 0, "abc");
    assert_eq!(append(&carol, "x", &name, 0, "abc"), absent);
    assert_eq!(append(&carol, "x", "nonsense", 0, "abc"), absent);
    assert_eq!(append(&alice, "y", &name, 0, "abc").0, absent.0, "another path");
    assert_eq!(begin(&carol, "x", 6).1, 0);
    // The server refuses a piece without the token of the session, and a piece from a page of another site.
    let path = format!("/console/uploads/main/x?upload={name}&at=0");
    let (own, csrf) = (alice.origin(), format!("X-Csrf-Token: {}", alice.open("/console/").csrf()));
    for headers in [&[own.as_str()][..], &[csrf.as_str()], &[csrf.as_str(), "Origin: https://evil.example"]] {
        let mut arguments = vec!["--request", "PATCH", "--data-binary", "x"];
        headers.iter().for_each(|header| arguments.extend(["--header", header]));
        assert_eq!(alice.send(&path, &arguments).status, 403, "{headers:?}");
    }
    assert_eq!(append(&alice, "x", &name, 0, "abc").0, 200);
    let role = ["--path", "/datastore/main", "--auth-id", "alice@local"];
    server.cli(&[&["role", "assign"], &role[..], &["DatastoreReader"]].concat());
    server.cli(&[&["role", "remove"], &role[..], &["DatastorePowerUser"]].concat());
    assert_eq!(append(&alice, "x", &name, 3, "def").0, 403);
    assert!(!server.data().join("datastores/main/x").exists());
    for path in ["/console/files/main/.enfilade-uploads/", "/dav/main/.enfilade-uploads/"] {
        assert_eq!(alice.open(path).status, if path.starts_with("/dav") { 401 } else { 400 }, "{path}");
    }
}

#[test]
fn unfinished_uploads_are_bounded_and_count_in_the_quota() {
    let mut server = world_with(&[]);
    server.cli(&["datastore", "set", "main", "--quota", "100K"]);
    {
        let alice = Browser::new(&server);
        alice.sign_in("alice");
        assert_eq!(send(&alice, "PUT", "x?bytes=200000&modified=7", "", &[]).status, 507);
        let (name, _) = begin(&alice, "x", 100_000);
        assert_eq!(append(&alice, "x", &name, 0, &"x".repeat(60_000)).0, 200);
        assert_eq!(send(&alice, "PUT", "y?bytes=60000&modified=7", "", &[]).status, 507);
        // The rest of the file fits into the quota, because the server counts the received part only once.
        assert_eq!(append(&alice, "x", &name, 60_000, &"x".repeat(40_000)).0, 201, "{}", server.log());
        assert_eq!(send(&alice, "PUT", "y?bytes=60000&modified=7", "", &[]).status, 507);
        for n in 0..25 {
            begin(&alice, &format!("f{n}"), 10);
        }
        assert_eq!(kept(&server).len(), 20);
    }
    // Old uploads are removed.
    for path in kept(&server) {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let seconds = u64::from_str_radix(&name[..16], 16).unwrap() - 8 * 24 * 3600;
        std::fs::rename(&path, path.with_file_name(format!("{seconds:016x}{}", &name[16..]))).unwrap();
    }
    server.kill_and_restart();
    until("old uploads are removed", &server, || kept(&server).is_empty());
}

#[test]
fn two_requests_do_not_write_to_one_upload() {
    let server = server();
    server.cli(&["acl", "set", "main", "/", "allow authenticated full inherit=files,dirs", "--recursive"]);
    let alice = Browser::new(&server);
    alice.sign_in("alice");
    let (name, _) = begin(&alice, "x", 1 << 20);
    let csrf = format!("X-Csrf-Token: {}", alice.open("/console/").csrf());
    let cookie = format!("Cookie: __Host-enfilade-console={}", alice.cookie());
    // This client sends a piece slowly, and is killed before the end of the piece.
    let mut slow = std::process::Command::new("curl")
        .args(["--silent", "--insecure", "--http1.1", "--request", "PATCH", "--limit-rate", "2000"])
        .args(["--header", &csrf, "--header", &alice.origin(), "--header", &cookie])
        .args(["--data-binary", &"x".repeat(60_000)])
        .arg(server.url(&format!("/console/uploads/main/x?upload={name}&at=0")))
        .spawn()
        .unwrap();
    until("the first request has begun", &server, || append(&alice, "x", &name, 0, "").0 == 503);
    slow.kill().unwrap();
    slow.wait().unwrap();
    until("the first request has ended", &server, || append(&alice, "x", &name, 0, "").0 == 200);
}
