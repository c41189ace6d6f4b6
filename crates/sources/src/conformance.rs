//! The tests that every source must pass. The unit tests of each source run this suite. A failure panics.

#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a test suite: it fails by panicking")]

use enfilade_facts::codec;
use enfilade_facts::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use enfilade_facts::tables::{
    Credential, Datastore, Domain, Key, Member, Membership, MembershipKey, Name, NameKey, Region, RegionId,
    Verifier,
};
use enfilade_facts::vocabulary::{CredentialId, DatastoreName, DomainId, GroupId, UserId};
use enfilade_facts::{
    After, At, AuditRecord, Change, CommitError, Read, Revision, Source, SourceError, Table, View,
};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Runs the whole suite, each part on an empty source of its own.
pub fn all(make: impl Fn() -> Box<dyn Source>) {
    for part in [
        put_get_delete,
        scans_are_ordered_and_stay_in_their_table_and_prefix,
        a_change_is_made_whole_or_not_at_all,
        expectations,
        revisions_grow_and_a_view_is_one_revision,
        what_changes_nothing_is_no_commit,
        a_change_made_inside_a_view_does_not_disturb_it,
        a_change_is_seen_before_its_commit,
        what_is_too_large_is_refused,
        keys_no_store_can_hold_are_just_not_there,
        some_record_is_near_every_key_unless_there_is_none,
        parts_and_pages_are_together_the_whole,
        changes_from_many_threads_are_all_made,
        changes_in_order_see_those_before_them,
    ] {
        part(&*make());
    }
}

fn changes_in_order_see_those_before_them(source: &dyn Source) {
    let before = source.at().revision;
    let after = |n: u64| Revision(before.0 + n);
    let add = |n: u8, since: Revision| {
        let mut change = change();
        change.put(&id(n), &domain("a"));
        change.only_after(since);
        change
    };
    // The third change expects a revision that does not exist yet.
    let changes = [add(1, after(0)), add(2, after(1)), add(3, after(5)), add(4, after(2))];
    let done = source.commit_each(&changes);
    let revisions: Vec<_> = done.iter().map(|done| done.as_ref().ok().map(|at| at.revision)).collect();
    assert_eq!(revisions, [Some(after(1)), Some(after(2)), None, Some(after(3))]);
    assert!(matches!(done.get(2), Some(Err(CommitError::Conflict { .. }))), "{done:?}");
    let there = |n: u8| source.read(|view| view.get::<Domain>(&id(n)).unwrap().is_some()).unwrap();
    assert_eq!([1, 2, 3, 4].map(there), [true, true, false, true]);
    assert!(source.commit_each(&[]).is_empty());
}

/// An empty change.
pub fn change() -> Change {
    Change::new(AuditRecord { who: "a test".into(), what: "test".into(), unix_seconds: 0, request: None })
}

fn domain(name: &str) -> Domain {
    Domain::new(name.parse().unwrap())
}

fn id(n: u8) -> DomainId {
    DomainId::from_bytes([n; 16])
}

fn put(source: &dyn Source, n: u8, name: &str) -> At {
    source.commit(change().put(&id(n), &domain(name))).unwrap()
}

fn get(source: &dyn Source, n: u8) -> Option<Domain> {
    source.read(|view| view.get::<Domain>(&id(n))).unwrap().unwrap()
}

fn put_get_delete(source: &dyn Source) {
    assert_eq!(get(source, 1), None);
    put(source, 1, "first");
    assert_eq!(get(source, 1), Some(domain("first")));
    put(source, 1, "second");
    assert_eq!(get(source, 1), Some(domain("second")));
    source.commit(change().delete::<Domain>(&id(1))).unwrap();
    assert_eq!(get(source, 1), None);
    source.commit(change().delete::<Domain>(&id(1))).unwrap();
}

