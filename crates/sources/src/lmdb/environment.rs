//! Opens the LMDB environment of a directory, with a database for each table, and checks the identity of the store. A process opens each environment
//! only once.

use super::disk_reserve::DiskReserve;
use super::high_water::HighWater;
use super::map::{MAP_BYTES, open_map, open_map_of};
use super::reading::Reading;
use super::rewrite::Rewrite;
use super::tables::{self, Records, Tables, There};
use super::writers::Writers;
use super::{OpenError, Terms, newest, place, unavailable};
use crate::faults::{self, FAULTED, Store, within};
use crate::files::mirror_leader::MirrorLeader;
use crate::new_map;
use crate::structure::{self, Depth};
use enfilade_facts::format::{FORMAT, FORMAT_IN_FLEET, FORMAT_OLDEST, REPLICA};
use enfilade_facts::journal::{Identity, IdentityKey, Write};
use enfilade_facts::{At, CommitError, Revision, SourceError, StoreId, Table, View};
use heed::{Env, EnvFlags, RoTxn, RwTxn, WithTls};
use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{self, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The greatest number of attempts to begin a transaction. An attempt fails if the transaction and the head have different commit numbers.
const BEGUN_MAX: u32 = 8;

/// An open environment.
pub(super) struct Environment {
    pub(super) env: Env<WithTls>,
    pub(super) mirror_leader: MirrorLeader,
    pub(super) high_water: HighWater,
    pub(super) writers: Writers,
    pub(super) disk_reserve: DiskReserve,
    /// Whether the changes come from the log of a fleet. The flag in the store's format changes only while no process has the store open.
    pub(super) is_replica: bool,
    /// The format of the store, as this process knows it. Only a member of a fleet has a store of an older format than [`FORMAT`].
    pub(super) format: AtomicU32,
    tables: Tables<'static>,
    /// A number that no other environment of this process has had.
    number: u64,
    /// The shared lock that every process holds while it has the store open.
    pub(super) live: File,
    /// The path and the advice for the message after a fatal signal.
    pub(super) store: Store,
}

/// The checks that are made when a store is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// The store must have the id in the high-water mark, and must not be older than the mark.
    Checked,
    /// The store is accepted without these checks.
    AsItIs,
}

thread_local! {
    /// The environment number, the LMDB commit number and the revision of the last transaction with which this thread read a store.
    static LAST: Cell<(u64, u64, Revision)> = const { Cell::new((0, 0, Revision(0))) };
}

