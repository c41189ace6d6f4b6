//! The principal: the data about a client that the later doors use.

use crate::sid_set::SidSet;
use enfilade_facts::tables::LinkPlace;
use enfilade_facts::vocabulary::{Authid, CredentialId, GroupId, ProjectId, Sid, UserId};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Identifies those data of a principal that are compared with ACL entries and mode bits: the SIDs of the user and of the groups, the uid and the
/// gids. Principals with the same id get the same result from every ACL. A process never uses the same id for different data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SetId(pub u64);

/// Where the roles of a principal grant rights.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// On every path on which the roles were assigned. This is the reach of a login with a password, and of an API token that is not for one project.
    #[default]
    Everything,
    /// In the datastores that are bound to a project. In these datastores, the Keystone roles in `roles` grant rights, and roles that were assigned
    /// on paths grant no rights.
    Project {
        /// The project.
        project: ProjectId,
        /// The names of these roles.
        roles: Vec<String>,
    },
    /// Nowhere.
    Nothing,
}

/// An authenticated subject.
#[derive(Clone, Debug)]
pub struct Principal {
    /// The name with which the client authenticated.
    pub authid: Authid,
    /// The user, or the owner of the token.
    pub user: UserId,
    /// The API token, if it has roles of its own or is a link. Then the principal has a right only if the owner of the token also has the right.
    pub narrowed_to: Option<CredentialId>,
    /// The shared place, if the token is a link. The principal is then a guest, and has rights only at this place.
    pub link: Option<LinkPlace>,
    /// Where the roles of the principal grant rights.
    pub reach: Reach,
    /// The user's own SID. It becomes the owner of files that this principal creates.
    pub sid: Sid,
    /// All groups of the principal, including groups of groups, sorted.
    pub groups: Vec<GroupId>,
    /// Every SID by which an ACL entry can match the principal.
    pub sids: SidSet,
    /// The uid, for files without an ACL. A user without a uid is never in the class "owner" of a file.
    pub uid: Option<u32>,
    /// The gids, for files without an ACL, sorted.
    pub gids: Vec<u32>,
    /// The id of the set of `sids`, `uid` and `gids`.
    pub set: SetId,
}

impl Principal {
    /// Whether an ACL entry for `sid` matches this principal.
    pub fn has(&self, sid: &Sid) -> bool {
        self.sids.has(sid)
    }

    /// The approximate number of bytes that the principal takes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        size_of_val(self.groups.as_slice())
            + self.sids.heap_bytes()
            + size_of_val(self.gids.as_slice())
            + self.link.as_ref().map_or(0, |place| place.path.as_str().len())
    }

    /// Whether the principal is a member of the group, directly or through other groups.
    pub fn is_in(&self, group: &GroupId) -> bool {
        self.groups.binary_search(group).is_ok()
    }
}

/// The data of a principal that ACL entries and mode bits are compared with: the SIDs, the uid and the gids. ACLs give the same result for principals
/// with equal data.
type Content = (Vec<Sid>, Option<u32>, Vec<u32>);

/// Assigns [`SetId`]s. A user and the user's tokens share one id. Two users have different ids, because each user has a different SID.
#[derive(Debug, Default)]
pub struct Sets {
    known: Mutex<(u64, HashMap<Content, SetId>)>,
}

/// The number of entries at which the table is cleared. The same id is never assigned twice, so a memo never returns an entry for other data.
const SETS_MAX: usize = 4096;

impl Sets {
    /// The id for this content.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn sid(n: u32) -> Sid {
        format!("S-1-5-21-1-2-3-{n}").parse().unwrap()
    }

    fn principal(sids: u32, groups: u8, gids: u32) -> Principal {
        Principal {
            authid: "ann@local".parse().unwrap(),
            user: UserId::from_bytes([1; 16]),
            narrowed_to: None,
            link: None,
            reach: Reach::Nothing,
            sid: sid(0),
            groups: (0..groups).map(|n| GroupId::from_bytes([n; 16])).collect(),
            sids: SidSet::new((0..sids).map(sid).collect()),
            uid: None,
            gids: (0..gids).collect(),
            set: SetId(0),
        }
    }

    #[test]
    fn the_weight_of_a_principal_has_everything_it_lists() {
        let weight = |sids, groups, gids| principal(sids, groups, gids).heap_bytes();
        let none = weight(0, 0, 0);
        // The table of an empty set has one slot; the table of a set of eight SIDs has 32 slots.
        assert_eq!(none, size_of::<u64>());
        assert_eq!(weight(0, 3, 0) - none, 3 * size_of::<GroupId>());
        assert_eq!(weight(0, 0, 5) - none, 5 * size_of::<u32>());
        assert_eq!(weight(8, 0, 0) - none, 8 * size_of::<Sid>() + 31 * size_of::<u64>());
    }

    #[test]
    fn equal_contents_have_one_number_and_no_number_is_used_again() {
        let sets = Sets::default();
        let first = sets.intern(&[sid(1)], None, &[]);
        assert_eq!(sets.intern(&[sid(1)], None, &[]), first);
        let others = [
            sets.intern(&[sid(2)], None, &[]),
            sets.intern(&[sid(1)], Some(1), &[]),
            sets.intern(&[sid(1)], None, &[1]),
        ];
        for (at, one) in others.iter().enumerate() {
            assert!(*one != first && !others[..at].contains(one), "{others:?}");
        }
        // Fills the table, which is then cleared.
        let last = (0..SETS_MAX as u32).map(|n| sets.intern(&[], Some(n), &[])).last().unwrap();
        let again = sets.intern(&[sid(1)], None, &[]);
        assert!(again.0 > last.0.min(first.0) && again != first, "{again:?}");
        assert!(sets.known.lock().unwrap().1.len() <= SETS_MAX);
    }
}
