//! Tests of what a guest of a link may do.

use super::{Facts, acl, alice, case, everything, path, subject, token_of_alice};
use crate::ask::{Ask, NodeKind, StoredAcl, Wanted};
use crate::sight::Sight;
use enfilade_facts::Refuse;
use enfilade_facts::tables::{LinkPlace, LinkRights};
use enfilade_facts::vocabulary::{AccessMask, Privileges, RolePath};
use enfilade_identity::Principal;

fn guest(at: &str, rights: LinkRights) -> Principal {
    let place = LinkPlace { datastore: "tank".parse().unwrap(), path: path(at), rights, upload_bytes: None };
    Principal { link: Some(place), ..token_of_alice() }
}

fn code(facts: &str, guest: &Principal, (at, kind): (&str, NodeKind), wanted: Wanted<'_>) -> &'static str {
    let target = subject(kind, everything());
    let decided =
        case(&Facts::of(facts), guest, |case| case.decide(&Ask { path: &path(at), target: &target, wanted }));
    decided.map_or_else(|refusal| refusal.code(), |_| "permit")
}

const ADMIN: &str = "/ alice Admin";
const READ: Wanted<'static> = Wanted::On(AccessMask::READ);
const FILE: NodeKind = NodeKind::File;
const FOLDER: NodeKind = NodeKind::Directory;

#[test]
fn a_guest_reads_at_the_place_and_below_it() {
    let reader = guest("a/b", LinkRights::Read);
    for (at, kind, wanted, expected) in [
        ("a/b", FOLDER, READ, "permit"),
        ("a/b/c", FILE, READ, "permit"),
        ("a/b/c/d", FILE, READ, "permit"),
        ("a", FOLDER, READ, "AC02"),
        ("a", FOLDER, Wanted::Passing, "permit"),
        ("", FOLDER, Wanted::Passing, "permit"),
        ("a/bc", FILE, READ, "AC02"),
        ("a/c", FILE, READ, "AC02"),
        ("c", FOLDER, Wanted::Passing, "AC02"),
        ("a/b", FOLDER, Wanted::Create(FILE), "AC03"),
        ("a/b/c", FILE, Wanted::Overwrite, "AC03"),
        ("a/b/c", FILE, Wanted::On(AccessMask::DELETE), "AC03"),
        ("a/b/c", FILE, Wanted::On(AccessMask::WRITE_ACL), "AC03"),
    ] {
        assert_eq!(code(ADMIN, &reader, (at, kind), wanted), expected, "{at}");
    }
    // A link to a whole datastore, and a link to another datastore.
    assert_eq!(code(ADMIN, &guest("", LinkRights::Read), ("x", FILE), READ), "permit");
    let mut other = guest("", LinkRights::Read);
    other.link.as_mut().unwrap().datastore = "tanks".parse().unwrap();
    assert_eq!(code(ADMIN, &other, ("x", FILE), READ), "AC02");
}

#[test]
fn a_guest_never_has_more_rights_than_the_maker() {
    let reader = guest("a", LinkRights::Read);
    for (facts, expected) in [
        ("", "AC02"),
        ("/datastore/tank alice DatastoreReader", "permit"),
        ("/datastore/tank/a/b alice DatastoreReader", "permit"),
        ("/datastore/tank/a/b/c alice NoAccess\n/ alice Admin", "AC02"),
        ("/datastore/tank/a alice DatastoreReader-", "AC02"),
        ("/datastore/tank alice DatastoreAudit", "AC02"),
        // Roles that are assigned to the token of the link do not count.
        ("/ test Admin", "AC02"),
        ("/ alice Admin\n/ test NoAccess", "permit"),
    ] {
        assert_eq!(code(facts, &reader, ("a/b/c", FILE), READ), expected, "{facts}");
    }
    // The ACL limits the guest as it limits the user who made the link. If a role of this user skips ACLs, the guest can read, and nothing more.
    let target = subject(FILE, acl(&["allow staff read"]));
    let hidden = subject(FILE, acl(&[]));
    let rights = |facts: &str, target| {
        let facts = Facts::of(facts);
        case(&facts, &reader, |case| case.granted(&path("a/b"), target).unwrap())
    };
    assert_eq!(rights("/ alice DatastorePowerUser", &target), AccessMask::READ);
    assert_eq!(rights("/ alice DatastorePowerUser", &hidden), AccessMask::NONE);
    assert_eq!(rights(ADMIN, &hidden), AccessMask::READ);
}

#[test]
fn a_drop_box_takes_files_and_shows_nothing() {
    let guest = guest("a", LinkRights::Drop);
    for (at, kind, wanted, expected) in [
        ("a", FOLDER, Wanted::Create(FILE), "permit"),
        ("a", FOLDER, Wanted::Create(FOLDER), "AC02"),
        ("a", FOLDER, READ, "AC02"),
        ("a", FOLDER, Wanted::On(AccessMask::NONE), "AC02"),
        ("a/b", FOLDER, Wanted::Create(FILE), "AC02"),
        ("a/b", FILE, Wanted::Overwrite, "AC06"),
        ("a/b", FILE, READ, "AC02"),
        ("", FOLDER, Wanted::Create(FILE), "AC02"),
    ] {
        assert_eq!(code(ADMIN, &guest, (at, kind), wanted), expected, "{at} {wanted:?}");
    }
    assert_eq!(code("/ alice DatastoreReader", &guest, ("a", FOLDER), Wanted::Create(FILE)), "AC02");
}

#[test]
fn a_listing_shows_a_guest_only_the_place() {
    let target = subject(FILE, StoredAcl::Unread);
    let target = crate::ask::Subject { acl: everything(), ..target };
    let children = [("b", &target), ("c", &target)];
    let facts = Facts::of("/ alice Admin\n/datastore/tank/a/c alice NoAccess");
    let seen = |guest: &Principal| case(&facts, guest, |case| case.see(&path("a"), &children).unwrap());
    assert_eq!(seen(&alice()), [Sight::Seen, Sight::Hidden]);
    assert_eq!(seen(&guest("a", LinkRights::Read)), [Sight::Seen, Sight::Hidden]);
    assert_eq!(seen(&guest("a/b", LinkRights::Read)), [Sight::Hidden; 2]);
    assert_eq!(seen(&guest("a", LinkRights::Drop)), [Sight::Hidden; 2]);
}

#[test]
fn a_guest_has_no_privileges() {
    let facts = Facts::of(ADMIN);
    for rights in [LinkRights::Read, LinkRights::Drop] {
        let guest = guest("a", rights);
        for node in ["/", "/access", "/datastore", "/datastore/tank", "/datastore/tank/a", "/system"] {
            let has = case(&facts, &guest, |case| {
                let node: RolePath = node.parse().unwrap();
                case.roles(&node).unwrap().privileges()
            });
            assert_eq!(has, Privileges::NONE, "{node}");
        }
    }
}
