//! Somebody changes the tree while we walk it.

use super::{Scratch, code, given};
use crate::collection::remove;
use crate::{Refusal, Upload, acl, read};
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
            match root.find(&path) {
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
    println!("read {read_inside} times, absent {absent} times in {SWAPS} swaps");
    assert!(read_inside + absent > 0);
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
        acl::change(&old, b"before").unwrap();
        let upload = Upload::begin_replacement(&root, "f", &old).unwrap();
        let acknowledged = std::thread::scope(|scope| {
            let changed = scope.spawn(|| acl::change(&old, b"after"));
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
