//! Uploads that the server refuses while the client sends them. The client gets the answer (RFC 9113 §8.1, RFC 9112 §9.6).

use crate::curl::command;
use crate::server::Server;
use crate::wire::World;

#[test]
fn a_refused_upload_keeps_its_status_in_curl() {
    let World { server, .. } = World::new();
    let nobody = String::new();
    // curl up to version 7.88 treats a reset of the stream as a failure if it waits for a window. Therefore the test tries bodies of several lengths.
    for bytes in [1_000, 70_000, 300_000, 2_000_000] {
        for version in ["--http1.1", "--http2"] {
            assert_eq!(upload(&server, &nobody, version, bytes), "401 0", "{version} {bytes}");
            assert_eq!(upload(&server, "admin@local!wrong:x", version, bytes), "401 0", "{version} {bytes}");
        }
    }
}

/// Uploads a file. Returns the status and curl's exit status.
fn upload(server: &Server, login: &str, version: &str, bytes: usize) -> String {
    let file = server.scratch.path().join("upload");
    std::fs::write(&file, vec![0; bytes]).unwrap();
    let mut asked = command(server, login);
    asked.args([
        version,
        "--output",
        "/dev/null",
        "--write-out",
        "%{http_code} %{exitcode}",
        "--upload-file",
    ]);
    let output = asked.arg(&file).arg(server.url("/dav/main/refused")).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}
