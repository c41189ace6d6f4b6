//! The blocks of PEM files, and base64 (RFC 7468). The library for PEM would copy and decode all blocks of a file. With this module, the caller
//! decodes only the blocks that it needs. At a start, the server needs only the first certificate of each file.

use std::io::BufRead as _;

/// The blocks of a PEM file, not decoded.
pub(crate) struct Blocks<'p>(pub(crate) &'p [u8]);

const BEGIN: &[u8] = b"-----BEGIN ";
const END: &[u8] = b"-----END ";
const DASHES: &[u8] = b"-----";

type Block<'p> = (&'p [u8], &'p [u8]);

impl<'p> Blocks<'p> {
    pub(crate) fn next(&mut self) -> Result<Option<Block<'p>>, &'static str> {
        let Some((_, rest)) = split(self.0, BEGIN) else { return Ok(None) };
        let (label, rest) = split(rest, DASHES).ok_or("a PEM block has no end")?;
        let (inside, rest) = split(rest, END).ok_or("a PEM block has no end")?;
        let (end, rest) = split(rest, DASHES).ok_or("a PEM block has no end")?;
        self.0 = rest;
        match label == end {
            true => Ok(Some((label, inside))),
            false => Err("the BEGIN and END lines of a PEM block have different labels"),
        }
    }
}

/// The bytes before and after the first occurrence of `mark`, which begins with a dash.
fn split<'b>(bytes: &'b [u8], mark: &[u8]) -> Option<(&'b [u8], &'b [u8])> {
    let mut rest = bytes;
    loop {
        // `skip_until` uses `memchr`, which compares many bytes at once.
        let passed = rest.skip_until(b'-').ok().filter(|passed| *passed > 0)?;
        let at = bytes.len() - rest.len() - 1;
        let here = bytes.get(at..)?;
        if here.starts_with(mark) {
            return Some((bytes.get(..at)?, here.get(mark.len()..)?));
        }
        // The search reached the end without finding a dash.
        if rest.is_empty() && passed > 0 && here.first() != Some(&b'-') {
            return None;
        }
    }
}

const SPACE: u8 = 0xfe;
const NONE: u8 = 0xff;

/// The 6-bit value of each base64 character.
#[expect(
    clippy::indexing_slicing,
    reason = "the table is computed at compile time, when only indexing is possible"
)]
const VALUES: [u8; 256] = {
    let mut values = [NONE; 256];
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut n = 0;
    while n < 64 {
        values[letters[n] as usize] = n as u8;
        n += 1;
    }
    values[b' ' as usize] = SPACE;
    values[b'\t' as usize] = SPACE;
    values[b'\r' as usize] = SPACE;
    values[b'\n' as usize] = SPACE;
    values
};

fn value(letter: u8) -> u8 {
    VALUES.get(usize::from(letter)).copied().unwrap_or(NONE)
}

/// The value of each base64 character, shifted to the position of the character in a group of four. For all other characters, the value is [`BAD`].
#[expect(
    clippy::indexing_slicing,
    reason = "the tables are computed at compile time, when only indexing is possible"
)]
static SHIFTED: [[u32; 256]; 4] = {
    let mut tables = [[BAD; 256]; 4];
    let mut letter = 0;
    while letter < 256 {
        let value = VALUES[letter] as u32;
        if value < 64 {
            tables[0][letter] = value << 18;
            tables[1][letter] = value << 12;
            tables[2][letter] = value << 6;
            tables[3][letter] = value;
        }
        letter += 1;
    }
    tables
};

/// A bit that no group of four base64 characters has.
const BAD: u32 = 1 << 24;

/// The 24 bits of a group of four base64 characters. The result contains [`BAD`] if one of the characters is not a base64 character.
fn word([a, b, c, d]: [u8; 4]) -> u32 {
    let [first, second, third, last] = &SHIFTED;
    let of = |table: &[u32; 256], letter: u8| table.get(usize::from(letter)).copied().unwrap_or(BAD);
    of(first, a) | of(second, b) | of(third, c) | of(last, d)
}

/// The number of base64 characters in a line of PEM (RFC 7468 §2).
const LINE: usize = 64;

