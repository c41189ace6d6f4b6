//! Passcodes: time-based one-time passwords as in Keystone. The secret is the blob of a credential of type `totp`, or the second factor that the user
//! set up in the console. If a user has a second factor, credentials of type `totp` do not count, and the user can enter a recovery code in place of
//! a passcode.

use crate::account::{self, AccountState};
use crate::ask::SecretAsk;
use crate::generated::HashKey;
use crate::passkey::{Assertion, Ceremony};
use crate::refuse::Refusal;
use crate::second_factor::{Code, CodeUse, check_code};
use crate::totp::{right_steps, step_at};
use crate::view::View;
use enfilade_facts::Clocks;
use enfilade_facts::limits::{SECOND_FACTOR_SECRET_BYTES, TOTP_SECRET_BYTES_MIN};
use enfilade_facts::tables::{BlobId, SealedSecret, SecondFactor, SecretDigest};
use enfilade_facts::vocabulary::{Authid, UserId};
use std::borrow::Cow;

/// The length of a sealed secret, in bytes: nonce, secret and tag.
const DECOY_BYTES: usize = 12 + SECOND_FACTOR_SECRET_BYTES + 16;

/// A passcode that is right and was not used before. The passcode counts only after its use was committed.
#[derive(Clone, Debug)]
pub struct Passcode {
    pub(crate) authid: Authid,
    pub(crate) user: UserId,
    matched: Vec<(BlobId, u64)>,
    own: Option<OwnCode>,
}

/// The use of a code of the user's second factor. `secret` identifies the second factor.
#[derive(Clone, Debug)]
struct OwnCode {
    secret: SealedSecret,
    used: CodeUse,
}

impl Passcode {
    /// The user.
    pub fn user(&self) -> &UserId {
        &self.user
    }

    /// The credentials that accept the passcode, each with the time step of the passcode. The step must be committed for each of these credentials.
    pub fn matched(&self) -> &[(BlobId, u64)] {
        &self.matched
    }

    /// Whether the passcode is a code of the user's second factor. If so, its use must be committed in the record of the second factor.
    pub fn is_of_second_factor(&self) -> bool {
        self.own.is_some()
    }

    /// The record of the user's second factor after the use of the passcode.
    ///
    /// # Errors
    /// When the passcode does not belong to this second factor, or was used before.
    pub fn used_in(&self, row: Option<&SecondFactor>) -> Result<SecondFactor, Refusal> {
        let row = row.filter(|row| row.is_confirmed());
        let (own, row) = self.own.as_ref().zip(row).ok_or_else(|| self.refuse(CHANGED))?;
        match row.secret == own.secret {
            true => own.used.after(row).ok_or_else(|| self.refuse_used()),
            false => Err(self.refuse(CHANGED)),
        }
    }

    /// Checks that the use of the passcode was committed, and that the record of this use still exists. When a credential is deleted or changed, the
    /// record of its last use is also deleted.
    pub(crate) fn check_used(&self, view: &View<'_>) -> Result<(), Refusal> {
        if let Some(own) = &self.own {
            let row = view.second_factor(&self.user)?.filter(|row| row.secret == own.secret);
            let is_used = row.is_some_and(|row| own.used.is_recorded(&row));
            return if is_used { Ok(()) } else { Err(self.refuse(CHANGED)) };
        }
        if view.second_factor(&self.user)?.is_some() {
            return Err(self.refuse(CHANGED));
        }
        for (id, step) in &self.matched {
            if view.used_step(id)?.is_none_or(|used| used < *step) {
                return Err(self.refuse(
                    "the credential with the passcode's secret was changed or deleted during the login",
                ));
            }
        }
        Ok(())
    }

    fn refuse(&self, why: &'static str) -> Refusal {
        Refusal::WrongPasscode { authid: self.authid.clone(), why }
    }

    /// The refusal of a passcode that was used before.
    pub fn refuse_used(&self) -> Refusal {
        self.refuse(USED)
    }
}

const CHANGED: &str =
    "the second factor was removed or changed during the login, or the use of the passcode was not stored";
