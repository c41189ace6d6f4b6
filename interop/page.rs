//! The HTML page, in a real Chromium that is controlled like a user's browser, and with curl for the functions that need no JavaScript.

use crate::curl::curl;
use crate::server::{Scratch, Server, free_port};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const HTML: [&str; 2] = ["--header", "Accept: text/html"];

#[test]
fn without_a_script_it_is_listed_and_downloaded() {
    let server = Server::start();
    let alice = server.add_user("alice", "DatastorePowerUser");
    let main = server.data().join("datastores/main");
    std::fs::create_dir(main.join("a <b> & \"c\"")).unwrap();
    std::fs::write(main.join("javascript:alert(1)"), "x").unwrap();
    std::fs::write(main.join("hidden"), "x").unwrap();
    server.cli(&["acl", "set", "main", "/", "allow authenticated full inherit=files,dirs", "--recursive"]);
    server.cli(&["acl", "set", "main", "/hidden", "allow admin@local full"]);
    let page = curl(&server, &alice, "/dav/main/", &HTML);
    let text = page.text();
    assert_eq!(page.status, 200);
    for (what, is_there) in [
        (">a &lt;b&gt; &amp; &quot;c&quot;</a>", true),
        ("href=\"/dav/main/a%20%3Cb%3E%20%26%20%22c%22/\"", true),
        ("href=\"/dav/main/javascript:alert%281%29\"", false),
        ("href=\"/dav/main/javascript:alert(1)\"", true),
        ("hidden\"", false),
        ("2 entries", true),
    ] {
        assert_eq!(text.contains(what), is_there, "{what} in {text}");
    }
    let policy = page.head.iter().find(|line| line.starts_with("content-security-policy: ")).unwrap();
    assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{policy}");
    assert_eq!(curl(&server, &alice, "/dav/main/javascript:alert(1)", &HTML).text(), "x");
    let moved = curl(&server, &alice, "/dav/main", &HTML);
    assert!(moved.status == 301 && moved.head.iter().any(|line| line == "location: /dav/main/"), "{moved:?}");
    assert_eq!(curl(&server, &alice, "/dav/main/", &[]).status, 405, "a program gets no page");
    assert!(curl(&server, &alice, "/dav/", &HTML).text().contains("href=\"/dav/main/\""));
    assert_eq!(curl(&server, "", "/dav/main/", &HTML).status, 401);
    // The page explains a refusal for a visible entry, but not for a hidden entry.
    let why = |path: &str| {
        let answer = curl(&server, &alice, path, &[]);
        (answer.status, serde_json::from_slice::<Value>(&answer.body).unwrap_or_default())
    };
    server.cli(&["acl", "set", "main", "/javascript:alert(1)", "allow authenticated read"]);
    let (status, told) = why("/dav/main/javascript:alert(1)?why=write");
    assert_eq!((status, &told["granted"]), (200, &json!(false)));
    assert!(told["walk"].to_string().contains("allow authenticated read"), "{told}");
    let says = |told: &Value| told["says"].as_str().unwrap().to_owned();
    assert!(
        says(&told).starts_with("Your role includes this right, but the access control list (ACL)"),
        "{told}"
    );
    // The name of the visitor's group replaces the SID of the group. A user who is not in the group does not learn the name.
    server.cli(&["group", "add", "family"]);
    server.cli(&[
        "acl",
        "set",
        "main",
        "/javascript:alert(1)",
        "allow @family read",
        "allow authenticated read",
    ]);
    let walk = || why("/dav/main/javascript:alert(1)?why=write").1["walk"].to_string();
    assert!(walk().contains("allow S-1-5-21-"), "{}", walk());
    server.cli(&["group", "member", "add", "family", "alice@local"]);
    assert!(walk().contains("allow @family@local read"), "{}", walk());
    let bob = server.add_user("bob", "DatastoreReader");
    let told = curl(&server, &bob, "/dav/main/?why=add-file", &[]);
    let told: Value = serde_json::from_slice(&told.body).unwrap();
    assert!(says(&told).starts_with("Your role DatastoreReader does not include this right. Ask "), "{told}");
    assert_eq!(why("/dav/main/hidden?why=write").0, 404);
    assert_eq!(why("/dav/main/gone?why=write").0, 404);
    assert_eq!(why("/dav/main/?why=fly").0, 400);
    // A browser would send these requests for a page of another site.
    for (site, status) in [("cross-site", 403), ("same-site", 403), ("same-origin", 204), ("none", 404)] {
        let header = format!("Sec-Fetch-Site: {site}");
        let asked = ["--request", "DELETE", "--header", &header];
        server.cli(&["acl", "set", "main", "/javascript:alert(1)", "allow authenticated full"]);
        assert_eq!(curl(&server, &alice, "/dav/main/javascript:alert(1)", &asked).status, status, "{site}");
        if status == 204 {
            break;
        }
    }
}

