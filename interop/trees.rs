//! Commands for ACLs of whole trees. They take effect in the running server at once.

use crate::curl::{PROPFIND_1, curl};
use crate::server::{Server, write_acl};
use serde_json::Value;

/// The names that a user sees in a directory.
fn seen(server: &Server, login: &str, path: &str) -> Vec<String> {
    let answer = curl(server, login, path, &PROPFIND_1);
    let text = answer.text();
    let hrefs = text.split("<D:href>").skip(1).filter_map(|part| part.split('<').next());
    let names =
        hrefs.map(|href| href.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned());
    let mut names: Vec<String> = names.skip(1).collect();
    names.sort();
    names
}

#[test]
fn an_acl_is_handed_on_to_a_tree_saved_and_put_back() {
    let server = Server::start();
    let (alice, bob) =
        (server.add_user("alice", "DatastorePowerUser"), server.add_user("bob", "DatastorePowerUser"));
    let root = server.data().join("datastores/main/tree");
    for n in 0..30 {
        std::fs::create_dir_all(root.join(format!("d{}/e{n}", n % 3))).unwrap();
        std::fs::write(root.join(format!("d{}/e{n}/file", n % 3)), "x").unwrap();
        std::fs::write(root.join(format!("f{n}")), "x").unwrap();
    }
    let path = "/dav/main/tree/";
    server.cli(&[
        "acl",
        "set",
        "main",
        "/tree",
        "allow authenticated full inherit=files,dirs",
        "--recursive",
    ]);
    assert_eq!(seen(&server, &alice, path).len(), 33);
    // One file gets an explicit entry, and one directory is protected.
    server.cli(&["acl", "set", "main", "/tree/f1", "allow bob@local full"]);
    server.cli(&[
        "acl",
        "set",
        "main",
        "/tree/d2",
        "protected",
        "allow authenticated full inherit=files,dirs",
    ]);
    let before = server.cli(&["acl", "save", "main", "/tree"]);
    assert_eq!(before.len(), 1 + 3 + 30 + 30 + 30);
    let args = |more: &[&'static str]| {
        let line =
            ["acl", "set", "main", "/tree", "allow alice@local full inherit=files,dirs", "--recursive"];
        [line.as_slice(), more].concat()
    };
    let tried = &server.cli(&args(&["--dry-run"]))[0];
    // All objects change, except the protected directory, and the ten directories and ten files below it.
    assert_eq!(
        (&tried["changed"], &tried["protected"]),
        (&Value::from(94 - 21), &serde_json::json!(["tree/d2"]))
    );
    assert_eq!(seen(&server, &bob, path).len(), 33, "it was only tried");
    assert_eq!(server.cli(&["acl", "save", "main", "/tree"]), before);
    assert_eq!(server.cli(&args(&[]))[0]["changed"], 94 - 21);
    let again = &server.cli(&args(&[]))[0];
    assert_eq!((&again["changed"], &again["same"]), (&Value::from(0), &Value::from(94 - 21)));
    assert_eq!(seen(&server, &alice, path).len(), 33 - 1 + 1);
    assert_eq!(seen(&server, &bob, path), Vec::<String>::new(), "the directory itself is not bob's any more");
    assert_eq!(curl(&server, &bob, "/dav/main/tree/f1", &[]).text(), "x", "its own entry stays");
    assert_eq!(curl(&server, &bob, "/dav/main/tree/d2/e2/file", &[]).text(), "x", "it is protected");
    assert_eq!(curl(&server, &bob, "/dav/main/tree/d1/e1/file", &[]).status, 404);
    assert_eq!(curl(&server, &alice, "/dav/main/tree/d1/e1/file", &[]).text(), "x");
    // Restores all ACLs from the saved lines.
    let saved: String = before.iter().map(|row| format!("{row}\n")).collect();
    let output = server.cli_output(&["acl", "restore", "main"], &saved);
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&said["changed"], &said["same"]), (&Value::from(94 - 21), &Value::from(21)), "{said}");
    assert_eq!(server.cli(&["acl", "save", "main", "/tree"]), before);
    assert_eq!(seen(&server, &bob, path).len(), 33);
    // The command names missing paths, and reports malformed lines with their number.
    std::fs::remove_file(root.join("f3")).unwrap();
    let output = server.cli_output(&["acl", "restore", "main"], &saved);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success()
            && errors.contains("tree/f3")
            && errors.contains("1 ACLs could not be restored"),
        "{errors}"
    );
    let output = server.cli_output(&["acl", "restore", "main"], "\nnonsense\n");
    assert!(String::from_utf8_lossy(&output.stderr).contains("line 2 is not a line of `acl save`"));
}

