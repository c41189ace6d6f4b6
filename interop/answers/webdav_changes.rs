//! Changing requests of WebDAV. Each request has a separate directory. The content of this directory after the request is recorded with the answer.

use super::client::{Ask, Got};
use super::webdav_values::{
    CONDITIONS, DESTINATIONS, IFS, LOCKINFO, LOCKINFOS, PROPPATCHES, SHARED, TIMEOUTS,
};
use super::world::World;

const CALLERS: [&str; 7] = ["anonymous", "wrong secret", "carol", "bob", "alice", "admin", "own roles"];

/// The verbs of the requests.
const VERBS: [&str; 11] =
    ["PUT", "MKCOL", "DELETE", "PROPPATCH", "LOCK", "UNLOCK", "COPY", "MOVE", "POST", "PATCH", "REPORT"];

/// Targets in the directory of the request.
const TARGETS: [&str; 11] = ["f", "d", "d/", "new", "new/", "r", "h", "hd", "hd/new", "absent/new", "d/x"];

/// Targets outside of the directory of the request. Only two of these targets can be changed.
const ELSEWHERE: [&str; 12] = [
    "/dav",
    "/dav/",
    "/dav/main/",
    "/dav/tank/new",
    "/dav/small/new",
    "/dav/closed/a.txt",
    "/dav/closed/new",
    "/dav/readonly/a.txt",
    "/dav/readonly/new",
    "/dav/usb/a.txt",
    "/dav/usb/new",
    "/dav/unknown/new",
];

const BODY: &str = "new content";

pub(super) fn ask(world: &mut World) {
    for verb in VERBS {
        world.group(&format!("webdav {verb}"));
        for target in TARGETS {
            for caller in CALLERS.iter().filter(|caller| !is_none(verb) || **caller == "alice") {
                change(
                    world,
                    caller,
                    &format!("{target} {caller}"),
                    usual(verb, &format!("/dav/main/{{{{case}}}}/{target}")),
                );
            }
        }
        for target in ELSEWHERE {
            for caller in ["anonymous", "carol", "bob", "alice", "member's session"] {
                if is_none(verb) && caller != "alice" {
                    continue;
                }
                world.ask(caller, &format!("{target} {caller}"), usual(verb, target).with("Overwrite", "F"));
            }
        }
    }
    puts(world);
    transfers(world);
    locks(world);
    ifs(world);
    trees(world);
}

/// Whether the server does not implement the verb. No caller can use such a verb.
fn is_none(verb: &str) -> bool {
    ["POST", "PATCH", "REPORT"].contains(&verb)
}

/// A request that succeeds if the caller has the right.
fn usual(verb: &str, target: &str) -> Ask {
    let ask = Ask::new(verb, target);
    match verb {
        "PUT" | "POST" | "PATCH" => ask.body(BODY),
        "PROPPATCH" => ask.body(PROPPATCHES[0].1),
        "LOCK" => ask.body(LOCKINFO),
        "UNLOCK" => ask.with("Lock-Token", "<urn:uuid:181d4fae-7d8c-41d0-a765-00a0c91e6bf2>"),
        "COPY" | "MOVE" => ask.with("Destination", "/dav/main/{{case}}/d/new"),
        _ => ask,
    }
}

/// Sends a request in a new directory.
fn change(world: &mut World, caller: &str, what: &str, ask: Ask) -> Got {
    let case = world.house.case();
    world.house.name("case", &case);
    world.ask_and_look(caller, what, ask, &case)
}

const FILE: &str = "/dav/main/{{case}}/f";
const NEW: &str = "/dav/main/{{case}}/new";
const DIRECTORY: &str = "/dav/main/{{case}}/d";

