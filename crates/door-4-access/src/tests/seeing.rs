//! Tests of listings and decisions, on random facts and ACLs. A listing must agree with the decisions about its entries.

use super::{
    Facts, NOW, OTHERS, STAFF, TEST, acl, alice, case, case_with, everything, group_sid, memo, own_sid, path,
    subject, token_of_alice,
};
use crate::ask::{Ask, NodeKind, ObjectId, States, StoredAcl, Subject, Version, Wanted};
use crate::explain::{judge, rights};
use crate::memo::AccessMemo;
use crate::open::{AccessCheck, would};
use crate::reference;
use crate::security_descriptor::{Ace, AceFlags, AceType, SecurityDescriptor};
use crate::sight::Sight;
use enfilade_facts::limits::PATH_BYTES_MAX;
use enfilade_facts::memo::KeyMaker;
use enfilade_facts::tables::{AccessRules, Who};
use enfilade_facts::vocabulary::{AccessMask, AclDialect, Role, Sid, StorePath, UserId};
use enfilade_facts::{MemoSeed, Refuse, View};
use enfilade_identity::{Principal, SetId, SidSet};
use proptest::prelude::*;
use std::collections::HashSet;

const NAMES: [&str; 5] = ["a", "b", "c", ".enfilade-upload", "d"];
const NODES: [&str; 8] = [
    "/",
    "/datastore",
    "/datastore/tank",
    "/datastore/tank/dir",
    "/datastore/tank/dir/a",
    "/datastore/tank/dir/b",
    "/datastore/tank/dir/b/deeper",
    "/datastore/tank/dira",
];

type Row = (usize, Who, Vec<(Role, bool)>);

fn any_rows() -> impl Strategy<Value = Vec<Row>> {
    let named = |text: &str| Just(Who::Named(text.parse().unwrap()));
    let who = prop_oneof![
        3 => Just(Who::User(alice().user)),
        1 => Just(Who::User(UserId::from_bytes([9; 16]))),
        4 => Just(Who::Group(STAFF)),
        1 => Just(Who::Group(OTHERS)),
        3 => Just(Who::Token(TEST)),
        2 => named("alice@local"),
        2 => named("@staff"),
        2 => named("alice@local!test"),
        1 => named("alice@local!other"),
        1 => named("@others"),
    ];
    let role = (0..Role::ALL.len()).prop_map(|index| Role::ALL[index]);
    let roles = proptest::collection::vec((role, any::<bool>()), 1..3);
    proptest::collection::vec((0..NODES.len(), who, roles), 0..6)
}

fn any_subject() -> impl Strategy<Value = Subject> {
    let sid = prop_oneof![
        Just(own_sid()),
        Just(group_sid()),
        Just(Sid::EVERYONE),
        Just(Sid::OWNER_RIGHTS),
        Just(Sid::of_store([1, 2, 3], 4)),
    ];
    let kind = prop_oneof![3 => Just(AceType::Allow), 1 => Just(AceType::Deny)];
    let mask =
        prop_oneof![Just(AccessMask::ALL), Just(AccessMask::READ), (0u32..0x20_0000).prop_map(AccessMask)];
    let flags = prop_oneof![3 => Just(AceFlags(0)), 1 => Just(AceFlags(0xb))];
    let ace =
        (kind, mask, flags, sid.clone()).prop_map(|(kind, mask, flags, sid)| Ace { kind, flags, mask, sid });
    let descriptor =
        (proptest::option::of(sid), proptest::collection::vec(ace, 0..4)).prop_map(|(owner, dacl)| {
            SecurityDescriptor { owner, dacl: Some(dacl), ..SecurityDescriptor::default() }
                .to_ntacl()
                .unwrap()
        });
    let acl = prop_oneof![
        6 => descriptor.prop_map(StoredAcl::Ntacl),
        1 => Just(StoredAcl::Absent),
        1 => Just(StoredAcl::Ntacl(vec![1, 0, 1, 0])),
        1 => Just(StoredAcl::Unreadable("EIO".into())),
    ];
    let kind = prop_oneof![Just(NodeKind::File), Just(NodeKind::Directory)];
    let ids = prop_oneof![Just((100, 0)), Just((0, 50)), Just((0, 0))];
    (kind, acl, 0u32..0o1000, ids).prop_map(|(kind, acl, mode, (uid, gid))| Subject {
        uid,
        gid,
        mode,
        ..subject(kind, acl)
    })
}

