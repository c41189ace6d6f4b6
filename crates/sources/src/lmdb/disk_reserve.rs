//! Reserves disk space for the store's file. A change of the facts needs some pages, and datastores are often on the same disk. Without the reserve,
//! a user who fills the disk with uploads could not be disabled.
//!
//! LMDB writes new pages behind the end of the file. The reserve is disk space that is allocated there in advance (`FALLOC_FL_KEEP_SIZE` of
//! fallocate(2)); the length and the content of the file stay the same. A change that gives rights and would use the reserve is refused if no new
//! reserve can be allocated. A change that only takes rights away may use half of the reserve if a user requested the change, and the whole reserve
//! if an administrator requested the change. A change that copies an edit of a file into the facts may use the whole reserve (`bounds.rs`).
//!
//! If the file system cannot allocate space in advance, there is no reserve. btrfs and ZFS write each changed page to a new place, so the reserve is
//! of little use on these file systems.
//!
//! If a disk has too little space, some file systems (ext4) allocate all the space that is left, and keep it although the call fails. To prevent
//! this, the free space is compared with the needed space before each allocation.

use super::bounds::{Bound, GIVING, bound_of};
use super::error::{no_disk_space, unavailable};
use enfilade_facts::journal::{Write, effect_of};
use enfilade_facts::{CommitError, Requester, Snapshot};
use heed::{Env, WithTls};
use rustix::fs::{FallocateFlags, fallocate, fstatvfs};
use rustix::io::{Errno, retry_on_intr};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU64, Ordering};

/// The size of the reserve, in bytes. It is enough for some thousands of small changes.
const RESERVE_BYTES: u64 = 16 << 20;
/// On a small file system, the reserve is at most the size of the file system divided by this number.
const PARTS_OF_FILE_SYSTEM: u64 = 32;
/// A new reserve is larger than needed: the extra space is the size of the reserve divided by this number. So the next reserve is made only when the
/// file has grown by this extra space, and not at every commit.
const PARTS_AHEAD: u64 = 16;
/// An upper bound of the number of pages that LMDB writes for its own trees. The lists of free pages are not counted.
const PAGES_OF_LMDB: u64 = 32;

/// The functions of the file system. Tests replace them.
struct Disk {
    /// Allocates disk space for a part of a file, from the first to the second offset.
    allocate: fn(&File, u64, u64) -> Result<(), Errno>,
    /// The disk space that a file has, in bytes.
    allocated: fn(&File) -> u64,
    /// The free space of the file system, in bytes.
    free: fn(&File) -> Result<u64, Errno>,
}

const DISK: Disk = Disk {
    allocate: |file, from, until| {
        fallocate(file, FallocateFlags::KEEP_SIZE, from, until.saturating_sub(from))
    },
    allocated: |file| file.metadata().map_or(0, |meta| meta.blocks() * 512),
    free: |file| Ok(space_of(file)?.free),
};

impl Disk {
    /// Allocates disk space for a part of a file, if the file system has enough free space. Returns the offset up to which the file has disk space.
    fn extend(&self, file: &File, from: u64, until: u64) -> Result<u64, Errno> {
        if (self.free)(file)? < until.saturating_sub((self.allocated)(file)) {
            return Err(Errno::NOSPC);
        }
        // fallocate(2) refuses an empty part. If the file is already as long as the map, it needs no more space.
        if until <= from {
            return Ok(until);
        }
        match retry_on_intr(|| (self.allocate)(file, from, until)) {
            Ok(()) => Ok(until),
            // The file system cannot allocate space in advance.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(u64::MAX),
            Err(why) => Err(why),
        }
    }
}

/// The space of a file system, in bytes.
struct Space {
    all: u64,
    /// The part that processes without special rights can use.
    free: u64,
}

