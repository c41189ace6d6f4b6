//! Listings from memory. After a change of an ACL or of a membership, the next listing shows the change. It does not matter which program makes the
//! change, or how often the directory was listed before.

use crate::curl::{PROPFIND_1, curl};
use crate::server::{Server, write_acl};
use enfilade_access::{Ace, AceFlags, AceType, SecurityDescriptor};
use enfilade_facts::vocabulary::{AccessMask, Sid};
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const MANY: usize = 120;
/// The server lists a directory with this number of entries without another thread.
const FEW: usize = 12;
/// The kernel needs several calls to return this number of entries.
const MORE_THAN_A_PIECE: usize = 3_000;
const READERS: usize = 2;
/// After this time without a change of an entry, the server relies on the remembered state of the entry.
const SETTLED: Duration = Duration::from_millis(2_300);

fn put(path: &Path, sid: Sid) {
    let entry = Ace { kind: AceType::Allow, flags: AceFlags(0), mask: AccessMask::ALL, sid };
    let acl = SecurityDescriptor { dacl: Some(vec![entry]), ..SecurityDescriptor::default() };
    write_acl(path, &acl.to_ntacl().unwrap());
}

/// A user with read access, and a directory that everyone may list.
fn alice_and_a_directory(server: &Server) -> (String, PathBuf) {
    let alice = server.add_user("alice", "DatastorePowerUser");
    let many = server.data().join("datastores/main/many");
    std::fs::create_dir(&many).unwrap();
    put(&many, Sid::AUTHENTICATED);
    (alice, many)
}

/// The numbers of the files that a user sees.
fn seen(server: &Server, login: &str) -> BTreeSet<usize> {
    let answer = curl(server, login, "/dav/main/many/", &PROPFIND_1);
    assert_eq!(answer.status, 207, "{}", answer.text());
    let text = answer.text();
    let names = text.split("<D:href>/dav/main/many/f").skip(1).filter_map(|part| part.split('<').next());
    names.map(|name| name.parse().unwrap()).collect()
}

#[test]
fn a_change_of_an_acl_that_is_heard_of_is_obeyed_by_the_next_listing() {
    changes_are_obeyed("true", MANY);
}

#[test]
fn a_change_of_an_acl_that_shows_in_the_state_of_a_file_is_obeyed_by_the_next_listing() {
    changes_are_obeyed("false", MANY);
}

#[test]
fn a_change_of_an_acl_is_obeyed_by_the_next_listing_of_a_directory_that_is_answered_from_memory() {
    ["true", "false"].into_iter().for_each(|watch| changes_are_obeyed(watch, FEW));
}

fn changes_are_obeyed(watch: &str, files: usize) {
    let server = Server::start_with(&[("ENFILADE_ACCESS__WATCH", watch)]);
    let (alice, many) = alice_and_a_directory(&server);
    let file = |n: usize| many.join(format!("f{n}"));
    let nobody = Sid::of_store([9, 9, 9], 9);
    for n in 0..files {
        std::fs::write(file(n), "x").unwrap();
        put(&file(n), Sid::AUTHENTICATED);
    }
    let all: BTreeSet<usize> = (0..files).collect();
    let (hidden, listed, is_over): (Vec<AtomicBool>, _, _) =
        ((0..files).map(|_| AtomicBool::new(false)).collect(), AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| {
                while !is_over.load(Ordering::SeqCst) {
                    let before: Vec<usize> =
                        (0..files).filter(|n| hidden[*n].load(Ordering::SeqCst)).collect();
                    let seen = seen(&server, &alice);
                    let stale: Vec<_> = before.iter().filter(|n| seen.contains(n)).collect();
                    assert!(
                        stale.is_empty() || is_over.load(Ordering::SeqCst),
                        "{stale:?} were hidden before"
                    );
                    listed.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        // After this time, the server relies on the states that it remembers.
        std::thread::sleep(SETTLED);
        assert_eq!(seen(&server, &alice), all);
        for (n, is_hidden) in hidden.iter().enumerate() {
            put(&file(n), nobody);
            is_hidden.store(true, Ordering::SeqCst);
            assert_eq!(seen(&server, &alice).len(), files - n - 1, "after file {n} was hidden");
        }
        is_over.store(true, Ordering::SeqCst);
    });
    assert!(listed.into_inner() > 10);
    std::thread::sleep(SETTLED);
    assert_eq!(seen(&server, &alice), BTreeSet::new());
    // The entries become visible again. Some of the files were replaced.
    for n in 0..files / 2 {
        put(&file(n), Sid::AUTHENTICATED);
        assert!(seen(&server, &alice).contains(&n));
    }
    let other = many.with_file_name("other");
    std::fs::write(&other, "x").unwrap();
    put(&other, Sid::AUTHENTICATED);
    std::fs::rename(&other, file(files - 1)).unwrap();
    assert!(seen(&server, &alice).contains(&(files - 1)));
    // The ACL of a file is changed under another name of the file (hard link).
    let link = many.with_file_name("link");
    std::fs::hard_link(file(0), &link).unwrap();
    std::thread::sleep(SETTLED);
    assert!(seen(&server, &alice).contains(&0));
    put(&link, nobody);
    assert!(!seen(&server, &alice).contains(&0));
}

/// Two files, one of them visible, swap names all the time. A listing never shows properties of the hidden file, under either name.
#[test]
fn what_is_hidden_stays_so_under_whatever_name_it_is_listed() {
    for watch in ["true", "false"] {
        let server = Server::start_with(&[("ENFILADE_ACCESS__WATCH", watch)]);
        let (alice, many) = alice_and_a_directory(&server);
        let [shown, hidden] = [many.join("f0"), many.join("f1")];
        for (file, bytes, sid) in
            [(&shown, 222, Sid::AUTHENTICATED), (&hidden, 111, Sid::of_store([9, 9, 9], 9))]
        {
            std::fs::write(file, vec![b'x'; bytes]).unwrap();
            put(file, sid);
        }
        let (told, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for _ in 0..READERS {
                scope.spawn(|| {
                    while !is_over.load(Ordering::SeqCst) {
                        let answer = curl(&server, &alice, "/dav/main/many/", &PROPFIND_1);
                        let text = answer.text();
                        assert_eq!(answer.status, 207, "{text}");
                        assert!(!text.contains(">111<"), "watch = {watch}: {text}");
                        told.fetch_add(u64::from(text.contains(">222<")), Ordering::Relaxed);
                    }
                });
            }
            let began = std::time::Instant::now();
            // On a busy machine, three seconds are enough for few listings only. The loop continues until there are enough.
            while began.elapsed() < Duration::from_secs(3)
                || (told.load(Ordering::Relaxed) <= 10 && began.elapsed() < Duration::from_secs(120))
            {
                rustix::fs::renameat_with(
                    rustix::fs::CWD,
                    &shown,
                    rustix::fs::CWD,
                    &hidden,
                    rustix::fs::RenameFlags::EXCHANGE,
                )
                .unwrap();
                // After a pause, some listings end before the next exchange.
                std::thread::sleep(Duration::from_micros(told.load(Ordering::Relaxed) % 64 * 50));
            }
            is_over.store(true, Ordering::SeqCst);
        });
        assert!(told.into_inner() > 10);
    }
}

