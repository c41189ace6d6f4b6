//! Removed resources whose dependent records still exist. These records are unreachable; a background job removes them in batches.

use super::{Key, Row, Selected, Table};
use crate::codec::{Reader, Writer};
use crate::vocabulary::{ConsumerId, DomainId, EndpointGroupId, EndpointId, GroupId, ProjectId, RoleId};
use serde::{Deserialize, Serialize};

/// The resource that was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LeavingKey {
    /// A domain, with its users, groups and projects.
    Domain(DomainId),
    /// A project, with the roles on it and its bindings, application credentials, trusts, access tokens, limits and endpoint filters.
    Project(ProjectId),
    /// A group, with its members and roles.
    Group(GroupId),
    /// A role, with its grants.
    Role(RoleId),
    /// An endpoint or a group of endpoints, with the filters of projects that select it.
    Selected(Selected),
    /// An OAuth consumer, with its request tokens and access tokens.
    Consumer(ConsumerId),
}

impl Key for LeavingKey {
    fn bytes(&self) -> Vec<u8> {
        let (kind, id) = match self {
            LeavingKey::Domain(id) => (1, id.bytes()),
            LeavingKey::Project(id) => (2, id.bytes()),
            LeavingKey::Group(id) => (3, id.bytes()),
            LeavingKey::Role(id) => (4, id.bytes()),
            LeavingKey::Selected(Selected::Endpoint(id)) => (5, id.bytes()),
            LeavingKey::Selected(Selected::Group(id)) => (6, id.bytes()),
            LeavingKey::Consumer(id) => (7, id.bytes()),
        };
        [&[kind], id.as_slice()].concat()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader::new(bytes);
        let (kind, id) = (from.u8()?, from.fixed()?);
        let key = match kind {
            1 => LeavingKey::Domain(DomainId::from_bytes(id)),
            2 => LeavingKey::Project(ProjectId::from_bytes(id)),
            3 => LeavingKey::Group(GroupId::from_bytes(id)),
            4 => LeavingKey::Role(RoleId::from_bytes(id)),
            5 => LeavingKey::Selected(Selected::Endpoint(EndpointId::from_bytes(id))),
            6 => LeavingKey::Selected(Selected::Group(EndpointGroupId::from_bytes(id))),
            7 => LeavingKey::Consumer(ConsumerId::from_bytes(id)),
            _ => return None,
        };
        from.is_empty().then_some(key)
    }
}

/// A record without a value: dependent records of the resource may still exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leaving;

impl Row for Leaving {
    const TABLE: Table = Table::Leaving;
    type Key = LeavingKey;

    fn encode(&self, _: &mut Writer) {}

    fn decode(_: &mut Reader<'_>) -> Option<Self> {
        Some(Leaving)
    }
}
