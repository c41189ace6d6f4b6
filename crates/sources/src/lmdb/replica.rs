//! A replica is a store that gets its changes only from the log of a fleet. The format of a replica has the bit [`REPLICA`]. So every process refuses
//! a change of the store that does not come from the log, and older programs refuse the store.

use super::environment::{self, Trust};
use super::{Lmdb, OpenError, Terms, place, unavailable};
use enfilade_facts::format::{FORMAT, REPLICA};
use enfilade_facts::journal::{Head, Identity, IdentityKey, Write};
use enfilade_facts::{Change, CommitError, SourceError};
use heed::CompactionOption;
use std::fs::File;
use std::path::Path;
use std::sync::atomic::Ordering;

impl Lmdb {
    /// Whether the changes of this store come from the log of a fleet.
    pub fn is_replica(&self) -> bool {
        self.environment.is_replica
    }

    /// Sets whether the changes of a store come from the log of a fleet. The facts, their revision and the id of the store stay the same.
    ///
    /// # Errors
    /// When a process has the store open, or the store cannot be opened or written. Then the store is unchanged.
    pub fn set_replica(path: &Path, terms: Terms, is_replica: bool) -> Result<(), OpenError> {
        let environment = environment::open_anew(path, terms, Trust::Checked)?;
        place::keep_others_out(path, &environment.live)?;
        let (Identity { store, .. }, revision) = environment.introduce(path)?;
        let format = if is_replica { FORMAT | REPLICA } else { FORMAT };
        let written = environment.alone(|| {
            let mut txn = environment.env.write_txn()?;
            let identity = Write::put(&IdentityKey, &Identity { format, store }, environment.at(revision));
            let head = Head { revision, commit: txn.id() as u64 }.write();
            environment.write(&mut txn, &[identity, head])?;
            txn.commit()
        });
        let failed = |why: &dyn std::fmt::Display| OpenError::io(path, why);
        written.map_err(|why| failed(&why))?.map_err(|why| failed(&why))
    }

    /// Writes a copy of the store's file, with the facts of one revision. With this file, [`Lmdb::open`] opens the same store: the same id, revision
    /// and records. Other processes can read and write meanwhile.
    ///
    /// # Errors
    /// When the store cannot be read, or the file cannot be written.
    pub fn copy_to(&self, file: &mut File) -> Result<(), SourceError> {
        self.environment.env.copy_to_file(file, CompactionOption::Disabled).map_err(unavailable)
    }

    /// Gives a replica a newer format, so that programs that do not know the format refuse the replica. The facts and their revision stay the same.
    pub(super) fn raise_format_of_replica(&self, format: u32) -> Result<(), SourceError> {
        let environment = &self.environment;
        if !self.is_replica() || format <= environment.format.load(Ordering::Relaxed) {
            return Ok(());
        }
        let raised = environment.alone(|| {
            let (known, revision) = environment.reading(|_, view| {
                Ok::<_, SourceError>((view.get::<Identity>(&IdentityKey)?, view.head()?.revision))
            })??;
            // Another process may have raised the format already.
            if let Some(Identity { format: known, store }) = known
                && known & !REPLICA < format
            {
                let mut txn = environment.env.write_txn().map_err(unavailable)?;
                let identity = Identity { format: format | REPLICA, store };
                let identity = Write::put(&IdentityKey, &identity, environment.at(revision));
                let head = Head { revision, commit: txn.id() as u64 }.write();
                environment.write(&mut txn, &[identity, head]).map_err(unavailable)?;
                txn.commit().map_err(unavailable)?;
            }
            environment.format.store(format, Ordering::Relaxed);
            Ok(())
        });
        raised.map_err(|why| SourceError::Unavailable(why.to_string()))?
    }

