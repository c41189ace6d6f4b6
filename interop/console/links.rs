//! Links with which people share files and folders: what a guest can do, what ends a link, and that a guest learns nothing about other files.

use super::files::names;
use super::{Browser, Page, server};
use crate::curl::{PROPFIND_0, curl};
use crate::server::{Server, until};
use serde_json::Value;
use std::time::Instant;

const EVIL: &str = "<svg onload=\"document.title='owned'\">";

/// A server with files in `main/shared`. Alice may change them, and bob may read them, except `shared/veiled.txt`.
fn world() -> Server {
    let server = server();
    prepare(&server);
    server
}

fn prepare(server: &Server) {
    let main = server.data().join("datastores/main");
    std::fs::create_dir_all(main.join("shared/inner")).unwrap();
    std::fs::create_dir(main.join("box")).unwrap();
    for name in ["secret.txt", "shared/a.txt", "shared/veiled.txt", "shared/inner/deep.txt"] {
        std::fs::write(main.join(name), format!("content of {name}")).unwrap();
    }
    std::fs::write(main.join("shared").join(EVIL), "evil").unwrap();
    server.cli(&["acl", "set", "main", "/", "allow authenticated full inherit=files,dirs", "--recursive"]);
    server.cli(&["acl", "set", "main", "/shared/veiled.txt", "allow alice@local full"]);
}

/// Makes a link at the command line. Returns its path and its id.
fn link(server: &Server, arguments: &[&str]) -> (String, String) {
    let made = server.cli(&[&["link", "create"], arguments].concat());
    let text = |name: &str| made[0][name].as_str().unwrap().to_owned();
    (text("path"), text("id"))
}

/// A response without the headers that differ from response to response.
fn essence(page: &Page) -> (u16, Vec<String>, String) {
    let differs = |line: &&str| {
        let line = line.to_ascii_lowercase();
        !line.starts_with("x-request-id:") && !line.starts_with("date:")
    };
    let lines = page.head.lines().filter(differs).map(str::to_owned).collect();
    (page.status, lines, page.text())
}

