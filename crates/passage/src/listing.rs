//! Lists directories. A listing contains only the entries that the visitor may see.

use crate::entry::Entry;
use crate::holding::ShownLock;
use crate::house::House;
use crate::refuse::Refusal;
use crate::shares::Share;
use crate::walk::{Found, Stay};
use crate::ways::WayMembers;
use enfilade_access::{Ask, Sight, StoredAcl, Subject, Version, Wanted};
use enfilade_content::{Blocking, Cached, CachedOnly, Entry as Looked, LookedAt, Property, Rank};
use enfilade_facts::vocabulary::{AccessMask, StorePath};
use enfilade_facts::{Clocks, Door, MemoKey};
use std::sync::Arc;

impl Stay {
    /// Begins to list a directory. The listing contains only the entries that the visitor may see.
    ///
    /// # Errors
    /// The refusal of door 4 or 5.
    pub fn list(mut self, path: StorePath) -> Result<Listing, Refusal> {
        let found = self.find(&path, AccessMask::LIST, Blocking)?;
        self.list_found(path, found)
    }

    /// Like [`Stay::list`], for a directory that the caller has just found.
    ///
    /// # Errors
    /// The refusal of door 4 or 5.
    pub fn list_found(mut self, path: StorePath, found: Found) -> Result<Listing, Refusal> {
        let Found { node, subject, mut permit } = found;
        if !permit.granted().covers(AccessMask::LIST) {
            // The visitor may see the directory, but does not have the right to list it. So this call of door 4 returns the refusal.
            permit =
                self.may(&Ask { path: &path, target: &subject, wanted: Wanted::On(AccessMask::LIST) })?;
        }
        let members = Members::all(enfilade_content::list(&permit, &node)?);
        Ok(Listing { stay: self, path, members })
    }

    /// Begins to list a directory that is on the way to shared objects ([`Stay::leads_on`]). The listing contains only the names that lead to objects
    /// which the visitor may see.
    pub fn list_ways(self, path: StorePath) -> Listing {
        Listing { stay: self, path, members: Members::OnWays(WayMembers::default()) }
    }

    fn see<'e>(
        &mut self,
        directory: &StorePath,
        children: impl Iterator<Item = (&'e str, &'e Subject)>,
    ) -> Result<Vec<Sight>, Refusal> {
        let children: Vec<_> = children.collect();
        self.on_view(|stay, view| {
            let memo = &stay.visit.house.parts.access_memo;
            let (now, identity) = (stay.visit.house.now(), &stay.visit.identity);
            let judge =
                || enfilade_access::see(view, now, identity, &stay.datastore, directory, &children, memo);
            Ok(stay.visit.timer.time(Door::Access, judge)?)
        })
    }
}

/// A directory during its listing.
pub struct Listing {
    stay: Stay,
    path: StorePath,
    members: Members,
}

/// The members that a listing shows.
enum Members {
    /// All visible entries of the directory.
    All(Box<AllMembers>),
    /// Only names on the way to objects on which the visitor has a role, because no role makes the directory visible.
    OnWays(WayMembers),
}

impl Members {
    fn all(listing: enfilade_content::Listing) -> Self {
        Members::All(Box::new(AllMembers { listing, examined: Examined::Sample }))
    }
}

/// The entries of a directory, as door 5 returns them.
struct AllMembers {
    listing: enfilade_content::Listing,
    examined: Examined,
}

/// How the entries of the next batch are examined. Reading the state of an entry takes little time. The server remembers which ACL belongs to a state
/// ([`enfilade_access::see`]). If no ACL is remembered for the state of an entry, the ACL has to be read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Examined {
    /// Reads the states of a few entries. The result shows whether the ACLs of the entries are remembered.
    Sample,
    /// Reads the states of all entries, because most ACLs of the last batch were remembered.
    ByState,
    /// Reads the ACLs of all entries without reading the states first, because most ACLs of the last batch were not remembered.
    ByAcl,
}

impl Examined {
    /// How the next batch is examined. The last batch had `entries` entries, and the ACLs of `unread` of these entries had to be read.
    fn after(self, unread: usize, entries: usize) -> Self {
        match self {
            // Perhaps the memo has the ACLs of the next entries. So the next batch is only a sample.
            Examined::ByAcl => Examined::Sample,
            Examined::Sample | Examined::ByState if unread * 2 > entries => Examined::ByAcl,
            Examined::Sample | Examined::ByState => Examined::ByState,
        }
    }
}

