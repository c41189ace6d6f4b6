//! Copies the change log to the audit log. Every entry is written to the audit log at least once. Only one process at a time copies the change log.

use super::{Lmdb, place};
use enfilade_facts::tables::LogEntry;
use enfilade_facts::{Read, Revision, SourceError};
use std::io;

/// The greatest number of entries that are written at once.
const ENTRIES_MAX: usize = 256;

/// The reason why changes were not copied to the audit log.
#[derive(Debug, thiserror::Error)]
pub enum ShippingError {
    /// The audit log could not be written.
    #[error("the audit log cannot be written: {0}. Until it can be written, changes stay in the change log")]
    Write(#[from] io::Error),
    /// The change log could not be read.
    #[error(transparent)]
    Source(#[from] SourceError),
}

impl Lmdb {
    /// Calls `write` with the changes that are not in the audit log yet, in order. If `write` succeeds, these changes are not passed again.
    /// Exception: if this process ends before it has recorded that the changes were written, they are passed again. Does nothing if another process
    /// is copying the change log.
    ///
    /// # Errors
    /// When the change log cannot be read, or the audit log cannot be written.
    pub fn ship(
        &self,
        mut write: impl FnMut(&[(Revision, LogEntry)]) -> io::Result<()>,
    ) -> Result<(), ShippingError> {
        let mark = &self.environment.high_water;
        if mark.shipped() >= mark.revision() {
            return Ok(());
        }
        let Some(_lock) = place::shipping(self.environment.env.path())? else { return Ok(()) };
        loop {
            let from = mark.shipped().0 + 1;
            let entries = self.read(|view| {
                let to = view.head()?.revision.0.min(from + ENTRIES_MAX as u64 - 1);
                let entry = |number| Ok(view.get::<LogEntry>(&number)?.map(|entry| (number, entry)));
                (from..=to)
                    .map(Revision)
                    .map(entry)
                    .collect::<Result<Vec<_>, SourceError>>()
                    .map(|entries| (to, entries))
            })?;
            let (to, entries) = entries?;
            if to < from {
                return Ok(());
            }
            write(&entries.into_iter().flatten().collect::<Vec<_>>())?;
            mark.set_shipped(Revision(to));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn many_changes_are_shipped_in_pieces() {
        let scratch = Scratch::new();
        let lmdb = Lmdb::open(&scratch.path().join("facts")).unwrap();
        for _ in 0..ENTRIES_MAX + 44 {
            crate::conformance::put_something(&lmdb);
        }
        let (mut pieces, mut next) = (Vec::new(), 1);
        let written = lmdb.ship(|entries| {
            pieces.push(entries.len());
            for (number, _) in entries {
                assert_eq!(number.0, next);
                next += 1;
            }
            Ok(())
        });
        written.unwrap();
        assert_eq!(pieces, [ENTRIES_MAX, 44]);
    }

    #[test]
    fn every_change_is_shipped_once_and_again_when_writing_failed() {
        let scratch = Scratch::new();
        let lmdb = Lmdb::open(&scratch.path().join("facts")).unwrap();
        for _ in 0..3 {
            crate::conformance::put_something(&lmdb);
        }
        let mut seen = Vec::new();
        let failing = lmdb.ship(|_| Err(io::Error::other("no")));
        assert!(failing.unwrap_err().to_string().contains("the audit log cannot be written: no. Until"));
        let mut write = |entries: &[(Revision, LogEntry)]| {
            seen.extend(entries.iter().map(|(number, entry)| (*number, entry.who.clone())));
            Ok(())
        };
        lmdb.ship(&mut write).unwrap();
        lmdb.ship(&mut write).unwrap();
        let at = crate::conformance::put_something(&lmdb);
        lmdb.ship(&mut write).unwrap();
        assert_eq!(seen.iter().map(|(number, _)| number.0).collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert_eq!(seen[3], (at.revision, "a test".to_owned()));
    }
}
