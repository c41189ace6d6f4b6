//! The condition of a request is judged once: just before the first name or property changes, or before a lock is taken.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use enfilade_facts::vocabulary::{Authid, DatastoreName, OperationKind, StorePath};
use enfilade_passage::{
    Blocking, ContentRefusal, LockTerms, Placing, Property, PropertyChange, Refusal, Stay,
};
use enfilade_testkit::{Remembering, TestHouse};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

type Act = fn(Stay) -> Result<(), Refusal>;

fn path(text: &str) -> StorePath {
    StorePath::from_plain(text).unwrap()
}

fn placing() -> Placing<'static> {
    Placing { overwrite: true, is_deep: true, tokens: &[], keep_going: &|| true }
}

fn delete(mut stay: Stay, name: &str) -> Result<(), Refusal> {
    let left = stay.delete(&path(name), &[], &|| true)?;
    assert!(left.is_empty(), "{left:?}");
    Ok(())
}

fn lock(stay: Stay, name: &str) -> Result<(), Refusal> {
    let terms = LockTerms { is_deep: true, is_exclusive: true, said: String::new(), seconds: 60 };
    stay.lock(&path(name), terms, &[]).map(drop)
}

fn set_property(mut stay: Stay, name: &str) -> Result<(), Refusal> {
    let (namespace, value) = ("urn:x".to_owned(), "x".to_owned());
    let property = Property { namespace, name: "a".into(), language: None, value };
    stay.change_properties(&path(name), &[PropertyChange::Set(property)], &[])
}

const ACTS: [(&str, Act); 14] = [
    ("DELETE of a file", |stay| delete(stay, "file")),
    ("DELETE of an empty directory", |stay| delete(stay, "empty")),
    ("DELETE of a tree", |stay| delete(stay, "tree")),
    ("MOVE of a file", |mut stay| stay.relocate(&path("file"), &path("new"), placing()).map(drop)),
    ("MOVE of a tree onto another", |mut stay| {
        stay.relocate(&path("tree"), &path("empty"), placing()).map(drop)
    }),
    ("COPY of a file", |mut stay| stay.copy(&path("file"), &path("new"), placing()).map(drop)),
    ("COPY of a file onto a tree", |mut stay| stay.copy(&path("file"), &path("tree"), placing()).map(drop)),
    ("COPY of a tree", |mut stay| stay.copy(&path("tree"), &path("new"), placing()).map(drop)),
    ("MKCOL", |mut stay| stay.make_collection(&path("new"), &[])),
    ("PROPPATCH of a file", |stay| set_property(stay, "file")),
    ("PROPPATCH of the root", |stay| set_property(stay, "")),
    ("LOCK of a file", |stay| lock(stay, "file")),
    ("LOCK of a tree", |stay| lock(stay, "tree")),
    ("LOCK where nothing is", |stay| lock(stay, "new")),
];

/// Every path below the directory, with its properties.
fn every_path(root: &Path) -> BTreeSet<String> {
    let (mut found, mut rest) = (BTreeSet::new(), vec![root.to_owned()]);
    found.insert(format!("root {:?}", properties(root)));
    while let Some(directory) = rest.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let place = entry.unwrap().path();
            found.insert(format!("{} {:?}", place.strip_prefix(root).unwrap().display(), properties(&place)));
            rest.extend(place.is_dir().then_some(place));
        }
    }
    found
}

fn properties(path: &Path) -> Option<Vec<u8>> {
    let mut room = [0; 1024];
    let length = rustix::fs::getxattr(path, "user.enfilade.properties", &mut room[..]).ok()?;
    Some(room[..length].to_vec())
}

/// All paths and locks.
fn state(root: &Path, mut stay: Stay) -> BTreeSet<String> {
    let mut found = every_path(root);
    for name in ["file", "tree", "new"] {
        let locks = stay.shown_locks(&path(name)).unwrap();
        found.extend(locks.iter().map(|shown| format!("lock on {}", shown.lock.path)));
    }
    found
}

#[test]
fn a_condition_is_judged_once_where_the_request_takes_place() {
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
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let visit = runtime.block_on(house.admit(&alice)).unwrap();
        let enter = || visit.clone().enter(&name, OperationKind::Write, Blocking).unwrap();
        let (before, names) = (state(&root, enter()), every_path(&root));
        let mut stay = enter();
        stay.only_if(|_| Err(ContentRefusal::Unmet.into()));
        assert!(matches!(act(stay), Err(Refusal::Content(ContentRefusal::Unmet))), "{what}");
        assert_eq!(state(&root, enter()), before, "{what} was refused and changed something");
        let asked = Arc::new(AtomicUsize::new(0));
        let mut stay = enter();
        let (counted, place) = (Arc::clone(&asked), root.clone());
        stay.only_if(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            let hidden = |path: &String| path.contains(".enfilade-");
            let now: BTreeSet<String> = every_path(&place).into_iter().filter(|path| !hidden(path)).collect();
            assert_eq!(now, names, "a name or a property has changed already");
            Ok(())
        });
        act(stay).unwrap();
        assert_eq!(asked.load(Ordering::Relaxed), 1, "{what}");
        assert_ne!(state(&root, enter()), before, "{what}");
    }
}
