//! The store that all processes of the machine share, in LMDB, with one database for each table.
//!
//! This module avoids the known dangers of LMDB. The map is opened with a large size, so that it is never resized while readers use it. The reader
//! slots of dead processes are freed. Changes are fsynced before they are acknowledged (no WRITEMAP, no NOSYNC). A network file system is refused.
//! Only the owner, or the members of one group, can open the directory and its files. A process opens a directory only once, and all handles of the
//! process share the environment. A store that lacks acknowledged changes is refused. If another process writes for too long, a writer stops waiting
//! and returns an error that identifies the other process.

mod access_rules;
mod bounds;
mod compact;
mod disk_reserve;
mod environment;
mod error;
mod high_water;
mod map;
mod map_space;
mod moved;
mod newest;
mod pages;
mod place;
mod reading;
mod restore;
mod removal;
mod restore_error;
mod replica;
mod rewrite;

mod shipping;
mod tables;
mod upgrade;
mod writers;

use crate::faults::{FAULTED, within};
use crate::files::mirror_leader::MirrorLeader;
use crate::structure::Depth;
pub use compact::{CompactError, Compaction};
use enfilade_facts::journal::write_down;
use enfilade_facts::{
    At, Change, CommitError, Effect, Read, Requester, Revision, Snapshot, Source, SourceError, View,
};
use environment::{Environment, Trust};
pub use error::OpenError;
use error::{unavailable, unwritten};
pub use restore_error::RestoreError;
pub use shipping::ShippingError;
use std::path::Path;
use std::sync::Arc;
pub use upgrade::{Older, Plan, UpgradeError};

/// Facts in an LMDB environment.
pub struct Lmdb {
    environment: Arc<Environment>,
}

/// The state of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// The store and its newest revision.
    pub at: At,
    /// The revision of the newest change that was written to the audit log.
    pub shipped: Revision,
    /// The length of the store's file, in bytes.
    pub file_bytes: u64,
    /// The part of the file that is in use, in bytes. The rest is free for new records.
    pub used_bytes: u64,
    /// The greatest length of the file, in bytes (the size of the map).
    pub map_bytes: u64,
    /// The greatest number of reader slots that were in use at the same time.
    pub readers: u32,
    /// The number of all reader slots.
    pub readers_max: u32,
    /// Whether the store belongs to a member of a fleet.
    pub is_replica: bool,
}

/// The options with which a store is opened. All processes that use a store must open it with the same options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// The id of the group of the users who share the store; `None` if only its owner uses the store.
    pub group: Option<u32>,
    /// The greatest length of the store's file, in bytes. If it is `None`, the limit is 64 GiB, or less if the address space is limited.
    pub map_bytes: Option<u64>,
}

/// As long as this value exists, no other process can open the store.
pub struct Closed {
    _lock: std::fs::File,
}

impl Lmdb {
    /// Prevents other processes from opening a store that is about to be moved.
    ///
    /// # Errors
    /// When a process has the store open.
    pub fn keep_closed(path: &Path) -> Result<Closed, OpenError> {
        Ok(Closed { _lock: place::alone(path)? })
    }

