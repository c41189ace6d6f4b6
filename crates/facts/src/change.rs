//! A change of the facts: what has to be true before, what is put and what is deleted, and who does it.

use crate::codec::Writer;
use crate::source::Revision;
use crate::tables::{Key, Reverse, Row, Table};
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
