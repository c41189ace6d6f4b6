//! Members of groups. A group can be a member of a group.

use super::{Key, Member, ReverseKey, Row, Table, prefix_bytes};
use crate::codec::{Reader, Writer};
use crate::vocabulary::GroupId;
use serde::{Deserialize, Serialize};

/// A member, and a group that contains it directly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MembershipKey {
    /// The member.
    pub member: Member,
    /// The group.
    pub group: GroupId,
}

impl MembershipKey {
    /// The length of the key prefix that all memberships of one member share. One lookup reads all memberships that share the prefix.
    pub(super) fn group_bytes(key: &[u8]) -> usize {
        prefix_bytes(key, Member::read)
    }
}

impl Key for MembershipKey {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.member.prefix();
        bytes.extend_from_slice(self.group.bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader::new(bytes);
        let key = MembershipKey { member: Member::read(&mut from)?, group: GroupId::read(&mut from)? };
        from.is_empty().then_some(key)
    }
}

/// A record without a value: the key contains everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership;

impl Row for Membership {
    const TABLE: Table = Table::Memberships;
    type Key = MembershipKey;

    fn encode(&self, _: &mut Writer) {}

    fn decode(_: &mut Reader<'_>) -> Option<Self> {
        Some(Membership)
    }

    fn reverse(key: &MembershipKey) -> Option<ReverseKey> {
        Some(ReverseKey::Member(key.group, key.member))
    }
}
