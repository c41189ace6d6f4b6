//! DELETE of a tree, member by member. The right to delete a member is judged when the tree walk meets the member. The locks and the conditions of
//! the request are checked later, in the same turn as the deletion of the member (see `trees.rs`).

use super::{FailedMember, is_hidden, is_within};
use crate::reach::Inside as _;
use crate::refuse::Refusal;
use crate::walk::Stay;
use enfilade_access::{AccessPermit, NodeKind};
use enfilade_content::{
    Directory, Failed, LockToken, Member, Met, Node, Refusal as Content, Touches, TreeBudget, TreeWalk,
};
use enfilade_facts::vocabulary::{StorePath, Word};
use std::cell::Cell;

/// The data that is needed to delete a directory once the directory is empty.
struct Going {
    directory: Node,
    name: Word,
    permit: AccessPermit,
    /// Whether a member of the directory was not deleted.
    keeps: Cell<bool>,
}

impl Going {
    fn new(directory: Node, name: Word, permit: AccessPermit) -> Self {
        Going { directory, name, permit, keeps: Cell::new(false) }
    }
}

/// An object that is to be deleted, with its directory and name.
struct NamedEntry<'m> {
    path: &'m StorePath,
    directory: &'m Node,
    name: &'m str,
    node: &'m Node,
}

impl Stay {
    /// Deletes a file, or a directory with everything in it, member by member. Returns the members that were not deleted.
    ///
    /// # Errors
    /// The refusal of door 4 or 5 for the target itself. After a refusal of the target, nothing is deleted. If an entry or directory in the tree
    /// cannot be read, the deletion ends with an error, and the members that were deleted before stay deleted.
    pub fn delete(
        &mut self,
        path: &StorePath,
        tokens: &[LockToken],
        keep_going: &dyn Fn() -> bool,
    ) -> Result<Vec<FailedMember>, Refusal> {
        let (directory, name) = self.reach_parent(path)?;
        let target = self.child_or_alike(path, &directory, name)?;
        let permit = self.may_delete(path, &directory, &target)?;
        self.unless_locked(path, Touches::Entry, tokens)?;
        let entry = NamedEntry { path, directory: &directory, name, node: &target };
        if target.kind() == NodeKind::File {
            return self.remove(&permit, &entry, tokens).map(|()| Vec::new());
        }
        let budget = self.tree_budget(keep_going);
        let mut walk = TreeWalk::begin(&budget);
        let going = Going::new(directory.clone(), name.into(), permit);
        match self.enter(&mut walk, path, &target, going) {
            Ok(()) => self.delete_members(walk, &budget, tokens),
            // If the visitor may delete a directory but may not list it, the directory is deleted if it is empty.
            Err(refusal) if is_listing_refused(&refusal) => {
                self.remove(&permit, &entry, tokens).map(|()| Vec::new())
            }
            Err(refusal) => Err(refusal),
        }
    }

    fn delete_members(
        &mut self,
        mut walk: TreeWalk<'_, StorePath, Going>,
        budget: &TreeBudget<'_>,
        tokens: &[LockToken],
    ) -> Result<Vec<FailedMember>, Refusal> {
        let mut failed = Vec::new();
        while let Some((directory, met)) = walk.next() {
            let member = match met {
                Met::Member(member) => member,
                Met::Unserved | Met::TooLong(_) => {
                    directory.carried.keeps.set(true);
                    continue;
                }
                Met::Leave(_) => {
                    let stays = self.finish_deletion(&directory, tokens, &mut failed)?;
                    walk.directory().filter(|_| stays).inspect(|above| above.carried.keeps.set(true));
                    continue;
                }
                Met::Failed { what: Failed::Budget, path, why } => {
                    failed.push(FailedMember::at(path, why));
                    break;
                }
                Met::Failed { why, .. } => return Err(why.into()),
            };
            let permit = self.may_delete(&member.path, &directory.node, &member.node);
            let is_seen = !permit.as_ref().is_err_and(is_hidden);
            if is_seen && let Err(why) = budget.count() {
                failed.push(FailedMember::at(member.path, why));
                break;
            }
            let deleted =
                permit.and_then(|permit| self.delete_member(permit, &directory, &member, tokens, &mut walk));
            match deleted {
                Ok(()) => {}
                // The conditions of the request are checked at the first deletion. So nothing was deleted before this refusal.
                Err(why @ Refusal::Content(Content::Unmet)) => return Err(why),
                Err(why) => {
                    directory.carried.keeps.set(true);
                    if !is_hidden(&why) {
                        failed.push(FailedMember::at(member.path, why));
                    }
                }
            }
        }
        Ok(failed)
    }

