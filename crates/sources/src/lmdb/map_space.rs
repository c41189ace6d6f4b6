//! Limits the use of the map. The last part of the map is reserved for changes that take rights away. So a user can be disabled and a session can be
//! revoked before an operator has made room. The end of this part is reserved for administrators who take rights away, because users could fill the
//! rest of the map by revoking their own tokens.

use super::bounds::{Bound, GIVING, bound_of};
use super::disk_reserve::DiskSpace;
use super::environment::Environment;
use super::unavailable;
use crate::faults::within;
use enfilade_facts::journal::{Write, effect_of};
use enfilade_facts::{CommitError, Effect, Requester, Snapshot};
use heed::RoTxn;

/// An upper bound of the number of bytes that LMDB writes for each byte of a large record, including the changed pages of the tree.
const PAGES_PER_BYTE: u64 = 4;
/// An upper bound of the number of pages that are written for a small record: a page in each level of the tree of the record, and in each level of
/// the tree of the tally.
const PAGES_PER_WRITE: u64 = 16;
/// An upper bound of the number of records that are written for a small change.
const WRITES_MAX: u64 = 32;

/// The space of the map that the changes of one transaction may use.
pub(super) struct MapSpace {
    map_bytes: u64,
    page_bytes: u64,
    /// An upper bound of the bytes in use: the length of the file before the transaction, plus the greatest number of bytes that the changes can have
    /// added.
    pub(super) file_bytes: u64,
    /// The number of bytes that were in use before the transaction. `None` if the length of the file does not exceed the strictest bound: then this
    /// number is not needed.
    used_bytes: Option<u64>,
    /// The strictest bound that a change of the transaction can have exceeded; `None` if no change can have exceeded its bound.
    bound: Option<Bound>,
}

impl Environment {
    /// The space of the map at the beginning of a transaction.
    pub(super) fn map_space(&self, txn: &RoTxn<'_>) -> heed::Result<MapSpace> {
        let (info, page_bytes) = (self.env.info(), self.page_bytes(txn)?);
        let (map_bytes, file_bytes) =
            (info.map_size as u64, (info.last_page_number as u64).saturating_mul(page_bytes));
        let mut space = MapSpace { map_bytes, page_bytes, file_bytes, used_bytes: None, bound: None };
        if space.most(GIVING) < file_bytes {
            space.used_bytes = Some(self.used_in(txn)?);
        }
        Ok(space)
    }

    /// Returns an error if there is no space for a change of this requester with this effect. The records of the change have `bytes` bytes.
    pub(super) fn has_room_for(
        &self,
        requester: Requester,
        effect: Effect,
        bytes: u64,
    ) -> Result<(), CommitError> {
        let Some(bound) = bound_of(effect, requester) else { return Ok(()) };
        let found = within(self.store, || {
            let txn = self.env.read_txn()?;
            Ok::<_, heed::Error>((self.map_space(&txn)?, self.used_in(&txn)?))
        });
        let (space, used_bytes) = found.map_err(unavailable)?;
        let more = bytes.saturating_mul(PAGES_PER_BYTE);
        let is_small = more <= space.small_change();
        let used_after = if is_small { used_bytes } else { used_bytes.saturating_add(more) };
        space.keep(bound, if is_small { space.used_bytes } else { Some(used_after) })?;
        let after = space.file_bytes.saturating_add(more.max(space.small_change()));
        self.disk_space(&space).keep_after(after, used_after, bound)
    }

    /// The disk space at the beginning of a transaction.
    pub(super) fn disk_space(&self, space: &MapSpace) -> DiskSpace<'_> {
        DiskSpace::new(&self.disk_reserve, space.file_bytes, space.page_bytes)
    }

    /// Returns an error if a transaction that rewrites the whole store would leave no disk reserve.
    pub(super) fn leaves_disk_reserve(&self, txn: &RoTxn<'_>) -> Result<(), CommitError> {
        let space = self.map_space(txn).map_err(unavailable)?;
        let used_bytes = self.used_in(txn).map_err(unavailable)?;
        self.disk_space(&space).keep_after(u64::MAX, used_bytes, GIVING)
    }
}

impl MapSpace {
    fn most(&self, bound: Bound) -> u64 {
        self.map_bytes / 100 * bound.percent
    }

    /// An upper bound of the bytes that a small change adds.
    fn small_change(&self) -> u64 {
        self.page_bytes * PAGES_PER_WRITE * WRITES_MAX
    }

    /// Adds the size of a change's writes. Returns an error if the bound of the change was exceeded before the transaction.
    pub(super) fn take(
        &mut self,
        before: &dyn Snapshot,
        writes: &[Write],
        requester: Requester,
    ) -> Result<(), CommitError> {
        let of_write = |Write { key, stored, .. }: &Write| {
            let bytes = key.len() + stored.as_ref().map_or(0, Vec::len);
            bytes as u64 * PAGES_PER_BYTE + self.page_bytes * PAGES_PER_WRITE
        };
        self.file_bytes = self.file_bytes.saturating_add(writes.iter().map(of_write).sum());
        if self.file_bytes <= self.most(GIVING) {
            return Ok(());
        }
        let Some(bound) = bound_of(effect_of(before, writes)?, requester) else { return Ok(()) };
        self.keep(bound, self.used_bytes)?;
        if self.most(bound) < self.file_bytes {
            self.bound = self.bound.into_iter().chain([bound]).min_by_key(|bound| bound.percent);
        }
        Ok(())
    }

