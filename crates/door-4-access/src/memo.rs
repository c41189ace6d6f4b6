//! What this door remembers.
//!
//! - ACL and principal → granted mask, under the full input: the ACL's bytes, and the number that stands for everything
//!   an entry can match. It carries no revision and no validity: whoever's groups change has another number, a file
//!   whose ACL changes has other bytes.
//! - Roles on a path, under the revision of the facts.

use crate::ask::{NodeKind, StoredAcl, Subject};
use crate::roles::Resolved;
use enfilade_facts::vocabulary::{AccessMask, RolePath};
use enfilade_facts::{At, Memo, MemoKey, MemoSeed};
use enfilade_identity::Principal;

/// The memos of door 4.
pub struct AccessMemo {
    pub(crate) granted: Memo<AccessMask>,
    pub(crate) roles: Memo<Resolved>,
}

impl AccessMemo {
    /// Room for about `entries` pairs of ACL and principal.
    pub fn new(seed: MemoSeed, entries: usize) -> Self {
        AccessMemo { granted: Memo::new(seed, entries), roles: Memo::new(seed, entries.min(16_384)) }
    }

    /// The key of an ACL and a principal; `None` where there is no ACL, because mode bits are read faster than looked up.
    pub(crate) fn granted_key(&self, subject: &Subject, principal: &Principal) -> Option<MemoKey> {
        let StoredAcl::Ntacl(blob) = &subject.acl else { return None };
        let kind = u64::from(subject.kind == NodeKind::Directory);
        Some(self.granted.key("ntacl").bytes(blob).number(kind).number(principal.set.0).key())
    }

    pub(crate) fn roles_key(&self, at: At, principal: &Principal, path: &RolePath) -> MemoKey {
        self.roles.key("roles").at(at).bytes(principal.user.bytes()).bytes(path.as_str().as_bytes()).key()
    }
}
