//! The server behind nginx, HAProxy and Caddy, with the configurations of docs/proxies.md.

use crate::curl::{PROPFIND_0, command};
use crate::proxy::{Proxy, nginx_around};
use crate::server::{BINARY, Scratch, Server, first_line, free_port, serving, until, wait_until};
use crate::signals::signal;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const PAGE: &str = include_str!("../docs/proxies.md");
const TRUSTED: (&str, &str) = ("ENFILADE_HTTP__TRUSTED_PROXIES", "127.0.0.1");
const UNIX_TRUSTED: (&str, &str) = ("ENFILADE_HTTP__TRUSTED_PROXIES", "unix");
const PLAIN_LISTEN: &str = "ENFILADE_TLS__PLAIN_LISTEN";

/// The path of a socket in the directory, in the form of the key `plain_listen`.
fn socket_in(directory: &Path) -> String {
    format!("unix:{}", directory.join("http.sock").display())
}

/// A server on a Unix socket, and the directory of the socket.
fn on_a_socket(environment: &[(&str, &str)]) -> (Server, Scratch) {
    let scratch = Scratch::new();
    let socket = socket_in(scratch.path());
    let own = [(PLAIN_LISTEN, socket.as_str()), UNIX_TRUSTED];
    (Server::start_with(&[&own, environment].concat()), scratch)
}

fn path_of(server: &Server) -> &str {
    server.plain.strip_prefix("unix:").unwrap()
}

/// The configuration of docs/proxies.md for the proxy `kind`, with the addresses and the certificate of this test.
fn recipe(kind: &str, server: &Server, address: &str) -> String {
    let (_, after) = PAGE.split_once(&format!("```{kind}\n")).unwrap();
    let (text, _) = after.split_once("```").unwrap();
    assert!(text.contains("127.0.0.1:8080"), "{text}");
    let bundle = server.data().join("tls/localhost.pem");
    let text = match server.plain.strip_prefix("unix:") {
        Some(path) => {
            let line = match kind {
                "nginx" => "proxy_pass http://unix:/run/enfilade/http.sock;",
                "haproxy" => "server enfilade unix@/run/enfilade/http.sock",
                _ => "reverse_proxy unix//run/enfilade/http.sock {",
            };
            assert!(PAGE.contains(&format!("| `{line}` |")), "{line}");
            let old = text.lines().find(|line| line.contains("127.0.0.1:8080")).unwrap();
            text.replace(old.trim(), &line.replace("/run/enfilade/http.sock", path))
        }
        None => text.replace("127.0.0.1:8080", &server.plain),
    };
    let text = text.replace("/etc/ssl/nas.pem", bundle.to_str().unwrap());
    match kind {
        "nginx" => text.replace("listen 443", &format!("listen {address}")),
        "haproxy" => text.replace("bind :443", &format!("bind {address}")),
        _ => {
            text.replace("nas.example.com {", &format!("https://{address} {{\ntls {0} {0}", bundle.display()))
        }
    }
}

fn start(kind: &str, server: &Server) -> Proxy {
    let address = format!("127.0.0.1:{}", free_port());
    let directory = server.scratch.path().join(kind);
    std::fs::create_dir(&directory).unwrap();
    let recipe = recipe(kind, server, &address);
    let text = match kind {
        "nginx" => nginx_around(&directory, &recipe),
        "haproxy" => format!("global\n    maxconn 100\n{recipe}"),
        _ => format!("{{\nadmin off\nauto_https disable_redirects\n}}\n{recipe}"),
    };
    std::fs::write(directory.join("configuration"), text).unwrap();
    Proxy::start(kind, &directory, "configuration", address)
}

/// Sends a request from this address of the machine. Returns the status and the body.
fn ask(server: &Server, login: &str, from: &str, url: &str, arguments: &[&str]) -> (String, String) {
    let mut command = command(server, login);
    command
        .args(["--interface", from, "--write-out", "\n%{http_code}", "--http1.1"])
        .args(arguments)
        .arg(url);
    let output = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let (body, status) = output.rsplit_once('\n').unwrap();
    (status.to_owned(), body.to_owned())
}

/// The addresses (`peer`) in the log lines of requests by `authid`.
fn peers(server: &Server, authid: &str) -> Vec<String> {
    let of = |line: &str| {
        let event: serde_json::Value = serde_json::from_str(line).ok()?;
        (event["authid"] == authid).then(|| event["peer"].as_str().unwrap().to_owned())
    };
    server.log().lines().filter_map(of).collect()
}

