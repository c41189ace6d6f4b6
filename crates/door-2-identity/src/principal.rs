//! Who is inside: the one thing the later doors know of a visitor.

use enfilade_facts::vocabulary::{Authid, CredentialId, GroupId, ProjectId, Sid, UserId};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Stands for everything an ACL or mode bits can match of a principal.
/// Two principals with equal numbers match alike; a number is never used again in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SetId(pub u64);

/// Where a principal's roles count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// Wherever they were given: a password, an API token.
    #[default]
    Everything,
    /// In the datastores that are bound to a project, and there these roles of Keystone's kind instead.
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
    /// How it calls itself.
    pub authid: Authid,
    /// The user, or the owner of the token.
    pub user: UserId,
    /// The token, where it has only the roles that are assigned to itself, within its owner's.
    pub narrowed_to: Option<CredentialId>,
    /// Where its roles count.
    pub reach: Reach,
    /// The user's own SID: who owns what this principal creates.
    pub sid: Sid,
    /// Every group it is in, nested ones included, sorted.
    pub groups: Vec<GroupId>,
    /// Every SID an ACL entry may match it by, sorted.
    pub sids: Vec<Sid>,
    /// The user number, where files have no ACL; without one the user is "other".
    pub uid: Option<u32>,
    /// Group numbers for the same, sorted.
    pub gids: Vec<u32>,
    /// Stands for `sids`, `uid` and `gids` together.
    pub set: SetId,
}

impl Principal {
    /// Whether an ACL entry for `sid` speaks of this principal.
    pub fn has(&self, sid: &Sid) -> bool {
        self.sids.binary_search(sid).is_ok()
    }

    /// About how much memory it takes beside itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        size_of_val(self.groups.as_slice())
            + size_of_val(self.sids.as_slice())
            + size_of_val(self.gids.as_slice())
    }

    /// Whether it is in the group, directly or not.
    pub fn is_in(&self, group: &GroupId) -> bool {
        self.groups.binary_search(group).is_ok()
    }
}

/// Everything that has to be equal for two principals to match alike.
type Content = (Vec<Sid>, Option<u32>, Vec<u32>);

/// Gives out [`SetId`]s: users in the same groups with no SID of their own in any ACL still differ by their own SID,
/// but a user and the user's tokens share one.
#[derive(Debug, Default)]
pub struct Sets {
    known: Mutex<(u64, HashMap<Content, SetId>)>,
}

/// When this many are known they are forgotten; numbers go on, so nothing that was remembered is believed wrongly.
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
