//! Encrypts data with AES-256-GCM. The key is derived from the key of API tokens, which all servers with the same facts have. The derived key depends
//! on the purpose. The text `of` is authenticated together with the data. So an attacker cannot use encrypted data for another purpose or in another
//! record.
//!
//! ```text
//! nonce 12 | the encrypted data | tag 16
//! ```

use crate::generated::HashKey;
use aws_lc_rs::aead::{AES_256_GCM, Aad, Nonce, RandomizedNonceKey};
use zeroize::Zeroizing;

/// Bytes that are overwritten when they are dropped.
pub type SecretBytes = Zeroizing<Vec<u8>>;

const NONCE_BYTES: usize = 12;

/// The data were encrypted with another key, for another purpose or with another text `of`, or were changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the data were not encrypted with the key of this server or fleet, or were changed")]
pub struct NotSealed;

fn key(by: &HashKey, purpose: &[u8]) -> Result<RandomizedNonceKey, NotSealed> {
    let key = Zeroizing::new(by.derived(purpose));
    RandomizedNonceKey::new(&AES_256_GCM, &*key).map_err(|_| NotSealed)
}

/// Encrypts data. Each call uses new random bytes. So two calls with equal data give different results.
///
/// # Errors
/// When the encryption fails, or the system returns no random bytes.
pub(crate) fn seal(by: &HashKey, purpose: &[u8], of: &[u8], data: &[u8]) -> Result<Vec<u8>, NotSealed> {
    let mut text = data.to_vec();
    let nonce = key(by, purpose)?.seal_in_place_append_tag(Aad::from(of), &mut text);
    let nonce = nonce.map_err(|_| NotSealed)?;
    Ok([nonce.as_ref().as_slice(), &text].concat())
}

/// Decrypts data that [`seal`] encrypted with the same arguments.
///
/// # Errors
/// [`NotSealed`].
pub(crate) fn open(by: &HashKey, purpose: &[u8], of: &[u8], sealed: &[u8]) -> Result<SecretBytes, NotSealed> {
    let (nonce, text) = sealed.split_first_chunk::<NONCE_BYTES>().ok_or(NotSealed)?;
    let mut text = Zeroizing::new(text.to_vec());
    let opened = key(by, purpose)?.open_in_place(Nonce::from(nonce), Aad::from(of), &mut text);
    let length = opened.map_err(|_| NotSealed)?.len();
    text.truncate(length);
    Ok(text)
}
