//! Propagates ACLs through a tree: for the command `acl set --recursive`, and for MOVE in a datastore with the option `--moves inherit`.
//!
//! Each object keeps its explicit entries. Its inherited entries are replaced by the entries that the object now inherits from its directory
//! (`door-4-access/src/acl_inheritance.rs`). A protected object and everything beneath it keep their ACLs. If the caller may not change an object, or
//! the ACL of an object cannot be read or written, the object and everything beneath it also keep their ACLs.

use crate::acl_write::{self, Properties};
use crate::node::Node;
use crate::refuse::Refusal;
use crate::tree_budget::TreeBudget;
use crate::tree_walk::{Failed, Member, Met, TreePath, TreeWalk};
use enfilade_access::{
    BadAcl, NodeKind, PropagationPermit, SecurityDescriptor, StoredAcl, Subject, propagated,
};

/// The caller of a propagation. The caller permits each change, and receives each outcome.
pub trait Propagator<P> {
    /// The reason why the caller may not change an object.
    type Refusal: From<Refusal>;

    /// The permit to change the inherited entries of an object.
    ///
    /// # Errors
    /// The reason of the refusal. After a refusal, the object and everything beneath it keep their ACLs.
    fn permit(&mut self, path: &P, subject: &Subject) -> Result<PropagationPermit, Self::Refusal>;

    /// Receives the outcome for each object, and for each entry that could not be opened.
    fn tell(&mut self, path: P, outcome: Outcome<Self::Refusal>);

    /// Whether this is a dry run. A dry run writes nothing.
    fn is_dry_run(&self) -> bool {
        false
    }
}

/// The outcome for one object.
#[derive(Debug)]
pub enum Outcome<E> {
    /// The ACL of the object was changed, or would be changed if this were not a dry run.
    Changed,
    /// The ACL did not change: the object already had the new ACL, or a user moved an object that has no ACL and inherits no entry.
    Same,
    /// The object is protected from inheritance.
    Protected,
    /// The ACL of the object cannot be read or is malformed.
    Damaged(BadAcl),
    /// The dialect cannot express the new ACL.
    Inexpressible(BadAcl),
    /// The change was refused or failed.
    Refused(E),
    /// An entry could not be opened. Door 4 did not judge whether the caller may see the path of the entry, so a client must not get this path.
    Unopened(Refusal),
}

type Walk<'b, P> = TreeWalk<'b, P, SecurityDescriptor>;

/// Gives an object the entries that it inherits from `above`, the ACL of its directory. Then does the same for everything beneath the object.
pub fn propagate_acl<P: TreePath, A: Propagator<P>>(
    above: &SecurityDescriptor,
    (path, node): (P, Node),
    budget: &TreeBudget<'_>,
    by: &mut A,
) {
    let mut walk = TreeWalk::begin(budget);
    give(above, (path, node), &mut walk, by);
    go_on(walk, budget, by);
}

/// Gives everything beneath a directory the entries that it inherits from the directory. `descriptor` is the directory's ACL, or in a dry run the ACL
/// that the directory would get.
pub fn propagate_acl_beneath<P: TreePath, A: Propagator<P>>(
    descriptor: SecurityDescriptor,
    (path, node): (P, Node),
    budget: &TreeBudget<'_>,
    by: &mut A,
) {
    if node.kind() == NodeKind::File {
        return;
    }
    let mut walk = TreeWalk::begin(budget);
    let entered = by
        .permit(&path, &node.subject())
        .and_then(|permit| Ok(walk.enter_to_propagate(&permit, path.clone(), node, descriptor)?));
    match entered {
        Ok(()) => go_on(walk, budget, by),
        Err(why) => by.tell(path, Outcome::Refused(why)),
    }
}

fn go_on<P: TreePath, A: Propagator<P>>(mut walk: Walk<'_, P>, budget: &TreeBudget<'_>, by: &mut A) {
    while let Some((directory, met)) = walk.next() {
        match met {
            Met::Member(Member { path, node, .. }) => {
                if let Err(why) = budget.count() {
                    by.tell(path, Outcome::Refused(why.into()));
                    return;
                }
                give(&directory.carried, (path, node), &mut walk, by);
            }
            Met::TooLong(name) => {
                let why = Refusal::TooLong(name.to_string());
                by.tell(directory.path.clone(), Outcome::Refused(why.into()));
            }
            Met::Failed { what: Failed::Entry, path, why } => by.tell(path, Outcome::Unopened(why)),
            Met::Failed { path, why, .. } => by.tell(path, Outcome::Refused(why.into())),
            Met::Unserved | Met::Leave(_) => {}
        }
    }
}

/// Gives one object the entries that it inherits, and enters the object if it is a directory.
fn give<P: TreePath, A: Propagator<P>>(
    above: &SecurityDescriptor,
    (path, node): (P, Node),
    walk: &mut Walk<'_, P>,
    by: &mut A,
) {
    let outcome = match change(above, &path, &node, by) {
        Ok((outcome, permit, after)) => {
            let entered = match node.kind() {
                NodeKind::Directory => walk.enter_to_propagate(&permit, path.clone(), node, after),
                NodeKind::File => Ok(()),
            };
            entered.map_or_else(|why| Outcome::Refused(why.into()), |()| outcome)
        }
        Err(outcome) => outcome,
    };
    by.tell(path, outcome);
}

type Changed<E> = (Outcome<E>, PropagationPermit, SecurityDescriptor);

/// Changes the ACL of one object, if the new ACL differs from the old ACL. Also returns the new ACL. An error is the reason why the object and
/// everything beneath it keep their ACLs.
fn change<P, A: Propagator<P>>(
    above: &SecurityDescriptor,
    path: &P,
    node: &Node,
    by: &mut A,
) -> Result<Changed<A::Refusal>, Outcome<A::Refusal>> {
    let subject = node.subject();
    let before = subject.descriptor_to_inherit(node.acls()).map_err(Outcome::Damaged)?;
    let after = propagated(above, before.as_ref(), subject.kind).ok_or(Outcome::Protected)?;
    let permit = by.permit(path, &subject).map_err(Outcome::Refused)?;
    let has_that = subject.descriptor().map_err(Outcome::Damaged)?.as_ref() == Some(&after);
    let gets_none = subject.acl == StoredAcl::Absent && after.dacl.as_ref().is_none_or(Vec::is_empty);
    // If a user moves an object without an ACL, and the object inherits no entry, the object gets no ACL: its mode bits still decide. If the operator
    // propagates ACLs, such an object gets an ACL without entries, because the operator ordered that ACLs decide.
    if has_that || gets_none && !permit.is_operators() {
        return Ok((Outcome::Same, permit, after));
    }
    let blob = after.written(node.acls(), subject.owner()).map_err(Outcome::Inexpressible)?;
    if !by.is_dry_run() {
        write(&permit, node, &blob).map_err(|why| Outcome::Refused(why.into()))?;
    }
    Ok((Outcome::Changed, permit, after))
}

/// Writes the ACL of an object that inherited entries. If dead properties take too much space, the ACL does not fit. In this case, a propagation by
/// the operator removes the properties, because the new ACL can withdraw a right. If a user moves the object, the properties stay, because the move
/// withdraws no right.
fn write(permit: &PropagationPermit, node: &Node, blob: &[u8]) -> Result<(), Refusal> {
    node.covered_to_propagate(permit)?;
    let properties = if permit.is_operators() { Properties::GiveWay } else { Properties::Stay };
    acl_write::change_beside(node, blob, properties).map(drop)
}
