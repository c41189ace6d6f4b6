//! The limits of `[limits]` for connections: their number and their duration.

use crate::curl::command;
use crate::limits::{start, until_the_end};
use crate::server::{BINARY, Scratch, Server, first_line, until};
use crate::signals::signal;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn begin(to: &str, said: &str) -> TcpStream {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.write_all(said.as_bytes()).unwrap();
    stream
}

/// Waits until this many connections are open.
fn until_open(server: &Server, count: usize) {
    let open = || {
        let url = format!("http://{}/metrics", server.operations);
        let output = Command::new("curl").args(["--silent", "--max-time", "60", &url]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("enfilade_connections "));
        line.and_then(|count| count.parse::<usize>().ok())
    };
    until(&format!("{count} open connections"), server, || open() == Some(count));
}

/// Sends a request on a connection that stays open. Returns the status line.
fn ask(stream: &mut TcpStream, token: &str) -> String {
    let (user, secret) = token.split_once(':').unwrap();
    let request =
        format!("GET /whoami HTTP/1.1\r\nHost: x\r\nAuthorization: PBSAPIToken={user}:{secret}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = [0; 4096];
    let count = stream.read(&mut answer).unwrap();
    String::from_utf8_lossy(&answer[..count]).lines().next().unwrap_or_default().to_owned()
}

#[test]
fn whoever_says_nothing_or_is_nobody_waits_for_a_turn() {
    let (server, token) = start(&[
        ("unauthenticated_per_address", "2"),
        ("first_byte_seconds", "8"),
        ("head_seconds", "60"),
        ("handshake_seconds", "60"),
    ]);
    for to in [&server.plain, &server.address] {
        let (said, took) = until_the_end(&mut TcpStream::connect(to).unwrap());
        assert!(said.is_empty() && (5..40).contains(&took.as_secs()), "{said} {took:?}");
    }
    // Authenticated connections do not count for the limit of unauthenticated connections.
    let let_in = |_| {
        let mut stream = TcpStream::connect(&server.plain).unwrap();
        assert_eq!(ask(&mut stream, &token), "HTTP/1.1 200 OK");
        stream
    };
    let mut known: Vec<TcpStream> = (0..4).map(let_in).collect();
    let half = "GET /whoami HTTP/1.1\r\nHost:";
    // Waits until the server has counted the first connection, before the second connects.
    let mut strangers = [5, 6].map(|count| {
        let stream = begin(&server.plain, half);
        until_open(&server, count);
        std::thread::sleep(Duration::from_millis(50));
        stream
    });
    // A waiting connection gets the slot of the connection that has made no progress for the longest time.
    let whole = format!("{half} x\r\nConnection: close\r\n\r\n");
    let (said, took) = until_the_end(&mut begin(&server.plain, &whole));
    assert!(said.starts_with("HTTP/1.1 401") && took < Duration::from_secs(20), "{said} {took:?}");
    let (said, _) = until_the_end(&mut strangers[0]);
    assert!(said.is_empty(), "{said}");
    assert_eq!(ask(&mut known[0], &token), "HTTP/1.1 200 OK");
}

#[test]
fn slow_connections_of_an_address_keep_nobody_out() {
    // The defaults: 256 unauthenticated connections of an address; 64 of them are served at the same time.
    let (server, token) = start(&[("head_seconds", "60"), ("first_byte_seconds", "30")]);
    let half = "GET /whoami HTTP/1.1\r\nHost:";
    // Tries an unfinished request head, and an unfinished body of a login.
    let login = "POST /v3/auth/tokens HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{";
    for said in [half, login] {
        let slow: Vec<TcpStream> = (0..100).map(|_| begin(&server.plain, said)).collect();
        let mut stream = TcpStream::connect(&server.plain).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(25))).unwrap();
        assert_eq!(ask(&mut stream, &token), "HTTP/1.1 200 OK", "{said}");
        drop(slow);
    }
}

#[test]
fn an_address_may_have_any_number_of_connections_that_signed_in() {
    let (server, token) = start(&[
        ("connections_per_address", "4"),
        ("unauthenticated_per_address", "4"),
        ("first_byte_seconds", "60"),
        ("idle_seconds", "60"),
    ]);
    let let_in = |_| {
        let mut stream = TcpStream::connect(&server.plain).unwrap();
        assert_eq!(ask(&mut stream, &token), "HTTP/1.1 200 OK");
        stream
    };
    let mut known: Vec<TcpStream> = (0..40).map(let_in).collect();
    let silent: Vec<TcpStream> = (0..4).map(|_| TcpStream::connect(&server.plain).unwrap()).collect();
    until_open(&server, known.len() + silent.len());
    // The server closes a further unauthenticated connection at once. (No other limit would close it within a minute.)
    let (said, took) = until_the_end(&mut TcpStream::connect(&server.plain).unwrap());
    assert!(said.is_empty() && took < Duration::from_secs(30), "{said} {took:?}");
    known.iter_mut().for_each(|stream| assert_eq!(ask(stream, &token), "HTTP/1.1 200 OK"));
    drop(silent);
}

