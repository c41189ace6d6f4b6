//! Numbers in a mapped file: every process that maps it sees them at once. The one place that maps anything by itself.

use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// A file's words, for as long as this lives.
pub(crate) struct Mapping {
    words: NonNull<[AtomicU64]>,
}

// SAFETY: the words are atomics in a mapping that lives as long as the value does.
#[expect(unsafe_code, reason = "a mapping is reached through a pointer")]
unsafe impl Send for Mapping {}
// SAFETY: as above.
#[expect(unsafe_code, reason = "a mapping is reached through a pointer")]
unsafe impl Sync for Mapping {}

impl Mapping {
    /// The first words of a file that is at least so long.
    #[expect(unsafe_code, reason = "there is no safe way to map a file")]
    pub(crate) fn new(file: &File, words: usize) -> io::Result<Self> {
        use rustix::mm::{MapFlags, ProtFlags, mmap};
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice; the file was made long enough. Should somebody
        // shorten it, the process gets SIGBUS and ends.
        let address = unsafe { mmap(std::ptr::null_mut(), words * 8, access, MapFlags::SHARED, file, 0) }?;
        let address = NonNull::new(address.cast::<AtomicU64>());
        let address = address.ok_or_else(|| io::Error::other("the kernel mapped the file at address 0"))?;
        Ok(Mapping { words: NonNull::slice_from_raw_parts(address, words) })
    }

    #[expect(unsafe_code, reason = "a mapping is reached through a pointer")]
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is page-aligned, as long as the slice says, and unmapped only when this is dropped.
        unsafe { self.words.as_ref() }
    }
}

impl Drop for Mapping {
    #[expect(unsafe_code, reason = "the counterpart of mapping")]
    fn drop(&mut self) {
        let address = self.words.cast::<std::ffi::c_void>().as_ptr();
        // SAFETY: mapped by `new` with this length, and nothing borrows from it any more.
        let _ = unsafe { rustix::mm::munmap(address, self.words.len() * 8) };
    }
}
