//! A change of the stored facts: expectations, records to write, records to delete, and the author.

mod form;

use crate::audit::{AuditRecord, Requester};
use crate::codec::Writer;
use crate::error::SourceError;
use crate::format::{FORMAT_IN_FLEET, needed_for};
use crate::horizon::{Horizon, LastMarks, Passed};
use crate::revision::Revision;
use crate::tables::{Ends, Key, Reverse, ReverseKey, Revocation, Revoked, Row, Table, only_takes};
use crate::view::View;
use std::collections::BTreeMap;

/// The state that a record must have. If the record has another state, the change is not committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The record does not exist.
    Absent,
    /// The record exists, with any value.
    Present,
    /// The record has exactly this value.
    Value(Vec<u8>),
    /// The record was last written at this revision.
    Revision(Revision),
}

/// One expectation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expect {
    /// The table.
    pub table: Table,
    /// The key.
    pub key: Vec<u8>,
    /// The state that the record must have.
    pub expected: Expected,
}

/// The effect of a change on rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It is possible that the change gives rights.
    Gives,
    /// The change only takes rights away.
    Takes,
}

impl Effect {
    /// The effect of replacing the record `before` by the record `after`.
    pub fn of<R: Row>(before: &R, after: &R) -> Self {
        match only_takes(R::TABLE, Some(&value_of(before)), Some(&value_of(after))) {
            true => Effect::Takes,
            false => Effect::Gives,
        }
    }
}

/// Expectations, puts and deletes, committed as a whole or not at all. If a key is put or deleted more than once, only the last put or delete is
/// committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    audit: AuditRecord,
    requester: Requester,
    expects: Vec<Expect>,
    writes: BTreeMap<(Table, Vec<u8>), Option<Vec<u8>>>,
    marks: BTreeMap<Revoked, Ending>,
    horizon: Option<i64>,
    after: Option<Revision>,
    /// The members of the fleet that must have no registered process. [`Change::encode`] does not write this list.
    absent_members: Vec<String>,
}

/// Values to put (`Some`) and records to delete (`None`), by table and key.
pub(crate) type Settled = BTreeMap<(Table, Vec<u8>), Option<Vec<u8>>>;

/// The way in which a change sets a mark (a stored revocation). The last second that the mark covers is known only at the commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// The mark covers all sessions that were issued before the commit.
    Now,
    /// The mark covers all sessions that were issued before the commit. All tokens that the mark covers expire at this second or earlier.
    Until(i64),
    /// The mark gets the same stored values as another mark, which an earlier change set.
    AsOf(Revocation),
}

impl Change {
    /// An empty change that a user makes.
    pub fn new(audit: AuditRecord) -> Self {
        Self::requested_by(Requester::User, audit)
    }

    /// An empty change that this requester makes.
    pub fn requested_by(requester: Requester, audit: AuditRecord) -> Self {
        let (expects, writes, marks) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        Change {
            audit,
            requester,
            expects,
            writes,
            marks,
            horizon: None,
            after: None,
            absent_members: Vec::new(),
        }
    }

    /// The author and the description of the change.
    pub fn audit(&self) -> &AuditRecord {
        &self.audit
    }

    /// Replaces the description in the audit record. Callers use this function if they learn the subject of the change only while they build the
    /// change.
    pub fn describe(&mut self, what: String) -> &mut Self {
        self.audit.what = what;
        self
    }

    /// The requester: a user, an administrator, or a file.
    pub fn requester(&self) -> Requester {
        self.requester
    }

    /// Adds the expectation that the record does not exist.
    pub fn expect_absent<R: Row>(&mut self, key: &R::Key) -> &mut Self {
        self.expect::<R>(key, Expected::Absent)
    }

    /// Adds the expectation that the record exists, with any value.
    pub fn expect_present<R: Row>(&mut self, key: &R::Key) -> &mut Self {
        self.expect::<R>(key, Expected::Present)
    }

    /// Adds the expectation that the record still has the value `row`.
    pub fn expect_same<R: Row>(&mut self, key: &R::Key, row: &R) -> &mut Self {
        self.expect::<R>(key, Expected::Value(value_of(row)))
    }

    /// Adds the expectation that the record was last written at this revision. A later write with the same value also prevents the commit.
    pub fn expect_revision<R: Row>(&mut self, key: &R::Key, revision: Revision) -> &mut Self {
        self.expect::<R>(key, Expected::Revision(revision))
    }

    /// Adds the expectation that the record still has the value `row`, or, if `row` is `None`, that the record still does not exist.
    pub fn expect_unchanged<R: Row>(&mut self, key: &R::Key, row: Option<&R>) -> &mut Self {
        match row {
            Some(row) => self.expect_same(key, row),
            None => self.expect_absent::<R>(key),
        }
    }

    /// Adds the condition that `revision` is the newest revision of the store directly before the commit. A member of a fleet uses this condition
    /// when it applies the changes of the log. [`Change::encode`] does not write the condition.
    pub fn only_after(&mut self, revision: Revision) -> &mut Self {
        self.after = Some(revision);
        self
    }

    /// The revision that the store must have directly before the commit, if [`Change::only_after`] was called.
    pub fn after(&self) -> Option<Revision> {
        self.after
    }

    fn expect<R: Row>(&mut self, key: &R::Key, expected: Expected) -> &mut Self {
        self.expects.push(Expect { table: R::TABLE, key: key.bytes(), expected });
        self
    }

    /// Makes or replaces a record, and the row of [`Table::Reverse`] for this record if there is one ([`Row::reverse`]).
    pub fn put<R: Row>(&mut self, key: &R::Key, row: &R) -> &mut Self {
        self.writes.insert((R::TABLE, key.bytes()), Some(value_of(row)));
        if let Some(reverse) = R::reverse(key) {
            self.writes.insert((Table::Reverse, reverse.bytes()), Some(value_of(&Reverse)));
        }
        self
    }

