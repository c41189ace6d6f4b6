//! Tests in which another thread changes the tree during each operation.

use super::{Scratch, code, given, make, names_on_disk, remove, rename};
use crate::properties::{self, Property, PropertyChange};
use crate::relocate::EntryRef;
use crate::{Blocking, Refusal, Root, Upload, acl_write, read};
use enfilade_access::StoredAcl;
use enfilade_facts::vocabulary::StorePath;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

const SWAPS: usize = 20_000;

#[test]
fn a_link_that_takes_a_directorys_place_never_leads_out() {
    let scratch = Scratch::new();
    scratch.write("place/f", "inside");
    std::fs::create_dir(scratch.outside("out")).unwrap();
    std::fs::write(scratch.outside("out/f"), "outside").unwrap();
    symlink("../out", scratch.at("link")).unwrap();
    let (root, path) = (scratch.root(), StorePath::from_plain("place/f").unwrap());
    let done = AtomicBool::new(false);
    let (mut read_inside, mut absent) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..SWAPS {
                renameat_with(CWD, scratch.at("place"), CWD, scratch.at("link"), RenameFlags::EXCHANGE)
                    .unwrap();
            }
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            match root.find(&path, Blocking) {
                Ok(node) => {
                    let mut buffer = [0; 16];
                    let count = read::reader(&node).unwrap().read_at(0, &mut buffer).unwrap();
                    assert_eq!(&buffer[..count], b"inside");
                    read_inside += 1;
                }
                Err(Refusal::Absent(_)) => absent += 1,
                Err(refusal) => panic!("{refusal}"),
            }
        }
    });
    println!("the file was read {read_inside} times and absent {absent} times, during {SWAPS} swaps");
    assert!(read_inside + absent > 0);
}

/// The number of swaps of a directory with a link. For a long run of the tests, the environment variable `ENFILADE_CAMPAIGN_N` sets this number.
fn swaps() -> usize {
    std::env::var("ENFILADE_CAMPAIGN_N").ok().and_then(|n| n.parse().ok()).unwrap_or(SWAPS)
}

/// Makes one change beneath the directory `place`; `turn` selects one of eight kinds of changes.
fn every_verb(root: &Root, turn: usize) -> Result<(), Refusal> {
    let path = |text: &str| StorePath::from_plain(text).unwrap();
    let (directory, name) = match root.find(&path("place"), Blocking) {
        Ok(directory) => (directory, format!("n{}", turn % 7)),
        Err(refusal) => return Err(refusal),
    };
    let file = path("place/f");
    match turn % 8 {
        0 => Upload::begin_new(&directory, &name, &given(b"acl"))?.finish().map(drop),
        1 => {
            let (directory, name) = root.find_parent(&file)?;
            let mut upload = Upload::begin_replacement(&directory, name, &directory.child(name)?)?;
            upload.write(b"inside")?;
            upload.finish().map(drop)
        }
        2 => make(&root.find_parent(&path("place/d"))?.0, &name, &given(b"acl")).map(drop),
        3 => remove(&directory, &name, &root.find(&path("place").join(&name).unwrap(), Blocking)?),
        4 => {
            let (from, to) = (
                EntryRef { directory: &directory, name: &name },
                EntryRef { directory: &directory, name: "moved" },
            );
            rename(&root.find(&path("place").join(&name).unwrap(), Blocking)?, from, to)
        }
        5 => {
            let moved = root.find(&path("place/moved"), Blocking)?;
            remove(&root.find(&path("place"), Blocking)?, "moved", &moved)
        }
        6 => acl_write::change(&root.find(&file, Blocking)?, b"inside").map(drop),
        _ => {
            let (namespace, name) = (String::new(), "p".to_owned());
            let property = Property { namespace, name, language: None, value: "inside".to_owned() };
            properties::change(&root.find(&file, Blocking)?, &[PropertyChange::Set(property)], || Ok(()))
        }
    }
}

