//! Hidden entries, absent entries and entries with a malformed ACL get the same response, byte for byte (invariant S2). This is tested for every
//! verb, with the entry as source, target, parent or member. The expected responses are listed here independently of the table `NOT_THERE` in
//! `crates/faces/src/respond.rs`.

use crate::curl::curl;
use crate::server::{Server, write_acl};

/// A request (method, path, headers and body), and the expected status. `{f}` stands for the name of a file, `{d}` for the name of a directory, and
/// `{s}` for the name of a state in [`STATES`].
struct Row {
    method: &'static str,
    path: &'static str,
    more: &'static [&'static str],
    status: u16,
}

const fn row(method: &'static str, path: &'static str, more: &'static [&'static str], status: u16) -> Row {
    Row { method, path, more, status }
}

const LOCK: &str = "<D:lockinfo xmlns:D='DAV:'><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockinfo>";
const PATCH: &str =
    "<propertyupdate xmlns='DAV:'><set><prop><x xmlns='urn:x'>1</x></prop></set></propertyupdate>";
const NO_TOKEN: &str = "Lock-Token: <urn:uuid:181d4fae-7d8c-41d0-a765-00a0c91e6bf2>";
const NO_IF: &str = "If: (<urn:uuid:181d4fae-7d8c-41d0-a765-00a0c91e6bf2>)";

/// Requests that create nothing: the server answers in the same way for absent and for hidden entries.
const FOUND: [Row; 33] = [
    row("GET", "{f}", &[], 404),
    row("GET", "{d}", &[], 404),
    row("GET", "{d}/x", &[], 404),
    row("HEAD", "{f}", &["--head"], 404),
    row("PROPFIND", "{f}", &["--header", "Depth: 0"], 404),
    row("PROPFIND", "{d}", &["--header", "Depth: 0"], 404),
    row("PROPFIND", "{d}", &["--header", "Depth: 1"], 404),
    row("PROPFIND", "{d}/x", &["--header", "Depth: 0"], 404),
    row("PROPPATCH", "{f}", &["--data", PATCH], 404),
    row("PROPPATCH", "{d}/x", &["--data", PATCH], 404),
    row("DELETE", "{f}", &[], 404),
    row("DELETE", "{d}", &[], 404),
    row("DELETE", "{d}/x", &[], 404),
    row("UNLOCK", "{f}", &["--header", NO_TOKEN], 409),
    row("UNLOCK", "{d}/x", &["--header", NO_TOKEN], 409),
    row("LOCK", "{f}", &["--header", NO_IF], 412),
    row("DELETE", "free", &["--header", "If: </dav/main/{f}> ([\"x\"])"], 412),
    row("DELETE", "{f}", &["--header", "If-Match: *"], 412),
    row("COPY", "{f}", &["--header", "Destination: /dav/main/made"], 404),
    row("COPY", "{d}", &["--header", "Destination: /dav/main/made"], 404),
    row("COPY", "{d}/x", &["--header", "Destination: /dav/main/made"], 404),
    row("MOVE", "{f}", &["--header", "Destination: /dav/main/made"], 404),
    row("MOVE", "{d}", &["--header", "Destination: /dav/main/made"], 404),
    row("MOVE", "{d}/x", &["--header", "Destination: /dav/main/made"], 404),
    row("MOVE", "{f}", &["--header", "Destination: /dav/main/{d}/x"], 404),
    row("PUT", "{d}/x", &["--data", "x"], 409),
    row("MKCOL", "{d}/x", &[], 409),
    row("LOCK", "{d}/x", &["--data", LOCK], 409),
    row("COPY", "free", &["--header", "Destination: /dav/main/{d}/x"], 409),
    row("MOVE", "free", &["--header", "Destination: /dav/main/{d}/x"], 409),
    row("COPY", "tree", &["--header", "Destination: /dav/main/{d}/x"], 409),
    row("MOVE", "tree", &["--header", "Destination: /dav/main/{d}/x"], 409),
    row("MOVE", "free", &["--header", "Destination: /dav/main/{d}/x", "--header", "Overwrite: F"], 409),
];

/// Requests that create an entry. If a hidden entry has the name, the response is the same as for a user without the right to create entries.
const TAKEN: [Row; 14] = [
    row("PUT", "{f}", &["--data", "x"], 403),
    row("PUT", "{f}", &["--data", "x", "--header", "If-None-Match: *"], 403),
    row("MKCOL", "{f}", &[], 403),
    row("MKCOL", "{d}", &[], 403),
    row("LOCK", "{f}", &["--data", LOCK], 403),
    row("LOCK", "{d}", &["--data", LOCK], 403),
    row("COPY", "free", &["--header", "Destination: /dav/main/{f}"], 403),
    row("COPY", "free", &["--header", "Destination: /dav/main/{f}", "--header", "Overwrite: F"], 403),
    row("MOVE", "free", &["--header", "Destination: /dav/main/{f}"], 403),
    row("MOVE", "free", &["--header", "Destination: /dav/main/{f}", "--header", "Overwrite: F"], 403),
    row("COPY", "tree", &["--header", "Destination: /dav/main/{d}"], 403),
    row("MOVE", "tree", &["--header", "Destination: /dav/main/{d}"], 403),
    row("COPY", "tree", &["--header", "Destination: /dav/main/{f}"], 403),
    row("MOVE", "free", &["--header", "Destination: /dav/main/{d}"], 403),
];

