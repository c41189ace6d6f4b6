//! WebDAV as clients use it: litmus, cadaver, davfs2, rclone, webdavclient3 and curl against the real binary.

use crate::curl::{PROPFIND_0, PROPFIND_1, curl};
use crate::proxmox::python_path;
use crate::rclone::rclone;
use crate::server::{Scratch, Server, until};
use std::path::Path;
use std::process::{Command, Stdio};

fn method(server: &Server, login: &str, method: &str, path: &str, headers: &[&str]) -> (u16, String) {
    let mut arguments = vec!["--request", method];
    headers.iter().for_each(|header| arguments.extend(["--header", header]));
    let answer = curl(server, login, path, &arguments);
    (answer.status, answer.text())
}

/// Runs litmus. Returns its suites by name, with the numbers of tests run and passed.
pub(crate) fn litmus(url: &str, user: &str, password: &str) -> Vec<(String, u32, u32)> {
    let scratch = Scratch::new();
    let mut command = Command::new("litmus");
    let output = command.args(["-k", url, user, password]).current_dir(scratch.path()).output();
    let said = String::from_utf8_lossy(&output.expect("litmus is needed").stdout).replace('\r', "\n");
    let number = |word: &str| word.trim_end_matches(',').parse().unwrap();
    let parts = said.lines().filter_map(|line| line.strip_prefix("<- summary for `"));
    let parts: Vec<_> = parts
        .map(|part| {
            let words: Vec<&str> = part.split_whitespace().collect();
            (words[0].trim_end_matches("':").to_owned(), number(words[2]), number(words[5]))
        })
        .collect();
    let failed: Vec<&str> = said.lines().filter(|line| line.contains("FAIL")).collect();
    assert_eq!(failed, Vec::<&str>::new(), "{said}");
    parts
}

#[test]
fn litmus_passes_every_test() {
    let server = Server::start();
    // litmus runs the test `expect100` only without TLS.
    for (url, http) in [(format!("http://{}/dav/main/", server.plain), 4), (server.url("/dav/main/"), 3)] {
        let parts = litmus(&url, "admin@local", &server.password);
        let expected = [("basic", 16), ("copymove", 13), ("props", 30), ("locks", 41), ("http", http)];
        let expected: Vec<_> = expected.iter().map(|(name, n)| ((*name).to_owned(), *n, *n)).collect();
        assert_eq!(parts, expected);
    }
}

#[test]
fn the_answer_names_a_folder_that_does_not_exist() {
    let server = Server::start();
    let alice = server.add_user("alice", "DatastorePowerUser");
    let main = server.data().join("datastores/main");
    std::fs::write(main.join("file"), "x").unwrap();
    server.cli(&["acl", "set", "main", "/", "allow authenticated full inherit=files,dirs", "--recursive"]);
    for folder in ["gone", "gone/sub"] {
        let to = format!("/dav/main/{folder}/x");
        let header = format!("Destination: {to}");
        for (verb, path, headers) in [
            ("PUT", to.as_str(), &[][..]),
            ("MKCOL", &to, &[]),
            ("COPY", "/dav/main/file", &[header.as_str()]),
            ("MOVE", "/dav/main/file", &[&header]),
        ] {
            let expected = format!(
                "there is no folder `/{folder}`; create it first, or choose another name if a file has this name\n"
            );
            assert_eq!(method(&server, &alice, verb, path, headers), (409, expected), "{verb}");
        }
    }
}

