//! The layout of a record: a header with a checksum, and a value, which consists of fields ([`Writer`]).
//!
//! ```text
//! version u8 | checksum 16 bytes over table, key, revision and value | revision u64 BE | value
//! ```
//!
//! LMDB has no checksums. In a test with 400 flips of a single bit, 306 flips changed or lost a record without an error. One flipped bit can turn an
//! ACL entry that denies access into an ACL entry that allows access. The checksum finds damage. It is not a signature, because its key is a constant
//! in this file.

use crate::error::SourceError;
use crate::revision::Revision;
use crate::table::Table;
use siphasher::sip128::{Hasher128, SipHasher24};
use std::fmt::Write as _;
use std::hash::Hasher;

/// Version of this layout; a record of another version is refused.
pub const VERSION: u8 = 1;
const CHECKSUM_BYTES: usize = 16;
const HEADER_BYTES: usize = 1 + CHECKSUM_BYTES + 8;

fn checksum(table: Table, key: &[u8], revision: Revision, value: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut hasher = SipHasher24::new_with_key(b"enfilade record1");
    hasher.write(&[VERSION, table as u8]);
    hasher.write(&(key.len() as u64).to_le_bytes());
    hasher.write(key);
    hasher.write(&revision.0.to_le_bytes());
    hasher.write(value);
    hasher.finish128().as_bytes()
}

/// The stored form of a record.
pub fn seal(table: Table, key: &[u8], revision: Revision, value: &[u8]) -> Vec<u8> {
    let mut stored = Vec::with_capacity(HEADER_BYTES + value.len());
    stored.push(VERSION);
    stored.extend_from_slice(&checksum(table, key, revision, value));
    stored.extend_from_slice(&revision.0.to_be_bytes());
    stored.extend_from_slice(value);
    stored
}

/// The revision at which a stored record was written, and the value of the record.
///
/// # Errors
/// [`SourceError::Damaged`] if the layout version or the checksum is wrong.
pub fn open<'s>(table: Table, key: &[u8], stored: &'s [u8]) -> Result<(Revision, &'s [u8]), SourceError> {
    let (header, value) = stored
        .split_first_chunk::<HEADER_BYTES>()
        .ok_or_else(|| damaged(table, key, "the record is shorter than its header"))?;
    let [version, rest @ ..] = header;
    if *version != VERSION {
        return Err(damaged(table, key, &format!("the layout version is {version}, expected {VERSION}")));
    }
    let (sum, revision) = rest.split_at(CHECKSUM_BYTES);
    let revision = Revision(u64::from_be_bytes(revision.try_into().unwrap_or_default()));
    if sum != checksum(table, key, revision, value) {
        return Err(damaged(table, key, "the checksum does not match"));
    }
    Ok((revision, value))
}

/// The checksum in the header of a stored record. This function does not check whether the checksum matches the record. The digest of a group of
/// records is the sum of these checksums. Returns 0 for a record that is too short to contain a checksum.
pub fn claimed_checksum(stored: &[u8]) -> u128 {
    let sum = stored.get(1..=CHECKSUM_BYTES).and_then(|sum| sum.try_into().ok());
    sum.map_or(0, u128::from_be_bytes)
}

/// The error for a damaged record.
pub fn damaged(table: Table, key: &[u8], why: &str) -> SourceError {
    SourceError::Damaged { table, key: printable(key), why: why.to_owned() }
}

