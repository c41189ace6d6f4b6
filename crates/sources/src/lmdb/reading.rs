//! Reads LMDB's records inside a transaction.

use super::tables::{self, Records, Tables};
use super::unavailable;
use enfilade_facts::codec;
use enfilade_facts::format::was_in;
use enfilade_facts::journal::Head;
use enfilade_facts::{At, Each, Found, Snapshot, SourceError, Table};
use heed::RoTxn;
use std::ops::Bound;

/// The greatest length of a key in LMDB's default build, in bytes. The longest key of a record is one byte shorter.
const LMDB_KEY_BYTES_MAX: usize = 511;

/// A transaction, and the revision of its records.
pub(super) struct Reading<'t> {
    pub(super) tables: &'t Tables<'static>,
    pub(super) txn: &'t RoTxn<'t>,
    pub(super) at: At,
    /// LMDB's number of the commit that wrote this state of the records.
    pub(super) commit: u64,
}

impl<'t> Reading<'t> {
    /// Reads the revision from the head. The id of the store is copied from `at`.
    ///
    /// # Errors
    /// When the head has the number of another commit.
    pub(super) fn of(
        tables: &'t Tables<'static>,
        txn: &'t RoTxn<'t>,
        at: At,
        commit: u64,
    ) -> Result<Self, SourceError> {
        let mut reading = Reading { tables, txn, at, commit };
        reading.at.revision = reading.own_head()?.revision;
        Ok(reading)
    }

    /// The records of a table. In a store of an older format, these records may be in another table.
    fn records(&self, table: Table) -> Option<&'t Records<'static>> {
        tables::of(self.tables, table).or_else(|| tables::of(self.tables, was_in(table)?))
    }

    fn own_head(&self) -> Result<Head, SourceError> {
        let head = Head::open(self.get(Table::Head, Head::KEY)?)?;
        let (found, here) = (head.commit, self.commit);
        if found == here {
            return Ok(head);
        }
        let why =
            format!("the head is from commit {found}, but the store is at commit {here}: pages are damaged");
        Err(codec::damaged(Table::Head, Head::KEY, &why))
    }
}

/// Whether LMDB can have a record with this key. No record has an empty key or a key that is too long. Such keys are not passed to LMDB, because it
/// would return an error.
fn can_be(key: &[u8]) -> bool {
    (1..=LMDB_KEY_BYTES_MAX).contains(&key.len())
}

/// The start of a range of records with keys that are not less than `key`. If `key` is too long for LMDB, the range starts after the longest prefix
/// of `key` that LMDB accepts.
fn from(key: &[u8]) -> Bound<&[u8]> {
    match key.get(..LMDB_KEY_BYTES_MAX) {
        Some(longest) if longest.len() < key.len() => Bound::Excluded(longest),
        _ if key.is_empty() => Bound::Unbounded,
        _ => Bound::Included(key),
    }
}

impl Snapshot for Reading<'_> {
    fn at(&self) -> At {
        self.at
    }

    fn head(&self) -> Result<Head, SourceError> {
        let head = self.own_head()?;
        let (found, here) = (head.revision, self.at.revision);
        if found == here {
            return Ok(head);
        }
        let why =
            format!("the head has revision {found} and the store has revision {here}: pages are damaged");
        Err(codec::damaged(Table::Head, Head::KEY, &why))
    }

    fn get<'s>(&'s self, table: Table, key: &[u8]) -> Result<Option<&'s [u8]>, SourceError> {
        if !can_be(key) {
            return Ok(None);
        }
        let Some(records) = self.records(table) else { return Ok(None) };
        records.get(self.txn, key).map_err(unavailable)
    }

    fn at_or_after(&self, table: Table, key: &[u8]) -> Result<Found<'_>, SourceError> {
        let Some(records) = self.records(table) else { return Ok(None) };
        let found = match from(key) {
            Bound::Unbounded => records.first(self.txn),
            Bound::Included(key) => records.get_greater_than_or_equal_to(self.txn, key),
            Bound::Excluded(key) => records.get_greater_than(self.txn, key),
        };
        found.map_err(unavailable)
    }

    fn scan_from(&self, table: Table, key: &[u8], each: Each<'_>) -> Result<(), SourceError> {
        let Some(records) = self.records(table) else { return Ok(()) };
        walk(records.range(self.txn, &(from(key), Bound::Unbounded)).map_err(unavailable)?, each)
    }

    fn scan(&self, table: Table, prefix: &[u8], each: Each<'_>) -> Result<(), SourceError> {
        let Some(records) = self.records(table) else { return Ok(()) };
        if prefix.is_empty() {
            walk(records.iter(self.txn).map_err(unavailable)?, each)
        } else if can_be(prefix) {
            walk(records.prefix_iter(self.txn, prefix).map_err(unavailable)?, each)
        } else {
            Ok(())
        }
    }
}

fn walk<'t>(
    records: impl Iterator<Item = heed::Result<(&'t [u8], &'t [u8])>>,
    each: Each<'_>,
) -> Result<(), SourceError> {
    for record in records {
        let (key, stored) = record.map_err(unavailable)?;
        if each(key, stored).is_break() {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_lmdb_cannot_have_are_never_passed_to_it() {
        let text = [7; LMDB_KEY_BYTES_MAX + 2];
        for (length, is_key, position) in [
            (0, false, Bound::Unbounded),
            (1, true, Bound::Included(1)),
            (LMDB_KEY_BYTES_MAX, true, Bound::Included(LMDB_KEY_BYTES_MAX)),
            (LMDB_KEY_BYTES_MAX + 1, false, Bound::Excluded(LMDB_KEY_BYTES_MAX)),
            (LMDB_KEY_BYTES_MAX + 2, false, Bound::Excluded(LMDB_KEY_BYTES_MAX)),
        ] {
            let key = &text[..length];
            assert_eq!((can_be(key), from(key).map(<[u8]>::len)), (is_key, position), "{length}");
        }
    }
}
