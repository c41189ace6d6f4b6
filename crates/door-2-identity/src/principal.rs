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

/// SIDs. Whether one is among them takes as long for four as for 65,536.
///
/// Measured (`bench/runs/2026-11-23-access.json`): judging an entry for a principal with 4,000 SIDs takes 177 ns, and 313 ns with a search in a
/// sorted list. Goal `groups-4000`: 4,000 groups cost at most 1.1 times the instructions of 4; measured 1.02.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SidSet {
    sorted: Vec<Sid>,
    /// At least twice as many as there are SIDs, a power of two: half of a SID's mark, and its place among them plus one; 0 is free. A SID is
    /// in the first free slot from where the other half of its mark points to.
    slots: Vec<u64>,
}

impl SidSet {
    /// Of these, each once.
    pub fn new(mut sids: Vec<Sid>) -> Self {
        sids.sort_unstable();
        sids.dedup();
        let mut set = SidSet { slots: vec![0; (2 * sids.len() + 1).next_power_of_two()], sorted: sids };
        for (place, sid) in (1_u64..).zip(&set.sorted) {
            let mut at = set.first_slot(sid);
            while set.slots.get(at).is_some_and(|slot| *slot != 0) {
                at = set.slot_after(at);
            }
            if let Some(slot) = set.slots.get_mut(at) {
                *slot = sid.mark() & TAG | place;
            }
        }
        set
    }

    /// Whether this one is among them.
    pub fn has(&self, sid: &Sid) -> bool {
        let (tag, mut at) = (sid.mark() & TAG, self.first_slot(sid));
        while let Some(slot) = self.slots.get(at).filter(|slot| **slot != 0) {
            // No two SIDs share so much by chance; that they are equal is still looked at.
            let place = (slot & !TAG) as usize - 1;
            if slot & TAG == tag && self.sorted.get(place) == Some(sid) {
                return true;
            }
            at = self.slot_after(at);
        }
        false
    }

    /// All of them, sorted.
    pub fn as_slice(&self) -> &[Sid] {
        &self.sorted
    }

    fn first_slot(&self, sid: &Sid) -> usize {
        sid.mark() as usize & self.slots.len().wrapping_sub(1)
    }

    fn slot_after(&self, at: usize) -> usize {
        (at + 1) & self.slots.len().wrapping_sub(1)
    }

    fn heap_bytes(&self) -> usize {
        size_of_val(self.sorted.as_slice()) + size_of_val(self.slots.as_slice())
    }
}

/// The half of a mark that is in a slot.
const TAG: u64 = 0xffff_ffff_0000_0000;

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
    /// Every SID an ACL entry may match it by.
    pub sids: SidSet,
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
        self.sids.has(sid)
    }

    /// About how much memory it takes beside itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        size_of_val(self.groups.as_slice()) + self.sids.heap_bytes() + size_of_val(self.gids.as_slice())
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Few numbers, so that many marks begin alike in a small table.
        #[test]
        fn a_set_has_what_it_is_made_of_and_nothing_else(
            held in proptest::collection::vec(0_u32..400, 0..200),
            asked in proptest::collection::vec(0_u32..400, 0..50),
        ) {
            let sid = |n: &u32| Sid::of_store([1, 2, 3], *n);
            let set = SidSet::new(held.iter().map(sid).collect());
            for n in held.iter().chain(&asked) {
                prop_assert_eq!(set.has(&sid(n)), held.contains(n));
            }
            prop_assert!(set.as_slice().is_sorted() && !set.has(&Sid::EVERYONE));
        }
    }

    #[test]
    fn a_look_into_a_set_is_as_short_for_65536_as_for_few() {
        for count in [1, 4, 400, 4_000, 65_536] {
            let set = SidSet::new((0..count).map(|n| Sid::of_store([1, 2, 3], 7 * n)).collect());
            let looked = |sid: &Sid| {
                let mut at = set.first_slot(sid);
                let mut looked = 1;
                while set.slots[at] != 0 {
                    (at, looked) = (set.slot_after(at), looked + 1);
                }
                looked
            };
            let asked = 10_000;
            let sum: usize = (0..asked).map(|n| looked(&Sid::of_store([9, 9, 9], n))).sum();
            assert!(sum <= asked as usize * 3, "{sum} for {asked} in {count}");
        }
    }
}
