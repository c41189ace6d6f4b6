//! The ACL of a new child: the parent's inheritable entries (RFC 8881 §6.4.3; MS-DTYP §2.5.3.4).

use crate::ask::{NodeKind, Subject};
use crate::nfs4::Owner;
use crate::ntacl::BadAcl;
use crate::refuse::Refusal;
use crate::security_descriptor::{Ace, AceFlags, AceType, SecurityDescriptor, map_generic};
use enfilade_facts::vocabulary::{AccessMask, AclDialect, Sid};

/// The user who creates a file or directory, and owns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Creator {
    /// The user's SID.
    pub sid: Sid,
    /// The user's uid, if there is one.
    pub uid: Option<u32>,
}

/// The ACL and owner with which a new file or directory is created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inheritance {
    /// The ACL, as bytes in the datastore's dialect ([`AclDialect`]).
    pub acl: Vec<u8>,
    /// The owner and group, if the ACL refers to the owner or group of the file.
    pub owner: Option<Owner>,
}

/// The ACL and owner of a new child of this directory. The creator becomes the owner. If the directory has no ACL, or the child inherits no entry,
/// the child's ACL grants all rights to the creator, and no right to any other user.
///
/// # Errors
/// When the dialect cannot express the creator or an inherited entry.
pub fn inherited(
    parent: &Subject,
    dialect: AclDialect,
    creator: Creator,
    kind: NodeKind,
) -> Result<Inheritance, Refusal> {
    let (creator, owner) = match dialect {
        AclDialect::Ntacl => (creator.sid, None),
        AclDialect::Nfs4 => {
            let why = "in a datastore with nfs4 ACLs, a user without a uid cannot create files or directories; set the uid with `enfilade user set --uid`";
            let uid = creator.uid.ok_or_else(|| Refusal::NoAcl(BadAcl::new(why)))?;
            // As on ZFS and the BSDs, a new child gets the group of its directory.
            (Sid::of_unix_user(uid), Some(Owner { uid, gid: parent.gid }))
        }
    };
    let of = owner.unwrap_or(parent.owner());
    let parent = parent.descriptor().ok().flatten();
    let entries = parent.as_ref().and_then(|parent| parent.dacl.as_deref()).unwrap_or_default();
    let own = Ace { kind: AceType::Allow, flags: AceFlags(0), mask: AccessMask::ALL, sid: creator };
    let group = owner.map(|owner| Sid::of_unix_group(owner.gid));
    let mut inherited = inherited_aces(entries, Maker { owner: creator, group }, kind);
    if inherited.is_empty() {
        inherited.push(own);
    }
    let group = parent.and_then(|parent| parent.group);
    let child =
        SecurityDescriptor { owner: Some(creator), group, dacl: Some(inherited), is_protected: false };
    // One entry of the directory becomes at most two entries of the child. If the child's list would get too long, the child's ACL grants all rights
    // to the creator, and no right to any other user.
    let alone = SecurityDescriptor { dacl: Some(vec![own]), group: None, ..child.clone() };
    let acl = child.written(dialect, of).or_else(|_| alone.written(dialect, of)).map_err(Refusal::NoAcl)?;
    Ok(Inheritance { acl, owner })
}

/// The ACL of a datastore's root that grants everything. With this ACL, only roles decide.
pub fn open_to_roles(dialect: AclDialect) -> SecurityDescriptor {
    let flags = AceFlags(AceFlags::FILES | AceFlags::DIRECTORIES);
    let (owner, sid) = match dialect {
        AclDialect::Ntacl => (Some(Sid::ADMINISTRATORS), Sid::AUTHENTICATED),
        // `ADMINISTRATORS` has no uid, so the ACL contains no owner.
        AclDialect::Nfs4 => (None, Sid::EVERYONE),
    };
    let everybody = Ace { kind: AceType::Allow, flags, mask: AccessMask::ALL, sid };
    SecurityDescriptor { owner, dacl: Some(vec![everybody]), ..SecurityDescriptor::default() }
}