/// The number of entries in a sample.
const SAMPLE: usize = 64;

/// Entries, and the verdict of door 4 on each entry.
struct Batch {
    entries: Vec<Looked>,
    sights: Vec<Sight>,
}

impl Batch {
    fn unread(&self) -> usize {
        self.sights.iter().filter(|sight| **sight == Sight::Unread).count()
    }

    fn keep(&mut self, keep_if: impl Fn(Sight) -> bool) {
        let mut each = self.sights.iter();
        self.entries.retain(|_| each.next().is_some_and(|sight| keep_if(*sight)));
        self.sights.retain(|sight| keep_if(*sight));
    }

    fn shown(self) -> Vec<Entry> {
        let shown =
            |Looked { name, meta, subject }| Some(Entry { name, meta: meta?, subject: Some(subject) });
        self.entries.into_iter().filter_map(shown).collect()
    }
}

/// Removes the state of each entry that has a time stamp as its state. After the clock was set, two different changes can have the same time stamp.
fn distrust_stamps(entries: &mut [Looked]) {
    let is_stamped = |entry: &&mut Looked| matches!(entry.subject.version, Some(Version::Stamped { .. }));
    entries.iter_mut().filter(is_stamped).for_each(|entry| entry.subject.version = None);
}

fn looked_at(house: &House) -> LookedAt<'_> {
    let (unix_seconds, clock) = (house.now().unix_seconds, house.clock_sets());
    LookedAt { unix_seconds, clock, watch: house.parts.watch.as_ref(), names: Some(&house.names) }
}

/// The name and the subject of an entry. Door 4 judges the entry by its name and its subject.
fn judged(entry: &Looked) -> (&str, &Subject) {
    (&entry.name, &entry.subject)
}

impl Listing {
    /// The visitor's share of the threads.
    pub fn share(&self) -> Share {
        self.stay.share()
    }

    /// Continues with another directory of the same datastore, if the visitor may list it. Returns whether the listing continues. Listings of whole
    /// trees use this function and not the tree walk (`enfilade_content::TreeWalk`). The tree walk opens every member, and keeps every directory
    /// above it open. A listing opens an entry only if the ACL of the entry cannot be read in another way, and only one directory is open while the
    /// client reads.
    ///
    /// # Errors
    /// When door 2 or 3 no longer admits the visitor.
    pub fn go_on_in(&mut self, path: StorePath) -> Result<bool, Refusal> {
        let opened = self
            .stay
            .find(&path, AccessMask::LIST, Blocking)
            .and_then(|found| Ok(Members::all(enfilade_content::list(&found.permit, &found.node)?)));
        match opened {
            Ok(members) => {
                (self.path, self.members) = (path, members);
                Ok(true)
            }
            Err(Refusal::Content(_) | Refusal::Access(_)) => Ok(false),
            Err(why) => Err(why),
        }
    }

    /// Asks door 4 again about entries that were shown earlier. Returns the entries that the visitor may still see.
    ///
    /// # Errors
    /// When door 2 or 3 no longer admits the visitor, or the facts cannot be read.
    pub fn still_seen(&mut self, mut entries: Vec<Entry>) -> Result<Vec<Entry>, Refusal> {
        if let Members::OnWays(_) = self.members {
            return WayMembers::still_seen(&mut self.stay, &self.path, entries);
        }
        entries.retain(|entry| entry.subject.is_some());
        let judged = entries.iter().filter_map(|entry| Some((entry.name.as_str(), entry.subject.as_ref()?)));
        let mut sights = self.stay.see(&self.path, judged)?.into_iter();
        entries.retain(|_| sights.next() == Some(Sight::Seen));
        Ok(entries)
    }

    /// Whether the last answers of the doors are still valid: the facts did not change, and the permits did not expire. This check takes a few
    /// nanoseconds.
    pub fn is_unchanged(&self) -> bool {
        self.stay.unchanged()
    }

    /// The path of an entry of this directory.
    pub fn path_of(&self, entry: &Entry) -> Option<StorePath> {
        self.path.join(&entry.name).ok()
    }

