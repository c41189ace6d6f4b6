//! The `security.nfs4acl_xdr` attribute, in the layout of Samba's `vfs_nfs4acl_xattr` (source3/modules/nfs41acl.x): XDR, words of 32 bits,
//! big-endian. The attribute begins with the list's flags and the number of entries. Each entry consists of five parts: the type, the flags, a word,
//! the rights, and the principal (RFC 8881 §6.2.1). The word says whether the principal is a special principal, such as OWNER@. All other principals
//! are uids and gids. The attribute does not contain an owner or a group. Instead, the owner and group of the file apply. So the functions that read
//! and write a list need the owner and group of the file.
//!
//! An entry for OWNER@ is read as an entry for the owner's uid. But on a child that inherits an OWNER@ entry, the entry is for the owner of the
//! child. So the inheritable part of an OWNER@ entry is read as an entry for CREATOR OWNER.

use crate::ntacl::BadAcl;
use crate::security_descriptor::{Ace, AceFlags, AceType, SecurityDescriptor, map_generic};
use enfilade_facts::limits::ACE_COUNT_MAX;
use enfilade_facts::vocabulary::{AccessMask, Sid};

/// The owner and group of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The owner's uid.
    pub uid: u32,
    /// The group's gid.
    pub gid: u32,
}

const PROTECTED: u32 = 0x2;
/// The flags that a list can have: AUTO_INHERIT, PROTECTED and DEFAULTED.
const LIST_FLAGS: u32 = 0x7;
const INHERITING: u8 = AceFlags::FILES | AceFlags::DIRECTORIES;
/// The flags that have the same number in NFSv4 and in Windows.
const HANDING_ON: u8 = INHERITING | AceFlags::ONCE | AceFlags::INHERIT_ONLY;
/// The flags that have different numbers in NFSv4 (first) and in Windows (second).
const FLAGS: [(u32, u8); 3] = [(0x10, 0x40), (0x20, 0x80), (0x80, AceFlags::INHERITED)];
const IS_GROUP: u32 = 0x40;

/// The numbers of special principals in NFSv4. `OTHERS` contains pairs: the number in NFSv4, and the last number of the principal's SID.
const OWNER: u32 = 1;
const GROUP: u32 = 2;
const EVERYONE: u32 = 3;
const OTHERS: [(u32, u32); 7] = [(4, 4), (5, 2), (6, 1), (7, 3), (8, 7), (9, 11), (10, 6)];

impl SecurityDescriptor {
    /// Reads a list that is stored on a file with the owner and group `of`.
    ///
    /// # Errors
    /// When a part of the list is not understood.
    pub fn from_nfs4(blob: &[u8], of: Owner) -> Result<Self, BadAcl> {
        let bad = |why: &str| Err(BadAcl::new(why));
        let Some((header, entries)) = blob.split_first_chunk::<8>() else {
            return bad("the ACL is shorter than the header of an ACL");
        };
        let [flags, count] = words(header);
        if count as usize > ACE_COUNT_MAX {
            return bad("the ACL has more than 1,024 entries");
        }
        let (entries, rest) = entries.as_chunks::<20>();
        if !rest.is_empty() || entries.len() != count as usize {
            return bad("the length of the ACL does not match its number of entries");
        }
        if flags & !LIST_FLAGS != 0 {
            return bad("the ACL has unknown flags");
        }
        let mut dacl = Vec::with_capacity(entries.len());
        entries.iter().try_for_each(|entry| read_entry(words(entry), of, &mut dacl))?;
        Ok(SecurityDescriptor {
            owner: Some(Sid::of_unix_user(of.uid)),
            group: Some(Sid::of_unix_group(of.gid)),
            dacl: Some(dacl),
            is_protected: flags & PROTECTED != 0,
        })
    }

    /// Writes a list for a file with the owner and group `of`.
    ///
    /// # Errors
    /// When the descriptor contains something that an nfs4 list cannot express.
    pub fn to_nfs4(&self, of: Owner) -> Result<Vec<u8>, BadAcl> {
        let (owner, group) = (Sid::of_unix_user(of.uid), Sid::of_unix_group(of.gid));
        if self.owner.is_some_and(|sid| sid != owner) || self.group.is_some_and(|sid| sid != group) {
            return Err(BadAcl::new(
                "an nfs4 ACL cannot set the owner or group; change the owner or group of the file with `chown`",
            ));
        }
        let Some(entries) = &self.dacl else {
            return Err(BadAcl::new(
                "an nfs4 ACL must have a list of entries: to grant everything, add an entry for everyone",
            ));
        };
        let entries = entries.iter().map(|ace| written(ace, of)).collect::<Result<Vec<_>, _>>()?;
        if entries.len() > ACE_COUNT_MAX {
            return Err(BadAcl::new("the ACL would have more than 1,024 entries"));
        }
        let flags = if self.is_protected { PROTECTED } else { 0 };
        let words = [flags, entries.len() as u32].into_iter().chain(entries.into_iter().flatten());
        Ok(words.flat_map(u32::to_be_bytes).collect())
    }
}

