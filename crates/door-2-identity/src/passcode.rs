//! Passcodes: time-based one-time passwords (RFC 6238, as in Keystone: HMAC-SHA-1, steps of 30 seconds, six digits). The secret is the blob of a
//! credential of type `totp`.

use crate::account::{self, AccountState};
use crate::ask::SecretAsk;
use crate::refuse::Refusal;
use crate::view::View;
use aws_lc_rs::{constant_time, hmac};
use enfilade_facts::Clocks;
use enfilade_facts::limits::TOTP_SECRET_BYTES_MIN;
use enfilade_facts::tables::BlobId;
use enfilade_facts::vocabulary::{Authid, UserId};

/// The length of a time step, in seconds.
const STEP_SECONDS: i64 = 30;
/// The number of possible passcodes, which have six digits.
const PASSCODES: u32 = 1_000_000;

/// A passcode that is right and was not used before. The passcode counts only after its use was committed.
#[derive(Clone, Debug)]
pub struct Passcode {
    pub(crate) authid: Authid,
    pub(crate) user: UserId,
    matched: Vec<(BlobId, u64)>,
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

    /// Checks that the use of the passcode was committed, and that the record of this use still exists. If a credential is deleted or changed, the
    /// record of its last use is deleted, too.
    pub(crate) fn check_used(&self, view: &View<'_>) -> Result<(), Refusal> {
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

const USED: &str = "this passcode was used before; wait for the next passcode";

/// Checks a passcode. `ask.secret` is the passcode. Passcodes of the present time step and of `previous` steps before it are right.
///
/// # Errors
/// When there is no such user, the user is disabled or expired, or the passcode is wrong or was used.
pub fn check_passcode(
    view: &enfilade_facts::View<'_>,
    now: Clocks,
    ask: &SecretAsk,
    previous: u64,
) -> Result<Passcode, Refusal> {
    let view = &View::new(view);
    let authid = ask.authid.clone();
    let account = match account::ids_of(view, &authid)? {
        Some((user, None)) => AccountState::of(view, &authid, user, None)?,
        _ => None,
    };
    let stored = match &account {
        Some(account) => view.totp_credentials(&account.id)?,
        None => Vec::new(),
    };
    let (mut matched, mut is_used, mut is_usable) = (Vec::new(), false, false);
    let step = u64::try_from(now.unix_seconds.div_euclid(STEP_SECONDS)).unwrap_or(0);
    for (id, text) in &stored {
        let Some(secret) = secret_of(text) else { continue };
        is_usable = true;
        let used = view.used_step(id)?;
        let right = steps_of(&secret, ask, step.saturating_sub(previous)..=step);
        is_used |= right.iter().any(|step| used >= Some(*step));
        matched.extend(right.into_iter().rfind(|step| used < Some(*step)).map(|step| (*id, step)));
    }
    if !is_usable {
        // This computation takes as long as the check for a user with a credential of type `totp`. So the time does not reveal which users have such
        // a credential.
        let _ = steps_of(&[0; 20], ask, step.saturating_sub(previous)..=step);
    }
    let account = account.ok_or_else(|| Refusal::Unknown(authid.clone()))?;
    account.check(view, now)?;
    account.check_lock(now)?;
    let passcode = Passcode { authid, user: account.id, matched };
    match () {
        () if !passcode.matched.is_empty() => Ok(passcode),
        () if is_used => Err(passcode.refuse_used()),
        () if is_usable => Err(passcode.refuse(
            "the passcode is wrong or too old; compare the clocks of this server and of the user's device",
        )),
        () => Err(passcode.refuse("the user has no credential of type totp with a secret in base32")),
    }
}

/// Whether the user has a credential that can accept passcodes.
pub(crate) fn has_secret(view: &View<'_>, user: &UserId) -> Result<bool, Refusal> {
    Ok(view.totp_credentials(user)?.iter().any(|(_, text)| secret_of(text).is_some()))
}

/// The steps for which the passcode is right. All steps are compared, in constant time.
fn steps_of(secret: &[u8], ask: &SecretAsk, steps: std::ops::RangeInclusive<u64>) -> Vec<u64> {
    let is_right = |step: &u64| {
        let expected = passcode_of(secret, *step);
        constant_time::verify_slices_are_equal(expected.as_bytes(), ask.secret.reveal()).is_ok()
    };
    steps.filter(is_right).collect()
}

/// The passcode of a time step (RFC 4226, section 5.3).
fn passcode_of(secret: &[u8], step: u64) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret);
    let tag = hmac::sign(&key, &step.to_be_bytes());
    let tag = tag.as_ref();
    let offset = usize::from(tag.last().copied().unwrap_or(0) & 0xf);
    let part = tag.get(offset..).and_then(|rest| rest.first_chunk::<4>()).copied().unwrap_or_default();
    format!("{:06}", (u32::from_be_bytes(part) & 0x7fff_ffff) % PASSCODES)
}

/// The secret in a blob: base32 (RFC 4648) with or without padding. `None` if it is no base32, or too short to be secret.
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
    use enfilade_facts::vocabulary::Secret;

    /// The last six digits of the test vectors for SHA-1 in appendix B of RFC 6238.
    #[test]
    fn published_passcodes_are_right() {
        let secret = secret_of("GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ").unwrap();
        assert_eq!(secret, b"12345678901234567890");
        for (seconds, expected) in [
            (59, "287082"),
            (1_111_111_109, "081804"),
            (1_111_111_111, "050471"),
            (1_234_567_890, "005924"),
            (2_000_000_000, "279037"),
            (20_000_000_000, "353130"),
        ] {
            assert_eq!(passcode_of(&secret, seconds / 30), expected, "{seconds}");
        }
    }

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

    #[test]
    fn only_the_whole_passcode_of_a_given_step_is_right() {
        let secret = b"12345678901234567890";
        let steps = |passcode: &str, steps| {
            let ask = SecretAsk {
                authid: "alice@local".parse().unwrap(),
                secret: Secret::new(passcode.as_bytes()).unwrap(),
            };
            steps_of(secret, &ask, steps)
        };
        assert_eq!(steps("287082", 0..=1), [1]);
        assert_eq!(steps("287082", 2..=3), []);
        for wrong in ["28708", "2870820", " 287082", "287083"] {
            assert_eq!(steps(wrong, 0..=3), [], "{wrong}");
        }
    }
}
