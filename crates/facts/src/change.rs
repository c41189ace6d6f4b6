//! A change of the facts: what has to be true before, what is put and what is deleted, and who does it.

use crate::codec::Writer;
use crate::error::SourceError;
use crate::horizon::{Horizon, LastMarks, Passed};
use crate::revision::Revision;
use crate::tables::{Ends, Key, Reverse, ReverseKey, Revocation, Revoked, Row, Table};
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

/// With whose rights a change is made. Users can make any number of changes that only take away; they must not use up the room that an
/// administrator needs to take something away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Requester {
    /// A user, of what is the user's own.
    #[default]
    User,
    /// An administrator, or the server itself.
    Administrator,
}

/// A list of expect, put and delete, made atomically or not at all.
/// The last word on a key wins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    audit: AuditRecord,
    requester: Requester,
    expects: Vec<Expect>,
    writes: BTreeMap<(Table, Vec<u8>), Option<Vec<u8>>>,
    marks: BTreeMap<Revoked, Ending>,
    horizon: Option<i64>,
}

/// What is put or deleted under which keys.
pub(crate) type Settled = BTreeMap<(Table, Vec<u8>), Option<Vec<u8>>>;

/// How a mark is to be set. Up to which second it counts is known when the change is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// Of everything that was issued until the commit.
    Now,
    /// The same of what ends at this second at the latest.
    Until(i64),
    /// As another mark says it.
    AsOf(Revocation),
}

impl Change {
    /// An empty change of a user.
    pub fn new(audit: AuditRecord) -> Self {
        Self::requested_by(Requester::User, audit)
    }

    /// An empty change, made with these rights.
    pub fn requested_by(requester: Requester, audit: AuditRecord) -> Self {
        let (expects, writes, marks) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        Change { audit, requester, expects, writes, marks, horizon: None }
    }

    /// Who makes it, and what it does.
    pub fn audit(&self) -> &AuditRecord {
        &self.audit
    }

    /// With whose rights it is made.
    pub fn requester(&self) -> Requester {
        self.requester
    }

    /// Only if there is no such record.
    pub fn expect_absent<R: Row>(&mut self, key: &R::Key) -> &mut Self {
        self.expect::<R>(key, Expected::Absent)
    }

    /// Only if the record exists, with any value.
    pub fn expect_present<R: Row>(&mut self, key: &R::Key) -> &mut Self {
        self.expect::<R>(key, Expected::Present)
    }

    /// Only if the record is still the one that was read.
    pub fn expect_same<R: Row>(&mut self, key: &R::Key, row: &R) -> &mut Self {
        self.expect::<R>(key, Expected::Value(value_of(row)))
    }

    /// Only if the record was not written since this revision of it was read, not even with the same value.
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

    /// Ends all sessions that the mark covers and that were issued before this change is committed. Clocks are not asked.
    pub fn end(&mut self, mark: Revoked) -> &mut Self {
        self.marks.insert(mark, Ending::Now);
        self
    }

    /// The same of a token, or of what was made of it: the last of them is good until `end`, seconds since the epoch.
    pub fn end_until(&mut self, mark: Revoked, end: i64) -> &mut Self {
        self.marks.insert(mark, Ending::Until(end));
        self
    }

    /// From this commit on sessions may be issued up to this second.
    pub fn allow_issue(&mut self, second: i64) -> &mut Self {
        self.horizon = self.horizon.max(Some(second));
        self
    }

    /// From this commit on it is known that so much time has passed.
    pub fn put_passed(&mut self, passed: Passed) -> &mut Self {
        self.put(&Revoked::Passed, &passed.row())
    }

    /// From this commit on it is known up to which second marks count.
    pub fn put_last_marks(&mut self, last: LastMarks) -> &mut Self {
        self.put(&Revoked::Last, &last.row())
    }

    /// Takes away a mark that is about no token any more.
    pub fn purge(&mut self, mark: &Revoked, row: &Revocation) -> &mut Self {
        self.expect_same(mark, row).delete::<Revocation>(mark);
        self.delete::<Reverse>(&ReverseKey::Ends(row.until, *mark))
    }

    /// Removes a record that sessions rest on, and ends them.
    pub fn remove<R: Ends>(&mut self, key: &R::Key) -> &mut Self {
        self.delete::<R>(key).end_with::<R>(key)
    }

    /// Removes a record that sessions rest on, of which another change said that it ended, with this mark. Without a mark it ends now.
    pub fn remove_as_of<R: Ends>(&mut self, key: &R::Key, ended: Option<&Revocation>) -> &mut Self {
        let ending = ended.map_or(Ending::Now, |ended| Ending::AsOf(*ended));
        self.delete::<R>(key);
        for mark in R::when_deleted(key) {
            self.marks.entry(mark).or_insert(ending);
        }
        self
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

    /// The marks of this change, what goes with them, and how far the horizon moves, on top of the facts it is committed to: what is
    /// written under which keys.
    ///
    /// # Errors
    /// When what was revoked cannot be read.
    pub(crate) fn settle(&self, view: &View<'_>) -> Result<Settled, SourceError> {
        let mut settled = Settled::new();
        if self.marks.is_empty() && self.horizon.is_none() {
            return Ok(settled);
        }
        let mut put = |mark: &Revoked, row: &Revocation| {
            settled.insert((Table::Revocations, mark.bytes()), Some(value_of(row)));
        };
        let (now, horizon) = (self.audit.unix_seconds, Horizon::of(view)?);
        let mut last = self.horizon.unwrap_or(i64::MIN);
        let (mut last_marks, mut ends) = (LastMarks::NONE, Settled::new());
        for (mark, ending) in &self.marks {
            let row = Revocation::of(now, horizon.last_issue(now));
            let row = match ending {
                Ending::Now => row,
                Ending::Until(end) => row.ending(*end),
                Ending::AsOf(ended) => *ended,
            };
            let before = view.get::<Revocation>(mark)?;
            let row = before.map_or(row, |before| row.and(before));
            if !mark.is_timeless() {
                last = last.max(row.issued_before);
            }
            last_marks.take_in(mark, row.issued_before);
            put(mark, &row);
            let mut end =
                |until, stored| ends.insert((Table::Reverse, ReverseKey::Ends(until, *mark).bytes()), stored);
            before.map(|before| end(before.until, None));
            end(row.until, Some(value_of(&Reverse)));
        }
        if !horizon.allows(last) {
            put(&Revoked::Horizon, &Revocation::of_time(last, now, last));
        }
        let known = LastMarks::of(view)?;
        if let Some((known, both)) = known.map(|known| (known, known.and(last_marks)))
            && known != both
        {
            put(&Revoked::Last, &both.row());
        }
        settled.append(&mut ends);
        Ok(settled)
    }

    /// Whether nothing would be written.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.marks.is_empty() && self.horizon.is_none()
    }

    /// What has to be true before.
    pub fn expects(&self) -> &[Expect] {
        &self.expects
    }

    /// All writes other than marks, in key order: `Some` is put, `None` is deleted.
    pub fn writes(&self) -> impl Iterator<Item = (Table, &[u8], Option<&[u8]>)> {
        self.writes.iter().map(|((table, key), value)| (*table, key.as_slice(), value.as_deref()))
    }
}

fn value_of<R: Row>(row: &R) -> Vec<u8> {
    let mut writer = Writer::default();
    row.encode(&mut writer);
    writer.into_bytes()
}
