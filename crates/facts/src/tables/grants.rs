//! Roles of Keystone's kind: what they are called, what they imply, and who has which on what.

use super::{Key, ReverseKey, Row, Table};
use crate::codec::{Reader, Writer};
use crate::vocabulary::{DomainId, GroupId, ProjectId, RoleId, UserId};
use serde::{Deserialize, Serialize};

/// A role. What it lets somebody do is decided by whoever is shown a token with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedRole {
    /// Its name, unique in its domain, or where that is none among all that have none.
    pub name: String,
    /// The domain it belongs to: such a role is in no token, only what it implies.
    #[serde(default)]
    pub domain: Option<DomainId>,
    /// What it is for.
    pub description: Option<String>,
    /// Whoever has it has these, too.
    pub implies: Vec<RoleId>,
}

impl Row for NamedRole {
    const TABLE: Table = Table::Roles;
    type Key = RoleId;

    fn encode(&self, to: &mut Writer) {
        to.text(&self.name).option(self.domain.as_ref(), |to, domain| {
            to.fixed(domain.bytes());
        });
        to.option(self.description.as_deref(), |to, text| {
            to.text(text);
        });
        to.list(&self.implies, |to, role| {
            to.fixed(role.bytes());
        });
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(NamedRole {
            name: from.text()?,
            domain: from.option(|from| from.fixed().map(DomainId::from_bytes))?,
            description: from.option(Reader::text)?,
            implies: from.list(|from| from.fixed().map(RoleId::from_bytes))?,
        })
    }
}

/// Who is given a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Grantee {
    /// A user.
    User(UserId),
    /// Everybody in a group.
    Group(GroupId),
}

/// What a role is given on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum GrantScope {
    /// A project.
    Project(ProjectId),
    /// A domain.
    Domain(DomainId),
    /// The whole system.
    System,
    /// Every project beneath a project, that one not among them.
    BelowProject(ProjectId),
    /// Every project of a domain, the domain itself not among them.
    BelowDomain(DomainId),
}

impl Grantee {
    pub(super) fn to_bytes(self) -> [u8; 17] {
        let (kind, id) = match &self {
            Grantee::User(id) => (1, id.bytes()),
            Grantee::Group(id) => (2, id.bytes()),
        };
        tagged(kind, id)
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Option<Self> {
        match (from.u8()?, from.fixed()?) {
            (1, id) => Some(Grantee::User(UserId::from_bytes(id))),
            (2, id) => Some(Grantee::Group(GroupId::from_bytes(id))),
            _ => None,
        }
    }
}

impl GrantScope {
    pub(super) fn to_bytes(self) -> [u8; 17] {
        let (kind, id) = match &self {
            GrantScope::Project(id) => (1, id.bytes()),
            GrantScope::Domain(id) => (2, id.bytes()),
            GrantScope::System => (3, &[0; 16]),
            GrantScope::BelowProject(id) => (4, id.bytes()),
            GrantScope::BelowDomain(id) => (5, id.bytes()),
        };
        tagged(kind, id)
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Option<Self> {
        match (from.u8()?, from.fixed::<16>()?) {
            (1, id) => Some(GrantScope::Project(ProjectId::from_bytes(id))),
            (2, id) => Some(GrantScope::Domain(DomainId::from_bytes(id))),
            (3, id) if id == [0; 16] => Some(GrantScope::System),
            (4, id) => Some(GrantScope::BelowProject(ProjectId::from_bytes(id))),
            (5, id) => Some(GrantScope::BelowDomain(DomainId::from_bytes(id))),
            _ => None,
        }
    }
}

fn tagged(kind: u8, id: &[u8; 16]) -> [u8; 17] {
    let mut bytes = [kind; 17];
    bytes.iter_mut().skip(1).zip(id).for_each(|(to, byte)| *to = *byte);
    bytes
}

/// Who, on what, which role; the record has nothing more to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GrantKey {
    /// Who.
    pub who: Grantee,
    /// On what.
    pub scope: GrantScope,
    /// Which role.
    pub role: RoleId,
}

impl GrantKey {
    /// The roles somebody has on one scope are asked for together.
    pub(super) const GROUP_BYTES: usize = 34;

    /// The prefix of the keys of everything somebody has.
    pub fn of(who: &Grantee) -> Vec<u8> {
        who.to_bytes().to_vec()
    }

    /// The prefix of the keys of the roles somebody has on one scope.
    pub fn of_on(who: &Grantee, scope: &GrantScope) -> Vec<u8> {
        [who.to_bytes(), scope.to_bytes()].concat()
    }
}

impl Key for GrantKey {
    fn bytes(&self) -> Vec<u8> {
        [Self::of_on(&self.who, &self.scope).as_slice(), self.role.bytes()].concat()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader::new(bytes);
        let (who, scope) = (Grantee::read(&mut from)?, GrantScope::read(&mut from)?);
        let role = RoleId::from_bytes(from.fixed()?);
        from.is_empty().then_some(GrantKey { who, scope, role })
    }
}

/// That the role was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant;

impl Row for Grant {
    const TABLE: Table = Table::Grants;
    type Key = GrantKey;

    fn encode(&self, _: &mut Writer) {}

    fn decode(_: &mut Reader<'_>) -> Option<Self> {
        Some(Grant)
    }

    fn reverse(key: &GrantKey) -> Option<ReverseKey> {
        Some(ReverseKey::Granted(key.scope, key.who, key.role))
    }
}
