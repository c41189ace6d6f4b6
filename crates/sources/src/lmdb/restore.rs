//! Putting other facts in the place of those that are there.
//!
//! Restored facts are another store, with another id, so that nothing that was judged on the old ones is asked again. It
//! is one transaction: running processes see it with their next view, and need not be stopped or told. Only a store
//! that cannot be opened any more is set aside as a whole, and for that nobody may have it open.

use super::environment::{self, Trust};
use super::high_water::HighWater;
use super::reading::Reading;
use super::{Lmdb, OpenError, place, unavailable};
use crate::copy::{CopyError, Record, each_fact};
use enfilade_facts::journal::write_anew;
use enfilade_facts::{At, AuditRecord, CommitError, Revision, SourceError, StoreId, Table, View};
use std::path::{Path, PathBuf};

/// Facts that were not put in place; those that are there are as they were.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// What was revoked since would be good again.
    #[error(
        "these facts are of revision {found}, and {expected} was acknowledged: whatever was revoked or taken away since \
        would be good again; if that is meant, say --accept-rollback"
    )]
    GoesBack {
        /// Their revision.
        found: Revision,
        /// The newest that was acknowledged.
        expected: Revision,
    },
    /// The store could not do it.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// The store could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The facts that are there could not be read.
    #[error(transparent)]
    Copy(#[from] CopyError),
}

impl Lmdb {
    /// Puts these facts, which are of this revision, in the place of all that are there. That is a change, later than any there was.
    ///
    /// # Errors
    /// [`RestoreError`]; nothing is changed then.
    pub fn restore(
        &self,
        facts: Vec<Record>,
        revision: Revision,
        audit: &AuditRecord,
        accept_rollback: bool,
    ) -> Result<At, RestoreError> {
        let environment = &*self.environment;
        environment.writers.alone(|| {
            let acknowledged = environment.high_water.revision();
            if revision < acknowledged && !accept_rollback {
                return Err(RestoreError::GoesBack { found: revision, expected: acknowledged });
            }
            let mut id = [0; 16];
            getrandom::fill(&mut id).map_err(|why| random_failed(&why))?;
            let failed = |why| CommitError::from(unavailable(why));
            let mut txn = environment.env.write_txn().map_err(failed)?;
            let commit = txn.id() as u64;
            // Also later than a change whose writer ended before it could acknowledge it: somebody may have seen that.
            let there =
                Reading::of(environment, &txn, commit.saturating_sub(1)).map(|reading| reading.at.revision);
            let newest = acknowledged.max(there.unwrap_or(Revision(0)));
            let at = At { store: StoreId(u128::from_be_bytes(id)), revision: newest.max(revision) }.next();
            // What is not in the audit log yet has to stay; a log with a gap is of no use.
            let keeps_log = revision <= newest;
            for table in Table::ALL.into_iter().filter(|table| !(keeps_log && *table == Table::Log)) {
                environment.records(table).and_then(|records| records.clear(&mut txn)).map_err(failed)?;
            }
            for write in write_anew(facts.into_iter(), audit, at, commit) {
                environment.write(&mut txn, &[write]).map_err(failed)?;
            }
            environment.high_water.announce(at.store);
            txn.commit().map_err(failed)?;
            environment.high_water.begin(at.store, at.revision);
            Ok(at)
        })?
    }

    /// Takes a store that has gone back, or was put in another one's place, as it is: from now on it is a store of its
    /// own. Every record of it has to be sound.
    ///
    /// # Errors
    /// When somebody has it open, or it cannot be read whole.
    pub fn accept(path: &Path, group: Option<u32>, audit: &AuditRecord) -> Result<At, RestoreError> {
        drop(place::alone(path)?);
        let lmdb = Lmdb { environment: environment::open(path, group, Trust::AsItIs)? };
        let mut facts = Vec::new();
        let taken = lmdb.snapshot(|snapshot| {
            each_fact(&View::new(snapshot), |table, key, value| {
                facts.push((table, key.to_vec(), value.to_vec()));
                Ok(())
            })
        });
        taken.map_err(CommitError::from)??;
        lmdb.restore(facts, lmdb.environment.high_water.revision(), audit, true)
    }

    /// Moves a store that cannot be opened out of the way, whole, and makes an empty one in its place, which takes no
    /// facts older than those that were acknowledged before. Says where the old one is.
    ///
    /// # Errors
    /// When somebody has it open, or it cannot be moved.
    pub fn set_aside(
        path: &Path,
        group: Option<u32>,
        unix_seconds: i64,
    ) -> Result<(Self, PathBuf), RestoreError> {
        let failed = |why| OpenError::io(path, &why);
        let held = place::alone(path)?;
        let mark = HighWater::open(&path.join(place::HIGH_WATER)).map(|mark| mark.revision()).ok();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let aside = path.with_file_name(format!("{name}.set-aside-{unix_seconds}"));
        std::fs::rename(path, &aside).map_err(failed)?;
        let lmdb = Lmdb::open_for(path, group)?;
        drop(held);
        lmdb.environment.high_water.raise(mark.unwrap_or(Revision(0)));
        Ok((lmdb, aside))
    }
}

