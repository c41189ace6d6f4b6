//! Random questions to the decision listener. The tests are short. `cargo xtask` runs the same tests as campaigns, with more questions.

use crate::decision_listener::{Asker, SUBREQUEST, decide};
use crate::decisions::{HOST, PROXIES, World};
use crate::ext_authz;
use crate::kill_loop::Random;
use crate::server::{WITHOUT_PENALTIES, until};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub(crate) fn number(usual: u64) -> u64 {
    std::env::var("ENFILADE_CAMPAIGN_N").ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

pub(crate) fn seed() -> u64 {
    std::env::var("ENFILADE_CAMPAIGN_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(1)
}

const PATHS: [&str; 9] = ["/", "/a", "/a/b", "/a/b/c", "/b", "/static/x", "/hooks/x", "/admin", "/admin/x"];
const METHODS: [&str; 6] = ["GET", "HEAD", "POST", "DELETE", "PROPFIND", "ACL"];
const PEOPLE: usize = 6;

/// Forward-auth, `ext_authz` over gRPC, AuthZEN and `enfilade decide` give the same answer to the same question.
#[test]
fn every_protocol_gives_the_same_verdict() {
    let n = number(10_000);
    let world = World::new(&[]);
    let mut asker = Asker::connect(&world.socket());
    let mut envoy = ext_authz::Asker::connect(&world.socket());
    let mut random = Random(seed());
    let mut pick = |most: usize| usize::try_from(random.below(most as u64)).unwrap();
    let mut logins = Vec::new();
    for nth in 0..PEOPLE {
        let name = format!("p{nth}@local");
        world.server.cli(&["user", "add", &name]);
        if nth % 2 == 0 {
            world.server.cli(&["group", "member", "add", "staff", &name]);
        }
        logins.push(world.server.add_token(&format!("{name}!t")));
    }
    let roles = ["ApplicationReader", "ApplicationUser", "ApplicationAdmin", "NoAccess", "Admin"];
    let nodes = [
        "/application",
        "/application/wiki",
        "/application/wiki/a",
        "/application/wiki/a/b",
        "/application/wiki/admin",
    ];
    let (mut asked, mut permitted) = (0, 0);
    while asked < n {
        // Some roles change before each round.
        for _ in 0..4 {
            let who = match pick(PEOPLE + 1) {
                PEOPLE => "@staff".to_owned(),
                nth => format!("p{nth}@local"),
            };
            let (node, role) = (nodes[pick(nodes.len())], roles[pick(roles.len())]);
            let verb = if pick(3) == 0 { "remove" } else { "assign" };
            world.server.cli_output(&["role", verb, "--path", node, "--auth-id", &who, role], "");
        }
        let questions: Vec<(usize, &str, &str)> = (0..1_000.min(n))
            .map(|_| (pick(PEOPLE), METHODS[pick(METHODS.len())], PATHS[pick(PATHS.len())]))
            .collect();
        let authid = |nth: usize| format!("p{nth}@local!t");
        let requests = questions
            .iter()
            .map(|(who, method, path)| (authid(*who), format!("{method} https://{HOST}{path}")));
        let decided = decide(&world.server, requests);
        let evaluations: Vec<Value> = questions
            .iter()
            .map(|(who, method, path)| {
                json!({
                    "subject": { "type": "user", "id": authid(*who) }, "action": { "name": method },
                    "resource": { "type": "wiki", "id": path },
                })
            })
            .collect();
        let judged = asker.evaluations(&evaluations);
        for (((who, method, path), decided), judged) in questions.iter().zip(decided).zip(judged) {
            let checked = envoy.permits(&logins[*who], method, HOST, path, "wiki");
            let visited = asker.visit(&logins[*who], method, HOST, path).status == 200;
            assert!(
                decided == visited && judged == visited && checked == visited,
                "p{who} {method} {path}: forward-auth {visited}, ext_authz {checked}, decide {decided}, AuthZEN {judged}"
            );
            permitted += u64::from(visited);
        }
        asked += questions.len() as u64;
    }
    println!("verdicts: {asked} questions by four protocols, {permitted} permitted, 0 differences");
    assert!(permitted > 0 && permitted < asked);
}

/// A token that was deleted before the question is refused, also while many tokens are deleted.
#[test]
fn no_deleted_token_is_accepted() {
    let n = number(10_000);
    let revocations = usize::try_from(n / 100).unwrap().clamp(20, 10_000);
    let world = World::new(&[WITHOUT_PENALTIES]);
    let logins: Vec<String> =
        (0..revocations).map(|nth| world.server.add_token(&format!("writer-x@local!r{nth}"))).collect();
    let gone: Vec<AtomicBool> = (0..revocations).map(|_| AtomicBool::new(false)).collect();
    let (checks, refused, ends) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (world, logins, gone) = (&world, &logins, &gone);
            let (checks, refused, ends) = (&checks, &refused, &ends);
            scope.spawn(move || {
                let mut asker = Asker::connect(&world.socket());
                let mut random = Random(seed() + thread);
                while !ends.load(Ordering::Relaxed) || checks.load(Ordering::Relaxed) < n {
                    let nth = usize::try_from(random.below(logins.len() as u64)).unwrap();
                    let was_gone = gone[nth].load(Ordering::SeqCst);
                    let status = asker.visit(&logins[nth], "GET", HOST, "/page").status;
                    assert!(!was_gone || status == 401, "r{nth} was deleted, and got {status}");
                    assert!(status == 200 || status == 401, "r{nth}: {status}");
                    checks.fetch_add(1, Ordering::Relaxed);
                    refused.fetch_add(u64::from(status == 401), Ordering::Relaxed);
                }
            });
        }
        for (nth, gone) in gone.iter().enumerate() {
            world.server.cli(&["token", "delete", &format!("writer-x@local!r{nth}")]);
            gone.store(true, Ordering::SeqCst);
        }
        ends.store(true, Ordering::Relaxed);
    });
    let (checks, refused) = (checks.into_inner(), refused.into_inner());
    println!("subrequests: {checks} questions, {revocations} tokens deleted, {refused} refused, 0 stale");
    assert!(refused > 0 && refused < checks);
}