#[test]
fn a_guest_sees_what_the_maker_sees_at_the_place_and_nothing_else() {
    let server = world();
    let (path, _) = link(&server, &["main", "/shared", "--user", "bob@local", "--name", EVIL]);
    let guest = Browser::new(&server);
    for url in [path.clone(), format!("{path}/")] {
        let page = guest.open(&url);
        assert_eq!(page.status, 200, "{}\n{}", page.text(), server.log());
        assert_eq!(
            names(&page.text()),
            ["inner", "&lt;svg onload=&quot;document.title='owned'&quot;&gt;", "a.txt"]
        );
        assert!(!page.text().contains(EVIL) && !page.text().contains("bob@local"), "{}", page.text());
        for (header, value) in [
            ("Referrer-Policy", "no-referrer"),
            ("Cache-Control", "no-store"),
            ("X-Robots-Tag", "noindex, nofollow, noarchive"),
            ("X-Content-Type-Options", "nosniff"),
        ] {
            assert_eq!(page.header(header), value, "{header}");
        }
        assert!(page.header("Content-Security-Policy").starts_with("default-src 'none'; script-src 'self'"));
        assert_eq!(page.header("Set-Cookie"), "");
    }
    assert_eq!(names(&guest.open(&format!("{path}/inner/")).text()), ["deep.txt"]);
    let page = guest.open(&format!("{path}/a.txt"));
    assert!(page.status == 200 && page.text().contains("?get"), "{}", page.text());
    let got = guest.open(&format!("{path}/a.txt?get"));
    assert_eq!((got.status, got.text().as_str()), (200, "content of shared/a.txt"));
    assert!(got.header("Content-Security-Policy").starts_with("sandbox"), "{}", got.head);
    assert_eq!((got.header("Referrer-Policy"), got.header("Cache-Control")), ("no-referrer", "no-store"));
    let zipped = guest.open(&format!("{path}/?zip"));
    let text = zipped.text();
    assert!(zipped.status == 200 && text.contains("inner/deep.txt") && !text.contains("veiled"), "{text}");
    let nothing = guest.open(&format!("{path}/absent"));
    assert_eq!(nothing.status, 404);
    for (below, method) in [
        ("/veiled.txt", "GET"),
        ("/veiled.txt?get", "GET"),
        ("/veiled.txt/", "GET"),
        ("/../secret.txt?get", "GET"),
        ("/%2e%2e/secret.txt?get", "GET"),
        ("/..%2fsecret.txt?get", "GET"),
        ("/new.txt", "PUT"),
        ("/a.txt", "DELETE"),
        ("/new/", "MKCOL"),
        ("/", "PROPFIND"),
    ] {
        let page = guest.send(&format!("{path}{below}"), &["--request", method]);
        let is_refused_before = below.contains("..") || below.contains("%2e");
        assert!(
            page.status == 404 || is_refused_before && page.status == 400,
            "{method} {below}: {}",
            page.head
        );
        if method == "GET" && !is_refused_before {
            assert_eq!(essence(&page), essence(&nothing), "{below}");
        }
    }
    assert!(!server.data().join("datastores/main/shared/new.txt").exists());
    // The link is no credential elsewhere, and credentials of other kinds open no link.
    let text = path.strip_prefix("/s/").unwrap();
    let tokenid = server.cli(&["link", "list"])[0]["tokenid"].as_str().unwrap().to_owned();
    assert_eq!(curl(&server, &format!("{tokenid}:{text}"), "/dav/main/", &PROPFIND_0).status, 401);
    let cookie = format!("__Host-enfilade-console={text}");
    assert_eq!(guest.send("/console/", &["--cookie", &cookie]).status, 303);
    assert_eq!(Browser::new(&server).open(&format!("/s/{}/", &text[..63])).status, 404);
    // A link to a file shares only this file.
    let (file, _) = link(&server, &["main", "/shared/a.txt", "--user", "bob@local"]);
    assert_eq!(guest.open(&format!("{file}?get")).text(), "content of shared/a.txt");
    assert_eq!(guest.open(&format!("{file}/veiled.txt")).status, 404);
    assert!(!server.log().contains(text), "the log has the secret");
    let who = format!("\"{tokenid}\"");
    until("the log has the link", &server, || {
        let log = server.log();
        log.contains(&who) && log.contains("/s/-/shared/a.txt")
    });
}

#[test]
fn every_link_that_does_not_work_gets_the_same_answer() {
    let server = world();
    let make = |more: &[&str]| link(&server, &[&["main", "/shared", "--user", "bob@local"], more].concat());
    let (ended, id) = make(&[]);
    server.cli(&["link", "end", &id]);
    let (expired, _) = make(&["--expires", "1s"]);
    let (used, _) = make(&["--uses", "1"]);
    let (disabled, id) = make(&[]);
    let tokenid = server.cli(&["link", "list"]).into_iter().find(|row| row["id"] == id.as_str()).unwrap();
    server.cli(&["token", "set", tokenid["tokenid"].as_str().unwrap(), "--disable"]);
    let guest = Browser::new(&server);
    assert_eq!(guest.open(&format!("{used}/a.txt?get")).status, 200);
    std::thread::sleep(std::time::Duration::from_millis(2_100));
    let absent = format!("/s/{}", "A".repeat(64));
    let all = [absent.as_str(), &ended, &expired, &used, &disabled, "/s/x", "/s/", "/s/-_/a"];
    let form = ["--data", "password=x"];
    for (method, below, more) in [
        ("GET", "", &[][..]),
        ("GET", "/a.txt?get", &[]),
        ("GET", "/?zip", &[]),
        ("PUT", "/x", &[]),
        ("POST", "", &form),
    ] {
        let arguments = [&["--request", method][..], more].concat();
        let ask = |path: &str| essence(&guest.send(&format!("{path}{below}"), &arguments));
        let expected = ask(&absent);
        assert_eq!(expected.0, 404);
        for path in all {
            assert_eq!(ask(path), expected, "{method} {path}{below}");
        }
    }
}