    /// The time.
    pub fn now(&self) -> Clocks {
        self.stay.now()
    }

    /// For each entry: whether the server remembers that the entry, in its present state, has no dead properties.
    pub fn are_bare(&self, entries: &[Entry]) -> Vec<bool> {
        let bare = &self.stay.visit.house.bare;
        // An entry without a state gets the default key. Nothing is stored under the default key.
        let key = |entry: &Entry| entry.state(bare.key("properties of")).unwrap_or_default();
        let keys: Vec<MemoKey> = entries.iter().map(key).collect();
        bare.get_all(&keys).into_iter().map(|known| known == Some(true)).collect()
    }

    /// The dead properties of an entry. The result is empty if the entry was removed, if another object replaced the entry, or if the visitor may not
    /// read its properties.
    ///
    /// # Errors
    /// When the properties cannot be read, or door 2 or 3 no longer admits the visitor.
    pub fn properties(&mut self, entry: &Entry) -> Result<Vec<Property>, Refusal> {
        let house = Arc::clone(&self.stay.visit.house);
        let state = entry.state(house.bare.key("properties of"));
        let Some(found) = self.find(entry, AccessMask::READ_NAMED_ATTRIBUTES)? else { return Ok(Vec::new()) };
        // The state was read before the properties. If the properties change between the two reads, the entry has another state afterwards.
        let properties = self.stay.properties(&found)?;
        if let (true, Some(state)) = (properties.is_empty(), state) {
            house.bare.put(state, true);
        }
        Ok(properties)
    }

    /// Opens an entry, if the visitor has the rights `wanted` on it; `None` if door 4 or 5 refuses, or another object has replaced the entry.
    ///
    /// # Errors
    /// When door 2 or 3 no longer admits the visitor.
    pub fn find(&mut self, entry: &Entry, wanted: AccessMask) -> Result<Option<Found>, Refusal> {
        let (Some(_), Ok(path)) = (&entry.subject, self.path.join(&entry.name)) else { return Ok(None) };
        match self.stay.find(&path, wanted, Blocking) {
            Ok(found) => Ok(Some(found).filter(|found| found.node.object() == entry.meta.object)),
            Err(Refusal::Content(_) | Refusal::Access(_)) => Ok(None),
            Err(why) => Err(why),
        }
    }

    /// The locks that cover an entry.
    ///
    /// # Errors
    /// When the locks cannot be read.
    pub fn shown_locks(&mut self, entry: &Entry) -> Result<Vec<ShownLock>, Refusal> {
        let (Some(_), Ok(path)) = (&entry.subject, self.path.join(&entry.name)) else {
            return Ok(Vec::new());
        };
        self.stay.shown_locks(&path)
    }

    /// Whether a lock possibly covers the directory or something in it.
    ///
    /// # Errors
    /// When locks cannot be read.
    pub fn is_locked_anywhere(&self) -> Result<bool, Refusal> {
        self.stay.is_locked_anywhere(&self.path)
    }

