//! Tests of listings.

use super::{Scratch, code};
use crate::acl_write::set_acl_as_operator;
use crate::attributes::set_attribute;
use crate::list::{Entry, Listing, listing, names_held};
use crate::names::LookedAt;
use crate::patience::Blocking;
use crate::watch::Watch;
use enfilade_access::{Ace, AceFlags, AceType, SecurityDescriptor, StoredAcl, Version};
use enfilade_facts::vocabulary::{AccessMask, Sid};
use rustix::fs::{CWD, Mode};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::process::Command;
use std::sync::Mutex;

/// A time long after every change in these tests. At this time, all time stamps are reliable.
const AT: LookedAt<'_> = LookedAt { clock: 0, unix_seconds: i64::MAX, watch: None, names: None };

/// Some tests mount a file system. A mount at any path gives every object another version. So the tests that watch changes run one at a time.
pub(super) static HEARING: Mutex<()> = Mutex::new(());

fn names(scratch: &Scratch, path: &str, at_most: usize) -> Vec<String> {
    let mut listing = listing(&scratch.node(path)).unwrap();
    let mut names = Vec::new();
    loop {
        let batch = listing.next_batch(at_most, AT).unwrap();
        assert!(batch.len() <= at_most.max(1));
        if batch.is_empty() {
            break;
        }
        names.extend(batch.into_iter().map(|entry| entry.name.to_string()));
    }
    names.sort();
    names
}

#[test]
fn only_what_can_be_served_is_listed() {
    let scratch = Scratch::new();
    scratch.write("file", "x");
    scratch.write("ä b", "x");
    scratch.directory("directory");
    scratch.write(".hidden", "x");
    scratch.write(".enfilade-0123456789abcdef", "under way");
    scratch.write("line\nbreak", "x");
    scratch.write("back\\slash", "x");
    std::fs::write(scratch.at("").join(OsStr::from_bytes(b"latin-\xe4")), "x").unwrap();
    symlink("file", scratch.at("link")).unwrap();
    symlink("directory", scratch.at("link-to-directory")).unwrap();
    rustix::fs::mkfifoat(CWD, scratch.at("pipe"), Mode::RUSR).unwrap();
    let _listener = UnixListener::bind(scratch.at("socket")).unwrap();
    for at_most in [0, 1, 3, 100] {
        assert_eq!(names(&scratch, "", at_most), [".hidden", "directory", "file", "ä b"], "{at_most}");
    }
    assert_eq!(code(scratch.node("").child(".enfilade-0123456789abcdef")), "CT01");
    assert_eq!(code(listing(&scratch.node("file"))), "CT04");
}

#[test]
fn an_entry_is_what_it_is_when_it_is_opened() {
    let scratch = Scratch::new();
    scratch.write("file", "four");
    scratch.directory("directory");
    let mut listed = listing(&scratch.node("")).unwrap();
    for entry in listed.next_batch(10, AT).unwrap() {
        let open = scratch.node(&entry.name);
        assert_eq!(entry.meta.as_ref(), Some(open.meta()));
        assert_eq!((entry.subject.object, &entry.subject.acl), (open.object(), &StoredAcl::Unread));
        let looked = listed.look(entry.name.clone(), AT).unwrap().unwrap();
        assert_eq!((&looked.meta, &looked.subject.acl), (&entry.meta, &open.subject().acl));
        assert_eq!(looked.subject.version, entry.subject.version);
    }
    assert!(listed.look("gone".into(), AT).unwrap().is_none());
    assert!(listed.look("../file".into(), AT).unwrap().is_none());
}

#[test]
fn the_state_of_an_entry_is_another_after_each_change_and_says_nothing_just_after_one() {
    let scratch = Scratch::new();
    scratch.write("file", "four");
    let state = |unix_seconds| {
        let at = LookedAt { unix_seconds, ..AT };
        let mut listing = listing(&scratch.node("")).unwrap();
        listing.next_batch(10, at).unwrap().remove(0).subject.version
    };
    let changed = scratch.node("file").meta().changed.0;
    let stamp = |version| match version {
        Some(Version::Stamped { file_system, changed, .. }) => Some((file_system, changed)),
        _ => None,
    };
    let Some(before) = stamp(state(changed + 2)) else {
        println!("not asserted: the time stamps of this file system are not reliable");
        return;
    };
    assert_eq!([state(changed - 1_000), state(changed), state(changed + 1)], [None; 3]);
    let acl = SecurityDescriptor { dacl: Some(vec![]), ..SecurityDescriptor::default() }.to_ntacl().unwrap();
    set_acl_as_operator(&scratch.node("file"), &acl).unwrap();
    let after = stamp(state(i64::MAX)).unwrap();
    assert_ne!(before.1, after.1);
    assert_eq!(before.0, after.0);
}

