//! The trash of the console: undo, restoring, rights, quotas, and the removal of old items.

use super::{Browser, Page, server, server_with, set_password};
use crate::curl::{PROPFIND_1, curl};
use crate::server::{Server, until};
use std::path::PathBuf;

/// A server with files. Alice and carol may change all files, bob may read all files, and root is an administrator.
fn world_with(environment: &[(&str, &str)]) -> Server {
    let server = server_with(environment);
    server.add_user("carol", "DatastorePowerUser");
    server.cli(&["user", "add", "root@local"]);
    server.cli(&["role", "assign", "--path", "/", "--auth-id", "root@local", "Admin"]);
    for user in ["carol@local", "root@local"] {
        set_password(&server, user);
    }
    let main = main_of(&server);
    std::fs::create_dir_all(main.join("folder/inner")).unwrap();
    std::fs::write(main.join("folder/inner/note.txt"), "deep").unwrap();
    std::fs::write(main.join("b.txt"), "the b").unwrap();
    std::fs::create_dir(main.join("project")).unwrap();
    std::fs::write(main.join("project/plan.txt"), "plan").unwrap();
    server.cli(&["acl", "set", "main", "/", "allow authenticated full inherit=files,dirs", "--recursive"]);
    server
}

fn main_of(server: &Server) -> PathBuf {
    server.data().join("datastores/main")
}

fn signed_in<'s>(server: &'s Server, user: &str) -> Browser<'s> {
    let browser = Browser::new(server);
    browser.sign_in(user);
    browser
}

fn act(browser: &Browser<'_>, path: &str, fields: &[(&str, &str)]) -> Page {
    browser.act(&format!("/console/files/main/{path}"), fields)
}

