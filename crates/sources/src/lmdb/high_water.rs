//! How far the store has come, in a small file beside it: a store that shows less has gone back, and what was revoked
//! since would be good again.
//!
//! ```text
//! magic 8 | store id 16 | change u64 | revision u64 | shipped u64 | next store id 16      (in the machine's order)
//! ```
//! It is raised after each commit and before that is acknowledged. It is not fsynced: after a power cut it may lag behind
//! the store, which is no harm, and never runs ahead of it, because the store is synced first.

use enfilade_facts::StoreId;
use enfilade_facts::tables::LogKey;
use std::ffi::c_void;
use std::fs::OpenOptions;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

const MAGIC: [u8; 8] = *b"enfhigh1";
const MAP_BYTES: usize = 4096;
const WORDS: usize = 8;

/// The mapped file; every process of the machine sees the same numbers.
pub(super) struct HighWater {
    words: NonNull<[AtomicU64; WORDS]>,
}

/// The words of the file.
const STORE: [usize; 2] = [1, 2];
const CHANGE: usize = 3;
const REVISION: usize = 4;
const SHIPPED: usize = 5;
const NEXT: [usize; 2] = [6, 7];

// SAFETY: the words are atomics in a mapping that lives as long as the value does.
#[expect(unsafe_code, reason = "a mapping is reached through a pointer")]
unsafe impl Send for HighWater {}
// SAFETY: as above.
#[expect(unsafe_code, reason = "a mapping is reached through a pointer")]
unsafe impl Sync for HighWater {}

impl HighWater {
    /// Opens the file; makes it where there is none.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut file = match OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
        {
            Ok(mut file) => {
                file.write_all(&MAGIC)?;
                file.set_len(MAP_BYTES as u64)?;
                file
            }
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {
                OpenOptions::new().read(true).write(true).open(path)?
            }
            Err(why) => return Err(why),
        };
        let mut magic = MAGIC;
        if file.metadata()?.len() < MAP_BYTES as u64 {
            // Whoever made it was interrupted, or is at it just now; a file that held something was never this short.
            file.set_len(MAP_BYTES as u64)?;
        } else {
            let mut start = [0; 8];
            io::Seek::rewind(&mut file)?;
            file.read_exact(&mut start)?;
            if start != [0; 8] {
                magic = start;
            }
        }
        if magic != MAGIC {
            let text = format!("`{}` does not begin as it should: it is damaged", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        map(&file).map(|words| HighWater { words })
    }

    #[expect(unsafe_code, reason = "a mapping is reached through a pointer")]
    fn word(&self, index: usize) -> &AtomicU64 {
        // SAFETY: the mapping is page-aligned, longer than the words, and unmapped only when this is dropped.
        let words = unsafe { self.words.as_ref() };
        words.get(index).unwrap_or(&words[0])
    }

    /// The store the numbers are of; `None` in a new file.
    pub(super) fn store(&self) -> Option<StoreId> {
        self.id(STORE)
    }

    fn id(&self, words: [usize; 2]) -> Option<StoreId> {
        let [high, low] = words.map(|index| u128::from(self.word(index).load(Ordering::Acquire)));
        let id = high << 64 | low;
        (id != 0).then_some(StoreId(id))
    }

    /// Says which store will be here when what is going on now is done: whoever is interrupted after that is done, and
    /// before it said so, leaves a store that is expected.
    pub(super) fn announce(&self, store: StoreId) {
        self.word(NEXT[0]).store((store.0 >> 64) as u64, Ordering::Release);
        self.word(NEXT[1]).store(store.0 as u64, Ordering::Release);
    }

    /// Whether this is the store that was announced.
    pub(super) fn is_announced(&self, store: StoreId) -> bool {
        self.id(NEXT) == Some(store)
    }

    /// Says which store the numbers are of, and sets them: for a store that was just made or restored.
    pub(super) fn begin(&self, store: StoreId, change: LogKey, revision: u64) {
        self.word(CHANGE).store(change.0, Ordering::Release);
        self.word(REVISION).store(revision, Ordering::Release);
        self.word(STORE[0]).store((store.0 >> 64) as u64, Ordering::Release);
        self.word(STORE[1]).store(store.0 as u64, Ordering::Release);
    }

    /// The newest change that was acknowledged.
    pub(super) fn change(&self) -> LogKey {
        LogKey(self.word(CHANGE).load(Ordering::Acquire))
    }

    /// The newest revision that was acknowledged.
    pub(super) fn revision(&self) -> u64 {
        self.word(REVISION).load(Ordering::Acquire)
    }

    /// Raises both, before the commit is acknowledged.
    pub(super) fn raise(&self, change: LogKey, revision: u64) {
        self.word(CHANGE).fetch_max(change.0, Ordering::AcqRel);
        self.word(REVISION).fetch_max(revision, Ordering::AcqRel);
    }

    /// The newest change that is in the audit log; what is not there yet is not trimmed.
    pub(super) fn shipped(&self) -> LogKey {
        LogKey(self.word(SHIPPED).load(Ordering::Acquire))
    }

    /// Says that everything up to there is in the audit log.
    pub(super) fn set_shipped(&self, change: LogKey) {
        self.word(SHIPPED).fetch_max(change.0, Ordering::AcqRel);
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

impl Drop for HighWater {
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
    fn the_numbers_are_seen_by_everybody_and_only_grow() {
        let scratch = Scratch::new();
        let path = scratch.path().join("high-water");
        let (one, other) = (HighWater::open(&path).unwrap(), HighWater::open(&path).unwrap());
        assert_eq!((one.store(), one.change(), one.revision()), (None, LogKey(0), 0));
        one.begin(StoreId(7 << 80 | 5), LogKey(3), 9);
        assert_eq!(
            (other.store(), other.change(), other.revision()),
            (Some(StoreId(7 << 80 | 5)), LogKey(3), 9)
        );
        other.raise(LogKey(5), 8);
        other.set_shipped(LogKey(4));
        assert_eq!((one.change(), one.revision(), one.shipped()), (LogKey(5), 9, LogKey(4)));
    }

    #[test]
    fn what_is_no_such_file_is_refused() {
        let scratch = Scratch::new();
        let path = scratch.path().join("high-water");
        std::fs::write(&path, [1; MAP_BYTES]).unwrap();
        let why = HighWater::open(&path).err().unwrap().to_string();
        assert!(why.contains("high-water` does not begin as it should"), "{why}");
    }
}
