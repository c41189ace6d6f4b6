//! An entry of the log, and its form.
//!
//! ```text
//! version u8 | checksum 16 bytes of key, version and rest | id 16 bytes | first u64 BE | state 16 bytes | changes
//! ```

use enfilade_facts::codec::{Reader, Writer};
use enfilade_facts::{Change, Revision};
use siphasher::sip128::{Hasher128, SipHasher24};
use std::hash::Hasher;

/// Version of this form.
const VERSION: u8 = 1;
const CHECKSUM_BYTES: usize = 16;

/// The id of an entry: the number of the process that made it, and 8 random bytes. After a commit with an unknown outcome, its author finds out by this id
/// whether the entry is in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryId(pub(crate) [u8; 16]);

impl EntryId {
    /// An id that no entry has, for an entry of the process of this number.
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

/// Changes that were committed at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The id.
    pub id: EntryId,
    /// The number of the first change. The others follow without gaps.
    pub first: Revision,
    /// The digest of all records before the first change. A member with another digest has other records than the author, and must not apply the entry.
    pub state: u128,
    /// The changes; at least one.
    pub changes: Vec<Change>,
}

impl Entry {
    /// The number of the last change.
    pub fn last(&self) -> Revision {
        Revision(self.first.0 + (self.changes.len() as u64).saturating_sub(1))
    }

    /// The bytes of the entry under this key.
    pub(crate) fn seal(&self, key: &[u8]) -> Vec<u8> {
        let mut to = Writer::default();
        to.fixed(&self.id.0).u64(self.first.0).fixed(&self.state.to_be_bytes());
        to.list(&self.changes, |to, change| change.encode(to));
        let rest = to.into_bytes();
        [&[VERSION][..], &checksum(key, &rest), &rest].concat()
    }

    /// Reads an entry. The error says what is wrong.
    pub(crate) fn open(key: &[u8], bytes: &[u8]) -> Result<Self, &'static str> {
        let (version, bytes) = bytes.split_first().ok_or("it is empty")?;
        if *version != VERSION {
            return Err("its form is of another version of Enfilade");
        }
        let (sum, rest) = bytes.split_at_checked(CHECKSUM_BYTES).ok_or("it is too short")?;
        if sum != checksum(key, rest) {
            return Err("its checksum does not match");
        }
        let mut from = Reader::new(rest);
        let mut read = || {
            Some(Entry {
                id: EntryId(from.fixed()?),
                first: Revision(from.u64()?),
                state: u128::from_be_bytes(from.fixed()?),
                changes: from.list(Change::decode)?,
            })
        };
        let entry = read().filter(|_| from.is_empty());
        entry.filter(|entry| !entry.changes.is_empty()).ok_or("it does not have the form of an entry")
    }
}

/// The checksum finds damage. It is not a signature, because its key is a constant.
fn checksum(key: &[u8], rest: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut hasher = SipHasher24::new_with_key(b"enfilade  entry1");
    hasher.write(&[VERSION]);
    hasher.write(&(key.len() as u64).to_le_bytes());
    hasher.write(key);
    hasher.write(rest);
    hasher.finish128().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use enfilade_facts::AuditRecord;

    #[test]
    fn an_entry_is_read_as_it_was_written_and_every_flipped_bit_is_found() {
        let audit = AuditRecord { who: "alice".into(), what: "x".into(), unix_seconds: 7, request: None };
        let changes = vec![Change::new(audit.clone()), Change::new(audit)];
        let entry = Entry { id: EntryId([1; 16]), first: Revision(8), state: 9, changes };
        let bytes = entry.seal(b"log/9");
        assert_eq!((Entry::open(b"log/9", &bytes), entry.last()), (Ok(entry), Revision(9)));
        assert_eq!(Entry::open(b"log/8", &bytes), Err("its checksum does not match"));
        for (at, bit) in (0..bytes.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            assert!(Entry::open(b"log/9", &damaged).is_err(), "byte {at}, bit {bit}");
        }
        for end in 0..bytes.len() {
            assert!(Entry::open(b"log/9", &bytes[..end]).is_err(), "{end} bytes");
        }
    }
}
