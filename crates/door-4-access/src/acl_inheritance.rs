//! The ACL of a new child: the parent's inheritable entries (RFC 8881 §6.4.3; MS-DTYP §2.5.3.4).

use crate::ask::{NodeKind, Subject};
use crate::nfs4::Owner;
use crate::ntacl::BadAcl;
use crate::refuse::Refusal;
use crate::security_descriptor::{Ace, AceFlags, AceType, SecurityDescriptor, map_generic};
use enfilade_facts::vocabulary::{AccessMask, AclDialect, Sid};

/// The user who creates a file or directory. The same user becomes its owner.
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

/// The ACL and owner of a new child of this directory. The creator becomes the owner. If the directory has no ACL that can be read, or the child
/// inherits no entry, the child's ACL grants all rights to the creator, and no right to any other user.
///
/// # Errors
/// [`Refusal::NoAcl`] when the dialect cannot express the creator.
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
    // One entry of the directory becomes at most two entries of the child. If the child's list would get too long, or the dialect cannot express one
    // of its entries, the child's ACL grants all rights to the creator, and no right to any other user.
    let alone = SecurityDescriptor { dacl: Some(vec![own]), group: None, ..child.clone() };
    let acl = child.written(dialect, of).or_else(|_| alone.written(dialect, of)).map_err(Refusal::NoAcl)?;
    Ok(Inheritance { acl, owner })
}

/// An ACL that grants everything, for the root of a datastore. With this ACL, only roles decide.
pub fn open_to_roles(dialect: AclDialect) -> SecurityDescriptor {
    let flags = AceFlags(AceFlags::FILES | AceFlags::DIRECTORIES);
    let (owner, sid) = match dialect {
        AclDialect::Ntacl => (Some(Sid::ADMINISTRATORS), Sid::AUTHENTICATED),
        // An nfs4 ACL can refer only to an owner with a uid. `ADMINISTRATORS` has no uid, so the descriptor contains no owner.
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

/// The user and the group that CREATOR OWNER and CREATOR GROUP stand for on the child.
#[derive(Clone, Copy)]
struct Maker {
    owner: Sid,
    /// The UNIX group that CREATOR GROUP stands for. `None` if the child's ACL has no UNIX group: the group cannot come from the creator, because a
    /// principal has no primary group. Without a UNIX group, an entry for CREATOR GROUP does not apply to the child itself.
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
mod tests;
