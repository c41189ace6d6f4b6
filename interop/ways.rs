//! Access to a shared folder. A user has a role on one folder deep in a datastore, and sees the folders above this folder. In each of these folders,
//! the user sees only the next name of the path to the shared folder.

use crate::curl::{Answer, PROPFIND_0, PROPFIND_1, curl};
use crate::server::Server;

const HTML: [&str; 2] = ["--header", "Accept: text/html"];
const LOCK: &str = "<D:lockinfo xmlns:D='DAV:'><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockinfo>";
const PATCH: &str =
    "<propertyupdate xmlns='DAV:'><set><prop><x xmlns='urn:x'>kept</x></prop></set></propertyupdate>";

/// The paths in a multistatus answer.
fn paths(answer: &Answer) -> Vec<String> {
    let text = answer.text();
    let parts = text.split("<D:response><D:href>").skip(1);
    parts.map(|part| part.split_once("</D:href>").unwrap().0.to_owned()).collect()
}

/// The element of a multistatus answer about a path.
fn element(answer: &Answer, path: &str) -> String {
    let (text, begin) = (answer.text(), format!("<D:response><D:href>{path}</D:href>"));
    let Some((_, part)) = text.split_once(&begin) else { panic!("no {path} in {text}") };
    part.split_once("</D:response>").unwrap().0.to_owned()
}

/// A server with these files in `main`, and a user `bob` with a role on these paths. Returns bob's login.
fn shared(server: &Server, files: &[&str], role: &str, paths: &[&str]) -> String {
    let main = server.data().join("datastores/main");
    for file in files {
        let file = main.join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, "12345").unwrap();
    }
    server.cli(&["acl", "set", "main", "/", "allow authenticated full inherit=files,dirs", "--recursive"]);
    server.cli(&["user", "add", "bob@local"]);
    for path in paths {
        let path = format!("/datastore/main/{path}");
        server.cli(&["role", "assign", "--path", &path, "--auth-id", "bob@local", role]);
    }
    server.add_token("bob@local!test")
}

#[test]
fn the_way_to_a_shared_folder_is_shown_and_nothing_else() {
    let server = Server::start();
    let main = server.data().join("datastores/main");
    for directory in ["a/b c", "a/other", "hidden"] {
        std::fs::create_dir_all(main.join(directory)).unwrap();
    }
    for file in ["a/b c/x.txt", "a/plain.txt", "top.txt", "a/one.txt"] {
        std::fs::write(main.join(file), "x").unwrap();
    }
    server.cli(&["acl", "set", "main", "/", "allow authenticated full inherit=files,dirs", "--recursive"]);
    server.cli(&["user", "add", "bob@local"]);
    // Bob does not see the last two entries: `gone/too` does not exist, and the ACL of `hidden` does not let him see it.
    for path in ["a/b c", "a/one.txt", "gone/too", "hidden"] {
        let path = format!("/datastore/main/{path}");
        server.cli(&["role", "assign", "--path", &path, "--auth-id", "bob@local", "DatastoreReader"]);
    }
    server.cli(&["acl", "set", "main", "/hidden", "allow admin@local full"]);
    let bob = server.add_token("bob@local!test");
    for (path, expected) in [
        ("/dav/", &["/dav/", "/dav/main/"][..]),
        ("/dav/main/", &["/dav/main/", "/dav/main/a/"]),
        ("/dav/main", &["/dav/main/", "/dav/main/a/"]),
        ("/dav/main/a/", &["/dav/main/a/", "/dav/main/a/b%20c/", "/dav/main/a/one.txt"]),
        ("/dav/main/a/b%20c/", &["/dav/main/a/b%20c/", "/dav/main/a/b%20c/x.txt"]),
    ] {
        let answer = curl(&server, &bob, path, &PROPFIND_1);
        assert_eq!(
            (answer.status, paths(&answer)),
            (207, expected.iter().map(ToString::to_string).collect()),
            "{path}"
        );
        let itself = curl(&server, &bob, path, &PROPFIND_0);
        assert_eq!((itself.status, paths(&itself)), (207, vec![expected[0].to_owned()]), "{path}");
    }
    let page = |path: &str| curl(&server, &bob, path, &HTML);
    let top = page("/dav/main/").text();
    assert!(top.contains("<a href=\"/dav/main/a/\">a</a>"), "{top}");
    assert!([">hidden<", "gone", "top.txt", "id=\"upload\""].iter().all(|what| !top.contains(what)), "{top}");
    let inner = page("/dav/main/a/").text();
    assert!(inner.contains("<a href=\"/dav/main/a/b%20c/\">b c</a>"), "{inner}");
    assert!(inner.contains("<a href=\"/dav/main/a/one.txt\" download>one.txt</a>"), "{inner}");
    assert!(!inner.contains("plain.txt") && !inner.contains("other"), "{inner}");
    assert!(page("/dav/main/a/b%20c/").text().contains("x.txt"));
    // Names that are not on the path look absent, whether they exist or not.
    let absent = curl(&server, &bob, "/dav/main/nowhere/", &PROPFIND_1);
    assert_eq!(absent.status, 404);
    for path in ["/dav/main/a/other/", "/dav/main/hidden/", "/dav/main/gone/", "/dav/main/top.txt"] {
        assert_eq!(curl(&server, &bob, path, &PROPFIND_1), absent, "{path}");
    }
    // An explanation says that a listing shows the path to the shared folder.
    let way = "in a listing of this directory, the user or token sees only the names that lead to paths on which it has a role";
    let explained = |path: &str| {
        let said = server.cli_output(&["explain", "bob@local!test", "main", path], "").stdout;
        String::from_utf8(said).unwrap()
    };
    let top = explained("/");
    assert!(top.contains(way) && top.contains("/a/b c"), "{top}");
    assert!(!explained("/a/b c").contains(way) && !explained("/nowhere").contains(way));
    // The folders on the path can only be listed.
    for (method, path) in [
        ("GET", "/dav/main/"),
        ("MKCOL", "/dav/main/new"),
        ("PUT", "/dav/main/a/new.txt"),
        ("DELETE", "/dav/main/a/"),
        ("LOCK", "/dav/main/a/"),
    ] {
        let status = curl(&server, &bob, path, &["--request", method]).status;
        assert!((400..500).contains(&status), "{method} {path}: {status}");
    }
    assert!(main.join("a/plain.txt").exists() && !main.join("new").exists());
    // With a role on the whole datastore, bob sees all entries. Without a role, he does not see the datastore.
    let role = |verb: &str, path: &str, role: &str| {
        server.cli(&["role", verb, "--path", path, "--auth-id", "bob@local", role]);
    };
    role("assign", "/datastore/main", "DatastoreReader");
    assert!(paths(&curl(&server, &bob, "/dav/main/", &PROPFIND_1)).contains(&"/dav/main/top.txt".to_owned()));
    role("remove", "/datastore/main", "DatastoreReader");
    for path in ["a/b c", "a/one.txt"] {
        role("remove", &format!("/datastore/main/{path}"), "DatastoreReader");
    }
    assert_eq!(curl(&server, &bob, "/dav/main/", &PROPFIND_1).status, 404);
}