fn facts(rows: &[Row]) -> Facts {
    let mut facts = Facts::of("");
    for (node, who, roles) in rows {
        facts.assign(NODES[*node], who.clone(), roles);
    }
    facts
}

/// The rows that count. If two rows have the same node and grantee, only the later row counts.
fn kept(rows: &[Row]) -> Vec<reference::Row<'static>> {
    let last = |index: usize| {
        !rows[index + 1..].iter().any(|row| (row.0, &row.1) == (rows[index].0, &rows[index].1))
    };
    let kept = (0..rows.len()).filter(|index| last(*index));
    kept.map(|index| (NODES[rows[index].0], rows[index].1.clone(), rows[index].2.clone())).collect()
}

/// A principal sees the same with a memo that all principals share, and with a memo that no other principal uses.
#[test]
fn what_is_known_of_somebody_serves_nobody_else() {
    let nobody =
        SecurityDescriptor { dacl: Some(vec![]), ..SecurityDescriptor::default() }.to_ntacl().unwrap();
    let acls = [
        everything(),
        acl(&["allow staff read"]),
        acl(&["allow alice read-attributes"]),
        StoredAcl::Ntacl(nobody),
        StoredAcl::Absent,
    ];
    let read: Vec<Subject> = (1..)
        .zip(acls)
        .map(|(inode, acl)| Subject {
            object: ObjectId { device: 1, inode },
            version: Some(Version::Stamped {
                acls: AclDialect::Ntacl,
                file_system: 1,
                clock: 0,
                changed: (7, 1),
            }),
            ..subject(NodeKind::File, acl)
        })
        .collect();
    let unread: Vec<Subject> =
        read.iter().map(|subject| Subject { acl: StoredAcl::Unread, ..subject.clone() }).collect();
    let shared = AccessMemo::new(MemoSeed([7; 16]), 1 << 20);
    let bob = Principal { set: SetId(2), sids: SidSet::new(vec![Sid::EVERYONE]), uid: Some(0), ..alice() };
    let roles = ["DatastoreReader", "DatastoreAdmin", "DatastoreAudit", "NoAccess"];
    let mut told = std::collections::BTreeSet::new();
    for (n, role) in (1..).zip(roles) {
        let facts = Facts::of(&format!("/datastore/tank alice {role}")).in_store(n);
        for (who, visible) in [
            (alice(), AccessMask::VISIBLE),
            (alice(), AccessMask::READ_ATTRIBUTES),
            (bob.clone(), AccessMask::VISIBLE),
        ] {
            let see = |subjects: &[Subject], memo: &AccessMemo| {
                let children: Vec<(&str, &Subject)> =
                    ["a", "b", "c", "d", "e"].into_iter().zip(subjects).collect();
                case_with(&facts, &who, memo, |case| {
                    AccessCheck { visible, view: crate::view::View(case.view.0), ..*case }
                        .see(&path("dir"), &children)
                })
                .unwrap()
            };
            let expected = see(&read, &memo());
            for round in 0..3 {
                assert_eq!(see(&unread, &shared).contains(&Sight::Unread), told.is_empty(), "{role} {round}");
                assert_eq!(see(&read, &shared), expected);
                told.insert(format!("{expected:?}"));
                assert_eq!(see(&unread, &shared), expected, "{role} {visible:?} {round}");
            }
        }
    }
    assert!(told.len() >= 5, "they see different things: {told:?}");
}

#[test]
fn each_principal_gets_its_own_ways() {
    let facts = Facts::of("/datastore/tank/a alice DatastoreReader\n/datastore/tank/b bob DatastoreReader");
    let memo = super::memo();
    let bob = Principal { user: super::BOB, groups: Vec::new(), set: SetId(2), ..alice() };
    for round in 0..2 {
        for (principal, end) in [(alice(), "a"), (bob.clone(), "b")] {
            let ways = case_with(&facts, &principal, &memo, |check| check.ways(&path("")).unwrap());
            assert_eq!(ways.ends, [path(end)], "round {round}");
        }
    }
}

