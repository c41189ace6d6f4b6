//! Tests of the memo of the names in directories.

use super::Scratch;
use super::listing::HEARING;
use crate::list::{Entry, Listing, is_from_memory, listing};
use crate::names::{LookedAt, NamesMemo};
use crate::patience::{Blocking, CachedOnly};
use crate::root::Root;
use crate::watch::Watch;
use enfilade_facts::MemoSeed;
use enfilade_facts::vocabulary::{AclDialect, StorePath};
use rustix::fs::{CWD, Mode, OFlags, RenameFlags, linkat, openat, renameat_with};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

fn memo() -> NamesMemo {
    NamesMemo::new(MemoSeed([7; 16]), 4 << 20)
}

/// A time long after every change in these tests. At this time, all time stamps are reliable.
fn long_after(names: &NamesMemo) -> LookedAt<'_> {
    LookedAt { unix_seconds: i64::MAX, names: Some(names), ..LookedAt::default() }
}

fn stamp(path: &Path) -> (i64, i64) {
    let found = std::fs::metadata(path).unwrap();
    (found.ctime(), found.ctime_nsec())
}

/// The names and inode numbers in a directory, and whether the memo returned them.
fn listed(mut listing: Listing, at_most: usize, at: LookedAt<'_>) -> (Vec<(String, u64)>, bool) {
    let mut all = Vec::new();
    loop {
        let batch = listing.next_batch(at_most, at).unwrap();
        if batch.is_empty() {
            all.sort();
            return (all, is_from_memory(&listing));
        }
        assert!(all.len() < 100_000, "a listing ends");
        all.extend(batch.into_iter().map(|entry| (entry.name.to_string(), entry.subject.object.inode)));
    }
}

/// The names and inode numbers in a directory. `None` if the directory has more than `at_most` names, or if the listing would have to wait.
fn cached(scratch: &Scratch, at_most: usize, at: LookedAt<'_>) -> Option<Vec<(String, u64)>> {
    let entries = listing(&scratch.node("d")).unwrap().all_cached(at_most, at).ready()?;
    let mut all: Vec<_> =
        entries.into_iter().map(|entry| (entry.name.to_string(), entry.subject.object.inode)).collect();
    all.sort();
    Some(all)
}

/// The names and inode numbers in a directory, without the memo.
fn there(scratch: &Scratch) -> Vec<(String, u64)> {
    listed(listing(&scratch.node("d")).unwrap(), 100, LookedAt::default()).0
}