    /// Refuses a change of a replica that does not come from the log.
    pub(super) fn refuse_outside_log(&self, change: &Change) -> Result<(), CommitError> {
        match self.is_replica() && change.after().is_none() {
            true => Err(SourceError::Unavailable(
                "this machine is a member of a fleet, but this program was started without the settings of the fleet, so it cannot change the facts: put the section `[fleet]` that `enfilade fleet join` wrote back into enfilade.toml"
                    .to_owned(),
            )
            .into()),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{change, put_something, something_is_there};
    use crate::lmdb::map::open_map_of;
    use crate::lmdb::{Older, RestoreError, tables};
    use crate::scratch::Scratch;
    use enfilade_facts::Table;
    use enfilade_facts::format::FORMAT_IN_FLEET;
    use enfilade_facts::{At, CommitError, Read as _, Revision, Source as _};
    use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};

    fn refused(lmdb: &Lmdb, after: Option<u64>) -> CommitError {
        let mut change = change();
        change.put(
            &enfilade_facts::vocabulary::DomainId::from_bytes([3; 16]),
            &enfilade_facts::tables::Domain::new("d".parse().unwrap()),
        );
        if let Some(after) = after {
            change.only_after(Revision(after));
        }
        lmdb.commit(&change).unwrap_err()
    }

    #[test]
    fn only_changes_of_the_log_change_a_replica_and_each_only_once() {
        let scratch = Scratch::new();
        let path = scratch.path().join("facts");
        let at = put_something(&Lmdb::open(&path).unwrap());
        Lmdb::set_replica(&path, Terms::default(), true).unwrap();
        let lmdb = Lmdb::open(&path).unwrap();
        assert!(lmdb.is_replica());
        assert_eq!(lmdb.at(), at);
        something_is_there(&lmdb);
        assert!(refused(&lmdb, None).to_string().contains("started without the settings of the fleet"));
        for after in [0, 2] {
            assert!(matches!(refused(&lmdb, Some(after)), CommitError::Conflict { .. }), "{after}");
        }
        let mut next = change();
        next.put(
            &enfilade_facts::vocabulary::DomainId::from_bytes([3; 16]),
            &enfilade_facts::tables::Domain::new("d".parse().unwrap()),
        );
        next.only_after(at.revision);
        assert_eq!(lmdb.commit(&next), Ok(at.next()));
        assert!(matches!(lmdb.commit(&next), Err(CommitError::Conflict { .. })));
        assert!(Lmdb::set_replica(&path, Terms::default(), false).is_err(), "it is open");
        drop(lmdb);
        Lmdb::set_replica(&path, Terms::default(), false).unwrap();
        let lmdb = Lmdb::open(&path).unwrap();
        assert_eq!((lmdb.is_replica(), lmdb.at()), (false, at.next()));
        put_something(&lmdb);
    }

    #[test]
    fn a_replica_is_not_replaced_or_rewritten_by_one_machine() {
        let scratch = Scratch::new();
        let path = scratch.path().join("facts");
        put_something(&Lmdb::open(&path).unwrap());
        Lmdb::set_replica(&path, Terms::default(), true).unwrap();
        let audit = change().audit().clone();
        let compacted = Lmdb::compact(&path, Terms::default(), &audit, &mut |_, _| {});
        assert!(compacted.unwrap_err().to_string().contains("member of a fleet"));
        let accepted = Lmdb::accept(&path, Terms::default(), &audit, &mut |_, _| {});
        assert!(matches!(accepted, Err(RestoreError::Open(OpenError::OfFleet(_)))), "{accepted:?}");
        assert!(Older::open(&path, Terms::default()).unwrap().is_none());
        // A store that is taken out of the fleet gets another id.
        let before = Lmdb::acknowledged(&path).unwrap();
        let at = Lmdb::recover(&path, Terms::default(), &audit, &mut |_, _| {}).unwrap();
        assert_eq!((at.store == before.store, at.revision), (false, before.next().revision));
        put_something(&Lmdb::open(&path).unwrap());
    }

    /// Makes a replica with this format.
    fn replica_of(path: &Path, format: u32) {
        drop(Lmdb::open(path).unwrap());
        Lmdb::set_replica(path, Terms::default(), true).unwrap();
        let environment = environment::open_anew(path, Terms::default(), Trust::Checked).unwrap();
        let (Identity { store, .. }, revision) = environment.introduce(path).unwrap();
        let mut txn = environment.env.write_txn().unwrap();
        let identity = Identity { format: format | REPLICA, store };
        let identity = Write::put(&IdentityKey, &identity, environment.at(revision));
        let head = Head { revision, commit: txn.id() as u64 }.write();
        environment.write(&mut txn, &[identity, head]).unwrap();
        txn.commit().unwrap();
    }

    fn stored_format(lmdb: &Lmdb) -> u32 {
        lmdb.read(|view| view.get::<Identity>(&IdentityKey)).unwrap().unwrap().unwrap().format
    }

    /// A replica keeps its older format until the format of the fleet is raised, so that a program of the older format can still open it.
    #[test]
    fn a_replica_of_an_older_format_keeps_it_until_it_is_raised() {
        let scratch = Scratch::new();
        let path = scratch.path().join("facts");
        replica_of(&path, FORMAT_IN_FLEET);
        assert!(Older::open(&path, Terms::default()).unwrap().is_none());
        let (lmdb, other) = (Lmdb::open(&path).unwrap(), Lmdb::open(&path).unwrap());
        let mut next = change();
        next.put(
            &enfilade_facts::vocabulary::DomainId::from_bytes([3; 16]),
            &enfilade_facts::tables::Domain::new("d".parse().unwrap()),
        );
        next.only_after(lmdb.at().revision);
        let at = lmdb.commit(&next).unwrap();
        assert_eq!(stored_format(&lmdb), FORMAT_IN_FLEET | REPLICA);
        for format in [FORMAT, FORMAT_IN_FLEET, FORMAT] {
            lmdb.raise_format(format).unwrap();
            assert_eq!((stored_format(&other), other.at()), (FORMAT | REPLICA, at), "{format}");
        }
        drop((lmdb, other));
        assert!(Lmdb::open(&path).unwrap().is_replica());
        // A replica of a format that is older than `FORMAT_IN_FLEET` is refused, because its records need a conversion.
        let old = scratch.path().join("old");
        replica_of(&old, FORMAT_IN_FLEET - 1);
        for why in [Lmdb::open(&old).err().unwrap(), Older::open(&old, Terms::default()).err().unwrap()] {
            assert!(why.to_string().contains("Update the program"), "{why}");
        }
        // A store that is not a replica always has the format of this program, so its format is not raised.
        let alone = Lmdb::open(&scratch.path().join("alone")).unwrap();
        alone.raise_format(FORMAT + 1).unwrap();
        assert_eq!(stored_format(&alone), FORMAT);
    }

    /// A member of a fleet can run a newer version of the program, which has a further table, before the format of the fleet is raised.
    #[test]
    fn a_replica_of_an_older_format_gets_the_tables_that_it_lacks() {
        let scratch = Scratch::new();
        let path = scratch.path().join("facts");
        std::fs::DirBuilder::new().mode(0o700).create(&path).unwrap();
        let env = open_map_of(&path, 1 << 24, heed::EnvFlags::empty()).unwrap();
        let (last, older) = Table::ALL.split_last().unwrap();
        tables::make(&env, FORMAT_IN_FLEET | REPLICA, older).unwrap();
        env.prepare_for_closing().wait();
        for records in [0, 1] {
            let lmdb = Lmdb::open(&path).unwrap();
            assert_eq!(stored_format(&lmdb), FORMAT_IN_FLEET | REPLICA);
            let count = lmdb.read(|view| view.tally(*last, &[]).map(|tally| tally.count));
            assert_eq!(count.unwrap().unwrap(), records);
            let mut next = change();
            next.put(&enfilade_facts::vocabulary::UserId::from_bytes([3; 16]), &factor());
            next.only_after(lmdb.at().revision);
            lmdb.commit(&next).unwrap();
        }
    }

    fn factor() -> enfilade_facts::tables::SecondFactor {
        enfilade_facts::tables::SecondFactor {
            secret: enfilade_facts::tables::SealedSecret(vec![1]),
            begun_at: 1,
            confirmed_at: None,
            used_step: 0,
            recovery: Vec::new(),
            passkeys: Vec::new(),
        }
    }

    #[test]
    fn a_copy_of_the_file_is_the_same_store() {
        let scratch = Scratch::new();
        let (path, copy) = (scratch.path().join("facts"), scratch.path().join("copy"));
        let lmdb = Lmdb::open(&path).unwrap();
        let at: At = put_something(&lmdb);
        std::fs::DirBuilder::new().mode(0o700).create(&copy).unwrap();
        let data = copy.join("data.mdb");
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(&data).unwrap();
        lmdb.copy_to(&mut file).unwrap();
        let other = Lmdb::open(&copy).unwrap();
        assert_eq!(other.at(), at);
        something_is_there(&other);
        assert_eq!(put_something(&other), put_something(&lmdb));
    }
}
