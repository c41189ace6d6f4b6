//! The hash of a new password. The hash is computed first. Then the change that sets the password is built.

use crate::change_context::ChangeContext;
use crate::error::Error;
use crate::passwords::{Choice, ChosenBy, PasswordRules};
use enfilade_facts::tables::{Password, Profile, User};
use enfilade_facts::vocabulary::Secret;

/// A hashed password for a user. The password is hashed before the change is built, because hashing takes longer than a view may be held. The change
/// checks that the user still has the password that the new password replaces.
pub(crate) struct Chosen {
    instead_of: Option<Password>,
    password: Password,
}

impl Chosen {
    /// Checks a password against the rules and hashes it.
    ///
    /// # Errors
    /// When the rules do not allow the password.
    pub(crate) fn of(
        ctx: &ChangeContext<'_>,
        user: &User,
        profile: &Profile,
        (password, by): (&Secret, &ChosenBy),
    ) -> Result<Self, Error> {
        let (before, now) = (user.password.as_ref(), ctx.now.unix_seconds);
        let password = ctx.passwords.choose(&Choice { password, by, before, profile, now })?;
        Ok(Chosen { instead_of: user.password.clone(), password })
    }

    /// Puts the password into the user's record, in a change.
    ///
    /// # Errors
    /// When the user's password has changed since [`Chosen::of`].
    pub(crate) fn put(
        &self,
        ctx: &ChangeContext<'_>,
        user: &mut User,
        profile: &Profile,
    ) -> Result<(), Error> {
        if user.password != self.instead_of {
            return Err(PasswordRules::meanwhile());
        }
        let mut password = self.password.clone();
        password.until = ctx.passwords.until(&password, profile);
        user.password = Some(password);
        Ok(())
    }
}
