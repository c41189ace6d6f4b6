//! Every key of `[limits]`: the server serves a request at the limit. It refuses a request one step above the limit, as the documentation says.

use crate::curl::{PROPFIND_0, PROPFIND_1, command, curl};
use crate::server::{Server, wait_until};
use crate::signals::signal;
use enfilade_facts::limits::LIMITS;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) fn start(limits: &[(&str, &str)]) -> (Server, String) {
    let names: Vec<(String, &str)> = limits
        .iter()
        .map(|(key, value)| (format!("ENFILADE_LIMITS__{}", key.to_uppercase()), *value))
        .collect();
    let environment: Vec<(&str, &str)> = names.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    let server = Server::start_with(&environment);
    let token = server.add_token("admin@local!test");
    (server, token)
}

#[test]
fn each_has_its_test_here() {
    let here = [
        include_str!("limits.rs"),
        include_str!("console/links.rs"),
        include_str!("connections.rs"),
        include_str!("robustness.rs"),
        include_str!("shares.rs"),
        include_str!("sign_in.rs"),
        include_str!("stalled.rs"),
        include_str!("../crates/testkit/tests/trees.rs"),
    ]
    .concat();
    let is_set = |key: &&str| {
        let names = [(*key).to_owned(), format!("ENFILADE_LIMITS__{}", key.to_uppercase())];
        names.iter().any(|name| here.contains(&format!("(\"{name}\", \"")))
    };
    let missing: Vec<&str> = LIMITS.iter().map(|row| row.key).filter(|key| !is_set(key)).collect();
    assert_eq!(missing, Vec::<&str>::new());
}

/// Any client can cause refusals, so the log does not contain a line for each of them. All refusals are counted.
#[test]
fn of_lines_in_the_log() {
    let (server, token) = start(&[("refusals_logged_per_second", "2")]);
    let requests: Vec<String> = (0..60).map(|n| server.url(&format!("/dav/main/{n}"))).collect();
    let refused = command(&server, "").args(["--output", "/dev/null"]).args(&requests).output().unwrap();
    assert!(refused.status.success(), "{refused:?}");
    // Failed logins have a separate limit. Therefore the log contains this failed login, although the other refusals are over their limit.
    assert_eq!(curl(&server, "admin@local:wrong", "/dav/main/", &PROPFIND_0).status, 401);
    assert_eq!(curl(&server, &token, "/dav/main/", &PROPFIND_0).status, 207);
    let lines = || {
        let log = server.log();
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter(|line| line["event"] == "request").collect::<Vec<_>>()
    };
    wait_until(Duration::from_secs(30), "the last request is in the log", || {
        lines().iter().any(|line| line["status"] == 207)
    });
    let count = |status: u64| lines().iter().filter(|line| line["status"] == status).count() as u64;
    let left_out: u64 = lines().iter().filter_map(|line| line["lost_before"].as_u64()).sum();
    assert_eq!((count(401) + left_out, count(207)), (61, 1));
    assert!(count(401) >= 3 && left_out > 0, "{left_out}");
    assert_eq!(lines().iter().filter(|line| line["code"] == "ID05").count(), 1);
    assert!(
        crate::datastores::metrics(&server)
            .contains("enfilade_responses_total{method=\"GET\",status=\"4xx\"} 60")
    );
}

