//! Fernet tokens, as Keystone makes and reads them: what stands in one ([`payload`]), the frame around it ([`frame`]), and the
//! keys that sign ([`KeyRing`]).
//!
//! Nothing of a token is stored. What it says was true when it was made; whether it still holds is judged on the facts.

pub mod frame;
pub mod payload;

use aws_lc_rs::cipher::{AES_128, PaddedBlockDecryptingKey, PaddedBlockEncryptingKey, UnboundCipherKey};
use aws_lc_rs::hmac;
use std::fmt;

/// How many bytes a key has: half of it signs, half encrypts.
pub const KEY_BYTES: usize = 32;

/// One key, ready for use.
struct Key {
    /// The name of its file: 0 is staged, the highest is the primary.
    index: u32,
    signing: hmac::Key,
    decrypting: PaddedBlockDecryptingKey,
    encrypting: PaddedBlockEncryptingKey,
}

/// The keys of a repository, the primary first: what it signs is what comes most.
pub struct KeyRing {
    keys: Vec<Key>,
}

/// The keys cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    /// There is none.
    #[error("there is no key; run `enfilade keys init`")]
    Empty,
    /// The library refused one.
    #[error("key {0} cannot be used by the library")]
    Refused(u32),
}

impl KeyRing {
    /// Of the keys of a repository, each under its number. The highest is the primary.
    ///
    /// # Errors
    /// [`RingError`].
    pub fn new(keys: &[(u32, &[u8; KEY_BYTES])]) -> Result<Self, RingError> {
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
        // As the original tries them: from the highest number down, the staged one last.
        keys.sort_by_key(|key| std::cmp::Reverse(key.index));
        if keys.is_empty() { Err(RingError::Empty) } else { Ok(KeyRing { keys }) }
    }

    /// The number of the key that signs.
    pub fn primary(&self) -> Option<u32> {
        self.keys.first().map(|key| key.index)
    }
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.keys.iter().map(|key| key.index)).finish()
    }
}
