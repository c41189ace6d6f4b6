//! Reading the facts of one revision.

use crate::codec::{self, Reader};
use crate::error::SourceError;
use crate::head::Head;
use crate::revision::{At, Revision};
use crate::table::Table;
use crate::tables::{Key, Row};
use crate::tally::{Tally, tally_key};
use std::cell::OnceCell;
use std::ops::ControlFlow;

/// The callback of a scan. A scan calls it for every key and stored record, until the callback returns `Break`.
pub type Each<'a> = &'a mut (dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a);

/// A key and its stored record, if there is one.
pub type Found<'s> = Option<(&'s [u8], &'s [u8])>;

/// Raw records of one revision, as a source stores them.
pub trait Snapshot {
    /// The revision of all records of this snapshot.
    fn at(&self) -> At;
    /// The head of the store, which must have the revision of this snapshot.
    ///
    /// # Errors
    /// When the head is damaged, or has another revision.
    fn head(&self) -> Result<Head, SourceError> {
        let head = Head::open(self.get(Table::Head, Head::KEY)?)?;
        let (found, here) = (head.revision, self.at().revision);
        if found == here {
            return Ok(head);
        }
        let why = format!(
            "the head has revision {found}, but the store has revision {here}, so pages of the store are damaged"
        );
        Err(codec::damaged(Table::Head, Head::KEY, &why))
    }
    /// The stored record with its header; `None` if there is no record with this key.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn get<'s>(&'s self, table: Table, key: &[u8]) -> Result<Option<&'s [u8]>, SourceError>;
    /// Calls `each` for every stored record with a key that starts with `prefix`, in key order, until `each` returns `Break`.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn scan(&self, table: Table, prefix: &[u8], each: Each<'_>) -> Result<(), SourceError>;
    /// The stored record with the key `key`; if there is none, the stored record with the next key.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn at_or_after(&self, table: Table, key: &[u8]) -> Result<Found<'_>, SourceError>;
    /// Calls `each` for every stored record from the key `key` on, in key order, until `each` returns `Break`.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn scan_from(&self, table: Table, key: &[u8], each: Each<'_>) -> Result<(), SourceError> {
        let mut from = key.to_vec();
        while let Some((key, stored)) = self.at_or_after(table, &from)? {
            if each(key, stored).is_break() {
                break;
            }
            from = [key, &[0]].concat();
        }
        Ok(())
    }
}

/// Facts at one revision. Short-lived: a view is used in one synchronous block, never across an `.await`.
///
/// In the tables that hold facts, each group of records has a tally in another B-tree. The view accepts the result of a lookup (a record, or that
/// there is no record) only if the records of the group match the tally (see [`crate::journal`]). The other tables have no tallies.
pub struct View<'a> {
    snapshot: &'a dyn Snapshot,
    head: OnceCell<Head>,
}

/// [`After`](crate::After), and a source that wraps another source, use the view as a snapshot, to read its raw records.
impl Snapshot for View<'_> {
    fn at(&self) -> At {
        self.snapshot.at()
    }

    fn head(&self) -> Result<Head, SourceError> {
        self.snapshot.head()
    }

    fn get<'s>(&'s self, table: Table, key: &[u8]) -> Result<Option<&'s [u8]>, SourceError> {
        self.snapshot.get(table, key)
    }

    fn scan(&self, table: Table, prefix: &[u8], each: Each<'_>) -> Result<(), SourceError> {
        self.snapshot.scan(table, prefix, each)
    }

    fn at_or_after(&self, table: Table, key: &[u8]) -> Result<Found<'_>, SourceError> {
        self.snapshot.at_or_after(table, key)
    }

    fn scan_from(&self, table: Table, key: &[u8], each: Each<'_>) -> Result<(), SourceError> {
        self.snapshot.scan_from(table, key, each)
    }
}

impl<'a> View<'a> {
    /// A view of a source's snapshot.
    pub fn new(snapshot: &'a dyn Snapshot) -> Self {
        View { snapshot, head: OnceCell::new() }
    }

