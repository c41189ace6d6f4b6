//! Waits for a short time, for code that has no event to wait for.

use rustix::event::{Timespec, poll};
use std::time::Duration;

/// Waits for this time. A signal may end the wait early.
pub(crate) fn pause(time: Duration) {
    let timeout = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
    let _ = poll(&mut [], Some(&timeout));
}
