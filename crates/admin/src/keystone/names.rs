//! Names that Keystone's clients choose.

use crate::error::Error;
use enfilade_facts::limits::NAME_CHARS_MAX;

/// Checks the name of a role. Keystone keeps the blanks at its ends.
pub(super) fn check_role_name(name: &str) -> Result<(), Error> {
    let is_long = name.chars().nth(NAME_CHARS_MAX).is_some();
    if name.trim().is_empty() || is_long || name.chars().any(char::is_control) {
        return Err(Error::Invalid(format!(
            "the role's name is empty, has more than {NAME_CHARS_MAX} characters, or contains control characters"
        )));
    }
    Ok(())
}

/// Checks a name: 1 to `max` characters (the length of Keystone's columns), without control characters and without blanks at the ends.
pub(super) fn check_name(what: &str, name: &str, max: usize) -> Result<(), Error> {
    let is_long = name.chars().nth(max).is_some();
    if name.is_empty() || is_long || name.trim() != name || name.chars().any(char::is_control) {
        return Err(Error::Invalid(format!(
            "the {what}'s name is empty, has more than {max} characters, begins or ends with a blank, or contains control characters"
        )));
    }
    Ok(())
}
