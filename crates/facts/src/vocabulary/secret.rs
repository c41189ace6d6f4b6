//! Secrets that prove an identity. They are never printed, and their memory is wiped when they are dropped.

use crate::limits;
use std::fmt;
use zeroize::Zeroizing;

/// A token secret or a password, 1 to 511 bytes without NUL.
#[derive(Clone)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// The secret with these bytes. `None` if the length is 0 or over 511 bytes, or if there is a NUL byte. The C library would cut the secret at the
    /// NUL byte.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let fits = (1..=limits::SECRET_BYTES_MAX).contains(&bytes.len()) && !bytes.contains(&0);
        fits.then(|| Secret(Zeroizing::new(bytes.to_vec())))
    }

    /// The bytes of the secret, for a comparison with a verifier.
    pub fn reveal(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}