    /// Opens the store in this directory, which only the owner can open. If there is no store, an empty one is made. If this process opens the
    /// directory twice, both handles share the environment.
    ///
    /// A thread that has read the store frees its reader slot when it ends. The slot is in memory that is unmapped when the last handle is dropped.
    /// So every thread that has read the store must be joined before the last handle is dropped.
    ///
    /// # Errors
    /// [`OpenError`]. A failed call changes no fact. It may have created the directory, an empty store, or the small files that belong to a store.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        Self::open_for(path, Terms::default())
    }

    /// Opens the store as [`Lmdb::open`] does, but with the options `terms`.
    ///
    /// # Errors
    /// The errors of [`Lmdb::open`].
    pub fn open_for(path: &Path, terms: Terms) -> Result<Self, OpenError> {
        Ok(Lmdb { environment: environment::open(path, terms, Trust::Checked)? })
    }

    /// Checks every page of the store in this directory, without opening the store. If all pages are sound, the file `faulted` is removed, so that a
    /// store that was refused because of this file can be opened again. Returns whether the file existed.
    ///
    /// # Errors
    /// When pages are damaged, or the file cannot be read.
    pub fn check_pages(path: &Path) -> Result<bool, OpenError> {
        environment::check_pages(path, Depth::Complete)?;
        match std::fs::remove_file(path.join(FAULTED)) {
            Ok(()) => Ok(true),
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(why) => Err(OpenError::io(path, &why)),
        }
    }

    /// The mirror leader of this store.
    pub fn mirror_leader(&self) -> &MirrorLeader {
        &self.environment.mirror_leader
    }

    /// Frees the reader slots of dead processes. Until the slots are freed, LMDB cannot reuse old pages, and the file grows with every commit.
    /// Returns the number of freed slots. Also raises the high-water mark to the newest revision, because the process that made the last commit may
    /// have died before it could raise the mark.
    pub fn clear_stale_readers(&self) -> usize {
        if let Ok(Ok(head)) = self.read(|view| view.head()) {
            self.environment.high_water.raise(head.revision);
        }
        self.environment.env.clear_stale_readers().unwrap_or(0)
    }

    /// Checks whether the file of the high-water mark was removed or replaced. If so, the new file with this name is used from now on. As long as the
    /// old file is used, this process learns of changes by other processes only when it reads the store.
    ///
    /// # Errors
    /// When the file cannot be opened or made, or belongs to another store.
    pub fn follow_mark(&self) -> std::io::Result<()> {
        self.environment.high_water.follow()
    }

    /// Calls the function `look` with the raw records of one revision, for a check of all records.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn snapshot<R>(&self, look: impl FnOnce(&dyn Snapshot) -> R) -> Result<R, SourceError> {
        self.environment.reading_raw(|reading| look(reading)).map_err(unavailable)
    }

    /// The state of the store.
    pub fn status(&self) -> Status {
        let info = self.environment.env.info();
        Status {
            at: self.at(),
            shipped: self.environment.high_water.shipped(),
            file_bytes: self.environment.env.real_disk_size().unwrap_or(0),
            used_bytes: self.environment.used_bytes().unwrap_or(0),
            map_bytes: info.map_size as u64,
            readers: info.number_of_readers,
            readers_max: info.maximum_number_of_readers,
            is_replica: self.is_replica(),
        }
    }

    fn write_all(&self, changes: &[&Change]) -> Vec<Result<At, CommitError>> {
        match self.write_together(changes) {
            Ok(answers) => answers,
            // One change that does not fit into the map or on the disk must not make the other changes fail.
            Err(_) if changes.len() > 1 => {
                changes.iter().flat_map(|change| self.write_all(std::slice::from_ref(change))).collect()
            }
            Err(why) => vec![Err(why)],
        }
    }

    /// Commits all changes in one transaction. Each change sees the records of the changes before it, and has a revision of its own. A view can see
    /// only the last revision of a transaction, so no memo contains an entry for an earlier revision of the same transaction.
    fn write_together(&self, changes: &[&Change]) -> Result<Vec<Result<At, CommitError>>, CommitError> {
        let environment = &*self.environment;
        let mut txn = environment.env.write_txn().map_err(unavailable)?;
        let commit = txn.id() as u64;
        let mut space = environment.map_space(&txn).map_err(unavailable)?;
        let mut disk = environment.disk_space(&space);
        let before = environment.reading_of(&txn, commit.saturating_sub(1))?;
        let (first, mut now, mut of) = (before.at, before.at, before.commit);
        // If the store was rolled back, a commit would use a revision number that an acknowledged change already has.
        not_gone_back(first.revision, environment.high_water.revision())?;
        let mut answers = Vec::with_capacity(changes.len());
        for change in changes {
            let reading = environment.reading_at(&txn, now, of);
            let writes = write_down(&reading, change, commit, environment.high_water.shipped());
            answers.push(match writes {
                Ok(writes) if writes.is_empty() => Ok(now),
                Ok(writes) => match space
                    .take(&reading, &writes, change.requester())
                    .and_then(|()| disk.take(space.file_bytes, &reading, &writes, change.requester()))
                {
                    Ok(()) => {
                        let written = environment.write(&mut txn, &writes);
                        written.map_err(|why| unwritten(environment.env.path(), why))?;
                        (now, of) = (now.next(), commit);
                        Ok(now)
                    }
                    Err(why) => Err(why),
                },
                Err(why) => Err(why),
            });
        }
        space.check(environment, &txn)?;
        disk.check(space.file_bytes, || environment.used_in(&txn))?;
        // If nothing was written, the transaction is aborted, because LMDB assigns no new number to a commit without writes.
        if first == now {
            txn.abort();
        } else {
            txn.commit().map_err(|why| unwritten(environment.env.path(), why))?;
            environment.high_water.raise(now.revision);
        }
        Ok(answers)
    }
}

