//! The high-water mark: the newest acknowledged revision, in a small file in the directory of the store. If the store has an older revision, the
//! store was rolled back, and later revocations are missing in the store.
//!
//! The file contains these fields, in the byte order of the machine:
//!
//! ```text
//! magic 8 | store id 16 | newest acknowledged revision u64 | unused 8 | newest revision in the audit log u64 | next store id 16
//! ```
//! The newest acknowledged revision is raised after each commit and before the commit is acknowledged. The file is not fsynced. After a power cut,
//! the mark may be older than the store, which does no harm. The mark is never newer than the store, because the store is synced first. Older
//! versions of this program wrote LMDB's commit number into the 8 unused bytes, so these bytes can have any value.

use crate::shared_words::SharedWords;
use enfilade_facts::{At, Revision, StoreId};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

const MAGIC: [u8; 8] = *b"enfhigh1";

/// The file of the high-water mark. All processes of the machine share its numbers.
pub(super) struct HighWater {
    words: SharedWords,
    /// The newest revision that this process has seen. Even if the file is damaged or replaced, this number never decreases; only
    /// [`HighWater::begin`] can set a lower number.
    seen: AtomicU64,
    path: PathBuf,
}

/// The positions of the numbers in the file, in words of 8 bytes.
const STORE: [usize; 2] = [1, 2];
const REVISION: usize = 3;
const SHIPPED: usize = 5;
const NEXT: [usize; 2] = [6, 7];