#[test]
fn a_link_obeys_at_the_next_request() {
    let server = world();
    let (path, _) = link(&server, &["main", "/shared", "--user", "bob@local"]);
    let guest = Browser::new(&server);
    let status = || guest.open(&format!("{path}/a.txt?get")).status;
    let tokenid = server.cli(&["link", "list"])[0]["tokenid"].as_str().unwrap().to_owned();
    let role = ["--path", "/datastore/main", "--auth-id", "bob@local", "DatastoreReader"];
    let acl = ["acl", "set", "main", "/shared/a.txt"];
    let steps = [
        (vec!["user", "disable", "bob@local"], vec!["user", "enable", "bob@local"]),
        ([&["role", "remove"][..], &role].concat(), [&["role", "assign"][..], &role].concat()),
        (
            [&acl[..], &["allow alice@local full"]].concat(),
            [&acl[..], &["allow authenticated full"]].concat(),
        ),
        (vec!["token", "set", &tokenid, "--disable"], vec!["token", "set", &tokenid, "--enable"]),
    ];
    assert_eq!(status(), 200);
    for (takes, gives) in steps {
        server.cli(&takes);
        assert_eq!(status(), 404, "{takes:?}");
        server.cli(&gives);
        assert_eq!(status(), 200, "{gives:?}");
    }
    server.cli(&["datastore", "maintenance", "main", "offline"]);
    assert_eq!(status(), 503);
    server.cli(&["datastore", "maintenance", "main", "none"]);
    // The link cannot become another kind of credential, or live longer than a link may.
    let set = ["token", "set", tokenid.as_str()];
    for change in [
        &["token", "regenerate", tokenid.as_str()][..],
        &[&set[..], &["--owner-roles"]].concat(),
        &[&set[..], &["--expires", "never"]].concat(),
        &[&set[..], &["--expires", "90d"]].concat(),
    ] {
        assert!(!server.cli_output(change, "").status.success(), "{change:?}");
    }
    server.cli(&["user", "access", "bob@local"]);
    server.cli(&["user", "remove", "bob@local"]);
    assert_eq!(status(), 404);
    assert!(server.cli(&["link", "list"]).is_empty());
}

#[test]
fn a_password_is_needed_once_and_guesses_are_slowed_down() {
    let server = world();
    let made = server.cli_output(
        &["link", "create", "main", "/shared", "--user", "bob@local", "--password-stdin"],
        "open sesame",
    );
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let made: Value = serde_json::from_slice(&made.stdout).unwrap();
    let path = made["path"].as_str().unwrap();
    let (guest, other) = (Browser::new(&server), Browser::new(&server));
    let asks = guest.open(path);
    assert!(asks.status == 200 && asks.text().contains("type=\"password\""), "{}", asks.text());
    assert!(!asks.text().contains("a.txt"));
    assert_eq!(guest.send(&format!("{path}/a.txt?get"), &[]).text(), asks.text());
    let wrong = guest.submit(path, &[("password", "open barley")]);
    assert!(wrong.status == 403 && wrong.text().contains("wrong") && wrong.header("Set-Cookie").is_empty());
    let entered = guest.submit(path, &[("password", "open sesame")]);
    assert_eq!((entered.status, entered.header("Location")), (303, format!("{path}/").as_str()));
    let cookie = entered.header("Set-Cookie");
    assert!(
        cookie.starts_with("__Host-enfilade-link=") && cookie.contains("HttpOnly; SameSite=Lax"),
        "{cookie}"
    );
    assert_eq!(guest.open(&format!("{path}/a.txt?get")).text(), "content of shared/a.txt");
    assert!(other.open(path).text().contains("type=\"password\""));
    // The cookie that the guest got for the password is valid only for this link.
    let second = server.cli_output(
        &["link", "create", "main", "/shared", "--user", "bob@local", "--password-stdin"],
        "open sesame",
    );
    let second: Value = serde_json::from_slice(&second.stdout).unwrap();
    assert!(guest.open(second["path"].as_str().unwrap()).text().contains("type=\"password\""));
    let facts = server.cli(&["facts", "dump"]);
    let dump: Vec<String> = facts.iter().map(ToString::to_string).collect();
    assert!(dump.iter().any(|line| line.contains("\"link\"")) && !dump.concat().contains("argon2"));
    assert!(!server.log().contains("open sesame") && !server.log().contains("open barley"));
    until("the log has the wrong password", &server, || server.log().contains("\"code\":\"ID05\""));
}