#[test]
fn what_a_way_leads_to_is_described_as_in_every_listing() {
    let server = Server::start();
    let bob = shared(&server, &["a/dir/x", "a/file.txt"], "DatastoreReader", &["a/dir", "a/file.txt"]);
    let admin = server.add_token("admin@local!test");
    for path in ["/dav/main/a/dir/", "/dav/main/a/file.txt"] {
        let patched = curl(&server, &admin, path, &["--request", "PROPPATCH", "--data", PATCH]);
        assert_eq!(patched.status, 207, "{patched:?}");
    }
    let lock = ["--request", "LOCK", "--data", LOCK, "--header", "Depth: 0"];
    assert_eq!(curl(&server, &admin, "/dav/main/a/", &lock).status, 200);
    let named = "<propfind xmlns='DAV:'><prop><getcontentlength/><getlastmodified/><getetag/><creationdate/><resourcetype/>\
                 <current-user-privilege-set/><acl/><x xmlns='urn:x'/></prop></propfind>";
    for asked in ["", named] {
        let ask = |path: &str, depth: &str| {
            curl(&server, &bob, path, &["--request", "PROPFIND", "--header", depth, "--data", asked])
        };
        let listed = ask("/dav/main/a/", "Depth: 1");
        for path in ["/dav/main/a/dir/", "/dav/main/a/file.txt"] {
            let itself = element(&ask(path, "Depth: 0"), path);
            assert!(itself.contains("kept"), "{itself}");
            assert_eq!(element(&listed, path), itself, "{path}");
        }
        assert!(
            element(&listed, "/dav/main/a/file.txt").contains("<D:getcontentlength>5</D:getcontentlength>")
        );
        // A listing gives no details about a folder on the path: no rights, dates or locks.
        for (at, depth) in [("/dav/main/", "Depth: 1"), ("/dav/main/a/", "Depth: 0")] {
            let leads_on = element(&ask(at, depth), "/dav/main/a/");
            assert!(leads_on.contains("<D:collection/>"), "{leads_on}");
            for told in ["activelock", "<D:creationdate>", "<D:privilege>", "<D:owner>", "kept"] {
                assert!(!leads_on.contains(told), "{told} in {leads_on}");
            }
        }
    }
    let page = curl(&server, &bob, "/dav/main/a/", &HTML).text();
    assert!(page.contains("data-size=\"5\"") && !page.contains("name=\"delete\""), "{page}");
}

