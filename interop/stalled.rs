//! Clients without progress. The server closes a connection if the client does not read the response, or sends no request, and frees the resources of
//! the connection.

use crate::curl::curl;
use crate::http2::{DATA, GOAWAY, HEADERS, Http2, INITIAL_WINDOW, RESET};
use crate::limits::start;
use crate::server::Server;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// More bytes than all buffers between server and client can hold.
const LARGE_BYTES: u64 = 64 << 20;

/// The maximum time for a step, on a busy machine.
const LONGEST: Duration = Duration::from_secs(60);

/// Creates some thousand files, and a large file.
fn fill(server: &Server) {
    let main = server.data().join("datastores/main");
    std::fs::create_dir(main.join("many")).unwrap();
    for n in 0..12_000 {
        std::fs::write(main.join(format!("many/{n:0>200}")), "").unwrap();
    }
    std::fs::File::create(main.join("large")).unwrap().set_len(LARGE_BYTES).unwrap();
}

/// The requests: method, path, and an additional header.
const ASKED: [(&str, &str, (&str, &str)); 4] = [
    ("GET", "/dav/main/large", ("accept", "*/*")),
    ("GET", "/dav/main/large", ("range", "bytes=0-30000000,40000000-60000000")),
    ("GET", "/dav/main/many/", ("accept", "text/html")),
    ("PROPFIND", "/dav/main/many/", ("depth", "1")),
];

