//! Decides which member of a fleet serves a datastore.

use enfilade_facts::tables::HomeMembers;
use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// This name takes the place of a member's name if it is not known which member serves a datastore. No member has this name.
pub const UNKNOWN: &str = "unknown";

/// The files member of a fleet, if this machine knows which member is the files member. The fleet follows the edited files of the files member. The
/// files member also serves the datastores without a home. A change of one clone of this value is visible in all clones.
#[derive(Clone, Debug)]
pub struct FilesMember(Arc<Known>);

#[derive(Debug)]
struct Known {
    /// The name of this machine.
    own: String,
    /// Whether this machine is the files member. On the files member, requests read only this field, without a lock.
    is_own: AtomicBool,
    member: RwLock<Option<String>>,
}

impl FilesMember {
    /// The value for the machine with the name `own`, before the machine knows which member is the files member.
    pub fn known_to(own: &str) -> Self {
        FilesMember(Arc::new(Known {
            own: own.to_owned(),
            is_own: AtomicBool::new(false),
            member: RwLock::default(),
        }))
    }

    /// The files member; `None` if it is not known.
    pub fn get(&self) -> Option<String> {
        self.0.member.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the files member; `None` if it is no longer known.
    pub fn set(&self, member: Option<&str>) {
        *self.0.member.write().unwrap_or_else(PoisonError::into_inner) = member.map(str::to_owned);
        self.0.is_own.store(member == Some(&self.0.own), Ordering::Release);
    }

    /// Whether this machine is the files member.
    pub fn is_own(&self) -> bool {
        self.0.is_own.load(Ordering::Acquire)
    }

    /// The files member, if another machine is the files member; [`UNKNOWN`] if the files member is not known. `None` if this machine is the files
    /// member.
    fn other(&self) -> Option<String> {
        match self.is_own() {
            true => None,
            false => {
                Some(self.get().unwrap_or_else(|| UNKNOWN.to_owned())).filter(|member| *member != self.0.own)
            }
        }
    }
}

/// The place of this machine in its fleet.
#[derive(Clone, Debug, Default)]
pub enum FleetPlace {
    /// The machine is in no fleet, and serves every datastore.
    #[default]
    Alone,
    /// The machine is a member of a fleet.
    Member {
        /// The name of this member.
        name: String,
        /// The files member, which serves the datastores without a home.
        others_at: FilesMember,
    },
}

impl FleetPlace {
    /// The member that serves a datastore; `None` if this machine serves the datastore. `home` is the home of the datastore, if it has one.
    pub fn elsewhere<'h>(&self, home: Option<&'h HomeMembers>) -> Option<Cow<'h, str>> {
        let FleetPlace::Member { name, others_at } = self else { return None };
        match home.map(HomeMembers::serves) {
            Some(home) => (home != name).then_some(home.into()),
            None => others_at.other().map(Cow::Owned),
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
                let files = FilesMember::known_to(name);
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
            (member("b", Some("a")), Some("c,b"), Some("c")),
            (member("c", Some("a")), Some("c,b"), None),
            (member("b", None), None, Some("unknown")),
        ] {
            let home = home.map(|members| HomeMembers::new(&[members]));
            assert_eq!(place.elsewhere(home.as_ref()).as_deref(), expected, "{place:?} {home:?}");
        }
        let files = FilesMember::known_to("a");
        let place = FleetPlace::Member { name: "a".to_owned(), others_at: files.clone() };
        for (member, expected) in
            [(Some("a"), None), (Some("b"), Some("b")), (None, Some(UNKNOWN)), (Some("a"), None)]
        {
            files.set(member);
            assert_eq!(place.elsewhere(None).as_deref(), expected, "{member:?}");
        }
    }
}
