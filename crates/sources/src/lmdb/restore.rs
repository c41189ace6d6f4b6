//! Replaces all facts of a store.
//!
//! After a restore the store has another id, so that no memo of the old facts is used again. A restore is one transaction: running processes see the
//! new facts in their next view, and need not be stopped or notified. Records are written while the copy (a backup or a dump) is read. If the copy is
//! damaged or incomplete, even only at its last byte, the transaction is aborted. Only a store that cannot be opened any more is replaced as a whole,
//! and in this case no process may have it open.

use super::access_rules::make_access_rules;
use super::environment::{self, Trust};
use super::error::unwritten;
use super::high_water::HighWater;
use super::moved::Moved;
use super::restore_error::RestoreError;
use super::{Lmdb, OpenError, Terms, place};
use crate::copy::{Copy, CopyError, Gathered, Progress, Views};
use crate::files::atomic;
use enfilade_facts::codec;
use enfilade_facts::format::lacks_access_rules;
use enfilade_facts::journal::write_last;
use enfilade_facts::tables::called;
use enfilade_facts::{At, AuditRecord, CommitError, Revision, SourceError, StoreId, Table};
use std::io;
use std::path::{Path, PathBuf};

impl Lmdb {
    /// Replaces all facts with the facts of a copy. The restore is a change, and gets a later revision than all changes before. `progress` counts
    /// each record twice: when it is written, and when it is added to its tally.
    ///
    /// # Errors
    /// [`RestoreError`]. A failed restore changes nothing.
    pub fn restore(
        &self,
        copy: Copy<'_>,
        audit: &AuditRecord,
        accept_rollback: bool,
        progress: Progress<'_>,
    ) -> Result<At, RestoreError> {
        match self.is_replica() {
            true => Err(OpenError::OfFleet(self.environment.env.path().to_owned()).into()),
            false => self.replace(copy, audit, accept_rollback, progress),
        }
    }

    fn replace(
        &self,
        copy: Copy<'_>,
        audit: &AuditRecord,
        accept_rollback: bool,
        progress: Progress<'_>,
    ) -> Result<At, RestoreError> {
        let environment = &*self.environment;
        let Copy { origin, records } = copy;
        let revision = Revision(origin.revision);
        environment.alone(|| {
            let acknowledged = environment.high_water.revision();
            if revision < acknowledged && !accept_rollback {
                return Err(RestoreError::GoesBack { found: revision, expected: acknowledged });
            }
            let mut id = [0; 16];
            getrandom::fill(&mut id).map_err(|why| random_failed(&why))?;
            let failed = |why| CommitError::from(unwritten(environment.env.path(), why));
            let mut txn = environment.env.write_txn().map_err(failed)?;
            let commit = txn.id() as u64;
            // A view may already have seen a change that was committed, but not acknowledged. So the new revision must also be later than the newest
            // committed revision.
            let there =
                environment.reading_of(&txn, commit.saturating_sub(1)).map(|reading| reading.at.revision);
            let newest = acknowledged.max(there.unwrap_or(Revision(0)));
            let at = At { store: StoreId(u128::from_be_bytes(id)), revision: newest.max(revision) }.next();
            // The change log is kept, because some of its entries may not be in the audit log yet. But if the copy is newer than the store, the
            // change log would have a gap, so it is cleared.
            let keeps_log = revision <= newest;
            let rewrite = environment.rewrite();
            for table in Table::ALL.into_iter().filter(|table| !(keeps_log && *table == Table::Log)) {
                rewrite.of(table).and_then(|records| records.clear(&mut txn)).map_err(failed)?;
            }
            let mut done = 0;
            for record in records {
                let (table, key, value) = record?;
                let stored = codec::seal(table, &key, at.revision, &value);
                if !rewrite.add(&mut txn, table, &key, &stored).map_err(failed)? {
                    return Err(twice(table, &key, &value).into());
                }
                done += 1;
                progress(done, origin.records * 2);
            }
            if lacks_access_rules(origin.format) {
                make_access_rules(&rewrite, &mut txn, at.revision)
                    .map_err(|why| CommitError::from(why.at(environment.env.path())))?;
            }
            for table in Table::of_facts() {
                let mut counted = || {
                    // If the copy has an older format, the restore adds records that the copy does not contain, and the total does not
                    // include them. So `done` may reach the total early.
                    done = (origin.records * 2).min(done + 1);
                    progress(done, origin.records * 2);
                };
                rewrite.count(&mut txn, table, &mut counted).map_err(failed)?;
            }
            for write in write_last(audit, at, commit) {
                rewrite.write(&mut txn, write).map_err(failed)?;
            }
            environment.leaves_disk_reserve(&txn)?;
            environment.high_water.announce(at.store);
            txn.commit().map_err(failed)?;
            environment.high_water.begin(at.store, at.revision);
            Ok(at)
        })?
    }

