//! Records when users last logged in, and locks users after failed logins.
//!
//! The record of a user contains the time from which the user counts as inactive. So the doors need not read the configuration. At its start and
//! every hour, a server adapts the records to its configuration ([`settle_activities`]). If the configuration makes users inactive after some days
//! without a login, the server also adds a record for each user without a record. The new record says that the user logged in on the day when the
//! server adds the record. For each user, at most one login a day is recorded.

use crate::change_context::ChangeContext;
use crate::error::Error;
use enfilade_facts::tables::{Activity, Profile, Row, User};
use enfilade_facts::vocabulary::UserId;
use enfilade_facts::{Change, Read, SourceError, View};
use std::collections::HashMap;
use std::ops::ControlFlow;

/// The maximum number of users in one change. Other writers wait until the commit ends, so the commit must be short.
const AT_ONCE: usize = 256;
/// The maximum number of records that are read in one view.
const PAGE: usize = 2_048;

/// Computes the new record from the old record and the user's profile.
type Edit<'e> = &'e dyn Fn(Activity, &Profile) -> Activity;

/// Locks a user after failed logins, unless an option of the user forbids the lock. If the user is already locked, the end of the lock does not
/// change.
///
/// # Errors
/// When the facts cannot be changed.
pub fn lock_user(ctx: &ChangeContext<'_>, id: &UserId) -> Result<(), Error> {
    let now = ctx.now.unix_seconds;
    let lock = |before: Activity, profile: &Profile| match profile.is_never_locked || before.is_locked(now) {
        true => before,
        false => Activity { locked_until: now.saturating_add(ctx.passwords.lockout_seconds), ..before },
    };
    write(ctx, &format!("lock user {id} after failed logins"), &[*id], &lock)
}

/// Records that these users logged in today. If today's login of a user is already recorded, the record of this user does not change.
///
/// # Errors
/// When the facts cannot be changed.
pub fn note_logins(ctx: &ChangeContext<'_>, users: &[UserId]) -> Result<(), Error> {
    let today = Activity::day_of(ctx.now.unix_seconds);
    let note = |before: Activity, profile: &Profile| match before.active_on < today || is_ahead(before, today)
    {
        true => before.active_on(today, days(ctx, profile)),
        false => before,
    };
    for some in users.chunks(AT_ONCE) {
        write(ctx, "note logins", some, &note)?;
    }
    Ok(())
}

/// Adapts the records of all users to the configuration.
///
/// # Errors
/// When the facts cannot be changed.
pub fn settle_activities(ctx: &ChangeContext<'_>) -> Result<(), Error> {
    settle_all::<Activity>(ctx)?;
    if ctx.passwords.inactive_days != 0 {
        settle_all::<User>(ctx)?;
    }
    Ok(())
}

