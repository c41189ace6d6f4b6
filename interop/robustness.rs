//! Input of attackers and broken clients. Malformed requests get a 4xx status, the server continues, and no file outside the root is used.

use crate::curl::{PROPFIND_0, curl};
use crate::server::{Scratch, Server};
use std::io::{Read, Write};
use std::path::Path;

struct Setup {
    server: Server,
    scratch: Scratch,
    token: String,
}

fn setup() -> Setup {
    setup_with(&[])
}

fn setup_with(environment: &[(&str, &str)]) -> Setup {
    let server = Server::start_with(environment);
    let token = server.add_token("admin@local!test");
    Setup { server, scratch: Scratch::new(), token }
}

impl Setup {
    fn file(&self, content: &str) -> String {
        let path = self.scratch.path().join("request");
        std::fs::write(&path, content).unwrap();
        format!("@{}", path.display())
    }

    /// Checks that the server still serves.
    fn goes_on(&mut self) {
        assert!(self.server.is_running(), "{}", self.server.log());
        assert_eq!(curl(&self.server, &self.token, "/dav/main/", &PROPFIND_0).status, 207);
    }
}

#[test]
fn ten_thousand_nested_elements() {
    let mut setup = setup();
    let small = format!("{}{}", "<a>".repeat(10_000), "</a>".repeat(10_000));
    let large = format!(
        "<propfind xmlns='DAV:'><prop>{}{}</prop></propfind>",
        "<aa>".repeat(10_000),
        "</aa>".repeat(10_000)
    );
    for (body, status) in [(small, 413), (large, 413), ("<a>".repeat(10_000), 400)] {
        let body = setup.file(&body);
        let answer = curl(
            &setup.server,
            &setup.token,
            "/dav/main/",
            &[&PROPFIND_0[..], &["--data-binary", &body]].concat(),
        );
        assert_eq!(answer.status, status, "{}", answer.text());
    }
    setup.goes_on();
}

#[test]
fn a_header_of_a_megabyte() {
    let mut setup = setup();
    for (bytes, lines) in [(17_000, 1), (90_000, 10)] {
        let header = setup.file(&format!("X-Large: {}\n", "x".repeat(bytes)).repeat(lines));
        let answer = curl(&setup.server, &setup.token, "/dav/main/", &["--header", &header]);
        assert_eq!(answer.status, 431, "{lines} of {bytes}");
    }
    // The header is a single malformed line, which curl would not send.
    let mut stream = std::net::TcpStream::connect(&setup.server.plain).unwrap();
    let request = format!("GET /dav/main/ HTTP/1.1\r\nHost: x\r\nX-Large: {}\r\n\r\n", "x".repeat(1 << 20));
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    let long = format!("/dav/main/{}", "x".repeat(17_000));
    assert_eq!(curl(&setup.server, &setup.token, &long, &[]).status, 414);
    setup.goes_on();
}

#[test]
fn paths_that_climb() {
    let mut setup = setup();
    let outside = setup.server.data().join("datastores/outside.txt");
    std::fs::write(&outside, "untouched").unwrap();
    for path in [
        "..%2foutside.txt",
        "..%2Foutside.txt",
        "../outside.txt",
        "%2e%2e/outside.txt",
        "%2e%2e%2foutside.txt",
        "a/..%2f..%2foutside.txt",
        "..%5coutside.txt",
        "a%00b",
        "a//b",
        "./a",
        "%ff",
        "%zz",
    ] {
        for arguments in
            [&[][..], &["--upload-file", "/etc/hostname"], &["--request", "DELETE"], &["--request", "MKCOL"]]
        {
            let answer = curl(&setup.server, &setup.token, &format!("/dav/main/{path}"), arguments);
            assert_eq!(answer.status, 400, "{path} {arguments:?}: {}", answer.text());
        }
    }
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "untouched");
    setup.goes_on();
}

