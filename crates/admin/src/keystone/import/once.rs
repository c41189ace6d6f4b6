//! Imports records that let somebody in only once: what an import brought and what was deleted here since stays deleted. The list of these records is
//! the one of `import/earlier.rs`, and it is written in the same change as the records.

use super::{Left, Taking, mark};
use crate::error::Error;
use crate::import::{DELETED, HERE, WHOLE, key_by_id};
use enfilade_facts::tables::{Credential, Extra, ExtraKey, Row, Verifier};
use enfilade_facts::vocabulary::CredentialId;
use std::fmt::Display;

/// The kinds of these records in the list.
pub(super) const CREDENTIAL: &str = "application credential";
pub(super) const TRUST: &str = "trust";
pub(super) const BLOB: &str = "stored credential";
pub(super) const CONSUMER: &str = "OAuth consumer";
pub(super) const ACCESS_TOKEN: &str = "OAuth access token";

/// The value in the list for an application credential that came without its secret.
const WITHOUT_SECRET: &str = "{\"without_secret\":true}";

impl Taking<'_, '_> {
    /// Checks that the record is not here, and that no import brought it before. A record that is here gets into the list, if it is not there yet.
    pub(super) fn once<R: Row<Key: Display>>(&mut self, kind: &str, id: &R::Key) -> Result<Left, Error> {
        let key = key_by_id(kind, id);
        let is_listed = self.change.puts::<Extra>(&key) || self.view.get::<Extra>(&key)?.is_some();
        Ok(match (self.has::<R>(id)?, is_listed) {
            (false, false) => Ok(()),
            (false, true) => Err(DELETED.to_owned()),
            (true, true) => Err(HERE.to_owned()),
            (true, false) => {
                self.list(&key, WHOLE);
                Err(HERE.to_owned())
            }
        })
    }

    /// Adds a record that [`Taking::once`] accepted, also to the list.
    pub(super) fn add_once<R: Row<Key: Display>>(
        &mut self,
        kind: &str,
        id: &R::Key,
        row: &R,
    ) -> Result<Left, Error> {
        let left = self.add(id, row)?;
        if left.is_ok() {
            self.list(&key_by_id(kind, id), WHOLE);
        }
        Ok(left)
    }

    fn list(&mut self, key: &ExtraKey, value: &str) {
        self.change.expect_absent::<Extra>(key).put(key, &Extra(value.to_owned()));
    }

    /// Adds an application credential to the list.
    pub(super) fn list_credential(&mut self, id: &CredentialId, verifier: &Verifier) {
        let value = if *verifier == Verifier::Missing { WITHOUT_SECRET } else { WHOLE };
        self.list(&key_by_id(CREDENTIAL, id), value);
    }

    /// Gives a secret to an application credential that came without one, if nothing has changed the record since: then it never had a secret here that
    /// was removed or revoked.
    pub(super) fn add_first_secret(
        &mut self,
        id: &CredentialId,
        known: &Credential,
        secret: &Verifier,
    ) -> Result<bool, Error> {
        let key = key_by_id(CREDENTIAL, id);
        let came_without = self.view.get::<Extra>(&key)?.is_some_and(|Extra(text)| text == WITHOUT_SECRET);
        let listed = self.view.revision_of::<Extra>(&key)?;
        let written = self.view.revision_of::<Credential>(id)?.filter(|written| Some(*written) == listed);
        let (Some(written), true, Verifier::Missing) = (written, came_without, &known.verifier) else {
            return Ok(false);
        };
        self.change
            .expect_revision::<Credential>(id, written)
            .put(id, &Credential { verifier: secret.clone(), ..known.clone() })
            .put(&key, &Extra(WHOLE.to_owned()));
        Ok(true)
    }

    /// Whether a record exists, or is created by this change. An existing one has to be there until the commit, because the new record refers to it.
    pub(super) fn claim<R: Row>(&mut self, key: &R::Key) -> Result<bool, Error> {
        if self.taken.contains(&mark::<R>(key)) {
            return Ok(true);
        }
        let is_here = self.view.get::<R>(key)?.is_some();
        if is_here {
            self.change.expect_present::<R>(key);
        }
        Ok(is_here)
    }
}
