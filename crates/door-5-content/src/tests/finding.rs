//! Tests of finding objects and reading files.

use super::{Scratch, bytes_of, code};
use crate::{Blocking, Cached, CachedOnly, Root, read};
use enfilade_access::NodeKind;
use enfilade_facts::vocabulary::AclDialect;
use enfilade_facts::vocabulary::StorePath;
use rustix::fs::{CWD, Mode};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;

#[test]
fn what_is_there_is_found_and_described() {
    let scratch = Scratch::new();
    scratch.write("a/b.txt", "hello");
    let file = scratch.node("a/b.txt");
    let on_disk = std::fs::metadata(scratch.at("a/b.txt")).unwrap();
    assert_eq!((file.kind(), file.meta().bytes), (NodeKind::File, 5));
    assert_eq!((file.object().device, file.object().inode), (on_disk.dev(), on_disk.ino()));
    assert_eq!(file.meta().modified, (on_disk.mtime(), u32::try_from(on_disk.mtime_nsec()).unwrap()));
    assert_eq!(file.subject().mode, on_disk.permissions().mode() & 0o7777);
    assert_eq!(scratch.node("").kind(), NodeKind::Directory);
    assert_eq!(scratch.node("a").child("b.txt").unwrap().object(), file.object());
    assert_eq!(code(scratch.find("a/c")), "CT01");
    assert_eq!(code(scratch.find("a/b.txt/c")), "CT01");
    assert_eq!(code(file.child("c")), "CT01");
}

#[test]
fn no_link_is_followed_wherever_it_stands_or_points() {
    let scratch = Scratch::new();
    scratch.write("in/f", "inside");
    std::fs::create_dir(scratch.outside("out")).unwrap();
    std::fs::write(scratch.outside("out/f"), "outside").unwrap();
    symlink("../out", scratch.at("ancestor-out")).unwrap();
    symlink("in", scratch.at("ancestor-in")).unwrap();
    symlink("../out/f", scratch.at("leaf-out")).unwrap();
    symlink("in/f", scratch.at("leaf-in")).unwrap();
    symlink("/proc/self/root", scratch.at("magic")).unwrap();
    symlink("gone", scratch.at("dangling")).unwrap();
    for path in [
        "ancestor-out/f",
        "ancestor-in/f",
        "ancestor-in",
        "leaf-out",
        "leaf-in",
        "magic",
        "magic/etc",
        "dangling",
    ] {
        assert_eq!(code(scratch.find(path)), "CT01", "{path}");
        // In a directory, a link is an entry that is never served.
        let expected = if path.contains('/') { "CT01" } else { "CT11" };
        assert_eq!(code(scratch.node("").child(path)), expected, "{path}");
    }
    let parent = |path: &str| code(scratch.root().find_parent(&StorePath::from_plain(path).unwrap()));
    assert_eq!([parent("ancestor-out/new"), parent("ancestor-in/new"), parent("leaf-in/new")], ["CT02"; 3]);
}

#[test]
fn what_is_cached_is_what_is_found() {
    let scratch = Scratch::new();
    scratch.write("in/f", "inside");
    symlink("in", scratch.at("link")).unwrap();
    symlink("f", scratch.at("in/leaf")).unwrap();
    let _listener = UnixListener::bind(scratch.at("in/socket")).unwrap();
    let directory = scratch.node("in");
    for path in [
        "",
        "in",
        "in/f",
        "in/f/below",
        "in/f/below/that",
        "absent",
        "in/absent",
        "link",
        "link/f",
        "in/leaf",
        "in/socket",
    ] {
        // From now on the kernel has the result in memory, even the result that a path is absent.
        let found = scratch.find(path).map(|node| (node.object(), node.meta().clone()));
        let path = StorePath::from_plain(path).unwrap();
        let cached = match scratch.root().find(&path, CachedOnly).map(Cached::ready).transpose() {
            None => return println!("not asserted: {path} is not cached here"),
            Some(cached) => cached.map(|node| (node.object(), node.meta().clone())),
        };
        assert_eq!(code(cached.clone()), code(found.clone()), "{path}");
        assert_eq!(cached.ok(), found.clone().ok(), "{path}");
        if let Some(("in", name)) = path.as_str().rsplit_once('/').filter(|_| path.name() != "below") {
            assert_eq!(directory.stat_cached(name), found.ok().map(|(_, meta)| meta), "{path}");
        }
    }
}

#[test]
fn nothing_climbs_out() {
    let scratch = Scratch::new();
    scratch.write("in/f", "inside");
    std::fs::write(scratch.outside("secret"), "outside").unwrap();
    for path in ["..", "../secret", "in/../../secret", "/../secret"] {
        assert!(StorePath::from_plain(path).is_err(), "{path}");
        assert_eq!(code(scratch.node("in").child(path)), "CT01", "{path}");
        // Even if the checks of `StorePath` and `child` accepted this path, the kernel would refuse it.
        let flags = crate::beneath::NODE_FLAGS;
        assert!(
            crate::beneath::open_beneath(scratch.node("").fd(), path, flags, Mode::empty()).is_err(),
            "{path}"
        );
    }
}

#[test]
fn other_file_systems_look_absent() {
    let root = Root::open_own("/", AclDialect::Ntacl).unwrap();
    for path in ["proc", "proc/version", "proc/self/root"] {
        assert_eq!(code(root.find(&StorePath::from_plain(path).unwrap(), Blocking)), "CT01", "{path}");
    }
}

