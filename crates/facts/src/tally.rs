//! The tally of a group of records: their count and a digest of them.

use crate::codec;
use crate::table::Table;

/// The number of records and the sum of their checksums. The order of adding does not matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The number of records.
    pub count: u64,
    /// The sum of the records' checksums, modulo 2^128.
    pub digest: u128,
}

impl Tally {
    /// Adds one stored record.
    pub fn add(&mut self, stored: &[u8]) {
        self.plus(Tally { count: 1, digest: codec::claimed_checksum(stored) });
    }

    pub(crate) fn plus(&mut self, other: Tally) {
        self.count = self.count.wrapping_add(other.count);
        self.digest = self.digest.wrapping_add(other.digest);
    }

    pub(crate) fn minus(&mut self, other: Tally) {
        self.count = self.count.wrapping_sub(other.count);
        self.digest = self.digest.wrapping_sub(other.digest);
    }

    /// The tally of one stored record.
    pub fn of(stored: &[u8]) -> Self {
        let mut tally = Tally::default();
        tally.add(stored);
        tally
    }

    /// The stored form. A tally needs no checksum, because a tally alone never makes a record valid.
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        [self.count.to_be_bytes().as_slice(), &self.digest.to_be_bytes()].concat()
    }

    /// Reads the stored form. Malformed bytes become a tally that matches no group of records.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let parts =
            bytes.split_first_chunk::<8>().and_then(|(count, rest)| Some((count, rest.try_into().ok()?)));
        match parts {
            Some((count, digest)) => {
                Tally { count: u64::from_be_bytes(*count), digest: u128::from_be_bytes(digest) }
            }
            None => Tally { count: u64::MAX, digest: 0 },
        }
    }
}

/// The key of a group's tally. An empty `group` stands for the whole table.
pub fn tally_key(table: Table, group: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(1 + group.len());
    key.push(table as u8);
    key.extend_from_slice(group);
    key
}