impl HighWater {
    /// Opens the file, or creates it.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let words = SharedWords::open(path, MAGIC)?;
        Ok(HighWater { words, seen: AtomicU64::new(0), path: path.to_owned() })
    }

    /// Reads the id and the newest acknowledged revision of a store that is not open. Does not create the file.
    ///
    /// # Errors
    /// When the file is missing, malformed, or contains no store id.
    pub(super) fn read(path: &Path) -> io::Result<At> {
        let bytes = std::fs::read(path)?;
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, "its content is damaged");
        let words: Vec<u64> = bytes.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        let at = |index: usize| words.get(index).copied().filter(|_| bytes.starts_with(&MAGIC));
        let [high, low] = STORE.map(at);
        let store = high.zip(low).map(|(high, low)| u128::from(high) << 64 | u128::from(low));
        let store = store.filter(|id| *id != 0).ok_or_else(damaged)?;
        Ok(At { store: StoreId(store), revision: Revision(at(REVISION).ok_or_else(damaged)?) })
    }

    /// Whether the file was made, but contains no store id and no revision yet.
    pub(super) fn is_new(path: &Path) -> bool {
        let is_zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
        std::fs::read(path).is_ok_and(|bytes| is_zero(bytes.strip_prefix(&MAGIC).unwrap_or(&bytes)))
    }

    /// Checks whether the file was removed or replaced. If so, the new file with this name is opened or made, and its numbers are raised to the
    /// numbers of the old file. From now on the new file is used, because other processes write acknowledged revisions into it.
    ///
    /// # Errors
    /// When the new file cannot be opened or made, or belongs to another store. In this case the old file is still used.
    pub(super) fn follow(&self) -> io::Result<()> {
        let Some(other) = self.words.replaced(&self.path, MAGIC)? else { return Ok(()) };
        let next = HighWater { words: other, seen: AtomicU64::new(0), path: self.path.clone() };
        match (next.store(), self.store()) {
            (Some(there), Some(here)) if there != here => {
                return Err(io::Error::other("another store's high-water mark has replaced the file"));
            }
            (None, Some(here)) => next.begin(here, self.revision()),
            _ => {}
        }
        next.raise(self.revision());
        next.set_shipped(self.shipped());
        self.words.show(&self.path, &next.words)
    }

    /// Keeps in the field `seen` the newest revision that a view of this process had. From now on, [`HighWater::newest`] returns no older revision,
    /// even if the file is damaged or replaced.
    pub(super) fn saw(&self, revision: Revision) {
        if self.seen.load(Ordering::Relaxed) < revision.0 {
            self.seen.fetch_max(revision.0, Ordering::Relaxed);
        }
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        self.words.word(index)
    }

    /// The id of the store in the file; `None` in a new file.
    pub(super) fn store(&self) -> Option<StoreId> {
        self.id(STORE)
    }

    fn id(&self, words: [usize; 2]) -> Option<StoreId> {
        let [high, low] = words.map(|index| u128::from(self.word(index).load(Ordering::Acquire)));
        let id = high << 64 | low;
        (id != 0).then_some(StoreId(id))
    }

    /// Writes into the file the id that the store will have after the current restore. A store with the announced id is accepted, too. The
    /// announcement is needed if the process of the restore ends after the commit and before the call of [`HighWater::begin`].
    pub(super) fn announce(&self, store: StoreId) {
        self.word(NEXT[0]).store((store.0 >> 64) as u64, Ordering::Release);
        self.word(NEXT[1]).store(store.0 as u64, Ordering::Release);
    }

    /// Whether this id was announced with [`HighWater::announce`].
    pub(super) fn is_announced(&self, store: StoreId) -> bool {
        self.id(NEXT) == Some(store)
    }

    /// Sets the id and the revision of the store, after the store was made or restored.
    pub(super) fn begin(&self, store: StoreId, revision: Revision) {
        self.seen.store(revision.0, Ordering::Release);
        self.word(REVISION).store(revision.0, Ordering::Release);
        self.word(STORE[0]).store((store.0 >> 64) as u64, Ordering::Release);
        self.word(STORE[1]).store(store.0 as u64, Ordering::Release);
    }

    /// The newest revision that was acknowledged.
    pub(super) fn revision(&self) -> Revision {
        Revision(self.word(REVISION).load(Ordering::Acquire))
    }

    /// The newest acknowledged revision. It is never less than a revision that this process has seen before.
    pub(super) fn newest(&self) -> Revision {
        let (Revision(revision), seen) = (self.revision(), self.seen.load(Ordering::Relaxed));
        // Usually `seen` and `revision` are equal. Then `seen` is not written, because a write would slow down other threads that read `seen`.
        let newest = if seen < revision {
            self.seen.fetch_max(revision, Ordering::Relaxed).max(revision)
        } else {
            seen
        };
        Revision(newest)
    }

    /// Raises the revision. The caller does this before it acknowledges a commit.
    pub(super) fn raise(&self, revision: Revision) {
        self.saw(revision);
        self.word(REVISION).fetch_max(revision.0, Ordering::AcqRel);
    }

    /// The revision of the newest change that was written to the audit log. Later changes are not removed from the change log.
    pub(super) fn shipped(&self) -> Revision {
        Revision(self.word(SHIPPED).load(Ordering::Acquire))
    }

    /// Records that all changes up to this revision were written to the audit log.
    pub(super) fn set_shipped(&self, revision: Revision) {
        self.word(SHIPPED).fetch_max(revision.0, Ordering::AcqRel);
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
        assert_eq!((one.store(), one.revision()), (None, Revision(0)));
        one.begin(StoreId(7 << 80 | 5), Revision(3));
        assert_eq!((other.store(), other.revision()), (Some(StoreId(7 << 80 | 5)), Revision(3)));
        other.raise(Revision(5));
        other.raise(Revision(4));
        other.set_shipped(Revision(4));
        assert_eq!((one.revision(), one.shipped()), (Revision(5), Revision(4)));
    }

    #[test]
    fn another_process_knows_the_announced_store() {
        let scratch = Scratch::new();
        let path = scratch.path().join("high-water");
        let (one, other) = (HighWater::open(&path).unwrap(), HighWater::open(&path).unwrap());
        let (old, new) = (StoreId(7 << 80 | 5), StoreId(9 << 80 | 5));
        one.begin(old, Revision(3));
        assert!(!other.is_announced(old) && !other.is_announced(new));
        one.announce(new);
        assert!(other.is_announced(new) && !other.is_announced(old));
        assert_eq!((other.store(), other.revision()), (Some(old), Revision(3)), "nothing else changed");
    }

    #[test]
    fn what_says_nothing_is_not_taken_for_a_number() {
        let scratch = Scratch::new();
        let path = scratch.path().join("high-water");
        let read = || HighWater::read(&path).map_err(|why| why.kind());
        assert_eq!(read(), Err(io::ErrorKind::NotFound));
        assert!(!path.exists());
        let here = HighWater::open(&path).unwrap();
        assert_eq!(read(), Err(io::ErrorKind::InvalidData), "the file contains no store id yet");
        here.begin(StoreId(7), Revision(3));
        assert_eq!(read(), Ok(At { store: StoreId(7), revision: Revision(3) }));
        here.begin(StoreId(7 << 80), Revision(0));
        assert_eq!(read(), Ok(At { store: StoreId(7 << 80), revision: Revision(0) }));
        let whole = std::fs::read(&path).unwrap();
        let mut other = whole.clone();
        other[0] ^= 1;
        for damaged in [&other[..], &whole[..24], &vec![0; whole.len()], b""] {
            std::fs::write(&path, damaged).unwrap();
            assert_eq!(read(), Err(io::ErrorKind::InvalidData), "{} bytes", damaged.len());
        }
    }

    #[test]
    fn a_file_that_is_removed_or_replaced_is_followed_and_nothing_goes_back() {
        let scratch = Scratch::new();
        let path = scratch.path().join("high-water");
        let (store, old) = (StoreId(7), scratch.path().join("old"));
        let here = HighWater::open(&path).unwrap();
        here.begin(store, Revision(3));
        std::fs::copy(&path, &old).unwrap();
        here.raise(Revision(5));
        here.set_shipped(Revision(4));
        for is_removed in [false, true] {
            here.follow().unwrap();
            match is_removed {
                true => std::fs::remove_file(&path).unwrap(),
                false => std::fs::rename(&old, &path).unwrap(),
            }
            here.follow().unwrap();
            let there = HighWater::open(&path).unwrap();
            let known = (there.store(), there.revision(), there.shipped());
            assert_eq!(known, (Some(store), here.newest(), Revision(4)), "{is_removed}");
            // A revision that another process acknowledges is visible here.
            there.raise(Revision(here.newest().0 + 1));
            assert_eq!(
                (here.newest(), here.revision()),
                (there.revision(), there.revision()),
                "{is_removed}"
            );
        }
        here.saw(Revision(20));
        assert_eq!((here.newest(), here.revision()), (Revision(20), Revision(7)));
        std::fs::remove_file(&path).unwrap();
        HighWater::open(&path).unwrap().begin(StoreId(8), Revision(9));
        assert!(here.follow().unwrap_err().to_string().contains("another store"));
        assert_eq!((here.store(), here.newest()), (Some(store), Revision(20)));
    }
}
