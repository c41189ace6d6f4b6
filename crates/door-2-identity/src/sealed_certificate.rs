//! Certificates with their keys, encrypted for the other members of a fleet with AES-256-GCM. The key is derived from the key of API tokens, which
//! all members have. The text `of` (name and version of the certificate) is authenticated together with the certificate, so that an attacker cannot
//! replace the certificate by another certificate.

use crate::HashKey;
use crate::sealed;

pub use crate::sealed::{NotSealed, SecretBytes};

const PURPOSE: &[u8] = b"enfilade certificates for members 1\0";

/// Encrypts a certificate with its key, for all members that have the key `by`. `of` is the name and the version of the certificate.
///
/// # Errors
/// When the encryption fails, or the system returns no random bytes.
pub fn seal_certificate(by: &HashKey, of: &str, pem: &[u8]) -> Result<Vec<u8>, NotSealed> {
    sealed::seal(by, PURPOSE, of.as_bytes(), pem)
}

/// Decrypts a certificate that [`seal_certificate`] encrypted with the same name and version.
///
/// # Errors
/// [`NotSealed`].
pub fn open_certificate(by: &HashKey, of: &str, sealed: &[u8]) -> Result<SecretBytes, NotSealed> {
    sealed::open(by, PURPOSE, of.as_bytes(), sealed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_members_read_a_certificate_and_only_under_its_own_name() {
        let by = |byte: u8| HashKey::new(&[byte; 32]);
        let sealed = seal_certificate(&by(7), "a.pem 1", b"the key").unwrap();
        let open = |key: u8, of: &str, sealed: &[u8]| open_certificate(&by(key), of, sealed).ok();
        assert_eq!(open(7, "a.pem 1", &sealed).unwrap().as_slice(), b"the key");
        assert_eq!(open(8, "a.pem 1", &sealed), None, "another fleet");
        assert_eq!(open(7, "b.pem 1", &sealed), None, "another name");
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert_eq!(open(7, "a.pem 1", &changed), None, "byte {at} is changed");
            assert_eq!(open(7, "a.pem 1", &sealed[..at]), None, "cut off at byte {at}");
        }
        assert!(!sealed.windows(7).any(|window| window == b"the key"));
        assert_ne!(seal_certificate(&by(7), "a.pem 1", b"the key").unwrap(), sealed);
    }
}
