//! The trash of a datastore: objects that users deleted and can restore. An object gets into the trash and out of it by a rename.
//!
//! The order of the steps: the directory of the item gets its record and its name and is synced (`items.rs`), and then the object is renamed into the
//! directory. So an object in the trash always has a record. If the server ends before the rename, the object keeps its place, and the item has no
//! object. No page shows an item without an object, and the item is removed when it expires.

use crate::items::{self, ItemId, Place};
use crate::node::Node;
use crate::refuse::Refusal;
use crate::relocate::{EntryRef, Relocated, relocate, right_to_make};
use crate::root::Root;
use crate::temporary::TRASH;
use crate::tree_budget::TreeBudget;
use crate::tree_walk::TreeWalk;
use enfilade_access::{AccessPermit, NodeKind};
use enfilade_facts::codec::{Reader, Writer};
use enfilade_facts::vocabulary::{AccessMask, StorePath, UserId};

/// The name of the object in the directory of an item.
const ITEM: &str = "item";
/// The first byte of a record: the number of the record's layout. Each layout has its own number.
const RECORD_LAYOUT: u8 = 1;

/// The content of the record of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrashRecord {
    /// The path of the object when it was deleted.
    pub path: StorePath,
    /// The authid of the user or token that deleted the object, as it was at the time of the deletion.
    pub who: String,
}

impl TrashRecord {
    fn encode(&self) -> Vec<u8> {
        let mut to = Writer::default();
        to.u8(RECORD_LAYOUT).text(self.path.as_str()).text(&self.who);
        to.into_bytes()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader::new(bytes);
        let layout = from.u8()?;
        let record = TrashRecord { path: StorePath::from_plain(&from.text()?).ok()?, who: from.text()? };
        (layout == RECORD_LAYOUT && from.is_empty() && !record.path.is_root()).then_some(record)
    }
}

/// An item in the trash.
#[derive(Debug)]
pub struct Trashed {
    /// The authid of the user or token that deleted the object, and the path at which the object was.
    pub record: TrashRecord,
    place: Place,
    node: Node,
}

impl Trashed {
    /// The object.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Removes the record of an item that was restored.
    ///
    /// # Refuses
    /// [`Refusal::Io`] when the record cannot be removed. Then [`Root::expire_trash`] removes the record later.
    pub fn forget(self) -> Result<(), Refusal> {
        self.place.forget()
    }

    /// Removes an item permanently. The item leaves the trash at once. The removal of its members ends when `keep_going` returns false. The remaining
    /// members are removed later, like an abandoned object. `keep_going` is called before each member.
    ///
    /// # Refuses
    /// [`Refusal::NotCovered`] if the permit does not grant DELETE on the item, [`Refusal::ChangedMeanwhile`] when the item was restored or removed
    /// meanwhile, [`Refusal::Io`] when it cannot be removed.
    pub fn purge(self, permit: &AccessPermit, keep_going: &dyn Fn() -> bool) -> Result<(), Refusal> {
        self.node.covered(permit, AccessMask::DELETE)?;
        self.place.directory.still_is(ITEM, &self.node)?;
        self.place.remove(keep_going)
    }
}

/// An object that has just got into the trash.
#[derive(Debug)]
#[must_use = "the caller judges the object once more, and then calls `complete` or `take_back`"]
pub struct ThrownAway {
    relocated: Relocated,
    place: Place,
}

impl ThrownAway {
    /// Keeps the object in the trash.
    pub fn complete(self) -> ItemId {
        self.relocated.complete();
        self.place.id
    }

    /// Gives the object its old name again.
    ///
    /// # Refuses
    /// As [`Relocated::take_back`]; after such a refusal, the object stays in the trash.
    pub fn take_back(self) -> Result<(), Refusal> {
        self.relocated.take_back()?;
        self.place.forget()
    }
}

