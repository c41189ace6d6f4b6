//! The way to a shared folder: what a visitor sees of the directories above the objects on which it has a role, if no role makes these directories
//! themselves visible. A client goes from the datastore's root to the folder, so each of these directories is shown with the next name on the way alone.

use crate::refuse::Refusal;
use crate::walk::{Found, Stay};
use enfilade_content::Blocking;
use enfilade_facts::vocabulary::{AccessMask, StorePath};
use std::collections::BTreeMap;

/// The next name on a way.
pub struct WayEntry {
    /// The name.
    pub name: String,
    /// The object with this name, if the way ends there. A directory on the way to others is not opened.
    pub found: Option<Found>,
}

impl Stay {
    /// Whether the refused directory may be on the way to an object on which the visitor has a role. No file is asked, so the answer is the same for an
    /// absent directory and for a hidden one.
    pub fn may_lead_on(&mut self, directory: &StorePath, why: &Refusal) -> bool {
        looks_absent(why) && self.ends_below(directory).is_ok_and(|ends| !ends.is_empty())
    }

    /// The names in a refused directory that lead to objects which the visitor may see, by name.
    ///
    /// # Errors
    /// `why`, the refusal of the directory, if there are none. The refusal of a door for another reason than that an object looks absent.
    pub fn way(&mut self, directory: &StorePath, why: Refusal) -> Result<Vec<WayEntry>, Refusal> {
        if !looks_absent(&why) {
            return Err(why);
        }
        let depth = directory.names().count();
        let mut entries: BTreeMap<String, Option<Found>> = BTreeMap::new();
        for end in self.ends_below(directory)? {
            let mut rest = end.names().skip(depth);
            let Some(name) = rest.next().filter(|name| !entries.contains_key(*name)) else { continue };
            let is_end = rest.next().is_none();
            match self.find(&end, AccessMask::NONE, Blocking) {
                Ok(found) => drop(entries.insert(name.to_owned(), is_end.then_some(found))),
                Err(refused) if looks_absent(&refused) => {}
                Err(refused) => return Err(refused),
            }
        }
        match entries.is_empty() {
            true => Err(why),
            false => Ok(entries.into_iter().map(|(name, found)| WayEntry { name, found }).collect()),
        }
    }

    /// The paths below a directory on which the visitor has a role; empty if a role makes the directory itself visible.
    fn ends_below(&mut self, directory: &StorePath) -> Result<Vec<StorePath>, Refusal> {
        self.on_view(|stay, view| {
            let (house, principal) = (&stay.visit.house, stay.visit.principal());
            let (at, memo) = ((stay.datastore.name(), directory), &house.parts.access_memo);
            Ok(enfilade_access::ways(view, house.now(), principal, at, memo)?)
        })
    }
}

fn looks_absent(why: &Refusal) -> bool {
    why.is_absent() || matches!(why, Refusal::Access(why) if why.looks_absent())
}
