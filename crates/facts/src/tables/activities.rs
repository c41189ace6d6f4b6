//! The time when each user last logged in, and the time until which the user is locked.

use super::{Row, Table};
use crate::codec::{Reader, Writer};
use crate::vocabulary::UserId;
use serde::{Deserialize, Serialize};

/// The number of seconds in a day.
const DAY: i64 = 86_400;

/// The last login of a user, and the lock after failed logins. This is a separate record, because logins must not change the record of the user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activity {
    /// The day of the last login, counted from the epoch; 0 if unknown.
    pub active_on: i64,
    /// When the user becomes inactive if the user does not log in again, in seconds since the epoch; 0 means never.
    pub inactive_from: i64,
    /// When the lock ends, in seconds since the epoch; 0 means that the user was not locked.
    pub locked_until: i64,
}

impl Activity {
    /// The day of a second.
    pub fn day_of(unix_seconds: i64) -> i64 {
        unix_seconds.div_euclid(DAY)
    }

    /// This record after a login on the day `active_on`, for a user who becomes inactive after `days` whole days without a login. If `days` is 0, the
    /// user never becomes inactive.
    #[must_use]
    pub fn active_on(self, active_on: i64, days: i64) -> Self {
        let after = active_on.saturating_add(days).saturating_add(1).saturating_mul(DAY);
        let inactive_from = if days == 0 { 0 } else { after };
        Activity { active_on, inactive_from, ..self }
    }

    /// Whether the user is inactive at the time `now` (seconds since the epoch), because the user did not log in for too many days.
    pub fn is_inactive(&self, now: i64) -> bool {
        self.inactive_from != 0 && self.inactive_from <= now
    }

    /// Whether the user is locked at the time `now` (seconds since the epoch).
    pub fn is_locked(&self, now: i64) -> bool {
        now < self.locked_until
    }
}

impl Row for Activity {
    const TABLE: Table = Table::Activities;
    type Key = UserId;

    fn encode(&self, to: &mut Writer) {
        to.i64(self.active_on).i64(self.inactive_from).i64(self.locked_until);
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(Activity { active_on: from.i64()?, inactive_from: from.i64()?, locked_until: from.i64()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_inactive_after_whole_days_without_a_login() {
        let noon = 12 * 3_600;
        let activity = Activity::default().active_on(Activity::day_of(10 * DAY + noon), 3);
        assert_eq!(activity.active_on, 10);
        for (now, expected) in [(10 * DAY, false), (14 * DAY - 1, false), (14 * DAY, true)] {
            assert_eq!(activity.is_inactive(now), expected, "{now}");
        }
        assert!(!activity.active_on(10, 0).is_inactive(i64::MAX));
    }

    #[test]
    fn a_lock_ends_in_its_last_second() {
        let locked = Activity { locked_until: 100, ..Activity::default() };
        assert_eq!((locked.is_locked(99), locked.is_locked(100)), (true, false));
        assert!(!Activity::default().is_locked(0));
    }
}
