//! Being told which files of a directory change.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::time::Duration;

/// Watches one directory.
pub struct DirectoryWatch(OwnedFd);

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// Something happened to these names; to none where there are none.
    Names(BTreeSet<OsString>),
    /// More than the kernel kept, or to the directory itself: everything has to be looked at.
    Everything,
}

impl Changed {
    /// Whether nothing did.
    pub fn is_nothing(&self) -> bool {
        matches!(self, Changed::Names(names) if names.is_empty())
    }

    /// Both.
    #[must_use]
    pub fn and(self, other: Changed) -> Changed {
        match (self, other) {
            (Changed::Names(mut names), Changed::Names(more)) => {
                names.extend(more);
                Changed::Names(names)
            }
            _ => Changed::Everything,
        }
    }
}

impl DirectoryWatch {
    /// From now on.
    ///
    /// # Errors
    /// When the directory is not there, or the kernel watches nothing more.
    pub fn new(directory: &Path) -> io::Result<Self> {
        let watch = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
        let events = inotify::WatchFlags::CLOSE_WRITE
            | inotify::WatchFlags::MOVE
            | inotify::WatchFlags::DELETE
            | inotify::WatchFlags::CREATE
            | inotify::WatchFlags::DELETE_SELF
            | inotify::WatchFlags::MOVE_SELF
            | inotify::WatchFlags::ONLYDIR;
        inotify::add_watch(&watch, directory, events)?;
        Ok(DirectoryWatch(watch))
    }

    /// What happened since, waiting at most so long for something to.
    pub fn wait(&self, at_most: Duration) -> Changed {
        let timeout =
            Timespec { tv_sec: at_most.as_secs() as i64, tv_nsec: i64::from(at_most.subsec_nanos()) };
        let _ = poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&timeout));
        let mut names = BTreeSet::new();
        let mut room = [MaybeUninit::uninit(); 64 * 1024];
        let mut events = inotify::Reader::new(&self.0, &mut room);
        let own = inotify::ReadFlags::QUEUE_OVERFLOW
            | inotify::ReadFlags::IGNORED
            | inotify::ReadFlags::DELETE_SELF
            | inotify::ReadFlags::MOVE_SELF
            | inotify::ReadFlags::UNMOUNT;
        while let Ok(event) = events.next() {
            if event.events().intersects(own) {
                return Changed::Everything;
            }
            names.extend(event.file_name().map(|name| OsString::from_vec(name.to_bytes().to_vec())));
        }
        Changed::Names(names)
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
        let watch = DirectoryWatch::new(scratch.path()).unwrap();
        assert!(watch.wait(Duration::from_millis(1)).is_nothing());
        std::fs::write(scratch.path().join("a"), "1").unwrap();
        std::fs::rename(scratch.path().join("a"), scratch.path().join("b")).unwrap();
        std::fs::remove_file(scratch.path().join("before")).unwrap();
        let names = ["a", "b", "before"].map(OsString::from).into();
        assert_eq!(watch.wait(Duration::from_secs(60)), Changed::Names(names));
        std::fs::remove_dir_all(scratch.path()).unwrap();
        assert_eq!(
            watch.wait(Duration::from_secs(60)).and(Changed::Names(BTreeSet::new())),
            Changed::Everything
        );
        assert!(DirectoryWatch::new(scratch.path()).is_err());
    }
}
