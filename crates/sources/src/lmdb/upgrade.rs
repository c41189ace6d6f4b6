//! Converts a store of an older format to this program's format.
//!
//! An upgrade is one transaction, and a change with an entry in the change log. New tables are made, every record is converted by the steps of
//! [`enfilade_facts::format`], and the new format is written into the store's identity. If the upgrade is interrupted before the commit, the store is
//! unchanged. Before the upgrade, a backup that the older program can read is written. No other process may have the store open, because an older
//! program would continue to write records of the older form.

use super::access_rules::make_access_rules;
use super::environment::{Environment, open_of_any_format};
use super::rewrite::{Failed, Rewrite};
use super::tables::Records;
use super::{OpenError, Terms, place, unavailable};
use crate::copy::{CopyError, Gathered, Progress, Views};
use crate::faults::within;
use crate::files::atomic;
use enfilade_facts::codec;
use enfilade_facts::format::{
    FORMAT, FORMAT_IN_FLEET, FORMAT_OLDEST, Record, bring_up, changes_keys, lacks_access_rules,
};
use enfilade_facts::journal::{Identity, write_last};
use enfilade_facts::tables::called;
use enfilade_facts::{At, AuditRecord, CommitError, Revision, SourceError, Table};
use heed::types::Bytes;
use heed::{CommitOrAbort, RwTxn};
use std::io::{self, BufWriter, Write as _};
use std::ops::{Bound, ControlFlow};
use std::path::{Path, PathBuf};

/// The limits for the converted records that are in memory at the same time: their number, and their total size in bytes. With the last of these
/// records, the total size can exceed its limit.
const BATCH: usize = 1024;
const BATCH_BYTES: usize = 8 << 20;

/// The reason why the store was not upgraded. The store is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum UpgradeError {
    /// The store could not be opened, or other processes have it open.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The store could not be read completely.
    #[error(
        "the facts cannot be upgraded: {0}; the store was not changed. Correct the cause, then run `enfilade facts upgrade` again"
    )]
    Copy(CopyError),
    /// The backup could not be written.
    #[error(
        "the backup `{path}` cannot be written: {why}; the store was not changed. Correct the cause, then run `enfilade facts upgrade` again"
    )]
    Backup {
        /// The path of the backup.
        path: PathBuf,
        /// The error of the system.
        why: io::Error,
    },
    /// The transaction failed.
    #[error(
        "the facts cannot be upgraded: {0}; the store was not changed. Correct the cause, then run `enfilade facts upgrade` again"
    )]
    Commit(CommitError),
}

// These errors are not the `source` of an `UpgradeError`, because the text of the `UpgradeError` contains their texts.
impl From<SourceError> for UpgradeError {
    fn from(why: SourceError) -> Self {
        UpgradeError::Copy(why.into())
    }
}

impl From<CopyError> for UpgradeError {
    fn from(why: CopyError) -> Self {
        UpgradeError::Copy(why)
    }
}

impl From<CommitError> for UpgradeError {
    fn from(why: CommitError) -> Self {
        UpgradeError::Commit(why)
    }
}

/// An open store of an older format.
pub struct Older {
    environment: Environment,
    path: PathBuf,
    identity: Identity,
    revision: Revision,
}

/// The effect of an upgrade.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The present format of the store.
    pub from: u32,
    /// The format of the store after the upgrade.
    pub to: u32,
    /// The number of records.
    pub records: u64,
    /// The tables that the upgrade makes.
    pub tables: Vec<Table>,
    /// The path of the backup that is written before the upgrade.
    pub backup: PathBuf,
}

impl Older {
    /// Opens a store of an older format. `None` if there is no store, or if the store has a format that this program can use without an upgrade.
    ///
    /// # Errors
    /// When the store cannot be opened, lacks acknowledged changes, or has a format that cannot be upgraded.
    pub fn open(path: &Path, terms: Terms) -> Result<Option<Self>, OpenError> {
        if !path.join("data.mdb").exists() {
            return Ok(None);
        }
        let (environment, found) = open_of_any_format(path, terms)?;
        let place = path.to_owned();
        match found {
            FORMAT => return Ok(None),
            // The format of a fleet is raised by `enfilade fleet upgrade`.
            FORMAT_IN_FLEET..FORMAT if environment.is_replica => return Ok(None),
            FORMAT_OLDEST..FORMAT => {}
            0..FORMAT_OLDEST => return Err(OpenError::TooOld { path: place, found }),
            _ => return Err(OpenError::Newer { path: place, found }),
        }
        if environment.is_replica {
            return Err(OpenError::OlderInFleet { path: place, found });
        }
        environment.check(path)?;
        let (identity, revision) = environment.introduce(path)?;
        Ok(Some(Older { environment, path: place, identity, revision }))
    }

