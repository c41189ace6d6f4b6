//! Opening the environment: once in a process for each directory, with a database for each table and the store's identity.

use super::high_water::HighWater;
use super::reading::Reading;
use super::writers::Writers;
use super::{OpenError, lost_map, place};
use crate::files::lookout::Lookout;
use enfilade_facts::journal::{Head, HeadKey, Identity, IdentityKey, Write};
use enfilade_facts::limits::MAP_PERCENT_MAX;
use enfilade_facts::tables::LogKey;
use enfilade_facts::{At, Revision, StoreId, Table, View};
use heed::types::Bytes;
use heed::{CommitOrAbort, Database, DatabaseOpener, Env, EnvOpenOptions, RoTxn, RwTxn, WithTls};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

/// Address space, not disk: the file grows as it is filled. Where address space is rationed a smaller map will do.
const MAP_BYTES: [usize; 3] = [1 << 36, 1 << 32, 1 << 30];
const READERS_MAX: u32 = 4096;
/// The layout of the whole store and the form of its records; a store of another is not opened.
pub(super) const FORMAT: u32 = 2;

/// How often a transaction is begun that has not the facts of its own number.
const BEGUN_MAX: u32 = 8;

pub(super) type Records = Database<'static, Bytes, Bytes>;
/// In the order of `Table::ALL`.
type Tables<'e> = [Database<'e, Bytes, Bytes>; Table::ALL.len()];

/// An open environment.
pub(super) struct Environment {
    pub(super) env: Env<WithTls>,
    pub(super) lookout: Lookout,
    pub(super) high_water: HighWater,
    pub(super) writers: Writers,
    tables: Tables<'static>,
    /// Held so that others see that the store is open.
    _live: File,
}

/// What has to be right about a store that is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// It is the one that was there before, and has not gone back.
    Checked,
    /// It is taken as it is.
    AsItIs,
}

impl Environment {
    /// The database of a table.
    pub(super) fn records(&self, table: Table) -> heed::Result<&Records> {
        let found = Table::ALL.iter().zip(&self.tables).find(|(this, _)| **this == table);
        // `Table::ALL` lists every table, so this error is for nobody.
        found.map(|(_, records)| records).ok_or(heed::Error::Mdb(heed::MdbError::BadDbi))
    }

    /// A revision of this store.
    pub(super) fn at(&self, revision: usize) -> At {
        let store = self.high_water.store().unwrap_or(StoreId(0));
        At { store, revision: Revision(revision as u64) }
    }

    /// Lends what is read by a transaction, raw and as a view, once.
    ///
    /// LMDB takes a transaction's number first, and then its roots from where every second commit puts them: a reader that is held up in
    /// between has the number of one revision and the facts of a later one. Facts under the number of an earlier revision are never lent;
    /// a transaction begun anew has both alike.
    pub(super) fn reading<R>(&self, look: impl FnOnce(&Reading<'_>, &View<'_>) -> R) -> heed::Result<R> {
        self.reading_by(|env| env.read_txn(), look)
    }

