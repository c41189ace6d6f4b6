//! The store every process of the machine shares: LMDB, one database for each table.
//!
//! LMDB's dangers live here and nowhere else: the map is reserved large at open, so that it is never resized under
//! readers; stale readers are cleared; what was acknowledged is fsynced (no WRITEMAP, no NOSYNC); a network file system is
//! refused; directory and files are for their owner alone; a directory is opened once in a process, however often asked.

mod environment;
mod place;

use crate::memory::{check_expected, check_sizes};
use enfilade_facts::change::Change;
use enfilade_facts::codec;
use enfilade_facts::limits::KEY_BYTES_MAX;
use enfilade_facts::{At, CommitError, Each, Revision, Snapshot, Source, SourceError, Table, View};
use environment::{Environment, FORMAT, IDENTITY_KEY};
use heed::{RoTxn, WithTls};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Facts in an LMDB environment.
pub struct Lmdb {
    environment: Arc<Environment>,
}

/// The store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The directory or a file in it.
    #[error("facts in `{path}` cannot be opened: {why}")]
    Io {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        why: String,
    },
    /// Others could read or change it.
    #[error("facts in `{path}` can be opened by others (mode {mode:o}); run `chmod {} '{path}'`", if *is_dir { "700" } else { "600" })]
    TooWide {
        /// The directory or file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
        /// Which of both.
        is_dir: bool,
    },
    /// A map that several machines write is no map.
    #[error(
        "facts in `{0}` are on a network file system, where LMDB is not safe; choose a local directory with --data"
    )]
    Network(PathBuf),
    /// Written by a later version.
    #[error("facts in `{path}` have format {found}, this program knows {FORMAT}; run a newer enfilade")]
    Newer {
        /// The directory.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
    /// Somebody else's environment, which we must not write into.
    #[error(
        "`{0}` holds an LMDB environment that is no store of facts; choose another directory with --data"
    )]
    Foreign(PathBuf),
}

impl OpenError {
    fn io(path: &Path, why: &dyn std::fmt::Display) -> Self {
        OpenError::Io { path: path.to_owned(), why: why.to_string() }
    }
}

impl Lmdb {
    /// Opens the store in this directory; makes it when it is not there. Opened twice, both see one store.
    ///
    /// # Errors
    /// [`OpenError`]; nothing is changed then, but for a directory or an empty store that may have been made.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        Ok(Lmdb { environment: environment::open(path)? })
    }

    /// Frees what dead readers held; otherwise the file grows with every commit. Says how many there were.
    pub fn clear_stale_readers(&self) -> usize {
        self.environment.env.clear_stale_readers().unwrap_or(0)
    }

    fn at_revision(&self, revision: usize) -> At {
        At { store: self.environment.store, revision: Revision(revision as u64) }
    }
}

/// LMDB knows no keys of other lengths and fails on them; here there is just no record under such a key.
fn can_be(key: &[u8]) -> bool {
    (1..=KEY_BYTES_MAX).contains(&key.len())
}

#[expect(clippy::needless_pass_by_value, reason = "shaped for map_err")]
fn unavailable(why: heed::Error) -> SourceError {
    let hint = match &why {
        heed::Error::Io(io) if io.raw_os_error() == Some(28) => "; the disk is full",
        heed::Error::Mdb(heed::MdbError::MapFull) => "; the store has reached the size of its map",
        heed::Error::Mdb(heed::MdbError::ReadersFull) => "; too many processes read it at once",
        heed::Error::Mdb(heed::MdbError::BadRslot) => {
            "; this thread is looking at a view already, and one is the most"
        }
        _ => "",
    };
    SourceError::Unavailable(format!("{why}{hint}"))
}

struct Reading<'l> {
    lmdb: &'l Lmdb,
    txn: RoTxn<'l, WithTls>,
}