/// The kernel watches the object, and reported no change. But the mode of the object is not part of its state, and an ACL that could not be read can
/// become readable later. So the server reads the mode and the ACL each time if the object has no ACL, or if its ACL could not be read. If the server
/// could read the ACL, the server remembers the ACL.
#[test]
fn what_a_state_does_not_tell_is_read_each_time() {
    let version = Some(Version::Watched { acls: AclDialect::Ntacl, file_system: 1, changes: 3 });
    let (facts, unreadable) = (Facts::of("/ alice DatastorePowerUser"), StoredAcl::Unreadable("EIO".into()));
    for looks in [
        [
            (unreadable, 0o777, Sight::Hidden),
            (StoredAcl::Unread, 0, Sight::Unread),
            (everything(), 0, Sight::Seen),
            (StoredAcl::Unread, 0, Sight::Seen),
        ],
        [
            (StoredAcl::Absent, 0o700, Sight::Hidden),
            (StoredAcl::Unread, 0o777, Sight::Unread),
            (StoredAcl::Absent, 0o777, Sight::Seen),
            (StoredAcl::Unread, 0o777, Sight::Unread),
        ],
    ] {
        let memo = AccessMemo::new(MemoSeed([7; 16]), 1 << 20);
        for (at, (acl, mode, expected)) in looks.into_iter().enumerate() {
            let target = Subject { mode, version, ..subject(NodeKind::File, acl) };
            let seen = case_with(&facts, &alice(), &memo, |case| case.see(&path("dir"), &[("a", &target)]));
            assert_eq!(seen.unwrap(), [expected], "{at}");
        }
    }
}

#[test]
fn an_entry_is_shown_if_a_path_can_lead_to_it() {
    let target = subject(NodeKind::File, everything());
    // The name of an entry in this directory can have at most three bytes. With a longer name, the path would be too long.
    let long: String = (1..=PATH_BYTES_MAX - 4).map(|at| if at % 200 == 0 { '/' } else { 'x' }).collect();
    for (directory, name, expected) in [
        (long.as_str(), "ab", Sight::Seen),
        (&long, "abc", Sight::Seen),
        (&long, "abcd", Sight::Hidden),
        (&long, "abcde", Sight::Hidden),
        ("dir", "abcd", Sight::Seen),
        ("dir", "a\\b", Sight::Hidden),
    ] {
        let facts = Facts::of("/ alice DatastorePowerUser");
        let seen = case(&facts, &alice(), |case| case.see(&path(directory), &[(name, &target)])).unwrap();
        assert_eq!(seen, [expected], "{name}");
    }
}

/// Counts the searches for facts that are needed to judge the entries of a directory and of each directory in it. The memo of this test has room for
/// few entries.
#[test]
fn roles_are_worked_out_once_however_many_directories_have_them() {
    let target = subject(NodeKind::File, everything());
    let searches = |facts: &str, directories: u32| {
        let (facts, memo) = (Facts::of(facts), memo());
        case_with(&facts, &alice(), &memo, |case| {
            let mut spent = [0; 2];
            for round in [0, 1] {
                let before = facts.searches.get();
                for n in 0..directories {
                    let directory = path(&format!("deep/down/d{n}"));
                    assert_eq!(case.see(&directory, &[("a", &target)]).unwrap(), [Sight::Seen]);
                    let file = directory.join("a").unwrap();
                    let ask = Ask { path: &file, target: &target, wanted: Wanted::On(AccessMask::READ) };
                    assert!(case.decide(&ask).is_ok());
                }
                spent[round] = facts.searches.get() - before;
            }
            spent
        })
    };
    let few = searches("/datastore/tank alice DatastoreReader", 10);
    assert_eq!(few, searches("/datastore/tank alice DatastoreReader", 10_000), "the number of searches grew");
    assert_eq!(few[1], 0);
    // If one of the directories has an assignment, the facts are searched for each directory. The nodes above the directories are not read again.
    let elsewhere = "/datastore/tank alice DatastoreReader\n/datastore/tank/deep/down/d7 bob NoAccess";
    let [first, again] = searches(elsewhere, 10_000);
    assert!(first <= 10_000 * 5 && again <= 10_000 * 5, "{first} and {again} searches of 10,000 directories");
}

