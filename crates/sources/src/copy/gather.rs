//! Gathers all facts of one revision in short views.
//!
//! While a view is open, LMDB cannot reuse the old versions of pages that changes replace. If one view stayed open for a copy of ten million records,
//! the store would grow by all these pages. So each table is read in parts, each in a view of its own, and written to an unnamed file. The parts have
//! different revisions. So after the last part, further views are opened to read the change log and all records that were changed since the first
//! part was read. If these records do not fit into memory, several rounds are needed. After the last round, all gathered records have the revision of
//! the last view. The log is not trusted to be complete: the digest of each gathered table must equal the store's own digest at that revision.

use super::Progress;
use super::body::{Body, Writing};
use super::error::CopyError;
use super::origin::Origin;
use crate::files::atomic;
use enfilade_facts::codec;
use enfilade_facts::journal::Tally;
use enfilade_facts::{Revision, Snapshot, SourceError, StoreId, Table, View, written_since};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Seek};
use std::path::Path;

/// A function that opens a view of the newest revision, and passes the view to a callback once, like
/// [`Source::with_view`](enfilade_facts::Source::with_view).
pub type Views<'a> = &'a dyn Fn(&mut dyn FnMut(&View<'_>)) -> Result<(), SourceError>;

/// The number of groups of records that are read in one view.
const GROUPS: usize = 4096;
/// The limit for changed records in memory, in bytes. The last change that is read in a round may exceed the limit.
const CHANGED_BYTES: usize = 32 << 20;
/// The greatest number of rounds in which changed records are read.
const ROUNDS: usize = 16;

/// Facts of one revision, in an unnamed file.
pub struct Gathered {
    /// The store from which the facts were gathered, and the time.
    pub origin: Origin,
    spool: File,
}

impl Gathered {
    /// Gathers all facts in an unnamed file in this directory. The file takes as much space as a backup, and twice this space while changed records
    /// are added. `progress` is called once for each record.
    ///
    /// # Errors
    /// When a record cannot be read or is damaged. When the facts change faster than they can be read, or are restored meanwhile. When one change was
    /// too large for the change log. When the file cannot be written.
    pub fn of(
        views: Views<'_>,
        directory: &Path,
        unix_seconds: i64,
        progress: Progress<'_>,
    ) -> Result<Self, CopyError> {
        Self::within(CHANGED_BYTES, views, directory, unix_seconds, progress)
    }

    /// Like [`Self::of`], but `changed_bytes` limits the changed records in memory, in bytes.
    fn within(
        changed_bytes: usize,
        views: Views<'_>,
        directory: &Path,
        unix_seconds: i64,
        progress: Progress<'_>,
    ) -> Result<Self, CopyError> {
        let (first, all) = read(views, |view| {
            let origin = Origin::of(view, unix_seconds)?;
            Ok::<_, SourceError>((view.at(), origin.records))
        })??;
        let mut spool = Writing::to(atomic::unnamed(directory)?);
        for table in Table::of_facts() {
            let mut after = None;
            loop {
                let last = read(views, |view| {
                    is_of(view, first.store)?;
                    view.part(table, after.as_deref(), GROUPS, |key, stored| {
                        spool.add(table, key, stored)?;
                        progress(spool.count(), all.max(spool.count()));
                        Ok::<_, CopyError>(())
                    })
                })??;
                after = last;
                if after.is_none() {
                    break;
                }
            }
        }
        let (mut spool, mut tallies) = spool.finish()?;
        let mut upto = first.revision;
        for _ in 0..ROUNDS {
            let changed = read(views, |view| {
                is_of(view, first.store)?;
                Changed::since(upto, view, unix_seconds, changed_bytes)
            })??;
            upto = changed.upto;
            if !changed.records.is_empty() {
                (spool, tallies) = changed.taken_into(spool, directory)?;
            }
            let Some((origin, expected)) = changed.end else { continue };
            for (table, expected) in expected {
                if expected != tallies.get(&table).copied().unwrap_or_default() {
                    let why = "the records that were read do not match the digest of this table";
                    return Err(codec::damaged(table, &[], why).into());
                }
            }
            return Ok(Gathered { origin, spool });
        }
        let why = "the facts change faster than they can be copied; try again when fewer facts are changed";
        Err(CopyError::Malformed(why.into()))
    }

    /// The length of all records, in bytes.
    pub(super) fn bytes(&self) -> io::Result<u64> {
        Ok(self.spool.metadata()?.len())
    }

    /// A reader of the records, from the first record.
    pub(super) fn body(&mut self) -> io::Result<BufReader<&mut File>> {
        self.spool.rewind()?;
        Ok(BufReader::with_capacity(1 << 20, &mut self.spool))
    }

    /// A reader of the records, from the first record. The reader owns the file.
    pub(super) fn into_body(mut self) -> io::Result<BufReader<File>> {
        self.spool.rewind()?;
        Ok(BufReader::with_capacity(1 << 20, self.spool))
    }
}

fn read<R>(views: Views<'_>, look: impl FnOnce(&View<'_>) -> R) -> Result<R, SourceError> {
    let (mut look, mut answer) = (Some(look), None);
    views(&mut |view| answer = look.take().map(|look| look(view)))?;
    answer.ok_or_else(|| {
        SourceError::Unavailable("internal error: the store opened no view of the facts".into())
    })
}

fn is_of(view: &View<'_>, store: StoreId) -> Result<(), CopyError> {
    match view.at().store == store {
        true => Ok(()),
        false => Err(unknown()),
    }
}

fn unknown() -> CopyError {
    let why = "all facts were restored during the copy, or one change was too large for the change log to list all its records; try again";
    CopyError::Malformed(why.into())
}

/// The records that were written after a revision.
struct Changed {
    /// The records as they are in the view; `None` for a deleted record.
    records: BTreeMap<(Table, Vec<u8>), Option<Vec<u8>>>,
    /// `records` contains every record that was written after the revision `before` of [`Changed::since`] and up to this revision.
    upto: Revision,
    /// The origin of a copy of the view, and the tally of each table; `None` if `upto` is older than the view.
    end: Option<(Origin, Vec<(Table, Tally)>)>,
}

impl Changed {
    /// Collects the records that were written after the revision `before`. Stops at the end of the first change with which the total size of the
    /// records exceeds `bytes_max` bytes.
    fn since(
        before: Revision,
        view: &View<'_>,
        unix_seconds: i64,
        bytes_max: usize,
    ) -> Result<Self, CopyError> {
        let mut changed = Changed { records: BTreeMap::new(), upto: before, end: None };
        let mut bytes = 0;
        for keys in written_since(view, before) {
            let (revision, keys) = keys.ok_or_else(unknown)?;
            if bytes_max < bytes && changed.upto < revision {
                return Ok(changed);
            }
            changed.upto = revision;
            for (table, key) in keys.into_iter().filter(|(table, _)| table.holds_facts()) {
                // This read does not check the tally, so the record may be outdated. The final comparison with the digest of the table detects an
                // outdated record.
                let stored = Snapshot::get(view, table, &key)?;
                stored.map_or(Ok(()), |stored| codec::open(table, &key, stored).map(drop))?;
                let stored = stored.map(<[u8]>::to_vec);
                bytes += key.len() + stored.as_ref().map_or(0, Vec::len) + 128;
                changed.records.insert((table, key), stored);
            }
        }
        let tally = |table| Ok::<_, SourceError>((table, view.tally(table, &[])?));
        let tallies = Table::of_facts().map(tally).collect::<Result<_, _>>()?;
        changed.end = Some((Origin::of(view, unix_seconds)?, tallies));
        Ok(changed)
    }

    /// Writes the gathered records to a new file, and replaces, adds and removes the changed records. Returns the file and the tally of each table.
    fn taken_into(&self, mut gathered: File, directory: &Path) -> Result<Tallied, CopyError> {
        gathered.rewind()?;
        let mut body = Body::of(BufReader::with_capacity(1 << 20, gathered));
        let mut spool = Writing::to(atomic::unnamed(directory)?);
        let mut changed = self.records.iter().peekable();
        loop {
            let before = body.next()?;
            let place = before.as_ref().map(|(table, key, _)| (*table, key.as_slice()));
            let mut is_replaced = false;
            while let Some(((table, key), stored)) = changed
                .next_if(|((table, key), _)| place.is_none_or(|place| (*table, key.as_slice()) <= place))
            {
                is_replaced |= place == Some((*table, key.as_slice()));
                stored.as_ref().map_or(Ok(()), |stored| spool.add(*table, key, stored))?;
            }
            match before {
                None => return Ok(spool.finish()?),
                Some((table, key, stored)) if !is_replaced => spool.add(table, &key, &stored)?,
                Some(_) => {}
            }
        }
    }
}

/// Gathered records, and the tally of each table that has records.
type Tallied = (File, BTreeMap<Table, Tally>);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::change;
    use crate::copy::read_backup;
    use crate::memory::Memory;
    use enfilade_facts::tables::Domain;
    use enfilade_facts::vocabulary::DomainId;
    use enfilade_facts::{Read, Source};
    use std::cell::Cell;
    use std::ops::ControlFlow;

    type Pair = (Vec<u8>, Vec<u8>);

    /// Gathers with almost no memory for changed records. Before each view, the test makes further changes, one by one. Their number is the argument
    /// `each`, but the total number of changes is at most the argument `all`. A change puts or deletes one of 50 domains.
    fn gather(each: u32, all: u32) -> Result<(Memory, Vec<Pair>), CopyError> {
        let memory = Memory::new(StoreId(1));
        let next = Cell::new(0);
        let views = |look: &mut dyn FnMut(&View<'_>)| {
            for _ in 0..each.min(all - next.get()) {
                let n = next.replace(next.get() + 1);
                let id = DomainId::from_bytes([(n * 7 % 50) as u8; 16]);
                let domain =
                    Domain { description: Some(n.to_string()), ..Domain::new("x1".parse().unwrap()) };
                let mut change = change();
                match n % 3 {
                    2 => change.delete::<Domain>(&id),
                    _ => change.put(&id, &domain),
                };
                memory.commit(&change).unwrap();
            }
            memory.with_view(look)
        };
        let mut gathered = Gathered::within(10_000, &views, &std::env::temp_dir(), 7, &mut |_, _| {})?;
        let mut file = Vec::new();
        gathered.write_backup(&mut file, &mut |_, _| {})?;
        let records =
            read_backup(file.as_slice())?.records.map(|record| record.map(|(_, key, value)| (key, value)));
        let records = records.collect::<Result<_, _>>()?;
        Ok((memory, records))
    }

    #[test]
    fn what_changed_is_taken_in_bit_by_bit() {
        // With few changes, one round reads all changes. With many changes, several rounds are needed.
        for (each, all) in [(3, 80), (10, 300), (10, 350), (1, 10_000)] {
            let (memory, records) = gather(each, all).unwrap();
            let mut expected = Vec::new();
            let scanned = memory.read(|view| {
                view.scan_values(Table::Domains, &[], &mut |key, value| {
                    expected.push((key.to_vec(), value.to_vec()));
                    Ok(ControlFlow::Continue(()))
                })
            });
            scanned.unwrap().unwrap();
            assert_eq!(records, expected, "{each} of {all}");
            assert!(!expected.is_empty());
        }
    }

    #[test]
    fn what_changes_faster_than_it_is_read_is_given_up() {
        let why = gather(100, 100_000).err().unwrap().to_string();
        assert!(why.contains("change faster than they can be copied"), "{why}");
    }
}
