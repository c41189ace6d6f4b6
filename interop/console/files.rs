//! Files in the console: listing, uploads, changes, downloads and archives. Other tests check that the console does not reveal hidden files.

use super::{Browser, server};
use std::process::Command;

/// A server with files, and alice, who is signed in. Bob may not see `veiled` and `secret.txt`.
fn world() -> crate::server::Server {
    let server = server();
    let main = server.data().join("datastores/main");
    for name in ["b.txt", "A.txt", "secret.txt", "page.html"] {
        std::fs::write(main.join(name), format!("<script>{name}</script>")).unwrap();
    }
    std::fs::write(main.join("dot.png"), b"\x89PNG\r\n\x1a\n").unwrap();
    std::fs::create_dir_all(main.join("folder/inner")).unwrap();
    std::fs::create_dir(main.join("veiled")).unwrap();
    std::fs::write(main.join("folder/inner/deep note.txt"), "deep").unwrap();
    std::fs::write(main.join("folder/empty"), "").unwrap();
    server.cli(&["acl", "set", "main", "/", "allow authenticated full inherit=files,dirs", "--recursive"]);
    for path in ["/veiled", "/secret.txt"] {
        server.cli(&["acl", "set", "main", path, "allow alice@local full"]);
    }
    server
}

pub(super) fn names(text: &str) -> Vec<String> {
    let links = text.split("<a class=\"entry").skip(1);
    links
        .map(|link| link.split("<span>").nth(1).unwrap().split("</span>").next().unwrap().to_owned())
        .collect()
}

#[test]
fn a_folder_is_listed_in_order_and_a_hidden_entry_is_absent() {
    let server = world();
    let (alice, bob) = (Browser::new(&server), Browser::new(&server));
    alice.sign_in("alice");
    bob.sign_in("bob");
    let page = alice.open("/console/files/main/");
    assert_eq!(page.status, 200, "{}", server.log());
    let all = ["folder", "veiled", "A.txt", "b.txt", "dot.png", "page.html", "secret.txt"];
    assert_eq!(names(&page.text()), all);
    let of_bob = bob.open("/console/files/main/");
    assert_eq!(names(&of_bob.text()), ["folder", "A.txt", "b.txt", "dot.png", "page.html"]);
    // Bob may only read. The page offers him only the actions that he may do.
    assert!(page.text().contains("id=\"upload\"") && !of_bob.text().contains("id=\"upload\""));
    for order in ["size", "time"] {
        assert_eq!(
            names(&alice.open(&format!("/console/files/main/?sort={order}")).text()).len(),
            7,
            "{order}"
        );
    }
    // Every page about a hidden object is the same as the page about an absent object.
    for area in ["files", "content", "zip", "why", "search"] {
        for (hidden, absent) in [("veiled/", "absent/"), ("secret.txt", "absent.txt"), ("veiled", "absent")] {
            let answer = |name: &str| {
                let page = bob.open(&format!("/console/{area}/main/{name}"));
                let text = page.text();
                let id = text.split("Request <code>").nth(1).and_then(|rest| rest.split('<').next());
                let text = text.replace(id.unwrap_or("no id"), "ID").replace(name, "NAME");
                (page.status, text.replace(name.trim_end_matches('/'), "NAME"))
            };
            assert_eq!(answer(hidden), answer(absent), "{area} {hidden}");
            assert!(answer(absent).0 >= 400, "{area} {absent}");
        }
    }
    for change in ["new-folder", "rename", "remove", "move", "delete"] {
        let status = |place: &str| {
            bob.act(&format!("/console/files/main/{place}"), &[("do", change), ("name", "x"), ("to", "y")])
                .status
        };
        assert_eq!(status("veiled/"), status("absent/"), "{change}");
    }
    assert!(!bob.open("/console/search/main/?q=secret").text().contains("secret.txt</span>"));
    assert_eq!(names(&bob.open("/console/search/main/?q=NOTE").text()), ["folder/inner/deep note.txt"]);
    let zipped = bob.open("/console/zip/main/");
    assert!(zipped.status == 200 && !zipped.text().contains("secret") && !zipped.text().contains("veiled"));
    // A datastore in which bob has no role looks absent, too.
    let other = server.data().join("datastores/other");
    server.cli(&["datastore", "create", "other", "--path", other.to_str().unwrap()]);
    for area in ["files", "zip", "search", "review"] {
        let status = |name: &str| bob.open(&format!("/console/{area}/{name}/")).status;
        assert_eq!(status("other"), status("absent"), "{area}");
    }
}

