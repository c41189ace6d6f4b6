//! Counts recent failed logins of all servers of the machine, for `enfilade doctor`. The counters are not stored as facts, because they change too
//! often.
//!
//! ```text
//! magic 8 | hour u64 | failed u64 | barred u64 | failed the hour before u64 | barred the hour before u64 (in the machine's byte order)
//! ```

use crate::shared_words::SharedWords;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

const MAGIC: [u8; 8] = *b"enfatts1";
const HOUR: usize = 1;
const NOW: [usize; 2] = [2, 3];
const BEFORE: [usize; 2] = [4, 5];
const HOUR_SECONDS: i64 = 3_600;

/// The file of counters, which all servers of the machine share.
pub struct Attempts {
    words: SharedWords,
}

/// The counts of this hour and of the previous hour together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attempted {
    /// Attempts that failed.
    pub failed: u64,
    /// Attempts that were refused without a check, because their address was blocked after too many failed attempts.
    pub barred: u64,
}

impl Attempts {
    /// Opens the file, or creates it.
    ///
    /// # Errors
    /// When the file cannot be opened or created.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Attempts { words: SharedWords::open(path, MAGIC)? })
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        self.words.word(index)
    }

    /// Adds `more` to the counts of this hour.
    pub fn add(&self, more: Attempted, unix_seconds: i64) {
        self.turn_to(unix_seconds);
        self.word(NOW[0]).fetch_add(more.failed, Ordering::Relaxed);
        self.word(NOW[1]).fetch_add(more.barred, Ordering::Relaxed);
    }

    /// The counts of this hour and of the previous hour together.
    pub fn counted(&self, unix_seconds: i64) -> Attempted {
        self.turn_to(unix_seconds);
        let sum = |which: usize| {
            [NOW, BEFORE]
                .iter()
                .filter_map(|words| words.get(which))
                .map(|word| self.word(*word).load(Ordering::Relaxed))
                // A damaged file may contain any numbers, so the sum must not overflow.
                .fold(0, u64::saturating_add)
        };
        Attempted { failed: sum(0), barred: sum(1) }
    }

    /// Starts a new hour if the hour has changed. If several callers run at the same time, exactly one caller starts the new hour.
    fn turn_to(&self, unix_seconds: i64) {
        let hour = u64::try_from(unix_seconds / HOUR_SECONDS).unwrap_or(0);
        let before = self.word(HOUR).load(Ordering::Acquire);
        let turned = self.word(HOUR).compare_exchange(before, hour, Ordering::AcqRel, Ordering::Acquire);
        if before == hour || turned.is_err() {
            return;
        }
        for (now, last) in NOW.into_iter().zip(BEFORE) {
            let counted = self.word(now).swap(0, Ordering::AcqRel);
            self.word(last)
                .store(if before.checked_add(1) == Some(hour) { counted } else { 0 }, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn two_hours_are_kept_and_every_process_counts() {
        let scratch = Scratch::new();
        let path = scratch.path().join("attempts");
        let (one, other) = (Attempts::open(&path).unwrap(), Attempts::open(&path).unwrap());
        let of = |failed, barred| Attempted { failed, barred };
        one.add(of(3, 0), 7_200);
        other.add(of(2, 1), 7_300);
        assert_eq!(one.counted(7_400), of(5, 1));
        other.add(of(1, 0), 10_900);
        assert_eq!(one.counted(11_000), of(6, 1), "the hour after");
        assert_eq!(one.counted(14_500), of(1, 0), "and the one after that");
        assert_eq!(one.counted(25_300), of(0, 0), "much later");
    }
}
