//! ACLs of whole trees: propagate, save, restore.

use crate::acls::{NewAcl, descriptor_of, find, read_acl};
use crate::desk::Desk;
use crate::error::Error;
use enfilade_access::{NodeKind, SecurityDescriptor, from_sddl, propagated, to_sddl};
use enfilade_content::{Listing, Node, OpenEntry, list_as_operator, set_acl_as_operator};
use enfilade_facts::vocabulary::{DatastoreName, StorePath};

/// The most open entries at once.
const BATCH: usize = 256;

/// The result of a propagation.
#[derive(Clone, Debug, Default)]
pub struct Spread {
    /// Objects whose ACL was changed, or would be.
    pub changed: u64,
    /// Objects that had the ACL already.
    pub same: u64,
    /// Protected objects: they and everything below them do not inherit.
    pub protected: Vec<String>,
    /// Objects that could not be changed, each with the reason.
    pub left: Vec<(String, String)>,
}

/// Called for each object with its path and the value of its directory. Returns the value for the objects below it, or `None` to skip
/// them.
type Each<'e, C> = &'e mut dyn FnMut(&str, &OpenEntry, &C) -> Result<Option<C>, Error>;

/// Walks everything below a directory, each directory before its members, and passes a value down.
fn walk<C>(top: &Node, path: &str, carried: C, each: Each<'_, C>) -> Result<(), Error> {
    if top.subject().kind == NodeKind::File {
        return Ok(());
    }
    let below = |node: &Node, path: String, carried: C| {
        Ok::<_, Error>(Level { listing: list_as_operator(node)?, path, carried, further: Vec::new() })
    };
    let mut levels = vec![below(top, path.to_owned(), carried)?];
    while let Some(level) = levels.last_mut() {
        if let Some((node, path, carried)) = level.further.pop() {
            levels.push(below(&node, path, carried)?);
            continue;
        }
        let batch = level.listing.next_open(BATCH)?;
        if batch.is_empty() {
            levels.pop();
            continue;
        }
        for entry in batch {
            let path = match level.path.as_str() {
                "" => entry.name.to_string(),
                above => format!("{above}/{}", entry.name),
            };
            let carried = each(&path, &entry, &level.carried)?;
            if let (Some(carried), NodeKind::Directory) = (carried, entry.subject.kind) {
                level.further.push((entry.node, path, carried));
            }
        }
    }
    Ok(())
}

/// A directory on the current path.
struct Level<C> {
    listing: Listing,
    path: String,
    carried: C,
    /// Its subdirectories to walk before its next entries.
    further: Vec<(Node, String, C)>,
}

/// The number of objects below a path.
///
/// # Errors
/// When the path does not exist, or a directory cannot be read.
pub fn count_beneath(desk: &Desk<'_>, datastore: &DatastoreName, path: &StorePath) -> Result<u64, Error> {
    let mut count = 0;
    walk(&find(desk, datastore, path)?, "", (), &mut |_, _, ()| {
        count += 1;
        Ok(Some(()))
    })?;
    Ok(count)
}

/// Replaces an ACL and propagates it to everything below: each object keeps its explicit entries, and its inherited entries are replaced.
/// Protected objects do not change. `seen` is called for each object. A dry run changes nothing.
///
/// # Errors
/// As for one ACL, and when a directory cannot be read; changes made before stay.
pub fn spread_acl(
    desk: &Desk<'_>,
    datastore: &DatastoreName,
    path: &StorePath,
    acl: &NewAcl,
    is_tried: bool,
    seen: &mut dyn FnMut(),
) -> Result<Spread, Error> {
    let top = find(desk, datastore, path)?;
    let descriptor = descriptor_of(desk.facts, acl, &top.subject(), top.acls())?;
    let mut spread = Spread::default();
    put(&top, &descriptor, is_tried, &mut spread)?;
    let base = if path.is_root() { String::new() } else { path.as_str().to_owned() };
    walk(&top, &base, descriptor, &mut |path, entry, above| {
        seen();
        let before = match entry.subject.descriptor_to_inherit(entry.node.acls()) {
            Ok(before) => before,
            Err(why) => {
                spread.left.push((path.to_owned(), format!("its ACL is damaged: {why}")));
                return Ok(None);
            }
        };
        let Some(after) = propagated(above, before.as_ref(), entry.subject.kind) else {
            spread.protected.push(path.to_owned());
            return Ok(None);
        };
        match put(&entry.node, &after, is_tried, &mut spread) {
            Ok(()) => Ok(Some(after)),
            Err(why) => {
                spread.left.push((path.to_owned(), why.to_string()));
                Ok(None)
            }
        }
    })?;
    Ok(spread)
}

fn put(node: &Node, after: &SecurityDescriptor, is_tried: bool, spread: &mut Spread) -> Result<(), Error> {
    if read_acl(&node.subject()).is_ok_and(|before| before.as_ref() == Some(after)) {
        spread.same += 1;
        return Ok(());
    }
    let blob = after.written(node.acls(), node.subject().owner());
    let blob = blob.map_err(|why| Error::Invalid(why.to_string()))?;
    if !is_tried {
        set_acl_as_operator(node, &blob)?;
    }
    spread.changed += 1;
    Ok(())
}

/// Passes on the ACLs of a path and of everything below it in SDDL, with an error for each unreadable ACL. Objects without an ACL are left
/// out.
///
/// # Errors
/// When the path does not exist, or a directory cannot be read.
pub fn save_acls(
    desk: &Desk<'_>,
    datastore: &DatastoreName,
    path: &StorePath,
    each: &mut dyn FnMut(&str, Result<String, String>),
) -> Result<(), Error> {
    let top = find(desk, datastore, path)?;
    let mut tell = |path: &str, node: &Node| match read_acl(&node.subject()) {
        Ok(None) => {}
        Ok(Some(descriptor)) => each(path, Ok(to_sddl(&descriptor))),
        Err(why) => each(path, Err(why)),
    };
    let base = if path.is_root() { String::new() } else { path.as_str().to_owned() };
    tell(if base.is_empty() { "/" } else { &base }, &top);
    walk(&top, &base, (), &mut |path, entry, ()| {
        tell(path, &entry.node);
        Ok(Some(()))
    })
}

/// Restores a saved ACL. Returns whether it changed.
///
/// # Errors
/// When the path no longer exists, or the ACL cannot be read or written.
pub fn restore_acl(
    desk: &Desk<'_>,
    datastore: &DatastoreName,
    path: &StorePath,
    sddl: &str,
) -> Result<bool, Error> {
    let node = find(desk, datastore, path)?;
    let after = from_sddl(sddl).map_err(|why| Error::Invalid(format!("`{sddl}`: {why}")))?;
    let mut spread = Spread::default();
    put(&node, &after, false, &mut spread)?;
    Ok(spread.changed > 0)
}
