use super::*;
use crate::ask::{ObjectId, StoredAcl};

const FI: u8 = AceFlags::FILES;
const DI: u8 = AceFlags::DIRECTORIES;
const NP: u8 = AceFlags::ONCE;
const IO: u8 = AceFlags::INHERIT_ONLY;
const ID: u8 = AceFlags::INHERITED;

fn ace(flags: u8, sid: Sid, mask: u32) -> Ace {
    Ace { kind: AceType::Allow, flags: AceFlags(flags), mask: AccessMask(mask), sid }
}

fn creator() -> Sid {
    Sid::of_store([1, 2, 3], 1000)
}

fn maker() -> Maker {
    Maker { owner: creator(), group: None }
}

fn inherited_acl(parent: &Subject, kind: NodeKind) -> SecurityDescriptor {
    let made = inherited(parent, AclDialect::Ntacl, Creator { sid: creator(), uid: None }, kind).unwrap();
    assert_eq!(made.owner, None);
    SecurityDescriptor::from_ntacl(&made.acl).unwrap()
}

#[test]
fn a_list_that_gets_too_long_is_the_creators_alone() {
    let of = |entries| {
        let dacl = Some(vec![ace(FI | DI, Sid::CREATOR_OWNER, 1); entries]);
        let group = Some(Sid::of_store([1, 2, 3], 513));
        let descriptor = SecurityDescriptor { dacl, group, ..SecurityDescriptor::default() };
        let acl = StoredAcl::Ntacl(descriptor.to_ntacl().unwrap());
        inherited_acl(&crate::tests::subject(NodeKind::Directory, acl), NodeKind::Directory)
    };
    let fits = of(512);
    assert_eq!(fits.dacl.map(|entries| entries.len()), Some(1024));
    assert_eq!(fits.group, Some(Sid::of_store([1, 2, 3], 513)));
    let own = ace(0, creator(), AccessMask::ALL.0);
    let (owner, dacl) = (Some(creator()), Some(vec![own]));
    assert_eq!(of(513), SecurityDescriptor { owner, dacl, ..SecurityDescriptor::default() });
}

#[test]
fn a_root_that_is_open_to_roles_names_everybody() {
    for (dialect, owner, sid) in [
        (AclDialect::Ntacl, Some(Sid::ADMINISTRATORS), Sid::AUTHENTICATED),
        (AclDialect::Nfs4, None, Sid::EVERYONE),
    ] {
        let dacl = Some(vec![ace(FI | DI, sid, AccessMask::ALL.0)]);
        let expected = SecurityDescriptor { owner, dacl, ..SecurityDescriptor::default() };
        assert_eq!(open_to_roles(dialect), expected, "{dialect:?}");
    }
}

#[test]
fn flags_as_the_table_has_them() {
    // Columns: the flags of the directory's entry, of the entry on a new file, and of the entry on a new directory. `None` means that the child
    // inherits no entry.
    for (parent, file, directory) in [
        (0, None, None),
        (FI, Some(ID), Some(ID | FI | IO)),
        (DI, None, Some(ID | DI)),
        (FI | DI, Some(ID), Some(ID | FI | DI)),
        (FI | NP, Some(ID), None),
        (DI | NP, None, Some(ID)),
        (FI | DI | NP, Some(ID), Some(ID)),
        (FI | IO, Some(ID), Some(ID | FI | IO)),
        (DI | IO, None, Some(ID | DI)),
        (FI | DI | IO, Some(ID), Some(ID | FI | DI)),
        (FI | DI | IO | NP | ID, Some(ID), Some(ID)),
    ] {
        let parent = ace(parent, Sid::EVERYONE, 1);
        let flags = |kind| {
            let handed = inherited_entries(&parent, maker(), kind);
            assert!(handed.len() <= 1);
            handed.first().map(|ace| ace.flags.0)
        };
        assert_eq!(
            (flags(NodeKind::File), flags(NodeKind::Directory)),
            (file, directory),
            "{:#x}",
            parent.flags.0
        );
    }
}

#[test]
fn creator_owner_becomes_the_creator_and_stays_itself_below() {
    let parent = ace(FI | DI | IO, Sid::CREATOR_OWNER, 0x1000_0000);
    assert_eq!(inherited_entries(&parent, maker(), NodeKind::File), [ace(ID, creator(), AccessMask::ALL.0)]);
    assert_eq!(
        inherited_entries(&parent, maker(), NodeKind::Directory),
        [ace(ID, creator(), AccessMask::ALL.0), ace(ID | IO | FI | DI, Sid::CREATOR_OWNER, 0x1000_0000)]
    );
}

#[test]
fn the_creators_group_is_nobody_and_stays_itself_below() {
    let parent = ace(FI | DI, Sid::CREATOR_GROUP, 1);
    assert_eq!(inherited_entries(&parent, maker(), NodeKind::File), []);
    assert_eq!(
        inherited_entries(&parent, maker(), NodeKind::Directory),
        [ace(ID | IO | FI | DI, Sid::CREATOR_GROUP, 1)]
    );
}

