//! Credentials of every kind and spelling, on every face that accepts credentials.

use super::client::Ask;
use super::house::CALLERS;
use super::keystone::{basic, come_in};
use super::world::World;

/// The methods and paths of the requests with which each credential is tried.
const PLACES: [(&str, &str); 5] = [
    ("GET", "/whoami"),
    ("GET", "/dav/main/a.txt"),
    ("GET", "/api2/json/version"),
    ("GET", "/v3/auth/projects"),
    ("PROPFIND", "/"),
];

/// Callers with a password, a ticket or a session.
const BY_SESSION: [&str; 9] = [
    "password",
    "ticket",
    "ticket without CSRF token",
    "bad session",
    "member's session",
    "unscoped session",
    "system admin's session",
    "credential's session",
    "trustee's session",
];

/// Values of `Authorization`, each with its name. Values that begin with `Basic:` are plain text here, and are encoded before they are sent.
const AUTHORIZATIONS: [(&str, &str); 38] = [
    ("PBSAPIToken", "PBSAPIToken=alice@corp!t:{{secret of alice@corp!t}}"),
    ("PBSAPIToken with a blank", "PBSAPIToken alice@corp!t:{{secret of alice@corp!t}}"),
    ("PDMAPIToken", "PDMAPIToken=alice@corp!t:{{secret of alice@corp!t}}"),
    ("PVEAPIToken", "PVEAPIToken=alice@corp!t={{secret of alice@corp!t}}"),
    ("PBSAPIToken with =", "PBSAPIToken=alice@corp!t={{secret of alice@corp!t}}"),
    ("PBSAPIToken in small letters", "pbsapitoken=alice@corp!t:{{secret of alice@corp!t}}"),
    ("PBSAPIToken of a user", "PBSAPIToken=alice@corp:the password of alice"),
    ("PBSAPIToken of no realm", "PBSAPIToken=alice!t:x"),
    ("PBSAPIToken without a secret", "PBSAPIToken=alice@corp!t:"),
    ("PBSAPIToken without a colon", "PBSAPIToken=alice@corp!t"),
    ("PBSAPIToken of another's secret", "PBSAPIToken=bob@corp!t:{{secret of alice@corp!t}}"),
    ("PBSAPIToken of an unknown token", "PBSAPIToken=alice@corp!none:x"),
    ("PBSAPIToken of an unknown user", "PBSAPIToken=none@corp!t:x"),
    ("PBSAPIToken of an unknown realm", "PBSAPIToken=alice@none!t:x"),
    ("PBSAPIToken with a bad escape", "PBSAPIToken=alice@corp!t:%zz"),
    ("PBSAPIToken with a NUL", "PBSAPIToken=alice@corp!t:%00"),
    ("Basic token", "Basic:alice@corp!t:{{secret of alice@corp!t}}"),
    ("Basic password", "Basic:alice@corp:the password of alice"),
    ("Basic wrong password", "Basic:alice@corp:wrong"),
    ("Basic of a user without a password", "Basic:nopass@corp:x"),
    ("Basic of a disabled user", "Basic:dora@corp:the password of dora"),
    ("Basic of a disabled domain", "Basic:eve@closed:the password of eve"),
    ("Basic of an unknown user", "Basic:none@corp:x"),
    ("Basic of no realm", "Basic:alice:x"),
    ("Basic without a colon", "Basic:alice@corp"),
    ("Basic without a secret", "Basic:alice@corp:"),
    ("Basic not base64", "Basic %%%"),
    ("Basic without padding", "Basic YWxpY2VAY29ycDp4"),
    ("Basic alone", "Basic"),
    ("Bearer", "Bearer {{token of member's session}}"),
    ("bearer", "bearer {{token of member's session}}"),
    ("Bearer garbage", "Bearer x"),
    ("Bearer alone", "Bearer"),
    ("Bearer with =", "Bearer={{token of member's session}}"),
    ("Negotiate", "Negotiate x"),
    ("Digest", "Digest username=\"alice@corp\""),
    ("nothing", ""),
    ("AWS4", "AWS4-HMAC-SHA256 Credential=x"),
];

