//! The principal: all that the later doors know of a client.

use crate::sid_set::SidSet;
use enfilade_facts::vocabulary::{Authid, CredentialId, GroupId, ProjectId, Sid, UserId};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// A number for everything an ACL or mode bits can match of a principal. Principals with equal numbers match alike. No number is used twice in a
/// process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SetId(pub u64);

/// Where the roles of a principal count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// On every path they were assigned on: for a password or an API token.
    #[default]
    Everything,
    /// In the datastores that are bound to a project. There these roles of Keystone count instead of the assigned ones.
    Project {
        /// The project.
        project: ProjectId,
        /// Their names.
        roles: Vec<String>,
    },
    /// Nowhere.
    Nothing,
}

/// An authenticated subject.
#[derive(Clone, Debug)]
pub struct Principal {
    /// The name it authenticated with.
    pub authid: Authid,
    /// The user, or the owner of the token.
    pub user: UserId,
    /// The API token, if it has only its own roles within its owner's.
    pub narrowed_to: Option<CredentialId>,
    /// Where its roles count.
    pub reach: Reach,
    /// The user's own SID: the owner of files that this principal creates.
    pub sid: Sid,
    /// All its groups, nested ones included, sorted.
    pub groups: Vec<GroupId>,
    /// Every SID by which an ACL entry can match it.
    pub sids: SidSet,
    /// The user number for files without an ACL; without a number the user is "other".
    pub uid: Option<u32>,
    /// The group numbers for the same, sorted.
    pub gids: Vec<u32>,
    /// The number of `sids`, `uid` and `gids` together.
    pub set: SetId,
}

impl Principal {
    /// Whether an ACL entry for `sid` matches this principal.
    pub fn has(&self, sid: &Sid) -> bool {
        self.sids.has(sid)
    }

    /// About how many bytes it takes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        size_of_val(self.groups.as_slice()) + self.sids.heap_bytes() + size_of_val(self.gids.as_slice())
    }

    /// Whether it is a member of the group, directly or through other groups.
    pub fn is_in(&self, group: &GroupId) -> bool {
        self.groups.binary_search(group).is_ok()
    }
}

/// What must be equal for two principals to match alike.
type Content = (Vec<Sid>, Option<u32>, Vec<u32>);

/// Assigns [`SetId`]s. A user and the user's tokens share one. Two users differ by their own SID.
#[derive(Debug, Default)]
pub struct Sets {
    known: Mutex<(u64, HashMap<Content, SetId>)>,
}

/// The number of entries at which the table is cleared. No number is used again, so no entry of a memo is used for another principal.
const SETS_MAX: usize = 4096;

impl Sets {
    /// The number for this content.
    pub fn intern(&self, sids: &[Sid], uid: Option<u32>, gids: &[u32]) -> SetId {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (next, ids) = &mut *known;
        if ids.len() >= SETS_MAX {
            ids.clear();
        }
        *ids.entry((sids.to_vec(), uid, gids.to_vec())).or_insert_with(|| {
            *next += 1;
            SetId(*next)
        })
    }
}
