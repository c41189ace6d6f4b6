//! How far the store has come, in a small file beside it: a store that shows less has gone back, and what was revoked
//! since would be good again.
//!
//! ```text
//! magic 8 | store id 16 | revision u64 | nothing 8 | shipped u64 | next store id 16      (in the machine's order)
//! ```
//! It is raised after each commit and before that is acknowledged. It is not fsynced: after a power cut it may lag behind
//! the store, which is no harm, and never runs ahead of it, because the store is synced first. Where there is nothing, LMDB's
//! own number was once.

use crate::shared_words::SharedWords;
use enfilade_facts::{Revision, StoreId};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

const MAGIC: [u8; 8] = *b"enfhigh1";

/// The file; every process of the machine sees the same numbers.
pub(super) struct HighWater {
    words: SharedWords,
    /// The newest revision this process has seen: whatever becomes of the file, it is not led back.
    seen: AtomicU64,
}

/// The words of the file.
const STORE: [usize; 2] = [1, 2];
const REVISION: usize = 3;
const SHIPPED: usize = 5;
const NEXT: [usize; 2] = [6, 7];

impl HighWater {
    /// Opens the file; makes it where there is none.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Ok(HighWater { words: SharedWords::open(path, MAGIC)?, seen: AtomicU64::new(0) })
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        self.words.word(index)
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

    /// The same, and never less than it was when asked before.
    pub(super) fn newest(&self) -> Revision {
        let (Revision(revision), seen) = (self.revision(), self.seen.load(Ordering::Relaxed));
        // Mostly equal, and then nothing is written that other threads read.
        let newest = if seen < revision {
            self.seen.fetch_max(revision, Ordering::Relaxed).max(revision)
        } else {
            seen
        };
        Revision(newest)
    }

    /// Raises it, before the commit is acknowledged.
    pub(super) fn raise(&self, revision: Revision) {
        self.word(REVISION).fetch_max(revision.0, Ordering::AcqRel);
    }

    /// The newest change that is in the audit log; what is not there yet is not trimmed.
    pub(super) fn shipped(&self) -> Revision {
        Revision(self.word(SHIPPED).load(Ordering::Acquire))
    }

    /// Says that everything up to there is in the audit log.
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
}
