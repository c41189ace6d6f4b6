//! Finds malformed fields in HTTP/2 header blocks that the HTTP library accepts without an error (RFC 9113 §8.3). The cases are a fragment in
//! `:path`, an empty `:scheme`, and pseudo-header fields in trailers. The library drops the fragment. Only the name and the length of each field are
//! parsed. A string is decoded only to get its length, or to find a `#`.

use super::huffman::Text;
use std::collections::VecDeque;

/// Frame types that carry fields, and their flags (RFC 9113 §6.2 and §6.10).
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const PRIORITY: u8 = 32;
const PREFACE: usize = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len();
/// The default limit of a frame (RFC 9113 §6.5.2). The server does not raise this limit.
const FRAME_BYTES_MAX: usize = 16 * 1024;
/// The maximum size of a header block. If a block is larger, the HTTP library ends the connection.
const BLOCK_BYTES_MAX: usize = 1 << 20;
/// The maximum size of the dynamic table. This is the default, which applies unless a server announces another size (RFC 9113 §6.5.2).
const TABLE_BYTES_MAX: usize = 4096;

/// Follows the frames that a client sends.
#[derive(Debug, Default)]
pub(super) struct Fields {
    /// The number of received bytes of the preface.
    preface: usize,
    head: [u8; 9],
    /// The number of received bytes of the present frame's header.
    headed: usize,
    /// The number of bytes of the present frame that have not been received yet.
    left: usize,
    /// The received part of the present frame, if frames of its type carry fields.
    payload: Vec<u8>,
    /// The received part of an unfinished header block.
    block: Vec<u8>,
    table: Table,
    /// The id of the newest stream. A header block on a stream with this id or a lower id contains trailers (RFC 9113 §5.1.1).
    newest: u32,
    are_trailers: bool,
}

impl Fields {
    /// Processes received bytes. Returns whether a header block that ended in these bytes is malformed.
    pub(super) fn came(&mut self, mut bytes: &[u8]) -> bool {
        let mut is_malformed = false;
        let skipped = bytes.len().min(PREFACE - self.preface);
        self.preface += skipped;
        bytes = bytes.get(skipped..).unwrap_or_default();
        while !bytes.is_empty() {
            if self.headed < self.head.len() {
                let taken = bytes.len().min(self.head.len() - self.headed);
                let (head, rest) = bytes.split_at(taken);
                for (to, from) in self.head.iter_mut().skip(self.headed).zip(head) {
                    *to = *from;
                }
                self.headed += taken;
                bytes = rest;
                if self.headed < self.head.len() {
                    break;
                }
                let [a, b, c, ..] = self.head;
                self.left = u32::from_be_bytes([0, a, b, c]) as usize;
            }
            let (came, rest) = bytes.split_at(bytes.len().min(self.left));
            bytes = rest;
            self.left -= came.len();
            let [_, _, _, kind, flags, stream @ ..] = self.head;
            if matches!(kind, HEADERS | CONTINUATION) && self.payload.len() + came.len() <= FRAME_BYTES_MAX {
                self.payload.extend_from_slice(came);
            }
            if self.left == 0 {
                self.headed = 0;
                is_malformed |= self.frame(kind, flags, u32::from_be_bytes(stream));
                self.payload.clear();
            }
        }
        is_malformed
    }

    /// Processes a complete frame. Returns whether the frame ends a malformed header block.
    fn frame(&mut self, kind: u8, flags: u8, stream: u32) -> bool {
        match kind {
            HEADERS => {
                let (is_padded, has_priority) = (flags & PADDED != 0, flags & PRIORITY != 0);
                let padding =
                    self.payload.first().filter(|_| is_padded).map_or(0, |bytes| usize::from(*bytes));
                let from = usize::from(is_padded) + if has_priority { 5 } else { 0 };
                let to = self.payload.len().saturating_sub(padding);
                self.block.clear();
                self.block.extend_from_slice(self.payload.get(from..to).unwrap_or_default());
                self.are_trailers = stream <= self.newest;
                self.newest = self.newest.max(stream);
            }
            CONTINUATION if self.block.len() < BLOCK_BYTES_MAX => self.block.extend_from_slice(&self.payload),
            CONTINUATION => return true,
            _ => return false,
        }
        flags & END_HEADERS != 0 && self.table.read(&self.block, self.are_trailers)
    }
}

/// The kinds of header fields that this parser distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    Path,
    Scheme,
    Pseudo,
    Other,
}

impl Name {
    /// The kind of the field with this name.
    fn of(text: &Text<'_>) -> Self {
        match (text.is_huffman, text.bytes) {
            (false, b":path") | (true, [0xb9, 0x58, 0xd3, 0x3f]) => Name::Path,
            (false, b":scheme") | (true, [0xb8, 0x82, 0x4e, 0x5a, 0x4b]) => Name::Scheme,
            (false, [b':', ..]) => Name::Pseudo,
            (true, [first, ..]) if first >> 1 == 0b101_1100 => Name::Pseudo,
            _ => Name::Other,
        }
    }
}

