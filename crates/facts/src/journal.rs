//! The data that a commit writes in addition to its records, so that damaged data is never used.
//!
//! A checksum proves that a record was written with this content at some time. The checksum does not prove that the record is the newest version. A
//! page pointer with one flipped bit can lead to a page of an older revision. Every record on the older page has a correct checksum, but is out of
//! date. So each group of records has a tally (the number of the records, and a digest of them) in another tree. A group is used only if its records
//! match its tally. One flipped bit cannot change both trees. But if LMDB reads an older revision of the whole store, all records match the tallies
//! of that revision. To detect such a revision, the head contains the revision of the store and the number of the commit that wrote the head.

mod checks;

pub use crate::head::{Head, Identity, IdentityKey, Write};
pub use crate::tally::{Tally, tally_key};

use crate::audit::AuditRecord;
use crate::change::{Change, Effect};
use crate::codec::{self, Reader};
use crate::error::{CommitError, SourceError};
use crate::format::FORMAT;
use crate::limits::{LOG_KEYS_MAX, LOG_PIECES_MAX, LOG_SECONDS_MIN, LOG_TEXT_BYTES_MAX};
use crate::revision::{At, Revision};
use crate::tables::{self, Key, Keys, LogEntry, LogPiece, PieceKey, Row, Table, Written};
use crate::view::{Snapshot, View};
use crate::vocabulary::shortened;
use checks::{check_expected, check_sizes};
use siphasher::sip128::{Hasher128, SipHasher24};
use std::collections::BTreeMap;
use std::hash::Hasher;
use std::ops::ControlFlow;

/// The writes that commit a change to a store. These are the records of the change, their tallies, an entry of the change log, and the head. `before`
/// contains the present records of the store. The change gets the next revision. The list is empty if the change puts no record, and deletes only
/// records that do not exist. `commit` is the number that the source gives this commit; in LMDB, it is the id of the transaction. The writes also
/// delete old entries of the change log, at most up to the revision `shipped`, the last revision that is in the audit log.
///
/// # Errors
/// When a record is not in the expected state, a key or value is too large, an existing record is damaged, or the store cannot be read.
pub fn write_down(
    before: &dyn Snapshot,
    change: &Change,
    commit: u64,
    shipped: Revision,
) -> Result<Vec<Write>, CommitError> {
    check_sizes(change)?;
    let view = View::new(before);
    view.head()?;
    if change.after().is_some_and(|after| after != before.at().revision) {
        let (table, key) = (Table::Head, codec::printable(Head::KEY));
        return Err(CommitError::Conflict { table, key });
    }
    for expect in change.expects() {
        check_expected(&view, expect.table, &expect.key, &expect.expected)?;
    }
    let at = before.at().next();
    let mut writes = Vec::new();
    let mut tallies = Tallies { before, changed: BTreeMap::new(), whole: BTreeMap::new() };
    let settled = change.settle(&view)?;
    let is_settled =
        |table: Table, key: &[u8]| !settled.is_empty() && settled.contains_key(&(table, key.to_vec()));
    let others = change.writes().filter(|(table, key, _)| !is_settled(*table, key));
    let marks = settled.iter().map(|((table, key), value)| (*table, key.as_slice(), value.as_deref()));
    for (table, key, value) in others.chain(marks) {
        let old = before.get(table, key)?;
        if old.is_none() && value.is_none() {
            continue;
        }
        let stored = value.map(|value| codec::seal(table, key, at.revision, value));
        tallies.replace(table, key, old, stored.as_deref())?;
        writes.push(Write { table, key: key.to_vec(), stored });
    }
    if writes.is_empty() {
        return Ok(writes);
    }
    let log = log_of(change, &writes, at);
    tallies.write_to(&mut writes);
    trim(before, change.audit().unix_seconds, shipped, TRIMMED_AT_ONCE * log.len(), &mut writes)?;
    writes.extend(log);
    writes.push(Head { revision: at.revision, commit }.write());
    Ok(writes)
}