#[test]
fn of_one_request() {
    let (server, token) = start(&[
        ("header_bytes", "512"),
        ("headers", "12"),
        ("uri_bytes", "256"),
        ("json_bytes", "1024"),
        ("json_depth", "8"),
        ("json_values", "100"),
        ("xml_bytes", "1024"),
        ("xml_depth", "4"),
        ("xml_attributes", "4"),
        ("xml_namespaces", "3"),
        ("xml_namespace_bytes", "16"),
        ("xml_properties", "3"),
        ("ranges", "2"),
        ("listing_entries", "3"),
    ]);
    let root = server.data().join("datastores/main");
    for name in ["a", "b", "c"] {
        std::fs::write(root.join(name), "0123456789").unwrap();
    }
    let header = |bytes: usize| format!("X-Large: {}", "x".repeat(bytes - "X-Large".len()));
    let fields = |count: usize| -> Vec<String> {
        (0..count).flat_map(|n| ["--header".to_owned(), format!("X-{n}: 1")]).collect()
    };
    let propfind = |inner: &str| format!("<propfind xmlns='DAV:'>{inner}</propfind>");
    let of_bytes =
        |bytes: usize| propfind(&format!("<allprop/>{}", " ".repeat(bytes - propfind("<allprop/>").len())));
    let deep = |depth: usize| {
        propfind(&format!("<prop>{}{}</prop>", "<a>".repeat(depth - 2), "</a>".repeat(depth - 2)))
    };
    let attributes = |count: usize| -> String {
        propfind(&format!(
            "<prop><a {}/></prop>",
            (0..count).map(|n| format!("a{n}='' ")).collect::<String>()
        ))
    };
    let properties = |count: usize| {
        propfind(&format!("<prop>{}</prop>", (0..count).map(|n| format!("<p{n}/>")).collect::<String>()))
    };
    let status = |path: &str, arguments: &[&str]| curl(&server, &token, path, arguments).status;
    let asked = |body: &str| status("/dav/main/", &[&PROPFIND_0[..], &["--data-binary", body]].concat());
    let with = |arguments: &[String]| {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        status("/dav/main/a", &arguments)
    };

    assert_eq!(status("/dav/main/a", &["--header", &header(512)]), 200);
    assert_eq!(status("/dav/main/a", &["--header", &header(513)]), 431);
    // curl already sends Host, Authorization, User-Agent and Accept.
    assert_eq!((with(&fields(8)), with(&fields(9))), (200, 431));
    let long = |bytes: usize| format!("/dav/main/{}", "x".repeat(bytes - "/dav/main/".len()));
    assert_eq!((status(&long(256), &[]), status(&long(257), &[])), (404, 414));
    assert_eq!((asked(&of_bytes(1024)), asked(&of_bytes(1025))), (207, 413));
    assert_eq!((asked(&deep(4)), asked(&deep(5))), (207, 400));
    assert_eq!((asked(&attributes(4)), asked(&attributes(5))), (207, 400));
    assert_eq!((asked(&properties(3)), asked(&properties(4))), (207, 400));
    let namespaces = |count: usize| {
        let spelled: String = (0..count).map(|n| format!("<a xmlns='{n}'/>")).collect();
        propfind(&format!("<allprop/>{spelled}"))
    };
    // The namespace `DAV:` is counted, too.
    assert_eq!((asked(&namespaces(2)), asked(&namespaces(3))), (207, 400));
    let namespace = |bytes: usize| propfind(&format!("<allprop/><a xmlns='{}'/>", "x".repeat(bytes)));
    assert_eq!((asked(&namespace(16)), asked(&namespace(17))), (207, 400));
    let ranges = |ranges: &str| status("/dav/main/a", &["--header", &format!("Range: bytes={ranges}")]);
    assert_eq!((ranges("0-1,4-5"), ranges("0-1,4-5,8-9")), (206, 200));
    let login = |bytes: usize| {
        let body = format!("{{\"auth\":\"{}\"}}", "x".repeat(bytes - 11));
        let json = ["--header", "Content-Type: application/json", "--data-binary", &body];
        curl(&server, "", "/v3/auth/tokens", &json).status
    };
    assert_eq!((login(1024), login(1025)), (400, 413));
    let nested = |depth: usize| {
        let body = format!("{{\"auth\":{}{}}}", "[".repeat(depth - 1), "]".repeat(depth - 1));
        let json = ["--header", "Content-Type: application/json", "--data-binary", &body];
        let answer = curl(&server, "", "/v3/auth/tokens", &json);
        (answer.status, answer.text().contains("the JSON is nested too deeply"))
    };
    assert_eq!((nested(8), nested(9)), ((400, false), (400, true)));
    let values = |count: usize| {
        let body = format!("{{\"auth\":[{}1]}}", "1,".repeat(count - 3));
        let json = ["--header", "Content-Type: application/json", "--data-binary", &body];
        let answer = curl(&server, "", "/v3/auth/tokens", &json);
        (answer.status, answer.text().contains("too many values"))
    };
    assert_eq!((values(100), values(102)), ((400, false), (400, true)));
    let form = |count: usize| {
        let body = format!("username=a@local&password=b{}", "&c=".repeat(count - 2));
        curl(&server, "", "/api2/json/access/ticket", &["--data-binary", &body]).status
    };
    assert_eq!((form(100) == form(101), form(101)), (false, 400));
    let is_cut = || curl(&server, &token, "/dav/main/", &PROPFIND_1).text().contains("HTTP/1.1 507");
    assert!(!is_cut());
    std::fs::write(root.join("d"), "").unwrap();
    assert!(is_cut());
}

