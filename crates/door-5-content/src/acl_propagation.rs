//! The one propagation of ACLs through a tree: `acl set --recursive`, and MOVE in a datastore with `--moves inherit`.
//!
//! Each object keeps its own entries, and gets those that its directory gives it now (`door-4-access/src/acl_inheritance.rs`). A protected object
//! keeps its ACL, with everything beneath it; so does an object that may not or cannot be changed.

use crate::acl_write::{self, Properties};
use crate::node::Node;
use crate::refuse::Refusal;
use crate::tree_walk::{Failed, Member, Met, TreeBudget, TreePath, TreeWalk};
use enfilade_access::{
    BadAcl, NodeKind, PropagationPermit, SecurityDescriptor, StoredAcl, Subject, propagated,
};

/// The caller on whose behalf ACLs are propagated.
pub trait Propagator<P> {
    /// The reason why the caller may not change an object.
    type Refusal: From<Refusal>;

    /// The permit to change the inherited entries of an object.
    ///
    /// # Errors
    /// The reason of the refusal; the object and everything beneath it keep their ACLs.
    fn permit(&mut self, path: &P, subject: &Subject) -> Result<PropagationPermit, Self::Refusal>;

    /// Receives the outcome for each object, and for what could not be reached.
    fn tell(&mut self, path: P, outcome: Outcome<Self::Refusal>);

    /// Whether nothing is written.
    fn is_dry_run(&self) -> bool {
        false
    }
}

/// The outcome for one object.
#[derive(Debug)]
pub enum Outcome<E> {
    /// Its ACL was changed, or would be.
    Changed,
    /// It had that ACL already.
    Same,
    /// It is protected from what its directory gives.
    Protected,
    /// Its ACL cannot be believed.
    Damaged(BadAcl),
    /// The dialect cannot express what the ACL would be.
    Inexpressible(BadAcl),
    /// It was refused, or failed.
    Refused(E),
    /// An entry that cannot be opened. Whether its path may be told was not judged.
    Unopened(Refusal),
}

type Walk<'b, P> = TreeWalk<'b, P, SecurityDescriptor>;

/// Gives an object what it inherits from `above`, the ACL of its directory, and then everything beneath it.
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

/// Gives everything in a directory what it inherits from the directory. `descriptor` is the directory's ACL, or what that would be.
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

/// Gives one object what it inherits, and enters it if it is a directory.
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

/// Changes the ACL of one object, where that differs; also returns the ACL that it has now. An error says why the object and all beneath it stay as
/// they are.
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
    // Where the mode bits decide and nothing is inherited, they go on deciding, unless an operator propagates: the operator said that ACLs are to
    // decide.
    if has_that || gets_none && !permit.is_operators() {
        return Ok((Outcome::Same, permit, after));
    }
    let blob = after.written(node.acls(), subject.owner()).map_err(Outcome::Inexpressible)?;
    if !by.is_dry_run() {
        write(&permit, node, &blob).map_err(|why| Outcome::Refused(why.into()))?;
    }
    Ok((Outcome::Changed, permit, after))
}

/// Writes what an object inherits. An operator may withdraw a right with it, so dead properties give way to it. A user who moves something
/// withdraws none, so they stay.
fn write(permit: &PropagationPermit, node: &Node, blob: &[u8]) -> Result<(), Refusal> {
    node.covered_to_propagate(permit)?;
    let properties = if permit.is_operators() { Properties::GiveWay } else { Properties::Stay };
    acl_write::change_beside(node, blob, properties).map(drop)
}
