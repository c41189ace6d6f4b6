//! Time as an argument.

/// One reading of both clocks, taken once at the edge and handed inward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Now {
    /// Wall clock, seconds since the epoch: for expiry dates people chose.
    pub unix_seconds: i64,
    /// Monotonic clock, milliseconds since some fixed moment: for ages, which a stepped wall clock must not stretch.
    pub tick_millis: u64,
    /// Whether somebody has looked at the files people edit lately, within the stale limit. When nobody has, what they
    /// say now is not known, and what is kept in them refuses.
    pub files_current: bool,
}