/// Moves `target` into the trash of the user. `seconds` is the present time, in seconds since the epoch. `judge` is the caller's last check, right
/// before the rename.
///
/// # Refuses
/// [`Refusal::NotCovered`] if the permit does not grant DELETE, [`Refusal::ChangedMeanwhile`] when the name no longer leads to `target`,
/// [`Refusal::Io`] and [`Refusal::NoSpace`] when the trash cannot be written; and the refusals of `judge`. After a refusal the object still has its
/// old name. Exception: if a directory could not be synced after the rename, the object is in the trash.
pub fn throw_away<E: From<Refusal>>(
    root: &Root,
    (permit, target, from): (&AccessPermit, &Node, EntryRef<'_>),
    (user, seconds, record): (UserId, i64, &TrashRecord),
    judge: impl FnOnce() -> Result<(), E>,
) -> Result<ThrownAway, E> {
    target.covered(permit, AccessMask::DELETE)?;
    throw(root, (target, from), (user, seconds, record), judge)
}

/// Does the same as [`throw_away`], but does not check the permit.
pub(crate) fn throw<E: From<Refusal>>(
    root: &Root,
    (target, from): (&Node, EntryRef<'_>),
    (user, seconds, record): (UserId, i64, &TrashRecord),
    judge: impl FnOnce() -> Result<(), E>,
) -> Result<ThrownAway, E> {
    let place = Place::make((root, TRASH), (user, seconds), &record.encode(), |_| Ok(()))?;
    let to = EntryRef { directory: &place.directory, name: ITEM };
    match relocate(target, from, to, None, judge, || Ok(())) {
        Ok(relocated) => Ok(ThrownAway { relocated, place }),
        Err(why) => {
            // Even if the rename returned an error, it may have moved the object. In this case, the directory of the item contains the object, and
            // must not be removed.
            if let Ok(None) = place.directory.entry(ITEM) {
                let _ = place.forget();
            }
            Err(why)
        }
    }
}

/// Moves an item of the trash to a free name. `permit` must grant DELETE on the item. `making` must grant the right to make an entry of the item's
/// kind in the directory of the new name. `judge` is the caller's last check, right before the rename. Right after the rename `still_there` is called
/// ([`Relocated::still_there`]). When it is certain that the rename need not be undone, the caller calls [`Trashed::forget`].
///
/// # Refuses
/// [`Refusal::Exists`] when the name is taken, [`Refusal::ChangedMeanwhile`] when the item is no longer in the trash; and the refusals of `judge`.
pub fn restore<E: From<Refusal>>(
    (permit, trashed): (&AccessPermit, &Trashed),
    (making, to): (&AccessPermit, EntryRef<'_>),
    judge: impl FnOnce() -> Result<(), E>,
    still_there: impl FnOnce() -> Result<(), Refusal>,
) -> Result<Relocated, E> {
    trashed.node.covered(permit, AccessMask::DELETE)?;
    to.directory.covered(making, right_to_make(trashed.node.kind()))?;
    take_out(trashed, to, judge, still_there)
}

/// Does the same as [`restore`], but does not check the permits.
pub(crate) fn take_out<E: From<Refusal>>(
    trashed: &Trashed,
    to: EntryRef<'_>,
    judge: impl FnOnce() -> Result<(), E>,
    still_there: impl FnOnce() -> Result<(), Refusal>,
) -> Result<Relocated, E> {
    let from = EntryRef { directory: &trashed.place.directory, name: ITEM };
    let judge = || {
        // If a permanent removal of the item has begun, the directory of the item has another name.
        trashed.place.still_there()?;
        judge()
    };
    relocate(&trashed.node, from, to, None, judge, still_there)
}

impl Root {
    /// The ids of the items of a user, or of all users. At most `most` ids are returned, in the order from the newest to the oldest; the second
    /// returned value says whether there are more items. If there are more items, the returned ids are those that the file system listed first, and
    /// not the newest ids. Some items may have no object, because they were restored or removed meanwhile.
    ///
    /// # Refuses
    /// [`Refusal::Io`] when the trash cannot be read.
    pub fn trash_ids(&self, user: Option<UserId>, most: usize) -> Result<(Vec<ItemId>, bool), Refusal> {
        items::ids((self, TRASH), user, most)
    }

    /// An item of the trash.
    ///
    /// # Refuses
    /// [`Refusal::Absent`] when there is no such item, the item has no object, or its record is damaged; [`Refusal::Io`] when the trash cannot be
    /// read.
    pub fn trashed(&self, id: ItemId) -> Result<Trashed, Refusal> {
        let absent = || Refusal::Absent(id.to_string());
        let place = Place::find((self, TRASH), id)?.ok_or_else(absent)?;
        let record = place.record()?.and_then(|bytes| TrashRecord::decode(&bytes)).ok_or_else(absent)?;
        let node = place.directory.child(ITEM).map_err(|why| match why {
            Refusal::Absent(_) => absent(),
            why => why,
        })?;
        Ok(Trashed { record, place, node })
    }

    /// Removes the items that were deleted before `before` (seconds since the epoch), and the leftovers of interrupted removals. `now` is the present
    /// time in seconds. Stops when `keep_going` returns false; `keep_going` is called before each removal. Returns the number of removed items.
    ///
    /// # Refuses
    /// [`Refusal::Io`] when the trash cannot be read.
    pub fn expire_trash(
        &self,
        (before, now): (u64, i64),
        keep_going: &dyn Fn() -> bool,
    ) -> Result<u64, Refusal> {
        items::expire((self, TRASH), (before, now), keep_going)
    }

    /// The number of bytes of the files in the trash. The quota limits these bytes, too.
    pub(crate) fn trash_bytes(&self) -> Result<u64, Refusal> {
        let (ids, _) = items::ids((self, TRASH), None, usize::MAX)?;
        let (budget, mut bytes) = (TreeBudget::unlimited(), 0_u64);
        for id in ids {
            let Some(place) = Place::find((self, TRASH), id)? else { continue };
            match place.directory.child(ITEM) {
                Ok(node) => bytes = bytes.saturating_add(bytes_of(&node, &budget)?),
                Err(Refusal::Absent(_) | Refusal::Special(_)) => {}
                Err(why) => return Err(why),
            }
        }
        Ok(bytes)
    }
}

/// The bytes of a file, or of all files beneath a directory.
pub(crate) fn bytes_of(node: &Node, budget: &TreeBudget<'_>) -> Result<u64, Refusal> {
    if node.kind() == NodeKind::File {
        return Ok(node.meta().bytes);
    }
    let mut bytes = 0_u64;
    let mut walk = TreeWalk::begin(budget);
    walk.enter_as_operator(StorePath::root(), node.clone(), ())?;
    while let Some((directory, entry)) = walk.next_unopened()? {
        budget.count()?;
        match entry.kind {
            NodeKind::File => bytes = bytes.saturating_add(entry.bytes),
            NodeKind::Directory => walk.enter_unopened(&directory, &entry, ())?,
        }
    }
    Ok(bytes)
}
