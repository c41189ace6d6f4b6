//! The operator's regular expression for new passwords. It can contain look-ahead, as the expressions for Keystone often do. A match of such an
//! expression can need many steps, so the number of steps is limited.

use enfilade_facts::vocabulary::Secret;
use fancy_regex::{Regex, RegexBuilder};
use std::sync::Arc;

/// The maximum number of times that a match goes back and tries another alternative. A password for which a match needs more steps is refused.
const STEPS_MAX: usize = 100_000;

/// A regular expression that the beginning of a password must match, as in Keystone. An expression for the whole password ends with `$`.
#[derive(Clone, Debug)]
pub struct PasswordRegex {
    text: String,
    compiled: Arc<Regex>,
}

impl PartialEq for PasswordRegex {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for PasswordRegex {}

impl PasswordRegex {
    /// Reads an expression.
    ///
    /// # Errors
    /// Why the text is not a regular expression.
    pub fn new(text: &str) -> Result<Self, String> {
        let compiled = RegexBuilder::new(text).backtrack_limit(STEPS_MAX).build();
        let compiled = compiled.map_err(|why| format!("`{text}` is not a regular expression: {why}"))?;
        Ok(PasswordRegex { text: text.to_owned(), compiled: Arc::new(compiled) })
    }

    /// The text of the expression.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the password matches.
    ///
    /// # Errors
    /// When the match needs too many steps.
    pub(crate) fn matches(&self, password: &Secret) -> Result<bool, String> {
        let password = String::from_utf8_lossy(password.reveal());
        let found = self.compiled.find(password.as_ref()).map_err(|_| {
            "the password cannot be checked with the configured regular expression in a limited number of steps: choose another password, or \
             simplify `[passwords] regex`"
                .to_owned()
        })?;
        Ok(found.is_some_and(|found| found.start() == 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(regex: &str, password: &str) -> Result<bool, String> {
        PasswordRegex::new(regex).unwrap().matches(&Secret::new(password.as_bytes()).unwrap())
    }

    #[test]
    fn an_expression_of_keystone_is_obeyed() {
        let regex = r"^(?=.*\d)(?=.*[a-zA-Z]).{7,}$";
        for (password, expected) in
            [("abcdef1", true), ("abcdefg", false), ("1234567", false), ("abcde1", false), ("ß12345x", true)]
        {
            assert_eq!(matches(regex, password), Ok(expected), "{password}");
        }
    }

    #[test]
    fn the_match_begins_with_the_password() {
        assert_eq!(
            [matches("a", "ab"), matches("b", "ab"), matches("", "ab")],
            [Ok(true), Ok(false), Ok(true)]
        );
    }

    #[test]
    fn an_expression_that_needs_too_many_steps_refuses_the_password() {
        let password = format!("{}bc", "a".repeat(60));
        assert!(matches(r"^(a|aa)+\1b$", &password).unwrap_err().contains("simplify"));
    }

    #[test]
    fn what_is_no_expression_is_said() {
        assert!(PasswordRegex::new("(").unwrap_err().starts_with("`(` is not a regular expression: "));
    }
}
