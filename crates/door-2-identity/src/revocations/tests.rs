//! Tests that the index gives the same answers as the view.

use super::*;
use crate::fernet::payload::Audit;
use crate::session::{Claim, Methods, Scope};
use enfilade_facts::journal::{Head, write_down};
use enfilade_facts::vocabulary::{TrustId, UserId};
use enfilade_facts::{At, AuditRecord, Change, Clocks, Each, Found, MirrorHealth, Passed, Snapshot, StoreId};
use std::collections::BTreeMap;

/// A store in memory.
pub(crate) struct Facts {
    at: At,
    records: BTreeMap<(Table, Vec<u8>), Vec<u8>>,
}

impl Facts {
    pub(crate) fn new() -> Self {
        let at = At { store: StoreId(1), revision: Revision(0) };
        let mut facts = Facts { at, records: BTreeMap::new() };
        facts.put_head();
        facts
    }

    fn put_head(&mut self) {
        let head = Head { revision: self.at.revision, commit: 0 }.write();
        self.records.insert((head.table, head.key), head.stored.unwrap());
    }

    pub(crate) fn commit(&mut self, edit: impl FnOnce(&View<'_>, &mut Change)) {
        let audit = AuditRecord {
            who: "t".into(),
            what: "t".into(),
            unix_seconds: 1_000 + self.at.revision.0.cast_signed(),
            request: None,
        };
        let mut change = Change::new(audit);
        edit(&View::new(self), &mut change);
        let writes = write_down(self, &change, self.at.revision.0 + 1, Revision(0)).unwrap();
        for write in writes {
            match write.stored {
                Some(stored) => self.records.insert((write.table, write.key), stored),
                None => self.records.remove(&(write.table, write.key)),
            };
        }
        self.at = self.at.next();
        self.put_head();
    }
}

impl Snapshot for Facts {
    fn at(&self) -> At {
        self.at
    }
    fn get<'s>(&'s self, table: Table, key: &[u8]) -> Result<Option<&'s [u8]>, SourceError> {
        Ok(self.records.get(&(table, key.to_vec())).map(Vec::as_slice))
    }
    fn scan(&self, table: Table, prefix: &[u8], each: Each<'_>) -> Result<(), SourceError> {
        for ((_, key), stored) in self.records.range((table, prefix.to_vec())..) {
            if !key.starts_with(prefix) || self.get(table, key)?.is_none() || each(key, stored).is_break() {
                break;
            }
        }
        Ok(())
    }
    fn at_or_after(&self, table: Table, key: &[u8]) -> Result<Found<'_>, SourceError> {
        let next = self.records.range((table, key.to_vec())..).next();
        Ok(next
            .filter(|((of, _), _)| *of == table)
            .map(|((_, key), stored)| (key.as_slice(), stored.as_slice())))
    }
}

/// Returns one of only a few marks. So some marks are set more than once, and several marks are in the same part.
fn mark(n: usize) -> Revoked {
    let id = [u8::try_from(n % 2).unwrap(), 0, u8::try_from(n % 7).unwrap(), u8::try_from(n % 5).unwrap()];
    let id: [u8; 16] = std::array::from_fn(|at| id.get(at).copied().unwrap_or(0));
    match n % 4 {
        0 => Revoked::Token(id),
        1 if n.is_multiple_of(3) => Revoked::User(UserId::from_long(std::array::from_fn(|at| id[at % 16]))),
        1 => Revoked::User(UserId::from_bytes(id)),
        2 => Revoked::Chain(id),
        _ => Revoked::Trust(TrustId::from_bytes(id)),
    }
}

fn catch_up(index: &mut Revocations, facts: &Facts) {
    let view = View::new(facts);
    // An update of the index with keys that were not written must not change the index.
    for (table, key) in facts.records.keys().filter(|(table, _)| *table == Table::Revocations) {
        index.update(&view, *table, key).unwrap();
    }
}

