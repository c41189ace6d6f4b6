//! The trash: files and folders that were deleted in the console can be restored. A user sees only the items that the user deleted; an administrator
//! of the datastore sees the items of all users. Door 4 judges each item at the path from which it was deleted, with the present ACL of the item. If
//! the user could not see the item at this path, the item looks absent. To restore an item, or to delete it for good, the user needs the right to
//! delete it at this path. So a user who lost a role or a right does not get it back through the trash.

use super::{Discarded, FailedMember, Placing, TrashItem, TrashPage, Tree, WhoseTrash, is_hidden};
use crate::reach::Inside as _;
use crate::refuse::Refusal;
use crate::walk::Stay;
use enfilade_access::{AccessPermit, AdminAsk, Ask, Lending, NodeKind, Wanted};
use enfilade_content::{
    EntryRef, ItemId, Node, Refusal as Content, Relocated, ThrownAway, Touches, TrashRecord, Trashed,
    TreeBudget,
};
use enfilade_facts::vocabulary::{AccessMask, Privileges, RolePath, StorePath};

/// The maximum number of items that are examined for one page. The page can show fewer items, because some items were restored meanwhile, or were
/// deleted from a path that the user may no longer see.
const EXAMINED_MAX: usize = 1_000;

impl Stay {
    /// Moves a file or directory to the trash, if the datastore has one. Otherwise deletes it, like [`Stay::delete`].
    ///
    /// # Errors
    /// The refusal of door 4 or 5. The trash takes the whole object or nothing: the user must have the right to delete all members, as for a MOVE.
    pub fn discard(&mut self, path: &StorePath, keep_going: &dyn Fn() -> bool) -> Result<Discarded, Refusal> {
        match self.visit.house.has_trash(self.datastore.name()) {
            true => self.throw_away(path, keep_going).map(Discarded::Trashed),
            false => self.delete(path, &[], keep_going).map(Discarded::Deleted),
        }
    }

    fn throw_away(&mut self, path: &StorePath, keep_going: &dyn Fn() -> bool) -> Result<ItemId, Refusal> {
        let budget = self.tree_budget(keep_going);
        let placing = Placing { overwrite: false, is_deep: true, tokens: &[], keep_going };
        let (directory, name, target, permit, _) = self.source_to_move(path, placing, &budget)?;
        let (user, seconds) = (self.principal().user, self.now().unix_seconds);
        let record = TrashRecord { path: path.clone(), who: self.principal().authid.to_string() };
        let (root, mut own) = (std::sync::Arc::clone(&self.root), Vec::new());
        let from = EntryRef { directory: &directory, name };
        let thrown =
            enfilade_content::throw_away(&root, (&permit, &target, from), (user, seconds, &record), || {
                self.settle(path, &directory, Touches::Tree, &[])?;
                own = self.locks_at_or_beneath(path)?;
                Ok::<_, Refusal>(())
            })?;
        // Another client may have added members after door 4 judged the tree.
        let id = match self.judge_again(path, &target, &budget) {
            Ok(_) => thrown.complete(),
            Err(why) => return Err(undo(thrown, path).unwrap_or(why)),
        };
        self.end_locks(path, &own);
        Ok(id)
    }

    /// Checks that the user administers the datastore.
    fn administers(&mut self) -> Result<(), Refusal> {
        let path: RolePath = RolePath::of(self.datastore.name(), &StorePath::root());
        let needed = Privileges::DATASTORE_MODIFY;
        let ask = AdminAsk { path: &path, needed, lending: Lending::Manages, own: None };
        self.visit.administer(&ask).map(drop)
    }

