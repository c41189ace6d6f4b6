//! Files with names that cannot be in a URL. Clients do not learn of these files, because some may be hidden. `doctor` reports these files to the
//! operator.

use crate::curl::{PROPFIND_1, curl};
use crate::server::Server;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::process::Command;

#[test]
fn names_that_cannot_be_shown_are_counted_for_the_operator() {
    let server = Server::start();
    let token = server.add_token("admin@local!test");
    let said =
        |server: &Server| String::from_utf8_lossy(&server.cli_output(&["doctor"], "").stdout).into_owned();
    assert!(!said(&server).contains("cannot be shown"));
    let directory = server.data().join("datastores/main/directory");
    std::fs::create_dir(&directory).unwrap();
    for name in [&b"fine"[..], b"back\\slash", b"control\x01", b"\xff\xfe", "\u{fc}".as_bytes()] {
        std::fs::write(directory.join(OsStr::from_bytes(name)), "").unwrap();
    }
    let listed = curl(&server, &token, "/dav/main/directory/", &PROPFIND_1);
    assert_eq!((listed.status, listed.text().matches("<D:response>").count()), (207, 3), "{}", listed.text());
    let metrics = || {
        let url = format!("http://{}/metrics", server.operations);
        String::from_utf8(Command::new("curl").args(["--silent", &url]).output().unwrap().stdout).unwrap()
    };
    assert!(metrics().contains("enfilade_names_not_shown_total 3\n"), "{}", metrics());
    let said = said(&server);
    assert!(said.contains("3 names cannot be shown to clients"), "{said}");
}