/// If two objects differ in any part of their states, they have different keys: each object alone, and together with another object in any order.
#[test]
fn no_two_states_are_remembered_as_one() {
    let mut versions = Vec::new();
    for acls in [AclDialect::Ntacl, AclDialect::Nfs4] {
        for file_system in [0, 1] {
            for (clock, nanos) in [(0, 0), (1, 0), (0, 1), (0, 999_999_999)] {
                for seconds in [0, 1, -1, 1 << 32, 1 << 33, -1 << 33, 1 << 34, i64::MAX, i64::MIN] {
                    versions.push(Version::Stamped { acls, file_system, clock, changed: (seconds, nanos) });
                }
            }
            for changes in [0, 1, 2, 1 << 33, 1 << 62] {
                versions.push(Version::Watched { acls, file_system, changes });
            }
        }
    }
    let mut subjects = Vec::new();
    for version in versions {
        for (kind, device, inode) in [
            (NodeKind::File, 1, 7),
            (NodeKind::Directory, 1, 7),
            (NodeKind::File, 2, 7),
            (NodeKind::File, 1, 8),
        ] {
            let object = ObjectId { device, inode };
            subjects.push(Subject { object, version: Some(version), ..subject(kind, StoredAcl::Unread) });
        }
    }
    let key = || KeyMaker::new(&MemoSeed([7; 16]), "step");
    let each: HashSet<_> = subjects.iter().filter_map(|subject| subject.state(key())).collect();
    assert_eq!(each.len(), subjects.len());
    let pair = |one, other| States::new(key()).all([one, other].into_iter()).unwrap();
    let after_first: HashSet<_> = subjects.iter().map(|other| pair(&subjects[0], other)).collect();
    assert_eq!(after_first.len(), subjects.len(), "the key depends on the whole state of the second object");
    let mut of_some = subjects.iter().step_by(7).collect::<Vec<_>>();
    of_some.truncate(60);
    let pairs: HashSet<_> =
        of_some.iter().flat_map(|one| of_some.iter().map(|other| pair(*one, *other))).collect();
    assert_eq!(pairs.len(), of_some.len() * of_some.len());
    let alone: HashSet<_> =
        of_some.iter().map(|one| States::new(key()).all([*one].into_iter()).unwrap()).collect();
    assert!(alone.is_disjoint(&pairs) && alone.len() == of_some.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_listing_shows_what_each_would_show_alone(
        rows in any_rows(),
        subjects in proptest::collection::vec(any_subject(), NAMES.len()),
        in_root in any::<bool>(),
        by_token in any::<bool>(),
    ) {
        let facts = facts(&rows);
        let who = if by_token { token_of_alice() } else { alice() };
        let directory = if in_root { StorePath::root() } else { path("dir") };
        let children: Vec<(&str, &Subject)> = NAMES.into_iter().zip(&subjects).collect();
        let seen = case(&facts, &who, |case| case.see(&directory, &children)).unwrap();
        // The listing and the single requests below share a memo. So the results that the listing remembers must be right for the requests, and the
        // results that the requests remember must be right for the listing.
        let shared = memo();
        let again = case_with(&facts, &who, &shared, |case| case.see(&directory, &children)).unwrap();
        prop_assert_eq!(&again, &seen);
        prop_assert!(!seen.contains(&Sight::Unread));
        let seen: Vec<bool> = seen.into_iter().map(|sight| sight == Sight::Seen).collect();
        for ((name, target), seen) in children.into_iter().zip(seen) {
            let alone = directory.join(name).is_ok_and(|path| {
                let ask = Ask { path: &path, target, wanted: Wanted::On(AccessMask::VISIBLE) };
                let alone = case(&facts, &who, |case| case.decide(&ask));
                assert_eq!(case_with(&facts, &who, &shared, |case| case.decide(&ask)), alone);
                alone.is_ok()
            });
            prop_assert_eq!(seen, alone, "{}", name);
        }
    }

    #[test]
    fn a_state_that_is_known_shows_what_reading_shows(
        rows in any_rows(),
        subjects in proptest::collection::vec(any_subject(), NAMES.len()),
        known in 0_u8..32,
        by_token in any::<bool>(),
    ) {
        let facts = facts(&rows);
        let who = if by_token { token_of_alice() } else { alice() };
        let shared = AccessMemo::new(MemoSeed([7; 16]), 1 << 20);
        let version = Some(Version::Stamped { acls: AclDialect::Ntacl, file_system: 1, clock: 0, changed: (7, 1) });
        let read: Vec<Subject> = (0..).zip(subjects).map(|(inode, subject)| Subject {
            object: ObjectId { device: 1, inode },
            version,
            ..subject
        }).collect();
        let unread: Vec<Subject> =
            read.iter().map(|subject| Subject { acl: StoredAcl::Unread, ..subject.clone() }).collect();
        let other = |subject: &Subject| Subject {
            version: Some(Version::Stamped { acls: AclDialect::Ntacl, file_system: 1, clock: 0, changed: (7, 2) }),
            ..subject.clone()
        };
        let see = |subjects: &[Subject]| {
            let children: Vec<(&str, &Subject)> = NAMES.into_iter().zip(subjects).collect();
            case_with(&facts, &who, &shared, |case| case.see(&path("dir"), &children)).unwrap()
        };
        // Another principal read some of the entries before.
        for (n, subject) in (0..).zip(&read).filter(|(n, _)| known & 1 << n != 0) {
            let bob = Principal { set: SetId(2), sids: SidSet::default(), ..alice() };
            let root = Facts::of("/ alice DatastorePowerUser");
            case_with(&root, &bob, &shared, |case| case.see(&path("dir"), &[(NAMES[n], subject)])).unwrap();
        }
        let first = see(&unread);
        let full = see(&read);
        for (sight, full) in first.iter().zip(&full) {
            prop_assert!(*sight == Sight::Unread || sight == full);
        }
        let now_known = |subject: &Subject| match &subject.acl {
            StoredAcl::Unreadable(_) => false,
            StoredAcl::Ntacl(blob) => blob.len() > 4,
            _ => true,
        };
        for ((sight, full), subject) in see(&unread).iter().zip(&full).zip(&read) {
            prop_assert!(sight == full || (*sight == Sight::Unread && !now_known(subject)));
        }
        // The memo must not use the ACL of one state for another state.
        let changed: Vec<Subject> = unread.iter().map(other).collect();
        for (sight, unknown) in see(&changed).iter().zip(see(&unread.iter().map(|subject| Subject {
            version: None,
            ..subject.clone()
        }).collect::<Vec<_>>())) {
            prop_assert_eq!(*sight, unknown);
        }
    }

    #[test]
    fn what_is_seen_lies_in_a_store_that_admits(rows in any_rows(), target in any_subject(), by_token in any::<bool>()) {
        let facts = facts(&rows);
        let who = if by_token { token_of_alice() } else { alice() };
        let root = path("dir");
        let seen = case(&facts, &who, |case| case.see(&root, &[("a", &target), ("c", &target)])).unwrap();
        let admitted = case(&facts, &who, |case| case.is_admitted()).unwrap();
        prop_assert!(admitted || !seen.contains(&Sight::Seen));
    }

    #[test]
    fn roles_are_those_of_the_plain_rules(rows in any_rows(), at in 0usize..8) {
        let at = ["", "dir", "dir/a", "dir/b/deeper", "dira", "dira/b/c", "dir/b/deeper/d", "e/dir/a"][at];
        let facts = facts(&rows);
        let fast = case(&facts, &alice(), |case| {
            let path = enfilade_facts::vocabulary::RolePath::of(case.datastore, &path(at));
            case.roles(&path).unwrap().roles.clone()
        });
        let full = format!("/datastore/tank/{at}");
        let slow = reference::roles(&kept(&rows), &alice(), full.trim_end_matches('/'));
        prop_assert_eq!(&fast, &slow);
        // With a token that has roles of its own: the token's roles count, but only as far as the owner's roles grant the same rights.
        let (own, by_token, kinds) = case(&facts, &token_of_alice(), |case| {
            let path = enfilade_facts::vocabulary::RolePath::of(case.datastore, &path(at));
            let resolved = case.roles(&path).unwrap();
            let rights = [NodeKind::File, NodeKind::Directory].map(|kind| resolved.rights(kind));
            (resolved.roles.clone(), resolved.of_token.clone().unwrap().roles, rights)
        });
        prop_assert_eq!(&own, &fast);
        prop_assert_eq!(by_token, reference::roles_of_token(&kept(&rows), &token_of_alice(), full.trim_end_matches('/')));
        let of_owner = case(&facts, &alice(), |case| {
            let path = enfilade_facts::vocabulary::RolePath::of(case.datastore, &path(at));
            let resolved = case.roles(&path).unwrap();
            [NodeKind::File, NodeKind::Directory].map(|kind| resolved.rights(kind))
        });
        prop_assert!(of_owner.iter().zip(kinds).all(|(owner, token)| owner.covers(token)));
    }

    #[test]
    fn the_judgement_is_the_decision(rows in any_rows(), target in any_subject(), bits in 0u32..0x20_0000) {
        let (facts, at) = (facts(&rows), path("dir/a"));
        let wanted = AccessMask(bits) & AccessMask::ALL;
        let ask = Ask { path: &at, target: &target, wanted: Wanted::On(wanted) };
        let decided = case(&facts, &alice(), |case| case.decide(&ask));
        let view = View::new(&facts);
        let tank = ("tank".parse().unwrap(), AccessRules::default());
        let judged = judge(&view, NOW, &alice(), (&tank.0, &tank.1), &at, &target, &memo());
        match (judged, decided) {
            (Ok(judged), Ok(granted)) => prop_assert_eq!(judged.granted, granted),
            (Ok(judged), Err(_)) => {
                prop_assert!(!judged.granted.covers(wanted) || !judged.granted.covers(tank.1.visible));
            }
            (Err(judged), decided) => prop_assert_eq!(Some(judged.code()), decided.err().map(|why| why.code())),
        }
    }

    #[test]
    fn a_review_grants_what_each_right_alone_is_granted(rows in any_rows(), target in any_subject(), parent in any_subject()) {
        let (facts, at) = (facts(&rows), path("dir/a"));
        let (memo, view) = (memo(), View::new(&facts));
        let tank = ("tank".parse().unwrap(), AccessRules::default());
        let store = (&tank.0, &tank.1);
        let reviewed = rights(&view, NOW, &alice(), store, (&at, &target, Some(&parent)), &memo);
        for bit in (0..21).map(|n| AccessMask(1 << n)).filter(|bit| AccessMask::ALL.covers(*bit)) {
            let wanted = match (target.kind, bit) {
                (_, AccessMask::DELETE) => Wanted::Delete { parent: &parent },
                (NodeKind::File, AccessMask::WRITE_DATA) => Wanted::Overwrite,
                (NodeKind::Directory, AccessMask::ADD_FILE) => Wanted::Create(NodeKind::File),
                (NodeKind::Directory, AccessMask::ADD_SUBDIRECTORY) => Wanted::Create(NodeKind::Directory),
                (NodeKind::Directory, AccessMask::TRAVERSE) => Wanted::Passing,
                _ => Wanted::On(bit),
            };
            let asked = would(&view, NOW, &alice(), store, &Ask { path: &at, target: &target, wanted }, &memo);
            match &reviewed {
                Ok(rights) => prop_assert_eq!(rights.covers(bit), asked.is_ok(), "{} {:?}", bit, asked),
                Err(why) => prop_assert_eq!(Some(why.code()), asked.err().map(|why| why.code())),
            }
        }
    }
}