    /// Returns an error if the changes of the transaction exceeded their bound.
    pub(super) fn check(&self, environment: &Environment, txn: &RoTxn<'_>) -> Result<(), CommitError> {
        let Some(bound) = self.bound else { return Ok(()) };
        self.keep(bound, Some(environment.used_in(txn).map_err(unavailable)?))
    }

    fn keep(&self, bound: Bound, used_bytes: Option<u64>) -> Result<(), CommitError> {
        match used_bytes {
            Some(used_bytes) if self.most(bound) < used_bytes => {
                Err(CommitError::Full { used_bytes, map_bytes: self.map_bytes, kept_for: bound.rest })
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lmdb::bounds::OF_USERS;
    use crate::lmdb::{Lmdb, Terms};
    use crate::scratch::Scratch;
    use enfilade_facts::limits::MAP_BYTES_MIN;
    use enfilade_facts::tables::{Domain, Extra, ExtraKey, ResourceKind, Revoked};
    use enfilade_facts::vocabulary::{DomainId, UserId};
    use enfilade_facts::{AuditRecord, Change, Source, Table};

    fn by(requester: Requester) -> Change {
        let audit = AuditRecord { who: "a test".into(), what: "test".into(), unix_seconds: 1, request: None };
        Change::requested_by(requester, audit)
    }

    /// A revocation mark. The ids of these marks are distributed evenly.
    fn mark(n: u64) -> Revoked {
        Revoked::Token(u128::from(n).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835).to_be_bytes())
    }

    /// The space of a map of a million bytes, with pages of a thousand bytes.
    fn space(file_bytes: u64) -> MapSpace {
        MapSpace { map_bytes: 1_000_000, page_bytes: 1_000, file_bytes, used_bytes: None, bound: None }
    }

    #[test]
    fn a_write_takes_sixteen_pages_and_four_times_its_bytes() {
        let scratch = Scratch::new();
        let lmdb = Lmdb::open(&scratch.path().join("facts")).unwrap();
        for (key, stored, expected) in
            [(10, Some(20), 16_120), (10, None, 16_040), (1, Some(100_000), 416_004), (1, Some(0), 16_004)]
        {
            let write = || Write {
                table: Table::Extras,
                key: vec![7; key],
                stored: stored.map(|length| vec![7; length]),
            };
            let mut space = space(5);
            let taken = lmdb.snapshot(|before| space.take(before, &[write(), write()], Requester::User));
            assert_eq!((taken.unwrap(), space.file_bytes), (Ok(()), 5 + 2 * expected));
        }
    }

    #[test]
    fn the_strictest_bound_that_may_be_exceeded_is_checked_afterwards() {
        use Requester::{Administrator, User};
        let scratch = Scratch::new();
        let lmdb = Lmdb::open(&scratch.path().join("facts")).unwrap();
        let domain = Domain::new("x1".parse().unwrap());
        let gives = Write::put(&DomainId::from_bytes([1; 16]), &domain, lmdb.at());
        let takes = Write { table: Table::Domains, key: vec![7; 10], stored: None };
        // Each case contains the length of the file before the transaction, in bytes, and the changes. For each change, the case contains the effect,
        // the requester, and the lowest bound that the transaction can have exceeded after the change. A change that takes rights away is counted
        // with 16,040 bytes.
        let cases = [
            (933_960, vec![(&takes, User, None)]),
            (953_960, vec![(&takes, User, None)]),
            (953_961, vec![(&takes, User, Some(97)), (&takes, Administrator, Some(97))]),
            (990_000, vec![(&takes, User, Some(97)), (&gives, User, Some(95)), (&takes, User, Some(95))]),
            (990_000, vec![(&takes, Administrator, None), (&gives, Administrator, Some(95))]),
        ];
        for (file_bytes, changes) in cases {
            let mut space = space(file_bytes);
            for (write, requester, expected) in changes {
                let taken =
                    lmdb.snapshot(|before| space.take(before, std::slice::from_ref(write), requester));
                taken.unwrap().unwrap();
                assert_eq!(space.bound.map(|bound| bound.percent), expected, "{file_bytes} {requester:?}");
            }
        }
    }

    #[test]
    fn a_small_change_writes_at_most_thirty_two_records() {
        assert_eq!(space(5).small_change(), 32 * 16 * 1_000);
    }

    #[test]
    fn a_bound_may_be_reached_and_not_exceeded() {
        for (bound, most) in [(GIVING, 950_000), (OF_USERS, 970_000)] {
            let kept = [None, Some(most), Some(most + 1)].map(|used_bytes| space(0).keep(bound, used_bytes));
            let full = CommitError::Full { used_bytes: most + 1, map_bytes: 1_000_000, kept_for: bound.rest };
            assert_eq!(kept, [Ok(()), Ok(()), Err(full)]);
        }
    }

    #[test]
    fn each_kind_of_change_leaves_room_for_the_next() {
        let scratch = Scratch::new();
        let terms = Terms { group: None, map_bytes: Some(MAP_BYTES_MIN) };
        let lmdb = Lmdb::open_for(&scratch.path().join("facts"), terms).unwrap();
        let percent = || lmdb.status().used_bytes as f64 * 100.0 / MAP_BYTES_MIN as f64;
        let mut n = 0;
        let mut until_full = |requester, put: &dyn Fn(&mut Change, u64)| loop {
            n += 1;
            let mut change = by(requester);
            put(&mut change, n);
            match lmdb.commit(&change) {
                Ok(_) => {}
                Err(CommitError::Full { kept_for, .. }) => return kept_for,
                Err(why) => panic!("{why}"),
            }
        };
        for bytes in [60_000, 400] {
            for requester in [Requester::Administrator, Requester::User] {
                let kept_for = until_full(requester, &|change, n| {
                    let key =
                        ExtraKey::of(ResourceKind::User, &UserId::from_bytes(u128::from(n).to_be_bytes()));
                    change.put(&key, &Extra("x".repeat(bytes)));
                });
                assert_eq!(kept_for, GIVING.rest);
            }
        }
        assert!((94.5..95.2).contains(&percent()), "{}", percent());
        assert!(lmdb.has_room_for(Requester::User, Effect::Takes, 0).is_ok());
        // Records of this size are too large for the space that is left.
        let large = lmdb.has_room_for(Requester::User, Effect::Takes, MAP_BYTES_MIN);
        assert!(matches!(large, Err(CommitError::Full { .. })), "{large:?}");
        let kept_for = until_full(Requester::User, &|change, n| {
            (0..2).for_each(|m| _ = change.end(mark(n * 2 + m)));
        });
        assert_eq!(kept_for, OF_USERS.rest);
        assert!((96.5..97.2).contains(&percent()), "{}", percent());
        // The remaining space is enough for many revocations by an administrator.
        for n in 0..200 {
            lmdb.commit(by(Requester::Administrator).end(mark(1 << 40 | n))).unwrap();
        }
        assert!(matches!(
            lmdb.has_room_for(Requester::User, Effect::Takes, 0),
            Err(CommitError::Full { .. })
        ));
        assert!(lmdb.has_room_for(Requester::Administrator, Effect::Takes, 0).is_ok());
        // A command that would give rights by editing a file is refused before it edits the file. A change that copies an edit of a file into the
        // facts is committed.
        let gives = lmdb.has_room_for(Requester::Administrator, Effect::Gives, 0);
        assert!(matches!(gives, Err(CommitError::Full { kept_for, .. }) if kept_for == GIVING.rest));
        let domain = Domain::new("x1".parse().unwrap());
        lmdb.commit(by(Requester::File).put(&DomainId::from_bytes([1; 16]), &domain)).unwrap();
        // Each of the changes that share a commit has its own result.
        let [user, administrator] = [Requester::User, Requester::Administrator]
            .map(|requester| by(requester).end(mark(1 << 41)).clone());
        let answers = lmdb.write_all(&[&user, &administrator, &user]);
        assert_eq!(answers.iter().map(Result::is_ok).collect::<Vec<_>>(), [false, true, false]);
    }

    /// One of the changes does not fit into the map. This is detected only after all changes of the transaction were written.
    #[test]
    fn a_change_that_does_not_fit_does_not_take_others_with_it() {
        let scratch = Scratch::new();
        let terms = Terms { group: None, map_bytes: Some(MAP_BYTES_MIN) };
        let lmdb = Lmdb::open_for(&scratch.path().join("facts"), terms).unwrap();
        let extra = |n: u8, bytes: usize| {
            let mut change = by(Requester::Administrator);
            change.put(
                &ExtraKey::of(ResourceKind::User, &UserId::from_bytes([n; 16])),
                &Extra("x".repeat(bytes)),
            );
            change
        };
        (0..15).for_each(|n| _ = lmdb.commit(&extra(n, 1_000_000)).unwrap());
        let ends = |n| by(Requester::User).end(mark(n)).clone();
        let before = lmdb.at().revision.0;
        let answers = lmdb.write_all(&[&ends(1), &extra(99, 1_000_000), &ends(2)]);
        let numbers: Vec<_> = answers.iter().map(|answer| answer.as_ref().map(|at| at.revision.0)).collect();
        assert!(
            matches!(&numbers[..], [Ok(one), Err(CommitError::Full { .. }), Ok(other)] if (*one, *other) == (before + 1, before + 2)),
            "{numbers:?}"
        );
    }
}
