//! Checks the names that clients of Keystone's API choose.

use crate::error::Error;
use enfilade_facts::limits::{NAME_CHARS_MAX, REGION_ID_BYTES_MAX};

/// Checks the name of a role.
pub(super) fn check_role_name(name: &str) -> Result<(), Error> {
    check_name_with_blanks("role", name)
}

/// Checks a name that may begin or end with blanks, because Keystone keeps these blanks: the name of a role, a service, an endpoint group, or a
/// resource that has limits.
pub(super) fn check_name_with_blanks(what: &str, name: &str) -> Result<(), Error> {
    let is_long = name.chars().nth(NAME_CHARS_MAX).is_some();
    if name.trim().is_empty() || is_long || name.chars().any(char::is_control) {
        return Err(Error::Invalid(format!(
            "the {what}'s name is empty, has more than {NAME_CHARS_MAX} characters, or contains control characters"
        )));
    }
    Ok(())
}

/// Checks the id of a region, which the creator of the region chooses. The id is part of keys of the store, so its bytes are limited, too.
pub(super) fn check_region_id(id: &str) -> Result<(), Error> {
    let is_long = id.chars().nth(NAME_CHARS_MAX).is_some() || REGION_ID_BYTES_MAX < id.len();
    if id.is_empty() || is_long || id.chars().any(char::is_control) {
        return Err(Error::Invalid(format!(
            "the region's id is empty, has more than {NAME_CHARS_MAX} characters or {REGION_ID_BYTES_MAX} bytes, or contains control characters"
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

#[cfg(test)]
mod tests {
    use super::*;
    use enfilade_facts::limits::KEY_BYTES_MAX;
    use enfilade_facts::tables::{ExtraKey, Key as _, PolicyTarget, RegionId, ResourceKind};
    use enfilade_facts::vocabulary::ServiceId;

    #[test]
    fn the_keys_of_each_region_fit_into_the_store() {
        for (id, is_good) in [
            ("RegionOne".to_owned(), true),
            (" ".to_owned(), true),
            ("r".repeat(255), true),
            ("r".repeat(256), false),
            ("名".repeat(163), true),
            ("名".repeat(164), false),
            (String::new(), false),
            ("a\nb".to_owned(), false),
        ] {
            assert_eq!(check_region_id(&id).is_ok(), is_good, "{id:?}");
            let region = RegionId(id);
            let keys = [
                region.bytes(),
                ExtraKey::of(ResourceKind::Region, &region).bytes(),
                PolicyTarget::InRegion(ServiceId::from_bytes([1; 16]), region).bytes(),
            ];
            assert!(!is_good || keys.iter().all(|key| key.len() <= KEY_BYTES_MAX));
        }
    }

    #[test]
    fn a_role_may_begin_and_end_with_blanks() {
        assert!(check_role_name(" a ").is_ok() && check_name("user", " a ", 255).is_err());
        for name in ["", " ", "a\tb", &"名".repeat(256)] {
            assert!(check_role_name(name).is_err() && check_name("user", name, 255).is_err(), "{name:?}");
        }
    }
}
