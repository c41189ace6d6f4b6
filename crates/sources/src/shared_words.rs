//! A small file of numbers that every process of the machine sees at once: mapped, never read or written.

use std::ffi::c_void;
use std::fs::OpenOptions;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

const MAP_BYTES: usize = 4096;
const WORDS: usize = 8;

/// The mapped file. Its first word says what it is.
pub(crate) struct SharedWords {
    words: NonNull<[AtomicU64; WORDS]>,
}

// SAFETY: the words are atomics in a mapping that lives as long as the value does.
#[expect(unsafe_code, reason = "a mapping is reached through a pointer")]
unsafe impl Send for SharedWords {}
// SAFETY: as above.
#[expect(unsafe_code, reason = "a mapping is reached through a pointer")]
unsafe impl Sync for SharedWords {}

impl SharedWords {
    /// Opens the file; makes it where there is none.
    pub(crate) fn open(path: &Path, magic: [u8; 8]) -> io::Result<Self> {
        let mut file = match OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
        {
            Ok(mut file) => {
                file.write_all(&magic)?;
                file.set_len(MAP_BYTES as u64)?;
                file
            }
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {
                OpenOptions::new().read(true).write(true).open(path)?
            }
            Err(why) => return Err(why),
        };
        let mut found = magic;
        if file.metadata()?.len() < MAP_BYTES as u64 {
            // Whoever made it was interrupted, or is at it just now; a file that held something was never this short.
            file.set_len(MAP_BYTES as u64)?;
        } else {
            let mut start = [0; 8];
            io::Seek::rewind(&mut file)?;
            file.read_exact(&mut start)?;
            if start != [0; 8] {
                found = start;
            }
        }
        if found != magic {
            let text = format!("`{}` does not begin as it should: it is damaged", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        map(&file).map(|words| SharedWords { words })
    }

    /// One of the words, from 1.
    #[expect(unsafe_code, reason = "a mapping is reached through a pointer")]
    pub(crate) fn word(&self, index: usize) -> &AtomicU64 {
        // SAFETY: the mapping is page-aligned, longer than the words, and unmapped only when this is dropped.
        let words = unsafe { self.words.as_ref() };
        words.get(index).unwrap_or(&words[0])
    }
}

#[expect(unsafe_code, reason = "there is no safe way to map a file")]
fn map(file: &std::fs::File) -> io::Result<NonNull<[AtomicU64; WORDS]>> {
    use rustix::mm::{MapFlags, ProtFlags, mmap};
    // SAFETY: a new mapping at an address of the kernel's choice; the file was made long enough. Should somebody
    // shorten it, the process gets SIGBUS and ends.
    let address = unsafe {
        mmap(std::ptr::null_mut(), MAP_BYTES, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, file, 0)
    }?;
    NonNull::new(address.cast()).ok_or_else(|| io::Error::other("the kernel mapped the file at address 0"))
}

impl Drop for SharedWords {
    #[expect(unsafe_code, reason = "the counterpart of mapping")]
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length, and nothing borrows from it any more.
        let _ = unsafe { rustix::mm::munmap(self.words.as_ptr().cast::<c_void>(), MAP_BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn what_is_no_such_file_is_refused() {
        let scratch = Scratch::new();
        let path = scratch.path().join("words");
        std::fs::write(&path, [1; MAP_BYTES]).unwrap();
        let why = SharedWords::open(&path, *b"somewhat").err().unwrap().to_string();
        assert!(why.contains("words` does not begin as it should"), "{why}");
    }
}
