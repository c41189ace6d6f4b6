//! ACME HTTP-01 challenges, as certbot and lego write them into a directory (RFC 8555 §8.3).

use super::bounded;
use std::path::Path;

/// A key authorization is two words of base64; this is far more.
const BYTES_MAX: u64 = 4096;

/// The file of a token; `None` if it does not exist or is not a regular file.
pub fn read(directory: &Path, token: &str) -> Option<Vec<u8>> {
    bounded::read(&directory.join(token), BYTES_MAX).ok()
}
