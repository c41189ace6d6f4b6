//! Second factors of users. A user begins the set-up, and confirms it with the first code of the authenticator app. From then on, the password alone
//! is not enough ([`enfilade_identity`] decides this).

use crate::change_context::{ChangeContext, random};
use crate::error::Error;
use crate::resolve::user_id;
use enfilade_facts::limits::{ENROLMENT_SECONDS, PASSKEYS_MAX};
use enfilade_facts::tables::{Octets, Passkey, Revoked, SecondFactor, User};
use enfilade_facts::vocabulary::{Secret, UserId, Userid};
use enfilade_facts::{At, Change, Read, Source, View};
use enfilade_identity::{
    Code, CodeUse, FactorSecret, HashKey, NotSealed, Passcode, check_code, recovery_codes, recovery_digest,
};

/// The state of a user's second factor, without its secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecondFactorState {
    /// When the user confirmed the second factor, in seconds since the epoch.
    pub since: i64,
    /// The number of recovery codes that were not used yet.
    pub recovery_codes: usize,
    /// The passkeys.
    pub passkeys: Vec<Passkey>,
}

fn unusable(_: NotSealed) -> Error {
    Error::Refused("nothing was changed: the secret of the new second factor cannot be encrypted. Begin the set-up again; if this fails again, ask the administrator".to_owned())
}

fn not_begun() -> Error {
    Error::Refused(
        "the set-up was not begun, or took longer than 15 minutes; begin it again on the page Account"
            .to_owned(),
    )
}

/// The second factor that the user set up and confirmed; `None` if there is none.
///
/// # Errors
/// When the facts cannot be read.
pub fn second_factor_of(source: &dyn Source, user: &UserId) -> Result<Option<SecondFactorState>, Error> {
    let row = source.read(|view| view.get::<SecondFactor>(user))??;
    Ok(row.and_then(|row| {
        let (since, recovery_codes) = (row.confirmed_at?, row.recovery.len());
        Some(SecondFactorState { since, recovery_codes, passkeys: row.passkeys })
    }))
}

/// Like [`second_factor_of`], but the caller gives the name of the user.
///
/// # Errors
/// When there is no such user, or the facts cannot be read.
pub fn second_factor_named(source: &dyn Source, user: &Userid) -> Result<Option<SecondFactorState>, Error> {
    let id = source.read(|view| user_id(view, user))??;
    second_factor_of(source, &id)
}

/// Begins the set-up of a second factor with a new secret. This replaces an earlier set-up that was not confirmed.
///
/// # Errors
/// When the user has a second factor, or the facts cannot be changed.
pub fn begin_second_factor(
    ctx: &ChangeContext<'_>,
    key: &HashKey,
    user: &UserId,
) -> Result<FactorSecret, Error> {
    let secret = FactorSecret::new(random()?);
    let sealed = secret.seal(key, user).map_err(unusable)?;
    ctx.commit(&format!("begin the set-up of a second factor of {user}"), |view, change| {
        let before = view.get::<SecondFactor>(user)?;
        if before.as_ref().is_some_and(SecondFactor::is_confirmed) {
            let why = "the account has a second factor already; remove it before you set up another";
            return Err(Error::Refused(why.to_owned()));
        }
        let row = SecondFactor {
            secret: sealed.clone(),
            begun_at: ctx.now.unix_seconds,
            confirmed_at: None,
            used_step: 0,
            recovery: Vec::new(),
            passkeys: Vec::new(),
        };
        change.expect_present::<User>(user).expect_unchanged(user, before.as_ref()).put(user, &row);
        Ok(())
    })?;
    Ok(secret)
}

/// The record of a set-up that the user can confirm now.
fn pending(view: &View<'_>, user: &UserId, now: i64) -> Result<SecondFactor, Error> {
    let row = view.get::<SecondFactor>(user)?;
    let is_pending =
        |row: &SecondFactor| !row.is_confirmed() && now < row.begun_at.saturating_add(ENROLMENT_SECONDS);
    row.filter(is_pending).ok_or_else(not_begun)
}

/// Checks that a set-up was begun, and that the user can confirm it now.
///
/// # Errors
/// When no set-up was begun, it was begun too long ago, or the facts cannot be read.
pub fn check_pending_second_factor(source: &dyn Source, user: &UserId, now: i64) -> Result<(), Error> {
    source.read(|view| pending(view, user, now))?.map(drop)
}

/// Confirms the second factor with a code of the authenticator app, and ends all sessions of the user, because the password alone was enough for
/// them. Returns the recovery codes. The recovery codes are not stored, so nobody can show them again.
///
/// # Errors
/// When no set-up was begun, the code is wrong, or the facts cannot be changed.
pub fn confirm_second_factor(
    ctx: &ChangeContext<'_>,
    key: &HashKey,
    user: &UserId,
    code: &Secret,
) -> Result<Vec<Secret>, Error> {
    let codes = recovery_codes(&random()?);
    let recovery: Vec<_> = codes.iter().map(|code| recovery_digest(key, user, code.reveal())).collect();
    let now = ctx.now.unix_seconds;
    ctx.commit(&format!("confirm the second factor of {user}"), |view, change| {
        let row = pending(view, user, now)?;
        let Code::Right(CodeUse::Step(step)) = check_code(key, user, &row, code, now) else {
            let why = "the code is wrong or too old; check the time of the device, and enter the next code";
            return Err(Error::Refused(why.to_owned()));
        };
        let after = SecondFactor {
            confirmed_at: Some(now),
            used_step: step,
            recovery: recovery.clone(),
            ..row.clone()
        };
        change.expect_present::<User>(user).expect_same(user, &row).put(user, &after);
        change.end(Revoked::User(*user));
        Ok(())
    })?;
    Ok(codes)
}