/// If a system call changes an ACL or a name, the kernel reports the change before the system call returns.
#[test]
fn what_is_watched_is_another_version_after_each_change() {
    let (scratch, _alone) = (Scratch::new(), HEARING.lock());
    let watch = match Watch::new() {
        Ok(watch) => watch,
        Err(why) => return println!("not asserted: {why}"),
    };
    let at = LookedAt { watch: Some(&watch), ..AT };
    ["file", "other"].iter().for_each(|name| scratch.write(name, "x"));
    let versions = || {
        let mut entries = listing(&scratch.node("")).unwrap().next_batch(10, at).unwrap();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let each =
            entries.iter().map(|entry| (entry.name.clone(), entry.subject.object, entry.subject.version));
        each.collect::<Vec<_>>()
    };
    if !matches!(versions()[0].2, Some(Version::Watched { .. })) {
        return println!("not asserted: the kernel does not report changes on this file system");
    }
    let mut last = versions();
    assert_eq!(versions(), last, "nothing was changed");
    let acl = SecurityDescriptor { dacl: Some(vec![]), ..SecurityDescriptor::default() }.to_ntacl().unwrap();
    let set = |acl: &[u8]| {
        set_acl_as_operator(&scratch.node("file"), acl).unwrap();
    };
    let elsewhere = Scratch::new();
    let (file, link) = (scratch.at("file"), elsewhere.at("link"));
    let changes: [&dyn Fn(); 7] = [
        &|| set(&acl),
        &|| {
            std::fs::rename(&file, &link).unwrap();
            std::fs::rename(&link, &file).unwrap();
        },
        &|| std::fs::hard_link(&file, &link).unwrap(),
        &|| set(&acl[..acl.len() - 1]),
        &|| std::fs::set_permissions(&link, std::fs::Permissions::from_mode(0o600)).unwrap(),
        &|| std::fs::remove_file(&link).unwrap(),
        &|| {
            // The new file usually gets the inode number of the removed file.
            std::fs::remove_file(&file).unwrap();
            scratch.write("file", "another");
        },
    ];
    for (n, change) in changes.iter().enumerate() {
        change();
        let now = versions();
        assert_ne!(now[0], last[0], "change {n}");
        assert_eq!(now[1], last[1], "the other file was not changed");
        last = now;
    }
    // The loop causes far more events than the kernel keeps for a process that does not read them.
    for n in 0..17_000 {
        scratch.write("many", "x");
        std::fs::set_permissions(scratch.at("many"), std::fs::Permissions::from_mode(0o600 + n % 8)).unwrap();
        std::fs::remove_file(scratch.at("many")).unwrap();
    }
    let now = versions();
    assert!(
        now[0].2 != last[0].2 && now[1].2 != last[1].2,
        "an object counts as changed if its events were lost"
    );
}

/// A listing of the root directory, and its entries; `None` if ACLs cannot be read by name on this system.
fn by_name<'w>(scratch: &Scratch, watch: &'w Watch) -> Option<(Listing, LookedAt<'w>, Vec<Entry>)> {
    let at = LookedAt { watch: Some(watch), ..AT };
    let mut listing = listing(&scratch.node("")).unwrap();
    let mut entries = listing.next_batch(10, at).unwrap();
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    let mut read = entries.clone();
    listing.read_by_name(read.iter_mut(), at);
    let is_read = read.iter().any(|entry| entry.subject.acl != StoredAcl::Unread);
    if !is_read {
        println!("not asserted: the kernel does not report changes here, or is older than 6.13");
    }
    is_read.then_some((listing, at, entries))
}

fn one_ace(rid: u32, entries: usize) -> Vec<u8> {
    let ace = Ace {
        kind: AceType::Allow,
        flags: AceFlags(0),
        mask: AccessMask::ALL,
        sid: Sid::of_store([1, 2, 3], rid),
    };
    SecurityDescriptor { dacl: Some(vec![ace; entries]), ..SecurityDescriptor::default() }.to_ntacl().unwrap()
}

