//! A password that is chosen for a user and then put into a change.

use crate::desk::Desk;
use crate::error::Error;
use crate::passwords::{Choice, ChosenBy, PasswordRules};
use enfilade_facts::tables::{Password, Profile, User};
use enfilade_facts::vocabulary::Secret;

/// A password that was chosen for a user as the user was then: hashing takes longer than a view may be held.
pub(crate) struct Chosen {
    instead_of: Option<Password>,
    password: Password,
}

impl Chosen {
    /// Chooses it.
    ///
    /// # Errors
    /// When the rules do not allow it.
    pub(crate) fn of(
        desk: &Desk<'_>,
        user: &User,
        profile: &Profile,
        (password, by): (&Secret, &ChosenBy),
    ) -> Result<Self, Error> {
        let (before, now) = (user.password.as_ref(), desk.now.unix_seconds);
        let password = desk.passwords.choose(&Choice { password, by, before, profile, now })?;
        Ok(Chosen { instead_of: user.password.clone(), password })
    }

    /// Gives it to the user, in a change.
    ///
    /// # Errors
    /// When the user has another password by now than the one it was to take the place of.
    pub(crate) fn put(&self, desk: &Desk<'_>, user: &mut User, profile: &Profile) -> Result<(), Error> {
        if user.password != self.instead_of {
            return Err(PasswordRules::meanwhile());
        }
        let mut password = self.password.clone();
        password.until = desk.passwords.until(&password, profile);
        user.password = Some(password);
        Ok(())
    }
}
