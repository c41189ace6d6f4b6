//! Revocations.

use crate::change_context::ChangeContext;
use crate::error::Error;
use crate::keystone::import::keep_password_out;
use enfilade_facts::tables::{Key, Reverse, ReverseKey, Revocation, Revoked};
use enfilade_facts::{
    At, AuditRecord, Change, Clocks, CommitError, Horizon, LastMarks, Passed, Read, Requester, Source,
    SourceError, View,
};
use std::ops::ControlFlow;

/// A revocation, for listing.
#[derive(Clone, Copy, Debug)]
pub struct RevocationSummary {
    /// The mark. It names the subject of the revocation, such as a user or a project.
    pub mark: Revoked,
    /// The stored record: when the mark was set, and the latest issue time of the revoked sessions.
    pub revocation: Revocation,
}

/// Revokes all sessions that the marks cover and that were issued up to now. If an existing mark covers sessions up to a later second, the new mark
/// also covers sessions up to that second. `end` is the last second at which a revoked token could be valid, if that is known.
///
/// # Errors
/// When the facts cannot be changed.
pub fn revoke(ctx: &ChangeContext<'_>, marks: &[Revoked], end: Option<i64>, what: &str) -> Result<At, Error> {
    let ((), at) = ctx.commit(&format!("revoke {what}"), |view, change| {
        for mark in marks {
            match end {
                Some(end) => change.end_until(*mark, end),
                None => change.end(*mark),
            };
            if let Revoked::User(user) = mark {
                keep_password_out(view, change, user, false)?;
            }
        }
        Ok(())
    })?;
    Ok(at)
}

/// Moves the horizon (the latest issue time that a session may have) at least to the time `second`. The server calls this function before it issues a
/// session with a later issue time than the horizon.
///
/// # Errors
/// When the facts cannot be changed.
pub fn allow_issue(facts: &dyn Source, now: Clocks, second: i64) -> Result<At, CommitError> {
    let (who, what) =
        ("enfilade".to_owned(), "move the horizon (the latest issue time of sessions) ahead".to_owned());
    // This change counts as a change by an administrator, because nobody could log in if this change were refused. So it may use the space that is
    // kept free for administrators. The server moves the horizon about once per minute.
    let audit = AuditRecord { who, what, unix_seconds: now.unix_seconds, request: None };
    let mut change = Change::requested_by(Requester::Administrator, audit);
    change.allow_issue(Horizon::moved_for(second, now));
    facts.commit(&change)
}

/// The maximum number of marks that one commit deletes. Other writers wait until the commit ends, so the commit must be short.
const PURGED_AT_ONCE: usize = 256;

/// Deletes marks that are not needed any more, in small commits. A mark is not needed if all tokens that it covers expired more than
/// `expired_seconds` ago, so that services can no longer validate these tokens. The purge relies only on time that has certainly passed ([`Passed`]).
/// So even while the wall clock is ahead of the real time, the purge deletes no mark that is still needed. Once the mark of a token may be deleted,
/// the token counts as expired, even if the clock is set back.
///
/// The purge reads marks in the order of their ends, and stops at the first mark that is still needed. Only the first purge of a store reads all
/// marks.
///
/// # Errors
/// When the facts cannot be changed.
pub fn purge_revocations(ctx: &ChangeContext<'_>, expired_seconds: i64) -> Result<usize, Error> {
    let mut passed = ctx.facts.read(|view| Passed::by(view, ctx.now))??;
    let over = passed.unix_seconds.saturating_sub(expired_seconds);
    ctx.commit("record the purge time", |view, change| note_passed(view, change, passed))?;
    take_in_older_marks(ctx)?;
    let mut purged = 0;
    loop {
        let old = ctx.facts.read(|view| ended_before(view, over))??;
        let Some((last, _)) = old.last() else { return Ok(purged) };
        passed = passed.purging(*last);
        ctx.commit("purge revocations of tokens that have expired", |view, change| {
            note_passed(view, change, passed)?;
            for (until, mark) in &old {
                change.delete::<Reverse>(&ReverseKey::Ends(*until, *mark));
                // A mark that was set again meanwhile has a later end, so it stays.
                if let Some(row) = view.get::<Revocation>(mark)?.filter(|row| row.until == *until) {
                    change.purge(mark, &row);
                }
            }
            Ok(())
        })?;
        purged += old.len();
    }
}

