//! Tests of the mirror with `datastore.cfg`.

use super::*;
use enfilade_facts::tables::FileFault;

const FILE: FileName = FileName::Datastores;

impl Bench {
    fn fault(&self, name: &str) -> FileFault {
        self.store(name).unwrap().fault.unwrap()
    }
}

#[test]
fn edits_are_followed_and_looking_again_changes_nothing() {
    let mut bench = Bench::new();
    bench.write(FILE, "datastore: aaa\n\tpath /a\n\ndatastore: bbb\n\tpath /b\n");
    let Outcome { committed, added, changed, removed, problems } = bench.look();
    assert!(committed.is_some() && problems.is_empty());
    assert_eq!((added, changed, removed), (2, 0, 0));
    assert_eq!(bench.look(), Outcome::default());
    // A fresh file is read again. The second reading changes nothing.
    assert_eq!(bench.look_at(0), Outcome::default());
    bench.write(FILE, "datastore: aaa\n\tpath /a\n\tmaintenance-mode read-only\n");
    let outcome = bench.look();
    assert_eq!((outcome.added, outcome.changed, outcome.removed), (0, 1, 1));
    assert_eq!(bench.store("aaa").unwrap().maintenance.unwrap().mode.name(), "read-only");
    assert_eq!(bench.store("bbb"), None);
}

#[test]
fn a_broken_section_keeps_its_last_good_facts_and_its_neighbours() {
    let mut bench = Bench::new();
    bench.write(FILE, "datastore: aaa\n\tpath /a\n\ndatastore: bbb\n\tpath /b\n");
    bench.look();
    bench.write(
        FILE,
        "datastore: aaa\n\tpath /a\n\tfoo 1\n\ndatastore: bbb\n\tpath /b2\n\ndatastore: ccc\n\tpth /c\n",
    );
    let problems = bench.look().problems;
    assert!(
        problems[0].ends_with(
            "datastore.cfg: line 3: unknown property 'foo' (datastore aaa: the last good facts stay in use until the problem is 60 s old)"
        ),
        "{problems:?}"
    );
    let broken = bench.store("aaa").unwrap();
    assert_eq!(broken.path, "/a");
    assert!(broken.fault.as_ref().is_some_and(|fault| !fault.refuses && fault.line == 3));
    assert_eq!(bench.store("bbb").unwrap().path, "/b2");
    assert!(bench.store("ccc").unwrap().fault.unwrap().refuses);
    assert_eq!(bench.look().committed, None);
    bench.write(FILE, "datastore: aaa\n\tpath /a\n");
    bench.look();
    assert_eq!(bench.store("aaa").unwrap().fault, None);
    assert_eq!((bench.store("bbb"), bench.store("ccc")), (None, None));
}

#[test]
fn a_vanished_file_makes_everything_stale_and_deletes_nothing() {
    let mut bench = Bench::new();
    bench.write(FILE, "datastore: aaa\n\tpath /a\n");
    bench.look();
    std::fs::remove_file(bench.path(FILE)).unwrap();
    let problems = bench.look().problems;
    assert_eq!(problems.len(), 1);
    assert!(problems[0].contains("datastore.cfg: cannot be read: No such file"), "{problems:?}");
    assert!(
        problems[0].contains(
            "no entry of the file can be read: the last good facts stay in use until the problem is 60 s old"
        ),
        "{problems:?}"
    );
    assert!(bench.store("aaa").is_some() && !bench.file(FILE).unwrap().fault.unwrap().refuses);
    bench.look_at(LATE + 60);
    assert!(!bench.file(FILE).unwrap().fault.unwrap().refuses);
    // Another process makes its first look.
    bench.restart();
    assert!(
        bench.look_at(LATE + 61).problems[0].contains("no entry of the file can be read: access is refused")
    );
    assert!(bench.file(FILE).unwrap().fault.unwrap().refuses);
    bench.write(FILE, "datastore: aaa\n\tpath /a\n");
    bench.look_at(LATE + 62);
    assert_eq!(bench.file(FILE).unwrap().fault, None);
}

#[test]
fn a_change_of_the_same_length_with_its_time_put_back_is_seen() {
    let mut bench = Bench::new();
    bench.write(FILE, "datastore: aaa\n\tpath /a\n");
    bench.look();
    let path = bench.path(FILE);
    let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
    pause(Duration::from_millis(30));
    bench.write(FILE, "datastore: aaa\n\tpath /b\n");
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
    bench.look();
    assert_eq!(bench.store("aaa").unwrap().path, "/b");
}

#[test]
fn a_fault_keeps_its_beginning_across_edits_and_processes() {
    let mut bench = Bench::new();
    bench.write(FILE, "datastore: aaa\n\tpath /a\n");
    bench.look_at(4_000_000_000);
    bench.write(FILE, "datastore: aaa\n\tpath /a\n\tfoo 1\n");
    bench.look_at(4_000_000_010);
    bench.write(FILE, "datastore: aaa\n\tpath /a\n\tpath /b\n");
    bench.restart();
    bench.look_at(4_000_000_020);
    let fault = bench.fault("aaa");
    assert_eq!((fault.since, fault.line, fault.refuses), (4_000_000_010, 3, false));
    assert_eq!(fault.reason, "duplicate property 'path'");
    std::fs::remove_file(bench.path(FILE)).unwrap();
    bench.look_at(4_000_000_030);
    assert_eq!(bench.file(FILE).unwrap().fault.unwrap().since, 4_000_000_010);
    bench.write(FILE, "datastore: aaa\n\tpath /a\n");
    bench.look_at(4_000_000_040);
    assert_eq!(bench.store("aaa").unwrap().fault, None);
}

