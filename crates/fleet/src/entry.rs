//! An entry of the log, and its form in etcd.
//!
//! ```text
//! version u8 | checksum 16 bytes over key, version and rest | id 16 bytes | first u64 BE | state 16 bytes | body
//! body in version 1:   changes
//! body in version 2:   number of changes u32 BE | id of the parts 16 bytes | checksum of each part (`parts.rs`)
//! ```

use enfilade_facts::codec::{Reader, Writer};
use enfilade_facts::{Change, Requester, Revision};
use siphasher::sip128::{Hasher128, SipHasher24};
use std::hash::Hasher;

/// The version of an entry that contains its changes.
const VERSION: u8 = 1;
/// The version of an entry with changes in parts. Programs that do not know this version refuse the entry as damaged.
const VERSION_PARTS: u8 = 2;
pub(crate) const CHECKSUM_BYTES: usize = 16;
/// The number of bytes before the body.
const HEADER_BYTES: usize = 1 + CHECKSUM_BYTES + 16 + 8 + 16;

/// The largest part, in bytes. etcd refuses requests of more than 1.5 MiB by default.
pub(crate) const PART_BYTES: usize = 1 << 20;
/// The largest number of parts. etcd refuses transactions with more than 128 conditions by default.
pub(crate) const PARTS_MAX: usize = 64;
/// The greatest size of the changes of an entry, in bytes. Each member has the changes in memory while it applies them.
pub(crate) const CHANGES_BYTES_MAX: usize = PARTS_MAX * PART_BYTES;

/// The id of the parts of an entry. It consists of random bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PartsId(pub(crate) [u8; 16]);

impl PartsId {
    pub(crate) fn text(self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.0))
    }
}

/// The parts of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) id: PartsId,
    /// A checksum of each part, over its key and its bytes, in the order of the parts.
    pub(crate) checksums: Vec<[u8; CHECKSUM_BYTES]>,
}

/// The id of an entry: the number of the process that made the entry, and 8 random bytes. If the outcome of a commit is unknown, the author finds out
/// by this id whether the entry is in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryId(pub(crate) [u8; 16]);

impl EntryId {
    /// A new id, for an entry of the process with this number.
    pub(crate) fn new(author: u64) -> Result<Self, getrandom::Error> {
        let mut random = [0; 8];
        getrandom::fill(&mut random)?;
        Ok(EntryId((u128::from(author) << 64 | u128::from(u64::from_be_bytes(random))).to_be_bytes()))
    }

    /// The number of the process that made the entry.
    pub(crate) fn author(self) -> u64 {
        (u128::from_be_bytes(self.0) >> 64) as u64
    }
}

/// An entry of the log: changes that are committed together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The id.
    pub id: EntryId,
    /// The number of the first change. The numbers of the other changes follow without gaps.
    pub first: Revision,
    /// The digest of all records before the first change. A member with another digest must not apply the entry, because its records differ from the
    /// records of the member that made the entry.
    pub state: u128,
    /// The changes. There is at least one.
    pub changes: Vec<Change>,
}

impl Entry {
    /// The number of the last change.
    pub fn last(&self) -> Revision {
        Revision(self.first.0 + (self.changes.len() as u64).saturating_sub(1))
    }
}

/// An entry as it is stored in one record of etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) id: EntryId,
    /// The number of the first change.
    pub(crate) first: Revision,
    /// The digest of all records before the first change.
    pub(crate) state: u128,
    pub(crate) body: Body,
}

/// The changes of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    Whole(Vec<Change>),
    /// The changes are too large for one record of etcd, and are in parts.
    Parted {
        count: u32,
        parts: Parts,
    },
}

impl Body {
    /// Whether the parts together are small enough to be read into memory.
    fn is_bounded(&self) -> bool {
        match self {
            Body::Whole(_) => true,
            Body::Parted { parts, .. } => (1..=PARTS_MAX).contains(&parts.checksums.len()),
        }
    }

    /// The number of changes.
    fn count(&self) -> u64 {
        match self {
            Body::Whole(changes) => changes.len() as u64,
            Body::Parted { count, .. } => u64::from(*count),
        }
    }
}

/// Encoded changes of an entry that has no number yet.
#[derive(Debug)]
pub(crate) struct Encoded {
    bytes: Vec<u8>,
    count: usize,
    /// Whether at least one of the changes comes from an edited file.
    pub(crate) is_from_file: bool,
    /// The entry is added only if these members have no registered process.
    pub(crate) absent_members: Vec<String>,
    parts: Option<Parts>,
    parts_bytes: usize,
}

