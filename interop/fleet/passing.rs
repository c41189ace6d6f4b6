//! Requests for datastores that one member passes on to another member, which serves them.

use super::{Fleet, why};
use crate::console::{Browser, set_password};
use crate::curl::{Answer, command, curl};
use crate::proxmox::drive_datastores;
use crate::server::{Scratch, Server, WITHOUT_PENALTIES, until};
use crate::signals::signal;
use crate::terms::Authority;
use crate::traces::{Collector, attribute};
use crate::webdav::litmus;
use enfilade_testkit::{Etcd, free_port};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const MEMBERS: usize = 2;

/// A fleet with members that pass requests on. The first member serves the datastores. `more` is added to the environment of each member.
pub(super) fn fleet(more: &[(&str, &str)]) -> (Fleet, Vec<String>) {
    let (etcd, scratch) = (Etcd::start(), Scratch::new());
    let addresses: Vec<String> = (0..MEMBERS).map(|_| format!("127.0.0.1:{}", free_port())).collect();
    let members = Fleet::of_servers_with(&vec![vec![etcd.address.clone()]; MEMBERS], |nth| {
        [more, &[("ENFILADE_FLEET__LISTEN", addresses[nth].as_str())]].concat()
    });
    let fleet = Fleet { etcd, scratch, members };
    let login = fleet.members[0].add_token("admin@local!ready");
    until("requests are passed on", &fleet.members[1], || {
        status(&fleet.members[1], &login, "/dav/main/") == 207
    });
    (fleet, addresses)
}

pub(super) fn status(server: &Server, login: &str, path: &str) -> u16 {
    curl(server, login, path, &["--request", "PROPFIND", "--header", "Depth: 0"]).status
}

