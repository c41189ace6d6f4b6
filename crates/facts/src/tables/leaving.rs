//! Removed resources that still have dependent records. No request can reach the dependent records any more, and a background job removes them in
//! batches.

use super::{Key, Row, Selected, Table};
use crate::codec::{Reader, Writer};
use crate::vocabulary::{ConsumerId, DomainId, GroupId, Id, ProjectId, RoleId};
use serde::{Deserialize, Serialize};

/// The resource that was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LeavingKey {
    /// A domain, with its users, groups, projects and roles, its identity providers and limits, and the grants on it.
    Domain(DomainId),
    /// A project, with the roles on it and its bindings, application credentials, trusts, access tokens, limits and endpoint filters.
    Project(ProjectId),
    /// A group, with its members and roles.
    Group(GroupId),
    /// A role, with its grants.
    Role(RoleId),
    /// An endpoint or a group of endpoints, with the endpoint filters that select it for projects.
    Selected(Selected),
    /// An OAuth consumer, with its request tokens and access tokens.
    Consumer(ConsumerId),
}

impl Key for LeavingKey {
    fn bytes(&self) -> Vec<u8> {
        let (kind, id) = match self {
            LeavingKey::Domain(id) => (1, id.stored()),
            LeavingKey::Project(id) => (2, id.stored()),
            LeavingKey::Group(id) => (3, id.stored()),
            LeavingKey::Role(id) => (4, id.stored()),
            LeavingKey::Selected(Selected::Endpoint(id)) => (5, id.stored()),
            LeavingKey::Selected(Selected::Group(id)) => (6, id.stored()),
            LeavingKey::Consumer(id) => (7, id.stored()),
        };
        [&[kind], id.as_slice()].concat()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (kind, id) = bytes.split_first()?;
        match kind {
            1 => Id::from_stored(id).map(LeavingKey::Domain),
            2 => Id::from_stored(id).map(LeavingKey::Project),
            3 => Id::from_stored(id).map(LeavingKey::Group),
            4 => Id::from_stored(id).map(LeavingKey::Role),
            5 => Id::from_stored(id).map(Selected::Endpoint).map(LeavingKey::Selected),
            6 => Id::from_stored(id).map(Selected::Group).map(LeavingKey::Selected),
            7 => Id::from_stored(id).map(LeavingKey::Consumer),
            _ => None,
        }
    }
}

/// A record without a value. While it exists, dependent records of the removed resource may exist, too.
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
