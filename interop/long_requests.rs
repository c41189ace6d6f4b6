//! If a right is removed during a request, the request ends: during the upload, after its last byte, and during the download.

use crate::curl::{command, curl};
use crate::server::{Server, until, write_acl};
use rustix::fs::getxattr;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// On a slow machine, a promised time may be exceeded by this factor.
const SLACK: u32 = 20;

/// The number of bytes in the temporary files of running uploads.
fn under_way(server: &Server) -> u64 {
    let entries = std::fs::read_dir(server.data().join("datastores/main")).unwrap().flatten();
    let hidden = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(".enfilade-"));
    hidden.filter_map(|entry| entry.metadata().ok()).map(|meta| meta.len()).sum()
}

#[test]
fn an_upload_whose_token_is_deleted_is_refused_at_its_next_piece_and_at_its_end() {
    const PIECE: usize = 300_000;
    let server = Server::start();
    let piece = [format!("{PIECE:x}\r\n").as_bytes(), &vec![b'n'; PIECE], b"\r\n"].concat();
    // After the token is deleted, the client sends another piece, or only the end of the body.
    for (name, rest) in [("during", piece.as_slice()), ("at-its-end", b"0\r\n\r\n".as_slice())] {
        let login = server.add_user(name, "DatastorePowerUser");
        let (user, secret) = login.split_once(':').unwrap();
        server.cli(&["acl", "set", "main", "/", "allow authenticated full inherit=files,dirs"]);
        let mut stream = TcpStream::connect(&server.plain).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let head = format!(
            "PUT /dav/main/{name} HTTP/1.1\r\nHost: x\r\nAuthorization: PBSAPIToken={user}:{secret}\r\n\
             Transfer-Encoding: chunked\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&piece).unwrap();
        until("the first piece comes to the disk", &server, || under_way(&server) > 0);
        server.cli(&["token", "delete", user]);
        stream.write_all(rest).unwrap();
        let mut answer = [0; 4096];
        let count = stream.read(&mut answer).unwrap();
        let said = String::from_utf8_lossy(&answer[..count]);
        assert!(said.starts_with("HTTP/1.1 401"), "{name}: {said}");
        assert!(!server.data().join("datastores/main").join(name).exists());
        until("nothing is left of it", &server, || under_way(&server) == 0);
    }
}

#[test]
fn a_download_is_cut_when_the_acl_of_its_file_no_longer_grants_it() {
    let server = Server::start();
    let alice = server.add_user("alice", "DatastoreReader");
    let main = server.data().join("datastores/main");
    // A sparse file of 8 GiB, which needs no disk space.
    std::fs::File::create(main.join("big")).unwrap().set_len(8 << 30).unwrap();
    std::fs::write(main.join("closed"), "x").unwrap();
    server.cli(&["acl", "set", "main", "/big", "allow alice@local full"]);
    server.cli(&["acl", "set", "main", "/closed", "deny alice@local full"]);
    let mut acl = vec![0; 4096];
    let read = |name: &str, acl: &mut Vec<u8>| getxattr(main.join("closed"), name, acl.as_mut_slice());
    let count = read("security.NTACL", &mut acl).or_else(|_| read("user.NTACL", &mut acl)).unwrap();
    let revision = || server.cli(&["facts", "status"])[0]["revision"].clone();
    // The test also uses a connection without TLS, because the kernel sends the file in this case.
    for url in [server.url("/dav/main/big"), format!("http://{}/dav/main/big", server.plain)] {
        server.cli(&["acl", "set", "main", "/big", "allow alice@local full"]);
        let taken = server.scratch.path().join("taken");
        let _ = std::fs::remove_file(&taken);
        let mut download = command(&server, &alice)
            .args(["--http1.1", "--limit-rate", "20M", &url, "--output"])
            .arg(&taken)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let is_coming = || std::fs::metadata(&taken).is_ok_and(|meta| meta.len() > 0);
        until("the download runs", &server, is_coming);
        let before = revision();
        // Another program changes the ACL, so the revision of the facts does not change.
        write_acl(&main.join("big"), &acl[..count]);
        let changed = Instant::now();
        let ended = loop {
            if let Some(status) = download.try_wait().unwrap() {
                break status;
            }
            assert!(changed.elapsed() < Duration::from_secs(2) * SLACK, "{url}: {}", server.log());
            std::thread::sleep(Duration::from_millis(20));
        };
        assert!(!ended.success(), "a cut download must not look whole");
        assert_eq!(revision(), before);
        assert_eq!(curl(&server, &alice, "/dav/main/big", &["--range", "0-1"]).status, 404);
    }
}
