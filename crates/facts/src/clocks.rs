//! The present time. This crate reads no clock, so callers pass the time to its functions.

/// The wall clock, the monotonic clock, and whether the mirrored records are up to date, all read at one moment. They are read once for each
/// decision, and passed to every function that takes part in this decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Clocks {
    /// The wall clock, in seconds since the epoch. The wall clock is used for stored times, such as expiry dates and issue times.
    pub unix_seconds: i64,
    /// The monotonic clock, in milliseconds since the start of the machine. The time during which the machine sleeps is counted. The clock is used
    /// for durations, which must not change when the wall clock is set.
    pub tick_millis: u64,
    /// Whether the records that are copied from edited files are up to date at this moment.
    pub mirror: MirrorHealth,
}

/// Whether the files that people edit were checked recently enough. The stale limit is the longest allowed time since the last check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MirrorHealth {
    /// The last check of the files is longer ago than the stale limit. The present content of the files is not known, so requests that need a
    /// mirrored record are refused.
    Stale,
    /// A process has checked the files within the stale limit.
    Current,
}

impl MirrorHealth {
    /// Whether the records that are copied from edited files may be used.
    pub fn is_current(self) -> bool {
        self == MirrorHealth::Current
    }
}