#[test]
fn trees_are_copied_moved_and_deleted_as_far_as_may_be() {
    let server = Server::start();
    let (alice, bob) =
        (server.add_user("alice", "DatastorePowerUser"), server.add_user("bob", "DatastorePowerUser"));
    let main = server.data().join("datastores/main");
    for path in ["from/a/b", "from/c"] {
        std::fs::create_dir_all(main.join(path)).unwrap();
    }
    for path in ["from/1", "from/a/2", "from/a/b/3", "from/c/4"] {
        std::fs::write(main.join(path), path).unwrap();
    }
    let all = "allow authenticated full inherit=files,dirs";
    server.cli(&["acl", "set", "main", "/", all, "--recursive"]);
    let destination = |path: &str| format!("Destination: {}", server.url(path));
    let to = destination("/dav/main/to");
    let copy = |headers: &[&str]| method(&server, &alice, "COPY", "/dav/main/from", headers).0;
    assert_eq!(copy(&[&to]), 201);
    let listed = |login: &str| rclone(&server, login, &["lsf", "-R", "e:to"]);
    assert_eq!(listed(&alice).lines().count(), 7);
    assert_eq!((copy(&[&to]), copy(&[&to, "Overwrite: F"]), copy(&[&to, "Depth: 0"])), (204, 412, 204));
    assert_eq!(listed(&alice), "", "the directory alone");
    assert_eq!(copy(&[&destination("/dav/main/from/a/x")]), 403, "onto itself");
    assert_eq!(copy(&[&destination("/dav/main/gone/x")]), 409);
    assert_eq!(copy(&[&destination("/dav/other/x")]), 502);
    assert_eq!(copy(&["Destination: https://elsewhere.example/dav/main/x"]), 502);
    assert_eq!((copy(&[]), copy(&["Destination: /dav/main/../x"])), (400, 400));
    assert_eq!(copy(&[&to, "Overwrite: maybe"]), 400);
    // Bob's copy contains no hidden entry, and bob may not move or delete a directory that contains a hidden entry.
    server.cli(&["acl", "set", "main", "/from/a/b/3", "allow alice@local full"]);
    server.cli(&[
        "acl",
        "set",
        "main",
        "/from/c/4",
        "allow authenticated read-data,read-named-attributes,read-attributes,read-acl",
    ]);
    assert_eq!(method(&server, &bob, "COPY", "/dav/main/from", &[&to]).0, 204);
    assert!(!main.join("to/a/b/3").exists() && main.join("to/a/b").is_dir());
    assert_eq!(std::fs::read_to_string(main.join("to/c/4")).unwrap(), "from/c/4");
    let moved = method(&server, &bob, "MOVE", "/dav/main/from", &[&destination("/dav/main/moved")]);
    assert_eq!(moved.0, 409, "something in it is not his to move, and he is not told what");
    assert!(main.join("from/a/b/3").exists());
    let (status, left) = method(&server, &bob, "DELETE", "/dav/main/from", &[]);
    assert_eq!(status, 207);
    assert!(left.contains("/dav/main/from/a/b<") && left.contains("409 Conflict"), "{left}");
    assert!(left.contains("/dav/main/from/c/4") || !main.join("from/c").exists(), "{left}");
    assert!(!left.contains("b/3"), "{left}");
    assert!(main.join("from/a/b/3").exists() && !main.join("from/1").exists());
    assert_eq!(method(&server, &alice, "DELETE", "/dav/main/from", &["Depth: 0"]).0, 400);
    // A request that would create an entry under the name of a hidden entry is refused, as if the user had no right to create entries.
    std::fs::write(main.join("hidden"), "x").unwrap();
    server.cli(&["acl", "set", "main", "/hidden", "allow alice@local full"]);
    let onto = destination("/dav/main/hidden");
    for name in ["MOVE", "COPY"] {
        for overwrite in ["Overwrite: T", "Overwrite: F"] {
            assert_eq!(method(&server, &bob, name, "/dav/main/to/1", &[&onto, overwrite]).0, 403, "{name}");
        }
    }
    let lock = ["--request", "LOCK", "--data", LOCK];
    assert_eq!(curl(&server, &bob, "/dav/main/hidden", &lock).status, 403);
    assert_eq!(std::fs::read_to_string(main.join("hidden")).unwrap(), "x");
    // After a MOVE, the entries have their content and their ACLs, and no temporary entries are left.
    assert_eq!(method(&server, &alice, "MOVE", "/dav/main/from/a", &[&to]).0, 204);
    assert_eq!(std::fs::read_to_string(main.join("to/b/3")).unwrap(), "from/a/b/3");
    let names: Vec<String> = std::fs::read_dir(&main)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(names.iter().all(|name| !name.starts_with(".enfilade-")), "{names:?}");
    assert_eq!(curl(&server, &bob, "/dav/main/to/b/3", &[]).status, 404, "it keeps the ACL it had");
}

const LOCK: &str = "<D:lockinfo xmlns:D='DAV:'><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype><D:owner>me &amp; mine</D:owner></D:lockinfo>";