    /// Whether the change makes or replaces this record.
    pub fn puts<R: Row>(&self, key: &R::Key) -> bool {
        self.writes.get(&(R::TABLE, key.bytes())).is_some_and(Option::is_some)
    }

    /// Deletes a record, if it exists, and the row of [`Table::Reverse`] for this record.
    pub fn delete<R: Row>(&mut self, key: &R::Key) -> &mut Self {
        self.writes.insert((R::TABLE, key.bytes()), None);
        if let Some(reverse) = R::reverse(key) {
            self.writes.insert((Table::Reverse, reverse.bytes()), None);
        }
        self
    }

    /// Sets a mark. The mark ends the sessions that were issued before the commit of this change, even if a clock is wrong.
    pub fn end(&mut self, mark: Revoked) -> &mut Self {
        self.marks.insert(mark, Ending::Now);
        self
    }

    /// Sets a mark as [`Change::end`] does, but for a token or an audit chain. `end` is the time at which the token, or the last token of the chain,
    /// expires, in seconds since the epoch.
    pub fn end_until(&mut self, mark: Revoked, end: i64) -> &mut Self {
        self.marks.insert(mark, Ending::Until(end));
        self
    }

    /// Moves the horizon to this second, if the horizon is earlier. After the commit of this change, the server may issue sessions with an issue time
    /// up to this second.
    pub fn allow_issue(&mut self, second: i64) -> &mut Self {
        self.horizon = self.horizon.max(Some(second));
        self
    }

    /// Puts the record of the purge time ([`Passed`]).
    pub fn put_passed(&mut self, passed: Passed) -> &mut Self {
        self.put(&Revoked::Passed, &passed.row())
    }

    /// Puts the [`LastMarks`] record, which contains the latest second that any mark covers.
    pub fn put_last_marks(&mut self, last: LastMarks) -> &mut Self {
        self.put(&Revoked::Last, &last.row())
    }

    /// Deletes a mark after the last token that it covers has expired.
    pub fn purge(&mut self, mark: &Revoked, row: &Revocation) -> &mut Self {
        self.expect_same(mark, row).delete::<Revocation>(mark);
        self.delete::<Reverse>(&ReverseKey::Ends(row.until, *mark))
    }

    /// Deletes a record on which sessions depend, and ends these sessions.
    pub fn remove<R: Ends>(&mut self, key: &R::Key) -> &mut Self {
        self.delete::<R>(key).end_with::<R>(key)
    }

    /// Deletes a record on which sessions depend. An earlier change already ended these sessions with the mark `ended`. The new marks get the values
    /// of `ended`. If `ended` is `None`, the sessions end now.
    pub fn remove_as_of<R: Ends>(&mut self, key: &R::Key, ended: Option<&Revocation>) -> &mut Self {
        let ending = ended.map_or(Ending::Now, |ended| Ending::AsOf(*ended));
        self.delete::<R>(key);
        for mark in R::when_deleted(key) {
            self.marks.entry(mark).or_insert(ending);
        }
        self
    }

    /// Ends the sessions that depend on a record. The caller deletes the record.
    pub fn end_with<R: Ends>(&mut self, key: &R::Key) -> &mut Self {
        R::when_deleted(key).into_iter().fold(self, Change::end)
    }

    /// Replaces a record on which sessions depend, and sets the marks of [`Ends::when_replaced`]. The change is committed only if the record still
    /// has the value `before`.
    pub fn replace<R: Ends>(&mut self, key: &R::Key, before: &R, after: &R) -> &mut Self {
        self.expect_same(key, before).put(key, after);
        for mark in R::when_replaced(key, before, after, self.audit.unix_seconds) {
            self.end(mark);
        }
        self
    }

    /// The writes that set the marks of this change. `view` shows the stored facts before the change. The writes also update the [`ReverseKey::Ends`]
    /// record of each mark, the horizon, and the [`LastMarks`] record.
    ///
    /// # Errors
    /// When the revocations cannot be read.
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

    /// Whether the change writes nothing.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.marks.is_empty() && self.horizon.is_none()
    }

    /// The format that a program must know to read the records of this change. Marks need no newer format, because their records have the same form
    /// in all formats that a fleet can have.
    pub fn needs_format(&self) -> u32 {
        let needed = self.writes().filter_map(|(table, _, value)| Some(needed_for(table, value?)));
        needed.max().unwrap_or(FORMAT_IN_FLEET)
    }

    /// Adds the condition that the member `member` of the fleet has no registered process. A process of this member that registers later applies the
    /// change before it serves requests. A store that does not belong to a fleet ignores this condition.
    pub fn expect_no_process_of(&mut self, member: &str) -> &mut Self {
        self.absent_members.push(member.to_owned());
        self
    }

    /// The members of the fleet that must have no registered process.
    pub fn absent_members(&self) -> &[String] {
        &self.absent_members
    }

    /// The expectations.
    pub fn expects(&self) -> &[Expect] {
        &self.expects
    }

    /// All records to put or delete, in the order of their tables and keys, without the records that set marks or move the horizon. `Some` contains
    /// the value to put; `None` deletes the record.
    pub fn writes(&self) -> impl Iterator<Item = (Table, &[u8], Option<&[u8]>)> {
        self.writes.iter().map(|((table, key), value)| (*table, key.as_slice(), value.as_deref()))
    }
}

fn value_of<R: Row>(row: &R) -> Vec<u8> {
    let mut writer = Writer::default();
    row.encode(&mut writer);
    writer.into_bytes()
}
