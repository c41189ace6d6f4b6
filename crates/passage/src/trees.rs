//! DELETE, MOVE and COPY of whole trees, and the trash, by the tree walk of door 5 (`door-5-content/src/tree_walk.rs`). Each member is judged on its
//! open descriptor, and the verb acts on the same descriptor. A member that the visitor may not see is left out of a copy, and prevents the deletion
//! or move of its directory. All functions here block on the file system.
//!
//! Other clients can change the tree during the operation. So DELETE judges and deletes one member at a time. MOVE and COPY change the names first.
//! After that, they judge the replaced tree once more. A MOVE also judges the moved tree once more. If a member may not be moved or replaced, MOVE
//! and COPY undo the change of names. A thread changes names only in its *turn*: the time in which the thread holds door 5's mutex for changes of
//! names. In the turn the request also checks that the directory is still where it was found, and that no WebDAV lock prevents the change.

mod copying;
mod acl_after_move;
mod removal;
mod transfer;
mod trash;
mod copy_record;

use crate::refuse::Refusal;
use crate::walk::Stay;
use enfilade_access::{AccessPermit, Ask, NodeKind, Wanted};
use enfilade_content::{
    Directory, ItemId, LockToken, Member, Met, Node, Refusal as Content, Touches, TreeBudget, TreeWalk,
};
use enfilade_facts::vocabulary::{AccessMask, StorePath};
use std::sync::Arc;

/// The number of bytes that are copied between two checks. Each check asks whether the client still waits, and whether the client may still read the
/// source.
const PIECE_BYTES: u64 = 8 << 20;

/// A member of a tree for which the operation failed: the member was not deleted, was not copied, or did not inherit an ACL.
#[derive(Clone, Debug)]
pub struct FailedMember {
    /// The path of the member. If no path can contain the member's name, or the client must not learn the member's path, this is the path of its
    /// directory.
    pub path: StorePath,
    /// The name of the member, if no path can contain this name.
    pub unspelled: Option<Box<[u8]>>,
    /// The refusal.
    pub why: Refusal,
}

impl FailedMember {
    fn at(path: StorePath, why: impl Into<Refusal>) -> Self {
        FailedMember { path, unspelled: None, why: why.into() }
    }
}

/// The result of a COPY or MOVE.
#[derive(Clone, Debug)]
pub struct Placed {
    /// Whether the destination existed before.
    pub replaced: bool,
    /// Members that failed: members that a COPY did not copy, or that did not inherit an ACL after a MOVE.
    pub failed: Vec<FailedMember>,
}

/// The terms of a COPY or MOVE.
#[derive(Clone, Copy)]
pub struct Placing<'p> {
    /// Whether an existing destination may be replaced.
    pub overwrite: bool,
    /// Whether the members of a directory are copied, too.
    pub is_deep: bool,
    /// The tokens of locks that came with the request.
    pub tokens: &'p [LockToken],
    /// Returns whether the client still waits.
    pub keep_going: &'p dyn Fn() -> bool,
}

/// The result of a deletion in the console.
#[derive(Clone, Debug)]
pub enum Discarded {
    /// The object is in the trash, with this id.
    Trashed(ItemId),
    /// The datastore has no trash. The object was deleted, except these members.
    Deleted(Vec<FailedMember>),
}

/// The items of the trash that a page shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhoseTrash {
    /// The items that the user deleted.
    Own,
    /// The items of all users. Only an administrator of the datastore sees them.
    Everybody,
}

/// An item of the trash.
#[derive(Clone, Debug)]
pub struct TrashItem {
    /// The id.
    pub id: ItemId,
    /// The path from which the item was deleted.
    pub path: StorePath,
    /// The name that the user who deleted the item had at that time.
    pub who: String,
    /// A file or a directory.
    pub kind: NodeKind,
    /// The size of a file, in bytes.
    pub bytes: u64,
}

/// A page of the trash, the newest items first.
#[derive(Clone, Debug, Default)]
pub struct TrashPage {
    /// The items.
    pub items: Vec<TrashItem>,
    /// The id after which the next page begins, if there is one.
    pub next: Option<ItemId>,
    /// Whether the trash has more items than the limit `listing_entries`. Then some items are on no page.
    pub is_cut: bool,
}

fn is_hidden(refusal: &Refusal) -> bool {
    matches!(refusal, Refusal::Access(access) if access.looks_absent())
}

