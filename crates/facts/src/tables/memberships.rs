//! Who is in which group. Groups may be in groups.

use super::{Key, Row, Table};
use crate::codec::{Reader, Writer};
use crate::vocabulary::{GroupId, UserId};
use serde::{Deserialize, Serialize};

/// Who can be in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Member {
    /// A user.
    User(UserId),
    /// Another group, with everybody in it.
    Group(GroupId),
}

impl Member {
    /// The prefix of this member's keys: one scan finds the groups it is in.
    pub fn prefix(&self) -> Vec<u8> {
        let (kind, id) = match self {
            Member::User(id) => (1, id.bytes()),
            Member::Group(id) => (2, id.bytes()),
        };
        let mut bytes = vec![kind];
        bytes.extend_from_slice(id);
        bytes
    }
}

/// A member and a group it is in directly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MembershipKey {
    /// Who.
    pub member: Member,
    /// In which group.
    pub group: GroupId,
}

impl MembershipKey {
    /// All groups of one member are asked for together.
    pub(super) const GROUP_BYTES: usize = 17;
}

impl Key for MembershipKey {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.member.prefix();
        bytes.extend_from_slice(self.group.bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (&[kind], ids) = bytes.split_first_chunk::<1>()?;
        let (id, group) = ids.split_first_chunk::<16>()?;
        let member = match kind {
            1 => Member::User(UserId::from_bytes(*id)),
            2 => Member::Group(GroupId::from_bytes(*id)),
            _ => return None,
        };
        Some(MembershipKey { member, group: GroupId::from_bytes(group.try_into().ok()?) })
    }
}

/// That it is so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership;

impl Row for Membership {
    const TABLE: Table = Table::Memberships;
    type Key = MembershipKey;

    fn encode(&self, _: &mut Writer) {}

    fn decode(_: &mut Reader<'_>) -> Option<Self> {
        Some(Membership)
    }
}
