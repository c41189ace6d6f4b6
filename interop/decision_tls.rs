//! A proxy that asks over TLS. It needs a client certificate that is bound to an API token with the right to
//! ask.

use crate::decision_listener::SUBREQUEST;
use crate::server::{Scratch, Server, WITHOUT_PENALTIES, free_port};
use crate::terms::Authority;
use std::process::Command;

#[test]
fn a_proxy_over_tls_needs_a_certificate_with_the_right_to_ask() {
    let place = Scratch::new();
    let at = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let authority = Authority::new("house");
    std::fs::write(at("ca.pem"), &authority.pem).unwrap();
    let (certificate, key) = authority.give("pdp.example.com", false);
    std::fs::write(at("server.pem"), format!("{certificate}{key}")).unwrap();
    for name in ["asks", "may-not"] {
        let (certificate, key) = authority.give(name, true);
        std::fs::write(at(&format!("{name}.pem")), format!("{certificate}{key}")).unwrap();
        std::fs::write(at(&format!("{name}.crt")), certificate).unwrap();
    }
    std::fs::write(at("list"), format!("{} [verify optional ca-file {}]\n", at("server.pem"), at("ca.pem")))
        .unwrap();
    let port = free_port();
    let server = Server::start_with(&[
        ("ENFILADE_DECISIONS__LISTEN", &format!("127.0.0.1:{port}")),
        ("ENFILADE_TLS__CRT_LIST", &at("list")),
        WITHOUT_PENALTIES,
    ]);
    server.cli(&["application", "create", "wiki", "--host", "wiki.example.com", "--public", "/static"]);
    server.cli(&["user", "add", "proxy@local"]);
    for name in ["asks", "may-not"] {
        server.cli(&[
            "token",
            "create",
            &format!("proxy@local!{name}"),
            "--certificate",
            &at(&format!("{name}.crt")),
        ]);
    }
    let ask = |certificate: Option<&str>, path: &str, more: &[&str]| {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--cacert", &at("ca.pem"), "--write-out", "\n%{http_code}", "--http1.1"]);
        curl.args(["--resolve", &format!("pdp.example.com:{port}:127.0.0.1")]);
        for header in SUBREQUEST {
            curl.args(["--header", header]);
        }
        if let Some(name) = certificate {
            curl.args(["--cert", &at(&format!("{name}.pem"))]);
        }
        let output = curl.args(more).arg(format!("https://pdp.example.com:{port}{path}")).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let (body, status) = said.rsplit_once('\n').unwrap();
        (status.to_owned(), body.to_owned())
    };
    let (status, body) = ask(None, "/decide/traefik", &[]);
    assert!(status == "403" && body.contains("no client certificate"), "{status} {body}");
    let (status, body) = ask(Some("asks"), "/decide/traefik", &[]);
    assert!(status == "403" && body.contains("--path /system/decisions"), "{status} {body}");
    server.cli(&["role", "assign", "--path", "/system/decisions", "--auth-id", "proxy@local", "Audit"]);
    assert_eq!(ask(Some("asks"), "/decide/traefik", &[]).0, "200");
    // A subrequest with two headers of one name is refused. The certificate of the proxy is not accepted as a credential of the visitor: if no path
    // is public, the answer is 401, although the user of the proxy has a role on the application.
    let private = ["--header", "X-Forwarded-Uri: /private"];
    let (status, _) = ask(Some("asks"), "/decide/traefik", &private);
    assert_eq!(status, "403", "two headers of one name");
    server.cli(&["application", "set", "wiki", "--public", "none"]);
    server.cli(&[
        "role",
        "assign",
        "--path",
        "/application/wiki",
        "--auth-id",
        "proxy@local",
        "ApplicationUser",
    ]);
    assert_eq!(ask(Some("asks"), "/decide/traefik", &[]).0, "401");
    // The listener answers an AuthZEN question of an unknown service with 401.
    let question = r#"{"subject":{"type":"user","id":"proxy"},"action":{"name":"read"},"resource":{"type":"wiki","id":"a"}}"#;
    let json = ["--header", "Content-Type: application/json", "--data", question];
    assert_eq!(ask(None, "/access/v1/evaluation", &json).0, "401");
    assert_eq!(
        ask(Some("asks"), "/access/v1/evaluation", &json),
        ("200".into(), r#"{"decision":true}"#.into())
    );
    // Without the token, the proxy has no right to ask.
    server.cli(&["token", "delete", "proxy@local!asks"]);
    assert_eq!(ask(Some("asks"), "/access/v1/evaluation", &json).0, "401");
}