#[test]
fn locks_are_their_owners_and_outlive_a_crash() {
    let mut server = Server::start();
    let (alice, bob) =
        (server.add_user("alice", "DatastorePowerUser"), server.add_user("bob", "DatastorePowerUser"));
    let put = |server: &Server, login: &str, path: &str, more: &[&str]| {
        curl(server, login, path, &[&["--request", "PUT", "--data", "x"], more].concat()).status
    };
    assert_eq!(put(&server, &alice, "/dav/main/file", &[]), 201);
    server.cli(&["acl", "set", "main", "/file", "allow authenticated full"]);
    let locked = curl(
        &server,
        &alice,
        "/dav/main/file",
        &["--request", "LOCK", "--data", LOCK, "--header", "Timeout: Second-600"],
    );
    assert_eq!(locked.status, 200, "{}", locked.text());
    let header = locked.head.iter().find_map(|line| line.strip_prefix("lock-token: ")).unwrap();
    let token = header.to_owned();
    let with = format!("If: ({token})");
    let both = |server: &Server| {
        [
            put(server, &alice, "/dav/main/file", &[]),
            put(server, &bob, "/dav/main/file", &["--header", &with]),
            method(server, &bob, "DELETE", "/dav/main/file", &[&with]).0,
            method(server, &alice, "MOVE", "/dav/main/file", &["Destination: /dav/main/other"]).0,
            method(server, &bob, "UNLOCK", "/dav/main/file", &[&format!("Lock-Token: {token}")]).0,
            method(server, &alice, "UNLOCK", "/dav/main/", &[&format!("Lock-Token: {token}")]).0,
        ]
    };
    let refused = [423, 423, 423, 423, 409, 409];
    assert_eq!(both(&server), refused, "the token is alice's");
    server.kill_and_restart();
    assert_eq!(both(&server), refused, "the token is alice's, also after a crash");
    let found = curl(&server, &bob, "/dav/main/", &PROPFIND_1).text();
    assert!(found.contains("me &amp; mine") && !found.contains(token.trim_matches(['<', '>'])), "{found}");
    assert_eq!(put(&server, &alice, "/dav/main/file", &["--header", &with]), 204);
    let refreshed = method(&server, &alice, "LOCK", "/dav/main/file", &[&with, "Timeout: Second-1"]);
    assert_eq!(refreshed.0, 200);
    std::thread::sleep(std::time::Duration::from_millis(2100));
    assert_eq!(put(&server, &bob, "/dav/main/file", &[]), 204, "the lock has ended");
    // A condition with the token of an ended lock is false.
    assert_eq!(put(&server, &bob, "/dav/main/file", &["--header", &with]), 412);
    // A user can take the permitted number of locks.
    let lock = |path: &str| curl(&server, &bob, path, &["--request", "LOCK", "--data", LOCK]).status;
    let locks: Vec<u16> = (0..33).map(|n| lock(&format!("/dav/main/l{n}"))).collect();
    assert_eq!((&locks[..32], locks[32]), (&[201; 32][..], 507));
    assert!(!server.data().join("datastores/main/l32").exists());
}