/// Waits until the next change of the directory will get a new time stamp. The kernel's clock for time stamps advances in ticks.
fn tick(scratch: &Scratch) {
    let (directory, clock) = (stamp(&scratch.at("d")), scratch.at("clock"));
    while stamp(&clock) <= directory {
        std::fs::set_permissions(&clock, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
}

/// Whether names are remembered on the file system of the test. If they are not remembered, the test has nothing to check.
fn is_remembered(scratch: &Scratch, memo: &NamesMemo) -> bool {
    let listed = || listed(listing(&scratch.node("d")).unwrap(), 100, long_after(memo)).1;
    let is_remembered = [listed(), listed()] == [false, true];
    if !is_remembered {
        println!("not asserted: the time stamps of this file system are not reliable");
    }
    is_remembered
}

#[test]
fn what_is_remembered_of_a_directory_is_what_is_in_it() {
    let (scratch, memo) = (Scratch::new(), memo());
    ["d/a", "d/b", "d/c", "outside", "clock"].iter().for_each(|name| scratch.write(name, "x"));
    scratch.directory("d/e");
    let of = |name: &str| scratch.at(&format!("d/{name}"));
    let exchange = |a: &Path, b: &Path| renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE).unwrap();
    let changes: [(&str, &dyn Fn()); 16] = [
        ("made", &|| scratch.write("d/new", "x")),
        ("removed", &|| std::fs::remove_file(of("new")).unwrap()),
        ("made a directory", &|| std::fs::create_dir(of("f")).unwrap()),
        ("removed a directory", &|| std::fs::remove_dir(of("f")).unwrap()),
        ("renamed", &|| std::fs::rename(of("a"), of("g")).unwrap()),
        ("renamed over another", &|| std::fs::rename(of("g"), of("b")).unwrap()),
        ("exchanged", &|| exchange(&of("b"), &of("c"))),
        ("exchanged with a file of another directory", &|| exchange(&of("b"), &scratch.at("outside"))),
        ("moved in over another", &|| std::fs::rename(scratch.at("outside"), of("c")).unwrap()),
        ("moved out", &|| std::fs::rename(of("c"), scratch.at("outside")).unwrap()),
        ("linked", &|| std::fs::hard_link(scratch.at("outside"), of("link")).unwrap()),
        ("linked a file without a name", &|| {
            let flags = OFlags::TMPFILE | OFlags::WRONLY;
            let file = openat(CWD, scratch.at(""), flags, Mode::RUSR).unwrap();
            linkat(&file, "", CWD, of("named"), rustix::fs::AtFlags::EMPTY_PATH).unwrap();
        }),
        ("symbolically linked", &|| symlink("b", of("symbolic")).unwrap()),
        ("replaced by a file", &|| {
            std::fs::remove_file(of("symbolic")).unwrap();
            scratch.write("d/symbolic", "x");
        }),
        ("removed and made again", &|| {
            std::fs::remove_file(of("b")).unwrap();
            scratch.write("d/b", "x");
        }),
        ("emptied", &|| {
            std::fs::remove_dir_all(of("e")).unwrap();
            crate::tests::names_on_disk(&of(""))
                .iter()
                .for_each(|name| std::fs::remove_file(of(name)).unwrap());
        }),
    ];
    let all = || listed(listing(&scratch.node("d")).unwrap(), 2, long_after(&memo));
    if !is_remembered(&scratch, &memo) {
        return;
    }
    for (what, change) in changes {
        tick(&scratch);
        change();
        let (expected, at) = (there(&scratch), long_after(&memo));
        assert_eq!(cached(&scratch, 16, at), None, "{what}");
        assert_eq!(all(), (expected.clone(), false), "{what}");
        assert_eq!(all(), (expected.clone(), true), "{what}, and then nothing");
        let at_most = expected.len();
        assert_eq!(cached(&scratch, at_most, at), Some(expected), "{what}, and then nothing");
        assert!(at_most == 0 || cached(&scratch, at_most - 1, at).is_none(), "{what}");
        assert_eq!(cached(&scratch, 16, LookedAt { names: None, ..at }), None, "{what}");
    }
}

/// The test runs without a watch, and also with a watch if the kernel reports changes here.
#[test]
fn what_is_cached_is_what_is_told_else() {
    let (scratch, _alone) = (Scratch::new(), HEARING.lock());
    ["d/a", "d/b", "d/e/f", "clock"].iter().for_each(|name| scratch.write(name, "x"));
    symlink("a", scratch.at("d/link")).unwrap();
    if !is_remembered(&scratch, &memo()) {
        return;
    }
    let heard = Watch::new().ok();
    for watch in [None, heard.as_ref()] {
        let memo = memo();
        let at = LookedAt { watch, ..long_after(&memo) };
        let sorted = |mut entries: Vec<Entry>| {
            entries.sort_by(|a, b| a.name.cmp(&b.name));
            entries
        };
        let state = |entry: &Entry| (entry.name.clone(), entry.meta.clone(), entry.subject.version);
        let mut last = Vec::new();
        for change in 0..4 {
            match change {
                1 => std::fs::set_permissions(scratch.at("d/a"), std::fs::Permissions::from_mode(0o640))
                    .unwrap(),
                2 => std::fs::write(scratch.at("d/b"), "longer").unwrap(),
                _ => {}
            }
            let mut listing = listing(&scratch.node("d")).unwrap();
            if change == 0 {
                assert!(listing.all_cached(16, at).ready().is_none(), "nothing is known");
            }
            let mut told = sorted(listing.next_batch(16, at).unwrap());
            let mut begun = self::listing(&scratch.node("d")).unwrap();
            let mut quick = sorted(begun.all_cached(16, at).ready().unwrap());
            assert_eq!(
                quick.iter().map(state).collect::<Vec<_>>(),
                told.iter().map(state).collect::<Vec<_>>()
            );
            assert!(watch.is_none() || quick.iter().all(|entry| entry.meta.is_none()));
            for (quick, told) in quick.iter_mut().zip(&mut told) {
                assert!(
                    begun.describe(quick, CachedOnly) && listing.describe(told, Blocking),
                    "{}",
                    quick.name
                );
                assert_eq!(quick.meta, told.meta);
            }
            let now: Vec<_> = quick.iter().map(state).collect();
            assert_eq!(now == last, change == 3, "change {change}");
            last = now;
            // Simulates that the name of this entry no longer leads to the object that was judged, but to another object.
            let mut other = quick.remove(0);
            (other.meta, other.subject.object.inode) = (None, other.subject.object.inode + 1);
            assert!(!begun.describe(&mut other, CachedOnly));
        }
    }
}

#[test]
fn what_may_still_change_without_a_trace_is_not_remembered() {
    let (scratch, memo) = (Scratch::new(), memo());
    ["d/a", "d/b"].iter().for_each(|name| scratch.write(name, "x"));
    if !is_remembered(&scratch, &memo) {
        return;
    }
    let (memo, seconds) = (self::memo(), stamp(&scratch.at("d")).0);
    let at = |unix_seconds, clock| LookedAt { unix_seconds, clock, ..long_after(&memo) };
    let is_known = |at| listed(listing(&scratch.node("d")).unwrap(), 100, at).1;
    for soon in [seconds - 1_000, seconds, seconds + 1] {
        assert!(!is_known(at(soon, 0)) && !is_known(at(soon, 0)), "{soon}");
    }
    assert!(!is_known(at(seconds + 2, 0)) && is_known(at(seconds + 2, 0)));
    assert!(!is_known(at(seconds + 1, 0)), "the names are known, but not used any more");
    // The clock was set, so remembered time stamps are not used any more.
    assert!(!is_known(at(seconds + 2, 1)) && is_known(at(seconds + 2, 1)));
}

#[test]
fn a_large_directory_is_remembered_piece_by_piece_and_goes_on_from_any() {
    let (scratch, memo) = (Scratch::new(), memo());
    (0..5_000).for_each(|n| scratch.write(&format!("d/entry-{n:05}"), ""));
    scratch.write("clock", "x");
    if !is_remembered(&scratch, &memo) {
        return;
    }
    let expected = there(&scratch);
    assert_eq!(expected.len(), 5_000);
    for at_most in [1, 7, 1_024, 10_000] {
        let whole = listed(listing(&scratch.node("d")).unwrap(), at_most, long_after(&memo));
        assert_eq!(whole, (expected.clone(), true), "{at_most}");
    }
    // The first names come from the memo, and then the directory changes.
    let (mut under_way, at) = (listing(&scratch.node("d")).unwrap(), long_after(&memo));
    let first = under_way.next_batch(10, at).unwrap();
    assert!(is_from_memory(&under_way));
    tick(&scratch);
    scratch.write("d/new", "");
    let (rest, is_from_memory) = listed(under_way, 1_024, at);
    let first = first.into_iter().map(|entry| (entry.name.to_string(), entry.subject.object.inode));
    let mut told: Vec<_> = first.chain(rest).filter(|(name, _)| name != "new").collect();
    told.sort();
    assert_eq!(
        (told, is_from_memory),
        (expected, false),
        "each name except `new` appears once, and the kernel reports the end"
    );
}

/// A directory may have many entries that are never served. These entries also take space in the kernel's buffer.
#[test]
fn few_names_of_a_large_directory_are_not_all_of_them() {
    let (scratch, memo) = (Scratch::new(), memo());
    (0..5_000).for_each(|n| {
        let name = format!("d/entry-{n:05}");
        if n % 1_000 == 0 { scratch.write(&name, "") } else { symlink("x", scratch.at(&name)).unwrap() }
    });
    if is_remembered(&scratch, &memo) {
        assert_eq!(cached(&scratch, 16, long_after(&memo)), None);
        assert_eq!(there(&scratch).len(), 5);
    }
}

#[test]
fn directories_of_the_same_moment_are_told_apart() {
    let (scratch, memo) = (Scratch::new(), memo());
    for n in 0..1_000 {
        let (one, other) = (format!("{n}/one"), format!("{n}/other"));
        [&one, &other].iter().for_each(|path| scratch.directory(path));
        ["one/a", "other/b"]
            .iter()
            .for_each(|name| std::fs::write(scratch.at(&format!("{n}/{name}")), "").unwrap());
        if stamp(&scratch.at(&one)) != stamp(&scratch.at(&other)) {
            continue;
        }
        for (path, name) in [(&one, "a"), (&other, "b"), (&one, "a"), (&other, "b")] {
            let told = listed(listing(&scratch.node(path)).unwrap(), 100, long_after(&memo)).0;
            assert_eq!(told.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), [name]);
        }
        return;
    }
    println!("not asserted: no two directories were changed at the same moment");
}

