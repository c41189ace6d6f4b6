//! Compaction frees the space of deleted records. LMDB reuses free pages, but never makes its file shorter. If a page was split, both of the
//! resulting pages may stay partly empty.
//!
//! The records are put, in the order of their keys, into a new file in a directory next to the old file. The new file is synced, and then renamed to
//! the name of the old file. So the old store exists until the new store is complete. A compaction is a change with a revision and an entry in the
//! change log. It changes no fact, so the tallies stay the same. No other process may have the store open, because such a process would continue to
//! use the old file.

use super::disk_reserve::free_bytes;
use super::environment::{self, Environment, Trust};
use super::error::unwritten;
use super::map::{READERS_MAX, open_map_of};
use super::pages::Pages;
use super::reading::Reading;
use super::rewrite::Failed;
use super::tables::{self, Records, Tables};
use super::{Lmdb, OpenError, Status, Terms, place, unavailable};
use crate::copy::Progress;
use crate::files::atomic::sync_directory;
use crate::mapping::lock_file_bytes;
use enfilade_facts::codec;
use enfilade_facts::journal::{Head, IdentityKey, Tally, Write};
use enfilade_facts::limits::COMPACT_WORTH_BYTES_MIN;
use enfilade_facts::tables::{Key, LogEntry, Written};
use enfilade_facts::{At, AuditRecord, Snapshot, SourceError, Table, View};
use heed::types::Bytes;
use heed::{CommitOrAbort, Env, EnvFlags, PutFlags, RwTxn, WithTls};
use std::fs::{DirBuilder, File, Metadata, Permissions};
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, fchown};
use std::path::Path;

const DATA: &str = "data.mdb";
/// The approximate number of bytes of records that one transaction writes. The number is limited, because all pages of a transaction are in memory
/// until the commit.
const BATCH_BYTES: usize = 8 << 20;

/// The reason why a compaction failed. The store is unchanged, with one exception: if the sync of the directory after the rename fails, the store is
/// already compacted, and a power cut may bring back the old file. Both files contain the same facts.
#[derive(Debug, thiserror::Error)]
pub enum CompactError {
    /// The store could not be opened, or other processes have it open.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// There is too little disk space for the new file.
    #[error(
        "the facts cannot be compacted, nothing was changed: the new file needs up to {needed} bytes, but its file system has only {free} bytes of free \
         space; make room"
    )]
    NoRoom {
        /// The greatest length of the new file, with its lock file, in bytes.
        needed: u64,
        /// The free space of the file system, in bytes.
        free: u64,
    },
    /// Not all records could be read, or the new records could not be written.
    #[error("the facts cannot be compacted, nothing was changed: {}", reason(.0))]
    Source(SourceError),
    /// The new file could not be made or renamed, or the directory could not be synced after the rename.
    #[error(
        "the facts cannot be compacted: the new file cannot be made or put in place: {0}. No facts were lost: the store is in its earlier file or in \
         the compacted file. Run `enfilade facts check`"
    )]
    Io(io::Error),
}

// These errors are not the `source` of a `CompactError`, because the text of the `CompactError` contains their texts.
impl From<SourceError> for CompactError {
    fn from(why: SourceError) -> Self {
        CompactError::Source(why)
    }
}

impl From<io::Error> for CompactError {
    fn from(why: io::Error) -> Self {
        CompactError::Io(why)
    }
}

/// The text of an error. The words "facts cannot be read" of [`SourceError::Unavailable`] are left out, because the cause is often that the new file
/// cannot be written.
fn reason(why: &SourceError) -> String {
    match why {
        SourceError::Unavailable(why) => why.clone(),
        damaged @ SourceError::Damaged { .. } => damaged.to_string(),
    }
}

/// The effect of a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compaction {
    /// The number of records, including tallies and the change log.
    pub records: u64,
    /// The length of the file before the compaction, in bytes.
    pub bytes_before: u64,
    /// The length of the file after the compaction, in bytes.
    pub bytes_after: u64,
}

