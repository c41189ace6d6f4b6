//! Trusts: what one user lets another do in a project on their behalf.

use super::{Row, Table};
use crate::codec::{Reader, Writer};
use crate::vocabulary::{CredentialId, ProjectId, RoleId, TrustId, UserId};
use serde::{Deserialize, Serialize};

/// A trust. It is never changed: it is made, and deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trust {
    /// Who trusts; what is done by the trust is worth what they may do themselves.
    pub trustor: UserId,
    /// Who is trusted.
    pub trustee: UserId,
    /// The project.
    pub project: ProjectId,
    /// The roles that are lent. Once the trustor has not all of them, none is.
    pub roles: Vec<RoleId>,
    /// Whether services are told the trustor in the trustee's place.
    pub impersonation: bool,
    /// Until when, seconds since the epoch; 0 is for ever.
    pub expires: i64,
    /// How often a session may still be had by it, where that is bounded.
    #[serde(default)]
    pub uses: Option<u32>,
    /// How often what it lends may be lent on, one after the other.
    #[serde(default)]
    pub redelegations: u8,
    /// The trust it was lent on from: without that one it is worth nothing.
    #[serde(default)]
    pub parent: Option<TrustId>,
    /// The application credential whose session made it: it is good while that one is good, for no more than that one.
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
            trustor: UserId::from_bytes(from.fixed()?),
            trustee: UserId::from_bytes(from.fixed()?),
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
    use crate::tables::Delegation;

    /// A record as it was written before it could name an application credential, and the same that names one.
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
        assert_eq!(R::decode(&mut Reader::new(cut)), None, "a part of the id is damage");
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
        // As it was stored: two users, the project, one role, impersonation, the end, no uses, one redelegation, the parent.
        let mut old = [[1; 16], [1; 16], [2; 16]].concat();
        old.extend(
            [0, 0, 0, 1].iter().chain(&[3; 16]).chain(&[1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 1, 1]).chain(&[5; 16]),
        );
        assert_eq!(Trust::decode(&mut Reader::new(&old)).as_ref(), Some(&trust));
        reads_both(&trust, &Trust { by, ..trust.clone() });
        let delegation =
            Delegation { project, roles: vec![role], unrestricted: true, rules: Vec::new(), by: None };
        let mut old = [2; 16].to_vec();
        old.extend([0, 0, 0, 1].iter().chain(&[3; 16]).chain(&[1, 0, 0, 0, 0]));
        assert_eq!(Delegation::decode(&mut Reader::new(&old)).as_ref(), Some(&delegation));
        reads_both(&delegation, &Delegation { by, ..delegation.clone() });
    }
}