    /// Accepts the present facts of a store that lacks acknowledged changes, or that replaced another store. The store gets a new id. All its records
    /// must be sound.
    ///
    /// # Errors
    /// When a process has the store open, the store belongs to a member of a fleet, or a record cannot be read.
    pub fn accept(
        path: &Path,
        terms: Terms,
        audit: &AuditRecord,
        progress: Progress<'_>,
    ) -> Result<At, RestoreError> {
        drop(place::alone(path)?);
        let lmdb = Lmdb { environment: environment::open(path, terms, Trust::AsItIs)? };
        match lmdb.is_replica() {
            true => Err(OpenError::OfFleet(path.to_owned()).into()),
            false => lmdb.accept_all(path, audit, progress),
        }
    }

    /// Takes a store out of its fleet. The store gets a new id. So the store can never be used in this fleet again, and no member of the fleet
    /// accepts the facts of this store.
    ///
    /// # Errors
    /// When a process has the store open, or a record cannot be read.
    pub fn recover(
        path: &Path,
        terms: Terms,
        audit: &AuditRecord,
        progress: Progress<'_>,
    ) -> Result<At, RestoreError> {
        drop(place::alone(path)?);
        let lmdb = Lmdb { environment: environment::open(path, terms, Trust::Checked)? };
        lmdb.accept_all(path, audit, progress)
    }

    fn accept_all(
        &self,
        path: &Path,
        audit: &AuditRecord,
        progress: Progress<'_>,
    ) -> Result<At, RestoreError> {
        let environment = &*self.environment;
        let views: Views<'_> = &|look| environment.reading(|_, view| look(view));
        let mut gathered = Gathered::of(views, path, audit.unix_seconds, progress)?;
        gathered.origin.revision = environment.high_water.revision().0;
        self.replace(gathered.into_copy()?, audit, true, progress)
    }

    /// The id and the newest acknowledged revision of the store in this directory. The store need not be open. Creates no file.
    ///
    /// # Errors
    /// When the file of the high-water mark is missing or malformed, or contains no store id.
    pub fn acknowledged(path: &Path) -> io::Result<At> {
        HighWater::read(&path.join(place::HIGH_WATER))
    }

