//! Names that Keystone's clients choose.

use crate::error::Error;
use enfilade_facts::vocabulary::is_unseen;

/// Checks a name: visible characters only, 1 to 64 bytes (the length of Keystone's columns).
pub(super) fn check_name(what: &str, name: &str) -> Result<(), Error> {
    if name.is_empty() || name.len() > 64 || name.trim() != name || name.chars().any(is_unseen) {
        return Err(Error::Invalid(format!(
            "the {what}'s name is empty, longer than 64 bytes, begins or ends with white space, or contains control or invisible characters (for example U+200B)"
        )));
    }
    Ok(())
}