#[test]
fn wrong_passwords_of_a_link_are_limited_in_each_minute() {
    let server = world();
    let arguments = ["link", "create", "main", "/shared", "--user", "bob@local", "--password-stdin"];
    let made: Value = serde_json::from_slice(&server.cli_output(&arguments, "open sesame").stdout).unwrap();
    let path = made["path"].as_str().unwrap();
    let guess = |at: usize| {
        let guest = Browser::new(&server);
        let (from, origin) = (format!("127.0.{at}.1"), guest.origin());
        let wrong = format!("password=guess {at}");
        let arguments = ["--interface", &from, "--header", &origin, "--data-urlencode", &wrong];
        let page = guest.send(path, &arguments);
        // 503: too many hashes are computed at the same time.
        assert!([403, 429, 503].contains(&page.status), "{}", page.head);
        usize::from(page.status == 403)
    };
    // Every guess is from another network, so no address is blocked. A guess that gets 503 was not judged, so the test repeats until the limit
    // is reached.
    let (began, mut judged) = (Instant::now(), 0);
    for round in 0..60 {
        judged += std::thread::scope(|scope| {
            let guess = &guess;
            let threads: Vec<_> = (1..=4).map(|at| scope.spawn(move || guess(round * 4 + at))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
        });
        if server.log().contains("\"code\":\"ID36\"") {
            break;
        }
    }
    let windows = usize::try_from(began.elapsed().as_secs() / 60).unwrap() + 2;
    assert!((1..=20 * windows).contains(&judged), "{judged}");
    until("the log has the refusal", &server, || server.log().contains("\"code\":\"ID36\""));
}

#[test]
fn uses_are_counted_once_for_each_download_and_never_exceeded() {
    let server = world();
    let (path, id) = link(&server, &["main", "/shared", "--user", "bob@local", "--uses", "5"]);
    let guest = Browser::new(&server);
    let left = || {
        let rows = server.cli(&["link", "list", "bob@local"]);
        rows.iter().find(|row| row["id"] == id.as_str()).unwrap()["uses_left"].as_u64()
    };
    for page in ["", "/", "/inner/", "/a.txt", "/absent?get", "/veiled.txt?get"] {
        guest.open(&format!("{path}{page}"));
    }
    assert_eq!(guest.send(&format!("{path}/a.txt?get"), &["--head"]).status, 200);
    assert_eq!(left(), Some(5));
    let part = guest.send(&format!("{path}/a.txt?get"), &["--header", "Range: bytes=0-3"]);
    assert_eq!((part.status, part.text().as_str(), left()), (200, "content of shared/a.txt", Some(4)));
    assert_eq!((guest.open(&format!("{path}/?zip")).status, left()), (200, Some(3)));
    let granted: usize = std::thread::scope(|scope| {
        let ask = || usize::from(Browser::new(&server).open(&format!("{path}/a.txt?get")).status == 200);
        let threads: Vec<_> = (0..12).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!((granted, left()), (3, Some(0)));
    assert_eq!(guest.open(&path).status, 404);
}

#[test]
fn guests_upload_into_a_drop_box_and_learn_nothing() {
    let server = world();
    let inside = server.data().join("datastores/main/box");
    std::fs::write(inside.join("taken.txt"), "mine").unwrap();
    let (path, id) = link(
        &server,
        &["main", "/box", "--user", "alice@local", "--drop", "--max-upload", "1K", "--uses", "4"],
    );
    let guest = Browser::new(&server);
    let page = guest.open(&path);
    assert!(page.status == 200 && !page.text().contains("taken"), "{}\n{}", page.text(), server.log());
    let put = |name: &str, content: &str, more: &[&str]| {
        let arguments = [&["--request", "PUT", "--data-binary", content][..], more].concat();
        guest.send(&format!("{path}/{name}"), &arguments)
    };
    let (new, taken) = (put("new.txt", "up", &[]), put("taken.txt", "up", &[]));
    assert_eq!(essence(&new), essence(&taken));
    assert_eq!(new.status, 201, "{}", server.log());
    assert_eq!(std::fs::read_to_string(inside.join("taken.txt")).unwrap(), "mine");
    assert_eq!(std::fs::read_to_string(inside.join("new.txt")).unwrap(), "up");
    let count = || std::fs::read_dir(&inside).unwrap().count();
    assert_eq!(count(), 3);
    let large = "x".repeat(1025);
    // The answer contains no numbers about the datastore, such as its free space.
    assert!(!put("large.txt", &large, &[]).text().contains("bytes"));
    assert_eq!(put("large.txt", &large, &[]).status, 507);
    assert_eq!(put("large.txt", &large, &["--header", "Transfer-Encoding: chunked"]).status, 507);
    for (name, more) in [
        ("inner/x.txt", &[][..]),
        ("..%2fx.txt", &[]),
        ("", &[]),
        ("cross.txt", &["--header", "Sec-Fetch-Site: cross-site"]),
    ] {
        let page = put(name, "up", more);
        assert!([400, 404].contains(&page.status), "{name}: {}", page.head);
    }
    // A refused upload does not count as a use of the link, and leaves no file behind.
    let rows = server.cli(&["link", "list"]);
    let row = rows.iter().find(|row| row["id"] == id.as_str()).unwrap();
    assert_eq!((&row["uses_left"], count()), (&Value::from(2), 3), "{row}");
    for below in ["/taken.txt", "/taken.txt?get", "/?zip", "/new.txt", "/absent", "/taken.txt/"] {
        let (page, absent) =
            (guest.open(&format!("{path}{below}")), guest.open(&format!("{path}/absent.txt?get")));
        if below != "/?zip" {
            assert_eq!(essence(&page), essence(&absent), "{below}");
        }
        assert!(!page.text().contains("taken") && !page.text().contains("mine"), "{below}");
    }
    // The user who made the link loses the right to add files. From now on, the link accepts no uploads.
    server.cli(&["acl", "set", "main", "/box", "allow authenticated read"]);
    assert_eq!((put("later.txt", "up", &[]).status, guest.open(&path).status), (404, 404));
}

#[test]
fn people_make_and_end_links_in_the_console() {
    let server = world();
    server.cli(&["user", "add", "root@local"]);
    super::set_password(&server, "root@local");
    server.cli(&["role", "assign", "--path", "/", "--auth-id", "root@local", "Admin"]);
    let (alice, bob, root) = (Browser::new(&server), Browser::new(&server), Browser::new(&server));
    alice.sign_in("alice");
    bob.sign_in("bob");
    root.sign_in("root@local");
    let create = |browser: &Browser<'_>, place: &str, more: &[(&str, &str)]| {
        browser.act(&format!("/console/share/main/{place}"), &[&[("days", "7")], more].concat())
    };
    let made = create(&alice, "shared/", &[("name", EVIL), ("uses", "2"), ("password", "sesame")]);
    assert_eq!(made.status, 200, "{}\n{}", made.text(), server.log());
    let text = made.text();
    let url = text.split("<code id=\"secret\">").nth(1).and_then(|rest| rest.split('<').next()).unwrap();
    let path = url.strip_prefix(&server.url("")).unwrap().to_owned();
    assert!(Browser::new(&server).open(&path).text().contains("type=\"password\""));
    let list = alice.open("/console/links").text();
    assert!(list.contains("main:/shared") && !list.contains(EVIL) && !list.contains(&path), "{list}");
    let id =
        list.split("name=\"id\" value=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap().to_owned();
    for (place, more, status) in [
        ("shared/", &[("days", "31")][..], 422),
        ("shared/", &[("uses", "0")], 422),
        ("shared/", &[("uses", "many")], 422),
        ("absent/", &[], 404),
        ("shared/a.txt", &[("drop", "yes")], 404),
    ] {
        let fields = [more, &[("days", "7")]].concat();
        let page = alice.act(&format!("/console/share/main/{place}"), &fields);
        assert_eq!(page.status, status, "{place} {more:?}: {}", page.text());
    }
    // Bob may read, so he can share for reading, and cannot make a drop box. He cannot share files that he cannot see.
    assert_eq!(create(&bob, "shared/", &[]).status, 200);
    assert_eq!(create(&bob, "shared/", &[("drop", "yes")]).status, 403);
    assert_eq!(create(&bob, "shared/veiled.txt", &[]).status, 404);
    // Bob can neither see nor end the link of alice. An administrator can do both.
    assert_eq!(bob.open("/console/links?of=all").status, 403);
    assert_eq!(bob.act("/console/links/end", &[("id", &id)]).status, 422);
    assert_eq!(bob.act("/console/links/end-any", &[("id", &id)]).status, 403);
    let all = root.open("/console/links?of=all").text();
    assert!(all.contains("alice@local") && all.contains("main:/shared"), "{all}");
    let rest = root.open("/console/links?of=all&from=1").text();
    let rows = |page: &str| page.matches("name=\"id\"").count();
    assert_eq!((rows(&all), rows(&rest)), (2, 1), "{rest}");
    // With the role Audit on `/access`, bob sees the links of other users, but not their paths.
    server.cli(&["role", "assign", "--path", "/access", "--auth-id", "bob@local", "Audit"]);
    let audited = bob.open("/console/links?of=all");
    assert_eq!(audited.status, 200);
    assert!(
        audited.text().contains("alice@local") && !audited.text().contains("/shared"),
        "{}",
        audited.text()
    );
    // A request without the session or the token of the form makes no link. An API token does not replace the session.
    let token = server.add_token("alice@local!narrow");
    for arguments in [&["--user", token.as_str(), "--data", "days=7"][..], &["--data", "days=7"]] {
        let page = Browser::new(&server).send("/console/share/main/shared/", arguments);
        assert_eq!(page.status, 303, "{}", page.head);
    }
    assert_eq!(alice.submit("/console/share/main/shared/", &[("days", "7")]).status, 403);
    assert_eq!(alice.act("/console/links/end", &[("id", &id)]).status, 303);
    assert_eq!(Browser::new(&server).open(&path).status, 404);
    assert_eq!(alice.act("/console/links/end", &[("id", &id)]).status, 422);
    let of_bob = server.cli(&["link", "list", "bob@local"])[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(root.act("/console/links/end-any", &[("id", &of_bob)]).status, 303);
    assert!(server.cli(&["link", "list"]).is_empty());
    let log = server.cli(&["facts", "log", "--last", "20"]);
    let made = |row: &&Value| row["what"].as_str().unwrap().starts_with("link create alice@local!link-");
    assert_eq!(log.iter().find(made).unwrap()["who"], "alice@local");
}

#[test]
fn of_links_of_a_user() {
    let server = Server::start();
    server.add_user("alice", "DatastoreReader");
    let limits = [("ENFILADE_LIMITS__LINKS_PER_USER", "2"), ("ENFILADE_LIMITS__LINK_SECONDS", "100")];
    let make = |expires: &str| {
        let arguments = ["link", "create", "main", "/", "--user", "alice@local", "--expires", expires];
        let made = server.cli_output_with(&limits, &arguments, "");
        String::from_utf8_lossy(&made.stderr).into_owned()
    };
    assert!(make("101s").contains("link_seconds") && make("never").contains("link_seconds"));
    assert_eq!((make("2s"), make("90s")), (String::new(), String::new()));
    assert!(make("90s").contains("links_per_user"));
    // An expired link does not count toward `links_per_user`, and is deleted.
    std::thread::sleep(std::time::Duration::from_millis(3_100));
    assert_eq!(make("90s"), "");
    assert_eq!(server.cli(&["link", "list"]).len(), 2);
}