#[test]
fn sddl_goes_in_and_out() {
    let server = Server::start();
    let text = "D:P(A;OICI;0x1200a9;;;AU)(D;;0x10000;;;WD)";
    server.cli(&["acl", "set", "main", "/", "--sddl", text]);
    let row = &server.cli(&["acl", "get", "main", "/", "--sddl"])[0];
    assert!(row["sddl"].as_str().unwrap().ends_with(text), "{row}");
    let lines: Vec<&str> = row["acl"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(lines.contains(&"protected") && lines.contains(&"deny everyone delete"), "{lines:?}");
    let output = server.cli_output(&["acl", "set", "main", "/", "--sddl", "D:(A;;FA;;;DA)"], "");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && errors.contains("`DA` is not a known principal"), "{errors}");
}

#[test]
fn a_review_says_who_may_do_what_and_what_changed() {
    let server = Server::start();
    let alice = server.add_user("alice", "DatastorePowerUser");
    server.add_user("bob", "DatastoreReader");
    let root = server.data().join("datastores/main/tree");
    std::fs::create_dir_all(root.join("b/c")).unwrap();
    for name in ["z", "a", "b/c/deep"] {
        std::fs::write(root.join(name), "x").unwrap();
    }
    server.cli(&["acl", "set", "main", "/", "allow authenticated full inherit=files,dirs", "--recursive"]);
    server.cli(&["acl", "set", "main", "/tree/a", "allow alice@local full"]);
    let review = |more: &[&str]| server.cli(&[&["acl", "review", "main", "/tree"], more].concat());
    let rows = review(&["--auth-id", "bob@local"]);
    let paths: Vec<&str> = rows.iter().map(|row| row["path"].as_str().unwrap()).collect();
    assert_eq!(
        paths,
        ["/tree", "/tree/b", "/tree/z", "/tree/b/c", "/tree/b/c/deep"],
        "the review of bob does not list /tree/a, which only alice may read"
    );
    assert!(rows.iter().all(|row| row["who"] == "bob@local" && !row["rights"].to_string().contains("write")));
    assert_eq!(review(&["--auth-id", "bob@local", "--right", "write"]), Vec::<Value>::new());
    assert_eq!(review(&["--auth-id", "alice@local", "--right", "write"]).len(), 6);
    // The review lists all users, including the administrator, who has a role that overrides ACLs.
    assert_eq!(review(&[]).len(), 6 + 6 + 5);
    // Users who cannot log in have no rights, and do not end the review.
    server.cli(&["domain", "add", "shut"]);
    server.cli(&["user", "add", "carl@shut"]);
    server.cli(&["role", "assign", "--path", "/", "--auth-id", "carl@shut", "Admin"]);
    assert_eq!(review(&[]).len(), 6 + 6 + 5 + 6);
    server.cli(&["domain", "disable", "shut"]);
    assert_eq!(review(&[]).len(), 6 + 6 + 5);
    let of_carl = server.cli_output(&["acl", "review", "main", "/tree", "--auth-id", "carl@shut"], "");
    assert!(!of_carl.status.success());
    // The review agrees with the listing of the server.
    assert_eq!(seen(&server, &alice, "/dav/main/tree/"), ["a", "b", "z"]);
    let keep = |name: &str| {
        let file = server.scratch.path().join(name);
        let rows = review(&["--auth-id", "bob@local", "--auth-id", "alice@local"]);
        std::fs::write(&file, rows.iter().map(|row| format!("{row}\n")).collect::<String>()).unwrap();
        file
    };
    let before = keep("before");
    server.cli(&["acl", "set", "main", "/tree/a", "allow bob@local full"]);
    server.cli(&["acl", "set", "main", "/tree/z", "allow alice@local read", "allow bob@local read"]);
    let after = keep("after");
    let changes = server.cli(&["acl", "changes", before.to_str().unwrap(), after.to_str().unwrap()]);
    let said: Vec<_> = changes
        .iter()
        .map(|row| {
            (
                row["path"].as_str().unwrap(),
                row["who"].as_str().unwrap(),
                row["before"].is_null(),
                row["after"].is_null(),
            )
        })
        .collect();
    assert_eq!(
        said,
        [
            ("/tree/a", "alice@local", false, true),
            ("/tree/a", "bob@local", true, false),
            ("/tree/z", "alice@local", false, false),
        ]
    );
    let csv = server.cli_output(&["acl", "review", "main", "/tree/a", "--csv", "--auth-id", "bob@local"], "");
    let csv = String::from_utf8(csv.stdout).unwrap();
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines[0] == "path,kind,who,rights" && lines[1].starts_with("/tree/a,file,bob@local,"), "{csv}");
    // A malformed ACL is reported, and grants nothing.
    write_acl(&root.join("z"), b"nonsense");
    let output = server.cli_output(&["acl", "review", "main", "/tree", "--auth-id", "alice@local"], "");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && errors.contains("/tree/z") && errors.contains("1 ACLs"), "{errors}");
}

