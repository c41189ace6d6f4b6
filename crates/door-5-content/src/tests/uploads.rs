//! Tests of uploads.

use super::{Scratch, bytes_of, code, given, names_on_disk};
use crate::acl_read::AclPlace;
use crate::acl_write;
use crate::{LookedAt, Node, Upload, list};
use enfilade_facts::vocabulary::AclDialect;
use rustix::fs::{XattrFlags, fgetxattr, fsetxattr};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

fn upload(directory: &Node, name: &str, content: &str) -> Upload {
    let mut upload = Upload::begin_new(directory, name, &given(b"an acl")).unwrap();
    upload.write(content.as_bytes()).unwrap();
    upload
}

fn replacement(directory: &Node, name: &str, content: &str) -> Upload {
    let target = directory.child(name).unwrap();
    let mut upload = Upload::begin_replacement(directory, name, &target).unwrap();
    upload.write(content.as_bytes()).unwrap();
    upload
}

fn attribute(node: &Node, name: &str) -> Option<Vec<u8>> {
    let mut value = [0; 4096];
    fgetxattr(node.fd(), name, &mut value).ok().map(|count| value[..count].to_vec())
}

#[test]
fn what_is_served_is_counted_and_nothing_else() {
    let scratch = Scratch::new();
    let root = crate::Root::open_own(scratch.at("").to_str().unwrap(), AclDialect::Ntacl).unwrap();
    std::fs::create_dir_all(scratch.at("a/b")).unwrap();
    std::fs::write(scratch.at("a/b/one"), "12345").unwrap();
    std::fs::write(scratch.at("two"), "123").unwrap();
    symlink(scratch.at("two"), scratch.at("link")).unwrap();
    let fill = crate::Fill::default();
    assert_eq!(fill.used(&root).unwrap(), 8);
    // A running upload is stored under a reserved name.
    let upload = upload(&scratch.node(""), "new", "content");
    assert_eq!(fill.count(&root).unwrap(), 8);
    upload.finish().unwrap();
    assert_eq!(fill.used(&root).unwrap(), 8, "the next count includes the changes of other programs");
    assert_eq!(fill.count(&root).unwrap(), 15);
}

