//! What is left of uploads and copies whose process ended in the middle: it has a reserved name, and nobody holds its lock any more.

use crate::collection::empty;
use crate::names::reserved;
use crate::refuse::{Refusal, is_absent};
use crate::root::{NODE_FLAGS, Root, open_beneath};
use rustix::fd::BorrowedFd;
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, RawDir, flock, fstat, unlinkat};
use rustix::io::{self, Errno};

impl Root {
    /// Removes what was abandoned before a moment, in seconds since the epoch; says how much that was. It looks into every directory, as long
    /// as that is still wanted.
    ///
    /// # Refuses
    /// [`Refusal::Io`] when a directory cannot be read.
    pub fn remove_abandoned(&self, before: i64, is_wanted: &dyn Fn() -> bool) -> Result<u64, Refusal> {
        let (mut removed, mut paths) = (0, vec![String::new()]);
        let mut buffer: Vec<u8> = Vec::with_capacity(64 * 1024);
        while let Some(path) = paths.pop().filter(|_| is_wanted()) {
            let relative = if path.is_empty() { "." } else { &path };
            let flags = NODE_FLAGS | OFlags::DIRECTORY;
            let directory = match open_beneath(self.fd(), relative, flags, Mode::empty()) {
                Ok(directory) => directory,
                // Gone meanwhile, or a mount.
                Err(errno) if is_absent(errno) => continue,
                Err(errno) => return Err(Refusal::io(errno, "looking through", relative)),
            };
            let mut entries = RawDir::new(&directory, buffer.spare_capacity_mut());
            while let Some(entry) = entries.next() {
                let entry = match entry {
                    Ok(entry) => entry,
                    Err(Errno::INTR) => continue,
                    Err(_) => break,
                };
                let Ok(name) = entry.file_name().to_str() else { continue };
                let kind = entry.file_type();
                if reserved(name) {
                    removed +=
                        u64::from(remove(rustix::fd::AsFd::as_fd(&directory), name, before).unwrap_or(false));
                } else if kind == FileType::Directory && !matches!(name, "." | "..") {
                    paths.push(if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") });
                }
            }
        }
        Ok(removed)
    }
}

/// Whether it was abandoned, and is gone.
fn remove(directory: BorrowedFd<'_>, name: &str, before: i64) -> io::Result<bool> {
    let file = open_beneath(directory, name, NODE_FLAGS, Mode::empty())?;
    let found = fstat(&file)?;
    // Whoever writes it holds the lock until it has its own name.
    if found.st_ctime >= before || flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(false);
    }
    match FileType::from_raw_mode(found.st_mode) {
        FileType::Directory => {
            empty(rustix::fd::AsFd::as_fd(&file))?;
            unlinkat(directory, name, AtFlags::REMOVEDIR)?;
        }
        _ => unlinkat(directory, name, AtFlags::empty())?,
    }
    Ok(true)
}
