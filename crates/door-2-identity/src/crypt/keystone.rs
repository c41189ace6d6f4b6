//! The forms of password hashes that Keystone has in addition to bcrypt: `$scrypt$ln=16,r=8,p=1$salt$digest` and
//! `$pbkdf2-sha512$rounds$salt$digest`. Salt and digest are in base64 without padding. In hashes of the second form, versions of Keystone before 30
//! wrote `.` instead of `+`, because they used passlib.
//!
//! In `$bcrypt-sha256$v=2,t=2b,r=12$salt$digest`, salt and digest are the salt and the digest of a bcrypt hash of cost `r`. The input of bcrypt is
//! not the secret, but the HMAC-SHA-256 of the secret, in base64. The key of the HMAC is the salt.

use super::HashRefused;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::{hmac, pbkdf2};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use enfilade_facts::limits;
use std::num::NonZeroU32;

/// The key derivation function and its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Scrypt { log_n: u8, r: u32, p: u32 },
    Pbkdf2 { rounds: NonZeroU32 },
}

/// A parsed hash.
pub(super) struct Kept {
    work: Work,
    salt: Vec<u8>,
    digest: Vec<u8>,
}

const SCRYPT: &str = "$scrypt$";
const PBKDF2: &str = "$pbkdf2-sha512$";
const BCRYPT_SHA256: &str = "$bcrypt-sha256$";

fn base64(text: &str, name: &'static str) -> Result<Vec<u8>, HashRefused> {
    STANDARD_NO_PAD.decode(text.replace('.', "+")).map_err(|_| HashRefused::Form(name))
}

/// Parses a number without leading zeros.
fn number<N: std::str::FromStr + ToString>(text: &str) -> Option<N> {
    text.parse::<N>().ok().filter(|number| number.to_string() == text)
}

/// Parses a hash, and checks its form and cost.
///
/// # Errors
/// When the hash cannot be used.
pub(super) fn read(fields: &[&str]) -> Result<Kept, HashRefused> {
    let (work, salt, digest, name, length) = match fields {
        ["", "scrypt", params, salt, digest] => (scrypt(params)?, salt, digest, SCRYPT, 32),
        ["", "pbkdf2-sha512", rounds, salt, digest] => (rounds_of(rounds)?, salt, digest, PBKDF2, 64),
        _ => return Err(HashRefused::Scheme),
    };
    let (salt, digest) = (base64(salt, name)?, base64(digest, name)?);
    // A truncated digest would match more secrets.
    match digest.len() == length && (8..=64).contains(&salt.len()) {
        true => Ok(Kept { work, salt, digest }),
        false => Err(HashRefused::Form(name)),
    }
}

fn scrypt(params: &str) -> Result<Work, HashRefused> {
    let form = || HashRefused::Form(SCRYPT);
    let parts: Vec<&str> = params.split(',').collect();
    let [ln, r, p] = parts.as_slice() else { return Err(form()) };
    let log_n: u8 = ln.strip_prefix("ln=").and_then(number).ok_or_else(form)?;
    let r: u32 = r.strip_prefix("r=").and_then(number).ok_or_else(form)?;
    let p: u32 = p.strip_prefix("p=").and_then(number).ok_or_else(form)?;
    let bytes = 1_u64.checked_shl(log_n.into()).and_then(|n| n.checked_mul(128 * u64::from(r)));
    match bytes {
        _ if log_n == 0 || r == 0 || p == 0 => Err(form()),
        Some(bytes) if log_n < 32 && bytes <= limits::HASH_MEMORY_BYTES_MAX && p <= 4 => {
            Ok(Work::Scrypt { log_n, r, p })
        }
        _ => Err(HashRefused::Cost(format!(
            "the parameters are {params}; at most {} bytes of memory (128 * 2^ln * r) and p=4 are allowed",
            limits::HASH_MEMORY_BYTES_MAX
        ))),
    }
}

/// Returns two parts of the bcrypt hash in a hash of the form `$bcrypt-sha256$`: its cost, and its salt with its digest.
///
/// # Errors
/// When the hash does not have this form.
pub(super) fn bcrypt_of(params: &str, salt: &str, digest: &str) -> Result<(String, String), HashRefused> {
    let cost = ["v=2,t=2b,r=", "v=2,t=2a,r="].iter().find_map(|begin| params.strip_prefix(begin));
    let cost: u8 = cost.and_then(number).ok_or(HashRefused::Form(BCRYPT_SHA256))?;
    match (salt.len(), digest.len()) {
        (22, 31) => Ok((format!("{cost:02}"), format!("{salt}{digest}"))),
        _ => Err(HashRefused::Form(BCRYPT_SHA256)),
    }
}

/// Whether a hash of the form `$bcrypt-sha256$` was made from this secret. This function is slow on purpose.
pub(super) fn matches_bcrypt(secret: &[u8], hash: &str) -> bool {
    let fields: Vec<&str> = hash.split('$').collect();
    let ["", "bcrypt-sha256", params, salt, digest] = *fields else { return false };
    let Ok((cost, rest)) = bcrypt_of(params, salt, digest) else { return false };
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, salt.as_bytes()), secret);
    bcrypt::verify(STANDARD.encode(tag.as_ref()), &format!("$2b${cost}${rest}")).unwrap_or(false)
}

fn rounds_of(text: &str) -> Result<Work, HashRefused> {
    let rounds: NonZeroU32 = number(text).ok_or(HashRefused::Form(PBKDF2))?;
    match rounds.get() <= limits::PBKDF2_ROUNDS_MAX {
        true => Ok(Work::Pbkdf2 { rounds }),
        false => Err(HashRefused::Cost(format!(
            "the hash has {rounds} rounds, at most {} are allowed",
            limits::PBKDF2_ROUNDS_MAX
        ))),
    }
}