    /// The effect that an upgrade would have.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn plan(&self) -> Result<Plan, SourceError> {
        let is_missing = |table: &Table| self.environment.find(*table).is_none();
        let records = self.environment.reading(|_, view| {
            let counts = Table::of_facts().map(|table| view.tally(table, &[]).map(|tally| tally.count));
            counts.sum::<Result<u64, _>>()
        })??;
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let from = self.identity.format;
        Ok(Plan {
            from,
            to: FORMAT,
            records,
            tables: Table::ALL.into_iter().filter(is_missing).collect(),
            backup: self.path.with_file_name(format!("{name}.format-{from}.revision-{}", self.revision)),
        })
    }

    /// Reads every record and converts it to the new format, without writing anything.
    ///
    /// # Errors
    /// When a record cannot be read or converted: an upgrade would fail with the same error.
    pub fn try_out(&self, progress: Progress<'_>) -> Result<Plan, UpgradeError> {
        let (plan, mut done) = (self.plan()?, 0);
        self.environment.reading(|_, view| {
            Table::of_facts().try_for_each(|table| {
                view.scan_values(table, &[], &mut |key, value| {
                    brought_up(plan.from, table, key, value)?;
                    done += 1;
                    progress(done, plan.records);
                    Ok(ControlFlow::Continue(()))
                })
            })
        })??;
        Ok(plan)
    }

    /// Writes the backup, and then upgrades the store.
    ///
    /// # Errors
    /// When other processes have the store open, when the disk has so little space that the upgrade would leave no disk reserve, or when a step
    /// fails. In each case the store is unchanged.
    pub fn upgrade(self, audit: &AuditRecord, progress: Progress<'_>) -> Result<(Plan, At), UpgradeError> {
        place::keep_others_out(&self.path, &self.environment.live)?;
        let plan = self.plan()?;
        let environment = &self.environment;
        within(environment.store, || {
            environment.leaves_disk_reserve(&*environment.env.read_txn().map_err(unavailable)?)
        })?;
        // The progress counts each record three times: when it is gathered, converted and added to its tally.
        let all = plan.records * 3;
        let views: Views<'_> = &|look| self.environment.reading(|_, view| look(view));
        let directory = plan.backup.parent().unwrap_or(&self.path);
        let mut gathered =
            Gathered::of(views, directory, audit.unix_seconds, &mut |done, _| progress(done, all))?;
        let written = atomic::write_with(&plan.backup, 0o600, |to| {
            let mut to = BufWriter::new(to);
            gathered.write_backup(&mut to, &mut |_, _| {}).map_err(io::Error::other)?;
            to.flush()
        });
        drop(gathered);
        written.map_err(|why| UpgradeError::Backup { path: plan.backup.clone(), why })?;
        let store = self.identity.store;
        let at = At { store, revision: self.revision }.next();
        let mut done = plan.records;
        let rewritten = self.environment.alone(|| {
            self.rewrite(at, audit, &mut || {
                // The upgrade also makes new records, which the plan does not count. So `done` may reach `all` early.
                done = all.min(done + 1);
                progress(done, all);
            })
        })?;
        rewritten.map_err(|why| CommitError::from(why.at(&self.path)))?;
        self.environment.high_water.raise(at.revision);
        // The environment is closed, so that this process can open it again.
        self.environment.env.prepare_for_closing().wait();
        Ok((plan, at))
    }

    /// Converts the whole store in one transaction.
    fn rewrite(&self, at: At, audit: &AuditRecord, progress: &mut dyn FnMut()) -> Result<(), Failed> {
        let (env, from) = (&self.environment.env, self.identity.format);
        env.create_databases_and_commit(env.write_txn()?, |opener, txn| {
            let mut tables = [None; Table::ALL.len()];
            for (table, records) in Table::ALL.into_iter().zip(&mut tables) {
                *records = Some(opener.create_database::<Bytes, Bytes>(txn, Some(table.name()))?);
            }
            let (rewrite, commit) = (Rewrite(tables), txn.id() as u64);
            for table in Table::ALL.into_iter().filter(|table| table.holds_tallies()) {
                rewrite.of(table)?.clear(txn)?;
            }
            for table in Table::of_facts().filter(|table| changes_keys(from, *table)) {
                bring_up_keys(&rewrite, txn, table, from, at, progress)?;
            }
            bring_up_table(&rewrite, txn, Table::Log, from, at, progress)?;
            for table in Table::of_facts() {
                if !changes_keys(from, table) {
                    bring_up_table(&rewrite, txn, table, from, at, progress)?;
                }
            }
            if lacks_access_rules(from) {
                make_access_rules(&rewrite, txn, at.revision)?;
            }
            for table in Table::of_facts() {
                rewrite.count(txn, table, progress)?;
            }
            let audit = AuditRecord { what: format!("upgrade to format {FORMAT}"), ..audit.clone() };
            for write in write_last(&audit, at, commit) {
                rewrite.write(txn, write)?;
            }
            Ok::<_, Failed>(CommitOrAbort::<(), ()>::Commit(()))
        })?;
        Ok(())
    }
}

