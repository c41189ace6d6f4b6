//! Generated secrets. They cannot be guessed, so a fast keyed hash is enough. Because this hash is fast, the server need not compute slow hashes for
//! these secrets when its memo is empty after a restart.
//!
//! The secrets of this server have the form `enf_<27 base62 characters: 160 random bits>_<6 base62 characters: CRC-32 of the rest>`, so that a
//! scanner recognises a leaked secret.

use aws_lc_rs::{constant_time, hmac};
use enfilade_facts::vocabulary::CredentialId;

/// The number of random bytes in a secret.
pub const SECRET_RANDOM_BYTES: usize = 20;

const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Returns the secret that encodes the bytes of `random`.
pub fn generate(random: [u8; SECRET_RANDOM_BYTES]) -> String {
    let body = format!("enf_{}", base62(&random, 27));
    let sum = crc32(body.as_bytes());
    format!("{body}_{}", base62(&sum.to_be_bytes(), 6))
}

/// Whether a secret has a form that machines generate from at least 120 random bits. There are three such forms: the form of [`generate`]; a version
/// 4 UUID with 122 random bits (RFC 9562 §5.4), as Proxmox generates; and 64 random bytes in base64url, as Keystone generates. The form does not
/// prove that a machine generated the secret, because a person can choose a secret of such a form.
pub(crate) fn is_generated(secret: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(secret) else { return false };
    is_ours(text) || is_uuid(text) || is_keystones(text)
}

/// Whether the text is 64 bytes in base64url: 86 characters. The last character encodes only two bits, so only four characters are possible there.
fn is_keystones(text: &str) -> bool {
    text.len() == 86
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
        && text.ends_with(['A', 'Q', 'g', 'w'])
}

fn is_ours(text: &str) -> bool {
    let Some((body, sum)) = text.rsplit_once('_') else { return false };
    let digits = body.strip_prefix("enf_").unwrap_or_default();
    digits.len() == 27
        && digits.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && base62(&crc32(body.as_bytes()).to_be_bytes(), 6) == sum
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            14 => byte == b'4',
            19 => matches!(byte, b'8' | b'9' | b'a' | b'b' | b'A' | b'B'),
            _ => byte.is_ascii_hexdigit(),
        })
}

/// Writes a big-endian number as `digits` digits in base 62.
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

/// CRC-32 as in zip and Ethernet (polynomial 0xEDB88320), computed bit by bit. The function need not be fast, because it is rarely called.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    })
}

/// The key of the fast hash. It is stored in a file of its own, never in the facts.
pub struct HashKey(hmac::Key);

impl HashKey {
    /// Creates the key from the 32 bytes of the key file.
    pub fn new(bytes: &[u8; 32]) -> Self {
        HashKey(hmac::Key::new(hmac::HMAC_SHA256, bytes))
    }

    /// The keyed hash of a secret. The hash is stored instead of the secret.
    pub fn digest(&self, credential: &CredentialId, secret: &[u8]) -> [u8; 32] {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(b"enfilade token secret 1\0");
        context.update(credential.bytes());
        context.update(secret);
        let mut digest = [0; 32];
        digest.copy_from_slice(context.sign().as_ref());
        digest
    }

    /// A value that identifies this key without revealing it.
    pub fn check_value(&self) -> [u8; 16] {
        let sum = hmac::sign(&self.0, b"enfilade token key check 1\0");
        let mut check = [0; 16];
        check.iter_mut().zip(sum.as_ref()).for_each(|(to, from)| *to = *from);
        check
    }

    /// Derives a key for another purpose. `self` cannot be computed from the derived key.
    pub(crate) fn derived(&self, purpose: &[u8]) -> [u8; 32] {
        let sum = hmac::sign(&self.0, purpose);
        let mut key = [0; 32];
        key.iter_mut().zip(sum.as_ref()).for_each(|(to, from)| *to = *from);
        key
    }

    /// Whether the digest is the keyed hash of the secret. The comparison takes constant time.
    pub fn matches(&self, credential: &CredentialId, secret: &[u8], digest: &[u8; 32]) -> bool {
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
    fn only_forms_that_machines_generate_count_as_generated() {
        let keystones = format!("{}-_w", "aB3".repeat(28)).split_off(1);
        let [no_end, padded] = ["x", "w=="].map(|end| format!("{}{end}", "a".repeat(85)));
        for good in [generate([7; 20]).as_str(), "550e8400-e29b-41d4-a716-446655440000", &keystones] {
            assert!(is_generated(good.as_bytes()), "{good}");
            for at in [0, 3, 14, 19, 35] {
                let mut other = good.as_bytes().to_vec();
                other[at] = b'!';
                assert!(!is_generated(&other), "{good} {at}");
            }
            assert!(!is_generated(&good.as_bytes()[1..]));
        }
        let summed = |body: &str| format!("{body}_{}", base62(&crc32(body.as_bytes()).to_be_bytes(), 6));
        let (short, signs) = (format!("enf_{}", "a".repeat(26)), format!("enf_{}", "!".repeat(27)));
        for bad in [
            "",
            "enf__",
            "correct horse",
            // A UUID of version 1, and a UUID of a variant that RFC 9562 does not describe.
            "550e8400-e29b-11d4-a716-446655440000",
            "550e8400-e29b-41d4-0716-446655440000",
            "\u{ff}",
            &summed(&short),
            &summed(&signs),
            &no_end,
            &padded,
        ] {
            assert!(!is_generated(bad.as_bytes()), "{bad}");
        }
    }

    #[test]
    fn numbers_in_base_62_are_those_of_plain_division() {
        let plain = |mut number: u128| {
            let mut digits = [b'0'; 22];
            for digit in digits.iter_mut().rev() {
                *digit = BASE62[(number % 62) as usize];
                number /= 62;
            }
            String::from_utf8(digits.to_vec()).unwrap()
        };
        for number in [0, 61, 62, 255, 256, 3843, 3844, u128::from(u64::MAX), 7 << 100, u128::MAX] {
            assert_eq!(base62(&number.to_be_bytes(), 22), plain(number));
        }
    }

    #[test]
    fn debug_output_shows_no_key() {
        assert_eq!(format!("{:?}", HashKey::new(&[1; 32])), "HashKey");
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
        assert_eq!(key.check_value(), HashKey::new(&[1; 32]).check_value());
        assert_ne!(key.check_value(), HashKey::new(&[2; 32]).check_value());
    }
}
