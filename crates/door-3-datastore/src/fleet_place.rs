//! Which datastores a machine serves.

use std::borrow::Cow;
use std::sync::{Arc, PoisonError, RwLock};

/// Stands for the member that serves a datastore if it is not known. No member has this name.
pub const UNKNOWN: &str = "unknown";

/// The member of a fleet whose edited files are followed; `None` if it is not known. All clones change together.
#[derive(Clone, Debug, Default)]
pub struct FilesMember(Arc<RwLock<Option<String>>>);

impl FilesMember {
    /// The member.
    pub fn get(&self) -> Option<String> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the member.
    pub fn set(&self, member: Option<&str>) {
        if !self.is(member) {
            *self.0.write().unwrap_or_else(PoisonError::into_inner) = member.map(str::to_owned);
        }
    }

    /// Whether it is this member.
    pub fn is(&self, member: Option<&str>) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).as_deref() == member
    }
}

/// The place of this machine in its fleet.
#[derive(Clone, Debug, Default)]
pub enum FleetPlace {
    /// It is in no fleet, and serves every datastore.
    #[default]
    Alone,
    /// It is a member of a fleet.
    Member {
        /// Its name.
        name: String,
        /// The member that serves the datastores without a home.
        others_at: FilesMember,
    },
}

impl FleetPlace {
    /// The member that serves a datastore with this home; `None` if this machine serves it.
    pub fn elsewhere<'h>(&self, home: Option<&'h str>) -> Option<Cow<'h, str>> {
        let FleetPlace::Member { name, others_at } = self else { return None };
        match home {
            Some(home) => (home != name).then_some(home.into()),
            None if others_at.is(Some(name)) => None,
            None => Some(others_at.get().map_or(UNKNOWN.into(), Cow::Owned)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_member_serves_a_datastore() {
        let member = |name: &str, others_at: Option<&str>| FleetPlace::Member {
            name: name.to_owned(),
            others_at: {
                let files = FilesMember::default();
                files.set(others_at);
                files
            },
        };
        for (place, home, expected) in [
            (FleetPlace::Alone, None, None),
            (FleetPlace::Alone, Some("b"), None),
            (member("a", Some("a")), None, None),
            (member("b", Some("a")), None, Some("a")),
            (member("a", Some("a")), Some("b"), Some("b")),
            (member("b", Some("a")), Some("b"), None),
            (member("b", None), Some("b"), None),
            (member("b", None), None, Some("unknown")),
        ] {
            assert_eq!(place.elsewhere(home).as_deref(), expected, "{place:?} {home:?}");
        }
        let files = FilesMember::default();
        let place = FleetPlace::Member { name: "a".to_owned(), others_at: files.clone() };
        for (member, expected) in
            [(Some("a"), None), (Some("b"), Some("b")), (None, Some(UNKNOWN)), (Some("a"), None)]
        {
            files.set(member);
            assert_eq!(place.elsewhere(None).as_deref(), expected, "{member:?}");
        }
    }
}