#[test]
fn properties_come_back_as_they_were() {
    let server = Server::start();
    let alice = server.add_user("alice", "DatastorePowerUser");
    let patch = |body: &str| {
        curl(&server, &alice, "/dav/main/file", &["--request", "PROPPATCH", "--data-binary", body])
    };
    curl(&server, &alice, "/dav/main/file", &["--request", "PUT", "--data", "x"]);
    let set = "<propertyupdate xmlns='DAV:' xmlns:x='urn:x'><set><prop xml:lang='de'><x:a>1 &lt; &#x1F600; <x:b c='\"'/></x:a></prop></set></propertyupdate>";
    assert_eq!(patch(set).status, 207);
    let asked = "<propfind xmlns='DAV:'><prop><a xmlns='urn:x'/><n xmlns='urn:x'/></prop></propfind>";
    let found = |path: &str| {
        let arguments = [PROPFIND_0.as_slice(), &["--data", asked]].concat();
        curl(&server, &alice, path, &arguments).text()
    };
    let value = "<n0:a xml:lang=\"de\">1 &lt; \u{1f600} <b xmlns=\"urn:x\" c=\"&quot;\"></b></n0:a>";
    assert!(found("/dav/main/file").contains(value), "{}", found("/dav/main/file"));
    // The properties stay when the content changes, and COPY and MOVE keep them.
    curl(&server, &alice, "/dav/main/file", &["--request", "PUT", "--data", "other"]);
    for (name, to) in [("COPY", "/dav/main/copy"), ("MOVE", "/dav/main/moved")] {
        let destination = format!("Destination: {to}");
        assert_eq!(method(&server, &alice, name, "/dav/main/file", &[&destination]).0, 201);
        assert!(found(to).contains(value), "{name}");
    }
    // A live property cannot be changed. A request that tries this changes no property.
    let both = "<propertyupdate xmlns='DAV:'><set><prop><y xmlns='urn:x'>1</y><getetag>x</getetag></prop></set></propertyupdate>";
    let refused = curl(&server, &alice, "/dav/main/copy", &["--request", "PROPPATCH", "--data", both]).text();
    assert!(refused.contains("403 Forbidden") && refused.contains("424 Failed Dependency"), "{refused}");
    let all = curl(&server, &alice, "/dav/main/copy", &PROPFIND_0).text();
    assert!(all.contains(value) && !all.contains(":y>"), "{all}");
    // A property that is larger than the file system can store.
    let large = format!(
        "<propertyupdate xmlns='DAV:'><set><prop><z xmlns='urn:x'>{}</z></prop></set></propertyupdate>",
        "z".repeat(60_000)
    );
    let full = curl(&server, &alice, "/dav/main/copy", &["--request", "PROPPATCH", "--data", &large]);
    assert!([207, 507].contains(&full.status), "{}", full.text());
    assert!(curl(&server, &alice, "/dav/main/copy", &PROPFIND_0).text().contains(value));
}

#[test]
fn cadaver_makes_a_round_trip() {
    let server = Server::start();
    let alice = server.add_user("alice", "DatastorePowerUser");
    let (user, secret) = alice.split_once(':').unwrap();
    let scratch = Scratch::new();
    let home = scratch.path();
    std::fs::write(home.join("up"), "what went up").unwrap();
    let netrc = format!("machine 127.0.0.1 login {user} password {secret}\n");
    std::fs::write(home.join(".netrc"), netrc).unwrap();
    let commands = "mkcol d\ncd d\nput up f\nlock f\nput up f\nunlock f\npropset f color red\npropget f color\ncopy f g\nmove g h\nget h down\n\
        delete f\nls\ncd ..\nrmcol d\nls\nquit\n";
    let mut cadaver = Command::new("cadaver")
        .arg(format!("http://{}/dav/main/", server.plain))
        .env("HOME", home)
        .current_dir(home)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("cadaver is needed");
    std::io::Write::write_all(&mut cadaver.stdin.take().unwrap(), commands.as_bytes()).unwrap();
    let said = String::from_utf8_lossy(&cadaver.wait_with_output().unwrap().stdout).into_owned();
    assert!(!said.contains("failed") && said.contains("red"), "{said}");
    assert_eq!(std::fs::read_to_string(home.join("down")).unwrap(), "what went up", "{said}");
    assert!(
        said.contains("h ") && std::fs::read_dir(server.data().join("datastores/main")).unwrap().count() == 0
    );
}

#[test]
fn davfs2_mounts_a_datastore() {
    if !Path::new("/dev/fuse").exists() || !rustix::process::geteuid().is_root() {
        println!("not asserted: mounting takes root and /dev/fuse");
        return;
    }
    let server = Server::start();
    let alice = server.add_user("alice", "DatastorePowerUser");
    let (user, secret) = alice.split_once(':').unwrap();
    let scratch = Scratch::new();
    let mount = scratch.path().join("mount");
    std::fs::create_dir(&mount).unwrap();
    let url = format!("http://{}/dav/main/", server.plain);
    let write = |name: &str, text: String| {
        let path = scratch.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        path
    };
    let secrets = write("secrets", format!("{url} {user} {secret}\n"));
    let settings = format!("delay_upload 0\nuse_locks 1\nsecrets {}\n", secrets.display());
    let config = write("davfs2.conf", settings);
    let option = format!("conf={},uid=0,gid=0", config.display());
    let mounted =
        Command::new("mount.davfs").args([&url, mount.to_str().unwrap(), "-o", &option]).output().unwrap();
    let said = String::from_utf8_lossy(&mounted.stderr).into_owned();
    if !mounted.status.success() {
        assert!(said.contains("fuse") || said.contains("permitted"), "{said}");
        println!("not asserted: nothing can be mounted here: {said}");
        return;
    }
    let _unmount = Unmount(&mount);
    std::fs::create_dir(mount.join("d")).unwrap();
    std::fs::write(mount.join("d/file"), "through the kernel").unwrap();
    std::fs::rename(mount.join("d/file"), mount.join("d/other")).unwrap();
    let there = server.data().join("datastores/main/d/other");
    for _ in 0..100 {
        if std::fs::read_to_string(&there).is_ok_and(|text| text == "through the kernel") {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert_eq!(std::fs::read_to_string(&there).unwrap(), "through the kernel");
    assert_eq!(std::fs::read_to_string(mount.join("d/other")).unwrap(), "through the kernel");
    std::fs::remove_file(mount.join("d/other")).unwrap();
    std::fs::remove_dir(mount.join("d")).unwrap();
    assert!(!there.exists());
}

struct Unmount<'m>(&'m Path);

impl Drop for Unmount<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).output();
    }
}

