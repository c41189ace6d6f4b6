//! The second factor of a user: the secret of an authenticator app, and recovery codes.
//!
//! The store contains the secret encrypted, with a key that is derived from the key of API tokens. A recovery code is stored as a keyed digest. So
//! somebody who has a copy of the store, but not this key, cannot compute a code.

use crate::generated::HashKey;
use crate::sealed::{self, NotSealed, SecretBytes};
use crate::totp;
use aws_lc_rs::{constant_time, hmac};
use enfilade_facts::limits::{
    PASSKEY_ANSWERS_MAX, RECOVERY_CODE_DIGITS, RECOVERY_CODES, SECOND_FACTOR_SECRET_BYTES,
    SECOND_FACTOR_STEPS,
};
use enfilade_facts::tables::{AnsweredChallenge, Octets, SealedSecret, SecondFactor, SecretDigest};
use enfilade_facts::vocabulary::{Secret, UserId};
use std::fmt::Write as _;
use zeroize::Zeroizing;

const SECRET_PURPOSE: &[u8] = b"enfilade second factors 1\0";
const RECOVERY_PURPOSE: &[u8] = b"enfilade recovery codes 1\0";

/// The number of random bytes from which [`recovery_codes`] makes the codes.
pub const RECOVERY_RANDOM_BYTES: usize = RECOVERY_CODES * size_of::<u64>();

const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// The secret of an authenticator app. Its memory is wiped when it is dropped.
#[derive(Clone)]
pub struct FactorSecret(SecretBytes);

impl std::fmt::Debug for FactorSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FactorSecret")
    }
}

impl FactorSecret {
    /// Makes a secret from these random bytes.
    pub fn new(random: [u8; SECOND_FACTOR_SECRET_BYTES]) -> Self {
        FactorSecret(Zeroizing::new(random.to_vec()))
    }

    /// Encrypts the secret for the record of this user.
    ///
    /// # Errors
    /// When the encryption fails, or the system returns no random bytes.
    pub fn seal(&self, by: &HashKey, user: &UserId) -> Result<SealedSecret, NotSealed> {
        sealed::seal(by, SECRET_PURPOSE, user.bytes(), &self.0).map(SealedSecret)
    }

    /// Decrypts the secret in the record of this user.
    ///
    /// # Errors
    /// [`NotSealed`]: the secret was encrypted with another key or for another user, or was changed.
    pub fn open(by: &HashKey, user: &UserId, sealed: &SealedSecret) -> Result<Self, NotSealed> {
        sealed::open(by, SECRET_PURPOSE, user.bytes(), &sealed.0).map(FactorSecret)
    }

    /// The secret in base32 (RFC 4648) without padding, for people who type it.
    pub fn base32(&self) -> Zeroizing<String> {
        let (mut text, mut bits, mut count) = (Zeroizing::new(String::with_capacity(32)), 0_u32, 0);
        for byte in self.0.iter() {
            bits = bits << 8 | u32::from(*byte);
            count += 8;
            while count >= 5 {
                count -= 5;
                let digit = BASE32.get((bits >> count & 31) as usize).copied().unwrap_or(b'A');
                text.push(char::from(digit));
            }
        }
        text
    }

    /// The URI that authenticator apps read from a QR code. This function percent-encodes `issuer` and `account`.
    pub fn uri(&self, issuer: &str, account: &str) -> Zeroizing<String> {
        let (issuer, account) = (percent_encoded(issuer), percent_encoded(account));
        let secret = self.base32();
        Zeroizing::new(format!(
            "otpauth://totp/{issuer}:{account}?secret={}&issuer={issuer}&algorithm=SHA1&digits=6&period=30",
            *secret
        ))
    }
}

fn percent_encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'@' => {
                encoded.push(char::from(byte));
            }
            _ => {
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
    }
    encoded
}

