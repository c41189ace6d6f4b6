//! ACLs in the form of Windows and NFSv4 (MS-DTYP §2.4; RFC 8881 §6.2).

use enfilade_facts::vocabulary::{AccessMask, Sid};

/// The effect of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AceType {
    /// The entry grants rights.
    Allow,
    /// The entry denies rights.
    Deny,
    /// The entry requests an audit record or an alarm. This server stores such an entry, but the entry grants and denies nothing.
    Audit,
}

/// Flags that say how files and directories below an object inherit an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct AceFlags(pub u8);

impl AceFlags {
    /// Files inherit the entry.
    pub const FILES: u8 = 0x1;
    /// Directories inherit the entry.
    pub const DIRECTORIES: u8 = 0x2;
    /// Only the direct children inherit the entry. The children do not pass on the entry to their own children.
    pub const ONCE: u8 = 0x4;
    /// The entry does not apply to the object that has the ACL.
    pub const INHERIT_ONLY: u8 = 0x8;
    /// The entry was inherited.
    pub const INHERITED: u8 = 0x10;
    /// The flags of an audit entry: whether successes, failures, or both are audited.
    pub const AUDITED: u8 = 0xc0;

    /// Whether all of these flags are set.
    pub fn has(self, flags: u8) -> bool {
        self.0 & flags == flags
    }
}

/// One entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ace {
    /// The effect of the entry.
    pub kind: AceType,
    /// How the entry is inherited.
    pub flags: AceFlags,
    /// The rights that the entry grants, denies or audits.
    pub mask: AccessMask,
    /// The user or group that the entry is for.
    pub sid: Sid,
}

/// Owner, group, and the entries in the order in which they are evaluated.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SecurityDescriptor {
    /// The owner.
    pub owner: Option<Sid>,
    /// The primary group.
    pub group: Option<Sid>,
    /// The entries. `None` means that there is no DACL; then every right is granted. An empty DACL grants nothing, except that the owner may read and
    /// change the ACL.
    pub dacl: Option<Vec<Ace>>,
    /// Whether the object inherits nothing.
    pub is_protected: bool,
}

const GENERIC_READ: u32 = 0x8000_0000;
const GENERIC_WRITE: u32 = 0x4000_0000;
const GENERIC_EXECUTE: u32 = 0x2000_0000;
const GENERIC_ALL: u32 = 0x1000_0000;

/// Replaces generic rights by the rights that they mean for files (MS-SMB2 / FILE_GENERIC_*).
pub(crate) fn map_generic(mask: AccessMask) -> AccessMask {
    let pairs = [
        (GENERIC_READ, AccessMask(0x0012_0089)),
        (GENERIC_WRITE, AccessMask(0x0012_0116)),
        (GENERIC_EXECUTE, AccessMask(0x0012_00a0)),
        (GENERIC_ALL, AccessMask::ALL),
    ];
    pairs.into_iter().fold(mask, |mapped, (generic, meaning)| {
        if mask.0 & generic == 0 { mapped } else { AccessMask(mapped.0 & !generic) | meaning }
    })
}
