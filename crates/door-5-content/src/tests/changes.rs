//! Tests of making directories, deleting and renaming.

use super::{Scratch, code, given, make, names_on_disk, remove, rename};
use crate::relocate::{EntryRef, relocate};
use crate::{Blocking, Refusal, Upload, acl_write};
use enfilade_access::{NodeKind, StoredAcl};
use enfilade_facts::vocabulary::StorePath;
use std::os::unix::fs::{PermissionsExt, symlink};

#[test]
fn a_directory_is_made_with_its_acl() {
    let scratch = Scratch::new();
    let root = scratch.node("");
    let made = make(&root, "d", &given(b"its acl")).unwrap();
    let found = scratch.node("d");
    assert_eq!((made.object(), made.kind()), (found.object(), NodeKind::Directory));
    assert_eq!(found.subject().acl, StoredAcl::Ntacl(b"its acl".to_vec()));
    assert_eq!(std::fs::metadata(scratch.at("d")).unwrap().permissions().mode() & 0o777, 0o700);
    // The function returns a directory that the caller can use at once.
    make(&made, "e", &given(b"")).unwrap();
    assert_eq!(names_on_disk(&scratch.at("d")), ["e"]);
}

#[test]
fn a_name_that_is_taken_is_refused() {
    let scratch = Scratch::new();
    scratch.write("f", "");
    scratch.directory("d");
    symlink("gone", scratch.at("link")).unwrap();
    for name in ["f", "d", "link"] {
        assert_eq!(code(make(&scratch.node(""), name, &given(b""))), "CT03", "{name}");
    }
    assert_eq!(code(make(&scratch.node("f"), "x", &given(b""))), "CT04");
    assert_eq!(code(make(&scratch.node(""), "a/b", &given(b""))), "CT15");
    assert_eq!(names_on_disk(&scratch.at("")), ["d", "f", "link"]);
}

#[test]
fn an_acl_that_cannot_be_kept_leaves_no_directory() {
    let scratch = Scratch::new();
    let too_large = vec![0; enfilade_facts::limits::ACL_BYTES_MAX + 1];
    assert_eq!(code(make(&scratch.node(""), "d", &given(&too_large))), "CT12");
    assert_eq!(code(Upload::begin_new(&scratch.node(""), "f", &given(&too_large))), "CT12");
    assert!(names_on_disk(&scratch.at("")).is_empty());
}

#[test]
fn what_was_judged_is_what_is_deleted() {
    let scratch = Scratch::new();
    scratch.write("f", "");
    scratch.write("d/x", "");
    let root = scratch.node("");
    assert_eq!(code(remove(&root, "d", &scratch.node("d"))), "CT05");
    remove(&scratch.node("d"), "x", &scratch.node("d/x")).unwrap();
    remove(&root, "d", &scratch.node("d")).unwrap();

    let judged = scratch.node("f");
    scratch.write("other", "");
    std::fs::rename(scratch.at("other"), scratch.at("f")).unwrap();
    assert_eq!(code(remove(&root, "f", &judged)), "CT09");
    remove(&root, "f", &scratch.node("f")).unwrap();
    assert_eq!(code(remove(&root, "f", &judged)), "CT09");
    assert!(names_on_disk(&scratch.at("")).is_empty());
}

#[test]
fn a_link_that_took_the_place_is_not_deleted() {
    let scratch = Scratch::new();
    scratch.write("f", "");
    let judged = scratch.node("f");
    std::fs::remove_file(scratch.at("f")).unwrap();
    std::fs::write(scratch.outside("g"), "").unwrap();
    symlink("../g", scratch.at("f")).unwrap();
    assert_eq!(code(remove(&scratch.node(""), "f", &judged)), "CT09");
    assert!(std::fs::symlink_metadata(scratch.at("f")).unwrap().is_symlink());
    assert!(scratch.outside("g").exists());
}

#[test]
fn a_directory_with_an_upload_under_way_is_not_empty() {
    let scratch = Scratch::new();
    scratch.directory("d");
    let upload = Upload::begin_new(&scratch.node("d"), "f", &given(b"")).unwrap();
    assert_eq!(code(remove(&scratch.node(""), "d", &scratch.node("d"))), "CT25");
    drop(upload);
    remove(&scratch.node(""), "d", &scratch.node("d")).unwrap();
}

