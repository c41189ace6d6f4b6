//! Waits until a mirrored file is edited (inotify).

use crate::files::file_set::FileSet;
use crate::pause::pause;
use enfilade_facts::tables::FileName;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;
use std::collections::BTreeSet;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

/// Watches the directory of the files. If a file is a symbolic link, also watches the directory of its target.
pub(super) struct Watch {
    inotify: Option<OwnedFd>,
    watched: BTreeSet<PathBuf>,
}

impl Watch {
    /// A watch that starts with the first call of [`Watch::wait`]. If inotify is available, this first call returns at once.
    pub(super) fn new() -> Self {
        Watch { inotify: None, watched: BTreeSet::new() }
    }

    /// Starts a new watch if there is no watch, or if other directories must be watched now, because a link was changed or a directory was made.
    /// Returns whether a new watch was started. In this case the caller must not wait, because events of the old watch may be lost.
    fn renew(&mut self, set: &FileSet) -> bool {
        let directories = directories(set);
        if self.inotify.is_some() && directories == self.watched {
            return false;
        }
        self.inotify = watch(&directories).ok();
        self.watched = directories;
        self.inotify.is_some()
    }

    pub(super) fn wait(&mut self, set: &FileSet, at_most: Duration) {
        if self.renew(set) {
            return;
        }
        let Some(inotify) = &self.inotify else {
            // Without inotify, a change is found only by the next look, after the time `at_most`.
            pause(at_most);
            return;
        };
        let timeout =
            Timespec { tv_sec: at_most.as_secs() as i64, tv_nsec: i64::from(at_most.subsec_nanos()) };
        let _ = poll(&mut [PollFd::new(inotify, PollFlags::IN)], Some(&timeout));
        // The events are removed from the queue, and their content is not used. The next look checks all files, so it does not matter which file was
        // changed.
        let mut is_over = false;
        let mut room = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(inotify, &mut room);
        while let Ok(event) = events.next() {
            is_over |= event.events().contains(inotify::ReadFlags::IGNORED);
        }
        if is_over {
            // A directory was removed, so the kernel has removed its watch.
            self.inotify = None;
        }
    }

    #[cfg(test)]
    pub(super) fn is_watching(&self) -> bool {
        self.inotify.is_some()
    }
}

/// The directories to watch: the directory of the files, and the directories of the targets of symbolic links.
fn directories(set: &FileSet) -> BTreeSet<PathBuf> {
    let targets = FileName::ALL.into_iter().filter_map(|file| std::fs::canonicalize(set.path(file)).ok());
    let of_targets = targets.filter_map(|target| target.parent().map(PathBuf::from));
    let own = std::fs::canonicalize(set.directory()).unwrap_or_else(|_| set.directory().to_owned());
    of_targets.chain([own]).collect()
}

fn watch(directories: &BTreeSet<PathBuf>) -> rustix::io::Result<OwnedFd> {
    let watch = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
    let events = inotify::WatchFlags::CLOSE_WRITE
        | inotify::WatchFlags::MOVE
        | inotify::WatchFlags::CREATE
        | inotify::WatchFlags::DELETE
        | inotify::WatchFlags::ATTRIB;
    directories.iter().try_for_each(|directory| inotify::add_watch(&watch, directory, events).map(drop))?;
    Ok(watch)
}
