//! Rewrites every record of a store in one transaction, for restores and upgrades.
//!
//! LMDB keeps at most 32,767 changed pages of a transaction in memory (128 MiB, with the build feature `mdb_idl_logn_14`). LMDB writes further
//! changed pages into unused pages of the file. No reader sees these pages before the commit. Tallies are computed afterwards from the written
//! records. So records can be added in any order, and need not be kept in memory.

use super::error::unwritten;
use super::tables::{self, Records, Tables};
use enfilade_facts::journal::{Counting, Write};
use enfilade_facts::{SourceError, Table};
use heed::{MdbError, PutFlags, RwTxn};
use std::ops::Bound;
use std::path::Path;

/// The number of records that are read before their tallies are written.
const BATCH: usize = 1024;

/// An error of LMDB or of the facts, while a store is rewritten.
pub(super) enum Failed {
    Lmdb(heed::Error),
    Facts(SourceError),
}

impl Failed {
    /// The error for the store at `path`, with a hint for the operator.
    pub(super) fn at(self, path: &Path) -> SourceError {
        match self {
            Failed::Lmdb(why) => unwritten(path, why),
            Failed::Facts(why) => why,
        }
    }
}

impl From<heed::Error> for Failed {
    fn from(why: heed::Error) -> Self {
        Failed::Lmdb(why)
    }
}

impl From<SourceError> for Failed {
    fn from(why: SourceError) -> Self {
        Failed::Facts(why)
    }
}

/// The tables of a store that is rewritten.
pub(super) struct Rewrite<'e>(pub(super) Tables<'e>);

impl<'e> Rewrite<'e> {
    /// The database of a table.
    pub(super) fn of(&self, table: Table) -> heed::Result<Records<'e>> {
        tables::of(&self.0, table).copied().ok_or(heed::Error::Mdb(MdbError::BadDbi))
    }

    /// Adds a record. If a record with this key exists, changes nothing and returns false. If records are added in the order of their keys, all pages
    /// are filled.
    pub(super) fn add(
        &self,
        txn: &mut RwTxn<'_>,
        table: Table,
        key: &[u8],
        stored: &[u8],
    ) -> heed::Result<bool> {
        let records = self.of(table)?;
        for flags in [PutFlags::APPEND, PutFlags::NO_OVERWRITE] {
            match records.put_with_flags(txn, flags, key, stored) {
                Err(heed::Error::Mdb(MdbError::KeyExist)) => {}
                put => return put.map(|()| true),
            }
        }
        Ok(false)
    }

    /// Puts or deletes a record.
    pub(super) fn write(&self, txn: &mut RwTxn<'_>, write: Write) -> heed::Result<()> {
        let Write { table, key, stored } = write;
        match stored {
            Some(stored) => self.of(table)?.put(txn, &key, &stored),
            None => self.of(table)?.delete(txn, &key).map(drop),
        }
    }

    /// Computes and writes the tallies of a table that has no tallies yet.
    pub(super) fn count(
        &self,
        txn: &mut RwTxn<'_>,
        table: Table,
        progress: &mut dyn FnMut(),
    ) -> heed::Result<()> {
        let records = self.of(table)?;
        let mut counting = Counting::of(table);
        let mut last: Option<Vec<u8>> = None;
        loop {
            let from = last.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            let (mut tallies, mut end) = (Vec::new(), None);
            for record in records.range(txn, &(from, Bound::Unbounded))?.take(BATCH) {
                let (key, stored) = record?;
                tallies.extend(counting.add(key, stored));
                end = Some(key);
                progress();
            }
            let end = end.map(<[u8]>::to_vec);
            self.add_all(txn, tallies)?;
            if end.is_none() {
                break;
            }
            last = end;
        }
        self.add_all(txn, counting.finish())
    }

    fn add_all(&self, txn: &mut RwTxn<'_>, writes: impl IntoIterator<Item = Write>) -> heed::Result<()> {
        for Write { table, key, stored } in writes {
            self.add(txn, table, &key, &stored.unwrap_or_default())?;
        }
        Ok(())
    }
}
