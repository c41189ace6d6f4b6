//! The rules for passwords and logins: the form, age and reuse of passwords, locks, and inactivity. No rule applies unless it is configured.

use crate::error::Error;
use crate::password_regex::PasswordRegex;
use enfilade_facts::tables::{Password, Profile};
use enfilade_facts::vocabulary::Secret;
use std::sync::{Mutex, PoisonError};

/// The maximum of [`PasswordRules::unlike_last`]. The maximum is low, because the check of a new password computes a slow hash for each earlier
/// password.
pub const PASSWORDS_KEPT_MAX: usize = 24;

/// The configured rules: the rules of Keystone's `[security_compliance]`, and minimums for the length and for the kinds of characters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PasswordRules {
    /// The minimum number of characters.
    pub characters_min: usize,
    /// The minimum number of kinds of characters. The kinds are lower case, upper case, digits, and everything else.
    pub kinds_min: usize,
    /// How long a password is valid, in seconds; 0 means for ever.
    pub seconds_max: i64,
    /// The minimum time between two changes of a password by its user, in seconds.
    pub seconds_min: i64,
    /// The number of last passwords, including the present password, that a user may not choose again.
    pub unlike_last: usize,
    /// Whether a user must change a password that another person chose. Such a password can only be used to set a new password.
    pub change_given: bool,
    /// A regular expression that a password must match.
    pub regex: Option<PasswordRegex>,
    /// The regular expression in words, for people who choose a password that does not match.
    pub regex_description: Option<String>,
    /// The number of failed logins after which a user is locked; 0 means never.
    pub lockout_failures: u32,
    /// How long a user is locked, in seconds.
    pub lockout_seconds: i64,
    /// The number of days without a login after which a user is inactive; 0 means never.
    pub inactive_days: i64,
}

/// The person who chooses a password.
#[derive(Clone, Debug)]
pub enum ChosenBy {
    /// The user of the password, with the present password as proof.
    User(Secret),
    /// An administrator. If an administrator chooses the password, neither the age of the old password nor the earlier passwords are checked.
    Another,
}

/// A new password, and the data for checking the password against the rules.
pub(crate) struct Choice<'a> {
    pub(crate) password: &'a Secret,
    pub(crate) by: &'a ChosenBy,
    pub(crate) before: Option<&'a Password>,
    pub(crate) profile: &'a Profile,
    pub(crate) now: i64,
}

/// The lock that a thread holds while it hashes a new password. Only one new password is hashed at a time, so new passwords keep at most one core
/// busy.
static TURN: Mutex<()> = Mutex::new(());

