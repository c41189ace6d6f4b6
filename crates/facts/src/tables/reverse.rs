//! The same the other way round: what is found by one end in its own table is found by the other here. Memberships and grants bring
//! their rows along with each change; what stands in a value, whoever changes it keeps here.

use super::{BlobId, GrantScope, Grantee, Key, Member, Row, Table};
use crate::codec::{Reader, Writer};
use crate::vocabulary::{CredentialId, GroupId, ProjectId, RoleId, UserId};
use serde::{Deserialize, Serialize};

/// One end, and then the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ReverseKey {
    /// On this, to these, this role.
    Granted(GrantScope, Grantee, RoleId),
    /// In this group, this member.
    Member(GroupId, Member),
    /// Directly in this project, this one.
    Child(ProjectId, ProjectId),
    /// For this project, this application credential.
    For(ProjectId, CredentialId),
    /// Of this user, what services keep.
    Blob(UserId, BlobId),
}

const GRANTED: u8 = 1;
const MEMBER: u8 = 2;
const CHILD: u8 = 3;
const FOR: u8 = 4;
const BLOB: u8 = 5;

impl ReverseKey {
    /// The prefix of what was granted on something.
    pub fn granted_on(scope: &GrantScope) -> Vec<u8> {
        [&[GRANTED], scope.to_bytes().as_slice()].concat()
    }

    /// The prefix of who is in a group.
    pub fn members_of(group: &GroupId) -> Vec<u8> {
        [&[MEMBER], group.bytes().as_slice()].concat()
    }

    /// The prefix of what is directly in a project.
    pub fn children_of(project: &ProjectId) -> Vec<u8> {
        [&[CHILD], project.bytes().as_slice()].concat()
    }

    /// The prefix of the application credentials for a project.
    pub fn credentials_for(project: &ProjectId) -> Vec<u8> {
        [&[FOR], project.bytes().as_slice()].concat()
    }

    /// The prefix of what services keep for a user.
    pub fn blobs_of(user: &UserId) -> Vec<u8> {
        [&[BLOB], user.bytes().as_slice()].concat()
    }

    /// What hangs together is asked for together.
    pub(super) fn group_bytes(key: &[u8]) -> usize {
        // Who has roles on a scope is many; which roles one of them has there is few.
        if key.first() == Some(&GRANTED) { 1 + 17 + 17 } else { key.len() }
    }
}

impl Key for ReverseKey {
    fn bytes(&self) -> Vec<u8> {
        match self {
            ReverseKey::Granted(scope, who, role) => {
                [Self::granted_on(scope).as_slice(), &who.to_bytes(), role.bytes()].concat()
            }
            ReverseKey::Member(group, member) => [Self::members_of(group), member.prefix()].concat(),
            ReverseKey::Child(parent, child) => {
                [Self::children_of(parent).as_slice(), child.bytes()].concat()
            }
            ReverseKey::For(project, id) => [Self::credentials_for(project).as_slice(), id.bytes()].concat(),
            ReverseKey::Blob(user, id) => [Self::blobs_of(user), id.bytes()].concat(),
        }
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader::new(bytes);
        let key = match from.u8()? {
            GRANTED => {
                let (scope, who) = (GrantScope::read(&mut from)?, Grantee::read(&mut from)?);
                ReverseKey::Granted(scope, who, RoleId::from_bytes(from.fixed()?))
            }
            MEMBER => ReverseKey::Member(GroupId::from_bytes(from.fixed()?), Member::read(&mut from)?),
            CHILD => {
                ReverseKey::Child(ProjectId::from_bytes(from.fixed()?), ProjectId::from_bytes(from.fixed()?))
            }
            FOR => {
                ReverseKey::For(ProjectId::from_bytes(from.fixed()?), CredentialId::from_bytes(from.fixed()?))
            }
            BLOB => ReverseKey::Blob(UserId::from_bytes(from.fixed()?), BlobId(from.fixed()?)),
            _ => return None,
        };
        from.is_empty().then_some(key)
    }
}

/// That it is so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reverse;

impl Row for Reverse {
    const TABLE: Table = Table::Reverse;
    type Key = ReverseKey;

    fn encode(&self, _: &mut Writer) {}

    fn decode(_: &mut Reader<'_>) -> Option<Self> {
        Some(Reverse)
    }
}