/// A PROXY header for a client with this IPv6 address.
fn proxied(address: &str) -> Vec<u8> {
    let source = address.parse::<std::net::Ipv6Addr>().unwrap().octets();
    let head = b"\r\n\r\n\0\r\nQUIT\n\x21\x21\0\x24";
    [&head[..], &source, &[0; 15], &[1, 0x12, 0x34, 0, 80]].concat()
}

#[test]
fn a_site_of_ipv6_cannot_take_all_connections() {
    let environment = [
        ("ENFILADE_TLS__PROXY_FROM", "127.0.0.1"),
        ("ENFILADE_LIMITS__CONNECTIONS_PER_ADDRESS", "2"),
        ("ENFILADE_LIMITS__FIRST_BYTE_SECONDS", "60"),
    ];
    let server = Server::start_with(&environment);
    let connect = |address: String| {
        let mut stream = TcpStream::connect(&server.plain).unwrap();
        stream.write_all(&proxied(&address)).unwrap();
        stream
    };
    let is_open = |stream: &TcpStream| {
        stream.set_nonblocking(true).unwrap();
        (&*stream).read(&mut [0]).is_err_and(|why| why.kind() == std::io::ErrorKind::WouldBlock)
    };
    let open = |from: std::ops::Range<u16>, expected: usize, address: &dyn Fn(u16) -> String| {
        let all: Vec<TcpStream> = from.map(|n| connect(address(n))).collect();
        let count = || all.iter().filter(|stream| is_open(stream)).count();
        until("the others are closed", &server, || count() <= expected);
        (count(), all)
    };
    // Each connection comes from a different /64. A /64 may have two connections, a /56 eight, and a /48 thirty-two.
    let (of_56, held) = open(0..20, 8, &|n| format!("2001:db8:0:{n:x}::1"));
    assert_eq!(of_56, 8);
    let (of_48, more) = open(1..40, 32 - 8, &|n| format!("2001:db8:0:{n:x}00::1"));
    assert_eq!(of_48, 32 - 8);
    let (others, rest) = open(1..5, 4, &|n| format!("2001:db8:{n:x}::1"));
    assert_eq!(others, 4);
    drop((held, more, rest));
}