fn brought_up(from: u32, table: Table, key: &[u8], value: &[u8]) -> Result<Record, SourceError> {
    let form = || format!("it is not a valid record of this table in format {from}");
    bring_up(from, table, key, value).ok_or_else(|| codec::damaged(table, key, &form()))
}

/// A batch of converted records of a table, after the key `last`. Sets `last` to the last key of the batch.
fn batch(
    records: Records<'_>,
    txn: &RwTxn<'_>,
    table: Table,
    from: u32,
    last: &mut Option<Vec<u8>>,
) -> Result<Vec<Record>, Failed> {
    let after = last.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    let (mut batch, mut bytes, mut end) = (Vec::with_capacity(BATCH), 0, None);
    for record in records.range(txn, &(after, Bound::Unbounded))?.take(BATCH) {
        let (key, stored) = record?;
        let (_, value) = codec::open(table, key, stored)?;
        bytes += value.len();
        batch.push(brought_up(from, table, key, value)?);
        end = Some(key.to_vec());
        if BATCH_BYTES < bytes {
            break;
        }
    }
    *last = end.or(last.take());
    Ok(batch)
}

/// Converts each record of a table in which keys change. The table of tallies is empty at this time. The converted records are stored there until all
/// records are converted.
fn bring_up_keys(
    rewrite: &Rewrite<'_>,
    txn: &mut RwTxn<'_>,
    table: Table,
    from: u32,
    at: At,
    progress: &mut dyn FnMut(),
) -> Result<(), Failed> {
    let (records, scratch) = (rewrite.of(table)?, rewrite.of(Table::Tallies)?);
    let mut last: Option<Vec<u8>> = None;
    loop {
        let converted = batch(records, txn, table, from, &mut last)?;
        if converted.is_empty() {
            break;
        }
        for (key, value) in converted {
            let stored = codec::seal(table, &key, at.revision, &value);
            if !rewrite.add(txn, Table::Tallies, &key, &stored)? {
                let why = format!("two records would get this key{}", called(table, &value));
                return Err(codec::damaged(table, &key, &why).into());
            }
            progress();
        }
    }
    records.clear(txn)?;
    let mut last: Option<Vec<u8>> = None;
    loop {
        let after = last.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut batch = Vec::with_capacity(BATCH);
        for record in scratch.range(txn, &(after, Bound::Unbounded))?.take(BATCH) {
            let (key, stored) = record?;
            batch.push((key.to_vec(), stored.to_vec()));
        }
        let Some((key, _)) = batch.last() else { break };
        last = Some(key.clone());
        for (key, stored) in batch {
            rewrite.add(txn, table, &key, &stored)?;
        }
    }
    scratch.clear(txn)?;
    Ok(())
}

