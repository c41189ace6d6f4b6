//! Tests of the trash, on real directories.

use super::{Scratch, code, names_on_disk};
use crate::relocate::{EntryRef, Relocated};
use crate::trash::{ThrownAway, TrashRecord, bytes_of, take_out, throw};
use crate::{Blocking, Fill, ItemId, Refusal, TreeBudget, can_be_shown};
use enfilade_facts::vocabulary::{StorePath, UserId};
use std::cell::Cell;
use std::os::unix::fs::PermissionsExt as _;

const USER: UserId = UserId::from_bytes([7; 16]);

fn path(text: &str) -> StorePath {
    StorePath::from_plain(text).unwrap()
}

fn throw_at(scratch: &Scratch, at: &str, seconds: i64) -> Result<ThrownAway, Refusal> {
    let (root, path) = (scratch.root(), path(at));
    let (directory, name) = root.find_parent(&path).unwrap();
    let target = directory.child(name).unwrap();
    let record = TrashRecord { path: path.clone(), who: "alice@local".to_owned() };
    throw(&root, (&target, EntryRef { directory: &directory, name }), (USER, seconds, &record), || Ok(()))
}

fn trash_of_user(scratch: &Scratch) -> Vec<String> {
    names_on_disk(&scratch.at(&format!(".enfilade-trash/{USER}")))
}

#[test]
fn what_is_thrown_away_comes_back_as_it_was() {
    let scratch = Scratch::new();
    scratch.write("folder/a", "content");
    let inode = scratch.node("folder").object();
    let id = throw_at(&scratch, "folder", 5).unwrap().complete();
    assert_eq!(names_on_disk(&scratch.at("")), [".enfilade-trash"]);
    let root = scratch.root();
    assert_eq!(root.trash_ids(Some(USER), 9).unwrap(), (vec![id], false));
    assert_eq!(root.trash_ids(None, 9).unwrap(), (vec![id], false));
    assert_eq!(root.trash_ids(Some(UserId::from_bytes([8; 16])), 9).unwrap(), (vec![], false));
    assert_eq!((id.seconds, id.to_string().parse()), (5, Ok(id)));
    assert_eq!(ItemId::of_name(USER, &id.name()), Some(id));
    let found = root.trashed(id).unwrap();
    assert_eq!((&found.record.path, found.record.who.as_str()), (&path("folder"), "alice@local"));
    assert_eq!((found.node().object(), bytes_of(found.node(), &TreeBudget::unlimited())), (inode, Ok(7)));
    // Another object got the name of the deleted object meanwhile.
    scratch.write("folder/other", "");
    let top = root.find(&StorePath::root(), Blocking).unwrap();
    let to = |name: &'static str| EntryRef { directory: &top, name };
    let free = || Ok::<_, Refusal>(());
    assert_eq!(code(take_out(&found, to("folder"), free, || Ok(())).map(Relocated::complete)), "CT03");
    take_out(&found, to("again"), free, || Ok(())).unwrap().complete();
    found.forget().unwrap();
    assert_eq!(scratch.node("again").object(), inode);
    assert_eq!(std::fs::read_to_string(scratch.at("again/a")).unwrap(), "content");
    assert!(trash_of_user(&scratch).is_empty());
    assert_eq!(code(root.trashed(id)), "CT01");
}

#[test]
fn a_refusal_or_an_undone_move_leaves_nothing_in_the_trash() {
    let scratch = Scratch::new();
    scratch.write("file", "content");
    let (root, record) = (scratch.root(), TrashRecord { path: path("file"), who: String::new() });
    let top = root.find(&StorePath::root(), Blocking).unwrap();
    let (target, from) = (top.child("file").unwrap(), EntryRef { directory: &top, name: "file" });
    let refused = throw(&root, (&target, from), (USER, 5, &record), || Err(Refusal::Unmet));
    assert_eq!(code(refused), "CT26");
    assert!(scratch.at("file").exists() && trash_of_user(&scratch).is_empty());
    throw_at(&scratch, "file", 5).unwrap().take_back().unwrap();
    assert!(scratch.at("file").exists() && trash_of_user(&scratch).is_empty());
}

