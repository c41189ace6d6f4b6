//! Mode bits, for objects without an ACL: exactly one class (owner, group or other) counts, as in traditional UNIX.

use crate::ask::{NodeKind, StoredAcl, Subject};
use enfilade_facts::vocabulary::AccessMask;
use enfilade_identity::Principal;

/// Every right that the mode bits grant this principal. A principal without uid and gids belongs to the class "other".
pub(crate) fn granted(subject: &Subject, principal: &Principal) -> AccessMask {
    let owns = principal.uid == Some(subject.uid);
    let class = if owns {
        subject.mode >> 6
    } else if principal.gids.binary_search(&subject.gid).is_ok() {
        subject.mode >> 3
    } else {
        subject.mode
    };
    let mut granted = AccessMask::READ_ATTRIBUTES | AccessMask::READ_ACL | AccessMask::SYNCHRONIZE;
    if class & 0o4 != 0 {
        granted |= AccessMask::READ_DATA | AccessMask::READ_NAMED_ATTRIBUTES;
    }
    if class & 0o2 != 0 {
        granted |= AccessMask::WRITE_DATA | AccessMask::APPEND | AccessMask::WRITE_NAMED_ATTRIBUTES;
        if subject.kind == NodeKind::Directory {
            granted |= AccessMask::DELETE_CHILD;
        }
    }
    if class & 0o1 != 0 {
        granted |= AccessMask::EXECUTE;
    }
    if owns {
        granted |= AccessMask::WRITE_ATTRIBUTES | AccessMask::WRITE_ACL | AccessMask::WRITE_OWNER;
    }
    granted
}

/// S_ISVTX on a directory: only the owner of the entry or of the directory may delete or rename the entry.
const STICKY: u32 = 0o1000;

/// Whether the sticky bit of a directory without an ACL keeps this principal from deleting an entry of the directory.
pub(crate) fn sticky_keeps(directory: &Subject, entry: &Subject, principal: &Principal) -> bool {
    let is_sticky = directory.acl == StoredAcl::Absent && directory.mode & STICKY != 0;
    is_sticky && principal.uid.is_none_or(|uid| uid != directory.uid && uid != entry.uid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{alice, subject};

    const ANYBODY: u32 = 0x12_0080;
    const R: u32 = 0x9;
    const W: u32 = 0x16;
    const X: u32 = 0x20;
    const OWNER: u32 = 0xc_0100;
    const CHILD: u32 = 0x40;

    #[test]
    fn exactly_one_class_counts() {
        // The uid of alice is 100, and her group has the gid 50.
        for (mode, uid, gid, kind, expected) in [
            (0o777, 100, 50, NodeKind::File, ANYBODY | OWNER | R | W | X),
            (0o777, 100, 50, NodeKind::Directory, ANYBODY | OWNER | R | W | X | CHILD),
            (0o077, 100, 50, NodeKind::File, ANYBODY | OWNER),
            (0o707, 0, 50, NodeKind::File, ANYBODY),
            (0o640, 0, 50, NodeKind::File, ANYBODY | R),
            (0o770, 0, 0, NodeKind::File, ANYBODY),
            (0o003, 0, 0, NodeKind::Directory, ANYBODY | W | X | CHILD),
            (0o644, 0, 0, NodeKind::File, ANYBODY | R),
            (0o100_644, 0, 0, NodeKind::File, ANYBODY | R),
        ] {
            let subject = Subject { mode, uid, gid, ..subject(kind, StoredAcl::Absent) };
            assert_eq!(granted(&subject, &alice()).0, expected, "{mode:o} {uid}:{gid} {kind:?}");
        }
    }

    #[test]
    fn without_a_number_everybody_is_other() {
        let ghost = Principal { uid: None, gids: Vec::new(), ..alice() };
        let file = Subject { mode: 0o770, ..subject(NodeKind::File, StoredAcl::Absent) };
        assert_eq!(granted(&file, &ghost).0, ANYBODY);
    }
}
