//! If the clients of a user leave many HTTP/2 responses unread, only this user waits, until the server aborts the unread responses.

use crate::curl::command;
use crate::http2::{HEADERS, Http2, INITIAL_WINDOW};
use crate::limits::start;
use crate::server::until;
use std::time::Duration;

/// The header with the SHA-256 digest of 200,000 bytes `x`.
const DIGEST: &str = "repr-digest: sha-256=:keP6r9MivN8WDz8M6IassJK5ueKh6FJrQPIaiJiocAs=:";

#[test]
fn a_user_is_told_digests_while_answers_stand_still_and_is_served_when_they_are_let_go() {
    let (server, _) = start(&[("answer_bytes_per_user", "1048576"), ("progress_seconds", "5")]);
    let alice = server.add_user("alice", "DatastoreAdmin");
    std::fs::write(server.data().join("datastores/main/one-piece"), vec![b'x'; 200_000]).unwrap();
    let authorization = format!("PBSAPIToken={alice}");
    let mut http2 = Http2::connect(&server.address, &[(INITIAL_WINDOW, 0)]);
    for _ in 0..4 {
        http2.ask(&[
            (":method", "GET"),
            (":scheme", "https"),
            (":authority", "x"),
            (":path", "/dav/main/one-piece"),
            ("authorization", &authorization),
        ]);
    }
    until("all four are answered", &server, || http2.count(HEADERS) == 4);
    std::thread::sleep(Duration::from_millis(700));
    // The user's share of answer memory is used up. Therefore only the head of the next answer comes at first. The content comes after the server has
    // aborted the unread answers.
    for (seconds, bytes) in [("4", 0), ("60", 200_000)] {
        let mut asked = command(&server, &alice);
        asked.args(["--http2", "--max-time", seconds, "--header", "Want-Repr-Digest: sha-256=1"]);
        asked.args(["--dump-header", "-", "--output", "/dev/null", "--write-out", "%{size_download}"]);
        let output = asked.arg(server.url("/dav/main/one-piece")).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.starts_with("HTTP/2 200") && said.contains(DIGEST), "{seconds}: {said}");
        assert_eq!(said.lines().last(), Some(bytes.to_string().as_str()), "{seconds}: {said}");
    }
    drop(http2);
}