#[test]
fn a_section_gone_from_a_file_with_errors_is_stale_not_deleted() {
    let mut bench = Bench::new();
    bench.write(FILE, "datastore: aaa\n\tpath /a\n\ndatastore: bbb\n\tpath /b\n");
    bench.look();
    bench.write(FILE, "datastore aaa\n\tpath /a\n\ndatastore: bbb\n\tpath /b\n");
    let outcome = bench.look();
    assert_eq!((outcome.changed, outcome.removed, outcome.problems.len()), (1, 0, 2));
    assert!(outcome.problems[0].ends_with("datastore.cfg: line 1: syntax error (expected header)"));
    assert!(outcome.problems[1].contains("datastore aaa: the file has no section"), "{outcome:?}");
    assert!(!bench.fault("aaa").refuses);
    assert_eq!(bench.store("bbb").unwrap().fault, None);
    assert_eq!(bench.look().problems, outcome.problems);
}

#[test]
fn two_sections_of_one_name_are_both_refused() {
    let mut bench = Bench::new();
    bench
        .write(FILE, "datastore: aaa\n\tpath /a\n\ndatastore: bbb\n\tpath /b\n\ndatastore: aaa\n\tpath /c\n");
    let problems = bench.look().problems;
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].contains("another section `aaa` is at line 7"), "{problems:?}");
    assert!(bench.fault("aaa").refuses);
    assert_eq!((bench.store("aaa").unwrap().path.as_str(), bench.store("bbb").unwrap().fault), ("", None));
}

#[test]
fn what_could_not_be_read_is_looked_at_again() {
    let mut bench = Bench::new();
    bench.write(FILE, "datastore: aaa\n\tpath /a\n");
    bench.look();
    std::fs::remove_file(bench.path(FILE)).unwrap();
    std::fs::create_dir(bench.path(FILE)).unwrap();
    let problems = bench.look().problems;
    assert!(problems[0].contains("cannot be read: it is not a regular file"), "{problems:?}");
    assert!(!bench.file(FILE).unwrap().fault.unwrap().refuses);
    assert_eq!(bench.look().committed, None);
}

#[test]
fn a_house_without_the_file_misses_nothing_until_it_had_one() {
    let mut bench = Bench::new();
    assert_eq!(bench.look(), Outcome::default());
    bench.write(FILE, "");
    assert_eq!(bench.look().problems.len(), 0);
    std::fs::remove_file(bench.path(FILE)).unwrap();
    assert_eq!(bench.look().problems.len(), 1);
}

#[test]
fn last_good_facts_serve_until_the_stale_limit() {
    let mut bench = Bench::new();
    bench.mirror = Mirror::new(FileSet::new(bench.scratch.path()).with_stale_limit(10));
    bench.write(FILE, "datastore: aaa\n\tpath /a\n\ndatastore: bbb\n\tpath /b\n");
    bench.look_at(LATE);
    bench.write(FILE, "datastore: aaa\n\tpth /a\n\ndatastore: bbb\n\tpath /b\n");
    for (seconds, refuses) in [(0, false), (10, false), (11, true), (12, true)] {
        bench.look_at(LATE + seconds);
        assert_eq!(bench.fault("aaa").refuses, refuses, "{seconds}");
    }
    assert_eq!(bench.store("bbb").unwrap().fault, None);
    // If the clock was set back, the age of the last good facts is unknown, so access is refused.
    bench.write(FILE, "datastore: aaa\n\tpath /a\n\ndatastore: bbb\n\tpth /b\n");
    bench.look_at(LATE + 20);
    assert!(!bench.fault("bbb").refuses);
    bench.write(FILE, "datastore: aaa\n\tpath /a\n\ndatastore: bbb\n\tpth /c\n");
    bench.look_at(LATE + 19);
    assert!(bench.fault("bbb").refuses);
}

#[test]
fn a_broken_record_refuses_only_itself() {
    let mut bench = Bench::new();
    bench
        .write(FILE, "datastore: aaa\n\tpath /a\n\ndatastore: bbb\n\tpath /b\n\ndatastore: ccc\n\tpath /c\n");
    bench.look();
    bench.source.damage(enfilade_facts::Table::Datastores, b"aaa", |stored| {
        let mut stored = stored.to_vec();
        *stored.last_mut().unwrap() ^= 1;
        Some(stored)
    });
    bench.write(FILE, "datastore: aaa\n\tpath /a2\n\ndatastore: bbb\n\tpath /b2\n");
    let problems = bench.look().problems;
    assert!(problems[0].contains("damaged record in table `datastores`"), "{problems:?}");
    assert_eq!(bench.store("bbb").unwrap().path, "/b2");
}
