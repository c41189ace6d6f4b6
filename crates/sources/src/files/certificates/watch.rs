//! Reports which files of some directories change (inotify).

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

/// Watches directories.
pub struct DirectoryWatch {
    watch: OwnedFd,
    /// The paths of each watched directory, by the number of its watch. A directory has several paths if links lead to it.
    directories: BTreeMap<i32, Vec<PathBuf>>,
}

/// Changed files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedFiles {
    /// All changed files.
    pub all: BTreeSet<PathBuf>,
    /// The files of `all` that got their names by a rename, and did not change afterwards. Such a file is complete: programs rename a file after they
    /// wrote it.
    pub renamed: BTreeSet<PathBuf>,
}

/// Changes of the directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// Changes of files; empty if nothing changed.
    Files(ChangedFiles),
    /// The kernel lost events, or a directory itself was removed, moved or unmounted. All files must be read again.
    Everything,
}

impl Changed {
    /// Whether nothing changed.
    pub fn is_nothing(&self) -> bool {
        matches!(self, Changed::Files(files) if files.all.is_empty())
    }

    /// The union of two results. It is `Everything` if one of them is `Everything`.
    #[must_use]
    pub fn and(self, other: Changed) -> Changed {
        match (self, other) {
            (Changed::Files(mut files), Changed::Files(more)) => {
                files.renamed.retain(|file| !more.all.contains(file));
                files.all.extend(more.all);
                files.renamed.extend(more.renamed);
                Changed::Files(files)
            }
            _ => Changed::Everything,
        }
    }
}

impl DirectoryWatch {
    /// Watches the directories in `directories` and in `also` from now on. A directory in `also` that cannot be watched is left out.
    ///
    /// # Errors
    /// When one of `directories` does not exist, or the limit of watches is reached.
    pub fn new(
        directories: impl IntoIterator<Item = PathBuf>,
        also: impl IntoIterator<Item = PathBuf>,
    ) -> io::Result<Self> {
        let watch = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
        let events = inotify::WatchFlags::CLOSE_WRITE
            | inotify::WatchFlags::MOVE
            | inotify::WatchFlags::DELETE
            | inotify::WatchFlags::CREATE
            | inotify::WatchFlags::DELETE_SELF
            | inotify::WatchFlags::MOVE_SELF
            | inotify::WatchFlags::ONLYDIR;
        let mut watched: BTreeMap<i32, Vec<PathBuf>> = BTreeMap::new();
        for directory in directories {
            watched.entry(inotify::add_watch(&watch, &directory, events)?).or_default().push(directory);
        }
        for directory in also {
            if let Ok(number) = inotify::add_watch(&watch, &directory, events) {
                watched.entry(number).or_default().push(directory);
            }
        }
        Ok(DirectoryWatch { watch, directories: watched })
    }

    /// The changes since the last call. Waits for a change, at most for the time `at_most`.
    pub fn wait(&self, at_most: Duration) -> Changed {
        let timeout =
            Timespec { tv_sec: at_most.as_secs() as i64, tv_nsec: i64::from(at_most.subsec_nanos()) };
        let _ = poll(&mut [PollFd::new(&self.watch, PollFlags::IN)], Some(&timeout));
        let mut files = ChangedFiles::default();
        let mut room = [MaybeUninit::uninit(); 64 * 1024];
        let mut events = inotify::Reader::new(&self.watch, &mut room);
        let own = inotify::ReadFlags::QUEUE_OVERFLOW
            | inotify::ReadFlags::IGNORED
            | inotify::ReadFlags::DELETE_SELF
            | inotify::ReadFlags::MOVE_SELF
            | inotify::ReadFlags::UNMOUNT;
        while let Ok(event) = events.next() {
            if event.events().intersects(own) {
                return Changed::Everything;
            }
            let Some(name) = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes())) else {
                continue;
            };
            for directory in self.directories.get(&event.wd()).into_iter().flatten() {
                let path = directory.join(name);
                match event.events().contains(inotify::ReadFlags::MOVED_TO) {
                    true => files.renamed.insert(path.clone()),
                    false => files.renamed.remove(&path),
                };
                files.all.insert(path);
            }
        }
        Changed::Files(files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn the_names_that_change_and_no_others() {
        let scratch = Scratch::new();
        std::fs::write(scratch.path().join("before"), "").unwrap();
        let watch =
            DirectoryWatch::new([scratch.path().to_owned()], [scratch.path().join("absent")]).unwrap();
        assert!(watch.wait(Duration::from_millis(1)).is_nothing());
        std::fs::write(scratch.path().join("a"), "1").unwrap();
        std::fs::rename(scratch.path().join("a"), scratch.path().join("b")).unwrap();
        std::fs::remove_file(scratch.path().join("before")).unwrap();
        let paths = |names: &[&str]| names.iter().map(|name| scratch.path().join(name)).collect();
        let first = watch.wait(Duration::from_secs(60));
        let files = |all: &[&str], renamed: &[&str]| {
            Changed::Files(ChangedFiles { all: paths(all), renamed: paths(renamed) })
        };
        assert_eq!(first, files(&["a", "b", "before"], &["b"]));
        // A file that is written after the rename may be incomplete.
        std::fs::write(scratch.path().join("b"), "2").unwrap();
        assert_eq!(first.and(watch.wait(Duration::from_secs(60))), files(&["a", "b", "before"], &[]));
        std::fs::remove_dir_all(scratch.path()).unwrap();
        assert_eq!(
            watch.wait(Duration::from_secs(60)).and(Changed::Files(ChangedFiles::default())),
            Changed::Everything
        );
        assert!(DirectoryWatch::new([scratch.path().to_owned()], []).is_err());
    }
}