fn scans_are_ordered_and_stay_in_their_table_and_prefix(source: &dyn Source) {
    let user = |n| Member::User(UserId::from_bytes([n; 16]));
    let key = |n, g| MembershipKey { member: user(n), group: GroupId::from_bytes([g; 16]) };
    let mut memberships = change();
    for (n, g) in [(2, 9), (1, 3), (1, 1), (1, 2), (3, 0)] {
        memberships.put(&key(n, g), &Membership);
    }
    memberships.put(&id(1), &domain("other"));
    source.commit(&memberships).unwrap();
    let list = |view: &View<'_>, prefix: &[u8]| -> Vec<MembershipKey> {
        view.list::<Membership>(prefix).unwrap().into_iter().map(|(key, _)| key).collect()
    };
    source
        .read(|view| {
            assert_eq!(list(view, &user(1).prefix()), [key(1, 1), key(1, 2), key(1, 3)]);
            assert_eq!(list(view, &[]).len(), 5);
            assert!(list(view, &user(7).prefix()).is_empty());
            assert!(view.any::<Membership>(&user(2).prefix()).unwrap());
            assert!(!view.any::<Membership>(&user(7).prefix()).unwrap());
            let mut seen = 0;
            view.scan::<Membership>(&[], |_, _| {
                seen += 1;
                ControlFlow::Break(())
            })
            .unwrap();
            assert_eq!(seen, 1);
        })
        .unwrap();
}

fn a_change_is_made_whole_or_not_at_all(source: &dyn Source) {
    put(source, 1, "first");
    let before = source.at();
    let mut wrong = change();
    wrong.put(&id(2), &domain("second")).delete::<Domain>(&id(1)).expect_absent::<Domain>(&id(1));
    assert!(matches!(source.commit(&wrong), Err(CommitError::Conflict { table: Table::Domains, .. })));
    assert_eq!((get(source, 1), get(source, 2)), (Some(domain("first")), None));
    assert_eq!(source.at(), before);
}

fn expectations(source: &dyn Source) {
    let first = domain("first");
    let commit = |change: &mut Change| source.commit(change.put(&id(9), &domain("done"))).is_ok();
    assert!(commit(change().expect_absent::<Domain>(&id(1))));
    assert!(!commit(change().expect_present::<Domain>(&id(1))));
    assert!(!commit(change().expect_same(&id(1), &first)));
    assert!(commit(change().expect_unchanged::<Domain>(&id(1), None)));
    put(source, 1, "first");
    assert!(!commit(change().expect_absent::<Domain>(&id(1))));
    assert!(commit(change().expect_present::<Domain>(&id(1))));
    assert!(commit(change().expect_same(&id(1), &first)));
    assert!(!commit(change().expect_same(&id(1), &domain("second"))));
    assert!(!commit(change().expect_unchanged::<Domain>(&id(1), None)));
    let written = || source.read(|view| view.revision_of::<Domain>(&id(1))).unwrap().unwrap().unwrap();
    let revision = written();
    assert!(commit(change().expect_revision::<Domain>(&id(1), revision)));
    put(source, 1, "first");
    assert!(revision < written());
    assert!(!commit(change().expect_revision::<Domain>(&id(1), revision)));
    assert!(!commit(change().expect_revision::<Domain>(&id(7), revision)));
}

fn revisions_grow_and_a_view_is_one_revision(source: &dyn Source) {
    let first = put(source, 1, "first");
    assert_eq!(source.at(), first);
    let second = put(source, 1, "second");
    assert!(second.revision > first.revision && second.store == first.store);
    assert_eq!(source.commit(&change()).unwrap(), second);
    source
        .read(|view| {
            assert_eq!(view.at(), second);
            // Another writer commits while the view is open.
            std::thread::scope(|scope| {
                scope.spawn(|| put(source, 1, "third")).join().unwrap();
            });
            assert_eq!(view.at(), second);
            assert_eq!(view.get::<Domain>(&id(1)).unwrap(), Some(domain("second")));
        })
        .unwrap();
    assert_eq!(get(source, 1), Some(domain("third")));
    assert_eq!(source.read(|view| view.at()).unwrap(), source.at());
}

fn what_changes_nothing_is_no_commit(source: &dyn Source) {
    let first = put(source, 1, "first");
    assert_eq!(source.commit(&change()).unwrap(), first);
    assert_eq!(source.commit(change().expect_present::<Domain>(&id(1))).unwrap(), first);
    assert!(source.commit(change().expect_absent::<Domain>(&id(1))).is_err());
    // The deletion of a missing record changes nothing, so it creates no revision.
    assert_eq!(source.commit(change().delete::<Domain>(&id(7))).unwrap(), first);
    assert_eq!(source.at(), first);
    // A put creates a revision even if the record already has this value, because the record gets the new revision.
    let second = put(source, 1, "first");
    assert!(first.revision < second.revision && source.at() == second);
}