#[test]
fn a_large_folder_has_pages() {
    let server = server();
    let main = server.data().join("datastores/main");
    std::fs::create_dir(main.join("many")).unwrap();
    for n in 0..250 {
        std::fs::write(main.join(format!("many/f{n:03}")), "x".repeat(n)).unwrap();
    }
    let browser = Browser::new(&server);
    browser.sign_in("alice");
    for sort in ["", "?sort=size", "?sort=time"] {
        let (mut url, mut found) = (format!("/console/files/main/many/{sort}"), Vec::new());
        loop {
            let page = browser.open(&url);
            let text = page.text();
            assert!(page.status == 200 && page.body.len() < 80_000, "{url}: {}", page.body.len());
            found.extend(names(&text));
            let next = text.split("rel=\"next\" href=\"").nth(1).map(|rest| rest.split('"').next().unwrap());
            let Some(next) = next else { break };
            url = format!("/console/files/main/many/{}", next.replace("&amp;", "&"));
        }
        assert_eq!(found.len(), 250, "{sort}");
        found.sort();
        found.dedup();
        assert_eq!(found.len(), 250, "{sort}");
    }
    let first = names(&browser.open("/console/files/main/many/?sort=size").text());
    assert_eq!(first[..2], ["f249", "f248"]);
}

#[test]
fn files_are_uploaded_changed_and_downloaded() {
    let server = world();
    let (alice, bob) = (Browser::new(&server), Browser::new(&server));
    alice.sign_in("alice");
    bob.sign_in("bob");
    let main = server.data().join("datastores/main");
    let put = |browser: &Browser<'_>, path: &str, content: &str, more: &[&str]| {
        let csrf = format!("X-Csrf-Token: {}", browser.open("/console/").csrf());
        let origin = browser.origin();
        let arguments =
            ["--request", "PUT", "--header", &csrf, "--header", &origin, "--data-binary", content];
        browser.send(&format!("/console/files/main/{path}"), &[&arguments[..], more].concat())
    };
    let is_new = ["--header", "If-None-Match: *"];
    assert_eq!(put(&alice, "up%20%3Cload%3E.txt", "went up", &is_new).status, 201, "{}", server.log());
    assert_eq!(std::fs::read_to_string(main.join("up <load>.txt")).unwrap(), "went up");
    assert_eq!(put(&alice, "up%20%3Cload%3E.txt", "again", &is_new).status, 412);
    assert_eq!(put(&alice, "up%20%3Cload%3E.txt", "again", &[]).status, 204);
    let large = "x".repeat(1 << 20);
    let file = main.join("../../large");
    std::fs::write(&file, &large).unwrap();
    assert_eq!(put(&alice, "large", &format!("@{}", file.to_str().unwrap()), &[]).status, 201);
    assert_eq!(std::fs::read_to_string(main.join("large")).unwrap(), large);
    assert_eq!(alice.open("/console/content/main/large").text(), large);
    assert_eq!(put(&bob, "new.txt", "x", &[]).status, 403);
    // Without the token of the session, or from another site, nothing is written.
    let (own, csrf) = (alice.origin(), format!("X-Csrf-Token: {}", alice.open("/console/").csrf()));
    for headers in [
        &[own.as_str()][..],
        &[csrf.as_str()],
        &[csrf.as_str(), "Origin: https://evil.example"],
        &[own.as_str(), "X-Csrf-Token: 00"],
    ] {
        let mut arguments = vec!["--request", "PUT", "--data-binary", "x"];
        headers.iter().for_each(|header| arguments.extend(["--header", header]));
        assert_eq!(alice.send("/console/files/main/forged", &arguments).status, 403, "{headers:?}");
    }
    assert!(!main.join("forged").exists());
    // A file that a user uploaded is never displayed as a page of the console.
    for (path, kind, shown) in [
        ("page.html", "application/octet-stream", "attachment"),
        ("page.html?show", "application/octet-stream", "attachment"),
        ("dot.png", "application/octet-stream", "attachment"),
        ("dot.png?show", "image/png", "inline"),
    ] {
        let file = alice.open(&format!("/console/content/main/{path}"));
        assert_eq!((file.status, file.header("content-type")), (200, kind), "{path}");
        assert!(file.header("content-disposition").starts_with(shown), "{path}: {}", file.head);
        assert!(file.header("content-security-policy").starts_with("sandbox;"), "{path}: {}", file.head);
        assert_eq!(file.header("x-content-type-options"), "nosniff");
    }
    let view = alice.open("/console/files/main/page.html").text();
    assert!(
        view.contains("&lt;script&gt;page.html&lt;/script&gt;") && !view.contains("<script>page"),
        "{view}"
    );
    // The forms of the page create, rename and delete entries.
    let act = |path: &str, fields: &[(&str, &str)]| alice.act(&format!("/console/files/main/{path}"), fields);
    let made = act("", &[("do", "new-folder"), ("name", "made <here>")]);
    assert_eq!(
        (made.status, made.header("location")),
        (303, "/console/files/main/made%20%3Chere%3E/?done=folder")
    );
    for (name, why) in [
        ("made <here>", "Something with this name exists already"),
        ("a/b", "cannot be the name"),
        ("..", "cannot be the name"),
    ] {
        let again = act("", &[("do", "new-folder"), ("name", name)]);
        assert!(
            again.status == 422 && again.text().contains(why),
            "{name}: {} {}",
            again.status,
            again.text()
        );
    }
    let moved = act("b.txt", &[("do", "rename"), ("to", "/folder/c.txt")]);
    assert_eq!(
        (moved.status, moved.header("location")),
        (303, "/console/files/main/folder/c.txt?done=moved")
    );
    assert_eq!(act("A.txt", &[("do", "rename"), ("to", "dot.png")]).status, 422, "nothing is replaced");
    assert_eq!(
        act("", &[("do", "move"), ("pick", "A.txt"), ("pick", "dot.png"), ("to", "folder")]).status,
        303
    );
    assert!(main.join("folder/A.txt").exists() && main.join("folder/dot.png").exists());
    assert_eq!(act("folder/", &[("do", "delete"), ("pick", "A.txt"), ("pick", "inner")]).status, 303);
    assert!(!main.join("folder/A.txt").exists() && !main.join("folder/inner").exists());
    assert_eq!(act("", &[("do", "delete")]).status, 422, "nothing is selected");
    let removed = act("folder/", &[("do", "remove")]);
    let to_trash = "/console/files/main/?done=trashed&undo=";
    assert!(removed.header("location").starts_with(to_trash), "{removed:?}");
    assert!(!main.join("folder").exists());
    assert_eq!(bob.act("/console/files/main/page.html", &[("do", "remove")]).status, 422);
    assert!(main.join("page.html").exists());
    // Uploads with a session that was ended are refused.
    server.cli(&["session", "end", "alice@local"]);
    let csrf = csrf.as_str();
    let late = ["--request", "PUT", "--header", csrf, "--header", own.as_str(), "--data-binary", "x"];
    let late = alice.send("/console/files/main/late", &late);
    assert!(late.status == 403 && late.text().contains("signed out") && !main.join("late").exists());
}

