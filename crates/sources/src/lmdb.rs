//! The store every process of the machine shares: LMDB, one database, the table's number in front of the key.
//!
//! LMDB's dangers live here and nowhere else: the map is reserved large at open, so that it is never resized under
//! readers; stale readers are cleared; what was acknowledged is fsynced (no WRITEMAP, no NOSYNC); a network file system is
//! refused; directory and files are for their owner alone.

use crate::memory::{check_expected, check_sizes};
use enfilade_facts::change::Change;
use enfilade_facts::codec;
use enfilade_facts::{At, CommitError, Each, Revision, Snapshot, Source, SourceError, StoreId, Table, View};
use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvOpenOptions, RoTxn, WithTls};
use std::ops::ControlFlow;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Address space, not disk: the file grows as it is filled.
const MAP_BYTES: [usize; 3] = [1 << 40, 1 << 36, 1 << 32];
const READERS_MAX: u32 = 4096;
/// The layout of the whole store; a store of a newer one is not opened.
const FORMAT: u32 = 1;
/// Where the store says who it is: a key no record can have, because every record's begins with its table's number.
const IDENTITY_KEY: &[u8] = b"\xffstore";

type Records = Database<'static, Bytes, Bytes>;

/// Facts in an LMDB environment.
pub struct Lmdb {
    env: Env<WithTls>,
    records: Records,
    store: StoreId,
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
}

impl Lmdb {
    /// Opens the store in this directory; makes it when it is not there.
    ///
    /// # Errors
    /// [`OpenError`]; nothing is changed then, but for a directory that may have been made.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let failed =
            |why: &dyn std::fmt::Display| OpenError::Io { path: path.to_owned(), why: why.to_string() };
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|why| failed(&why))?;
        check_place(path)?;
        let env = open_environment(path).map_err(|why| failed(&why))?;
        close_to_others(path).map_err(|why| failed(&why))?;
        // Readers that died while nobody was here would make the file grow from the first commit on.
        env.clear_stale_readers().map_err(|why| failed(&why))?;
        let (records, identity) = open_records(&env).map_err(|why| failed(&why))?;
        let (format, store) =
            identity.ok_or_else(|| failed(&"the record that says which store it is cannot be read"))?;
        if format > FORMAT {
            return Err(OpenError::Newer { path: path.to_owned(), found: format });
        }
        Ok(Lmdb { env, records, store })
    }

    /// Frees what dead readers held; otherwise the file grows with every commit.
    pub fn clear_stale_readers(&self) -> usize {
        self.env.clear_stale_readers().unwrap_or(0)
    }

    fn at_revision(&self, revision: usize) -> At {
        At { store: self.store, revision: Revision(revision as u64) }
    }
}

fn check_place(path: &Path) -> Result<(), OpenError> {
    let failed = |why: &dyn std::fmt::Display| OpenError::Io { path: path.to_owned(), why: why.to_string() };
    let mode = std::fs::metadata(path).map_err(|why| failed(&why))?.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(OpenError::TooWide { path: path.to_owned(), mode, is_dir: true });
    }
    // NFS, SMB, CIFS, SMB2, 9P, Ceph, AFS (linux/magic.h).
    const NETWORK: [u64; 7] =
        [0x6969, 0x517b, 0xff53_4d42, 0xfe53_4d42, 0x0102_1997, 0x00c3_6400, 0x5346_414f];
    let kind = rustix::fs::statfs(path).map_err(|why| failed(&why))?.f_type as u64 & 0xffff_ffff;
    if NETWORK.contains(&kind) {
        return Err(OpenError::Network(path.to_owned()));
    }
    for name in ["data.mdb", "lock.mdb"] {
        let file = path.join(name);
        if let Ok(meta) = std::fs::metadata(&file)
            && meta.mode() & 0o077 != 0
        {
            return Err(OpenError::TooWide { path: file, mode: meta.mode() & 0o777, is_dir: false });
        }
    }
    Ok(())
}

/// LMDB makes its files by the umask; inside a directory of mode 0700 nobody saw them meanwhile.
fn close_to_others(path: &Path) -> std::io::Result<()> {
    for name in ["data.mdb", "lock.mdb"] {
        let file = path.join(name);
        if std::fs::metadata(&file)?.mode() & 0o077 != 0 {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600))?;
        }
    }
    Ok(())
}

fn open_environment(path: &Path) -> heed::Result<Env<WithTls>> {
    let mut last = None;
    for bytes in MAP_BYTES {
        let mut options = EnvOpenOptions::new().read_txn_with_tls();
        options.map_size(bytes).max_readers(READERS_MAX).max_dbs(1);
        #[expect(unsafe_code, reason = "heed marks opening a memory map as unsafe")]
        // SAFETY: the file is changed by LMDB alone (mode 0600 in a 0700 directory of ours, never on a network file
        // system), no flag that weakens its locking is set, and no transaction outlives a short synchronous block.
        match unsafe { options.open(path) } {
            Ok(env) => return Ok(env),
            // Where address space is rationed a smaller map will do.
            Err(why @ heed::Error::Io(_)) => last = Some(why),
            Err(why) => return Err(why),
        }
    }
    Err(last.unwrap_or(heed::Error::EnvAlreadyOpened))
}

