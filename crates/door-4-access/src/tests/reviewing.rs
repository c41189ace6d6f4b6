//! Tests of the two functions for `acl review`: the mask of all rights that a principal has on a target, and the names of the principal's own user and
//! groups for the SIDs of an ACL.

use super::{Facts, NOW, acl, alice, group_sid, memo, path, subject};
use crate::ask::{NodeKind, Subject};
use crate::explain::rights;
use enfilade_facts::tables::AccessRules;
use enfilade_facts::vocabulary::{AccessMask, AclDialect};
use enfilade_identity::Principal;

const POWER: &str = "/datastore/tank staff DatastorePowerUser";

/// A review shows the rights that a request would get. On a directory, the rules of the datastore can withhold the right to add files, although the
/// ACL grants it. The ACL of the parent directory can add the right to delete.
#[test]
fn a_review_shows_what_the_directories_give_and_withhold() {
    let facts = Facts::of(POWER);
    let (view, memo, tank) = (enfilade_facts::View::new(&facts), memo(), "tank".parse().unwrap());
    let seen = "allow alice list,read-named-attributes,read-attributes,read-acl,add-file,delete";
    let (making, windows) = (AccessMask::ADD_FILE, AccessRules::default());
    let unix = AccessRules { checks_traverse: true, ..windows };
    let nfs = AccessRules { acls: AclDialect::Nfs4, ..windows };
    let both = AccessRules { checks_traverse: true, ..nfs };
    let traversed = format!("{seen},traverse");
    for (rules, uid, lines, expected) in [
        (&windows, None, seen, true),
        (&unix, None, seen, false),
        (&unix, None, &*traversed, true),
        (&nfs, None, seen, false),
        (&nfs, Some(7), seen, true),
        (&both, Some(7), seen, false),
        (&both, None, &*traversed, false),
    ] {
        let (alice, target) = (Principal { uid, ..alice() }, subject(NodeKind::Directory, acl(&[lines])));
        let (store, at) = ((&tank, rules), path("dir"));
        let granted = rights(&view, NOW, &alice, store, (&at, &target, None), &memo).unwrap();
        assert_eq!(granted.covers(making), expected, "{rules:?} {uid:?} {lines}");
        assert!(granted.covers(AccessMask::LIST | AccessMask::DELETE), "{rules:?} {lines}: {granted}");
        // The right to write a file has the same bit as the right to add a file to a directory.
        let file = Subject { kind: NodeKind::File, ..target };
        let granted = rights(&view, NOW, &alice, store, (&at, &file, None), &memo).unwrap();
        assert!(granted.covers(AccessMask::WRITE_DATA), "{rules:?} {uid:?} {lines}");
    }
    let parent = |lines: &[&str]| subject(NodeKind::Directory, acl(lines));
    let target = subject(NodeKind::File, acl(&["allow alice read"]));
    for (parent, expected) in [
        (None, false),
        (Some(parent(&["allow alice full"])), true),
        (Some(parent(&["allow alice read"])), false),
    ] {
        let (store, at) = ((&tank, &windows), path("file"));
        let granted = rights(&view, NOW, &alice(), store, (&at, &target, parent.as_ref()), &memo).unwrap();
        assert_eq!(granted.covers(AccessMask::DELETE), expected, "{parent:?}");
        assert!(granted.covers(AccessMask::READ), "{granted}");
    }
}

#[test]
fn a_principal_knows_its_own_name_and_the_names_of_its_groups() {
    let facts = Facts::of("");
    let names = crate::known_names(&enfilade_facts::View::new(&facts), &alice()).unwrap();
    let named = |sid, name: &str| (sid, name.to_owned());
    assert_eq!(names, [named(alice().sid, "alice@local"), named(group_sid(), "@staff@local")]);
}