#[test]
fn a_new_file_is_seen_whole_or_not_at_all() {
    let scratch = Scratch::new();
    let root = scratch.node("");
    let upload = upload(&root, "new", "content");
    assert_eq!(upload.bytes(), 7);
    assert_eq!(code(scratch.find("new")), "CT01");
    assert!(list::listing(&root).unwrap().next_batch(10, LookedAt::default()).unwrap().is_empty());
    let node = upload.finish().unwrap();
    assert_eq!(node.object(), scratch.node("new").object());
    assert_eq!((bytes_of(&node), node.meta().bytes), (b"content".to_vec(), 7));
    assert_eq!(node.meta(), scratch.node("new").meta());
    assert_eq!(scratch.node("new").subject().acl, enfilade_access::StoredAcl::Ntacl(b"an acl".to_vec()));
    assert_eq!(std::fs::metadata(scratch.at("new")).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(names_on_disk(&scratch.at("")), ["new"]);
}

#[test]
fn an_abandoned_upload_leaves_nothing() {
    let scratch = Scratch::new();
    scratch.write("old", "old");
    let root = scratch.node("");
    drop(upload(&root, "new", "half"));
    drop(replacement(&root, "old", "half"));
    assert_eq!(names_on_disk(&scratch.at("")), ["old"]);
    assert_eq!(bytes_of(&scratch.node("old")), b"old");
}

#[test]
fn of_two_uploads_of_one_new_name_the_second_is_refused() {
    let scratch = Scratch::new();
    let root = scratch.node("");
    let (first, second) = (upload(&root, "new", "first"), upload(&root, "new", "second"));
    first.finish().unwrap();
    assert_eq!(code(second.finish()), "CT03");
    assert_eq!(code(Upload::begin_new(&root, "new", &given(b""))), "CT03");
    assert_eq!(bytes_of(&scratch.node("new")), b"first");
    assert_eq!(names_on_disk(&scratch.at("")), ["new"]);
}

#[test]
fn a_name_that_nobody_is_shown_is_taken_all_the_same() {
    let scratch = Scratch::new();
    symlink("/etc/passwd", scratch.at("link")).unwrap();
    let root = scratch.node("");
    assert_eq!(code(Upload::begin_new(&root, "link", &given(b""))), "CT03");
    let late = upload(&root, "late", "x");
    symlink("/etc/passwd", scratch.at("late")).unwrap();
    assert_eq!(code(late.finish()), "CT03");
    assert!(std::fs::symlink_metadata(scratch.at("late")).unwrap().is_symlink());
}

#[test]
fn the_old_content_stays_until_the_new_is_whole() {
    let scratch = Scratch::new();
    scratch.write("f", "old");
    let root = scratch.node("");
    let old = scratch.node("f");
    let upload = replacement(&root, "f", "new content");
    assert_eq!(bytes_of(&scratch.node("f")), b"old");
    let new = upload.finish().unwrap();
    assert_eq!(bytes_of(&scratch.node("f")), b"new content");
    assert_ne!(new.meta().validator(), old.meta().validator());
    // A client that was reading the old file still reads the old bytes.
    assert_eq!(bytes_of(&old), b"old");
    assert_eq!(names_on_disk(&scratch.at("")), ["f"]);
}

#[test]
fn a_replacement_keeps_what_is_not_content() {
    let scratch = Scratch::new();
    scratch.write("f", "old");
    let old = scratch.node("f");
    std::fs::set_permissions(scratch.at("f"), std::fs::Permissions::from_mode(0o4641)).unwrap();
    let place = acl_write::change(&old, b"the acl").unwrap();
    fsetxattr(old.fd(), "user.colour", b"blue", XattrFlags::empty()).unwrap();
    let new = replacement(&scratch.node(""), "f", "new").finish().unwrap();
    assert_eq!(attribute(&new, place.name(AclDialect::Ntacl)), Some(b"the acl".to_vec()));
    assert_eq!(attribute(&new, "user.colour"), Some(b"blue".to_vec()));
    assert_eq!(new.meta().mode, 0o641, "the new file has the mode, but no set-uid bit");
    assert_eq!((new.meta().uid, new.meta().gid), (old.meta().uid, old.meta().gid));
    assert_ne!(new.object(), old.object());
}

#[test]
fn a_replacement_keeps_a_foreign_owner_where_that_is_permitted() {
    let scratch = Scratch::new();
    scratch.write("f", "old");
    if let Err(error) = std::os::unix::fs::chown(scratch.at("f"), Some(12_345), Some(23_456)) {
        println!("not asserted: this process may not give files away ({error})");
        return;
    }
    let new = replacement(&scratch.node(""), "f", "new").finish().unwrap();
    assert_eq!((new.meta().uid, new.meta().gid), (12_345, 23_456));
}

#[test]
fn an_acl_that_changes_during_an_upload_is_obeyed_afterwards() {
    let scratch = Scratch::new();
    scratch.write("f", "old");
    let old = scratch.node("f");
    let place = acl_write::change(&old, b"open to all").unwrap();
    fsetxattr(old.fd(), "user.colour", b"blue", XattrFlags::empty()).unwrap();
    let upload = replacement(&scratch.node(""), "f", "new");
    acl_write::change(&old, b"closed").unwrap();
    rustix::fs::fremovexattr(old.fd(), "user.colour").unwrap();
    std::fs::set_permissions(scratch.at("f"), std::fs::Permissions::from_mode(0o600)).unwrap();
    let new = upload.finish().unwrap();
    assert_eq!(attribute(&new, place.name(AclDialect::Ntacl)), Some(b"closed".to_vec()));
    assert_eq!((attribute(&new, "user.colour"), new.meta().mode), (None, 0o600));
    assert_eq!(code(acl_write::change(&old, b"too late")), "CT09", "the old file has no name now");
}

#[test]
fn a_read_only_file_can_be_replaced_too() {
    let scratch = Scratch::new();
    scratch.write("f", "old");
    let old = scratch.node("f");
    let permissions =
        |mode| std::fs::set_permissions(scratch.at("f"), std::fs::Permissions::from_mode(mode)).unwrap();
    acl_write::change(&old, b"before").unwrap();
    permissions(0o444);
    let upload = replacement(&scratch.node(""), "f", "new");
    permissions(0o644);
    acl_write::change(&old, b"after").unwrap();
    permissions(0o444);
    let new = upload.finish().unwrap();
    assert_eq!(new.subject().acl, enfilade_access::StoredAcl::Ntacl(b"after".to_vec()));
    let again = replacement(&scratch.node(""), "f", "again").finish().unwrap();
    assert_eq!((again.meta().mode, again.subject().acl), (0o444, new.subject().acl));
}

#[test]
fn a_directorys_default_acl_does_not_widen_a_replacement() {
    let scratch = Scratch::new();
    scratch.write("f", "old");
    std::fs::set_permissions(scratch.at("f"), std::fs::Permissions::from_mode(0o640)).unwrap();
    // Default entries: owner rwx, user 4242 rwx, group rwx, mask rwx, other none (POSIX ACL, version 2).
    let entry =
        |tag: u16, id: u32| [tag.to_le_bytes().as_slice(), &7u16.to_le_bytes(), &id.to_le_bytes()].concat();
    let none = [0x20u16.to_le_bytes().as_slice(), &0u16.to_le_bytes(), &u32::MAX.to_le_bytes()].concat();
    let entries =
        [entry(1, u32::MAX), entry(2, 4242), entry(4, u32::MAX), entry(0x10, u32::MAX), none].concat();
    let default = [2u32.to_le_bytes().as_slice(), &entries].concat();
    let root = scratch.node("");
    if let Err(errno) = fsetxattr(root.fd(), "system.posix_acl_default", &default, XattrFlags::empty()) {
        println!("not asserted: no POSIX ACLs here ({errno})");
        return;
    }
    let new = replacement(&root, "f", "new").finish().unwrap();
    assert_eq!((attribute(&new, "system.posix_acl_access"), new.meta().mode), (None, 0o640));
}

#[test]
fn a_name_that_was_swapped_is_not_replaced() {
    let scratch = Scratch::new();
    scratch.write("f", "old");
    let root = scratch.node("");
    let upload = replacement(&root, "f", "new");
    scratch.write("other", "somebody else's");
    std::fs::rename(scratch.at("other"), scratch.at("f")).unwrap();
    assert_eq!(code(upload.finish()), "CT09");
    assert_eq!(bytes_of(&scratch.node("f")), b"somebody else's");

    let removed = replacement(&root, "f", "new");
    std::fs::remove_file(scratch.at("f")).unwrap();
    assert_eq!(code(removed.finish()), "CT09");
    scratch.write("other", "");
    assert_eq!(code(Upload::begin_replacement(&root, "f", &scratch.node("other"))), "CT09");
    assert_eq!(names_on_disk(&scratch.at("")), ["other"]);
}

#[test]
fn only_one_of_two_replacements_wins() {
    let scratch = Scratch::new();
    scratch.write("f", "old");
    let root = scratch.node("");
    let (first, second) = (replacement(&root, "f", "first"), replacement(&root, "f", "second"));
    second.finish().unwrap();
    assert_eq!(code(first.finish()), "CT09");
    assert_eq!(bytes_of(&scratch.node("f")), b"second");
}

#[test]
fn kinds_and_names_are_checked_before_anything_is_made() {
    let scratch = Scratch::new();
    scratch.write("f", "");
    scratch.directory("d");
    let (root, file) = (scratch.node(""), scratch.node("f"));
    assert_eq!(code(Upload::begin_new(&file, "x", &given(b""))), "CT04");
    assert_eq!(code(Upload::begin_replacement(&root, "d", &scratch.node("d"))), "CT04");
    for name in ["", ".", "..", "a/b", "../x", ".enfilade-x", "a\nb"] {
        assert_eq!(code(Upload::begin_new(&root, name, &given(b""))), "CT15", "{name}");
        assert_eq!(code(Upload::begin_replacement(&root, name, &file)), "CT15", "{name}");
    }
    assert_eq!(code(Upload::begin_new(&root, &"x".repeat(256), &given(b""))), "CT13");
    let gone = scratch.node("d");
    std::fs::remove_dir(scratch.at("d")).unwrap();
    assert_eq!(code(Upload::begin_new(&gone, "x", &given(b""))), "CT02");
    assert_eq!(names_on_disk(&scratch.at("")), ["f"]);
}

#[test]
fn hard_links_keep_the_old_content() {
    let scratch = Scratch::new();
    scratch.write("f", "old");
    std::fs::hard_link(scratch.at("f"), scratch.at("g")).unwrap();
    let new = replacement(&scratch.node(""), "f", "new").finish().unwrap();
    assert_eq!((bytes_of(&new), bytes_of(&scratch.node("g"))), (b"new".to_vec(), b"old".to_vec()));
    assert_eq!(std::fs::metadata(scratch.at("f")).unwrap().nlink(), 1);
}

#[test]
fn an_acl_in_security_stays_there() {
    let scratch = Scratch::new();
    scratch.write("f", "old");
    let old = scratch.node("f");
    if let Err(errno) =
        fsetxattr(old.fd(), AclPlace::Security.name(AclDialect::Ntacl), b"samba's", XattrFlags::empty())
    {
        println!("not asserted: this process may not write security.NTACL ({errno})");
        return;
    }
    let new = replacement(&scratch.node(""), "f", "new").finish().unwrap();
    assert_eq!(attribute(&new, "security.NTACL"), Some(b"samba's".to_vec()));
    assert_eq!(attribute(&new, "user.NTACL"), None);
}