#[test]
fn rclone_syncs_and_checks() {
    let server = Server::start();
    let alice = server.add_user("alice", "DatastorePowerUser");
    let scratch = Scratch::new();
    let local = scratch.path().join("local");
    for n in 0..20 {
        let directory = local.join(format!("d{}", n % 4));
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join(format!("f{n}")), vec![n as u8; n * 1000]).unwrap();
    }
    let from = local.to_str().unwrap();
    rclone(&server, &alice, &["sync", from, "e:synced"]);
    rclone(&server, &alice, &["check", from, "e:synced"]);
    std::fs::remove_dir_all(local.join("d1")).unwrap();
    std::fs::write(local.join("d2/f2"), "changed").unwrap();
    rclone(&server, &alice, &["sync", from, "e:synced"]);
    rclone(&server, &alice, &["check", from, "e:synced"]);
    rclone(&server, &alice, &["moveto", "e:synced/d2", "e:synced/d5"]);
    rclone(&server, &alice, &["copyto", "e:synced/d3", "e:synced/d6"]);
    let listed = rclone(&server, &alice, &["lsf", "-R", "--files-only", "e:synced"]);
    assert_eq!(listed.lines().count(), 20);
    rclone(&server, &alice, &["purge", "e:synced"]);
    assert_eq!(rclone(&server, &alice, &["lsf", "e:"]), "");
}

#[test]
fn every_collection_on_the_way_to_a_datastore_answers() {
    let server = Server::start();
    let alice = server.add_user("alice", "DatastorePowerUser");
    let other = server.scratch.path().join("other");
    server.cli(&["datastore", "create", "other", "--path", other.to_str().unwrap()]);
    let listed = |login: &str, path: &str| {
        let answer = curl(&server, login, path, &PROPFIND_1);
        let text = answer.text();
        let hrefs = text.split("<D:href>").skip(1).filter_map(|part| part.split('<').next());
        (answer.status, hrefs.map(str::to_owned).collect::<Vec<_>>().join(" "))
    };
    assert_eq!(listed(&alice, "/"), (207, "/ /dav/".into()));
    assert_eq!(listed(&alice, "/dav"), (207, "/dav/ /dav/main/".into()), "she has no role on the other");
    let admin = format!("admin@local:{}", server.password);
    assert_eq!(listed(&admin, "/dav/"), (207, "/dav/ /dav/main/ /dav/other/".into()));
    assert_eq!(listed("", "/").0, 401);
    for path in ["/", "/dav/", "/dav/main/"] {
        let answer = curl(&server, &alice, path, &["--request", "OPTIONS"]);
        assert_eq!(answer.status, 200);
        assert!(answer.head.iter().any(|line| line == "dav: 1, 2, 3"), "{:?}", answer.head);
        assert!(answer.head.iter().any(|line| line == "ms-author-via: DAV"), "{:?}", answer.head);
    }
    // GET of `/` still answers the list of versions of the Identity API.
    assert_eq!(curl(&server, "", "/", &[]).status, 300);
}

#[test]
fn content_that_is_not_what_its_digest_says_is_not_kept() {
    let server = Server::start();
    let alice = server.add_user("alice", "DatastorePowerUser");
    let put = |digest: &str| {
        let header = format!("Repr-Digest: sha-256=:{digest}:");
        curl(&server, &alice, "/dav/main/file", &["--request", "PUT", "--data", "hello", "--header", &header])
            .status
    };
    assert_eq!(put("LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCR="), 400);
    assert_eq!(put("LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmAA="), 400);
    assert!(!server.data().join("datastores/main/file").exists());
    assert_eq!(put("LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ="), 201);
}