impl Compaction {
    /// The difference of the lengths, in bytes; 0 if the file is not shorter.
    pub fn won_bytes(&self) -> u64 {
        self.bytes_before.saturating_sub(self.bytes_after)
    }
}

impl Status {
    /// Whether a compaction is useful: the file is not small, and more than half of it is free. A compaction can free more than the unused pages,
    /// because used pages may be partly empty. The store of a member of a fleet cannot be compacted.
    pub fn is_worth_compacting(&self) -> bool {
        !self.is_replica
            && COMPACT_WORTH_BYTES_MIN <= self.file_bytes
            && self.used_bytes < self.file_bytes / 2
    }
}

impl Lmdb {
    /// Computes the effect of a compaction, without writing anything. The computed length of the new file differs from the real length by at most a
    /// few percent.
    ///
    /// # Errors
    /// When a record cannot be read or is damaged.
    pub fn plan_compaction(&self, progress: Progress<'_>) -> Result<Compaction, SourceError> {
        let bytes_before = self.environment.env.real_disk_size().map_err(unavailable)?;
        let (records, pages) = self.environment.reading(|reading, view| {
            let mut pages = Pages::new(self.environment.page_bytes(reading.txn).map_err(unavailable)?);
            let records = each_record(reading, view, progress, &mut |table, key, stored| {
                pages.put(table, key.len(), stored.len());
                Ok(())
            })?;
            Ok::<_, SourceError>((records, pages))
        })??;
        Ok(Compaction { records, bytes_before, bytes_after: pages.bytes() })
    }

    /// Compacts the store in this directory. The old file exists until the new file is complete and synced.
    ///
    /// # Errors
    /// When other processes have the store open, or a step fails. If only the last step (the sync of the directory after the rename) fails, the store
    /// is compacted. If another step fails, the store is unchanged. After a power cut during a compaction, the store is either unchanged or
    /// compacted.
    pub fn compact(
        path: &Path,
        terms: Terms,
        audit: &AuditRecord,
        progress: Progress<'_>,
    ) -> Result<(Compaction, At), CompactError> {
        place::prepare(path, terms.group)?;
        let environment = environment::open_anew(path, terms, Trust::Checked)?;
        if environment.is_replica {
            return Err(OpenError::OfFleet(path.to_owned()).into());
        }
        place::keep_others_out(path, &environment.live)?;
        // The lock is held until the directory `aside` is removed, because every compaction creates its new file in this directory.
        let held = environment.live.try_clone()?;
        let aside = path.join(place::COMPACTING);
        let done = put_in_place(path, &aside, environment, audit, progress);
        let _ = std::fs::remove_dir_all(&aside);
        drop(held);
        done
    }
}

fn put_in_place(
    path: &Path,
    aside: &Path,
    environment: Environment,
    audit: &AuditRecord,
    progress: Progress<'_>,
) -> Result<(Compaction, At), CompactError> {
    let (old, new) = (path.join(DATA), aside.join(DATA));
    let meta = std::fs::metadata(&old)?;
    let failed = |why| CompactError::from(unwritten(path, why));
    has_room(&environment)?;
    DirBuilder::new().mode(0o700).create(aside)?;
    let env = open_map_of(aside, environment.env.info().map_size, EnvFlags::NO_SYNC).map_err(failed)?;
    let written = environment.reading(|reading, view| write(&env, reading, view, audit, progress));
    let (records, at) = written?.map_err(|why| why.at(path))?;
    env.force_sync().map_err(failed)?;
    env.prepare_for_closing().wait();
    let file = File::options().read(true).write(true).open(&new)?;
    give(&file, &meta)?;
    environment.disk_reserve.also_in(&file);
    file.sync_all()?;
    let bytes_after = file.metadata()?.len();
    let Environment { env, high_water, .. } = environment;
    // LMDB's lock file contains the number of the newest commit of the old file. The environment is closed before the rename, so the next process
    // that opens the store starts a new lock file.
    env.prepare_for_closing().wait();
    std::fs::rename(&new, &old)?;
    sync_directory(&old)?;
    high_water.raise(at.revision);
    Ok((Compaction { records, bytes_before: meta.len(), bytes_after }, at))
}

