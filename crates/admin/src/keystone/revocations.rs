//! What was revoked.

use crate::desk::Desk;
use crate::error::Error;
use enfilade_facts::tables::{Revocation, Revoked};
use enfilade_facts::vocabulary::UserId;
use enfilade_facts::{At, Change, Read, Source};
use std::ops::ControlFlow;

/// Something that was revoked, for listing.
#[derive(Clone, Copy, Debug)]
pub struct RevocationSummary {
    /// What.
    pub mark: Revoked,
    /// Since when, and until which second of issue.
    pub revocation: Revocation,
}

/// Revokes what was issued up to now. What is revoked later already stays so.
///
/// # Errors
/// When the facts cannot be changed.
pub fn revoke(desk: &Desk<'_>, marks: &[Revoked], what: &str) -> Result<At, Error> {
    let now = desk.now.unix_seconds;
    let ((), at) = desk.commit(&format!("revoke {what}"), |view, change| {
        for mark in marks {
            let before = view.get::<Revocation>(mark)?.map_or(i64::MIN, |row| row.issued_before);
            change.put(mark, &Revocation { issued_before: before.max(now), revoked_at: now });
        }
        Ok(())
    })?;
    Ok(at)
}

/// In a change that takes something from a user: the user's sessions end with it.
pub fn user_mark(change: &mut Change, user: UserId, now: i64) {
    change.put(&Revoked::User(user), &Revocation { issued_before: now, revoked_at: now });
}

/// How many go in one commit: a writer that comes meanwhile waits for no more than these.
const PURGED_AT_ONCE: usize = 256;

/// Takes away what was revoked so long ago that every token it is about has expired, in small commits.
///
/// # Errors
/// When the facts cannot be changed.
pub fn purge_revocations(desk: &Desk<'_>, lifetime: i64) -> Result<usize, Error> {
    let over = desk.now.unix_seconds.saturating_sub(lifetime);
    let mut purged = 0;
    loop {
        let mut old = Vec::new();
        desk.facts.read(|view| {
            view.scan::<Revocation>(&[], |mark, row| {
                if row.issued_before.max(row.revoked_at) < over {
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
        desk.commit("purge revocations of tokens that have expired", |_, change| {
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
    let mut rows: Vec<_> =
        rows.into_iter().map(|(mark, revocation)| RevocationSummary { mark, revocation }).collect();
    rows.sort_by_key(|row| row.revocation.revoked_at);
    Ok(rows)
}
