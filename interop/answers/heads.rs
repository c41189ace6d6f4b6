//! Requests without a credential: public routes, the operations listener, and request heads that the server refuses before it looks for a route.

use super::client::Ask;
use super::world::{Way, World};

const METHODS: [&str; 12] = [
    "GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "PROPFIND", "MKCOL", "LOCK", "TRACE", "BREW",
];

/// Paths that need no credential, and paths without a route.
const PUBLIC: [&str; 15] = [
    "/",
    "/.well-known/enfilade",
    "/page.css",
    "/page.js",
    "/api2/json/ping",
    "/v3",
    "/v3/",
    "/whoami",
    "/dav",
    "/favicon.ico",
    "/v2.0",
    "/v3/nothing",
    "/v3/auth/OS-FEDERATION/saml2",
    "/v3/OS-FEDERATION/identity_providers",
    "*",
];

const OPERATIONS: [&str; 8] =
    ["/livez", "/healthz", "/readyz", "/metrics/", "/", "/livez/", "/livez?x=1", "/v3"];

/// Invalid targets, and targets in an unusual spelling.
const TARGETS: [&str; 30] = [
    "/dav/main/a.txt#fragment",
    "/dav/main/../main/a.txt",
    "/dav/main/./a.txt",
    "/dav//main/a.txt",
    "/dav/main//a.txt",
    "/dav/main/%2e%2e/a.txt",
    "/dav/main/a%2etxt",
    "/dav/main/a%2Ftxt",
    "/dav/main/a%00b",
    "/dav/main/a%zz",
    "/dav/main/a%",
    "/dav/main/a%0ab",
    "/dav/main/%ff",
    "/dav/main/a\\b",
    "/DAV/main/a.txt",
    "/dav/MAIN/a.txt",
    "/dav/ma%69n/a.txt",
    "/dav/main/a.txt/",
    "/dav/main/dir",
    "/dav/main/a.txt?",
    "/dav/main/a.txt?x=y",
    "/dav/main/a.txt;x",
    "/dav/main/:",
    "/dav/main/.enfilade-tmp",
    "/dav/main/ümlaut",
    "/dav/main/%C3%BCmlaut",
    "/dav/main/u%CC%88mlaut",
    "http://house.example/dav/main/a.txt",
    "http://other.example/dav/main/a.txt",
    "ftp://house.example/dav/main/a.txt",
];

/// Header fields for a request for `/dav/main/a.txt` by a caller who may read it.
const FIELDS: [(&str, &str); 28] = [
    ("Host", ""),
    ("Host", "a b"),
    ("Host", "house.example:99999"),
    ("Host", "[::1]"),
    ("Host", "user@house.example"),
    ("Connection", "close"),
    ("Connection", "upgrade"),
    ("Upgrade", "h2c"),
    ("Expect", "100-continue"),
    ("Expect", "200-ok"),
    ("Transfer-Encoding", "gzip"),
    ("Transfer-Encoding", "identity"),
    ("Content-Length", "x"),
    ("Content-Length", "-1"),
    ("Content-Length", "1, 1"),
    ("TE", "trailers"),
    ("Cookie", "a=b"),
    ("Cookie", "PBSAuthCookie=x"),
    ("Accept", "text/html"),
    ("Accept-Encoding", "gzip"),
    ("Accept-Language", "de"),
    ("Origin", "https://evil.example"),
    ("Sec-Fetch-Site", "cross-site"),
    ("X-HTTP-Method-Override", "DELETE"),
    ("X-Forwarded-For", "192.0.2.1"),
    ("Translate", "f"),
    ("X-Subject-Token", "x"),
    ("Cache-Control", "no-cache"),
];

pub(super) fn ask(world: &mut World) {
    world.group("public");
    for path in PUBLIC {
        for method in METHODS {
            world.ask("anonymous", &format!("{method} {path}"), Ask::new(method, path));
        }
    }
    for accept in ["application/json-home", "application/json-home, application/json", "text/html", "*/*"] {
        for path in ["/", "/v3"] {
            world.ask(
                "anonymous",
                &format!("GET {path} for {accept}"),
                Ask::new("GET", path).with("Accept", accept),
            );
        }
    }
    for host in ["house.example:8443", "[::1]:8443", "a_b.example", "x\"y", "127.0.0.1"] {
        for path in ["/", "/v3"] {
            world.ask_by(
                Way::Once,
                "anonymous",
                &format!("GET {path} of {host}"),
                Ask::new("GET", path).with("Host", host),
            );
        }
    }
    world.group("operations");
    for path in OPERATIONS {
        for method in ["GET", "HEAD", "POST", "OPTIONS"] {
            world.ask_by(Way::Operations, "anonymous", &format!("{method} {path}"), Ask::new(method, path));
        }
    }
    world.group("heads");
    for target in TARGETS {
        for caller in ["anonymous", "alice"] {
            for method in ["GET", "PROPFIND"] {
                let what = format!("{caller} {method} {target}");
                world.ask_by(Way::Once, caller, &what, Ask::new(method, target).with("Depth", "0"));
            }
        }
    }
    for (name, value) in FIELDS {
        for (caller, target) in
            [("alice", "/dav/main/a.txt"), ("anonymous", "/.well-known/enfilade"), ("anonymous", "/v3")]
        {
            let what = format!("{caller} {target} {name}: {value}");
            world.ask_by(Way::Once, caller, &what, Ask::new("GET", target).with(name, value));
        }
    }
    let long = "x".repeat(9000);
    let many: Vec<(String, String)> = (0..120).map(|at| (format!("X-{at}"), "x".to_owned())).collect();
    world.ask_by(Way::Once, "alice", "a target of 9000 bytes", Ask::new("GET", &format!("/dav/main/{long}")));
    world.ask_by(
        Way::Once,
        "alice",
        "a field of 9000 bytes",
        Ask::new("GET", "/dav/main/a.txt").with("X-Long", &long),
    );
    let asked = Ask { fields: many, ..Ask::new("GET", "/dav/main/a.txt") };
    world.ask_by(Way::Once, "alice", "120 fields", asked);
    for (what, name) in [
        ("a name of 256 bytes", "n".repeat(256)),
        ("300 names", "n/".repeat(300)),
        ("a path of 5000 bytes", "nnnnnnnnn/".repeat(500)),
    ] {
        world.ask_by(Way::Once, "alice", what, Ask::new("GET", &format!("/dav/main/{name}")));
    }
}

/// Requests the metrics, so that their names, types and meanings are recorded.
pub(super) fn metrics(world: &mut World) {
    world.group("operations");
    world.ask_by(Way::Operations, "anonymous", "GET /metrics", Ask::new("GET", "/metrics"));
}