impl Snapshot for Reading<'_> {
    fn at(&self) -> At {
        // The transaction's own id: the meta page can show a later one while this view still reads the older facts.
        self.lmdb.at_revision(self.txn.id())
    }

    fn get<'s>(&'s self, table: Table, key: &[u8]) -> Result<Option<&'s [u8]>, SourceError> {
        if !can_be(key) {
            return Ok(None);
        }
        self.lmdb
            .environment
            .records(table)
            .and_then(|records| records.get(&self.txn, key))
            .map_err(unavailable)
    }

    fn scan(&self, table: Table, prefix: &[u8], each: Each<'_>) -> Result<(), SourceError> {
        let records = self.lmdb.environment.records(table).map_err(unavailable)?;
        if prefix.is_empty() {
            walk(table, records.iter(&self.txn).map_err(unavailable)?, each)
        } else if can_be(prefix) {
            walk(table, records.prefix_iter(&self.txn, prefix).map_err(unavailable)?, each)
        } else {
            Ok(())
        }
    }
}

fn walk<'t>(
    table: Table,
    records: impl Iterator<Item = heed::Result<(&'t [u8], &'t [u8])>>,
    each: Each<'_>,
) -> Result<(), SourceError> {
    for record in records {
        let (key, stored) = record.map_err(unavailable)?;
        // The store's own record is no row.
        let is_row = table != Table::Meta || key != IDENTITY_KEY;
        if is_row && each(key, stored).is_break() {
            break;
        }
    }
    Ok(())
}

impl Source for Lmdb {
    fn at(&self) -> At {
        self.at_revision(self.environment.env.info().last_txn_id)
    }