#[test]
fn what_is_in_a_directory_that_is_heard_of_is_what_the_next_listing_tells() {
    [FEW, MORE_THAN_A_PIECE].into_iter().for_each(|names| names_are_obeyed("true", names));
}

#[test]
fn what_is_in_a_directory_that_is_asked_is_what_the_next_listing_tells() {
    [FEW, MORE_THAN_A_PIECE].into_iter().for_each(|names| names_are_obeyed("false", names));
}

fn names_are_obeyed(watch: &str, names: usize) {
    let server = Server::start_with(&[("ENFILADE_ACCESS__WATCH", watch)]);
    let (alice, many) = alice_and_a_directory(&server);
    let file = |n: usize| many.join(format!("f{n}"));
    let make = |path: &Path| {
        std::fs::write(path, "x").unwrap();
        put(path, Sid::AUTHENTICATED);
    };
    (0..names).for_each(|n| make(&file(n)));
    let aside = many.with_file_name("aside");
    make(&aside);
    let mut expected: BTreeSet<usize> = (0..names).collect();
    let dav = |method: &str, n: usize, headers: &[&str]| {
        let mut arguments = vec!["-X", method];
        headers.iter().for_each(|header| arguments.extend(["-H", header]));
        let status = curl(&server, &alice, &format!("/dav/main/many/f{n}"), &arguments).status;
        assert!((200..300).contains(&status), "{method}: {status}");
    };
    for turn in 0..5 {
        // After this time, the server relies on the states that it remembers.
        std::thread::sleep(SETTLED);
        for _ in 0..3 {
            assert_eq!(seen(&server, &alice), expected, "watch = {watch}, turn {turn}");
        }
        let n = turn;
        match turn {
            0 => {
                std::fs::remove_file(file(n)).unwrap();
                expected.remove(&n);
            }
            1 => {
                std::fs::rename(file(n), file(names + n)).unwrap();
                expected.remove(&n);
                expected.insert(names + n);
            }
            2 => {
                std::fs::rename(&aside, file(names + n)).unwrap();
                expected.insert(names + n);
            }
            3 => {
                dav("DELETE", n, &[]);
                expected.remove(&n);
            }
            _ => {
                dav("MOVE", n, &[&format!("Destination: /dav/main/many/f{}", names + n)]);
                expected.remove(&n);
                expected.insert(names + n);
            }
        }
        assert_eq!(seen(&server, &alice), expected, "watch = {watch}, right after turn {turn}");
    }
}

