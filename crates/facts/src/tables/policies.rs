//! Policies that services store in this server, and the endpoints, services and regions that each policy is for.

use super::{Key, RegionId, Row, Table};
use crate::codec::{Reader, Writer};
use crate::vocabulary::{EndpointId, PolicyId, ServiceId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A policy. No decision of this server depends on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// The media type of the rules, such as `application/json`.
    pub kind: String,
    /// The rules, as the client stored them.
    pub blob: String,
}

impl Row for Policy {
    const TABLE: Table = Table::Policies;
    type Key = PolicyId;

    fn encode(&self, to: &mut Writer) {
        to.text(&self.kind).text(&self.blob);
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(Policy { kind: from.text()?, blob: from.text()? })
    }
}

/// The endpoints to which a policy applies. Each target has at most one policy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum PolicyTarget {
    /// One endpoint.
    Endpoint(EndpointId),
    /// All endpoints of a service.
    Service(ServiceId),
    /// The endpoints of a service in a region, and in the regions that this region contains.
    InRegion(ServiceId, RegionId),
}

impl fmt::Display for PolicyTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PolicyTarget::Endpoint(id) => write!(f, "endpoint {id}"),
            PolicyTarget::Service(id) => write!(f, "service {id}"),
            PolicyTarget::InRegion(id, region) => write!(f, "service {id} in region {region}"),
        }
    }
}

impl Key for PolicyTarget {
    fn bytes(&self) -> Vec<u8> {
        match self {
            PolicyTarget::Endpoint(id) => [&[1], id.bytes().as_slice()].concat(),
            PolicyTarget::Service(id) => [&[2], id.bytes().as_slice()].concat(),
            PolicyTarget::InRegion(id, region) => [&[3], id.bytes().as_slice(), region.0.as_bytes()].concat(),
        }
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader::new(bytes);
        let (kind, id) = (from.u8()?, from.fixed()?);
        let key = match kind {
            1 => PolicyTarget::Endpoint(EndpointId::from_bytes(id)),
            2 => PolicyTarget::Service(ServiceId::from_bytes(id)),
            3 => {
                let region = String::from_utf8(from.rest().to_vec()).ok()?;
                PolicyTarget::InRegion(ServiceId::from_bytes(id), RegionId(region))
            }
            _ => return None,
        };
        from.is_empty().then_some(key)
    }
}

/// The policy of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyAssociation {
    /// The policy.
    pub policy: PolicyId,
}

impl Row for PolicyAssociation {
    const TABLE: Table = Table::PolicyAssociations;
    type Key = PolicyTarget;

    fn encode(&self, to: &mut Writer) {
        to.fixed(self.policy.bytes());
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(PolicyAssociation { policy: PolicyId::from_bytes(from.fixed()?) })
    }
}
