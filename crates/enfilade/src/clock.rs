//! The one place that reads clocks.

use enfilade_facts::Now;
use enfilade_passage::Clock;
use enfilade_sources::lmdb::Lmdb;
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Both clocks, now; for whoever has just looked at the files.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub(crate) fn now() -> Now {
    // Before 1970 nothing can be said about expiry; 0 makes what expires at all look not yet expired only until then.
    let unix_seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    // Since the machine started: the same for every process of it.
    let tick = clock_gettime(ClockId::Boottime);
    let millis = tick.tv_sec.saturating_mul(1_000).saturating_add(tick.tv_nsec / 1_000_000);
    Now {
        unix_seconds: i64::try_from(unix_seconds).unwrap_or(i64::MAX),
        tick_millis: u64::try_from(millis).unwrap_or(0),
        files_current: true,
    }
}

/// The clocks of a server, which know when anybody looked at the files last.
pub(crate) fn of_server(source: Arc<Lmdb>, stale_limit: i64) -> Clock {
    let limit = u64::try_from(stale_limit).unwrap_or(0).saturating_mul(1_000);
    Arc::new(move || {
        let now = now();
        let files_current = source.lookout().age_millis(now.tick_millis).is_some_and(|age| age <= limit);
        Now { files_current, ..now }
    })
}
