//! Propagates, saves and restores the ACLs of whole trees.

use crate::change_context::ChangeContext;
use crate::error::Error;
use crate::object_acl::{NewAcl, descriptor_of, find, read_acl};
use enfilade_access::{
    NodeKind, PropagationBy, PropagationPermit, SecurityDescriptor, Subject, from_sddl, to_sddl,
};
use enfilade_content::{
    Member, Met, Node, Outcome, Propagator, TreeBudget, TreeWalk, propagate_acl_beneath, set_acl_as_operator,
};
use enfilade_facts::vocabulary::{DatastoreName, StorePath};

/// The result of a propagation.
#[derive(Clone, Debug, Default)]
pub struct Propagated {
    /// The number of objects with an ACL that was changed, or that would be changed (in a dry run).
    pub changed: u64,
    /// The number of objects that had the ACL already.
    pub same: u64,
    /// Protected objects. They inherit nothing from above, so neither they nor the objects below them were changed.
    pub protected: Vec<String>,
    /// Objects that could not be changed, each with the reason.
    pub left: Vec<(String, String)>,
}

/// The number of objects below a path.
///
/// # Errors
/// When the path does not exist, or a directory cannot be read.
pub fn count_beneath(
    ctx: &ChangeContext<'_>,
    datastore: &DatastoreName,
    path: &StorePath,
) -> Result<u64, Error> {
    let (top, budget, mut count) = (find(ctx, datastore, path)?, TreeBudget::unlimited(), 0);
    let mut walk = TreeWalk::begin(&budget);
    if top.kind() == NodeKind::Directory {
        walk.enter_as_operator(String::new(), top, ())?;
    }
    while let Some((directory, entry)) = walk.next_unopened()? {
        count += 1;
        if entry.kind == NodeKind::Directory {
            // A directory that cannot be opened is reported by the command that follows the count.
            let _ = walk.enter_unopened(&directory, &entry, ());
        }
    }
    Ok(count)
}

/// The number of entries in a directory, counted up to a bound; 0 for a file.
///
/// # Errors
/// As [`count_beneath`].
pub fn count_entries(
    ctx: &ChangeContext<'_>,
    datastore: &DatastoreName,
    path: &StorePath,
    most: u64,
) -> Result<u64, Error> {
    let (top, budget, mut count) = (find(ctx, datastore, path)?, TreeBudget::unlimited(), 0);
    let mut walk = TreeWalk::begin(&budget);
    if top.kind() == NodeKind::Directory {
        walk.enter_as_operator(String::new(), top, ())?;
    }
    while count < most && walk.next_unopened()?.is_some() {
        count += 1;
    }
    Ok(count)
}

/// Replaces an ACL and propagates it to everything below: each object keeps its explicit entries, and its inherited entries are replaced. Protected
/// objects do not change. To show progress, `seen` is called for each object that the tree walk finds below the path. A dry run changes nothing.
///
/// # Errors
/// As [`set_acl`](crate::set_acl). Objects below the path that cannot be changed are in the result.
pub fn propagate_acl(
    ctx: &ChangeContext<'_>,
    datastore: &DatastoreName,
    path: &StorePath,
    acl: &NewAcl,
    is_dry_run: bool,
    seen: &mut dyn FnMut(),
) -> Result<Propagated, Error> {
    let top = find(ctx, datastore, path)?;
    let descriptor = descriptor_of(ctx.facts, acl, &top.subject(), top.acls())?;
    let mut command = Command { propagated: Propagated::default(), is_dry_run, seen };
    put(&top, &descriptor, is_dry_run, &mut command.propagated)?;
    let (top, budget) = ((base(path), top), TreeBudget::unlimited());
    propagate_acl_beneath(descriptor, top, &budget, &mut command);
    Ok(command.propagated)
}

/// The path of a tree, as a prefix for the paths of the objects below it; empty for the root.
fn base(path: &StorePath) -> String {
    if path.is_root() { String::new() } else { path.as_str().to_owned() }
}

/// A command that propagates an ACL.
struct Command<'c> {
    propagated: Propagated,
    is_dry_run: bool,
    seen: &'c mut dyn FnMut(),
}

