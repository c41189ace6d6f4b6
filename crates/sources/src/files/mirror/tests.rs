//! Tests of the mirror, with facts in memory.

mod datastore_file;
mod user_files;

use super::*;
use crate::memory::Memory;
use crate::scratch::Scratch;
use enfilade_facts::tables::{Datastore, SidSpace, SidSpaceKey};
use enfilade_facts::{Change, StoreId};
use std::path::PathBuf;

/// A time far in the future, at which no change of a file counts as fresh.
const LATE: i64 = 4_000_000_000;

struct Bench {
    scratch: Scratch,
    source: Memory,
    mirror: Mirror,
}

fn at(unix_seconds: i64) -> Clocks {
    Clocks { unix_seconds, tick_millis: 0, mirror: MirrorHealth::Current }
}

/// Facts that contain the record of free SIDs. The store of each server contains this record.
fn facts() -> Memory {
    let source = Memory::new(StoreId(1));
    let audit = AuditRecord { who: "a test".into(), what: "begin".into(), unix_seconds: 0, request: None };
    let mut change = Change::new(audit);
    change.put(&SidSpaceKey, &SidSpace { words: [1, 2, 3], next_rid: SidSpace::FIRST_RID, token_key: None });
    source.commit(&change).unwrap();
    source
}

impl Bench {
    fn new() -> Self {
        let scratch = Scratch::new();
        let mirror = Mirror::new(FileSet::new(scratch.path()));
        Bench { scratch, source: facts(), mirror }
    }

    fn path(&self, file: FileName) -> PathBuf {
        self.scratch.path().join(file.as_str())
    }

    fn write(&self, file: FileName, text: &str) {
        std::fs::write(self.path(file), text).unwrap();
    }

    fn look(&mut self) -> Outcome {
        self.look_at(LATE)
    }

    fn look_at(&mut self, unix_seconds: i64) -> Outcome {
        self.mirror.look(&self.source, at(unix_seconds)).unwrap()
    }

    /// Simulates another process, which has not read the files yet.
    fn restart(&mut self) {
        self.mirror = Mirror::new(FileSet::new(self.scratch.path()));
    }

    fn file(&self, file: FileName) -> Option<MirroredFile> {
        self.source.read(|view| view.get::<MirroredFile>(&file)).unwrap().unwrap()
    }

    fn store(&self, name: &str) -> Option<Datastore> {
        self.source.read(|view| view.get::<Datastore>(&name.parse().unwrap())).unwrap().unwrap()
    }
}

#[test]
fn waiting_ends_when_a_directory_changes_also_that_of_what_a_link_points_to() {
    let mut bench = Bench::new();
    bench.mirror.wait(Duration::from_millis(1));
    bench.write(FileName::Datastores, "datastore: aaa\n\tpath /a\n");
    bench.mirror.wait(Duration::from_secs(60));
    assert!(bench.look().committed.is_some());
    let elsewhere = Scratch::new();
    let target = elsewhere.path().join("users");
    std::fs::write(&target, "user: a@pbs\n").unwrap();
    std::os::unix::fs::symlink(&target, bench.path(FileName::Users)).unwrap();
    bench.mirror.wait(Duration::from_secs(60));
    assert!(bench.look().committed.is_some());
    bench.mirror.wait(Duration::from_millis(1));
    std::fs::write(&target, "user: b@pbs\n").unwrap();
    bench.mirror.wait(Duration::from_secs(60));
    assert!(bench.look().committed.is_some());
}

#[test]
fn a_watch_comes_back_with_its_directory() {
    let scratch = Scratch::new();
    let directory = scratch.path().join("etc");
    let mut mirror = Mirror::new(FileSet::new(&directory));
    assert!(!mirror.watch.is_watching());
    std::fs::create_dir(&directory).unwrap();
    mirror.wait(Duration::from_millis(1));
    assert!(mirror.watch.is_watching());
    std::fs::remove_dir(&directory).unwrap();
    mirror.wait(Duration::from_secs(60));
    assert!(!mirror.watch.is_watching());
}

