//! ACME HTTP-01 challenges, as certbot and lego write them into a directory (RFC 8555 §8.3).

use super::bounded;
use std::path::Path;

/// The greatest size of a file, in bytes. The file contains a key authorization, which is much shorter: two words of base64.
const BYTES_MAX: u64 = 4096;

/// The content of the file of a token; `None` if the file does not exist or is not a regular file.
pub fn read(directory: &Path, token: &str) -> Option<Vec<u8>> {
    bounded::read(&directory.join(token), BYTES_MAX).ok()
}
