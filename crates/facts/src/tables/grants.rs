//! Keystone's roles, and their grants to users and groups.

use super::{GrantKey, ReverseKey, Row, Table};
use crate::codec::{Reader, Writer};
use crate::vocabulary::{DomainId, RoleId};
use serde::{Deserialize, Serialize};

/// A role. The service that gets a token with the role decides what the role permits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedRole {
    /// The name of the role, unique among the roles of the same domain, or among the roles without a domain.
    pub name: String,
    /// The domain that the role belongs to. No token contains a role that belongs to a domain. If a user has such a role, a token of the user
    /// contains the roles that this role implies.
    #[serde(default)]
    pub domain: Option<DomainId>,
    /// A description of the role.
    pub description: Option<String>,
    /// The roles that a user with this role also has.
    pub implies: Vec<RoleId>,
}

impl Row for NamedRole {
    const TABLE: Table = Table::Roles;
    type Key = RoleId;

    fn encode(&self, to: &mut Writer) {
        to.text(&self.name).option(self.domain.as_ref(), |to, domain| {
            to.fixed(domain.bytes());
        });
        to.optional_text(self.description.as_deref());
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

/// A record without a value: the key contains everything.
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
