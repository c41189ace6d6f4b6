//! MOVE, and the steps that are the same for COPY and MOVE. The tree at the destination gets its final name only when the tree is complete. A
//! replaced tree first gets a reserved name, which no client can request. While the replaced tree has the reserved name, door 4 judges all members of
//! the tree once more. After that, the replaced tree is removed.

use super::{Placed, Placing, Tree, is_within};
use crate::reach::Inside as _;
use crate::reach::present;
use crate::refuse::{Refusal, Stands};
use crate::walk::Stay;
use enfilade_access::{AccessPermit, Inheritance, NodeKind};
use enfilade_content::{EntryRef, Node, Refusal as Content, Relocated, Touches, TreeBudget};
use enfilade_facts::vocabulary::StorePath;

/// The destination of a COPY or MOVE.
pub(super) struct Destination<'p> {
    pub(super) path: &'p StorePath,
    pub(super) directory: Node,
    pub(super) name: &'p str,
    pub(super) permit: AccessPermit,
    pub(super) from_start: Inheritance,
    /// The existing object at the destination, which may be replaced.
    pub(super) replaced: Option<Replaced>,
}

/// The object at a destination that may be replaced.
pub(super) struct Replaced {
    permit: AccessPermit,
    node: Node,
    /// The number of bytes of content in the object.
    bytes: u64,
}

impl Destination<'_> {
    pub(super) fn goal(&self) -> EntryRef<'_> {
        EntryRef { directory: &self.directory, name: self.name }
    }

    pub(super) fn replaced(&self) -> Option<(&AccessPermit, &Node)> {
        self.replaced.as_ref().map(|replaced| (&replaced.permit, &replaced.node))
    }

    pub(super) fn touches(&self) -> Touches {
        if self.replaced.is_some() { Touches::Tree } else { Touches::Entry }
    }
}

impl Stay {
    /// Moves a file, or a directory with everything in it. The ACLs stay unchanged. Exception: with `moved_inherits`, the moved objects inherit ACL
    /// entries from the new directory.
    ///
    /// # Errors
    /// The refusal of door 4 or 5. After a refusal nothing is moved, unless the move could not be undone ([`Content::NotTakenBack`],
    /// [`Content::Io`]).
    pub fn relocate(
        &mut self,
        from: &StorePath,
        to: &StorePath,
        placing: Placing<'_>,
    ) -> Result<Placed, Refusal> {
        if is_within(to, from) || is_within(from, to) {
            return Err(Content::WithinItself.into());
        }
        let budget = self.tree_budget(placing.keep_going);
        let source = self.source_to_move(from, placing, &budget);
        let (directory, name, target, permit, tree) = source.map_err(|why| why.about(Stands::Source))?;
        self.fits(from, to, tree)?;
        let destination = self.claim_destination(to, target.kind(), placing, &budget)?;
        let (at, goal) = (EntryRef { directory: &directory, name }, destination.goal());
        let (mut own, still_there) = (Vec::new(), self.still_there(to, &destination.directory));
        let moved = enfilade_content::rename(
            (&permit, &target, at),
            (&destination.permit, goal),
            destination.replaced(),
            || -> Result<(), Refusal> {
                self.settle(from, &directory, Touches::Tree, placing.tokens)?;
                self.settle(to, &destination.directory, destination.touches(), placing.tokens)?;
                own = self.locks_at_or_beneath(from)?;
                Ok(())
            },
            still_there,
        )?;
        // Another client may have added members to the moved tree or the replaced tree after door 4 judged these trees.
        let judged = moved
            .still_there()
            .map_err(Refusal::from)
            .and_then(|()| self.judge_again(from, &target, &budget))
            .and_then(|_| self.judge_replaced(&destination, &budget));
        let freed = match self.complete_or_take_back(moved, &destination, judged) {
            Err(why @ Refusal::Content(Content::NotTakenBack { .. })) => {
                self.end_locks(from, &own);
                return Err(why);
            }
            freed => freed?,
        };
        self.fill.freed(freed);
        let failed = match self.datastore.access().moved_inherits {
            true => self.inherit_anew(&destination.directory, destination.path, &target, &budget),
            false => Vec::new(),
        };
        self.end_locks(from, &own);
        Ok(Placed { replaced: destination.replaced.is_some(), failed })
    }

