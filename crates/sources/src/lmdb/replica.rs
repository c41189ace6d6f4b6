//! A store whose changes come from the log of a fleet. Its format has the bit [`REPLICA`], so it refuses every other change, in every process, and older
//! programs refuse the store.

use super::environment::{self, Trust};
use super::{Lmdb, OpenError, Terms, place, unavailable};
use enfilade_facts::format::{FORMAT, REPLICA};
use enfilade_facts::journal::{Head, Identity, IdentityKey, Write};
use enfilade_facts::{Change, CommitError, SourceError};
use heed::CompactionOption;
use std::fs::File;
use std::path::Path;

impl Lmdb {
    /// Whether the changes of this store come from the log of a fleet.
    pub fn is_replica(&self) -> bool {
        self.environment.is_replica
    }

    /// Says of a store whether its changes come from the log of a fleet. The facts, their revision and the id of the store stay the same.
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

    /// Writes a copy of the store's file, with the facts of one revision. With this file, [`Lmdb::open`] opens the same store: the same id, revision and
    /// records. Other processes can read and write meanwhile.
    ///
    /// # Errors
    /// When the store cannot be read, or the file cannot be written.
    pub fn copy_to(&self, file: &mut File) -> Result<(), SourceError> {
        self.environment.env.copy_to_file(file, CompactionOption::Disabled).map_err(unavailable)
    }

    /// Refuses a change of a replica that does not come from the log.
    pub(super) fn refuse_outside_log(&self, change: &Change) -> Result<(), CommitError> {
        match self.is_replica() && change.after().is_none() {
            true => Err(SourceError::Unavailable(
                "this machine is a member of a fleet, and its facts change only through the log of the fleet: set `[fleet]` in enfilade.toml as `enfilade fleet join` wrote it"
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
    use crate::lmdb::{Older, RestoreError};
    use crate::scratch::Scratch;
    use enfilade_facts::{At, CommitError, Revision, Source as _};
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
        assert!(refused(&lmdb, None).to_string().contains("only through the log of the fleet"));
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
        // Taken out of the fleet, it is another store.
        let before = Lmdb::acknowledged(&path).unwrap();
        let at = Lmdb::recover(&path, Terms::default(), &audit, &mut |_, _| {}).unwrap();
        assert_eq!((at.store == before.store, at.revision), (false, before.next().revision));
        put_something(&Lmdb::open(&path).unwrap());
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