#[test]
fn a_way_is_listed_in_pieces_and_as_far_as_every_listing() {
    let server = Server::start_with(&[("ENFILADE_LIMITS__LISTING_ENTRIES", "5")]);
    let files: Vec<String> = (0..6).map(|n| format!("a/{n}/x")).collect();
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let bob = shared(&server, &files, "DatastoreReader", &["a/0", "a/1", "a/2", "a/3", "a/4"]);
    let is_streamed = |answer: &Answer| {
        answer.head.iter().any(|line| line.eq_ignore_ascii_case("transfer-encoding: chunked"))
    };
    // Each of the five elements contains all requested properties, so the answer is larger than the limit of memory.
    let names: String = (0..200).map(|n| format!("<p{n}{} xmlns='urn:x'/>", "p".repeat(200))).collect();
    let asked = format!("<propfind xmlns='DAV:'><prop>{names}</prop></propfind>");
    let ask = ["--request", "PROPFIND", "--header", "Depth: 1", "--data", &asked];
    let listed = curl(&server, &bob, "/dav/main/a/", &ask);
    assert_eq!((listed.status, paths(&listed).len()), (207, 6));
    assert!(is_streamed(&listed) && !listed.text().contains(" 507 "), "{:?}", listed.head);
    let page = curl(&server, &bob, "/dav/main/a/", &HTML);
    assert!(
        is_streamed(&page) && !page.text().contains("Some entries are not in this list"),
        "{:?}",
        page.head
    );
    server.cli(&[
        "role",
        "assign",
        "--path",
        "/datastore/main/a/5",
        "--auth-id",
        "bob@local",
        "DatastoreReader",
    ]);
    let listed = curl(&server, &bob, "/dav/main/a/", &PROPFIND_1);
    assert!(listed.text().contains("507 Insufficient Storage"), "{}", listed.text());
    assert!(!listed.text().contains("/dav/main/a/5/"), "{}", listed.text());
    assert!(curl(&server, &bob, "/dav/main/a/", &HTML).text().contains("Some entries are not in this list"));
}

