//! Reverse lookups. In its own table, a record is found by the first part of its key. In this table, the record is found by the second part of that
//! key. If the type of a record defines [`Row::reverse`], each change that puts or deletes the record also writes the row of this table. Some records
//! are found by a part of their value, not of their key. For such a record, the function that changes the value also writes the row of this table.

use super::{
    BlobId, GrantScope, Grantee, Key, LimitOwner, Member, Revoked, Row, Selected, Table, Who, prefix_bytes,
};
use crate::codec::{Reader, Writer};
use crate::vocabulary::{
    AccessTokenId, ConsumerId, CredentialId, GroupId, LimitId, ProjectId, RegisteredLimitId, RequestTokenId,
    RoleId, RolePath, TrustId, UserId,
};
use serde::{Deserialize, Serialize};

/// The part by which a record is looked up, and then the part that identifies the record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ReverseKey {
    /// On this scope, the grantee has this role.
    Granted(GrantScope, Grantee, RoleId),
    /// The group has this member.
    Member(GroupId, Member),
    /// The second project is directly in the first.
    Child(ProjectId, ProjectId),
    /// The application credential is for this project.
    For(ProjectId, CredentialId),
    /// A service stores this credential for the user.
    Blob(UserId, BlobId),
    /// The user is the trustor or the trustee of this trust.
    Trusts(UserId, TrustId),
    /// The trust is for this project.
    TrustFor(ProjectId, TrustId),
    /// The second trust was redelegated from the first trust.
    LentOn(TrustId, TrustId),
    /// The grantee has roles on this path.
    Assigned(Who, RolePath),
    /// The last token that this revocation mark covers expires in this second. So a purge finds the marks that are no longer needed, and does not
    /// have to read all marks.
    Ends(i64, Revoked),
    /// The project or domain has this limit.
    LimitOf(LimitOwner, LimitId),
    /// The limit replaces this registered limit for a project or domain.
    LimitFrom(RegisteredLimitId, LimitId),
    /// The catalog of the project contains this endpoint, or the endpoints of this group.
    Selected(Selected, ProjectId),
    /// The consumer got this request token.
    RequestedBy(ConsumerId, RequestTokenId),
    /// The consumer got this access token.
    AccessBy(ConsumerId, AccessTokenId),
    /// The user authorized this access token.
    AccessOf(UserId, AccessTokenId),
    /// The access token is for this project.
    AccessFor(ProjectId, AccessTokenId),
}

const GRANTED: u8 = 1;
const MEMBER: u8 = 2;
const CHILD: u8 = 3;
const FOR: u8 = 4;
const BLOB: u8 = 5;
const TRUSTS: u8 = 6;
const TRUST_FOR: u8 = 7;
const LENT_ON: u8 = 8;
const ASSIGNED: u8 = 9;
const ENDS: u8 = 10;
const LIMIT_OF: u8 = 11;
const LIMIT_FROM: u8 = 12;
const SELECTED: u8 = 13;
const REQUESTED_BY: u8 = 14;
const ACCESS_BY: u8 = 15;
const ACCESS_OF: u8 = 16;
const ACCESS_FOR: u8 = 17;

impl ReverseKey {
    /// The prefix of the keys for the grants on a scope.
    pub fn granted_on(scope: &GrantScope) -> Vec<u8> {
        [&[GRANTED], scope.to_bytes().as_slice()].concat()
    }

    /// The prefix of the keys for the members of a group.
    pub fn members_of(group: &GroupId) -> Vec<u8> {
        [&[MEMBER], group.bytes()].concat()
    }

    /// The prefix of the keys for the projects directly in a project.
    pub fn children_of(project: &ProjectId) -> Vec<u8> {
        [&[CHILD], project.bytes().as_slice()].concat()
    }

    /// The prefix of the keys for the application credentials for a project.
    pub fn credentials_for(project: &ProjectId) -> Vec<u8> {
        [&[FOR], project.bytes().as_slice()].concat()
    }

    /// The prefix of the keys for the credentials that services store for a user.
    pub fn blobs_of(user: &UserId) -> Vec<u8> {
        [&[BLOB], user.bytes()].concat()
    }

    /// The prefix of the keys for the trusts in which a user is the trustor or the trustee.
    pub fn trusts_of(user: &UserId) -> Vec<u8> {
        [&[TRUSTS], user.bytes()].concat()
    }

    /// The prefix of the keys for the trusts for a project.
    pub fn trusts_for(project: &ProjectId) -> Vec<u8> {
        [&[TRUST_FOR], project.bytes().as_slice()].concat()
    }

    /// The prefix of the keys for the trusts that were redelegated from a trust.
    pub fn lent_on_from(trust: &TrustId) -> Vec<u8> {
        [&[LENT_ON], trust.bytes().as_slice()].concat()
    }