impl Propagator<String> for Command<'_> {
    type Refusal = Error;

    fn permit(&mut self, _: &String, subject: &Subject) -> Result<PropagationPermit, Error> {
        Ok(PropagationPermit::new(PropagationBy::Operator(subject.object)))
    }

    fn tell(&mut self, path: String, outcome: Outcome<Error>) {
        (self.seen)();
        let why = match outcome {
            Outcome::Changed => return self.propagated.changed += 1,
            Outcome::Same => return self.propagated.same += 1,
            Outcome::Protected => return self.propagated.protected.push(path),
            Outcome::Damaged(why) => format!("the ACL is damaged: {why}"),
            Outcome::Inexpressible(why) => why.to_string(),
            Outcome::Refused(why) => why.to_string(),
            Outcome::Unopened(why) => why.to_string(),
        };
        self.propagated.left.push((path, why));
    }

    fn is_dry_run(&self) -> bool {
        self.is_dry_run
    }
}

fn put(
    node: &Node,
    after: &SecurityDescriptor,
    is_dry_run: bool,
    propagated: &mut Propagated,
) -> Result<(), Error> {
    if read_acl(&node.subject()).is_ok_and(|before| before.as_ref() == Some(after)) {
        propagated.same += 1;
        return Ok(());
    }
    let blob = after.written(node.acls(), node.subject().owner());
    let blob = blob.map_err(|why| Error::Invalid(why.to_string()))?;
    if !is_dry_run {
        set_acl_as_operator(node, &blob)?;
    }
    propagated.changed += 1;
    Ok(())
}

/// Calls `each` with the ACL of the path and of every object below it, in SDDL, or with an error if an ACL is unreadable. Objects without an ACL are
/// left out. Symbolic links and other entries that are never served, and entries with too long paths, are left out, too.
///
/// # Errors
/// When the path does not exist, or a directory cannot be read.
pub fn save_acls(
    ctx: &ChangeContext<'_>,
    datastore: &DatastoreName,
    path: &StorePath,
    each: &mut dyn FnMut(&str, Result<String, String>),
) -> Result<(), Error> {
    let top = find(ctx, datastore, path)?;
    let (base, budget) = (base(path), TreeBudget::unlimited());
    save_one(if base.is_empty() { "/" } else { &base }, &top, each);
    let mut walk = TreeWalk::begin(&budget);
    if top.kind() == NodeKind::Directory {
        walk.enter_as_operator(base, top, ())?;
    }
    while let Some((_, met)) = walk.next() {
        match met {
            Met::Member(Member { path, node, .. }) => {
                save_one(&path, &node, each);
                if node.kind() == NodeKind::Directory {
                    walk.enter_as_operator(path, node, ())?;
                }
            }
            Met::Failed { path, why, .. } => each(&path, Err(format!("cannot be read: {why}"))),
            Met::TooLong(_) | Met::Unserved | Met::Leave(_) => {}
        }
    }
    Ok(())
}

fn save_one(path: &str, node: &Node, each: &mut dyn FnMut(&str, Result<String, String>)) {
    match read_acl(&node.subject()) {
        Ok(None) => {}
        Ok(Some(descriptor)) => each(path, Ok(to_sddl(&descriptor))),
        Err(why) => each(path, Err(why)),
    }
}

/// Restores a saved ACL. Returns whether the ACL of the object changed. If the object has an invalid ACL, the invalid ACL is replaced.
///
/// # Errors
/// When the path does not exist or cannot be opened, `sddl` is malformed, or the ACL cannot be written.
pub fn restore_acl(
    ctx: &ChangeContext<'_>,
    datastore: &DatastoreName,
    path: &StorePath,
    sddl: &str,
) -> Result<bool, Error> {
    let node = find(ctx, datastore, path)?;
    let after = from_sddl(sddl).map_err(|why| Error::Invalid(format!("`{sddl}`: {why}")))?;
    let mut propagated = Propagated::default();
    put(&node, &after, false, &mut propagated)?;
    Ok(propagated.changed > 0)
}
