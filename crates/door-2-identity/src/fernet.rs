//! Fernet tokens in Keystone's form: their content ([`payload`]), the signed frame ([`frame`]), and the keys ([`KeyRing`]).
//!
//! Tokens are not stored. The content of a token says what was true when the token was issued. At each use, the token is judged on the current facts.

pub mod frame;
pub mod payload;

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

/// The keys of a repository, the primary first, because it signed most tokens.
pub struct KeyRing {
    keys: Vec<Key>,
    /// The ring with the keys of receipts. `None` if this ring itself contains the keys of receipts.
    receipts: Option<Box<KeyRing>>,
}

/// The keys cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    /// No key.
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
            keys.iter().map(|(index, bytes)| (*index, key_of_receipts(bytes))).collect();
        let of_receipts: Vec<_> = of_receipts.iter().map(|(index, bytes)| (*index, bytes)).collect();
        Ok(KeyRing { receipts: Some(Box::new(Self::of(&of_receipts)?)), ..Self::of(keys)? })
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
        if keys.is_empty() { Err(RingError::Empty) } else { Ok(KeyRing { keys, receipts: None }) }
    }

    /// The keys of receipts. Each is derived from a key of tokens and differs from it, so a receipt is never accepted as a token, nor a token as a
    /// receipt.
    pub fn receipts(&self) -> Option<&KeyRing> {
        self.receipts.as_deref()
    }

    /// The number of the primary key, which signs new tokens.
    pub fn primary(&self) -> Option<u32> {
        self.keys.first().map(|key| key.index)
    }
}

/// The key of receipts that belongs to a key of tokens: a keyed hash, from which the key of tokens cannot be computed.
fn key_of_receipts(bytes: &[u8; KEY_BYTES]) -> [u8; KEY_BYTES] {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, bytes), b"enfilade receipt");
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
        let [one, other] = keys.map(|key| key_of_receipts(&key));
        let halves = |key: [u8; KEY_BYTES]| <[[u8; KEY_BYTES / 2]; 2]>::try_from(key.as_chunks().0).unwrap();
        let all: Vec<_> = [keys[0], keys[1], one, other].into_iter().flat_map(halves).collect();
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        // Both halves of each plain key are alike.
        assert_eq!(different.len(), 6, "{all:?}");
    }
}
