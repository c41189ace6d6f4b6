//! Percent-encoding (RFC 3986 §2.1) of names in URLs.

use std::fmt::Write as _;

/// Writes one name, percent-encoded (RFC 3986 §3.3). Characters that XML would escape again, such as `'` and `&`, are encoded too.
pub fn push_name(url: &mut String, name: &str) {
    // Most names need no encoding.
    if name.bytes().all(stays) {
        return url.push_str(name);
    }
    push_bytes(url, name.as_bytes());
}

/// Writes one name, percent-encoded. The name need not be UTF-8.
pub fn push_bytes(url: &mut String, name: &[u8]) {
    for byte in name {
        match *byte {
            plain if stays(plain) => url.push(char::from(plain)),
            other => {
                let _ = write!(url, "%{other:02X}");
            }
        }
    }
}

/// The bytes that need no encoding in a path (RFC 3986 §3.3).
fn stays(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$()*+,;=:@".contains(&byte)
}