/// The space of the file system of a file. If the file system does not report its size, the space counts as unlimited.
fn space_of(file: &File) -> Result<Space, Errno> {
    match fstatvfs(file) {
        Ok(found) if found.f_blocks > 0 => Ok(Space {
            all: found.f_blocks.saturating_mul(found.f_frsize),
            free: found.f_bavail.saturating_mul(found.f_frsize),
        }),
        Ok(_) | Err(Errno::NOSYS | Errno::OPNOTSUPP) => Ok(Space { all: u64::MAX, free: u64::MAX }),
        Err(why) => Err(why),
    }
}

/// The free space of the file system of a file, in bytes.
pub(super) fn free_bytes(file: &File) -> std::io::Result<u64> {
    Ok((DISK.free)(file)?)
}

/// The size of the reserve on a file system of `all` bytes.
fn size_on(all: u64) -> u64 {
    RESERVE_BYTES.min(all / PARTS_OF_FILE_SYSTEM)
}

/// The offset from which disk space is allocated when a store is opened. The file of a store that an earlier version of this program made can have
/// holes. In this case, disk space is allocated for the whole file. Otherwise, disk space is allocated only behind the end of the file.
fn first_to_allocate(allocated: u64, file_bytes: u64) -> u64 {
    if allocated < file_bytes { 0 } else { file_bytes }
}

/// The reserve of an open store.
pub(super) struct DiskReserve {
    file: File,
    disk: Disk,
    map_bytes: u64,
    /// The size of the reserve, in bytes.
    bytes: u64,
    /// The file has disk space up to this offset, as far as this process knows. Another process may have allocated more disk space.
    until: AtomicU64,
}

impl DiskReserve {
    /// Makes the reserve if the store has none. If this is not possible, the store is opened without a reserve.
    ///
    /// The disk space of the file (`st_blocks`) does not show whether the file has a reserve: XFS can allocate space behind the end of a file on its
    /// own, and free this space later. `st_blocks` includes this space. So the reserve is always allocated. If the file has the space already, the
    /// allocation takes little time, and XFS keeps the space afterwards. If the allocation fails, for example because the disk is full, the space in
    /// `st_blocks` counts as the reserve.
    pub(super) fn open(env: &Env<WithTls>) -> heed::Result<Self> {
        let file = env.try_clone_inner_file()?;
        let all = space_of(&file).map_err(std::io::Error::from)?.all;
        let file_bytes = file.metadata()?.len();
        let (map_bytes, bytes) = (env.info().map_size as u64, size_on(all));
        let reserve = DiskReserve { file, disk: DISK, map_bytes, bytes, until: AtomicU64::new(0) };
        let from = first_to_allocate((reserve.disk.allocated)(&reserve.file), file_bytes);
        // An error is not reported here: the next change that gives rights tries again, and its error is reported.
        let _ = reserve.extend(from, reserve.renewed(file_bytes));
        Ok(reserve)
    }

    /// Makes the reserve in a new file that will replace the file of the store. An error is ignored, as in [`DiskReserve::open`].
    pub(super) fn also_in(&self, new: &File) {
        if let Ok(meta) = new.metadata() {
            let _ = self.disk.extend(new, meta.len(), self.renewed(meta.len()));
        }
    }

    /// The end of a new reserve, as an offset, for a file of the length `file_bytes`. The file never becomes longer than the map, so the reserve ends
    /// at the end of the map at the latest.
    fn renewed(&self, file_bytes: u64) -> u64 {
        file_bytes.saturating_add(self.bytes + self.bytes / PARTS_AHEAD).min(self.map_bytes)
    }

    /// Whether a file of the length `file_bytes` has as much disk space behind its end as the bound demands. This check needs no system call.
    fn is_left(&self, file_bytes: u64, bound: Bound) -> bool {
        let least = file_bytes.saturating_add(self.bytes * bound.halves / 2);
        least.min(self.map_bytes) <= self.until.load(Ordering::Relaxed)
    }