#[test]
fn each_recipe_names_the_client_and_its_url() {
    names_the_client_and_its_url(&Server::start_with(&[TRUSTED]));
}

#[test]
fn each_recipe_names_the_client_over_a_unix_socket() {
    let (server, _directory) = on_a_socket(&[]);
    names_the_client_and_its_url(&server);
}

fn names_the_client_and_its_url(server: &Server) {
    let root = server.data().join("datastores/main");
    std::fs::write(root.join("a"), "content").unwrap();
    for kind in ["nginx", "haproxy", "caddy"] {
        let proxy = start(kind, server);
        let login = server.add_user(kind, "DatastorePowerUser");
        let url = |path: &str| format!("https://{}{path}", proxy.address);
        let spoofs = [
            "X-Forwarded-For: 198.51.100.9",
            "X-Forwarded-Proto: http",
            "X-Forwarded-Host: evil.example",
            "X-Forwarded-Port: 9999",
            "Forwarded: for=198.51.100.9;proto=http;host=evil.example",
        ];
        let spoofs: Vec<&str> = spoofs.iter().flat_map(|spoof| ["--header", *spoof]).collect();
        for (arguments, from) in [(&[][..], "127.0.0.2"), (&spoofs[..], "127.0.0.3")] {
            assert_eq!(ask(server, &login, from, &url("/whoami"), arguments).0, "200", "{kind}");
            let (_, links) = ask(server, "", from, &url("/v3"), arguments);
            assert!(links.contains(&format!("\"{}\"", url("/v3/"))), "{kind}: {links}");
            let destination = format!("Destination: {}", url(&format!("/dav/main/{kind}{from}")));
            let copy = [&["--request", "COPY", "--header", &destination][..], arguments].concat();
            assert_eq!(ask(server, &login, from, &url("/dav/main/a"), &copy).0, "201", "{kind}");
            let list = [&PROPFIND_0[..], arguments].concat();
            let (status, listing) = ask(server, &login, from, &url("/dav/main/a"), &list);
            assert!(
                status == "207" && listing.contains("<D:href>/dav/main/a</D:href>"),
                "{status} {listing}"
            );
        }
        let authid = format!("{kind}@local!test");
        until("all requests are logged", server, || peers(server, &authid).len() == 6);
        let expected = [["127.0.0.2"; 3], ["127.0.0.3"; 3]].concat();
        assert_eq!(peers(server, &authid), expected, "{kind}");
    }
    assert!(!server.log().contains("198.51.100.9"), "{}", server.log());
}

#[test]
fn a_client_of_a_proxy_that_guesses_is_blocked_alone() {
    blocks_alone(&Server::start_with(&[TRUSTED]), "haproxy");
}

#[test]
fn a_client_of_a_proxy_on_a_unix_socket_that_guesses_is_blocked_alone() {
    for kind in ["nginx", "haproxy"] {
        let (server, _directory) = on_a_socket(&[]);
        blocks_alone(&server, kind);
    }
}

fn blocks_alone(server: &Server, kind: &str) {
    server.cli(&["user", "add", "alice@local"]);
    server.cli_output(&["user", "passwd", "alice@local", "--password-stdin"], "correct horse\n");
    let proxy = start(kind, server);
    let url = format!("https://{}/whoami", proxy.address);
    let guesses: Vec<Child> = (0..25)
        .map(|n| {
            let mut guess = command(server, &format!("u{n}@local!x:wrong"));
            guess.args(["--interface", "127.0.0.3", "--output", "/dev/null"]).arg(&url).spawn().unwrap()
        })
        .collect();
    guesses.into_iter().for_each(|mut guess| assert!(guess.wait().unwrap().success()));
    let login = "alice@local:correct horse";
    assert_eq!(ask(server, login, "127.0.0.3", &url, &[]).0, "429");
    assert_eq!(ask(server, login, "127.0.0.2", &url, &[]).0, "200");
    // The proxy reuses the connection on which alice was accepted.
    assert_eq!(ask(server, login, "127.0.0.3", &url, &[]).0, "429");
}

