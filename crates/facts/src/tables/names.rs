//! Names, and the ids that they stand for.

use super::{Key, Row, Table};
use crate::codec::{Reader, Writer};
use crate::vocabulary::{
    CredentialId, DomainId, GroupId, ProjectId, Realm, RoleId, TokenName, UserId, to_hex,
};
use serde::{Deserialize, Serialize};

/// The kind of resource that a name stands for. Each kind has its own name space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u8)]
pub enum NameKind {
    /// A domain.
    Domain = 1,
    /// A user of a domain.
    User = 2,
    /// A group of a domain.
    Group = 3,
    /// A token of a user.
    Token = 4,
    /// A project of a domain.
    Project = 5,
    /// One of Keystone's roles.
    Role = 6,
    /// A certificate of a client, by its fingerprint.
    Certificate = 7,
}

/// A name, its kind, and the domain or user within which it is unique.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameKey {
    kind: NameKind,
    #[serde(with = "as_hex")]
    within: [u8; 16],
    name: String,
}

impl NameKey {
    /// The key of a realm, which is the name of a domain.
    pub fn domain(realm: &Realm) -> Self {
        NameKey { kind: NameKind::Domain, within: [0; 16], name: realm.as_str().to_owned() }
    }
    /// The key of the name of a user in a domain.
    pub fn user(domain: &DomainId, name: &str) -> Self {
        NameKey { kind: NameKind::User, within: *domain.bytes(), name: name.to_owned() }
    }
    /// The key of the name of a group in a domain.
    pub fn group(domain: &DomainId, name: &str) -> Self {
        NameKey { kind: NameKind::Group, within: *domain.bytes(), name: name.to_owned() }
    }
    /// The key of the name of a token of a user.
    pub fn token(owner: &UserId, name: &TokenName) -> Self {
        NameKey { kind: NameKind::Token, within: *owner.bytes(), name: name.as_str().to_owned() }
    }
    /// The key of the name of a project in a domain.
    pub fn project(domain: &DomainId, name: &str) -> Self {
        NameKey { kind: NameKind::Project, within: *domain.bytes(), name: name.to_owned() }
    }
    /// The key of the name of a Keystone role that belongs to no domain.
    pub fn role(name: &str) -> Self {
        NameKey { kind: NameKind::Role, within: [0; 16], name: name.to_owned() }
    }
    /// The key of the name of a Keystone role, in a domain or in none.
    pub fn role_of(domain: Option<&DomainId>, name: &str) -> Self {
        let within = domain.map_or([0; 16], |domain| *domain.bytes());
        NameKey { kind: NameKind::Role, within, name: name.to_owned() }
    }
    /// The key of a name of this kind in a domain.
    pub fn of(kind: NameKind, domain: &DomainId, name: &str) -> Self {
        NameKey { kind, within: *domain.bytes(), name: name.to_owned() }
    }
    /// The prefix of the keys of all names of this kind in a domain.
    pub fn all_of(kind: NameKind, domain: &DomainId) -> Vec<u8> {
        NameKey { kind, within: *domain.bytes(), name: String::new() }.bytes()
    }
    /// The kind of resource that the name stands for.
    pub fn kind(&self) -> NameKind {
        self.kind
    }
    /// The key of a client certificate, by its SHA-256 fingerprint.
    pub fn certificate(fingerprint: &[u8; 32]) -> Self {
        NameKey { kind: NameKind::Certificate, within: [0; 16], name: to_hex(fingerprint) }
    }
    /// The name without its kind and domain.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// The prefix of the keys of all tokens of a user.
    pub fn tokens_of(owner: &UserId) -> Vec<u8> {
        NameKey { kind: NameKind::Token, within: *owner.bytes(), name: String::new() }.bytes()
    }
}

impl Key for NameKey {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(17 + self.name.len());
        bytes.push(self.kind as u8);
        bytes.extend_from_slice(&self.within);
        bytes.extend_from_slice(self.name.as_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (&[kind], rest) = bytes.split_first_chunk::<1>()?;
        let (within, name) = rest.split_first_chunk::<16>()?;
        let kinds = [
            NameKind::Domain,
            NameKind::User,
            NameKind::Group,
            NameKind::Token,
            NameKind::Project,
            NameKind::Role,
            NameKind::Certificate,
        ];
        Some(NameKey {
            kind: kinds.into_iter().find(|k| *k as u8 == kind)?,
            within: *within,
            name: String::from_utf8(name.to_vec()).ok()?,
        })
    }
}

/// The id that a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Name(#[serde(with = "as_hex")] pub [u8; 16]);

impl Name {
    /// Returns the stored id as the id of a domain.
    pub fn domain(self) -> DomainId {
        DomainId::from_bytes(self.0)
    }
    /// Returns the stored id as the id of a user.
    pub fn user(self) -> UserId {
        UserId::from_bytes(self.0)
    }
    /// Returns the stored id as the id of a group.
    pub fn group(self) -> GroupId {
        GroupId::from_bytes(self.0)
    }
    /// Returns the stored id as the id of a project.
    pub fn project(self) -> ProjectId {
        ProjectId::from_bytes(self.0)
    }
    /// Returns the stored id as the id of a role.
    pub fn role(self) -> RoleId {
        RoleId::from_bytes(self.0)
    }
    /// Returns the stored id as the id of a credential.
    pub fn credential(self) -> CredentialId {
        CredentialId::from_bytes(self.0)
    }
}

impl Row for Name {
    const TABLE: Table = Table::Names;
    type Key = NameKey;

    fn encode(&self, to: &mut Writer) {
        to.fixed(&self.0);
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(Name(from.fixed()?))
    }
}

/// In a dump, an id has the same text form as on the command line.
pub(super) mod as_hex {
    use crate::vocabulary::UserId;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(in crate::tables) fn serialize<S: Serializer>(id: &[u8; 16], to: S) -> Result<S::Ok, S::Error> {
        UserId::from_bytes(*id).serialize(to)
    }

    pub(in crate::tables) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<[u8; 16], D::Error> {
        UserId::deserialize(from).map(|id| *id.bytes())
    }
}