    /// The same by transactions that are begun so.
    pub(super) fn reading_by<R>(
        &self,
        begin: impl for<'e> Fn(&'e Env<WithTls>) -> heed::Result<RoTxn<'e, WithTls>>,
        look: impl FnOnce(&Reading<'_>, &View<'_>) -> R,
    ) -> heed::Result<R> {
        let mut begun = 0;
        loop {
            let txn = begin(&self.env)?;
            // The transaction's own id: the meta page can show a later one while this view still reads the older facts.
            let reading = Reading { environment: self, txn: &txn, at: self.at(txn.id()) };
            let view = View::new(&reading);
            begun += 1;
            // While its own is the newest number, nobody has put other roots where it took them from.
            let is_newest = self.env.info().last_txn_id == txn.id();
            // What is wrong each time is damaged, and says so to whoever looks.
            if is_newest || view.head().is_ok() || begun == BEGUN_MAX {
                return Ok(look(&reading, &view));
            }
        }
    }

    /// Writes into a transaction.
    pub(super) fn write(&self, txn: &mut RwTxn<'_>, writes: &[Write]) -> heed::Result<()> {
        for Write { table, key, stored } in writes {
            let records = self.records(*table)?;
            match stored {
                Some(stored) => records.put(txn, key, stored)?,
                None => drop(records.delete(txn, key)?),
            }
        }
        Ok(())
    }

    /// How much of the map is in use.
    pub(super) fn used_bytes(&self) -> heed::Result<u64> {
        self.used_in(&*self.env.read_txn()?)
    }

    fn used_in(&self, txn: &RoTxn<'_>) -> heed::Result<u64> {
        self.tables.iter().try_fold(0, |sum, records| {
            let stat = records.stat(txn)?;
            let pages = stat.branch_pages + stat.leaf_pages + stat.overflow_pages;
            Ok(sum + pages as u64 * u64::from(stat.page_size))
        })
    }

    /// Whether more would be too much.
    pub(super) fn is_full(&self, txn: &RoTxn<'_>) -> heed::Result<bool> {
        let info = self.env.info();
        let most = info.map_size as u64 / 100 * MAP_PERCENT_MAX;
        // Only a file that was that long once can be that full now.
        Ok(most < info.last_page_number as u64 * 4096 && most < self.used_in(txn)?)
    }

    /// Who the store says it is, and which change is its newest.
    fn introduce(&self, path: &Path) -> Result<(Identity, LogKey, At), OpenError> {
        let failed = |why| OpenError::io(path, &why);
        let introduced = self.reading(|_, view| {
            let identity = view.get::<Identity>(&IdentityKey).map_err(failed)?;
            let identity = identity.ok_or_else(|| OpenError::Foreign(path.to_owned()))?;
            Ok((identity, view.head().map_err(failed)?.change, view.at()))
        });
        introduced.map_err(|why| OpenError::heed(path, &why))?
    }

    /// The store is of a layout we know, is the one the high-water mark is of, and has not gone back.
    fn check(&self, path: &Path) -> Result<(), OpenError> {
        // The mark first: the store is never behind a mark that was read before it was looked at.
        let (mark, revision) = (self.high_water.change(), self.high_water.revision());
        let (identity, change, at) = self.introduce(path)?;
        let found = identity.format;
        match found.cmp(&FORMAT) {
            Ordering::Less => return Err(OpenError::Older { path: path.to_owned(), found }),
            Ordering::Greater => return Err(OpenError::Newer { path: path.to_owned(), found }),
            Ordering::Equal => {}
        }
        match self.high_water.store() {
            Some(store) if store != identity.store && self.high_water.is_announced(identity.store) => {
                self.begin(path)
            }
            Some(store) if store != identity.store => Err(OpenError::Replaced(path.to_owned())),
            Some(_) if change < mark => {
                Err(OpenError::WentBack { path: path.to_owned(), found: change.0, expected: mark.0 })
            }
            // Nothing is missing, so a revision beyond the store's is damage of the mark alone.
            Some(_) if at.revision.0 < revision => self.begin(path),
            Some(_) => Ok(()),
            None => self.begin(path),
        }
    }

    /// Sets the mark to where the store is.
    fn begin(&self, path: &Path) -> Result<(), OpenError> {
        let begin = || {
            let (identity, change, at) = self.introduce(path)?;
            self.high_water.begin(identity.store, change, at.revision.0);
            Ok(())
        };
        self.writers.alone(begin).map_err(|why| OpenError::io(path, &why))?
    }
}

/// LMDB's locks belong to the process: opened twice, closing one environment would drop the locks of the other. So the
/// environments of this process are shared, by what their file is, not by how its path is spelled.
static OPEN: Mutex<Option<Shared>> = Mutex::new(None);
type Shared = HashMap<(u64, u64), Weak<Environment>>;

/// The environment in this directory, opened now or shared with whoever opened it before.
pub(super) fn open(path: &Path, group: Option<u32>, trust: Trust) -> Result<Arc<Environment>, OpenError> {
    place::prepare(path, group)?;
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let open = open.get_or_insert_default();
    open.retain(|_, environment| environment.strong_count() > 0);
    if let Some(environment) = data_file(path).ok().and_then(|file| open.get(&file)).and_then(Weak::upgrade) {
        return Ok(environment);
    }
    let environment = Arc::new(open_anew(path, group, trust)?);
    let file = data_file(path).map_err(|why| OpenError::io(path, &why))?;
    open.insert(file, Arc::downgrade(&environment));
    Ok(environment)
}

/// Device and inode: while the environment is open no other file can have them.
fn data_file(path: &Path) -> std::io::Result<(u64, u64)> {
    let meta = std::fs::metadata(path.join("data.mdb"))?;
    Ok((meta.dev(), meta.ino()))
}

fn open_anew(path: &Path, group: Option<u32>, trust: Trust) -> Result<Environment, OpenError> {
    let failed = |why: &dyn std::fmt::Display| OpenError::io(path, why);
    let lmdb_failed = |why| OpenError::heed(path, &why);
    lost_map::end_cleanly();
    let live = place::live(path).map_err(|why| failed(&why))?;
    let env = open_map(path).map_err(lmdb_failed)?;
    let high_water = HighWater::open(&path.join(place::HIGH_WATER)).map_err(|why| failed(&why))?;
    let lookout = Lookout::open(&path.join(place::LOOKOUT)).map_err(|why| failed(&why))?;
    let writers = Writers::open(&path.join(place::WRITER_LOCK)).map_err(|why| failed(&why))?;
    place::set_modes(path, group).map_err(|why| failed(&why))?;
    // Readers that died while nobody was here would make the file grow from the first commit on.
    env.clear_stale_readers().map_err(lmdb_failed)?;
    let tables = match find_tables(&env).map_err(lmdb_failed)? {
        Some(tables) => tables,
        // Alone, so that of two processes that make the store at once the second finds what the first made.
        None => {
            let made = writers.alone(|| make_tables(&env)).map_err(|why| failed(&why))?;
            made.map_err(lmdb_failed)?.ok_or_else(|| OpenError::Foreign(path.to_owned()))?
        }
    };
    let environment = Environment { env, high_water, lookout, writers, tables, _live: live };
    if trust == Trust::Checked {
        environment.check(path)?;
    }
    Ok(environment)
}