    /// The prefix of the keys for the paths on which a grantee has roles; `None` for a [`Who::Named`].
    pub fn assigned_to(who: &Who) -> Option<Vec<u8>> {
        let (kind, id) = match who {
            Who::User(id) => (1, id.bytes()),
            Who::Group(id) => (2, id.bytes()),
            Who::Token(id) => (3, id.bytes().as_slice()),
            Who::Named(_) => return None,
        };
        Some([&[ASSIGNED, kind], id].concat())
    }

    /// The prefix of the keys for the limits of a project or domain.
    pub fn limits_of(owner: &LimitOwner) -> Vec<u8> {
        [&[LIMIT_OF], owner.to_bytes().as_slice()].concat()
    }

    /// The prefix of the keys for the limits that replace a registered limit.
    pub fn limits_from(id: &RegisteredLimitId) -> Vec<u8> {
        [&[LIMIT_FROM], id.bytes().as_slice()].concat()
    }

    /// The prefix of the keys for the projects that have this endpoint, or this group of endpoints, in their catalog.
    pub fn selecting(selected: &Selected) -> Vec<u8> {
        [&[SELECTED], selected.to_bytes().as_slice()].concat()
    }

    /// The prefix of the keys for the request tokens of a consumer.
    pub fn requested_by(consumer: &ConsumerId) -> Vec<u8> {
        [&[REQUESTED_BY], consumer.bytes().as_slice()].concat()
    }

    /// The prefix of the keys for the access tokens of a consumer.
    pub fn access_by(consumer: &ConsumerId) -> Vec<u8> {
        [&[ACCESS_BY], consumer.bytes().as_slice()].concat()
    }

    /// The prefix of the keys for the access tokens that a user authorized.
    pub fn access_of(user: &UserId) -> Vec<u8> {
        [&[ACCESS_OF], user.bytes()].concat()
    }

    /// The prefix of the keys for the access tokens for a project.
    pub fn access_for(project: &ProjectId) -> Vec<u8> {
        [&[ACCESS_FOR], project.bytes().as_slice()].concat()
    }

    /// The prefix of the [`ReverseKey::Ends`] of all marks. The keys are in the order of the seconds at which the last tokens of the marks expire.
    pub fn ends() -> Vec<u8> {
        vec![ENDS]
    }

    /// Whether this is the key of a [`ReverseKey::Ends`]. Such a key only repeats a time that the record of the mark contains. So a reader of the
    /// marks can ignore the key.
    pub fn is_beside_a_mark(key: &[u8]) -> bool {
        key.first() == Some(&ENDS)
    }

    /// The length of the key prefix that the records of one group share.
    pub(super) fn group_bytes(key: &[u8]) -> usize {
        // A lookup reads all records that one tally counts, so one tally must count few records. A scope can have many grantees, but each grantee has
        // few roles on the scope. So one tally counts the roles of one grantee on one scope.
        prefix_bytes(key, |from| match from.u8()? {
            GRANTED => GrantScope::read(from).and(Grantee::read(from)),
            _ => None,
        })
    }
}