/// Converts each record of a table. Each fact gets the revision of the upgrade, because the header of a fact in format 2 contains no revision, but
/// LMDB's transaction id. Entries of the change log keep their own revisions.
fn bring_up_table(
    rewrite: &Rewrite<'_>,
    txn: &mut RwTxn<'_>,
    table: Table,
    from: u32,
    at: At,
    progress: &mut dyn FnMut(),
) -> Result<(), Failed> {
    let records = rewrite.of(table)?;
    let mut last: Option<Vec<u8>> = None;
    loop {
        let converted = batch(records, txn, table, from, &mut last)?;
        if converted.is_empty() {
            return Ok(());
        }
        for (key, value) in converted {
            let revision = match table {
                Table::Log => key.first_chunk().map(|revision| Revision(u64::from_be_bytes(*revision))),
                _ => Some(at.revision),
            };
            let form = || codec::damaged(table, &key, "the key is not valid for this table");
            let stored = codec::seal(table, &key, revision.ok_or_else(form)?, &value);
            records.put(txn, &key, &stored)?;
            if table.holds_facts() {
                progress();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{change, put_something, something_is_there};
    use crate::copy::read_backup;
    use crate::lmdb::Lmdb;
    use crate::lmdb::map::open_map_of;
    use crate::lmdb::reading::Reading;
    use crate::lmdb::tables::{There, find, make};
    use crate::scratch::Scratch;
    use enfilade_facts::codec::Writer;
    use enfilade_facts::journal::{Head, Write, write_down};
    use enfilade_facts::tables::{
        Datastore, Domain, Key, LogEntry, Member, Membership, MembershipKey, Revocation, Revoked,
    };
    use enfilade_facts::vocabulary::{DomainId, GroupId, UserId};
    use enfilade_facts::{Change, Read, Source};
    use heed::EnvFlags;
    use std::os::unix::fs::DirBuilderExt;

    fn audit() -> AuditRecord {
        AuditRecord { who: "a test".into(), what: String::new(), unix_seconds: 5, request: None }
    }

    /// Makes a store of this format that has no table of revocations.
    fn make_without_a_table(path: &Path, format: u32) {
        std::fs::DirBuilder::new().mode(0o700).create(path).unwrap();
        let env = open_map_of(path, 1 << 30, EnvFlags::empty()).unwrap();
        let tables: Vec<Table> =
            Table::ALL.into_iter().filter(|table| *table != Table::Revocations).collect();
        make(&env, format, &tables).unwrap();
        assert!(matches!(find(&env).unwrap(), There::Store(found, _) if found == format));
        env.prepare_for_closing().wait();
    }

    /// Commits as a program of format 2 did: the records and the entry of the change log contain LMDB's commit number.
    fn commit_as_of_2(path: &Path, change: &Change) {
        let (environment, _) = open_of_any_format(path, Terms::default()).unwrap();
        environment.check(path).unwrap();
        let mut txn = environment.env.write_txn().unwrap();
        let commit = txn.id() as u64;
        let reading = environment.reading_of(&txn, commit - 1).unwrap();
        let number = reading.at.next().revision;
        // `write_down` gives the records the revision after `at`. The revision of `at` is the number of the previous commit. So the records get the
        // number of this commit.
        let at = At { revision: Revision(commit - 1), ..reading.at };
        let before = AsOf2 { reading, at };
        let mut writes = write_down(&before, change, commit, Revision(0)).unwrap();
        let audit = change.audit();
        let mut entry = Writer::default();
        entry.text(&audit.who).text(&audit.what).i64(audit.unix_seconds).u64(commit).flag(false);
        let stored = codec::seal(Table::Log, &number.bytes(), Revision(commit), &entry.into_bytes());
        writes.retain(|write| !matches!(write.table, Table::Log | Table::Head));
        writes.push(Write { table: Table::Log, key: number.bytes(), stored: Some(stored) });
        writes.push(Head { revision: number, commit }.write());
        environment.write(&mut txn, &writes).unwrap();
        txn.commit().unwrap();
        environment.high_water.raise(number);
        environment.env.prepare_for_closing().wait();
    }

    struct AsOf2<'t> {
        reading: Reading<'t>,
        at: At,
    }

    impl enfilade_facts::Snapshot for AsOf2<'_> {
        fn at(&self) -> At {
            self.at
        }
        fn head(&self) -> Result<Head, SourceError> {
            self.reading.head()
        }
        fn get<'s>(&'s self, table: Table, key: &[u8]) -> Result<Option<&'s [u8]>, SourceError> {
            self.reading.get(table, key)
        }
        fn scan(
            &self,
            table: Table,
            prefix: &[u8],
            each: enfilade_facts::Each<'_>,
        ) -> Result<(), SourceError> {
            self.reading.scan(table, prefix, each)
        }
        fn at_or_after(&self, table: Table, key: &[u8]) -> Result<enfilade_facts::Found<'_>, SourceError> {
            self.reading.at_or_after(table, key)
        }
    }

    fn membership(n: u8, group: u8) -> MembershipKey {
        let member = Member::User(UserId::from_bytes([n; 16]));
        MembershipKey { member, group: GroupId::from_bytes([group; 16]) }
    }

    /// Makes a store that has more records than one batch. Some groups have one record, and some have several.
    fn old_store(path: &Path) {
        make_without_a_table(path, 2);
        let mut first = change();
        for n in 0..u128::try_from(BATCH + 10).unwrap() {
            first.put(&DomainId::from_bytes(n.to_be_bytes()), &Domain::new("x1".parse().unwrap()));
        }
        commit_as_of_2(path, &first);
        let mut second = change();
        for n in 0..20 {
            for group in 0..3 {
                second.put(&membership(n, group), &Membership);
            }
        }
        commit_as_of_2(path, &second);
        let something = Datastore {
            path: "/something".into(),
            other: vec![("gc-schedule".into(), "daily".into())],
            ..Datastore::default()
        };
        commit_as_of_2(path, change().put(&"tank".parse().unwrap(), &something));
    }

    fn refusal(path: &Path) -> String {
        Lmdb::open(path).err().unwrap().to_string()
    }

    #[test]
    fn a_store_of_an_older_format_is_left_alone_until_it_is_upgraded_and_whole_afterwards() {
        let scratch = Scratch::new();
        let path = scratch.path().join("facts");
        old_store(&path);
        assert!(refusal(&path).contains("run `enfilade facts upgrade`"), "{}", refusal(&path));
        let whole = std::fs::read(path.join("data.mdb")).unwrap();

        let older = Older::open(&path, Terms::default()).unwrap().unwrap();
        let mut seen = (0, 0);
        let plan = older.try_out(&mut |done, all| seen = (done, all)).unwrap();
        // Each membership also has a second record. The key of this record begins with the group.
        let records = BATCH as u64 + 10 + 2 * 60 + 1;
        assert_eq!((plan.from, plan.to, plan.records, seen), (2, FORMAT, records, (records, records)));
        assert_eq!(plan.tables, [Table::Revocations]);
        assert!(plan.backup.ends_with("facts.format-2.revision-3") && !plan.backup.exists());
        drop(older);
        assert_eq!(std::fs::read(path.join("data.mdb")).unwrap(), whole);

        let older = Older::open(&path, Terms::default()).unwrap().unwrap();
        let mut most = (0, 0);
        let (done, at) = older.upgrade(&audit(), &mut |done, all| most = (done, all)).unwrap();
        assert_eq!((done, at.revision, most), (plan.clone(), Revision(4), (3 * records, 3 * records)));

        assert!(Older::open(&path, Terms::default()).unwrap().is_none());
        let lmdb = Lmdb::open(&path).unwrap();
        assert_eq!(lmdb.at(), at);
        something_is_there(&lmdb);
        let checked =
            lmdb.snapshot(|snapshot| crate::check::check(snapshot, &mut |_, _| {})).unwrap().unwrap();
        assert_eq!(checked.problems, Vec::<String>::new());
        lmdb.read(|view| {
            assert_eq!(view.list::<Domain>(&[]).unwrap().len(), BATCH + 10);
            assert_eq!(view.list::<Membership>(&membership(7, 0).member.prefix()).unwrap().len(), 3);
            assert_eq!(view.revision_of::<Membership>(&membership(7, 0)), Ok(Some(at.revision)));
            let log: Vec<_> = view.list::<LogEntry>(&[]).unwrap();
            let log: Vec<_> = log.iter().map(|(number, entry)| (number.0, entry.what.as_str())).collect();
            let upgraded = format!("upgrade to format {FORMAT}");
            assert_eq!(log, [(1, "test"), (2, "test"), (3, "test"), (4, upgraded.as_str())]);
            for number in (1..=4).map(Revision) {
                assert_eq!(view.revision_of::<LogEntry>(&number), Ok(Some(number)));
            }
        })
        .unwrap();
        // A record can be put into the new table, and the store can be opened again after that.
        let mark = Revoked::User(UserId::from_bytes([7; 16]));
        lmdb.commit(change().end(mark)).unwrap();
        drop(lmdb);
        let lmdb = Lmdb::open(&path).unwrap();
        assert!(lmdb.read(|view| view.get::<Revocation>(&mark)).unwrap().unwrap().is_some());

        // The backup has the older format, and is converted when it is restored.
        let backup = std::fs::read(&plan.backup).unwrap();
        let copy = read_backup(backup.as_slice()).unwrap();
        assert_eq!((copy.origin.format, copy.origin.revision), (2, 3));
        lmdb.restore(copy, &audit(), true, &mut |_, _| {}).unwrap();
        something_is_there(&lmdb);
    }

    #[test]
    fn what_cannot_be_upgraded_is_as_it_was() {
        let scratch = Scratch::new();
        // The cases are a damaged record, a backup that cannot be written, a store that another process has open, and a full disk.
        let cases = [
            ("damaged", "damaged record"),
            ("backup", "cannot be written"),
            ("open", "stop these processes first"),
            ("full", "the disk is full: make room; the reserve"),
        ];
        for (name, expected) in cases {
            let path = scratch.path().join(name);
            old_store(&path);
            if name == "damaged" {
                let file = path.join("data.mdb");
                let mut whole = std::fs::read(&file).unwrap();
                let needle = b"/something";
                let place = (0..whole.len() - needle.len()).rfind(|&at| whole[at..].starts_with(needle));
                whole[place.unwrap()] ^= 1;
                std::fs::write(&file, whole).unwrap();
            }
            let mut older = Older::open(&path, Terms::default()).unwrap().unwrap();
            let backup = older.plan().unwrap().backup;
            match name {
                "backup" => std::fs::create_dir(&backup).unwrap(),
                "full" => older.environment.disk_reserve.pretend_full(),
                _ => {}
            }
            let other = (name == "open").then(|| place::live(&path).unwrap());
            let whole = std::fs::read(path.join("data.mdb")).unwrap();
            let why = older.upgrade(&audit(), &mut |_, _| {}).unwrap_err();
            // The text of the error contains the reason, so the error has no source.
            assert!(why.to_string().contains(expected) && std::error::Error::source(&why).is_none(), "{why}");
            assert!(name != "full" || !backup.exists());
            drop(other);
            assert_eq!(std::fs::read(path.join("data.mdb")).unwrap(), whole, "{name}");
            assert!(refusal(&path).contains("have format 2"), "{name}");
        }
    }

    #[test]
    fn the_pieces_of_the_log_are_those_of_their_entry_afterwards() {
        let scratch = Scratch::new();
        let path = scratch.path().join("facts");
        make_without_a_table(&path, 3);
        let mut large = change();
        for n in 0..3_000_u128 {
            large.put(&DomainId::from_bytes(n.to_be_bytes()), &Domain::new("x1".parse().unwrap()));
        }
        {
            let (environment, _) = open_of_any_format(&path, Terms::default()).unwrap();
            environment.check(&path).unwrap();
            let mut txn = environment.env.write_txn().unwrap();
            let commit = txn.id() as u64;
            let reading = environment.reading_of(&txn, commit - 1).unwrap();
            let writes = write_down(&reading, &large, commit, Revision(0)).unwrap();
            environment.write(&mut txn, &writes).unwrap();
            txn.commit().unwrap();
            environment.high_water.raise(Revision(1));
            environment.env.prepare_for_closing().wait();
        }
        let older = Older::open(&path, Terms::default()).unwrap().unwrap();
        older.upgrade(&audit(), &mut |_, _| {}).unwrap();
        let lmdb = Lmdb::open(&path).unwrap();
        let checked = lmdb.snapshot(|snapshot| crate::check::check(snapshot, &mut |_, _| {}));
        assert_eq!(checked.unwrap().unwrap().problems, Vec::<String>::new());
        lmdb.read(|view| {
            let keys: Vec<_> = enfilade_facts::written_since(view, Revision(0)).collect();
            let counts: Vec<_> =
                keys.iter().map(|keys| keys.as_ref().map(|(at, keys)| (at.0, keys.len()))).collect();
            assert_eq!(counts, [Some((1, 1024)), Some((1, 1024)), Some((1, 952)), None]);
        })
        .unwrap();
    }

    /// `cargo xtask upgrade` runs this test with more records, to measure records per second and memory.
    #[test]
    fn an_upgrade_has_only_some_of_many_records_in_memory() {
        let size = std::env::var("ENFILADE_CAMPAIGN_N").ok().and_then(|n| n.parse().ok());
        let size: u128 = size.unwrap_or(20_000);
        let scratch = Scratch::new();
        let path = scratch.path().join("facts");
        make_without_a_table(&path, 2);
        for from in (0..size).step_by(20_000) {
            let mut many = change();
            for n in from..size.min(from + 20_000) {
                let text = format!("{n:60}");
                let domain = Domain { description: Some(text), ..Domain::new("x1".parse().unwrap()) };
                many.put(&DomainId::from_bytes((n << 96).to_be_bytes()), &domain);
            }
            commit_as_of_2(&path, &many);
        }
        let anonymous = || {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
            line.split_whitespace().next().unwrap().parse::<u64>().unwrap() >> 10
        };
        let (before, mut most, mut last) = (anonymous(), 0, 0);
        #[expect(clippy::disallowed_methods, reason = "the test measures time")]
        let began = std::time::Instant::now();
        let mut progress = |done: u64, _| {
            if done.is_multiple_of(4096) {
                (most, last) = (anonymous().max(most), done);
            }
        };
        let older = Older::open(&path, Terms::default()).unwrap().unwrap();
        let (plan, _) = older.upgrade(&audit(), &mut progress).unwrap();
        let seconds = began.elapsed().as_secs_f64();
        assert_eq!((u128::from(plan.records), last >> 12), (size, (plan.records * 3) >> 12));
        let grown = most.saturating_sub(before);
        let each_second = plan.records as f64 / seconds;
        println!(
            "upgrade: {size} records in {seconds:.1} s ({each_second:.0} a second), the memory grew by {grown} MiB"
        );
        assert!(grown < 256, "the memory of the process grew by {grown} MiB");
        let lmdb = Lmdb::open(&path).unwrap();
        let checked = lmdb.snapshot(|snapshot| crate::check::check(snapshot, &mut |_, _| {}));
        assert_eq!(checked.unwrap().unwrap().problems, Vec::<String>::new());
    }

    /// An earlier version of this program made the missing table in a commit that did not write the head. After that, the store could not be opened
    /// any more.
    #[test]
    fn a_table_that_is_missing_is_refused_and_not_made() {
        let scratch = Scratch::new();
        let path = scratch.path().join("facts");
        make_without_a_table(&path, FORMAT);
        let whole = std::fs::read(path.join("data.mdb")).unwrap();
        for _ in 0..2 {
            assert!(refusal(&path).contains("table `revocations` is missing"), "{}", refusal(&path));
        }
        assert_eq!(std::fs::read(path.join("data.mdb")).unwrap(), whole);
    }

    #[test]
    fn a_newer_store_and_one_that_is_too_old_are_not_upgraded() {
        let scratch = Scratch::new();
        for (format, expected) in
            [(FORMAT + 1, "run a newer enfilade"), (FORMAT_OLDEST - 1, "use another directory")]
        {
            let path = scratch.path().join(format.to_string());
            make_without_a_table(&path, format);
            let why = Older::open(&path, Terms::default()).err().unwrap().to_string();
            assert!(why.contains(expected), "{why}");
            assert!(refusal(&path).contains(expected), "{}", refusal(&path));
        }
        assert!(Older::open(&scratch.path().join("nowhere"), Terms::default()).unwrap().is_none());
        let path = scratch.path().join("current");
        put_something(&Lmdb::open(&path).unwrap());
        assert!(Older::open(&path, Terms::default()).unwrap().is_none());
    }
}
