//! A restore that replaces a store that cannot be opened, on a file system that cannot exchange two names (overlayfs, ZFS before 2.2).

use crate::command::{FAULTS, Fault, said, traced, why};
use crate::every_io::{copy, facts};
use crate::server::Scratch;
use std::path::{Path, PathBuf};
use std::process::Output;

const DAMAGED: [u8; 8192] = [7; 8192];

/// Runs a command in which every `renameat2` fails. If `fault` is given, another call of the command fails, too.
fn run(data: &Path, arguments: &[&str], fault: Option<Fault<'_>>) -> Output {
    traced(data, arguments, "renameat2:error=EINVAL", fault).output().unwrap()
}

fn set_aside(data: &Path) -> Vec<PathBuf> {
    let found = std::fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path());
    found.filter(|path| path.to_str().unwrap().contains("facts.set-aside-")).collect()
}

fn is_damaged(store: &Path) -> bool {
    std::fs::read(store.join("data.mdb")).is_ok_and(|bytes| bytes == DAMAGED)
}

#[test]
fn the_old_store_is_in_its_place_or_aside_and_never_the_new_one() {
    let is_campaign = std::env::var_os("ENFILADE_CAMPAIGN_N").is_some();
    let scratch = Scratch::new();
    let (good, place) = (scratch.path().join("good"), scratch.path().join("faulted"));
    let backup = scratch.path().join("backup").to_str().unwrap().to_owned();
    said(&good, &["init"]);
    said(&good, &["facts", "backup", &backup]);
    let after = facts(&good);
    std::fs::write(good.join("facts/data.mdb"), DAMAGED).unwrap();
    let restore = ["facts", "restore", &backup, "--force"];
    let (data, mark) = (place.join("data"), place.join("mark"));
    let (mut stayed, mut restored, mut between) = (0, 0, 0);
    for fault in if is_campaign { &FAULTS[..] } else { &FAULTS[..2] } {
        for at in 1.. {
            copy(&good, &place);
            let output = run(&data, &restore, Some((fault, at, &mark)));
            let what = format!("{fault} at {at}: {output:?}");
            let (store, new) = (data.join("facts"), data.join("facts.new"));
            if output.status.code().is_some() {
                let is_told = |aside: &PathBuf| {
                    why(&output).contains(&format!("remove the restored store `{}`", aside.display()))
                };
                assert!(set_aside(&data).iter().all(|aside| is_damaged(aside) || is_told(aside)), "{what}");
            }
            if !mark.exists() {
                assert!(output.status.success() && at > 10, "{what}: is the library loaded?");
            }
            if !store.exists() {
                // The restore was killed between the two renames. No command treats the result as an empty data directory.
                let refused = run(&data, &["user", "list"], None);
                assert!(!refused.status.success() && why(&refused).contains("mv -T"), "{what}: {refused:?}");
                std::fs::rename(&new, &store).unwrap();
                between += 1;
            } else if is_damaged(&store) {
                assert!(!output.status.success(), "{what}");
                assert!(output.status.code().is_none() || !new.exists(), "{what}");
                assert!(run(&data, &restore, None).status.success());
                stayed += 1;
            } else {
                restored += 1;
            }
            assert_eq!(facts(&data), after, "{what}");
            assert!(set_aside(&data).iter().any(|aside| is_damaged(aside)), "{what}");
            if !mark.exists() {
                break;
            }
        }
    }
    println!(
        "without exchange: {stayed} times the old store was in its place, {restored} times the new store, {between} times neither"
    );
    assert!(stayed > 10 && restored > 0 && between > 0, "{stayed}, {restored}, {between}");
}

#[test]
fn a_restore_over_a_store_of_unknown_age_says_so() {
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    let backup = scratch.path().join("backup").to_str().unwrap().to_owned();
    said(&data, &["init"]);
    said(&data, &["facts", "backup", &backup]);
    said(&data, &["token", "create", "admin@local!revoked"]);
    said(&data, &["token", "delete", "admin@local!revoked"]);
    std::fs::write(data.join("facts/data.mdb"), DAMAGED).unwrap();
    let mark = data.join("facts/high-water");
    for damage in [true, false] {
        match damage {
            true => std::fs::write(&mark, [0xff; 4096]).unwrap(),
            false => std::fs::remove_file(&mark).unwrap(),
        }
        let refused = run(&data, &["facts", "restore", &backup, "--force"], None);
        let why = why(&refused);
        let said =
            ["facts/high-water`", "the backup may be older than the current facts", "nothing was changed"];
        assert!(!refused.status.success() && said.iter().all(|said| why.contains(said)), "{why}");
        assert!(is_damaged(&data.join("facts")));
    }
    assert!(
        run(&data, &["facts", "restore", &backup, "--force", "--accept-rollback"], None).status.success()
    );
    assert!(said(&data, &["facts", "check"])[0]["sound"] == true);
}
