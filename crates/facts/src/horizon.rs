//! The order of sessions and of the marks that end them.
//!
//! A token says in which second it was issued, and a mark says up to which second it counts. Both seconds come from wall clocks, and
//! wall clocks step. So the facts have a **horizon**, which only grows: no session is issued later than the horizon. A mark counts up to the horizon
//! at its commit, so it covers every session that was issued before, even when a clock was wrong. Setting the mark moves the horizon to the mark's
//! second. Each session that is issued after the mark has a later second of issue.
//!
//! Other servers with the same keys issue tokens without a horizon. Such a token is refused while its second of issue is later than the second
//! up to which a new mark would count. So a token that a mark does not cover was not yet valid when the mark was set.

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

    /// The horizon at this second. Facts of older programs have no horizon.
    pub fn from_second(second: Option<i64>) -> Self {
        Horizon(second.unwrap_or(i64::MIN))
    }

    /// Whether a session may be issued in this second without moving the horizon.
    pub fn allows(self, second: i64) -> bool {
        second <= self.0
    }

    /// The last second of issue that a valid token can have at the time `now` (seconds since the epoch). The token may also be from a server whose
    /// clock is ahead by at most [`CLOCK_SKEW_SECONDS`]. A mark that is set now counts up to this second.
    pub fn last_issue(self, now: i64) -> i64 {
        self.0.max(now.saturating_add(CLOCK_SKEW_SECONDS))
    }

    /// The new horizon for a session that is issued in this second. It is so far ahead that the horizon need not be moved again soon.
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
    /// The clock since the start of the machine at that time, in seconds.
    tick_seconds: i64,
    /// Marks of tokens that end in this second or before may have been purged, so such a token counts as expired, even if the clock says otherwise.
    purged: i64,
}

impl Passed {
    /// The purge time now, from its last record in the facts and from the clocks. Without a record it is the time of the oldest mark.
    ///
    /// # Errors
    /// When the facts cannot be read.
    pub fn by(view: &View<'_>, now: Clocks) -> Result<Self, SourceError> {
        let tick_seconds = i64::try_from(now.tick_millis / 1_000).unwrap_or(i64::MAX);
        let (passed, purged) = match view.get::<Revocation>(&Revoked::Passed)? {
            Some(Revocation { issued_before, revoked_at, until }) => {
                // If the machine was started again, its clock began at zero, and at least `tick_seconds` have passed.
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

    /// The same purge time. It also records that marks were purged whose tokens end in this second or before.
    #[must_use]
    pub fn purging(self, until: i64) -> Self {
        Passed { purged: self.purged.max(until), ..self }
    }

    /// The same purge time. It also covers the marks that another purge has purged, according to the record of that purge.
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
    /// The last second up to which a mark counts or has counted, of the marks that are not timeless ([`Revoked::is_timeless`]).
    pub of_time: i64,
    /// The last second up to which any mark counts or has counted.
    pub of_any: i64,
    /// Whether both seconds cover all marks, and each mark is found by its end ([`ReverseKey::Ends`](crate::tables::ReverseKey::Ends)). A purge adds
    /// the marks from before format 4.
    pub is_complete: bool,
}

impl LastMarks {
    /// The value without any mark.
    pub const NONE: Self = LastMarks { of_time: i64::MIN, of_any: i64::MIN, is_complete: false };

    /// The record of these facts; `None` before the first purge.
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

    /// Adds a mark that counts up to this second.
    pub fn take_in(&mut self, mark: &Revoked, issued_before: i64) {
        self.of_any = self.of_any.max(issued_before);
        if !mark.is_timeless() {
            self.of_time = self.of_time.max(issued_before);
        }
    }

    /// Combines two values: the later seconds, and complete if one of them is.
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