/// Header fields other than `Authorization`. Each field is sent in two requests: alone, and together with a valid `Authorization`.
const OTHERS: [(&str, &str); 16] = [
    ("X-Auth-Token", "{{token of member's session}}"),
    ("X-Auth-Token", "{{token of guest's session}}"),
    ("X-Auth-Token", ""),
    ("X-Auth-Token", "x"),
    (
        "X-Auth-Token",
        "gAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA==",
    ),
    ("X-Subject-Token", "{{token of member's session}}"),
    ("X-Service-Token", "{{token of service's session}}"),
    ("Cookie", "PBSAuthCookie={{ticket}}"),
    ("Cookie", "PBSAuthCookie=\"{{ticket}}\""),
    ("Cookie", "__Host-PBSAuthCookie={{ticket}}"),
    ("Cookie", "PDMAuthCookie={{ticket}}; a=b"),
    ("Cookie", "PBSAuthCookie={{ticket}}; PBSAuthCookie={{ticket}}"),
    ("Cookie", "PBSAuthCookie=PBS:alice@corp:x"),
    ("Cookie", "PBSAuthCookie=x"),
    ("Cookie", "PVEAuthCookie={{ticket}}"),
    ("Cookie", "a=b"),
];

const FORM: &str = "application/x-www-form-urlencoded";

/// Bodies of requests for a login ticket.
const TICKETS: [(&str, &str); 16] = [
    (FORM, "username=alice@corp&password=the+password+of+alice"),
    (FORM, "username=alice%40corp&password=the%20password%20of%20alice"),
    (FORM, "username=alice@corp&password=wrong"),
    (FORM, "username=alice@corp"),
    (FORM, "password=x"),
    (FORM, ""),
    (FORM, "username=alice&password=x"),
    (FORM, "username=none@corp&password=x"),
    (FORM, "username=dora@corp&password=the+password+of+dora"),
    (FORM, "username=alice@corp&password="),
    (FORM, "username=admin@Default&password={{ticket}}"),
    (FORM, "username=alice@corp&password={{ticket}}"),
    (FORM, "username=a&username=b&password=x"),
    ("application/json", r#"{"username":"alice@corp","password":"the password of alice"}"#),
    ("application/json", "[]"),
    ("application/json", "x"),
];

pub(super) fn ask(world: &mut World) {
    come_in(world);
    world.group("credentials");
    for caller in CALLERS.into_iter().chain(BY_SESSION) {
        for (method, path) in PLACES {
            let ask = Ask::new(method, path).with("Depth", "0");
            world.ask(caller, &format!("{path} {caller}"), ask);
        }
        world.ask(
            caller,
            &format!("DELETE /api2/json/access/users/none@corp {caller}"),
            Ask::new("DELETE", "/api2/json/access/users/none@corp"),
        );
    }
    world.group("credentials Authorization");
    for (what, value) in AUTHORIZATIONS {
        // Names in `{{…}}` must be replaced before the value is encoded in base64.
        let value = match value.strip_prefix("Basic:") {
            Some(text) => basic(&world.house.filled(Ask::new("", text)).target),
            None => value.to_owned(),
        };
        for (method, path) in PLACES {
            let ask = Ask::new(method, path).with("Depth", "0").with("Authorization", &value);
            world.ask("anonymous", &format!("{path} {what}"), ask);
        }
    }
    world.group("credentials with other fields");
    for (name, value) in OTHERS {
        for caller in ["anonymous", "alice"] {
            for (method, path) in PLACES {
                let ask = Ask::new(method, path).with("Depth", "0").with(name, value);
                world.ask(caller, &format!("{path} {name}: {value} {caller}"), ask);
            }
        }
    }
    world.group("credentials tickets");
    for (kind, body) in TICKETS {
        let ask = Ask::new("POST", "/api2/json/access/ticket").with("Content-Type", kind).body(body);
        world.ask("anonymous", body, ask);
    }
    for method in ["GET", "PUT", "DELETE"] {
        world.ask("anonymous", method, Ask::new(method, "/api2/json/access/ticket"));
    }
}
