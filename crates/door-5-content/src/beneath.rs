//! Opens objects beneath a directory. No object outside of the directory can be opened.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::{self, Errno};
use rustix::path::Arg;

/// How many times `openat2` is called again after `EAGAIN`. Before each new call, other threads may run.
const TRIES_MAX: usize = 32;

/// The flags for opening a node: the call does not wait for the writer of a pipe, and a terminal does not become the controlling terminal.
pub(crate) const NODE_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// The rules for resolving every path beneath a root.
const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

/// Like [`open_beneath`], but only if the kernel has all of the path in memory. Otherwise the error is `EAGAIN`.
pub(crate) fn open_cached(directory: BorrowedFd<'_>, path: &str, flags: OFlags) -> io::Result<OwnedFd> {
    openat2(directory, path, flags, Mode::empty(), BENEATH.union(ResolveFlags::CACHED))
}

/// Opens `path` beneath `directory`. Links and mounts on the path are refused.
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
            // A rename happened during the lookup, or the kernel is asking another program to give up its lease on the file.
            Err(Errno::AGAIN) if tries < TRIES_MAX => {
                tries += 1;
                std::thread::yield_now();
            }
            result => return result,
        }
    }
}
