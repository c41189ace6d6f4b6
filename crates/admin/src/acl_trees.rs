//! ACLs of whole trees: handed on anew from above, saved, and put back.

use crate::acls::{NewAcl, descriptor_of, find, read_acl};
use crate::desk::Desk;
use crate::error::Error;
use enfilade_access::{NodeKind, SecurityDescriptor, from_sddl, propagated, to_sddl};
use enfilade_content::{Listing, Node, OpenEntry, list_as_operator, set_acl_as_operator};
use enfilade_facts::vocabulary::{DatastoreName, StorePath};

/// So many entries are open at once.
const BATCH: usize = 256;

/// What became of a tree.
#[derive(Clone, Debug, Default)]
pub struct Spread {
    /// Objects whose ACL was changed, or would be.
    pub changed: u64,
    /// Objects whose ACL was that already.
    pub same: u64,
    /// Objects that are protected from what is above, with everything below them.
    pub protected: Vec<String>,
    /// Objects that were left as they are, and why.
    pub left: Vec<(String, String)>,
}

/// Hears of an object, by its path, with what is carried; says what is carried further down, or that nothing beneath it is meant.
type Each<'e, C> = &'e mut dyn FnMut(&str, &OpenEntry, &C) -> Result<Option<C>, Error>;

/// Everything beneath a directory, each directory before what is in it, with something that is carried down.
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

/// A directory on the way down.
struct Level<C> {
    listing: Listing,
    path: String,
    carried: C,
    /// Directories in it that come before its next entries.
    further: Vec<(Node, String, C)>,
}

/// How many objects are beneath a path.
///
/// # Errors
/// When the path is not there, or a directory cannot be read.
pub fn count_beneath(desk: &Desk<'_>, datastore: &DatastoreName, path: &StorePath) -> Result<u64, Error> {
    let mut count = 0;
    walk(&find(desk, datastore, path)?, "", (), &mut |_, _, ()| {
        count += 1;
        Ok(Some(()))
    })?;
    Ok(count)
}

/// Replaces an ACL, and hands it on to everything beneath: each object keeps its own entries, and what it inherited it inherits anew. What
/// is protected stays as it is. `seen` hears of each object; where it is only tried, nothing is changed.
///
/// # Errors
/// As for one ACL, and when a directory cannot be read; what was changed before that stays changed.
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

/// Tells the ACL of a path and of everything beneath it, in SDDL; what has none is not told of. What cannot be read is named.
///
/// # Errors
/// When the path is not there, or a directory cannot be read.
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

/// Puts an ACL back that was saved. Says whether it was another one.
///
/// # Errors
/// When there is nothing at the path any more, or the ACL cannot be read or written.
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