#[test]
fn special_files_are_refused_without_waiting() {
    let scratch = Scratch::new();
    rustix::fs::mkfifoat(CWD, scratch.at("pipe"), Mode::RUSR | Mode::WUSR).unwrap();
    let _listener = UnixListener::bind(scratch.at("socket")).unwrap();
    assert_eq!(code(scratch.find("pipe")), "CT11");
    assert_eq!(code(scratch.find("socket")), "CT11");
    let parent = StorePath::from_plain("pipe/new").unwrap();
    assert_eq!(code(scratch.root().find_parent(&parent)), "CT02");
}

#[test]
fn a_pipe_is_not_opened_to_see_what_it_is() {
    let scratch = Scratch::new();
    let pipe = scratch.at("in/pipe");
    scratch.write("in/f", "");
    rustix::fs::mkfifoat(CWD, &pipe, Mode::RUSR | Mode::WUSR).unwrap();
    // A process that opens a pipe for writing waits until another process opens the pipe for reading.
    let (told, writer_goes_on) = std::sync::mpsc::channel();
    let writer = std::thread::spawn({
        let pipe = pipe.clone();
        move || {
            let opened = std::fs::File::options().write(true).open(pipe);
            told.send(opened.is_ok()).unwrap();
        }
    });
    let (root, directory) = (scratch.root(), scratch.node("in"));
    let path = StorePath::from_plain("in/pipe").unwrap();
    // Waits until the writer is in its system call.
    std::thread::park_timeout(std::time::Duration::from_millis(300));
    for _ in 0..3 {
        assert_eq!(code(root.find(&path, Blocking)), "CT11");
        assert_eq!(code(directory.child("pipe")), "CT11");
        assert!(!matches!(root.find(&path, CachedOnly), Ok(Cached::Ready(_))));
        let mut listing = crate::list::listing(&directory).unwrap();
        let listed = listing.next_batch(10, crate::LookedAt::default()).unwrap();
        assert_eq!(listed.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(), ["f"]);
    }
    assert!(
        writer_goes_on.recv_timeout(std::time::Duration::from_millis(300)).is_err(),
        "the pipe was opened"
    );
    let _reader = std::fs::File::open(&pipe).unwrap();
    assert!(writer_goes_on.recv_timeout(std::time::Duration::from_secs(10)).unwrap());
    writer.join().unwrap();
}

#[test]
fn what_takes_the_place_of_a_file_is_seen_as_what_it_is() {
    let scratch = Scratch::new();
    scratch.write("f", "");
    let root = scratch.root();
    let path = StorePath::from_plain("f").unwrap();
    assert_eq!(code(root.find(&path, Blocking)), "granted");
    std::fs::remove_file(scratch.at("f")).unwrap();
    rustix::fs::mkfifoat(CWD, scratch.at("f"), Mode::RUSR | Mode::WUSR).unwrap();
    assert_eq!(code(root.find(&path, Blocking)), "CT11");
    assert_eq!(code(root.find(&path, Blocking)), "CT11");
}

#[test]
fn a_parent_is_found_with_the_name_in_it() {
    let scratch = Scratch::new();
    scratch.write("a/b", "");
    let root = scratch.root();
    let path = StorePath::from_plain("a/new").unwrap();
    let (parent, name) = root.find_parent(&path).unwrap();
    assert_eq!((parent.object(), name), (scratch.node("a").object(), "new"));
    assert_eq!(code(root.find_parent(&StorePath::from_plain("x/new").unwrap())), "CT02");
    assert_eq!(code(root.find_parent(&StorePath::from_plain("a/b/new").unwrap())), "CT02");
    assert_eq!(code(root.find_parent(&StorePath::root())), "CT14");
}

#[test]
fn a_root_has_to_be_a_directory() {
    let scratch = Scratch::new();
    scratch.write("file", "");
    assert_eq!(code(Root::open_own(scratch.at("file").to_str().unwrap(), AclDialect::Ntacl)), "CT07");
    assert_eq!(code(Root::open_own(scratch.at("gone").to_str().unwrap(), AclDialect::Ntacl)), "CT07");
}

#[test]
fn ranges_are_read_from_the_descriptor_that_was_opened() {
    let scratch = Scratch::new();
    scratch.write("f", "0123456789");
    let reader = read::reader(&scratch.node("f")).unwrap();
    std::fs::remove_file(scratch.at("f")).unwrap();
    scratch.write("f", "another one");
    let mut buffer = [0; 4];
    for (offset, expected) in [(0, "0123"), (3, "3456"), (8, "89"), (10, ""), (1 << 40, "")] {
        let count = reader.read_at(offset, &mut buffer).unwrap();
        assert_eq!(&buffer[..count], expected.as_bytes(), "{offset}");
    }
    assert_eq!(reader.bytes(), 10);
    assert_eq!(code(read::reader(&scratch.node(""))), "CT04");
}

#[test]
fn the_validator_changes_with_the_bytes_and_hides_the_inode() {
    let scratch = Scratch::new();
    scratch.write("f", "one");
    let before = scratch.node("f");
    assert_eq!(before.meta().validator(), scratch.node("f").meta().validator());
    scratch.write("f", "three");
    let after = scratch.node("f");
    assert_ne!(before.meta().validator(), after.meta().validator());
    let mut meta = after.meta().clone();
    let mut seen = vec![meta.validator()];
    meta.changed.1 += 1;
    seen.push(meta.validator());
    meta.modified.1 += 1;
    seen.push(meta.validator());
    meta.object.inode += 1;
    seen.push(meta.validator());
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 4);
    let shown = after.meta().validator();
    let which = shown.rsplit('-').next().unwrap();
    assert_ne!(u64::from_str_radix(which, 16), Ok(after.object().inode));
    assert!(seen.iter().all(|v| v.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-' || b == b'.')));
    assert_eq!(bytes_of(&after), b"three");
}