    fn extend(&self, from: u64, until: u64) -> Result<(), Errno> {
        let (until, done) = match self.disk.extend(&self.file, from, until) {
            Ok(until) => (until, Ok(())),
            // Another process may have allocated more space than this process, and the file system may have allocated a part of the space before the
            // error.
            Err(why) => ((self.disk.allocated)(&self.file), Err(why)),
        };
        self.until.fetch_max(until, Ordering::Relaxed);
        done
    }
}

#[cfg(test)]
impl DiskReserve {
    /// Pretends that the disk is full, and that the store has no reserve.
    pub(super) fn pretend_full(&mut self) {
        (self.bytes, self.until) = (RESERVE_BYTES, AtomicU64::new(0));
        self.disk = Disk { allocate: |_, _, _| Err(Errno::NOSPC), allocated: |_| 0, free: |_| Ok(0) };
    }
}

/// The disk space that the changes of one transaction may use.
pub(super) struct DiskSpace<'r> {
    reserve: &'r DiskReserve,
    page_bytes: u64,
    /// The length of the file before the transaction.
    file_bytes: u64,
    /// The strictest bound of those changes of the transaction that can use the reserve.
    bound: Option<Bound>,
}

impl<'r> DiskSpace<'r> {
    pub(super) fn new(reserve: &'r DiskReserve, file_bytes: u64, page_bytes: u64) -> Self {
        DiskSpace { reserve, page_bytes, file_bytes, bound: None }
    }

    /// Adds a change. After this change, the file has at most the length `file_bytes`. The change may have to leave a part of the reserve unused
    /// (`bounds.rs`). Returns an error if this part was already missing before the transaction, and cannot be allocated.
    pub(super) fn take(
        &mut self,
        file_bytes: u64,
        before: &dyn Snapshot,
        writes: &[Write],
        requester: Requester,
    ) -> Result<(), CommitError> {
        if self.reserve.is_left(file_bytes, GIVING) {
            return Ok(());
        }
        let Some(bound) = bound_of(effect_of(before, writes)?, requester) else { return Ok(()) };
        self.keep_behind(self.file_bytes, bound)?;
        self.bound = self.bound.into_iter().chain([bound]).max_by_key(|bound| bound.halves);
        Ok(())
    }

    /// Returns an error if the part of the reserve that the transaction must leave unused would be missing after the transaction, and cannot be
    /// allocated. After the transaction, the file has at most the length `file_bytes`.
    pub(super) fn check(
        &self,
        file_bytes: u64,
        used_bytes: impl FnOnce() -> heed::Result<u64>,
    ) -> Result<(), CommitError> {
        let Some(bound) = self.bound else { return Ok(()) };
        self.keep_after(file_bytes, used_bytes().map_err(unavailable)?, bound)
    }

    /// The transaction must leave unused the part of the reserve that `bound` names. Returns an error if this part would be missing after the
    /// transaction, and cannot be allocated. After the transaction, the file has at most the length `file_bytes`, and `used_bytes` of it are in use.
    pub(super) fn keep_after(
        &self,
        file_bytes: u64,
        used_bytes: u64,
        bound: Bound,
    ) -> Result<(), CommitError> {
        self.keep_behind(file_bytes.min(self.most_bytes(used_bytes)), bound)
    }

    /// An upper bound of the length of the file after the transaction. At most, the transaction writes a new page for each page in use, and a new
    /// list of free pages.
    fn most_bytes(&self, used_bytes: u64) -> u64 {
        let of_lmdb = self.page_bytes * PAGES_OF_LMDB + self.file_bytes / 128;
        self.file_bytes.saturating_add(used_bytes).saturating_add(of_lmdb)
    }

    fn keep_behind(&self, file_bytes: u64, bound: Bound) -> Result<(), CommitError> {
        if self.reserve.is_left(file_bytes, bound) {
            return Ok(());
        }
        match self.reserve.extend(self.file_bytes, self.reserve.renewed(file_bytes)) {
            Err(why) if !self.reserve.is_left(file_bytes, bound) => {
                Err(no_disk_space(why.into(), bound.rest).into())
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
