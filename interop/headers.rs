//! Security headers for browsers.

use crate::curl::{Answer, curl};
use crate::server::Server;

fn has(answer: &Answer, line: &str) -> bool {
    answer.head.iter().any(|one| one == line)
}

#[test]
fn browsers_are_told_to_come_by_tls_alone_where_that_is_set() {
    let policy = "max-age=31536000; includeSubDomains";
    let server = Server::start_with(&[("ENFILADE_TLS__HSTS", policy)]);
    let token = server.add_token("admin@local!test");
    let line = format!("strict-transport-security: {policy}");
    for path in ["/.well-known/enfilade", "/v3", "/dav/main/", "/nowhere", "/whoami"] {
        assert!(has(&curl(&server, "", path, &[]), &line), "{path}");
        assert!(has(&curl(&server, &token, path, &[]), &line), "{path}");
    }
    // The header is not sent without TLS (RFC 6797 §7.2).
    let plain = std::process::Command::new("curl")
        .args(["--silent", "--include", &format!("http://{}/whoami", server.plain)])
        .output()
        .unwrap();
    assert!(!String::from_utf8_lossy(&plain.stdout).contains("strict-transport-security"));
    let server = Server::start();
    let answer = curl(&server, "", "/whoami", &[]);
    assert!(!answer.head.iter().any(|line| line.starts_with("strict-transport-security")));
    for wrong in ["age=1", "max-age=", "max-age=-1", "max-age=1; always", ""] {
        let mut doctor = std::process::Command::new(crate::server::BINARY);
        doctor.arg("--data").arg(server.data()).arg("doctor").env("ENFILADE_TLS__HSTS", wrong);
        let output = doctor.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("expected `max-age=SECONDS`"), "{wrong}: {said}");
    }
}

#[test]
fn json_is_taken_for_nothing_else() {
    let server = Server::start();
    let token = server.add_token("admin@local!test");
    for path in [
        "/.well-known/enfilade",
        "/whoami",
        "/v3",
        "/",
        "/v3/nothing",
        "/api2/json/ping",
        "/api2/json/version",
    ] {
        let answer = curl(&server, &token, path, &[]);
        assert!(has(&answer, "content-type: application/json"), "{path}: {answer:?}");
        assert!(has(&answer, "x-content-type-options: nosniff"), "{path}: {answer:?}");
    }
}