#[test]
fn large_files_without_tls_arrive_as_they_are() {
    let server = Server::start();
    let alice = server.add_user("alice", "DatastorePowerUser");
    let mut state = 1_u64;
    let content: Vec<u8> = (0..9_000_001)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as u8
        })
        .collect();
    let file = server.data().join("datastores/main/large");
    std::fs::write(&file, &content).unwrap();
    server.cli(&["acl", "set", "main", "/large", "allow authenticated full"]);
    let url = format!("http://{}/dav/main/large", server.plain);
    let curl = |arguments: &[&str]| {
        let mut command = Command::new("curl");
        command
            .args(["--silent", "--show-error", "--max-time", "60", "--user", &alice])
            .args(arguments)
            .arg(&url);
        command.output().unwrap()
    };
    assert!(curl(&[]).stdout == content);
    for (range, expected) in [
        ("0-8999999", &content[..9_000_000]),
        ("4095-8000000", &content[4095..8_000_001]),
        ("1-", &content[1..]),
        ("-5000000", &content[4_000_001..]),
    ] {
        assert!(curl(&["--range", range]).stdout == expected, "{range}");
    }
    // Downloads slowly, twice on one connection, and four times at the same time.
    assert!(curl(&["--limit-rate", "8M"]).stdout == content);
    let twice = curl(&[&url]).stdout;
    assert!(
        twice.len() == 2 * content.len()
            && twice[..content.len()] == content
            && twice[content.len()..] == content
    );
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert!(curl(&[]).stdout == content));
        }
    });
    // If a file becomes shorter during a download, the server aborts this answer, and answers later requests. The file is larger than all socket
    // buffers.
    const HUGE: u64 = 300_000_000;
    let huge = std::fs::File::create(server.data().join("datastores/main/huge")).unwrap();
    huge.set_len(HUGE).unwrap();
    server.cli(&["acl", "set", "main", "/huge", "allow authenticated full"]);
    let taken = server.scratch.path().join("taken");
    let slowly = || {
        let mut command = Command::new("curl");
        command.args([
            "--silent",
            "--show-error",
            "--max-time",
            "60",
            "--user",
            &alice,
            "--limit-rate",
            "10M",
        ]);
        command.args(["--write-out", "%{size_download}", "--output"]).arg(&taken);
        let output = command.arg(format!("http://{}/dav/main/huge", server.plain)).output().unwrap();
        let bytes: u64 = String::from_utf8(output.stdout).unwrap().parse().unwrap();
        (output.status.success(), bytes)
    };
    let meanwhile = |change: &dyn Fn()| {
        std::thread::scope(|scope| {
            let _ = std::fs::remove_file(&taken);
            let slow = scope.spawn(slowly);
            until("the download runs", &server, || {
                std::fs::metadata(&taken).is_ok_and(|meta| meta.len() > 0)
            });
            change();
            slow.join().unwrap()
        })
    };
    let (whole, bytes) = meanwhile(&|| huge.set_len(HUGE / 2).unwrap());
    assert!(!whole && bytes < HUGE, "{bytes}");
    assert!(curl(&[]).stdout == content);
    huge.set_len(HUGE).unwrap();
    // If the user is disabled, the server also aborts the download.
    let (whole, bytes) = meanwhile(&|| drop(server.cli(&["user", "disable", "alice@local"])));
    assert!(!whole && bytes < HUGE / 2, "{bytes}");
}

#[test]
fn webdavclient3_makes_a_round_trip() {
    let server = Server::start();
    let alice = server.add_user("alice", "DatastorePowerUser");
    let (user, secret) = alice.split_once(':').unwrap();
    let scratch = Scratch::new();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop/webdav_client.py");
    let output = Command::new("python3")
        .arg(script)
        .args([&server.url("/dav/main/"), user, secret])
        // The environment names the certificate, because some clients of the script have no option for it.
        .env("REQUESTS_CA_BUNDLE", server.certificate())
        .arg(scratch.path())
        .env("PYTHONPATH", python_path())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}\n{}", server.log());
}
