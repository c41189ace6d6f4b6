//! Mode bits, where there is no ACL: exactly one class counts, as in traditional UNIX.

use crate::ask::{NodeKind, Subject};
use enfilade_facts::vocabulary::AccessMask;
use enfilade_identity::Principal;

/// Every right the mode bits grant this principal. A principal without a number is "other".
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
