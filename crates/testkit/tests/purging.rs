//! Tests that a purge of revocations reads only the records that it deletes. The test counts the reads.

#![allow(clippy::unwrap_used, reason = "tests")]

use enfilade_admin::ChangeContext;
use enfilade_admin::keystone::{list_revocations, purge_revocations, revoke};
use enfilade_facts::tables::{Reverse, ReverseKey, Revocation, Revoked};
use enfilade_facts::vocabulary::UserId;
use enfilade_facts::{AuditRecord, Change, Clocks, LastMarks, MirrorHealth, Passed, Read, Source};
use enfilade_testkit::CountedFacts;
use std::ops::ControlFlow;

/// The time at which revocation marks are set, in seconds since the epoch.
const START: i64 = 1_000_000;

struct World {
    counted: CountedFacts,
}

impl World {
    fn new() -> Self {
        World { counted: CountedFacts::new() }
    }

    fn change_context(&self, seconds: i64) -> ChangeContext<'_> {
        self.counted.change_context(Clocks {
            unix_seconds: START + seconds,
            tick_millis: 1_000 * u64::try_from(seconds).unwrap(),
            mirror: MirrorHealth::Current,
        })
    }

    /// Sets a revocation mark for each of the tokens `ids`. The marks end `end` seconds after `START`.
    fn revoke(&self, ids: std::ops::Range<u64>, end: i64) {
        let ids: Vec<Revoked> = ids.map(mark).collect();
        for marks in ids.chunks(100) {
            revoke(&self.change_context(0), marks, Some(START + end), "some tokens").unwrap();
        }
    }

    /// Purges. Returns the number of deleted marks, and the number of records that the purge read.
    fn purge(&self, seconds: i64) -> (usize, u64) {
        let before = self.counted.reads();
        let purged = purge_revocations(&self.change_context(seconds), 0).unwrap();
        (purged, self.counted.reads() - before)
    }

    fn left(&self) -> usize {
        list_revocations(&self.counted).unwrap().len()
    }

    fn ends(&self) -> usize {
        self.counted.read(|view| view.list::<Reverse>(&ReverseKey::ends()).unwrap().len()).unwrap()
    }

    fn last(&self) -> Option<LastMarks> {
        self.counted.read(|view| LastMarks::of(view).unwrap()).unwrap()
    }
}

/// The mark of token number `n`. The keys of marks are not in the order of these numbers.
fn mark(n: u64) -> Revoked {
    Revoked::Token(u128::from(n).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835).to_be_bytes())
}

#[test]
fn a_purge_reads_no_mark_that_stays() {
    let reads = [100, 2_000].map(|n| {
        let world = World::new();
        assert_eq!(world.purge(1).0, 0);
        world.revoke(0..n, 100_000);
        world.revoke(n..n + 300, 1_000);
        let (nothing, idle) = world.purge(900);
        let (purged, reads) = world.purge(1_001);
        assert_eq!((nothing, purged, world.left(), world.ends()), (0, 300, n as usize, n as usize));
        (idle, reads)
    });
    let [(idle, few), (_, many)] = reads;
    assert_eq!(reads[0], reads[1], "of 100 and of 2,000 marks");
    assert!(idle < 50 && few == many && few < 300 * 12 + 100, "records read: idle {idle}, busy {few}");
}

#[test]
fn a_mark_that_is_set_again_stays_as_long_as_the_later_one_says() {
    let world = World::new();
    world.purge(1);
    world.revoke(0..10, 1_000);
    world.revoke(0..5, 5_000);
    // The second mark of a token has an earlier end than its first mark.
    world.revoke(5..6, 500);
    assert_eq!((world.left(), world.ends()), (10, 10));
    assert_eq!((world.purge(1_001).0, world.left(), world.ends()), (5, 5, 5));
    assert_eq!((world.purge(5_001).0, world.left(), world.ends()), (5, 0, 0));
}

/// Tests marks in the older format, which has no index of marks by their end.
#[test]
fn marks_of_older_formats_are_taken_in_once_and_purged_in_their_turn() {
    for in_between in [0, 1, 700] {
        let world = World::new();
        world.revoke(0..600, 1_000);
        world.revoke(600..1_000, 100_000);
        let user = Revoked::User(UserId::from_bytes([7; 16]));
        revoke(&world.change_context(0), &[user], None, "a user").unwrap();
        let mut older =
            Change::new(AuditRecord { who: "t".into(), what: "t".into(), unix_seconds: 0, request: None });
        older.delete::<Revocation>(&Revoked::Last);
        let ends = world.counted.read(|view| view.list::<Reverse>(&ReverseKey::ends()).unwrap()).unwrap();
        // This program has set the first marks with their index, and has not indexed the older marks yet.
        ends.iter().skip(in_between).for_each(|(key, _)| _ = older.delete::<Reverse>(key));
        world.counted.commit(&older).unwrap();
        assert_eq!((world.left(), world.ends(), world.last()), (1_001, in_between, None));

        let (nothing, reads) = world.purge(10);
        assert!(nothing == 0 && reads > 1_000, "{reads}");
        assert_eq!(world.ends(), 1_001);
        let last = world.last().unwrap();
        assert!(last.is_complete);
        let marks = list_revocations(&world.counted).unwrap();
        let newest = marks.iter().map(|row| row.revocation.issued_before).max().unwrap();
        assert_eq!((last.of_any, last.of_time), (newest, newest));
        let (nothing, reads) = world.purge(20);
        assert!(nothing == 0 && reads < 50, "{reads}");
        // A purge counts only the time that has passed since the first purge.
        assert_eq!((world.purge(1_011).0, world.left(), world.ends()), (600, 401, 401));
    }
}

/// Tests a store in which a purge was killed between two of its batches.
#[test]
fn a_mark_without_its_record_is_no_trouble() {
    let world = World::new();
    world.purge(1);
    world.revoke(0..20, 1_000);
    let mut change =
        Change::new(AuditRecord { who: "t".into(), what: "t".into(), unix_seconds: 0, request: None });
    (0..5).for_each(|n| _ = change.delete::<Revocation>(&mark(n)));
    world.counted.commit(&change).unwrap();
    assert_eq!((world.purge(1_001).0, world.left(), world.ends()), (20, 0, 0));
    let ended = |_: ReverseKey, _: Reverse| ControlFlow::Continue(());
    world.counted.read(|view| view.scan::<Reverse>(&[], ended).unwrap()).unwrap();
}

#[test]
fn a_purge_does_not_take_back_what_another_one_noted_meanwhile() {
    let world = World::new();
    world.revoke(0..1, 10);
    world.purge(0);
    let now = Clocks { unix_seconds: START + 20, tick_millis: 20_000, mirror: MirrorHealth::Current };
    let further = move |ctx: &ChangeContext<'_>| {
        let passed = ctx.facts.read(|view| Passed::by(view, now).unwrap().purging(START + 10));
        let audit = AuditRecord {
            who: "another".into(),
            what: "purge".into(),
            unix_seconds: START + 20,
            request: None,
        };
        ctx.facts.commit(Change::new(audit).put_passed(passed.unwrap())).unwrap();
    };
    world.counted.before_next_commit(now, further);
    world.purge(5);
    let row = world.counted.read(|view| view.get::<Revocation>(&Revoked::Passed)).unwrap().unwrap();
    assert_eq!(row.map(|row| row.issued_before), Some(START + 10));
}
