//! An application that serves the files of a datastore, and the signed tokens by which applications identify a visitor.

use crate::curl::curl;
use crate::decision_campaigns::{number, seed};
use crate::decision_listener::{Asker, Told, decide};
use crate::decisions::World;
use crate::ext_authz;
use crate::kill_loop::Random;
use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

const SHELF: &str = "shelf.example.com";
const PEOPLE: usize = 5;
const FILES: [&str; 7] =
    ["/one.txt", "/two.txt", "/a/one.txt", "/a/two.txt", "/a/b/one.txt", "/a/b/two.txt", "/gone.txt"];

/// Sends a subrequest about the application `shelf`, and returns the answer.
fn visit(asker: &mut Asker, login: &str, method: &str, target: &str) -> Told {
    let lines = [
        format!("X-Forwarded-Method: {method}"),
        "X-Forwarded-Proto: https".to_owned(),
        format!("X-Forwarded-Host: {SHELF}"),
        format!("X-Forwarded-Uri: {target}"),
        "X-Forwarded-For: 192.0.2.7".to_owned(),
        "X-Enfilade-Application: shelf".to_owned(),
        format!("Authorization: PBSAPIToken={login}"),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    asker.send("GET /decide/caddy", &lines, "")
}

/// A client that reads files over WebDAV.
struct Reader(BufReader<TcpStream>);

impl Reader {
    fn get(&mut self, login: &str, path: &str) -> u16 {
        let head = format!(
            "GET /dav/main{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: PBSAPIToken={login}\r\n\r\n"
        );
        self.0.get_mut().write_all(head.as_bytes()).unwrap();
        let (mut first, mut length) = (String::new(), 0);
        self.0.read_line(&mut first).unwrap();
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).unwrap();
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().unwrap();
            }
        }
        self.0.read_exact(&mut vec![0; length]).unwrap();
        first.split(' ').nth(1).unwrap_or_else(|| panic!("{first:?}")).parse().unwrap()
    }
}

/// A world with the application, some files, and people with tokens.
fn shelf() -> (World, Vec<String>) {
    let world = World::new(&[]);
    let content = world.server.data().join("datastores/main");
    std::fs::create_dir_all(content.join("a/b")).unwrap();
    for file in &FILES[..FILES.len() - 1] {
        std::fs::write(content.join(&file[1..]), "content").unwrap();
    }
    world.server.cli(&["application", "create", "shelf", "--host", SHELF, "--datastore", "main"]);
    let logins = (0..PEOPLE).map(|nth| {
        let name = format!("p{nth}@local");
        world.server.cli(&["user", "add", &name]);
        if nth % 2 == 0 {
            world.server.cli(&["group", "member", "add", "staff", &name]);
        }
        world.server.add_token(&format!("{name}!t"))
    });
    let logins = logins.collect();
    (world, logins)
}

/// Questions whether a file may be read. WebDAV, forward-auth, `ext_authz` over gRPC, AuthZEN, `decide` and `explain` give the same answer, while
/// roles and ACLs change.
#[test]
fn every_protocol_gives_the_same_verdict_about_files() {
    let n = number(10_000);
    let (world, logins) = shelf();
    let mut random = Random(seed());
    let mut pick = |most: usize| usize::try_from(random.below(most as u64)).unwrap();
    let roles = ["DatastoreReader", "DatastoreAdmin", "DatastoreBackup", "NoAccess", "Audit"];
    let (mut asked, mut permitted) = (0, 0);
    while asked < n {
        for _ in 0..4 {
            let who = match pick(PEOPLE + 1) {
                PEOPLE => "@staff".to_owned(),
                nth => format!("p{nth}@local"),
            };
            let role = roles[pick(roles.len())];
            let verb = if pick(3) == 0 { "remove" } else { "assign" };
            let node = ["/datastore", "/datastore/main"][pick(2)];
            world.server.cli_output(&["role", verb, "--path", node, "--auth-id", &who, role], "");
            let entry =
                format!("{} {who} {}", ["allow", "deny"][pick(2)], ["read", "write", "full"][pick(3)]);
            let path = ["/", "/a", "/a/b", "/one.txt", "/a/one.txt", "/a/b/two.txt"][pick(6)];
            let kept = "allow p0@local full";
            world.server.cli_output(&["acl", "set", "main", path, &entry, kept], "");
        }
        let questions: Vec<(usize, &str)> =
            (0..1_000.min(n)).map(|_| (pick(PEOPLE), FILES[pick(FILES.len())])).collect();
        let authid = |nth: usize| format!("p{nth}@local!t");
        let requests =
            questions.iter().map(|(who, path)| (authid(*who), format!("GET https://{SHELF}{path}")));
        let decided = decide(&world.server, requests);
        // The server closes a connection that was idle for 60 seconds. On a slow machine, the commands take longer.
        let mut asker = Asker::connect(&world.socket());
        let mut envoy = ext_authz::Asker::connect(&world.socket());
        let mut reader = Reader(BufReader::new(TcpStream::connect(&world.server.plain).unwrap()));
        let evaluations: Vec<Value> = questions
            .iter()
            .map(|(who, path)| {
                json!({
                    "subject": { "type": "user", "id": authid(*who) }, "action": { "name": "read" },
                    "resource": { "type": "shelf", "id": path },
                })
            })
            .collect();
        let judged = asker.evaluations(&evaluations);
        for (at, ((who, path), (decided, judged))) in
            questions.iter().zip(decided.into_iter().zip(judged)).enumerate()
        {
            let checked = envoy.permits(&logins[*who], "GET", SHELF, path, "shelf");
            let read = reader.get(&logins[*who], path) == 200;
            let visited = visit(&mut asker, &logins[*who], "GET", path).status == 200;
            let what = format!(
                "p{who} {path}: WebDAV {read}, forward-auth {visited}, ext_authz {checked}, decide {decided}, AuthZEN {judged}"
            );
            assert!(visited == read && checked == read && decided == read && judged == read, "{what}");
            if at % 250 == 0 {
                let url = format!("GET https://{SHELF}{path}");
                let explained = world.server.cli_output(&["explain", &authid(*who), "--url", &url], "");
                let said = String::from_utf8_lossy(&explained.stdout);
                assert_eq!(explained.status.success(), read, "{what}: {said}");
            }
            permitted += u64::from(read);
        }
        asked += questions.len() as u64;
    }
    println!("files: {asked} questions by WebDAV and four protocols, {permitted} permitted, 0 differences");
    assert!(permitted > 0 && permitted < asked);
}