/// The first line of `base64`, and the bytes after this line.
fn line(base64: &[u8]) -> (&[u8], &[u8]) {
    let end = match base64.get(LINE) {
        Some(b'\n') => LINE,
        _ => base64.iter().position(|byte| *byte == b'\n').unwrap_or(base64.len()),
    };
    let (line, rest) = base64.split_at_checked(end).unwrap_or((base64, &[]));
    (line, rest.get(1..).unwrap_or_default())
}

/// Decodes base64. The running time can depend on the content. This reveals no secret, because only certificates and encrypted keys are decoded here.
pub(crate) fn decode(base64: &[u8], into: &mut Vec<u8>) -> Result<(), &'static str> {
    // The buffer has room for the whole result from the start, and is truncated at the end.
    into.resize(base64.len() / 4 * 3 + 3, 0);
    let (mut bits, mut held, mut padding) = (0_u32, 0_u32, 0_u32);
    let (mut rest, mut written) = (base64, 0);
    while !rest.is_empty() {
        let (mut letters, further) = line(rest);
        rest = further;
        // Decodes eight characters at once, as long as all eight are base64 characters.
        if held == 0 && padding == 0 {
            let (eights, _) = letters.as_chunks::<8>();
            let (sixes, _) = into.get_mut(written..).unwrap_or_default().as_chunks_mut::<6>();
            let mut done = 0;
            for ([a, b, c, d, e, f, g, h], six) in eights.iter().zip(sixes) {
                let (high, low) = (word([*a, *b, *c, *d]), word([*e, *f, *g, *h]));
                if (high | low) & BAD != 0 {
                    break;
                }
                let [_, _, bytes @ ..] = (u64::from(high) << 24 | u64::from(low)).to_be_bytes();
                *six = bytes;
                done += 1;
            }
            written += done * 6;
            letters = letters.get(done * 8..).unwrap_or_default();
        }
        for letter in letters {
            match value(*letter) {
                SPACE => {}
                NONE if *letter == b'=' && held >= 2 => padding += 1,
                NONE => return Err("a PEM block is not base64"),
                _ if padding > 0 => return Err("a PEM block is not base64"),
                sextet => {
                    bits = bits << 6 | u32::from(sextet);
                    held += 1;
                    if held == 4 {
                        let [_, bytes @ ..] = bits.to_be_bytes();
                        written += put(into, written, &bytes);
                        (bits, held) = (0, 0);
                    }
                }
            }
        }
    }
    match (held, padding) {
        (0, 0) => {}
        (2, 2) => written += put(into, written, &[(bits >> 4) as u8]),
        (3, 1) => written += put(into, written, &[(bits >> 10) as u8, (bits >> 2) as u8]),
        _ => return Err("a PEM block is not base64"),
    }
    into.truncate(written);
    Ok(())
}

fn put(into: &mut [u8], at: usize, bytes: &[u8]) -> usize {
    into.iter_mut().skip(at).zip(bytes).for_each(|(place, byte)| *place = *byte);
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::prelude::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn base64_in_lines_of_any_length_is_decoded_as_a_library_decodes_it(
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
            length in prop_oneof![Just(64), 1_usize..100],
            end in prop::sample::select(vec!["\n", "\r\n", " \n\t"]),
        ) {
            let text = BASE64_STANDARD.encode(&bytes);
            let lines: Vec<&str> = text.as_bytes().chunks(length).map(|line| str::from_utf8(line).unwrap()).collect();
            let mut decoded = b"an earlier result".to_vec();
            prop_assert_eq!(decode(lines.join(end).as_bytes(), &mut decoded), Ok(()));
            prop_assert_eq!(&decoded, &bytes);
        }

        #[test]
        fn a_character_that_is_not_base64_is_refused(
            bytes in proptest::collection::vec(any::<u8>(), 1..200),
            at: prop::sample::Index,
            wrong in any::<u8>().prop_filter("not base64", |wrong| value(*wrong) == NONE && *wrong != b'='),
        ) {
            let mut text = BASE64_STANDARD.encode(&bytes).into_bytes();
            let at = at.index(text.len());
            text[at] = wrong;
            prop_assert!(decode(&text, &mut Vec::new()).is_err());
        }
    }
}