/// The ACL of an existing object after the ACL of its directory was changed (MS-DTYP §2.5.3.4). The object keeps its own entries. Its inherited
/// entries are replaced by the entries that a new child would inherit now. `None` if the object is protected from inheritance.
pub fn propagated(
    parent: &SecurityDescriptor,
    child: Option<&SecurityDescriptor>,
    kind: NodeKind,
) -> Option<SecurityDescriptor> {
    let mut after = child.cloned().unwrap_or_default();
    if after.is_protected {
        return None;
    }
    after.owner = after.owner.or(parent.owner);
    after.group = after.group.or(parent.group);
    // An entry for the creator becomes an entry for the owner, because the creator of the object is not recorded.
    let creator = after.owner.unwrap_or(Sid::ADMINISTRATORS);
    let own =
        after.dacl.take().unwrap_or_default().into_iter().filter(|ace| !ace.flags.has(AceFlags::INHERITED));
    let maker = Maker { owner: creator, group: after.group.filter(|group| group.unix_number().is_some()) };
    let above = inherited_aces(parent.dacl.as_deref().unwrap_or_default(), maker, kind);
    after.dacl = Some(own.chain(above).collect());
    Some(after)
}

/// The entries that a child inherits from these entries of its directory.
fn inherited_aces(entries: &[Ace], maker: Maker, kind: NodeKind) -> Vec<Ace> {
    entries.iter().flat_map(|ace| inherited_entries(ace, maker, kind)).collect()
}

/// The users or groups that CREATOR OWNER and CREATOR GROUP stand for on the child.
#[derive(Clone, Copy)]
struct Maker {
    owner: Sid,
    /// The UNIX group that CREATOR GROUP stands for. `None` if the child's ACL has no UNIX group: a principal has no primary group. Without a UNIX
    /// group, an entry for CREATOR GROUP does not apply to the child itself.
    group: Option<Sid>,
}

/// The entries that a child inherits from one entry of its parent: none, one, or two. If there are two entries, one entry applies to the child, and
/// the other entry is inherited further.
fn inherited_entries(ace: &Ace, maker: Maker, kind: NodeKind) -> Vec<Ace> {
    let (files, directories, once) =
        (ace.flags.has(AceFlags::FILES), ace.flags.has(AceFlags::DIRECTORIES), ace.flags.has(AceFlags::ONCE));
    let in_force = match kind {
        NodeKind::File => files,
        NodeKind::Directory => directories,
    };
    let further = kind == NodeKind::Directory && !once && (files || directories);
    let passing = ace.flags.0 & (AceFlags::FILES | AceFlags::DIRECTORIES);
    // The `AUDITED` flags of an audit entry select successes, failures, or both.
    let inherited = AceFlags::INHERITED | ace.flags.0 & AceFlags::AUDITED;
    // CREATOR OWNER stands for the maker of the child. The entry that applies to the child gets the SID of the maker. The entry that is inherited
    // further keeps CREATOR OWNER.
    let (sid, for_creator) = match ace.sid {
        Sid::CREATOR_OWNER => (Some(maker.owner), true),
        Sid::CREATOR_GROUP => (maker.group, true),
        sid => (Some(sid), false),
    };
    let effective =
        Ace { sid: sid.unwrap_or(ace.sid), mask: map_generic(ace.mask), flags: AceFlags(inherited), ..*ace };
    let inherit_only = Ace { flags: AceFlags(inherited | AceFlags::INHERIT_ONLY | passing), ..*ace };
    let in_force = in_force && sid.is_some();
    match (in_force, further) {
        (true, true) if for_creator || effective.mask != ace.mask => vec![effective, inherit_only],
        (true, true) => vec![Ace { flags: AceFlags(inherited | passing), ..effective }],
        (true, false) => vec![effective],
        (false, true) => vec![inherit_only],
        (false, false) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!(
            inherited_entries(&parent, maker(), NodeKind::File),
            [ace(ID, creator(), AccessMask::ALL.0)]
        );
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
        assert_eq!(
            inherited_entries(&once, maker(), NodeKind::Directory),
            [ace(ID, Sid::EVERYONE, 0x12_0116)]
        );
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
        for acl in [
            StoredAcl::Absent,
            StoredAcl::Unreadable("x".into()),
            StoredAcl::Ntacl(nothing.to_ntacl().unwrap()),
        ] {
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
}