/// The digest of all facts. Two stores have the same digest if they have the same records, each written at the same revision.
///
/// # Errors
/// When the store cannot be read.
pub fn digest(view: &View<'_>) -> Result<u128, SourceError> {
    Ok(Digests::of(view)?.own)
}

/// The digest of all facts, in two forms.
#[derive(Clone, Copy, Debug)]
pub struct Digests {
    /// The digest that this program writes. Members of a fleet compare their digests, and can have programs of different formats. So a table that an
    /// older program does not know must not change the digest while the table is empty.
    pub own: u128,
    /// The digest that some builds of the formats 15 and 16 wrote: it always contains the table of second factors.
    with_second_factors: u128,
}

impl Digests {
    /// The digests of the facts, computed from the tallies of the tables that hold facts.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn of(view: &View<'_>) -> Result<Self, SourceError> {
        let mut own = SipHasher24::new_with_key(b"enfilade  state1");
        let mut with_second_factors = own;
        for table in Table::of_facts() {
            let Tally { count, digest } = view.tally(table, &[])?;
            let write = |hasher: &mut SipHasher24| {
                hasher.write(&[table as u8]);
                hasher.write(&count.to_be_bytes());
                hasher.write(&digest.to_be_bytes());
            };
            if count > 0 || table.is_of_first_fleets() {
                write(&mut own);
            }
            if count > 0 || table.is_of_first_fleets() || table == Table::SecondFactors {
                write(&mut with_second_factors);
            }
        }
        let number = |hasher: SipHasher24| u128::from_be_bytes(hasher.finish128().as_bytes());
        Ok(Digests { own: number(own), with_second_factors: number(with_second_factors) })
    }

    /// Whether a store with these facts can have written this digest.
    pub fn has(self, digest: u128) -> bool {
        self.own == digest || self.with_second_factors == digest
    }
}

/// The effect of these writes: they can give rights, or they only take rights away (`tables::only_takes`). `before` contains the present records.
/// Writes that only take rights away may use the reserved part of the store's memory map, and the reserved disk space.
///
/// # Errors
/// When the store cannot be read.
pub fn effect_of(before: &dyn Snapshot, writes: &[Write]) -> Result<Effect, SourceError> {
    for Write { table, key, stored } in writes.iter().filter(|write| write.table.holds_facts()) {
        let old = before.get(*table, key)?.and_then(|old| codec::open(*table, key, old).ok());
        let new = stored.as_deref().map(|stored| codec::open(*table, key, stored)).transpose()?;
        let takes = tables::only_takes(*table, old.map(|(_, value)| value), new.map(|(_, value)| value));
        let goes_with_holder = !takes && stored.is_none() && is_of_nobody(before, writes, *table, key)?;
        if !takes && !goes_with_holder {
            return Ok(Effect::Gives);
        }
    }
    Ok(Effect::Takes)
}

/// Whether the record belongs to a user, group or token that no longer exists after these writes (`tables::keeps_out`).
fn is_of_nobody(
    before: &dyn Snapshot,
    writes: &[Write],
    table: Table,
    key: &[u8],
) -> Result<bool, SourceError> {
    let Some((table, key)) = tables::keeps_out(table, key) else { return Ok(false) };
    Ok(match writes.iter().find(|write| (write.table, &write.key) == (table, &key)) {
        Some(write) => write.stored.is_none(),
        None => before.get(table, &key)?.is_none(),
    })
}

/// Counts the records of a table in the order of their keys. The tally of a group is returned as soon as all records of the group are counted. So
/// counting a table of any size needs only the tally of the table and the tally of one group in memory.
pub struct Counting {
    table: Table,
    whole: Tally,
    group: Option<(Vec<u8>, Tally)>,
}

impl Counting {
    /// A new counter, which has not counted any record yet.
    pub fn of(table: Table) -> Self {
        Counting { table, whole: Tally::default(), group: None }
    }

