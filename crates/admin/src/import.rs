//! Imports the records of other servers. Each record of the source gets a result: imported, imported with a difference, or left out.

mod accounts;
mod comparison;
mod earlier;
mod passwords;
mod proxmox;
mod role_rules;
mod source;
mod stores;
mod without_effect;

pub use earlier::imported_names;
pub(crate) use earlier::{WHOLE, key_of_password, key_of_record};
pub use proxmox::import_proxmox;
pub use source::{ProxmoxFiles, ProxmoxTerms};
pub use without_effect::roles_without_effect;

use crate::error::Error;
use enfilade_facts::vocabulary::{Realm, shell_word};

/// The result for one record of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The kind of record, such as `user` or `datastore`.
    pub kind: &'static str,
    /// The name of the record.
    pub name: String,
    /// Why the record was left out; `None` if it was imported.
    pub left_out: Option<String>,
    /// How the imported record differs from the record in the source, if the operator has to know.
    pub differs: Option<String>,
    /// Whether this is only a remark about a record of a followed file. In this case, the import did not add the record.
    pub is_remark: bool,
}

impl Imported {
    /// The result for an imported record.
    pub fn taken(kind: &'static str, name: impl Into<String>) -> Self {
        Imported { kind, name: name.into(), left_out: None, differs: None, is_remark: false }
    }

    /// The result for a record that was left out.
    pub fn left(kind: &'static str, name: impl Into<String>, why: impl Into<String>) -> Self {
        Imported { left_out: Some(why.into()), ..Imported::taken(kind, name) }
    }

    /// The result for a record that was imported, or that was left out for the reason `left_out`.
    pub fn of(kind: &'static str, name: impl Into<String>, left_out: Option<String>) -> Self {
        Imported { left_out, ..Imported::taken(kind, name) }
    }

    /// The result for a record of a followed file: a remark about the record.
    pub fn remark(kind: &'static str, name: impl Into<String>, differs: String) -> Self {
        Imported { differs: Some(differs), is_remark: true, ..Imported::taken(kind, name) }
    }

    /// Adds the difference between the imported record and the record in the source.
    #[must_use]
    pub fn but(self, differs: Option<String>) -> Self {
        Imported { differs, ..self }
    }

    /// Adds a further difference.
    #[must_use]
    pub fn and_but(self, more: Option<String>) -> Self {
        let all: Vec<String> = self.differs.into_iter().chain(more).collect();
        Imported { differs: (!all.is_empty()).then(|| all.join("; ")), ..self }
    }

    /// Whether the record was imported without its password or secret.
    pub fn lacks_secret(&self) -> bool {
        let is_without =
            |differs: &str| differs.starts_with(WITHOUT_PASSWORD) || differs.starts_with(WITHOUT_SECRET);
        self.left_out.is_none() && self.differs.as_deref().is_some_and(is_without)
    }

    /// Whether the record was left out because it exists here already.
    pub fn exists_here(&self) -> bool {
        self.left_out.as_deref() == Some(HERE)
    }

    /// Whether a password was left out because the user has a password on this server.
    pub fn has_password_here(&self) -> bool {
        self.left_out.as_deref() == Some(HAS_PASSWORD)
    }

    /// Whether a password was left out only because of the user's second factor. An import with [`ProxmoxTerms::without_second_factor`] adds the
    /// password.
    pub fn needs_second_factor(&self) -> bool {
        self.left_out.as_deref().is_some_and(|why| why.starts_with(NEEDS_FACTOR))
    }

    /// Whether a record, such as a password, was left out because it was removed or revoked here. There is no option with which the import adds the
    /// record nevertheless.
    pub fn was_taken_away(&self) -> bool {
        self.left_out.as_deref().is_some_and(|why| why.starts_with(REVOKED) || why == removed(self.kind))
    }

    /// The kind and the name.
    pub fn what(&self) -> String {
        format!("{} {}", self.kind, self.name).trim_end().to_owned()
    }
}

/// The reason for leaving out a record that already exists.
pub(crate) const HERE: &str = "the record already exists in this store";

/// The reason for leaving out a record of a cloud, if an earlier import added the record and it was later deleted here.
pub(crate) const DELETED: &str = "an earlier import added this record, and the record was later deleted, removed or revoked on this server; to import the record again, use --restore-deleted";

/// The difference to report for a user who was imported without a password.
pub(crate) const WITHOUT_PASSWORD: &str = "without a password";

/// The difference to report for an application credential that was imported without a secret.
pub(crate) const WITHOUT_SECRET: &str = "without a secret";

/// Why the password of a user is left out if the user already has a password.
const HAS_PASSWORD: &str = "the user already has a password on this server";

/// The beginning of the text that says why a user with a second factor gets no password.
const NEEDS_FACTOR: &str = "the user needs a second factor in Proxmox";

/// The beginning of the text that says why a user gets no password after the sessions of the user were revoked.
const REVOKED: &str = "the sessions of the user were revoked on this server";

/// Why a user gets no password after the sessions of the user were revoked, with the next step.
pub(crate) fn revoked(user: &str) -> String {
    format!("{REVOKED}; set a new password with `enfilade user passwd {}`", shell_word(user))
}

/// Why a record is not added again, if an earlier import added it and it is not here any more.
fn removed(kind: &str) -> String {
    let next = match kind {
        "user" => "create the user with `enfilade user add`",
        "token" => "create a token with `enfilade token create`",
        "password" => "set a new password with `enfilade user passwd`",
        "realm" => "create the realm with `enfilade domain add`",
        "datastore" => "create the datastore with `enfilade datastore create`",
        _ => "assign the roles with `enfilade role assign`",
    };
    format!(
        "an earlier import made this entry, and the entry was later removed or revoked on this server; to have the entry again, {next}"
    )
}

/// Why a user of a realm that was removed is not added.
fn removed_realm(realm: &Realm) -> String {
    format!(
        "an earlier import made the realm `{realm}`, and the realm was later removed on this server; to have the realm again, create the realm with \
         `enfilade domain add {}`, then import again",
        shell_word(realm.as_str())
    )
}

/// Why an entry for an existing record is left out: the record here and the record in the source are possibly not the same.
fn existed(what: &str) -> String {
    format!(
        "{what} was on this server before the import, and is possibly not the same as in the source, so this entry was not imported; if an earlier \
         import was from this source, import again with --same-source"
    )
}

/// The error for a store in which every SID is in use, so that it can have no more users and groups.
pub(crate) fn no_sid_left() -> Error {
    Error::Invalid(
        "this store has no SID left for new users and groups, so nothing was imported in this step. SIDs of removed users and groups are not used again: import into a new data directory".into(),
    )
}

#[cfg(test)]
mod tests;
