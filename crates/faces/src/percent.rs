//! Percent-encoding (RFC 3986 §2.1) of names in URLs.

use enfilade_facts::vocabulary::percent_decoded;
use std::fmt::Write as _;

/// Decodes a name or value of `application/x-www-form-urlencoded`. A plus sign is a space. `None` for a `%` without two hexadecimal digits, and for
/// bytes that are not UTF-8.
pub fn form_decoded(text: &[u8]) -> Option<String> {
    let spaced: Vec<u8> = text.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
    String::from_utf8(percent_decoded(&spaced)?).ok()
}

/// The names and values of `application/x-www-form-urlencoded`; `None` if a name or value cannot be decoded.
pub fn form_pairs(text: &[u8]) -> Option<Vec<(String, String)>> {
    let parts = text.split(|byte| *byte == b'&').filter(|part| !part.is_empty());
    let pair = |part: &[u8]| {
        let mut halves = part.splitn(2, |byte| *byte == b'=').map(form_decoded);
        Some((halves.next()??, halves.next().unwrap_or(Some(String::new()))?))
    };
    parts.map(pair).collect()
}

/// Writes a value of `application/x-www-form-urlencoded`, such as a value in a query. [`form_pairs`] can read the result.
pub fn push_form_value(url: &mut String, value: &str) {
    for byte in value.bytes() {
        match byte {
            plain if plain.is_ascii_alphanumeric() || b"-._~/".contains(&plain) => {
                url.push(char::from(plain))
            }
            other => push_encoded(url, other),
        }
    }
}

fn push_encoded(url: &mut String, byte: u8) {
    let _ = write!(url, "%{byte:02X}");
}

/// Writes one name, percent-encoded (RFC 3986 §3.3). The characters `'` and `&` are also encoded, because they would need an escape in XML.
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
            other => push_encoded(url, other),
        }
    }
}

/// The bytes that need no encoding in a path (RFC 3986 §3.3).
fn stays(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$()*+,;=:@".contains(&byte)
}
