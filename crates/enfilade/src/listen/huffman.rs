//! String literals in HTTP/2 header blocks, plain or in the Huffman code (RFC 7541 §5.2): their lengths, and whether they contain a `#`.

/// A string literal, still encoded.
pub(super) struct Text<'b> {
    pub(super) bytes: &'b [u8],
    pub(super) is_huffman: bool,
}

/// The Huffman code (RFC 7541, appendix B). Each entry contains a code length in bits, and the number of characters with codes of this length. The
/// codes of one length are consecutive numbers. The codes of the next length follow them.
const CODES: [(u32, u64); 21] = [
    (5, 10),
    (6, 26),
    (7, 32),
    (8, 6),
    (10, 5),
    (11, 3),
    (12, 2),
    (13, 6),
    (14, 2),
    (15, 3),
    (19, 3),
    (20, 8),
    (21, 13),
    (22, 26),
    (23, 29),
    (24, 12),
    (25, 4),
    (26, 15),
    (27, 19),
    (28, 29),
    (30, 4),
];
/// `#` is the first character with a code of twelve bits.
const FRAGMENT: (u32, u64) = (12, 0);

impl Text<'_> {
    pub(super) fn has_fragment(&self) -> Option<bool> {
        match self.is_huffman {
            false => Some(self.bytes.contains(&b'#')),
            true => self.decoded().try_fold(false, |has, code| Some(has || code? == FRAGMENT)),
        }
    }

    /// The decoded length of the string, in bytes. If `is_wanted` is `false`, the caller does not need the decoded length. Then the encoded length is
    /// returned, to save time.
    pub(super) fn length(&self, is_wanted: bool) -> Option<usize> {
        match self.is_huffman && is_wanted {
            false => Some(self.bytes.len()),
            true => self.decoded().try_fold(0, |count, code| code.map(|_| count + 1)),
        }
    }

    /// The characters of the string. Each character is given by the length of its code, and by its index among the codes of that length. `None` for
    /// an invalid code.
    fn decoded(&self) -> impl Iterator<Item = Option<(u32, u64)>> {
        let (mut bytes, mut bits, mut held) = (self.bytes.iter(), 0_u64, 0_u32);
        std::iter::from_fn(move || {
            while held <= 56
                && let Some(byte) = bytes.next()
            {
                bits |= u64::from(*byte) << (56 - held);
                held += 8;
            }
            // The last byte is padded with fewer than eight bits, and all of them are 1 (RFC 7541 §5.2).
            if held < 8 && bits.leading_ones() >= held {
                return None;
            }
            let found = code(bits).filter(|(length, _)| *length <= held);
            match found {
                Some((length, _)) => (bits, held) = (bits << length, held - length),
                None => held = 0,
            }
            if found.is_none() {
                bits = 0;
                bytes = [].iter();
            }
            Some(found)
        })
    }
}

/// The character at the start of these bits, as the length of its code, and its index among the codes of that length.
fn code(bits: u64) -> Option<(u32, u64)> {
    let (mut first, mut before) = (0, 0);
    for (length, count) in CODES {
        first <<= length - before;
        before = length;
        let at = (bits >> (64 - length)).wrapping_sub(first);
        if at < count {
            return Some((length, at));
        }
        first += count;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_known() {
        let all: u64 = CODES.iter().map(|(_, count)| count).sum();
        // There is one code for each byte, and one code for the end of the string (EOS).
        assert_eq!(all, 257);
        assert_eq!(code(u64::MAX), Some((30, 3)));
        assert_eq!(code(0xffa << 52), Some(FRAGMENT));
    }
}