/// The log names a load balancer that does not send the required header. The log does not have a line for each connection.
#[test]
fn a_missing_proxy_header_is_logged_and_counted() {
    let server = Server::start_with(&[("ENFILADE_TLS__PROXY_FROM", "127.0.0.1")]);
    for _ in 0..3 {
        let mut stream = TcpStream::connect(&server.plain).unwrap();
        stream.write_all(b"GET /.well-known/enfilade HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        assert_eq!(stream.read(&mut [0; 16]).unwrap_or(0), 0);
    }
    // A check whether the port is open is not counted.
    drop(TcpStream::connect(&server.plain).unwrap());
    let told = "a connection from 127.0.0.1 was closed: the connection does not begin with a PROXY header of version 2";
    until("the metric", &server, || {
        let address = format!("http://{}/metrics", server.operations);
        let shown = Command::new("curl").args(["--silent", &address]).output().unwrap();
        String::from_utf8(shown.stdout).unwrap().contains("enfilade_proxy_headers_refused_total 3\n")
    });
    until("the log", &server, || server.log().matches(told).count() == 2);
}

/// The log names a load balancer that sends the header although the server does not expect it. The log does not have a line for each connection.
#[test]
fn a_proxy_header_that_is_not_expected_is_logged_and_counted() {
    let server = Server::start();
    let version_2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x07\xc0\0\x02\x01\x12\x34\0\x50";
    let version_1: &[u8] = b"PROXY TCP4 192.0.2.7 192.0.2.1 4660 443\r\n";
    let shown = || {
        let address = format!("http://{}/metrics", server.operations);
        let shown = Command::new("curl").args(["--silent", &address]).output().unwrap();
        String::from_utf8(shown.stdout).unwrap()
    };
    let sample =
        |count: u64| format!("enfilade_handshakes_failed_total{{reason=\"proxy_header\"}} {count}\n");
    // Other bytes are not counted as a header, even if they are no ClientHello.
    for (begin, count) in
        [(&b"GET / HTTP/1.1\r\n\r\n"[..], 0), (version_2, 1), (version_1, 2), (version_2, 3)]
    {
        let mut stream = TcpStream::connect(&server.address).unwrap();
        stream.write_all(begin).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
        until("the metric", &server, || shown().contains(&sample(count)));
    }
    let told = "a connection from 127.0.0.1 began with a PROXY header of version";
    until("the log", &server, || server.log().matches(told).count() == 2);
    for part in [
        "version 2 and was closed: `[tls] proxy_from` does not contain this address",
        "add the address and restart the server (1 was closed so far)",
        "configure the load balancer to send version 2 of the header, and restart the server (2 were closed so far)",
    ] {
        assert!(server.log().contains(part), "{part}: {}", server.log());
    }
}

/// The number of connections that curl opens for this many requests, sent one after another.
fn connections(server: &Server, token: &str, requests: usize, pause: &[&str]) -> usize {
    let mut asked = command(server, token);
    asked.args(["--http2", "--write-out", "%{num_connects} %{http_code} %{http_version}\n"]).args(pause);
    for _ in 0..requests {
        asked.args(["--output", "/dev/null"]).arg(server.url("/whoami"));
    }
    let output = asked.output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let counts = said.lines().map(|line| {
        let (count, rest) = line.split_once(' ').unwrap();
        assert_eq!(rest, "200 2", "{said}");
        count.parse::<usize>().unwrap()
    });
    assert_eq!(said.lines().count(), requests, "{said}");
    counts.sum()
}

#[test]
fn http2_goes_on_for_so_many_requests_and_so_long() {
    let (server, token) = start(&[("requests_per_connection", "3")]);
    assert_eq!(connections(&server, &token, 3, &[]), 1);
    // The server also answers requests that the client sends before it gets GOAWAY. Therefore the number of connections varies.
    assert!((2..=3).contains(&connections(&server, &token, 7, &["--rate", "120/m"])));
    let every_two_seconds = ["--rate", "30/m"];
    assert_eq!(connections(&server, &token, 2, &every_two_seconds), 1);
    let (server, token) = start(&[("connection_seconds", "1")]);
    // The pause between requests is long, because the server may close the connection seconds late.
    assert_eq!(connections(&server, &token, 2, &["--rate", "10/m"]), 2);
}

/// An HTTP/2 client that sends single frames.
struct Http2 {
    client: Child,
    came: Arc<Mutex<Vec<u8>>>,
    reader: std::thread::JoinHandle<()>,
    streams: u32,
}

impl Http2 {
    fn connect(address: &str) -> Self {
        let mut client = Command::new("openssl")
            .args(["s_client", "-quiet", "-alpn", "h2", "-connect", address])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (mut output, came) = (client.stdout.take().unwrap(), Arc::<Mutex<Vec<u8>>>::default());
        let to = Arc::clone(&came);
        let reader = std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut piece) {
                to.lock().unwrap().extend_from_slice(&piece[..count]);
            }
        });
        let mut http2 = Http2 { client, came, reader, streams: 0 };
        http2.say(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
        http2
    }

    fn say(&mut self, bytes: &[u8]) {
        let _ = self.client.stdin.as_mut().unwrap().write_all(bytes);
        std::thread::sleep(Duration::from_millis(60));
    }

    /// Sends a request and cancels it.
    fn take_back(&mut self) {
        self.streams += 2;
        let [a, b, c, d] = (self.streams - 1).to_be_bytes();
        // The request is `GET https /`. It is cancelled after a pause, in which the server begins to process it.
        self.say(&[0, 0, 3, 1, 5, a, b, c, d, 0x82, 0x87, 0x84]);
        self.say(&[0, 0, 4, 3, 0, a, b, c, d, 0, 0, 0, 8]);
    }

    /// Whether the server has sent GOAWAY (RFC 9113 §6.8).
    fn is_told_to_go(&self) -> bool {
        let came = self.came.lock().unwrap();
        let (mut rest, mut kinds) = (&came[..], Vec::new());
        while let [a, b, c, kind, ..] = *rest {
            kinds.push(kind);
            rest = rest.get(9 + u32::from_be_bytes([0, a, b, c]) as usize..).unwrap_or_default();
        }
        kinds.contains(&7)
    }
}

impl Drop for Http2 {
    fn drop(&mut self) {
        let _ = self.client.kill();
        let _ = self.client.wait();
    }
}

#[test]
fn http2_streams_are_not_taken_back_for_ever() {
    let (mut server, _) = start(&[("resets_per_connection", "5")]);
    let mut http2 = Http2::connect(&server.address);
    (0..4).for_each(|_| http2.take_back());
    assert!(!http2.is_told_to_go());
    http2.take_back();
    until("told to go", &server, || http2.is_told_to_go());
    assert!(http2.client.try_wait().unwrap().is_none());
    // If the client ignores GOAWAY, the server closes the connection, even if the client sends requests.
    (0..10).for_each(|_| http2.take_back());
    until("cut off", &server, || http2.reader.is_finished());
    assert!(server.is_running());
}

#[test]
fn connections_leave_descriptors_for_files() {
    let serve = |descriptors: u32| {
        let scratch = Scratch::new();
        let script = format!("ulimit -n {descriptors} && exec \"$0\" \"$@\"");
        let said = scratch.path().join("said");
        let mut command = Command::new("sh");
        command.args(["-c", &script, BINARY, "--data"]).arg(scratch.path().join("data"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0"]);
        // A server that starts prints a line. A server that refuses to start ends without a line.
        let (mut child, line) = first_line(command.stderr(std::fs::File::create(&said).unwrap()));
        if !line.is_empty() {
            signal("TERM", child.id());
        }
        (child.wait().unwrap().code(), std::fs::read_to_string(&said).unwrap())
    };
    let (status, said) = serve(284);
    assert!(
        status == Some(1) && said.contains("the limit of 284 open files is too low"),
        "{status:?} {said}"
    );
    let (status, said) = serve(1000);
    assert!(
        status == Some(0)
            && said.contains("at most 644 connections instead of 10000: the limit of open files is 1000"),
        "{status:?} {said}"
    );
}