/// Returns an error if there is too little disk space for the new file. The new file needs at most as many pages as the old file has in use, because
/// the pages of the new file are filled.
fn has_room(environment: &Environment) -> Result<(), CompactError> {
    let used = environment.used_bytes().map_err(unavailable)?;
    let (needed, free) = (used.saturating_add(lock_file_bytes(READERS_MAX)), free_bytes(&environment.live)?);
    if needed <= free { Ok(()) } else { Err(CompactError::NoRoom { needed, free }) }
}

/// Gives the new file the owner, group and mode of the old file, because the server and this process may run as different users.
///
/// # Errors
/// When a user can open the old file, but not the new file.
fn give(file: &File, old: &Metadata) -> io::Result<()> {
    // The owner is set last, because this process may be unable to change the file after that.
    let group = fchown(file, None, Some(old.gid()));
    file.set_permissions(Permissions::from_mode(old.mode() & 0o777))?;
    let given = group.and_then(|()| fchown(file, Some(old.uid()), None));
    let new = file.metadata()?;
    let is_usable = is_usable(old.mode(), [&new, old].map(|meta| (meta.uid(), meta.gid())));
    given.or_else(|why| if is_usable { Ok(()) } else { Err(why) }).map_err(|why| {
        let (uid, gid) = (old.uid(), old.gid());
        io::Error::new(
            why.kind(),
            format!(
                "its owner cannot be set to user {uid} and group {gid}, which own the old file: {why}; run this command as root or as user {uid}"
            ),
        )
    })
}

/// Whether every user who can open the old file can also open the new file. If the group of the old file can open the old file, the owner of the old
/// file counts as a member of the group. `mode` is the mode of the old file. Each pair contains the user and the group of a file. The first pair is
/// for the new file, and the second pair is for the old file.
fn is_usable(mode: u32, [new, old]: [(u32, u32); 2]) -> bool {
    match mode & 0o060 {
        0 => new.0 == old.0,
        _ => new.1 == old.1,
    }
}

/// Writes all records into an empty environment. The head is written last, in the last commit, because it contains the number of that commit.
fn write(
    env: &Env<WithTls>,
    from: &Reading<'_>,
    view: &View<'_>,
    audit: &AuditRecord,
    progress: Progress<'_>,
) -> Result<(u64, At), Failed> {
    let made = env.create_databases_and_commit(env.write_txn()?, |opener, txn| {
        let mut tables: Tables<'_> = [None; Table::ALL.len()];
        for (table, records) in
            Table::ALL.into_iter().zip(&mut tables).filter(|(table, _)| *table != Table::Head)
        {
            *records = Some(opener.create_database(txn, Some(table.name()))?);
        }
        Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit(tables))
    })?;
    let CommitOrAbort::Commit(made) = made else {
        return Err(heed::Error::EnvAlreadyOpened.into());
    };
    let mut writing = Writing { env, txn: None, bytes: 0 };
    let records = each_record(from, view, progress, &mut |table, key, stored| {
        let records = tables::of(&made, table);
        let put = records.map_or(Ok(()), |records| writing.put(records, key, stored));
        put.map_err(|why| unwritten(env.path(), why))
    })?;
    writing.commit()?;
    let identity = from.get(Table::Head, &IdentityKey.bytes())?.map(<[u8]>::to_vec);
    let at = view.at().next();
    let entry = LogEntry {
        who: audit.who.clone(),
        what: "compact the facts".to_owned(),
        unix_seconds: audit.unix_seconds,
        request: audit.request,
        written: Written::Here(Vec::new()),
    };
    env.create_databases_and_commit(env.write_txn()?, |opener, txn| {
        let log = opener.create_database::<Bytes, Bytes>(txn, Some(Table::Log.name()))?;
        let head = opener.create_database::<Bytes, Bytes>(txn, Some(Table::Head.name()))?;
        let start = Head { revision: at.revision, commit: txn.id() as u64 }.write();
        for (records, Write { key, stored, .. }) in
            [(log, Write::put(&at.revision, &entry, at)), (head, start)]
        {
            records.put(txn, &key, &stored.unwrap_or_default())?;
        }
        head.put(txn, &IdentityKey.bytes(), &identity.unwrap_or_default())?;
        Ok::<_, heed::Error>(CommitOrAbort::<(), ()>::Commit(()))
    })?;
    Ok((records, at))
}