fn is_within(path: &StorePath, above: &StorePath) -> bool {
    let rest = path.as_str().strip_prefix(above.as_str());
    above.is_root() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The size of a tree.
#[derive(Clone, Copy, Debug, Default)]
struct Tree {
    /// The number of bytes of content in the tree.
    bytes: u64,
    /// The length of the longest path of a member, in bytes. `deepest` is the number of names in the deepest path of a member.
    longest: usize,
    deepest: usize,
}

impl Stay {
    /// Checks that the directory of a name is still where it was found, and that no lock prevents a change of the name. The caller makes this call in
    /// the same turn as the change of the name. At the first change of the request, this function also checks the conditions of the request. Returns
    /// the tokens of the locks on the object that has the name.
    pub(crate) fn settle(
        &mut self,
        path: &StorePath,
        directory: &Node,
        touches: Touches,
        tokens: &[LockToken],
    ) -> Result<Vec<LockToken>, Refusal> {
        self.unmoved(path, directory)?;
        self.unless_locked(path, touches, tokens)?;
        self.if_still()?;
        Ok(self
            .locks_on(path)?
            .into_iter()
            .filter(|lock| lock.path == *path)
            .map(|lock| lock.token)
            .collect())
    }

    /// Checks that the directory of a path is still the directory that was found.
    pub(crate) fn unmoved(&self, path: &StorePath, directory: &Node) -> Result<(), Refusal> {
        Ok(self.still_there(path, directory)()?)
    }

    /// The check of [`Stay::unmoved`] as a function. Door 5 calls it right after an object got its name, in the same turn. Shortly before the object
    /// got its name, another process may have started to remove the directory without seeing the new name. In that case the request must not be
    /// acknowledged. The check must run before the end of this turn. After the turn, another request could move the directory, and the check would
    /// fail although this request succeeded.
    pub(crate) fn still_there(
        &self,
        path: &StorePath,
        directory: &Node,
    ) -> impl FnOnce() -> Result<(), Content> + use<> {
        let parent = path.split().map(|(parent, _)| parent).unwrap_or_default();
        let (root, directory) = (Arc::clone(&self.root), directory.clone());
        move || root.still_leads_to(&parent, &directory)
    }

    /// How many entries of trees this request may process, and for how many seconds. The budget ends when `keep_going` returns false.
    pub(crate) fn tree_budget<'b>(&self, keep_going: &'b dyn Fn() -> bool) -> TreeBudget<'b> {
        let (limits, house) = (self.visit.limits(), Arc::clone(&self.visit.house));
        TreeBudget::new(limits.tree_entries, limits.tree_seconds, move || house.now().tick_millis, keep_going)
    }

    /// Enters a directory. The visitor must have the right to list the directory.
    fn enter<C>(
        &mut self,
        walk: &mut TreeWalk<'_, StorePath, C>,
        path: &StorePath,
        node: &Node,
        carried: C,
    ) -> Result<(), Refusal> {
        let (target, wanted) = (&node.subject(), Wanted::On(AccessMask::LIST));
        let permit = self.may(&Ask { path, target, wanted })?;
        Ok(walk.enter(&permit, path.clone(), node.clone(), carried)?)
    }

    /// Calls `see` for everything in a tree, and with [`Met::Leave`] at the end of each directory. The first refusal ends the tree walk.
    pub(crate) fn each_member(
        &mut self,
        path: &StorePath,
        directory: &Node,
        budget: &TreeBudget<'_>,
        mut see: impl FnMut(&mut Self, &Directory<StorePath, ()>, &Met<StorePath>) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let mut walk = TreeWalk::begin(budget);
        self.enter(&mut walk, path, directory, ())?;
        while let Some((directory, met)) = walk.next() {
            see(self, &directory, &met)?;
            if let Met::Member(Member { path, node, .. }) = met {
                budget.count()?;
                if node.kind() == NodeKind::Directory {
                    self.enter(&mut walk, &path, &node, ())?;
                }
            }
        }
        Ok(())
    }

    /// Checks that everything in a directory may be deleted. If `tokens` is not `None`, also checks that no lock prevents the deletion. Returns the
    /// size of the tree.
    fn may_go(
        &mut self,
        path: &StorePath,
        directory: &Node,
        tokens: Option<&[LockToken]>,
        budget: &TreeBudget<'_>,
    ) -> Result<Tree, Refusal> {
        let not_all = |path: &StorePath| Refusal::from(Content::NotEmpty(path.to_string()));
        let mut tree = Tree::default();
        self.each_member(path, directory, budget, |stay, directory, met| match met {
            Met::Unserved | Met::TooLong(_) => Err(not_all(&directory.path)),
            // The tree walk skips entries that are never listed, such as links and sockets. This call refuses a directory with an entry that the tree
            // walk skips.
            Met::Leave(_) => Ok(enfilade_content::unless_others(&directory.node, &directory.path)?),
            Met::Failed { why, .. } => Err(why.clone().into()),
            Met::Member(Member { path, node, .. }) => {
                stay.may_delete(path, &directory.node, node).map_err(|why| match is_hidden(&why) {
                    true => not_all(&directory.path),
                    false => why,
                })?;
                // The right to delete is checked before the locks, because otherwise a lock would reveal a hidden member.
                tokens.map(|tokens| stay.unless_locked(path, Touches::Entry, tokens)).transpose()?;
                tree.longest = tree.longest.max(path.as_str().len());
                tree.deepest = tree.deepest.max(path.names().count());
                if node.kind() == NodeKind::File {
                    tree.bytes = tree.bytes.saturating_add(node.content_bytes());
                }
                Ok(())
            }
        })?;
        Ok(tree)
    }

    fn may_delete(
        &mut self,
        path: &StorePath,
        directory: &Node,
        target: &Node,
    ) -> Result<AccessPermit, Refusal> {
        let (parent, subject) = (directory.subject(), target.subject());
        self.may(&Ask { path, target: &subject, wanted: Wanted::Delete { parent: &parent } })
    }
}