/// Sends a request to the listener without TLS, from 127.0.0.1. Returns the answer.
fn say(server: &Server, path: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(&server.plain).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn ignored(server: &Server) -> String {
    let url = format!("http://{}/metrics", server.operations);
    let output = Command::new("curl").args(["--silent", &url]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("enfilade_forwarded_ignored_total "));
    line.unwrap().to_owned()
}

#[test]
fn headers_count_only_from_a_trusted_proxy() {
    let server = Server::start_with(&[TRUSTED, ("ENFILADE_TLS__HSTS", "max-age=60")]);
    let token = server.add_token("admin@local!test");
    let spoof = ["--header", "X-Forwarded-For: 192.0.2.7", "--header", "Forwarded: for=192.0.2.7;host=evil"];
    let url = format!("http://{}/whoami", server.plain);
    assert_eq!(ask(&server, &token, "127.0.0.4", &url, &spoof).0, "200");
    let (_, links) = ask(&server, "", "127.0.0.4", &format!("http://{}/v3", server.plain), &spoof);
    assert!(links.contains(&format!("\"http://{}/v3/\"", server.plain)), "{links}");
    until("it is logged", &server, || peers(&server, "admin@local!test").len() == 1);
    assert!(peers(&server, "admin@local!test")[0].starts_with("127.0.0.4:"), "{}", server.log());
    assert_eq!(ignored(&server), "2");

    // The request passed several proxies. The last proxy opened the connection.
    let answer = say(
        &server,
        "/v3",
        "Forwarded: for=1.1.1.1, for=192.0.2.7;proto=https;host=nas.example, for=127.0.0.1\r\n",
    );
    assert!(answer.contains("\"https://nas.example/v3/\""), "{answer}");
    assert!(answer.to_ascii_lowercase().contains("strict-transport-security: max-age=60"), "{answer}");
    // Malformed or contradictory headers are refused.
    for (headers, reason) in [
        ("Forwarded: for=\"192.0.2.7\r\n", "RFC 7239"),
        ("X-Forwarded-For: nas\r\n", "expected an IP address"),
        ("X-Forwarded-For: 192.0.2.7\r\nForwarded: for=198.51.100.9\r\n", "contain different addresses"),
        ("X-Forwarded-Host: a/b\r\n", "expected a host name"),
        ("X-Forwarded-Port: https\r\n", "`X-Forwarded-Port`"),
    ] {
        let answer = say(&server, "/v3", headers);
        assert!(answer.starts_with("HTTP/1.1 400") && answer.contains(reason), "{headers} {answer}");
    }
    until("they are logged", &server, || server.log().matches("\"HT29\"").count() == 5);
    // The port in the header is in the URLs of the answer.
    let answer = say(
        &server,
        "/v3",
        "X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: nas.example\r\nX-Forwarded-Port: 8443\r\n",
    );
    assert!(answer.contains("\"https://nas.example:8443/v3/\""), "{answer}");
    assert_eq!(ignored(&server), "2");
}

/// The id of a request is in the answer, in the log line of the request, and in the log line of the change that the request made.
#[test]
fn a_request_is_followed_by_its_id() {
    let server = Server::start_with(&[TRUSTED]);
    let id_in = |answer: &str| {
        let id = answer.lines().find_map(|line| line.strip_prefix("x-request-id: "));
        id.unwrap_or_else(|| panic!("{answer}")).trim().to_owned()
    };
    let logged = |id: &str, kind: &str| {
        let line = || {
            let log = server.log();
            let is_it = |line: &&str| line.contains(kind) && line.contains(&format!("\"request\":\"{id}\""));
            log.lines().find(is_it).map(str::to_owned)
        };
        until(kind, &server, || line().is_some());
        line().unwrap()
    };
    let request = "\"event\":\"request\"";
    for (path, headers, expected) in [
        ("/dav/main/", "", "\"code\":\"ID01\""),
        ("/nowhere", "X-Request-Id: of-the-proxy.1\r\n", "\"proxy_request\":\"of-the-proxy.1\""),
        ("/v3", "X-Request-Id: two words\r\n", "\"face\":\"keystone\""),
        ("/whoami", "Forwarded: for=nobody\r\nX-Request-Id: x\r\n", "\"proxy_request\":\"x\""),
    ] {
        let line = logged(&id_in(&say(&server, path, headers)), request);
        assert!(line.contains(expected), "{path}: {line}");
        assert!(!line.contains("two words"), "{line}");
    }
    // Sends a request that makes a change.
    let login = format!("admin@local:{}", server.password);
    let url = format!("http://{}/api2/json/access/users", server.plain);
    let (_, made) = ask(&server, &login, "127.0.0.1", &url, &["--include", "--data", "userid=anna@local"]);
    let id = id_in(&made);
    let change = logged(&id, "\"event\":\"change\"");
    assert!(change.contains("user add anna@local"), "{change}");
    let log = server.cli(&["facts", "log", "--last", "1"]);
    assert_eq!(log[0]["request"], *id);
}

#[test]
fn a_trusted_proxy_has_any_number_of_connections() {
    let limit = ("ENFILADE_LIMITS__CONNECTIONS_PER_ADDRESS", "2");
    let serving = ("ENFILADE_LIMITS__UNAUTHENTICATED_PER_ADDRESS", "1");
    for (environment, expected) in [(&[limit, serving, TRUSTED][..], 8), (&[limit, serving], 2)] {
        let server = Server::start_with(environment);
        let mut held: Vec<TcpStream> = (0..8).map(|_| TcpStream::connect(&server.plain).unwrap()).collect();
        let is_open = |stream: &mut TcpStream| {
            stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
            stream.read(&mut [0]).is_err_and(|why| why.kind() == std::io::ErrorKind::WouldBlock)
        };
        let mut open = || held.iter_mut().filter_map(|stream| is_open(stream).then_some(())).count();
        until("the others are closed", &server, || open() <= expected);
        assert_eq!(open(), expected);
    }
}

#[test]
fn a_redirect_leads_to_the_host_that_the_client_used() {
    let server = Server::start_with(&[TRUSTED, ("ENFILADE_TLS__HTTP_LISTEN", "127.0.0.1:0")]);
    let location = |from: &str, host: &str, proto: &str| {
        let url = format!("http://{}/x?y", server.http);
        let (host, proto) = (format!("X-Forwarded-Host: {host}"), format!("X-Forwarded-Proto: {proto}"));
        let arguments =
            ["--header", &host, "--header", &proto, "--write-out", "%{redirect_url}\n%{http_code}"];
        ask(&server, "", from, &url, &arguments)
    };
    let port = server.address.rsplit_once(':').unwrap().1;
    assert_eq!(
        location("127.0.0.1", "nas.example:80", "http"),
        ("308".into(), "https://nas.example/x?y".into())
    );
    assert_eq!(
        location("127.0.0.4", "nas.example", "http"),
        ("308".into(), format!("https://127.0.0.1:{port}/x?y"))
    );
    let (status, text) = location("127.0.0.1", "nas.example", "https");
    assert!(status == "400" && text.contains("let the proxy connect to `plain_listen`"), "{status} {text}");
}

/// A request over the Unix socket. Returns the status and the body.
fn over_socket(server: &Server, login: &str, path: &str, arguments: &[&str]) -> (String, Vec<u8>) {
    let mut command = command(server, login);
    command
        .args(["--unix-socket", path_of(server), "--http1.1", "--write-out", "\n%{http_code}"])
        .args(arguments)
        .arg(format!("http://nas.example{path}"));
    let output = command.output().unwrap().stdout;
    let at = output.iter().rposition(|byte| *byte == b'\n').unwrap();
    (String::from_utf8(output[at + 1..].to_vec()).unwrap(), output[..at].to_vec())
}

#[test]
fn over_a_unix_socket_a_request_without_a_client_is_refused() {
    let (server, _directory) = on_a_socket(&[("ENFILADE_LIMITS__CONNECTIONS_PER_ADDRESS", "1")]);
    let login = server.add_user("alice", "DatastoreReader");
    for headers in [
        &[][..],
        &["--header", "X-Forwarded-Proto: https"],
        &["--header", "X-Forwarded-For: 192.0.2.7, unknown"],
        &["--header", "Forwarded: for=_hidden"],
    ] {
        let (status, text) = over_socket(&server, &login, "/whoami", headers);
        let text = String::from_utf8(text).unwrap();
        assert!(status == "400" && text.contains("no address of the client"), "{headers:?} {status} {text}");
    }
    until("they are logged", &server, || server.log().matches("\"HT29\"").count() == 4);
    assert_eq!(server.log().matches("\"peer\":\"unix\"").count(), 4, "{}", server.log());
    // Limits for an address do not apply to connections over the Unix socket. The kernel sends large files, also to a slow client.
    let held: Vec<UnixStream> = (0..8).map(|_| UnixStream::connect(path_of(&server)).unwrap()).collect();
    let content: Vec<u8> = (0..24 << 20).map(|n: u32| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(server.data().join("datastores/main/large"), &content).unwrap();
    for slowly in [&[][..], &["--limit-rate", "12M"]] {
        let arguments = [&["--header", "X-Forwarded-For: 192.0.2.7"][..], slowly].concat();
        let (status, got) = over_socket(&server, &login, "/dav/main/large", &arguments);
        assert!(status == "200" && got == content, "{status}, {} bytes", got.len());
    }
    until("they are logged", &server, || peers(&server, "alice@local!test") == ["192.0.2.7"; 2]);
    drop(held);
}

#[test]
fn a_unix_socket_is_replaced_only_if_nobody_listens_on_it() {
    let directory = Scratch::new();
    let (path, socket) = (directory.path().join("http.sock"), socket_in(directory.path()));
    let environment = [(PLAIN_LISTEN, socket.as_str()), UNIX_TRUSTED];
    let mut first = Server::start_with(&environment);
    assert_eq!(first.plain, socket);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
    let refused = |other: &Scratch| {
        let output = serving(&other.path().join("data"), &environment).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && !other.path().join("data/facts").exists(), "{text}");
        text
    };
    let other = Scratch::new();
    let text = refused(&other);
    assert!(
        text.contains(&format!("cannot listen on {socket}")) && text.contains("in use by another process"),
        "{text}"
    );
    assert!(UnixStream::connect(&path).is_ok());
    // A killed server leaves its socket behind.
    first.stop();
    assert!(path.exists());
    let mut second = Server::start_with(&environment);
    assert_eq!(over_socket(&second, "", "/v3", &["--header", "X-Forwarded-For: 192.0.2.7"]).0, "200");
    signal("TERM", second.pid());
    assert!(second.wait().success());
    assert!(!path.exists());
    // If a file of another kind has the path of the socket, the server does not start. The server replaces the socket of a program that ended.
    std::fs::write(&path, "content").unwrap();
    assert!(refused(&other).contains("is not a socket"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "content");
    std::fs::remove_file(&path).unwrap();
    drop(UnixListener::bind(&path).unwrap());
    let (mut child, line) =
        first_line(serving(&other.path().join("data"), &environment).stderr(Stdio::null()));
    assert!(line.contains(&socket), "{line}");
    signal("TERM", child.id());
    assert!(child.wait().unwrap().success());
    wait_until(Duration::from_secs(10), "the file is removed", || !path.exists());
}

#[test]
fn a_unix_socket_without_trust_is_refused_and_trust_without_a_socket() {
    let scratch = Scratch::new();
    let socket = socket_in(scratch.path());
    let data = scratch.path().join("data");
    let long = format!("unix:/{}", "x".repeat(107));
    for (listen, trusted, expected) in [
        (socket.as_str(), "127.0.0.1", "but `http.trusted_proxies` does not have \"unix\""),
        ("127.0.0.1:0", "unix", "but `tls.plain_listen` has no Unix socket"),
        ("unix:http.sock", "unix", "the path is not absolute"),
        (&long, "unix", "has 108 bytes"),
    ] {
        let environment = [(PLAIN_LISTEN, listen), (UNIX_TRUSTED.0, trusted)];
        let check = |arguments: &[&str]| {
            let mut command = Command::new(BINARY);
            command.arg("--data").arg(&data).args(arguments).envs(environment).output().unwrap()
        };
        for output in [check(&["config", "check"]), check(&["serve"])] {
            // `serve` writes its error as a JSON line of the log.
            let text = String::from_utf8(output.stderr).unwrap().replace("\\\"", "\"");
            assert!(!output.status.success() && text.contains(expected), "{listen} {trusted}: {text}");
        }
        assert!(!data.join("facts").exists());
    }
    for variable in ["ENFILADE_TLS__LISTEN", "ENFILADE_TLS__HTTP_LISTEN", "ENFILADE_OPERATIONS__LISTEN"] {
        let output = Command::new(BINARY)
            .arg("--data")
            .arg(&data)
            .args(["config", "check"])
            .env(variable, &socket)
            .output();
        let text = String::from_utf8(output.unwrap().stderr).unwrap();
        assert!(text.contains("a Unix socket is only for `tls.plain_listen`"), "{variable}: {text}");
    }
}