fn random_failed(why: &getrandom::Error) -> CommitError {
    SourceError::Unavailable(format!("the kernel gives no random bytes: {why}")).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{put_something, something_is_there};
    use crate::copy::{Origin, backup, dump, read_backup, read_dump};
    use crate::scratch::Scratch;
    use enfilade_facts::tables::{Datastore, LogEntry};
    use enfilade_facts::{Read, Source};

    fn audit() -> AuditRecord {
        AuditRecord { who: "a test".into(), what: "restore".into(), unix_seconds: 5 }
    }

    fn back_up(lmdb: &Lmdb) -> (Origin, Vec<Record>) {
        let mut file = Vec::new();
        let origin = lmdb.read(|view| backup(view, 7, &mut file, &mut |_, _| {})).unwrap().unwrap();
        let (read, records) = read_backup(file.as_slice(), &mut |_, _| {}).unwrap();
        assert_eq!(read, origin);
        (read, records)
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
        let (origin, records) = back_up(&lmdb);
        let before = remove_something(&lmdb);
        let why = lmdb.restore(records.clone(), Revision(origin.revision), &audit(), false).unwrap_err();
        assert!(why.to_string().contains("are of revision 1, and 2 was acknowledged"), "{why}");
        assert_eq!((stores(&lmdb), lmdb.at()), (0, before));
        let after = lmdb.restore(records, Revision(origin.revision), &audit(), true).unwrap();
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
    fn a_backup_with_one_byte_changed_or_missing_is_not_believed() {
        let scratch = Scratch::new();
        let lmdb = Lmdb::open(&scratch.path().join("facts")).unwrap();
        put_something(&lmdb);
        let mut file = Vec::new();
        lmdb.read(|view| backup(view, 7, &mut file, &mut |_, _| {})).unwrap().unwrap();
        let start = file.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        for at in start..file.len() {
            let mut flipped = file.clone();
            flipped[at] ^= 4;
            assert!(read_backup(flipped.as_slice(), &mut |_, _| {}).is_err(), "byte {at}");
            assert!(read_backup(&file[..at], &mut |_, _| {}).is_err(), "cut at {at}");
        }
    }

    /// Its writer was killed between the commit and the mark. A view may have shown it, so its number is not given out again.
    #[test]
    fn a_restore_is_later_than_a_change_nobody_acknowledged() {
        let scratch = Scratch::new();
        let lmdb = Lmdb::open(&scratch.path().join("facts")).unwrap();
        put_something(&lmdb);
        let (origin, records) = back_up(&lmdb);
        let seen = put_something(&lmdb);
        lmdb.environment.high_water.begin(seen.store, Revision(1));
        let restored = lmdb.restore(records, Revision(origin.revision), &audit(), false).unwrap();
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
        let why = Lmdb::accept(&path, None, &audit()).unwrap_err().to_string();
        assert!(why.contains("other processes have it open"), "{why}");
        drop(lmdb);
        assert!(Lmdb::open(&path).is_err());
        let accepted = Lmdb::accept(&path, None, &audit()).unwrap();
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
        let (origin, records) = back_up(&lmdb);
        put_something(&lmdb);
        drop(lmdb);
        std::fs::write(path.join("data.mdb"), [7; 8192]).unwrap();
        assert!(Lmdb::open(&path).is_err());
        let (lmdb, aside) = Lmdb::set_aside(&path, None, 77).unwrap();
        assert!(aside.ends_with("facts.set-aside-77") && aside.join("data.mdb").exists());
        assert!(lmdb.restore(records.clone(), Revision(origin.revision), &audit(), false).is_err());
        lmdb.restore(records, Revision(origin.revision), &audit(), true).unwrap();
        something_is_there(&lmdb);
        drop(lmdb);
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
            kept: None,
        };
        let id = enfilade_facts::vocabulary::UserId::from_bytes([2; 16]);
        lmdb.commit(crate::conformance::change().put(&id, &user)).unwrap();
        put_something(&lmdb);
        for secrets in [true, false] {
            let mut text = Vec::new();
            lmdb.read(|view| dump(view, 7, secrets, &mut text)).unwrap().unwrap();
            assert_eq!(String::from_utf8_lossy(&text).contains("$y$hash"), secrets);
            let (origin, records) = read_dump(text.as_slice()).unwrap();
            assert_eq!((records.len(), origin.secrets), (2, secrets));
            if secrets {
                assert_eq!(records, back_up(&lmdb).1);
            }
        }
        let wrong = b"{\"enfilade_facts\":\"dump\",\"format\":1,\"store\":\"\",\"revision\":1,\"change\":1,\
            \"unix_seconds\":1,\"records\":1,\"secrets\":true}\n{\"table\":\"log\",\"key\":1,\"row\":2}\n";
        let why = read_dump(wrong.as_slice()).unwrap_err().to_string();
        assert_eq!(why, "line 2: table `log` holds no facts");
    }
}
