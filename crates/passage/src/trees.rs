//! What is done with whole trees: deleted, moved, copied, by the walk of door 5 (`door-5-content/src/tree_walk.rs`). Each member is judged on the
//! descriptor that is acted on. A member that may not be seen is left out of a copy, and keeps its directory from being deleted or moved.
//! Everything here blocks.
//!
//! Others change the tree meanwhile. So each member is deleted for itself, and where a whole tree goes at once it is hidden first, all of it is
//! judged once more, and where something may not go it gets its name back. What gets a name is judged in the same turn: its directory is
//! still where it was found, and no lock stands in the way.

mod copying;
mod acl_after_move;
mod removal;
mod transfer;
mod copy_record;

use crate::refuse::Refusal;
use crate::walk::Stay;
use enfilade_access::{AccessPermit, Ask, NodeKind, Wanted};
use enfilade_content::{
    Directory, LockToken, Member, Met, Node, Refusal as Content, Touches, TreeBudget, TreeWalk,
};
use enfilade_facts::vocabulary::{AccessMask, StorePath};
use std::sync::Arc;

/// How many bytes are copied before it is looked whether that is still wanted and allowed.
const PIECE_BYTES: u64 = 8 << 20;

/// A member of a tree that failed: it was not deleted, not copied, or did not inherit.
#[derive(Clone, Debug)]
pub struct FailedMember {
    /// Where it is; of one whose name no path spells, the directory.
    pub path: StorePath,
    /// The name no path spells.
    pub unspelled: Option<Box<[u8]>>,
    /// Why.
    pub why: Refusal,
}

impl FailedMember {
    fn at(path: StorePath, why: impl Into<Refusal>) -> Self {
        FailedMember { path, unspelled: None, why: why.into() }
    }
}

/// What came of putting something somewhere.
#[derive(Clone, Debug)]
pub struct Placed {
    /// Whether something was there before.
    pub replaced: bool,
    /// Members that failed: they were not copied or moved, or did not inherit.
    pub failed: Vec<FailedMember>,
}

/// How something is put somewhere.
#[derive(Clone, Copy)]
pub struct Placing<'p> {
    /// Whether what is there may go.
    pub overwrite: bool,
    /// Whether with everything that is in it.
    pub is_deep: bool,
    /// The tokens of locks that came with the request.
    pub tokens: &'p [LockToken],
    /// Whether anybody still waits for it.
    pub keep_going: &'p dyn Fn() -> bool,
}

fn is_hidden(refusal: &Refusal) -> bool {
    matches!(refusal, Refusal::Access(access) if access.looks_absent())
}

fn is_within(path: &StorePath, above: &StorePath) -> bool {
    let rest = path.as_str().strip_prefix(above.as_str());
    above.is_root() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// What a look through a tree says of it.
#[derive(Clone, Copy, Debug, Default)]
struct Tree {
    /// How much content is in it.
    bytes: u64,
    /// How long the longest path of a member is, in bytes, and how many names the deepest has.
    longest: usize,
    deepest: usize,
}

impl Stay {
    /// What has to hold in the turn in which a name changes: its directory is still where it was found, no lock stands in the way, and where it is
    /// the first name, the conditions of the request hold. Says which locks are on what has the name.
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

    /// Whether the directory a path is in is still the one that was found.
    pub(crate) fn unmoved(&self, path: &StorePath, directory: &Node) -> Result<(), Refusal> {
        Ok(self.still_there(path, directory)()?)
    }

    /// The same, to be asked once more in the turn in which a name was given: another process may have begun to remove the directory just
    /// before, and what it did not see there is not acknowledged. Asked any later, it would tell only what became true afterwards.
    pub(crate) fn still_there(
        &self,
        path: &StorePath,
        directory: &Node,
    ) -> impl FnOnce() -> Result<(), Content> + use<> {
        let parent = path.split().map(|(parent, _)| parent).unwrap_or_default();
        let (root, directory) = (Arc::clone(&self.root), directory.clone());
        move || root.still_leads_to(&parent, &directory)
    }

    /// How much of a tree this request may work through, as long as somebody waits for it.
    pub(crate) fn tree_budget<'b>(&self, keep_going: &'b dyn Fn() -> bool) -> TreeBudget<'b> {
        let (limits, house) = (self.visit.limits(), Arc::clone(&self.visit.house));
        TreeBudget::new(limits.tree_entries, limits.tree_seconds, move || house.now().tick_millis, keep_going)
    }

    /// Goes into a directory, which takes the right to list it.
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

    /// Shows everything in a tree, each directory again when all that is in it was shown; it is over with the first that is refused.
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

    /// Whether everything in a directory may be deleted, also in spite of locks where tokens are given; says what is in it.
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
            // Links, sockets and the like are not listed.
            Met::Leave(_) => Ok(enfilade_content::unless_others(&directory.node, &directory.path)?),
            Met::Failed { why, .. } => Err(why.clone().into()),
            Met::Member(Member { path, node, .. }) => {
                stay.may_delete(path, &directory.node, node).map_err(|why| match is_hidden(&why) {
                    true => not_all(&directory.path),
                    false => why,
                })?;
                // After the right: a lock on what may not be seen is not seen either.
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