#[test]
fn whoever_read_an_older_version_is_refused_and_reads_again() {
    /// A source of a slow process: before its first commit, another process mirrors a newer version of the file.
    struct Overtaken<'a> {
        source: &'a Memory,
        other: std::sync::Mutex<Option<Box<dyn FnOnce() + Send + 'a>>>,
    }
    impl Source for Overtaken<'_> {
        fn at(&self) -> At {
            self.source.at()
        }
        fn with_view(&self, look: &mut dyn FnMut(&enfilade_facts::View<'_>)) -> Result<(), SourceError> {
            self.source.with_view(look)
        }
        fn commit(&self, change: &Change) -> Result<At, CommitError> {
            let other = self.other.lock().unwrap().take();
            other.into_iter().for_each(|other| other());
            self.source.commit(change)
        }
    }
    let (scratch, source) = (Scratch::new(), facts());
    let set = FileSet::new(scratch.path());
    let path = set.path(FileName::Datastores);
    std::fs::write(&path, "datastore: tank\n\tpath /old\n").unwrap();
    let other = || {
        // The first process has read the old file and the facts, and has not committed yet.
        std::fs::write(&path, "datastore: tank\n\tpath /new\n").unwrap();
        Mirror::new(set.clone()).look(&source, at(LATE)).unwrap();
    };
    let overtaken = Overtaken { source: &source, other: std::sync::Mutex::new(Some(Box::new(other))) };
    Mirror::new(set.clone()).look(&overtaken, at(LATE)).unwrap();
    let row = source.read(|view| view.get::<Datastore>(&"tank".parse().unwrap())).unwrap().unwrap();
    assert_eq!(row.unwrap().path, "/new");
}

#[test]
fn a_file_that_is_written_in_place_is_given_a_moment() {
    let mut bench = Bench::new();
    bench.write(FileName::Datastores, "datastore: aaa\n\tpath /a\n");
    bench.look();
    let path = bench.path(FileName::Datastores);
    // The file is empty for a moment: an editor has opened the file, and has not written yet.
    std::fs::File::create(&path).unwrap();
    let written = std::sync::Once::new();
    bench.mirror.between = Box::new(move || {
        written.call_once(|| std::fs::write(&path, "datastore: bbb\n\tpath /b\n").unwrap());
    });
    bench.look_at(0);
    assert!(bench.store("bbb").is_some() && bench.store("aaa").is_none());
}

#[test]
fn the_record_of_a_file_says_how_it_stands() {
    let mut bench = Bench::new();
    bench.write(FileName::Datastores, "datastore: aaa\n\tpath /a\n");
    let good = bench.look().committed.unwrap();
    let row = bench.file(FileName::Datastores).unwrap();
    assert_eq!((row.problem_count, row.good, row.fault), (0, None, None));
    let broken: String = (0..30).map(|n| format!("datastore: a{n}x\n\tpth /a\n\n")).collect();
    bench.write(FileName::Datastores, &broken);
    let problems = bench.look().problems;
    let row = bench.file(FileName::Datastores).unwrap();
    assert_eq!((row.problem_count, row.problems.len(), row.good), (31, 20, Some(good.revision)));
    assert_eq!(problems.len(), 21);
    assert!(problems[20].ends_with("datastore.cfg: 11 more problems are not listed"), "{problems:?}");
    // Another process reports the same problems.
    bench.restart();
    assert_eq!(bench.look().problems, problems);
    bench.write(FileName::Datastores, "");
    bench.look();
    assert_eq!(bench.file(FileName::Datastores).unwrap().good, None);
}

/// The file is read. Then it is changed, but keeps its change time. This can happen because the times of files are coarse.
#[test]
fn what_was_read_of_a_fresh_version_is_read_again_when_it_is_not_fresh() {
    for other_process in [false, true] {
        let mut bench = Bench::new();
        let version =
            |bench: &Bench| version_of(&std::fs::metadata(bench.path(FileName::Datastores)).unwrap());
        bench.write(FileName::Datastores, "datastore: one\n\tpath /tmp/one\n");
        bench.look_at(version(&bench).changed);
        assert!(bench.store("one").is_some());
        bench.write(FileName::Datastores, "datastore: two\n\tpath /tmp/two\n");
        let row = bench.file(FileName::Datastores).unwrap();
        let row = MirroredFile { version: Some(version(&bench)), ..row };
        let mut change = Change::new(AuditRecord {
            who: "a test".into(),
            what: "stamp".into(),
            unix_seconds: 0,
            request: None,
        });
        change.put(&FileName::Datastores, &row);
        bench.source.commit(&change).unwrap();
        if other_process {
            bench.restart();
        }
        bench.look();
        assert!(bench.store("one").is_none() && bench.store("two").is_some(), "{other_process}");
        // The version is not fresh any more, so an equal change time proves that the file was not changed.
        let is_read = |bench: &Bench| {
            let rows = bench.file(FileName::Datastores).map(|row| (FileName::Datastores, row));
            !bench.mirror.news(&rows.into_iter().collect(), at(LATE)).is_empty()
        };
        assert!(!is_read(&bench));
        bench.restart();
        assert!(is_read(&bench), "another process has read nothing yet");
    }
}