type Identity = Option<(u32, StoreId)>;

fn open_records(env: &Env<WithTls>) -> heed::Result<(Records, Identity)> {
    let opened = env.create_databases_and_commit(env.write_txn()?, |opener, txn| {
        let records = opener.create_database::<Bytes, Bytes>(txn, None)?;
        if records.get(txn, IDENTITY_KEY)?.is_none() {
            let mut id = [0; 16];
            getrandom::fill(&mut id)
                .map_err(|why| heed::Error::Io(std::io::Error::other(why.to_string())))?;
            let identity = [FORMAT.to_be_bytes().as_slice(), &id].concat();
            records.put(txn, IDENTITY_KEY, &identity)?;
        }
        let identity = records.get(txn, IDENTITY_KEY)?.and_then(read_identity);
        Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit((records, Kept(identity))))
    })?;
    match opened {
        CommitOrAbort::Commit((records, identity)) => Ok((records, identity)),
        CommitOrAbort::Abort(()) => Err(heed::Error::EnvAlreadyOpened),
    }
}

/// Carried through the commit beside the database handle.
struct Kept(Identity);

impl heed::OnCommit for Kept {
    type Committed = Identity;
    fn on_commit(self, _: &heed::CommitToken) -> Identity {
        self.0
    }
}

fn read_identity(stored: &[u8]) -> Identity {
    let (format, id) = stored.split_first_chunk::<4>()?;
    Some((u32::from_be_bytes(*format), StoreId(u128::from_be_bytes(id.try_into().ok()?))))
}

fn full_key(table: Table, key: &[u8]) -> Vec<u8> {
    let mut full = Vec::with_capacity(1 + key.len());
    full.push(table as u8);
    full.extend_from_slice(key);
    full
}

#[expect(clippy::needless_pass_by_value, reason = "shaped for map_err")]
fn unavailable(why: heed::Error) -> SourceError {
    let hint = match &why {
        heed::Error::Io(io) if io.raw_os_error() == Some(28) => "; the disk is full",
        heed::Error::Mdb(heed::MdbError::MapFull) => "; the store has reached the size of its map",
        heed::Error::Mdb(heed::MdbError::ReadersFull) => "; too many processes read it at once",
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
        self.lmdb.records.get(&self.txn, &full_key(table, key)).map_err(unavailable)
    }

    fn scan(&self, table: Table, prefix: &[u8], each: Each<'_>) -> Result<(), SourceError> {
        let found =
            self.lmdb.records.prefix_iter(&self.txn, &full_key(table, prefix)).map_err(unavailable)?;
        for record in found {
            let (key, stored) = record.map_err(unavailable)?;
            if let Some((_, key)) = key.split_first()
                && let ControlFlow::Break(()) = each(key, stored)
            {
                break;
            }
        }
        Ok(())
    }
}

impl Source for Lmdb {
    fn at(&self) -> At {
        self.at_revision(self.env.info().last_txn_id)
    }

    fn with_view(&self, look: &mut dyn FnMut(&View<'_>)) -> Result<(), SourceError> {
        let txn = self.env.read_txn().map_err(unavailable)?;
        look(&View::new(&Reading { lmdb: self, txn }));
        Ok(())
    }

    fn commit(&self, change: &Change) -> Result<At, CommitError> {
        check_sizes(change)?;
        let mut txn = self.env.write_txn().map_err(unavailable)?;
        for expect in change.expects() {
            let key = full_key(expect.table, &expect.key);
            let stored = self.records.get(&txn, &key).map_err(unavailable)?;
            check_expected(expect.table, &expect.key, &expect.expected, stored)?;
        }
        if change.is_empty() {
            txn.abort();
            return Ok(self.at());
        }
        let at = self.at_revision(txn.id());
        for (table, key, value) in change.writes() {
            let full = full_key(table, key);
            match value {
                Some(value) => {
                    let sealed = codec::seal(table, key, at.revision, value);
                    self.records.put(&mut txn, &full, &sealed).map_err(unavailable)?;
                }
                None => {
                    self.records.delete(&mut txn, &full).map_err(unavailable)?;
                }
            }
        }
        txn.commit().map_err(unavailable)?;
        Ok(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn conforms() {
        let scratch = Scratch::new();
        let count = std::cell::Cell::new(0);
        crate::conformance::all(&|| {
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
        assert_eq!(std::fs::metadata(path.join("data.mdb")).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_directory_others_can_open_is_refused_with_the_way_to_mend_it() {
        let scratch = Scratch::new();
        std::fs::set_permissions(scratch.path(), std::fs::Permissions::from_mode(0o750)).unwrap();
        let why = Lmdb::open(scratch.path()).err().unwrap().to_string();
        assert!(why.contains("mode 750") && why.contains("chmod 700"), "{why}");
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
