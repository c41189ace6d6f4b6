//! What was revoked. There is one record for whatever a token can be revoked by, so a later revocation takes the place of
//! an earlier one, and asking is a look at a handful of keys.

use super::{Key, Row, Table};
use crate::codec::{Reader, Writer};
use crate::vocabulary::{DomainId, ProjectId, TrustId, UserId};
use serde::{Deserialize, Serialize};

/// What a token is revoked by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Revoked {
    /// One token, by its audit id.
    Token(#[serde(with = "super::names::as_hex")] [u8; 16]),
    /// A token and everything that was made of it, by the audit id of the first.
    Chain(#[serde(with = "super::names::as_hex")] [u8; 16]),
    /// Everything of a user.
    User(UserId),
    /// Everything for a project.
    Project(ProjectId),
    /// Everything of the users of a domain, or for it.
    Domain(DomainId),
    /// Everything by a trust.
    Trust(TrustId),
    /// Everything by a consumer.
    Consumer(#[serde(with = "super::names::as_hex")] [u8; 16]),
}

impl Revoked {
    /// Of which kind, as the key says it, and which of them.
    fn parts(&self) -> (u8, &[u8; 16]) {
        match self {
            Revoked::Token(id) => (1, id),
            Revoked::Chain(id) => (2, id),
            Revoked::User(id) => (3, id.bytes()),
            Revoked::Project(id) => (4, id.bytes()),
            Revoked::Domain(id) => (5, id.bytes()),
            Revoked::Trust(id) => (6, id.bytes()),
            Revoked::Consumer(id) => (7, id),
        }
    }

    /// The id of whatever it is. Ids are random.
    pub fn id(&self) -> &[u8; 16] {
        self.parts().1
    }
}

impl Key for Revoked {
    fn bytes(&self) -> Vec<u8> {
        let (kind, id) = self.parts();
        [&[kind], id.as_slice()].concat()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (kind, id) = bytes.split_first()?;
        let id: [u8; 16] = id.try_into().ok()?;
        Some(match kind {
            1 => Revoked::Token(id),
            2 => Revoked::Chain(id),
            3 => Revoked::User(UserId::from_bytes(id)),
            4 => Revoked::Project(ProjectId::from_bytes(id)),
            5 => Revoked::Domain(DomainId::from_bytes(id)),
            6 => Revoked::Trust(TrustId::from_bytes(id)),
            7 => Revoked::Consumer(id),
            _ => return None,
        })
    }
}

/// Since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revocation {
    /// Tokens issued in this second or before it are refused, seconds since the epoch: a Fernet token knows no smaller unit,
    /// and one of the very second may be the one that was meant (as in the original).
    pub issued_before: i64,
    /// When it was revoked.
    pub revoked_at: i64,
}

impl Row for Revocation {
    const TABLE: Table = Table::Revocations;
    type Key = Revoked;

    fn encode(&self, to: &mut Writer) {
        to.i64(self.issued_before).i64(self.revoked_at);
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(Revocation { issued_before: from.i64()?, revoked_at: from.i64()? })
    }
}