impl Kept {
    /// Whether the hash was made from this secret. This function is slow on purpose.
    pub(super) fn matches(&self, secret: &[u8]) -> bool {
        match self.work {
            Work::Pbkdf2 { rounds } => {
                pbkdf2::verify(pbkdf2::PBKDF2_HMAC_SHA512, rounds, &self.salt, secret, &self.digest).is_ok()
            }
            Work::Scrypt { log_n, r, p } => {
                let mut digest = [0; 32];
                // In its classic mode, yescrypt computes the same function as scrypt.
                let params = yescrypt::Params::new(yescrypt::Mode::Classic, 1 << log_n, r, p);
                let done =
                    params.and_then(|params| yescrypt::yescrypt(secret, &self.salt, &params, &mut digest));
                done.is_ok() && verify_slices_are_equal(&digest, &self.digest).is_ok()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{check, decoy_of};
    use super::*;
    use enfilade_facts::vocabulary::Secret;

    /// Hashes of the secret `correct horse`, made with Keystone 30.0.0. The last hash is in the form of passlib.
    const FROM_KEYSTONE: [&str; 3] = [
        "$scrypt$ln=16,r=8,p=1$w4vpDPVkylKe023bLvpVXQ$pPC5FEBx2byF7s5FJchKhHkoACeSVNiqMcZ58heUCgA",
        "$pbkdf2-sha512$25000$lXbTmu90b9GbGUBqFUSxYQ$rVNfJTGshSWsinPyNh8fq9Dtp7InA1BGbdBpPaf6AhzSLJ+aDvaKUWFnSyJKScEVnRzeHmPYcJkGyZqlODYq1g",
        "$pbkdf2-sha512$25000$lXbTmu90b9GbGUBqFUSxYQ$rVNfJTGshSWsinPyNh8fq9Dtp7InA1BGbdBpPaf6AhzSLJ.aDvaKUWFnSyJKScEVnRzeHmPYcJkGyZqlODYq1g",
    ];

    /// Hashes that were made with Python's bcrypt and hmac, as Keystone 30 makes them. The first is of the secret `correct horse`, the second of a
    /// secret of 100 `x`.
    const BCRYPTS: [&str; 2] = [
        "$bcrypt-sha256$v=2,t=2b,r=4$Uy.tE3iH3eKm..AY5/T9Su$QIvr4B17DSYH3J4owjiEc2vVzhhCM4i",
        "$bcrypt-sha256$v=2,t=2b,r=4$Uy.tE3iH3eKm..AY5/T9Su$Qhdk8Ob5WGldttdvja50YAWFWHKGTuG",
    ];

    #[test]
    fn bcrypt_of_a_digest_is_of_the_whole_secret() {
        let matches =
            |secret: &str, hash: &str| super::super::matches(&Secret::new(secret.as_bytes()).unwrap(), hash);
        let long = "x".repeat(100);
        for (secret, hash) in ["correct horse", &long].into_iter().zip(BCRYPTS) {
            assert!(check(hash).is_ok() && matches(secret, hash), "{hash}");
            assert!(!matches(&format!("{secret}x"), hash), "{hash}");
            let decoy = decoy_of(hash).unwrap();
            assert!(
                check(&decoy).is_ok() && decoy.len() == hash.len() && !matches(secret, &decoy),
                "{decoy}"
            );
            for length in 0..hash.len() {
                let cut = &hash[..length];
                assert!(check(cut).is_err() && !matches(secret, cut), "cut to {length}: {hash}");
            }
        }
        for (params, is_expensive) in [
            ("v=2,t=2b,r=15", true),
            ("v=1,t=2b,r=4", false),
            ("v=2,t=2x,r=4", false),
            ("v=2,t=2b,r=04", false),
        ] {
            let refused = check(&BCRYPTS[0].replace("v=2,t=2b,r=4", params)).unwrap_err();
            assert_eq!(matches!(refused, HashRefused::Cost(_)), is_expensive, "{params}: {refused}");
        }
    }

    fn read_text(hash: &str) -> Result<Kept, HashRefused> {
        read(&hash.split('$').collect::<Vec<_>>())
    }

    #[test]
    fn hashes_of_keystone_match() {
        for hash in FROM_KEYSTONE {
            let kept = read_text(hash).unwrap();
            assert!(kept.matches(b"correct horse"), "{hash}");
            assert!(!kept.matches(b"correct horsE"), "{hash}");
            for length in 0..hash.len() {
                assert!(read_text(&hash[..length]).is_err(), "cut to {length}: {hash}");
            }
        }
    }

    #[test]
    fn expensive_and_invalid_ones_are_refused() {
        let digest = "A".repeat(43);
        for (params, is_expensive) in [
            ("ln=17,r=8,p=1", true),
            ("ln=16,r=8,p=9", true),
            ("ln=63,r=8,p=1", true),
            ("ln=255,r=8,p=1", true),
            ("ln=0,r=8,p=1", false),
            ("ln=16,r=0,p=1", false),
            ("ln=16,r=8,p=0", false),
            ("ln=016,r=8,p=1", false),
            ("ln=16,r=8", false),
            ("r=8,ln=16,p=1", false),
        ] {
            let refused =
                read_text(&format!("$scrypt${params}$w4vpDPVkylKe023bLvpVXQ${digest}")).err().unwrap();
            assert_eq!(matches!(refused, HashRefused::Cost(_)), is_expensive, "{params}: {refused}");
        }
        for rounds in ["0", "1000001", "x", "+1"] {
            let hash = format!("$pbkdf2-sha512${rounds}$w4vpDPVkylKe023bLvpVXQ${}", "A".repeat(86));
            assert!(read_text(&hash).is_err(), "{rounds}");
        }
    }
}
