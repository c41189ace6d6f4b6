//! The response to COPY, MOVE and DELETE of a tree is right for every member, and reports every failure.

use crate::curl::{Answer, curl};
use crate::server::Server;
use serde_json::Value;
use std::path::Path;

fn transfer(server: &Server, login: &str, method: &str, from: &str, to: &str) -> Answer {
    let destination = format!("Destination: /dav/main/{to}");
    curl(server, login, &format!("/dav/main/{from}"), &["--request", method, "--header", &destination])
}

/// A server on which alice and bob have a role that lets the ACLs decide.
fn server() -> (Server, String, String) {
    let server = Server::start();
    let (alice, bob) =
        (server.add_user("alice", "DatastorePowerUser"), server.add_user("bob", "DatastorePowerUser"));
    server.cli(&["acl", "set", "main", "/", "allow authenticated full inherit=files,dirs"]);
    (server, alice, bob)
}

fn plant(root: &Path, files: &[&str]) {
    for file in files {
        let path = root.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, file).unwrap();
    }
}

fn open_to_all(server: &Server) {
    server.cli(&["acl", "set", "main", "/", "allow authenticated full inherit=files,dirs", "--recursive"]);
}

#[test]
fn a_copy_names_every_member_that_was_not_copied() {
    let (server, _, bob) = server();
    let main = server.data().join("datastores/main");
    plant(&main, &["from/1", "from/deep/2", "from/hidden", "from/sealed"]);
    std::fs::create_dir(main.join("goal")).unwrap();
    open_to_all(&server);
    server.cli(&["acl", "set", "main", "/from/hidden", "allow alice@local full"]);
    server.cli(&["datastore", "set", "main", "--visible-by", "read-attributes"]);
    let shown = "allow bob@local read-named-attributes,read-attributes,read-acl";
    server.cli(&["acl", "set", "main", "/from/sealed", shown]);
    // Bob may create directories in `goal`, and has no right on the new directories.
    server.cli(&[
        "acl",
        "set",
        "main",
        "/goal",
        "allow bob@local full",
        "allow alice@local full inherit=files,dirs",
    ]);
    let answer = transfer(&server, &bob, "COPY", "from", "goal/copy");
    let text = answer.text();
    assert_eq!(answer.status, 207, "{text}");
    for name in ["from/1", "from/deep", "from/sealed"] {
        assert!(
            text.contains(&format!("/dav/main/{name}<")),
            "{name} is not in the copy, and is not named: {text}"
        );
    }
    assert!(!text.contains("hidden") && !text.contains(" 404 "), "{text}");
    // Only hidden members may be missing from the copy without being named in the response.
    let answer = transfer(&server, &bob, "COPY", "from", "whole");
    assert_eq!((answer.status, answer.text().matches("<D:response>").count()), (207, 1), "{}", answer.text());
    assert!(answer.text().contains("/dav/main/from/sealed<") && main.join("whole/deep/2").exists());
    assert!(!main.join("whole/hidden").exists());
}

/// The path of a directory this many levels below the root.
fn deep(names: usize) -> String {
    vec!["d"; names].join("/")
}

#[test]
fn what_would_be_too_deep_to_be_asked_for_is_not_moved_there_and_named_by_a_copy() {
    let (server, alice, _) = server();
    let main = server.data().join("datastores/main");
    plant(&main, &["from/a/b/file"]);
    std::fs::create_dir_all(main.join(deep(62))).unwrap();
    open_to_all(&server);
    let to = format!("{}/moved", deep(61));
    assert_eq!(transfer(&server, &alice, "MOVE", "from", &to).status, 414, "its file would be the 65th name");
    assert!(main.join("from/a/b/file").exists() && !main.join(&to).exists());
    let answer = transfer(&server, &alice, "COPY", "from", &to);
    assert_eq!(answer.status, 207, "{}", answer.text());
    assert!(answer.text().contains("/dav/main/from/a/b/file<"), "{}", answer.text());
    assert!(main.join(&to).join("a/b").is_dir() && !main.join(&to).join("a/b/file").exists());
    let fits = format!("{}/moved", deep(60));
    assert_eq!(transfer(&server, &alice, "MOVE", "from", &fits).status, 201);
    assert_eq!(curl(&server, &alice, &format!("/dav/main/{fits}/a/b/file"), &[]).text(), "from/a/b/file");
    // Names that are too long have the same effect as paths that are too long.
    let long = format!("long/{}", "n".repeat(250));
    plant(&main, &[&format!("wide/{}/{}", "x".repeat(250), "y".repeat(250))]);
    let path = vec!["p".repeat(250); 14].join("/");
    std::fs::create_dir_all(main.join(&path)).unwrap();
    std::fs::create_dir_all(main.join(&long)).unwrap();
    open_to_all(&server);
    let to = format!("{path}/{}", "z".repeat(250));
    assert_eq!(transfer(&server, &alice, "MOVE", "wide", &to).status, 414);
    assert!(main.join("wide").exists() && !main.join(&to).exists());
}

