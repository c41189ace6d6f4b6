//! Requests of a user use only this user's share of threads, pages and response memory. Other users do not
//! wait.

use crate::curl::{command, curl};
use crate::http2::{Http2, INITIAL_WINDOW, RESET};
use crate::limits::start;
use crate::server::Server;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

#[test]
fn copies_of_one_user_leave_threads_to_others() {
    let (server, _) = start(&[("threads", "6"), ("threads_per_user", "3")]);
    let [alice, bob] = ["alice", "bob"].map(|name| server.add_user(name, "DatastoreAdmin"));
    let main = server.data().join("datastores/main");
    std::fs::create_dir(main.join("tree")).unwrap();
    (0..3_000).for_each(|n| std::fs::write(main.join(format!("tree/{n}")), "x").unwrap());
    let copy = |n: usize| -> Child {
        let to = format!("Destination: /dav/main/copy{n}");
        let mut copy = command(&server, &alice);
        copy.args([
            "--request",
            "COPY",
            "--header",
            &to,
            "--output",
            "/dev/null",
            "--write-out",
            "%{http_code}",
        ]);
        copy.arg(server.url("/dav/main/tree/")).stdout(Stdio::piped()).spawn().unwrap()
    };
    let under_way = || {
        let names =
            std::fs::read_dir(&main).unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.filter(|name| name.starts_with(".enfilade-")).count()
    };
    let goes_before_copies = |round: usize| {
        let mut copies: Vec<Child> = (6 * round..6 * round + 6).map(copy).collect();
        // Waits until the permitted number of copies run.
        let began = Instant::now();
        while under_way() < 3 && began.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(5));
        }
        // A PUT needs a thread.
        let path = format!("/dav/main/of-bob{round}");
        assert_eq!(curl(&server, &bob, &path, &["--request", "PUT", "--data", "x"]).status, 201);
        let over = copies.iter_mut().filter_map(|copy| copy.try_wait().unwrap()).count();
        for copy in copies {
            let output = copy.wait_with_output().unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout), "201");
        }
        over == 0
    };
    // On a busy machine, a copy may end while this process waits for processor time. Therefore there are
    // several rounds.
    assert!((0..5).any(goes_before_copies), "another user waited for copies");
}

#[test]
fn pages_that_nobody_reads_keep_only_their_own_user_waiting() {
    let (server, _) = start(&[("pages_per_user", "1"), ("progress_seconds", "60")]);
    let logins = ["alice", "bob"].map(|name| server.add_user(name, "DatastoreAdmin"));
    let [alice, bob] = logins.map(|login| format!("PBSAPIToken={login}"));
    let main = server.data().join("datastores/main");
    (0..2_000).for_each(|n| std::fs::write(main.join(format!("{n:0>100}")), "x").unwrap());
    let mut http2 = Http2::connect(&server.address, &[(INITIAL_WINDOW, 0)]);
    let mut page = |authorization: &str| {
        http2.ask(&[
            (":method", "GET"),
            (":scheme", "https"),
            (":authority", "x"),
            (":path", "/dav/main/"),
            ("accept", "text/html"),
            ("authorization", authorization),
        ])
    };
    let [first, second, other] = [page(&alice), page(&alice), page(&bob)];
    let answered =
        |http2: &Http2, stream: u32| http2.frames().iter().any(|frame| (frame.0, frame.1) == (1, stream));
    let soon = |http2: &Http2, stream: u32| {
        let began = Instant::now();
        while !answered(http2, stream) && began.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(20));
        }
        answered(http2, stream)
    };
    assert!(soon(&http2, other));
    std::thread::sleep(Duration::from_millis(500));
    let [waits, goes_on] = if answered(&http2, first) { [second, first] } else { [first, second] };
    assert!(!answered(&http2, waits), "{:?}", http2.frames());
    // After the first stream is cancelled, the waiting request is answered.
    http2.frame(RESET, 0, goes_on, &[0, 0, 0, 8]);
    assert!(soon(&http2, waits));
}

/// A value of the memory of a server in bytes, by its name in `/proc/PID/status`.
fn memory(server: &Server, key: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

#[test]
fn answers_that_nobody_takes_hold_little_memory_and_keep_only_their_own_user_waiting() {
    let (server, _) = start(&[("answer_bytes_per_user", "33554432"), ("progress_seconds", "60")]);
    let [alice, bob] = ["alice", "bob"].map(|name| server.add_user(name, "DatastoreAdmin"));
    let authorization = format!("PBSAPIToken={alice}");
    let main = server.data().join("datastores/main");
    std::fs::File::create(main.join("large")).unwrap().set_len(64 << 20).unwrap();
    std::fs::write(main.join("one-piece"), vec![b'x'; 200_000]).unwrap();
    std::fs::create_dir(main.join("many")).unwrap();
    (0..4_000).for_each(|n| std::fs::write(main.join(format!("many/{n:0>200}")), "").unwrap());
    assert_eq!(curl(&server, &bob, "/dav/main/one-piece", &[]).status, 200);
    // The client reads nothing of a stream, or one byte, or more than a piece.
    for (method, path, more, window) in [
        ("GET", "/dav/main/large", ("accept", "*/*"), 0),
        ("GET", "/dav/main/large", ("accept", "*/*"), 1),
        ("GET", "/dav/main/large", ("accept", "*/*"), 600_000),
        ("GET", "/dav/main/large", ("range", "bytes=0-30000000,40000000-60000000"), 1),
        ("GET", "/dav/main/one-piece", ("accept", "*/*"), 0),
        ("PROPFIND", "/dav/main/many/", ("depth", "1"), 0),
        ("PROPFIND", "/dav/main/many/", ("depth", "1"), 1),
    ] {
        std::fs::write(format!("/proc/{}/clear_refs", server.pid()), "5").unwrap();
        let before = memory(&server, "VmRSS:");
        let connections: Vec<Http2> = (0..4)
            .map(|_| {
                let mut http2 = Http2::connect(&server.address, &[(INITIAL_WINDOW, window)]);
                http2.open_window(0, 1 << 30);
                for _ in 0..100 {
                    http2.ask(&[
                        (":method", method),
                        (":scheme", "https"),
                        (":authority", "x"),
                        (":path", path),
                        ("authorization", &authorization),
                        more,
                    ]);
                }
                http2
            })
            .collect();
        std::thread::sleep(Duration::from_secs(2));
        let began = Instant::now();
        let answer = curl(&server, &bob, "/dav/main/one-piece", &[]);
        assert_eq!((answer.status, answer.body.len()), (200, 200_000), "{method} {path} {window}");
        assert!(began.elapsed() < Duration::from_secs(10), "{method} {path} {window}");
        let grown = memory(&server, "VmHWM:").saturating_sub(before) >> 20;
        println!("{method} {path} {more:?}, a window of {window}: memory grew by {grown} MiB");
        assert!(grown < 64, "{method} {path} {more:?}, a window of {window}: memory grew by {grown} MiB");
        drop(connections);
    }
    // The shares of the aborted answers are free again: the same user can read a whole large file.
    let answer = curl(&server, &alice, "/dav/main/large", &["--max-time", "60"]);
    assert_eq!((answer.status, answer.body.len()), (200, 64 << 20));
}
