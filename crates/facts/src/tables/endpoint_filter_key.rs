//! The keys of endpoint filters. A key consists of a project, and an endpoint or group of endpoints that the catalog of the project contains.

use super::Key;
use crate::codec::Reader;
use crate::vocabulary::{EndpointGroupId, EndpointId, ProjectId};
use serde::{Deserialize, Serialize};

/// An item of a project's catalog: an endpoint, or the endpoints of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Selected {
    /// An endpoint.
    Endpoint(EndpointId),
    /// The endpoints of a group.
    Group(EndpointGroupId),
}

impl Selected {
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let (kind, id) = match &self {
            Selected::Endpoint(id) => (1, id.bytes()),
            Selected::Group(id) => (2, id.bytes()),
        };
        [&[kind], id.as_slice()].concat()
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Option<Self> {
        match (from.u8()?, from.fixed()?) {
            (1, id) => Some(Selected::Endpoint(EndpointId::from_bytes(id))),
            (2, id) => Some(Selected::Group(EndpointGroupId::from_bytes(id))),
            _ => None,
        }
    }
}

/// A project, and one item that its catalog contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EndpointFilterKey {
    /// The project.
    pub project: ProjectId,
    /// The endpoint or group.
    pub selected: Selected,
}

impl EndpointFilterKey {
    /// The prefix of the filters of a project.
    pub fn of(project: &ProjectId) -> Vec<u8> {
        project.bytes().to_vec()
    }
}

impl Key for EndpointFilterKey {
    fn bytes(&self) -> Vec<u8> {
        [Self::of(&self.project), self.selected.to_bytes()].concat()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader::new(bytes);
        let project = ProjectId::from_bytes(from.fixed()?);
        let key = EndpointFilterKey { project, selected: Selected::read(&mut from)? };
        from.is_empty().then_some(key)
    }
}