    fn with_view(&self, look: &mut dyn FnMut(&View<'_>)) -> Result<(), SourceError> {
        let txn = self.environment.env.read_txn().map_err(unavailable)?;
        look(&View::new(&Reading { lmdb: self, txn }));
        Ok(())
    }

    fn commit(&self, change: &Change) -> Result<At, CommitError> {
        if change.is_empty() && change.expects().is_empty() {
            return Ok(self.at());
        }
        check_sizes(change)?;
        let mut txn = self.environment.env.write_txn().map_err(unavailable)?;
        for expect in change.expects() {
            let records = self.environment.records(expect.table).map_err(unavailable)?;
            let stored = match can_be(&expect.key) {
                true => records.get(&txn, &expect.key).map_err(unavailable)?,
                false => None,
            };
            check_expected(expect.table, &expect.key, &expect.expected, stored)?;
        }
        let at = self.at_revision(txn.id());
        let mut has_written = false;
        for (table, key, value) in change.writes() {
            let records = self.environment.records(table).map_err(unavailable)?;
            has_written |= match value {
                Some(value) => {
                    let sealed = codec::seal(table, key, at.revision, value);
                    records.put(&mut txn, key, &sealed).map_err(unavailable).map(|()| true)?
                }
                None => records.delete(&mut txn, key).map_err(unavailable)?,
            };
        }
        if !has_written {
            // LMDB would not count such a commit, and its number would be given out again for another one.
            let before = self.at_revision(txn.id().saturating_sub(1));
            txn.abort();
            return Ok(before);
        }
        txn.commit().map_err(unavailable)?;
        Ok(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use enfilade_facts::Read;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn conforms() {
        let scratch = Scratch::new();
        let count = std::cell::Cell::new(0);
        crate::conformance::all(|| {
            count.set(count.get() + 1);
            Box::new(Lmdb::open(&scratch.path().join(count.get().to_string())).unwrap())
        });
    }

    #[test]
    fn what_was_committed_is_there_after_reopening() {
        let scratch = Scratch::new();
        let path = scratch.path().join("facts");
        let first = Lmdb::open(&path).unwrap();
        let at = crate::conformance::put_something(&first);
        drop(first);
        let second = Lmdb::open(&path).unwrap();
        assert_eq!(second.at(), at);
        crate::conformance::something_is_there(&second);
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!(mode(&path), 0o700);
        assert_eq!((mode(&path.join("data.mdb")), mode(&path.join("lock.mdb"))), (0o600, 0o600));
    }

    #[test]
    fn opened_twice_it_is_one_store_however_the_path_is_spelled() {
        let scratch = Scratch::new();
        let path = scratch.path().join("facts");
        let first = Lmdb::open(&path).unwrap();
        let link = scratch.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let second = Lmdb::open(&link).unwrap();
        let at = crate::conformance::put_something(&first);
        drop(first);
        assert_eq!(second.at(), at);
        crate::conformance::something_is_there(&second);
        drop(second);
        crate::conformance::something_is_there(&Lmdb::open(&path).unwrap());
    }

    #[test]
    fn opened_and_dropped_by_many_threads_at_once_it_is_one_store() {
        let scratch = Scratch::new();
        let path = scratch.path().join("facts");
        let stores: Vec<_> = std::thread::scope(|scope| {
            let open = || (0..20).map(|_| Lmdb::open(&path).unwrap().at().store).collect::<Vec<_>>();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(open)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        assert!(stores.iter().all(|store| *store == stores[0]), "{stores:?}");
        assert_ne!(stores[0], Lmdb::open(&scratch.path().join("other")).unwrap().at().store);
    }

    #[test]
    fn a_store_of_a_later_format_and_a_foreign_one_are_refused() {
        let scratch = Scratch::new();
        let path = scratch.path().join("facts");
        let lmdb = Lmdb::open(&path).unwrap();
        let env = &lmdb.environment.env;
        let mut txn = env.write_txn().unwrap();
        let meta = lmdb.environment.records(Table::Meta).unwrap();
        let later = [(FORMAT + 1).to_be_bytes().as_slice(), &[7; 16]].concat();
        meta.put(&mut txn, IDENTITY_KEY, &later).unwrap();
        txn.commit().unwrap();
        drop(lmdb);
        let why = Lmdb::open(&path).err().unwrap().to_string();
        assert!(why.contains(&format!("have format {}", FORMAT + 1)), "{why}");

        let foreign = scratch.path().join("foreign");
        let lmdb = Lmdb::open(&foreign).unwrap();
        let env = &lmdb.environment.env;
        let mut txn = env.write_txn().unwrap();
        lmdb.environment.records(Table::Meta).unwrap().delete(&mut txn, IDENTITY_KEY).unwrap();
        txn.commit().unwrap();
        drop(lmdb);
        let why = Lmdb::open(&foreign).err().unwrap().to_string();
        assert!(why.contains("which store it is"), "{why}");
    }

    #[test]
    fn the_stores_own_record_is_no_row() {
        let scratch = Scratch::new();
        let lmdb = Lmdb::open(&scratch.path().join("facts")).unwrap();
        let count =
            lmdb.read(|view| view.list::<enfilade_facts::tables::SidSpace>(&[]).map(|rows| rows.len()));
        assert_eq!(count.unwrap(), Ok(0));
    }

    #[test]
    fn a_view_inside_a_view_says_what_is_wrong() {
        let scratch = Scratch::new();
        let lmdb = Lmdb::open(&scratch.path().join("facts")).unwrap();
        let why = lmdb.read(|_| lmdb.read(|_| ())).unwrap().unwrap_err().to_string();
        assert!(why.contains("looking at a view already"), "{why}");
    }

    #[test]
    fn a_flipped_bit_on_disk_never_reads_as_something_else() {
        let scratch = Scratch::new();
        let path = scratch.path().join("facts");
        drop(Lmdb::open(&path).unwrap());
        let lmdb = Lmdb::open(&path).unwrap();
        crate::conformance::put_something(&lmdb);
        drop(lmdb);
        let file = path.join("data.mdb");
        let whole = std::fs::read(&file).unwrap();
        // The value of the record stands in the file once for each page that holds it.
        let needle = b"something";
        let places: Vec<usize> =
            (0..whole.len() - needle.len()).filter(|&at| whole[at..].starts_with(needle)).collect();
        assert!(!places.is_empty());
        let mut flipped = whole.clone();
        places.iter().for_each(|&at| flipped[at] ^= 1);
        std::fs::write(&file, &flipped).unwrap();
        crate::conformance::something_is_refused(&Lmdb::open(&path).unwrap());
    }
}