impl Key for ReverseKey {
    fn bytes(&self) -> Vec<u8> {
        match self {
            ReverseKey::Granted(scope, who, role) => {
                let (kind, id) = who.parts();
                [Self::granted_on(scope).as_slice(), &[kind], id, role.bytes()].concat()
            }
            ReverseKey::Member(group, member) => [Self::members_of(group), member.prefix()].concat(),
            ReverseKey::Child(parent, child) => {
                [Self::children_of(parent).as_slice(), child.bytes()].concat()
            }
            ReverseKey::For(project, id) => [Self::credentials_for(project).as_slice(), id.bytes()].concat(),
            ReverseKey::Blob(user, id) => [Self::blobs_of(user), id.bytes()].concat(),
            ReverseKey::Trusts(user, id) => [Self::trusts_of(user).as_slice(), id.bytes()].concat(),
            ReverseKey::TrustFor(project, id) => [Self::trusts_for(project).as_slice(), id.bytes()].concat(),
            ReverseKey::LentOn(from, id) => [Self::lent_on_from(from).as_slice(), id.bytes()].concat(),
            ReverseKey::Assigned(who, path) => {
                [Self::assigned_to(who).unwrap_or_default().as_slice(), path.as_str().as_bytes()].concat()
            }
            ReverseKey::Ends(second, mark) => {
                // The sign bit is flipped, so that the order of the bytes is the order of the seconds.
                let second = second.cast_unsigned() ^ 1 << 63;
                [&[ENDS], second.to_be_bytes().as_slice(), &mark.bytes()].concat()
            }
            ReverseKey::LimitOf(owner, id) => [Self::limits_of(owner).as_slice(), id.bytes()].concat(),
            ReverseKey::LimitFrom(from, id) => [Self::limits_from(from).as_slice(), id.bytes()].concat(),
            ReverseKey::Selected(selected, project) => {
                [Self::selecting(selected).as_slice(), project.bytes()].concat()
            }
            ReverseKey::RequestedBy(by, id) => [Self::requested_by(by).as_slice(), id.bytes()].concat(),
            ReverseKey::AccessBy(by, id) => [Self::access_by(by).as_slice(), id.bytes()].concat(),
            ReverseKey::AccessOf(user, id) => [Self::access_of(user).as_slice(), id.bytes()].concat(),
            ReverseKey::AccessFor(project, id) => [Self::access_for(project).as_slice(), id.bytes()].concat(),
        }
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader::new(bytes);
        let key = match from.u8()? {
            GRANTED => {
                let (scope, who) = (GrantScope::read(&mut from)?, Grantee::read(&mut from)?);
                ReverseKey::Granted(scope, who, RoleId::from_bytes(from.fixed()?))
            }
            MEMBER => ReverseKey::Member(GroupId::read(&mut from)?, Member::read(&mut from)?),
            CHILD => {
                ReverseKey::Child(ProjectId::from_bytes(from.fixed()?), ProjectId::from_bytes(from.fixed()?))
            }
            FOR => {
                ReverseKey::For(ProjectId::from_bytes(from.fixed()?), CredentialId::from_bytes(from.fixed()?))
            }
            BLOB => ReverseKey::Blob(UserId::read(&mut from)?, BlobId(from.fixed()?)),
            TRUSTS => ReverseKey::Trusts(UserId::read(&mut from)?, TrustId::from_bytes(from.fixed()?)),
            TRUST_FOR => {
                ReverseKey::TrustFor(ProjectId::from_bytes(from.fixed()?), TrustId::from_bytes(from.fixed()?))
            }
            LENT_ON => {
                ReverseKey::LentOn(TrustId::from_bytes(from.fixed()?), TrustId::from_bytes(from.fixed()?))
            }
            ASSIGNED => {
                let who = match from.u8()? {
                    1 => Who::User(UserId::read(&mut from)?),
                    2 => Who::Group(GroupId::read(&mut from)?),
                    3 => Who::Token(CredentialId::from_bytes(from.fixed()?)),
                    _ => return None,
                };
                // The remaining bytes are the path.
                let path = std::str::from_utf8(from.rest()).ok()?;
                return Some(ReverseKey::Assigned(who, path.parse().ok()?));
            }
            ENDS => {
                let second = u64::from_be_bytes(from.fixed()?) ^ 1 << 63;
                return Some(ReverseKey::Ends(second.cast_signed(), Revoked::from_bytes(from.rest())?));
            }
            LIMIT_OF => ReverseKey::LimitOf(LimitOwner::read(&mut from)?, LimitId::from_bytes(from.fixed()?)),
            LIMIT_FROM => {
                let registered = RegisteredLimitId::from_bytes(from.fixed()?);
                ReverseKey::LimitFrom(registered, LimitId::from_bytes(from.fixed()?))
            }
            SELECTED => {
                ReverseKey::Selected(Selected::read(&mut from)?, ProjectId::from_bytes(from.fixed()?))
            }
            REQUESTED_BY => {
                let consumer = ConsumerId::from_bytes(from.fixed()?);
                ReverseKey::RequestedBy(consumer, RequestTokenId::from_bytes(from.fixed()?))
            }
            ACCESS_BY => {
                let consumer = ConsumerId::from_bytes(from.fixed()?);
                ReverseKey::AccessBy(consumer, AccessTokenId::from_bytes(from.fixed()?))
            }
            ACCESS_OF => {
                ReverseKey::AccessOf(UserId::read(&mut from)?, AccessTokenId::from_bytes(from.fixed()?))
            }
            ACCESS_FOR => {
                let project = ProjectId::from_bytes(from.fixed()?);
                ReverseKey::AccessFor(project, AccessTokenId::from_bytes(from.fixed()?))
            }
            _ => return None,
        };
        from.is_empty().then_some(key)
    }
}

/// A record without a value: the key contains everything.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_stand_in_the_order_of_their_ends() {
        let mark = Revoked::Token([7; 16]);
        let keys = [i64::MIN, -1, 0, 1, 1 << 40, i64::MAX].map(|second| ReverseKey::Ends(second, mark));
        assert!(keys.each_ref().map(Key::bytes).is_sorted());
        for key in keys {
            assert!(ReverseKey::is_beside_a_mark(&key.bytes()));
            assert_eq!(ReverseKey::from_bytes(&key.bytes()), Some(key));
        }
    }
}