fn a_change_made_inside_a_view_does_not_disturb_it(source: &dyn Source) {
    let first = put(source, 1, "first");
    let second = source.read(|view| {
        let second = put(source, 1, "second");
        assert_eq!((view.at(), view.get::<Domain>(&id(1)).unwrap()), (first, Some(domain("first"))));
        second
    });
    assert_eq!((source.at(), get(source, 1)), (second.unwrap(), Some(domain("second"))));
}

fn a_change_is_seen_before_its_commit(source: &dyn Source) {
    for (n, name) in [(2, "second"), (4, "fourth"), (6, "sixth"), (8, "eighth")] {
        put(source, n, name);
    }
    let mut next = change();
    next.put(&id(1), &domain("first")).delete::<Domain>(&id(2)).put(&id(4), &domain("new"));
    next.put(&id(5), &domain("fifth")).delete::<Domain>(&id(8)).delete::<Domain>(&id(9));
    let seen = |view: &View<'_>| {
        let near = |n| view.any_near::<Domain>(&id(n)).unwrap();
        let first = |count: usize| {
            let mut found = Vec::new();
            view.scan::<Domain>(&[], |key, _| {
                found.push(key);
                if found.len() < count { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })
            .unwrap();
            found
        };
        let some: Vec<_> = (1..=5).map(first).collect();
        (view.at(), view.list::<Domain>(&[]).unwrap(), (0..=9).map(near).collect::<Vec<_>>(), some)
    };
    let before = source.read(seen).unwrap();
    let tried = source.read(|view| seen(&After::of(view, &next).unwrap().view())).unwrap();
    assert_eq!(source.read(seen).unwrap(), before);
    source.commit(&next).unwrap();
    assert_eq!(source.read(seen).unwrap(), tried);
    // If a commit of a change would fail, `After::of` fails, too.
    let refused = |view: &View<'_>| After::of(view, change().expect_absent::<Domain>(&id(1))).err();
    assert!(matches!(source.read(refused).unwrap(), Some(CommitError::Conflict { .. })));
}

fn keys_no_store_can_hold_are_just_not_there(source: &dyn Source) {
    let long = RegionId("x".repeat(KEY_BYTES_MAX + 1));
    assert_eq!(source.read(|view| view.get::<Region>(&long)).unwrap(), Ok(None));
    assert_eq!(source.read(|view| view.any::<Region>(&vec![1; KEY_BYTES_MAX + 1])).unwrap(), Ok(false));
    let why = source.commit(change().expect_absent::<Region>(&long).put(&id(1), &domain("first")));
    assert!(matches!(why, Err(CommitError::TooLarge { what: "key", .. })), "{why:?}");
}

fn some_record_is_near_every_key_unless_there_is_none(source: &dyn Source) {
    let near = |n| source.read(|view| view.any_near::<Domain>(&id(n))).unwrap().unwrap().map(|(_, row)| row);
    source.commit(change().put(&NameKey::domain(&"x1".parse().unwrap()), &Name::new([9; 16], "x1"))).unwrap();
    assert_eq!(near(1), None);
    put(source, 3, "three");
    put(source, 5, "five");
    let names = [1, 3, 4, 5, 6].map(|n| near(n).unwrap().name.as_str().to_owned());
    assert_eq!(names, ["three", "three", "five", "five", "three"]);
}

fn region() -> Region {
    Region { description: None, parent: None }
}

/// The records include keys of the greatest length, and groups of several records.
fn parts_and_pages_are_together_the_whole(source: &dyn Source) {
    let mut many = change();
    for n in 0..9_u8 {
        for text in ["x", "y", "z"] {
            many.put(&NameKey::user(&id(n), text), &Name::new([n; 16], text));
        }
        for length in [KEY_BYTES_MAX, KEY_BYTES_MAX - 1] {
            many.put(&RegionId(n.to_string().repeat(length)), &region());
        }
        let member = Member::User(UserId::from_bytes([n; 16]));
        for group in 0..n {
            many.put(&MembershipKey { member, group: GroupId::from_bytes([group; 16]) }, &Membership);
        }
    }
    source.commit(&many).unwrap();
    for table in Table::of_facts() {
        let mut whole = Vec::new();
        let scanned = source.read(|view| {
            view.scan_values(table, &[], &mut |key, value| {
                whole.push((key.to_vec(), value.to_vec()));
                Ok(ControlFlow::Continue(()))
            })
        });
        scanned.unwrap().unwrap();
        for groups in [1, 2, 3, 100] {
            let (mut parts, mut after, mut most) = (Vec::new(), None, 0);
            loop {
                let mut seen = BTreeSet::new();
                let part = source.read(|view| {
                    view.part(table, after.as_deref(), groups, |key, stored| {
                        seen.insert(table.group(key).to_vec());
                        parts.push((key.to_vec(), codec::open(table, key, stored)?.1.to_vec()));
                        Ok::<_, SourceError>(())
                    })
                });
                after = part.unwrap().unwrap();
                most = most.max(seen.len());
                if after.is_none() {
                    break;
                }
            }
            assert_eq!(parts, whole, "{table:?}, read in parts of {groups} groups");
            assert!(most <= groups, "a part has {most} groups, and the limit is {groups}");
        }
    }
    // Pages with one record each also yield all names.
    let (mut names, mut after) = (0, None);
    loop {
        let page = source.read(|view| {
            let mut next = None;
            let paged = view.page::<Name>(&[], after.as_deref(), |key, _| {
                next = Some(key.bytes());
                ControlFlow::Break(())
            });
            paged.map(|()| next)
        });
        after = page.unwrap().unwrap();
        if after.is_none() {
            break;
        }
        names += 1;
    }
    assert_eq!(names, 27);
}

