//! The user, group or token that a record is for.

use crate::codec::Reader;
use crate::vocabulary::{CredentialId, GroupId, Ugid, UserId};
use serde::{Deserialize, Serialize};

/// The grantee of an assignment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Who {
    /// One user.
    User(UserId),
    /// All members of a group.
    Group(GroupId),
    /// One token.
    Token(CredentialId),
    /// The user, token or group with this name. It is possible that no such user, token or group exists. Records that mirror `acl.cfg` have this
    /// form, because the file contains names, not ids.
    Named(Ugid),
}

/// A member of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Member {
    /// A user.
    User(UserId),
    /// Another group, with all its members.
    Group(GroupId),
}

impl Member {
    /// The prefix of the keys of this member's memberships: one scan finds the groups that the member is in.
    pub fn prefix(&self) -> Vec<u8> {
        let (kind, id) = match self {
            Member::User(id) => (1, id.bytes()),
            Member::Group(id) => (2, id.bytes()),
        };
        let mut bytes = vec![kind];
        bytes.extend_from_slice(id);
        bytes
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Option<Self> {
        match from.u8()? {
            1 => UserId::read(from).map(Member::User),
            2 => GroupId::read(from).map(Member::Group),
            _ => None,
        }
    }
}