#[test]
fn what_is_read_by_name_is_what_is_read_when_it_is_opened() {
    let (scratch, _alone) = (Scratch::new(), HEARING.lock());
    let Ok(watch) = Watch::new() else { return println!("not asserted: the kernel does not report changes") };
    for (name, acl) in
        [("a", Some(one_ace(1, 1))), ("b", Some(one_ace(2, 60))), ("c", None), ("d", Some(vec![7]))]
    {
        scratch.write(name, "x");
        if let Some(acl) = acl {
            set_acl_as_operator(&scratch.node(name), &acl).unwrap();
        }
    }
    scratch.write("e", "x");
    set_attribute(scratch.node("e").fd(), "user.NTACL", &one_ace(3, 1)).unwrap();
    let Some((mut listing, at, mut entries)) = by_name(&scratch, &watch) else { return };
    listing.read_by_name(entries.iter_mut(), at);
    for entry in entries {
        let opened = listing.look(entry.name.clone(), at).unwrap().unwrap();
        // An unusually large ACL is read when the file is opened. A file without an ACL is opened too, because its mode is needed.
        let expected = if matches!(&*entry.name, "b" | "c") { StoredAcl::Unread } else { opened.subject.acl };
        assert_eq!(
            (entry.subject.acl, entry.subject.version),
            (expected, opened.subject.version),
            "{}",
            entry.name
        );
    }
}

#[test]
fn a_name_that_may_mean_something_else_by_now_is_not_read_by() {
    let (scratch, _alone) = (Scratch::new(), HEARING.lock());
    let Ok(watch) = Watch::new() else { return println!("not asserted: the kernel does not report changes") };
    for (name, rid) in [("a", 1), ("b", 2), ("c", 3)] {
        scratch.write(name, "x");
        set_acl_as_operator(&scratch.node(name), &one_ace(rid, 1)).unwrap();
    }
    let exchange = || {
        let (a, b) = (scratch.at("a"), scratch.at("b"));
        rustix::fs::renameat_with(CWD, &a, CWD, &b, rustix::fs::RenameFlags::EXCHANGE).unwrap();
    };
    let Some((listed, at, mut entries)) = by_name(&scratch, &watch) else { return };
    let read = |entries: &[Entry]| -> Vec<bool> {
        entries.iter().map(|entry| entry.subject.acl != StoredAcl::Unread).collect()
    };
    // The files are exchanged after the entries were listed and before their ACLs are read.
    exchange();
    listed.read_by_name(entries.iter_mut(), at);
    assert_eq!(read(&entries), [false, false, true]);
    // The files are exchanged after the names were read, and before the entries are listed.
    let mut listing = listing(&scratch.node("")).unwrap();
    assert!(!listing.is_over(at).unwrap());
    exchange();
    let mut entries = listing.next_batch(10, at).unwrap();
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    assert_eq!(entries.iter().map(|entry| entry.meta.is_some()).collect::<Vec<_>>(), [true, true, false]);
    listing.read_by_name(entries.iter_mut(), at);
    assert_eq!(read(&entries), [false, false, true]);
}

#[test]
fn what_is_mounted_on_a_name_says_nothing_of_what_is_beneath() {
    let (scratch, _alone) = (Scratch::new(), HEARING.lock());
    let Ok(watch) = Watch::new() else { return println!("not asserted: the kernel does not report changes") };
    for (name, rid) in [("file", 1), ("other", 2)] {
        scratch.write(name, "x");
        set_acl_as_operator(&scratch.node(name), &one_ace(rid, 1)).unwrap();
    }
    let Some((listed, at, mut before)) = by_name(&scratch, &watch) else { return };
    let run = |command: &mut Command| command.status().is_ok_and(|status| status.success());
    if !run(Command::new("mount").arg("--bind").args([scratch.at("other"), scratch.at("file")])) {
        return println!("not asserted: nothing can be mounted here");
    }
    // No assertion runs before the mount is removed again, because a failed assertion would leave the mount.
    listed.read_by_name(before.iter_mut(), at);
    let during = by_name(&scratch, &watch).map(|(listing, at, mut entries)| {
        listing.read_by_name(entries.iter_mut(), at);
        let are_there = entries.iter_mut().map(|entry| listing.describe(entry, Blocking)).collect::<Vec<_>>();
        (entries, are_there)
    });
    assert!(run(Command::new("umount").arg(scratch.at("file"))));
    let after = by_name(&scratch, &watch).map(|(_, _, entries)| entries);
    let (Some((during, are_there)), Some(after)) = (during, after) else {
        panic!("the ACL could be read before the mount, but not during or after it")
    };
    // If a file system was mounted after the listing, every ACL stays unread. The entry at the mount point is not shown.
    assert_eq!(before.iter().map(|entry| &entry.subject.acl).collect::<Vec<_>>(), [&StoredAcl::Unread; 2]);
    assert_eq!(are_there, [false, true]);
    // After the mount was removed, no entry gets the version again that it had while the mount existed. So an ACL that was read through the mount is
    // not used later.
    let versions = |entries: &[Entry]| entries.iter().map(|entry| entry.subject.version).collect::<Vec<_>>();
    for (one, other) in [(&before, &during), (&during, &after), (&before, &after)] {
        assert!(versions(one).iter().zip(versions(other)).all(|(one, other)| *one != other));
    }
}