/// Records the purge time ([`Passed`]). If another purge has deleted more marks meanwhile, the new record also covers these deletions.
fn note_passed(view: &View<'_>, change: &mut Change, passed: Passed) -> Result<(), Error> {
    let row = view.get::<Revocation>(&Revoked::Passed)?;
    change.expect_unchanged(&Revoked::Passed, row.as_ref()).put_passed(passed.after(row.as_ref()));
    Ok(())
}

/// The marks that end before the second `over`, the earliest first, but at most [`PURGED_AT_ONCE`] of them.
fn ended_before(view: &View<'_>, over: i64) -> Result<Vec<(i64, Revoked)>, SourceError> {
    let mut old = Vec::new();
    view.page::<Reverse>(&ReverseKey::ends(), None, |key, _| {
        let ReverseKey::Ends(until, mark) = key else { return ControlFlow::Break(()) };
        if over <= until {
            return ControlFlow::Break(());
        }
        old.push((until, mark));
        if old.len() < PURGED_AT_ONCE { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(old)
}

/// Indexes all marks by their ends, including the marks that were set before the store had format 4. Records that all marks are indexed, so that
/// later purges skip this step.
fn take_in_older_marks(ctx: &ChangeContext<'_>) -> Result<(), Error> {
    if ctx.facts.read(LastMarks::of)??.is_some_and(|last| last.is_complete) {
        return Ok(());
    }
    // After this commit, each new mark is indexed when it is set. The older marks are indexed below.
    let what = "index revocations by their ends";
    ctx.commit(what, |view, change| {
        let row = view.get::<Revocation>(&Revoked::Last)?;
        change.expect_unchanged(&Revoked::Last, row.as_ref());
        change.put_last_marks(LastMarks::of(view)?.unwrap_or(LastMarks::NONE));
        Ok(())
    })?;
    let (mut last, mut after) = (LastMarks::NONE, None::<Vec<u8>>);
    loop {
        let mut marks = Vec::new();
        ctx.facts.read(|view| {
            view.page::<Revocation>(&[], after.as_deref(), |mark, row| {
                marks.push((mark, row));
                if marks.len() < PURGED_AT_ONCE { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })
        })??;
        let Some((mark, _)) = marks.last() else { break };
        after = Some(mark.bytes());
        marks.retain(|(mark, _)| mark.is_mark());
        marks.iter().for_each(|(mark, row)| last.take_in(mark, row.issued_before));
        ctx.commit(what, |view, change| {
            for (mark, _) in &marks {
                if let Some(row) = view.get::<Revocation>(mark)? {
                    change.expect_same(mark, &row).put(&ReverseKey::Ends(row.until, *mark), &Reverse);
                }
            }
            Ok(())
        })?;
    }
    ctx.commit(what, |view, change| {
        let row = view.get::<Revocation>(&Revoked::Last)?;
        let known = LastMarks::of(view)?.unwrap_or(LastMarks::NONE);
        change.expect_unchanged(&Revoked::Last, row.as_ref());
        change.put_last_marks(LastMarks { is_complete: true, ..known.and(last) });
        Ok(())
    })?;
    Ok(())
}

/// Every revocation.
///
/// # Errors
/// When the facts cannot be read.
pub fn list_revocations(source: &dyn Source) -> Result<Vec<RevocationSummary>, Error> {
    let rows = source.read(|view| view.list::<Revocation>(&[]))??;
    let marks = rows.into_iter().filter(|(mark, _)| mark.is_mark());
    let mut rows: Vec<_> = marks.map(|(mark, revocation)| RevocationSummary { mark, revocation }).collect();
    rows.sort_by_key(|row| row.revocation.revoked_at);
    Ok(rows)
}