/// Waits until the datastore has no active operation. Returns false if operations are still active after [`LONGEST`].
fn nobody_is_inside(server: &Server) -> bool {
    let began = Instant::now();
    let mut waiting = Command::new(crate::server::BINARY)
        .arg("--data")
        .arg(server.data())
        .args(["datastore", "maintenance", "main", "offline", "--wait"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while waiting.try_wait().unwrap().is_none() && began.elapsed() < LONGEST {
        std::thread::sleep(Duration::from_millis(50));
    }
    let is_free = waiting.try_wait().unwrap().is_some_and(|status| status.success());
    let _ = waiting.kill();
    waiting.wait().unwrap();
    server.cli(&["datastore", "maintenance", "main", "none"]);
    is_free
}

fn authorization(token: &str) -> String {
    format!("PBSAPIToken={token}")
}

#[test]
fn readers_that_stand_still_are_let_go_on_http_1() {
    let (server, token) = start(&[("progress_seconds", "1"), ("download_bytes_per_second", "1024")]);
    fill(&server);
    for (method, path, (name, value)) in ASKED {
        let mut stream = TcpStream::connect(&server.plain).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: {}\r\n{name}: {value}\r\n\r\n",
            authorization(&token)
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut begin = [0; 12];
        stream.read_exact(&mut begin).unwrap();
        assert!(begin.starts_with(b"HTTP/1.1 20"), "{method} {path}: {:?}", String::from_utf8_lossy(&begin));
        assert!(nobody_is_inside(&server), "{method} {path} {value}");
        // An operation may end when its last piece is ready. Therefore the test waits until the server has checked the connection twice more.
        std::thread::sleep(Duration::from_secs(8));
        // The client gets the bytes that were already sent. Then the connection ends before the response is complete.
        let (mut came, mut piece) = (0, vec![0; 1 << 20]);
        stream.set_read_timeout(Some(LONGEST)).unwrap();
        let end = loop {
            match stream.read(&mut piece) {
                Ok(0) => break Ok(()),
                Ok(count) => came += count as u64,
                Err(why) => break Err(why.kind()),
            }
        };
        assert!(matches!(end, Ok(()) | Err(std::io::ErrorKind::ConnectionReset)), "{path}: {end:?}");
        assert!(came < LARGE_BYTES / 2, "{path}: {came}");
    }
}

#[test]
fn readers_that_stand_still_are_let_go_on_http_2() {
    let (server, token) = start(&[("progress_seconds", "1"), ("idle_seconds", "600")]);
    fill(&server);
    let authorization = authorization(&token);
    let fields = |method, path, more| {
        [(":method", method), (":scheme", "https"), (":authority", "x"), (":path", path)]
            .into_iter()
            .chain([("authorization", authorization.as_str()), more])
            .collect::<Vec<_>>()
    };
    for window in [0, 1, 100_000] {
        let mut http2 = Http2::connect(&server.address, &[(INITIAL_WINDOW, window)]);
        let streams: Vec<u32> =
            ASKED.iter().map(|(method, path, more)| http2.ask(&fields(method, path, *more))).collect();
        // Waits until all requests have entered the datastore, because later requests would be refused.
        let began = Instant::now();
        while http2.count(HEADERS) < streams.len() && began.elapsed() < LONGEST {
            std::thread::sleep(Duration::from_millis(50));
        }
        std::thread::sleep(Duration::from_millis(500));
        assert!(nobody_is_inside(&server), "a window of {window}");
        // The operation of a page ends before the page is sent. Therefore the test also waits for the answers.
        std::thread::sleep(Duration::from_secs(3));
        // The connection continues for other streams. A client that reads late sees that the response was aborted.
        assert!(!http2.is_over(), "a window of {window}");
        let _ = http2.ask(&fields("GET", "/whoami", ("accept", "*/*")));
        http2.open_window(0, 1 << 24);
        streams.iter().for_each(|stream| http2.open_window(*stream, 1 << 20));
        let began = Instant::now();
        while http2.count(RESET) < streams.len() && began.elapsed() < LONGEST {
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(http2.count(RESET), streams.len(), "a window of {window}: {:?}", http2.frames());
        assert!(!http2.is_over() && http2.count(GOAWAY) == 0, "a window of {window}");
    }
}

#[test]
fn readers_that_are_slow_and_steady_get_everything() {
    let (server, token) =
        start(&[("progress_seconds", "10"), ("idle_seconds", "10"), ("head_seconds", "60")]);
    let main = server.data().join("datastores/main");
    std::fs::write(main.join("file"), vec![b'x'; 200_000]).unwrap();
    std::fs::File::create(main.join("large")).unwrap().set_len(LARGE_BYTES).unwrap();
    // Both clients read slowly for longer than two intervals of the check. The HTTP/2 client opens the window of a stream by 16 KiB every 1.6
    // seconds.
    let authorization = authorization(&token);
    let mut http2 = Http2::connect(&server.address, &[(INITIAL_WINDOW, 0)]);
    let fields = [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "x"),
        (":path", "/dav/main/file"),
        ("authorization", &authorization),
    ];
    let stream = http2.ask(&fields);
    // The HTTP/1.1 client reads small pieces at intervals, and the rest at once in the end.
    let mut slow = TcpStream::connect(&server.plain).unwrap();
    let head = format!("GET /dav/main/large HTTP/1.1\r\nHost: x\r\nAuthorization: {authorization}\r\n\r\n");
    slow.write_all(head.as_bytes()).unwrap();
    let reader = std::thread::spawn(move || {
        let (mut came, mut piece) = (0, vec![0; 1 << 20]);
        let began = Instant::now();
        while came < LARGE_BYTES {
            if began.elapsed() < Duration::from_secs(25) {
                std::thread::sleep(Duration::from_millis(400));
            }
            let count = slow.read(&mut piece).unwrap();
            assert!(count > 0, "cut after {came} bytes");
            came += count as u64;
        }
    });
    let bytes = |http2: &Http2| -> usize {
        http2.frames().iter().filter(|frame| frame.0 == DATA).map(|frame| frame.2).sum()
    };
    for _ in 0..13 {
        std::thread::sleep(Duration::from_millis(1600));
        http2.open_window(0, 16 * 1024);
        http2.open_window(stream, 16 * 1024);
    }
    let began = Instant::now();
    while bytes(&http2) < 200_000 && http2.count(RESET) == 0 && began.elapsed() < LONGEST {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!((bytes(&http2), http2.count(RESET)), (200_000, 0), "{:?}", http2.frames());
    reader.join().unwrap();
}

#[test]
fn connections_on_which_nothing_is_asked_for_are_ended() {
    let (server, token) = start(&[("idle_seconds", "4"), ("progress_seconds", "4"), ("head_seconds", "5")]);
    let soon = |is_over: &mut dyn FnMut() -> bool| {
        let began = Instant::now();
        while !is_over() && began.elapsed() < LONGEST {
            std::thread::sleep(Duration::from_millis(50));
        }
        is_over()
    };
    // The server closes idle HTTP/2 connections: without a request, after one request, and with a head that never ends.
    let authorization = authorization(&token);
    let fields = [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "x"),
        (":path", "/whoami"),
        ("authorization", authorization.as_str()),
    ];
    for case in 0..3 {
        let mut http2 = Http2::connect(&server.address, &[]);
        match case {
            1 => drop(http2.ask(&fields)),
            // A HEADERS frame without the flag END_HEADERS.
            2 => http2.frame(1, 1, 1, &[0x82]),
            _ => {}
        }
        assert!(soon(&mut || http2.is_over()), "case {case}: {:?}", http2.frames());
        assert_eq!(http2.count(DATA), usize::from(case == 1), "case {case}");
    }
    // The server closes an idle HTTP/1.1 connection after a request.
    let mut stream = TcpStream::connect(&server.plain).unwrap();
    let request = format!("GET /whoami HTTP/1.1\r\nHost: x\r\nAuthorization: {authorization}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let (said, took) = crate::limits::until_the_end(&mut stream);
    assert!(said.starts_with("HTTP/1.1 200") && took < Duration::from_secs(50), "{said} {took:?}");
    // A client that sends a request at intervals stays connected for longer than the idle limit.
    let (server, token) = start(&[("idle_seconds", "6"), ("progress_seconds", "6"), ("head_seconds", "6")]);
    let authorization = self::authorization(&token);
    let fields = [&fields[..4], &[("authorization", authorization.as_str())]].concat();
    let mut http2 = Http2::connect(&server.address, &[]);
    for _ in 0..8 {
        http2.ask(&fields);
        std::thread::sleep(Duration::from_secs(1));
    }
    assert!(!http2.is_over() && http2.count(GOAWAY) == 0);
    assert_eq!(curl(&server, &token, "/whoami", &[]).status, 200);
}
