//! Names, and the ids that they stand for.

use super::{Key, Row, Table};
use crate::codec::{Reader, Writer};
use crate::vocabulary::{
    CredentialId, DomainId, GroupId, Id, IdBytes, ProjectId, Realm, RoleId, TokenName, UserId, to_hex,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

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

/// In the key of a name that is unique in the whole store, this value takes the place of the domain or user.
const NOWHERE: IdBytes = IdBytes::new([0; 16]);

/// The number of bytes of the digest of a name.
const DIGEST_BYTES: usize = 20;

/// The key of a name: its kind, the domain or user within which it is unique, and a digest of the name. The record contains the name itself, because
/// a name of 255 characters is too long for a key of LMDB. Names are compared byte for byte, in the facts and in every file. So two texts that differ
/// in one byte are different names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameKey {
    kind: NameKind,
    within: IdBytes,
    /// The digest. A dump does not contain it, because it can be computed from the name in the record.
    #[serde(skip)]
    digest: [u8; DIGEST_BYTES],
}

impl NameKey {
    /// The key of a name of this kind within a domain or user; [`NOWHERE`] for names that are unique in the whole store.
    fn new(kind: NameKind, within: IdBytes, name: &str) -> Self {
        let mut digest = [0; DIGEST_BYTES];
        digest.iter_mut().zip(Sha256::digest(name)).for_each(|(to, from)| *to = from);
        NameKey { kind, within, digest }
    }
    /// The key of a realm, which is the name of a domain.
    pub fn domain(realm: &Realm) -> Self {
        Self::new(NameKind::Domain, NOWHERE, realm.as_str())
    }
    /// The key of the name of a user in a domain.
    pub fn user(domain: &DomainId, name: &str) -> Self {
        Self::new(NameKind::User, domain.stored(), name)
    }
    /// The key of the name of a group in a domain.
    pub fn group(domain: &DomainId, name: &str) -> Self {
        Self::new(NameKind::Group, domain.stored(), name)
    }
    /// The key of the name of a token of a user.
    pub fn token(owner: &UserId, name: &TokenName) -> Self {
        Self::new(NameKind::Token, owner.stored(), name.as_str())
    }
    /// The key of the name of a project in a domain.
    pub fn project(domain: &DomainId, name: &str) -> Self {
        Self::new(NameKind::Project, domain.stored(), name)
    }
    /// The key of the name of a Keystone role that belongs to no domain.
    pub fn role(name: &str) -> Self {
        Self::new(NameKind::Role, NOWHERE, name)
    }
    /// The key of the name of a Keystone role, in a domain or in none.
    pub fn role_of(domain: Option<&DomainId>, name: &str) -> Self {
        Self::new(NameKind::Role, domain.map_or(NOWHERE, Id::stored), name)
    }
    /// The key of a name of this kind in a domain.
    pub fn of(kind: NameKind, domain: &DomainId, name: &str) -> Self {
        Self::new(kind, domain.stored(), name)
    }
    /// The key of a client certificate, by its SHA-256 fingerprint.
    pub fn certificate(fingerprint: &[u8; 32]) -> Self {
        Self::new(NameKind::Certificate, NOWHERE, &to_hex(fingerprint))
    }
    /// The kind of resource that the name stands for.
    pub fn kind(&self) -> NameKind {
        self.kind
    }
    /// The prefix of the keys of all names of this kind in a domain.
    pub fn all_of(kind: NameKind, domain: &DomainId) -> Vec<u8> {
        Self::prefix(kind, domain.bytes())
    }
    /// The prefix of the keys of all tokens of a user.
    pub fn tokens_of(owner: &UserId) -> Vec<u8> {
        Self::prefix(NameKind::Token, owner.bytes())
    }

    fn prefix(kind: NameKind, within: &[u8]) -> Vec<u8> {
        [[kind as u8].as_slice(), within].concat()
    }

    /// The new key for a record of format 5 or older with the old key `key`, and the name, which the old key contains.
    pub(crate) fn of_format_5(key: &[u8]) -> Option<(Self, String)> {
        let (kind, within, name) = parts(key)?;
        let name = String::from_utf8(name.to_vec()).ok()?;
        Some((Self::new(kind, within, &name), name))
    }
}

/// The kind, the domain or user, and the rest of a stored key.
fn parts(bytes: &[u8]) -> Option<(NameKind, IdBytes, &[u8])> {
    let (&[kind], rest) = bytes.split_first_chunk::<1>()?;
    let (within, rest) = IdBytes::split(rest)?;
    let kinds = [
        NameKind::Domain,
        NameKind::User,
        NameKind::Group,
        NameKind::Token,
        NameKind::Project,
        NameKind::Role,
        NameKind::Certificate,
    ];
    Some((kinds.into_iter().find(|known| *known as u8 == kind)?, within, rest))
}

impl Key for NameKey {
    fn bytes(&self) -> Vec<u8> {
        [[self.kind as u8].as_slice(), self.within.as_slice(), &self.digest].concat()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (kind, within, digest) = parts(bytes)?;
        Some(NameKey { kind, within, digest: digest.try_into().ok()? })
    }
}

/// A name, and the id that it stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Name {
    /// The id.
    pub id: IdBytes,
    /// The name, as it was given.
    #[serde(rename = "name")]
    pub text: String,
}

impl Name {
    /// A name for this id.
    pub fn new(id: impl Into<IdBytes>, text: impl Into<String>) -> Self {
        Name { id: id.into(), text: text.into() }
    }
    /// The id as a domain's id.
    pub fn domain(&self) -> DomainId {
        DomainId::from_bytes(self.id.head())
    }
    /// The id as a user's id.
    pub fn user(&self) -> UserId {
        self.id.into()
    }
    /// The id as a group's id.
    pub fn group(&self) -> GroupId {
        self.id.into()
    }
    /// The id as a project's id.
    pub fn project(&self) -> ProjectId {
        ProjectId::from_bytes(self.id.head())
    }
    /// The id as a role's id.
    pub fn role(&self) -> RoleId {
        RoleId::from_bytes(self.id.head())
    }
    /// The id as a credential's id.
    pub fn credential(&self) -> CredentialId {
        CredentialId::from_bytes(self.id.head())
    }
}

impl Row for Name {
    const TABLE: Table = Table::Names;
    type Key = NameKey;

    fn complete(&self, key: NameKey) -> NameKey {
        NameKey::new(key.kind, key.within, &self.text)
    }

    fn encode(&self, to: &mut Writer) {
        to.fixed(self.id.as_slice()).text(&self.text);
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(Name { id: IdBytes::read(from)?, text: from.text()? })
    }
}

/// The name in a record of the table of names. An error message shows the name after the key of the record, because the key is a digest that people
/// cannot read. Empty for a record of another table, and for a record that cannot be read.
pub fn called(table: Table, value: &[u8]) -> String {
    let name = (table == Table::Names).then(|| Name::decode(&mut Reader::new(value))).flatten();
    name.map(|name| format!(" (`{}`)", name.text)).unwrap_or_default()
}

/// In a dump, an id has the same text form as on the command line.
pub(super) mod as_hex {
    use crate::vocabulary::CredentialId;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(in crate::tables) fn serialize<S: Serializer>(id: &[u8; 16], to: S) -> Result<S::Ok, S::Error> {
        CredentialId::from_bytes(*id).serialize(to)
    }

    pub(in crate::tables) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<[u8; 16], D::Error> {
        CredentialId::deserialize(from).map(|id| *id.bytes())
    }
}