impl Environment {
    /// The database of a table; `None` in a store that is older than the table.
    pub(super) fn find(&self, table: Table) -> Option<&Records<'static>> {
        tables::of(&self.tables, table)
    }

    /// The database of a table that exists.
    pub(super) fn records(&self, table: Table) -> heed::Result<&Records<'static>> {
        tables::existing(&self.tables, table)
    }

    /// The tables, for a rewrite of all records.
    pub(super) fn rewrite(&self) -> Rewrite<'static> {
        Rewrite(self.tables)
    }

    /// The id of this store and the given revision, as one value.
    pub(super) fn at(&self, revision: Revision) -> At {
        At { store: self.high_water.store().unwrap_or(StoreId(0)), revision }
    }

    /// Begins a read transaction, and calls the function `look` once with the raw records and with a view of the records.
    ///
    /// # Errors
    /// When the store cannot be read, or its head does not have the number of the newest commit.
    pub(super) fn reading<R>(
        &self,
        look: impl FnOnce(&Reading<'_>, &View<'_>) -> R,
    ) -> Result<R, SourceError> {
        self.reading_by(|env| env.read_txn(), look)
    }

    /// Works like `reading`, but calls `begin` to begin each transaction.
    pub(super) fn reading_by<R>(
        &self,
        begin: impl for<'e> Fn(&'e Env<WithTls>) -> heed::Result<RoTxn<'e, WithTls>>,
        look: impl FnOnce(&Reading<'_>, &View<'_>) -> R,
    ) -> Result<R, SourceError> {
        within(self.store, || {
            let (txn, revision) = self.begun(begin).map_err(unavailable)?;
            let reading = self.reading_at(&txn, self.at(revision?), txn.id() as u64);
            Ok(look(&reading, &View::new(&reading)))
        })
    }

    /// Works like `reading`, but the head of the store may be damaged. `look` gets only the raw records, because a view needs the head.
    pub(super) fn reading_raw<R>(&self, look: impl FnOnce(&Reading<'_>) -> R) -> heed::Result<R> {
        within(self.store, || {
            let (txn, revision) = self.begun(|env| env.read_txn())?;
            let at = self.at(revision.unwrap_or(Revision(0)));
            Ok(look(&self.reading_at(&txn, at, txn.id() as u64)))
        })
    }

    /// The records of a transaction, with the revision in the head.
    ///
    /// # Errors
    /// When the head has the number of another commit.
    pub(super) fn reading_of<'t>(
        &'t self,
        txn: &'t RoTxn<'t>,
        commit: u64,
    ) -> Result<Reading<'t>, SourceError> {
        Reading::of(&self.tables, txn, self.at(Revision(0)), commit)
    }

    /// The records of a transaction, with the revision that the caller passes.
    pub(super) fn reading_at<'t>(&'t self, txn: &'t RoTxn<'t>, at: At, commit: u64) -> Reading<'t> {
        Reading { tables: &self.tables, txn, at, commit }
    }

    /// Begins a transaction, and returns it with the revision of its facts.
    ///
    /// LMDB first reads the number of the newest commit, and then the roots of its trees from a place that every second commit overwrites. If a
    /// reader is delayed between the two steps, its transaction has the number of one commit, but reads the facts of a later commit. So every commit
    /// writes its number into the head. If the transaction and the head have different numbers, a new transaction is begun. If the numbers differ in
    /// every attempt, the head is damaged.
    fn begun<'e>(
        &'e self,
        begin: impl Fn(&'e Env<WithTls>) -> heed::Result<RoTxn<'e, WithTls>>,
    ) -> heed::Result<(RoTxn<'e, WithTls>, Result<Revision, SourceError>)> {
        let mut begun = 0;
        loop {
            let txn = begin(&self.env)?;
            // The commit number is the id of the transaction. The number in the meta page may already belong to a later commit.
            let commit = txn.id() as u64;
            // Only a later commit can overwrite the roots. If no later commit exists yet, the transaction has read the roots of its own commit.
            let is_newest = self.env.info().last_txn_id == txn.id();
            let (environment, last, revision) = LAST.get();
            if is_newest && (environment, last) == (self.number, commit) {
                return Ok((txn, Ok(revision)));
            }
            begun += 1;
            match self.reading_of(&txn, commit).map(|reading| reading.at.revision) {
                Ok(revision) => {
                    LAST.set((self.number, commit, revision));
                    return Ok((txn, Ok(revision)));
                }
                Err(why) if begun == BEGUN_MAX => return Ok((txn, Err(why))),
                Err(_) => {}
            }
        }
    }

    /// Writes records in a transaction.
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

    /// Calls `work` while no other process and no other thread writes.
    ///
    /// # Errors
    /// The errors of [`Writers::alone`].
    pub(super) fn alone<R>(&self, work: impl FnOnce() -> R) -> Result<R, CommitError> {
        within(self.store, || self.writers.alone(work))
    }

    /// The part of the map that is in use, in bytes.
    pub(super) fn used_bytes(&self) -> heed::Result<u64> {
        within(self.store, || self.used_in(&*self.env.read_txn()?))
    }

    pub(super) fn used_in(&self, txn: &RoTxn<'_>) -> heed::Result<u64> {
        // The counters have no checksum, and may have been damaged after the store was opened. So the sums must not overflow: an overflow would end
        // this process.
        self.tables.iter().flatten().try_fold(0_u64, |sum, records| {
            let stat = records.stat(txn)?;
            let pages = [stat.branch_pages, stat.leaf_pages, stat.overflow_pages];
            let pages = pages.into_iter().fold(0, usize::saturating_add) as u64;
            Ok(sum.saturating_add(pages.saturating_mul(u64::from(stat.page_size))))
        })
    }

    /// The length of a page of the store, in bytes. It is the memory page size of the machine that made the store.
    pub(super) fn page_bytes(&self, txn: &RoTxn<'_>) -> heed::Result<u64> {
        let records = self.tables.iter().flatten().next();
        Ok(records.map(|records| records.stat(txn)).transpose()?.map_or(4096, |stat| stat.page_size.into()))
    }

    /// The stored identity of the store, and the store's revision.
    pub(super) fn introduce(&self, path: &Path) -> Result<(Identity, Revision), OpenError> {
        let failed = |why| OpenError::io(path, &why);
        let introduced = self.reading(|_, view| {
            let identity = view.get::<Identity>(&IdentityKey).map_err(failed)?;
            let identity = identity.ok_or_else(|| OpenError::Foreign(path.to_owned()))?;
            Ok((identity, view.head().map_err(failed)?.revision))
        });
        introduced.map_err(failed)?
    }

    /// Checks that the store has the id in the high-water mark, and is not older than the mark. If there is no mark yet, or a restore has announced
    /// the id of the store, sets the mark.
    pub(super) fn check(&self, path: &Path) -> Result<(), OpenError> {
        // The high-water mark is read before the store, because the store may advance in between. A sound store is never older than a mark that was
        // read earlier.
        let mark = self.high_water.revision();
        let (identity, revision) = self.introduce(path)?;
        match self.high_water.store() {
            Some(store) if store != identity.store && self.high_water.is_announced(identity.store) => {
                self.begin(path)
            }
            Some(store) if store != identity.store => Err(OpenError::Replaced(path.to_owned())),
            Some(_) if revision < mark => {
                Err(OpenError::WentBack { path: path.to_owned(), found: revision, expected: mark })
            }
            Some(_) => Ok(()),
            None => self.begin(path),
        }
    }

    /// Sets the high-water mark to the identity and revision of the store.
    fn begin(&self, path: &Path) -> Result<(), OpenError> {
        let begin = || {
            let (identity, revision) = self.introduce(path)?;
            self.high_water.begin(identity.store, revision);
            Ok(())
        };
        self.alone(begin).map_err(|why| OpenError::io(path, &why))?
    }
}

