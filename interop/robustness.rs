//! What attackers and broken clients send: each gets a clear 4xx, the server goes on, nothing outside the root is touched.

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
    let server = Server::start();
    let token = server.add_token("admin@local!test");
    Setup { server, scratch: Scratch::new(), token }
}

impl Setup {
    fn file(&self, content: &str) -> String {
        let path = self.scratch.path().join("request");
        std::fs::write(&path, content).unwrap();
        format!("@{}", path.display())
    }

    /// The server still serves.
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
    for (bytes, lines) in [(9_000, 1), (90_000, 10)] {
        let header = setup.file(&format!("X-Large: {}\n", "x".repeat(bytes)).repeat(lines));
        let answer = curl(&setup.server, &setup.token, "/dav/main/", &["--header", &header]);
        assert_eq!(answer.status, 431, "{lines} of {bytes}");
    }
    // In one line, which curl does not send.
    let mut stream = std::net::TcpStream::connect(&setup.server.plain).unwrap();
    let request = format!("GET /dav/main/ HTTP/1.1\r\nHost: x\r\nX-Large: {}\r\n\r\n", "x".repeat(1 << 20));
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    let long = format!("/dav/main/{}", "x".repeat(9_000));
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
    // Writing onto a link's name must not write through it.
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
    for second in ["Authorization: Basic YUBsb2NhbDp4", "X-Auth-Token: x", "Cookie: a=b"] {
        let arguments = [&PROPFIND_0[..], &["--header", second]].concat();
        // curl leaves its own Authorization out when another is given; so both are given by hand.
        let own = format!("Authorization: Basic {}", base64(setup.token.as_bytes()));
        let answer = curl(server, "", "/dav/main/", &[&arguments[..], &["--header", &own]].concat());
        assert_eq!(answer.status, 400, "{second}: {}", answer.text());
    }
    assert_eq!(curl(server, &setup.token, "/dav/other/", &PROPFIND_0).status, 404);
    assert_eq!(curl(server, &setup.token, "/dav/x/", &PROPFIND_0).status, 404);
    assert_eq!(curl(server, &setup.token, "/nothing", &[]).status, 404);
    assert_eq!(curl(server, &setup.token, "/dav/main/", &["--request", "PROPFIND"]).status, 403);
    let brew = curl(server, &setup.token, "/dav/main/", &["--request", "BREW"]);
    assert!(brew.status == 405 && brew.head.iter().any(|line| line.starts_with("allow: ")), "{brew:?}");
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
        ("0-1,4-5", 200, "0123456789"),
    ] {
        let answer = get(&["--header", &format!("Range: bytes={range}")]);
        assert_eq!((answer.status, answer.text().as_str()), (status, body), "{range}");
    }
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