/// A big file that compresses badly. With this file, the test detects a lost or repeated piece.
fn big() -> Vec<u8> {
    (0..8_u32 << 20).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

#[test]
fn any_member_takes_requests_for_files() {
    let (fleet, _) = fleet(&[]);
    let [home, other] = [&fleet.members[0], &fleet.members[1]];
    let login = home.add_token("admin@local!api");
    let file = fleet.scratch.path().join("big");
    std::fs::write(&file, big()).unwrap();
    let upload = ["--upload-file", file.to_str().unwrap()];
    assert_eq!(curl(other, &login, "/dav/main/big", &upload).status, 201);
    assert!(std::fs::read(home.data().join("datastores/main/big")).unwrap() == big());
    // Every answer is the same as the answer of the member that serves the file.
    let host = format!("Host: {}", home.address);
    for (path, arguments) in [
        ("/dav/main/big", vec![]),
        ("/dav/main/big", vec!["--range", "1000-1999"]),
        ("/dav/main/big", vec!["--head"]),
        ("/dav/main/", vec!["--request", "PROPFIND", "--header", "Depth: 1"]),
        ("/dav/main/none", vec![]),
        ("/dav/none/x", vec![]),
        ("/dav/main/big", vec!["--request", "DELETE", "--header", "If-Match: \"other\""]),
        ("/dav/main/new/", vec!["--request", "MKCOL", "--data", "x"]),
    ] {
        let arguments = [arguments, vec!["--header", &host]].concat();
        let [direct, passed] = [home, other].map(|server| curl(server, &login, path, &arguments));
        assert_eq!(passed, direct, "{path} {arguments:?}");
    }
    for login in ["", "admin@local!api:wrong"] {
        let [direct, passed] = [home, other].map(|server| curl(server, login, "/dav/main/big", &[]));
        assert_eq!((passed.status, &passed.head), (401, &direct.head), "{login}");
    }
    // A client over HTTP/2 that is slower than the serving member gets the whole file.
    let slow = command(other, &login)
        .args(["--http2", "--limit-rate", "16M"])
        .arg(other.url("/dav/main/big"))
        .output()
        .unwrap();
    assert!(slow.stdout == big(), "{}", String::from_utf8_lossy(&slow.stderr));
    for path in ["copy", "moved"] {
        let verb = if path == "copy" { "COPY" } else { "MOVE" };
        let to = format!("Destination: {}", other.url(&format!("/dav/main/{path}")));
        assert_eq!(curl(other, &login, "/dav/main/big", &["--request", verb, "--header", &to]).status, 201);
    }
    assert!(std::fs::read(home.data().join("datastores/main/moved")).unwrap() == big());
    // A request has the same id in the logs of both members.
    let log = other.log();
    let line = log.lines().find(|line| line.contains("\"passed\"") && line.contains("PUT")).unwrap();
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    let id = line["request"].as_str().unwrap();
    let log = home.log();
    assert!(log.lines().any(|line| line.contains(id) && line.contains("admin@local!api")), "{line} {log}");
    // A revocation on the member that passes requests on takes effect at once.
    assert_eq!(status(other, &login, "/dav/main/"), 207);
    other.cli(&["token", "delete", "admin@local!api"]);
    assert_eq!(status(other, &login, "/dav/main/"), 401);
}

#[test]
fn a_request_that_another_member_answers_has_one_trace() {
    let (collector, url) = Collector::start("200 OK");
    let (fleet, _) = fleet(&[("ENFILADE_TRACES__OTLP", &url)]);
    let login = fleet.members[0].add_token("admin@local!api");
    assert_eq!(curl(&fleet.members[1], &login, "/dav/main/traced", &[]).status, 404);
    let answering =
        || collector.spans().into_iter().find(|span| attribute(span, "enfilade.path") == "/traced");
    until("the span of the answering member", &fleet.members[0], || answering().is_some());
    let answering = answering().unwrap();
    let passing = || collector.spans().into_iter().find(|span| span["spanId"] == answering["parentSpanId"]);
    until("the span of the passing member", &fleet.members[1], || passing().is_some());
    let passing = passing().unwrap();
    assert_eq!(passing["traceId"], answering["traceId"]);
    assert_eq!(attribute(&passing, "enfilade.verdict"), "passed");
}

#[test]
fn the_console_and_links_of_any_member_show_files_of_another() {
    let (fleet, _) = fleet(&[]);
    let [home, other] = [&fleet.members[0], &fleet.members[1]];
    home.add_user("alice", "DatastorePowerUser");
    set_password(home, "alice@local");
    let main = home.data().join("datastores/main");
    std::fs::create_dir(main.join("shared")).unwrap();
    std::fs::write(main.join("shared/a.txt"), "the a").unwrap();
    home.cli(&["acl", "set", "main", "/", "allow authenticated full inherit=files,dirs", "--recursive"]);
    let alice = Browser::new(other);
    alice.sign_in("alice");
    let page = alice.open("/console/files/main/shared/");
    assert!(page.status == 200 && page.text().contains("a.txt"), "{}\n{}", page.text(), other.log());
    assert_eq!(alice.open("/console/content/main/shared/a.txt").text(), "the a");
    let made = alice.act("/console/files/main/shared/", &[("do", "new-folder"), ("name", "new")]);
    assert_eq!(made.status, 303, "{}", made.text());
    assert!(main.join("shared/new").is_dir());
    // The other member checks the token against forged forms.
    let forged = alice.submit("/console/files/main/shared/", &[("do", "new-folder"), ("name", "forged")]);
    assert_eq!((forged.status, main.join("shared/forged").exists()), (403, false));
    // The link is made at one member and works at the other. A guest enters the password at any member.
    let arguments = ["link", "create", "main", "/shared", "--user", "alice@local", "--password-stdin"];
    let made = home.cli_output(&[&arguments[..], &["--uses", "2"]].concat(), "open sesame");
    let made: serde_json::Value = serde_json::from_slice(&made.stdout).unwrap();
    let path = made["path"].as_str().unwrap();
    let guest = Browser::new(other);
    assert!(guest.open(path).text().contains("type=\"password\""));
    assert_eq!(guest.submit(path, &[("password", "open sesame")]).status, 303);
    assert!(guest.open(&format!("{path}/")).text().contains("a.txt"));
    let file = format!("{path}/a.txt?get");
    assert_eq!(guest.open(&file).text(), "the a");
    assert_eq!((guest.open(&file).status, guest.open(&file).status), (200, 404));
    // No log contains the secret of the link.
    let secret = path.strip_prefix("/s/").unwrap();
    assert!(!other.log().contains(secret) && !home.log().contains(secret));
    assert!(other.log().contains("\"path\":\"/s/-\""), "{}", other.log());
    // A link that is ended at one member is refused by the other.
    let link = ["link", "create", "main", "/shared", "--user", "alice@local"];
    let made = &home.cli(&link)[0];
    let (path, id) = (made["path"].as_str().unwrap(), made["id"].as_str().unwrap());
    assert_eq!(guest.open(path).status, 200);
    home.cli(&["link", "end", id]);
    assert_eq!(guest.open(path).status, 404);
    // A user without a role in the datastore gets the answer for an absent datastore, and the request is not passed on.
    home.cli(&[
        "role",
        "remove",
        "--path",
        "/datastore/main",
        "--auth-id",
        "alice@local",
        "DatastorePowerUser",
    ]);
    let [hidden, absent] = ["main", "absent"].map(|name| alice.open(&format!("/console/files/{name}/")));
    assert_eq!((hidden.status, absent.status), (404, 404));
}

/// A call of the Proxmox API with an API token.
fn call(server: &Server, login: &str, path: &str, more: &[&str]) -> Answer {
    let (id, secret) = login.split_once(':').unwrap();
    let header = format!("Authorization: PBSAPIToken={id}:{secret}");
    curl(server, "", &format!("/api2/json/{path}"), &[more, &["--header", &header]].concat())
}

const CHANGE: [&str; 4] = ["--request", "PUT", "--data", "comment=his"];
const ACTIVE: &str = "admin/datastore/main/active-operations?verbose=1";

/// A member answers the Proxmox API for datastores that another member serves.
#[test]
fn proxmoxer_drives_the_datastores_of_another_member() {
    let (mut fleet, _) = fleet(&[WITHOUT_PENALTIES]);
    let [home, other] = [&fleet.members[0], &fleet.members[1]];
    drive_datastores(other, home, &["elsewhere"]);
    let passed = other.log().lines().filter(|line| line.contains("\"passed\"")).count();
    assert!(passed > 10, "{passed}: {}", other.log());
    // The other member returns the answers of the serving member about a running operation, and its refusals.
    let login = home.add_token("admin@local!api");
    let none = r#"{"data":{"processes":[],"read":0,"write":0}}"#;
    assert_eq!(call(other, &login, ACTIVE, &[]).text(), none);
    let file = fleet.scratch.path().join("big");
    std::fs::write(&file, big()).unwrap();
    let mut upload = command(home, &login)
        .args(["--limit-rate", "1k", "--upload-file", file.to_str().unwrap()])
        .arg(home.url("/dav/main/big"))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let writes = |text: &str| text.contains("\"write\":1}") && text.contains(&home.pid().to_string());
    until("the upload is seen", home, || writes(&call(other, &login, ACTIVE, &[]).text()));
    upload.kill().unwrap();
    upload.wait().unwrap();
    until("it has ended", home, || call(other, &login, ACTIVE, &[]).text() == none);
    for (path, arguments, status) in [
        ("admin/datastore/main/status?wrong=1", &[][..], 400),
        ("admin/datastore/main/none", &[], 404),
        ("admin/datastore/none/status", &[], 404),
        ("admin/datastore/main/status", &["--request", "POST"], 405),
        ("config/datastore/none", &CHANGE, 400),
    ] {
        let [direct, passed] = [home, other].map(|server| call(server, &login, path, arguments));
        assert_eq!(passed.status, status, "{path}: {}", passed.text());
        assert_eq!(passed, direct, "{path}");
    }
    // A user without a role gets no information.
    home.cli(&["user", "add", "mallory@local"]);
    let mallory = home.add_token("mallory@local!t");
    let of_hers = |name: &str| call(other, &mallory, &format!("admin/datastore/{name}/status"), &[]);
    assert_eq!((of_hers("main").status, of_hers("none").status), (403, 403));
    assert_eq!(of_hers("main").text().replace("main", "none"), of_hers("none").text());
    assert_eq!(call(other, &mallory, "config/datastore/main", &CHANGE).status, 403);
    // A member without a listener for members passes no request on. Its error names the serving member.
    fleet.members[1].stop();
    fleet.members[1].start_again_with(&[WITHOUT_PENALTIES]);
    let other = &fleet.members[1];
    for (path, more, status) in [
        ("admin/datastore/main/status", &[][..], 421),
        (ACTIVE, &[], 421),
        ("config/datastore/main", &CHANGE, 400),
        ("config/datastore/main", &[], 200),
        ("admin/datastore", &[], 200),
    ] {
        let answer = call(other, &login, path, more);
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
    }
    let refused = call(other, &login, "config/datastore/main", &CHANGE);
    assert!(refused.text().contains("follows the edited files of member `a`"), "{}", refused.text());
}

/// A member passes on a request with a login ticket: its cookie, and its token against forged requests.
#[test]
fn a_login_ticket_is_passed_on() {
    let (fleet, _) = fleet(&[]);
    let [home, other] = [&fleet.members[0], &fleet.members[1]];
    let added = home.cli_output(&["user", "add", "bob@local", "--password-stdin"], "a long password\n");
    assert!(added.status.success());
    home.cli(&["role", "assign", "--path", "/", "--auth-id", "bob@local", "Admin"]);
    let form = ["--data", "username=bob@local", "--data-urlencode", "password=a long password"];
    let ticket = curl(other, "", "/api2/json/access/ticket", &form);
    let ticket: serde_json::Value = serde_json::from_slice(&ticket.body).unwrap();
    let said = |name: &str| ticket["data"][name].as_str().unwrap().to_owned();
    let cookie = format!("Cookie: PBSAuthCookie={}", said("ticket"));
    let token = format!("CSRFPreventionToken: {}", said("CSRFPreventionToken"));
    let with = |path: &str, more: &[&str]| {
        curl(other, "", &format!("/api2/json/{path}"), &[more, &["--header", &cookie]].concat()).status
    };
    assert_eq!(with("admin/datastore/main/status", &[]), 200);
    assert_eq!(with("config/datastore/main", &CHANGE), 401, "without the token");
    let change = [&CHANGE[..], &["--header", &token]].concat();
    assert_eq!(with("config/datastore/main", &change), 200);
    let of_other_site = [&change[..], &["--header", "Origin: https://elsewhere.example.org"]].concat();
    assert_eq!(with("config/datastore/main", &of_other_site), 403);
    let file = std::fs::read_to_string(home.data().join("datastore.cfg")).unwrap();
    assert!(file.contains("comment his"), "{file}");
}

/// A client that asks before an upload (`Expect: 100-continue`) sends no body if the serving member would refuse the request.
#[test]
fn a_refused_upload_is_not_sent() {
    let (fleet, _) = fleet(&[]);
    let [home, other] = [&fleet.members[0], &fleet.members[1]];
    let login = home.add_token("admin@local!api");
    home.cli(&["user", "add", "eve@local"]);
    let eve = home.add_token("eve@local!t");
    for name in ["eve@local", "eve@local!t"] {
        home.cli(&["role", "assign", "--path", "/datastore/main", "--auth-id", name, "DatastoreReader"]);
    }
    let file = fleet.scratch.path().join("big");
    std::fs::write(&file, big()).unwrap();
    // Without an answer to `Expect`, curl would wait longer than its time limit.
    let waits = ["--expect100-timeout", "60", "--max-time", "20", "--header", "Expect: 100-continue"];
    let put = |server: &Server, login: &str, path: &str, more: &[&str]| {
        let output = command(server, login)
            .args(["--upload-file", file.to_str().unwrap(), "--output", "/dev/null"])
            .args(waits)
            .args(["--write-out", "%{http_code} %{size_upload} %{num_connects}"])
            .args(more)
            .arg(server.url(path))
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    for (login, path, more, expected) in [
        (&login, "/dav/main/big", &["--http1.1"][..], "201 8388608 1"),
        (&login, "/dav/main/big", &["--http1.1", "--header", "If-None-Match: *"], "412 0 1"),
        (&login, "/dav/main/none/big", &["--http1.1"], "409 0 1"),
        (&eve, "/dav/main/big", &["--http1.1"], "403 0 1"),
        (&login, "/dav/main/big", &["--http1.1", "--header", "Transfer-Encoding: chunked"], "204 8388608 1"),
    ] {
        for server in [home, other] {
            let sent = put(server, login, path, more).replace("204", "201");
            let expected = expected.replace("204", "201");
            let rest = sent.strip_prefix(&expected[..3]).unwrap_or_else(|| panic!("{path} {more:?}: {sent}"));
            // With chunks, the upload has more bytes than the file.
            let bytes: u64 = rest.split_whitespace().next().unwrap().parse().unwrap();
            assert_eq!(bytes >= 8 << 20, expected.contains("8388608"), "{path} {more:?}: {sent}");
        }
    }
    // Over HTTP/2, curl sends the body after 100 Continue, or after the timeout of one second. In both cases the serving member gets the whole file.
    let sent = put(other, &login, "/dav/main/two", &["--http2", "--expect100-timeout", "1"]);
    assert!(sent.starts_with("201 8388608"), "{sent}");
    assert!(std::fs::read(home.data().join("datastores/main/two")).unwrap() == big());
    // The serving member judges the request first. Until then, the client does not get 100 Continue.
    signal("STOP", home.pid());
    let mut stream = TcpStream::connect(&other.plain).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(700))).unwrap();
    let head = format!(
        "PUT /dav/main/slow HTTP/1.1\r\nHost: x\r\nAuthorization: PBSAPIToken={}\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n",
        login
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut said = [0; 256];
    assert!(stream.read(&mut said).is_err(), "the client is asked for the body too early");
    signal("CONT", home.pid());
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut hear = || {
        let bytes = stream.read(&mut said).unwrap();
        (String::from_utf8(said[..bytes].to_vec()).unwrap(), stream.try_clone().unwrap())
    };
    let (first, mut out) = hear();
    assert_eq!(first, "HTTP/1.1 100 Continue\r\n\r\n");
    out.write_all(b"abc").unwrap();
    let (then, _) = hear();
    assert!(then.starts_with("HTTP/1.1 201"), "{then}");
}

#[test]
fn litmus_passes_through_another_member() {
    let (fleet, _) = fleet(&[]);
    let other = &fleet.members[1];
    let login = other.add_token("admin@local!api");
    let (user, secret) = login.split_once(':').unwrap();
    for (url, http) in [(format!("http://{}/dav/main/", other.plain), 4), (other.url("/dav/main/"), 3)] {
        let parts = litmus(&url, user, secret);
        let expected = [("basic", 16), ("copymove", 13), ("props", 30), ("locks", 41), ("http", http)];
        let expected: Vec<_> = expected.iter().map(|(name, n)| ((*name).to_owned(), *n, *n)).collect();
        assert_eq!(parts, expected);
    }
}

/// Headers in which a client describes itself do not reach the serving member. Wrong passwords are counted for the address of the client.
#[test]
fn a_client_cannot_take_the_place_of_another() {
    let (fleet, addresses) = fleet(&[]);
    let [home, other] = [&fleet.members[0], &fleet.members[1]];
    let login = home.add_token("admin@local!api");
    let headers = [
        "--header",
        "Forwarded: for=192.0.2.7",
        "--header",
        "X-Forwarded-For: 192.0.2.7",
        "--header",
        "X-Enfilade-Client-Certificate: 0000000000000000000000000000000000000000000000000000000000000000",
    ];
    assert_eq!(curl(other, &login, "/dav/main/none", &headers).status, 404);
    let of_home = || home.log().lines().filter(|line| line.contains("/none")).count();
    until("it is in the log", home, || of_home() > 0);
    assert!(!home.log().contains("192.0.2.7"), "{}", home.log());
    // The member that receives wrong passwords checks the passwords itself, and blocks the client's address. The other member does not block this
    // address. The wrong passwords are sent at the same time, because the delays of their answers would add up otherwise.
    let guess = |server: &Server, nth: u32, from: &str| {
        let mut guess = command(server, &format!("u{nth}@local!x:wrong"));
        guess.args(["--output", "/dev/null", "--write-out", "%{http_code}", "--interface", from]);
        guess.arg(server.url("/dav/main/")).stdout(Stdio::piped()).spawn().unwrap()
    };
    let code = |child: Child| String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    let guesses: Vec<Child> = (0..25).map(|nth| guess(other, nth, "127.0.0.2")).collect();
    let codes: Vec<String> = guesses.into_iter().map(code).collect();
    assert!(codes.iter().filter(|code| *code == "401").count() >= 20, "{codes:?}");
    for (server, from, expected) in [
        (other, "127.0.0.2", "429"),
        (home, "127.0.0.2", "401"),
        (other, "127.0.0.1", "401"),
        (home, "127.0.0.1", "401"),
    ] {
        assert_eq!(code(guess(server, 99, from)), expected, "from {from}");
    }
    // Only registered servers may use the listener for members.
    let (pem, key) = Authority::new("strangers").give("stranger", true);
    let place = fleet.scratch.path();
    std::fs::write(place.join("stranger.pem"), pem + &key).unwrap();
    let ask = |certificate: &[&str]| {
        Command::new("curl")
            .args(["--silent", "--insecure", "--max-time", "20", "--user", &login])
            .args(certificate)
            .arg(format!("https://{}/dav/main/", addresses[0]))
            .output()
            .unwrap()
    };
    for certificate in [&[][..], &["--cert", place.join("stranger.pem").to_str().unwrap()]] {
        let output = ask(certificate);
        assert!(!output.status.success() && output.stdout.is_empty(), "{certificate:?}: {output:?}");
    }
    until("the stranger is logged", home, || home.log().contains("is not a running server of this fleet"));
    let mut plain = TcpStream::connect(&addresses[0]).unwrap();
    plain.write_all(b"GET /dav/main/ HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut said = Vec::new();
    let _ = plain.read_to_end(&mut said);
    assert!(!said.starts_with(b"HTTP"), "{said:?}");
}

#[test]
fn a_certificate_of_the_client_is_passed_on() {
    let authority = Authority::new("clients");
    let (mut fleet, addresses) = fleet(&[]);
    let place = fleet.scratch.path();
    let at = |name: &str| place.join(name).to_str().unwrap().to_owned();
    let (pem, key) = authority.give("ann", true);
    std::fs::write(at("ca.pem"), &authority.pem).unwrap();
    std::fs::write(at("ann.crt"), &pem).unwrap();
    std::fs::write(at("ann.pem"), pem + &key).unwrap();
    let own = fleet.members[1].data().join("tls/localhost.pem");
    let list = format!("{} [verify optional ca-file {}]\n", own.display(), at("ca.pem"));
    std::fs::write(at("list"), list).unwrap();
    let (list, certificate) = (at("list"), at("ann.pem"));
    fleet.members[0].cli(&["token", "create", "admin@local!cert", "--certificate", &at("ann.crt")]);
    fleet.members[0].cli(&["role", "assign", "--path", "/", "--auth-id", "admin@local!cert", "Admin"]);
    fleet.members[1].stop();
    fleet.members[1]
        .start_again_with(&[("ENFILADE_TLS__CRT_LIST", &list), ("ENFILADE_FLEET__LISTEN", &addresses[1])]);
    let other = &fleet.members[1];
    let ask = |arguments: &[&str]| {
        let propfind = ["--request", "PROPFIND", "--header", "Depth: 0"];
        curl(other, "", "/dav/main/", &[&propfind, arguments].concat()).status
    };
    until("requests are passed on", other, || ask(&["--cert", &certificate]) == 207);
    assert_eq!(ask(&[]), 401);
    let digits = fleet.members[0].cli(&["token", "show", "admin@local!cert"])[0].to_string();
    let header = format!("X-Enfilade-Client-Certificate: {}", longest_hex(&digits));
    assert_eq!(ask(&["--header", &header]), 401, "{header}");
}

/// The longest sequence of hexadecimal digits in a text.
fn longest_hex(text: &str) -> String {
    let runs = text.split(|c: char| !c.is_ascii_hexdigit());
    runs.max_by_key(|run| run.len()).unwrap_or_default().to_ascii_lowercase()
}

/// If a member is killed or stopped, clients of other members do not wait for this member.
#[test]
fn a_member_that_serves_no_more_lets_nobody_wait() {
    let (mut fleet, addresses) = fleet(&[]);
    let login = fleet.members[0].add_token("admin@local!api");
    // The file is larger than the buffers of all sockets.
    let file = std::fs::File::create(fleet.members[0].data().join("datastores/main/big")).unwrap();
    file.set_len(256 << 20).unwrap();
    assert_eq!(status(&fleet.members[1], &login, "/dav/main/big"), 207);
    // A download is running when the member stops.
    let mut download = command(&fleet.members[1], &login)
        .args(["--limit-rate", "16M"])
        .arg(fleet.members[1].url("/dav/main/big"))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(500));
    signal("STOP", fleet.members[0].pid());
    let began = Instant::now();
    // etcd forgets a server after about 5 s.
    assert_eq!(status(&fleet.members[1], &login, "/dav/main/big"), 503);
    assert!(began.elapsed() < Duration::from_secs(25), "{:?}", began.elapsed());
    assert!(!download.wait().unwrap().success(), "the download must end with an error");
    assert!(began.elapsed() < Duration::from_secs(50), "{:?}", began.elapsed());
    signal("CONT", fleet.members[0].pid());
    until("it serves again", &fleet.members[1], || status(&fleet.members[1], &login, "/dav/main/big") == 207);
    fleet.members[0].stop();
    assert_eq!(
        status(&fleet.members[1], &login, "/dav/main/big"),
        503,
        "the stopped member has a listener, so the status is not 421"
    );
    fleet.members[0].start_again_with(&[("ENFILADE_FLEET__LISTEN", &addresses[0])]);
    until("the next process serves", &fleet.members[1], || {
        status(&fleet.members[1], &login, "/dav/main/big") == 207
    });
    let refused = fleet.members[1].log();
    assert!(refused.contains("HT33"), "{refused}");
}

/// Each datastore has one home, and another member can become its home.
#[test]
fn a_datastore_gets_another_home() {
    let (mut fleet, addresses) = fleet(&[]);
    let path = fleet.scratch.path().join("shared");
    let [a, b] = [&fleet.members[0], &fleet.members[1]];
    let login = a.add_token("admin@local!api");
    a.cli(&["datastore", "create", "second", "--path", path.to_str().unwrap()]);
    let file = fleet.scratch.path().join("file");
    std::fs::write(&file, "content").unwrap();
    assert_eq!(curl(a, &login, "/dav/second/f", &["--upload-file", file.to_str().unwrap()]).status, 201);
    let set = |member: &str| a.cli_output(&["datastore", "set", "second", "--home", member], "");
    assert!(why(&set("b")).contains("must be in maintenance mode offline"));
    a.cli(&["datastore", "maintenance", "second", "offline"]);
    a.cli(&["datastore", "operations", "second", "--wait"]);
    assert!(why(&set("x")).contains("no member `x`; its members are a, b"));
    assert!(set("b").status.success());
    a.cli(&["datastore", "maintenance", "second", "none"]);
    let passed = |server: &Server| server.log().matches("\"passed\"").count();
    let check = |a: &Server, b: &Server| {
        for server in [a, b] {
            let before = passed(server);
            assert_eq!(curl(server, &login, "/dav/second/f", &[]).body, b"content");
            assert_eq!(status(server, &login, "/dav/main/"), 207);
            let count = || passed(server) - before;
            until("the requests for the other member are passed on", server, || count() == 1);
        }
        let of = |server: &Server, name: &str| server.cli_output(&["acl", "get", name, "/"], "");
        assert!(of(b, "second").status.success() && of(a, "main").status.success());
        assert!(why(&of(a, "second")).contains("datastore `second` is served by member `b`"));
        assert!(why(&of(b, "main")).contains("datastore `main` is served by member `a`"));
    };
    check(a, b);
    let listed = a.cli(&["datastore", "list"]);
    assert!(listed.iter().any(|row| row["datastore"] == "second" && row["home"] == "b"), "{listed:?}");
    // Hidden files stay hidden at both members.
    a.cli(&["user", "add", "eve@local"]);
    let eve = a.add_token("eve@local!t");
    let before = passed(b);
    let answers = [a, b].map(|server| {
        ["/dav/second/f", "/dav/main/f", "/dav/none/f"].map(|path| curl(server, &eve, path, &[]).status)
    });
    assert_eq!(answers, [[404; 3]; 2]);
    // The log contains requests in their order. Requests of a user without a role, and requests without a credential, were not passed on.
    assert_eq!([status(b, "", "/dav/main/"), status(b, &login, "/dav/main/")], [401, 207]);
    until("a request is passed on", b, || passed(b) > before);
    assert_eq!(passed(b), before + 1);
    for (nth, address) in addresses.iter().enumerate() {
        fleet.members[nth].stop();
        fleet.members[nth].start_again_with(&[("ENFILADE_FLEET__LISTEN", address)]);
    }
    let [a, b] = [&fleet.members[0], &fleet.members[1]];
    until("requests are passed on", a, || status(a, &login, "/dav/second/") == 207);
    until("requests are passed on", b, || status(b, &login, "/dav/main/") == 207);
    check(a, b);
    // The member that was the home is lost.
    fleet.members[1].stop();
    let a = &fleet.members[0];
    assert_eq!(status(a, &login, "/dav/second/"), 503);
    let expelled = a.cli(&["fleet", "expel", "b"]);
    assert_eq!(expelled[0]["datastores"], serde_json::json!(["second"]));
    a.cli(&["datastore", "maintenance", "second", "offline"]);
    a.cli(&["datastore", "set", "second", "--home", "none"]);
    a.cli(&["datastore", "maintenance", "second", "none"]);
    assert_eq!(curl(a, &login, "/dav/second/f", &[]).body, b"content");
}
