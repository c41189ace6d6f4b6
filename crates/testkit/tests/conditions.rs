//! Conditions of COPY, MOVE, DELETE and MKCOL are judged where the first name changes, and there once.

#![allow(clippy::unwrap_used, reason = "tests")]

use enfilade_facts::vocabulary::{Authid, DatastoreName, OperationKind, StorePath};
use enfilade_passage::{ContentRefusal, Placing, Refusal, Stay};
use enfilade_testkit::{Remembering, TestHouse};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

type Act = fn(&mut Stay) -> Result<(), Refusal>;

fn path(text: &str) -> StorePath {
    StorePath::from_plain(text).unwrap()
}

fn placing() -> Placing<'static> {
    Placing { overwrite: true, is_deep: true, tokens: &[], is_wanted: &|| true }
}

fn delete(stay: &mut Stay, name: &str) -> Result<(), Refusal> {
    let left = stay.delete(&path(name), &[], &|| true)?;
    assert!(left.is_empty(), "{left:?}");
    Ok(())
}

const ACTS: [(&str, Act); 9] = [
    ("DELETE of a file", |stay| delete(stay, "file")),
    ("DELETE of an empty directory", |stay| delete(stay, "empty")),
    ("DELETE of a tree", |stay| delete(stay, "tree")),
    ("MOVE of a file", |stay| stay.relocate(&path("file"), &path("new"), placing()).map(drop)),
    ("MOVE of a tree onto another", |stay| stay.relocate(&path("tree"), &path("empty"), placing()).map(drop)),
    ("COPY of a file", |stay| stay.copy(&path("file"), &path("new"), placing()).map(drop)),
    ("COPY of a file onto a tree", |stay| stay.copy(&path("file"), &path("tree"), placing()).map(drop)),
    ("COPY of a tree", |stay| stay.copy(&path("tree"), &path("new"), placing()).map(drop)),
    ("MKCOL", |stay| stay.make_collection(&path("new"), &[])),
];

fn every_path(root: &Path) -> BTreeSet<String> {
    let (mut found, mut rest) = (BTreeSet::new(), vec![root.to_owned()]);
    while let Some(directory) = rest.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let place = entry.unwrap().path();
            found.insert(place.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
            rest.extend(place.is_dir().then_some(place));
        }
    }
    found
}

#[test]
fn a_condition_is_judged_once_where_the_first_name_changes() {
    for (what, act) in ACTS {
        let mut house = TestHouse::new(Remembering::AsServed);
        let name: DatastoreName = "main".parse().unwrap();
        house.add_datastore(&name);
        let alice: Authid = "alice@local".parse().unwrap();
        house.add_user(&alice.user, None);
        house.assign("/datastore/main", &alice, "DatastoreAdmin");
        let root = house.content(&name);
        for directory in ["empty", "tree", "tree/deep"] {
            std::fs::create_dir(root.join(directory)).unwrap();
        }
        for file in ["file", "tree/1", "tree/2", "tree/deep/3"] {
            std::fs::write(root.join(file), "x").unwrap();
        }
        let before = every_path(&root);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let visit = runtime.block_on(house.admit(&alice)).unwrap();
        let enter = || visit.clone().enter(&name, OperationKind::Write).unwrap();
        let mut stay = enter();
        stay.only_if(|_| Err(ContentRefusal::Unmet.into()));
        assert!(matches!(act(&mut stay), Err(Refusal::Content(ContentRefusal::Unmet))), "{what}");
        assert_eq!(every_path(&root), before, "{what} was refused and changed something");
        let asked = Arc::new(AtomicUsize::new(0));
        let mut stay = enter();
        let (counted, place, then) = (Arc::clone(&asked), root.clone(), before.clone());
        stay.only_if(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            let hidden = |path: &String| path.contains(".enfilade-");
            let now: BTreeSet<String> = every_path(&place).into_iter().filter(|path| !hidden(path)).collect();
            assert_eq!(now, then, "a name has changed already");
            Ok(())
        });
        act(&mut stay).unwrap();
        assert_eq!(asked.load(Ordering::Relaxed), 1, "{what}");
        assert_ne!(every_path(&root), before, "{what}");
    }
}