const WRONG: &str =
    "the passcode is wrong or too old; compare the clocks of this server and of the user's device";
const USED: &str = "this passcode was used before; wait for the next passcode";

/// Checks a passcode. `ask.secret` is the passcode. A credential of type `totp` accepts the passcode of the present time step, and the passcodes of
/// the `previous` time steps before the present one. `key` decrypts the second factor.
///
/// # Errors
/// When there is no such user, the user is disabled, expired or locked, or the passcode is wrong or was used.
pub fn check_passcode(
    view: &enfilade_facts::View<'_>,
    now: Clocks,
    ask: &SecretAsk,
    previous: u64,
    key: &HashKey,
) -> Result<Passcode, Refusal> {
    let view = &View::new(view);
    let authid = ask.authid.clone();
    let account = match account::ids_of(view, &authid)? {
        Some((user, None)) => AccountState::of(view, &authid, user, None)?,
        _ => None,
    };
    let factor = account.as_ref().map(|account| view.second_factor(&account.id)).transpose()?.flatten();
    let own = check_own(now, ask, account.as_ref(), factor.as_ref(), key);
    let stored = match &account {
        Some(account) if factor.is_none() => view.totp_credentials(&account.id)?,
        _ => Vec::new(),
    };
    let (mut matched, mut is_used, mut is_usable) = (Vec::new(), false, false);
    let step = step_at(now.unix_seconds);
    let steps_of =
        |secret: &[u8]| right_steps(secret, ask.secret.reveal(), step.saturating_sub(previous)..=step);
    for (id, text) in &stored {
        let Some(secret) = secret_of(text) else { continue };
        is_usable = true;
        let used = view.used_step(id)?;
        let right = steps_of(&secret);
        is_used |= right.iter().any(|step| used >= Some(*step));
        matched.extend(right.into_iter().rfind(|step| used < Some(*step)).map(|step| (*id, step)));
    }
    if !is_usable {
        // This computation takes as long as the check for a user with a credential of type `totp`. So the time does not reveal which users have such
        // a credential.
        let _ = steps_of(&[0; 20]);
    }
    let account = account.ok_or_else(|| Refusal::Unknown(authid.clone()))?;
    account.check(view, now)?;
    account.check_lock(now)?;
    let passcode = Passcode { authid, user: account.id, matched, own: None };
    match (factor, own) {
        (Some(factor), Code::Right(used)) => {
            return Ok(Passcode { own: Some(OwnCode { secret: factor.secret, used }), ..passcode });
        }
        (Some(_), Code::Used) => return Err(passcode.refuse_used()),
        (Some(_), Code::Wrong) => return Err(passcode.refuse(WRONG)),
        (None, _) => {}
    }
    match () {
        () if !passcode.matched.is_empty() => Ok(passcode),
        () if is_used => Err(passcode.refuse_used()),
        () if is_usable => Err(passcode.refuse(WRONG)),
        () => Err(passcode.refuse("the user has no credential of type totp with a secret in base32")),
    }
}

/// Checks a code of the user's second factor. For a user without a second factor, this function does the same work, so that the time does not reveal
/// which users have a second factor.
fn check_own(
    now: Clocks,
    ask: &SecretAsk,
    account: Option<&AccountState>,
    factor: Option<&SecondFactor>,
    key: &HashKey,
) -> Code {
    let user = account.map_or(UserId::from_bytes([0; 16]), |account| account.id);
    let decoy = || SecondFactor {
        secret: SealedSecret(vec![0; DECOY_BYTES]),
        begun_at: 0,
        confirmed_at: None,
        used_step: 0,
        recovery: Vec::new(),
        passkeys: Vec::new(),
    };
    let row = factor.map_or_else(|| Cow::Owned(decoy()), Cow::Borrowed);
    check_code(key, &user, &row, &ask.secret, now.unix_seconds)
}