#[test]
fn an_application_of_files_may_only_be_read_and_hides_what_a_user_may_not_see() {
    let (world, logins) = shelf();
    let mut asker = Asker::connect(&world.socket());
    let login = &logins[1];
    world.server.cli(&[
        "role",
        "assign",
        "--path",
        "/datastore/main",
        "--auth-id",
        "p1@local",
        "DatastoreAdmin",
    ]);
    world.server.cli(&[
        "role",
        "assign",
        "--path",
        "/application/shelf",
        "--auth-id",
        "p1@local",
        "ApplicationAdmin",
    ]);
    for (method, target, expected) in [
        ("GET", "/one.txt", 200),
        ("HEAD", "/one.txt", 200),
        ("GET", "/", 405),
        ("GET", "/a/", 405),
        ("OPTIONS", "/one.txt", 403),
        ("PUT", "/one.txt", 403),
        ("DELETE", "/one.txt", 403),
        ("PROPFIND", "/", 403),
        ("GET", "/gone.txt", 404),
    ] {
        assert_eq!(visit(&mut asker, login, method, target).status, expected, "{method} {target}");
    }
    // Without a role in the datastore, present and absent files look the same. A role on the application has no effect on this.
    world.server.cli(&[
        "role",
        "remove",
        "--path",
        "/datastore/main",
        "--auth-id",
        "p1@local",
        "DatastoreAdmin",
    ]);
    for target in ["/one.txt", "/gone.txt", "/a"] {
        assert_eq!(visit(&mut asker, login, "GET", target).status, 404, "{target}");
    }
    let made = world.server.cli_output(
        &["application", "create", "none", "--host", "x.example.com", "--datastore", "none-such"],
        "",
    );
    let said = String::from_utf8_lossy(&made.stderr).into_owned();
    assert!(!made.status.success() && said.contains("no datastore `none-such`"), "{said}");
    for more in [["--open", "/a"], ["--public", "/a"], ["--pass-preflight", "yes"]] {
        let set = ["application", "set", "shelf", more[0], more[1]];
        let output = world.server.cli_output(&set, "");
        assert!(!output.status.success(), "{more:?}");
    }
    world.server.cli(&["application", "set", "shelf", "--datastore", "none"]);
    assert_eq!(
        visit(&mut asker, login, "PUT", "/one.txt").status,
        200,
        "the roles of the application count again"
    );
}