/// Makes the recovery codes from random bytes. Each code has 16 digits.
pub fn recovery_codes(random: &[u8; RECOVERY_RANDOM_BYTES]) -> Vec<Secret> {
    let bound = 10_u64.pow(RECOVERY_CODE_DIGITS as u32);
    let code = |bytes: &[u8; 8]| {
        let text = Zeroizing::new(format!("{:016}", u64::from_be_bytes(*bytes) % bound));
        Secret::new(text.as_bytes())
    };
    random.as_chunks::<8>().0.iter().filter_map(code).collect()
}

/// The digest of a recovery code of this user.
pub fn recovery_digest(by: &HashKey, user: &UserId, code: &[u8]) -> SecretDigest {
    let key = Zeroizing::new(by.derived(RECOVERY_PURPOSE));
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &*key), &[user.bytes(), code].concat());
    let mut digest = SecretDigest([0; 32]);
    digest.0.copy_from_slice(tag.as_ref());
    digest
}

/// The use of a right code, or of a passkey.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CodeUse {
    /// The code of a time step.
    Step(u64),
    /// The recovery code with this digest.
    Recovery(SecretDigest),
    /// A passkey.
    Passkey {
        /// The id of the passkey.
        id: Octets,
        /// The counter of the authenticator.
        counter: u32,
        /// The challenge that was answered.
        challenge: SecretDigest,
        /// Until when the receipt from which the challenge was computed is valid, in seconds since the epoch.
        until: i64,
        /// The time of the use, in seconds since the epoch.
        now: i64,
    },
}

/// After the receipt from which a challenge was computed has expired, the challenge is remembered for this number of seconds, because the clocks of
/// the members of a fleet can differ.
const REMEMBERED_LONGER: i64 = 120;

impl CodeUse {
    /// The record after this use; `None` if the code was used before. For a passkey, `None` if the challenge was answered before, the counter of the
    /// authenticator did not grow, the record has no space for another challenge, or the record does not contain the passkey. A counter that is 0 in
    /// the record and in the answer is accepted, because some authenticators do not count.
    #[must_use]
    pub fn after(&self, row: &SecondFactor) -> Option<SecondFactor> {
        match self {
            CodeUse::Step(step) => {
                (row.used_step < *step).then(|| SecondFactor { used_step: *step, ..row.clone() })
            }
            CodeUse::Recovery(digest) => {
                let mut after = row.clone();
                after.recovery.retain(|known| known != digest);
                (after.recovery.len() < row.recovery.len()).then_some(after)
            }
            CodeUse::Passkey { id, counter, challenge, until, now } => {
                let mut after = row.clone();
                let passkey = after.passkeys.iter_mut().find(|passkey| passkey.id == *id)?;
                let has_grown = (passkey.counter, *counter) == (0, 0) || passkey.counter < *counter;
                passkey.answered.retain(|answered| *now <= answered.until.saturating_add(REMEMBERED_LONGER));
                let is_new = passkey.answered.iter().all(|answered| answered.challenge != *challenge);
                if !has_grown || !is_new || passkey.answered.len() >= PASSKEY_ANSWERS_MAX {
                    return None;
                }
                passkey.answered.push(AnsweredChallenge { challenge: *challenge, until: *until });
                (passkey.used_at, passkey.counter) = (*now, *counter);
                Some(after)
            }
        }
    }
}

impl CodeUse {
    /// Whether the record already contains this use.
    pub(crate) fn is_recorded(&self, row: &SecondFactor) -> bool {
        match self {
            CodeUse::Passkey { id, challenge, .. } => {
                let passkey = row.passkeys.iter().find(|passkey| passkey.id == *id);
                passkey.is_some_and(|passkey| {
                    passkey.answered.iter().any(|answered| answered.challenge == *challenge)
                })
            }
            code => code.after(row).is_none(),
        }
    }
}

/// The result of the check of a code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Code {
    /// The code is right, and was not used before.
    Right(CodeUse),
    /// The code of a time step was used before, or a later code was used.
    Used,
    /// The code is wrong, too old or too new.
    Wrong,
}