    /// Whether there are no further entries.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn is_over(&mut self) -> Result<bool, Refusal> {
        match &mut self.members {
            Members::All(members) => Ok(members.listing.is_over(looked_at(&self.stay.visit.house))?),
            Members::OnWays(members) => Ok(members.is_over()),
        }
    }

    /// Whether the listing leaves out visible names, because the visitor has roles on too many objects (`enfilade_access::ways`).
    pub fn is_cut(&self) -> bool {
        matches!(&self.members, Members::OnWays(members) if members.is_cut())
    }

    /// Reads at most `at_most` further entries, and returns the visible entries. Returns `None` at the end of the directory, and an empty list if no
    /// entry of the batch is visible. Door 4 judges many entries on one view, and not each entry on its own view.
    ///
    /// # Errors
    /// When the directory cannot be read, or the visitor may no longer list it.
    pub fn next_batch(&mut self, at_most: usize) -> Result<Option<Vec<Entry>>, Refusal> {
        let Listing { stay, path, members } = self;
        match members {
            Members::All(members) => members.next_batch(stay, path, at_most),
            Members::OnWays(members) => members.next_batch(stay, path, at_most),
        }
    }

    /// The first `at_most` visible entries after the place `after`, in the order of [`Rank`]. Returns the place of the last returned entry if further
    /// visible entries follow. For entries before `after`, and for entries after the last returned entry, usually only the names are read. This
    /// function may be called only before the first batch is read.
    ///
    /// # Errors
    /// As [`Listing::next_batch`].
    pub fn in_order(
        &mut self,
        at_most: usize,
        after: Option<Rank>,
    ) -> Result<(Vec<Entry>, Option<Rank>), Refusal> {
        let Listing { stay, path, members } = self;
        // The function asks for one entry more than `at_most`. If this entry exists, further entries follow.
        let mut entries = match members {
            Members::All(members) => members.in_order(stay, path, at_most + 1, after)?,
            Members::OnWays(members) => {
                let mut entries = Vec::new();
                while let Some(batch) = members.next_batch(stay, path, at_most)? {
                    entries.extend(batch);
                }
                entries.retain(|entry| after.as_ref().is_none_or(|after| *after < entry.rank()));
                entries.sort_by_cached_key(Entry::rank);
                entries
            }
        };
        let has_more = entries.len() > at_most;
        entries.truncate(at_most);
        let last = entries.last().filter(|_| has_more).map(Entry::rank);
        Ok((entries, last))
    }

    /// Returns all visible entries, if the directory has at most `at_most` entries and can be listed without waiting for the disk. Otherwise returns
    /// `WouldWait`, and the caller uses [`Listing::next_batch`]. This function may be called only before the first batch is read.
    ///
    /// # Errors
    /// As [`Listing::next_batch`].
    pub fn all_cached(&mut self, at_most: usize) -> Result<Cached<Vec<Entry>>, Refusal> {
        let Listing { stay, path, members } = self;
        match members {
            Members::All(members) => members.all_cached(stay, path, at_most),
            Members::OnWays(_) => Ok(Cached::WouldWait),
        }
    }

    /// The revision of the facts on which the doors judged last.
    pub fn revision(&self) -> u64 {
        self.stay.revision().0
    }
}

impl AllMembers {
    /// Implements [`Listing::next_batch`].
    fn next_batch(
        &mut self,
        stay: &mut Stay,
        path: &StorePath,
        at_most: usize,
    ) -> Result<Option<Vec<Entry>>, Refusal> {
        let house = Arc::clone(&stay.visit.house);
        // The time is read before the names. So a change that happens after the names were read is noticed.
        let at = looked_at(&house);
        let examined = self.examined;
        let mut entries = match examined {
            Examined::Sample => self.listing.next_batch(at_most.min(SAMPLE), at)?,
            Examined::ByState => self.listing.next_batch(at_most, at)?,
            Examined::ByAcl => self.listing.next_looked(at_most, at)?,
        };
        if entries.is_empty() {
            return Ok(None);
        }
        if house.clock_sets() != at.clock {
            distrust_stamps(&mut entries);
        }
        if examined == Examined::ByAcl {
            self.listing.read_by_name(entries.iter_mut(), at);
        }
        let sights = stay.see(path, entries.iter().map(judged))?;
        let mut batch = Batch { entries, sights };
        let unread = batch.unread();
        self.examined = examined.after(unread, batch.entries.len());
        if examined != Examined::ByAcl && unread > 0 {
            self.read_by_name((stay, path), &mut batch, at)?;
        }
        batch.keep(|sight| sight != Sight::Hidden);
        self.describe(&mut batch);
        if batch.unread() > 0 {
            self.open_unread((stay, path), &mut batch, at)?;
        }
        Ok(Some(batch.shown()))
    }

    /// The first `wanted` visible entries after a place, in their order. Names are examined in portions that grow, because some entries are possibly
    /// hidden.
    fn in_order(
        &mut self,
        stay: &mut Stay,
        path: &StorePath,
        wanted: usize,
        mut after: Option<Rank>,
    ) -> Result<Vec<Entry>, Refusal> {
        const LOOKED_AT_MAX: usize = 8_192;
        let house = Arc::clone(&stay.visit.house);
        let (mut entries, mut looked_at_once) = (Vec::new(), wanted);
        loop {
            let last = self.listing.in_order(looked_at_once, after.as_ref(), looked_at(&house))?;
            while let Some(batch) = self.next_batch(stay, path, looked_at_once)? {
                entries.extend(batch);
            }
            if entries.len() >= wanted || last.is_none() {
                return Ok(entries);
            }
            (after, looked_at_once) = (last, (looked_at_once * 2).min(LOOKED_AT_MAX));
        }
    }

