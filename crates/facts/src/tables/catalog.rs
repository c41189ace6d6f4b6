//! The catalog: services, their endpoints and regions.

use super::{Key, Row, Table};
use crate::codec::{Reader, Writer};
use crate::vocabulary::{Malformed, ServiceId};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    /// The kind of service, such as `identity`.
    pub kind: String,
    /// The name of the service.
    pub name: String,
    /// Whether the catalog that clients get contains the service.
    pub enabled: bool,
    /// A description of the service.
    pub description: Option<String>,
}

impl Row for Service {
    const TABLE: Table = Table::Services;
    type Key = crate::vocabulary::ServiceId;

    fn encode(&self, to: &mut Writer) {
        to.text(&self.kind).text(&self.name).flag(self.enabled);
        to.optional_text(self.description.as_deref());
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(Service {
            kind: from.text()?,
            name: from.text()?,
            enabled: from.flag()?,
            description: from.option(Reader::text)?,
        })
    }
}

/// The clients that an endpoint is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Interface {
    /// All clients.
    Public = 1,
    /// Other services.
    Internal = 2,
    /// Administrators.
    Admin = 3,
}

impl Interface {
    /// Every interface.
    pub const ALL: [Interface; 3] = [Interface::Public, Interface::Internal, Interface::Admin];

    /// The interface that is stored as this byte.
    pub(super) fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|one| *one as u8 == byte)
    }

    /// The name that clients use.
    pub fn name(self) -> &'static str {
        match self {
            Interface::Public => "public",
            Interface::Internal => "internal",
            Interface::Admin => "admin",
        }
    }
}

impl FromStr for Interface {
    type Err = Malformed;
    fn from_str(text: &str) -> Result<Self, Malformed> {
        let expected = "expected public, internal or admin";
        let found = Self::ALL.into_iter().find(|interface| interface.name() == text);
        found.ok_or_else(|| Malformed::new("interface", text, expected))
    }
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// An address of a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// The service.
    pub service: ServiceId,
    /// The interface: public, internal or admin.
    pub interface: Interface,
    /// The region.
    pub region: Option<String>,
    /// The address; `$(project_id)s` and similar placeholders stand for values of the token's scope.
    pub url: String,
    /// Whether the catalog that clients get contains the endpoint.
    pub enabled: bool,
}

impl Row for Endpoint {
    const TABLE: Table = Table::Endpoints;
    type Key = crate::vocabulary::EndpointId;

    fn encode(&self, to: &mut Writer) {
        to.fixed(self.service.bytes()).u8(self.interface as u8);
        to.optional_text(self.region.as_deref());
        to.text(&self.url).flag(self.enabled);
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        let service = ServiceId::from_bytes(from.fixed()?);
        Some(Endpoint {
            service,
            interface: Interface::from_byte(from.u8()?)?,
            region: from.option(Reader::text)?,
            url: from.text()?,
            enabled: from.flag()?,
        })
    }
}

/// A region's id, which is any text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RegionId(pub String);

impl fmt::Display for RegionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Key for RegionId {
    fn bytes(&self) -> Vec<u8> {
        self.0.as_bytes().to_vec()
    }
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        String::from_utf8(bytes.to_vec()).ok().map(RegionId)
    }
}

/// A region.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Region {
    /// A description of the region.
    pub description: Option<String>,
    /// The region that contains this region.
    pub parent: Option<RegionId>,
}

impl Row for Region {
    const TABLE: Table = Table::Regions;
    type Key = RegionId;

    fn encode(&self, to: &mut Writer) {
        to.optional_text(self.description.as_deref());
        to.optional_text(self.parent.as_ref().map(|parent| parent.0.as_str()));
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(Region {
            description: from.option(Reader::text)?,
            parent: from.option(Reader::text)?.map(RegionId),
        })
    }
}
