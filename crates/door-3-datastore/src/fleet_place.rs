//! Which datastores a machine serves.

/// Stands for the member that serves a datastore if it is not known. No member has this name.
pub const UNKNOWN: &str = "unknown";

/// The place of this machine in its fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FleetPlace {
    /// It is in no fleet, and serves every datastore.
    #[default]
    Alone,
    /// It is a member of a fleet.
    Member {
        /// Its name.
        name: String,
        /// The member that serves the datastores without a home; `None` if it is not known.
        others_at: Option<String>,
    },
}

impl FleetPlace {
    /// The member that serves a datastore with this home; `None` if this machine serves it.
    pub fn elsewhere<'a>(&'a self, home: Option<&'a str>) -> Option<&'a str> {
        let FleetPlace::Member { name, others_at } = self else { return None };
        let home = home.or(others_at.as_deref()).unwrap_or(UNKNOWN);
        (home != name).then_some(home)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_member_serves_a_datastore() {
        let member = |name: &str, others_at: Option<&str>| FleetPlace::Member {
            name: name.to_owned(),
            others_at: others_at.map(str::to_owned),
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
            assert_eq!(place.elsewhere(home), expected, "{place:?} {home:?}");
        }
    }
}