#[test]
fn no_request_and_no_count_of_odd_names_finds_the_trash() {
    for name in [".enfilade-trash", "a/.enfilade-trash", ".enfilade-trash/x"] {
        assert!(StorePath::from_plain(name).is_err() && StorePath::from_url(name).is_err(), "{name}");
    }
    assert!(can_be_shown(b".enfilade-trash") && !can_be_shown(b".enfilade-other"));
}

/// Another user of the machine can make the directory of the trash before the server does, to read the files that users delete.
#[test]
fn a_directory_of_somebody_else_is_not_used() {
    let scratch = Scratch::new();
    scratch.write("file", "content");
    scratch.directory(".enfilade-trash");
    std::fs::set_permissions(scratch.at(".enfilade-trash"), std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(code(throw_at(&scratch, "file", 5)), "CT08");
    std::fs::remove_dir_all(scratch.at(".enfilade-trash")).unwrap();
    scratch.directory("elsewhere");
    std::os::unix::fs::symlink(scratch.at("elsewhere"), scratch.at(".enfilade-trash")).unwrap();
    assert_eq!(code(throw_at(&scratch, "file", 5)), "CT08");
    assert!(scratch.at("file").exists() && names_on_disk(&scratch.at("elsewhere")).is_empty());
}

#[test]
fn old_items_are_removed_with_bounded_work() {
    let scratch = Scratch::new();
    for (name, seconds) in [("old", 5), ("older", 4), ("new", 50)] {
        for n in 0..20 {
            scratch.write(&format!("{name}/deep/{n}"), "x");
        }
        throw_at(&scratch, name, seconds).unwrap().complete();
    }
    let (root, left, mut runs) = (scratch.root(), Cell::new(0_u32), 0);
    let keep_going = || left.replace(left.get().saturating_sub(1)) > 0;
    while trash_of_user(&scratch).len() > 1 {
        left.set(10);
        root.expire_trash((50, 60), &keep_going).unwrap();
        runs += 1;
        assert!(runs < 100);
    }
    assert!((4..20).contains(&runs), "{runs}");
    let (ids, _) = root.trash_ids(None, 9).unwrap();
    assert_eq!(ids.iter().map(|id| id.seconds).collect::<Vec<_>>(), [50]);
    assert_eq!(bytes_of(root.trashed(ids[0]).unwrap().node(), &TreeBudget::unlimited()), Ok(20));
}

#[test]
fn the_trash_counts_in_the_quota() {
    let scratch = Scratch::new();
    scratch.write("file", "12345");
    scratch.write("folder/a", "123");
    assert_eq!(Fill::default().used(&scratch.root()), Ok(8));
    throw_at(&scratch, "file", 5).unwrap().complete();
    throw_at(&scratch, "folder", 5).unwrap().complete();
    assert_eq!(Fill::default().used(&scratch.root()), Ok(8));
}

#[test]
fn an_item_without_a_record_or_object_is_not_shown() {
    let scratch = Scratch::new();
    for name in ["one", "two", "three"] {
        scratch.write(name, "");
    }
    let ids = ["one", "two", "three"].map(|name| throw_at(&scratch, name, 5).unwrap().complete());
    let at = |id: ItemId, part: &str| scratch.at(&format!(".enfilade-trash/{USER}/{}/{part}", id.name()));
    std::fs::remove_file(at(ids[0], "record")).unwrap();
    std::fs::write(at(ids[1], "record"), b"\x01\x00\x00").unwrap();
    std::fs::remove_file(at(ids[2], "item")).unwrap();
    for id in ids {
        assert_eq!(code(scratch.root().trashed(id)), "CT01");
    }
    // The damaged items are removed when they expire.
    assert_eq!(scratch.root().expire_trash((6, 7), &|| true), Ok(3));
    assert!(trash_of_user(&scratch).is_empty());
}