/// A key in readable form: as text if all its bytes are printable ASCII, otherwise in hexadecimal.
pub fn printable(key: &[u8]) -> String {
    if !key.is_empty() && key.iter().all(|b| b.is_ascii_graphic()) {
        return format!("`{}`", String::from_utf8_lossy(key));
    }
    key.iter().fold(String::from("0x"), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Writes a value, field by field.
#[derive(Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    /// Writes a number of one byte.
    pub fn u8(&mut self, n: u8) -> &mut Self {
        self.0.push(n);
        self
    }
    /// Writes a number of four bytes.
    pub fn u32(&mut self, n: u32) -> &mut Self {
        self.0.extend_from_slice(&n.to_be_bytes());
        self
    }
    /// Writes a number of eight bytes.
    pub fn u64(&mut self, n: u64) -> &mut Self {
        self.0.extend_from_slice(&n.to_be_bytes());
        self
    }
    /// Writes a signed number of eight bytes.
    pub fn i64(&mut self, n: i64) -> &mut Self {
        self.0.extend_from_slice(&n.to_be_bytes());
        self
    }
    /// Writes a boolean.
    pub fn flag(&mut self, yes: bool) -> &mut Self {
        self.u8(u8::from(yes))
    }
    /// Writes bytes of a fixed length. The length is not stored, so the reader must know it.
    pub fn fixed(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }
    /// Writes the number of bytes, and then the bytes.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.u32(u32::try_from(bytes.len()).unwrap_or(u32::MAX)).fixed(bytes)
    }
    /// Writes the length of a text in bytes, and then the text.
    pub fn text(&mut self, text: &str) -> &mut Self {
        self.bytes(text.as_bytes())
    }
    /// Writes a field that may be missing: a flag, and then the value if it is present.
    pub fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) -> &mut Self {
        self.flag(value.is_some());
        if let Some(value) = value {
            write(self, value);
        }
        self
    }
    /// Writes a text that may be missing.
    pub fn optional_text(&mut self, text: Option<&str>) -> &mut Self {
        self.option(text, |to, text| {
            to.text(text);
        })
    }
    /// Writes an optional field at the end of a value. Older records do not have the field. `None` writes nothing.
    pub fn tail<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) -> &mut Self {
        if let Some(value) = value {
            write(self, value);
        }
        self
    }
    /// Writes a list: the number of its items, and then each item.
    pub fn list<T>(&mut self, items: &[T], mut write: impl FnMut(&mut Self, &T)) -> &mut Self {
        self.u32(u32::try_from(items.len()).unwrap_or(u32::MAX));
        for item in items {
            write(self, item);
        }
        self
    }
    /// The bytes of the value.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// Reads the fields of a value in order. `None` means that the value does not have the expected form.
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// A reader at the first field.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader(bytes)
    }
    /// Whether all bytes were read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Reads `count` bytes.
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(count)?;
        self.0 = tail;
        Some(head)
    }
    /// Reads `N` bytes.
    pub fn fixed<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }
    /// Reads the remaining bytes.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }
    /// Reads a number of one byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.fixed().map(u8::from_be_bytes)
    }
    /// Reads a number of four bytes.
    pub fn u32(&mut self) -> Option<u32> {
        self.fixed().map(u32::from_be_bytes)
    }
    /// Reads a number of eight bytes.
    pub fn u64(&mut self) -> Option<u64> {
        self.fixed().map(u64::from_be_bytes)
    }
    /// Reads a signed number of eight bytes.
    pub fn i64(&mut self) -> Option<i64> {
        self.fixed().map(i64::from_be_bytes)
    }
    /// Reads a boolean: the byte 0 or 1. Any other byte counts as damage. Such a byte must not be read as true, because the field can mean "enabled".
    pub fn flag(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
    /// Reads the number of bytes, and then the bytes.
    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let count = self.u32()?;
        self.take(count as usize)
    }
    /// Reads the length of a text in bytes, and then the text.
    pub fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?.to_vec()).ok()
    }
    /// Reads a field that may be missing. `Some(None)` means that the field is missing.
    pub fn option<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        match self.flag()? {
            true => Some(Some(read(self)?)),
            false => Some(None),
        }
    }
    /// Reads an optional field at the end of a value. Older records do not have the field. `Some(None)` means that the field is missing.
    pub fn tail<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        match self.is_empty() {
            true => Some(None),
            false => read(self).map(Some),
        }
    }
    /// Reads a list: the number of its items, and then each item.
    pub fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.u32()?;
        (0..count).map(|_| read(self)).collect()
    }
}
