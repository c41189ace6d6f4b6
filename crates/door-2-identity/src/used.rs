//! The last use of a verdict.

use std::sync::atomic::{AtomicU64, Ordering};

/// The minute of the last use, by the monotonic clock. It is stored with the verdict, and changes while the verdict stays the same.
#[derive(Debug, Default)]
pub(crate) struct Used(AtomicU64);

impl Clone for Used {
    fn clone(&self) -> Self {
        Used(AtomicU64::new(self.0.load(Ordering::Relaxed)))
    }
}

impl Used {
    pub(crate) fn is_first_in(&self, minute: u64) -> bool {
        // 0 means that there was no use, so minutes are counted from 1.
        let minute = minute + 1;
        self.0.load(Ordering::Relaxed) != minute && self.0.swap(minute, Ordering::Relaxed) != minute
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_use_in_each_minute_is_told_once() {
        let used = Used::default();
        for minute in [0, 1, 7] {
            assert_eq!([used.is_first_in(minute), used.is_first_in(minute)], [true, false], "{minute}");
        }
        let copy = used.clone();
        assert!(!copy.is_first_in(7), "a copy knows the last use");
        assert!(copy.is_first_in(8) && used.is_first_in(8), "each copy has its own last use");
    }
}