impl PasswordRules {
    /// No rules.
    pub const NONE: &'static PasswordRules = &PasswordRules {
        characters_min: 0,
        kinds_min: 0,
        seconds_max: 0,
        seconds_min: 0,
        unlike_last: 0,
        change_given: false,
        regex: None,
        regex_description: None,
        lockout_failures: 0,
        lockout_seconds: 0,
        inactive_days: 0,
    };

    /// Checks and hashes the first password of a new user.
    ///
    /// # Errors
    /// When the rules do not allow the password.
    pub(crate) fn first(&self, password: &Secret, now: i64) -> Result<Password, Error> {
        let (by, before, profile) = (&ChosenBy::Another, None, &Profile::default());
        self.choose(&Choice { password, by, before, profile, now })
    }

    /// Checks a new password against the rules and hashes it.
    ///
    /// # Errors
    /// When the rules do not allow the password.
    pub(crate) fn choose(&self, choice: &Choice<'_>) -> Result<Password, Error> {
        self.check_form(choice.password)?;
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        if let ChosenBy::User(old) = choice.by {
            // The old password is checked again: another request may have changed it since the login.
            let is_of = |before: &&Password| enfilade_identity::matches_hash(old, &before.hash);
            let before = choice.before.filter(is_of).ok_or_else(Self::meanwhile)?;
            if old.reveal() == choice.password.reveal() {
                return Err(Error::Invalid("the new password is the same as the old one".to_owned()));
            }
            self.check_age(before, choice.now)?;
            self.check_unlike(choice.password, before)?;
        }
        let hash = enfilade_identity::hash_password(choice.password).map_err(Error::Invalid)?;
        let is_given = matches!(choice.by, ChosenBy::Another);
        let known = choice.before.map(|before| std::iter::once(&before.hash).chain(&before.before));
        // `unlike_last` counts the new password, too. So at most `unlike_last - 1` hashes of earlier passwords are stored.
        let before = known.into_iter().flatten().take(self.unlike_last.saturating_sub(1)).cloned().collect();
        let mut password = Password { hash, set_at: choice.now, until: 0, is_given, before };
        password.until = self.until(&password, choice.profile);
        Ok(password)
    }

    /// When a password expires, in seconds since the epoch; 0 means never.
    pub(crate) fn until(&self, password: &Password, profile: &Profile) -> i64 {
        if self.change_given && password.is_given && !profile.takes_given_password {
            return password.set_at;
        }
        // The age of an imported password is unknown, so such a password does not expire.
        match self.seconds_max == 0 || profile.keeps_password || password.set_at == 0 {
            true => 0,
            false => password.set_at.saturating_add(self.seconds_max),
        }
    }

    pub(crate) fn meanwhile() -> Error {
        Error::Refused(
            "another request changed the password just now; try again with the password that is valid now"
                .to_owned(),
        )
    }

    /// Checks the form of a new password: the length, the kinds of characters, and the regular expression.
    ///
    /// # Errors
    /// When the rules do not allow the password.
    pub fn check_form(&self, password: &Secret) -> Result<(), Error> {
        let text = String::from_utf8_lossy(password.reveal());
        let kinds: [fn(char) -> bool; 4] = [char::is_lowercase, char::is_uppercase, char::is_numeric, |c| {
            !c.is_lowercase() && !c.is_uppercase() && !c.is_numeric()
        }];
        let kinds = kinds.iter().filter(|is_of_it| text.chars().any(**is_of_it)).count();
        if text.chars().count() < self.characters_min {
            return Err(Error::Invalid(format!(
                "the password is too short: expected at least {} characters",
                self.characters_min
            )));
        }
        if kinds < self.kinds_min {
            return Err(Error::Invalid(format!(
                "the password has too few kinds of characters: expected at least {} of: lower case letters, upper case letters, digits, others",
                self.kinds_min
            )));
        }
        match &self.regex {
            Some(regex) if !regex.matches(password).map_err(Error::Invalid)? => Err(Error::Invalid(format!(
                "the password does not match the requirements: {}",
                self.regex_description.as_deref().unwrap_or(regex.as_str())
            ))),
            _ => Ok(()),
        }
    }

    /// A regular expression that every allowed password matches, for programs that check a new password before they send it. It is the configured
    /// expression. If no expression is configured, it is an expression for the minimum length; `None` if there is no minimum length either. The kinds
    /// of characters are not in the expression, because programs disagree about which characters are letters.
    pub fn regex(&self) -> Option<String> {
        match &self.regex {
            Some(regex) => Some(regex.as_str().to_owned()),
            None => (self.characters_min > 0).then(|| format!(r"^[\s\S]{{{},}}$", self.characters_min)),
        }
    }

    /// The rules for the form of a password, in words; `None` if there are no such rules.
    pub fn form(&self) -> Option<String> {
        let characters =
            (self.characters_min > 0).then(|| format!("at least {} characters", self.characters_min));
        let kinds = (self.kinds_min > 0).then(|| {
            format!(
                "at least {} of these kinds of characters: lower case letters, upper case letters, digits, others",
                self.kinds_min
            )
        });
        let rules: Vec<String> = [characters, kinds].into_iter().flatten().collect();
        let rules = (!rules.is_empty()).then(|| format!("A password has {}.", rules.join(", and ")));
        let texts: Vec<String> = self.regex_description.clone().into_iter().chain(rules).collect();
        (!texts.is_empty()).then(|| texts.join(" "))
    }

    fn check_age(&self, before: &Password, now: i64) -> Result<(), Error> {
        // A user who must change the password may do so before the minimum age.
        let is_over = before.until != 0 && before.until <= now;
        let left = before.set_at.saturating_add(self.seconds_min).saturating_sub(now);
        match is_over || left <= 0 {
            true => Ok(()),
            false => Err(Error::Invalid(format!(
                "the password was set too recently: it can be changed in {left} s"
            ))),
        }
    }

    fn check_unlike(&self, password: &Secret, before: &Password) -> Result<(), Error> {
        let known = std::iter::once(&before.hash).chain(&before.before).take(self.unlike_last);
        match known.into_iter().any(|hash| enfilade_identity::matches_hash(password, hash)) {
            true => Err(Error::Invalid(format!(
                "the password is one of the last {} passwords of this user: choose another",
                self.unlike_last
            ))),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400;

    fn secret(text: &str) -> Secret {
        Secret::new(text.as_bytes()).unwrap()
    }

    fn choose(
        rules: &PasswordRules,
        text: &str,
        by: &ChosenBy,
        before: Option<&Password>,
        now: i64,
    ) -> Result<Password, String> {
        let (password, profile) = (&secret(text), &Profile::default());
        rules.choose(&Choice { password, by, before, profile, now }).map_err(|why| why.to_string())
    }

    fn by(old: &str) -> ChosenBy {
        ChosenBy::User(secret(old))
    }

    #[test]
    fn the_form_is_asked_of_everybody() {
        let rules = PasswordRules { characters_min: 4, kinds_min: 3, ..PasswordRules::default() };
        for (text, expected) in [
            ("aB3", Err("short")),
            ("ßÄ3", Err("short")),
            ("ßÄ3d", Ok(())),
            ("abcdefgh", Err("too few kinds")),
            ("abcdefG", Err("too few kinds")),
            ("abcdeF1", Ok(())),
            ("abc 1", Ok(())),
        ] {
            let before = choose(PasswordRules::NONE, "before", &ChosenBy::Another, None, 0).unwrap();
            for by in [by("before"), ChosenBy::Another] {
                let chosen = choose(&rules, text, &by, Some(&before), 0).map(drop);
                match expected {
                    Ok(()) => assert_eq!(chosen, Ok(()), "{text}"),
                    Err(word) => assert!(chosen.unwrap_err().contains(word), "{text}"),
                }
            }
        }
        assert!(choose(PasswordRules::NONE, "x", &ChosenBy::Another, None, 0).is_ok());
    }

    #[test]
    fn the_form_is_told_to_clients() {
        let rules = |characters_min, kinds_min| {
            let rules = PasswordRules { characters_min, kinds_min, ..PasswordRules::default() };
            (rules.regex(), rules.form())
        };
        let kinds = "of these kinds of characters: lower case letters, upper case letters, digits, others.";
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(rules(0, 0), (None, None));
        assert_eq!(rules(12, 0), (text(r"^[\s\S]{12,}$"), text("A password has at least 12 characters.")));
        assert_eq!(rules(0, 2), (None, Some(format!("A password has at least 2 {kinds}"))));
        let both = format!("A password has at least 8 characters, and at least 3 {kinds}");
        assert_eq!(rules(8, 3), (text(r"^[\s\S]{8,}$"), Some(both)));
        let rules = PasswordRules {
            characters_min: 8,
            regex: Some(PasswordRegex::new("^(?=.*[0-9]).+$").unwrap()),
            regex_description: Some("One digit.".to_owned()),
            ..PasswordRules::default()
        };
        assert_eq!(rules.regex(), text("^(?=.*[0-9]).+$"));
        assert_eq!(rules.form(), text("One digit. A password has at least 8 characters."));
        let refused = |password| rules.check_form(&secret(password)).map_err(|why| why.to_string());
        assert_eq!(refused("abcdefg1"), Ok(()));
        let why = "the password does not match the requirements: One digit.";
        assert_eq!(refused("abcdefgh"), Err(why.to_owned()));
        assert!(refused("abcdef1").unwrap_err().contains("too short"));
    }

    #[test]
    fn a_user_keeps_it_for_a_while_and_takes_none_of_the_last() {
        let rules = PasswordRules { seconds_min: DAY, unlike_last: 2, ..PasswordRules::default() };
        let first = choose(&rules, "one", &ChosenBy::Another, None, 0).unwrap();
        let early = choose(&rules, "two", &by("one"), Some(&first), DAY - 1);
        assert_eq!(
            early.map(drop).unwrap_err(),
            "the password was set too recently: it can be changed in 1 s"
        );
        assert!(choose(&rules, "one", &by("one"), Some(&first), DAY).is_err());
        assert!(choose(PasswordRules::NONE, "one", &by("one"), Some(&first), DAY).is_err());
        let second = choose(&rules, "two", &by("one"), Some(&first), DAY).unwrap();
        assert_eq!(second.before, [first.hash]);
        assert!(choose(&rules, "one", &by("two"), Some(&second), 2 * DAY).is_err());
        let third = choose(&rules, "three", &by("two"), Some(&second), 2 * DAY).unwrap();
        assert!(choose(&rules, "one", &by("three"), Some(&third), 3 * DAY).is_ok());
        // If an administrator chooses the password, earlier passwords and the age of the old password are not checked.
        assert!(choose(&rules, "three", &ChosenBy::Another, Some(&third), 2 * DAY).is_ok());
    }

    #[test]
    fn whoever_has_the_one_before_the_last_has_nothing() {
        let given = choose(PasswordRules::NONE, "given", &ChosenBy::Another, None, 0).unwrap();
        let late = choose(PasswordRules::NONE, "own", &by("stolen"), Some(&given), 0);
        let why =
            "another request changed the password just now; try again with the password that is valid now";
        assert_eq!(late.map(drop).unwrap_err(), why);
        assert!(choose(PasswordRules::NONE, "own", &by("stolen"), None, 0).is_err());
    }

    #[test]
    fn it_grows_old_unless_its_user_is_exempt() {
        let rules = PasswordRules {
            seconds_max: 90 * DAY,
            seconds_min: DAY,
            change_given: true,
            ..PasswordRules::default()
        };
        let given = choose(&rules, "given", &ChosenBy::Another, None, 100).unwrap();
        assert_eq!((given.until, given.is_given), (100, true));
        // A user who must change the password may change it immediately.
        let own = choose(&rules, "own", &by("given"), Some(&given), 100).unwrap();
        assert_eq!((own.until, own.is_given), (100 + 90 * DAY, false));
        let takes = Profile { takes_given_password: true, ..Profile::default() };
        assert_eq!(rules.until(&given, &takes), 100 + 90 * DAY);
        let keeps = Profile { keeps_password: true, ..takes };
        assert_eq!((rules.until(&given, &keeps), rules.until(&own, &keeps)), (0, 0));
        assert_eq!(rules.until(&Password::of("brought along".to_owned()), &Profile::default()), 0);
        assert_eq!(choose(PasswordRules::NONE, "x", &ChosenBy::Another, None, 100).unwrap().until, 0);
    }
}
