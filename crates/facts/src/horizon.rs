//! How sessions and the marks that end them are put in order.
//!
//! A token says in which second it was issued, and a mark says up to which second it counts. Both seconds come from wall clocks, and
//! wall clocks step. So the facts hold a **horizon**, which only grows: no session is issued later than it. A mark counts up to the
//! horizon at its commit, so it covers every session that was issued before, even when a clock was wrong. The mark moves the horizon to its
//! own second, and a session that is issued after it is issued at least one second later.
//!
//! Tokens of other servers with the same keys know no horizon. They are refused while they are from later than the last second a mark
//! would count up to: so what a mark is not about was not good when the mark was set.

use crate::clocks::Clocks;
use crate::error::SourceError;
use crate::limits::{CLOCK_SKEW_SECONDS, HORIZON_SECONDS};
use crate::tables::{Revocation, Revoked};
use crate::view::View;
use std::ops::ControlFlow;

/// The last second in which a session may have been issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Horizon(i64);

impl Horizon {
    /// The horizon of these facts.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn of(view: &View<'_>) -> Result<Self, SourceError> {
        Ok(Self::from_second(view.get::<Revocation>(&Revoked::Horizon)?.map(|row| row.issued_before)))
    }

    /// The horizon at this second; facts from before it was known have none.
    pub fn from_second(second: Option<i64>) -> Self {
        Horizon(second.unwrap_or(i64::MIN))
    }

    /// Whether a session may be issued in this second without moving the horizon.
    pub fn allows(self, second: i64) -> bool {
        second <= self.0
    }

    /// The last second of issue of a token that is good at this time, `now` seconds since the epoch, here or at a server whose
    /// clock is ahead by [`CLOCK_SKEW_SECONDS`] at most. A mark that is set now counts up to it.
    pub fn last_issue(self, now: i64) -> i64 {
        self.0.max(now.saturating_add(CLOCK_SKEW_SECONDS))
    }

    /// How far to move it for a session of this second, so that it need not be moved again soon.
    pub fn moved_for(second: i64, now: Clocks) -> i64 {
        second.max(now.unix_seconds.saturating_add(HORIZON_SECONDS))
    }
}

/// The purge time: a wall-clock time that a wrong clock cannot move ahead. It advances with the clock since the start of the machine. It
/// stops while the machine is off, and is never later than the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// Seconds since the epoch.
    pub unix_seconds: i64,
    /// The clock since the start of the machine when that was so, in seconds.
    tick_seconds: i64,
    /// Marks of tokens that end in this second or before may have been purged, so such a token is expired, even if the clock says otherwise.
    purged: i64,
}

impl Passed {
    /// By what the facts say of the last time, and the clocks now. At first it is the time of the oldest mark.
    ///
    /// # Errors
    /// When the facts cannot be read.
    pub fn by(view: &View<'_>, now: Clocks) -> Result<Self, SourceError> {
        let tick_seconds = i64::try_from(now.tick_millis / 1_000).unwrap_or(i64::MAX);
        let (passed, purged) = match view.get::<Revocation>(&Revoked::Passed)? {
            Some(Revocation { issued_before, revoked_at, until }) => {
                // After a start of the machine its clock begins at zero: at least this time has passed.
                let since = if revoked_at <= tick_seconds { tick_seconds - revoked_at } else { tick_seconds };
                (until.saturating_add(since), issued_before)
            }
            None => {
                let mut oldest = now.unix_seconds;
                view.scan::<Revocation>(&[], |mark, row| {
                    if mark.is_mark() {
                        oldest = oldest.min(row.revoked_at);
                    }
                    ControlFlow::Continue(())
                })?;
                (oldest, i64::MIN)
            }
        };
        Ok(Passed { unix_seconds: passed.min(now.unix_seconds), tick_seconds, purged })
    }

    /// The same when marks are purged whose tokens end in this second or before it.
    #[must_use]
    pub fn purging(self, until: i64) -> Self {
        Passed { purged: self.purged.max(until), ..self }
    }

    /// The same, and no less was purged than this record of another purge says.
    #[must_use]
    pub fn after(self, other: Option<&Revocation>) -> Self {
        other.map_or(self, |other| self.purging(other.issued_before))
    }

    pub(crate) fn row(self) -> Revocation {
        Revocation::of_time(self.purged, self.tick_seconds, self.unix_seconds)
    }
}

/// The last second up to which any mark counts, so that a reader need not read all marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastMarks {
    /// The last second that a mark counts up to, or did, which goes by time.
    pub of_time: i64,
    /// The same of any mark.
    pub of_any: i64,
    /// Whether that is so of every mark there is, and each is found by its end ([`ReverseKey::Ends`](crate::tables::ReverseKey::Ends)). Marks
    /// of before format 4 are taken in one after the other.
    pub is_complete: bool,
}

impl LastMarks {
    /// Of no mark.
    pub const NONE: Self = LastMarks { of_time: i64::MIN, of_any: i64::MIN, is_complete: false };

    /// Those of these facts; nothing before the first purge.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn of(view: &View<'_>) -> Result<Option<Self>, SourceError> {
        let row = view.get::<Revocation>(&Revoked::Last)?;
        Ok(row.map(|Revocation { issued_before, revoked_at, until }| LastMarks {
            of_time: issued_before,
            of_any: revoked_at,
            is_complete: until != 0,
        }))
    }

    /// Takes in a mark that counts up to this second.
    pub fn take_in(&mut self, mark: &Revoked, issued_before: i64) {
        self.of_any = self.of_any.max(issued_before);
        if !mark.is_timeless() {
            self.of_time = self.of_time.max(issued_before);
        }
    }

    /// What two of them say together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        LastMarks {
            of_time: self.of_time.max(other.of_time),
            of_any: self.of_any.max(other.of_any),
            is_complete: self.is_complete || other.is_complete,
        }
    }

    pub(crate) fn row(self) -> Revocation {
        Revocation::of_time(self.of_time, self.of_any, self.is_complete.into())
    }
}
