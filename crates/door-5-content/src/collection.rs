//! Makes directories, and deletes entries of directories.

use crate::abandoned::{self, Cleared};
use crate::acl_write;
use crate::emptying::empty;
use crate::node::{Node, entry_name};
use crate::refuse::Refusal;
use crate::temporary::{Temporary, removal};
use enfilade_access::{AccessPermit, Inheritance, NodeKind};
use enfilade_facts::vocabulary::AccessMask;
use rustix::fs::unlinkat;
use rustix::io::{self, Errno};

/// Makes a directory with this name, ACL and owner. The directory is never visible without its ACL and owner. `judge` is the caller's last check; it
/// runs under the mutex for name changes, before the directory gets its name. `still_there` checks that the parent directory is still at its path.
/// `still_there` is called under the same mutex, after the new directory got its name. If `still_there` refuses, the new directory is removed again.
/// Exception: if the new directory is no longer empty, it stays, and the call succeeds.
///
/// # Refuses
/// [`Refusal::Exists`] when the name is taken, [`Refusal::AclNotWritable`] when the ACL cannot be stored, and the refusals of `judge` and
/// `still_there`.
pub fn make_collection<E: From<Refusal>>(
    permit: &AccessPermit,
    directory: &Node,
    name: &str,
    from_start: &Inheritance,
    judge: impl FnOnce() -> Result<(), E>,
    still_there: impl FnOnce() -> Result<(), Refusal>,
) -> Result<Node, E> {
    directory.covered(permit, AccessMask::ADD_SUBDIRECTORY)?;
    make(directory, name, from_start, judge, still_there)
}

/// Deletes `target`, a file or an empty directory with this name. `judge` is the caller's last check. `judge` runs under the mutex for name changes,
/// right before the deletion. If a directory is not empty, abandoned uploads and copies in it are removed, and the deletion is tried once more; then
/// `judge` runs twice.
///
/// # Refuses
/// [`Refusal::ChangedMeanwhile`] when `target` no longer has the name. [`Refusal::NotEmpty`] for a directory that contains anything other than
/// uploads and copies, even an entry that no listing shows. [`Refusal::Uploading`] if the directory contains an upload or copy of a running process.
/// Also the refusals of `judge`.
pub fn delete<E: From<Refusal>>(
    permit: &AccessPermit,
    directory: &Node,
    name: &str,
    target: &Node,
    judge: impl FnMut() -> Result<(), E>,
) -> Result<(), E> {
    target.covered(permit, AccessMask::DELETE)?;
    remove(directory, name, target, judge)
}

/// [`make_collection`] without the check of the permit.
pub(crate) fn make<E: From<Refusal>>(
    directory: &Node,
    name: &str,
    from_start: &Inheritance,
    judge: impl FnOnce() -> Result<(), E>,
    still_there: impl FnOnce() -> Result<(), Refusal>,
) -> Result<Node, E> {
    directory.needs(NodeKind::Directory, "making a directory")?;
    if directory.entry(entry_name(name)?)?.is_some() {
        return Err(Refusal::Exists(name.to_owned()).into());
    }
    let (mut temporary, made) = Temporary::directory(directory)?;
    acl_write::apply_initial_acl(&made, from_start)?;
    made.sync()?;
    {
        let turn = directory.turn().take();
        judge()?;
        turn.may_change(directory, name)?;
        temporary.become_new_if(name, &made, still_there)?;
    }
    directory.sync()?;
    Ok(made.again()?)
}

/// [`delete`] without the check of the permit.
pub(crate) fn remove<E: From<Refusal>>(
    directory: &Node,
    name: &str,
    target: &Node,
    mut judge: impl FnMut() -> Result<(), E>,
) -> Result<(), E> {
    directory.needs(NodeKind::Directory, "deleting an entry")?;
    entry_name(name)?;
    let mut removed = remove_entry(directory, name, target, &mut judge)?;
    if target.kind() == NodeKind::Directory && matches!(removed, Err(Refusal::NotEmpty(_))) {
        match abandoned::clear(target)? {
            Cleared { is_in_use: true, .. } => return Err(Refusal::Uploading(name.to_owned()).into()),
            Cleared { removed: 0, .. } => {}
            Cleared { .. } => removed = remove_entry(directory, name, target, &mut judge)?,
        }
    }
    removed?;
    Ok(directory.sync()?)
}

fn remove_entry<E: From<Refusal>>(
    directory: &Node,
    name: &str,
    target: &Node,
    judge: &mut impl FnMut() -> Result<(), E>,
) -> Result<Result<(), Refusal>, E> {
    let turn = directory.turn().take();
    judge()?;
    turn.may_change(directory, name)?;
    directory.still_is(name, target)?;
    let removed = io::retry_on_intr(|| unlinkat(directory.fd(), name, removal(target.kind())));
    Ok(removed.map_err(|errno| match errno {
        Errno::NOTEMPTY | Errno::EXIST => Refusal::NotEmpty(name.to_owned()),
        Errno::NOENT | Errno::ISDIR | Errno::NOTDIR => Refusal::ChangedMeanwhile(name.to_owned()),
        errno => Refusal::io(errno, "deleting", name),
    }))
}

/// Removes an object with everything in it. The object already has a reserved name, which no request can contain.
pub(crate) fn removal_of_tree(temporary: Temporary, node: &Node) -> Result<(), Refusal> {
    if node.kind() == NodeKind::Directory {
        empty(node.fd()).map_err(|errno| Refusal::io(errno, "removing the content of", &node.label()))?;
    }
    drop(temporary);
    Ok(())
}
