//! Evaluates an ACL. The entries are read in stored order, and the first matching entry that contains a right decides whether the right is granted
//! (MS-DTYP §2.5.3.2; RFC 8881 §6.2.1).

use crate::security_descriptor::{Ace, AceFlags, AceType, SecurityDescriptor, map_generic};
use enfilade_facts::vocabulary::{AccessMask, Sid};
use enfilade_identity::Principal;

/// Every right that the ACL grants this principal.
pub(crate) fn granted(descriptor: &SecurityDescriptor, principal: &Principal) -> AccessMask {
    // A security descriptor without a DACL grants every right. A DACL without entries grants only the rights that the function `implied` returns.
    let Some(entries) = &descriptor.dacl else { return AccessMask::ALL };
    let owns = owns(descriptor, principal);
    let mut granted = implied(entries, owns);
    let mut open = AccessMask::ALL & !granted;
    for ace in entries {
        if open.is_empty() {
            break;
        }
        let settled = settles(ace) & open;
        // The rights are compared first, and then the SIDs, because the search for the SID takes longer.
        if settled.is_empty() || !speaks_of(ace, principal, owns) {
            continue;
        }
        if ace.kind == AceType::Allow {
            granted |= settled;
        }
        open = open & !settled;
    }
    granted
}

/// Whether the principal is the owner of the object.
pub(crate) fn owns(descriptor: &SecurityDescriptor, principal: &Principal) -> bool {
    descriptor.owner.is_some_and(|owner| matches(&owner, principal))
}

/// The rights that a principal has without an entry. An owner may always read and change the ACL, unless the ACL has an entry for OWNER RIGHTS that
/// applies to the object. All other principals have no such right.
pub(crate) fn implied(entries: &[Ace], owns: bool) -> AccessMask {
    let replaces = |ace: &Ace| ace.sid == Sid::OWNER_RIGHTS && !ace.flags.has(AceFlags::INHERIT_ONLY);
    match owns && !entries.iter().any(replaces) {
        true => AccessMask::READ_ACL | AccessMask::WRITE_ACL,
        false => AccessMask::NONE,
    }
}

/// The rights that an entry grants or denies to the principals it applies to. The caller removes the rights that an earlier entry granted or denied.
pub(crate) fn settles(ace: &Ace) -> AccessMask {
    match ace.kind {
        AceType::Allow | AceType::Deny => map_generic(ace.mask) & AccessMask::ALL,
        AceType::Audit => AccessMask::NONE,
    }
}

/// Whether an entry applies to this principal on this object.
pub(crate) fn speaks_of(ace: &Ace, principal: &Principal, owns: bool) -> bool {
    if ace.flags.has(AceFlags::INHERIT_ONLY) {
        return false;
    }
    if ace.sid == Sid::OWNER_RIGHTS { owns } else { matches(&ace.sid, principal) }
}

/// Whether a SID is a SID of the principal. CREATOR OWNER, CREATOR GROUP and OWNER RIGHTS are placeholders. Placeholders match no principal, even if
/// a record gives a user such a SID.
fn matches(sid: &Sid, principal: &Principal) -> bool {
    let stands_for_another = [Sid::CREATOR_OWNER, Sid::CREATOR_GROUP, Sid::OWNER_RIGHTS].contains(sid);
    !stands_for_another && principal.has(sid)
}