    /// Replaces a store that cannot be opened. Makes a new store, fills it with `fill`, and renames the old store. Unless `fill` accepts a rollback,
    /// the new store accepts no facts that are older than the last acknowledged revision of the old store. Returns the result of `fill`, and the new
    /// path of the old store.
    ///
    /// The old store keeps its path until `fill` is done. Then the two directories are exchanged in one step, or with two renames if the file system
    /// cannot exchange names.
    ///
    /// # Errors
    /// When a process has the store open, when the last acknowledged revision is unknown and `accept_rollback` is false, when `fill` fails, or when
    /// the store cannot be moved. In these cases the old store has its previous path, except after [`RestoreError::Halfway`]. If only the last step
    /// (the sync of the directory above) fails, the new store has already replaced the old store.
    pub fn set_aside<R>(
        path: &Path,
        terms: Terms,
        unix_seconds: i64,
        accept_rollback: bool,
        fill: impl FnOnce(&Self) -> Result<R, RestoreError>,
    ) -> Result<(R, PathBuf), RestoreError> {
        let failed = |why| OpenError::io(path, &why);
        let held = place::alone(path)?;
        let acknowledged = match Self::acknowledged(path) {
            Ok(at) => at.revision,
            Err(_) if accept_rollback => Revision(0),
            Err(why) => {
                return Err(RestoreError::UnknownAge {
                    path: path.join(place::HIGH_WATER),
                    why: why.to_string(),
                });
            }
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let named = |second| path.with_file_name(format!("{name}.set-aside-{second}"));
        let aside = (unix_seconds..).map(named).find(|aside| !aside.exists()).unwrap_or_default();
        let new = place::next_to(path);
        // This process holds the lock, so no other restore is running. If the directory exists, a restore that was killed has left it.
        if new.exists() {
            std::fs::remove_dir_all(&new).map_err(failed)?;
        }
        let made = Self::open_for(&new, terms).map_err(RestoreError::from).and_then(|lmdb| {
            lmdb.environment.high_water.raise(acknowledged);
            fill(&lmdb)
        });
        let remove = || drop(std::fs::remove_dir_all(&new));
        let made = made.inspect_err(|_| remove())?;
        let moved = Moved { path, new: &new, aside: &aside }.swap();
        moved.inspect_err(|why| {
            if !matches!(why, RestoreError::Halfway { .. }) {
                remove()
            }
        })?;
        atomic::sync_directory(path).map_err(failed)?;
        drop(held);
        Ok((made, aside))
    }
}

fn twice(table: Table, key: &[u8], value: &[u8]) -> CopyError {
    let key = codec::printable(key);
    CopyError::Malformed(format!(
        "table `{}`, key {key}{}: the copy has two records with this key. Use another copy; in a dump you can also delete one of the two lines and correct the number of records in line 1",
        table.name(),
        called(table, value)
    ))
}

fn random_failed(why: &getrandom::Error) -> CommitError {
    SourceError::Unavailable(format!("the kernel gives no random bytes: {why}")).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{put_something, something_is_there};
    use crate::copy::{read_backup, read_dump};
    use crate::scratch::Scratch;
    use enfilade_facts::tables::{Datastore, LogEntry};
    use enfilade_facts::{Read, Source};

    fn audit() -> AuditRecord {
        AuditRecord { who: "a test".into(), what: "restore".into(), unix_seconds: 5, request: None }
    }

    fn gathered(lmdb: &Lmdb) -> Gathered {
        let place = std::env::temp_dir();
        Gathered::of(&|look| lmdb.with_view(look), &place, 7, &mut |_, _| {}).unwrap()
    }

    fn back_up(lmdb: &Lmdb) -> Vec<u8> {
        let mut file = Vec::new();
        gathered(lmdb).write_backup(&mut file, &mut |_, _| {}).unwrap();
        file
    }

    fn restore(lmdb: &Lmdb, backup: &[u8], accept_rollback: bool) -> Result<At, RestoreError> {
        lmdb.restore(read_backup(backup)?, &audit(), accept_rollback, &mut |_, _| {})
    }

    fn stores(lmdb: &Lmdb) -> usize {
        lmdb.read(|view| view.list::<Datastore>(&[]).unwrap().len()).unwrap()
    }

    fn remove_something(lmdb: &Lmdb) -> At {
        let tank = "tank".parse().unwrap();
        lmdb.commit(crate::conformance::change().delete::<Datastore>(&tank)).unwrap()
    }

    #[test]
    fn a_restored_store_is_another_one_for_everybody_who_has_it_open() {
        let scratch = Scratch::new();
        let path = scratch.path().join("facts");
        let lmdb = Lmdb::open(&path).unwrap();
        put_something(&lmdb);
        let backup = back_up(&lmdb);
        let before = remove_something(&lmdb);
        let why = restore(&lmdb, &backup, false).unwrap_err();
        assert!(
            why.to_string().contains("have revision 1, but the store has already acknowledged revision 2"),
            "{why}"
        );
        assert_eq!((stores(&lmdb), lmdb.at()), (0, before));
        let after = restore(&lmdb, &backup, true).unwrap();
        assert!(after.store != before.store && before.revision < after.revision);
        assert_eq!((lmdb.at(), lmdb.read(|view| view.at()).unwrap()), (after, after));
        something_is_there(&lmdb);
        let log = lmdb.read(|view| view.list::<LogEntry>(&[]).unwrap()).unwrap();
        assert_eq!((log.len(), log[2].0, log[2].1.what.as_str()), (3, Revision(3), "restore"));
        put_something(&lmdb);
        drop(lmdb);
        something_is_there(&Lmdb::open(&path).unwrap());
    }

    #[test]
    fn each_record_is_told_when_it_is_written_and_when_it_is_counted() {
        let scratch = Scratch::new();
        let lmdb = Lmdb::open(&scratch.path().join("facts")).unwrap();
        let mut change = crate::conformance::change();
        for n in 0..2 {
            let id = enfilade_facts::vocabulary::DomainId::from_bytes([n; 16]);
            change.put(&id, &enfilade_facts::tables::Domain::new("x1".parse().unwrap()));
        }
        lmdb.commit(&change).unwrap();
        put_something(&lmdb);
        let (backup, mut told) = (back_up(&lmdb), Vec::new());
        let copy = read_backup(backup.as_slice()).unwrap();
        lmdb.restore(copy, &audit(), true, &mut |done, all| told.push((done, all))).unwrap();
        assert_eq!(told, [(1, 6), (2, 6), (3, 6), (4, 6), (5, 6), (6, 6)]);
    }

    #[test]
    fn a_backup_with_one_byte_changed_or_missing_changes_nothing() {
        let scratch = Scratch::new();
        let lmdb = Lmdb::open(&scratch.path().join("facts")).unwrap();
        put_something(&lmdb);
        let file = back_up(&lmdb);
        let at = lmdb.at();
        let why = |file: &[u8]| restore(&lmdb, file, true).map(drop).unwrap_err().to_string();
        let start = file.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        for cut in 0..file.len() {
            let why = why(&file[..cut]);
            assert!(why.contains("ends too early: it was cut"), "cut at {cut}: {why}");
        }
        for byte in start..file.len() {
            let mut flipped = file.clone();
            flipped[byte] ^= 4;
            why(&flipped);
        }
        assert_eq!(lmdb.at(), at);
        something_is_there(&lmdb);
        restore(&lmdb, &file, true).unwrap();
    }

    /// The writer of a change was killed before it raised the high-water mark. A view may have contained the change, so the revision of the change is
    /// not used again.
    #[test]
    fn a_restore_is_later_than_a_change_nobody_acknowledged() {
        let scratch = Scratch::new();
        let lmdb = Lmdb::open(&scratch.path().join("facts")).unwrap();
        put_something(&lmdb);
        let backup = back_up(&lmdb);
        let seen = put_something(&lmdb);
        lmdb.environment.high_water.begin(seen.store, Revision(1));
        let restored = restore(&lmdb, &backup, false).unwrap();
        assert_eq!(restored.revision, seen.next().revision);
        let log = lmdb.read(|view| view.list::<LogEntry>(&[]).unwrap()).unwrap();
        assert_eq!(log.iter().map(|(number, _)| number.0).collect::<Vec<_>>(), [1, 2, 3]);
    }

    #[test]
    fn a_store_that_went_back_can_be_accepted_while_nobody_has_it_open() {
        let scratch = Scratch::new();
        let path = scratch.path().join("facts");
        let lmdb = Lmdb::open(&path).unwrap();
        put_something(&lmdb);
        let at = lmdb.at();
        lmdb.environment.high_water.raise(Revision(9));
        let why = Lmdb::accept(&path, Terms::default(), &audit(), &mut |_, _| {}).unwrap_err().to_string();
        assert!(why.contains("other processes have them open"), "{why}");
        drop(lmdb);
        assert!(Lmdb::open(&path).is_err());
        let accepted = Lmdb::accept(&path, Terms::default(), &audit(), &mut |_, _| {}).unwrap();
        assert_ne!(accepted.store, at.store);
        let lmdb = Lmdb::open(&path).unwrap();
        something_is_there(&lmdb);
        assert_eq!(lmdb.status().at.revision, Revision(10));
    }

    #[test]
    fn a_store_that_cannot_be_opened_is_set_aside_and_its_age_is_remembered() {
        let scratch = Scratch::new();
        let path = scratch.path().join("facts");
        let lmdb = Lmdb::open(&path).unwrap();
        put_something(&lmdb);
        let backup = back_up(&lmdb);
        put_something(&lmdb);
        drop(lmdb);
        std::fs::write(path.join("data.mdb"), [7; 8192]).unwrap();
        assert!(Lmdb::open(&path).is_err());
        // If the new store cannot be filled, it does not replace the old store.
        for (file, accept_rollback, expected) in
            [(&backup[..], false, "add --accept-rollback"), (&backup[..backup.len() - 1], true, "it was cut")]
        {
            let fill = |lmdb: &Lmdb| restore(lmdb, file, accept_rollback);
            let filled = Lmdb::set_aside(&path, Terms::default(), 77, accept_rollback, fill);
            let why = filled.unwrap_err().to_string();
            assert!(why.contains(expected), "{why}");
            assert_eq!(std::fs::read(path.join("data.mdb")).unwrap(), [7; 8192]);
            assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 1);
        }
        let (at, aside) =
            Lmdb::set_aside(&path, Terms::default(), 77, true, |lmdb| restore(lmdb, &backup, true)).unwrap();
        assert!(aside.ends_with("facts.set-aside-77") && aside.join("data.mdb").exists());
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 2);
        let lmdb = Lmdb::open(&path).unwrap();
        assert_eq!((lmdb.at(), at.revision), (at, Revision(3)));
        something_is_there(&lmdb);
    }

    #[test]
    fn a_store_that_cannot_be_moved_away_stays_where_it_is_without_a_new_one() {
        let scratch = Scratch::new();
        // File systems allow names of 255 bytes. The name of the new store is short enough, but the name for the old store (`.set-aside-77`) is too
        // long.
        let path = scratch.path().join("f".repeat(245));
        put_something(&Lmdb::open(&path).unwrap());
        let why = Lmdb::set_aside(&path, Terms::default(), 77, true, |_| Ok(())).unwrap_err();
        assert!(why.to_string().contains("File name too long"), "{why}");
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 1);
        something_is_there(&Lmdb::open(&path).unwrap());
    }

    /// Without the high-water mark, it is unknown whether the backup is older than the last acknowledged revision.
    #[test]
    fn a_store_of_unknown_age_is_only_replaced_where_a_rollback_is_accepted() {
        let scratch = Scratch::new();
        let path = scratch.path().join("facts");
        let lmdb = Lmdb::open(&path).unwrap();
        put_something(&lmdb);
        let backup = back_up(&lmdb);
        remove_something(&lmdb);
        drop(lmdb);
        std::fs::write(path.join("data.mdb"), [7; 8192]).unwrap();
        let mark = path.join(place::HIGH_WATER);
        let whole = std::fs::read(&mark).unwrap();
        let filled = |accept_rollback| {
            let fill = |lmdb: &Lmdb| restore(lmdb, &backup, accept_rollback);
            Lmdb::set_aside(&path, Terms::default(), 77, accept_rollback, fill)
        };
        let damaged = [[0xff; 8].to_vec(), whole[8..].to_vec()].concat();
        for content in [None, Some(damaged), Some(vec![0; whole.len()]), Some(Vec::new())] {
            match content {
                None => std::fs::remove_file(&mark).unwrap(),
                Some(content) => std::fs::write(&mark, content).unwrap(),
            }
            let why = filled(false).unwrap_err().to_string();
            assert!(why.contains("high-water`") && why.contains("add --accept-rollback"), "{why}");
            assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 1);
        }
        filled(true).unwrap();
        something_is_there(&Lmdb::open(&path).unwrap());
    }

    /// Simulates a restore that was killed between its two renames.
    #[test]
    fn a_store_that_is_not_in_its_place_yet_is_not_taken_for_none() {
        let scratch = Scratch::new();
        let (path, new) = (scratch.path().join("facts"), scratch.path().join("facts.new"));
        put_something(&Lmdb::open(&new).unwrap());
        let why = Lmdb::open(&path).err().unwrap().to_string();
        assert!(why.contains("a restore was interrupted") && why.contains("mv -T"), "{why}");
        assert!(!path.exists());
        std::fs::rename(&new, &path).unwrap();
        something_is_there(&Lmdb::open(&path).unwrap());
    }

    #[test]
    fn a_dump_can_be_read_back_and_shows_no_secret_unless_asked() {
        let scratch = Scratch::new();
        let lmdb = Lmdb::open(&scratch.path().join("facts")).unwrap();
        let user = enfilade_facts::tables::User {
            domain: enfilade_facts::vocabulary::DomainId::from_bytes([1; 16]),
            name: "alice".into(),
            sid: enfilade_facts::vocabulary::Sid::of_store([1, 2, 3], 1000),
            also: Vec::new(),
            uid: Some(7),
            gid: None,
            enabled: true,
            expires: 0,
            password: Some(enfilade_facts::tables::Password::of("$y$hash".into())),
            comment: None,
            mirrored: None,
        };
        let id = enfilade_facts::vocabulary::UserId::from_bytes([2; 16]);
        lmdb.commit(crate::conformance::change().put(&id, &user)).unwrap();
        put_something(&lmdb);
        for secrets in [true, false] {
            let mut text = Vec::new();
            gathered(&lmdb).write_dump(secrets, &mut text, &mut |_, _| {}).unwrap();
            assert_eq!(String::from_utf8_lossy(&text).contains("$y$hash"), secrets);
            let copy = read_dump(text.as_slice()).unwrap();
            assert_eq!((copy.origin.records, copy.origin.secrets), (2, secrets));
            let records: Vec<_> = copy.records.map(Result::unwrap).collect();
            if secrets {
                let backup = back_up(&lmdb);
                let backup = read_backup(backup.as_slice()).unwrap();
                assert_eq!(records, backup.records.map(Result::unwrap).collect::<Vec<_>>());
            }
        }
    }

    /// People can sort the lines of a dump, and can remove or add lines.
    #[test]
    fn a_dump_in_any_order_is_taken_in_and_one_with_a_line_twice_or_too_few_is_not() {
        let scratch = Scratch::new();
        let lmdb = Lmdb::open(&scratch.path().join("facts")).unwrap();
        let mut change = crate::conformance::change();
        for n in 0..50_u8 {
            let id = enfilade_facts::vocabulary::DomainId::from_bytes([n; 16]);
            change.put(&id, &enfilade_facts::tables::Domain::new("x1".parse().unwrap()));
        }
        lmdb.commit(&change).unwrap();
        put_something(&lmdb);
        let mut text = Vec::new();
        gathered(&lmdb).write_dump(true, &mut text, &mut |_, _| {}).unwrap();
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let mixed = |step: usize| -> Vec<&str> {
            let places = (0..lines.len() - 1).map(|n| lines[1 + n * step % (lines.len() - 1)]);
            std::iter::once(lines[0]).chain(places).collect()
        };
        let load = |lines: &[&str]| {
            lmdb.restore(read_dump(lines.join("\n").as_bytes())?, &audit(), true, &mut |_, _| {})
        };
        let sound = || {
            let checked = lmdb.snapshot(|snapshot| crate::check::check(snapshot, &mut |_, _| {}));
            assert_eq!(checked.unwrap().unwrap().problems, Vec::<String>::new());
        };
        for step in [1, 50, 7] {
            load(&mixed(step)).unwrap();
            sound();
            something_is_there(&lmdb);
        }
        let at = lmdb.at();
        let mut twice = lines.clone();
        twice[9] = twice[30];
        for (lines, expected) in [
            (&lines[..9], "8 records, but its first line says 51"),
            (&twice, "the copy has two records with this key"),
        ] {
            let why = load(lines).unwrap_err().to_string();
            assert!(why.contains(expected), "{why}");
            assert_eq!(lmdb.at(), at);
            sound();
        }
    }

    #[test]
    fn a_dump_with_a_record_of_the_log_is_refused_with_its_line() {
        let wrong = b"{\"enfilade_facts\":\"dump\",\"format\":1,\"store\":\"\",\"revision\":1,\"change\":1,\
            \"unix_seconds\":1,\"records\":1,\"secrets\":true}\n{\"table\":\"log\",\"key\":1,\"row\":2}\n";
        let why = read_dump(wrong.as_slice()).unwrap().records.next().unwrap().unwrap_err().to_string();
        assert_eq!(why, "line 2: a dump cannot contain table `log`");
    }
}