    /// An item of the trash that the user may see.
    fn trashed(&mut self, id: ItemId) -> Result<Trashed, Refusal> {
        let is_own = id.user == self.principal().user;
        let found = match is_own || self.administers().is_ok() {
            true => self.root.trashed(id),
            false => Err(Content::Absent(id.to_string())),
        };
        match found {
            Ok(found) => {
                let (path, target) = (&found.record.path, &found.node().subject());
                self.may(&Ask { path, target, wanted: Wanted::On(AccessMask::NONE) })?;
                Ok(found)
            }
            Err(why) => {
                self.refuse_alike(&StorePath::root());
                Err(why.into())
            }
        }
    }

    /// An item of the trash that the user may delete at the path where it was, with all its members. Also returns the size of the tree.
    fn trashed_to_take(
        &mut self,
        id: ItemId,
        budget: &TreeBudget<'_>,
    ) -> Result<(Trashed, AccessPermit, Tree), Refusal> {
        let found = self.trashed(id)?;
        let (path, node) = (found.record.path.clone(), found.node().clone());
        let directory = self.nearest_directory(&path)?;
        let permit = self.may_delete(&path, &directory, &node)?;
        let tree = match node.kind() {
            NodeKind::Directory => self.may_go(&path, &node, None, budget)?,
            NodeKind::File => Tree { bytes: node.content_bytes(), ..Tree::default() },
        };
        Ok((found, permit, tree))
    }

    /// The directory of a path. If that directory was deleted, the nearest existing directory above it. The ACL of the existing directory then
    /// decides instead of the ACL of the deleted directory.
    fn nearest_directory(&mut self, path: &StorePath) -> Result<Node, Refusal> {
        let mut path = path.clone();
        loop {
            match self.reach_parent(&path) {
                Ok((directory, _)) => return Ok(directory),
                Err(gone @ Refusal::Content(Content::ParentAbsent(_))) => {
                    path = path.split().map(|(above, _)| above).ok_or(gone)?;
                }
                Err(why) => return Err(why),
            }
        }
    }

    /// The items of the trash that the user may see, after the item `after`, at most `most`.
    ///
    /// # Errors
    /// The refusal of door 4 if the items of all users are requested, and the visitor may not administer the datastore. An error if the trash cannot
    /// be read.
    pub fn trash(
        &mut self,
        whose: WhoseTrash,
        after: Option<ItemId>,
        most: usize,
    ) -> Result<TrashPage, Refusal> {
        let user = match whose {
            WhoseTrash::Own => Some(self.principal().user),
            WhoseTrash::Everybody => {
                self.administers()?;
                None
            }
        };
        let entries = usize::try_from(self.visit.limits().listing_entries).unwrap_or(usize::MAX);
        let (ids, is_cut) = self.root.trash_ids(user, entries)?;
        let mut page = TrashPage { is_cut, ..TrashPage::default() };
        let rest = ids.into_iter().filter(|id| after.is_none_or(|after| *id < after));
        let mut rest = rest.enumerate().peekable();
        while let Some((examined, id)) = rest.next() {
            if let Ok(found) = self.trashed(id) {
                let (meta, TrashRecord { path, who }) = (found.node().meta(), found.record.clone());
                page.items.push(TrashItem { id, path, who, kind: meta.kind, bytes: meta.bytes });
            }
            if rest.peek().is_some() && (page.items.len() >= most || examined + 1 >= EXAMINED_MAX) {
                page.next = Some(id);
                break;
            }
        }
        Ok(page)
    }

