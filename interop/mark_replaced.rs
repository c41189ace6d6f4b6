//! The file `high-water`, which contains the newest revision, is removed or replaced while a server runs.

use crate::curl::curl;
use crate::server::Server;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

/// A time limit for an effect that normally takes a second. The limit is long because machines may be slow.
const WITHIN: Duration = Duration::from_secs(30);

#[test]
fn a_revocation_is_obeyed_by_the_next_request_also_after_the_mark_was_replaced() {
    let server = Server::start();
    let mark = server.data().join("facts/high-water");
    let maps = || std::fs::read_to_string(format!("/proc/{}/maps", server.pid())).unwrap();
    // In the lines of this file, the inode is the field before the path (proc(5)).
    let is_followed = || {
        let inode = std::fs::metadata(&mark).map_or(0, |meta| meta.ino()).to_string();
        let mut mapped = maps().lines().map(str::to_owned).collect::<Vec<_>>().into_iter();
        mapped.any(|line| line.contains("high-water") && line.split_whitespace().nth(4) == Some(&inode))
    };
    let status = |login: &str| curl(&server, login, "/whoami", &[]).status;
    for is_removed in [false, true] {
        let tokens: Vec<String> =
            (0..8).map(|n| server.add_token(&format!("admin@local!t{n}-{is_removed}"))).collect();
        let old = server.scratch.path().join("old");
        std::fs::copy(&mark, &old).unwrap();
        assert_eq!(status(&tokens[0]), 200);
        match is_removed {
            true => std::fs::remove_file(&mark).unwrap(),
            false => std::fs::rename(&old, &mark).unwrap(),
        }
        let replaced = Instant::now();
        while !is_followed() && replaced.elapsed() < WITHIN {
            std::thread::sleep(Duration::from_millis(20));
        }
        for token in &tokens {
            // After these requests, the server remembers its decision about the token while the revision in `high-water` is the same.
            assert_eq!([status(token), status(token)], [200, 200]);
            server.cli(&["token", "delete", token.split(':').next().unwrap()]);
            assert_eq!(status(token), 401, "removed: {is_removed}; {}", maps());
        }
    }
}
