//! A COPY of a tree is reported as complete only if the copy contains every member that the user may see. The response reveals nothing about hidden
//! members.

use crate::curl::{Answer, curl};
use crate::server::{Server, read_acl, write_acl};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

fn copy(server: &Server, login: &str, from: &str, to: &str) -> Answer {
    let destination = format!("Destination: /dav/main/{to}");
    curl(server, login, &format!("/dav/main/{from}"), &["--request", "COPY", "--header", &destination])
}

#[test]
fn members_whose_names_no_url_means_are_named_and_hidden_ones_are_not() {
    let server = Server::start();
    let bob = server.add_user("bob", "DatastorePowerUser");
    let main = server.data().join("datastores/main");
    std::fs::create_dir_all(main.join("from/inner")).unwrap();
    let names = [&b"back\\slash"[..], b"control\x01", b"\xff\xfe", b".enfilade-notes"];
    for name in names {
        std::fs::write(main.join("from/inner").join(OsStr::from_bytes(name)), "x").unwrap();
    }
    // A temporary file of the server does not count as a member.
    std::fs::write(main.join("from/inner/.enfilade-00000000000000aa"), "x").unwrap();
    std::fs::write(main.join("from/fine"), "x").unwrap();
    std::fs::write(main.join("hidden"), "x").unwrap();
    server.cli(&["acl", "set", "main", "/", "allow authenticated full inherit=files,dirs", "--recursive"]);
    server.cli(&["acl", "set", "main", "/hidden", "allow S-1-5-21-7-7-7-2000 full"]);
    let (shown, hidden) = (read_acl(&main.join("from/fine")), read_acl(&main.join("hidden")));
    for name in names {
        write_acl(&main.join("from/inner").join(OsStr::from_bytes(name)), &shown);
    }
    let at = main.join("from/inner").join(OsStr::from_bytes(b"hidden\xff"));
    std::fs::write(&at, "x").unwrap();
    write_acl(&at, &hidden);
    let answer = copy(&server, &bob, "from", "to");
    let text = answer.text();
    assert_eq!((answer.status, text.matches("<D:response>").count()), (207, 4), "{text}");
    for name in ["back%5Cslash", "control%01", "%FF%FE", ".enfilade-notes"] {
        assert!(text.contains(&format!("<D:href>/dav/main/from/inner/{name}</D:href>")), "{name}: {text}");
    }
    assert!(main.join("to/fine").exists() && main.join("to/inner").is_dir());
}

#[test]
fn how_many_hidden_members_a_tree_has_is_not_told_by_a_limit() {
    let server = Server::start_with(&[
        ("ENFILADE_LIMITS__TREE_ENTRIES", "4"),
        ("ENFILADE_LIMITS__DEEP_LISTING_ENTRIES", "4"),
    ]);
    let bob = server.add_user("bob", "DatastorePowerUser");
    let main = server.data().join("datastores/main");
    std::fs::create_dir(main.join("from")).unwrap();
    for n in 0..12 {
        std::fs::write(main.join(format!("from/{n}")), "x").unwrap();
    }
    server.cli(&["acl", "set", "main", "/", "allow authenticated full inherit=files,dirs", "--recursive"]);
    for n in 3..12 {
        server.cli(&["acl", "set", "main", &format!("/from/{n}"), "allow S-1-5-21-7-7-7-2000 full"]);
    }
    let answer = copy(&server, &bob, "from", "to");
    assert_eq!(answer.status, 201, "{}", answer.text());
    let deep = ["--request", "PROPFIND", "--header", "Depth: infinity"];
    let listed = curl(&server, &bob, "/dav/main/from", &deep).text();
    assert!(!listed.contains(" 507 ") && listed.matches("<D:response>").count() == 4, "{listed}");
    // A hidden member prevents the DELETE of the directory. The limits have no effect on this. The response does not mention a limit.
    let answer = curl(&server, &bob, "/dav/main/from", &["--request", "DELETE"]);
    assert_eq!((answer.status, answer.text().contains(" 507 ")), (207, false), "{}", answer.text());
    assert!(!main.join("from/0").exists() && main.join("from/11").exists());
}
