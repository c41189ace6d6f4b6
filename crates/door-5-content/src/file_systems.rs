//! Which properties of a file system can be relied on.

use rustix::fd::BorrowedFd;
use rustix::fs::{fstatfs, fstatvfs};

/// File systems of this machine that stamp every change of a file, of its ACL too, with the machine's wall clock: ext2 to ext4, XFS,
/// Btrfs, F2FS and ZFS. The times of network file systems and of FUSE programs are not relied on.
const STAMPING: [u32; 5] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x2fc1_2fc1];

/// The id of a directory's file system, if its times can be relied on.
pub(crate) fn stamping_file_system(directory: BorrowedFd<'_>) -> Option<u64> {
    let kind = fstatfs(directory).ok()?.f_type as u32;
    STAMPING.contains(&kind).then(|| fstatvfs(directory).ok().map(|found| found.f_fsid))?
}

/// Other local file systems, whose locks show what is in use: tmpfs and overlayfs.
const LOCKING: [u32; 2] = [0x0102_1994, 0x794c_7630];

/// Whether a directory is on a file system of this machine alone, so that the locks of all its users are known here.
pub(crate) fn is_local(directory: BorrowedFd<'_>) -> bool {
    fstatfs(directory).is_ok_and(|found| {
        let kind = found.f_type as u32;
        STAMPING.contains(&kind) || LOCKING.contains(&kind)
    })
}
