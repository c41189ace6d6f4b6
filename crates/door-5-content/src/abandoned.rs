//! Abandoned objects: incomplete uploads and copies of processes that have ended. An object counts as abandoned if it has a reserved name and no
//! process has locked it. A running process locks a new object right after it makes the object. Before a process gives an object a reserved name in
//! order to remove the object, the process locks the object.

use crate::beneath::{NODE_FLAGS, open_beneath};
use crate::emptying::empty_while;
use crate::file_systems::is_local;
use crate::list::any_entry;
use crate::names::{each_entry, reopened, reserved, servable};
use crate::node::Node;
use crate::refuse::{Refusal, is_absent};
use crate::root::Root;
use enfilade_facts::vocabulary::StorePath;
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, flock, fstat, openat, unlinkat};
use rustix::io;
use std::ops::ControlFlow;
use std::path::Path;

/// The age, in seconds since the last change, at which an object on a network file system counts as abandoned. On such a file system, it is possible
/// that this machine does not see the locks of other machines.
const ELSEWHERE_SECONDS: i64 = 3600;

impl Root {
    /// Removes abandoned files and directories, and returns their number. `now` is in seconds since the epoch. Goes through all directories, as long
    /// as `keep_going` returns true.
    ///
    /// # Refuses
    /// [`Refusal::Io`] when a directory cannot be opened. If a directory can be opened but not read, it is skipped.
    pub fn remove_abandoned(&self, now: i64, keep_going: &dyn Fn() -> bool) -> Result<u64, Refusal> {
        let before = if is_local(self.fd().as_fd()) { i64::MAX } else { now - ELSEWHERE_SECONDS };
        let (mut removed, mut paths) = (0, vec![String::new()]);
        while let Some(path) = paths.pop().filter(|_| keep_going()) {
            let relative = if path.is_empty() { "." } else { &path };
            let flags = NODE_FLAGS | OFlags::DIRECTORY;
            let directory = match open_beneath(self.fd(), relative, flags, Mode::empty()) {
                Ok(directory) => directory,
                // The directory was removed after its name was read, or the directory is a mount.
                Err(errno) if is_absent(errno) => continue,
                Err(errno) => return Err(Refusal::io(errno, "looking through", relative)),
            };
            let cleared = clear_directory(directory.as_fd(), before, |name| {
                paths.push(if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") });
            });
            removed += cleared.map_or(0, |cleared| cleared.removed);
        }
        Ok(removed)
    }
}

/// The result of clearing a directory.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cleared {
    /// How many abandoned files and directories were removed.
    pub(crate) removed: u64,
    /// Whether a running process may be writing into the directory. This is so if the directory contains an object that has a reserved name and does
    /// not count as abandoned.
    pub(crate) is_in_use: bool,
}

/// Removes the abandoned files and directories in a directory.
pub(crate) fn clear(directory: &Node) -> Result<Cleared, Refusal> {
    // If this machine cannot see the locks of other machines, any object may be in use. In this case, this function removes no object.
    let before = if is_local(directory.fd()) { i64::MAX } else { i64::MIN };
    let cursor = reopened(directory)?;
    clear_directory(cursor.as_fd(), before, |_| {})
        .map_err(|errno| Refusal::io(errno, "looking through", &directory.label()))
}

fn clear_directory(
    directory: BorrowedFd<'_>,
    before: i64,
    mut see_directory: impl FnMut(&str),
) -> io::Result<Cleared> {
    let mut cleared = Cleared::default();
    each_entry(directory, |name, kind| {
        let Ok(name) = name.to_str() else { return ControlFlow::Continue(()) };
        if reserved(name) {
            match remove(directory, name, before, &|| true) {
                Ok(true) => cleared.removed += 1,
                Ok(false) => cleared.is_in_use = true,
                // The object was removed already, cannot be removed, or is of a kind that this server never makes.
                Err(_) => {}
            }
        } else if kind == FileType::Directory {
            see_directory(name);
        }
        ControlFlow::Continue(())
    })?;
    Ok(cleared)
}

/// Removes a file or directory with a reserved name from a user's directory of items (`items.rs`), if the file or directory is abandoned. `now` is in
/// seconds since the epoch. Returns whether the file or directory was abandoned.
pub(crate) fn remove_if_abandoned(
    directory: BorrowedFd<'_>,
    name: &str,
    now: i64,
    keep_going: &dyn Fn() -> bool,
) -> io::Result<bool> {
    let before = if is_local(directory) { i64::MAX } else { now - ELSEWHERE_SECONDS };
    remove(directory, name, before, keep_going)
}

/// Like [`remove_if_abandoned`], but the caller sets the limit `before` (seconds since the epoch). An object that last changed at `before` or later
/// does not count as abandoned.
fn remove(
    directory: BorrowedFd<'_>,
    name: &str,
    before: i64,
    keep_going: &dyn Fn() -> bool,
) -> io::Result<bool> {
    let file = open_beneath(directory, name, NODE_FLAGS, Mode::empty())?;
    let found = fstat(&file)?;
    if found.st_ctime >= before || is_in_use(&file) {
        return Ok(false);
    }
    match FileType::from_raw_mode(found.st_mode) {
        FileType::Directory => {
            empty_while(file.as_fd(), keep_going)?;
            unlinkat(directory, name, AtFlags::REMOVEDIR)?;
        }
        _ => unlinkat(directory, name, AtFlags::empty())?,
    }
    Ok(true)
}

/// Whether a running process has locked an object with a reserved name. If no process has locked the object, this process locks the object now. If
/// the system call fails, the function returns true.
fn is_in_use(file: &OwnedFd) -> bool {
    flock(file, FlockOperation::NonBlockingLockExclusive).is_err()
}

/// Refuses a directory that contains an object that is never listed, or an upload or copy of a running process. Abandoned objects do not count,
/// because they are moved or deleted together with the directory.
///
/// # Refuses
/// [`Refusal::NotEmpty`] when the directory contains an entry that is never listed: a link, a socket, or an entry with a name that no request can
/// contain. [`Refusal::Uploading`] when a running process writes into the directory; [`Refusal::Io`] when the directory cannot be read.
pub fn unless_others(node: &Node, path: &StorePath) -> Result<(), Refusal> {
    let mut is_written = false;
    let has_others = any_entry(node, |name, kind| match std::str::from_utf8(name) {
        Ok(name) if reserved(name) => {
            let opened = open_beneath(node.fd(), name, NODE_FLAGS, Mode::empty());
            is_written |= opened.is_ok_and(|file| is_in_use(&file));
            false
        }
        _ => servable(name, kind).is_none(),
    })?;
    match (has_others, is_written) {
        (true, _) => Err(Refusal::NotEmpty(path.to_string())),
        (false, true) => Err(Refusal::Uploading(path.to_string())),
        (false, false) => Ok(()),
    }
}

/// Whether a path on this machine leads to an abandoned file or directory: an incomplete upload or copy of a process that has ended.
pub fn is_abandoned(path: &Path) -> bool {
    let has_reserved_name = path.file_name().and_then(|name| name.to_str()).is_some_and(reserved);
    let flags = NODE_FLAGS | OFlags::NOFOLLOW;
    has_reserved_name && openat(CWD, path, flags, Mode::empty()).is_ok_and(|file| !is_in_use(&file))
}