/// Records in a change that a code was used.
pub(crate) fn use_code(view: &View<'_>, change: &mut Change, passcode: &Passcode) -> Result<(), Error> {
    let (user, row) = (passcode.user(), view.get::<SecondFactor>(passcode.user())?);
    let after = passcode.used_in(row.as_ref())?;
    change.expect_unchanged(user, row.as_ref()).put(user, &after);
    Ok(())
}

/// Replaces the recovery codes of a user who entered the password and this code. The earlier recovery codes are refused from now on. Returns the new
/// codes, which are not stored.
///
/// # Errors
/// When the code was used before, or the facts cannot be changed.
pub fn renew_recovery_codes(
    ctx: &ChangeContext<'_>,
    key: &HashKey,
    code: &Passcode,
) -> Result<Vec<Secret>, Error> {
    let (user, codes) = (code.user(), recovery_codes(&random()?));
    let recovery: Vec<_> = codes.iter().map(|code| recovery_digest(key, user, code.reveal())).collect();
    ctx.commit(&format!("make new recovery codes of {user}"), |view, change| {
        let row = view.get::<SecondFactor>(user)?;
        let after = SecondFactor { recovery: recovery.clone(), ..code.used_in(row.as_ref())? };
        change.expect_unchanged(user, row.as_ref()).put(user, &after);
        Ok(())
    })?;
    Ok(codes)
}

/// Adds a passkey to the second factor of a user who entered the password and this code.
///
/// # Errors
/// When the code was used before, the user has too many passkeys or this passkey already, or the facts cannot be changed.
pub fn add_passkey(ctx: &ChangeContext<'_>, code: &Passcode, passkey: &Passkey) -> Result<At, Error> {
    let user = code.user();
    let ((), at) = ctx.commit(&format!("add the passkey `{}` of {user}", passkey.name), |view, change| {
        let row = view.get::<SecondFactor>(user)?;
        let mut after = code.used_in(row.as_ref())?;
        if after.passkeys.iter().any(|known| known.id == passkey.id || known.name == passkey.name) {
            let why =
                format!("the user already has this passkey, or another one with the name `{}`", passkey.name);
            return Err(Error::Refused(why));
        }
        if after.passkeys.len() >= PASSKEYS_MAX {
            let why = format!("a user can have {PASSKEYS_MAX} passkeys; remove one first");
            return Err(Error::Refused(why));
        }
        after.passkeys.push(passkey.clone());
        change.expect_unchanged(user, row.as_ref()).put(user, &after);
        Ok(())
    })?;
    Ok(at)
}

/// Removes a passkey. The user can still sign in with a code.
///
/// # Errors
/// When the user has no such passkey, or the facts cannot be changed.
pub fn remove_passkey(ctx: &ChangeContext<'_>, user: &UserId, id: &Octets) -> Result<At, Error> {
    let ((), at) = ctx.commit(&format!("remove a passkey of {user}"), |view, change| {
        let row = view.get::<SecondFactor>(user)?;
        let mut after = row.clone().ok_or_else(|| no_passkey(user))?;
        after.passkeys.retain(|passkey| passkey.id != *id);
        if row.as_ref() == Some(&after) {
            return Err(no_passkey(user));
        }
        change.expect_unchanged(user, row.as_ref()).put(user, &after);
        Ok(())
    })?;
    Ok(at)
}

fn no_passkey(user: &UserId) -> Error {
    Error::Missing { what: "passkey of", name: user.to_string(), hint: "nothing was changed" }
}

/// Removes the second factor of a user who entered the password and this code. No session ends.
///
/// # Errors
/// When the code was used before, or the facts cannot be changed.
pub fn remove_second_factor(ctx: &ChangeContext<'_>, code: &Passcode) -> Result<At, Error> {
    let user = code.user();
    let ((), at) = ctx.commit(&format!("remove the second factor of {user}"), |view, change| {
        let row = view.get::<SecondFactor>(user)?;
        code.used_in(row.as_ref())?;
        change.expect_unchanged(user, row.as_ref()).delete::<SecondFactor>(user);
        Ok(())
    })?;
    Ok(at)
}

/// Removes the second factor of a user, for an administrator. No session ends, and nothing else changes.
///
/// # Errors
/// When there is no such user, the user has no second factor, or the facts cannot be changed.
pub fn reset_second_factor(ctx: &ChangeContext<'_>, user: &Userid) -> Result<At, Error> {
    let ((), at) = ctx.commit(&format!("reset the second factor of {user}"), |view, change| {
        let id = user_id(view, user)?;
        let Some(row) = view.get::<SecondFactor>(&id)? else {
            return Err(Error::Missing {
                what: "second factor of",
                name: user.to_string(),
                hint: "nothing was changed",
            });
        };
        change.expect_same(&id, &row).delete::<SecondFactor>(&id);
        Ok(())
    })?;
    Ok(at)
}

/// Adds to a change the removal of the second factor of a deleted user. If the user has no second factor, the change does not mention the table,
/// because members of a fleet that run an older program do not know the table.
pub(crate) fn forget_second_factor(view: &View<'_>, change: &mut Change, user: &UserId) -> Result<(), Error> {
    if view.get::<SecondFactor>(user)?.is_some() {
        change.delete::<SecondFactor>(user);
    }
    Ok(())
}