fn open_map(path: &Path) -> heed::Result<Env<WithTls>> {
    let mut last = heed::Error::EnvAlreadyOpened;
    for bytes in MAP_BYTES {
        match open_map_of(path, bytes) {
            // Its last user is letting go of it on another thread at this moment.
            Err(heed::Error::EnvAlreadyOpened) => {
                let closing = path.canonicalize().ok().and_then(heed::env_closing_event);
                if let Some(closing) = closing {
                    closing.wait_timeout(Duration::from_secs(5));
                }
                return open_map_of(path, bytes);
            }
            Err(why @ heed::Error::Io(_)) => last = why,
            done => return done,
        }
    }
    Err(last)
}

#[expect(unsafe_code, reason = "heed marks opening a memory map as unsafe")]
fn open_map_of(path: &Path, bytes: usize) -> heed::Result<Env<WithTls>> {
    let mut options = EnvOpenOptions::new().read_txn_with_tls();
    options.map_size(bytes).max_readers(READERS_MAX).max_dbs(Table::ALL.len() as u32);
    // SAFETY: the file is changed by LMDB alone (mode 0600 in a 0700 directory of ours, never on a network file
    // system), no flag that weakens its locking is set, and no transaction outlives a short synchronous block.
    unsafe { options.open(path) }
}

/// The tables, when all are there: whoever only reads need not wait for a writer.
fn find_tables(env: &Env<WithTls>) -> heed::Result<Option<Tables<'static>>> {
    let found = env.open_databases_and_commit(env.read_txn()?, |opener, txn| {
        let all = every_table(|name| opener.open_database(txn, Some(name)))?;
        Ok::<_, heed::Error>(all.map_or(CommitOrAbort::Abort(()), CommitOrAbort::Commit))
    })?;
    Ok(match found {
        CommitOrAbort::Commit(tables) => Some(tables),
        CommitOrAbort::Abort(()) => None,
    })
}

/// Makes the tables that are missing; nothing when the environment holds something that is no store of ours.
fn make_tables(env: &Env<WithTls>) -> heed::Result<Option<Tables<'static>>> {
    let made = env.create_databases_and_commit(env.write_txn()?, |opener, txn| {
        let head = opener.open_database::<Bytes, Bytes>(txn, Some(Table::Head.name()))?;
        if head.is_none() && holds_anything(opener, txn)? {
            return Ok::<_, heed::Error>(CommitOrAbort::Abort(()));
        }
        let tables = every_table(|name| opener.create_database(txn, Some(name)).map(Some))?;
        if head.is_none() {
            let mut id = [0; 16];
            getrandom::fill(&mut id)
                .map_err(|why| heed::Error::Io(std::io::Error::other(why.to_string())))?;
            let store = StoreId(u128::from_be_bytes(id));
            let at = At { store, revision: Revision(txn.id() as u64) };
            let head = opener.create_database::<Bytes, Bytes>(txn, Some(Table::Head.name()))?;
            let identity = Write::put(&IdentityKey, &Identity { format: FORMAT, store }, at);
            let start = Write::put(&HeadKey, &Head { change: LogKey(0) }, at);
            for Write { key, stored, .. } in [identity, start] {
                head.put(txn, &key, &stored.unwrap_or_default())?;
            }
        }
        Ok(tables.map_or(CommitOrAbort::Abort(()), CommitOrAbort::Commit))
    })?;
    Ok(match made {
        CommitOrAbort::Commit(tables) => Some(tables),
        CommitOrAbort::Abort(()) => None,
    })
}

fn holds_anything(opener: &DatabaseOpener<'_, WithTls>, txn: &RoTxn<'_>) -> heed::Result<bool> {
    let root = opener.open_database::<Bytes, Bytes>(txn, None)?;
    Ok(match root {
        Some(root) => root.first(txn)?.is_some(),
        None => false,
    })
}

/// Opens each table; `None` when one is not there.
fn every_table<'e>(
    mut open: impl FnMut(&str) -> heed::Result<Option<Database<'e, Bytes, Bytes>>>,
) -> heed::Result<Option<Tables<'e>>> {
    let mut opened = Vec::with_capacity(Table::ALL.len());
    for table in Table::ALL {
        match open(table.name())? {
            Some(records) => opened.push(records),
            None => return Ok(None),
        }
    }
    Ok(opened.try_into().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn an_environment_of_somebody_else_is_left_alone() {
        let scratch = Scratch::new();
        let path = scratch.path().join("other");
        std::fs::DirBuilder::new().create(&path).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        let env = open_map_of(&path, 1 << 20).unwrap();
        let theirs = env.create_databases_and_commit(env.write_txn().unwrap(), |opener, txn| {
            let root = opener.create_database::<Bytes, Bytes>(txn, None)?;
            root.put(txn, b"cn=admin", b"theirs")?;
            Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit(()))
        });
        assert!(theirs.is_ok());
        drop(env);
        let why = open(&path, None, Trust::Checked).err().unwrap().to_string();
        assert!(why.contains("no store of facts"), "{why}");
    }
}