#[test]
fn links_out_of_the_root() {
    let mut setup = setup();
    let root = setup.server.data().join("datastores/main");
    let outside = setup.scratch.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("secret.txt"), "untouched").unwrap();
    link(&outside, &root.join("directory"));
    link(&outside.join("secret.txt"), &root.join("file"));
    for (path, arguments, status) in [
        ("file", &[][..], 404),
        ("directory/secret.txt", &[], 404),
        ("directory/", &PROPFIND_0, 404),
        ("directory/new.txt", &["--upload-file", "/etc/hostname"], 409),
        ("directory/new", &["--request", "MKCOL"], 409),
        ("directory/secret.txt", &["--request", "DELETE"], 404),
        ("file", &["--request", "DELETE"], 404),
    ] {
        let answer = curl(&setup.server, &setup.token, &format!("/dav/main/{path}"), arguments);
        assert_eq!(answer.status, status, "{path} {arguments:?}: {}", answer.text());
    }
    // A PUT to the name of a link must not write to the target of the link.
    let onto = curl(&setup.server, &setup.token, "/dav/main/file", &["--upload-file", "/etc/hostname"]);
    assert!((400..500).contains(&onto.status), "{onto:?}");
    assert_eq!(std::fs::read_to_string(outside.join("secret.txt")).unwrap(), "untouched");
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1);
    setup.goes_on();
}

fn link(to: &Path, at: &Path) {
    std::os::unix::fs::symlink(to, at).unwrap();
}

#[test]
fn wrong_and_doubled_credentials() {
    let mut setup = setup();
    let server = &setup.server;
    let unknown = curl(server, "nobody@local!x:wrong", "/dav/main/", &PROPFIND_0);
    let wrong = curl(server, "admin@local!test:wrong", "/dav/main/", &PROPFIND_0);
    let password = curl(server, "admin@local:wrong", "/dav/main/", &PROPFIND_0);
    let nobody = curl(server, "nobody@local:wrong", "/dav/main/", &PROPFIND_0);
    assert_eq!((unknown.status, &unknown), (401, &wrong));
    assert_eq!((&password, &nobody), (&wrong, &wrong));
    assert!(wrong.head.iter().any(|line| line.starts_with("www-authenticate: Basic")), "{wrong:?}");
    assert_eq!(curl(server, "", "/dav/main/", &PROPFIND_0).status, 401);
    // A browser repeats a name until it gets 401. Therefore a name that no account can have is refused like any wrong name.
    for name in ["al ice", "alice@", "alice@x", "@local", "a/b", "", "alice@local!", "\u{e9}\u{1}"] {
        let basic = base64(format!("{name}:wrong").as_bytes());
        let header = format!("Authorization: Basic {basic}");
        let answer = curl(server, "", "/dav/main/", &[&PROPFIND_0[..], &["--header", &header]].concat());
        assert_eq!(answer, wrong, "{name:?}");
    }
    for second in ["Authorization: Basic YUBsb2NhbDp4", "X-Auth-Token: x", "Cookie: a=b"] {
        let arguments = [&PROPFIND_0[..], &["--header", second]].concat();
        // curl omits its own `Authorization` if another `Authorization` is given. Therefore both are given as headers.
        let own = format!("Authorization: Basic {}", base64(setup.token.as_bytes()));
        let answer = curl(server, "", "/dav/main/", &[&arguments[..], &["--header", &own]].concat());
        assert_eq!(answer.status, 400, "{second}: {}", answer.text());
    }
    assert_eq!(curl(server, &setup.token, "/dav/other/", &PROPFIND_0).status, 404);
    assert_eq!(curl(server, &setup.token, "/dav/x/", &PROPFIND_0).status, 404);
    assert_eq!(curl(server, &setup.token, "/nothing", &[]).status, 404);
    assert_eq!(curl(server, &setup.token, "/dav/main/", &["--request", "PROPFIND"]).status, 207);
    let post = curl(server, &setup.token, "/dav/main/", &["--request", "POST"]);
    assert!(post.status == 405 && post.head.iter().any(|line| line.starts_with("allow: ")), "{post:?}");
    assert!(!server.log().contains("wrong\""), "no secret in the log");
    setup.goes_on();
}

