//! Projects, and the records that bind datastores, API tokens and users to a project.

use super::{AccessRule, Row, Table};
use crate::codec::{Reader, Writer};
use crate::vocabulary::{CredentialId, DatastoreName, DomainId, ProjectId, RoleId, UserId};
use serde::{Deserialize, Serialize};

/// A project, on which Keystone's roles are given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Project {
    /// The domain of the project.
    pub domain: DomainId,
    /// The project that contains this project; `None` if this project is directly in its domain.
    #[serde(default)]
    pub parent: Option<ProjectId>,
    /// The name of the project, unique in the domain.
    pub name: String,
    /// Whether the project can be used.
    pub enabled: bool,
    /// A description of the project.
    pub description: Option<String>,
    /// Words by which clients find the project.
    #[serde(default)]
    pub tags: Vec<String>,
}

impl Row for Project {
    const TABLE: Table = Table::Projects;
    type Key = ProjectId;

    fn encode(&self, to: &mut Writer) {
        to.fixed(self.domain.bytes()).option(self.parent.as_ref(), |to, parent| {
            to.fixed(parent.bytes());
        });
        to.text(&self.name).flag(self.enabled);
        to.optional_text(self.description.as_deref());
        to.list(&self.tags, |to, tag| {
            to.text(tag);
        });
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(Project {
            domain: DomainId::from_bytes(from.fixed()?),
            parent: from.option(|from| from.fixed().map(ProjectId::from_bytes))?,
            name: from.text()?,
            enabled: from.flag()?,
            description: from.option(Reader::text)?,
            tags: from.list(Reader::text)?,
        })
    }
}

/// The project that a datastore is bound to. Only the server's own store contains the binding, because `datastore.cfg` has no property for a project.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    /// The project.
    pub project: ProjectId,
}

impl Row for Binding {
    const TABLE: Table = Table::Bindings;
    type Key = DatastoreName;

    fn encode(&self, to: &mut Writer) {
        to.fixed(self.project.bytes());
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(Binding { project: ProjectId::from_bytes(from.fixed()?) })
    }
}

/// The record that makes an API token an application credential: its project, and the limits of its rights on this project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delegation {
    /// The project.
    pub project: ProjectId,
    /// The roles that were assigned to the credential. When the owner of the credential loses a role, the credential loses the role too.
    pub roles: Vec<RoleId>,
    /// Whether the credential may make other application credentials.
    pub unrestricted: bool,
    /// The only requests for which the credential may be used. If the list of rules is empty, the credential may be used for any request. The rules
    /// are copies of the owner's access rules, so that a decision about a request reads no further record.
    pub rules: Vec<AccessRule>,
    /// The application credential of the session that created this credential (the creating credential). This credential is valid only while the
    /// creating credential is valid, and gives no more rights than the creating credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<CredentialId>,
    /// The expiry in microseconds since the epoch, if the client asked for an expiry with a fraction of a second. The record of the token contains
    /// the same expiry, rounded down to a whole second, and the credential ends at that second. The microseconds are used only in answers to clients.
    /// If the token gets another expiry later, the microseconds are not used any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_micros: Option<i64>,
}

impl Row for Delegation {
    const TABLE: Table = Table::Delegations;
    type Key = CredentialId;

    fn encode(&self, to: &mut Writer) {
        to.fixed(self.project.bytes()).list(&self.roles, |to, role| {
            to.fixed(role.bytes());
        });
        to.flag(self.unrestricted).list(&self.rules, |to, rule| rule.encode(to));
        to.option(self.by.as_ref(), |to, by| {
            to.fixed(by.bytes());
        });
        to.tail(self.expires_micros, |to, micros| {
            to.i64(micros);
        });
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(Delegation {
            project: ProjectId::from_bytes(from.fixed()?),
            roles: from.list(|from| from.fixed().map(RoleId::from_bytes))?,
            unrestricted: from.flag()?,
            rules: from.list(AccessRule::decode)?,
            by: from.option(|from| from.fixed().map(CredentialId::from_bytes))?,
            expires_micros: from.tail(Reader::i64)?,
        })
    }
}

/// Attributes of a user in Identity v3. `user.cfg` has no fields for these attributes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// The project of a session if the login asks for no scope.
    pub default_project: Option<ProjectId>,
    /// The e-mail address.
    pub email: Option<String>,
    /// Whether passwords of this user never expire.
    #[serde(default)]
    pub keeps_password: bool,
    /// Whether this user may keep a password that another person chose for the user.
    #[serde(default)]
    pub takes_given_password: bool,
    /// Whether this user is never locked after failed logins.
    #[serde(default)]
    pub is_never_locked: bool,
    /// Whether this user never becomes inactive, even without logins.
    #[serde(default)]
    pub is_always_active: bool,
    /// The rules for multi-factor authentication: a login needs all methods of one rule. Empty if the user has no rules, or if the user's option
    /// `multi_factor_auth_enabled` is false.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mfa_rules: Vec<Vec<String>>,
}

impl Profile {
    /// Whether this profile and `other` have the same rules for the expiry of passwords.
    pub fn has_rules_of(&self, other: &Profile) -> bool {
        let rules = |of: &Profile| (of.keeps_password, of.takes_given_password);
        rules(self) == rules(other)
    }
}

impl Row for Profile {
    const TABLE: Table = Table::Profiles;
    type Key = UserId;

    fn encode(&self, to: &mut Writer) {
        to.option(self.default_project.as_ref(), |to, project| {
            to.fixed(project.bytes());
        });
        to.optional_text(self.email.as_deref());
        to.flag(self.keeps_password).flag(self.takes_given_password);
        to.flag(self.is_never_locked).flag(self.is_always_active);
        let rules = Some(self.mfa_rules.as_slice()).filter(|rules| !rules.is_empty());
        to.tail(rules, |to, rules| {
            to.list(rules, |to, rule| {
                to.list(rule, |to, method| {
                    to.text(method);
                });
            });
        });
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(Profile {
            default_project: from.option(|from| from.fixed().map(ProjectId::from_bytes))?,
            email: from.option(Reader::text)?,
            keeps_password: from.flag()?,
            takes_given_password: from.flag()?,
            is_never_locked: from.flag()?,
            is_always_active: from.flag()?,
            mfa_rules: from.tail(|from| from.list(|from| from.list(Reader::text)))?.unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_application_credential_keeps_the_microseconds_of_its_expiry() {
        for (by, expires_micros) in [(None, None), (Some(7), None), (None, Some(1)), (Some(7), Some(-1))] {
            let row = Delegation {
                project: ProjectId::from_bytes([1; 16]),
                roles: vec![RoleId::from_bytes([2; 16])],
                unrestricted: false,
                rules: Vec::new(),
                by: by.map(|n| CredentialId::from_bytes([n; 16])),
                expires_micros,
            };
            let mut to = Writer::default();
            row.encode(&mut to);
            let value = to.into_bytes();
            let mut from = Reader::new(&value);
            assert_eq!((Delegation::decode(&mut from), from.is_empty()), (Some(row), true));
        }
    }
}
