//! All refused logins look alike: the same bytes after the same time. This holds for unknown names, wrong secrets, and disabled or expired tokens
//! with a right or wrong secret.
//!
//! In CI the test is short and compares only the bytes; the campaign (`cargo xtask timing`) measures times.

use crate::server::{Server, WITHOUT_PENALTIES, write_acl};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

/// The secrets. Four characters are appended to `WRONG`, because all requests must have the same length.
const RIGHT: &str = "550e8400-e29b-41d4-a716-446655440000";
const WRONG: &str = "650e8400-e29b-41d4-a716-44665544";

/// The requests, each with or without the right secret. The first request is the reference for the others.
const ASKED: [(&str, &str, bool); 8] = [
    ("a wrong secret", "ann@pbs!tok", false),
    ("the same again", "ann@pbs!tok", false),
    ("an unknown token", "ann@pbs!not", false),
    ("an unknown user", "ben@pbs!tok", false),
    ("an unknown realm", "ann@pws!tok", false),
    ("a disabled token, wrong secret", "ann@pbs!off", false),
    ("a disabled token, right secret", "ann@pbs!off", true),
    ("an expired token, right secret", "ann@pbs!old", true),
];

/// The test adds a delay of this size itself, and must detect it.
const INJECTED: Duration = Duration::from_micros(5);

struct Client(TcpStream);

impl Client {
    /// Sends a request. Returns the answer without its date, and the elapsed time.
    fn ask(&mut self, authid: &str, secret: &str, more: Duration) -> (String, Duration) {
        self.call("GET", "/whoami", "", (authid, secret), more)
    }

    fn call(
        &mut self,
        method: &str,
        path: &str,
        headers: &str,
        (authid, secret): (&str, &str),
        more: Duration,
    ) -> (String, Duration) {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: PBSAPIToken={authid}:{secret}\r\n{headers}\r\n"
        );
        let mut answer = [0; 4096];
        let mut length = 0;
        let began = Instant::now();
        self.0.write_all(request.as_bytes()).unwrap();
        while !is_whole(&answer[..length]) {
            let count = self.0.read(&mut answer[length..]).unwrap();
            assert_ne!(count, 0, "the server hung up");
            length += count;
        }
        let until = began.elapsed() + more;
        while began.elapsed() < until && !more.is_zero() {
            std::hint::spin_loop();
        }
        let took = began.elapsed();
        let text = String::from_utf8_lossy(&answer[..length]).into_owned();
        let is_own = |line: &&str| !line.starts_with("date:") && !line.starts_with("x-request-id:");
        (text.lines().filter(is_own).collect::<Vec<_>>().join("\n"), took)
    }
}

fn is_whole(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
    length.unwrap_or(0) <= body.len()
}