#[test]
fn ranges_and_conditions() {
    let mut setup = setup();
    std::fs::write(setup.server.data().join("datastores/main/ten.txt"), "0123456789").unwrap();
    let get = |arguments: &[&str]| curl(&setup.server, &setup.token, "/dav/main/ten.txt", arguments);
    let whole = get(&[]);
    assert_eq!((whole.status, whole.text().as_str()), (200, "0123456789"));
    for (range, status, body) in [
        ("0-0", 206, "0"),
        ("2-5", 206, "2345"),
        ("-3", 206, "789"),
        ("7-", 206, "789"),
        ("5-2", 200, "0123456789"),
        ("0-1,1-5", 200, "0123456789"),
    ] {
        let answer = get(&["--header", &format!("Range: bytes={range}")]);
        assert_eq!((answer.status, answer.text().as_str()), (status, body), "{range}");
    }
    let parts = get(&["--header", "Range: bytes=0-1, 4-5"]);
    let said = |name: &str| parts.head.iter().find_map(|line| line.strip_prefix(name)).unwrap().to_owned();
    let boundary = said("content-type: multipart/byteranges; boundary=");
    let part = |range: &str, bytes: &str| {
        format!(
            "\r\n--{boundary}\r\nContent-Type: text/plain\r\nContent-Range: bytes {range}/10\r\n\r\n{bytes}"
        )
    };
    let expected = format!("{}{}\r\n--{boundary}--\r\n", part("0-1", "01"), part("4-5", "45"));
    assert_eq!((parts.status, parts.text()), (206, expected.clone()));
    assert_eq!(said("content-length: "), expected.len().to_string());
    assert_eq!(get(&["--header", "Range: bytes=10-"]).status, 416);
    let etag = whole.head.iter().find_map(|line| line.strip_prefix("etag: ")).unwrap().to_owned();
    assert_eq!(get(&["--header", &format!("If-None-Match: {etag}")]).status, 304);
    let stale = get(&["--header", "Range: bytes=0-0", "--header", "If-Range: \"other\""]);
    assert_eq!((stale.status, stale.text().len()), (200, 10));
    let put = |condition: &str| {
        let arguments = ["--upload-file", "/etc/hostname", "--header", condition];
        curl(&setup.server, &setup.token, "/dav/main/ten.txt", &arguments).status
    };
    assert_eq!(put("If-None-Match: *"), 412);
    assert_eq!(put("If-Match: \"other\""), 412);
    assert_eq!(put(&format!("If-Match: {etag}")), 204);
    assert_eq!(put(&format!("If-Match: {etag}")), 412);
    let part = curl(
        &setup.server,
        &setup.token,
        "/dav/main/ten.txt",
        &["--upload-file", "/etc/hostname", "--header", "Content-Range: bytes 0-1/10"],
    );
    assert_eq!(part.status, 400);
    setup.goes_on();
}

