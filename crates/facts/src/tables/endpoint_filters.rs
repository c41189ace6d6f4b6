//! Endpoint filters: which endpoints the catalog of a project contains. If the filters of a project select no endpoint, the catalog contains all
//! endpoints.

use super::{Endpoint, EndpointFilterKey, Interface, RegionId, ReverseKey, Row, Table};
use crate::codec::{Reader, Writer};
use crate::vocabulary::{EndpointGroupId, ServiceId};
use serde::{Deserialize, Serialize};

/// The region that the endpoints of a group must have. This type is not an `Option`, because a dump cannot distinguish the two levels of an `Option`
/// in an `Option`. A reader of the dump would read "without a region" as "any region".
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GroupRegion {
    /// No region.
    Without,
    /// This region.
    Named(RegionId),
}

impl GroupRegion {
    /// The region; `None` for endpoints without a region.
    pub fn id(&self) -> Option<&RegionId> {
        match self {
            GroupRegion::Without => None,
            GroupRegion::Named(id) => Some(id),
        }
    }
}

impl From<Option<RegionId>> for GroupRegion {
    fn from(region: Option<RegionId>) -> Self {
        region.map_or(GroupRegion::Without, GroupRegion::Named)
    }
}

/// The properties that an endpoint of a group has. If a property is `None`, an endpoint with any value of this property can belong to the group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupFilters {
    /// The service.
    pub service: Option<ServiceId>,
    /// The region.
    pub region: Option<GroupRegion>,
    /// The interface.
    pub interface: Option<Interface>,
}

impl GroupFilters {
    /// Whether an endpoint has all of these properties.
    pub fn match_with(&self, endpoint: &Endpoint) -> bool {
        let region = self.region.as_ref().map(|region| region.id().map(|id| id.0.as_str()));
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
        to.text(&self.name).optional_text(self.description.as_deref());
        let GroupFilters { service, region, interface } = &self.filters;
        to.option(service.as_ref(), |to, service| {
            to.fixed(service.bytes());
        });
        to.option(region.as_ref(), |to, region| {
            to.optional_text(region.id().map(|region| region.0.as_str()));
        });
        to.option(*interface, |to, interface| {
            to.u8(interface as u8);
        });
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        let (name, description) = (from.text()?, from.option(Reader::text)?);
        let service = from.option(Reader::fixed)?.map(ServiceId::from_bytes);
        let region = from.option(|from| from.option(Reader::text))?;
        let region = region.map(|region| region.map(RegionId).into());
        let interface = from.option(|from| Interface::from_byte(from.u8()?))?;
        Some(EndpointGroup { name, description, filters: GroupFilters { service, region, interface } })
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
        let east = || Some(GroupRegion::Named(RegionId("east".to_owned())));
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
            (None, Some(GroupRegion::Without), None, false, true),
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
