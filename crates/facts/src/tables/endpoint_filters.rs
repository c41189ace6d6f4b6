//! Endpoint filters: which endpoints the catalog of a project contains. Without a filter the catalog contains all endpoints.

use super::{Endpoint, Interface, Key, RegionId, ReverseKey, Row, Table};
use crate::codec::{Reader, Writer};
use crate::vocabulary::{EndpointGroupId, EndpointId, ProjectId, ServiceId};
use serde::{Deserialize, Serialize};

/// The properties that an endpoint of a group has. A property that is `None` may have any value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupFilters {
    /// The service.
    pub service: Option<ServiceId>,
    /// The region; `Some(None)` stands for endpoints without a region.
    pub region: Option<Option<RegionId>>,
    /// The interface.
    pub interface: Option<Interface>,
}

impl GroupFilters {
    /// Whether an endpoint has all of these properties.
    pub fn match_with(&self, endpoint: &Endpoint) -> bool {
        let region = self.region.as_ref().map(|region| region.as_ref().map(|id| id.0.as_str()));
        self.service.is_none_or(|service| service == endpoint.service)
            && region.is_none_or(|region| region == endpoint.region.as_deref())
            && self.interface.is_none_or(|interface| interface == endpoint.interface)
    }
}

/// A group of endpoints: all endpoints with certain properties.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointGroup {
    /// The name.
    pub name: String,
    /// A description of the group.
    pub description: Option<String>,
    /// The properties of the endpoints.
    pub filters: GroupFilters,
}

impl Row for EndpointGroup {
    const TABLE: Table = Table::EndpointGroups;
    type Key = EndpointGroupId;

    fn encode(&self, to: &mut Writer) {
        let text = |to: &mut Writer, text: &str| {
            to.text(text);
        };
        to.text(&self.name).option(self.description.as_deref(), text);
        let GroupFilters { service, region, interface } = &self.filters;
        to.option(service.as_ref(), |to, service| {
            to.fixed(service.bytes());
        });
        to.option(region.as_ref(), |to, region| {
            to.option(region.as_ref().map(|region| region.0.as_str()), text);
        });
        to.option(*interface, |to, interface| {
            to.u8(interface as u8);
        });
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        let (name, description) = (from.text()?, from.option(Reader::text)?);
        let service = from.option(Reader::fixed)?.map(ServiceId::from_bytes);
        let region = from.option(|from| from.option(Reader::text))?.map(|region| region.map(RegionId));
        let interface = from.option(|from| Interface::from_byte(from.u8()?))?;
        Some(EndpointGroup { name, description, filters: GroupFilters { service, region, interface } })
    }
}

/// What a project's catalog contains: an endpoint, or the endpoints of a group.
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

/// A project, and what its catalog contains.
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

/// A record without a value: the key contains everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointFilter;

impl Row for EndpointFilter {
    const TABLE: Table = Table::EndpointFilters;
    type Key = EndpointFilterKey;

    fn encode(&self, _: &mut Writer) {}

    fn decode(_: &mut Reader<'_>) -> Option<Self> {
        Some(EndpointFilter)
    }

    fn reverse(key: &EndpointFilterKey) -> Option<ReverseKey> {
        Some(ReverseKey::Selected(key.selected, key.project))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_in_a_group_if_it_has_all_its_properties() {
        let [one, two] = [1, 2].map(|n| ServiceId::from_bytes([n; 16]));
        let east = || Some(Some(RegionId("east".to_owned())));
        let endpoint = |region: Option<&str>| Endpoint {
            service: one,
            interface: Interface::Public,
            region: region.map(str::to_owned),
            url: "https://x".to_owned(),
            enabled: false,
        };
        for (service, region, interface, in_east, in_none) in [
            (None, None, None, true, true),
            (Some(one), None, None, true, true),
            (Some(two), None, None, false, false),
            (None, east(), None, true, false),
            (None, Some(None), None, false, true),
            (None, None, Some(Interface::Public), true, true),
            (None, None, Some(Interface::Admin), false, false),
            (Some(one), east(), Some(Interface::Public), true, false),
            (Some(two), east(), Some(Interface::Public), false, false),
        ] {
            let filters = GroupFilters { service, region, interface };
            let matches = [Some("east"), None].map(|region| filters.match_with(&endpoint(region)));
            assert_eq!(matches, [in_east, in_none], "{filters:?}");
        }
    }
}
