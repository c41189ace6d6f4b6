//! The Proxmox API: every call by every caller, with valid and invalid parameters.

use super::client::Ask;
use super::world::{Way, World};

const CALLERS: [&str; 13] = [
    "anonymous",
    "wrong secret",
    "carol",
    "bob",
    "alice",
    "own roles",
    "auditor",
    "admin",
    "ticket",
    "ticket without CSRF token",
    "member's session",
    "unscoped session",
    "credential's session",
];

/// The callers who send changing requests. Callers with the right come last.
const CHANGERS: [&str; 6] = ["anonymous", "bob", "alice", "own roles", "auditor", "admin"];

const READS: [&str; 52] = [
    "ping",
    "version",
    "config/datastore",
    "config/datastore/main",
    "config/datastore/closed",
    "config/datastore/small",
    "config/datastore/usb",
    "config/datastore/none",
    "config/datastore/a%2Fb",
    "config/datastore?x=1",
    "admin/datastore",
    "admin/datastore/readonly/status",
    "admin/datastore/main/status",
    "admin/datastore/closed/status",
    "admin/datastore/usb/status",
    "admin/datastore/none/status",
    "admin/datastore/main/status?verbose=1",
    "admin/datastore/main/active-operations",
    "admin/datastore/main/active-operations?verbose=1",
    "admin/datastore/main/active-operations?wait=x",
    "admin/datastore/none/active-operations",
    "status/datastore-usage",
    "access/users",
    "access/users/alice@corp",
    "access/users/dora@corp",
    "access/users/none@corp",
    "access/users/alice",
    "access/users/alice%40corp",
    "access/users/alice@corp/token",
    "access/users/none@corp/token",
    "access/users/alice@corp/token/t",
    "access/users/alice@corp/token/none",
    "access/users/bob@corp/token/t",
    "access/acl",
    "access/acl?path=/datastore",
    "access/acl?path=/datastore&exact=1",
    "access/acl?path=x",
    "access/acl?unknown=1",
    "access/acl?exact=maybe",
    "access/permissions",
    "access/permissions?path=/datastore/main",
    "access/permissions?path=x",
    "access/permissions?auth-id=bob@corp",
    "access/permissions?auth-id=alice@corp!own",
    "access/permissions?auth-id=alice@corp!own&path=/",
    "access/permissions?auth-id=x",
    "access/permissions?path=/&path=/access",
    "access/roles",
    "access/domains",
    "nodes/localhost/services/proxy/reload",
    "none",
    "",
];

/// A call that changes something: method, path and bodies. The order of the bodies is the order in which a caller with the right would send them.
type Row = (&'static str, &'static str, &'static [&'static str]);

#[rustfmt::skip]
const CHANGES: &[Row] = &[
    ("POST", "access/users", &["", "userid=made@corp", "userid=made@corp", "userid=x", "userid=made-2@none", "userid=made-3@corp&comment=three&enable=0&expire=4102444800", "userid=made-4@corp&expire=x", "userid=made-5@corp&enable=x", "userid=made-6@corp&unknown=1", "userid=made-7@corp&password=", "userid=made-8@corp&comment=%zz", "userid=made-9@corp&userid=made-10@corp"]),
    ("PUT", "access/users/made@corp", &["", "comment=changed", "enable=0", "enable=1&expire=0", "expire=-1", "delete=comment", "delete=x", "digest=x", "unknown=1", "password="]),
    ("PUT", "access/users/none@corp", &["comment=x"]),
    ("POST", "access/users/made@corp/token/a", &["unknown=1", "comment=one&expire=0", "comment=one", "digest=x"]),
    ("POST", "access/users/none@corp/token/a", &[""]),
    ("PUT", "access/users/made@corp/token/a", &["", "comment=two", "enable=0", "regenerate=1", "delete=comment", "delete=x", "expire=x", "digest=x"]),
    ("PUT", "access/users/made@corp/token/none", &["comment=x", "regenerate=1"]),
    ("PUT", "access/acl", &["", "path=/datastore/main&role=DatastoreReader&auth-id=made@corp", "path=/datastore/main&role=DatastoreReader&auth-id=made@corp&propagate=0", "path=/datastore/main&role=DatastoreReader&auth-id=made@corp!a", "path=/datastore/main&role=DatastoreReader&auth-id=made@corp&delete=1", "path=/datastore/main&role=DatastoreReader&auth-id=made@corp&delete=1", "path=/&role=None&auth-id=made@corp", "path=x&role=Admin&auth-id=made@corp", "path=/&role=Admin&auth-id=none@corp", "path=/&role=Audit&group=staff@corp", "path=/&role=Audit&group=staff@corp&delete=1", "path=/&role=Audit&group=none", "path=/&role=Audit&group=staff&auth-id=made@corp", "path=/&role=Audit&auth-id=@staff@corp", "role=Audit&auth-id=made@corp", "path=/&role=Audit&auth-id=made@corp&digest=x"]),
    ("DELETE", "access/users/made@corp/token/none", &[""]),
    ("DELETE", "access/users/made@corp/token/a", &["", ""]),
    ("DELETE", "access/users/made@corp", &["", ""]),
    ("DELETE", "access/users/made-3@corp", &[""]),
    ("POST", "config/datastore", &["", "name=made", "name=made&path=relative", "name=made&path=/etc", "name=a/b&path=/x", "name=made&path={{datastores}}/made&comment=new", "name=made&path={{datastores}}/made", "name=made-2&path={{datastores}}/made", "name=made-3&path={{datastores}}/made/in", "name=made-4&path={{datastores}}/made-4&unknown=1", "name=made-5&path={{datastores}}/made-5&gc-schedule=daily", "name=made-6&path={{datastores}}/made-6&backing-device=x"]),
    ("PUT", "config/datastore/made", &["", "comment=changed", "maintenance-mode=read-only", "maintenance-mode=offline,message=soon", "maintenance-mode=x", "delete=maintenance-mode", "delete=comment", "delete=path", "path=/x", "gc-schedule=weekly&prune-schedule=daily", "digest=x", "unknown=1", "quota=x"]),
    ("PUT", "config/datastore/none", &["comment=x"]),
    ("DELETE", "config/datastore/made?destroy-data=1", &[""]),
    ("DELETE", "config/datastore/made?digest=x", &[""]),
    ("DELETE", "config/datastore/made?unknown=1", &[""]),
    ("DELETE", "config/datastore/made", &["", ""]),
    ("DELETE", "config/datastore/made-5", &[""]),
    ("POST", "nodes/localhost/services/proxy/reload", &[""]),
    ("POST", "version", &[""]),
    ("PATCH", "access/users", &[""]),
    ("DELETE", "access/acl", &[""]),
    ("POST", "none", &[""]),
];

