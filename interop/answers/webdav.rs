//! Reading requests of WebDAV and of the page for browsers.

use super::client::Ask;
use super::house::CALLERS;
use super::webdav_values::{ACCEPTS, CONDITIONS, DEPTHS, PROPFINDS, RANGES, RIGHTS};
use super::world::{Way, World};

/// Callers with a session. `keystone::come_in` created the sessions.
const BY_SESSION: [&str; 2] = ["member's session", "unscoped session"];

const TARGETS: [&str; 34] = [
    "/dav",
    "/dav/",
    "/dav/main",
    "/dav/main/",
    "/dav/main/a.txt",
    "/dav/main/empty",
    "/dav/main/page.html",
    "/dav/main/with%20space%20%26%20more.txt",
    "/dav/main/%C3%BCmlaut",
    "/dav/main/read.txt",
    "/dav/main/hidden.txt",
    "/dav/main/damaged.txt",
    "/dav/main/absent",
    "/dav/main/absent/x",
    "/dav/main/dir",
    "/dav/main/dir/",
    "/dav/main/dir/one",
    "/dav/main/dir/hidden",
    "/dav/main/dir/sub/",
    "/dav/main/hidden/",
    "/dav/main/hidden/in",
    "/dav/main/hollow/",
    "/dav/main/large.bin",
    "/dav/tank/",
    "/dav/tank/a.txt",
    "/dav/closed/",
    "/dav/closed/a.txt",
    "/dav/readonly/",
    "/dav/readonly/a.txt",
    "/dav/usb/a.txt",
    "/dav/small/",
    "/dav/small/a.txt",
    "/dav/unknown/",
    "/dav/unknown/a.txt",
];

/// Some of the [`TARGETS`], for requests that are sent in many variants.
const FEW: [&str; 7] = [
    "/dav/",
    "/dav/main/",
    "/dav/main/dir/",
    "/dav/main/a.txt",
    "/dav/main/hidden.txt",
    "/dav/main/absent",
    "/dav/closed/",
];

pub(super) fn ask(world: &mut World) {
    for method in ["OPTIONS", "GET", "HEAD", "PROPFIND"] {
        world.group(&format!("webdav {method}"));
        // For these methods fewer callers are enough, because the rights are the same as for GET and
        // PROPFIND.
        let fewer = matches!(method, "OPTIONS" | "HEAD");
        for target in TARGETS {
            let callers = CALLERS.into_iter().chain(BY_SESSION);
            for caller in
                callers.filter(|caller| !fewer || ["carol", "alice", "member's session"].contains(caller))
            {
                let depth = if target.ends_with('/') { "1" } else { "0" };
                let ask = Ask::new(method, target);
                let ask = if method == "PROPFIND" { ask.with("Depth", depth) } else { ask };
                world.ask(caller, &format!("{target} {caller}"), ask);
            }
        }
    }
    over_http2(world);
    propfinds(world);
    conditions(world);
    ranges(world);
    page(world);
}

/// Sends some of the requests again, over HTTP/2.
fn over_http2(world: &mut World) {
    world.group("webdav over HTTP2");
    for method in ["OPTIONS", "GET", "HEAD", "PROPFIND"] {
        for target in TARGETS {
            for caller in ["anonymous", "carol", "alice"] {
                let ask = Ask::new(method, target);
                let ask = if method == "PROPFIND" { ask.with("depth", "1") } else { ask };
                world.ask_by(Way::Http2, caller, &format!("{method} {target} {caller}"), ask);
            }
        }
    }
}

fn propfinds(world: &mut World) {
    world.group("webdav PROPFIND bodies");
    for (name, body) in PROPFINDS {
        for target in FEW {
            let ask = Ask::new("PROPFIND", target).with("Depth", "1").body(body);
            world.ask("alice", &format!("{name} {target}"), ask);
        }
    }
    for (name, body) in PROPFINDS.iter().take(6) {
        for (caller, target) in [
            ("bob", "/dav/main/"),
            ("admin", "/dav/main/"),
            ("own roles", "/dav/main/dir/"),
            ("auditor", "/dav/main/a.txt"),
        ] {
            let ask = Ask::new("PROPFIND", target).with("Depth", "1").body(*body);
            world.ask(caller, &format!("{name} {target} {caller}"), ask);
        }
    }
    world.group("webdav PROPFIND depths");
    for depth in DEPTHS {
        for target in FEW {
            let ask = match depth {
                "" => Ask::new("PROPFIND", target),
                depth => Ask::new("PROPFIND", target).with("Depth", depth),
            };
            world.ask("alice", &format!("`{depth}` {target}"), ask);
        }
    }
    for kind in ["text/plain", "application/xml", "text/xml; charset=iso-8859-1", "application/json"] {
        let ask = Ask::new("PROPFIND", "/dav/main/a.txt").with("Depth", "0").with("Content-Type", kind);
        world.ask("alice", &format!("a body of {kind}"), ask.body(PROPFINDS[1].1));
    }
}