#[test]
fn an_object_that_cannot_be_opened_is_left_out_of_the_way() {
    if rustix::process::geteuid().is_root() {
        return println!("not asserted: root opens everything");
    }
    let server = Server::start();
    let bob = shared(&server, &["a/1/x", "a/2/x"], "DatastoreReader", &["a/1", "a/2"]);
    let closed = |name: &str, mode| {
        let path = server.data().join("datastores/main/a").join(name);
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    closed("1", 0o000);
    let listed = curl(&server, &bob, "/dav/main/a/", &PROPFIND_1);
    assert_eq!(
        (listed.status, paths(&listed)),
        (207, vec!["/dav/main/a/".to_owned(), "/dav/main/a/2/".to_owned()])
    );
    let page = curl(&server, &bob, "/dav/main/a/", &HTML);
    assert!(
        page.status == 200
            && page.text().contains("/dav/main/a/2/")
            && !page.text().contains("/dav/main/a/1/")
    );
    closed("1", 0o755);
}

#[test]
fn a_datastore_that_checks_traverse_shows_no_way_and_explain_promises_none() {
    let server = Server::start();
    let bob = shared(&server, &["a/b/x"], "DatastoreReader", &["a/b"]);
    for (checks, status) in [("yes", 404), ("no", 207)] {
        server.cli(&["datastore", "set", "main", "--check-traverse", checks]);
        assert_eq!(curl(&server, &bob, "/dav/main/", &PROPFIND_1).status, status, "{checks}");
        let said = server.cli_output(&["explain", "bob@local!test", "main", "/"], "").stdout;
        let said = String::from_utf8(said).unwrap();
        assert_eq!(
            said.contains("names that lead to paths on which it has a role (/a/b"),
            status == 207,
            "{said}"
        );
    }
}

/// Requests about a name in a folder on the path.
const SIBLING: [(&str, &str, &[&str]); 24] = [
    ("PROPFIND", "a/NAME", &["--header", "Depth: 0"]),
    ("PROPFIND", "a/NAME/", &["--header", "Depth: 1"]),
    ("PROPFIND", "a/NAME", &[]),
    ("PROPFIND", "a/NAME/x", &["--header", "Depth: 1"]),
    ("GET", "a/NAME", &[]),
    ("GET", "a/NAME", &HTML),
    ("GET", "a/NAME/", &HTML),
    ("GET", "a/NAME?why=read", &[]),
    ("HEAD", "a/NAME", &["--head"]),
    ("HEAD", "a/NAME/x", &["--head"]),
    ("OPTIONS", "a/NAME", &[]),
    ("PUT", "a/NAME", &["--data", "x"]),
    ("PUT", "a/NAME/x", &["--data", "x"]),
    ("MKCOL", "a/NAME", &[]),
    ("DELETE", "a/NAME", &[]),
    ("PROPPATCH", "a/NAME", &["--data", PATCH]),
    ("LOCK", "a/NAME", &["--data", LOCK]),
    ("MOVE", "a/NAME", &["--header", "Destination: /dav/main/a/shared/got"]),
    ("COPY", "a/NAME", &["--header", "Destination: /dav/main/a/shared/got"]),
    ("MOVE", "a/shared/f", &["--header", "Destination: /dav/main/a/NAME"]),
    ("MOVE", "a/shared/f", &["--header", "Destination: /dav/main/a/NAME", "--header", "Overwrite: F"]),
    ("COPY", "a/shared/f", &["--header", "Destination: /dav/main/a/NAME"]),
    ("COPY", "a/shared/f", &["--header", "Destination: /dav/main/a/NAME", "--header", "Overwrite: F"]),
    ("COPY", "a/shared/f", &["--header", "Destination: /dav/main/a/NAME/x"]),
];

/// The names next to the shared folder.
const NEIGHBOURS: [&str; 3] = ["secret", "veiled", "lent12"];

#[test]
fn who_has_one_shared_folder_learns_nothing_of_its_neighbours() {
    let server = Server::start();
    let files = ["a/shared/f", "a/secret/x", "a/veiled", "a/lent12/deep/x"];
    let bob = shared(&server, &files, "DatastorePowerUser", &["a/shared"]);
    // By the role of another user, `a/lent12` is on the path to a shared folder, but not for bob.
    server.cli(&["user", "add", "carol@local"]);
    let lent = ["role", "assign", "--path", "/datastore/main/a/lent12/deep", "--auth-id", "carol@local"];
    server.cli(&[&lent[..], &["DatastoreReader"]].concat());
    let main = server.data().join("datastores/main");
    let ask = |(method, path, more): (&str, &str, &[&str]), name: &str| {
        let more: Vec<String> = more.iter().map(|word| word.replace("NAME", name)).collect();
        let mut arguments: Vec<&str> = more.iter().map(String::as_str).collect();
        if method != "HEAD" {
            arguments.extend(["--request", method]);
        }
        let mut answer =
            curl(&server, &bob, &format!("/dav/main/{}", path.replace("NAME", name)), &arguments);
        let mut text = answer.text();
        if !name.is_empty() {
            // An error can repeat the name in the request.
            text = text.replace(name, "NAME");
        }
        assert!(NEIGHBOURS.iter().all(|other| !text.contains(other)), "{method} {path}: {text}");
        answer.body = text.into_bytes();
        answer
    };
    // All names have the same length, because the length of an answer must not differ by the name.
    for row in SIBLING {
        let absent = ask(row, "absent");
        assert!(absent.status >= 400 || row.0 == "OPTIONS", "{row:?}: {}", absent.status);
        for name in NEIGHBOURS {
            assert_eq!(ask(row, name), absent, "{row:?} {name}");
        }
    }
    // The folders above the shared folder can be listed, but not fetched, changed, copied or moved.
    for (method, path, more) in [
        ("PROPFIND", "a/", &[][..]),
        ("HEAD", "a/", &["--head"]),
        ("GET", "a/", &[]),
        ("DELETE", "a/", &[]),
        ("PROPPATCH", "a/", &["--data", PATCH]),
        ("COPY", "a/", &["--header", "Destination: /dav/main/copy/"]),
        ("MOVE", "a/", &["--header", "Destination: /dav/main/copy/"]),
        ("COPY", "a/shared/", &["--header", "Destination: /dav/main/copy/"]),
        ("MOVE", "a/shared/f", &["--header", "Destination: /dav/main/a/"]),
    ] {
        let status = ask((method, path, more), "").status;
        assert!((400..500).contains(&status), "{method} {path} {more:?}: {status}");
    }
    for (path, expected) in [("a/", "/dav/main/a/shared/"), ("", "/dav/main/a/")] {
        let listed = ask(("PROPFIND", path, &["--header", "Depth: 1"]), "");
        assert_eq!(paths(&listed), [format!("/dav/main/{path}"), expected.to_owned()]);
        assert_eq!(ask(("GET", path, &HTML), "").status, 200);
    }
    assert!(files.iter().all(|file| main.join(file).exists()) && !main.join("a/absent").exists());
}