fn words<const BYTES: usize, const WORDS: usize>(bytes: &[u8; BYTES]) -> [u32; WORDS] {
    const { assert!(BYTES == WORDS * 4) };
    let mut each = bytes.as_chunks::<4>().0.iter();
    [(); WORDS].map(|()| each.next().map_or(0, |word| u32::from_be_bytes(*word)))
}

fn read_entry(
    [kind, flags, special, mask, who]: [u32; 5],
    of: Owner,
    into: &mut Vec<Ace>,
) -> Result<(), BadAcl> {
    let kind = match kind {
        0 => AceType::Allow,
        1 => AceType::Deny,
        2 | 3 => AceType::Audit,
        _ => return Err(BadAcl::new("the ACL has an entry of an unknown type")),
    };
    if flags & !0xff != 0 || special > 1 {
        return Err(BadAcl::new("the ACL has an entry with unknown flags"));
    }
    let others = FLAGS.iter().filter(|(here, _)| flags & here != 0).fold(0, |all, (_, there)| all | there);
    let flags_there = flags as u8 & HANDING_ON | others;
    let ace = |sid| Ace { kind, flags: AceFlags(flags_there), mask: AccessMask(mask), sid };
    let named = match (special == 1, who) {
        (false, id) if flags & IS_GROUP != 0 => Sid::of_unix_group(id),
        (false, id) => Sid::of_unix_user(id),
        (true, EVERYONE) => Sid::EVERYONE,
        (true, OWNER) => {
            read_own(ace(Sid::of_unix_user(of.uid)), Sid::CREATOR_OWNER, into);
            return Ok(());
        }
        (true, GROUP) => {
            read_own(ace(Sid::of_unix_group(of.gid)), Sid::CREATOR_GROUP, into);
            return Ok(());
        }
        (true, who) => match OTHERS.iter().find(|(id, _)| *id == who) {
            Some((_, rid)) => Sid::of_logon(*rid),
            None => return Err(BadAcl::new("the ACL has an entry for an unknown special principal")),
        },
    };
    into.push(ace(named));
    Ok(())
}

/// Reads an entry for the file's owner or group. On the file itself, the entry applies to the file's owner or group. On a child that inherits the
/// entry, the entry applies to the child's owner or group.
fn read_own(ace: Ace, of_child: Sid, into: &mut Vec<Ace>) {
    if !ace.flags.has(AceFlags::INHERIT_ONLY) {
        into.push(Ace { flags: AceFlags(ace.flags.0 & !HANDING_ON), ..ace });
    }
    if ace.flags.0 & INHERITING != 0 {
        into.push(Ace { flags: AceFlags(ace.flags.0 | AceFlags::INHERIT_ONLY), sid: of_child, ..ace });
    }
}

fn written(ace: &Ace, of: Owner) -> Result<[u32; 5], BadAcl> {
    let kind = match ace.kind {
        AceType::Allow => 0,
        AceType::Deny => 1,
        AceType::Audit => 2,
    };
    let hands_on = ace.flags.0 & HANDING_ON != 0;
    let (special, who, is_group) = match (ace.sid, ace.sid.unix_number()) {
        (Sid::EVERYONE, _) => (1, EVERYONE, false),
        (Sid::CREATOR_OWNER, _) => (1, OWNER, false),
        (Sid::CREATOR_GROUP, _) => (1, GROUP, true),
        // If children inherit an entry for the uid of the file's owner, the entry is also for this user on the children. So the entry is not written
        // as OWNER@.
        (_, Some((false, uid))) if uid == of.uid && !hands_on => (1, OWNER, false),
        (_, Some((true, gid))) if gid == of.gid && !hands_on => (1, GROUP, true),
        (_, Some((is_group, id))) => (0, id, is_group),
        (sid, None) => match OTHERS.iter().find(|(_, rid)| Sid::of_logon(*rid) == sid) {
            Some((id, _)) => (1, *id, false),
            None => {
                let why = format!(
                    "an nfs4 ACL cannot contain {sid}, because this user or group has no uid or gid; set the uid of a user with `enfilade user set --uid`, or use a group that has a gid, or everyone"
                );
                return Err(BadAcl::new(&why));
            }
        },
    };
    let stands_for_others = ace.sid == Sid::CREATOR_OWNER || ace.sid == Sid::CREATOR_GROUP;
    let inherit_only = if stands_for_others { u32::from(AceFlags::INHERIT_ONLY) } else { 0 };
    let same = ace.flags.0 & HANDING_ON;
    let others = FLAGS.iter().filter(|(_, there)| ace.flags.has(*there)).fold(0, |all, (here, _)| all | here);
    let flags = u32::from(same) | others | inherit_only | if is_group { IS_GROUP } else { 0 };
    Ok([kind, flags, special, map_generic(ace.mask).0, who])
}

#[cfg(test)]
mod tests;
