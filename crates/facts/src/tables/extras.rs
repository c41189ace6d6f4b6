//! Options and attributes that clients of Identity v3 store with a resource, and the names of records that imports added. No decision about a request
//! depends on these records, because an option that matters for decisions is also in another record.

use super::{Key, Row, Table};
use crate::codec::{Reader, Writer};
use crate::vocabulary::to_hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The kind of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum ResourceKind {
    /// A domain.
    Domain = 1,
    /// A project.
    Project = 2,
    /// A user.
    User = 3,
    /// A group.
    Group = 4,
    /// A role.
    Role = 5,
    /// A service.
    Service = 6,
    /// An endpoint.
    Endpoint = 7,
    /// A region.
    Region = 8,
    /// A record that came from another server: an import added the record to this server, or found it on this server already. The list of imports
    /// contains the kind of the record, and its name or key ([`ExtraKey`]). If the record is removed from this server, no later import adds it again.
    Imported = 9,
    /// A registered limit.
    RegisteredLimit = 10,
    /// A limit.
    Limit = 11,
    /// A policy.
    Policy = 12,
    /// A group of endpoints.
    EndpointGroup = 13,
    /// An OAuth consumer.
    Consumer = 14,
    /// An identity provider.
    IdentityProvider = 15,
    /// A protocol of an identity provider.
    Protocol = 16,
    /// A mapping.
    Mapping = 17,
    /// A service provider.
    ServiceProvider = 18,
}

impl ResourceKind {
    const ALL: [ResourceKind; 18] = [
        ResourceKind::Domain,
        ResourceKind::Project,
        ResourceKind::User,
        ResourceKind::Group,
        ResourceKind::Role,
        ResourceKind::Service,
        ResourceKind::Endpoint,
        ResourceKind::Region,
        ResourceKind::Imported,
        ResourceKind::RegisteredLimit,
        ResourceKind::Limit,
        ResourceKind::Policy,
        ResourceKind::EndpointGroup,
        ResourceKind::Consumer,
        ResourceKind::IdentityProvider,
        ResourceKind::Protocol,
        ResourceKind::Mapping,
        ResourceKind::ServiceProvider,
    ];
}

/// The longest key that the list of imports contains as hexadecimal digits, in bytes. The list contains a longer key as a digest.
const LISTED_KEY_BYTES_MAX: usize = 100;

/// A resource: its kind, and its key in its own table. For [`ResourceKind::Imported`], `id` is a text: the kind of the record, and its name as the
/// files of Proxmox spell it. For a record from another cloud, the text contains the key of the record instead of a name ([`ExtraKey::imported`]).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ExtraKey {
    /// The kind.
    pub kind: ResourceKind,
    /// The id.
    pub id: Vec<u8>,
}

impl ExtraKey {
    /// The key under which the attributes of a resource are stored. The argument `key` is the key of the resource in its own table.
    pub fn of(kind: ResourceKind, key: &impl Key) -> Self {
        ExtraKey { kind, id: key.bytes() }
    }

    /// The key of the entry in the list of imports for a record. `key` is the key of the record in its own table. The list contains `key` as
    /// hexadecimal digits, or, if `key` is long, as its SHA-256 digest, because a key in the store has a limited length.
    pub fn imported(kind: &str, key: &[u8]) -> Self {
        let key = match key.len() {
            ..=LISTED_KEY_BYTES_MAX => to_hex(key),
            _ => format!("sha256 {}", to_hex(&Sha256::digest(key))),
        };
        ExtraKey { kind: ResourceKind::Imported, id: format!("{kind} {key}").into_bytes() }
    }
}

impl Key for ExtraKey {
    fn bytes(&self) -> Vec<u8> {
        [&[self.kind as u8], self.id.as_slice()].concat()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (&kind, id) = bytes.split_first()?;
        let kind = ResourceKind::ALL.into_iter().find(|one| *one as u8 == kind)?;
        Some(ExtraKey { kind, id: id.to_vec() })
    }
}

/// A JSON object, as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extra(pub String);

impl Row for Extra {
    const TABLE: Table = Table::Extras;
    type Key = ExtraKey;

    fn encode(&self, to: &mut Writer) {
        to.text(&self.0);
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(Extra(from.text()?))
    }
}