#[test]
fn no_verb_leaves_the_root_through_a_link_that_takes_a_directorys_place() {
    let scratch = Scratch::new();
    scratch.write("place/f", "inside");
    std::fs::create_dir(scratch.outside("out")).unwrap();
    std::fs::write(scratch.outside("out/f"), "outside").unwrap();
    symlink("../out", scratch.at("link")).unwrap();
    let (root, done, all) = (scratch.root(), AtomicBool::new(false), swaps());
    let mut outcomes = std::collections::BTreeMap::<&str, usize>::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..all {
                renameat_with(CWD, scratch.at("place"), CWD, scratch.at("link"), RenameFlags::EXCHANGE)
                    .unwrap();
            }
            done.store(true, Ordering::Release);
        });
        for turn in 0.. {
            if done.load(Ordering::Acquire) {
                break;
            }
            *outcomes.entry(code(every_verb(&root, turn))).or_default() += 1;
        }
    });
    println!("{all} swaps, 0 escapes; number of changes by outcome: {outcomes:?}");
    let outside = scratch.outside("out");
    assert_eq!(names_on_disk(&outside), ["f"]);
    assert_eq!(std::fs::read_to_string(outside.join("f")).unwrap(), "outside");
    let mut list = [0; 256];
    let attributes = rustix::fs::listxattr(outside.join("f"), &mut list).unwrap();
    assert!(!String::from_utf8_lossy(&list[..attributes]).contains("enfilade"), "the attribute was removed");
    assert!(outcomes.contains_key("granted") && outcomes.contains_key("CT01"), "{outcomes:?}");
}

#[test]
fn of_many_uploads_of_one_name_exactly_one_wins() {
    let scratch = Scratch::new();
    let root = scratch.node("");
    for round in 0..20 {
        let name = format!("new-{round}");
        let won = std::thread::scope(|scope| {
            let tries: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| Upload::begin_new(&root, &name, &given(b"acl")).and_then(Upload::finish))
                })
                .collect();
            tries.into_iter().map(|one| code(one.join().unwrap())).filter(|code| *code == "granted").count()
        });
        assert_eq!(won, 1);
    }
}

#[test]
fn a_delete_never_takes_a_replacement_that_was_acknowledged() {
    let scratch = Scratch::new();
    let root = scratch.node("");
    for _ in 0..200 {
        scratch.write("f", "old");
        let old = root.child("f").unwrap();
        let mut upload = Upload::begin_replacement(&root, "f", &old).unwrap();
        upload.write(b"new").unwrap();
        let (replaced, deleted) = std::thread::scope(|scope| {
            let replaced = scope.spawn(|| code(upload.finish()));
            let deleted = scope.spawn(|| code(remove(&root, "f", &old)));
            (replaced.join().unwrap(), deleted.join().unwrap())
        });
        match (replaced, deleted) {
            ("granted", "CT09") => assert_eq!(super::bytes_of(&root.child("f").unwrap()), b"new"),
            ("CT09", "granted") => assert_eq!(code(root.child("f")), "CT01"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn an_acknowledged_acl_survives_every_replacement() {
    let scratch = Scratch::new();
    let root = scratch.node("");
    for round in 0..200 {
        scratch.write("f", "old");
        let old = root.child("f").unwrap();
        acl_write::change(&old, b"before").unwrap();
        let upload = Upload::begin_replacement(&root, "f", &old).unwrap();
        let acknowledged = std::thread::scope(|scope| {
            let changed = scope.spawn(|| acl_write::change(&old, b"after"));
            upload.finish().unwrap();
            changed.join().unwrap().is_ok()
        });
        let expected = if acknowledged { b"after".to_vec() } else { b"before".to_vec() };
        let now = root.child("f").unwrap().subject().acl;
        let obeyed = now == StoredAcl::Ntacl(expected);
        assert!(obeyed, "round {round}: acknowledged {acknowledged}, but the file has {now:?}");
        std::fs::remove_file(scratch.at("f")).unwrap();
    }
}
