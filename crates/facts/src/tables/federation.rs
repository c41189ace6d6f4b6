//! Federation: the servers that authenticate users for this server (identity providers), and the servers for which this server authenticates users
//! (service providers). No decision of this server depends on these records yet.

use super::{Key, Row, Table};
use crate::codec::{Reader, Writer};
use crate::vocabulary::DomainId;
use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! chosen {
    ($($(#[$doc:meta])* $name:ident;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub struct $name(pub String);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl Key for $name {
            fn bytes(&self) -> Vec<u8> {
                self.0.as_bytes().to_vec()
            }
            fn from_bytes(bytes: &[u8]) -> Option<Self> {
                String::from_utf8(bytes.to_vec()).ok().map($name)
            }
        }
    )+};
}

chosen! {
    /// The id of an identity provider. Its creator chooses the id.
    IdentityProviderId;
    /// The id of a mapping. Its creator chooses the id.
    MappingId;
    /// The id of a service provider. Its creator chooses the id.
    ServiceProviderId;
    /// A name that an identity provider gives itself in its answers.
    RemoteId;
}

/// A server that authenticates users for this server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdentityProvider {
    /// The domain of the users that the provider authenticates.
    pub domain: DomainId,
    /// Whether the provider may authenticate users.
    pub enabled: bool,
    /// A description of the provider.
    pub description: Option<String>,
    /// The names that the provider gives itself, in order. Each name also has a separate record ([`RemoteIdOwner`]).
    pub remote_ids: Vec<String>,
    /// How long a user stays in the groups that the provider reported for the user, in minutes.
    pub authorization_ttl: Option<u32>,
}

impl Row for IdentityProvider {
    const TABLE: Table = Table::IdentityProviders;
    type Key = IdentityProviderId;

    fn encode(&self, to: &mut Writer) {
        to.fixed(self.domain.bytes()).flag(self.enabled).optional_text(self.description.as_deref());
        to.list(&self.remote_ids, |to, id| {
            to.text(id);
        });
        to.option(self.authorization_ttl, |to, minutes| {
            to.u32(minutes);
        });
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(IdentityProvider {
            domain: DomainId::from_bytes(from.fixed()?),
            enabled: from.flag()?,
            description: from.option(Reader::text)?,
            remote_ids: from.list(Reader::text)?,
            authorization_ttl: from.option(Reader::u32)?,
        })
    }
}

/// The identity provider that has a remote id. No two providers have the same remote id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteIdOwner {
    /// The provider.
    pub provider: IdentityProviderId,
}

impl Row for RemoteIdOwner {
    const TABLE: Table = Table::RemoteIds;
    type Key = RemoteId;

    fn encode(&self, to: &mut Writer) {
        to.text(&self.provider.0);
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(RemoteIdOwner { provider: IdentityProviderId(from.text()?) })
    }
}

/// A protocol of an identity provider.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProtocolKey {
    /// The provider.
    pub provider: IdentityProviderId,
    /// The id of the protocol, such as `saml2`. It is unique within the provider.
    pub protocol: String,
}

impl ProtocolKey {
    /// The prefix of the keys of a provider's protocols: the length of the provider's id in one byte, and the id. No provider has an id of 255 or
    /// more bytes. For such an id, the first byte of the prefix is 255, so the prefix matches no key.
    pub fn of(provider: &IdentityProviderId) -> Vec<u8> {
        let length = u8::try_from(provider.0.len()).unwrap_or(u8::MAX);
        [&[length], provider.0.as_bytes()].concat()
    }
}

impl fmt::Display for ProtocolKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.protocol)
    }
}

impl Key for ProtocolKey {
    fn bytes(&self) -> Vec<u8> {
        [Self::of(&self.provider).as_slice(), self.protocol.as_bytes()].concat()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (&length, rest) = bytes.split_first()?;
        let (provider, protocol) = rest.split_at_checked(usize::from(length))?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
        Some(ProtocolKey { provider: IdentityProviderId(text(provider)?), protocol: text(protocol)? })
    }
}

/// How users of an identity provider sign in by a protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Protocol {
    /// The mapping that turns the provider's answer into a user. As in Keystone, the mapping can be deleted while the protocol exists.
    pub mapping: MappingId,
    /// The attribute of an answer that contains the remote id of the provider.
    pub remote_id_attribute: Option<String>,
}

impl Row for Protocol {
    const TABLE: Table = Table::Protocols;
    type Key = ProtocolKey;

    fn encode(&self, to: &mut Writer) {
        to.text(&self.mapping.0).optional_text(self.remote_id_attribute.as_deref());
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(Protocol { mapping: MappingId(from.text()?), remote_id_attribute: from.option(Reader::text)? })
    }
}

/// Rules that turn the attributes in an identity provider's answer into a user of this server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mapping {
    /// The rules: a JSON list.
    pub rules: String,
    /// The version of the rules' form, such as `1.0`.
    pub schema_version: String,
}

impl Row for Mapping {
    const TABLE: Table = Table::Mappings;
    type Key = MappingId;

    fn encode(&self, to: &mut Writer) {
        to.text(&self.rules).text(&self.schema_version);
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(Mapping { rules: from.text()?, schema_version: from.text()? })
    }
}

/// A server for which this server authenticates users.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceProvider {
    /// The URL at which a client signs in.
    pub auth_url: String,
    /// The URL that receives the SAML assertion about a user.
    pub sp_url: String,
    /// Whether the server lists the provider in an answer that describes a token.
    pub enabled: bool,
    /// A description of the provider.
    pub description: Option<String>,
    /// The prefix of the attribute `RelayState` of SAML.
    pub relay_state_prefix: String,
}

impl Row for ServiceProvider {
    const TABLE: Table = Table::ServiceProviders;
    type Key = ServiceProviderId;

    fn encode(&self, to: &mut Writer) {
        to.text(&self.auth_url).text(&self.sp_url).flag(self.enabled);
        to.optional_text(self.description.as_deref()).text(&self.relay_state_prefix);
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(ServiceProvider {
            auth_url: from.text()?,
            sp_url: from.text()?,
            enabled: from.flag()?,
            description: from.option(Reader::text)?,
            relay_state_prefix: from.text()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{FEDERATION_ID_BYTES_MAX, KEY_BYTES_MAX};
    use crate::tables::{ExtraKey, ResourceKind};

    fn key(provider: &str, protocol: &str) -> ProtocolKey {
        ProtocolKey { provider: IdentityProviderId(provider.to_owned()), protocol: protocol.to_owned() }
    }

    #[test]
    fn no_provider_has_the_protocols_of_another() {
        for (provider, protocol) in [("a", "bc"), ("ab", "c"), ("ü", ""), ("", "x")] {
            let key = key(provider, protocol);
            assert_eq!(ProtocolKey::from_bytes(&key.bytes()), Some(key));
        }
        assert!(!key("ab", "c").bytes().starts_with(&ProtocolKey::of(&IdentityProviderId("a".to_owned()))));
        for damaged in [[].as_slice(), &[2, b'a'], &[1, 0xff, b'x']] {
            assert_eq!(ProtocolKey::from_bytes(damaged), None);
        }
    }

    #[test]
    fn the_longest_ids_fit_into_the_store() {
        let id = "x".repeat(FEDERATION_ID_BYTES_MAX);
        let extra = ExtraKey::of(ResourceKind::Protocol, &key(&id, &id));
        assert!(extra.bytes().len() <= KEY_BYTES_MAX);
    }
}