#[test]
fn generic_rights_are_mapped_where_they_are_in_force() {
    let parent = ace(FI | DI, Sid::EVERYONE, 0x8000_0000);
    assert_eq!(
        inherited_entries(&parent, maker(), NodeKind::Directory),
        [ace(ID, Sid::EVERYONE, 0x12_0089), ace(ID | IO | FI | DI, Sid::EVERYONE, 0x8000_0000)]
    );
    let once = ace(FI | DI | NP, Sid::EVERYONE, 0x4000_0000);
    assert_eq!(inherited_entries(&once, maker(), NodeKind::Directory), [ace(ID, Sid::EVERYONE, 0x12_0116)]);
}

#[test]
fn an_audit_entry_keeps_what_it_asks_for() {
    let parent = Ace { kind: AceType::Audit, ..ace(FI | DI | 0x40, Sid::EVERYONE, 1) };
    let child = Ace { kind: AceType::Audit, ..ace(ID | 0x40, Sid::EVERYONE, 1) };
    assert_eq!(inherited_entries(&parent, maker(), NodeKind::File), [child]);
}

#[test]
fn without_anything_to_inherit_the_creator_has_it_alone() {
    let subject = |acl| Subject {
        object: ObjectId { device: 1, inode: 1 },
        kind: NodeKind::Directory,
        uid: 0,
        gid: 0,
        mode: 0o755,
        version: None,
        acl,
    };
    let own = [ace(0, creator(), AccessMask::ALL.0)];
    let nothing = SecurityDescriptor { dacl: Some(vec![ace(0, Sid::EVERYONE, 1)]), ..Default::default() };
    for acl in
        [StoredAcl::Absent, StoredAcl::Unreadable("x".into()), StoredAcl::Ntacl(nothing.to_ntacl().unwrap())]
    {
        let child = inherited_acl(&subject(acl), NodeKind::File);
        assert_eq!((child.owner, child.dacl.as_deref()), (Some(creator()), Some(&own[..])));
    }
    let open = open_to_roles(AclDialect::Ntacl).to_ntacl().unwrap();
    let child = inherited_acl(&subject(StoredAcl::Ntacl(open)), NodeKind::Directory);
    assert_eq!(child.dacl.unwrap(), [ace(ID | FI | DI, Sid::AUTHENTICATED, AccessMask::ALL.0)]);
}

#[test]
fn where_people_are_numbers_what_is_made_belongs_to_its_maker() {
    let of = Owner { uid: 0, gid: 100 };
    let entries = vec![
        ace(FI | DI | IO, Sid::CREATOR_OWNER, 7),
        ace(FI | DI | IO, Sid::CREATOR_GROUP, 1),
        ace(0, Sid::EVERYONE, 1),
    ];
    let parent = SecurityDescriptor { dacl: Some(entries), ..SecurityDescriptor::default() };
    let parent = Subject {
        object: ObjectId { device: 1, inode: 1 },
        kind: NodeKind::Directory,
        uid: of.uid,
        gid: of.gid,
        mode: 0o755,
        version: None,
        acl: StoredAcl::Nfs4(parent.to_nfs4(of).unwrap()),
    };
    let make = |uid| {
        let creator = Creator { sid: creator(), uid };
        inherited(&parent, AclDialect::Nfs4, creator, NodeKind::File)
    };
    let made = make(Some(1000)).unwrap();
    assert_eq!(made.owner, Some(Owner { uid: 1000, gid: 100 }));
    let child = SecurityDescriptor::from_nfs4(&made.acl, Owner { uid: 1000, gid: 100 }).unwrap();
    let (user, group) = (Sid::of_unix_user(1000), Sid::of_unix_group(100));
    assert_eq!(child.dacl.unwrap(), [ace(ID, user, 7), ace(ID, group, 1)]);
    assert!(make(None).unwrap_err().to_string().contains("--uid"));
}

#[test]
fn what_is_handed_on_anew_leaves_what_is_ones_own() {
    let entry = |kind, flags, mask| Ace { kind, ..ace(flags, Sid::EVERYONE, mask) };
    let list = |dacl: Vec<Ace>, is_protected| SecurityDescriptor {
        owner: Some(creator()),
        dacl: Some(dacl),
        is_protected,
        ..SecurityDescriptor::default()
    };
    let parent = list(vec![ace(FI | DI, Sid::AUTHENTICATED, 7), ace(0, Sid::NETWORK, 1)], false);
    let own = entry(AceType::Deny, 0, 2);
    let before = list(vec![own, entry(AceType::Allow, ID, 4)], false);
    let after = propagated(&parent, Some(&before), NodeKind::File).unwrap();
    assert_eq!(after.dacl, Some(vec![own, ace(ID, Sid::AUTHENTICATED, 7)]));
    // A second propagation changes nothing.
    assert_eq!(propagated(&parent, Some(&after), NodeKind::File), Some(after));
    assert_eq!(propagated(&parent, Some(&list(vec![own], true)), NodeKind::File), None);
    let fresh = propagated(&parent, None, NodeKind::Directory).unwrap();
    assert_eq!((fresh.owner, fresh.dacl.unwrap().len()), (Some(creator()), 1));
}