/// Parts of odd paths.
const PARTS: [&str; 34] = [
    "/", "a", "admin", "static", ".", "..", "%2e", "%2E%2e", "%2f", "%5c", "\\", ";", ";x=1", "%3b", "//",
    "%00", "%0a", "%", "%zz", "%25", "%252e", "%c0%ae", "%ff", "%C3%A4", "%20", "+", "~", "*", "@", ":", "é",
    "%61", "&", "=",
];

/// The paths that different applications could read from a target. Each of these paths must be the path that the server judged.
fn readings(target: &str) -> Vec<String> {
    let path = target.split('?').next().unwrap();
    let decode = |text: &str| {
        let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
        while let Some((first, after)) = rest.split_first() {
            let hex =
                after.get(..2).and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
            match hex.filter(|_| *first == b'%') {
                Some(byte) => (bytes, rest) = ([bytes, vec![byte]].concat(), &after[2..]),
                None => (bytes, rest) = ([bytes, vec![*first]].concat(), after),
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let resolve = |text: &str| {
        let mut names: Vec<&str> = Vec::new();
        for name in text.split('/') {
            match name {
                "" | "." => {}
                ".." => drop(names.pop()),
                name => names.push(name),
            }
        }
        names.join("/")
    };
    let without_parameters: String =
        path.split('/').map(|name| name.split(';').next().unwrap()).collect::<Vec<_>>().join("/");
    vec![
        resolve(&decode(path)),
        resolve(&decode(path).replace('\\', "/")),
        resolve(&decode(&without_parameters)),
        decode(&resolve(path)),
    ]
}

/// The paths of all permitted questions in the log, in order.
fn permitted(world: &World) -> Vec<String> {
    let of = |line: &str| {
        let event: Value = serde_json::from_str(line).ok()?;
        let is_it = (event["face"] == "decision" || event["face"] == "ext_authz") && event["status"] == 200;
        is_it.then(|| event["path"].as_str().unwrap().to_owned())
    };
    world.server.log().lines().filter_map(of).collect()
}

/// Either every application opens the path that the server judged, or the request is refused. This holds for every proxy.
#[test]
fn the_path_that_was_judged_is_the_path_that_is_opened() {
    let n = number(10_000) / PROXIES.len() as u64;
    let world = World::new(&[]);
    let login = &world.logins["admin"];
    let (mut results, mut seen) = (Vec::new(), 0);
    for kind in PROXIES {
        let proxy = world.proxy_with(kind, false);
        let mut random = Random(seed());
        let mut connection = Connection::open(&proxy.address);
        let mut opened = Vec::new();
        world.application.take();
        for _ in 0..n {
            let mut target = String::from("/");
            for _ in 0..1 + random.below(5) {
                target.push_str(PARTS[usize::try_from(random.below(PARTS.len() as u64)).unwrap()]);
            }
            let status = connection.get(&target, login, &proxy.address);
            let got = world.application.take();
            assert!(
                got.len() <= 1 && (status == Some(200)) == (got.len() == 1),
                "{kind} {target}: {status:?} {got:?}"
            );
            opened.extend(got.into_iter().map(|got| got.target));
        }
        // Each log line of a permitted question contains the path that the server judged. A proxy may ask about another spelling than the client
        // sent.
        let judged = || permitted(&world).split_off(seen);
        until("every question is logged", &world.server, || judged().len() >= opened.len());
        let judged = judged();
        assert_eq!(judged.len(), opened.len(), "{kind}");
        for (target, judged) in opened.iter().zip(&judged) {
            for reading in readings(target) {
                assert_eq!(
                    format!("{HOST}/{reading}"),
                    *judged,
                    "{kind}: {judged} was judged, {target} was opened"
                );
            }
        }
        seen += judged.len();
        assert!(!opened.is_empty(), "{kind}");
        results.push(format!("{kind} {} of {n} opened", opened.len()));
    }
    println!("uris: {}; no other path was opened than the one that was judged", results.join(", "));
}

/// A connection to a proxy without TLS. The connection is opened again after the proxy closes it.
struct Connection(BufReader<TcpStream>);

impl Connection {
    fn open(address: &str) -> Self {
        Connection(BufReader::new(TcpStream::connect(address).unwrap()))
    }

    /// Sends a request, and returns the status. Returns `None` if the proxy closed the connection without an answer.
    fn get(&mut self, target: &str, login: &str, address: &str) -> Option<u16> {
        let port = address.rsplit_once(':').unwrap().1;
        let head = format!(
            "GET {target} HTTP/1.1\r\nHost: {HOST}:{port}\r\nAuthorization: PBSAPIToken={login}\r\n\r\n"
        );
        if self.0.get_mut().write_all(head.as_bytes()).is_err() {
            *self = Connection::open(address);
            self.0.get_mut().write_all(head.as_bytes()).unwrap();
        }
        let answer = self.answer();
        if answer.is_none_or(|(_, closes)| closes) {
            *self = Connection::open(address);
        }
        answer.map(|(status, _)| status)
    }

    /// Reads an answer. Returns its status, and whether the proxy closes the connection.
    fn answer(&mut self) -> Option<(u16, bool)> {
        let mut first = String::new();
        if self.0.read_line(&mut first).ok()? == 0 {
            return None;
        }
        let status = first.split(' ').nth(1)?.parse().ok()?;
        let mut headers = BTreeMap::new();
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.insert(name.to_ascii_lowercase(), value.trim().to_ascii_lowercase());
        }
        let closes =
            headers.get("connection").is_some_and(|value| value == "close") || first.starts_with("HTTP/1.0");
        if headers.get("transfer-encoding").is_some_and(|value| value == "chunked") {
            return Some((status, true));
        }
        match headers.get("content-length") {
            Some(length) => {
                let mut body = vec![0; length.parse().ok()?];
                self.0.read_exact(&mut body).ok()?;
                Some((status, closes))
            }
            None => Some((status, true)),
        }
    }
}

/// A process gets no answer if the configuration does not name its user.
#[test]
fn only_processes_of_the_named_users_may_ask() {
    let world = World::new(&[("ENFILADE_DECISIONS__USERS", "nobody")]);
    let mut stream = std::os::unix::net::UnixStream::connect(world.socket()).unwrap();
    let _ = stream.write_all(b"GET /decide/nginx HTTP/1.1\r\nHost: x\r\n\r\n");
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    assert_eq!(answer, "");
    let is_told = || world.server.log().contains("to the socket for decisions was closed");
    until("the closed connection is logged", &world.server, is_told);
    let mut command = crate::server::serving(
        &world.server.data(),
        &[
            ("ENFILADE_DECISIONS__LISTEN", "unix:/tmp/none.sock"),
            ("ENFILADE_DECISIONS__USERS", "no-such-user"),
        ],
    );
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("no user `no-such-user`"), "{said}");
}

/// A subrequest without a required part is refused, and the answer names the missing part.
#[test]
fn a_subrequest_that_says_too_little_is_refused() {
    let world = World::new(&[]);
    let mut asker = Asker::connect(&world.socket());
    for (at, line) in SUBREQUEST.iter().enumerate() {
        let name = line.split_once(':').unwrap().0.to_ascii_lowercase();
        let without: Vec<&str> = SUBREQUEST.iter().filter(|other| *other != line).copied().collect();
        let twice: Vec<&str> = SUBREQUEST.iter().chain([&SUBREQUEST[at]]).copied().collect();
        for lines in [&without, &twice] {
            for (product, status) in [("nginx", 403), ("haproxy", 403), ("envoy", 403), ("traefik", 403)] {
                let told = asker.send(&format!("GET /decide/{product}"), lines, "");
                assert_eq!(
                    (told.status, told.headers["x-enfilade-code"].as_str()),
                    (status, "HT30"),
                    "{lines:?}"
                );
                assert!(told.body.contains(&name), "{}", told.body);
                assert_eq!(told.headers["cache-control"], "no-store");
            }
        }
    }
    let told = asker.send("GET /decide/nginx", &SUBREQUEST, "");
    let identity = ["remote-user", "remote-groups", "remote-roles"].map(|name| told.headers[name].as_str());
    assert_eq!((told.status, identity, told.headers["cache-control"].as_str()), (200, [""; 3], "no-store"));
    // nginx forwards only the statuses 401 and 403. Therefore the status is also 403 if the server refuses the head of the subrequest.
    for more in ["Content-Type: a\r\nContent-Type: b", "Range: a\r\nRange: b"] {
        let lines: Vec<&str> = SUBREQUEST.iter().copied().chain([more]).collect();
        assert_eq!(asker.send("GET /decide/nginx", &lines, "").status, 403, "{more}");
    }
    // Envoy sends its question with the method and the path of the visitor's request.
    assert_eq!(asker.send("DELETE /decide/envoy/static/a", &SUBREQUEST, "").status, 200);
    assert_eq!(asker.send("DELETE /dav/main/a", &SUBREQUEST, "").status, 404);
    // The path of a visitor, which Envoy appends to this route, cannot lead to another route: the server refuses such a request.
    for path in ["/decide/envoy/../../.enfilade/x", "/decide/envoy/%2e%2e/x", "/decide/envoy//x"] {
        assert_eq!(asker.send(&format!("GET {path}"), &SUBREQUEST, "").status, 400, "{path}");
    }
}