#[test]
fn a_deleted_file_takes_no_acl() {
    let scratch = Scratch::new();
    scratch.write("f", "");
    let node = scratch.node("f");
    remove(&scratch.node(""), "f", &node).unwrap();
    assert_eq!(code(acl_write::change(&node, b"acl")), "CT09");
}

#[test]
fn what_was_abandoned_is_removed_and_what_is_under_way_is_not() {
    let scratch = Scratch::new();
    scratch.write("d/.enfilade-00000000000000aa", "left");
    scratch.write("d/.enfilade-00000000000000bb/x/y", "left");
    scratch.write("d/.enfilade-not-ours", "kept");
    scratch.write("d/f", "kept");
    let upload = Upload::begin_new(&scratch.node("d"), "g", &given(b"")).unwrap();
    assert_eq!(scratch.root().remove_abandoned(0, &|| true), Ok(2));
    upload.finish().unwrap();
    assert_eq!(names_on_disk(&scratch.at("d")), [".enfilade-not-ours", "f", "g"]);
}

#[test]
fn both_names_of_a_moved_tree_are_kept_until_it_was_judged_once_more() {
    let scratch = Scratch::new();
    scratch.write("from/x", "");
    let root = scratch.root();
    let find = |path: &str| root.find(&StorePath::from_plain(path).unwrap(), Blocking).unwrap();
    let (top, target) = (find(""), find("from"));
    let (from, to) = (EntryRef { directory: &top, name: "from" }, EntryRef { directory: &top, name: "to" });
    let judge = || Ok::<_, Refusal>(());
    let moved = relocate(&target, from, to, None, judge, || Ok(())).unwrap();
    assert_eq!(code(make(&top, "from", &given(b""))), "CT09");
    assert_eq!(code(Upload::begin_new(&top, "from", &given(b"")).and_then(Upload::finish)), "CT09");
    assert_eq!(code(rename(&target, to, EntryRef { directory: &top, name: "away" })), "CT09");
    assert_eq!(moved.take_back(), Ok(None));
    assert_eq!(names_on_disk(&scratch.at("")), ["from"]);
    relocate(&target, from, to, None, judge, || Ok(())).unwrap().complete();
    make(&top, "from", &given(b"")).unwrap();
    assert_eq!(names_on_disk(&scratch.at("")), ["from", "to"]);
    // If the directory was moved during the operation, the new file or directory loses its name again, and is removed.
    let gone = || Err(Refusal::ChangedMeanwhile(String::new()));
    let upload = Upload::begin_new(&top, "file", &given(b"")).unwrap();
    assert_eq!(code(upload.finish_if(judge, gone)), "CT09");
    assert_eq!(code(crate::collection::make(&top, "directory", &given(b""), judge, gone)), "CT09");
    assert_eq!(names_on_disk(&scratch.at("")), ["from", "to"]);
}

#[test]
fn what_was_replaced_is_never_removed_where_it_cannot_get_a_name() {
    let scratch = Scratch::new();
    scratch.directory("from");
    scratch.write("to", "old");
    let root = scratch.root();
    let find = |path: &str| root.find(&StorePath::from_plain(path).unwrap(), Blocking).unwrap();
    let (top, target, replaced) = (find(""), find("from"), find("to"));
    let (from, to) = (EntryRef { directory: &top, name: "from" }, EntryRef { directory: &top, name: "to" });
    let moved = relocate(&target, from, to, Some(&replaced), || Ok::<_, Refusal>(()), || Ok(())).unwrap();
    // Another program takes the new name, and all names that the replaced file could get.
    std::fs::rename(scratch.at("to"), scratch.at("away")).unwrap();
    scratch.write("to", "");
    (1..100).for_each(|n| scratch.write(&format!("to (kept {n})"), ""));
    assert!(moved.take_back().is_err());
    let hidden = names_on_disk(&scratch.at("")).into_iter().find(|name| name.starts_with(".enfilade-"));
    assert_eq!(std::fs::read(scratch.at(&hidden.unwrap())).unwrap(), b"old");
}
