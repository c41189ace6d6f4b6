//! How long a verdict stays valid before the facts are read again.

use enfilade_facts::{At, Clocks, MirrorHealth};

/// The conditions under which a verdict is valid, such as the revision and a range of seconds.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Validity {
    /// The revision of the facts on which the verdict was made.
    pub(crate) at: At,
    /// The first second in which a session is valid. For other credentials this is `i64::MIN`, so their verdict stays valid when the clock is set
    /// back.
    pub(crate) first_second: i64,
    /// The last second in which the verdict counts; `i64::MAX` if the verdict depends on nothing that expires.
    pub(crate) last_second: i64,
    /// The tick (milliseconds of the monotonic clock) until which the secret need not be proven again.
    pub(crate) proven_until: u64,
    /// Whether files that people edit define a part of the account.
    pub(crate) of_files: bool,
    /// Whether the mirrored records of edited files were current when the verdict was made.
    pub(crate) mirror: MirrorHealth,
    /// For the session of a token: the generation of the key ring that opened the token. For every other credential, including the session of a
    /// browser: 0.
    pub(crate) keys: u64,
}

impl Validity {
    /// Whether an admitted request may continue. The revision must be the same, the time must be in the verdict's range of seconds, and `mirror` must
    /// have the same value as when the verdict was made.
    pub fn holds(&self, at: At, now: Clocks) -> bool {
        self.at == at
            && (self.first_second..=self.last_second).contains(&now.unix_seconds)
            && self.mirror == now.mirror
    }

    /// Whether a further request with the same credential is admitted. In addition to [`Validity::holds`], the secret must not need a new proof, and
    /// the token must have been opened with the current keys. `keys` is the generation of the current key ring, or 0 if there are no keys. The clock
    /// is read only if time can end the verdict.
    pub fn admits(&self, at: At, keys: u64, now: impl FnOnce() -> Clocks) -> bool {
        let is_timeless = || self.last_second == i64::MAX && self.proven_until == u64::MAX && !self.of_files;
        let is_in_time = |now: Clocks| now.tick_millis < self.proven_until && self.holds(at, now);
        self.at == at && (self.keys == 0 || self.keys == keys) && (is_timeless() || is_in_time(now()))
    }

    /// The last second in which the verdict counts, in seconds since the epoch; `None` if the verdict depends on nothing that expires.
    pub fn last_second(&self) -> Option<i64> {
        (self.last_second != i64::MAX).then_some(self.last_second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use enfilade_facts::{Revision, StoreId};

    const AT: At = At { store: StoreId(1), revision: Revision(5) };

    /// A verdict with every kind of condition: keys of generation 3, valid from second 100 to 200, proven until tick 1,000.
    const BOUND: Validity = Validity {
        at: AT,
        first_second: 100,
        last_second: 200,
        proven_until: 1_000,
        of_files: true,
        mirror: MirrorHealth::Current,
        keys: 3,
    };
    const TIMELESS: Validity = Validity {
        first_second: i64::MIN,
        last_second: i64::MAX,
        proven_until: u64::MAX,
        of_files: false,
        keys: 0,
        ..BOUND
    };

    #[test]
    fn a_verdict_admits_until_the_first_of_its_ends() {
        let at = |number| At { revision: Revision(number), ..AT };
        let now = |unix_seconds, tick_millis, mirror| Clocks { unix_seconds, tick_millis, mirror };
        let (current, stale) = (MirrorHealth::Current, MirrorHealth::Stale);
        for (validity, number, keys, clocks, admits) in [
            (BOUND, 5, 3, now(100, 999, current), true),
            (BOUND, 5, 3, now(200, 0, current), true),
            (BOUND, 4, 3, now(150, 0, current), false),
            (BOUND, 6, 3, now(150, 0, current), false),
            (BOUND, 5, 4, now(150, 0, current), false),
            (BOUND, 5, 0, now(150, 0, current), false),
            (BOUND, 5, 3, now(99, 0, current), false),
            (BOUND, 5, 3, now(201, 0, current), false),
            (BOUND, 5, 3, now(150, 1_000, current), false),
            (BOUND, 5, 3, now(150, 0, stale), false),
            (Validity { keys: 0, ..BOUND }, 5, 9, now(150, 0, current), true),
            (Validity { last_second: 200, ..TIMELESS }, 5, 0, now(201, 0, current), false),
            (Validity { proven_until: 1, ..TIMELESS }, 5, 0, now(150, 1, current), false),
            (Validity { of_files: true, ..TIMELESS }, 5, 0, now(150, 0, stale), false),
        ] {
            let found = validity.admits(at(number), keys, || clocks);
            assert_eq!(found, admits, "{validity:?} at {number}, keys {keys}, {clocks:?}");
        }
        assert_eq!((BOUND.last_second(), TIMELESS.last_second()), (Some(200), None));
    }

    #[test]
    fn no_clock_is_read_for_a_verdict_that_time_cannot_end() {
        assert!(TIMELESS.admits(AT, 7, || panic!("the clock was read")));
    }
}
