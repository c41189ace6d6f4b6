//! A running upload reserves about as much additional space as it has received. A request that waits for a disk delays no other request. WebDAV
//! refuses changes that a browser sends for a page of another site.

use crate::curl::curl;
use crate::limits::start;
use crate::server::{Server, until};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Begins an upload with a declared length, and sends a part of it.
fn begin(server: &Server, token: &str, path: &str, says: u64, sends: usize) -> TcpStream {
    let mut stream = TcpStream::connect(&server.plain).unwrap();
    let head = format!(
        "PUT {path} HTTP/1.1\r\nHost: x\r\nAuthorization: PBSAPIToken={token}\r\nContent-Length: {says}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&vec![b'x'; sends]).unwrap();
    stream
}

/// The disk usage of files that a server has open in a directory, in bytes, including unnamed files.
fn taken(server: &Server, beneath: &std::path::Path) -> u64 {
    let fds = std::fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap().flatten();
    let of_files = fds.filter(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to.starts_with(beneath)));
    of_files.filter_map(|fd| std::fs::metadata(fd.path()).ok()).map(|found| found.blocks() * 512).sum()
}

#[test]
fn an_upload_holds_no_more_room_than_came() {
    let (server, token) = start(&[]);
    let place = server.scratch.path().join("small");
    server.cli(&["datastore", "create", "small", "--path", place.to_str().unwrap(), "--quota", "10M"]);
    // Clients that declare a large length and send little do not use up the quota.
    let slow: Vec<TcpStream> =
        (0..8).map(|n| begin(&server, &token, &format!("/dav/small/slow{n}"), 9_000_000, 1)).collect();
    std::thread::sleep(Duration::from_millis(500));
    let body = server.scratch.path().join("body");
    std::fs::write(&body, vec![7; 5_000_000]).unwrap();
    let put = |more: &[&str]| {
        let arguments = [&["-T", body.to_str().unwrap()], more].concat();
        curl(&server, &token, "/dav/small/other", &arguments).status
    };
    assert_eq!(put(&[]), 201);
    drop(slow);
    // An upload that cannot fit is refused before it is sent, by Content-Length and by the expected-length header.
    let mut large = begin(&server, &token, "/dav/small/large", 10_000_001, 0);
    let mut begun = [0; 12];
    large.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    large.read_exact(&mut begun).unwrap();
    assert_eq!(String::from_utf8_lossy(&begun), "HTTP/1.1 507");
    assert_eq!(put(&["-H", "Transfer-Encoding: chunked", "-H", "X-Expected-Entity-Length: 170000000"]), 507);
    // Repeats the test for the space of the disk.
    let main = server.data().join("datastores/main");
    let slow: Vec<TcpStream> = (0..8)
        .map(|n| {
            begin(&server, &token, &format!("/dav/main/slow{n}"), 1 << 30, if n == 0 { 3 << 20 } else { 1 })
        })
        .collect();
    std::thread::sleep(Duration::from_millis(500));
    // An upload of 3 MiB so far may have reserved another 3 MiB.
    assert!(taken(&server, &main) <= 8 << 20, "{} bytes are taken", taken(&server, &main));
    drop(slow);
    let mut absurd = begin(&server, &token, "/dav/main/absurd", 1 << 60, 0);
    absurd.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    absurd.read_exact(&mut begun).unwrap();
    assert_eq!(String::from_utf8_lossy(&begun), "HTTP/1.1 507");
}

/// The duration of a DELETE while each sync takes long. The thread of the server holds the datastore's turn while it deletes the file. It syncs the
/// directory afterwards, without the turn.
fn deleting(server: &Server, token: &str, name: &str) -> Duration {
    let began = Instant::now();
    let answer = curl(server, token, &format!("/dav/main/{name}"), &["--request", "DELETE"]);
    assert_eq!(answer.status, 204);
    began.elapsed()
}

#[test]
fn properties_wait_for_the_disk_outside_of_the_turn() {
    let (server, token) = start(&[]);
    for name in ["file", "one", "two"] {
        std::fs::write(server.data().join("datastores/main").join(name), "x").unwrap();
    }
    let mut slowed = Command::new("strace")
        .args(["-f", "-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:delay_enter=6000000", "-p"])
        .arg(server.pid().to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("strace is needed");
    until("strace is attached to every thread", &server, || {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap().flatten();
        // A thread that has ended has no status.
        let mut told = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok());
        told.all(|status| !status.contains("TracerPid:\t0\n"))
    });
    let alone = deleting(&server, &token, "one");
    assert!(alone > Duration::from_secs(5), "syncs take long: {alone:?}");
    let set = "<propertyupdate xmlns='DAV:'><set><prop><a xmlns='urn:x'>1</a></prop></set></propertyupdate>";
    let patched = std::thread::scope(|scope| {
        let patch = scope.spawn(|| {
            curl(&server, &token, "/dav/main/file", &["--request", "PROPPATCH", "--data", set]).status
        });
        std::thread::sleep(Duration::from_millis(300));
        let during = deleting(&server, &token, "two");
        assert!(during < alone + Duration::from_secs(4), "alone {alone:?}, during PROPPATCH {during:?}");
        patch.join().unwrap()
    });
    assert_eq!(patched, 207);
    slowed.kill().unwrap();
    slowed.wait().unwrap();
}

#[test]
fn changes_for_a_page_of_another_site_are_refused() {
    let (server, token) = start(&[]);
    let status = |method: &str, headers: &[String]| {
        let mut arguments = vec!["--request", method];
        headers.iter().for_each(|header| arguments.extend(["--header", header]));
        curl(&server, &token, "/dav/main/made", &arguments).status
    };
    let own = format!("Origin: https://{}", server.address);
    let (_, port) = server.address.rsplit_once(':').unwrap();
    for (headers, is_own) in [
        (vec![], true),
        (vec![own.clone()], true),
        (vec![own.to_uppercase().replace("ORIGIN", "Origin")], true),
        (vec!["Origin: https://dav.example".to_owned(), "Host: dav.example:443".to_owned()], true),
        (vec!["Origin: http://dav.example".to_owned(), "Host: dav.example".to_owned()], true),
        (vec!["Origin: https://evil.example".to_owned()], false),
        (vec![format!("Origin: https://evil.example:{port}")], false),
        (vec!["Origin: https://127.0.0.1".to_owned()], false),
        (vec!["Origin: null".to_owned()], false),
        (vec!["Origin:".to_owned() + " x"], false),
        // Sec-Fetch-Site has priority over Origin, because a proxy may have changed the host.
        (vec!["Origin: https://evil.example".to_owned(), "Sec-Fetch-Site: same-origin".to_owned()], true),
        (vec![own, "Sec-Fetch-Site: cross-site".to_owned()], false),
    ] {
        let expected = if is_own { [201, 204] } else { [403, 403] };
        assert_eq!([status("MKCOL", &headers), status("DELETE", &headers)], expected, "{headers:?}");
        assert_eq!(
            status("PROPFIND", &[&headers[..], &["Depth: 0".to_owned()]].concat()),
            404,
            "{headers:?}"
        );
    }
}
