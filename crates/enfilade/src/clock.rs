//! The one place that reads clocks.

use enfilade_facts::Now;
use std::sync::LazyLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

static START: LazyLock<Instant> = LazyLock::new(start);

#[expect(clippy::disallowed_methods, reason = "this is the clock")]
fn start() -> Instant {
    Instant::now()
}

/// Both clocks, now.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub(crate) fn now() -> Now {
    // Before 1970 nothing can be said about expiry; 0 makes what expires at all look not yet expired only until then.
    let unix_seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    Now {
        unix_seconds: i64::try_from(unix_seconds).unwrap_or(i64::MAX),
        tick_millis: u64::try_from(START.elapsed().as_millis()).unwrap_or(u64::MAX),
    }
}