impl Encoded {
    pub(crate) fn new(changes: &[Change]) -> Self {
        let mut to = Writer::default();
        to.list(changes, |to, change| change.encode(to));
        let is_from_file = changes.iter().any(|change| change.requester() == Requester::File);
        let absent_members = changes.iter().flat_map(Change::absent_members).cloned().collect();
        let (bytes, count) = (to.into_bytes(), changes.len());
        Encoded { bytes, count, is_from_file, absent_members, parts: None, parts_bytes: 0 }
    }

    /// Returns the same changes without their bytes. The bytes are stored in etcd, in the parts `parts`.
    pub(crate) fn in_parts(self, parts: Parts) -> Self {
        Encoded { parts_bytes: self.bytes.len(), bytes: Vec::new(), parts: Some(parts), ..self }
    }

    /// The size of the parts, in bytes.
    pub(crate) fn parts_bytes(&self) -> usize {
        self.parts_bytes
    }

    pub(crate) fn parts(&self) -> Option<&Parts> {
        self.parts.as_ref()
    }

    /// The encoded changes; empty if they are in parts.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The size of an entry with these changes, in bytes.
    pub(crate) fn entry_bytes(&self) -> usize {
        HEADER_BYTES + self.bytes.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The number of the last change, if the first change has the number `first`.
    pub(crate) fn last(&self, first: Revision) -> Revision {
        Revision(first.0 + (self.count as u64).saturating_sub(1))
    }

    /// The bytes of an entry that is stored under this key.
    pub(crate) fn seal(&self, key: &[u8], id: EntryId, first: Revision, state: u128) -> Vec<u8> {
        let mut to = Writer::default();
        to.fixed(&id.0).u64(first.0).fixed(&state.to_be_bytes());
        let version = match &self.parts {
            None => {
                to.fixed(&self.bytes);
                VERSION
            }
            Some(parts) => {
                to.u32(u32::try_from(self.count).unwrap_or(u32::MAX)).fixed(&parts.id.0);
                to.list(&parts.checksums, |to, checksum| {
                    to.fixed(checksum);
                });
                VERSION_PARTS
            }
        };
        let rest = to.into_bytes();
        [&[version][..], &checksum(version, key, &rest), &rest].concat()
    }
}

impl Stored {
    /// The number of the last change.
    pub(crate) fn last(&self) -> Revision {
        Revision(self.first.0.saturating_add(self.body.count().saturating_sub(1)))
    }

    /// Reads an entry. The error says why the bytes are not a valid entry.
    pub(crate) fn open(key: &[u8], bytes: &[u8]) -> Result<Self, &'static str> {
        let (version, bytes) = bytes.split_first().ok_or("it is empty")?;
        if ![VERSION, VERSION_PARTS].contains(version) {
            return Err("it has the form of another version of Enfilade");
        }
        let (sum, rest) = bytes.split_at_checked(CHECKSUM_BYTES).ok_or("it is too short")?;
        if sum != checksum(*version, key, rest) {
            return Err("its checksum does not match");
        }
        let mut from = Reader::new(rest);
        let mut read = || {
            Some(Stored {
                id: EntryId(from.fixed()?),
                first: Revision(from.u64()?),
                state: u128::from_be_bytes(from.fixed()?),
                body: match *version {
                    VERSION => Body::Whole(from.list(Change::decode)?),
                    _ => Body::Parted {
                        count: from.u32()?,
                        parts: Parts { id: PartsId(from.fixed()?), checksums: from.list(Reader::fixed)? },
                    },
                },
            })
        };
        let entry = read().filter(|_| from.is_empty());
        let is_sound = |entry: &Stored| entry.body.count() > 0 && entry.body.is_bounded();
        entry.filter(is_sound).ok_or("it does not have the form of an entry")
    }

    /// The entry; `None` if its changes are in parts.
    pub(crate) fn whole(self) -> Option<Entry> {
        let Stored { id, first, state, body } = self;
        match body {
            Body::Whole(changes) => Some(Entry { id, first, state, changes }),
            Body::Parted { .. } => None,
        }
    }
}

/// The changes in these bytes; `None` if the bytes do not contain exactly `count` changes.
pub(crate) fn read_changes(bytes: &[u8], count: u32) -> Option<Vec<Change>> {
    let mut from = Reader::new(bytes);
    let changes = from.list(Change::decode)?;
    (from.is_empty() && changes.len() == count as usize).then_some(changes)
}

/// The checksum of an entry or a part. It finds damage. It is not a signature, because the key of the hash is a constant.
pub(crate) fn checksum(version: u8, key: &[u8], rest: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut hasher = SipHasher24::new_with_key(b"enfilade  entry1");
    hasher.write(&[version]);
    hasher.write(&(key.len() as u64).to_le_bytes());
    hasher.write(key);
    hasher.write(rest);
    hasher.finish128().as_bytes()
}

#[cfg(test)]
mod tests;
