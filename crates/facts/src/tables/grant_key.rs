//! The key of a grant: grantee, scope and role.

use super::{Key, prefix_bytes};
use crate::codec::Reader;
use crate::vocabulary::{DomainId, GroupId, ProjectId, RoleId, UserId};
use serde::{Deserialize, Serialize};

/// The user or group that has a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Grantee {
    /// A user.
    User(UserId),
    /// All members of a group.
    Group(GroupId),
}

/// The scope on which a role is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum GrantScope {
    /// A project.
    Project(ProjectId),
    /// A domain.
    Domain(DomainId),
    /// The whole system.
    System,
    /// Every project beneath a project, without that project.
    BelowProject(ProjectId),
    /// Every project of a domain, without the domain itself.
    BelowDomain(DomainId),
}

impl Grantee {
    /// The number in the key that stands for the kind of grantee, and the id of the user or group.
    pub(super) fn parts(&self) -> (u8, &[u8]) {
        match self {
            Grantee::User(id) => (1, id.bytes()),
            Grantee::Group(id) => (2, id.bytes()),
        }
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Option<Self> {
        match from.u8()? {
            1 => UserId::read(from).map(Grantee::User),
            2 => GroupId::read(from).map(Grantee::Group),
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

/// Grantee, scope and role. The value of the record is empty, because the key contains all data of the grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GrantKey {
    /// The user or group.
    pub who: Grantee,
    /// The scope.
    pub scope: GrantScope,
    /// The role.
    pub role: RoleId,
}

impl GrantKey {
    /// The length of the key prefix that all roles of a grantee on one scope share.
    pub(super) fn group_bytes(key: &[u8]) -> usize {
        prefix_bytes(key, |from| Grantee::read(from).and(GrantScope::read(from)))
    }

    /// The prefix of the keys of all grants of a grantee.
    pub fn of(who: &Grantee) -> Vec<u8> {
        let (kind, id) = who.parts();
        [&[kind], id].concat()
    }

    /// The prefix of the keys of the grants of a grantee on one scope.
    pub fn of_on(who: &Grantee, scope: &GrantScope) -> Vec<u8> {
        let (kind, id) = who.parts();
        [&[kind], id, &scope.to_bytes()].concat()
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
