//! The clocks for durations, and for the times of traces. No decision depends on these clocks.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The time of the monotonic clock.
#[expect(clippy::disallowed_methods, reason = "no decision depends on the measured duration")]
pub(crate) fn monotonic() -> Instant {
    Instant::now()
}

/// The time since the epoch.
#[expect(clippy::disallowed_methods, reason = "no decision depends on the times of a trace")]
pub(crate) fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