/// Requests about a directory `in-{s}` with a member that the user cannot see. The response does not name the member.
const MEMBER: [Row; 6] = [
    row("MOVE", "in-{s}", &["--header", "Destination: /dav/main/made"], 409),
    row("MOVE", "tree", &["--header", "Destination: /dav/main/in-{s}"], 409),
    row("COPY", "tree", &["--header", "Destination: /dav/main/in-{s}"], 409),
    row("COPY", "free", &["--header", "Destination: /dav/main/in-{s}"], 409),
    row("LOCK", "in-{s}", &["--data", LOCK, "--header", "Depth: infinity"], 403),
    row("DELETE", "in-{s}", &[], 207),
];

/// The reasons why a user cannot see an entry. In this order: the entry is hidden; it is hidden and locked by another user; it has a malformed ACL;
/// it is a symbolic link (never served); it is absent.
const STATES: [&str; 5] = ["hide", "lock", "hurt", "link", "gone"];

fn server() -> (Server, String) {
    let server = Server::start();
    let (alice, bob) =
        (server.add_user("alice", "DatastorePowerUser"), server.add_user("bob", "DatastorePowerUser"));
    let main = server.data().join("datastores/main");
    std::fs::create_dir(main.join("tree")).unwrap();
    std::fs::write(main.join("tree/1"), "x").unwrap();
    std::fs::write(main.join("free"), "x").unwrap();
    for state in &STATES[..3] {
        for directory in ["d", "in"] {
            std::fs::create_dir(main.join(format!("{directory}-{state}"))).unwrap();
        }
        for file in [format!("f-{state}"), format!("d-{state}/x"), format!("in-{state}/member")] {
            std::fs::write(main.join(file), "x").unwrap();
        }
    }
    for (link, to) in [("f-link", "free"), ("d-link", "tree")] {
        std::os::unix::fs::symlink(to, main.join(link)).unwrap();
    }
    server.cli(&["acl", "set", "main", "/", "allow authenticated full inherit=files,dirs", "--recursive"]);
    for state in &STATES[..3] {
        for path in [
            format!("/f-{state}"),
            format!("/d-{state}/x"),
            format!("/d-{state}"),
            format!("/in-{state}/member"),
        ] {
            server.cli(&["acl", "set", "main", &path, "allow alice@local full"]);
            if *state == "lock" {
                let lock = ["--request", "LOCK", "--data", LOCK, "--header", "Depth: 0"];
                assert_eq!(curl(&server, &alice, &format!("/dav/main{path}"), &lock).status, 200, "{path}");
            }
            if *state == "hurt" {
                write_acl(&main.join(&path[1..]), b"nonsense");
            }
        }
    }
    (server, bob)
}

/// Sends a request. Returns the answer without the name of the state.
fn answer(server: &Server, login: &str, row: &Row, state: &str) -> (u16, Vec<String>, String) {
    let named = |text: &str| {
        let of_kind = |kind: &str| format!("{kind}-{state}");
        text.replace("{f}", &of_kind("f")).replace("{d}", &of_kind("d")).replace("{s}", state)
    };
    let more: Vec<String> = row.more.iter().map(|word| named(word)).collect();
    let mut arguments: Vec<&str> = more.iter().map(String::as_str).collect();
    if row.method != "HEAD" {
        arguments.extend(["--request", row.method]);
    }
    let answer = curl(server, login, &format!("/dav/main/{}", named(row.path)), &arguments);
    let text = answer.text().replace(state, "NAME");
    (answer.status, answer.head, text)
}

fn walk(server: &Server, login: &str, rows: &[Row], states: &[&str], status: Option<u16>) {
    for row in rows {
        let first = answer(server, login, row, states[0]);
        let said = format!("{} {} {:?}", row.method, row.path, row.more);
        assert_eq!(first.0, status.unwrap_or(row.status), "{said}: {}", first.2);
        for state in &states[1..] {
            assert_eq!(
                answer(server, login, row, state),
                first,
                "{said}: `{state}` is not as `{}`",
                states[0]
            );
        }
    }
}

#[test]
fn what_is_hidden_absent_damaged_or_hidden_and_locked_is_answered_alike() {
    let (server, bob) = server();
    walk(&server, &bob, &FOUND, &STATES, None);
    walk(&server, &bob, &TAKEN, &STATES[..4], None);
    walk(&server, &bob, &MEMBER, &STATES[..3], None);
    // A copy of a directory omits members that the user cannot see, and the answer does not name these members.
    for state in &STATES[..3] {
        std::fs::create_dir_all(server.data().join(format!("datastores/main/in-{state}/more"))).unwrap();
        server.cli(&["acl", "set", "main", &format!("/in-{state}/more"), "allow bob@local full"]);
    }
    let copy = [row("COPY", "in-{s}", &["--header", "Destination: /dav/main/made"], 201)];
    for state in &STATES[..3] {
        walk(&server, &bob, &copy, &[state], None);
        let made = server.data().join("datastores/main/made");
        assert!(!made.join("member").exists() && made.join("more").is_dir());
        std::fs::remove_dir_all(made).unwrap();
    }
}

#[test]
fn whoever_has_no_role_and_whoever_comes_in_maintenance_learns_nothing() {
    let (server, bob) = server();
    let carol = {
        server.cli(&["user", "add", "carol@local"]);
        server.add_token("carol@local!test")
    };
    // For a user without access, the server does not evaluate the conditions of the request.
    walk(&server, &carol, &FOUND, &STATES, Some(404));
    walk(&server, &carol, &TAKEN, &STATES, Some(404));
    server.cli(&["datastore", "maintenance", "main", "offline"]);
    walk(&server, &bob, &FOUND, &STATES, Some(503));
    walk(&server, &bob, &TAKEN, &STATES, Some(503));
    walk(&server, &carol, &FOUND[..4], &STATES, Some(404));
}