/// Returns an error if the revision of the store is older than the newest acknowledged revision.
fn not_gone_back(revision: Revision, acknowledged: Revision) -> Result<(), SourceError> {
    if acknowledged <= revision {
        return Ok(());
    }
    Err(SourceError::Unavailable(format!(
        "the newest revision in the store is {revision}, but revision {acknowledged} was acknowledged before. The store is damaged: restore a backup with `enfilade facts restore FILE`"
    )))
}

impl Source for Lmdb {
    fn at(&self) -> At {
        // The high-water mark is the newest acknowledged revision of all processes. LMDB's own number is not used, because its meta page may be
        // damaged.
        self.environment.at(self.environment.high_water.newest())
    }

    fn with_view(&self, look: &mut dyn FnMut(&View<'_>)) -> Result<(), SourceError> {
        let floor = self.environment.high_water.revision();
        let looked = self.environment.reading(|_, view| {
            not_gone_back(view.at().revision, floor)?;
            self.environment.high_water.saw(view.at().revision);
            look(view);
            Ok(())
        });
        looked?
    }

    fn commit(&self, change: &Change) -> Result<At, CommitError> {
        if change.is_empty() && change.expects().is_empty() {
            return Ok(self.at());
        }
        self.refuse_outside_log(change)?;
        self.environment
            .writers
            .commit(change, |changes| within(self.environment.store, || self.write_all(changes)))
    }

    fn commit_each(&self, changes: &[Change]) -> Vec<Result<At, CommitError>> {
        if let Some(why) = changes.iter().find_map(|change| self.refuse_outside_log(change).err()) {
            return changes.iter().map(|_| Err(why.clone())).collect();
        }
        let write = |changes: &[&Change]| within(self.environment.store, || self.write_all(changes));
        self.environment.writers.commit_each(changes, write)
    }

    fn raise_format(&self, format: u32) -> Result<(), SourceError> {
        self.raise_format_of_replica(format)
    }

    fn has_room_for(&self, requester: Requester, effect: Effect, bytes: u64) -> Result<(), CommitError> {
        self.environment.has_room_for(requester, effect, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use enfilade_facts::format::FORMAT;
    use enfilade_facts::journal::{Head, Identity, IdentityKey, Write};
    use enfilade_facts::limits::LOG_SECONDS_MIN;
    use enfilade_facts::tables::{Domain, Key, LogEntry, Written};
    use enfilade_facts::vocabulary::DomainId;
    use enfilade_facts::{AuditRecord, Read, Revision, Table};
    use std::os::unix::fs::{FileExt, MetadataExt};

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
    fn a_removed_mark_is_made_again() {
        let scratch = Scratch::new();
        let path = scratch.path().join("facts");
        let lmdb = Lmdb::open(&path).unwrap();
        crate::conformance::put_something(&lmdb);
        assert_eq!(lmdb.clear_stale_readers(), 0);
        let mark = path.join(place::HIGH_WATER);
        std::fs::remove_file(&mark).unwrap();
        lmdb.follow_mark().unwrap();
        assert!(mark.exists());
    }

    /// The writer of the second change was killed before it raised the high-water mark.
    #[test]
    fn the_mark_is_raised_to_a_change_that_nobody_acknowledged() {
        let scratch = Scratch::new();
        let lmdb = Lmdb::open(&scratch.path().join("facts")).unwrap();
        let high_water = &lmdb.environment.high_water;
        let first = crate::conformance::put_something(&lmdb);
        let second = crate::conformance::put_something(&lmdb);
        high_water.begin(first.store, first.revision);
        assert_eq!(lmdb.clear_stale_readers(), 0);
        assert_eq!(high_water.revision(), second.revision);
    }

    #[test]
    fn a_store_that_was_refused_can_be_opened_again_once_its_pages_are_found_sound() {
        let scratch = Scratch::new();
        let path = scratch.path().join("facts");
        crate::conformance::put_something(&Lmdb::open(&path).unwrap());
        let was_refused = || Lmdb::check_pages(&path).map_err(|why| why.to_string());
        let faulted = path.join(FAULTED);
        assert_eq!(was_refused(), Ok(false));
        std::fs::write(&faulted, "").unwrap();
        assert!(matches!(Lmdb::open(&path), Err(OpenError::Faulted(_))));
        assert_eq!((was_refused(), was_refused()), (Ok(true), Ok(false)));
        crate::conformance::something_is_there(&Lmdb::open(&path).unwrap());
        // If the file `faulted` cannot be removed, the store is still refused.
        std::fs::create_dir(&faulted).unwrap();
        assert!(was_refused().is_err());
        std::fs::remove_dir(&faulted).unwrap();
        std::fs::write(&faulted, "").unwrap();
        std::fs::write(path.join("data.mdb"), [7; 8192]).unwrap();
        assert!(was_refused().unwrap_err().contains("are damaged"));
        std::fs::remove_file(path.join("data.mdb")).unwrap();
        assert!(was_refused().unwrap_err().contains("`data.mdb` is missing"));
        assert!(faulted.exists());
    }

    #[test]
    fn each_table_with_few_records_uses_one_page() {
        let scratch = Scratch::new();
        let lmdb = Lmdb::open(&scratch.path().join("facts")).unwrap();
        let page_bytes = lmdb.environment.page_bytes(&lmdb.environment.env.read_txn().unwrap()).unwrap();
        // In a new store, only the table of the head uses a page.
        assert_eq!(lmdb.status().used_bytes, page_bytes);
        crate::conformance::put_something(&lmdb);
        // Now four tables use one page each: the head, the change log, the tallies, and the table of the new record.
        assert_eq!(lmdb.status().used_bytes, 4 * page_bytes);
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

    /// Writes records directly into the store, not as a [`Change`].
    fn tamper(path: &Path, writes: impl Fn(At) -> Vec<Write>) {
        let lmdb = Lmdb::open(path).unwrap();
        let environment = &lmdb.environment;
        let mut txn = environment.env.write_txn().unwrap();
        let at = environment.at(Revision(1));
        let head = Head { revision: at.revision, commit: txn.id() as u64 };
        environment.write(&mut txn, &writes(at)).unwrap();
        environment.write(&mut txn, &[head.write()]).unwrap();
        txn.commit().unwrap();
    }

    fn head(lmdb: &Lmdb) -> Head {
        lmdb.read(|view| view.head()).unwrap().unwrap()
    }

    #[test]
    fn a_store_of_another_format_and_a_foreign_one_are_refused() {
        let scratch = Scratch::new();
        for (format, expected) in [
            (FORMAT + 1, "run a newer enfilade"),
            (FORMAT - 1, "facts upgrade"),
            (1, "use another directory"),
        ] {
            let path = scratch.path().join(format.to_string());
            drop(Lmdb::open(&path).unwrap());
            tamper(&path, |at| {
                let identity = Identity { format, store: at.store };
                vec![Write::put(&IdentityKey, &identity, at)]
            });
            let why = Lmdb::open(&path).err().unwrap().to_string();
            assert!(why.contains(&format!("have format {format}")) && why.contains(expected), "{why}");
        }

        let foreign = scratch.path().join("foreign");
        drop(Lmdb::open(&foreign).unwrap());
        tamper(&foreign, |_| vec![Write { table: Table::Head, key: IdentityKey.bytes(), stored: None }]);
        let why = Lmdb::open(&foreign).err().unwrap().to_string();
        assert!(why.contains("not a store of facts"), "{why}");
    }

    #[test]
    fn a_store_that_went_back_is_refused_when_it_is_opened_and_while_it_is_open() {
        let scratch = Scratch::new();
        let path = scratch.path().join("facts");
        let lmdb = Lmdb::open(&path).unwrap();
        crate::conformance::put_something(&lmdb);
        let old = std::fs::read(path.join("data.mdb")).unwrap();
        let at = crate::conformance::put_something(&lmdb);
        // Simulates a damaged meta page. Because of the damage, LMDB reads the commit before the last one.
        lmdb.environment.high_water.raise(at.next().revision);
        assert!(lmdb.read(|_| ()).unwrap_err().to_string().contains("was acknowledged"));
        assert_eq!(lmdb.at(), at.next());
        drop(lmdb);
        std::fs::write(path.join("data.mdb"), old).unwrap();
        let why = Lmdb::open(&path).err().unwrap().to_string();
        assert!(why.contains("their newest revision is 1, but revision 3 was acknowledged"), "{why}");
    }

    #[test]
    fn nothing_is_written_on_top_of_a_store_that_went_back() {
        let scratch = Scratch::new();
        let path = scratch.path().join("facts");
        let lmdb = Lmdb::open(&path).unwrap();
        crate::conformance::put_something(&lmdb);
        let mut at = crate::conformance::put_something(&lmdb);
        if head(&lmdb).commit.is_multiple_of(2) {
            at = crate::conformance::put_something(&lmdb);
        }
        // The lock file begins with the magic number and the format. LMDB's number of the newest commit follows. The number is odd. So if its lowest
        // bit is flipped, the result is the number of the previous commit.
        let lock = std::fs::File::options().read(true).write(true).open(path.join("lock.mdb")).unwrap();
        let mut newest = [0; 8];
        lock.read_exact_at(&mut newest, 8).unwrap();
        assert_eq!(u64::from_ne_bytes(newest), head(&lmdb).commit);
        newest[0] ^= 1;
        lock.write_all_at(&newest, 8).unwrap();
        let mut change = crate::conformance::change();
        change.put(&DomainId::from_bytes([1; 16]), &Domain::new("x1".parse().unwrap()));
        let why = lmdb.commit(&change).unwrap_err().to_string();
        assert!(why.contains(&format!("{} was acknowledged", at.revision)), "{why}");
        assert!(lmdb.read(|_| ()).is_err());
    }

    /// Simulates a reader that was delayed after it had read LMDB's number and before it read the roots, while other processes made two commits.
    #[test]
    fn a_number_that_is_not_that_of_the_roots_is_taken_anew() {
        let scratch = Scratch::new();
        let path = scratch.path().join("facts");
        let lmdb = Lmdb::open(&path).unwrap();
        crate::conformance::put_something(&lmdb);
        // This thread has read only the first commit, so it has not stored the revision of any other commit.
        let newest = head(&lmdb).commit + 2;
        let at = [(); 2].map(|()| crate::conformance::put_something(&lmdb))[1];
        let lock = std::fs::File::options().read(true).write(true).open(path.join("lock.mdb")).unwrap();
        // Returns whether the newest revision was read, and the number of transactions that were begun. In the first `torn` transactions, the commit
        // number belongs to an older commit than the roots.
        let read = |torn: u32| {
            let begun = std::cell::Cell::new(0);
            let look = lmdb.environment.reading_by(
                |env| {
                    begun.set(begun.get() + 1);
                    if begun.get() <= torn {
                        lock.write_all_at(&(newest - 2).to_ne_bytes(), 8).unwrap();
                    }
                    let txn = env.read_txn();
                    lock.write_all_at(&newest.to_ne_bytes(), 8).unwrap();
                    txn
                },
                |_, view| view.head().is_ok() && view.at() == at,
            );
            (look.is_ok_and(|is_newest| is_newest), begun.get())
        };
        assert_eq!([1, 0, 1, 7].map(read), [(true, 2), (true, 1), (true, 2), (true, 8)]);
        // If the number is wrong in every transaction, the store is damaged.
        assert_eq!(read(u32::MAX), (false, 8));
    }

    #[test]
    fn the_files_of_another_store_are_refused() {
        let scratch = Scratch::new();
        let [one, other] = ["one", "other"].map(|name| scratch.path().join(name));
        drop((Lmdb::open(&one).unwrap(), Lmdb::open(&other).unwrap()));
        std::fs::copy(one.join("data.mdb"), other.join("data.mdb")).unwrap();
        let why = Lmdb::open(&other).err().unwrap().to_string();
        assert!(why.contains("belong to another store than the one that was in this directory"), "{why}");
    }

    /// A restore was killed after its commit, and before it wrote the new high-water mark.
    #[test]
    fn a_store_under_an_announced_id_is_accepted_and_has_a_mark_of_its_own() {
        let scratch = Scratch::new();
        let [one, other] = ["one", "other"].map(|name| scratch.path().join(name));
        let at = crate::conformance::put_something(&Lmdb::open(&one).unwrap());
        let lmdb = Lmdb::open(&other).unwrap();
        lmdb.environment.high_water.raise(Revision(9));
        lmdb.environment.high_water.announce(at.store);
        drop(lmdb);
        std::fs::copy(one.join("data.mdb"), other.join("data.mdb")).unwrap();
        for _ in 0..2 {
            let lmdb = Lmdb::open(&other).unwrap();
            assert_eq!((lmdb.at(), lmdb.environment.high_water.revision()), (at, at.revision));
            crate::conformance::something_is_there(&lmdb);
        }
        // Now the store has its own high-water mark, so it is refused when it is older than the mark.
        Lmdb::open(&other).unwrap().environment.high_water.raise(Revision(9));
        let why = Lmdb::open(&other).err().unwrap().to_string();
        assert!(why.contains("their newest revision is 1, but revision 9 was acknowledged"), "{why}");
    }

    #[test]
    fn many_changes_share_a_commit_and_each_has_its_own_answer() {
        let scratch = Scratch::new();
        let lmdb = Lmdb::open(&scratch.path().join("facts")).unwrap();
        let id = DomainId::from_bytes([1; 16]);
        let domain = Domain::new("x1".parse().unwrap());
        let mut first = crate::conformance::change();
        first.expect_absent::<Domain>(&id).put(&id, &domain);
        let nothing = crate::conformance::change();
        let mut second = crate::conformance::change();
        second.expect_revision::<Domain>(&id, Revision(1)).put(&id, &domain);
        let before = head(&lmdb).commit;
        let answers = lmdb.write_all(&[&nothing, &first, &first, &nothing, &second]);
        let shape: Vec<_> =
            answers.iter().map(|answer| answer.as_ref().map(|at| at.revision.0).ok()).collect();
        assert_eq!(shape, [Some(0), Some(1), None, Some(1), Some(2)]);
        assert_eq!(head(&lmdb), Head { revision: Revision(2), commit: before + 1 });
        assert_eq!(
            lmdb.read(|view| (view.at(), view.revision_of::<Domain>(&id))).unwrap(),
            (lmdb.at(), Ok(Some(Revision(2))))
        );
        let entry = lmdb.read(|view| view.get::<LogEntry>(&Revision(1))).unwrap().unwrap().unwrap();
        assert_eq!(entry.written, Written::Here(vec![(Table::Domains, id.bytes().to_vec())]));
        assert_eq!(entry.who, "a test");
    }

    #[test]
    fn what_is_old_and_in_the_audit_log_leaves_the_change_log() {
        let scratch = Scratch::new();
        let lmdb = Lmdb::open(&scratch.path().join("facts")).unwrap();
        let put = |unix_seconds| {
            let audit =
                AuditRecord { who: "a test".into(), what: "test".into(), unix_seconds, request: None };
            let domain = Domain::new("x1".parse().unwrap());
            lmdb.commit(Change::new(audit).put(&DomainId::from_bytes([1; 16]), &domain)).unwrap();
        };
        let first = || lmdb.read(|view| view.list::<LogEntry>(&[]).unwrap()[0].0).unwrap();
        (0..10).for_each(|_| put(0));
        put(LOG_SECONDS_MIN + 1);
        assert_eq!(first(), Revision(1), "nothing was shipped");
        lmdb.environment.high_water.set_shipped(Revision(6));
        put(LOG_SECONDS_MIN);
        assert_eq!(first(), Revision(1), "nothing is old enough");
        put(LOG_SECONDS_MIN + 1);
        put(LOG_SECONDS_MIN + 1);
        put(LOG_SECONDS_MIN + 1);
        assert_eq!(first(), Revision(7));
    }

    #[test]
    fn a_view_inside_a_view_says_what_is_wrong() {
        let scratch = Scratch::new();
        let lmdb = Lmdb::open(&scratch.path().join("facts")).unwrap();
        let why = lmdb.read(|_| lmdb.read(|_| ())).unwrap().unwrap_err().to_string();
        assert!(why.contains("already has a view open"), "{why}");
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
        // The file contains several copies of the value, because LMDB copies a page when it changes.
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