    /// Counts one more stored record. If the record begins a new group, returns the tally of the group before it.
    pub fn add(&mut self, key: &[u8], stored: &[u8]) -> Option<Write> {
        self.whole.add(stored);
        let group = self.table.group(key);
        match &mut self.group {
            Some((of, tally)) if of == group => {
                tally.add(stored);
                None
            }
            before => {
                let whole = before.replace((group.to_vec(), Tally::of(stored)));
                whole.map(|(group, tally)| tally_write(((self.table, group), tally)))
            }
        }
    }

    /// The tally of the last group, and the tally of the table.
    pub fn finish(self) -> impl Iterator<Item = Write> {
        let last = self.group.map(|(group, tally)| tally_write(((self.table, group), tally)));
        let whole = tally_write(((self.table, Vec::new()), self.whole));
        last.into_iter().chain((self.whole.count != 0).then_some(whole))
    }
}

/// The last writes to a store after all its records were rewritten: the new identity of the store, a log entry without keys, and the head. Because
/// the entry has no keys, indexes are built again.
pub fn write_last(audit: &AuditRecord, at: At, commit: u64) -> [Write; 3] {
    let AuditRecord { who, what, unix_seconds, request } = audit.clone();
    let entry = LogEntry { who, what, unix_seconds, request, written: Written::Unsaid };
    [
        Write::put(&IdentityKey, &Identity { format: FORMAT, store: at.store }, at),
        Write::put(&at.revision, &entry, at),
        Head { revision: at.revision, commit }.write(),
    ]
}

/// Returns the write that stores a tally, or deletes the tally if its count is 0.
pub fn tally_write(((table, group), tally): ((Table, Vec<u8>), Tally)) -> Write {
    let stored = (tally.count != 0).then(|| tally.to_bytes());
    Write { table: table.tallies(), key: tally_key(table, &group), stored }
}

/// The log entry of a change. If the change has more than `LOG_KEYS_MAX` keys, the entry is followed by the pieces that contain the keys. If more
/// than `LOG_PIECES_MAX` pieces would be necessary, the log does not contain the keys.
fn log_of(change: &Change, writes: &[Write], at: At) -> Vec<Write> {
    let audit = change.audit();
    // The limit is greater than the length of the longest name, so the name of an author is never shortened.
    let short = |text: &str| shortened(text, LOG_TEXT_BYTES_MAX).into_owned();
    let keys =
        |writes: &[Write]| -> Keys { writes.iter().map(|write| (write.table, write.key.clone())).collect() };
    let pieces: Vec<&[Write]> = match writes.len() {
        ..=LOG_KEYS_MAX => Vec::new(),
        _ => writes.chunks(LOG_KEYS_MAX).collect(),
    };
    let written = match pieces.len() {
        0 => Written::Here(keys(writes)),
        count @ ..=LOG_PIECES_MAX => Written::Pieces(u32::try_from(count).unwrap_or(u32::MAX)),
        _ => Written::Unsaid,
    };
    let named = if written == Written::Unsaid { &[] } else { pieces.as_slice() };
    let (who, what) = (short(&audit.who), short(&audit.what));
    let (unix_seconds, request) = (audit.unix_seconds, audit.request);
    let entry = LogEntry { who, what, unix_seconds, request, written };
    let mut log = vec![Write::put(&at.revision, &entry, at)];
    log.extend((0..).zip(named).map(|(number, piece)| {
        Write::put(&PieceKey { revision: at.revision, number }, &LogPiece(keys(piece)), at)
    }));
    log
}

/// A change deletes at most this number of old records of the log for each new record of the log. The number is greater than one, so that a long log
/// gets shorter.
const TRIMMED_AT_ONCE: usize = 4;

