//! A user with rules for multi-factor authentication, on every face of the real binary.

use crate::curl::{PROPFIND_0, curl};
use crate::server::{Server, WITHOUT_PENALTIES};
use aws_lc_rs::hmac;
use serde_json::{Value, json};
use std::time::{Duration, SystemTime};

const SECRET: &[u8] = b"12345678901234567890";
const SECRET_BASE32: &str = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ";

fn seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

/// A passcode that is valid for at least ten more seconds.
pub(crate) fn passcode() -> String {
    while seconds() % 30 >= 20 {
        std::thread::sleep(Duration::from_millis(500));
    }
    let tag = hmac::sign(
        &hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, SECRET),
        &(seconds() / 30).to_be_bytes(),
    );
    let offset = usize::from(tag.as_ref()[19] & 0xf);
    let part = <[u8; 4]>::try_from(&tag.as_ref()[offset..offset + 4]).unwrap();
    format!("{:06}", (u32::from_be_bytes(part) & 0x7fff_ffff) % 1_000_000)
}

/// Returns the status, the value of a header (empty if the header is absent), and the body.
fn sent(server: &Server, header: &str, arguments: &[&str], path: &str, body: &Value) -> (u16, String, Value) {
    let text = body.to_string();
    let answer = curl(server, "", path, &[arguments, &["--data", &text]].concat());
    let begin = format!("{header}: ");
    let value = answer.head.iter().find_map(|line| line.strip_prefix(&begin)).unwrap_or_default();
    (answer.status, value.trim().to_owned(), serde_json::from_slice(&answer.body).unwrap_or_default())
}

fn login(
    server: &Server,
    user: &Value,
    methods: &[&str],
    passcode: &str,
    header: &str,
) -> (u16, String, Value) {
    let with = |name: &str, value: &str| {
        let mut user = user.clone();
        user[name] = value.into();
        json!({ "user": user })
    };
    let identity = json!({
        "methods": methods, "password": with("password", "correct horse"), "totp": with("passcode", passcode),
    });
    let mut auth = json!({ "identity": identity });
    if user["name"] == "admin" {
        auth["scope"] = json!({ "project": { "name": "admin", "domain": { "id": "default" } } });
    }
    sent(server, header, &[], "/v3/auth/tokens", &json!({ "auth": auth }))
}

/// Gives a user the password `correct horse`, and the rule that the user also needs a passcode. Returns the user's id.
pub(crate) fn require_passcode(server: &Server, user: &str) -> String {
    let bootstrap = ["bootstrap", "--password-stdin", "--public-url", &server.url("")];
    assert!(server.cli_output(&bootstrap, "correct horse").status.success());
    let passwd = ["user", "passwd", user, "--password-stdin"];
    assert!(server.cli_output(&passwd, "correct horse").status.success());
    let users = server.cli(&["user", "list"]);
    let id = users.iter().find(|row| row["user"] == user).unwrap()["id"].as_str().unwrap().to_owned();
    let admin = json!({ "name": "admin", "domain": { "id": "default" } });
    let (status, admin, said) = login(server, &admin, &["password"], "", "x-subject-token");
    assert_eq!(status, 201, "{said}");
    let header = format!("X-Auth-Token: {admin}");
    let credential = json!({ "credential": { "type": "totp", "blob": SECRET_BASE32, "user_id": id } });
    let (status, _, said) = sent(server, "", &["--header", &header], "/v3/credentials", &credential);
    assert_eq!(status, 201, "{said}");
    let options =
        json!({ "multi_factor_auth_enabled": true, "multi_factor_auth_rules": [["password", "totp"]] });
    let patch = ["--request", "PATCH", "--header", &header];
    let (status, _, said) =
        sent(server, "", &patch, &format!("/v3/users/{id}"), &json!({ "user": { "options": options } }));
    assert_eq!(status, 200, "{said}");
    id
}

#[test]
fn a_password_alone_is_refused_everywhere_and_a_passcode_counts_once_across_a_restart() {
    let mut server = Server::start_with(&[WITHOUT_PENALTIES]);
    let token = server.add_user("ann", "DatastoreReader");
    let passwd = ["user", "passwd", "ann@local", "--password-stdin"];
    assert!(server.cli_output(&passwd, "correct horse").status.success());
    let basic = |server: &Server| curl(server, "ann@local:correct horse", "/dav/main/", &PROPFIND_0);
    assert_eq!(basic(&server).status, 207);
    let id = require_passcode(&server, "ann@local");

    let refused = basic(&server);
    assert!(refused.status == 401 && refused.text().contains("use an API token"), "{}", refused.text());
    assert_eq!(curl(&server, "ann@local:correct horse", "/dav/main/", &[]).status, 401);
    let form = ["--data-urlencode", "username=ann@local", "--data-urlencode", "password=correct horse"];
    assert_eq!(curl(&server, "", "/api2/json/access/ticket", &form).status, 401);
    assert_eq!(curl(&server, &token, "/dav/main/", &PROPFIND_0).status, 207);
    assert!(server.log().contains("\"ID29\""));
    let output = server.cli_output(&["explain", "ann@local", "main"], "");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("ID29") && said.contains("enfilade token create"), "{said}");

    let ann = json!({ "id": id });
    let passcode = passcode();
    let (status, session, said) = login(&server, &ann, &["password", "totp"], &passcode, "x-subject-token");
    assert_eq!(status, 201, "{said}");
    let own = format!("X-Auth-Token: {session}");
    assert_eq!(curl(&server, "", "/dav/main/", &[&PROPFIND_0[..], &["--header", &own]].concat()).status, 207);
    server.kill_and_restart();
    let (status, receipt, said) =
        login(&server, &ann, &["password", "totp"], &passcode, "openstack-auth-receipt");
    assert_eq!((status, receipt.as_str()), (401, ""), "{said}");
    let (status, receipt, said) = login(&server, &ann, &["password"], "", "openstack-auth-receipt");
    assert!(status == 401 && !receipt.is_empty(), "{said}");
    assert_eq!(said["required_auth_methods"], json!([["password", "totp"]]));
    let own = format!("X-Auth-Token: {receipt}");
    assert_eq!(curl(&server, "", "/dav/main/", &[&PROPFIND_0[..], &["--header", &own]].concat()).status, 401);
}