/// The open environments of this process, by the device and inode number of their file. LMDB's locks belong to the process: if the process opened the
/// same file as two environments, closing one environment would release the locks of the other environment. So all handles share one environment. The
/// table does not use the path as its key, because several paths can lead to one file.
static OPEN: Mutex<Option<Shared>> = Mutex::new(None);
type Shared = HashMap<(u64, u64), Weak<Environment>>;

/// Opens the environment in this directory, or returns the environment if it is already open in this process.
pub(super) fn open(path: &Path, terms: Terms, trust: Trust) -> Result<Arc<Environment>, OpenError> {
    place::prepare(path, terms.group)?;
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let open = open.get_or_insert_default();
    open.retain(|_, environment| environment.strong_count() > 0);
    if let Some(environment) = data_file(path).ok().and_then(|file| open.get(&file)).and_then(Weak::upgrade) {
        return Ok(environment);
    }
    let environment = Arc::new(open_anew(path, terms, trust)?);
    let file = data_file(path).map_err(|why| OpenError::io(path, &why))?;
    open.insert(file, Arc::downgrade(&environment));
    Ok(environment)
}

/// The device and the inode number of the data file. While the environment is open, no other file can have the same device and inode number.
fn data_file(path: &Path) -> std::io::Result<(u64, u64)> {
    let meta = std::fs::metadata(path.join("data.mdb"))?;
    Ok((meta.dev(), meta.ino()))
}