#[test]
fn a_member_that_is_too_deep_already_is_not_left_out_of_a_copy_in_silence() {
    let (server, alice, _) = server();
    let main = server.data().join("datastores/main");
    let top = deep(63);
    plant(&main, &[&format!("{top}/there/too-deep")]);
    open_to_all(&server);
    let answer = transfer(&server, &alice, "COPY", &format!("{top}/there"), "copy");
    assert_eq!(answer.status, 207, "{}", answer.text());
    assert!(answer.text().contains(&format!("{top}/there<")), "{}", answer.text());
}

#[test]
fn a_move_onto_another_name_of_the_same_file_takes_the_old_name_away() {
    let (server, alice, _) = server();
    let main = server.data().join("datastores/main");
    plant(&main, &["one"]);
    std::fs::hard_link(main.join("one"), main.join("two")).unwrap();
    open_to_all(&server);
    assert_eq!(transfer(&server, &alice, "MOVE", "one", "two").status, 204);
    assert!(!main.join("one").exists());
    assert_eq!(std::fs::read_to_string(main.join("two")).unwrap(), "one");
}

#[test]
fn a_copy_that_fails_gives_back_what_it_took_of_the_quota() {
    let (server, alice, _) = server();
    let main = server.data().join("datastores/main");
    plant(&main, &["from/1", "from/2", "from/3"]);
    for name in ["from/1", "from/2", "from/3"] {
        std::fs::write(main.join(name), vec![b'x'; 30_000]).unwrap();
    }
    open_to_all(&server);
    server.cli(&["datastore", "set", "main", "--quota", "150000"]);
    let used = || {
        let body = "<propfind xmlns='DAV:'><prop><quota-used-bytes/></prop></propfind>";
        let asked = ["--request", "PROPFIND", "--header", "Depth: 0", "--data", body];
        let text = curl(&server, &alice, "/dav/main/", &asked).text();
        let (_, rest) = text.split_once("quota-used-bytes>").unwrap();
        rest.split('<').next().unwrap().parse::<u64>().unwrap()
    };
    assert_eq!(used(), 90_000);
    assert_eq!(transfer(&server, &alice, "COPY", "from", "to").status, 507);
    assert_eq!(used(), 90_000);
    assert!(!main.join("to").exists());
    // After all requests the quota equals the bytes on the disk.
    assert_eq!(transfer(&server, &alice, "COPY", "from/1", "one").status, 201);
    assert_eq!(transfer(&server, &alice, "COPY", "from/2", "one").status, 204);
    assert_eq!(transfer(&server, &alice, "MOVE", "one", "from/3").status, 204);
    assert_eq!(used(), 90_000);
    assert_eq!(curl(&server, &alice, "/dav/main/from", &["--request", "DELETE"]).status, 204);
    assert_eq!(used(), 0);
    let shown: &Value = &server.cli(&["datastore", "show", "main"])[0];
    assert_eq!(shown["used"], 0);
}

const LOCK: &str = "<D:lockinfo xmlns:D='DAV:'><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockinfo>";

#[test]
fn a_tree_with_a_locked_member_goes_but_for_that_and_what_it_is_in() {
    let (server, alice, bob) = server();
    let main = server.data().join("datastores/main");
    plant(&main, &["tree/a/locked", "tree/a/1", "tree/2"]);
    open_to_all(&server);
    let locked = curl(&server, &bob, "/dav/main/tree/a/locked", &["--request", "LOCK", "--data", LOCK]);
    assert_eq!(locked.status, 200);
    assert_eq!(transfer(&server, &alice, "MOVE", "tree", "moved").status, 423);
    let answer = curl(&server, &alice, "/dav/main/tree", &["--request", "DELETE"]);
    // The answer names the locked member (RFC 4918 §9.6.2).
    assert_eq!(answer.status, 207, "{}", answer.text());
    assert!(answer.text().contains("/dav/main/tree/a/locked<") && answer.text().contains("423 Locked"));
    assert!(main.join("tree/a/locked").exists() && !main.join("tree/a/1").exists());
    assert!(!main.join("tree/2").exists());
}