/// A server with only slow hashes, of the lowest cost.
fn server() -> Server {
    let server = Server::start_with(&[WITHOUT_PENALTIES]);
    let hash = |salt: &str| {
        let program = format!("print crypt('{RIGHT}', '$5$rounds=1000${salt}$')");
        let output = Command::new("perl").args(["-e", &program]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let write = |name: &str, text: &str| std::fs::write(server.data().join(name), text).unwrap();
    let shadow: Vec<String> = ["tok", "off", "old"]
        .iter()
        .map(|name| format!("\"ann@pbs!{name}\":\"{}\"", hash(&format!("{name}salts"))))
        .collect();
    write("token.shadow", &format!("{{{}}}", shadow.join(",")));
    write(
        "user.cfg",
        "user: ann@pbs\n\ntoken: ann@pbs!tok\n\ntoken: ann@pbs!off\n\tenable 0\n\ntoken: ann@pbs!old\n\texpire 1000\n\n",
    );
    assert_eq!(server.cli(&["token", "list"]).len(), 3);
    server
}

/// The times are divided into this number of parts, or slightly more, and compared part by part. The times of one part are from the same period,
/// because a slow minute of the machine must affect both kinds of requests.
const PARTS: usize = 30;

/// Student's t for the differences of two sets of times that were measured alternately. Each difference is between the faster halves of one part of
/// both sets, because slower times are noise of the machine.
fn t_value(one: &[f64], other: &[f64]) -> f64 {
    let part = (one.len() / PARTS).max(1);
    let parts = one.chunks_exact(part).zip(other.chunks_exact(part));
    let differences: Vec<f64> = parts.map(|(one, other)| fast_half(one) - fast_half(other)).collect();
    let count = differences.len() as f64;
    let mean = differences.iter().sum::<f64>() / count;
    let variance = differences.iter().map(|each| (each - mean).powi(2)).sum::<f64>() / (count - 1.0);
    mean / (variance / count).sqrt()
}

#[test]
fn whoever_is_refused_is_refused_alike() {
    let server = server();
    let n = std::env::var("ENFILADE_CAMPAIGN_N").ok().and_then(|n| n.parse::<usize>().ok());
    let (rounds, is_campaign) = n.map_or((40, false), |n| (n / (ASKED.len() + 1) + 1, true));
    let mut client = Client(TcpStream::connect(&server.plain).unwrap());
    client.0.set_nodelay(true).unwrap();
    let (right, _) = client.ask("ann@pbs!tok", RIGHT, Duration::ZERO);
    assert!(right.starts_with("HTTP/1.1 200"), "{right}");
    // The server remembers the right secret, but no refusals.
    let mut times = vec![Vec::with_capacity(rounds); ASKED.len() + 1];
    let mut expected = None;
    let mut shown = Instant::now();
    for round in 0..rounds {
        for turn in 0..times.len() {
            // Each round has a different order, because a request must not always follow the same request.
            let which = (turn * [1, 2, 4, 5, 7, 8][round % 6] + round) % times.len();
            let (_, authid, is_right) = ASKED[which % ASKED.len()];
            let wrong = format!("{WRONG}{:04}", round % 10_000);
            let secret = if is_right { RIGHT } else { &wrong };
            let more = if which == ASKED.len() { INJECTED } else { Duration::ZERO };
            let (answer, took) = client.ask(authid, secret, more);
            assert_eq!(
                *expected.get_or_insert_with(|| answer.clone()),
                answer,
                "{:?}",
                ASKED[which % ASKED.len()]
            );
            times[which].push(took.as_secs_f64() * 1e6);
        }
        if is_campaign && shown.elapsed() > Duration::from_secs(10) {
            eprintln!("timing: {round} of {rounds} rounds");
            shown = Instant::now();
        }
    }
    assert!(expected.unwrap().starts_with("HTTP/1.1 401"));
    let mut found = Vec::new();
    for (which, name) in
        ASKED.iter().map(|(name, ..)| *name).chain(["5 µs more (injected)"]).enumerate().skip(1)
    {
        let t = t_value(&times[which], &times[0]);
        let mut sorted = times[which].clone();
        sorted.sort_by(f64::total_cmp);
        println!("timing: {name}: median {:.1} µs, Student's t {t:+.1}", sorted[sorted.len() / 2]);
        found.push(t.abs());
    }
    if is_campaign {
        let injected = found.pop().unwrap();
        let samples = rounds * times.len();
        assert!(injected > 4.5, "5 µs were not found in {samples} samples: Student's t {injected:.1}");
        assert!(found.iter().all(|t| *t < 4.5), "a difference was found: Student's t {found:?}");
        println!("timing: {samples} refusals look alike, and 5 µs more would be seen");
    }
}

/// The mean of the faster half. Slower times are noise of the machine.
fn fast_half(times: &[f64]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.truncate((sorted.len() / 2).max(1));
    sorted.iter().sum::<f64>() / sorted.len() as f64
}

/// The reasons why an entry cannot be seen. The first reason is the reference for the others.
const NOT_THERE: [&str; 4] = ["gone", "none", "hide", "hurt"];
/// The requests about an entry that cannot be seen: the method, and an additional header.
const OF_NOTHING: [(&str, &str); 5] = [
    ("GET", ""),
    ("PROPFIND", "Depth: 0\r\n"),
    ("DELETE", ""),
    ("MOVE", "Destination: /dav/main/made\r\n"),
    ("COPY", "Destination: /dav/main/made\r\n"),
];

#[test]
fn what_is_hidden_is_refused_after_the_time_of_what_is_absent() {
    let server = Server::start_with(&[WITHOUT_PENALTIES]);
    let login = server.add_user("bob", "DatastorePowerUser");
    let login = login.split_once(':').unwrap();
    let main = server.data().join("datastores/main");
    for name in ["hide", "hurt"] {
        std::fs::write(main.join(name), "x").unwrap();
        server.cli(&["acl", "set", "main", &format!("/{name}"), "allow admin@local full"]);
    }
    write_acl(&main.join("hurt"), b"nonsense");
    let n = std::env::var("ENFILADE_CAMPAIGN_N").ok().and_then(|n| n.parse::<usize>().ok());
    let (rounds, is_campaign) =
        n.map_or((20, false), |n| (n / (NOT_THERE.len() + 1) / OF_NOTHING.len() + 1, true));
    let mut client = Client(TcpStream::connect(&server.plain).unwrap());
    client.0.set_nodelay(true).unwrap();
    for (method, headers) in OF_NOTHING {
        let mut times = vec![Vec::with_capacity(rounds); NOT_THERE.len() + 1];
        let mut expected = None;
        for round in 0..rounds {
            for turn in 0..times.len() {
                let which = (turn * [1, 2, 3, 4][round % 4] + round) % times.len();
                let more = if which == NOT_THERE.len() { INJECTED } else { Duration::ZERO };
                let path = format!("/dav/main/{}", NOT_THERE[which % NOT_THERE.len()]);
                let (answer, took) = client.call(method, &path, headers, login, more);
                assert_eq!(*expected.get_or_insert_with(|| answer.clone()), answer, "{method} {path}");
                times[which].push(took.as_secs_f64() * 1e6);
            }
        }
        assert!(expected.unwrap().starts_with("HTTP/1.1 404"));
        let differs: Vec<f64> = times.iter().map(|these| fast_half(these) - fast_half(&times[0])).collect();
        for (name, differs) in NOT_THERE.iter().chain([&"5 µs more (injected)"]).zip(&differs) {
            println!("timing: {method} of `{name}`: {differs:+.2} µs compared with `gone`");
        }
        if is_campaign {
            let (injected, others) = differs.split_last().unwrap();
            assert!(*injected > 3.5, "{method}: 5 µs were not found: {injected:.2} µs");
            assert!(others.iter().all(|differs| differs.abs() < 3.5), "{method}: {others:?} µs");
        }
    }
    println!(
        "timing: what is hidden and what is absent differ by less than 3.5 µs, and 5 µs more would be seen"
    );
}
