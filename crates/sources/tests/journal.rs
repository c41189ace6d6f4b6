//! Tests of single commits: every key is written once, revocations do not change the size of the table of tallies, and texts that are too long for
//! the change log are cut. Also tests which changes count as only taking rights away.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use enfilade_facts::codec::{self, Writer};
use enfilade_facts::journal::{Write, effect_of};
use enfilade_facts::limits::LOG_TEXT_BYTES_MAX;
use enfilade_facts::tables::{
    Assignment, AssignmentKey, Domain, Group, Key, LogEntry, Reverse, ReverseKey, Revocation, Revoked, Row,
    Who,
};
use enfilade_facts::vocabulary::{DomainId, GroupId, Role, Sid};
use enfilade_facts::{AuditRecord, Change, Effect, Read, Revision, Source, StoreId, Table};
use enfilade_sources::check::check;
use enfilade_sources::memory::Memory;
use std::ops::ControlFlow;

fn change(who: &str) -> Change {
    Change::new(AuditRecord { who: who.into(), what: "test".into(), unix_seconds: 5, request: None })
}

#[test]
fn a_mark_that_is_taken_away_and_made_in_one_change_is_counted_once() {
    let facts = Memory::new(StoreId(1));
    let [mark, other] = [1, 2].map(|n| Revoked::Token([n; 16]));
    facts.commit(change("a").end_until(mark, 100).end_until(other, 100)).unwrap();
    let row = facts.read(|view| view.get::<Revocation>(&mark)).unwrap().unwrap().unwrap();
    facts.commit(change("b").purge(&mark, &row).end_until(mark, row.until + 7)).unwrap();
    let until = facts.read(|view| view.get::<Revocation>(&mark)).unwrap().unwrap().unwrap().until;
    let is_there = |until| {
        facts.read(|view| view.get::<Reverse>(&ReverseKey::Ends(until, mark))).unwrap().unwrap().is_some()
    };
    assert_eq!((is_there(row.until), is_there(until)), (false, true));
    let checked = facts.snapshot(|snapshot| check(snapshot, &mut |_, _| ())).unwrap();
    assert_eq!(checked.problems, Vec::<String>::new());
}

/// Almost every lookup reads a tally. So the B-tree of the tallies must not get deeper when there are more revocations.
#[test]
fn revocations_do_not_make_the_table_of_tallies_larger() {
    let facts = Memory::new(StoreId(1));
    let mut first = change("a");
    first.put(&DomainId::from_bytes([7; 16]), &Domain::new("x".parse().unwrap()));
    facts.commit(&first).unwrap();
    let rows = |table| {
        let mut rows = 0;
        let mut count = |_: &[u8], _: &[u8]| {
            rows += 1;
            ControlFlow::Continue(())
        };
        facts.snapshot(|snapshot| snapshot.scan(table, &[], &mut count)).unwrap();
        rows
    };
    let before = rows(Table::Tallies);
    for n in 0..100 {
        facts.commit(change("a").end_until(Revoked::Token([n; 16]), 100)).unwrap();
    }
    assert_eq!(rows(Table::Tallies), before);
    assert!(200 <= rows(Table::RevocationTallies));
}

#[test]
fn a_long_text_is_cut_before_it_is_logged() {
    let facts = Memory::new(StoreId(1));
    for (letter, count) in [("a", 90_000), ("\u{10ffff}", 9_000), ("a", 3)] {
        let id = DomainId::from_bytes([7; 16]);
        let mut change = change(&letter.repeat(count));
        let at = facts.commit(change.put(&id, &Domain::new(format!("x{count}").parse().unwrap()))).unwrap();
        let entry = facts.read(|view| view.get::<LogEntry>(&at.revision)).unwrap().unwrap().unwrap();
        let whole = letter.repeat(count);
        match whole.len() <= LOG_TEXT_BYTES_MAX {
            true => assert_eq!(entry.who, whole),
            false => assert_eq!(entry.who, format!("{}…", letter.repeat(LOG_TEXT_BYTES_MAX / letter.len()))),
        }
    }
}

#[test]
fn what_keeps_out_goes_with_the_one_it_keeps_out() {
    let [here, gone, new] = [1, 2, 3].map(|n| GroupId::from_bytes([n; 16]));
    let key = |who| AssignmentKey { path: "/datastore/tank".parse().unwrap(), who };
    let (no_access, reader) = (Role::NoAccess, Role::DatastoreReader);
    let row = |role| Assignment { roles: vec![(role, true)], fault: None };
    // Before the change, the groups `here` and `gone` exist, and the group `new` does not exist. All three have the role `NoAccess`.
    let facts = Memory::new(StoreId(1));
    let group = |id: GroupId| Write { table: Table::Groups, key: id.bytes().to_vec(), stored: None };
    let mut first = change("a");
    for id in [here, gone, new] {
        first.put(&key(Who::Group(id)), &row(no_access));
    }
    for id in [here, gone] {
        let name = format!("group-{}", id.bytes()[0]);
        let domain = DomainId::from_bytes([1; 16]);
        let sid = Sid::of_store([1, 2, 3], 1_000);
        first.put(&id, &Group { domain, name, sid, also: vec![], gid: None, comment: None });
    }
    facts.commit(&first).unwrap();

    let taken =
        |who: GroupId| Write { table: Table::Assignments, key: key(Who::Group(who)).bytes(), stored: None };
    let sealed = |table, key: Vec<u8>, bytes: &[u8]| Write {
        table,
        stored: Some(codec::seal(table, &key, Revision(2), bytes)),
        key,
    };
    let given = |who: GroupId| {
        let mut bytes = Writer::default();
        row(reader).encode(&mut bytes);
        sealed(Table::Assignments, key(Who::Group(who)).bytes(), &bytes.into_bytes())
    };
    let made = |id: GroupId| sealed(Table::Groups, id.bytes().to_vec(), b"");
    let tally = Write { table: Table::Tallies, key: b"any".to_vec(), stored: Some(b"any".to_vec()) };
    for (what, writes, expected) in [
        ("nothing", vec![], true),
        ("a group", vec![group(gone)], true),
        ("NoAccess of an existing group", vec![taken(here)], false),
        ("NoAccess of a group that is deleted, too", vec![taken(gone), group(gone)], true),
        ("NoAccess of one group, and another group is deleted", vec![taken(here), group(gone)], false),
        ("NoAccess of a group that does not exist", vec![taken(new)], true),
        ("NoAccess of a group that is created", vec![taken(new), made(new)], false),
        ("a role in the place of NoAccess", vec![given(gone)], false),
        ("a role for a group that is deleted", vec![given(gone), group(gone)], false),
        ("only a tally", vec![tally.clone()], true),
        ("a tally, and a role", vec![tally, given(here)], false),
    ] {
        let effect = facts.snapshot(|snapshot| effect_of(snapshot, &writes)).unwrap();
        assert_eq!(effect == Effect::Takes, expected, "{what}");
    }
}