/// The names in an encrypted directory change when a key is added or removed, but the time stamp of the directory does not change.
#[test]
fn an_encrypted_directory_is_not_remembered() {
    let (scratch, memo, _alone) = (Scratch::new(), memo(), HEARING.lock());
    scratch.write("d/a", "x");
    if !is_remembered(&scratch, &memo) {
        return;
    }
    let (image, mounted) = (scratch.at("image"), scratch.at("mounted"));
    std::fs::create_dir(&mounted).unwrap();
    std::fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
    let run = |command: &mut Command| command.status().is_ok_and(|status| status.success());
    let options = ["-o", "loop,test_dummy_encryption"];
    if !run(Command::new("mkfs.ext4").args(["-q", "-O", "encrypt"]).arg(&image))
        || !run(Command::new("mount").args(options).args([&image, &mounted]))
    {
        return println!("not asserted: nothing encrypted can be mounted here");
    }
    // No assertion runs before the mount is removed again, because a failed assertion would leave the mount.
    let is_known = ["plain", "encrypted"].map(|name| {
        // With this mount option every new directory is encrypted. So the test uses `lost+found` as the directory without encryption, because it
        // existed before the mount.
        let path = if name == "plain" { "lost+found" } else { name };
        let _ = std::fs::create_dir(mounted.join(path));
        let root = Root::open_own(mounted.to_str().unwrap(), AclDialect::Ntacl).unwrap();
        let node = || root.find(&StorePath::from_plain(path).unwrap(), Blocking).unwrap();
        [0, 1].map(|_| listed(listing(&node()).unwrap(), 100, long_after(&memo)).1)
    });
    assert!(run(Command::new("umount").arg(&mounted)));
    assert_eq!(is_known, [[false, true], [false, false]]);
}