#[test]
fn an_index_with_too_many_marks_gives_the_same_answers() {
    for complete_at in [0, 40, usize::MAX] {
        let mut facts = Facts::new();
        let most = 20;
        let [mut small, mut large] =
            [most, u64::MAX].map(|most| Revocations::within(&View::new(&facts), most).unwrap());
        let (mut was_here, mut was_asked, mut state) = (0, 0, 7_usize);
        for step in 0..300 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let this = mark(state >> 33);
            // First many marks are set, then marks are deleted.
            let sets = step < 150 || (state >> 20).is_multiple_of(5);
            let mut gone = None;
            facts.commit(|view, change| {
                if step == complete_at {
                    let last = LastMarks { is_complete: true, of_time: i64::MAX / 2, of_any: i64::MAX / 2 };
                    change.put_last_marks(last);
                }
                let known = view.list::<Revocation>(&[]).unwrap();
                let known = known.iter().find(|(mark, _)| mark.is_mark());
                match known {
                    Some((mark, row)) if !sets => {
                        change.purge(mark, row);
                        gone = Some(*mark);
                    }
                    _ => _ = change.end(this),
                }
            });
            for index in [&mut small, &mut large] {
                catch_up(index, &facts);
                if let Some(gone) = gone {
                    index.update(&View::new(&facts), Table::Revocations, &gone.bytes()).unwrap();
                }
            }
            let view = View::new(&facts);
            let built = Revocations::within(&view, most).unwrap();
            assert_eq!((small.count, built.count), (large.count, large.count), "step {step}");
            assert_eq!(built.top.is_some(), large.count <= most);
            assert!(small.top.is_some() || most / 2 < small.count);
            assert!(small.top.is_none() || small.count <= most);
            assert_eq!((small.horizon, built.horizon), (large.horizon, large.horizon));
            // No mark covers a later second than the last second that the index stores.
            let mut last = LastMarks::NONE;
            for (mark, row) in view.list::<Revocation>(&[]).unwrap().iter().filter(|(mark, _)| mark.is_mark())
            {
                last.take_in(mark, row.issued_before);
            }
            for index in [&small, &large, &built] {
                assert!(
                    last.of_time <= index.last.of_time && last.of_any <= index.last.of_any,
                    "step {step}"
                );
            }
            (was_here, was_asked) =
                (was_here + u32::from(small.top.is_some()), was_asked + u32::from(small.top.is_none()));
            for n in 0..280 {
                let (mark, expected) = (mark(n), since_by(&view, &mark(n)).unwrap());
                for index in [&small, &large, &built] {
                    assert_eq!(index.since(&mark).unwrap_or(expected), expected, "step {step}: {mark:?}");
                }
                assert_eq!(large.since(&mark), Some(expected), "the large index contains every mark");
            }
        }
        assert!(was_here > 50 && was_asked > 50, "{was_here} and {was_asked}");
    }
}

#[test]
fn an_entry_takes_25_bytes() {
    assert_eq!(size_of::<Entry>(), 25);
}

#[test]
fn the_second_record_of_a_mark_is_no_other_change() {
    let mut facts = Facts::new();
    facts.commit(|_, change| _ = change.end(mark(1)));
    let mut index = Revocations::build(&View::new(&facts)).unwrap();
    let before = index.others;
    facts.commit(|_, change| _ = change.end(mark(2)));
    let end = ReverseKey::Ends(9, mark(2)).bytes();
    index.update(&View::new(&facts), Table::Reverse, &end).unwrap();
    assert_eq!(index.others, before);
    let other = end[1..].to_vec();
    for (table, key) in [(Table::Users, b"somebody".to_vec()), (Table::Users, end), (Table::Reverse, other)] {
        let mut index = index.clone();
        index.update(&View::new(&facts), table, &key).unwrap();
        assert!(before < index.others, "{table:?} {key:?}");
    }
}

