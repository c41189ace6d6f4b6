//! Another name for what is there, and copies of it. What was at the new name is gone only once the new is in its place.

use crate::collection::removal_of_tree;
use crate::node::{Node, entry_name};
use crate::properties;
use crate::read::Reader;
use crate::refuse::Refusal;
use crate::temporary::Temporary;
use crate::upload::Upload;
use enfilade_access::{AccessPermit, Inheritance, NodeKind};
use enfilade_facts::vocabulary::AccessMask;
use rustix::fs::{RenameFlags, renameat_with};
use rustix::io::{self, Errno};

/// Where something is: its directory and its name there.
#[derive(Clone, Copy, Debug)]
pub struct At<'a> {
    /// The directory.
    pub directory: &'a Node,
    /// The name.
    pub name: &'a str,
}

/// Gives `target` another name; `replaced`, what has that name now, is gone afterwards, with everything in it.
///
/// # Refuses
/// [`Refusal::ChangedMeanwhile`] when a name is no longer what it was, [`Refusal::Exists`] when the new one is taken.
pub fn rename(
    (permit, target, from): (&AccessPermit, &Node, At<'_>),
    (making, to): (&AccessPermit, At<'_>),
    replaced: Option<(&AccessPermit, &Node)>,
) -> Result<(), Refusal> {
    entry_name(from.name)?;
    target.covered(permit, AccessMask::DELETE)?;
    to.directory.covered(making, right_to_make(target.kind()))?;
    if let Some((permit, replaced)) = replaced {
        replaced.covered(permit, AccessMask::DELETE)?;
    }
    relocate(target, from, to, replaced.map(|(_, node)| node))
}

fn right_to_make(kind: NodeKind) -> AccessMask {
    match kind {
        NodeKind::File => AccessMask::ADD_FILE,
        NodeKind::Directory => AccessMask::ADD_SUBDIRECTORY,
    }
}

/// The work of [`rename`].
pub(crate) fn relocate(
    target: &Node,
    from: At<'_>,
    to: At<'_>,
    replaced: Option<&Node>,
) -> Result<(), Refusal> {
    entry_name(to.name)?;
    let rename = |flags| {
        let (here, there) = (from.directory.fd(), to.directory.fd());
        io::retry_on_intr(|| renameat_with(here, from.name, there, to.name, flags))
    };
    let left_over = {
        let _turn = target.turn().take();
        from.directory.still_is(from.name, target)?;
        match replaced {
            None => {
                rename(RenameFlags::NOREPLACE).map_err(|errno| refused(errno, to.name))?;
                None
            }
            Some(replaced) => {
                to.directory.still_is(to.name, replaced)?;
                match (target.kind(), replaced.kind()) {
                    (NodeKind::File, NodeKind::File) => {
                        rename(RenameFlags::empty()).map_err(|errno| refused(errno, to.name))?;
                        None
                    }
                    // Both are there at every moment; what is replaced then has the name that is to go.
                    _ => {
                        rename(RenameFlags::EXCHANGE).map_err(|errno| refused(errno, to.name))?;
                        Some(Temporary::take_over(from.directory, from.name, replaced)?)
                    }
                }
            }
        }
    };
    to.directory.sync()?;
    if from.directory.object() != to.directory.object() {
        from.directory.sync()?;
    }
    if let (Some(left_over), Some(replaced)) = (left_over, replaced) {
        removal_of_tree(left_over, replaced)?;
    }
    Ok(())
}

fn refused(errno: Errno, name: &str) -> Refusal {
    match errno {
        Errno::EXIST | Errno::NOTEMPTY => Refusal::Exists(name.to_owned()),
        // Into itself.
        Errno::INVAL => Refusal::WithinItself,
        Errno::NOENT | Errno::ISDIR | Errno::NOTDIR => Refusal::ChangedMeanwhile(name.to_owned()),
        errno => Refusal::io(errno, "renaming to", name),
    }
}

/// A copy under way, which nobody sees before it is whole. Dropped before it has its name, it leaves nothing behind.
#[derive(Debug)]
pub struct Draft {
    directory: Option<Temporary>,
    node: Node,
}

impl Draft {
    /// Begins a directory that is to be in `directory`, with what it has from there; it is filled as any other.
    ///
    /// # Refuses
    /// [`Refusal::AclNotWritable`] when its ACL cannot be kept.
    pub fn begin(
        permit: &AccessPermit,
        directory: &Node,
        from_start: &Inheritance,
    ) -> Result<Draft, Refusal> {
        directory.covered(permit, AccessMask::ADD_SUBDIRECTORY)?;
        directory.needs(NodeKind::Directory, "making a directory")?;
        let (temporary, node) = Temporary::directory(directory)?;
        crate::acl::bestow(&node, from_start)?;
        Ok(Draft { directory: Some(temporary), node })
    }

    /// The directory it is going to be.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Gives it its name; `replaced`, what has that name now, is gone afterwards, with everything in it.
    ///
    /// # Refuses
    /// As [`rename`].
    pub fn finish(mut self, name: &str, replaced: Option<(&AccessPermit, &Node)>) -> Result<(), Refusal> {
        if let Some((permit, replaced)) = replaced {
            replaced.covered(permit, AccessMask::DELETE)?;
        }
        self.node.sync()?;
        let Some(temporary) = self.directory.take() else { return Ok(()) };
        let directory = temporary.place().clone();
        if let Some((_, replaced)) = replaced {
            let from = At { directory: &directory, name: temporary.name() };
            let done = relocate(&self.node, from, At { directory: &directory, name }, Some(replaced));
            if done.is_err() {
                // It is removed with everything in it.
                self.directory = Some(temporary);
            }
            return done;
        }
        {
            let _turn = directory.turn().take();
            temporary.become_new(name)?;
        }
        directory.sync()
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(temporary) = self.directory.take() {
            let _ = removal_of_tree(temporary, &self.node);
        }
    }
}

/// Copies what people put on an object beside its content.
///
/// # Refuses
/// [`Refusal::Io`] when it cannot be read or written.
pub fn copy_properties(from: &Node, to: &Node) -> Result<(), Refusal> {
    properties::copy(from, to)
}

impl Upload {
    /// Takes the properties of what it is a copy of, too.
    ///
    /// # Refuses
    /// [`Refusal::Io`] when they cannot be read or written.
    pub fn copy_properties(&self, reader: &Reader) -> Result<(), Refusal> {
        properties::copy(reader.node(), self.file())
    }

    /// Gives the file its name once every byte is on the disk; `replaced`, what has that name now, is gone afterwards, with everything in
    /// it.
    ///
    /// # Refuses
    /// As [`rename`].
    pub fn finish_instead(self, (permit, replaced): (&AccessPermit, &Node)) -> Result<(), Refusal> {
        replaced.covered(permit, AccessMask::DELETE)?;
        self.file().sync()?;
        let directory = self.temporary().place().clone();
        let from = At { directory: &directory, name: self.temporary().name() };
        relocate(self.file(), from, At { directory: &directory, name: self.name() }, Some(replaced))
    }
}