/// Opens the environment. This function does not check whether this process has the environment open already.
pub(super) fn open_anew(path: &Path, terms: Terms, trust: Trust) -> Result<Environment, OpenError> {
    let (environment, found) = open_of_any_format(path, terms)?;
    let place = path.to_owned();
    match found.cmp(&FORMAT) {
        Ordering::Greater => return Err(OpenError::Newer { path: place, found }),
        Ordering::Less if found < FORMAT_OLDEST => return Err(OpenError::TooOld { path: place, found }),
        Ordering::Less if environment.is_replica && found < FORMAT_IN_FLEET => {
            return Err(OpenError::OlderInFleet { path: place, found });
        }
        Ordering::Less if environment.is_replica => {}
        Ordering::Less => return Err(OpenError::Older { path: place, found }),
        Ordering::Equal => {}
    }
    if let Some(table) = Table::ALL.into_iter().find(|table| environment.find(*table).is_none()) {
        return Err(OpenError::Damaged { path: place, why: format!("table `{}` is missing", table.name()) });
    }
    if trust == Trust::Checked {
        environment.check(path)?;
    }
    Ok(environment)
}

/// Opens the environment in this directory with its existing tables. Also returns the format of the store. The identity of the store is not checked.
/// If there is no store, an empty one is made.
pub(super) fn open_of_any_format(path: &Path, terms: Terms) -> Result<(Environment, u32), OpenError> {
    let store = Store::new(path, ADVICE).map_err(|why| OpenError::io(path, &why))?;
    faults::end_with_a_message();
    within(store, || open_with_tables(path, terms, store))
}

/// The advice in the message that is printed when LMDB causes a fatal signal.
const ADVICE: &str = "run `enfilade facts check`; if the check finds damage, restore a backup of the facts with `enfilade facts restore FILE --set-aside`, or a backup of the whole server with `enfilade restore FILE --force`\n";

/// Returns an error if pages of the store are damaged. Must be called before LMDB maps the file.
pub(super) fn check_pages(path: &Path, depth: Depth) -> Result<(), OpenError> {
    let data = path.join("data.mdb");
    let why = match data.exists() {
        true => {
            structure::damage(&data, depth).map_err(|why| OpenError::heed(path, &heed::Error::Io(why)))?
        }
        // A high-water mark without `data.mdb` means that the store's file was lost. Without this error, LMDB would create an empty store in its
        // place.
        false => path.join(place::HIGH_WATER).exists().then(|| "`data.mdb` is missing".to_owned()),
    };
    why.map_or(Ok(()), |why| Err(OpenError::Damaged { path: path.to_owned(), why }))
}

fn open_with_tables(path: &Path, terms: Terms, store: Store) -> Result<(Environment, u32), OpenError> {
    let failed = |why: &dyn std::fmt::Display| OpenError::io(path, why);
    let lmdb_failed = |why| OpenError::heed(path, &why);
    let live = place::live(path)?;
    if path.join(FAULTED).exists() {
        return Err(OpenError::Faulted(path.to_owned()));
    }
    check_pages(path, Depth::ByLength)?;
    let is_marked = path.join(place::HIGH_WATER).exists() || !path.join("data.mdb").exists();
    new_map::make_where_missing(path, |place| open_map_of(place, MAP_BYTES[2], EnvFlags::empty()))
        .map_err(lmdb_failed)?;
    let env = open_map(path, terms).map_err(lmdb_failed)?;
    let env = if is_marked { env } else { believed(path, terms, env)? };
    let high_water = HighWater::open(&path.join(place::HIGH_WATER)).map_err(|why| failed(&why))?;
    let mirror_leader = MirrorLeader::open(&path.join(place::MIRROR_LEADER)).map_err(|why| failed(&why))?;
    let writers = Writers::open(&path.join(place::WRITER_LOCK)).map_err(|why| failed(&why))?;
    place::set_modes(path, terms.group).map_err(|why| failed(&why))?;
    // The reader slots of dead processes are freed. Otherwise LMDB could not reuse old pages, and the file would grow with every commit.
    env.clear_stale_readers().map_err(lmdb_failed)?;
    let mut there = tables::find(&env).map_err(lmdb_failed)?;
    if matches!(there, There::Nothing) {
        // The store is made under the writer lock. So if two processes open the directory at the same time, the second process finds the store of the
        // first process.
        let made = writers.alone(|| tables::make(&env, FORMAT, &Table::ALL)).map_err(|why| failed(&why))?;
        made.map_err(lmdb_failed)?;
        there = tables::find(&env).map_err(lmdb_failed)?;
    }
    if let There::Store(format, tables) = &there
        && format & REPLICA != 0
        && (FORMAT_IN_FLEET..FORMAT).contains(&(format & !REPLICA))
        && tables.iter().any(Option::is_none)
    {
        let made = writers.alone(|| tables::make_missing(&env)).map_err(|why| failed(&why))?;
        made.map_err(lmdb_failed)?;
        there = tables::find(&env).map_err(lmdb_failed)?;
    }
    let (format, tables) = match there {
        There::Store(format, tables) => (format, *tables),
        There::Damaged(why) => {
            return Err(OpenError::Damaged { path: path.to_owned(), why: why.to_string() });
        }
        There::Nothing | There::Foreign => return Err(OpenError::Foreign(path.to_owned())),
    };
    let disk_reserve = DiskReserve::open(&env).map_err(lmdb_failed)?;
    static NUMBERS: AtomicU64 = AtomicU64::new(1);
    let number = NUMBERS.fetch_add(1, atomic::Ordering::Relaxed);
    let environment = Environment {
        env,
        high_water,
        mirror_leader,
        writers,
        disk_reserve,
        is_replica: format & REPLICA != 0,
        format: AtomicU32::new(format & !REPLICA),
        tables,
        number,
        live,
        store,
    };
    Ok((environment, format & !REPLICA))
}