/// One thread renames a file in a loop, and sometimes lists the directory. Two other threads list the directory in a loop.
#[test]
fn a_directory_that_changes_while_it_is_read_is_never_remembered_wrongly() {
    let (scratch, memo) = (Scratch::new(), memo());
    ["d/a", "clock"].iter().for_each(|name| scratch.write(name, "x"));
    let dir = scratch.at("d");
    let stamps: Vec<_> = (0..3)
        .map(|n| {
            std::fs::write(dir.join(format!("{n}")), "").unwrap();
            stamp(&dir)
        })
        .collect();
    if !is_remembered(&scratch, &memo) || stamps.windows(2).any(|two| two[0] == two[1]) {
        return println!("not asserted: stamps are coarse here (before Linux 6.13)");
    }
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let changing = scope.spawn(|| {
            for n in 0..20_000_u32 {
                let [from, to] = if n % 2 == 0 { ["a", "b"] } else { ["b", "a"] };
                std::fs::rename(dir.join(from), dir.join(to)).unwrap();
                if n % 64 == 0 {
                    // No other thread changes the directory now, so this listing must show the present names.
                    let told = listed(listing(&scratch.node("d")).unwrap(), 100, long_after(&memo)).0;
                    assert_eq!(told.iter().filter(|(name, _)| name == to).count(), 1, "{told:?}");
                    assert_eq!(told.iter().filter(|(name, _)| name == from).count(), 0, "{told:?}");
                }
            }
        });
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::SeqCst) {
                    listed(listing(&scratch.node("d")).unwrap(), 100, long_after(&memo));
                }
            });
        }
        let outcome = changing.join();
        is_over.store(true, Ordering::SeqCst);
        assert!(outcome.is_ok());
    });
}
