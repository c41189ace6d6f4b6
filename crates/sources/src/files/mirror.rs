//! Keeping facts in step with a file people edit.
//!
//! The file is the truth. Every look takes its inode, change time and size; when they changed (or its change was so
//! recent that another one could have left no trace) it is read, parsed, compared with the facts, and what differs is
//! committed as one change.

mod compare;

use super::bounded;
use super::datastore_cfg::FILE_BYTES_MAX;
use crate::pause::pause;
use compare::{Content, Difference};
use enfilade_facts::tables::Datastore;
use enfilade_facts::{At, CommitError, Now, Read, Source, SourceError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;
use std::fs::Metadata;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What tells one version of a file from another. `mtime` is left out: whoever restores it hides a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    inode: u64,
    changed: (i64, i64),
    bytes: u64,
}

/// What a look found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The commit, when facts had to be changed.
    pub committed: Option<At>,
    /// How many datastores are new in the facts.
    pub added: usize,
    /// How many have other facts than before; also those that became stale, or are no longer.
    pub changed: usize,
    /// How many are gone.
    pub removed: usize,
    /// Everything that is wrong with the file, with file, line and reason.
    pub problems: Vec<String>,
}

/// A look that came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum MirrorError {
    /// The facts could not be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The facts could not be changed.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

/// Mirrors one `datastore.cfg`.
pub struct Mirror {
    path: PathBuf,
    /// The version that is in the facts, and what was wrong with it.
    seen: Option<(Version, Vec<String>)>,
    watch: Option<OwnedFd>,
}

/// More than this many others changing datastores at once means something else is wrong.
const COMMIT_TRIES: usize = 32;
/// Somebody who writes the file in place is given this many moments to finish.
const READ_TRIES: usize = 3;
const READ_PAUSE: Duration = Duration::from_millis(5);

impl Mirror {
    /// Of this file; it need not be there.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Mirror { watch: watch(&path).ok(), seen: None, path }
    }

    /// Looks at the file, and commits what it says now.
    ///
    /// # Errors
    /// When the facts cannot be read or changed; trouble in the file is no error, it is in the outcome.
    pub fn look(&mut self, source: &dyn Source, now: Now) -> Result<Outcome, MirrorError> {
        let version = std::fs::metadata(&self.path).map(|meta| Version::of(&meta));
        if let (Some((seen, problems)), Ok(version)) = (&self.seen, &version)
            && seen == version
            && !version.is_fresh(now)
        {
            return Ok(Outcome { problems: problems.clone(), ..Outcome::default() });
        }
        self.seen = None;
        let is_absent = version.is_err_and(|why| why.kind() == io::ErrorKind::NotFound);
        if is_absent && !source.read(|view| view.any::<Datastore>(&[]))?? {
            // A house that never had datastores is not missing any.
            return Ok(Outcome::default());
        }
        let (content, version) = match self.read() {
            Ok((bytes, version)) => (Content::of(&bytes), version),
            // Nothing of it was seen: the next look tries again, whether the file changes or not.
            Err(why) => (Content::unreadable(&why.to_string()), None),
        };
        let (committed, difference) = commit(source, &content, now)?;
        let Difference { added, changed, removed, .. } = difference;
        let problem = |problem: &String| format!("{}: {problem}", self.path.display());
        let problems: Vec<String> = difference.problems.iter().map(problem).collect();
        self.seen = version.map(|version| (version, problems.clone()));
        Ok(Outcome { committed, added, changed, removed, problems })
    }

    /// The bytes, and the version they are of, unless somebody was writing them all the while.
    fn read(&self) -> io::Result<(Vec<u8>, Option<Version>)> {
        let mut tries = 1;
        loop {
            let file = bounded::open(&self.path)?;
            let before = Version::of(&file.metadata()?);
            let bytes = bounded::read_all(&file, FILE_BYTES_MAX)?;
            let is_whole = before == Version::of(&file.metadata()?);
            if is_whole || tries == READ_TRIES {
                return Ok((bytes, is_whole.then_some(before)));
            }
            tries += 1;
            pause(READ_PAUSE);
        }
    }

    /// Waits until something happened in the file's directory, at most so long.
    pub fn wait(&mut self, at_most: Duration) {
        if self.watch.is_none() {
            // The directory may have been made meanwhile.
            self.watch = watch(&self.path).ok();
        }
        let Some(watch) = &self.watch else {
            // Without inotify only looking helps.
            pause(at_most);
            return;
        };
        let timeout =
            Timespec { tv_sec: at_most.as_secs() as i64, tv_nsec: i64::from(at_most.subsec_nanos()) };
        let _ = poll(&mut [PollFd::new(watch, PollFlags::IN)], Some(&timeout));
        // What happened does not matter; the next look sees it. The events only have to be taken away.
        let mut is_over = false;
        let mut room = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(watch, &mut room);
        while let Ok(event) = events.next() {
            is_over |= event.events().contains(inotify::ReadFlags::IGNORED);
        }
        if is_over {
            // The directory was removed, and the watch with it.
            self.watch = None;
        }
    }
}

