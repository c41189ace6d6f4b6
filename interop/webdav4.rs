//! The clients webdav4 and fsspec, which send `Depth: infinity` or no `Depth` for files and for names that do not exist yet.

use crate::proxmox::python_path;
use crate::server::Server;
use std::path::Path;
use std::process::Command;

#[test]
fn webdav4_and_fsspec_hold_in_all_24_checks() {
    let server = Server::start();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop/webdav4_client.py");
    let output = Command::new("python3")
        .arg(script)
        .args([&format!("http://{}/dav/main", server.plain), "admin@local", &server.password])
        .env("PYTHONPATH", python_path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{errors}\n{}", server.log());
    assert!(said.ends_with("24 of 24\n"), "{said}\n{errors}");
}