    /// Implements [`Listing::all_cached`].
    fn all_cached(
        &mut self,
        stay: &mut Stay,
        path: &StorePath,
        at_most: usize,
    ) -> Result<Cached<Vec<Entry>>, Refusal> {
        let house = Arc::clone(&stay.visit.house);
        let at = looked_at(&house);
        let Cached::Ready(entries) = self.listing.all_cached(at_most, at) else {
            return Ok(Cached::WouldWait);
        };
        if house.clock_sets() != at.clock {
            return Ok(Cached::WouldWait);
        }
        let sights = stay.see(path, entries.iter().map(judged))?;
        if sights.contains(&Sight::Unread) {
            return Ok(Cached::WouldWait);
        }
        let seen = entries.into_iter().zip(sights).filter(|(_, sight)| *sight == Sight::Seen);
        let described = seen.map(|(mut entry, _)| {
            let is_there = self.listing.describe(&mut entry, CachedOnly);
            let Looked { name, meta, subject } = entry;
            meta.filter(|_| is_there).map(|meta| Entry { name, meta, subject: Some(subject) })
        });
        Ok(described.collect::<Option<_>>().into())
    }

    /// Reads the ACLs of unread entries by name, where this is possible. After that, door 4 judges the entries for which an ACL was read.
    fn read_by_name(
        &self,
        (stay, path): (&mut Stay, &StorePath),
        batch: &mut Batch,
        at: LookedAt<'_>,
    ) -> Result<(), Refusal> {
        let Batch { entries, sights } = batch;
        let unread = entries.iter_mut().zip(sights.iter()).filter(|(_, sight)| **sight == Sight::Unread);
        self.listing.read_by_name(unread.map(|(entry, _)| entry), at);
        let is_read = |(entry, sight): &(&Looked, &mut Sight)| {
            **sight == Sight::Unread && entry.subject.acl != StoredAcl::Unread
        };
        let read: Vec<_> = entries.iter().zip(sights).filter(is_read).collect();
        if read.is_empty() {
            return Ok(());
        }
        let judged = stay.see(path, read.iter().map(|(entry, _)| judged(entry)))?;
        read.into_iter().zip(judged).for_each(|((_, sight), judged)| *sight = judged);
        Ok(())
    }

    /// Asks the kernel for the metadata of the visible entries. If another object has replaced an entry, the entry becomes unread again.
    fn describe(&self, batch: &mut Batch) {
        for (entry, sight) in batch.entries.iter_mut().zip(&mut batch.sights) {
            if *sight == Sight::Seen && !self.listing.describe(entry, Blocking) {
                *sight = Sight::Unread;
            }
        }
    }

    /// Opens and judges the entries that are still unread, and keeps the visible entries in the order of the directory.
    fn open_unread(
        &mut self,
        (stay, path): (&mut Stay, &StorePath),
        batch: &mut Batch,
        at: LookedAt<'_>,
    ) -> Result<(), Refusal> {
        let mut opened = Vec::with_capacity(batch.entries.len());
        for (entry, sight) in batch.entries.iter_mut().zip(&mut batch.sights) {
            if *sight != Sight::Unread {
                continue;
            }
            match self.listing.look(std::mem::take(&mut entry.name), at)? {
                Some(looked) => opened.push(looked),
                // The entry was removed.
                None => *sight = Sight::Hidden,
            }
        }
        batch.keep(|sight| sight != Sight::Hidden);
        let judged = stay.see(path, opened.iter().map(judged))?;
        let Batch { entries, sights } = &mut *batch;
        let places = entries.iter_mut().zip(sights).filter(|(_, sight)| **sight == Sight::Unread);
        for ((entry, sight), (looked, judged)) in places.zip(opened.into_iter().zip(judged)) {
            (*entry, *sight) = (looked, judged);
        }
        batch.keep(|sight| sight == Sight::Seen);
        Ok(())
    }
}
