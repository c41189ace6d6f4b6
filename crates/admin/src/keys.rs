//! The keys of Fernet tokens. They are files, not facts; this module decides when a key may be deleted.

use crate::error::Error;
use enfilade_facts::tables::{Revocation, Revoked};
use enfilade_facts::{Read, Source};
use enfilade_sources::files::fernet_keys::{
    FernetKey, FernetKeys, Found, KeyList, KeysError, Rotation, STAGED,
};

/// The settings that decide how long keys are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyTerms {
    /// The maximum number of keys, including the staged and the primary key.
    pub max_active: usize,
    /// How long a token is valid, in seconds.
    pub token_seconds: i64,
    /// How long services may validate a token after its expiry, in seconds.
    pub expired_seconds: i64,
}

impl KeyTerms {
    /// The number of keys needed for a rotation every `every_seconds`: `ceil((token_seconds + expired_seconds) / every_seconds) + 2`.
    pub fn keys_needed(&self, every_seconds: i64) -> i64 {
        let needed = self.token_seconds.saturating_add(self.expired_seconds);
        let every = every_seconds.max(1);
        needed / every + i64::from(needed % every != 0) + 2
    }
}

/// The use of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyUse {
    /// The key signs after the next rotation.
    Staged,
    /// The key signs new tokens.
    Primary,
    /// A former primary key. It only verifies.
    Secondary,
}

impl KeyUse {
    /// The use of the key as a word: `staged`, `primary` or `secondary`.
    pub fn name(self) -> &'static str {
        match self {
            KeyUse::Staged => "staged",
            KeyUse::Primary => "primary",
            KeyUse::Secondary => "secondary",
        }
    }
}

/// A key, for listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySummary {
    /// The number of the key, which is the name of its file.
    pub number: u32,
    /// The use of the key.
    pub used_for: KeyUse,
    /// When the key got this number, in seconds since the epoch.
    pub since: i64,
    /// The time from which no token that the key signed can be used any more, in seconds since the epoch; `None` for the primary and the staged key.
    pub needed_until: Option<i64>,
}

/// For a former primary key: the time until which its tokens can be used. `None` for other keys. The key stopped signing when the next key got its
/// number.
fn needed_until(found: &Found, number: u32, terms: &KeyTerms) -> Option<i64> {
    let (_, next) = found.keys.range(number.saturating_add(1)..).next()?;
    (number != STAGED)
        .then(|| next.since.saturating_add(terms.token_seconds).saturating_add(terms.expired_seconds))
}

/// The next step if there are no keys.
const NO_KEYS: &str = "; restore the directory of the keys from the backup; only if the keys are lost or were never created, run `enfilade keys init`, which ends all \
                       sessions except those of browsers";

fn read(keys: &FernetKeys) -> Result<Found, Error> {
    keys.read().map_err(|why| {
        let hint = match why.kind() {
            std::io::ErrorKind::NotFound => NO_KEYS,
            _ => "",
        };
        Error::File(format!("keys in `{}` cannot be read: {why}{hint}", keys.directory().display()))
    })
}

/// Every key, the staged one first.
///
/// # Errors
/// When the directory cannot be read.
pub fn list_keys(keys: &FernetKeys, terms: &KeyTerms) -> Result<Vec<KeySummary>, Error> {
    let found = read(keys)?;
    let primary = found.primary();
    let summary = |(number, key): (&u32, &FernetKey)| KeySummary {
        number: *number,
        used_for: match *number {
            STAGED => KeyUse::Staged,
            number if Some(number) == primary => KeyUse::Primary,
            _ => KeyUse::Secondary,
        },
        since: key.since,
        needed_until: needed_until(&found, *number, terms),
    };
    Ok(found.keys.iter().map(summary).collect())
}

/// Creates missing keys. Returns whether any key was missing.
///
/// # Errors
/// When a key cannot be created.
pub fn init_keys(keys: &FernetKeys) -> Result<bool, Error> {
    keys.init().map_err(|why| {
        Error::File(format!("keys in `{}` cannot be created: {why}", keys.directory().display()))
    })
}

/// Creates keys if no session was ever issued with these facts. If a session was issued, keys existed before. Then no new keys are created, because
/// they would end all sessions except those of browsers, and the operator can possibly restore the old keys. Returns whether keys were created.
///
/// # Errors
/// When the facts cannot be read, or a key cannot be created.
pub fn init_first_keys(facts: &dyn Source, keys: &FernetKeys) -> Result<bool, Error> {
    let was_issued = facts.read(|view| view.get::<Revocation>(&Revoked::Horizon))??.is_some();
    match was_issued {
        true => Ok(false),
        false => init_keys(keys),
    }
}