#[test]
fn a_whole_tree_is_listed_where_that_is_allowed() {
    const DEEP: [&str; 4] = ["--request", "PROPFIND", "--header", "Depth: infinity"];
    let hrefs = |text: &str| {
        let mut hrefs: Vec<String> = text
            .split("<D:href>")
            .skip(1)
            .filter_map(|rest| rest.split_once("</D:href>"))
            .map(|(href, _)| href.to_owned())
            .filter(|href| href.starts_with("/dav/"))
            .collect();
        hrefs.sort();
        hrefs
    };
    let (server, token) = start(&[("deep_listing_entries", "0")]);
    let answer = curl(&server, &token, "/dav/main/", &DEEP);
    assert_eq!((answer.status, answer.text().contains("propfind-finite-depth")), (403, true));
    // The limit applies to collections. A request about a file succeeds, and a request about an absent name gets 404 (RFC 4918 §9.1).
    std::fs::write(server.data().join("datastores/main/file"), "").unwrap();
    let file = curl(&server, &token, "/dav/main/file", &DEEP);
    assert_eq!((file.status, hrefs(&file.text())), (207, vec!["/dav/main/file".to_owned()]));
    assert_eq!(curl(&server, &token, "/dav/main/nothing", &DEEP).status, 404);

    let (server, token) = start(&[("deep_listing_entries", "7")]);
    let root = server.data().join("datastores/main");
    std::fs::create_dir_all(root.join("a/b/c")).unwrap();
    std::fs::create_dir(root.join("d")).unwrap();
    ["a/1", "a/b/2", "d/3"].iter().for_each(|file| std::fs::write(root.join(file), "").unwrap());
    let all = ["", "a/", "a/1", "a/b/", "a/b/2", "a/b/c/", "d/", "d/3"];
    let all: Vec<String> = all.iter().map(|path| format!("/dav/main/{path}")).collect();
    let listed = |depth: &[&str]| curl(&server, &token, "/dav/main/", depth).text();
    assert_eq!(hrefs(&listed(&DEEP)), all);
    // A PROPFIND without the header `Depth` is answered like a PROPFIND with `Depth: infinity` (RFC 4918 §9.1).
    assert_eq!(hrefs(&listed(&["--request", "PROPFIND"])), all);
    assert!(!listed(&DEEP).contains("HTTP/1.1 507"));
    std::fs::write(root.join("a/b/c/4"), "").unwrap();
    let cut = listed(&DEEP);
    assert!(cut.contains("<D:href>/dav/main/</D:href><D:status>HTTP/1.1 507"), "{cut}");
    assert!(cut.ends_with("</D:multistatus>\n"), "{cut}");
    // A deep listing of `/dav/`, above the datastores, is always refused.
    assert_eq!(curl(&server, &token, "/dav/", &DEEP).status, 403);

    // A deep listing contains no hidden entries and nothing below them.
    let (server, _) = start(&[("deep_listing_entries", "100")]);
    let alice = server.add_user("alice", "DatastoreReader");
    server.cli(&["group", "add", "staff"]);
    let root = server.data().join("datastores/main");
    for name in ["closed", "open"] {
        std::fs::create_dir(root.join(name)).unwrap();
        std::fs::write(root.join(name).join("inside"), "").unwrap();
        server.cli(&["acl", "set", "main", &format!("/{name}/inside"), "allow everyone full"]);
    }
    server.cli(&["acl", "set", "main", "/closed", "allow @staff full"]);
    let seen = hrefs(&curl(&server, &alice, "/dav/main/", &DEEP).text());
    assert_eq!(seen, ["/dav/main/", "/dav/main/open/", "/dav/main/open/inside"]);
}

#[test]
fn a_whole_tree_that_takes_too_long_is_cut() {
    let (server, token) = start(&[("deep_listing_entries", "100"), ("deep_listing_seconds", "0")]);
    let root = server.data().join("datastores/main");
    std::fs::create_dir_all(root.join("a/b")).unwrap();
    let listed = |path: &str| {
        let text =
            curl(&server, &token, path, &["--request", "PROPFIND", "--header", "Depth: infinity"]).text();
        assert!(text.ends_with("</D:multistatus>\n"), "{text}");
        (text.contains("/dav/main/a/b/"), text.contains("HTTP/1.1 507"))
    };
    // The server checks the time after each directory.
    assert_eq!(listed("/dav/main/"), (false, true));
    assert_eq!(listed("/dav/main/a/"), (true, true));
    assert_eq!(listed("/dav/main/a/b/"), (true, false));
}