#[test]
fn what_is_shown_is_asked_for_and_is_what_was_judged() {
    let (scratch, _alone) = (Scratch::new(), HEARING.lock());
    let Ok(watch) = Watch::new() else { return println!("not asserted: the kernel does not report changes") };
    let at = LookedAt { watch: Some(&watch), ..AT };
    ["stays", "changes", "goes"].iter().for_each(|name| scratch.write(name, "x"));
    let mut listing = listing(&scratch.node("")).unwrap();
    let mut entries = listing.next_batch(10, at).unwrap();
    if entries.iter().any(|entry| entry.meta.is_some()) {
        return println!("not asserted: the kernel does not report changes on this file system");
    }
    scratch.write("new", "another");
    std::fs::rename(scratch.at("new"), scratch.at("changes")).unwrap();
    std::fs::remove_file(scratch.at("goes")).unwrap();
    for entry in &mut entries {
        let is_it = listing.describe(entry, Blocking);
        assert_eq!(is_it, entry.name == "stays", "{}", entry.name);
        assert_eq!(entry.meta.is_some(), is_it);
    }
}

#[test]
fn two_listings_of_one_node_do_not_disturb_each_other() {
    let scratch = Scratch::new();
    (0..100).for_each(|n| scratch.write(&format!("f{n}"), ""));
    let node = scratch.node("");
    let (mut first, mut second) = (listing(&node).unwrap(), listing(&node).unwrap());
    let mut counts = [0, 0];
    loop {
        let batches = [first.next_batch(7, AT).unwrap().len(), second.next_batch(11, AT).unwrap().len()];
        counts = [counts[0] + batches[0], counts[1] + batches[1]];
        if batches == [0, 0] {
            break;
        }
    }
    assert_eq!(counts, [100, 100]);
}

#[test]
fn ten_thousand_entries_come_in_batches_and_constant_memory() {
    let scratch = Scratch::new();
    (0..10_000).for_each(|n| scratch.write(&format!("entry-{n:05}"), ""));
    let mut listing = listing(&scratch.node("")).unwrap();
    let (mut seen, mut held_max) = (Vec::new(), 0);
    loop {
        let batch = listing.next_batch(256, AT).unwrap();
        if batch.is_empty() {
            break;
        }
        held_max = held_max.max(names_held(&listing));
        seen.extend(batch.into_iter().map(|entry| entry.name.to_string()));
    }
    seen.sort();
    assert_eq!(seen, (0..10_000).map(|n| format!("entry-{n:05}")).collect::<Vec<_>>());
    // At most the names of one buffer are held in memory: 64 KiB, with 32 bytes for each name.
    assert!(held_max <= 64 * 1024 / 32, "{held_max}");
    assert!(listing.next_batch(1, AT).unwrap().is_empty());
    assert_eq!(listing.unreadable(), 0);
}

#[test]
fn what_vanishes_is_left_out_and_what_cannot_be_opened_is_counted() {
    let scratch = Scratch::new();
    ["a", "b", "c"].iter().for_each(|name| scratch.write(name, ""));
    std::fs::set_permissions(scratch.at("c"), std::fs::Permissions::from_mode(0o000)).unwrap();
    let privileged = std::fs::File::open(scratch.at("c")).is_ok();
    let mut listing = listing(&scratch.node("")).unwrap();
    let first = listing.next_batch(1, AT).unwrap().remove(0).name;
    let gone = if first == "a" { "b" } else { "a" };
    std::fs::remove_file(scratch.at(gone)).unwrap();
    let rest: Vec<_> = listing.next_batch(10, AT).unwrap().into_iter().map(|entry| entry.name).collect();
    assert!(!rest.iter().any(|name| name == gone));
    if privileged {
        println!("not asserted: this process may open every file");
    } else {
        assert_eq!(listing.unreadable(), 1);
    }
}

#[test]
fn a_directory_that_was_removed_ends() {
    let scratch = Scratch::new();
    scratch.directory("d");
    let mut listing = listing(&scratch.node("d")).unwrap();
    std::fs::remove_dir(scratch.at("d")).unwrap();
    assert!(listing.next_batch(10, AT).unwrap().is_empty());
}
