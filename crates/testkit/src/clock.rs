//! A clock that advances only when a test advances it.

use enfilade_facts::{Clocks, MirrorHealth};
use enfilade_passage::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// A clock that counts seconds. Its wall clock starts at 2026-01-01.
#[derive(Clone, Debug, Default)]
pub struct FixedClock {
    ticks: Arc<AtomicU64>,
    /// The number of seconds by which the wall clock was set forward; negative if it was set back. The monotonic clock is never set.
    wall: Arc<AtomicI64>,
}

const START_UNIX_SECONDS: i64 = 1_767_225_600;

impl FixedClock {
    /// Advances the monotonic clock and the wall clock.
    pub fn advance_seconds(&self, seconds: u64) {
        self.ticks.fetch_add(seconds, Ordering::SeqCst);
    }

    /// Sets the wall clock forward, or back if the number is negative.
    pub fn set_wall(&self, by_seconds: i64) {
        self.wall.fetch_add(by_seconds, Ordering::SeqCst);
    }

    /// The time now.
    pub fn now(&self) -> Clocks {
        let seconds = self.ticks.load(Ordering::SeqCst);
        Clocks {
            unix_seconds: START_UNIX_SECONDS + seconds as i64 + self.wall.load(Ordering::SeqCst),
            tick_millis: seconds * 1000,
            mirror: MirrorHealth::Current,
        }
    }

    /// The clock in the form that a server expects.
    pub fn as_clock(&self) -> Clock {
        let clock = self.clone();
        Arc::new(move || clock.now())
    }
}