#[test]
fn a_folder_is_downloaded_as_an_archive_that_other_programs_open() {
    let server = world();
    let main = server.data().join("datastores/main");
    std::fs::write(main.join("folder/ä large"), "0123456789".repeat(100_000)).unwrap();
    let browser = Browser::new(&server);
    browser.sign_in("alice");
    let page = browser.open("/console/zip/main/folder/");
    assert_eq!(page.header("content-disposition"), "attachment; filename*=UTF-8''folder.zip");
    let file = server.data().join("../folder.zip");
    std::fs::write(&file, &page.body).unwrap();
    let script = "import sys, zipfile\nz = zipfile.ZipFile(sys.argv[1])\nassert z.testzip() is None\n\
        print(sorted((i.filename, i.file_size) for i in z.infolist()))\nprint(z.read('inner/deep note.txt'))";
    let read = Command::new("python3").args(["-c", script]).arg(&file).output().unwrap();
    let said = String::from_utf8_lossy(&read.stdout).into_owned();
    assert_eq!(
        said,
        "[('empty', 0), ('inner/', 0), ('inner/deep note.txt', 4), ('ä large', 1000000)]\nb'deep'\n",
        "{}",
        String::from_utf8_lossy(&read.stderr)
    );
}

/// The CPU time of the server so far, in clock ticks of 10 ms.
fn ticks(server: &crate::server::Server) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.pid())).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn the_first_page_of_a_folder_with_41000_entries_takes_less_than_50_ms_of_cpu() {
    let server = server();
    let many = server.data().join("datastores/main/many");
    std::fs::create_dir(&many).unwrap();
    for n in 0..41_000 {
        std::fs::File::create(many.join(format!("file {n:05}"))).unwrap();
    }
    // Two seconds after a change, the times of the folder certainly show the change. From this moment on, the server remembers the names.
    std::thread::sleep(std::time::Duration::from_secs(3));
    let browser = Browser::new(&server);
    browser.sign_in("alice");
    let open = |query: &str| {
        let page = browser.open(&format!("/console/files/main/many/{query}"));
        assert_eq!(page.status, 200, "{}", page.text());
        names(&page.text())
    };
    assert_eq!(open("")[0], "file 00000");
    let (count, before) = (20, ticks(&server));
    for _ in 0..count {
        open("");
    }
    let millis = (ticks(&server) - before) * 10 / count;
    assert!(millis < 50, "{millis} ms");
    // A page in the middle takes no more time, because the page begins after a name and not after a number of entries.
    assert_eq!(open("?after=file:file+20499")[0], "file 20500");
}
