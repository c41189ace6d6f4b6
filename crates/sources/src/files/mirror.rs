//! Keeping facts in step with a file people edit.
//!
//! The file is the truth. Every look takes its inode, change time and size; when they changed (or its change was so
//! recent that another one could have left no trace) it is read, parsed, compared with the facts, and what differs is
//! committed as one change.

use super::datastore_cfg::{FILE_BYTES_MAX, read};
use super::section_config;
use crate::pause::pause;
use enfilade_facts::tables::{Datastore, SectionFault};
use enfilade_facts::vocabulary::DatastoreName;
use enfilade_facts::{At, Change, CommitError, Now, Read, Source, SourceError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;
use std::collections::BTreeMap;
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
    seen: Option<(Option<Version>, Outcome)>,
    watch: Option<OwnedFd>,
}

/// What the file says: datastores, and what is wrong with it.
struct Content {
    stores: BTreeMap<DatastoreName, Datastore>,
    broken: BTreeMap<DatastoreName, (u32, String)>,
    problems: Vec<String>,
    /// Nothing is wrong anywhere: what is not in the file is meant to be gone.
    whole: bool,
}

impl Mirror {
    /// Of this file; it need not be there.
    pub fn new(path: PathBuf) -> Self {
        let watch = watch(path.parent().unwrap_or(Path::new("."))).ok();
        Mirror { path, seen: None, watch }
    }

    /// Looks at the file, and commits what it says now.
    ///
    /// # Errors
    /// When the facts cannot be read or changed; trouble in the file is no error, it is in the outcome.
    pub fn look(&mut self, source: &dyn Source, now: Now) -> Result<Outcome, MirrorError> {
        let version = version(&self.path);
        if let Some((seen, outcome)) = &self.seen
            && *seen == version
            && !is_fresh(version, now)
        {
            return Ok(Outcome { committed: None, problems: outcome.problems.clone() });
        }
        let content = content(&self.path);
        let committed = commit(source, &content, now)?;
        let outcome = Outcome { committed, problems: content.problems };
        self.seen = Some((version, outcome.clone()));
        Ok(outcome)
    }

    /// Waits until something happened in the file's directory, at most so long.
    pub fn wait(&mut self, at_most: Duration) {
        let Some(watch) = &self.watch else {
            // Without inotify only looking helps.
            pause(at_most);
            return;
        };
        let timeout =
            Timespec { tv_sec: at_most.as_secs() as i64, tv_nsec: i64::from(at_most.subsec_nanos()) };
        let _ = poll(&mut [PollFd::new(watch, PollFlags::IN)], Some(&timeout));
        // What happened does not matter; the next look sees it. The events only have to be taken away.
        let mut events = [0; 4096];
        while rustix::io::read(watch, &mut events).is_ok_and(|read| read > 0) {}
    }
}

fn watch(directory: &Path) -> rustix::io::Result<OwnedFd> {
    let watch = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
    let events = inotify::WatchFlags::CLOSE_WRITE
        | inotify::WatchFlags::MOVE
        | inotify::WatchFlags::CREATE
        | inotify::WatchFlags::DELETE
        | inotify::WatchFlags::ATTRIB;
    inotify::add_watch(&watch, directory, events)?;
    Ok(watch)
}

fn version(path: &Path) -> Option<Version> {
    let meta = std::fs::metadata(path).ok()?;
    Some(Version { inode: meta.ino(), changed: (meta.ctime(), meta.ctime_nsec()), bytes: meta.size() })
}

/// The kernel stamps with a clock that ticks: two changes within one tick look like one. A file that changed in the last
/// two seconds (or in the future) is read again.
fn is_fresh(version: Option<Version>, now: Now) -> bool {
    version.is_some_and(|version| version.changed.0 >= now.unix_seconds - 2)
}

fn content(path: &Path) -> Content {
    let mut content =
        Content { stores: BTreeMap::new(), broken: BTreeMap::new(), problems: Vec::new(), whole: true };
    let problem = |reason: &str| format!("{}: {reason}", path.display());
    let bytes = match std::fs::metadata(path) {
        Ok(meta) if meta.len() > FILE_BYTES_MAX => Err("it is larger than 128 MiB".to_owned()),
        Ok(_) => std::fs::read(path).map_err(|why| why.to_string()),
        Err(why) => Err(why.to_string()),
    };
    let bytes = match bytes {
        Ok(bytes) => bytes,
        Err(why) => {
            // A file that is gone or unreadable says nothing; what it said last is stale, not deleted.
            content.problems.push(problem(&format!("cannot be read: {why}")));
            content.whole = false;
            return content;
        }
    };
    let parsed = section_config::parse(&bytes);
    for error in &parsed.errors {
        content.problems.push(problem(&format!("line {}: {}", error.line, error.reason)));
        content.whole = false;
    }
    for section in &parsed.sections {
        match read(section) {
            Ok((name, datastore)) => {
                content.stores.insert(name, datastore);
            }
            Err(error) => {
                let text = format!("line {}: {} (section `{}`)", error.line, error.reason, section.id);
                content.problems.push(problem(&text));
                content.whole = false;
                if let Ok(name) = section.id.parse() {
                    content.broken.entry(name).or_insert((error.line, error.reason));
                }
            }
        }
    }
    content
}