/// A script that returns the beginning of the page's text, its log and its dialog.
const TEXT: &str = "return document.body.innerText.slice(0, 300) + document.getElementById('log').innerText + document.querySelector('dialog').innerText";

/// A browser and its driver. Dropping the value ends both.
struct Browser {
    child: Child,
    session: String,
}

impl Browser {
    fn start() -> Self {
        let port = free_port();
        let mut command = Command::new("chromedriver");
        let child = command
            .arg(format!("--port={port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut browser = Browser { child, session: format!("http://127.0.0.1:{port}") };
        for _ in 0..600 {
            if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1100,800"];
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "acceptInsecureCerts": true, "goog:chromeOptions": { "args": arguments },
        } } });
        let made = browser.ask("POST", "/session", &wanted);
        browser.session = format!("{}/session/{}", browser.session, made["sessionId"].as_str().unwrap());
        browser
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--max-time", "60", "--request", method]);
        if method == "POST" {
            command.args(["--header", "Content-Type: application/json", "--data", &body.to_string()]);
        }
        let output = command.arg(format!("{}{path}", self.session)).output().unwrap();
        let mut answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        answer["value"].take()
    }

    fn go(&self, url: &str) {
        self.ask("POST", "/url", &json!({ "url": url }));
    }

    fn find(&self, selector: &str) -> String {
        for _ in 0..600 {
            let found = self.ask("POST", "/element", &json!({ "using": "css selector", "value": selector }));
            if let Some(id) =
                found.as_object().and_then(|found| found.values().next()?.as_str()).filter(|id| id.len() > 20)
            {
                return id.to_owned();
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("there is no `{selector}` on the page: {}", self.run(TEXT));
    }

    fn click(&self, selector: &str) {
        self.ask("POST", &format!("/element/{}/click", self.find(selector)), &json!({}));
    }

    fn type_into(&self, selector: &str, text: &str) {
        let id = self.find(selector);
        self.ask("POST", &format!("/element/{id}/value"), &json!({ "text": text }));
    }

    fn run(&self, script: &str) -> Value {
        self.ask("POST", "/execute/sync", &json!({ "script": script, "args": [] }))
    }

    fn until(&self, script: &str) {
        for _ in 0..600 {
            if self.run(script) == json!(true) {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("`{script}` does not come true: {}", self.run(TEXT));
    }

    /// Saves a screenshot of the page.
    fn keep(&self, name: &str) {
        let picture = self.ask("GET", "/screenshot", &Value::Null);
        let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/pages");
        std::fs::create_dir_all(&place).unwrap();
        let text = place.join(format!("{name}.base64"));
        std::fs::write(&text, picture.as_str().unwrap_or_default()).unwrap();
        let decoded = Command::new("base64").arg("-d").arg(&text).output().unwrap().stdout;
        std::fs::write(place.join(format!("{name}.png")), decoded).unwrap();
        std::fs::remove_file(text).unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.ask("DELETE", "", &Value::Null);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_browser_uploads_makes_renames_deletes_and_asks_why() {
    if Command::new("chromedriver").arg("--version").output().is_err() {
        assert!(
            std::env::var_os("ENFILADE_CAMPAIGN_N").is_none(),
            "`apt-get install chromium chromium-driver`"
        );
        println!("not asserted: there is no Chromium here; `cargo xtask page` asks for it");
        return;
    }
    let server = Server::start();
    let alice = server.add_user("alice", "DatastorePowerUser");
    let main = server.data().join("datastores/main");
    std::fs::create_dir(main.join("fixed")).unwrap();
    for n in 0..2000 {
        std::fs::write(main.join(format!("row-{n:04}")), "x").unwrap();
    }
    server.cli(&["acl", "set", "main", "/", "allow authenticated full inherit=files,dirs", "--recursive"]);
    server.cli(&["acl", "set", "main", "/fixed", "allow authenticated read"]);
    let scratch = Scratch::new();
    let upload = scratch.path().join("up <load>.txt");
    std::fs::write(&upload, "what went up").unwrap();
    let browser = Browser::start();
    let url = server.url("/dav/main/");
    let login = alice.replace('@', "%40").replacen(':', "\u{0}", 1).replace('!', "%21").replace('\u{0}', ":");
    browser.go(&url.replace("https://", &format!("https://{login}@")));
    // From now on the browser sends the credential.
    browser.go(&url);
    browser.until("return document.querySelectorAll('.entry').length === 2001");
    browser.keep("listing");
    browser.type_into("#filter", "row-19");
    browser
        .until("return [...document.querySelectorAll('.entry')].filter((row) => !row.hidden).length === 100");
    browser.run("document.getElementById('filter').value = ''; document.getElementById('filter').dispatchEvent(new Event('input'))");
    browser.click(".head [name=size]");
    browser.until(
        "return document.querySelector('.head [name=size]').getAttribute('aria-sort') === 'ascending'",
    );
    browser.type_into("#files", upload.to_str().unwrap());
    browser.until(
        "return [...document.querySelectorAll('.entry')].some((row) => row.dataset.name === 'up <load>.txt')",
    );
    assert_eq!(std::fs::read_to_string(main.join("up <load>.txt")).unwrap(), "what went up");
    browser.click("#folder");
    browser.type_into("dialog input", "made here");
    browser.click("dialog [value=yes]");
    browser.until(
        "return [...document.querySelectorAll('.dir')].some((row) => row.dataset.name === 'made here')",
    );
    assert!(main.join("made here").is_dir());
    browser.click("[data-name='up <load>.txt'] [name=rename]");
    browser.run("document.querySelector('dialog input').value = 'made here/moved.txt'");
    browser.click("dialog [value=yes]");
    browser.until("return ![...document.querySelectorAll('.entry')].some((row) => row.dataset.name === 'up <load>.txt')");
    assert_eq!(std::fs::read_to_string(main.join("made here/moved.txt")).unwrap(), "what went up");
    browser.click("[data-name='made here'] [name=delete]");
    browser.click("dialog [value=yes]");
    browser.until("return !document.querySelector('[data-name=\\'made here\\']')");
    assert!(!main.join("made here").exists());
    // The page shows the reason of a refused change.
    browser.go(&server.url("/dav/main/fixed/"));
    browser.click("#folder");
    browser.type_into("dialog input", "not here");
    browser.click("dialog [value=yes]");
    browser.click("#log .bad button");
    browser.until("return document.querySelector('dialog').innerText.includes('allow authenticated read')");
    browser.keep("why");
    assert!(!main.join("fixed/not here").exists());
    let errors = browser.ask("POST", "/se/log", &json!({ "type": "browser" })).to_string();
    assert!(!errors.contains("Content Security Policy"), "{errors}");
}
