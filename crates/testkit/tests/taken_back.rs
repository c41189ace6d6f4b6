//! Tests a completed COPY or MOVE that is refused afterwards, and is therefore undone. If another program took or changed the old or the new name
//! meanwhile, the COPY or MOVE cannot be undone. The response then says so, and says where a replaced resource is now.

#![allow(clippy::unwrap_used, reason = "tests")]

use enfilade_facts::Refuse as _;
use enfilade_facts::vocabulary::{Authid, DatastoreName, OperationKind, StorePath};
use enfilade_passage::{Blocking, LockTerms, Placing, Refusal, Stay};
use enfilade_testkit::{Remembering, TestHouse};
use std::path::Path;

fn path(text: &str) -> StorePath {
    StorePath::from_plain(text).unwrap()
}

type Act = fn(&mut Stay, Placing<'_>) -> Result<(), Refusal>;
type Meddle = fn(&Path);

const CASES: [(&str, Act, Meddle, &str, &[&str]); 5] = [
    (
        "a MOVE onto a tree, undone",
        |stay, placing| stay.relocate(&path("tree"), &path("old"), placing).map(drop),
        |_| {},
        "CT17: the tree was not processed to its end: the client disconnected",
        &["old/was", "tree/new"],
    ),
    (
        "a MOVE, and its old name is taken",
        |stay, placing| stay.relocate(&path("tree"), &path("other"), placing).map(drop),
        |root| std::fs::write(root.join("tree"), "").unwrap(),
        "CT27: the COPY or MOVE to `/other` was refused after it took place, and could not be undone: another process or request changed a name meanwhile",
        &["old/was", "other/new", "tree"],
    ),
    (
        "a MOVE onto a tree, and its old name is taken",
        |stay, placing| stay.relocate(&path("tree"), &path("old"), placing).map(drop),
        |root| std::fs::write(root.join("tree"), "").unwrap(),
        "CT27: the COPY or MOVE to `/old` was refused after it took place, and could not be undone: another process or request changed a name meanwhile; the replaced resource is now at `/old (kept 1)`",
        &["old (kept 1)/was", "old/new", "tree"],
    ),
    (
        "a MOVE onto a tree, and its new name is changed",
        |stay, placing| stay.relocate(&path("tree"), &path("old"), placing).map(drop),
        |root| std::fs::rename(root.join("old"), root.join("away")).unwrap(),
        "CT27: the COPY or MOVE to `/old` was refused after it took place, and could not be undone: another process or request changed a name meanwhile; the replaced resource is now at `/old`",
        &["away/new", "old/was"],
    ),
    (
        "a COPY onto a tree, and its name is changed",
        |stay, placing| stay.copy(&path("tree"), &path("old"), placing).map(drop),
        |root| std::fs::rename(root.join("old"), root.join("away")).unwrap(),
        "CT27: the COPY or MOVE to `/old` was refused after it took place, and could not be undone: another process or request changed a name meanwhile; the replaced resource is now at `/old`",
        &["away/new", "old/was", "tree/new"],
    ),
];

fn files(root: &Path) -> Vec<String> {
    let (mut found, mut rest) = (Vec::new(), vec![root.to_owned()]);
    while let Some(directory) = rest.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let place = entry.unwrap().path();
            match place.is_dir() {
                true => rest.push(place),
                false => found.push(place.strip_prefix(root).unwrap().to_str().unwrap().to_owned()),
            }
        }
    }
    found.sort();
    found
}

#[tokio::test]
async fn what_cannot_be_undone_is_told_as_it_is() {
    for (what, act, meddle, told, left) in CASES {
        let mut house = TestHouse::new(Remembering::AsServed);
        let (main, alice): (DatastoreName, Authid) =
            ("main".parse().unwrap(), "alice@local".parse().unwrap());
        house.add_datastore(&main);
        house.add_user(&alice.user, None);
        house.assign("/datastore/main", &alice, "DatastoreAdmin");
        let root = house.content(&main);
        for (directory, file) in [("tree", "new"), ("old", "was")] {
            std::fs::create_dir(root.join(directory)).unwrap();
            std::fs::write(root.join(directory).join(file), "x").unwrap();
        }
        let visit = house.admit(&alice).await.unwrap();
        let enter = || visit.clone().enter(&main, OperationKind::Write, Blocking).unwrap();
        let terms = LockTerms { is_deep: false, is_exclusive: true, said: String::new(), seconds: 60 };
        let (lock, _) = enter().lock(&path("tree/new"), terms, &[]).unwrap();
        // The client disconnects as soon as the new entry has its name.
        let is_placed = || root.join("other/new").exists() || root.join("old/new").exists();
        let keep_going = || {
            let is_placed = is_placed();
            if is_placed {
                meddle(&root);
            }
            !is_placed
        };
        let tokens = [lock.token];
        let placing = Placing { overwrite: true, is_deep: true, tokens: &tokens, keep_going: &keep_going };
        let refusal = act(&mut enter(), placing).unwrap_err();
        assert_eq!(format!("{}: {refusal}", refusal.code()), told, "{what}");
        assert_eq!(files(&root), left, "{what}");
        // A lock does not move together with its resource (RFC 4918 §7.6). The lock stays if the resource was not moved.
        let is_there = !enter().shown_locks(&path("tree/new")).unwrap().is_empty();
        assert_eq!(is_there, left.contains(&"tree/new"), "{what}");
    }
}
