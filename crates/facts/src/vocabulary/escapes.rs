//! Percent-encoding (RFC 3986 §2.1) and hexadecimal digits. Libraries decode the texts. Some functions of this file refuse texts that the libraries
//! accept.

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use percent_encoding::percent_decode;

/// The decoded text; `None` if a `%` is not followed by two hexadecimal digits. The library would accept a `%` without two digits, so that two
/// different encoded texts could mean the same path.
pub fn percent_decoded(text: &[u8]) -> Option<Vec<u8>> {
    let is_escape =
        |rest: &[u8]| rest.first_chunk::<2>().is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
    if !text.split(|byte| *byte == b'%').skip(1).all(is_escape) {
        return None;
    }
    // The vector never grows, so a secret leaves no copy behind.
    let mut decoded = Vec::with_capacity(text.len());
    decoded.extend(percent_decode(text));
    Some(decoded)
}

/// The decoded text, in which a `%` that is not followed by two hexadecimal digits stays unchanged. Bytes that are not UTF-8 become U+FFFD.
pub fn percent_decoded_leniently(text: &str) -> String {
    percent_decode(text.as_bytes()).decode_utf8_lossy().into_owned()
}

/// The bytes of hexadecimal digits, upper or lower case; `None` if the text contains any other character, or an odd number of digits.
pub fn from_hex(digits: &str) -> Option<Vec<u8>> {
    HEXLOWER_PERMISSIVE.decode(digits.as_bytes()).ok()
}

/// The `N` bytes of a text that consists of twice as many lower-case hexadecimal digits; `None` for any other text.
pub fn from_lower_hex<const N: usize>(digits: &str) -> Option<[u8; N]> {
    HEXLOWER.decode(digits.as_bytes()).ok()?.try_into().ok()
}

/// The bytes as lower-case hexadecimal digits.
pub fn to_hex(bytes: &[u8]) -> String {
    HEXLOWER.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_escapes() {
        for (text, strict, lenient) in [
            ("", Some(""), ""),
            ("a%20b", Some("a b"), "a b"),
            ("%41%5a%5A", Some("AZZ"), "AZZ"),
            ("%25%34%31", Some("%41"), "%41"),
            ("%00", Some("\0"), "\0"),
            ("%2f%2F", Some("//"), "//"),
            ("a+b", Some("a+b"), "a+b"),
            ("%c3%BC", Some("ü"), "ü"),
            ("ü", Some("ü"), "ü"),
            ("%", None, "%"),
            ("%4", None, "%4"),
            ("%zz", None, "%zz"),
            ("%4g%41", None, "%4gA"),
            ("%+f", None, "%+f"),
            ("% 1", None, "% 1"),
            ("%-1", None, "%-1"),
            ("%%41", None, "%A"),
            ("%é1", None, "%é1"),
            ("a%2", None, "a%2"),
        ] {
            let expected = strict.map(|text| text.as_bytes().to_vec());
            assert_eq!(percent_decoded(text.as_bytes()), expected, "{text}");
            assert_eq!(percent_decoded_leniently(text), lenient, "{text}");
        }
        assert_eq!(percent_decoded(b"%ff"), Some(vec![0xff]));
        assert_eq!(percent_decoded_leniently("%ff%41"), "\u{fffd}A");
        let long = "%41".repeat(100_000);
        assert_eq!(percent_decoded(long.as_bytes()).map(|text| text.len()), Some(100_000));
    }

    #[test]
    fn odd_digits() {
        for (digits, either, lower) in [
            ("00ff", Some(vec![0, 255]), Some([0, 255])),
            ("00fF", Some(vec![0, 255]), None),
            ("AB12", Some(vec![171, 18]), None),
            ("", Some(vec![]), None),
            ("00ff00", Some(vec![0, 255, 0]), None),
            ("0", None, None),
            ("00f", None, None),
            ("00ff0", None, None),
            ("+0ff", None, None),
            ("-1ff", None, None),
            ("0x1f", None, None),
            (" 0ff", None, None),
            ("00f\0", None, None),
            ("00fé", None, None),
            ("00gf", None, None),
        ] {
            assert_eq!((from_hex(digits), from_lower_hex(digits)), (either, lower), "{digits}");
        }
        assert_eq!((to_hex(&[0, 255, 160]).as_str(), to_hex(&[]).as_str()), ("00ffa0", ""));
    }
}
