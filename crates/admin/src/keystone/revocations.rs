//! What was revoked.

use crate::desk::Desk;
use crate::error::Error;
use enfilade_facts::tables::{Revocation, Revoked};
use enfilade_facts::{At, Passed, Read, Source};
use std::ops::ControlFlow;

/// Something that was revoked, for listing.
#[derive(Clone, Copy, Debug)]
pub struct RevocationSummary {
    /// What.
    pub mark: Revoked,
    /// Since when, and until which second of issue.
    pub revocation: Revocation,
}

/// Revokes what was issued up to now. What is revoked later already stays so. `end` is the last second of whatever it is about, where
/// that is known.
///
/// # Errors
/// When the facts cannot be changed.
pub fn revoke(desk: &Desk<'_>, marks: &[Revoked], end: Option<i64>, what: &str) -> Result<At, Error> {
    let ((), at) = desk.commit(&format!("revoke {what}"), |_, change| {
        for mark in marks {
            match end {
                Some(end) => change.end_until(*mark, end),
                None => change.end(*mark),
            };
        }
        Ok(())
    })?;
    Ok(at)
}

/// How many go in one commit: a writer that comes meanwhile waits for no more than these.
const PURGED_AT_ONCE: usize = 256;

/// Takes away what is about no token any more, in small commits: every token it is about ended longer than `expired_seconds` ago, for
/// which services may still be told of one. It goes by the time that has passed for certain ([`Passed`]), so a wall clock that is ahead for
/// a while takes nothing away that is live. A token whose mark may be gone is over, also when the clock is set back.
///
/// # Errors
/// When the facts cannot be changed.
pub fn purge_revocations(desk: &Desk<'_>, expired_seconds: i64) -> Result<usize, Error> {
    let mut passed = desk.facts.read(|view| Passed::by(view, desk.now))??;
    let over = passed.unix_seconds.saturating_sub(expired_seconds);
    desk.commit("note how much time has passed", |_, change| {
        change.put_passed(passed);
        Ok(())
    })?;
    let mut purged = 0;
    loop {
        let mut old = Vec::new();
        desk.facts.read(|view| {
            view.scan::<Revocation>(&[], |mark, row| {
                if mark.is_mark() && row.until < over {
                    old.push((mark, row));
                }
                match old.len() < PURGED_AT_ONCE {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                }
            })
        })??;
        if old.is_empty() {
            return Ok(purged);
        }
        purged += old.len();
        let last = old.iter().map(|(_, row)| row.until).fold(i64::MIN, i64::max);
        passed = passed.purging(last);
        desk.commit("purge revocations of tokens that have expired", |_, change| {
            change.put_passed(passed);
            for (mark, row) in &old {
                change.expect_same(mark, row).delete::<Revocation>(mark);
            }
            Ok(())
        })?;
    }
}

/// Everything that is revoked.
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
