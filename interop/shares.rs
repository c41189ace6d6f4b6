//! What one user asks for takes that user's share of threads and pages; other users do not wait for it.

use crate::curl::{command, curl};
use crate::http2::{Http2, INITIAL_WINDOW, RESET};
use crate::limits::start;
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
    let mut copies: Vec<Child> = (0..6).map(copy).collect();
    // As many are under way as may be.
    let begun = || {
        let names =
            std::fs::read_dir(&main).unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.filter(|name| name != "tree").count()
    };
    let began = Instant::now();
    while begun() < 3 && began.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(5));
    }
    // Writing takes threads.
    assert_eq!(curl(&server, &bob, "/dav/main/of-bob", &["--request", "PUT", "--data", "x"]).status, 201);
    let is_over = copies.iter_mut().filter_map(|copy| copy.try_wait().unwrap()).count();
    assert_eq!(is_over, 0, "another user waited for copies");
    for copy in copies {
        let output = copy.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "201");
    }
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
    // CANCEL: it is the other one's turn.
    http2.frame(RESET, 0, goes_on, &[0, 0, 0, 8]);
    assert!(soon(&http2, waits));
}