    /// Moves an item out of the trash, to the path `to`. If `to` is `None`, the item gets the path from which it was deleted. Nothing is replaced.
    /// Returns the path. In a datastore where moved objects inherit, also returns the members that did not inherit an ACL.
    ///
    /// # Errors
    /// [`Content::Exists`] if something has the path, [`Content::ParentAbsent`] if its folder does not exist; the refusal of door 4 if the user may
    /// not delete the item at the path where it was, or may not create the object at the new path.
    pub fn restore(
        &mut self,
        id: ItemId,
        to: Option<StorePath>,
        keep_going: &dyn Fn() -> bool,
    ) -> Result<(StorePath, Vec<FailedMember>), Refusal> {
        let budget = self.tree_budget(keep_going);
        let (found, permit, tree) = self.trashed_to_take(id, &budget)?;
        let (was, target) = (found.record.path.clone(), found.node().clone());
        let to = to.unwrap_or_else(|| was.clone());
        self.fits(&was, &to, tree)?;
        let placing = Placing { overwrite: false, is_deep: true, tokens: &[], keep_going };
        let destination = self.claim_destination(&to, target.kind(), placing, &budget)?;
        let still_there = self.still_there(&to, &destination.directory);
        let judge = || self.settle(&to, &destination.directory, Touches::Entry, &[]).map(drop);
        let making = (&destination.permit, destination.goal());
        let moved = enfilade_content::restore((&permit, &found), making, judge, still_there)?;
        if let Err(why) = moved.still_there() {
            return Err(back(moved, &to).unwrap_or_else(|| why.into()));
        }
        moved.complete();
        // The object is restored even if its record cannot be removed now. In that case `House::expire_items` removes the record later.
        let _ = found.forget();
        let failed = match self.datastore.access().moved_inherits {
            true => self.inherit_anew(&destination.directory, &to, &target, &budget),
            false => Vec::new(),
        };
        Ok((to, failed))
    }

    /// Removes an item of the trash for good.
    ///
    /// # Errors
    /// [`Content::Absent`] if the user may see no such item; the refusal of door 4 if the user may not delete it at the path where it was. When the
    /// item cannot be removed.
    pub fn purge(&mut self, id: ItemId, keep_going: &dyn Fn() -> bool) -> Result<(), Refusal> {
        let budget = self.tree_budget(keep_going);
        let (found, permit, tree) = self.trashed_to_take(id, &budget)?;
        found.purge(&permit, keep_going)?;
        self.fill.freed(tree.bytes);
        Ok(())
    }

    /// Removes for good all items that the user deleted and may still delete at their old paths. Returns true if no item is left that the user may
    /// see.
    ///
    /// # Errors
    /// When the trash cannot be read, or an item cannot be removed.
    pub fn empty_trash(&mut self, keep_going: &dyn Fn() -> bool) -> Result<bool, Refusal> {
        let entries = usize::try_from(self.visit.limits().listing_entries).unwrap_or(usize::MAX);
        let (ids, is_cut) = self.root.trash_ids(Some(self.principal().user), entries)?;
        let mut is_all = !is_cut;
        for id in ids {
            if !keep_going() {
                return Ok(false);
            }
            match self.purge(id, keep_going) {
                Ok(()) => {}
                // The item was restored or removed meanwhile.
                Err(Refusal::Content(Content::Absent(_) | Content::ChangedMeanwhile(_))) => {}
                // The user may no longer see the item. So the item does not count as an item that is left.
                Err(why) if is_hidden(&why) => {}
                // The user may no longer delete the item, or the item is too large for one request. The other items are removed nevertheless.
                Err(Refusal::Access(_) | Refusal::Content(Content::NotEmpty(_) | Content::TooMuch(_))) => {
                    is_all = false;
                }
                Err(why) => return Err(why),
            }
        }
        Ok(is_all)
    }
}

/// Takes an object back from the trash. Returns a refusal if the object stays in the trash.
fn undo(thrown: ThrownAway, path: &StorePath) -> Option<Refusal> {
    not_back(thrown.take_back().err()?, path)
}

/// Puts an item back into the trash. Returns a refusal if the item stays at its new path.
fn back(moved: Relocated, path: &StorePath) -> Option<Refusal> {
    not_back(moved.take_back().err()?, path)
}

fn not_back(why: Content, path: &StorePath) -> Option<Refusal> {
    Some(match why {
        Content::ChangedMeanwhile(_) | Content::Exists(_) => {
            Content::NotTakenBack { path: path.to_string(), kept: None }.into()
        }
        why => why.into(),
    })
}