/// A time in whole minutes, hours or days, rounded up.
fn span(seconds: i64) -> String {
    let (unit, name) = match seconds {
        ..7_200 => (60, "minutes"),
        7_200..259_200 => (3_600, "hours"),
        _ => (86_400, "days"),
    };
    format!("{} {name}", seconds.saturating_add(unit - 1) / unit)
}

/// Refuses to delete keys that tokens may still need. The error is the reason.
fn check_drops(found: &Found, drops: &[u32], terms: &KeyTerms, now: i64) -> Result<(), String> {
    for number in drops {
        // The primary key still signs, so its newest token may have been issued just now.
        let signs_until_now = now.saturating_add(terms.token_seconds).saturating_add(terms.expired_seconds);
        let until = needed_until(found, *number, terms).unwrap_or(signs_until_now);
        if now < until {
            return Err(format!(
                "key {number} is needed for another {}: tokens that it signed may be used until then (a token is valid for {}, and services may \
                 validate a token for {} after its expiry); wait, raise `[identity] max_active_keys` above {}, or delete the key anyway with --force",
                span(until - now),
                span(terms.token_seconds),
                span(terms.expired_seconds),
                terms.max_active,
            ));
        }
    }
    Ok(())
}

fn unchanged(keys: &FernetKeys, why: KeysError) -> Error {
    match why {
        KeysError::Io(why) => Error::File(format!(
            "the keys in `{}` cannot be read or changed: {why}",
            keys.directory().display()
        )),
        KeysError::Refused(why) => Error::Invalid(why),
    }
}

/// Rotates the keys if the primary key is old enough. If several servers try to rotate the keys at the same time, exactly one server rotates them.
/// Returns `None` if the rotation is not due, or another server rotated the keys.
///
/// # Errors
/// As [`rotate_keys`] without `force`.
pub fn rotate_due_keys(
    keys: &FernetKeys,
    terms: &KeyTerms,
    now: i64,
    every_seconds: i64,
) -> Result<Option<Rotation>, Error> {
    let is_due = |found: &Found| is_due(found, now, every_seconds);
    if !is_due(&read(keys)?) {
        return Ok(None);
    }
    let mut was_done = false;
    let agree = |found: &Found, rotation: &Rotation| {
        // Another server may have rotated the keys before this server got the lock.
        was_done = !is_due(found);
        if was_done { Err(String::new()) } else { check_drops(found, &rotation.drops, terms, now) }
    };
    match keys.rotate(terms.max_active, agree) {
        Ok(rotation) => Ok(Some(rotation)),
        Err(KeysError::Refused(_)) if was_done => Ok(None),
        Err(why) => Err(unchanged(keys, why)),
    }
}

/// Makes the staged key the primary key and deletes excess keys. If tokens may still need one of the excess keys, nothing is changed, unless `force`
/// is set.
///
/// # Errors
/// When a key is still needed, no key is staged, or a file cannot be written.
pub fn rotate_keys(keys: &FernetKeys, terms: &KeyTerms, now: i64, force: bool) -> Result<Rotation, Error> {
    let rotated = keys.rotate(terms.max_active, |found, rotation| match force {
        true => Ok(()),
        false => check_drops(found, &rotation.drops, terms, now),
    });
    rotated.map_err(|why| unchanged(keys, why))
}

/// Deletes excess keys. If tokens may still need one of these keys, no key is deleted, unless `force` is set.
///
/// # Errors
/// As [`rotate_keys`].
pub fn prune_keys(keys: &FernetKeys, terms: &KeyTerms, now: i64, force: bool) -> Result<Vec<u32>, Error> {
    let pruned = keys.prune(terms.max_active, |found, excess| match force {
        true => Ok(()),
        false => check_drops(found, excess, terms, now),
    });
    pruned.map_err(|why| unchanged(keys, why))
}

/// The keys that [`rotate_keys`] would leave in the directory. Nothing is changed.
///
/// # Errors
/// As [`rotate_keys`].
pub fn rotated_keys(
    keys: &FernetKeys,
    terms: &KeyTerms,
    now: i64,
    force: bool,
) -> Result<(Rotation, KeyList), Error> {
    let found = read(keys)?;
    let rotation = FernetKeys::plan(&found, terms.max_active);
    if !force {
        check_drops(&found, &rotation.drops, terms, now).map_err(Error::Invalid)?;
    }
    let list = FernetKeys::rotated(&found, &rotation).map_err(|why| unchanged(keys, why.into()))?;
    Ok((rotation, list))
}

