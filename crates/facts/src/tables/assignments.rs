//! Roles on paths, as `acl.cfg` has them.

use super::{FileFault, Key, ReverseKey, Row, Table, Who};
use crate::codec::{Reader, Writer};
use crate::vocabulary::{CredentialId, GroupId, Id, Role, RolePath, UserId};
use serde::{Deserialize, Serialize};

/// The key of an assignment: path and grantee, ordered by path, so that one scan finds all grantees on a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssignmentKey {
    /// The path.
    pub path: RolePath,
    /// The grantee.
    pub who: Who,
}

impl AssignmentKey {
    /// The prefix of the keys of all assignments on the path `node`.
    pub fn node_prefix(node: &str) -> Vec<u8> {
        let mut bytes = node.as_bytes().to_vec();
        bytes.push(0);
        bytes
    }

    /// The length of the key prefix that all assignments on one path share. A path contains no NUL, so the first NUL is the end of the path.
    pub(super) fn group_bytes(key: &[u8]) -> usize {
        key.iter().position(|byte| *byte == 0).map_or(key.len(), |end| end + 1)
    }
}

impl Key for AssignmentKey {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Self::node_prefix(self.path.as_str());
        let mut push = |kind: u8, who: &[u8]| {
            bytes.push(kind);
            bytes.extend_from_slice(who);
        };
        match &self.who {
            Who::User(id) => push(1, id.bytes()),
            Who::Group(id) => push(2, id.bytes()),
            Who::Token(id) => push(3, id.bytes()),
            Who::Named(ugid) => push(4, ugid.to_string().as_bytes()),
        }
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (node, who) = bytes.split_at_checked(Self::group_bytes(bytes))?;
        let (path, (kind, id)) = (node.strip_suffix(&[0])?, who.split_first()?);
        let who = match kind {
            1 => Who::User(UserId::from_stored(id)?),
            2 => Who::Group(GroupId::from_stored(id)?),
            3 => Who::Token(CredentialId::from_stored(id)?),
            4 => Who::Named(std::str::from_utf8(id).ok()?.parse().ok()?),
            _ => return None,
        };
        Some(AssignmentKey { path: std::str::from_utf8(path).ok()?.parse().ok()?, who })
    }
}

/// The roles of a grantee on a path, each with a flag: whether the role also counts below the path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// The roles. The flag of a role is true if the role propagates to all paths below.
    pub roles: Vec<(Role, bool)>,
    /// The error in the part of `acl.cfg` that defines the assignment; `None` if this part can be read.
    #[serde(default)]
    pub fault: Option<FileFault>,
}

impl Row for Assignment {
    const TABLE: Table = Table::Assignments;
    type Key = AssignmentKey;

    fn encode(&self, to: &mut Writer) {
        to.list(&self.roles, |to, (role, propagate)| {
            to.u8(*role as u8).flag(*propagate);
        });
        to.option(self.fault.as_ref(), FileFault::encode);
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        let roles = from.list(|from| Some((Role::from_number(from.u8()?)?, from.flag()?)))?;
        Some(Assignment { roles, fault: from.option(FileFault::decode)? })
    }

    fn reverse(key: &AssignmentKey) -> Option<ReverseKey> {
        (!matches!(key.who, Who::Named(_))).then(|| ReverseKey::Assigned(key.who.clone(), key.path.clone()))
    }
}
