//! The change log: for each change its author, its description, its time, and the keys that it wrote. The server updates the indexes and writes the
//! audit log from the entries of the change log.
//!
//! The keys of a large change are in pieces: separate records after the entry of the change, so that no reader needs all keys in memory.

use super::{Key, Row, Table};
use crate::codec::{Reader, Writer};
use crate::revision::Revision;
use crate::vocabulary::RequestId;

impl Key for Revision {
    fn bytes(&self) -> Vec<u8> {
        self.0.to_be_bytes().to_vec()
    }
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(|bytes| Revision(u64::from_be_bytes(bytes)))
    }
}

/// The keys of records that were put or deleted.
pub type Keys = Vec<(Table, Vec<u8>)>;

/// The log entry of one change. The key of this record is the revision of the change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// The author: an authid, a person at the command line, the edited files that the change mirrors, or the server itself (`enfilade`).
    pub who: String,
    /// The description, in the terms that the command line uses.
    pub what: String,
    /// The time of the change, in seconds since the epoch.
    pub unix_seconds: i64,
    /// The request that made the change; `None` if a command or the server itself made it, or if the entry is older than format 5.
    pub request: Option<RequestId>,
    /// The keys of the records that were put or deleted.
    pub written: Written,
}

/// Where the keys of a change are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// The change log does not contain the keys of this change: the change has too many keys, or it replaced all records. So every index is built
    /// again.
    Unsaid,
    /// The entry has the keys: at most [`LOG_KEYS_MAX`](crate::limits::LOG_KEYS_MAX).
    Here(Keys),
    /// The keys are in this number of pieces ([`LogPiece`]), numbered from 0.
    Pieces(u32),
}

impl Row for LogEntry {
    const TABLE: Table = Table::Log;
    type Key = Revision;

    fn encode(&self, to: &mut Writer) {
        to.text(&self.who).text(&self.what).i64(self.unix_seconds);
        match &self.written {
            Written::Unsaid => to.u8(0),
            Written::Here(keys) => write_keys(to.u8(1), keys),
            Written::Pieces(count) => to.u8(2).u32(*count),
        };
        to.tail(self.request, |to, request| {
            to.fixed(&request.0.to_be_bytes());
        });
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(LogEntry {
            who: from.text()?,
            what: from.text()?,
            unix_seconds: from.i64()?,
            written: match from.u8()? {
                0 => Written::Unsaid,
                1 => Written::Here(read_keys(from)?),
                2 => Written::Pieces(from.u32()?),
                _ => return None,
            },
            request: from.tail(|from| Some(RequestId(u128::from_be_bytes(from.fixed()?))))?,
        })
    }
}

/// Some of the keys of a large change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPiece(pub Keys);

/// The key of a piece. In the order of keys, the pieces of an entry are directly after the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieceKey {
    /// The revision of the change.
    pub revision: Revision,
    /// The number of the piece, from 0.
    pub number: u32,
}

impl Key for PieceKey {
    fn bytes(&self) -> Vec<u8> {
        [self.revision.0.to_be_bytes().as_slice(), &self.number.to_be_bytes()].concat()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (revision, number) = bytes.split_first_chunk()?;
        let number = u32::from_be_bytes(number.try_into().ok()?);
        Some(PieceKey { revision: Revision(u64::from_be_bytes(*revision)), number })
    }
}

impl Row for LogPiece {
    const TABLE: Table = Table::Log;
    type Key = PieceKey;

    fn encode(&self, to: &mut Writer) {
        write_keys(to, &self.0);
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(LogPiece(read_keys(from)?))
    }
}

fn write_keys<'w>(to: &'w mut Writer, keys: &Keys) -> &'w mut Writer {
    to.list(keys, |to, (table, key)| {
        to.u8(*table as u8).bytes(key);
    })
}

fn read_keys(from: &mut Reader<'_>) -> Option<Keys> {
    let table = |number: u8| Table::ALL.into_iter().find(|table| *table as u8 == number);
    from.list(|from| Some((table(from.u8()?)?, from.bytes()?.to_vec())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(bytes: &[u8]) -> Option<LogEntry> {
        let mut from = Reader::new(bytes);
        LogEntry::decode(&mut from).filter(|_| from.is_empty())
    }

    #[test]
    fn entries_that_were_written_before_there_were_pieces_say_the_same() {
        let start = || {
            let mut to = Writer::default();
            to.text("who").text("what").i64(7);
            to
        };
        let keys = vec![(Table::Users, b"key".to_vec())];
        let (mut unsaid, mut here) = (start(), start());
        unsaid.option(None::<()>, |_, ()| {});
        here.option(Some(&keys), |to, keys| {
            to.list(keys, |to, (table, key)| {
                to.u8(*table as u8).bytes(key);
            });
        });
        for (old, written) in [(unsaid, Written::Unsaid), (here, Written::Here(keys))] {
            let entry =
                LogEntry { who: "who".into(), what: "what".into(), unix_seconds: 7, request: None, written };
            let old = old.into_bytes();
            assert_eq!(decoded(&old), Some(entry.clone()));
            let mut new = Writer::default();
            entry.encode(&mut new);
            assert_eq!(new.into_bytes(), old);
        }
    }

    #[test]
    fn pieces_stand_after_their_entry_and_before_the_next_one() {
        let piece = |revision, number| PieceKey { revision: Revision(revision), number }.bytes();
        let keys = [Revision(7).bytes(), piece(7, 0), piece(7, 1), piece(7, 256), Revision(8).bytes()];
        assert!(keys.is_sorted());
        assert_eq!(
            PieceKey::from_bytes(&piece(7, 256)).map(|key| (key.revision.0, key.number)),
            Some((7, 256))
        );
        assert_eq!((PieceKey::from_bytes(&keys[0]), Revision::from_bytes(&keys[1])), (None, None));
    }
}
