//! Limits of the pages of the console, the setting that switches the console off, and downloads that pages of other sites start.

use super::{Browser, server, server_with};
use crate::curl::curl;

/// The target of the link to the next page.
fn next(text: &str) -> Option<String> {
    let link = text.split("rel=\"next\" href=\"").nth(1)?;
    link.split('"').next().map(|link| link.replace("&amp;", "&"))
}

#[test]
fn sessions_and_tokens_of_an_account_have_pages() {
    let server = server();
    // A user may sign in 60 times in a minute.
    for _ in 0..54 {
        Browser::new(&server).sign_in("alice");
    }
    for n in 0..105 {
        server.cli(&["token", "create", &format!("alice@local!t{n:03}")]);
    }
    let browser = Browser::new(&server);
    browser.sign_in("alice");
    // The page has no form that ends the session of this browser. Sessions of the same second can have any order, so the session of this browser can
    // be on either page.
    for (query, form, counts) in [
        ("sessions", "/console/account/end-session", [[49, 5], [50, 4]]),
        ("tokens", "/console/account/delete-token", [[100, 6]; 2]),
    ] {
        let found = [0, 1].map(|page| {
            let text = browser.open(&format!("/console/account?{query}={page}")).text();
            assert_eq!(text.contains(&format!("?{query}=1")), page == 0, "{query} {page}");
            text.matches(&format!("action=\"{form}\"")).count()
        });
        assert!(counts.contains(&found), "{query}: {found:?}");
    }
}

#[test]
fn pages_of_datastores_ask_a_bounded_number_of_datastores() {
    let server = server();
    server.cli(&["user", "add", "root@local"]);
    super::set_password(&server, "root@local");
    server.cli(&["role", "assign", "--path", "/", "--auth-id", "root@local", "Admin"]);
    for n in 0..64 {
        let path = server.data().join(format!("datastores/s{n:02}"));
        let name = format!("store{n:02}");
        server.cli(&["datastore", "create", &name, "--path", path.to_str().unwrap()]);
    }
    let browser = Browser::new(&server);
    browser.sign_in("root@local");
    for (url, mark, most) in
        [("/console/datastores", "name=\"mode\"", 20), ("/console/", "class=\"card tile\"", 60)]
    {
        let (mut at, mut counts) = (url.to_owned(), Vec::new());
        loop {
            let page = browser.open(&at);
            assert_eq!(page.status, 200, "{at}");
            counts.push(page.text().matches(mark).count());
            let Some(next) = next(&page.text()) else { break };
            at = format!("{url}{next}");
        }
        assert!(counts.iter().all(|count| *count <= most), "{url}: {counts:?}");
        assert_eq!(counts.iter().sum::<usize>(), 65, "{url}: {counts:?}");
    }
}

#[test]
fn a_page_of_another_site_cannot_start_a_download() {
    let server = server();
    let main = server.data().join("datastores/main");
    std::fs::create_dir(main.join("folder")).unwrap();
    std::fs::write(main.join("folder/a.txt"), "content").unwrap();
    server.cli(&["acl", "set", "main", "/", "allow authenticated full inherit=files,dirs", "--recursive"]);
    server.cli(&["user", "add", "root@local"]);
    super::set_password(&server, "root@local");
    server.cli(&["role", "assign", "--path", "/", "--auth-id", "root@local", "Admin"]);
    let browser = Browser::new(&server);
    browser.sign_in("root@local");
    for path in ["content/main/folder/a.txt", "zip/main/folder/", "review-csv/main/"] {
        for (site, status) in [("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)] {
            let site = format!("Sec-Fetch-Site: {site}");
            let headers = ["Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document", site.as_str()];
            let arguments: Vec<&str> = headers.iter().flat_map(|header| ["--header", header]).collect();
            let page = browser.send(&format!("/console/{path}"), &arguments);
            assert_eq!(page.status, status, "{path} {site}");
        }
    }
}

#[test]
fn the_console_can_be_switched_off() {
    let server = server_with(&[("ENFILADE_CONSOLE__ENABLED", "false")]);
    let as_browser = ["--header", "Accept: text/html", "--header", "Sec-Fetch-Mode: navigate"];
    let root = curl(&server, "", "/", &as_browser);
    assert!(root.status == 300 && root.text().contains("\"versions\""), "{root:?}");
    for path in ["/console", "/console/", "/console/sign-in", "/console/assets/x", "/console/files/main/"] {
        assert_eq!(curl(&server, "", path, &as_browser).status, 404, "{path}");
    }
    assert_eq!(curl(&server, "", "/console/sign-in", &["--data", "user=alice"]).status, 404);
}