    /// Deletes a file, or enters a directory. A directory is deleted when the tree walk reaches the end of the directory.
    fn delete_member(
        &mut self,
        permit: AccessPermit,
        directory: &Directory<StorePath, Going>,
        member: &Member<StorePath>,
        tokens: &[LockToken],
        walk: &mut TreeWalk<'_, StorePath, Going>,
    ) -> Result<(), Refusal> {
        let Member { path, name, node } = member;
        match node.kind() {
            NodeKind::File => {
                self.remove(&permit, &NamedEntry { path, directory: &directory.node, name, node }, tokens)
            }
            NodeKind::Directory => {
                self.unless_locked(path, Touches::Entry, tokens)?;
                self.enter(walk, path, node, Going::new(directory.node.clone(), name.clone(), permit))
            }
        }
    }

    /// Deletes one file or empty directory, and ends the locks that were on it.
    fn remove(
        &mut self,
        permit: &AccessPermit,
        entry: &NamedEntry<'_>,
        tokens: &[LockToken],
    ) -> Result<(), Refusal> {
        let NamedEntry { path, directory, name, node } = entry;
        let mut own = Vec::new();
        let removed = enfilade_content::delete(permit, directory, name, node, || {
            own = self.settle(path, directory, Touches::Entry, tokens)?;
            Ok::<_, Refusal>(())
        });
        match removed {
            Ok(()) => self.fill.freed(node.content_bytes()),
            // Another client has removed or renamed the entry. Now the entry is not in the directory, so the deletion counts as done.
            Err(Refusal::Content(Content::ChangedMeanwhile(_)))
                if self.unmoved(path, directory).is_ok()
                    && matches!(directory.child(name), Err(Content::Absent(_))) => {}
            Err(why) => return Err(why),
        }
        self.end_locks(path, &own);
        Ok(())
    }

    /// Deletes a directory after the deletion of its members. Returns whether the directory stays.
    ///
    /// # Errors
    /// [`Content::Unmet`] if a condition of the request is no longer true. In that case nothing is deleted.
    fn finish_deletion(
        &mut self,
        directory: &Directory<StorePath, Going>,
        tokens: &[LockToken],
        failed: &mut Vec<FailedMember>,
    ) -> Result<bool, Refusal> {
        let Directory { path, node, carried: going } = directory;
        if !going.keeps.get() {
            let entry = NamedEntry { path, directory: &going.directory, name: &going.name, node };
            match self.remove(&going.permit, &entry, tokens) {
                Ok(()) => return Ok(false),
                Err(why @ Refusal::Content(Content::Unmet)) => return Err(why),
                Err(why) => failed.push(FailedMember::at(path.clone(), why)),
            }
            return Ok(true);
        }
        // The members that were not deleted are in `failed` already. If `failed` contains no member of this directory, the directory is added to the
        // answer.
        let is_told = failed.iter().any(|failed| is_within(&failed.path, path));
        if !is_told {
            failed.push(FailedMember::at(path.clone(), Content::NotEmpty(path.to_string())));
        }
        Ok(true)
    }
}

fn is_listing_refused(refusal: &Refusal) -> bool {
    matches!(refusal, Refusal::Access(access) if !access.looks_absent())
}
