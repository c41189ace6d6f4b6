//! Reads a whole store of facts and lists every problem in it.

use crate::copy::Progress;
use enfilade_facts::codec::{self, Reader};
use enfilade_facts::journal::{Tally, tally_key};
use enfilade_facts::tables::{Fact, Key, LogEntry, Name, PieceKey, Row, RowVisitor, Written, called};
use enfilade_facts::{Revision, Snapshot, SourceError, Table, View};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::ops::ControlFlow;

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Each table with the number of its sound records; for the change log, the number of its entries.
    pub tables: Vec<(Table, u64)>,
    /// Every problem that was found, as one line of text.
    pub problems: Vec<String>,
}

/// A problem of a record or of a group of records.
struct Problem {
    key: Vec<u8>,
    what: String,
}

/// Reads and checks each record, each tally, the change log and the head.
///
/// # Errors
/// When the store cannot be read at all. Damaged records are not an error, but part of the result.
pub fn check(snapshot: &dyn Snapshot, progress: Progress<'_>) -> Result<Checked, SourceError> {
    let view = View::new(snapshot);
    let mut problems = Vec::new();
    let head = view.head();
    if let Err(why) = &head {
        problems.push(Problem { key: Vec::new(), what: why.to_string() });
    }
    let of_table = |table| view.tally(table, &[]).map_or(0, |tally| tally.count);
    let all: u64 = Table::of_facts().map(of_table).sum();
    let mut done = 0;
    let mut tables = Vec::new();
    for table in Table::of_facts() {
        let mut progress = |_, _| {
            done += 1;
            progress(done, all.max(done));
        };
        tables.push((table, check_table(snapshot, table, &mut problems, &mut progress)?));
    }
    tables.push((Table::Log, check_log(snapshot, head.ok().map(|head| head.revision), &mut problems)?));
    Ok(Checked { tables, problems: name(snapshot, problems)? })
}

/// Counts the sound records of a table. Compares the records of each group, and of the whole table, with the stored tally.
fn check_table(
    snapshot: &dyn Snapshot,
    table: Table,
    problems: &mut Vec<Problem>,
    progress: Progress<'_>,
) -> Result<u64, SourceError> {
    let view = View::new(snapshot);
    let (mut sound, mut groups) = (0, 0u64);
    let mut whole = Tally::default();
    let mut current: Option<(Vec<u8>, Tally)> = None;
    let mut failed = None;
    snapshot.scan(table, &[], &mut |key, stored| {
        whole.add(stored);
        match &mut current {
            Some((group, tally)) if group.as_slice() == table.group(key) => tally.add(stored),
            _ => {
                groups += 1;
                let before = current.replace((table.group(key).to_vec(), Tally::of(stored)));
                if let Err(why) = compare(&view, table, before, problems) {
                    failed = Some(why);
                    return ControlFlow::Break(());
                }
            }
        }
        match believe(table, key, stored) {
            Ok(()) => sound += 1,
            Err(why) => problems.push(Problem { key: key.to_vec(), what: why.to_string() }),
        }
        progress(0, 0);
        ControlFlow::Continue(())
    })?;
    failed.map_or(Ok(()), Err)?;
    compare(&view, table, current, problems)?;
    compare(&view, table, Some((Vec::new(), whole)), problems)?;
    find_lost(snapshot, table, groups, problems)?;
    Ok(sound)
}

fn believe(table: Table, key: &[u8], stored: &[u8]) -> Result<(), SourceError> {
    let (_, value) = codec::open(table, key, stored)?;
    match table.visit(HasForm { key, value }) {
        Some(true) => Ok(()),
        _ => {
            let why = format!("it is not a valid record of this table{}", called(table, value));
            Err(codec::damaged(table, key, &why))
        }
    }
}

fn compare(
    view: &View<'_>,
    table: Table,
    group: Option<(Vec<u8>, Tally)>,
    problems: &mut Vec<Problem>,
) -> Result<(), SourceError> {
    let Some((group, counted)) = group else { return Ok(()) };
    let expected = view.tally(table, &group)?;
    if counted != expected {
        problems.push(differ(table, group, counted, expected));
    }
    Ok(())
}

fn differ(table: Table, group: Vec<u8>, counted: Tally, expected: Tally) -> Problem {
    let what = match group.as_slice() {
        [] => format!("table `{}`", table.name()),
        group => format!("table `{}`, key {}", table.name(), codec::printable(group)),
    };
    let what = match counted.count == expected.count {
        true => format!(
            "{what}: the digest does not match. The number of records is right, but the content of at least one record is not what was last \
             written, or the stored digest is damaged"
        ),
        false => format!("{what}: {} records found, {} expected", counted.count, expected.count),
    };
    Problem { key: group, what }
}

