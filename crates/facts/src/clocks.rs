//! The time, as callers pass it in: this crate reads no clock.

/// One reading of both clocks and of the mirror's health. It is taken once when a request arrives, and passed to every function that judges the
/// request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Clocks {
    /// Wall clock, seconds since the epoch: for expiry dates that people chose.
    pub unix_seconds: i64,
    /// Monotonic clock, milliseconds since some fixed moment: for ages, which must not change when the wall clock steps.
    pub tick_millis: u64,
    /// Whether the facts that mirror edited files are current at this moment.
    pub mirror: MirrorHealth,
}

/// Whether a process has read the files that people edit within the stale limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MirrorHealth {
    /// No process has read the files in that time. Their content is not known, and records that mirror them are refused.
    Stale,
    /// A process has read the files in that time.
    Current,
}

impl MirrorHealth {
    /// Whether records that mirror files can be believed.
    pub fn is_current(self) -> bool {
        self == MirrorHealth::Current
    }
}
