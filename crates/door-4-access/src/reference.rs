//! A naive second implementation of the rules for roles and ACLs, which follows the text of MS-DTYP §2.5.3.2. This implementation judges one right at
//! a time, and does not use sets of rights. It was written independently of the fast implementation. Tests compare the results of the two
//! implementations.

use crate::security_descriptor::{AceType, SecurityDescriptor};
use enfilade_facts::tables::Who;
use enfilade_facts::vocabulary::{Role, Sid};
use enfilade_identity::Principal;
use std::sync::OnceLock;

/// One assignment: a node, the grantee, and the roles, each with a flag that tells whether the role propagates.
pub(crate) type Row<'r> = (&'r str, Who, Vec<(Role, bool)>);

/// The roles on a path, by the rules of `acl.cfg`. The search goes from the leaf upwards: the first node with roles for the user or for a group of
/// the user decides. If a node has roles for the user itself, the roles of groups on this node do not count. Of the names in `acl.cfg`, this function
/// knows only those of the tests: the user `alice@local` and the group `@staff`.
pub(crate) fn roles(rows: &[Row<'_>], principal: &Principal, path: &str) -> Vec<Role> {
    of_kind(
        rows,
        path,
        &[
            &|who| match who {
                Who::User(user) => *user == principal.user,
                Who::Named(ugid) => ugid.to_string() == "alice@local",
                _ => false,
            },
            &|who| match who {
                Who::Group(group) => principal.groups.contains(group),
                Who::Named(ugid) => ugid.to_string() == "@staff",
                _ => false,
            },
        ],
    )
}

/// The roles that are assigned to the token itself. An assignment names the token by its id or as `alice@local!test`.
pub(crate) fn roles_of_token(rows: &[Row<'_>], principal: &Principal, path: &str) -> Vec<Role> {
    of_kind(
        rows,
        path,
        &[&|who| match who {
            Who::Token(token) => Some(*token) == principal.narrowed_to,
            Who::Named(ugid) => ugid.to_string() == "alice@local!test",
            _ => false,
        }],
    )
}

type SpeaksOf<'a> = &'a dyn Fn(&Who) -> bool;

fn of_kind(rows: &[Row<'_>], path: &str, kinds: &[SpeaksOf<'_>]) -> Vec<Role> {
    let mut node = path.to_owned();
    loop {
        for speaks_of in kinds {
            let mut set = Vec::new();
            for (at, who, roles) in rows {
                if *at != node || !speaks_of(who) {
                    continue;
                }
                for (role, propagates) in roles {
                    if (*propagates || node == path) && !set.contains(role) {
                        set.push(*role);
                    }
                }
            }
            if !set.is_empty() {
                set.sort();
                return set;
            }
        }
        if node == "/" {
            return Vec::new();
        }
        node = match node.rfind('/') {
            Some(0) | None => "/".to_owned(),
            Some(slash) => node[..slash].to_owned(),
        };
    }
}

pub(crate) fn is_granted(descriptor: &SecurityDescriptor, sids: &[Sid], right: u32) -> bool {
    let Some(list) = descriptor.dacl.as_ref() else { return true };
    // MS-DTYP §2.4.2.4: CREATOR OWNER, CREATOR GROUP and OWNER RIGHTS are placeholders, which never match a user or group.
    static PLACEHOLDERS: OnceLock<[Sid; 3]> = OnceLock::new();
    let placeholders =
        PLACEHOLDERS.get_or_init(|| ["S-1-3-0", "S-1-3-1", "S-1-3-4"].map(|text| text.parse().unwrap()));
    let holds = |sid: &Sid| !placeholders.contains(sid) && sids.iter().any(|own| own == sid);
    let is_owner = match descriptor.owner {
        Some(owner) => holds(&owner),
        None => false,
    };
    let owner_rights_entry =
        list.iter().filter(|ace| ace.flags.0 & 0x8 == 0).any(|ace| ace.sid == Sid::OWNER_RIGHTS);
    if is_owner && !owner_rights_entry && (right == 0x2_0000 || right == 0x4_0000) {
        return true;
    }
    for ace in list {
        let inherit_only = ace.flags.0 & 0x8 != 0;
        let matches = holds(&ace.sid) || (ace.sid == Sid::OWNER_RIGHTS && is_owner);
        let names_it = [
            (ace.mask.0, right),
            (ace.mask.0 & 0x1000_0000, 0x1000_0000 * u32::from(right & 0x1f_01ff != 0)),
            (ace.mask.0 & 0x8000_0000, 0x8000_0000 * u32::from(right & 0x12_0089 != 0)),
            (ace.mask.0 & 0x4000_0000, 0x4000_0000 * u32::from(right & 0x12_0116 != 0)),
            (ace.mask.0 & 0x2000_0000, 0x2000_0000 * u32::from(right & 0x12_00a0 != 0)),
        ];
        let names_it = names_it.into_iter().any(|(mask, bit)| mask & bit != 0);
        if inherit_only || !matches || !names_it {
            continue;
        }
        match ace.kind {
            AceType::Allow => return true,
            AceType::Deny => return false,
            AceType::Audit => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluate::granted;
    use crate::security_descriptor::{Ace, AceFlags};
    use enfilade_facts::vocabulary::{AccessMask, UserId};
    use enfilade_identity::{Principal, SetId, SidSet};
    use proptest::prelude::*;

    fn principal(sids: Vec<Sid>) -> Principal {
        Principal {
            authid: "alice@local".parse().unwrap(),
            user: UserId::from_bytes([1; 16]),
            narrowed_to: None,
            link: None,
            reach: enfilade_identity::Reach::Everything,
            sid: Sid::of_store([1, 2, 3], 1000),
            groups: Vec::new(),
            sids: SidSet::new(sids),
            uid: None,
            gids: Vec::new(),
            set: SetId(1),
        }
    }

    /// A SID from a small set, so that the entries of the test often match.
    fn any_sid() -> impl Strategy<Value = Sid> {
        prop_oneof![
            (0u32..6).prop_map(|n| Sid::of_store([1, 2, 3], 1000 + n)),
            Just(Sid::EVERYONE),
            Just(Sid::OWNER_RIGHTS),
            Just(Sid::CREATOR_OWNER),
            Just(Sid::CREATOR_GROUP),
        ]
    }

    /// The SIDs of a principal. The list also contains placeholders, which must not count.
    fn sids_of_somebody() -> impl Strategy<Value = Vec<Sid>> {
        proptest::collection::vec(any_sid(), 0..5)
    }

    fn any_ace() -> impl Strategy<Value = Ace> {
        let kind =
            prop_oneof![3 => Just(AceType::Allow), 2 => Just(AceType::Deny), 1 => Just(AceType::Audit)];
        let flags = prop_oneof![Just(0), Just(8), Just(3), Just(11)];
        let generic = (0u32..16).prop_map(|bits| bits << 28);
        let mask = prop_oneof![3 => 0u32..0x20_0000, 1 => generic];
        (kind, flags, mask, any_sid()).prop_map(|(kind, flags, mask, sid)| Ace {
            kind,
            flags: AceFlags(flags),
            mask: AccessMask(mask),
            sid,
        })
    }

    fn any_descriptor() -> impl Strategy<Value = SecurityDescriptor> {
        let dacl = proptest::option::weighted(0.95, proptest::collection::vec(any_ace(), 0..8));
        (proptest::option::of(any_sid()), dacl).prop_map(|(owner, dacl)| SecurityDescriptor {
            owner,
            dacl,
            ..SecurityDescriptor::default()
        })
    }

    fn slow(descriptor: &SecurityDescriptor, principal: &Principal) -> AccessMask {
        let rights = (0..21).map(|bit| 1u32 << bit).filter(|right| AccessMask::ALL.0 & right != 0);
        rights
            .filter(|right| is_granted(descriptor, principal.sids.as_slice(), *right))
            .fold(AccessMask::NONE, |mask, right| mask | AccessMask(right))
    }

    /// Compares both implementations on all lists of up to three entries. Each entry grants or denies one or more of four rights to one of three
    /// SIDs. Each list is judged for eight principals, one for each subset of the three SIDs.
    #[test]
    fn every_small_list_is_judged_alike() {
        let sids: Vec<Sid> = (0..3).map(|n| Sid::of_store([1, 2, 3], 1000 + n)).collect();
        let mut entries = Vec::new();
        for kind in [AceType::Allow, AceType::Deny] {
            for sid in &sids {
                entries.extend((1..16).map(|mask| Ace {
                    kind,
                    flags: AceFlags(0),
                    mask: AccessMask(mask),
                    sid: *sid,
                }));
            }
        }
        let holders: Vec<Principal> = (0..8_usize)
            .map(|set| principal((0..3).filter(|n| set & 1 << n != 0).map(|n| sids[n]).collect()))
            .collect();
        let mut lists = vec![Vec::new()];
        let mut judged = 0_u64;
        for length in 0..=3 {
            for list in &lists {
                let descriptor =
                    SecurityDescriptor { dacl: Some(list.clone()), ..SecurityDescriptor::default() };
                for holder in &holders {
                    let slowly = (0..4)
                        .map(|bit| 1 << bit)
                        .filter(|right| is_granted(&descriptor, holder.sids.as_slice(), *right));
                    assert_eq!(
                        granted(&descriptor, holder).0,
                        slowly.sum::<u32>(),
                        "{list:?} {:?}",
                        holder.sids
                    );
                    judged += 1;
                }
            }
            if length < 3 {
                let longer = |list: &Vec<Ace>| {
                    entries.iter().map(|ace| [list.as_slice(), &[*ace]].concat()).collect::<Vec<_>>()
                };
                lists = lists.iter().flat_map(longer).collect();
            }
        }
        assert_eq!(judged, 8 * (1 + 90 + 90 * 90 + 90 * 90 * 90));
    }

    /// SplitMix64. This generator returns the same numbers in every run.
    struct Sequence(u64);

    impl Sequence {
        fn below(&mut self, most: u64) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (z ^ (z >> 31)) % most
        }
    }

    /// `cargo xtask acls` runs this test with more lists.
    #[test]
    fn random_lists_are_judged_alike() {
        let number = |name: &str, otherwise: u64| {
            std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(otherwise)
        };
        let cases = number("ENFILADE_CAMPAIGN_N", 100_000);
        let mut dice = Sequence(number("ENFILADE_CAMPAIGN_SEED", 3));
        let own = (0..6).map(|n| Sid::of_store([1, 2, 3], 1_000 + n));
        let sids: Vec<Sid> =
            own.chain([Sid::EVERYONE, Sid::OWNER_RIGHTS, Sid::CREATOR_OWNER, Sid::CREATOR_GROUP]).collect();
        let (mut some, mut all) = (0_u64, 0_u64);
        for n in 1..=cases {
            let one = |dice: &mut Sequence| sids[dice.below(sids.len() as u64) as usize];
            let entry = |dice: &mut Sequence| Ace {
                kind: [AceType::Allow, AceType::Allow, AceType::Deny, AceType::Audit][dice.below(4) as usize],
                flags: AceFlags([0, 0, 3, 8, 11][dice.below(5) as usize]),
                mask: AccessMask(match dice.below(4) {
                    0 => (dice.below(16) as u32) << 28 | dice.below(0x20_0000) as u32,
                    _ => dice.below(0x20_0000) as u32,
                }),
                sid: one(dice),
            };
            let length = dice.below(9);
            let list: Vec<Ace> = (0..length).map(|_| entry(&mut dice)).collect();
            let descriptor = SecurityDescriptor {
                owner: (dice.below(4) > 0).then(|| one(&mut dice)),
                dacl: (dice.below(100) > 0).then_some(list),
                ..SecurityDescriptor::default()
            };
            let held = dice.below(1 << sids.len());
            let holder = (0..sids.len()).filter(|n| held & 1 << n != 0).map(|n| sids[n]).collect();
            let holder = principal(holder);
            let fast = granted(&descriptor, &holder);
            assert_eq!(fast, slow(&descriptor, &holder), "{descriptor:?} {:?}", holder.sids);
            some += u64::from(!fast.is_empty());
            all += u64::from(fast == AccessMask::ALL);
            if cases > 1_000_000 && n % 1_000_000 == 0 {
                println!("{n} of {cases} lists");
            }
        }
        println!("{cases} lists judged alike; {some} grant something, {all} everything");
        assert!(some > cases / 4 && some < cases && all < cases / 4);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn fast_is_slow(descriptor in any_descriptor(), sids in sids_of_somebody()) {
            let principal = principal(sids);
            prop_assert_eq!(granted(&descriptor, &principal), slow(&descriptor, &principal));
        }

        #[test]
        fn adding_a_deny_or_removing_an_allow_adds_no_right(
            descriptor in any_descriptor(),
            sids in sids_of_somebody(),
            deny in any_ace(),
            at in any::<prop::sample::Index>(),
        ) {
            let principal = principal(sids);
            let before = granted(&descriptor, &principal);
            let Some(entries) = descriptor.dacl.clone() else { return Ok(()) };
            // If an ACL has an entry for OWNER RIGHTS, the owner does not have the implied right to read and change the ACL. If the entry is removed,
            // the owner gets this right. So the test neither adds nor removes entries for OWNER RIGHTS.
            let deny = if deny.sid == Sid::OWNER_RIGHTS { Ace { sid: Sid::EVERYONE, ..deny } } else { deny };
            let mut denied = entries.clone();
            denied.insert(at.index(denied.len() + 1), Ace { kind: AceType::Deny, ..deny });
            let after = granted(&SecurityDescriptor { dacl: Some(denied), ..descriptor.clone() }, &principal);
            prop_assert!(before.covers(after));
            if let Some(index) = entries.iter().position(|ace| ace.kind == AceType::Allow && ace.sid != Sid::OWNER_RIGHTS) {
                let mut removed = entries;
                removed.remove(index);
                let after = granted(&SecurityDescriptor { dacl: Some(removed), ..descriptor }, &principal);
                prop_assert!(before.covers(after));
            }
        }
    }
}
