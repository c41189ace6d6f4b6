//! The records in which a store keeps its own id, format and revision.

use crate::codec::{self, Reader, Writer};
use crate::error::SourceError;
use crate::revision::{At, Revision, StoreId};
use crate::table::Table;
use crate::tables::{Key, Row};

/// The revision of the store, and the number of the commit that wrote this record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The revision of the newest change.
    pub revision: Revision,
    /// The number that the storage gave the commit (LMDB: the transaction id). If the number that the storage reports for a snapshot differs from the
    /// number in the head of this snapshot, pages of the store are damaged.
    pub commit: u64,
}

impl Head {
    /// The head's key.
    pub const KEY: &'static [u8] = b"head";

    /// Reads the record with the store's revision (the head). In the header of this record, the field for the revision does not contain a revision,
    /// but the number of the commit.
    ///
    /// # Errors
    /// When the record is missing or damaged.
    pub fn open(stored: Option<&[u8]>) -> Result<Self, SourceError> {
        let damaged = |why| codec::damaged(Table::Head, Self::KEY, why);
        let stored = stored.ok_or_else(|| damaged("the record is missing"))?;
        let (Revision(commit), value) = codec::open(Table::Head, Self::KEY, stored)?;
        let revision = value.try_into().map(u64::from_be_bytes).map(Revision);
        let revision = revision.map_err(|_| damaged("the value is not a valid record of this table"))?;
        Ok(Head { revision, commit })
    }

    /// Returns the write that stores this record.
    pub fn write(self) -> Write {
        let stored =
            codec::seal(Table::Head, Self::KEY, Revision(self.commit), &self.revision.0.to_be_bytes());
        Write { table: Table::Head, key: Self::KEY.to_vec(), stored: Some(stored) }
    }
}

/// The format and id of the store. This is a separate record in the same table as the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The format of the store ([`FORMAT`](crate::format::FORMAT)), plus [`REPLICA`](crate::format::REPLICA) if the store belongs to a member of a
    /// fleet.
    pub format: u32,
    /// The id of the store; a restored backup has another id.
    pub store: StoreId,
}

/// The key of the [`Identity`] record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdentityKey;

impl Key for IdentityKey {
    fn bytes(&self) -> Vec<u8> {
        b"store".to_vec()
    }
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        (bytes == b"store").then_some(IdentityKey)
    }
}

impl Row for Identity {
    const TABLE: Table = Table::Head;
    type Key = IdentityKey;

    fn encode(&self, to: &mut Writer) {
        to.u32(self.format).fixed(&self.store.0.to_be_bytes());
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(Identity { format: from.u32()?, store: StoreId(u128::from_be_bytes(from.fixed()?)) })
    }
}

/// One record to write, or to delete if `stored` is `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The table of the record.
    pub table: Table,
    /// The key of the record.
    pub key: Vec<u8>,
    /// The record with its header; `None` deletes the record.
    pub stored: Option<Vec<u8>>,
}

impl Write {
    /// Returns the write that stores a row at a revision.
    pub fn put<R: Row>(key: &R::Key, row: &R, at: At) -> Self {
        let key = key.bytes();
        let mut value = Writer::default();
        row.encode(&mut value);
        Write {
            table: R::TABLE,
            stored: Some(codec::seal(R::TABLE, &key, at.revision, &value.into_bytes())),
            key,
        }
    }
}
