//! Trusts: what one user lets another do in a project on their behalf.

use super::{Row, Table};
use crate::codec::{Reader, Writer};
use crate::vocabulary::{ProjectId, RoleId, TrustId, UserId};
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
        })
    }
}