/// The names of the items that a redirect offers to restore.
fn undo_of(page: &Page) -> Vec<String> {
    let location = page.header("location");
    let names = location.split_once("?done=trashed&undo=").map(|(_, names)| names).unwrap_or_default();
    names.split('.').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// The paths and the ids of the items on a page.
fn items(page: &Page) -> Vec<(String, String)> {
    let text = page.text();
    let rows = text.split("name=\"item\" value=\"").skip(1);
    let quoted = |text: &str| text.split('"').next().unwrap().to_owned();
    rows.map(|row| (quoted(row.split("name=\"to\" value=\"").nth(1).unwrap()), quoted(row))).collect()
}

const TRASH: &str = "/console/trash/main/";

#[test]
fn what_the_console_deletes_is_out_of_reach_until_it_is_restored() {
    let server = world_with(&[]);
    let (token, main) = (server.add_token("admin@local!t"), main_of(&server));
    let alice = signed_in(&server, "alice");
    server.cli(&["acl", "set", "main", "/folder/inner", "allow alice@local full"]);
    let acl = crate::server::read_acl(&main.join("folder/inner"));
    let deleted = act(&alice, "folder/", &[("do", "remove")]);
    let names = undo_of(&deleted);
    assert_eq!((deleted.status, names.len()), (303, 1), "{deleted:?}");
    assert!(!main.join("folder").exists() && main.join(".enfilade-trash").is_dir());
    // No path, listing, archive or search leads into the trash.
    for path in ["/dav/main/.enfilade-trash/", "/dav/main/.enfilade-trash", "/dav/main/%2Eenfilade-trash/x"] {
        assert_eq!(curl(&server, &token, path, &[]).status, 400, "{path}");
        for arguments in [
            &["--request", "MOVE", "--header", "Destination: /dav/main/x"][..],
            &["--request", "COPY", "--header", "Destination: /dav/main/x"],
            &["--request", "DELETE"],
            &PROPFIND_1,
        ] {
            assert_eq!(curl(&server, &token, path, arguments).status, 400, "{path} {arguments:?}");
        }
        let to = format!("Destination: {path}x");
        let moved = curl(&server, &token, "/dav/main/b.txt", &["--request", "MOVE", "--header", &to]);
        assert_eq!(moved.status, 400);
    }
    let listed =
        curl(&server, &token, "/dav/main/", &["--request", "PROPFIND", "--header", "Depth: infinity"]);
    assert!(listed.status == 207 && !listed.text().contains("trash") && !listed.text().contains("note.txt"));
    for path in ["files/main/.enfilade-trash/", "zip/main/.enfilade-trash/", "content/main/.enfilade-trash/x"]
    {
        assert_eq!(alice.open(&format!("/console/{path}")).status, 400, "{path}");
    }
    for text in [alice.open("/console/search/main/?q=note").text(), alice.open("/console/zip/main/").text()] {
        assert!(!text.contains("note.txt") && !text.contains("enfilade-trash"), "{text}");
    }
    let doctor = String::from_utf8_lossy(&server.cli_output(&["doctor"], "").stdout).into_owned();
    assert!(!doctor.contains("cannot be shown"), "{doctor}");
    let review = server.cli_output(&["acl", "review", "main", "/"], "");
    assert!(!String::from_utf8_lossy(&review.stdout).contains("trash"));
    // The message offers undo, and the form restores the folder with its ACL.
    let page = alice.open(deleted.header("location"));
    assert!(
        page.status == 200 && page.text().contains("Moved to the trash.") && page.text().contains("Undo")
    );
    // A link with an invalid list of items offers no undo.
    for undo in ["x", "", &"0".repeat(31), &vec![names[0].as_str(); 101].join(".")] {
        let page = alice.open(&format!("/console/files/main/?done=trashed&undo={undo}"));
        assert!(page.status == 200 && !page.text().contains("Undo"), "{undo}");
    }
    let fields = [("do", "undo"), ("item", names[0].as_str())];
    assert_eq!(alice.submit(TRASH, &fields).status, 403, "without the token of the session");
    let undone = alice.act(TRASH, &fields);
    assert_eq!((undone.status, undone.header("location")), (303, "/console/files/main/?done=restored"));
    assert_eq!(std::fs::read_to_string(main.join("folder/inner/note.txt")).unwrap(), "deep");
    assert_eq!(crate::server::read_acl(&main.join("folder/inner")), acl);
    assert!(items(&alice.open(TRASH)).is_empty());
    assert_eq!(alice.act(TRASH, &fields).status, 422, "nothing is restored twice");
    // Several entries are deleted and restored together.
    let deleted = act(&alice, "", &[("do", "delete"), ("pick", "b.txt"), ("pick", "project")]);
    let names = undo_of(&deleted);
    assert_eq!(names.len(), 2);
    let fields = [("do", "undo"), ("item", names[0].as_str()), ("item", names[1].as_str())];
    assert_eq!(alice.act(TRASH, &fields).status, 303);
    assert!(main.join("b.txt").exists() && main.join("project/plan.txt").exists());
    // DELETE of WebDAV, and "Delete for good", leave nothing in the trash.
    assert_eq!(curl(&server, &token, "/dav/main/b.txt", &["--request", "DELETE"]).status, 204);
    let erased = act(&alice, "project/", &[("do", "erase")]);
    assert_eq!(erased.header("location"), "/console/files/main/?done=deleted");
    let page = signed_in(&server, "root@local").open(&format!("{TRASH}?of=all"));
    assert!(page.status == 200 && items(&page).is_empty(), "{}", page.text());
}

#[test]
fn only_the_user_and_an_administrator_see_an_item() {
    let server = world_with(&[]);
    let (alice, carol) = (signed_in(&server, "alice"), signed_in(&server, "carol"));
    let (bob, root) = (signed_in(&server, "bob"), signed_in(&server, "root@local"));
    assert_eq!(act(&alice, "b.txt", &[("do", "remove")]).status, 303);
    let (path, id) = items(&alice.open(TRASH)).remove(0);
    assert_eq!(path, "/b.txt");
    // Other users get the same answers about this item as about an item that does not exist.
    let zeros = format!("{}-{}", &id[..32], "0".repeat(32));
    let foreign = format!("{}-{}", "1".repeat(32), &id[33..]);
    for other in [&carol, &bob] {
        assert!(items(&other.open(TRASH)).is_empty());
        assert_eq!(other.open(&format!("{TRASH}?of=all")).status, 403);
        for change in ["restore", "purge"] {
            let answer = |id: &str| {
                let page = other.act(TRASH, &[("do", change), ("item", id), ("to", "/x")]);
                let text = page.text();
                let alert =
                    text.split("role=\"alert\"").nth(1).unwrap().split("</div></div>").next().unwrap();
                (page.status, alert.to_owned())
            };
            let absent = answer(&zeros);
            assert_eq!(absent.0, 422);
            for id in [id.as_str(), &foreign, "x", ""] {
                assert_eq!(answer(id), absent, "{change} {id}");
            }
        }
    }
    assert_eq!(bob.open("/console/trash/absent/").status, bob.open("/console/trash/mai/").status);
    assert_eq!(alice.open("/console/trash/main/folder/").status, 404);
    let of_all = root.open(&format!("{TRASH}?of=all"));
    assert_eq!(items(&of_all), [(path.clone(), id.clone())]);
    assert!(of_all.text().contains("alice@local"), "{}", of_all.text());
    assert!(items(&root.open(TRASH)).is_empty());
    // The action `empty` of an administrator empties only the administrator's own trash.
    assert_eq!(root.act(TRASH, &[("do", "empty")]).status, 303);
    assert_eq!(items(&alice.open(TRASH)).len(), 1);
    let fields = [("do", "restore"), ("item", id.as_str()), ("to", "/folder/b.txt")];
    assert_eq!(root.act(&format!("{TRASH}?of=all"), &fields).status, 303);
    assert_eq!(std::fs::read_to_string(main_of(&server).join("folder/b.txt")).unwrap(), "the b");
    // A user who may no longer see the path does not see the item.
    assert_eq!(act(&alice, "project/plan.txt", &[("do", "remove")]).status, 303);
    let id = items(&alice.open(TRASH)).remove(0).1;
    let main = ["--path", "/datastore/main", "--auth-id", "alice@local", "DatastorePowerUser"];
    server.cli(&[&["role", "remove"], &main[..]].concat());
    let folder = ["--path", "/datastore/main/folder", "--auth-id", "alice@local", "DatastoreAdmin"];
    server.cli(&[&["role", "assign"], &folder[..]].concat());
    assert!(items(&alice.open(TRASH)).is_empty());
    for change in ["restore", "purge"] {
        let fields = [("do", change), ("item", id.as_str()), ("to", "/folder/plan.txt")];
        assert_eq!(alice.act(TRASH, &fields).status, 422, "{change}");
    }
    assert_eq!(alice.act(TRASH, &[("do", "empty")]).status, 303);
    assert_eq!(items(&root.open(&format!("{TRASH}?of=all"))).len(), 1);
    // A user who may only read sees the item, and can neither restore it nor delete it for good.
    let reader = ["--path", "/datastore/main", "--auth-id", "alice@local", "DatastoreReader"];
    server.cli(&[&["role", "assign"], &reader[..]].concat());
    assert_eq!(items(&alice.open(TRASH)).len(), 1);
    for change in ["restore", "purge"] {
        let fields = [("do", change), ("item", id.as_str()), ("to", "/folder/plan.txt")];
        let page = alice.act(TRASH, &fields);
        assert_eq!(page.status, 422, "{change}");
        assert!(page.text().contains("/project/plan.txt"), "{}", page.text());
    }
    let kept = alice.act(TRASH, &[("do", "empty")]);
    assert!(
        kept.status == 422 && kept.text().contains("Some items are still in the trash"),
        "{}",
        kept.text()
    );
    assert_eq!(items(&alice.open(TRASH)).len(), 1);
    // The folder of the item is deleted, so the rights on the folder above it decide.
    std::fs::remove_dir(main_of(&server).join("project")).unwrap();
    server.cli(&[&["role", "remove"], &reader[..]].concat());
    server.cli(&[&["role", "assign"], &main[..]].concat());
    let fields = [("do", "restore"), ("item", id.as_str()), ("to", "/folder/plan.txt")];
    assert_eq!(alice.act(TRASH, &fields).status, 303);
    assert_eq!(std::fs::read_to_string(main_of(&server).join("folder/plan.txt")).unwrap(), "plan");
}

#[test]
fn an_item_is_restored_only_to_a_free_path_where_the_user_may_create() {
    let server = world_with(&[]);
    let (alice, main) = (signed_in(&server, "alice"), main_of(&server));
    std::fs::create_dir(main.join("closed")).unwrap();
    server.cli(&["acl", "set", "main", "/closed", "allow alice@local read,execute"]);
    std::fs::create_dir(main.join("veiled")).unwrap();
    server.cli(&["acl", "set", "main", "/veiled", "allow bob@local full"]);
    assert_eq!(act(&alice, "b.txt", &[("do", "remove")]).status, 303);
    let id = items(&alice.open(TRASH)).remove(0).1;
    std::fs::write(main.join("b.txt"), "another b").unwrap();
    let restore = |to: &str| {
        let page = alice.act(TRASH, &[("do", "restore"), ("item", &id), ("to", to)]);
        (page.status, page.text())
    };
    for (to, says) in [
        ("/b.txt", "Something with the name `b.txt` exists already. Enter another path"),
        ("/absent/b.txt", "The folder of this path does not exist, or you may not see it"),
        ("/closed/b.txt", "You may not do this"),
        ("/.enfilade-trash/b.txt", "nothing can be restored to the path"),
        ("/../b.txt", "nothing can be restored to the path"),
        ("/veiled/b.txt", "The folder of this path does not exist, or you may not see it"),
        ("/", "role=\"alert\""),
    ] {
        let (status, text) = restore(to);
        assert!(status == 422 && text.contains(says), "{to}: {status} {text}");
        // The field keeps the path that the user entered.
        assert!(text.contains(&format!("name=\"to\" value=\"{to}\"")), "{to}: {text}");
    }
    assert_eq!(std::fs::read_to_string(main.join("b.txt")).unwrap(), "another b");
    assert_eq!(restore("/folder/b.txt").0, 303, "{}", server.log());
    assert_eq!(std::fs::read_to_string(main.join("folder/b.txt")).unwrap(), "the b");
    // A user with the role of a reader may neither delete nor restore.
    assert_eq!(act(&alice, "folder/b.txt", &[("do", "remove")]).status, 303);
    let id = items(&alice.open(TRASH)).remove(0).1;
    let role = |verb, role| {
        server.cli(&["role", verb, "--path", "/datastore/main", "--auth-id", "alice@local", role]);
    };
    role("assign", "DatastoreReader");
    role("remove", "DatastorePowerUser");
    let page = alice.act(TRASH, &[("do", "restore"), ("item", &id), ("to", "/folder/b.txt")]);
    assert!(page.status == 422 && page.text().contains("You may not do this"), "{}", page.text());
    assert_eq!(act(&alice, "b.txt", &[("do", "remove")]).status, 422);
    assert!(main.join("b.txt").exists() && !main.join("folder/b.txt").exists());
}

#[test]
fn a_folder_with_something_that_the_user_may_not_delete_stays_whole() {
    let server = world_with(&[]);
    let (alice, main) = (signed_in(&server, "alice"), main_of(&server));
    std::fs::write(main.join("folder/secret"), "s").unwrap();
    server.cli(&["acl", "set", "main", "/folder/secret", "allow bob@local full"]);
    server.cli(&["acl", "set", "main", "/folder", "allow authenticated read,write,execute,delete"]);
    let refused = act(&alice, "folder/", &[("do", "remove")]);
    assert!(refused.status == 422 && main.join("folder/inner/note.txt").exists(), "{}", refused.text());
    assert!(items(&alice.open(TRASH)).is_empty());
}

#[test]
fn the_trash_counts_in_the_quota_until_it_is_emptied() {
    let server = world_with(&[]);
    server.cli(&["datastore", "set", "main", "--quota", "100K"]);
    let (token, alice) = (server.add_token("admin@local!t"), signed_in(&server, "alice"));
    let body = server.scratch.path().join("body");
    std::fs::write(&body, vec![7; 60_000]).unwrap();
    let put = |name: &str| {
        curl(&server, &token, &format!("/dav/main/{name}"), &["-T", body.to_str().unwrap()]).status
    };
    assert_eq!(put("large"), 201);
    assert_eq!(act(&alice, "large", &[("do", "remove")]).status, 303);
    assert_eq!(put("again"), 507);
    assert_eq!(alice.act(TRASH, &[("do", "empty")]).header("location"), "/console/trash/main/?done=emptied");
    assert_eq!(put("again"), 201);
    // Deletes one item for good, which frees its part of the quota.
    assert_eq!(act(&alice, "again", &[("do", "remove")]).status, 303);
    let id = items(&alice.open(TRASH)).remove(0).1;
    assert_eq!(put("again"), 507);
    assert_eq!(alice.act(TRASH, &[("do", "purge"), ("item", &id)]).status, 303);
    assert_eq!(put("again"), 201);
    assert!(items(&alice.open(TRASH)).is_empty());
}

#[test]
fn many_items_have_pages() {
    let server = world_with(&[]);
    let (alice, main) = (signed_in(&server, "alice"), main_of(&server));
    for n in 0..150 {
        std::fs::write(main.join(format!("f{n:03}")), "x").unwrap();
    }
    let names: Vec<String> = (0..150).map(|n| format!("f{n:03}")).collect();
    for half in names.chunks(75) {
        let mut fields = vec![("do", "delete")];
        fields.extend(half.iter().map(|name| ("pick", name.as_str())));
        assert_eq!(undo_of(&act(&alice, "", &fields)).len(), 75);
    }
    let first = alice.open(TRASH);
    let text = first.text();
    let next = text.split("rel=\"next\" href=\"").nth(1).unwrap().split('"').next().unwrap();
    let second = alice.open(&format!("{TRASH}{next}"));
    assert_eq!((items(&first).len(), items(&second).len()), (100, 50));
    let mut found: Vec<_> =
        [items(&first), items(&second)].concat().into_iter().map(|(path, _)| path).collect();
    found.sort();
    assert_eq!(found, names.iter().map(|name| format!("/{name}")).collect::<Vec<_>>());
    assert!(first.body.len() < 100_000, "{}", first.body.len());
}

#[test]
fn old_items_are_removed_and_the_trash_can_be_switched_off() {
    let mut server = world_with(&[]);
    let main = main_of(&server);
    {
        let alice = signed_in(&server, "alice");
        for name in ["b.txt", "folder/"] {
            assert_eq!(act(&alice, name, &[("do", "remove")]).status, 303);
        }
    }
    let of_user = std::fs::read_dir(main.join(".enfilade-trash")).unwrap().next().unwrap().unwrap().path();
    let names = || {
        let entries = std::fs::read_dir(&of_user).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    let all = names();
    assert_eq!(all.len(), 2);
    // One of the two items was deleted 31 days ago.
    let seconds = u64::from_str_radix(&all[0][..16], 16).unwrap() - 31 * 24 * 3600;
    let old = format!("{seconds:016x}{}", &all[0][16..]);
    std::fs::rename(of_user.join(&all[0]), of_user.join(&old)).unwrap();
    server.stop();
    // While the trash is switched off, the server removes no old item from the trash.
    server.start_again_with(&[("ENFILADE_CONSOLE__TRASH_DAYS", "0")]);
    {
        let alice = signed_in(&server, "alice");
        assert_eq!(items(&alice.open(TRASH)).len(), 2);
        let deleted = act(&alice, "project/plan.txt", &[("do", "remove")]);
        assert_eq!(deleted.header("location"), "/console/files/main/project/?done=deleted");
        assert_eq!(names().len(), 2);
    }
    server.stop();
    server.start_again_with(&[("ENFILADE_CONSOLE__NO_TRASH", "other, main")]);
    until("the old item is removed", &server, || names() == [all[1].clone()]);
    let alice = signed_in(&server, "alice");
    assert_eq!(items(&alice.open(TRASH)).len(), 1);
    assert!(alice.open(TRASH).text().contains("This datastore has no trash"));
    let deleted = act(&alice, "project/", &[("do", "remove")]);
    assert_eq!(deleted.header("location"), "/console/files/main/?done=deleted");
    std::fs::write(main.join("last.txt"), "").unwrap();
    assert!(alice.open("/console/files/main/").text().contains("data-ask=\"Delete the selected"));
}

#[test]
fn a_user_with_one_datastore_gets_its_trash_and_others_choose() {
    let server = server();
    let alice = signed_in(&server, "alice");
    assert_eq!(alice.open("/console/trash").header("location"), TRASH);
    let other = server.data().join("datastores/other");
    server.cli(&["datastore", "create", "other", "--path", other.to_str().unwrap()]);
    server.cli(&[
        "role",
        "assign",
        "--path",
        "/datastore/other",
        "--auth-id",
        "alice@local",
        "DatastoreReader",
    ]);
    let text = alice.open("/console/trash").text();
    assert!(
        text.contains("href=\"/console/trash/main/\"") && text.contains("href=\"/console/trash/other/\"")
    );
}