fn what_is_too_large_is_refused(source: &dyn Source) {
    let long = RegionId("x".repeat(KEY_BYTES_MAX + 1));
    let why = source.commit(change().put(&long, &region()));
    assert!(matches!(why, Err(CommitError::TooLarge { what: "key", .. })), "{why:?}");
    let fits = RegionId("x".repeat(KEY_BYTES_MAX));
    source.commit(change().put(&fits, &region())).unwrap();
    assert_eq!(source.read(|view| view.get::<Region>(&fits)).unwrap().unwrap(), Some(region()));
    let large = Credential {
        owner: UserId::from_bytes([1; 16]),
        name: "t".parse().unwrap(),
        verifier: Verifier::Crypt("x".repeat(VALUE_BYTES_MAX)),
        previous: None,
        enabled: true,
        expires: 0,
        created: 0,
        comment: None,
        own_roles: false,
        mirrored: None,
        link: None,
    };
    let why = source.commit(change().put(&CredentialId::from_bytes([1; 16]), &large));
    assert!(matches!(why, Err(CommitError::TooLarge { what: "value", .. })), "{why:?}");
}

fn changes_from_many_threads_are_all_made(source: &dyn Source) {
    std::thread::scope(|scope| {
        let commit = |n: u8| {
            for round in 0..25u8 {
                let id = DomainId::from_bytes([n, round, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
                source.commit(change().put(&id, &domain("x1"))).unwrap();
            }
        };
        let threads: Vec<_> = (1..=4).map(|n| scope.spawn(move || commit(n))).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    assert_eq!(source.read(|view| view.list::<Domain>(&[])).unwrap().unwrap().len(), 100);
    let head = source.read(|view| view.head()).unwrap().unwrap();
    assert_eq!(head.revision.0, 100, "{head:?}");
}

fn something() -> (DatastoreName, Datastore) {
    let datastore = Datastore {
        path: "/something".into(),
        other: vec![("gc-schedule".into(), "daily".into())],
        ..Datastore::default()
    };
    ("tank".parse().unwrap(), datastore)
}

/// Puts one record.
pub fn put_something(source: &dyn Source) -> At {
    let (name, datastore) = something();
    source.commit(change().put(&name, &datastore)).unwrap()
}

/// Asserts that the record of [`put_something`] exists.
pub fn something_is_there(source: &dyn Source) {
    let (name, datastore) = something();
    assert_eq!(source.read(|view| view.get::<Datastore>(&name)).unwrap().unwrap(), Some(datastore));
}

/// Asserts that the record of [`put_something`] counts as damaged, and can neither be read nor compared.
pub fn something_is_refused(source: &dyn Source) {
    let (name, _) = something();
    let read = source.read(|view| view.get::<Datastore>(&name)).unwrap();
    assert!(matches!(read, Err(SourceError::Damaged { table: Table::Datastores, .. })), "{read:?}");
    let listed = source.read(|view| view.list::<Datastore>(&[])).unwrap();
    assert!(listed.is_err(), "{listed:?}");
    let (name, datastore) = something();
    let same = source.commit(change().expect_same(&name, &datastore).put(&name, &datastore));
    assert!(matches!(same, Err(CommitError::Source(SourceError::Damaged { .. }))), "{same:?}");
}
