//! How long a verdict counts before the facts are read again.

use enfilade_facts::{At, Clocks, MirrorHealth};

/// One revision, a range of seconds, and what else ends a verdict.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Validity {
    /// The revision of the facts it was judged on.
    pub(crate) at: At,
    /// For a session the first second it is valid. A clock that is set back ends nothing else.
    pub(crate) first_second: i64,
    /// The last second it is valid; `i64::MAX` when nothing of it expires.
    pub(crate) last_second: i64,
    /// The tick until which the secret need not be proven again.
    pub(crate) proven_until: u64,
    /// Whether any of it is defined in files that people edit.
    pub(crate) of_files: bool,
    /// Whether the mirror of edited files was current when it was judged.
    pub(crate) mirror: MirrorHealth,
    /// For a session, which reading of the keys opened its token; 0 for every other credential.
    pub(crate) keys: u64,
}

impl Validity {
    /// Whether a request that was admitted may go on: the same revision, a second in the range, and the mirror of edited files as current as it was.
    pub fn holds(&self, at: At, now: Clocks) -> bool {
        self.at == at
            && (self.first_second..=self.last_second).contains(&now.unix_seconds)
            && self.mirror == now.mirror
    }

    /// Whether a further request with the same credential is admitted. In addition its secret need not be proven again, and its token was opened
    /// with the current keys: `keys` is their reading, 0 when there are none. The time is read only for what time can end.
    pub fn admits(&self, at: At, keys: u64, now: impl FnOnce() -> Clocks) -> bool {
        let is_timeless = || self.last_second == i64::MAX && self.proven_until == u64::MAX && !self.of_files;
        let is_in_time = |now: Clocks| now.tick_millis < self.proven_until && self.holds(at, now);
        self.at == at && (self.keys == 0 || self.keys == keys) && (is_timeless() || is_in_time(now()))
    }

    /// The last second it is valid, in seconds since the epoch; `None` when nothing of it expires.
    pub fn last_second(&self) -> Option<i64> {
        (self.last_second != i64::MAX).then_some(self.last_second)
    }
}