    /// The source of a MOVE, if the visitor may move all of it.
    pub(super) fn source_to_move<'p>(
        &mut self,
        from: &'p StorePath,
        placing: Placing<'_>,
        budget: &TreeBudget<'_>,
    ) -> Result<(Node, &'p str, Node, AccessPermit, Tree), Refusal> {
        let (directory, name) = self.reach_parent(from)?;
        let target = self.child_or_alike(from, &directory, name)?;
        let permit = self.may_delete(from, &directory, &target)?;
        self.unless_locked(from, Touches::Entry, placing.tokens)?;
        let tree = match target.kind() {
            NodeKind::Directory => self.may_go(from, &target, Some(placing.tokens), budget)?,
            NodeKind::File => Tree::default(),
        };
        Ok((directory, name, target, permit, tree))
    }

    /// Checks that no member's new path exceeds the limits of paths.
    pub(super) fn fits(&self, from: &StorePath, to: &StorePath, tree: Tree) -> Result<(), Refusal> {
        let limits = self.visit.limits();
        let bytes = (tree.longest + to.as_str().len()).saturating_sub(from.as_str().len());
        let names = (tree.deepest + to.names().count()).saturating_sub(from.names().count());
        match bytes as u64 > limits.path_bytes || names as u64 > limits.path_parts {
            true => Err(Content::TooLong(to.to_string()).into()),
            false => Ok(()),
        }
    }

    /// Judges a tree once more, after the tree got another name. `path` is the path that the tree had before. Returns the number of bytes of content
    /// in the tree.
    pub(super) fn judge_again(
        &mut self,
        path: &StorePath,
        node: &Node,
        budget: &TreeBudget<'_>,
    ) -> Result<u64, Refusal> {
        match node.kind() {
            NodeKind::File => Ok(node.content_bytes()),
            NodeKind::Directory => {
                budget.renew();
                Ok(self.may_go(path, node, None, budget)?.bytes)
            }
        }
    }

    pub(super) fn judge_replaced(
        &mut self,
        destination: &Destination<'_>,
        budget: &TreeBudget<'_>,
    ) -> Result<u64, Refusal> {
        match &destination.replaced {
            Some(replaced) if replaced.node.kind() == NodeKind::Directory => {
                self.judge_again(destination.path, &replaced.node, budget)
            }
            Some(replaced) => Ok(replaced.bytes),
            None => Ok(0),
        }
    }

    /// If `judged` is `Ok`, completes the change of names, and returns the number of bytes in the replaced object. If `judged` is a refusal, undoes
    /// the change of names.
    ///
    /// # Errors
    /// The refusal that `judged` contains. [`Content::NotTakenBack`] if another client used one of the names meanwhile, so that the change cannot be
    /// undone. An error of the file system if undoing the change fails for another reason.
    pub(super) fn complete_or_take_back(
        &mut self,
        relocated: Relocated,
        destination: &Destination<'_>,
        judged: Result<u64, Refusal>,
    ) -> Result<u64, Refusal> {
        let why = match judged {
            Ok(bytes) => {
                relocated.complete();
                return Ok(bytes);
            }
            Err(why) => why,
        };
        let kept = match relocated.take_back() {
            Ok(None) => return Err(why),
            Ok(Some(name)) => Some(name),
            Err(Content::ChangedMeanwhile(_) | Content::Exists(_)) => None,
            Err(why) => {
                self.fill.count_anew();
                return Err(why.into());
            }
        };
        self.fill.count_anew();
        let in_directory =
            |name: String| destination.path.split().and_then(|(parent, _)| parent.join(&name).ok());
        let kept = kept.and_then(in_directory).map(|path| path.to_string());
        Err(Content::NotTakenBack { path: destination.path.to_string(), kept }.into())
    }

    /// Asks for the right to create an object at a path. If an object exists at the path, also asks for the right to delete this object.
    pub(super) fn claim_destination<'p>(
        &mut self,
        path: &'p StorePath,
        kind: NodeKind,
        placing: Placing<'_>,
        budget: &TreeBudget<'_>,
    ) -> Result<Destination<'p>, Refusal> {
        let (directory, name) = self.reach_parent(path).map_err(Refusal::of_parent(path))?;
        let (permit, from_start) =
            self.may_create(path, &directory, kind).map_err(Refusal::of_parent(path))?;
        let mut replaced = None;
        if let Some(existing) = present(directory.child(name))? {
            self.refuse_hidden(path, &existing)?;
            if !placing.overwrite {
                return Err(Content::Exists(name.to_owned()).into());
            }
            let permit = self.may_delete(path, &directory, &existing)?;
            self.unless_locked(path, Touches::Entry, placing.tokens)?;
            let bytes = match existing.kind() {
                NodeKind::File => existing.content_bytes(),
                NodeKind::Directory => self.may_go(path, &existing, Some(placing.tokens), budget)?.bytes,
            };
            replaced = Some(Replaced { permit, node: existing, bytes });
        } else {
            self.unless_locked(path, Touches::Entry, placing.tokens)?;
        }
        Ok(Destination { path, directory, name, permit, from_start, replaced })
    }
}
