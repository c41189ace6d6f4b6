//! Certificates with their keys, encrypted for the other members of a fleet with AES-256-GCM. The key is derived from the key of API tokens, which
//! all members have. The text `of` (name and version of the certificate) is authenticated, too, so that an attacker cannot replace a certificate by
//! another one.
//!
//! ```text
//! nonce 12 | the encrypted certificate | tag 16
//! ```

use crate::HashKey;
use aws_lc_rs::aead::{AES_256_GCM, Aad, Nonce, RandomizedNonceKey};
use zeroize::Zeroizing;

/// Bytes that are overwritten when they are dropped.
pub type SecretBytes = Zeroizing<Vec<u8>>;

const NONCE_BYTES: usize = 12;

/// The certificate was encrypted with another key, or under another name or version, or was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the certificate was not encrypted with the key of this fleet, or was changed")]
pub struct NotSealed;

fn key(by: &HashKey) -> Result<RandomizedNonceKey, NotSealed> {
    let key = Zeroizing::new(by.derived(b"enfilade certificates for members 1\0"));
    RandomizedNonceKey::new(&AES_256_GCM, &*key).map_err(|_| NotSealed)
}

/// Encrypts a certificate with its key, for all members that have the key `by`. `of` is the name and the version of the certificate.
///
/// # Errors
/// When the library refuses, or there are no random bytes.
pub fn seal_certificate(by: &HashKey, of: &str, pem: &[u8]) -> Result<Vec<u8>, NotSealed> {
    let mut text = pem.to_vec();
    let nonce = key(by)?.seal_in_place_append_tag(Aad::from(of.as_bytes()), &mut text);
    let nonce = nonce.map_err(|_| NotSealed)?;
    Ok([nonce.as_ref().as_slice(), &text].concat())
}

/// Decrypts a certificate that [`seal_certificate`] encrypted with the same name and version.
///
/// # Errors
/// [`NotSealed`].
pub fn open_certificate(by: &HashKey, of: &str, sealed: &[u8]) -> Result<SecretBytes, NotSealed> {
    let (nonce, text) = sealed.split_first_chunk::<NONCE_BYTES>().ok_or(NotSealed)?;
    let mut text = Zeroizing::new(text.to_vec());
    let opened = key(by)?.open_in_place(Nonce::from(nonce), Aad::from(of.as_bytes()), &mut text);
    let length = opened.map_err(|_| NotSealed)?.len();
    text.truncate(length);
    Ok(text)
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
