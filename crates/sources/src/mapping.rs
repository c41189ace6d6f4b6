//! Maps files that contain 64-bit numbers into memory. A change by one process is visible at once to all processes that map the file. No other module
//! of this crate maps files itself.
//!
//! If the disk is full, a write into a mapped page without disk space ends the process (`SIGBUS`). So disk space is allocated for the whole file
//! before it is mapped. If this fails, the file is not mapped.

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::{Errno, retry_on_intr};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// The words of a file. The file is mapped until this value is dropped.
pub(crate) struct Mapping {
    words: NonNull<[AtomicU64]>,
}

// SAFETY: the words are atomics, and the mapping exists as long as this value.
#[expect(unsafe_code, reason = "a type with a pointer to mapped memory is not `Send` by default")]
unsafe impl Send for Mapping {}
// SAFETY: all threads access the words only as atomics, and the mapping exists as long as this value.
#[expect(unsafe_code, reason = "a type with a pointer to mapped memory is not `Sync` by default")]
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first words of a file. A shorter file is extended, and disk space is allocated for every page.
    ///
    /// # Errors
    /// When the disk is full, or the file cannot be mapped.
    #[expect(unsafe_code, reason = "there is no safe way to map a file")]
    pub(crate) fn new(file: &File, words: usize) -> io::Result<Self> {
        use rustix::mm::{MapFlags, ProtFlags, mmap};
        allocate(file, words as u64 * 8)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses a free address for the new mapping, and the file was made long enough. If the file is shortened later, the
        // process gets SIGBUS and ends.
        let address = unsafe { mmap(std::ptr::null_mut(), words * 8, access, MapFlags::SHARED, file, 0) }?;
        let address = NonNull::new(address.cast::<AtomicU64>());
        let address = address.ok_or_else(|| io::Error::other("the kernel mapped the file at address 0"))?;
        Ok(Mapping { words: NonNull::slice_from_raw_parts(address, words) })
    }

    /// Maps another file at the same address. At any moment a reader sees the words of the old file or the words of the new file.
    ///
    /// # Errors
    /// The errors of [`Mapping::new`]. After an error, the old file stays mapped.
    #[expect(unsafe_code, reason = "there is no safe way to map a file")]
    pub(crate) fn show(&self, file: &File) -> io::Result<()> {
        use rustix::mm::{MapFlags, ProtFlags, mmap};
        let bytes = self.words.len() * 8;
        allocate(file, bytes as u64)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let address = self.words.cast::<std::ffi::c_void>().as_ptr();
        // SAFETY: this maps exactly the pages that `new` mapped, which belong to this value. The kernel replaces them in one step, and all accesses
        // before and after are atomic.
        unsafe { mmap(address, bytes, access, MapFlags::SHARED | MapFlags::FIXED, file, 0) }?;
        Ok(())
    }

    #[expect(unsafe_code, reason = "reads mapped memory through a pointer")]
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is page-aligned, has the length of the slice, and is unmapped only when this value is dropped.
        unsafe { self.words.as_ref() }
    }
}

impl Drop for Mapping {
    #[expect(unsafe_code, reason = "there is no safe way to unmap a file")]
    fn drop(&mut self) {
        let address = self.words.cast::<std::ffi::c_void>().as_ptr();
        // SAFETY: `new` has mapped the memory with the same length, and no reference to the memory exists any more.
        let _ = unsafe { rustix::mm::munmap(address, self.words.len() * 8) };
    }
}

const PAGE_BYTES: u64 = 4096;

/// Allocates disk space for the first `bytes` of a file. A shorter file is extended. The content of the file is not changed.
fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    match retry_on_intr(|| fallocate(file, FallocateFlags::empty(), 0, bytes)) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => fill_holes(file, bytes),
        done => done.map_err(|why| no_room(why.into(), bytes)),
    }
}

/// Allocates disk space as [`allocate`] does, but for file systems without `fallocate`. The last byte of each page is read and written again, so that
/// the file system gives the page disk space. This write cannot undo a change that another process makes at the same time. On a little-endian
/// machine, the last byte of a page is the highest byte of a number, and no number becomes so large that its highest byte changes.
fn fill_holes(file: &File, bytes: u64) -> io::Result<()> {
    if file.metadata()?.len() < bytes {
        file.set_len(bytes)?;
    }
    for at in (PAGE_BYTES - 1..bytes).step_by(PAGE_BYTES as usize).chain(bytes.checked_sub(1)) {
        let mut byte = [0];
        file.read_exact_at(&mut byte, at)?;
        file.write_all_at(&byte, at).map_err(|why| no_room(why, bytes))?;
    }
    Ok(())
}

fn no_room(why: io::Error, bytes: u64) -> io::Error {
    match why.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            let text = format!("{why}: the file needs {bytes} bytes; make room on its file system");
            io::Error::new(why.kind(), text)
        }
        _ => why,
    }
}

/// Allocates disk space for the first `bytes` of a file that another library will map. If the file does not exist, an empty one is created. The
/// length of the file is not changed. If the file system does not support the allocation, nothing is allocated.
///
/// A file that already has the disk space is not opened, because closing it would release the locks of this process on the file (`fcntl(2)`).
///
/// # Errors
/// When the disk is full, or the file cannot be opened.
pub(crate) fn reserve(path: &Path, bytes: u64) -> io::Result<()> {
    if std::fs::metadata(path).is_ok_and(|meta| bytes <= meta.blocks() * 512) {
        return Ok(());
    }
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    match retry_on_intr(|| fallocate(&file, FallocateFlags::KEEP_SIZE, 0, bytes)) {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        Err(why) => Err(no_room(why.into(), bytes)),
    }
}

/// An upper bound of the length of LMDB's lock file for this number of readers, in bytes. The file consists of a header (`MDB_txninfo`) and a cache
/// line for each reader (`MDB_reader`).
pub(crate) fn lock_file_bytes(readers: u32) -> u64 {
    u64::from(readers) * 64 + 2 * PAGE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use std::sync::atomic::Ordering;

    #[test]
    fn holes_are_filled_and_nothing_that_is_there_changes() {
        let scratch = Scratch::new();
        for words in [1, 511, 512, 513, 5_000] {
            let path = scratch.path().join(words.to_string());
            let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
            file.write_all_at(&7_u64.to_ne_bytes(), 0).unwrap();
            fill_holes(&file, words as u64 * 8).unwrap();
            file.sync_all().unwrap();
            let meta = file.metadata().unwrap();
            assert_eq!(meta.len(), words as u64 * 8);
            assert!(meta.len() <= meta.blocks() * 512, "{words}: {} blocks", meta.blocks());
            let mapping = Mapping::new(&file, words).unwrap();
            let found: Vec<u64> = mapping.words().iter().map(|word| word.load(Ordering::Relaxed)).collect();
            assert!(found.len() == words && found[0] == 7 && found[1..].iter().all(|word| *word == 0));
        }
    }
}