fn base64(bytes: &[u8]) -> String {
    let output = std::process::Command::new("sh")
        .args(["-c", "printf %s \"$1\" | base64 -w0", "sh", std::str::from_utf8(bytes).unwrap()])
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// The server's resident memory, in bytes.
fn resident(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
}

#[test]
fn bodies_that_are_no_plain_xml_by_every_method() {
    let mut setup = setup();
    let bomb: String =
        (1..10).map(|n| format!("<!ENTITY e{n} \"{}\">", format!("&e{};", n - 1).repeat(10))).collect();
    let attributes: String = (0..70).map(|n| format!(" a{n}='1'")).collect();
    let bodies = [
        format!("<!DOCTYPE x [<!ENTITY e0 'lol'>{bomb}]><propfind xmlns='DAV:'><prop>&e9;</prop></propfind>"),
        "<!DOCTYPE x [<!ENTITY f SYSTEM 'file:///etc/passwd'>]><propfind xmlns='DAV:'>&f;</propfind>".into(),
        "<?xml version='1.0'?><?xml-stylesheet href='x'?><propfind xmlns='DAV:'><allprop/></propfind>".into(),
        format!("<propfind xmlns='DAV:'><prop{attributes}/></propfind>"),
        format!("<propertyupdate xmlns='DAV:'><set><prop>{}</prop></set></propertyupdate>", "<p>".repeat(40)),
        "<lockinfo xmlns='DAV:'><lockscope><exclusive/></lockscope>".into(),
        "<a:b/>".into(),
        "\u{0}".into(),
        "<x xmlns='DAV:'>&#0;</x>".into(),
    ];
    let before = resident(&setup.server);
    for method in ["PROPFIND", "PROPPATCH", "LOCK"] {
        for body in &bodies {
            let file = setup.file(body);
            let asked = ["--request", method, "--header", "Depth: 0", "--data-binary", &file];
            let answer = curl(&setup.server, &setup.token, "/dav/main/", &asked);
            assert_eq!(answer.status, 400, "{method} {body:.60}: {}", answer.text());
        }
    }
    assert!(resident(&setup.server) < before + (32 << 20));
    setup.goes_on();
}

#[test]
fn headers_that_make_no_sense_in_every_combination() {
    let mut setup = setup();
    curl(&setup.server, &setup.token, "/dav/main/file", &["--request", "PUT", "--data", "x"]);
    let ifs =
        ["If: ", "If: (", "If: (<a>", "If: (Not)", "If: ([x])", "If: <x>", "If: (<urn:x>)", "If: <//>(<a>)"];
    let destinations = [
        "Destination: ",
        "Destination: \\\\x",
        "Destination: /dav/main/%2e%2e/x",
        "Destination: http://",
        "Destination: /dav/main/a%00b",
        "Destination: /dav/main/ok",
    ];
    let others = [
        "Depth: 2",
        "Depth: infinity,0",
        "Overwrite: X",
        "Range: bytes=9-1,,-",
        "Lock-Token: <",
        "Timeout: Second--1",
        "Content-Range: bytes 0-1/2",
    ];
    for method in ["COPY", "MOVE", "PUT", "PROPFIND", "GET", "DELETE", "LOCK", "UNLOCK", "MKCOL", "PROPPATCH"]
    {
        for (place, condition) in ifs.iter().enumerate() {
            let (destination, other) =
                (destinations[place % destinations.len()], others[place % others.len()]);
            let asked =
                ["--request", method, "--header", condition, "--header", destination, "--header", other];
            let status = curl(&setup.server, &setup.token, "/dav/main/other", &asked).status;
            assert!(
                (200..500).contains(&status) || [502, 507].contains(&status),
                "{method} {condition} {destination} {other}: {status}"
            );
        }
    }
    setup.goes_on();
}

#[test]
fn thousands_of_connections_that_say_nothing() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    // In CI, other tests need descriptors and time, too, so there are fewer connections.
    let is_campaign = std::env::var_os("ENFILADE_CAMPAIGN_N").is_some();
    let idle = crate::decision_campaigns::number(500) as usize;
    assert!(idle < 11_000, "the server accepts 11,000 connections; give a smaller --n");
    if is_campaign {
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    }
    // The limit for an unfinished request is ten seconds.
    let mut setup = setup_with(&[
        ("ENFILADE_LIMITS__CONNECTIONS", "11000"),
        ("ENFILADE_LIMITS__FIRST_BYTE_SECONDS", "60"),
    ]);
    let before = resident(&setup.server);
    let to: std::net::SocketAddr = setup.server.plain.parse().unwrap();
    // The connections come from many addresses, because the number for each address is limited.
    let connect = |n: usize| {
        use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
        let from = std::net::Ipv4Addr::new(127, 0, 1 + (n / 60) as u8, 1);
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&socket, &std::net::SocketAddr::from((from, 0))).unwrap();
        connect(&socket, &to).unwrap();
        socket
    };
    let silent: Vec<_> = (0..idle).map(connect).collect();
    let began = std::time::Instant::now();
    setup.goes_on();
    assert!(began.elapsed() < std::time::Duration::from_secs(10));
    let grown = resident(&setup.server).saturating_sub(before);
    assert!(grown < 300 << 20, "{grown} bytes for {idle} connections");
    drop(silent);
    setup.goes_on();
}

#[test]
fn an_upload_that_trickles_is_ended() {
    let mut setup = setup();
    // A second server with a limit that permits such a slow upload.
    let patient = Server::start_with(&[TRICKLE]);
    let token = patient.add_token("admin@local!test");
    let (mut stream, sender) = trickle(&setup.server, &setup.token);
    let (allowed, other_sender) = trickle(&patient, &token);
    let began = std::time::Instant::now();
    let mut answer = [0; 64];
    let count = stream.read(&mut answer).unwrap();
    let said = String::from_utf8_lossy(&answer[..count]).into_owned();
    assert!(said.starts_with("HTTP/1.1 408"), "{said}");
    assert!((25..50).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    allowed.set_nonblocking(true).unwrap();
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert_eq!((&allowed).read(&mut answer).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    allowed.shutdown(std::net::Shutdown::Both).unwrap();
    drop(stream);
    sender.join().unwrap();
    other_sender.join().unwrap();
    assert!(!setup.server.data().join("datastores/main/slow").exists());
    setup.goes_on();
}

/// A limit of one byte per second.
const TRICKLE: (&str, &str) = ("ENFILADE_LIMITS__UPLOAD_BYTES_PER_SECOND", "1");

fn trickle(server: &Server, token: &str) -> (std::net::TcpStream, std::thread::JoinHandle<()>) {
    let mut stream = std::net::TcpStream::connect(&server.plain).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
    let (user, secret) = token.split_once(':').unwrap();
    let head = format!(
        "PUT /dav/main/slow HTTP/1.1\r\nHost: x\r\nAuthorization: PBSAPIToken={user}:{secret}\r\nContent-Length: 100000\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut trickle = stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        while trickle.write_all(b"x").is_ok() {
            std::thread::sleep(std::time::Duration::from_millis(500));
        }
    });
    (stream, sender)
}