/// An answer of an authenticator. The answer takes the place of a code.
#[derive(Clone, Debug)]
pub struct PasskeyAsk {
    /// The answer.
    pub assertion: Assertion,
    /// The challenge of the page.
    pub challenge: [u8; 32],
    /// The origin of the page.
    pub origin: String,
    /// When the receipt from which the challenge was computed expires, in seconds since the epoch.
    pub until: i64,
}

/// Checks the answer of an authenticator. The result counts as a passcode of the user's second factor.
///
/// # Errors
/// When there is no such user, the user is disabled, expired or locked, the passkey is not a passkey of the user, or the answer is wrong or was used.
pub fn check_passkey(
    view: &enfilade_facts::View<'_>,
    now: Clocks,
    authid: &Authid,
    ask: &PasskeyAsk,
) -> Result<Passcode, Refusal> {
    let view = &View::new(view);
    let account = match account::ids_of(view, authid)? {
        Some((user, None)) => AccountState::of(view, authid, user, None)?,
        _ => None,
    };
    let account = account.ok_or_else(|| Refusal::Unknown(authid.clone()))?;
    account.check(view, now)?;
    account.check_lock(now)?;
    let passcode = Passcode { authid: authid.clone(), user: account.id, matched: Vec::new(), own: None };
    let factor = view.second_factor(&account.id)?;
    let known = factor.as_ref().and_then(|factor| {
        let passkey = factor.passkeys.iter().find(|passkey| passkey.id.0 == ask.assertion.id)?;
        Some((factor, passkey))
    });
    let (factor, passkey) = known.ok_or_else(|| passcode.refuse("the user has no such passkey"))?;
    let ceremony = Ceremony { challenge: ask.challenge, origin: &ask.origin };
    let counter = ask.assertion.check(passkey, &ceremony).map_err(|why| passcode.refuse(why))?;
    let used = CodeUse::Passkey {
        id: passkey.id.clone(),
        counter,
        challenge: SecretDigest(ask.challenge),
        until: ask.until,
        now: now.unix_seconds,
    };
    match used.after(factor) {
        Some(_) => Ok(Passcode { own: Some(OwnCode { secret: factor.secret.clone(), used }), ..passcode }),
        None => Err(passcode.refuse_used()),
    }
}

/// Whether the user has a second factor, or a credential that can accept passcodes.
pub(crate) fn has_secret(view: &View<'_>, user: &UserId) -> Result<bool, Refusal> {
    Ok(view.second_factor(user)?.is_some()
        || view.totp_credentials(user)?.iter().any(|(_, text)| secret_of(text).is_some()))
}

/// The secret in a blob: base32 (RFC 4648) with or without padding. `None` if the text is not base32, or if the secret is too short.
fn secret_of(text: &str) -> Option<Vec<u8>> {
    let (mut secret, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for byte in text.trim_end_matches('=').bytes() {
        let digit = match byte.to_ascii_uppercase() {
            letter @ b'A'..=b'Z' => letter - b'A',
            digit @ b'2'..=b'7' => digit - b'2' + 26,
            _ => return None,
        };
        bits = bits << 5 | u32::from(digit);
        count += 5;
        if count >= 8 {
            count -= 8;
            secret.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    (secret.len() >= TOTP_SECRET_BYTES_MIN).then_some(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_base32_and_not_short() {
        let ten = [b'a'; 10].to_vec();
        for text in ["MFQWCYLBMFQWCYLB", "mfqwcylbmfqwcylb", "MFQWCYLBMFQWCYLB========"] {
            assert_eq!(secret_of(text), Some(ten.clone()), "{text}");
        }
        let other = [0xd6, 0xf9, 0xdf, 0x7c, 0x01, 0x10, 0xc8, 0x53, 0x1d, 0x09];
        assert_eq!(secret_of("234567ABCDEFGHIJ"), Some(other.to_vec()));
        for text in ["", "=", "A", "MFQWCYLBMFQWCYL", "MFQWCYLBMFQWCYL1", "MFQW CYLB MFQW CYLB", "ä"] {
            assert_eq!(secret_of(text), None, "{text}");
        }
    }
}