const FORM: &str = "application/x-www-form-urlencoded";

pub(super) fn ask(world: &mut World) {
    let datastores = world.server().data().join("datastores").display().to_string();
    world.house.name("datastores", &datastores);
    world.group("proxmox reads");
    for path in READS {
        for caller in CALLERS {
            world.ask(caller, &format!("{path} {caller}"), Ask::new("GET", &format!("/api2/json/{path}")));
        }
        for method in ["HEAD", "POST"] {
            world.ask("carol", &format!("{method} {path}"), Ask::new(method, &format!("/api2/json/{path}")));
        }
        world.ask_by(
            Way::Http2,
            "admin",
            &format!("HTTP/2 {path}"),
            Ask::new("GET", &format!("/api2/json/{path}")),
        );
    }
}

pub(super) fn change(world: &mut World) {
    for (method, path, bodies) in CHANGES {
        world.group(&format!("proxmox {method}"));
        for caller in CHANGERS {
            for (nth, body) in bodies.iter().enumerate() {
                // Other callers send only the first two bodies, because the server refuses these callers for any body.
                if nth > 1 && caller != "admin" {
                    continue;
                }
                let ask =
                    Ask::new(method, &format!("/api2/json/{path}")).with("Content-Type", FORM).body(*body);
                world.ask(caller, &format!("{path} {nth} {body} {caller}"), ask);
            }
        }
    }
    forms(world);
}

/// Sends the same calls with other forms of parameters, and with the headers that a browser sends for a page of another site.
fn forms(world: &mut World) {
    world.group("proxmox forms");
    for (kind, body) in [
        ("application/json", r#"{"userid":"form-1@corp","comment":"x"}"#),
        ("application/json; charset=utf-8", r#"{"userid":"form-2@corp","enable":true}"#),
        ("application/json", r#"{"userid":["form-3@corp"]}"#),
        ("application/json", r#"{"userid":{}}"#),
        ("application/json", "[]"),
        ("application/json", "x"),
        ("application/json", ""),
        ("text/plain", "userid=form-4@corp"),
        ("multipart/form-data", "x"),
        (FORM, "userid[]=form-5@corp"),
        (FORM, "userid=%ff"),
        (FORM, "&&userid=form-6@corp&"),
    ] {
        let ask = Ask::new("POST", "/api2/json/access/users").with("Content-Type", kind).body(body);
        world.ask("admin", &format!("{kind} {body}"), ask);
    }
    for (name, value) in [
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Site", "same-site"),
        ("Sec-Fetch-Site", "same-origin"),
        ("Sec-Fetch-Site", "none"),
        ("Origin", "https://evil.example"),
        ("Origin", "https://house.example"),
        ("Origin", "null"),
        ("CSRFPreventionToken", "x"),
    ] {
        for (caller, method) in
            [("admin", "POST"), ("ticket", "POST"), ("ticket without CSRF token", "POST"), ("admin", "GET")]
        {
            let ask = Ask::new(method, "/api2/json/access/users").with(name, value);
            world.ask(caller, &format!("{method} {name}: {value} {caller}"), ask);
        }
    }
}
