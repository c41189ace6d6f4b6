//! Removes everything in a directory, including the entries that are never served.

use crate::beneath::{NODE_FLAGS, open_beneath};
use crate::names::each_entry;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, unlinkat};
use rustix::io::{self, Errno};
use std::ffi::CString;
use std::ops::ControlFlow;

/// A directory that is being emptied. Also contains the remaining entries of this directory, and the name of this directory in its parent directory.
struct Level {
    directory: OwnedFd,
    entries: Vec<(CString, FileType)>,
    name: CString,
}

/// Removes everything in a directory.
pub(crate) fn empty(top: BorrowedFd<'_>) -> io::Result<()> {
    empty_while(top, &|| true)
}

/// Like [`empty`], but stops when `keep_going` returns false, and then returns the error [`Errno::CANCELED`]. `keep_going` is called before each
/// entry.
pub(crate) fn empty_while(top: BorrowedFd<'_>, keep_going: &dyn Fn() -> bool) -> io::Result<()> {
    let mut levels = vec![level(top, c".".to_owned())?];
    while let Some(Level { directory, entries, .. }) = levels.last_mut() {
        if !keep_going() {
            return Err(Errno::CANCELED);
        }
        match entries.pop() {
            Some((name, FileType::Directory)) => {
                let below = level(directory.as_fd(), name)?;
                levels.push(below);
            }
            Some((name, kind)) => match unlinkat(&*directory, &name, AtFlags::empty()) {
                // Some file systems do not report the kind of an entry.
                Err(Errno::ISDIR) if kind == FileType::Unknown => entries.push((name, FileType::Directory)),
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno),
            },
            None => {
                let name = levels.pop().map(|level| level.name);
                if let (Some(above), Some(name)) = (levels.last(), name) {
                    unlinkat(&above.directory, &name, AtFlags::REMOVEDIR)?;
                }
            }
        }
    }
    Ok(())
}

fn level(above: BorrowedFd<'_>, name: CString) -> io::Result<Level> {
    let directory = open_beneath(above, name.as_c_str(), NODE_FLAGS | OFlags::DIRECTORY, Mode::empty())?;
    let mut entries = Vec::new();
    each_entry(directory.as_fd(), |name, kind| {
        entries.push((name.to_owned(), kind));
        ControlFlow::Continue(())
    })?;
    Ok(Level { directory, entries, name })
}