/// Reports groups that have a tally, but no records. The search is skipped if there are as many tallies as groups with records. Then for each group
/// with a tally but no records, there is another group with records but no tally, and [`check_table`] has already reported such a group.
fn find_lost(
    snapshot: &dyn Snapshot,
    table: Table,
    groups: u64,
    problems: &mut Vec<Problem>,
) -> Result<(), SourceError> {
    let mut tallies = 0u64;
    snapshot.scan(table.tallies(), &tally_key(table, &[]), &mut |key, _| {
        tallies += u64::from(key.len() > 1);
        ControlFlow::Continue(())
    })?;
    if tallies == groups {
        return Ok(());
    }
    let mut failed = None;
    snapshot.scan(table.tallies(), &tally_key(table, &[]), &mut |key, stored| {
        let group = key.get(1..).unwrap_or_default();
        let mut is_there = group.is_empty();
        let found = snapshot.scan(table, group, &mut |key, _| {
            is_there |= table.group(key) == group;
            if is_there { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        failed = found.err();
        if !is_there {
            problems.push(differ(table, group.to_vec(), Tally::default(), Tally::from_bytes(stored)));
        }
        if failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    failed.map_or(Ok(()), Err)
}

/// Checks that the change log has no gaps, that its last entry has the revision of the head, and that every entry has all its pieces. Returns the
/// number of entries.
fn check_log(
    snapshot: &dyn Snapshot,
    head: Option<Revision>,
    problems: &mut Vec<Problem>,
) -> Result<u64, SourceError> {
    let mut entries = 0;
    let mut newest: Option<Revision> = None;
    // For the entry that was read last: the number of pieces that were found, and the number of pieces that the entry must have.
    let mut pieces = (0, 0);
    let mut problem = |what: String| problems.push(Problem { key: Vec::new(), what });
    snapshot.scan(Table::Log, &[], &mut |key, stored| {
        let opened = codec::open(Table::Log, key, stored);
        if let Err(why) = &opened {
            problem(why.to_string());
        }
        if let Some(piece) = PieceKey::from_bytes(key) {
            // The entry of this piece may have been trimmed already. A piece without its entry is not counted, because the next trim deletes the
            // piece.
            pieces.0 += u32::from(newest == Some(piece.revision));
            return ControlFlow::Continue(());
        }
        entries += 1;
        let this = Revision::from_bytes(key);
        if pieces.0 != pieces.1 {
            problem(lacking(newest, pieces));
        }
        let written = opened.ok().and_then(|(_, value)| LogEntry::decode(&mut Reader::new(value)));
        pieces = match written.map(|entry| entry.written) {
            Some(Written::Pieces(count)) => (0, count),
            _ => (0, 0),
        };
        if let (Some(before), Some(this)) = (newest, this)
            && before.0 + 1 != this.0
        {
            problem(format!("the change log has a gap between changes {} and {}", before.0, this.0));
        }
        newest = this;
        ControlFlow::Continue(())
    })?;
    if pieces.0 != pieces.1 {
        problem(lacking(newest, pieces));
    }
    if let (Some(head), Some(newest)) = (head, newest)
        && head != newest
    {
        problem(format!(
            "the change log ends at change {}, but the newest change of the store is {}",
            newest.0, head.0
        ));
    }
    Ok(entries)
}

fn lacking(entry: Option<Revision>, (found, said): (u32, u32)) -> String {
    let number = entry.unwrap_or(Revision(0));
    format!("the change log contains {found} of the {said} pieces of change {number}")
}

/// If the key of a problem is an id, adds the name of the record with this id to the problem. Names that cannot be read are left out.
fn name(snapshot: &dyn Snapshot, mut problems: Vec<Problem>) -> Result<Vec<String>, SourceError> {
    if !problems.is_empty() {
        snapshot.scan(Table::Names, &[], &mut |key, stored| {
            let value = codec::open(Table::Names, key, stored).ok();
            let name = value.and_then(|(_, value)| Name::decode(&mut Reader::new(value)));
            if let Some(Name { id, text }) = name {
                for problem in problems.iter_mut().filter(|problem| problem.key == id.as_slice()) {
                    problem.what = format!("{} (`{text}`)", problem.what);
                    problem.key = Vec::new();
                }
            }
            ControlFlow::Continue(())
        })?;
    }
    Ok(problems.into_iter().map(|problem| problem.what).collect())
}

struct HasForm<'r> {
    key: &'r [u8],
    value: &'r [u8],
}

impl RowVisitor for HasForm<'_> {
    type Output = bool;
    fn with<R: Fact>(self) -> bool
    where
        R::Key: Serialize + DeserializeOwned,
    {
        let mut reader = Reader::new(self.value);
        let (key, row) = (R::Key::from_bytes(self.key), R::decode(&mut reader));
        let is_key = |(key, row): (R::Key, R)| row.complete(key).bytes() == self.key;
        reader.is_empty() && key.zip(row).is_some_and(is_key)
    }
}

#[cfg(test)]
mod tests;
