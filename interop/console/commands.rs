//! Every command of the program is on a page of the console, or has a row with a reason in `docs/console.md`.

use super::{Browser, set_password};
use crate::every_command::names_of_commands;
use std::collections::BTreeSet;
use std::path::Path;

/// The pages with commands. Together they have all forms.
const PAGES: [&str; 18] = [
    "",
    "files/main/",
    "files/main/a.txt",
    "links",
    "account",
    "explain?who=alice%40local&right=read&datastore=main&path=%2F",
    // The ACL or the mode bits of this file refuse the right. So the page shows the command `acl get`.
    "explain?who=alice%40local&right=write&datastore=main&path=%2Fb.txt",
    "review/main/",
    "users",
    "users?user=alice%40local",
    "groups",
    "roles",
    "datastores",
    "applications",
    "certificates",
    "keys",
    "changes",
    "refusals",
];

/// The commands in the first column of the table below this heading.
fn with_reason(page: &str) -> BTreeSet<&str> {
    let (_, rest) = page.split_once("## Commands without a page").unwrap();
    let section = rest.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.flat_map(|row| row.split(" | ").next().unwrap().split('`').skip(1).step_by(2)).collect()
}

#[test]
fn each_command_is_on_a_page_or_has_a_reason() {
    let server = super::server();
    server.cli(&["user", "add", "root@local"]);
    set_password(&server, "root@local");
    server.cli(&["role", "assign", "--path", "/", "--auth-id", "root@local", "Admin"]);
    server.cli(&["group", "add", "staff"]);
    server.cli(&["application", "create", "wiki", "--host", "wiki.example.com"]);
    server.cli(&["acl", "set", "main", "/", "allow authenticated full inherit=files,dirs", "--recursive"]);
    for name in ["a.txt", "b.txt"] {
        std::fs::write(server.data().join("datastores/main").join(name), "a").unwrap();
    }
    let root = Browser::new(&server);
    root.sign_in("root@local");
    let open = |page: &str| {
        let answer = root.open(&format!("/console/{page}"));
        assert_eq!(answer.status, 200, "{page}: {}", answer.text());
        answer.text()
    };
    let shown: String = PAGES.into_iter().chain(["health"]).map(open).collect();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/console.md");
    let page = std::fs::read_to_string(page).unwrap();
    let reasons = with_reason(&page);
    let all = names_of_commands();
    let is_shown = |command: &str| shown.contains(&format!("enfilade {command}"));
    let missing: Vec<_> =
        all.iter().filter(|command| !is_shown(command) && !reasons.contains(*command)).collect();
    assert!(missing.is_empty(), "on no page, and without a reason in docs/console.md: {missing:?}");
    let unknown: Vec<_> = reasons.difference(&all).collect();
    assert!(unknown.is_empty(), "no such commands: {unknown:?}");
}
