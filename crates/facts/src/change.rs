//! A change of the facts: what has to be true before, what is put and what is deleted, and who does it.

use crate::codec::{Reader, Writer};
use crate::source::{Revision, SourceError};
use crate::tables::{Ends, Key, Reverse, Revocation, Revoked, Row, Table};
use crate::view::View;
use std::collections::BTreeMap;

/// What a record has to be for the change to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// No such record.
    Absent,
    /// Some such record.
    Present,
    /// A record of exactly this value.
    Value(Vec<u8>),
    /// A record that was last written at this revision.
    Revision(Revision),
}

/// One expectation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expect {
    /// The table.
    pub table: Table,
    /// The key.
    pub key: Vec<u8>,
    /// What has to be there.
    pub expected: Expected,
}

/// Who makes a change, and what it does: committed with it, in the same transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRecord {
    /// An authid, a person at the command line, a file.
    pub who: String,
    /// What is done, in the words of the command line. Never a secret.
    pub what: String,
    /// When, seconds since the epoch.
    pub unix_seconds: i64,
}

/// A list of expect, put and delete, made atomically or not at all.
/// The last word on a key wins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    audit: AuditRecord,
    expects: Vec<Expect>,
    writes: BTreeMap<(Table, Vec<u8>), Option<Vec<u8>>>,
}

impl Change {
    /// An empty change.
    pub fn new(audit: AuditRecord) -> Self {
        Change { audit, expects: Vec::new(), writes: BTreeMap::new() }
    }

    /// Who makes it, and what it does.
    pub fn audit(&self) -> &AuditRecord {
        &self.audit
    }

    /// Only if there is no such record.
    pub fn expect_absent<R: Row>(&mut self, key: &R::Key) -> &mut Self {
        self.expect::<R>(key, Expected::Absent)
    }

    /// Only if there is such a record, whatever it holds.
    pub fn expect_present<R: Row>(&mut self, key: &R::Key) -> &mut Self {
        self.expect::<R>(key, Expected::Present)
    }

    /// Only if the record is still the one that was read.
    pub fn expect_same<R: Row>(&mut self, key: &R::Key, row: &R) -> &mut Self {
        self.expect::<R>(key, Expected::Value(value_of(row)))
    }

    /// Only if nobody has written the record since this revision of it was read, not even the same value again.
    pub fn expect_revision<R: Row>(&mut self, key: &R::Key, revision: Revision) -> &mut Self {
        self.expect::<R>(key, Expected::Revision(revision))
    }

    /// Only if the record is still what was read, there or not.
    pub fn expect_unchanged<R: Row>(&mut self, key: &R::Key, row: Option<&R>) -> &mut Self {
        match row {
            Some(row) => self.expect_same(key, row),
            None => self.expect_absent::<R>(key),
        }
    }

    fn expect<R: Row>(&mut self, key: &R::Key, expected: Expected) -> &mut Self {
        self.expects.push(Expect { table: R::TABLE, key: key.bytes(), expected });
        self
    }

    /// Makes or replaces a record.
    pub fn put<R: Row>(&mut self, key: &R::Key, row: &R) -> &mut Self {
        self.writes.insert((R::TABLE, key.bytes()), Some(value_of(row)));
        if let Some(reverse) = R::reverse(key) {
            self.writes.insert((Table::Reverse, reverse.bytes()), Some(value_of(&Reverse)));
        }
        self
    }

    /// Removes a record; nothing happens where there is none.
    pub fn delete<R: Row>(&mut self, key: &R::Key) -> &mut Self {
        self.writes.insert((R::TABLE, key.bytes()), None);
        if let Some(reverse) = R::reverse(key) {
            self.writes.insert((Table::Reverse, reverse.bytes()), None);
        }
        self
    }

    /// Ends the sessions that are meant, as of the time of this change.
    pub fn end(&mut self, mark: Revoked) -> &mut Self {
        self.put(&mark, &Revocation::now(self.audit.unix_seconds))
    }

    /// Removes a record that sessions rest on, and ends them.
    pub fn remove<R: Ends>(&mut self, key: &R::Key) -> &mut Self {
        self.delete::<R>(key).end_with::<R>(key)
    }

    /// Removes a record that sessions rest on, of which another change said that it ended at that time.
    pub fn remove_as_of<R: Ends>(&mut self, key: &R::Key, ended: &Revocation) -> &mut Self {
        self.delete::<R>(key);
        R::when_deleted(key).into_iter().fold(self, |change, mark| change.put(&mark, ended))
    }

    /// Ends what rests on a record that is removed otherwise.
    pub fn end_with<R: Ends>(&mut self, key: &R::Key) -> &mut Self {
        R::when_deleted(key).into_iter().fold(self, Change::end)
    }

    /// Makes a record that sessions rest on another, if it is still the one that was read, and ends what does not come back.
    pub fn replace<R: Ends>(&mut self, key: &R::Key, before: &R, after: &R) -> &mut Self {
        self.expect_same(key, before).put(key, after);
        for mark in R::when_replaced(key, before, after, self.audit.unix_seconds) {
            self.end(mark);
        }
        self
    }

    /// What was revoked for longer than this change says stays so: the clock may have been ahead when it was.
    ///
    /// # Errors
    /// When what was revoked cannot be read.
    pub fn keep_later_marks(&mut self, view: &View<'_>) -> Result<(), SourceError> {
        let marks = self.writes.range_mut((Table::Revocations, Vec::new())..);
        for ((_, key), value) in marks.take_while(|((table, _), _)| *table == Table::Revocations) {
            let (Some(mark), Some(bytes)) = (Revoked::from_bytes(key), value) else { continue };
            let Some(before) = view.get::<Revocation>(&mark)? else { continue };
            if let Some(now) = Revocation::decode(&mut Reader::new(bytes)) {
                *bytes = value_of(&now.and(before));
            }
        }
        Ok(())
    }

    /// Whether nothing would be written.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// What has to be true before.
    pub fn expects(&self) -> &[Expect] {
        &self.expects
    }

    /// What is written, in key order: `Some` is put, `None` is deleted.
    pub fn writes(&self) -> impl Iterator<Item = (Table, &[u8], Option<&[u8]>)> {
        self.writes.iter().map(|((table, key), value)| (*table, key.as_slice(), value.as_deref()))
    }
}

fn value_of<R: Row>(row: &R) -> Vec<u8> {
    let mut writer = Writer::default();
    row.encode(&mut writer);
    writer.into_bytes()
}