/// The keys that [`prune_keys`] would leave in the directory, and the numbers of the keys that it would delete. Nothing is changed.
///
/// # Errors
/// As [`prune_keys`].
pub fn pruned_keys(
    keys: &FernetKeys,
    terms: &KeyTerms,
    now: i64,
    force: bool,
) -> Result<(Vec<u32>, KeyList), Error> {
    let found = read(keys)?;
    let excess = FernetKeys::excess(&found, terms.max_active);
    if !force {
        check_drops(&found, &excess, terms, now).map_err(Error::Invalid)?;
    }
    let mut list = found.list();
    list.retain(|(number, _)| !excess.contains(number));
    Ok((excess, list))
}

/// Whether the primary key is old enough for the next rotation.
///
/// # Errors
/// When the directory cannot be read.
pub fn is_rotation_due(keys: &FernetKeys, now: i64, every_seconds: i64) -> Result<bool, Error> {
    Ok(is_due(&read(keys)?, now, every_seconds))
}

fn is_due(found: &Found, now: i64, every_seconds: i64) -> bool {
    let since = found.primary().and_then(|primary| found.keys.get(&primary)).map(|key| key.since);
    since.is_some_and(|since| since.saturating_add(every_seconds) <= now)
}

/// Makes new keys, with which nothing was signed yet.
///
/// # Errors
/// When the kernel gives no random bytes.
pub fn new_keys(keys: &FernetKeys) -> Result<KeyList, Error> {
    FernetKeys::new_keys().map_err(|why| unchanged(keys, why.into()))
}

/// Replaces the keys in the directory by these keys.
///
/// # Errors
/// When a file cannot be written.
pub fn install_keys(keys: &FernetKeys, list: &KeyList) -> Result<(), Error> {
    keys.install(list).map_err(|why| unchanged(keys, why.into()))
}

/// The problems of the keys, each with the next step.
///
/// # Errors
/// When the directory cannot be read.
pub fn check_keys(keys: &FernetKeys, terms: &KeyTerms) -> Result<Vec<String>, Error> {
    let found = read(keys)?;
    let directory = keys.directory().display();
    let mut problems = Vec::new();
    if let Some(mode) = found.too_wide {
        problems.push(format!(
            "`{directory}` can be opened by others (mode {mode:o}); run `chmod 700 '{directory}'`; if `[facts] group` \
                is set, run `chgrp` with that group and `chmod 770` instead"
        ));
    }
    for (number, key) in &found.keys {
        if let Some(mode) = key.too_wide {
            problems.push(format!(
                "key {number} can be read by others (mode {mode:o}); run `chmod 600 '{directory}/{number}'`; if \
                    `[facts] group` is set, run `chgrp` with that group and `chmod 660` instead"
            ));
        }
    }
    if !found.keys.contains_key(&STAGED) {
        problems.push("there is no staged key; if the other keys are there, run `enfilade keys init`, which creates only the missing key".to_owned());
    }
    if found.primary().is_none_or(|number| number == STAGED) {
        problems.push(format!("there is no key that can sign sessions{NO_KEYS}"));
    }
    let excess = FernetKeys::excess(&found, terms.max_active);
    if !excess.is_empty() {
        problems.push(format!(
            "there are {} keys, and at most {} are allowed; run `enfilade keys prune`",
            found.keys.len(),
            terms.max_active
        ));
    }
    problems.extend(found.ignored.iter().map(|(name, why)| format!("`{name}` is ignored: {why}")));
    Ok(problems)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_units_that_people_use() {
        for (seconds, expected) in [
            (61, "2 minutes"),
            (3_600, "60 minutes"),
            (176_395, "49 hours"),
            (172_800, "48 hours"),
            (604_800, "7 days"),
        ] {
            assert_eq!(span(seconds), expected);
        }
    }

    #[test]
    fn as_many_keys_are_needed_as_live_tokens_can_be_of() {
        let terms =
            |token_seconds, expired_seconds| KeyTerms { max_active: 3, token_seconds, expired_seconds };
        for (terms, every, expected) in [
            (terms(3_600, 0), 3_600, 3),
            (terms(3_601, 0), 3_600, 4),
            (terms(3_600, 172_800), 86_400, 5),
            (terms(3_600, 172_800), 3_600, 51),
            (terms(0, 0), 0, 2),
        ] {
            assert_eq!(terms.keys_needed(every), expected, "{terms:?} {every}");
        }
    }
}
