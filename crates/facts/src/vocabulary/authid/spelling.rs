//! The percent-encoding of names.

use super::super::{Word, percent_decoded};
use crate::limits;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, percent_encode};
use std::fmt;

/// The ASCII characters that an encoded name does not contain as they are: all characters except letters, digits, `-`, `_` and `.`.
const TO_ENCODE: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

fn encoded(text: &str) -> PercentEncode<'_> {
    percent_encode(text.as_bytes(), TO_ENCODE)
}

/// Encodes a text as [`encoded`] does. The text can come from a client, so it can have any length. If the text is longer than the longest name, it is
/// cut at that length, and `~` marks the cut. A `~` in the text itself is encoded.
fn encoded_start(text: &str) -> impl Iterator<Item = &str> {
    let end = text.char_indices().nth(limits::NAME_CHARS_MAX).map(|(end, _)| end);
    let start = end.and_then(|end| text.get(..end)).unwrap_or(text);
    encoded(start).chain(end.map(|_| "~"))
}

/// The parts of a name, percent-encoded, as one ASCII word.
pub(super) fn encoded_parts(name: &str, realm: &str, token: Option<&str>) -> Word {
    let token = token.into_iter().flat_map(|token| ["!"].into_iter().chain(encoded_start(token)));
    encoded_start(name).chain(["@%"]).chain(encoded_start(realm)).chain(token).collect()
}

/// Decodes a part of an encoded spelling; `None` if it contains a character that had to be encoded, a malformed escape, or bytes that are not UTF-8.
pub(super) fn decoded(part: &str) -> Option<String> {
    let is_encoded = |byte: u8| byte == b'%' || byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let bytes = part.bytes().all(is_encoded).then(|| percent_decoded(part.as_bytes()))??;
    String::from_utf8(bytes).ok()
}

/// The reason why an encoded spelling is refused.
pub(super) const ENCODED: &str = "expected only letters, digits, `-`, `_`, `.` and percent-encoded bytes, because `@%` marks a percent-encoded name";

/// The ASCII word for a text that a client sent as an id. It never contains `@` or `!`, so it is not the word of an authid.
pub fn word_of_id(text: &str) -> Word {
    encoded_start(text).collect()
}

/// Writes the parts as they are, or percent-encoded if they do not fit Proxmox's grammar.
pub(super) fn spell(
    f: &mut fmt::Formatter<'_>,
    is_plain: bool,
    name: &str,
    realm: &str,
    token: Option<&str>,
) -> fmt::Result {
    match is_plain {
        true => [name, "@", realm].into_iter().try_for_each(|part| f.write_str(part))?,
        false => write!(f, "{}@%{}", encoded(name), encoded(realm))?,
    }
    match token {
        None => Ok(()),
        Some(token) if is_plain => write!(f, "!{token}"),
        Some(token) => write!(f, "!{}", encoded(token)),
    }
}
