//! Roles on paths, as `acl.cfg` has them.

use super::{Key, Row, Table};
use crate::codec::{Reader, Writer};
use crate::vocabulary::{GroupId, Role, RolePath, UserId};
use serde::{Deserialize, Serialize};

/// Whom an assignment is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Who {
    /// One user.
    User(UserId),
    /// Everybody in a group.
    Group(GroupId),
}

/// Path and whom; ordered by path, so that one scan finds everybody on a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssignmentKey {
    /// Where.
    pub path: RolePath,
    /// For whom.
    pub who: Who,
}

impl AssignmentKey {
    /// The prefix of the keys of one node of a path.
    pub fn node_prefix(node: &str) -> Vec<u8> {
        let mut bytes = node.as_bytes().to_vec();
        bytes.push(0);
        bytes
    }

    /// Everybody on one node is asked for together.
    pub(super) fn group_bytes(key: &[u8]) -> usize {
        key.len().saturating_sub(WHO_BYTES)
    }
}

/// A kind and an id.
const WHO_BYTES: usize = 17;

impl Key for AssignmentKey {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Self::node_prefix(self.path.as_str());
        let (kind, id) = match &self.who {
            Who::User(id) => (1, id.bytes()),
            Who::Group(id) => (2, id.bytes()),
        };
        bytes.push(kind);
        bytes.extend_from_slice(id);
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (path, rest) = bytes.split_at_checked(bytes.len().checked_sub(WHO_BYTES + 1)?)?;
        let (&[0, kind], id) = rest.split_first_chunk::<2>()? else { return None };
        let who = match kind {
            1 => Who::User(UserId::from_bytes(id.try_into().ok()?)),
            2 => Who::Group(GroupId::from_bytes(id.try_into().ok()?)),
            _ => return None,
        };
        Some(AssignmentKey { path: std::str::from_utf8(path).ok()?.parse().ok()?, who })
    }
}

/// The roles somebody has on a path, each with whether it also holds below.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// Role and whether it propagates.
    pub roles: Vec<(Role, bool)>,
}

impl Row for Assignment {
    const TABLE: Table = Table::Assignments;
    type Key = AssignmentKey;

    fn encode(&self, to: &mut Writer) {
        to.list(&self.roles, |to, (role, propagate)| {
            to.u8(*role as u8).flag(*propagate);
        });
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        let roles = from.list(|from| Some((Role::from_number(from.u8()?)?, from.flag()?)))?;
        Some(Assignment { roles })
    }
}