#[test]
fn of_trees_and_locks() {
    let (server, token) = start(&[
        ("path_bytes", "250"),
        ("path_parts", "3"),
        ("name_bytes", "249"),
        ("tree_entries", "4"),
        ("locks_per_user", "2"),
        ("locks_per_store", "3"),
        ("lock_seconds", "100"),
        ("head_bytes", "8192"),
        ("streams", "7"),
    ]);
    let status = |path: &str, arguments: &[&str]| curl(&server, &token, path, arguments).status;
    let root = server.data().join("datastores/main");
    for (name, count) in [("small", 3), ("large", 5)] {
        std::fs::create_dir(root.join(name)).unwrap();
        (0..count).for_each(|n| std::fs::write(root.join(name).join(n.to_string()), "").unwrap());
    }
    let copy = |from: &str| {
        let to = format!("Destination: {}", server.url(&format!("/dav/main/{from}-copy")));
        status(&format!("/dav/main/{from}"), &["--request", "COPY", "--header", &to])
    };
    assert_eq!((copy("small"), copy("large")), (201, 507));

    let path = |path: &str| status(&format!("/dav/main/{path}"), &[]);
    assert_eq!((path(&"x".repeat(249)), path(&"x".repeat(250))), (404, 400));
    assert_eq!((path("x/y/z"), path("w/x/y/z")), (404, 400));
    let wide = |bytes: usize| format!("{}/y", "x".repeat(bytes - 2));
    assert_eq!((path(&wide(250)), path(&wide(251))), (404, 400));
    let copied_to = |path: &str| {
        let to = format!("Destination: {}", server.url(&format!("/dav/main/{path}")));
        status("/dav/main/small/1", &["--request", "COPY", "--header", &to])
    };
    assert_eq!((copied_to("x/y/z"), copied_to("w/x/y/z")), (409, 400));

    let body =
        "<lockinfo xmlns='DAV:'><lockscope><exclusive/></lockscope><locktype><write/></locktype></lockinfo>";
    let lock = |login: &str, name: &str| {
        let asked =
            ["--request", "LOCK", "--header", "Depth: 0", "--header", "Timeout: Second-5000", "--data", body];
        curl(&server, login, &format!("/dav/main/{name}"), &asked)
    };
    let first = lock(&token, "small/0");
    assert!(first.status == 200 && first.text().contains("Second-100<"), "{first:?}");
    assert_eq!((lock(&token, "small/1").status, lock(&token, "small/2").status), (200, 507));
    let other = server.add_user("other", "DatastoreAdmin");
    assert_eq!((lock(&other, "large/0").status, lock(&other, "large/1").status), (200, 507));

    let fields = |count: usize| -> Vec<String> {
        (0..count).flat_map(|n| ["--header".to_owned(), format!("X-{n}: {}", "x".repeat(900))]).collect()
    };
    let with = |count: usize| {
        let fields = fields(count);
        status("/dav/main/small/0", &fields.iter().map(String::as_str).collect::<Vec<_>>())
    };
    assert_eq!((with(8), with(9)), (200, 431));

    // The server sends its settings as soon as it has received the client's preface.
    let mut asked = Command::new("openssl")
        .args(["s_client", "-quiet", "-alpn", "h2", "-connect", &server.address])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    asked.stdin.as_mut().unwrap().write_all(preface).unwrap();
    let mut settings = [0; 64];
    let count = asked.stdout.as_mut().unwrap().read(&mut settings).unwrap();
    asked.kill().unwrap();
    asked.wait().unwrap();
    // SETTINGS_MAX_CONCURRENT_STREAMS (RFC 9113 §6.5.2).
    let is_said = settings[..count].windows(6).any(|setting| setting == [0, 3, 0, 0, 0, 7]);
    assert!(is_said, "{:?}", &settings[..count]);
}

