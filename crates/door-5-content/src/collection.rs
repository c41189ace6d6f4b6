//! Making directories, and deleting what is in them.

use crate::acl;
use crate::node::{Node, entry_name};
use crate::refuse::Refusal;
use crate::temporary::{Temporary, removal};
use enfilade_access::{AccessPermit, Inheritance, NodeKind};
use enfilade_facts::vocabulary::AccessMask;
use rustix::fs::unlinkat;
use rustix::io::{self, Errno};

/// Makes a directory of that name, with that ACL and owner; it is never seen without.
///
/// # Refuses
/// [`Refusal::Exists`] when the name is taken, [`Refusal::AclNotWritable`] when the ACL cannot be kept.
pub fn make_collection(
    permit: &AccessPermit,
    directory: &Node,
    name: &str,
    from_start: &Inheritance,
) -> Result<Node, Refusal> {
    directory.covered(permit, AccessMask::ADD_SUBDIRECTORY)?;
    make(directory, name, from_start)
}

/// Deletes `target`, a file or an empty directory, which has that name.
///
/// # Refuses
/// [`Refusal::ChangedMeanwhile`] when the name is no longer `target`'s, [`Refusal::NotEmpty`] for a directory that holds
/// anything, be it something nobody is shown.
pub fn delete(permit: &AccessPermit, directory: &Node, name: &str, target: &Node) -> Result<(), Refusal> {
    target.covered(permit, AccessMask::DELETE)?;
    remove(directory, name, target)
}

/// The work of [`make_collection`].
pub(crate) fn make(directory: &Node, name: &str, from_start: &Inheritance) -> Result<Node, Refusal> {
    directory.needs(NodeKind::Directory, "making a directory")?;
    if directory.entry(entry_name(name)?)?.is_some() {
        return Err(Refusal::Exists(name.to_owned()));
    }
    let (temporary, made) = Temporary::directory(directory)?;
    acl::bestow(&made, from_start)?;
    made.sync()?;
    {
        let _turn = directory.turn().take();
        temporary.become_new(name)?;
    }
    directory.sync()?;
    made.again()
}

/// The work of [`delete`].
pub(crate) fn remove(directory: &Node, name: &str, target: &Node) -> Result<(), Refusal> {
    directory.needs(NodeKind::Directory, "deleting an entry")?;
    entry_name(name)?;
    {
        let _turn = directory.turn().take();
        directory.still_is(name, target)?;
        let removed = io::retry_on_intr(|| unlinkat(directory.fd(), name, removal(target.kind())));
        removed.map_err(|errno| match errno {
            Errno::NOTEMPTY | Errno::EXIST => Refusal::NotEmpty(name.to_owned()),
            Errno::NOENT | Errno::ISDIR | Errno::NOTDIR => Refusal::ChangedMeanwhile(name.to_owned()),
            errno => Refusal::io(errno, "deleting", name),
        })?;
    }
    directory.sync()
}
