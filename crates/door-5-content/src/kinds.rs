//! The kind of an object is checked before it is opened. The reason: opening a pipe wakes a process that waits to write to the pipe, and opening a
//! device may have any effect. The check uses an `O_PATH` descriptor, which does not open the object itself. The check takes half as long as opening
//! the object. To save this time, the server remembers each path that led to a file or directory at the last check. If a remembered path now leads to
//! a pipe or device, the server opens the pipe or device once, and then forgets the path.

use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, OFlags, StatxFlags, statx};
use rustix::io::{self, Errno};
use rustix::path::Arg;
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many paths are remembered for each open root. The table takes 8 KiB.
const SLOTS: usize = 1024;

/// The flags for a descriptor that refers to an object without opening the object itself.
pub(crate) const OPENING_NOTHING: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// Paths beneath one root that led to a file or directory at the last check.
#[derive(Default)]
pub(crate) struct KnownPaths {
    hasher: RandomState,
    slots: OnceLock<Box<[AtomicU64; SLOTS]>>,
}

impl KnownPaths {
    /// The slot of a path, and the hash of the path. The path is remembered if and only if the slot contains the hash.
    fn slot(&self, path: &str) -> (&AtomicU64, u64) {
        let hash = self.hasher.hash_one(path).max(1);
        let slots = self.slots.get_or_init(|| Box::new([const { AtomicU64::new(0) }; SLOTS]));
        #[expect(clippy::indexing_slicing, reason = "the index is less than the number of slots")]
        (&slots[hash as usize % SLOTS], hash)
    }

    /// Checks the kind of the object at a path, unless the path is remembered; `ask` returns an `O_PATH` descriptor of the object.
    ///
    /// # Errors
    /// [`Errno::NXIO`] for an object that is neither file nor directory; the errors of `ask`.
    pub(crate) fn check(&self, path: &str, ask: impl FnOnce() -> io::Result<OwnedFd>) -> io::Result<()> {
        let (slot, known) = self.slot(path);
        if slot.load(Ordering::Relaxed) == known {
            return Ok(());
        }
        is_served(ask()?.as_fd(), "", AtFlags::EMPTY_PATH)?;
        slot.store(known, Ordering::Relaxed);
        Ok(())
    }

    /// Forgets a path that no longer leads to a file or directory.
    pub(crate) fn forget(&self, path: &str) {
        let (slot, known) = self.slot(path);
        let _ = slot.compare_exchange(known, 0, Ordering::Relaxed, Ordering::Relaxed);
    }
}

impl fmt::Debug for KnownPaths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KnownPaths")
    }
}

/// Checks that an entry is of a kind that is served.
///
/// # Errors
/// [`Errno::NXIO`] for an object that is neither file nor directory (the kernel's error for opening a socket); the kernel's error if the
/// kind cannot be determined.
pub(crate) fn is_served(directory: BorrowedFd<'_>, name: impl Arg + Copy, flags: AtFlags) -> io::Result<()> {
    let found = io::retry_on_intr(|| statx(directory, name, flags, StatxFlags::TYPE))?;
    match FileType::from_raw_mode(found.stx_mode.into()) {
        FileType::RegularFile | FileType::Directory => Ok(()),
        _ => Err(Errno::NXIO),
    }
}

/// Whether a descriptor refers to a regular file.
pub(crate) fn is_file(file: BorrowedFd<'_>) -> bool {
    let found = io::retry_on_intr(|| statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::TYPE));
    found.is_ok_and(|found| FileType::from_raw_mode(found.stx_mode.into()) == FileType::RegularFile)
}
