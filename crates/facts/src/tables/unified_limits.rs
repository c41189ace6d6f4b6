//! Unified limits: how much of a service's resources a project or domain may use. The services enforce the limits; this server stores them.

use super::{RegionId, Row, Table};
use crate::codec::{Reader, Writer};
use crate::vocabulary::{DomainId, LimitId, ProjectId, RegisteredLimitId, ServiceId};
use serde::{Deserialize, Serialize};

/// How much of a resource of a service each project and domain may use, unless the project or domain has a limit of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisteredLimit {
    /// The service.
    pub service: ServiceId,
    /// The region; `None` if the limit is not for a single region.
    pub region: Option<RegionId>,
    /// The name of the resource, such as `volumes`.
    pub resource: String,
    /// The limit; -1 means no limit.
    pub default: i32,
    /// A description of the limit.
    pub description: Option<String>,
}

impl Row for RegisteredLimit {
    const TABLE: Table = Table::RegisteredLimits;
    type Key = RegisteredLimitId;

    fn encode(&self, to: &mut Writer) {
        to.fixed(self.service.bytes()).option(self.region.as_ref(), |to, region| {
            to.text(&region.0);
        });
        to.text(&self.resource).u32(self.default.cast_unsigned());
        to.optional_text(self.description.as_deref());
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(RegisteredLimit {
            service: ServiceId::from_bytes(from.fixed()?),
            region: from.option(Reader::text)?.map(RegionId),
            resource: from.text()?,
            default: from.u32()?.cast_signed(),
            description: from.option(Reader::text)?,
        })
    }
}

/// The project or domain that a limit is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LimitOwner {
    /// A project.
    Project(ProjectId),
    /// A domain.
    Domain(DomainId),
}

impl LimitOwner {
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let (kind, id) = match &self {
            LimitOwner::Project(id) => (1, id.bytes()),
            LimitOwner::Domain(id) => (2, id.bytes()),
        };
        [&[kind], id.as_slice()].concat()
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Option<Self> {
        match (from.u8()?, from.fixed()?) {
            (1, id) => Some(LimitOwner::Project(ProjectId::from_bytes(id))),
            (2, id) => Some(LimitOwner::Domain(DomainId::from_bytes(id))),
            _ => None,
        }
    }
}

/// How much one project or domain may use. This limit replaces the default of the registered limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// The registered limit. It contains the service, the region and the resource.
    pub registered: RegisteredLimitId,
    /// The project or domain.
    pub owner: LimitOwner,
    /// The limit; -1 means no limit.
    pub value: i32,
    /// A description of the limit.
    pub description: Option<String>,
}

impl Row for Limit {
    const TABLE: Table = Table::Limits;
    type Key = LimitId;

    fn encode(&self, to: &mut Writer) {
        to.fixed(self.registered.bytes()).fixed(&self.owner.to_bytes()).u32(self.value.cast_unsigned());
        to.optional_text(self.description.as_deref());
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(Limit {
            registered: RegisteredLimitId::from_bytes(from.fixed()?),
            owner: LimitOwner::read(from)?,
            value: from.u32()?.cast_signed(),
            description: from.option(Reader::text)?,
        })
    }
}
