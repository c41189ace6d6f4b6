//! Roles of Keystone's kind: what they are called, what they imply, and who has which on what.

use super::{Key, Row, Table};
use crate::codec::{Reader, Writer};
use crate::vocabulary::{DomainId, GroupId, ProjectId, RoleId, UserId};
use serde::{Deserialize, Serialize};

/// A role. What it lets somebody do is decided by whoever is shown a token with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedRole {
    /// Its name, unique.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// Whoever has it has these, too.
    pub implies: Vec<RoleId>,
}

impl Row for NamedRole {
    const TABLE: Table = Table::Roles;
    type Key = RoleId;

    fn encode(&self, to: &mut Writer) {
        to.text(&self.name).option(self.description.as_deref(), |to, text| {
            to.text(text);
        });
        to.list(&self.implies, |to, role| {
            to.fixed(role.bytes());
        });
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(NamedRole {
            name: from.text()?,
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
}

/// Who, on what, which role; the record has nothing more to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
        let (kind, id) = match who {
            Grantee::User(id) => (1, id.bytes()),
            Grantee::Group(id) => (2, id.bytes()),
        };
        [&[kind], id.as_slice()].concat()
    }

    /// The prefix of the keys of the roles somebody has on one scope.
    pub fn of_on(who: &Grantee, scope: &GrantScope) -> Vec<u8> {
        let (kind, id) = match scope {
            GrantScope::Project(id) => (1, id.bytes()),
            GrantScope::Domain(id) => (2, id.bytes()),
            GrantScope::System => (3, &[0; 16]),
        };
        [Self::of(who).as_slice(), &[kind], id].concat()
    }
}

impl Key for GrantKey {
    fn bytes(&self) -> Vec<u8> {
        [Self::of_on(&self.who, &self.scope).as_slice(), self.role.bytes()].concat()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader::new(bytes);
        let who = match (from.u8()?, from.fixed()?) {
            (1, id) => Grantee::User(UserId::from_bytes(id)),
            (2, id) => Grantee::Group(GroupId::from_bytes(id)),
            _ => return None,
        };
        let scope = match (from.u8()?, from.fixed::<16>()?) {
            (1, id) => GrantScope::Project(ProjectId::from_bytes(id)),
            (2, id) => GrantScope::Domain(DomainId::from_bytes(id)),
            (3, id) if id == [0; 16] => GrantScope::System,
            _ => return None,
        };
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
}