#[test]
fn of_shared_locks_on_trees() {
    let (server, token) = start(&[("deep_locks_per_tree", "2")]);
    std::fs::create_dir_all(server.data().join("datastores/main/a/b/c")).unwrap();
    std::fs::create_dir(server.data().join("datastores/main/other")).unwrap();
    std::fs::write(server.data().join("datastores/main/a/file"), "").unwrap();
    let body =
        "<lockinfo xmlns='DAV:'><lockscope><shared/></lockscope><locktype><write/></locktype></lockinfo>";
    let lock = |path: &str, depth: &str| {
        let asked = ["--request", "LOCK", "--header", depth, "--data", body];
        curl(&server, &token, &format!("/dav/main/{path}"), &asked).status
    };
    // A lock on a file or with depth 0 does not count as a lock on a tree.
    assert_eq!((lock("a/file", "Depth: infinity"), lock("a/b/", "Depth: 0")), (200, 200));
    assert_eq!((lock("a/b/c/", "Depth: infinity"), lock("a/", "Depth: infinity")), (200, 200));
    assert_eq!((lock("a/b/", "Depth: infinity"), lock("", "Depth: infinity")), (507, 507));
    assert_eq!((lock("other/", "Depth: infinity"), lock("a/b/", "Depth: 0")), (200, 200));
}

/// Reads until the server closes the connection. Returns the received text and the elapsed time.
pub(crate) fn until_the_end(stream: &mut TcpStream) -> (String, Duration) {
    let began = Instant::now();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    (String::from_utf8_lossy(&answer).into_owned(), began.elapsed())
}

#[test]
fn of_time_and_connections() {
    let (mut server, token) = start(&[
        ("head_seconds", "1"),
        ("handshake_seconds", "2"),
        ("body_seconds", "1"),
        ("connections_per_address", "3"),
        ("connections", "5"),
        ("drain_seconds", "1"),
    ]);
    let begin = |to: &str, said: &str| {
        let mut stream = TcpStream::connect(to).unwrap();
        stream.write_all(said.as_bytes()).unwrap();
        stream
    };
    let soon = Duration::from_secs(9);
    let (_, took) = until_the_end(&mut begin(&server.plain, "GET / HTTP/1.1\r\nHost:"));
    assert!(took < soon, "{took:?}");
    let (_, took) = until_the_end(&mut begin(&server.address, "\u{16}"));
    assert!(took < soon, "{took:?}");
    let (user, secret) = token.split_once(':').unwrap();
    let head = format!(
        "HTTP/1.1\r\nHost: x\r\nAuthorization: PBSAPIToken={user}:{secret}\r\nContent-Length: 100000\r\n\r\n"
    );
    let (said, took) = until_the_end(&mut begin(
        &server.plain,
        &format!("PROPFIND /dav/main/ {}", head.replacen("Host: x", "Host: x\r\nDepth: 0", 1)),
    ));
    assert!(said.starts_with("HTTP/1.1 408") && took < soon, "{said} {took:?}");

    let upload = format!("PUT /dav/main/slow {head}");
    let hold = |from: u8, said: &str| {
        use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&socket, &std::net::SocketAddr::from(([127, 0, 0, from], 0))).unwrap();
        connect(&socket, &server.plain.parse::<std::net::SocketAddr>().unwrap()).unwrap();
        let mut stream = TcpStream::from(socket);
        let _ = stream.write_all(said.as_bytes());
        std::thread::sleep(Duration::from_millis(100));
        stream
    };
    let is_heard = |from: u8| {
        let mut asked = command(&server, &token);
        asked.args(["--interface", &format!("127.0.0.{from}")]).arg(server.url("/whoami"));
        asked.output().unwrap().status.success()
    };
    // An address may have three unauthenticated connections, and the server five in total. The server counts a closed connection for a moment longer,
    // so it refuses some attempts.
    let held_until_full = |from: u8, asker: u8, said: &str| {
        let mut held = Vec::new();
        while held.len() < 20 && is_heard(asker) {
            held.push(hold(from, said));
        }
        assert!(held.len() < 20, "more than the limit are taken");
        held
    };
    let held = held_until_full(1, 1, "");
    assert!((0..50).any(|_| is_heard(2)), "others are heard");
    let more = held_until_full(2, 9, &upload);

    let began = Instant::now();
    signal("TERM", server.pid());
    server.wait();
    assert!(began.elapsed() < soon, "{:?}", began.elapsed());
    assert!(server.log().contains("running requests have 1 second to end\""), "{}", server.log());
    drop((held, more));
}