/// nginx serves the files of a datastore with the printed configuration. It delivers the files that the user may read, and no others.
#[test]
fn nginx_delivers_the_files_that_a_user_may_read() {
    let (world, logins) = shelf();
    let content = world.server.data().join("datastores/main");
    std::fs::write(content.join("a/one.txt"), "the first").unwrap();
    std::fs::write(content.join("a/index.html"), "an index").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", content.join("a/link.txt")).unwrap();
    let proxy = world.proxy_for("nginx", "shelf", &[], false);
    let get = |login: &str, path: &str, more: &[&str]| {
        let mut curl = std::process::Command::new("curl");
        curl.args([
            "--silent",
            "--path-as-is",
            "--write-out",
            "\n%{http_code}",
            "--header",
            &format!("Host: {SHELF}"),
        ]);
        if !login.is_empty() {
            curl.args(["--user", login]);
        }
        let output = curl.args(more).arg(format!("http://{}{path}", proxy.address)).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let (body, status) = said.rsplit_once('\n').unwrap();
        (status.parse::<u16>().unwrap(), body.to_owned())
    };
    let role = |verb: &str| {
        world.server.cli(&[
            "role",
            verb,
            "--path",
            "/datastore/main",
            "--auth-id",
            "p1@local",
            "DatastoreReader",
        ]);
    };
    let delivered = (200, "the first".to_owned());
    assert_eq!(get("", "/a/one.txt", &[]).0, 401);
    assert_eq!(
        get(&logins[1], "/a/one.txt", &[]).0,
        403,
        "without a role the file looks absent, which is 403 for nginx"
    );
    role("assign");
    assert_eq!(get(&logins[1], "/a/one.txt", &[]), delivered);
    assert_eq!(get(&logins[1], "/a/one.txt", &["--range", "4-8"]), (206, "first".to_owned()));
    for path in
        ["/a/", "/a", "/a/link.txt", "/gone.txt", "/a/../a/one.txt", "/a//one.txt", "/../../etc/passwd"]
    {
        let (status, body) = get(&logins[1], path, &[]);
        assert!(
            status >= 400 && !body.contains("the first") && !body.contains("root:"),
            "{path}: {status} {body}"
        );
    }
    for method in ["PUT", "DELETE", "POST"] {
        assert_eq!(get(&logins[1], "/a/one.txt", &["--request", method]).0, 403, "{method}");
    }
    world.server.cli(&["acl", "set", "main", "/a/one.txt", "allow p0@local full"]);
    assert_eq!(get(&logins[1], "/a/one.txt", &[]).0, 403, "the ACL does not name the user");
    assert_eq!(get(&logins[1], "/a/two.txt", &[]).0, 200);
    role("remove");
    assert_eq!(get(&logins[1], "/a/two.txt", &[]).0, 403);
}

#[test]
fn an_application_can_check_who_the_visitor_is() {
    let world = World::new(&[]);
    let mut asker = Asker::connect(&world.socket());
    let login = world.logins["writer"].clone();
    let keys = || -> Value {
        serde_json::from_slice(&curl(&world.server, "", "/.well-known/jwks.json", &[]).body).unwrap()
    };
    let told = asker.visit(&login, "GET", "wiki.example.com", "/page");
    assert_eq!(
        (told.status, told.headers["remote-jwt"].as_str()),
        (200, ""),
        "the server sends a signed token only after `--send-jwt yes`"
    );
    world.server.cli(&["application", "set", "wiki", "--send-jwt", "yes"]);
    let mut token = || asker.visit(&login, "GET", "wiki.example.com", "/page").headers["remote-jwt"].clone();
    let decoded =
        |part: &str| -> Value { serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap() };
    let checks = |token: &str, keys: &Value| {
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let kid = &decoded(token.split('.').next().unwrap())["kid"];
        let key = keys["keys"].as_array().unwrap().iter().find(|key| key["kid"] == *kid);
        key.is_some_and(|key| {
            let x = URL_SAFE_NO_PAD.decode(key["x"].as_str().unwrap()).unwrap();
            let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
            UnparsedPublicKey::new(&ED25519, x).verify(signed.as_bytes(), &signature).is_ok()
        })
    };
    let (first, published) = (token(), keys());
    assert!(checks(&first, &published), "{first} {published}");
    let claims = decoded(first.split('.').nth(1).unwrap());
    assert_eq!((&claims["sub"], &claims["aud"]), (&json!("writer-x@local!t"), &json!("wiki")));
    assert_eq!((&claims["groups"], &claims["roles"]), (&json!(["staff@local"]), &json!(["ApplicationUser"])));
    assert_eq!(claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap(), 60);
    // The keys of signed tokens rotate together with the keys of sessions. The next key is published before the server signs with it.
    world.server.cli(&["keys", "rotate"]);
    let signed_anew = || {
        let next = token();
        (decoded(next.split('.').next().unwrap())["kid"] != decoded(first.split('.').next().unwrap())["kid"])
            .then_some(next)
    };
    let mut signed_anew = signed_anew;
    let mut next = None;
    crate::server::until("the server uses the next key", &world.server, || {
        next = signed_anew();
        next.is_some()
    });
    let next = next.unwrap();
    assert!(checks(&next, &published) && checks(&first, &keys()), "{next} {published}");
    // No user gets a token for a path that everybody may read.
    assert_eq!(asker.visit(&login, "GET", "wiki.example.com", "/static/a").headers["remote-jwt"], "");
}
