//! What this door remembers.
//!
//! - ACL and principal → granted mask, under the full input: the ACL's bytes, and the number that stands for everything
//!   an entry can match. It carries no revision and no validity: whoever's groups change has another number, a file
//!   whose ACL changes has other bytes.
//! - Roles on a path, and whether there are any in a datastore, under the revision of the facts, whether files are looked
//!   at, the user, the token where it has roles of its own, and the number that stands for the user's groups. The revision alone would say which groups they are, if nobody ever asked with a
//!   principal of an older one; with the number in the key, nobody else pays when somebody does.

use crate::ask::{NodeKind, StoredAcl, Subject};
use crate::roles::Resolved;
use enfilade_facts::vocabulary::{AccessMask, RolePath};
use enfilade_facts::{At, Memo, MemoKey, MemoSeed, Now, Weigh, WordMemo};
use enfilade_identity::{Principal, Reach};

/// The memos of door 4.
pub struct AccessMemo {
    pub(crate) granted: WordMemo<AccessMask>,
    pub(crate) roles: Memo<Resolved>,
    pub(crate) admitted: WordMemo<bool>,
}

impl Weigh for Resolved {
    fn heap_bytes(&self) -> usize {
        let of_token = self.of_token.as_ref().map_or(0, |of_token| of_token.heap_bytes());
        self.roles.capacity() + self.node.capacity() + size_of_val(self.to.as_slice()) + of_token
    }
}

/// Which question about roles.
#[derive(Clone, Copy)]
pub(crate) enum Question {
    /// Which count on the path.
    On,
    /// Which count on what is directly in it.
    Below,
    /// Whether there are any, on it or anywhere below.
    Any,
}

impl AccessMemo {
    /// Of at most so many bytes.
    pub fn new(seed: MemoSeed, bytes: usize) -> Self {
        // Every commit empties what carries a revision, so more room for that would seldom be used.
        let (most, some) = (bytes / 2, bytes / 4);
        AccessMemo {
            granted: WordMemo::new(seed, most),
            roles: Memo::new(seed, some),
            admitted: WordMemo::new(seed, some),
        }
    }

    /// The key of an ACL and a principal; `None` where there is no ACL, because mode bits are read faster than looked up.
    pub(crate) fn granted_key(&self, subject: &Subject, principal: &Principal) -> Option<MemoKey> {
        let StoredAcl::Ntacl(blob) = &subject.acl else { return None };
        let kind = u64::from(subject.kind == NodeKind::Directory);
        Some(self.granted.key("ntacl").bytes(blob).number(kind).number(principal.set.0).key())
    }

    pub(crate) fn roles_key(
        &self,
        question: Question,
        (at, now): (At, Now),
        principal: &Principal,
        path: &RolePath,
    ) -> MemoKey {
        let key = match question {
            Question::On => self.roles.key("roles on"),
            Question::Below => self.roles.key("roles below"),
            Question::Any => self.admitted.key("any role"),
        };
        let token = principal.narrowed_to.as_ref().map_or([].as_slice(), |token| token.bytes());
        let key = key.at(at).number(u64::from(now.files_current)).bytes(principal.user.bytes()).bytes(token);
        let key = key.number(principal.set.0);
        let key = match &principal.reach {
            Reach::Everything => key.number(0),
            Reach::Nothing => key.number(1),
            Reach::Project { project, roles } => {
                let key = key.number(2).bytes(project.bytes()).number(roles.len() as u64);
                roles.iter().fold(key, |key, role| key.bytes(role.as_bytes()))
            }
        };
        key.bytes(path.as_str().as_bytes()).key()
    }
}
