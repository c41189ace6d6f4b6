//! If an import added a record, and the record was then deleted on this server, later imports do not add the record again, unless they restore
//! deleted records. The imported records are in the list of imports (`import/earlier.rs`). The list is written in the same change as the records.

use super::{Left, Taking, mark};
use crate::error::Error;
use crate::import::{DELETED, HERE, WHOLE, key_of_password, key_of_record, revoked};
use enfilade_facts::tables::{
    Credential, Extra, ExtraKey, Password, Revocation, Revoked, Row, User, Verifier,
};
use enfilade_facts::vocabulary::{CredentialId, UserId};
use enfilade_facts::{Change, SourceError, View};

/// The value in the list for an application credential that was imported without its secret.
const WITHOUT_SECRET: &str = "{\"without_secret\":true}";

/// The value in the list for a user's password, if all sessions of the user were revoked before an import gave the password to the user.
const NEVER_HERE: &str = "{\"revoked\":true}";

/// Adds the password of a user to the list of imports, if the user is in the list. Then no later import gives the user the password of the source.
/// `was_here` means that the password was removed here; otherwise the sessions of the user were revoked. The mark of a revocation is purged later,
/// but the list is kept.
pub(crate) fn keep_password_out(
    view: &View<'_>,
    change: &mut Change,
    user: &UserId,
    was_here: bool,
) -> Result<(), SourceError> {
    let key = key_of_password(user);
    let is_imported = view.get::<Extra>(&key_of_record::<User>(user))?.is_some();
    if is_imported && view.get::<Extra>(&key)?.is_none() {
        change.put(&key, &Extra(if was_here { WHOLE } else { NEVER_HERE }.to_owned()));
    }
    Ok(())
}

impl Taking<'_, '_> {
    /// Checks that the record is not in this store, and that no earlier import added it. If the import restores deleted records, the second check is
    /// left out. If the record is in this store, it is added to the list of imports.
    pub(super) fn once<R: Row>(&mut self, key: &R::Key) -> Result<Left, Error> {
        let in_list = key_of_record::<R>(key);
        Ok(match (self.has::<R>(key)?, self.is_listed(&in_list)?) {
            (false, true) if !self.restore_deleted => Err(DELETED.to_owned()),
            (false, _) => Ok(()),
            (true, is_listed) => {
                if !is_listed {
                    self.list(&in_list, WHOLE);
                }
                Err(HERE.to_owned())
            }
        })
    }

    fn is_listed(&self, key: &ExtraKey) -> Result<bool, Error> {
        Ok(self.change.puts::<Extra>(key) || self.view.get::<Extra>(key)?.is_some())
    }

    /// Adds a record to the list.
    pub(super) fn list(&mut self, key: &ExtraKey, value: &str) {
        self.change.put(key, &Extra(value.to_owned()));
    }

    /// Notes in the list that an application credential was imported without a secret.
    pub(super) fn list_without_secret(&mut self, id: &CredentialId) {
        self.list(&key_of_record::<Credential>(id), WITHOUT_SECRET);
    }

    /// Notes in the list that a user has, or had, a password.
    pub(super) fn list_password(&mut self, id: &UserId) {
        self.list(&key_of_password(id), WHOLE);
    }

    /// Gives the password of the source to an existing user without a password, or returns why not. A password that was removed or revoked here is
    /// added again only if the import restores deleted records.
    pub(super) fn add_password(
        &mut self,
        id: &UserId,
        known: &User,
        password: &Password,
    ) -> Result<Left, Error> {
        if !self.restore_deleted {
            if let Some(Extra(text)) = self.view.get::<Extra>(&key_of_password(id))? {
                let was_here = text != NEVER_HERE;
                return Ok(Err(if was_here { DELETED.to_owned() } else { revoked(&self.called(id)) }));
            }
            if self.view.get::<Revocation>(&Revoked::User(*id))?.is_some() {
                // The mark of the revocation is purged later, but the list is kept.
                self.list(&key_of_password(id), NEVER_HERE);
                return Ok(Err(revoked(&self.called(id))));
            }
            // If the sessions of the user are revoked before this change is committed, the change conflicts and is built again.
            self.change.expect_absent::<Revocation>(&Revoked::User(*id));
        }
        let with = User { password: Some(password.clone()), ..known.clone() };
        self.change.expect_same(id, known).put(id, &with);
        self.list_password(id);
        Ok(Ok(()))
    }

    /// Gives a secret to an application credential that has no secret, but only if the credential was imported without a secret, and its record has
    /// not changed since the import. So a secret that was removed or revoked here is not added again. Exception: if the import restores deleted
    /// records, the credential need not meet these two conditions.
    pub(super) fn add_first_secret(
        &mut self,
        id: &CredentialId,
        known: &Credential,
        secret: &Verifier,
    ) -> Result<bool, Error> {
        let key = key_of_record::<Credential>(id);
        let came_without = self.view.get::<Extra>(&key)?.is_some_and(|Extra(text)| text == WITHOUT_SECRET);
        let listed = self.view.revision_of::<Extra>(&key)?;
        let written = self.view.revision_of::<Credential>(id)?;
        let is_untouched = came_without && written == listed;
        let (Some(written), true, Verifier::Missing) =
            (written, is_untouched || self.restore_deleted, &known.verifier)
        else {
            return Ok(false);
        };
        self.change
            .expect_revision::<Credential>(id, written)
            .put(id, &Credential { verifier: secret.clone(), ..known.clone() })
            .put(&key, &Extra(WHOLE.to_owned()));
        Ok(true)
    }

    /// Whether a record exists, or is created by this change. An existing record must still exist at the commit, because the new record refers to it.
    pub(super) fn claim<R: Row>(&mut self, key: &R::Key) -> Result<bool, Error> {
        if self.made.taken.contains(&mark::<R>(key)) {
            return Ok(true);
        }
        let is_here = self.view.get::<R>(key)?.is_some();
        if is_here {
            self.change.expect_present::<R>(key);
        }
        Ok(is_here)
    }
}