fn puts(world: &mut World) {
    world.group("webdav PUT headers");
    for (name, value) in [
        ("Content-Range", "bytes 0-3/10"),
        ("Content-Type", "text/html"),
        ("Content-Type", "x"),
        ("Content-Encoding", "gzip"),
        ("Content-Language", "de"),
        ("Expect", "100-continue"),
        ("X-OC-Mtime", "1000000001"),
        ("X-OC-Mtime", "x"),
        ("Last-Modified", "x"),
        ("Content-MD5", "XrY7u+Ae7tCTyyK7j1rNww=="),
        ("Content-MD5", "x"),
        ("Digest", "sha-256=x"),
        ("Content-Digest", "sha-256=:x:"),
        ("Repr-Digest", "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:"),
        ("OC-Checksum", "SHA1:x"),
        ("Depth", "0"),
        ("Overwrite", "F"),
        ("Origin", "https://evil.example"),
        ("Origin", "http://house.example"),
        ("Origin", "null"),
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Site", "same-origin"),
        ("Transfer-Encoding", "chunked"),
    ] {
        for target in [FILE, NEW] {
            let body = if name == "Transfer-Encoding" { "3\r\nabc\r\n0\r\n\r\n" } else { BODY };
            change(
                world,
                "alice",
                &format!("{target} {name}: {value}"),
                Ask::new("PUT", target).with(name, value).body(body),
            );
        }
    }
    for (what, length) in [("nothing", 0), ("10 kB", 10_000), ("20 kB", 20_000), ("100 kB", 100_000)] {
        change(world, "alice", what, Ask::new("PUT", NEW).body("x".repeat(length)));
        world.ask(
            "alice",
            &format!("{what} into a quota"),
            Ask::new("PUT", &format!("/dav/small/{length}")).body("x".repeat(length)),
        );
    }
    world.group("webdav conditions on changes");
    for (name, value) in CONDITIONS {
        for verb in ["PUT", "DELETE", "MOVE", "LOCK"] {
            for target in [FILE, NEW] {
                let value = value.replace("{{etag of a.txt}}", "\"*\"");
                change(
                    world,
                    "alice",
                    &format!("{verb} {target} {name}: {value}"),
                    usual(verb, target).with(name, &value),
                );
            }
        }
    }
    world.group("webdav MKCOL and DELETE headers");
    change(world, "alice", "MKCOL with a body", Ask::new("MKCOL", NEW).body("<x/>"));
    for depth in ["0", "1", "infinity", "INFINITY", "x"] {
        for verb in ["DELETE", "MKCOL"] {
            let target = if verb == "DELETE" { DIRECTORY } else { NEW };
            change(
                world,
                "alice",
                &format!("{verb} Depth: {depth}"),
                Ask::new(verb, target).with("Depth", depth),
            );
        }
    }
    world.group("webdav PROPPATCH bodies");
    for (name, body) in PROPPATCHES {
        for target in [FILE, DIRECTORY, "/dav/main/{{case}}/r"] {
            change(world, "alice", &format!("{name} {target}"), Ask::new("PROPPATCH", target).body(body));
            let ask = Ask::new("PROPFIND", target).with("Depth", "0");
            world.ask("alice", &format!("{name} {target}, read"), ask);
        }
    }
}

fn transfers(world: &mut World) {
    for verb in ["COPY", "MOVE"] {
        world.group(&format!("webdav {verb} destinations"));
        for destination in DESTINATIONS {
            for source in [FILE, DIRECTORY] {
                for overwrite in ["", "T", "F"] {
                    let ask = Ask::new(verb, source).with("Destination", destination);
                    let ask = if overwrite.is_empty() { ask } else { ask.with("Overwrite", overwrite) };
                    change(world, "alice", &format!("{source} to `{destination}` {overwrite}"), ask);
                }
            }
        }
        for (name, value) in [
            ("Overwrite", "x"),
            ("Overwrite", "t"),
            ("Depth", "0"),
            ("Depth", "1"),
            ("Depth", "infinity"),
            ("Depth", "x"),
        ] {
            for source in [FILE, DIRECTORY] {
                change(
                    world,
                    "alice",
                    &format!("{source} {name}: {value}"),
                    usual(verb, source).with(name, value),
                );
            }
        }
        for source in [FILE, DIRECTORY] {
            change(world, "alice", &format!("{source} to nowhere"), Ask::new(verb, source));
        }
    }
}

fn locks(world: &mut World) {
    world.group("webdav LOCK bodies");
    for (name, body) in LOCKINFOS {
        for (target, depth) in [(FILE, ""), (DIRECTORY, "infinity"), (DIRECTORY, "0"), (NEW, ""), (FILE, "1")]
        {
            let ask = Ask::new("LOCK", target).body(body);
            let ask = if depth.is_empty() { ask } else { ask.with("Depth", depth) };
            change(world, "alice", &format!("{name} {target} {depth}"), ask);
        }
    }
    for timeout in TIMEOUTS {
        change(world, "alice", &format!("Timeout: {timeout}"), usual("LOCK", FILE).with("Timeout", timeout));
    }
    world.group("webdav LOCK again");
    for (first, depth) in [(LOCKINFO, "0"), (SHARED, "0"), (LOCKINFO, "infinity"), (SHARED, "infinity")] {
        let kind = format!("{} {depth}", if first == SHARED { "shared" } else { "exclusive" });
        for (caller, second) in
            [("alice", LOCKINFO), ("alice", SHARED), ("admin", LOCKINFO), ("admin", SHARED), ("bob", SHARED)]
        {
            for target in
                [DIRECTORY, "/dav/main/{{case}}/d/x", "/dav/main/{{case}}", "/dav/main/{{case}}/d/new"]
            {
                locked(world, DIRECTORY, first, depth);
                let other = if second == SHARED { "shared" } else { "exclusive" };
                let what = format!("{kind}, {other} by {caller} on {target}");
                world.ask(caller, &what, Ask::new("LOCK", target).body(second));
            }
        }
        locked(world, DIRECTORY, first, depth);
        for (caller, target) in [
            ("alice", DIRECTORY),
            ("admin", DIRECTORY),
            ("bob", "/dav/main/{{case}}/d/x"),
            ("alice", "/dav/main/{{case}}"),
        ] {
            let ask =
                Ask::new("PROPFIND", target).with("Depth", "1").body(super::webdav_values::PROPFINDS[3].1);
            world.ask(caller, &format!("{kind}, seen by {caller} on {target}"), ask);
        }
    }
}

