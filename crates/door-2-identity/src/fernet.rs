//! Fernet tokens in Keystone's form: their content ([`payload`]), the signed frame ([`frame`]), and the keys ([`KeyRing`]).
//!
//! Tokens are not stored. The content of a token was true when the token was issued, but may no longer be true. So at each use, the token is judged
//! on the current facts.

mod assertion;
pub mod frame;
pub mod payload;
pub mod sealed_keys;

pub use assertion::AssertionPublicKey;

use assertion::AssertionKey;
use aws_lc_rs::cipher::{AES_128, PaddedBlockDecryptingKey, PaddedBlockEncryptingKey, UnboundCipherKey};
use aws_lc_rs::hmac;
use std::fmt;

/// The number of bytes of a key. The first half of the key signs, the second half encrypts.
pub const KEY_BYTES: usize = 32;

/// One key, ready for use.
struct Key {
    /// The number that is the name of the key's file: the staged key has 0, the primary key has the highest number.
    index: u32,
    signing: hmac::Key,
    decrypting: PaddedBlockDecryptingKey,
    encrypting: PaddedBlockEncryptingKey,
}

/// The keys of a repository, the primary key first, because the primary key signed most tokens.
pub struct KeyRing {
    keys: Vec<Key>,
    /// The ring with the keys of receipts. A receipt proves some methods of a login (`login.rs`). `None` if this ring itself contains the keys of
    /// receipts.
    receipts: Option<Box<KeyRing>>,
    /// The keys of assertions, in the order of `keys`, from which they are derived. Empty in the ring of receipts.
    assertions: Vec<AssertionKey>,
}

/// Why the keys cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    /// There is no key.
    #[error(
        "there is no Fernet key: restore `keys/` from the backup; run `enfilade keys init` only if the keys are lost or were never created"
    )]
    Empty,
    /// The library refused a key.
    #[error("Fernet key {0} cannot be used, because the encryption library rejects the key")]
    Refused(u32),
}

impl KeyRing {
    /// The keys of a repository with their numbers. The key with the highest number is the primary key.
    ///
    /// # Errors
    /// [`RingError`].
    pub fn new(keys: &[(u32, &[u8; KEY_BYTES])]) -> Result<Self, RingError> {
        let of_receipts: Vec<_> =
            keys.iter().map(|(index, bytes)| (*index, derived_key(bytes, RECEIPT))).collect();
        let of_receipts: Vec<_> = of_receipts.iter().map(|(index, bytes)| (*index, bytes)).collect();
        let mut by_number = keys.to_vec();
        by_number.sort_by_key(|(index, _)| std::cmp::Reverse(*index));
        let assertions = by_number
            .into_iter()
            .filter_map(|(_, bytes)| AssertionKey::of(&derived_key(bytes, ASSERTION)))
            .collect();
        Ok(KeyRing { receipts: Some(Box::new(Self::of(&of_receipts)?)), assertions, ..Self::of(keys)? })
    }

    fn of(keys: &[(u32, &[u8; KEY_BYTES])]) -> Result<Self, RingError> {
        let key = |(index, bytes): &(u32, &[u8; KEY_BYTES])| {
            let refused = |_| RingError::Refused(*index);
            let (signing, encrypting) = bytes.split_at(KEY_BYTES / 2);
            let cipher = || UnboundCipherKey::new(&AES_128, encrypting).map_err(refused);
            Ok(Key {
                index: *index,
                signing: hmac::Key::new(hmac::HMAC_SHA256, signing),
                decrypting: PaddedBlockDecryptingKey::cbc_pkcs7(cipher()?).map_err(refused)?,
                encrypting: PaddedBlockEncryptingKey::cbc_pkcs7(cipher()?).map_err(refused)?,
            })
        };
        let mut keys = keys.iter().map(key).collect::<Result<Vec<_>, _>>()?;
        // Keystone's order: from the highest number down, the staged key last.
        keys.sort_by_key(|key| std::cmp::Reverse(key.index));
        if keys.is_empty() {
            Err(RingError::Empty)
        } else {
            Ok(KeyRing { keys, receipts: None, assertions: Vec::new() })
        }
    }

    /// The keys of receipts. Each key of receipts is derived from a key of tokens, and differs from this key of tokens. So a receipt is never
    /// accepted as a token, and a token is never accepted as a receipt.
    pub fn receipts(&self) -> Option<&KeyRing> {
        self.receipts.as_deref()
    }

    /// Signs an assertion with the primary key. `payload` is a JSON object. `None` if there is no key.
    pub fn sign_assertion(&self, payload: &str) -> Option<String> {
        self.assertions.first().map(|key| key.sign(payload))
    }

    /// The public keys for checking all assertions that can be valid. The public key that belongs to the primary key comes first.
    pub fn assertion_keys(&self) -> Vec<AssertionPublicKey> {
        self.assertions.iter().map(|key| key.public().clone()).collect()
    }

    /// The number of the primary key, which signs new tokens.
    pub fn primary(&self) -> Option<u32> {
        self.keys.first().map(|key| key.index)
    }
}

/// The purpose for which [`derived_key`] derives the keys of receipts.
const RECEIPT: &[u8] = b"enfilade receipt";
/// The purpose for which [`derived_key`] derives the seeds of the keys of assertions.
const ASSERTION: &[u8] = b"enfilade assertion";

/// Derives a key for the purpose `purpose` from a key of tokens. The derived key is a keyed hash, from which the key of tokens cannot be computed.
fn derived_key(bytes: &[u8; KEY_BYTES], purpose: &[u8]) -> [u8; KEY_BYTES] {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, bytes), purpose);
    let mut key = [0; KEY_BYTES];
    key.iter_mut().zip(tag.as_ref()).for_each(|(to, byte)| *to = *byte);
    key
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.keys.iter().map(|key| key.index)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_receipts_differ_from_each_other_and_from_the_keys_of_tokens() {
        let keys = [[1; KEY_BYTES], [2; KEY_BYTES]];
        let [one, other] = keys.map(|key| derived_key(&key, RECEIPT));
        let halves = |key: [u8; KEY_BYTES]| <[[u8; KEY_BYTES / 2]; 2]>::try_from(key.as_chunks().0).unwrap();
        let all: Vec<_> = [keys[0], keys[1], one, other].into_iter().flat_map(halves).collect();
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        // The two halves of each key of tokens are equal in this test, so the eight halves of the four keys have only six different values.
        assert_eq!(different.len(), 6, "{all:?}");
    }
}