/// Writes records into a new environment, in the order of their keys.
struct Writing<'e> {
    env: &'e Env<WithTls>,
    txn: Option<RwTxn<'e>>,
    bytes: usize,
}

impl Writing<'_> {
    fn put(&mut self, records: &Records<'static>, key: &[u8], stored: &[u8]) -> heed::Result<()> {
        if BATCH_BYTES < self.bytes {
            self.commit()?;
        }
        if self.txn.is_none() {
            self.txn = Some(self.env.write_txn()?);
        }
        self.bytes += key.len() + stored.len();
        match &mut self.txn {
            Some(txn) => records.put_with_flags(txn, PutFlags::APPEND, key, stored),
            None => Ok(()),
        }
    }

    fn commit(&mut self) -> heed::Result<()> {
        self.bytes = 0;
        self.txn.take().map_or(Ok(()), RwTxn::commit)
    }
}

type EachRecord<'e> = &'e mut dyn FnMut(Table, &[u8], &[u8]) -> Result<(), SourceError>;

/// Calls `each` for every record except the records of the table `Head`, table by table, in the order of the keys. Each table is compared with its
/// tally. Returns the number of records.
fn each_record(
    from: &Reading<'_>,
    view: &View<'_>,
    progress: Progress<'_>,
    each: EachRecord<'_>,
) -> Result<u64, SourceError> {
    view.head()?;
    let tables = || Table::ALL.into_iter().filter(|table| *table != Table::Head);
    let count = |table| Ok(tables::existing(from.tables, table)?.stat(from.txn)?.entries as u64);
    let all = tables().map(count).sum::<heed::Result<u64>>().map_err(unavailable)?;
    let mut done = 0;
    for table in tables() {
        let (mut counted, mut failed) = (Tally::default(), None);
        from.scan(table, &[], &mut |key, stored| {
            let sound = match table.holds_tallies() {
                // A tally has no checksum of its own. Below, the tally of each table is compared with the records of the table.
                true => Ok(()),
                false => codec::open(table, key, stored).map(|_| counted.add(stored)),
            };
            (failed, done) = (sound.and_then(|()| each(table, key, stored)).err(), done + 1);
            progress(done, all);
            if failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        failed.map_or(Ok(()), Err)?;
        if table.holds_facts() && counted != view.tally(table, &[])? {
            let why = "the count or the digest of the table's records differs from the stored tally";
            return Err(codec::damaged(table, &[], why));
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{change, put_something, something_is_there};
    use crate::scratch::Scratch;
    use enfilade_facts::tables::{Datastore, Domain, Extra, ExtraKey, ResourceKind};
    use enfilade_facts::vocabulary::{DomainId, UserId};
    use enfilade_facts::{Read, Revision, Source};

    #[test]
    fn a_file_is_worth_compacting_when_it_is_large_and_less_than_half_of_it_is_used() {
        let at = At { store: enfilade_facts::StoreId(1), revision: Revision(1) };
        let status = |file_bytes, used_bytes| Status {
            at,
            shipped: Revision(0),
            file_bytes,
            used_bytes,
            map_bytes: 0,
            readers: 0,
            readers_max: 0,
            is_replica: false,
        };
        let least = COMPACT_WORTH_BYTES_MIN;
        for (file_bytes, used_bytes, is_worth) in [
            (least, least / 2 - 1, true),
            (least, least / 2, false),
            (least, 0, true),
            (least - 1, 0, false),
            (8 * least, 5 * least, false),
            (8 * least, 3 * least, true),
        ] {
            assert_eq!(
                status(file_bytes, used_bytes).is_worth_compacting(),
                is_worth,
                "{used_bytes} of {file_bytes}"
            );
        }
        assert!(!Status { is_replica: true, ..status(least, 0) }.is_worth_compacting());
        let done =
            |bytes_before, bytes_after| Compaction { records: 9, bytes_before, bytes_after }.won_bytes();
        assert_eq!([done(10, 3), done(10, 10), done(3, 10)], [7, 0, 0]);
    }

    #[test]
    fn the_new_file_has_the_mode_of_the_old_one_and_those_who_opened_that_can_open_it() {
        let scratch = Scratch::new();
        let [old, new] = [("old", 0o640), ("new", 0o600)].map(|(name, mode)| {
            let file = File::create(scratch.path().join(name)).unwrap();
            file.set_permissions(Permissions::from_mode(mode)).unwrap();
            file
        });
        give(&new, &old.metadata().unwrap()).unwrap();
        let [old, new] = [old, new].map(|file| file.metadata().unwrap());
        assert_eq!((new.mode(), new.uid(), new.gid()), (old.mode(), old.uid(), old.gid()));
        for (mode, new, old, expected) in [
            (0o100_600, (1, 8), (1, 9), true),
            (0o100_600, (1, 9), (2, 9), false),
            (0o100_660, (1, 9), (2, 9), true),
            (0o100_660, (1, 8), (1, 9), false),
            (0o100_640, (1, 8), (1, 9), false),
            (0o100_606, (1, 8), (1, 9), true),
        ] {
            assert_eq!(is_usable(mode, [new, old]), expected, "{mode:o} {new:?} {old:?}");
        }
    }

    fn audit() -> AuditRecord {
        AuditRecord { who: "a test".into(), what: String::new(), unix_seconds: 5, request: None }
    }

    fn compact(path: &Path) -> Result<(Compaction, At), CompactError> {
        let (mut most, mut last) = (0, 0);
        let done = Lmdb::compact(path, Terms::default(), &audit(), &mut |done, all| {
            assert!(last < done && done <= all);
            (last, most) = (done, all);
        })?;
        assert_eq!((last, done.0.records), (most, most));
        Ok(done)
    }

    fn id(n: u64) -> DomainId {
        DomainId::from_bytes(
            u128::from(n).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835).to_be_bytes(),
        )
    }

    /// A store into which many small and large records were put in mixed order, and from which most of them were deleted again.
    fn churned(path: &Path) -> Lmdb {
        let lmdb = Lmdb::open(path).unwrap();
        put_something(&lmdb);
        let extra = |n: u8| ExtraKey::of(ResourceKind::User, &UserId::from_bytes([n; 16]));
        for round in 0..20 {
            let mut filling = change();
            for n in 0..300 {
                filling.put(&id(round * 300 + n), &Domain::new("x1".parse().unwrap()));
            }
            lmdb.commit(&filling).unwrap();
            lmdb.commit(change().put(&extra(round as u8), &Extra("x".repeat(50_000)))).unwrap();
        }
        for round in 0..15 {
            let mut emptying = change();
            for n in 0..300 {
                emptying.delete::<Domain>(&id(round * 300 + n));
            }
            lmdb.commit(emptying.delete::<Extra>(&extra(round as u8))).unwrap();
        }
        lmdb
    }

    fn facts(lmdb: &Lmdb) -> Vec<(Table, Vec<u8>, Vec<u8>)> {
        let mut facts = Vec::new();
        let all = |view: &View<'_>| {
            Table::of_facts().try_for_each(|table| {
                view.scan_values(table, &[], &mut |key, value| {
                    facts.push((table, key.to_vec(), value.to_vec()));
                    Ok(ControlFlow::Continue(()))
                })
            })
        };
        lmdb.read(all).unwrap().unwrap();
        facts
    }

    #[test]
    fn the_same_facts_are_in_a_shorter_file_and_the_store_goes_on() {
        let scratch = Scratch::new();
        let path = scratch.path().join("facts");
        let lmdb = churned(&path);
        let (before, there) = (lmdb.at(), facts(&lmdb));
        let planned = lmdb.plan_compaction(&mut |_, _| {}).unwrap();
        drop(lmdb);
        let other = place::live(&path).unwrap();
        let why = compact(&path).unwrap_err().to_string();
        assert!(why.contains("stop these processes first"), "{why}");
        drop(other);
        let (done, at) = compact(&path).unwrap();
        assert_eq!(at, before.next());
        let length = std::fs::metadata(path.join(DATA)).unwrap().len();
        assert_eq!(
            (done.bytes_after, done.records, done.bytes_before),
            (length, planned.records, planned.bytes_before)
        );
        assert!(done.bytes_after * 2 < done.bytes_before, "{done:?}");
        let off = planned.bytes_after.abs_diff(done.bytes_after);
        assert!(off <= done.bytes_after / 20 + 64 * 1024, "{planned:?} {done:?}");
        assert!(!path.join(place::COMPACTING).exists());

        let lmdb = Lmdb::open(&path).unwrap();
        assert_eq!((lmdb.at(), lmdb.read(|view| view.at()).unwrap()), (at, at));
        assert_eq!(facts(&lmdb), there);
        something_is_there(&lmdb);
        let checked =
            lmdb.snapshot(|snapshot| crate::check::check(snapshot, &mut |_, _| {})).unwrap().unwrap();
        assert_eq!(checked.problems, Vec::<String>::new());
        let entry = lmdb.read(|view| view.get::<LogEntry>(&at.revision)).unwrap().unwrap().unwrap();
        assert_eq!((entry.what.as_str(), entry.written), ("compact the facts", Written::Here(Vec::new())));
        let next = lmdb.commit(change().delete::<Datastore>(&"tank".parse().unwrap())).unwrap();
        assert_eq!(next, at.next());
        drop(lmdb);
        // A second compaction frees little space. After the second compaction, the store can also be opened without its high-water mark.
        let (again, at) = compact(&path).unwrap();
        assert!(again.won_bytes() < 256 * 1024, "{again:?}");
        std::fs::remove_file(path.join(place::HIGH_WATER)).unwrap();
        let lmdb = Lmdb::open(&path).unwrap();
        assert_eq!((lmdb.at(), at.revision), (at, Revision(next.revision.0 + 1)));
        assert_eq!(Lmdb::open(&path).unwrap().status().at, at);
    }

    #[test]
    fn a_damaged_store_is_left_as_it_is() {
        let scratch = Scratch::new();
        let path = scratch.path().join("facts");
        let lmdb = Lmdb::open(&path).unwrap();
        put_something(&lmdb);
        drop(lmdb);
        let file = path.join(DATA);
        let mut whole = std::fs::read(&file).unwrap();
        let needle = b"something";
        let places: Vec<usize> =
            (0..whole.len() - needle.len()).filter(|&at| whole[at..].starts_with(needle)).collect();
        places.iter().for_each(|&at| whole[at] ^= 1);
        std::fs::write(&file, &whole).unwrap();
        let why = compact(&path).unwrap_err();
        // The text of the error contains the reason, so the error has no source.
        assert!(std::error::Error::source(&why).is_none());
        let why = why.to_string();
        assert!(why.contains("nothing was changed: damaged record"), "{why}");
        assert_eq!(std::fs::read(&file).unwrap(), whole);
        assert!(!path.join(place::COMPACTING).exists());
    }

    #[test]
    fn what_a_killed_compaction_left_is_taken_away_when_the_store_is_opened() {
        let scratch = Scratch::new();
        let path = scratch.path().join("facts");
        drop(Lmdb::open(&path).unwrap());
        std::fs::create_dir(path.join(place::COMPACTING)).unwrap();
        std::fs::write(path.join(place::COMPACTING).join(DATA), "half").unwrap();
        drop(Lmdb::open(&path).unwrap());
        assert!(!path.join(place::COMPACTING).exists());
    }
}