    /// The revision of this view. A decision that is based on this view is cached only under this revision.
    pub fn at(&self) -> At {
        self.snapshot.at()
    }

    /// The head of the store, which must have the revision of this view. The view reads the head once.
    ///
    /// # Errors
    /// When the head is damaged, or has another revision.
    pub fn head(&self) -> Result<Head, SourceError> {
        if let Some(head) = self.head.get() {
            return Ok(*head);
        }
        let head = self.snapshot.head()?;
        Ok(*self.head.get_or_init(|| head))
    }

    /// The record with this key; `None` if there is none.
    ///
    /// # Errors
    /// When the record cannot be read, or is damaged.
    pub fn get<R: Row>(&self, key: &R::Key) -> Result<Option<R>, SourceError> {
        let key = key.bytes();
        self.value(R::TABLE, &key)?.map(|(_, value)| decode_value::<R>(&key, value)).transpose()
    }

    /// A record near `key`: the record with this key, or else the record with the next key, or else the first record of the table. If the keys of the
    /// table are random, a random `key` gives a random record. On one view, the same key always gives the same record.
    ///
    /// # Errors
    /// The errors of [`View::get`].
    pub fn any_near<R: Row>(&self, key: &R::Key) -> Result<Option<(R::Key, R)>, SourceError> {
        let Some(key) = self.key_near::<R>(key)? else { return Ok(None) };
        Ok(self.get(&key)?.map(|row| (key, row)))
    }

    /// The key of the record that [`View::any_near`] finds; the record is not read.
    ///
    /// # Errors
    /// The errors of [`View::get`].
    pub fn key_near<R: Row>(&self, key: &R::Key) -> Result<Option<R::Key>, SourceError> {
        let near = |key: &[u8]| {
            let found = self.snapshot.at_or_after(R::TABLE, key)?;
            Ok(found.and_then(|(key, _)| R::Key::from_bytes(key)))
        };
        match near(&key.bytes())? {
            Some(found) => Ok(Some(found)),
            None => near(&[]),
        }
    }

    /// The revision at which a record was last written.
    ///
    /// # Errors
    /// The errors of [`View::get`].
    pub fn revision_of<R: Row>(&self, key: &R::Key) -> Result<Option<Revision>, SourceError> {
        Ok(self.value(R::TABLE, &key.bytes())?.map(|(revision, _)| revision))
    }

    /// The revision at which one record was written, and its value.
    pub(crate) fn value(&self, table: Table, key: &[u8]) -> Result<Option<(Revision, &[u8])>, SourceError> {
        self.head()?;
        let stored = self.snapshot.get(table, key)?;
        let value = stored.map(|stored| codec::open(table, key, stored)).transpose()?;
        let group = table.group(key);
        if table.holds_facts() && group.len() == key.len() {
            let counted = stored.map_or_else(Tally::default, Tally::of);
            agree(table, group, counted, self.tally(table, group)?)?;
        } else if table.holds_facts() {
            self.check_group(table, group)?;
        }
        Ok(value)
    }

    /// Counts the records of a group, and compares them with the group's tally.
    fn check_group(&self, table: Table, group: &[u8]) -> Result<(), SourceError> {
        let mut counted = Tally::default();
        self.snapshot.scan(table, group, &mut |key, stored| {
            if table.group(key) == group {
                counted.add(stored);
            }
            ControlFlow::Continue(())
        })?;
        agree(table, group, counted, self.tally(table, group)?)
    }