fn trim(
    before: &dyn Snapshot,
    now: i64,
    shipped: Revision,
    mut left: usize,
    writes: &mut Vec<Write>,
) -> Result<(), SourceError> {
    before.scan(Table::Log, &[], &mut |key, stored| {
        let goes = match Revision::from_bytes(key) {
            Some(revision) => {
                // An entry that cannot be read counts as old.
                let is_old = codec::open(Table::Log, key, stored)
                    .ok()
                    .and_then(|(_, value)| LogEntry::decode(&mut Reader::new(value)))
                    .is_none_or(|entry| entry.unix_seconds.saturating_add(LOG_SECONDS_MIN) < now);
                revision <= shipped && is_old
            }
            // This record is a piece. Its entry has a smaller key, so the entry is deleted in the same change or was deleted earlier.
            None => true,
        };
        if left == 0 || !goes {
            return ControlFlow::Break(());
        }
        left -= 1;
        writes.push(Write { table: Table::Log, key: key.to_vec(), stored: None });
        ControlFlow::Continue(())
    })
}

/// The tallies that a change modifies.
struct Tallies<'a> {
    before: &'a dyn Snapshot,
    changed: BTreeMap<(Table, Vec<u8>), Tally>,
    /// The tallies of whole tables.
    whole: BTreeMap<Table, Tally>,
}

impl Tallies<'_> {
    fn of(&mut self, table: Table, group: &[u8]) -> Result<&mut Tally, SourceError> {
        use std::collections::btree_map::Entry;
        match self.changed.entry((table, group.to_vec())) {
            Entry::Occupied(there) => Ok(there.into_mut()),
            Entry::Vacant(new) => {
                let stored = self.before.get(table.tallies(), &tally_key(table, group))?;
                Ok(new.insert(stored.map_or_else(Tally::default, Tally::from_bytes)))
            }
        }
    }

    fn replace(
        &mut self,
        table: Table,
        key: &[u8],
        old: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<(), SourceError> {
        let group = table.group(key);
        let tally = self.of(table, group)?;
        let group_before = *tally;
        if group.len() == key.len() {
            // The group has only this record, so its tally is computed from the new record alone. Therefore, a write that replaces a damaged record
            // repairs the group.
            *tally = new.map_or_else(Tally::default, Tally::of);
        } else {
            old.into_iter().for_each(|old| tally.minus(Tally::of(old)));
            new.into_iter().for_each(|new| tally.add(new));
        }
        let group_after = *tally;
        let whole = match self.whole.get_mut(&table) {
            Some(whole) => whole,
            None => {
                let stored = self.before.get(table.tallies(), &tally_key(table, &[]))?;
                self.whole.entry(table).or_insert(stored.map_or_else(Tally::default, Tally::from_bytes))
            }
        };
        whole.minus(group_before);
        whole.plus(group_after);
        Ok(())
    }

    fn write_to(self, writes: &mut Vec<Write>) {
        let whole = self.whole.into_iter().map(|(table, tally)| ((table, Vec::new()), tally));
        writes.extend(whole.chain(self.changed).map(tally_write));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stored record of one byte and a checksum.
    fn stored(checksum: u8) -> Vec<u8> {
        let mut bytes = vec![0];
        bytes.extend(u128::from(checksum).to_be_bytes());
        bytes
    }

    #[test]
    fn each_group_and_the_table_are_counted() {
        let (first, second) = ([1; 17], [2; 17]);
        let key = |group: [u8; 17], last: u8| [group.as_slice(), &[last]].concat();
        let mut counting = Counting::of(Table::Memberships);
        let during: Vec<Write> = [(first, 5), (first, 6), (second, 7)]
            .iter()
            .filter_map(|(group, last)| counting.add(&key(*group, *last), &stored(*last)))
            .collect();
        let written = |writes: Vec<Write>| -> Vec<(Vec<u8>, Option<Tally>)> {
            writes
                .into_iter()
                .map(|write| (write.key, write.stored.map(|stored| Tally::from_bytes(&stored))))
                .collect()
        };
        let tally = |group: &[u8], count, digest| {
            (tally_key(Table::Memberships, group), Some(Tally { count, digest }))
        };
        assert_eq!(written(during), [tally(&first, 2, 11)]);
        assert_eq!(written(counting.finish().collect()), [tally(&second, 1, 7), tally(&[], 3, 18)]);
    }

    #[test]
    fn a_table_without_records_has_no_tally() {
        assert_eq!(Counting::of(Table::Memberships).finish().count(), 0);
    }
}