#[test]
fn what_kind_of_acl_counts_is_obeyed_by_the_next_listing() {
    for watch in ["true", "false"] {
        let server = Server::start_with(&[("ENFILADE_ACCESS__WATCH", watch)]);
        let (alice, many) = alice_and_a_directory(&server);
        for n in 0..10 {
            let file = many.join(format!("f{n}"));
            std::fs::write(&file, "x").unwrap();
            // The mode bits do not let the user see the file, but the ACL does.
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
            put(&file, Sid::AUTHENTICATED);
        }
        std::thread::sleep(SETTLED);
        for (kind, shown) in [("ntacl", 10), ("nfs4", 0), ("ntacl", 10), ("nfs4", 0)] {
            server.cli(&["datastore", "set", "main", "--acls", kind]);
            for _ in 0..3 {
                assert_eq!(seen(&server, &alice).len(), shown, "{kind}, watch = {watch}");
            }
        }
    }
}

#[test]
fn a_change_of_a_membership_is_obeyed_by_the_next_listing() {
    let server = Server::start();
    let alice = server.add_user("alice", "DatastorePowerUser");
    server.cli(&["group", "add", "staff"]);
    server.cli(&["group", "add", "inner"]);
    server.cli(&["group", "member", "add", "staff", "@inner"]);
    let many = server.data().join("datastores/main/many");
    std::fs::create_dir(&many).unwrap();
    for n in 0..10 {
        std::fs::write(many.join(format!("f{n}")), "x").unwrap();
        server.cli(&["acl", "set", "main", &format!("/many/f{n}"), "allow @staff full"]);
    }
    server.cli(&["acl", "set", "main", "/many", "allow authenticated full"]);
    std::thread::sleep(SETTLED);
    for _ in 0..5 {
        assert_eq!(seen(&server, &alice).len(), 0);
        server.cli(&["group", "member", "add", "inner", "alice@local"]);
        assert_eq!(seen(&server, &alice).len(), 10);
        server.cli(&["group", "member", "remove", "inner", "alice@local"]);
    }
    assert_eq!(seen(&server, &alice).len(), 0);
}

/// The server answers from memory for a small directory that it remembers. The answer has the same properties as an answer from the file system, and
/// shows all changes.
#[test]
fn what_is_answered_from_memory_is_what_is_answered_else() {
    let server = Server::start();
    let (alice, many) = alice_and_a_directory(&server);
    for (name, sid) in [
        ("shown", Sid::AUTHENTICATED),
        ("hidden", Sid::of_store([9, 9, 9], 9)),
        ("with", Sid::AUTHENTICATED),
        ("locked", Sid::AUTHENTICATED),
    ] {
        std::fs::write(many.join(name), "x").unwrap();
        put(&many.join(name), sid);
    }
    let ask = |method: &str, path: &str, body: &str, depth: &str| {
        let depth = format!("Depth: {depth}");
        let arguments = ["-X", method, "-H", &depth, "-H", "Content-Type: application/xml", "-d", body];
        let answer = curl(&server, &alice, &format!("/dav/main{path}"), &arguments);
        assert!(matches!(answer.status, 200 | 207), "{method} {path}: {}", answer.text());
        answer.text()
    };
    let set = |value: &str| {
        let property = format!("<x:color xmlns:x='urn:x'>{value}</x:color>");
        let body = format!(
            "<D:propertyupdate xmlns:D='DAV:'><D:set><D:prop>{property}</D:prop></D:set></D:propertyupdate>"
        );
        ask("PROPPATCH", "/many/with", &body, "0");
    };
    set("red");
    let scope = "<D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype>";
    ask("LOCK", "/many/locked", &format!("<D:lockinfo xmlns:D='DAV:'>{scope}</D:lockinfo>"), "0");
    let some = "<D:propfind xmlns:D='DAV:'><D:prop><D:getetag/><D:lockdiscovery/><x:color xmlns:x='urn:x'/></D:prop></D:propfind>";
    let names = "<D:propfind xmlns:D='DAV:'><D:propname/></D:propfind>";
    let all = || -> Vec<String> {
        let bodies = ["", some, names].into_iter();
        let each = bodies
            .flat_map(|body| ["", "/many", "/many/", "/many/with", "/many/locked"].map(|path| (body, path)));
        each.flat_map(|(body, path)| ["0", "1"].map(|depth| ask("PROPFIND", path, body, depth))).collect()
    };
    let first = all();
    assert!(first.iter().all(|text| !text.contains("hidden")));
    let listed = &first[3];
    assert!(listed.contains("shown") && listed.contains("red") && listed.contains("urn:uuid:"), "{listed}");
    std::thread::sleep(SETTLED);
    // The answers contain the remaining time of a lock, which is different in each answer.
    let plain = |texts: Vec<String>| -> Vec<String> {
        let without = |text: &String| {
            let parts = text.split("<D:timeout>");
            parts.map(|part| part.split_once("</D:timeout>").map_or(part, |(_, rest)| rest)).collect()
        };
        texts.iter().map(without).collect()
    };
    let first = plain(first);
    for round in 0..3 {
        for (n, (now, before)) in plain(all()).iter().zip(&first).enumerate() {
            assert_eq!(now, before, "question {n}, round {round}");
        }
    }
    set("blue");
    assert!(ask("PROPFIND", "/many", "", "1").contains("blue"));
    assert!(ask("PROPFIND", "/many", some, "1").contains("blue"));
}