/// Like [`settle_activities`], but only for the users that have a record in the table `R`.
fn settle_all<R: Row<Key = UserId>>(ctx: &ChangeContext<'_>) -> Result<(), Error> {
    let edit = |before: Activity, profile: &Profile| settled(ctx, before, profile);
    let mut after: Option<UserId> = None;
    loop {
        let mut read = Vec::new();
        let unsettled = ctx.facts.read(|view| {
            let from = after.as_ref().map(UserId::bytes);
            view.page::<R>(&[], from, |id, _| {
                read.push(id);
                if read.len() < PAGE { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
            changed(view, &read, &edit)
        })??;
        for some in unsettled.chunks(AT_ONCE) {
            write(ctx, "adapt the last logins and locks of users to the configuration", some, &edit)?;
        }
        match read.last() {
            Some(last) if read.len() >= PAGE => after = Some(*last),
            _ => return Ok(()),
        }
    }
}

/// Whether the record was written while a clock was wrongly set to a later day. If the record has the date of tomorrow, the result is `false`,
/// because the next day has possibly already begun by the clock of another server.
fn is_ahead(record: Activity, today: i64) -> bool {
    today.saturating_add(1) < record.active_on
}

/// Returns the record, adapted to the configuration.
fn settled(ctx: &ChangeContext<'_>, before: Activity, profile: &Profile) -> Activity {
    let (rules, now) = (ctx.passwords, ctx.now.unix_seconds);
    let is_locked = rules.lockout_failures != 0 && before.is_locked(now) && !profile.is_never_locked;
    let locked_until = if is_locked { before.locked_until } else { 0 };
    let base = Activity { locked_until, ..Activity::default() };
    let today = Activity::day_of(now);
    match (rules.inactive_days, before.active_on) {
        (0, _) => base,
        (_, 0) => base.active_on(today, days(ctx, profile)),
        _ if is_ahead(before, today) => base.active_on(today, days(ctx, profile)),
        (_, active_on) => base.active_on(active_on, days(ctx, profile)),
    }
}

/// Adds the activity record of a user to a change that edits the user. `is_let_in` means that an administrator permits the user to log in again. In
/// this case, the new record has no lock, and counts as a login. Otherwise the existing record is adapted to the new options of the user.
///
/// # Errors
/// When the facts cannot be read.
pub(crate) fn put_activity(
    ctx: &ChangeContext<'_>,
    view: &View<'_>,
    change: &mut Change,
    id: &UserId,
    (profile, is_let_in): (&Profile, bool),
) -> Result<(), Error> {
    let before = view.get::<Activity>(id)?;
    let base = if is_let_in { Some(Activity::default()) } else { before };
    // If the user has no record, there is no record to adapt.
    if let Some(base) = base {
        put(change, id, before, settled(ctx, base, profile));
    }
    Ok(())
}

/// The number of days without a login after which a user with this profile is inactive; 0 means never.
fn days(ctx: &ChangeContext<'_>, profile: &Profile) -> i64 {
    if profile.is_always_active { 0 } else { ctx.passwords.inactive_days }
}

/// The users for which the edit changes the record.
fn changed(view: &View<'_>, users: &[UserId], edit: Edit<'_>) -> Result<Vec<UserId>, SourceError> {
    let mut found = Vec::new();
    for id in users {
        let before = view.get::<Activity>(id)?;
        if edited(view, id, before, edit)? != before.unwrap_or_default() {
            found.push(*id);
        }
    }
    Ok(found)
}

/// The record after the edit. For a deleted user, the result is the default record, which is not stored.
fn edited(
    view: &View<'_>,
    id: &UserId,
    before: Option<Activity>,
    edit: Edit<'_>,
) -> Result<Activity, SourceError> {
    if view.get::<User>(id)?.is_none() {
        return Ok(Activity::default());
    }
    Ok(edit(before.unwrap_or_default(), &view.get::<Profile>(id)?.unwrap_or_default()))
}

/// Edits the records of these users, and commits the change if a record changed.
fn write(ctx: &ChangeContext<'_>, what: &str, users: &[UserId], edit: Edit<'_>) -> Result<(), Error> {
    if ctx.facts.read(|view| changed(view, users, edit))??.is_empty() {
        return Ok(());
    }
    ctx.commit(what, |view, change| {
        for id in users {
            let before = view.get::<Activity>(id)?;
            put(change, id, before, edited(view, id, before, edit)?);
        }
        Ok(())
    })?;
    Ok(())
}

/// Adds the new record to a change, if it differs from the old record. If the new record is the default, the stored record is deleted.
fn put(change: &mut Change, id: &UserId, before: Option<Activity>, after: Activity) {
    if before.unwrap_or_default() == after {
        return;
    }
    change.expect_unchanged::<Activity>(id, before.as_ref());
    match after == Activity::default() {
        true => change.delete::<Activity>(id),
        false => change.put(id, &after),
    };
}

/// The activity record of every user, for lists. Users without a record are left out.
pub(crate) fn all_activities(view: &View<'_>) -> Result<HashMap<UserId, Activity>, SourceError> {
    Ok(view.list::<Activity>(&[])?.into_iter().collect())
}