/// The properties of a header field that this parser needs.
#[derive(Clone, Copy, Debug)]
struct Field {
    name: Name,
    /// The length of the field's name, in bytes. `size` is the size of the field as an entry of the dynamic table.
    name_bytes: usize,
    size: usize,
    is_malformed: bool,
}

/// The lengths of the names in the static table (RFC 7541, appendix A). The first 14 are pseudo-header fields.
const STATIC: [u8; 61] = [
    10, 7, 7, 5, 5, 7, 7, 7, 7, 7, 7, 7, 7, 7, 14, 15, 15, 13, 6, 27, 3, 5, 13, 13, 19, 16, 16, 14, 16, 13,
    12, 6, 4, 4, 6, 7, 4, 4, 8, 17, 13, 8, 19, 13, 4, 8, 12, 18, 19, 5, 7, 7, 11, 6, 10, 25, 17, 10, 4, 3,
    16,
];

/// The dynamic table (RFC 7541 §2.3.2).
#[derive(Debug)]
struct Table {
    /// The entries. The newest entry comes first.
    entries: VecDeque<Field>,
    size: usize,
    most: usize,
}

impl Default for Table {
    fn default() -> Self {
        Table { entries: VecDeque::new(), size: 0, most: TABLE_BYTES_MAX }
    }
}

impl Table {
    /// Reads a header block. Returns whether the block is malformed. A block with an invalid encoding counts as malformed, too. The library also
    /// reports such a block.
    fn read(&mut self, block: &[u8], are_trailers: bool) -> bool {
        let mut input = Input(block);
        let mut is_malformed = false;
        while let Some(first) = input.0.first().copied() {
            match self.field(first, &mut input) {
                Some(Some(field)) => {
                    is_malformed |= field.is_malformed || are_trailers && field.name != Name::Other;
                }
                Some(None) => {}
                None => return true,
            }
        }
        is_malformed
    }

    /// Reads the next representation (RFC 7541 §6). The inner `None` stands for a new size of the table. The outer `None` stands for an invalid
    /// encoding.
    fn field(&mut self, first: u8, input: &mut Input<'_>) -> Option<Option<Field>> {
        if first & 0x80 != 0 {
            let index = input.integer(7)?;
            return self.entry(index).map(Some);
        }
        if first & 0xe0 == 0x20 {
            self.most = input.integer(5).filter(|size| *size <= TABLE_BYTES_MAX)?;
            self.evict();
            return Some(None);
        }
        let is_kept = first & 0x40 != 0;
        let named = match input.integer(if is_kept { 6 } else { 4 })? {
            0 => {
                let name = input.text()?;
                Field {
                    name: Name::of(&name),
                    name_bytes: name.length(is_kept)?,
                    size: 0,
                    is_malformed: false,
                }
            }
            index => self.entry(index)?,
        };
        let value = input.text()?;
        let is_malformed = match named.name {
            Name::Path => value.has_fragment()?,
            Name::Scheme => value.bytes.is_empty(),
            Name::Pseudo | Name::Other => false,
        };
        let field = Field { is_malformed, size: 32 + named.name_bytes + value.length(is_kept)?, ..named };
        if is_kept {
            self.size += field.size;
            self.entries.push_front(field);
            self.evict();
        }
        Some(Some(field))
    }

    fn entry(&self, index: usize) -> Option<Field> {
        let Some(at) = index.checked_sub(STATIC.len() + 1) else {
            let name_bytes = usize::from(*STATIC.get(index.checked_sub(1)?)?);
            let name = match index {
                4 | 5 => Name::Path,
                6 | 7 => Name::Scheme,
                1..=14 => Name::Pseudo,
                _ => Name::Other,
            };
            return Some(Field { name, name_bytes, size: 0, is_malformed: false });
        };
        self.entries.get(at).copied()
    }

    fn evict(&mut self) {
        while self.size > self.most {
            let Some(oldest) = self.entries.pop_back() else { return };
            self.size -= oldest.size;
        }
    }
}

/// The unread part of a header block.
struct Input<'b>(&'b [u8]);

impl<'b> Input<'b> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// Reads an integer with a prefix of `bits` bits (RFC 7541 §5.1).
    fn integer(&mut self, bits: u32) -> Option<usize> {
        let most = (1_usize << bits) - 1;
        let mut value = usize::from(self.byte()?) & most;
        if value < most {
            return Some(value);
        }
        for shift in [0, 7, 14, 21] {
            let byte = self.byte()?;
            value += usize::from(byte & 127) << shift;
            if byte < 128 {
                return Some(value);
            }
        }
        None
    }

    /// A string literal (RFC 7541 §5.2).
    fn text(&mut self) -> Option<Text<'b>> {
        let is_huffman = self.0.first()? & 0x80 != 0;
        let length = self.integer(7)?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(Text { bytes, is_huffman })
    }
}

#[cfg(test)]
mod tests;
