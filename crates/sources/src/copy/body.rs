//! The records of a backup, followed by their number and digest.
//!
//! ```text
//! (table u8 | length u32 BE | key | length u32 BE | record as stored)…  255 | count u64 BE | digest u128 BE
//! ```

use super::error::{CopyError, cut};
use enfilade_facts::Table;
use enfilade_facts::codec;
use enfilade_facts::journal::Tally;
use enfilade_facts::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use std::collections::BTreeMap;
use std::io::{self, BufWriter, Read, Write};

/// A record as it is stored: table, key, and value with header and checksum.
pub(super) type Stored = (Table, Vec<u8>, Vec<u8>);

/// The byte that marks the end of the records. A reader finds this byte where the table number of the next record would be.
const END: u8 = u8::MAX;
/// An upper bound for the header of a stored record, in bytes.
const HEADER_BYTES_MAX: usize = 64;

/// A reader of records.
pub(super) struct Body<R> {
    from: R,
    tally: Tally,
}

impl<R: Read> Body<R> {
    pub(super) fn of(from: R) -> Self {
        Body { from, tally: Tally::default() }
    }

    /// The number of records so far.
    pub(super) fn count(&self) -> u64 {
        self.tally.count
    }

    /// The next record; `None` at the end, when all records were read.
    ///
    /// # Errors
    /// When the next record is damaged or missing, or the records differ from the number and digest at the end.
    pub(super) fn next(&mut self) -> Result<Option<Stored>, CopyError> {
        let damaged =
            |why: &str| CopyError::Malformed(format!("the backup is damaged: {why}; use another backup"));
        let [number] = self.fixed()?;
        if number == END {
            let count = u64::from_be_bytes(self.fixed()?);
            let end = Tally { count, digest: u128::from_be_bytes(self.fixed()?) };
            return match end == self.tally {
                true => Ok(None),
                false => Err(damaged("records are missing, or were changed after they were written")),
            };
        }
        let table = Table::of_facts().find(|table| *table as u8 == number);
        let table = table.ok_or_else(|| damaged("a record has an unknown table number"))?;
        let [key, stored] = [KEY_BYTES_MAX, VALUE_BYTES_MAX + HEADER_BYTES_MAX].map(|limit| {
            let bytes = u32::from_be_bytes(self.fixed()?) as usize;
            if limit < bytes {
                return Err(damaged("a record is longer than the limit"));
            }
            let mut part = vec![0; bytes];
            self.fill(&mut part)?;
            Ok(part)
        });
        let (key, stored) = (key?, stored?);
        codec::open(table, &key, &stored)?;
        self.tally.add(&stored);
        Ok(Some((table, key, stored)))
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], CopyError> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), CopyError> {
        self.from.read_exact(bytes).map_err(|why| match why.kind() {
            io::ErrorKind::UnexpectedEof => cut("backup"),
            _ => why.into(),
        })
    }
}

/// A writer of records.
pub(super) struct Writing<W: Write> {
    to: BufWriter<W>,
    tally: Tally,
    tables: BTreeMap<Table, Tally>,
}

impl<W: Write> Writing<W> {
    pub(super) fn to(to: W) -> Self {
        let (tally, tables) = (Tally::default(), BTreeMap::new());
        Writing { to: BufWriter::with_capacity(1 << 20, to), tally, tables }
    }

    pub(super) fn count(&self) -> u64 {
        self.tally.count
    }

    pub(super) fn add(&mut self, table: Table, key: &[u8], stored: &[u8]) -> io::Result<()> {
        self.tally.add(stored);
        self.tables.entry(table).or_default().add(stored);
        self.to.write_all(&[table as u8])?;
        for part in [key, stored] {
            self.to.write_all(&u32::try_from(part.len()).unwrap_or(u32::MAX).to_be_bytes())?;
            self.to.write_all(part)?;
        }
        Ok(())
    }

    /// Writes the number and digest of the records. Returns the inner writer, and the tally of each table that has records.
    pub(super) fn finish(mut self) -> io::Result<(W, BTreeMap<Table, Tally>)> {
        self.to.write_all(&[END])?;
        self.to.write_all(&self.tally.count.to_be_bytes())?;
        self.to.write_all(&self.tally.digest.to_be_bytes())?;
        Ok((self.to.into_inner().map_err(io::IntoInnerError::into_error)?, self.tables))
    }
}