#[test]
fn each_datastore_says_what_may_be_seen_and_whether_the_way_counts() {
    let server = Server::start();
    let alice = server.add_user("alice", "DatastorePowerUser");
    let root = server.data().join("datastores/main");
    std::fs::create_dir_all(root.join("outer/inner")).unwrap();
    std::fs::write(root.join("outer/inner/file"), "x").unwrap();
    for (path, acl) in [
        // This ACL grants names and sizes, but no content.
        ("/outer", "allow alice@local read-attributes,read-acl"),
        ("/outer/inner", "allow alice@local read"),
        ("/outer/inner/file", "allow alice@local read"),
    ] {
        server.cli(&["acl", "set", "main", path, acl]);
    }
    let status = |path: &str| curl(&server, &alice, path, &[]).status;
    assert_eq!(seen(&server, &alice, "/dav/main/"), Vec::<String>::new());
    assert_eq!(status("/dav/main/outer/inner/file"), 200, "as on Windows, the folders above do not count");
    server.cli(&["datastore", "set", "main", "--visible-by", "read-attributes"]);
    assert_eq!(seen(&server, &alice, "/dav/main/"), ["outer"]);
    assert_eq!(curl(&server, &alice, "/dav/main/outer/", &PROPFIND_1).status, 403);
    server.cli(&["datastore", "set", "main", "--check-traverse", "yes"]);
    // The response does not show whether the entry exists.
    assert_eq!((status("/dav/main/outer/inner/file"), status("/dav/main/outer/gone")), (403, 403));
    let put = |path: &str| curl(&server, &alice, path, &["-X", "PUT", "-d", "x"]).status;
    assert_eq!((put("/dav/main/outer/inner/file"), put("/dav/main/outer/gone/x")), (403, 403));
    server.cli(&["acl", "set", "main", "/outer", "allow alice@local traverse"]);
    assert_eq!(status("/dav/main/outer/inner/file"), 200);
    assert_eq!(seen(&server, &alice, "/dav/main/"), Vec::<String>::new(), "`traverse` alone shows nothing");
    let refused = server.cli_output(&["datastore", "set", "main", "--visible-by", "none"], "");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("read-attributes"));
    server.cli(&["datastore", "set", "main", "--check-traverse", "no", "--visible-by", "0x20089"]);
    server.cli(&["acl", "set", "main", "/outer", "allow alice@local none"]);
    assert_eq!(status("/dav/main/outer/inner/file"), 200);
}

