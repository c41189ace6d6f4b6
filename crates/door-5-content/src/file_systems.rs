//! The file systems that have reliable time stamps, and the file systems on which this machine sees all locks.

use rustix::fd::BorrowedFd;
use rustix::fs::{fstatfs, fstatvfs};

/// The local file systems ext2 to ext4, XFS, Btrfs, F2FS and ZFS. At every change of a file or its ACL, these file systems set the file's time stamp
/// from the wall clock of this machine. The server does not rely on the time stamps of network file systems and of FUSE programs.
const STAMPING: [u32; 5] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x2fc1_2fc1];

/// The id of a directory's file system, if it is one of [`STAMPING`].
pub(crate) fn stamping_file_system(directory: BorrowedFd<'_>) -> Option<u64> {
    let kind = fstatfs(directory).ok()?.f_type as u32;
    STAMPING.contains(&kind).then(|| fstatvfs(directory).ok().map(|found| found.f_fsid))?
}

/// Further local file systems: tmpfs and overlayfs. Only processes of this machine can lock files on these file systems.
const LOCKING: [u32; 2] = [0x0102_1994, 0x794c_7630];

/// Whether a directory is on a file system that only this machine uses. On such a file system, this machine sees all locks.
pub(crate) fn is_local(directory: BorrowedFd<'_>) -> bool {
    fstatfs(directory).is_ok_and(|found| {
        let kind = found.f_type as u32;
        STAMPING.contains(&kind) || LOCKING.contains(&kind)
    })
}
