//! Trusts: with a trust, a user delegates roles on a project to another user.

use super::{Row, Table};
use crate::codec::{Reader, Writer};
use crate::vocabulary::{CredentialId, ProjectId, RoleId, TrustId, UserId};
use serde::{Deserialize, Serialize};

/// A trust. After a trust is created, only its number of remaining uses changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trust {
    /// The user who delegates roles. A session that was issued for the trust has no more rights than this user has.
    pub trustor: UserId,
    /// The user who may use the trust.
    pub trustee: UserId,
    /// The project.
    pub project: ProjectId,
    /// The roles that are lent. If the trustor loses one of these roles, the trust lends no role.
    pub roles: Vec<RoleId>,
    /// Whether services see the trustor as the user of a session, and not the trustee.
    pub impersonation: bool,
    /// When the trust expires, in seconds since the epoch; 0 means never.
    pub expires: i64,
    /// The number of sessions that can still be issued for the trust; `None` if unlimited.
    #[serde(default)]
    pub uses: Option<u32>,
    /// How often the trust can be redelegated: the largest number of trusts that can follow this trust in a chain.
    #[serde(default)]
    pub redelegations: u8,
    /// The trust from which this trust was redelegated. If that trust no longer exists, this trust is not valid.
    #[serde(default)]
    pub parent: Option<TrustId>,
    /// The application credential of the session that made the trust. The trust is valid only while this credential is valid, and gives no more
    /// rights than this credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<CredentialId>,
}

impl Row for Trust {
    const TABLE: Table = Table::Trusts;
    type Key = TrustId;

    fn encode(&self, to: &mut Writer) {
        to.fixed(self.trustor.bytes()).fixed(self.trustee.bytes()).fixed(self.project.bytes());
        to.list(&self.roles, |to, role| {
            to.fixed(role.bytes());
        });
        to.flag(self.impersonation).i64(self.expires).option(self.uses, |to, uses| {
            to.u32(uses);
        });
        to.u8(self.redelegations).option(self.parent.as_ref(), |to, parent| {
            to.fixed(parent.bytes());
        });
        to.tail(self.by.as_ref(), |to, by| {
            to.fixed(by.bytes());
        });
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(Trust {
            trustor: UserId::read(from)?,
            trustee: UserId::read(from)?,
            project: ProjectId::from_bytes(from.fixed()?),
            roles: from.list(|from| from.fixed().map(RoleId::from_bytes))?,
            impersonation: from.flag()?,
            expires: from.i64()?,
            uses: from.option(Reader::u32)?,
            redelegations: from.u8()?,
            parent: from.option(|from| from.fixed().map(TrustId::from_bytes))?,
            by: from.tail(|from| from.fixed().map(CredentialId::from_bytes))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that both forms of a record can be read. `without` has the form that older programs wrote, without a field for an application
    /// credential. `with` has an application credential.
    fn reads_both<R: Row + PartialEq + std::fmt::Debug>(without: &R, with: &R) {
        let written = |row: &R| {
            let mut to = Writer::default();
            row.encode(&mut to);
            to.into_bytes()
        };
        let (old, new) = (written(without), written(with));
        assert_eq!(new.get(..old.len()), Some(old.as_slice()));
        for (bytes, row) in [(&old, without), (&new, with)] {
            let mut from = Reader::new(bytes);
            assert_eq!((R::decode(&mut from).as_ref(), from.is_empty()), (Some(row), true));
        }
        let cut = new.get(..new.len() - 1).unwrap_or_default();
        assert_eq!(R::decode(&mut Reader::new(cut)), None, "a record with only a part of the id is damaged");
    }

    #[test]
    fn records_from_before_a_credential_was_named_are_read() {
        let (user, project, role) =
            (UserId::from_bytes([1; 16]), ProjectId::from_bytes([2; 16]), RoleId::from_bytes([3; 16]));
        let by = Some(CredentialId::from_bytes([4; 16]));
        let trust = Trust {
            trustor: user,
            trustee: user,
            project,
            roles: vec![role],
            impersonation: true,
            expires: 7,
            uses: None,
            redelegations: 1,
            parent: Some(TrustId::from_bytes([5; 16])),
            by: None,
        };
        // The bytes as an older program stored them: two users, the project, one role, impersonation, the expiry, no limit of uses, one redelegation,
        // the parent.
        let mut old = [[1; 16], [1; 16], [2; 16]].concat();
        old.extend(
            [0, 0, 0, 1].iter().chain(&[3; 16]).chain(&[1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 1, 1]).chain(&[5; 16]),
        );
        assert_eq!(Trust::decode(&mut Reader::new(&old)).as_ref(), Some(&trust));
        reads_both(&trust, &Trust { by, ..trust.clone() });
    }
}