/// Checks a code of six digits or a recovery code. The code is compared with the code of each time step and with each recovery code, in constant
/// time. If the secret cannot be decrypted, every code of six digits is refused.
pub fn check_code(by: &HashKey, user: &UserId, row: &SecondFactor, shown: &Secret, now: i64) -> Code {
    let shown = shown.reveal();
    let secret = FactorSecret::open(by, user, &row.secret);
    let secret = secret.as_ref().map_or(&[][..], |secret| secret.0.as_slice());
    let step = totp::step_at(now);
    let steps = step.saturating_sub(SECOND_FACTOR_STEPS)..=step.saturating_add(SECOND_FACTOR_STEPS);
    let right = totp::right_steps(secret, shown, steps);
    let digest = recovery_digest(by, user, shown);
    let mut is_recovery = false;
    for known in &row.recovery {
        is_recovery |= constant_time::verify_slices_are_equal(&known.0, &digest.0).is_ok();
    }
    // If the code is right for several steps, the latest of these steps is recorded as used. So the same code cannot be used again for a later step.
    match right.last().filter(|_| !secret.is_empty()) {
        Some(step) if row.used_step < *step => Code::Right(CodeUse::Step(*step)),
        Some(_) => Code::Used,
        None if is_recovery => Code::Right(CodeUse::Recovery(digest)),
        None => Code::Wrong,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use enfilade_facts::tables::Passkey;
    use std::collections::BTreeSet;

    const SECRET: [u8; 20] = *b"12345678901234567890";

    fn by(byte: u8) -> HashKey {
        HashKey::new(&[byte; 32])
    }

    fn ann() -> UserId {
        UserId::from_bytes([1; 16])
    }

    fn row(used_step: u64) -> SecondFactor {
        SecondFactor {
            secret: FactorSecret::new(SECRET).seal(&by(7), &ann()).unwrap(),
            begun_at: 0,
            confirmed_at: Some(0),
            used_step,
            recovery: vec![recovery_digest(&by(7), &ann(), b"1234567890123456")],
            passkeys: Vec::new(),
        }
    }

    fn check(row: &SecondFactor, shown: &str, now: i64) -> Code {
        check_code(&by(7), &ann(), row, &Secret::new(shown.as_bytes()).unwrap(), now)
    }

    #[test]
    fn a_code_counts_one_step_before_and_after_its_own_and_once() {
        // 287082 is the code of step 1 (RFC 6238, appendix B).
        for (now, expected) in [
            (0, Code::Right(CodeUse::Step(1))),
            (59, Code::Right(CodeUse::Step(1))),
            (89, Code::Right(CodeUse::Step(1))),
            (90, Code::Wrong),
        ] {
            assert_eq!(check(&row(0), "287082", now), expected, "{now}");
        }
        assert_eq!(check(&row(1), "287082", 59), Code::Used);
        assert_eq!(check(&row(2), "287082", 59), Code::Used);
        let after = CodeUse::Step(1).after(&row(0)).unwrap();
        assert_eq!((after.used_step, CodeUse::Step(1).after(&after)), (1, None));
    }

    #[test]
    fn a_recovery_code_counts_once_and_only_for_its_user() {
        let used = CodeUse::Recovery(recovery_digest(&by(7), &ann(), b"1234567890123456"));
        assert_eq!(check(&row(9), "1234567890123456", 10_000), Code::Right(used.clone()));
        let after = used.after(&row(9)).unwrap();
        assert_eq!((after.recovery.len(), used.after(&after)), (0, None));
        assert_eq!(check(&after, "1234567890123456", 10_000), Code::Wrong);
        assert_eq!(check(&row(9), "1234567890123457", 10_000), Code::Wrong);
        let bob = UserId::from_bytes([2; 16]);
        let shown = Secret::new(b"1234567890123456").unwrap();
        assert_eq!(check_code(&by(7), &bob, &row(9), &shown, 10_000), Code::Wrong);
    }

    #[test]
    fn an_answer_of_a_passkey_counts_once_and_only_while_the_passkey_exists() {
        let passkey = Passkey { id: Octets(vec![1]), ..Passkey::default() };
        let with = |passkeys| SecondFactor { passkeys, ..row(0) };
        let answer = |challenge, counter, now| CodeUse::Passkey {
            id: Octets(vec![1]),
            counter,
            challenge: SecretDigest([challenge; 32]),
            until: now + 300,
            now,
        };
        // Two receipts that were issued in the same second have different challenges.
        let one = answer(1, 0, 1_000).after(&with(vec![passkey.clone()])).unwrap();
        let two = answer(2, 0, 1_000).after(&one).unwrap();
        assert_eq!((two.passkeys[0].used_at, two.passkeys[0].answered.len()), (1_000, 2));
        for (challenge, now) in [(1, 1_000), (2, 1_000), (1, 1_400)] {
            assert_eq!(answer(challenge, 0, now).after(&two), None, "{challenge} at {now}");
        }
        assert!(answer(1, 0, 1_000).is_recorded(&two) && !answer(3, 0, 1_000).is_recorded(&two));
        // The earlier answers are forgotten when their receipts can no longer be valid.
        let later = answer(3, 0, 2_000).after(&two).unwrap();
        assert_eq!(later.passkeys[0].answered.len(), 1);
        // If the passkey was removed, the use is refused, and it does not count as recorded.
        assert_eq!(answer(3, 0, 1_000).after(&with(Vec::new())), None);
        assert!(!answer(1, 0, 1_000).is_recorded(&with(Vec::new())));
        // The counter must grow, even if another login was stored in the meantime.
        let counted = with(vec![Passkey { counter: 5, ..passkey }]);
        assert!(
            answer(4, 6, 1_000).after(&counted).is_some() && answer(4, 5, 1_000).after(&counted).is_none()
        );
        let full = (0..PASSKEY_ANSWERS_MAX as u8)
            .fold(with(vec![Passkey { counter: 0, ..counted.passkeys[0].clone() }]), |row, n| {
                answer(n, 0, 1_000).after(&row).unwrap()
            });
        assert_eq!(answer(200, 0, 1_000).after(&full), None);
    }

    #[test]
    fn a_secret_that_cannot_be_decrypted_accepts_no_code() {
        let empty = totp::passcode_of(&[], 1);
        let lost = SecondFactor { secret: SealedSecret(Vec::new()), ..row(0) };
        let moved = SecondFactor {
            secret: FactorSecret::new(SECRET).seal(&by(7), &UserId::from_bytes([2; 16])).unwrap(),
            ..row(0)
        };
        for row in [&lost, &moved] {
            for code in [&*empty, "287082"] {
                assert_eq!(check(row, code, 59), Code::Wrong);
            }
        }
        let shown = Secret::new(b"287082").unwrap();
        assert_eq!(check_code(&by(8), &ann(), &row(0), &shown, 59), Code::Wrong, "another key");
    }

    #[test]
    fn the_store_does_not_show_the_secret_and_the_app_gets_it() {
        let row = row(0);
        assert!(!row.secret.0.windows(4).any(|window| window == &SECRET[..4]));
        let secret = FactorSecret::open(&by(7), &ann(), &row.secret).unwrap();
        assert_eq!(secret.base32().as_str(), "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ");
        assert_eq!(format!("{secret:?}"), "FactorSecret");
        assert_eq!(
            secret.uri("nas.lan", "Jörg:x@local").as_str(),
            "otpauth://totp/nas.lan:J%C3%B6rg%3Ax@local?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&issuer=nas.lan\
             &algorithm=SHA1&digits=6&period=30"
        );
    }

    #[test]
    fn recovery_codes_have_sixteen_digits_and_differ() {
        let mut random = [0; RECOVERY_RANDOM_BYTES];
        random.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at * 37) as u8);
        let codes = recovery_codes(&random);
        let texts: BTreeSet<&[u8]> = codes.iter().map(Secret::reveal).collect();
        assert_eq!((codes.len(), texts.len()), (RECOVERY_CODES, RECOVERY_CODES));
        assert!(texts.iter().all(|text| text.len() == 16 && text.iter().all(u8::is_ascii_digit)));
    }
}
