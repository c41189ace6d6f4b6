//! The order of sessions and of the marks that end them.
//!
//! A token contains the second at which it was issued. A mark contains the last second of issue that it covers. Both seconds come from wall clocks,
//! and a wall clock can be set forward or back. So the facts have a **horizon**, which only grows: no session is issued later than the horizon. A
//! mark covers all seconds up to the horizon at its commit, or up to [`CLOCK_SKEW_SECONDS`] after the time of the commit if that is later. So the
//! mark covers every session that was issued before the commit, even if a clock was wrong. The commit that sets the mark moves the horizon to the
//! last second that the mark covers. A session that is issued after the mark gets a later second of issue, so the mark does not cover it. Exception:
//! a timeless mark ([`Revoked::is_timeless`]) does not move the horizon, because no later session can belong to its subject.
//!
//! Other servers that have the same keys issue tokens, too, but do not check this horizon. A token of another server is refused while its second of
//! issue is later than the last second that a new mark would cover. So a new mark on a user, for example, covers every token of this user that the
//! server accepted before.

use crate::clocks::Clocks;
use crate::error::SourceError;
use crate::limits::{CLOCK_SKEW_SECONDS, HORIZON_SECONDS};
use crate::tables::{Revocation, Revoked};
use crate::view::View;
use std::ops::ControlFlow;

/// The latest issue time that a session of this server can have at present, in seconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Horizon(i64);

impl Horizon {
    /// The horizon in the facts of the view.
    ///
    /// # Errors
    /// When the horizon cannot be read.
    pub fn of(view: &View<'_>) -> Result<Self, SourceError> {
        Ok(Self::from_second(view.get::<Revocation>(&Revoked::Horizon)?.map(|row| row.issued_before)))
    }

    /// The horizon with this latest second of issue. `None` means that the stored facts have no horizon, because an older program wrote the facts.
    pub fn from_second(second: Option<i64>) -> Self {
        Horizon(second.unwrap_or(i64::MIN))
    }

    /// Whether the horizon already allows a session with this second of issue.
    pub fn allows(self, second: i64) -> bool {
        second <= self.0
    }

    /// The last second of issue that a valid token can have at the time `now` (seconds since the epoch). The token can also be from another server.
    /// Then the clock of that server is ahead by at most [`CLOCK_SKEW_SECONDS`]. A revocation that is made now covers all sessions that were issued
    /// up to the returned second.
    pub fn last_issue(self, now: i64) -> i64 {
        self.0.max(now.saturating_add(CLOCK_SKEW_SECONDS))
    }

    /// The new horizon when a session is issued in `second`. It is at least [`HORIZON_SECONDS`] ahead of the clock, so that not every login needs a
    /// commit.
    pub fn moved_for(second: i64, now: Clocks) -> i64 {
        second.max(now.unix_seconds.saturating_add(HORIZON_SECONDS))
    }
}

/// The purge time: a mark may be deleted if all tokens that the mark covers have expired by this time. The purge time advances with the time since
/// the start of the machine, so that a wrong wall clock cannot move the purge time ahead. The purge time stands still while the machine is off, and
/// is never later than the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// Seconds since the epoch.
    pub unix_seconds: i64,
    /// The time since the start of the machine, in seconds, at the moment when `unix_seconds` was recorded.
    tick_seconds: i64,
    /// The second up to which marks were purged, in seconds since the epoch. If all tokens of a mark expire at this second or earlier, it is possible
    /// that a purge has deleted the mark. So a token that expires at this second or earlier counts as expired, even if the wall clock was set back.
    purged: i64,
}

impl Passed {
    /// The purge time now, computed from the last record of the purge time and from the clocks. If there is no record yet, the purge time is the time
    /// of the oldest mark.
    ///
    /// # Errors
    /// When the facts cannot be read.
    pub fn by(view: &View<'_>, now: Clocks) -> Result<Self, SourceError> {
        let tick_seconds = i64::try_from(now.tick_millis / 1_000).unwrap_or(i64::MAX);
        let (passed, purged) = match view.get::<Revocation>(&Revoked::Passed)? {
            Some(Revocation { issued_before, revoked_at, until }) => {
                // If the machine was started again, its monotonic clock began at zero, and at least `tick_seconds` have passed.
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

    /// Returns the same purge time, and records a purge. The purge can delete a mark if all tokens of the mark expire at the second `until` or
    /// earlier.
    #[must_use]
    pub fn purging(self, until: i64) -> Self {
        Passed { purged: self.purged.max(until), ..self }
    }

    /// Returns the same purge time, and records which marks another purge has deleted. `other` is the record of the other purge.
    #[must_use]
    pub fn after(self, other: Option<&Revocation>) -> Self {
        other.map_or(self, |other| self.purging(other.issued_before))
    }

    pub(crate) fn row(self) -> Revocation {
        Revocation::of_time(self.purged, self.tick_seconds, self.unix_seconds)
    }
}

/// The latest second that any mark covers. If a reader needs only this second, it does not have to read all marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastMarks {
    /// The latest second that any mark covers, including deleted marks, but not timeless marks ([`Revoked::is_timeless`]).
    pub of_time: i64,
    /// The latest second that any mark covers, including deleted marks.
    pub of_any: i64,
    /// Whether `of_time` and `of_any` include all marks, and each mark has its [`ReverseKey::Ends`](crate::tables::ReverseKey::Ends) record. The
    /// key of an `Ends` record begins with the second from which the mark is not needed, so a purge reads only the expired marks. Marks from before
    /// format 4 get the record at the first purge.
    pub is_complete: bool,
}

impl LastMarks {
    /// The value when there are no marks.
    pub const NONE: Self = LastMarks { of_time: i64::MIN, of_any: i64::MIN, is_complete: false };

    /// The [`LastMarks`] record in the facts of the view; `None` before the first purge.
    ///
    /// # Errors
    /// When the record cannot be read.
    pub fn of(view: &View<'_>) -> Result<Option<Self>, SourceError> {
        let row = view.get::<Revocation>(&Revoked::Last)?;
        Ok(row.map(|Revocation { issued_before, revoked_at, until }| LastMarks {
            of_time: issued_before,
            of_any: revoked_at,
            is_complete: until != 0,
        }))
    }

    /// Adds a mark that covers sessions issued up to the second `issued_before`.
    pub fn take_in(&mut self, mark: &Revoked, issued_before: i64) {
        self.of_any = self.of_any.max(issued_before);
        if !mark.is_timeless() {
            self.of_time = self.of_time.max(issued_before);
        }
    }

    /// Combines two values. The result has the later second for each of the two fields, and is complete if at least one value is complete.
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
