//! Secrets we generate: they cannot be guessed, so a fast keyed hash is enough and a restart costs nothing.
//!
//! Their form is `enf_<27 base62 characters: 160 random bits>_<6 base62 characters: CRC-32 of what is before>`,
//! so that a scanner can tell a leaked one from a look-alike.

use aws_lc_rs::{constant_time, hmac};
use enfilade_facts::vocabulary::CredentialId;

/// How many random bytes a secret is made of.
pub const SECRET_RANDOM_BYTES: usize = 20;

const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The secret made of these random bytes.
pub fn generate(random: [u8; SECRET_RANDOM_BYTES]) -> String {
    let body = format!("enf_{}", base62(&random, 27));
    let sum = crc32(body.as_bytes());
    format!("{body}_{}", base62(&sum.to_be_bytes(), 6))
}

/// A big-endian number in `digits` digits of base 62.
fn base62(number: &[u8], digits: usize) -> String {
    let mut number = number.to_vec();
    let mut text = vec![0; digits];
    for digit in text.iter_mut().rev() {
        let mut rest = 0u32;
        for byte in &mut number {
            let value = rest * 256 + u32::from(*byte);
            *byte = (value / 62) as u8;
            rest = value % 62;
        }
        *digit = BASE62.get(rest as usize).copied().unwrap_or(b'0');
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// CRC-32 as zip and Ethernet have it (polynomial 0xEDB88320), bit by bit: it runs once per secret made.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    })
}

/// The key of the fast hash. It lives in a file of its own, never among the facts.
pub struct HashKey(hmac::Key);

impl HashKey {
    /// From the key file's 32 bytes.
    pub fn new(bytes: &[u8; 32]) -> Self {
        HashKey(hmac::Key::new(hmac::HMAC_SHA256, bytes))
    }

    /// What is stored of a secret.
    pub fn digest(&self, credential: &CredentialId, secret: &[u8]) -> [u8; 32] {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(b"enfilade token secret 1\0");
        context.update(credential.bytes());
        context.update(secret);
        let mut digest = [0; 32];
        digest.copy_from_slice(context.sign().as_ref());
        digest
    }

    /// Whether the secret is the one the digest was made of, in constant time.
    pub(crate) fn matches(&self, credential: &CredentialId, secret: &[u8], digest: &[u8; 32]) -> bool {
        constant_time::verify_slices_are_equal(&self.digest(credential, secret), digest).is_ok()
    }
}

impl std::fmt::Debug for HashKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HashKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_secrets_have_the_documented_form() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        let zero = generate([0; 20]);
        let high = generate([0xff; 20]);
        assert_eq!(zero.len(), 38);
        assert_eq!(high.len(), 38);
        assert!(zero.starts_with("enf_000000000000000000000000000_"), "{zero}");
        assert_ne!(zero, high);
        let (body, sum) = high.rsplit_once('_').unwrap();
        assert_eq!(base62(&crc32(body.as_bytes()).to_be_bytes(), 6), sum);
    }

    #[test]
    fn a_digest_belongs_to_one_credential() {
        let key = HashKey::new(&[1; 32]);
        let (a, b) = (CredentialId::from_bytes([1; 16]), CredentialId::from_bytes([2; 16]));
        let digest = key.digest(&a, b"secret");
        assert!(key.matches(&a, b"secret", &digest));
        assert!(!key.matches(&b, b"secret", &digest));
        assert!(!key.matches(&a, b"secreT", &digest));
        assert!(!HashKey::new(&[2; 32]).matches(&a, b"secret", &digest));
    }
}
