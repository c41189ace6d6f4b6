//! Opens objects beneath a directory, and never an object elsewhere.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::{self, Errno};
use rustix::path::Arg;

/// How often `openat2` is called again after `EAGAIN`. Before each new call, other threads may run.
const TRIES_MAX: usize = 32;

/// How a node is opened: without waiting for a pipe's writer, and never as the controlling terminal.
pub(crate) const NODE_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// How every path beneath a root is resolved.
const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

/// Like [`open_beneath`], but only if the kernel has all of the path in memory.
pub(crate) fn open_cached(directory: BorrowedFd<'_>, path: &str, flags: OFlags) -> io::Result<OwnedFd> {
    openat2(directory, path, flags, Mode::empty(), BENEATH.union(ResolveFlags::CACHED))
}

/// Opens `path` beneath `directory`, through no link and no mount.
pub(crate) fn open_beneath(
    directory: impl AsFd,
    path: impl Arg + Copy,
    flags: OFlags,
    mode: Mode,
) -> io::Result<OwnedFd> {
    let mut tries = 0;
    loop {
        match openat2(directory.as_fd(), path, flags, mode, BENEATH) {
            Err(Errno::INTR) => {}
            // A rename raced with the lookup, or another program is being asked to give up its lease on the file.
            Err(Errno::AGAIN) if tries < TRIES_MAX => {
                tries += 1;
                std::thread::yield_now();
            }
            result => return result,
        }
    }
}