#[test]
fn the_newest_marks_are_listed_until_there_are_too_many() {
    let mut facts = Facts::new();
    facts.commit(|_, change| _ = change.end(mark(1)));
    let mut index = Revocations::build(&View::new(&facts)).unwrap();
    let built = facts.at.revision;
    let mut set = Vec::new();
    for n in 2..NEWEST + 4 {
        facts.commit(|_, change| _ = change.end(mark(n)));
        index.update(&View::new(&facts), Table::Revocations, &mark(n).bytes()).unwrap();
        set.push((facts.at.revision, mark(n)));
        let (first, last) = (set.first().unwrap().0, set.last().unwrap().0);
        assert_eq!(index.after(last), Some(&[][..]));
        let from = set.len().saturating_sub(3);
        let earlier = Revision(set[from].0.0 - 1);
        assert_eq!(index.after(earlier), Some(&set[from..]), "{n}");
        // The oldest mark is forgotten when there is no space left.
        let known = (set.len() <= NEWEST).then_some(&set[..]);
        assert_eq!(index.after(built), known, "{n}, from {first:?}");
    }
    assert_eq!(index.count(), count(&View::new(&facts)).unwrap());
}

#[test]
fn a_mark_covers_all_of_a_chain_but_of_a_key_only_what_was_issued_before() {
    let session = |methods| {
        Session::of_claim(Claim {
            user: UserId::from_bytes([1; 16]),
            methods,
            scope: Scope::Unscoped,
            lent: None,
            issued_at: 1_000,
            expires_at: 2_000,
            audit: Audit { own: [2; 16], chain: None },
        })
    };
    let (chain, token, user) =
        (Revoked::Chain([2; 16]), Revoked::Token([2; 16]), Revoked::User(UserId::from_bytes([1; 16])));
    for (methods, mark, last) in [
        (Methods::PASSWORD, chain, i64::MAX),
        (Methods::PASSWORD, token, i64::MAX),
        (Methods::PASSWORD, user, 999),
        (Methods::EC2_KEY, chain, 999),
        (Methods::EC2_KEY, token, i64::MAX),
        (Methods::EC2_KEY, user, 999),
    ] {
        assert_eq!(covers(&session(methods), &mark, 999), last, "{methods:?} {mark:?}");
    }
}

/// Another thread had a newer view, so the index is ahead of the older view. Then only the older view is read.
#[test]
fn an_index_that_is_ahead_changes_no_answer_of_an_older_view() {
    let mut facts = Facts::new();
    let now = Clocks { unix_seconds: 5_000, tick_millis: 5_000_000, mirror: MirrorHealth::Current };
    let session = Session::of_claim(Claim {
        user: UserId::from_bytes([1; 16]),
        methods: Methods::PASSWORD,
        scope: Scope::Unscoped,
        lent: None,
        issued_at: 100,
        expires_at: 2_000,
        audit: Audit { own: [2; 16], chain: None },
    });
    for (what, purged, revoked, last, over, by) in [
        ("nothing was purged", None, None, i64::MIN, None, None),
        ("marks up to the second before the session's end were purged", Some(1_999), None, 1_999, None, None),
        ("marks up to the session's end were purged", Some(2_000), None, 2_000, Some(0), None),
        ("later marks were purged", Some(2_007), None, 2_007, Some(7), None),
        ("it is revoked", None, Some(Revoked::Token([2; 16])), 2_007, Some(7), Some(Revoked::Token([2; 16]))),
    ] {
        facts.commit(|view, change| {
            if let Some(purged) = purged {
                change.put_passed(Passed::by(view, now).unwrap().purging(purged));
            }
            if let Some(mark) = revoked {
                change.end(mark);
            }
        });
        let (level, ahead) = (Index::<Revocations>::new(), Index::<Revocations>::new());
        let mut newer = Facts { at: facts.at, records: facts.records.clone() };
        newer.commit(|view, change| {
            change.put_passed(Passed::by(view, now).unwrap().purging(4_000)).end(Revoked::Chain([2; 16]));
        });
        ahead.read(&View::new(&newer), Revocations::count).unwrap();
        for index in [&level, &ahead] {
            let view = View::new(&facts);
            assert_eq!(issuing(&view, index, now.unix_seconds).unwrap().purged, last, "{what}");
            let look = look(&view, index, &session, None).unwrap();
            assert_eq!((look.over, look.by), (over, by), "{what}");
        }
        assert!(matches!(ahead.read(&View::new(&facts), |_| ()), Err(IndexError::Ahead)));
    }
}