/// More than this many others changing datastores at once means something else is wrong.
const TRIES: usize = 32;

fn commit(source: &dyn Source, content: &Content, now: Now) -> Result<Option<At>, MirrorError> {
    let mut last = None;
    for _ in 0..TRIES {
        let change =
            source.read(|view| view.list::<Datastore>(&[]).map(|rows| change(content, rows, now)))??;
        if change.is_empty() {
            return Ok(None);
        }
        match source.commit(&change) {
            Ok(at) => return Ok(Some(at)),
            Err(why @ CommitError::Conflict { .. }) => last = Some(why),
            Err(why) => return Err(why.into()),
        }
    }
    last.map_or(Ok(None), |why| Err(why.into()))
}

fn change(content: &Content, rows: Vec<(DatastoreName, Datastore)>, now: Now) -> Change {
    let mut change = Change::new();
    let known: BTreeMap<DatastoreName, Datastore> = rows.into_iter().collect();
    for (name, datastore) in &content.stores {
        let before = known.get(name);
        if before != Some(datastore) {
            change.expect_unchanged(name, before).put(name, datastore);
        }
    }
    for (name, (line, reason)) in &content.broken {
        mark(&mut change, name, known.get(name), *line, reason, now);
    }
    for (name, before) in &known {
        if content.stores.contains_key(name) || content.broken.contains_key(name) {
            continue;
        }
        if content.whole {
            change.expect_same(name, before).delete::<Datastore>(name);
        } else {
            mark(
                &mut change,
                name,
                Some(before),
                0,
                "its section is gone from a file that has errors or cannot be read",
                now,
            );
        }
    }
    change
}

/// The last good facts stay, with the word that they are stale and since when.
fn mark(
    change: &mut Change,
    name: &DatastoreName,
    before: Option<&Datastore>,
    line: u32,
    reason: &str,
    now: Now,
) {
    let since = before.and_then(|row| row.fault.as_ref()).map_or(now.unix_seconds, |fault| fault.since);
    let was_good = before.is_some_and(|row| row.fault.as_ref().is_none_or(|fault| fault.was_good));
    let nothing = || Datastore {
        path: String::new(),
        comment: None,
        maintenance: None,
        backing_device: None,
        other: Vec::new(),
        fault: None,
    };
    let mut after = before.cloned().unwrap_or_else(nothing);
    after.fault = Some(SectionFault { line, reason: reason.to_owned(), since, was_good });
    if before != Some(&after) {
        change.expect_unchanged(name, before).put(name, &after);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;
    use crate::scratch::Scratch;
    use enfilade_facts::StoreId;

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
            std::fs::write(self.scratch.path().join("datastore.cfg"), text).unwrap();
        }

        /// Looks far in the future, so that no change counts as fresh.
        fn look(&mut self) -> Outcome {
            self.mirror.look(&self.source, Now { unix_seconds: 4_000_000_000, tick_millis: 0 }).unwrap()
        }

        fn store(&self, name: &str) -> Option<Datastore> {
            self.source.read(|view| view.get::<Datastore>(&name.parse().unwrap())).unwrap().unwrap()
        }
    }

    #[test]
    fn edits_are_followed_and_looking_again_changes_nothing() {
        let mut bench = Bench::new();
        bench.write("datastore: aaa\n\tpath /a\n\ndatastore: bbb\n\tpath /b\n");
        assert!(bench.look().committed.is_some());
        assert_eq!(bench.look(), Outcome::default());
        bench.write("datastore: aaa\n\tpath /a\n\tmaintenance-mode read-only\n");
        assert!(bench.look().committed.is_some());
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
            problems[0].ends_with("datastore.cfg: line 3: unknown property 'foo' (section `aaa`)"),
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
        std::fs::remove_file(bench.scratch.path().join("datastore.cfg")).unwrap();
        assert_eq!(bench.look().problems.len(), 1);
        assert!(bench.store("aaa").unwrap().fault.unwrap().was_good);
    }

    #[test]
    fn a_change_of_the_same_length_with_its_time_put_back_is_seen() {
        let mut bench = Bench::new();
        bench.write("datastore: aaa\n\tpath /a\n");
        bench.look();
        let path = bench.scratch.path().join("datastore.cfg");
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
}