    /// The number of records in a group, and their digest. An empty `group` stands for the whole table.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn tally(&self, table: Table, group: &[u8]) -> Result<Tally, SourceError> {
        let stored = self.snapshot.get(table.tallies(), &tally_key(table, group))?;
        Ok(stored.map_or_else(Tally::default, Tally::from_bytes))
    }

    /// Calls `each` for every record with a key that starts with `prefix`, in key order, until `each` returns `Break`. The prefix is empty, or the
    /// key prefix of one group ([`Table::group`]), or the common beginning of the key prefixes of several groups. The caller may use the records only
    /// if this call returns no error.
    ///
    /// # Errors
    /// When a record cannot be read, a record is damaged, or records are missing.
    pub fn scan<R: Row>(
        &self,
        prefix: &[u8],
        mut each: impl FnMut(R::Key, R) -> ControlFlow<()>,
    ) -> Result<(), SourceError> {
        self.scan_values(R::TABLE, prefix, &mut |key, value| {
            let form = "the key is not valid for this table";
            let row_key = R::Key::from_bytes(key).ok_or_else(|| codec::damaged(R::TABLE, key, form))?;
            Ok(each(row_key, decode_value::<R>(key, value)?))
        })
    }

    /// Like [`View::scan`], but passes the encoded values of any table to `each`.
    ///
    /// # Errors
    /// The errors of [`View::scan`], and the errors of `each`.
    pub fn scan_values(&self, table: Table, prefix: &[u8], each: EachValue<'_>) -> Result<(), SourceError> {
        self.head()?;
        let mut count = Count::start(self, table, prefix)?;
        let mut end = None;
        self.snapshot.scan(table, prefix, &mut |key, stored| {
            let next = count.next(key, stored).and_then(|()| each(key, codec::open(table, key, stored)?.1));
            match next {
                Ok(ControlFlow::Continue(())) => return ControlFlow::Continue(()),
                Ok(ControlFlow::Break(())) => end = Some(Ok(table.group(key).to_vec())),
                Err(why) => end = Some(Err(why)),
            }
            ControlFlow::Break(())
        })?;
        match end {
            None => count.finish(),
            Some(Err(why)) => Err(why),
            // `each` stopped the scan inside a group, before all records of the group were counted. So the whole group is counted again.
            Some(Ok(group)) if table.holds_facts() => self.check_group(table, &group),
            Some(Ok(_)) => Ok(()),
        }
    }

    /// Calls `each` for every record with a key that starts with `prefix`, in key order, until `each` returns `Break`. If `after` is given, skips the
    /// group `after` and all groups before it. The time of a call depends on the number of records that it reads, not on the size of the table.
    /// [`Table::group`] defines the groups; most groups have one record.
    ///
    /// # Errors
    /// The errors of [`View::scan`].
    pub fn page<R: Row>(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        mut each: impl FnMut(R::Key, R) -> ControlFlow<()>,
    ) -> Result<(), SourceError> {
        self.head()?;
        let table = R::TABLE;
        let mut from = after.map_or_else(|| prefix.to_vec(), |after| successor(table, after));
        loop {
            let found = self.snapshot.at_or_after(table, &from)?.filter(|(key, _)| key.starts_with(prefix));
            // The tally of the whole table comes before the tallies of the groups. The search for groups starts after the table's tally.
            let tally_from = if from.is_empty() { tally_key(table, &[0]) } else { tally_key(table, &from) };
            let tally = self.snapshot.at_or_after(table.tallies(), &tally_from)?;
            let tally = tally.filter(|(key, _)| key.starts_with(&tally_key(table, prefix)));
            let (key, stored) = match (found, tally) {
                (None, None) => return Ok(()),
                (Some(found), Some((key, _))) if key == tally_key(table, table.group(found.0)) => found,
                (_, lost) => {
                    let why = "a record is missing, or the number of records (the tally) is missing";
                    return Err(codec::damaged(table, lost.map_or(prefix, |(key, _)| key), why));
                }
            };
            let group = table.group(key);
            let end = if group.len() == key.len() {
                agree(table, group, Tally::of(stored), self.tally(table, group)?)?;
                let form = "the key is not valid for this table";
                let row_key = R::Key::from_bytes(key).ok_or_else(|| codec::damaged(table, key, form))?;
                each(row_key, decode_value::<R>(key, codec::open(table, key, stored)?.1)?)
            } else {
                let mut end = ControlFlow::Continue(());
                self.scan::<R>(group, |key, row| {
                    end = each(key, row);
                    end
                })?;
                end
            };
            if end.is_break() {
                return Ok(());
            }
            from = successor(table, group);
        }
    }

    /// Calls `each` for the stored records of at most `groups_max` groups that follow the group `after`. So a table can be read in several parts,
    /// each on another view. The group `after` need not exist. It is an error if a record is damaged, or if the records of a group do not match the
    /// tally of the group. If `groups_max` groups were read, returns the last of these groups. If fewer groups were read, no group follows, and the
    /// call returns `None`.
    ///
    /// # Errors
    /// The errors of [`View::scan`], and the first error of `each`.
    pub fn part<E: From<SourceError>>(
        &self,
        table: Table,
        after: Option<&[u8]>,
        groups_max: usize,
        mut each: impl FnMut(&[u8], &[u8]) -> Result<(), E>,
    ) -> Result<Option<Vec<u8>>, E> {
        self.head()?;
        let from = after.map_or_else(Vec::new, |after| successor(table, after));
        // The tally of the whole table comes before the tallies of the groups. The search for groups starts after the table's tally.
        let tally_from = if from.is_empty() { tally_key(table, &[0]) } else { tally_key(table, &from) };
        let mut expected = Vec::new();
        self.snapshot.scan_from(table.tallies(), &tally_from, &mut |key, tally| match key.split_first() {
            Some((of, group)) if *of == table as u8 && expected.len() < groups_max => {
                expected.push((group.to_vec(), Tally::from_bytes(tally)));
                ControlFlow::Continue(())
            }
            _ => ControlFlow::Break(()),
        })?;
        let last = expected.get(groups_max.saturating_sub(1)).map(|(group, _)| group.clone());
        let mut count = Count::Groups { table, expected: expected.into_iter(), current: None };
        let mut failed = None;
        self.snapshot.scan_from(table, &from, &mut |key, stored| {
            if last.as_deref().is_some_and(|last| last < table.group(key)) {
                return ControlFlow::Break(());
            }
            let sound = count.next(key, stored).and_then(|()| codec::open(table, key, stored));
            failed = sound.map_err(E::from).and_then(|_| each(key, stored)).err();
            if failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        match failed {
            Some(why) => Err(why),
            None => Ok(count.finish().map(|()| last)?),
        }
    }

    /// Whether any key of the table starts with `prefix`. The prefix has the same form as for [`View::scan`].
    ///
    /// # Errors
    /// When the store cannot be read, a record is damaged, or records are missing.
    pub fn any<R: Row>(&self, prefix: &[u8]) -> Result<bool, SourceError> {
        let mut found = false;
        self.scan_values(R::TABLE, prefix, &mut |_, _| {
            found = true;
            Ok(ControlFlow::Break(()))
        })?;
        Ok(found)
    }

    /// All records of a table with a key that starts with `prefix`.
    ///
    /// # Errors
    /// When a record cannot be read, a record is damaged, or records are missing.
    pub fn list<R: Row>(&self, prefix: &[u8]) -> Result<Vec<(R::Key, R)>, SourceError> {
        let mut rows = Vec::new();
        self.scan::<R>(prefix, |key, row| {
            rows.push((key, row));
            ControlFlow::Continue(())
        })?;
        Ok(rows)
    }
}

fn decode_value<R: Row>(key: &[u8], value: &[u8]) -> Result<R, SourceError> {
    let mut reader = Reader::new(value);
    R::decode(&mut reader)
        .filter(|_| reader.is_empty())
        .ok_or_else(|| codec::damaged(R::TABLE, key, "the value is not a valid record of this table"))
}

/// The smallest key that is greater than all keys of a group.
fn successor(table: Table, group: &[u8]) -> Vec<u8> {
    let mut next = group.to_vec();
    if table.group(&[group, &[0]].concat()).len() > group.len() {
        // This group is one complete key, not a prefix of several keys.
        next.push(0);
        return next;
    }
    while let Some(last) = next.pop() {
        if let Some(more) = last.checked_add(1) {
            next.push(more);
            break;
        }
    }
    next
}

/// The callback of a scan of values. A scan calls it for every key and value, until the callback returns `Break`.
pub type EachValue<'a> = &'a mut (dyn FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>, SourceError> + 'a);

fn agree(table: Table, group: &[u8], counted: Tally, expected: Tally) -> Result<(), SourceError> {
    if counted == expected {
        return Ok(());
    }
    let why = match counted.count == expected.count {
        true => {
            "the digest does not match: a record was changed without a commit, or the stored digest is damaged".to_owned()
        }
        false => format!("{} records were found, but {} were expected", counted.count, expected.count),
    };
    Err(codec::damaged(table, group, &why))
}

/// Counts the records that a scan reads, and compares them with the tallies.
enum Count {
    /// The table has no tallies, so nothing is counted.
    Nothing,
    /// The scan reads a whole table. Its records are compared with the tally of the whole table.
    Whole { table: Table, counted: Tally, expected: Tally },
    /// The scan reads the groups with a common prefix. The records of each group are compared with the tally of the group.
    Groups { table: Table, expected: std::vec::IntoIter<(Vec<u8>, Tally)>, current: Option<Group> },
}

struct Group {
    key: Vec<u8>,
    counted: Tally,
    expected: Tally,
}

impl Count {
    fn start(view: &View<'_>, table: Table, prefix: &[u8]) -> Result<Self, SourceError> {
        if !table.holds_facts() {
            return Ok(Count::Nothing);
        }
        if prefix.is_empty() {
            return Ok(Count::Whole { table, counted: Tally::default(), expected: view.tally(table, &[])? });
        }
        let mut expected = Vec::new();
        view.snapshot.scan(table.tallies(), &tally_key(table, prefix), &mut |key, tally| {
            expected.extend(key.get(1..).map(|group| (group.to_vec(), Tally::from_bytes(tally))));
            ControlFlow::Continue(())
        })?;
        Ok(Count::Groups { table, expected: expected.into_iter(), current: None })
    }

    fn next(&mut self, key: &[u8], stored: &[u8]) -> Result<(), SourceError> {
        match self {
            Count::Nothing => {}
            Count::Whole { table, counted, expected } => {
                counted.add(stored);
                // Damaged pages can form a loop. So the scan ends when it has read more records than the tally counts.
                if expected.count < counted.count {
                    return agree(*table, &[], *counted, *expected);
                }
            }
            Count::Groups { table, expected, current } => {
                let group = table.group(key);
                let same = current.as_mut().filter(|current| current.key == group);
                if let Some(current) = same {
                    current.counted.add(stored);
                    if current.expected.count < current.counted.count {
                        return agree(*table, group, current.counted, current.expected);
                    }
                    return Ok(());
                }
                if let Some(before) = current.take() {
                    agree(*table, &before.key, before.counted, before.expected)?;
                }
                let counted = Tally::of(stored);
                match expected.next() {
                    Some((key, expected)) if key == group => {
                        *current = Some(Group { key, counted, expected });
                    }
                    Some((lost, expected)) if lost.as_slice() < group => {
                        return agree(*table, &lost, Tally::default(), expected);
                    }
                    _ => return agree(*table, group, counted, Tally::default()),
                }
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<(), SourceError> {
        match self {
            Count::Nothing => Ok(()),
            Count::Whole { table, counted, expected } => agree(table, &[], counted, expected),
            Count::Groups { table, mut expected, current } => {
                if let Some(last) = current {
                    agree(table, &last.key, last.counted, last.expected)?;
                }
                match expected.next() {
                    Some((lost, expected)) => agree(table, &lost, Tally::default(), expected),
                    None => Ok(()),
                }
            }
        }
    }
}