fn watch(file: &Path) -> rustix::io::Result<OwnedFd> {
    let directory = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    let watch = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
    let events = inotify::WatchFlags::CLOSE_WRITE
        | inotify::WatchFlags::MOVE
        | inotify::WatchFlags::CREATE
        | inotify::WatchFlags::DELETE
        | inotify::WatchFlags::ATTRIB;
    inotify::add_watch(&watch, directory.unwrap_or(Path::new(".")), events)?;
    Ok(watch)
}

impl Version {
    fn of(meta: &Metadata) -> Self {
        Version { inode: meta.ino(), changed: (meta.ctime(), meta.ctime_nsec()), bytes: meta.size() }
    }

    /// The kernel stamps with a clock that ticks: two changes within one tick look like one. A file that changed in the
    /// last two seconds (or in the future) is read again.
    fn is_fresh(&self, now: Now) -> bool {
        self.changed.0 >= now.unix_seconds.saturating_sub(2)
    }
}

fn commit(source: &dyn Source, content: &Content, now: Now) -> Result<(Option<At>, Difference), MirrorError> {
    let mut tries = 1;
    loop {
        let rows = source.read(|view| view.list::<Datastore>(&[]))??;
        let difference = content.difference(rows, now);
        if difference.change.is_empty() {
            return Ok((None, difference));
        }
        match source.commit(&difference.change) {
            Ok(at) => return Ok((Some(at), difference)),
            Err(CommitError::Conflict { .. }) if tries < COMMIT_TRIES => tries += 1,
            Err(why) => return Err(why.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;
    use crate::scratch::Scratch;
    use enfilade_facts::StoreId;
    use enfilade_facts::tables::SectionFault;

    struct Bench {
        scratch: Scratch,
        source: Memory,
        mirror: Mirror,
    }

    impl Bench {
        fn new() -> Self {
            let scratch = Scratch::new();
            let mirror = Mirror::new(scratch.path().join("datastore.cfg"));
            Bench { scratch, source: Memory::new(StoreId(1)), mirror }
        }

        fn write(&self, text: &str) {
            std::fs::write(self.file(), text).unwrap();
        }

        fn file(&self) -> PathBuf {
            self.scratch.path().join("datastore.cfg")
        }

        /// Looks far in the future, so that no change counts as fresh.
        fn look(&mut self) -> Outcome {
            self.look_at(4_000_000_000)
        }

        fn look_at(&mut self, unix_seconds: i64) -> Outcome {
            self.mirror.look(&self.source, Now { unix_seconds, tick_millis: 0 }).unwrap()
        }

        fn fault(&self, name: &str) -> SectionFault {
            self.store(name).unwrap().fault.unwrap()
        }

        fn store(&self, name: &str) -> Option<Datastore> {
            self.source.read(|view| view.get::<Datastore>(&name.parse().unwrap())).unwrap().unwrap()
        }
    }

    #[test]
    fn edits_are_followed_and_looking_again_changes_nothing() {
        let mut bench = Bench::new();
        bench.write("datastore: aaa\n\tpath /a\n\ndatastore: bbb\n\tpath /b\n");
        let Outcome { committed, added, changed, removed, problems } = bench.look();
        assert!(committed.is_some() && problems.is_empty());
        assert_eq!((added, changed, removed), (2, 0, 0));
        assert_eq!(bench.look(), Outcome::default());
        // A fresh file is read again; that changes nothing either.
        assert_eq!(bench.look_at(0), Outcome::default());
        bench.write("datastore: aaa\n\tpath /a\n\tmaintenance-mode read-only\n");
        let outcome = bench.look();
        assert_eq!((outcome.added, outcome.changed, outcome.removed), (0, 1, 1));
        assert_eq!(bench.store("aaa").unwrap().maintenance.unwrap().mode.name(), "read-only");
        assert_eq!(bench.store("bbb"), None);
    }

    #[test]
    fn a_broken_section_keeps_its_last_good_facts_and_its_neighbours() {
        let mut bench = Bench::new();
        bench.write("datastore: aaa\n\tpath /a\n\ndatastore: bbb\n\tpath /b\n");
        bench.look();
        bench.write(
            "datastore: aaa\n\tpath /a\n\tfoo 1\n\ndatastore: bbb\n\tpath /b2\n\ndatastore: ccc\n\tpth /c\n",
        );
        let problems = bench.look().problems;
        assert!(
            problems[0].ends_with("datastore.cfg: line 3: unknown property 'foo' (datastore aaa: last good facts are kept for 60 s)"),
            "{problems:?}"
        );
        let broken = bench.store("aaa").unwrap();
        assert_eq!(broken.path, "/a");
        assert!(broken.fault.as_ref().is_some_and(|fault| fault.was_good && fault.line == 3));
        assert_eq!(bench.store("bbb").unwrap().path, "/b2");
        assert!(!bench.store("ccc").unwrap().fault.unwrap().was_good);
        assert_eq!(bench.look().committed, None);
        bench.write("datastore: aaa\n\tpath /a\n");
        bench.look();
        assert_eq!(bench.store("aaa").unwrap().fault, None);
        assert_eq!((bench.store("bbb"), bench.store("ccc")), (None, None));
    }

    #[test]
    fn a_vanished_file_makes_everything_stale_and_deletes_nothing() {
        let mut bench = Bench::new();
        bench.write("datastore: aaa\n\tpath /a\n");
        bench.look();
        std::fs::remove_file(bench.file()).unwrap();
        assert_eq!(bench.look().problems.len(), 1);
        assert!(bench.store("aaa").unwrap().fault.unwrap().was_good);
    }

    #[test]
    fn a_change_of_the_same_length_with_its_time_put_back_is_seen() {
        let mut bench = Bench::new();
        bench.write("datastore: aaa\n\tpath /a\n");
        bench.look();
        let path = bench.file();
        let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
        pause(Duration::from_millis(30));
        bench.write("datastore: aaa\n\tpath /b\n");
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
        bench.look();
        assert_eq!(bench.store("aaa").unwrap().path, "/b");
    }

    #[test]
    fn waiting_ends_when_the_directory_changes() {
        let mut bench = Bench::new();
        bench.mirror.wait(Duration::from_millis(1));
        bench.write("datastore: aaa\n\tpath /a\n");
        bench.mirror.wait(Duration::from_secs(60));
        assert!(bench.look().committed.is_some());
    }

    #[test]
    fn a_fault_keeps_its_beginning_across_edits_and_processes() {
        let mut bench = Bench::new();
        bench.write("datastore: aaa\n\tpath /a\n");
        bench.look_at(4_000_000_000);
        bench.write("datastore: aaa\n\tpath /a\n\tfoo 1\n");
        bench.look_at(4_000_000_010);
        bench.write("datastore: aaa\n\tpath /a\n\tpath /b\n");
        bench.mirror = Mirror::new(bench.file());
        bench.look_at(4_000_000_020);
        let fault = bench.fault("aaa");
        assert_eq!((fault.since, fault.line, fault.was_good), (4_000_000_010, 3, true));
        assert_eq!(fault.reason, "duplicate property 'path'");
        std::fs::remove_file(bench.file()).unwrap();
        bench.look_at(4_000_000_030);
        assert_eq!((bench.fault("aaa").since, bench.fault("aaa").line), (4_000_000_010, 0));
        bench.write("datastore: aaa\n\tpath /a\n");
        bench.look_at(4_000_000_040);
        assert_eq!(bench.store("aaa").unwrap().fault, None);
    }

    #[test]
    fn a_section_gone_from_a_file_with_errors_is_stale_not_deleted() {
        let mut bench = Bench::new();
        bench.write("datastore: aaa\n\tpath /a\n\ndatastore: bbb\n\tpath /b\n");
        bench.look();
        bench.write("datastore aaa\n\tpath /a\n\ndatastore: bbb\n\tpath /b\n");
        let outcome = bench.look();
        assert_eq!((outcome.changed, outcome.removed, outcome.problems.len()), (1, 0, 2));
        assert!(outcome.problems[0].ends_with("datastore.cfg: line 1: syntax error (expected header)"));
        assert!(outcome.problems[1].contains("datastore aaa: its section is gone"), "{outcome:?}");
        assert!(bench.fault("aaa").was_good);
        assert_eq!(bench.store("bbb").unwrap().fault, None);
        assert_eq!(bench.look().problems, outcome.problems);
    }

    #[test]
    fn two_sections_of_one_name_are_both_refused() {
        let mut bench = Bench::new();
        bench.write("datastore: aaa\n\tpath /a\n\ndatastore: bbb\n\tpath /b\n\ndatastore: aaa\n\tpath /c\n");
        let problems = bench.look().problems;
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains("another section `aaa` at line 7"), "{problems:?}");
        assert!(!bench.fault("aaa").was_good);
        assert_eq!(
            (bench.store("aaa").unwrap().path.as_str(), bench.store("bbb").unwrap().fault),
            ("", None)
        );
    }

    #[test]
    fn what_could_not_be_read_is_looked_at_again() {
        let mut bench = Bench::new();
        bench.write("datastore: aaa\n\tpath /a\n");
        bench.look();
        std::fs::remove_file(bench.file()).unwrap();
        std::fs::create_dir(bench.file()).unwrap();
        let problems = bench.look().problems;
        assert!(problems[0].contains("cannot be read: it is no regular file"), "{problems:?}");
        assert!(bench.fault("aaa").was_good);
        assert!(bench.mirror.seen.is_none());
        assert_eq!(bench.look().committed, None);
    }

    #[test]
    fn a_house_without_the_file_misses_nothing_until_it_had_one() {
        let mut bench = Bench::new();
        assert_eq!(bench.look(), Outcome::default());
        bench.write("");
        assert_eq!(bench.look(), Outcome::default());
    }

    #[test]
    fn a_change_by_somebody_else_in_between_is_looked_at_again() {
        /// Another process commits the same file's facts just before us, once.
        struct Contended(Memory, std::sync::atomic::AtomicBool);
        impl Source for Contended {
            fn at(&self) -> At {
                self.0.at()
            }
            fn with_view(&self, look: &mut dyn FnMut(&enfilade_facts::View<'_>)) -> Result<(), SourceError> {
                self.0.with_view(look)
            }
            fn commit(&self, change: &enfilade_facts::Change) -> Result<At, CommitError> {
                if !self.1.swap(true, std::sync::atomic::Ordering::SeqCst) {
                    crate::conformance::put_something(&self.0);
                }
                self.0.commit(change)
            }
        }
        let mut bench = Bench::new();
        bench.write("datastore: tank\n\tpath /a\n");
        let source = Contended(Memory::new(StoreId(1)), std::sync::atomic::AtomicBool::new(false));
        let outcome = bench.mirror.look(&source, Now { unix_seconds: 0, tick_millis: 0 }).unwrap();
        assert_eq!((outcome.added, outcome.changed), (0, 1));
        let row = source.read(|view| view.get::<Datastore>(&"tank".parse().unwrap())).unwrap().unwrap();
        assert_eq!(row.unwrap().path, "/a");
    }

    #[test]
    fn a_watch_comes_back_with_its_directory() {
        let scratch = Scratch::new();
        let directory = scratch.path().join("etc");
        let mut mirror = Mirror::new(directory.join("datastore.cfg"));
        assert!(mirror.watch.is_none());
        std::fs::create_dir(&directory).unwrap();
        mirror.wait(Duration::from_millis(1));
        assert!(mirror.watch.is_some());
        std::fs::remove_dir(&directory).unwrap();
        mirror.wait(Duration::from_secs(60));
        assert!(mirror.watch.is_none());
    }
}