/// Sends conditional requests.
fn conditions(world: &mut World) {
    for (target, name) in [("/dav/main/a.txt", "etag of a.txt"), ("/dav/main/dir/one", "etag of one")] {
        let got = world.quietly("alice", Ask::new("GET", target));
        let etag = got.field("etag").unwrap().to_owned();
        world.know(etag.trim_matches('"'), name);
        world.house.name(name, &etag);
    }
    world.group("webdav conditions on GET");
    for (name, value) in CONDITIONS {
        for method in ["GET", "HEAD"] {
            for target in ["/dav/main/a.txt", "/dav/main/dir/", "/dav/main/absent", "/dav/main/hidden.txt"] {
                world.ask(
                    "alice",
                    &format!("{method} {target} {name}: {value}"),
                    Ask::new(method, target).with(name, value),
                );
            }
        }
    }
    for (name, value) in [
        ("If-None-Match", "{{etag of a.txt}}"),
        ("If-Match", "{{etag of a.txt}}"),
        ("If-Modified-Since", "Sun, 09 Sep 2001 01:46:40 GMT"),
    ] {
        for method in ["PROPFIND", "OPTIONS"] {
            let what = format!("{method} {name}: {value}");
            world.ask(
                "alice",
                &what,
                Ask::new(method, "/dav/main/a.txt").with("Depth", "0").with(name, value),
            );
        }
    }
}

fn ranges(world: &mut World) {
    world.group("webdav Range");
    for value in RANGES {
        for target in [
            "/dav/main/a.txt",
            "/dav/main/empty",
            "/dav/main/large.bin",
            "/dav/main/dir/",
            "/dav/main/hidden.txt",
        ] {
            world.ask("alice", &format!("{target} {value}"), Ask::new("GET", target).with("Range", value));
        }
        world.ask(
            "alice",
            &format!("HEAD {value}"),
            Ask::new("HEAD", "/dav/main/a.txt").with("Range", value),
        );
    }
    for value in [
        "{{etag of a.txt}}",
        "\"other\"",
        "W/{{etag of a.txt}}",
        "Sun, 09 Sep 2001 01:46:40 GMT",
        "Sun, 09 Sep 2001 01:46:41 GMT",
        "x",
    ] {
        let ask = Ask::new("GET", "/dav/main/a.txt").with("Range", "bytes=2-5").with("If-Range", value);
        world.ask("alice", &format!("If-Range: {value}"), ask);
    }
}

fn page(world: &mut World) {
    world.group("page");
    for target in TARGETS {
        for caller in ["anonymous", "carol", "bob", "alice"] {
            world.ask(
                caller,
                &format!("{target} {caller}"),
                Ask::new("GET", target).with("Accept", "text/html"),
            );
        }
    }
    for accept in ACCEPTS {
        world.ask(
            "alice",
            &format!("for {accept}"),
            Ask::new("GET", "/dav/main/dir/").with("Accept", accept),
        );
    }
    for method in ["HEAD", "POST"] {
        world.ask("alice", method, Ask::new(method, "/dav/main/dir/").with("Accept", "text/html"));
    }
    world.group("page why");
    for right in RIGHTS {
        for (caller, target) in [
            ("alice", "/dav/main/a.txt"),
            ("bob", "/dav/main/a.txt"),
            ("admin", "/dav/main/hidden.txt"),
            ("alice", "/dav/main/hidden.txt"),
            ("alice", "/dav/main/read.txt"),
            ("alice", "/dav/main/absent"),
            ("carol", "/dav/main/a.txt"),
            ("alice", "/dav/main/dir/"),
        ] {
            let ask = Ask::new("GET", &format!("{target}?why={right}"));
            world.ask(caller, &format!("{target} {right} {caller}"), ask);
        }
    }
}
