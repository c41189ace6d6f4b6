//! The way to a shared folder. A visitor can have a role on a folder although no role makes the directories above the folder visible. Clients go from
//! the root of the datastore through these directories to the folder. So these directories are shown nevertheless. A listing of such a directory
//! contains only the members that are objects on which the visitor has a role, or lead to such objects. The listing does not open the directory
//! itself.

use crate::entry::Entry;
use crate::refuse::Refusal;
use crate::walk::{Found, Stay};
use enfilade_access::Ways;
use enfilade_content::{Blocking, Patience};
use enfilade_facts::vocabulary::{AccessMask, StorePath};
use std::collections::BTreeMap;
use std::ops::Bound;

impl Stay {
    /// Checks that a directory is on the way to an object that the visitor may see. `why` is the refusal of the directory. With
    /// [`CachedOnly`](crate::CachedOnly) the call opens no object, and returns `WouldWait` instead. The answer depends neither on the directory
    /// itself nor on the roles of other users. So the answer is the same for an absent directory and for a hidden directory.
    ///
    /// # Errors
    /// The refusal `why`, if the directory is not on the way to an object that the visitor may see. Any other refusal of a door. If an object at the
    /// end of a way looks absent or cannot be opened, it is left out, and there is no error.
    pub fn leads_on<P: Patience>(
        &mut self,
        directory: &StorePath,
        why: Refusal,
        _: P,
    ) -> Result<P::Of<()>, Refusal> {
        if !looks_absent(&why) || !self.may_lead_on(directory)? {
            return Err(why);
        }
        P::wait(|| {
            let ways = self.ways(directory)?;
            self.visible_end(&ways.ends)?.map(drop).ok_or(why)
        })
    }

    fn may_lead_on(&mut self, directory: &StorePath) -> Result<bool, Refusal> {
        self.on_view(|stay, view| {
            let (house, principal) = (&stay.visit.house, stay.visit.principal());
            let store = (stay.datastore.name(), stay.datastore.access());
            let memo = &house.parts.access_memo;
            Ok(enfilade_access::may_lead_on(view, house.now(), principal, store, directory, memo)?)
        })
    }

    fn ways(&mut self, directory: &StorePath) -> Result<Ways, Refusal> {
        self.on_view(|stay, view| {
            let (house, principal) = (&stay.visit.house, stay.visit.principal());
            let store = (stay.datastore.name(), stay.datastore.access());
            let memo = &house.parts.access_memo;
            Ok(enfilade_access::ways(view, house.now(), principal, store, directory, memo)?)
        })
    }

    /// The first object of `ends` that the visitor may see. The function opens one object at a time.
    fn visible_end<'e>(
        &mut self,
        ends: impl IntoIterator<Item = &'e StorePath>,
    ) -> Result<Option<(&'e StorePath, Found)>, Refusal> {
        for end in ends {
            match self.find(end, AccessMask::NONE, Blocking) {
                Ok(found) => return Ok(Some((end, found))),
                Err(refused) if looks_absent(&refused) => {}
                // The object cannot be opened. For example, the file system does not let the server open the object. As in other listings, the object
                // is left out. But if the root of the datastore cannot be opened either, this function returns the error of the root.
                Err(Refusal::Content(_)) => drop(self.root.find(&StorePath::root(), Blocking)?),
                Err(refused) => return Err(refused),
            }
        }
        Ok(None)
    }

    /// The entry for the name `name` in `directory`, which leads to the objects `ends`; `None` if the visitor may see none of these objects.
    fn entry_on_way(
        &mut self,
        directory: &StorePath,
        name: &str,
        ends: &[&StorePath],
    ) -> Result<Option<Entry>, Refusal> {
        let visible = self.visible_end(ends.iter().copied())?;
        Ok(visible.map(|(end, found)| match end.names().count() == directory.names().count() + 1 {
            true => Entry::of(name, found),
            false => Entry::leading_on(name),
        }))
    }
}

/// The members of a directory that is shown because it is on a way, in the order of their names.
#[derive(Default)]
pub(crate) struct WayMembers {
    /// The last name that was examined.
    after: Option<String>,
    is_over: bool,
    is_cut: bool,
}

impl WayMembers {
    /// Examines the next names, at most `at_most`, and returns the visible entries. Returns `None` at the end.
    pub(crate) fn next_batch(
        &mut self,
        stay: &mut Stay,
        directory: &StorePath,
        at_most: usize,
    ) -> Result<Option<Vec<Entry>>, Refusal> {
        let ways = stay.ways(directory)?;
        let names = by_name(directory, &ways);
        let after = self.after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut rest = names.range::<str, _>((after, Bound::Unbounded)).peekable();
        if rest.peek().is_none() {
            self.is_over = true;
            return Ok(None);
        }
        let (mut entries, mut last) = (Vec::new(), None);
        for (name, ends) in rest.by_ref().take(at_most) {
            entries.extend(stay.entry_on_way(directory, name, ends)?);
            last = Some((*name).to_owned());
        }
        (self.is_over, self.is_cut) = (rest.peek().is_none(), ways.is_cut);
        self.after = last;
        Ok(Some(entries))
    }

    /// The entries that still lead to objects which the visitor may see.
    pub(crate) fn still_seen(
        stay: &mut Stay,
        directory: &StorePath,
        entries: Vec<Entry>,
    ) -> Result<Vec<Entry>, Refusal> {
        let ways = stay.ways(directory)?;
        let names = by_name(directory, &ways);
        let mut seen = Vec::with_capacity(entries.len());
        for entry in entries {
            if let Some(ends) = names.get(&*entry.name) {
                seen.extend(stay.entry_on_way(directory, &entry.name, ends)?);
            }
        }
        Ok(seen)
    }

    /// Whether the last batch contained the last name.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether the visitor has roles on more objects below the directory than are shown.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }
}

/// The names of the members of a directory that are objects on which the visitor has a role, or lead to such objects. Each name has the list of the
/// objects to which it leads.
fn by_name<'w>(directory: &StorePath, ways: &'w Ways) -> BTreeMap<&'w str, Vec<&'w StorePath>> {
    let depth = directory.names().count();
    let mut names: BTreeMap<&str, Vec<&StorePath>> = BTreeMap::new();
    for end in &ways.ends {
        if let Some(name) = end.names().nth(depth) {
            names.entry(name).or_default().push(end);
        }
    }
    names
}

fn looks_absent(why: &Refusal) -> bool {
    why.is_absent() || matches!(why, Refusal::Access(why) if why.looks_absent())
}