/// Creates a new directory in which alice has locked the target.
fn locked(world: &mut World, target: &str, body: &str, depth: &str) {
    let case = world.house.case();
    world.house.name("case", &case);
    world.house.name("place", &format!("/{}", target.trim_start_matches('/').replace("{{case}}", &case)));
    let got = world.quietly("alice", Ask::new("LOCK", target).with("Depth", depth).body(body));
    let token = got.field("lock-token").unwrap_or_else(|| panic!("{target}: {}", got.line));
    let token = token.trim_matches(['<', '>']).to_owned();
    world.know(token.trim_start_matches("urn:uuid:"), "the lock");
    world.house.name("lock", &token);
    let got = world.quietly("alice", Ask::new("HEAD", target));
    world.house.name("etag", got.field("etag").unwrap_or("\"none\""));
}

/// Sends eight verbs with each value of `IFS`, to a locked file and to a locked directory. Then sends every verb, with and without the token of the
/// lock, to targets in a locked directory and to its parent.
fn ifs(world: &mut World) {
    for verb in ["PUT", "DELETE", "PROPPATCH", "MOVE", "COPY", "LOCK", "UNLOCK", "GET"] {
        world.group(&format!("webdav If on {verb}"));
        for (nth, value) in IFS.into_iter().enumerate() {
            for (caller, target) in [("alice", FILE), ("admin", FILE), ("alice", DIRECTORY)] {
                if caller == "admin" && nth >= 8 {
                    continue;
                }
                locked(world, target, LOCKINFO, "0");
                let ask = match verb {
                    "LOCK" => Ask::new("LOCK", target).with("Timeout", "Second-600"),
                    "UNLOCK" => Ask::new("UNLOCK", target).with("Lock-Token", value.trim_matches(['(', ')'])),
                    verb => usual(verb, target),
                };
                let ask = if verb == "UNLOCK" || value.is_empty() { ask } else { ask.with("If", value) };
                let case = world.house.names["case"].clone();
                world.ask_and_look(caller, &format!("{target} `{value}` {caller}"), ask, &case);
            }
        }
    }
    world.group("webdav in a locked directory");
    for depth in ["0", "infinity"] {
        for verb in VERBS {
            for (caller, value) in
                [("alice", ""), ("alice", "<{{place}}> (<{{lock}}>)"), ("admin", "<{{place}}> (<{{lock}}>)")]
            {
                for target in ["/dav/main/{{case}}/d/x", "/dav/main/{{case}}/d/new", "/dav/main/{{case}}"] {
                    locked(world, DIRECTORY, LOCKINFO, depth);
                    let ask = usual(verb, target);
                    let ask = if value.is_empty() { ask } else { ask.with("If", value) };
                    let case = world.house.names["case"].clone();
                    world.ask_and_look(
                        caller,
                        &format!("{verb} {target} {depth} `{value}` {caller}"),
                        ask,
                        &case,
                    );
                }
            }
        }
    }
}

/// Sends requests on whole trees with members that the caller may not see, read or delete.
fn trees(world: &mut World) {
    world.group("webdav trees");
    for verb in ["COPY", "MOVE", "DELETE"] {
        for caller in ["alice", "bob", "admin", "carol"] {
            for target in
                ["/dav/main/{{case}}", "/dav/main/{{case}}/", "/dav/main/{{case}}/d", "/dav/main/{{case}}/hd"]
            {
                let case = world.house.case();
                world.house.name("case", &case);
                let to = format!("w/to-{}", case.trim_start_matches("w/"));
                let ask = Ask::new(verb, target).with("Destination", &format!("/dav/main/{to}"));
                let what = format!("{verb} {target} {caller}");
                world.ask_and_look(caller, &what, ask, &case);
                let ask = Ask::new("PROPFIND", &format!("/dav/main/{to}")).with("Depth", "infinity");
                world.ask_and_look("admin", &format!("{what}, what came of it"), ask, &to);
            }
        }
    }
}