#[test]
fn sids_from_elsewhere_speak_of_whom_the_table_says() {
    let server = Server::start();
    let alice = server.add_user("alice", "DatastorePowerUser");
    let root = server.data().join("datastores/main");
    std::fs::write(root.join("users"), "x").unwrap();
    std::fs::write(root.join("groups"), "x").unwrap();
    server.cli(&["group", "add", "staff"]);
    server.cli(&["group", "member", "add", "staff", "alice@local"]);
    let (of_user, of_group) = ("S-1-5-21-7-7-7-1000", "S-1-5-21-7-7-7-513");
    server.cli(&["acl", "set", "main", "/users", &format!("allow {of_user} read")]);
    server.cli(&["acl", "set", "main", "/groups", &format!("allow {of_group} read")]);
    let names = || seen(&server, &alice, "/dav/main/");
    assert_eq!(names(), Vec::<String>::new(), "nobody is called that");
    server.cli(&["acl", "map", of_user, "alice@local"]);
    assert_eq!(names(), ["users"]);
    server.cli(&["acl", "map", of_group, "@staff@local"]);
    assert_eq!(names(), ["groups", "users"]);
    let acl = &server.cli(&["acl", "get", "main", "/users"])[0]["acl"];
    assert_eq!(acl[0], "allow alice@local read");
    assert_eq!(server.cli(&["acl", "mapped"]).len(), 2);
    for (sid, why) in [(of_user, "alice@local"), ("S-1-1-0", "S-1-5-21"), ("S-1-22-1-0", "S-1-5-21")] {
        let refused = server.cli_output(&["acl", "map", sid, "alice@local"], "");
        assert!(String::from_utf8_lossy(&refused.stderr).contains(why), "{refused:?}");
    }
    server.cli(&["acl", "unmap", of_user]);
    assert_eq!(names(), ["groups"]);
}

#[test]
fn each_datastore_says_what_becomes_of_acls_that_are_moved_and_copied() {
    let server = Server::start();
    let alice = server.add_user("alice", "DatastorePowerUser");
    let root = server.data().join("datastores/main");
    let all = "allow authenticated full inherit=files,dirs";
    server.cli(&["acl", "set", "main", "/", all]);
    let acl = |path: &str| server.cli(&["acl", "get", "main", path])[0]["acl"].to_string();
    let place = |method: &str, from: &str, to: &str| {
        let destination = format!("Destination: /dav/main/{to}");
        let asked = ["--request", method, "--header", &destination];
        assert_eq!(
            curl(&server, &alice, &format!("/dav/main/{from}"), &asked).status,
            201,
            "{method} {from} {to}"
        );
    };
    let plant = |name: &str| {
        std::fs::create_dir_all(root.join(name).join("below")).unwrap();
        std::fs::write(root.join(name).join("below/file"), "x").unwrap();
        server.cli(&[
            "acl",
            "set",
            "main",
            &format!("/{name}"),
            "allow authenticated full inherit=files,dirs",
            "--recursive",
        ]);
        let own = ["deny everyone write-owner", "allow authenticated full inherit=files,dirs"];
        server.cli(&["acl", "set", "main", &format!("/{name}/below"), own[0], own[1]]);
    };
    std::fs::create_dir(root.join("goal")).unwrap();
    server.cli(&[
        "acl",
        "set",
        "main",
        "/goal",
        "allow authenticated full inherit=files,dirs",
        "allow everyone read inherit=files",
    ]);
    plant("a");
    place("MOVE", "a", "goal/a");
    assert!(!acl("/goal/a/below/file").contains("everyone") && acl("/goal/a/below").contains("write-owner"));
    place("COPY", "goal/a", "goal/b");
    assert!(acl("/goal/b/below/file").contains("everyone") && !acl("/goal/b/below").contains("write-owner"));
    server.cli(&["datastore", "set", "main", "--moves", "inherit", "--copies", "keep"]);
    plant("c");
    place("MOVE", "c", "goal/c");
    assert!(
        acl("/goal/c/below/file").contains("everyone")
            && acl("/goal/c/below").contains("deny everyone write-owner")
    );
    plant("d");
    place("COPY", "d", "goal/d");
    assert!(!acl("/goal/d/below/file").contains("everyone") && acl("/goal/d/below").contains("write-owner"));
    assert_eq!(acl("/goal/d/below"), acl("/d/below"));
}