/// Checks the two newest commits of a store without a high-water mark, and opens the map again if no damage is found.
fn believed(path: &Path, terms: Terms, env: Env<WithTls>) -> Result<Env<WithTls>, OpenError> {
    let map_bytes = env.info().map_size;
    env.prepare_for_closing().wait();
    match newest::damage(path, map_bytes).map_err(|why| OpenError::heed(path, &why))? {
        None => open_map(path, terms).map_err(|why| OpenError::heed(path, &why)),
        Some(why) => {
            let mark = place::HIGH_WATER;
            let why = format!(
                "{why} (and the file `{mark}`, which contains the number of the newest acknowledged revision, is missing)"
            );
            Err(OpenError::Damaged { path: path.to_owned(), why })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lmdb::Lmdb;
    use crate::scratch::Scratch;
    use enfilade_facts::tables::Domain;
    use enfilade_facts::vocabulary::DomainId;
    use enfilade_facts::{Read, Source};
    use heed::CommitOrAbort;
    use heed::types::Bytes;

    #[test]
    fn an_environment_of_somebody_else_is_left_alone() {
        let scratch = Scratch::new();
        let path = scratch.path().join("other");
        std::fs::DirBuilder::new().create(&path).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        let env = open_map_of(&path, 1 << 20, EnvFlags::empty()).unwrap();
        let theirs = env.create_databases_and_commit(env.write_txn().unwrap(), |opener, txn| {
            let root = opener.create_database::<Bytes, Bytes>(txn, None)?;
            root.put(txn, b"cn=admin", b"theirs")?;
            Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit(()))
        });
        assert!(theirs.is_ok());
        assert!(matches!(tables::find(&env).unwrap(), There::Foreign), "it is not taken for an empty one");
        drop(env);
        let why = open(&path, Terms::default(), Trust::Checked).err().unwrap().to_string();
        assert!(why.contains("not a store of facts"), "{why}");
    }

    #[test]
    fn one_thread_that_looks_at_two_stores_does_not_take_one_for_the_other() {
        let scratch = Scratch::new();
        let [one, other] = ["one", "other"].map(|name| Lmdb::open(&scratch.path().join(name)).unwrap());
        let mut change = crate::conformance::change();
        change.put(&DomainId::from_bytes([1; 16]), &Domain::new("x1".parse().unwrap()));
        one.write_all(&[&change, &change, &change]);
        other.commit(&change).unwrap();
        let commit = |lmdb: &Lmdb| lmdb.read(|view| view.head()).unwrap().unwrap().commit;
        // The commits have the same number in LMDB, but different revisions.
        assert_eq!(commit(&one), commit(&other));
        let seen = |lmdb: &Lmdb| lmdb.read(|view| view.at().revision.0).unwrap();
        assert_eq!([seen(&one), seen(&other), seen(&one)], [3, 1, 3]);
    }
}
