//! Renames objects, and gives copies their final names. If another object had the new name before, that object is replaced. If a file is renamed over
//! a file, the rename removes the replaced file at once. Any other replaced object is removed last. The order is: the new object gets the name, the
//! caller judges the whole replaced object once more, and then the replaced object is removed.

use crate::collection::removal_of_tree;
use crate::node::{Node, entry_name};
use crate::properties;
use crate::read::Reader;
use crate::refuse::Refusal;
use crate::temporary::{Temporary, lock, removal, unlock};
use crate::tree::ReservedNames;
use crate::upload::Upload;
use enfilade_access::{AccessPermit, Inheritance, NodeKind};
use enfilade_facts::vocabulary::AccessMask;
use rustix::fs::{RenameFlags, renameat_with, unlinkat};
use rustix::io::{self, Errno};

/// How many names are tried for an object that cannot get its own name back.
const NAMES_MAX: usize = 100;

/// The place of an entry: a directory, and a name in it.
#[derive(Clone, Copy, Debug)]
pub struct EntryRef<'a> {
    /// The directory.
    pub directory: &'a Node,
    /// The name.
    pub name: &'a str,
}

/// An object that has got a new name. The rename may have replaced another object. If the rename itself did not remove the replaced object, the
/// replaced object is kept under a reserved name until [`Relocated::complete`]. No request can reach an object with a reserved name.
#[derive(Debug)]
#[must_use = "the replaced object is kept until `complete` or `take_back` is called"]
pub struct Relocated {
    target: Node,
    /// The directory and name that `target` had before the rename, if it had a name.
    from: Option<(Node, String)>,
    to: (Node, String),
    replaced: Option<(Temporary, Node)>,
    still_there: Result<(), Refusal>,
    /// The reservation of the old and the new name. While the names are reserved, the object can get its old name again.
    reserved: Option<ReservedNames>,
}

impl Relocated {
    /// Returns the result of a check that was made right after the object got its name: whether the directory that contains the name was still at its
    /// path. A change that replaced a file, or that removed one of two names of the same file, cannot be undone. After such a change the check is not
    /// made, and the result is `Ok`.
    ///
    /// # Refuses
    /// The refusal of the check, if the directory was no longer at its path.
    pub fn still_there(&self) -> Result<(), Refusal> {
        self.still_there.clone()
    }

    /// Removes the replaced object, with everything in it. If the removal fails, the object keeps its reserved name, and is removed later as an
    /// abandoned object.
    pub fn complete(self) {
        drop(self.reserved);
        if let Some((temporary, replaced)) = self.replaced {
            let _ = removal_of_tree(temporary, &replaced);
        }
    }

    /// Undoes the change: afterwards, every name leads to the same object as before the change. If another process took one of the names meanwhile,
    /// the new object keeps its name. In this case, the replaced object (if there is one) gets a free name in the same directory, and this name is
    /// returned.
    ///
    /// # Refuses
    /// [`Refusal::ChangedMeanwhile`] when no object was replaced, and another process took one of the names; [`Refusal::Exists`] when no free name
    /// was found for the replaced object, which then keeps its reserved name; [`Refusal::Io`] when the kernel refuses.
    pub fn take_back(self) -> Result<Option<String>, Refusal> {
        // The names stay reserved until this thread has unlocked the mutex for name changes.
        let Relocated { target, from, to: (directory, name), replaced, reserved: _reserved, .. } = self;
        let turn = directory.turn();
        let _turn = turn.take();
        let is_free = match &from {
            // A name that cannot be looked up counts as taken.
            Some((from, name)) => matches!(from.entry(name), Ok(None)),
            None => true,
        };
        let can_go_back = is_free && directory.still_is(&name, &target).is_ok();
        let refuse = |errno| Refusal::io(errno, "renaming", &name);
        match (replaced, from) {
            (Some((mut temporary, replaced)), from) => {
                // From here on the object under the reserved name is not removed, even if a later step fails. The reason: the object belongs to the
                // content of the datastore, and no other copy of the object exists.
                temporary.keep();
                let (at, nodes) = ((&directory, name.as_str()), (&target, &replaced));
                if !can_go_back || go_back(&mut temporary, at, nodes, from.as_ref()).is_err() {
                    return keep_beside(temporary, &replaced, &directory, &name).map(Some);
                }
                directory.sync()?;
                match from {
                    Some((from, _)) => from.sync()?,
                    None => removal_of_tree(temporary.let_go(), &target)?,
                }
                Ok(None)
            }
            (None, Some((from, old))) if can_go_back => {
                let back = || renameat_with(directory.fd(), &*name, from.fd(), &*old, RenameFlags::NOREPLACE);
                io::retry_on_intr(back).map_err(refuse)?;
                directory.sync()?;
                from.sync()?;
                Ok(None)
            }
            (None, None) if can_go_back => {
                lock(&target);
                removal_of_tree(Temporary::take_over(&directory, &name, &target)?, &target)?;
                Ok(None)
            }
            (None, _) => Err(Refusal::ChangedMeanwhile(name)),
        }
    }
}

/// Gives the replaced object its name again. Also gives the new object its old name, if it had a name before. If the new object cannot get its old
/// name, both objects keep their present names.
fn go_back(
    temporary: &mut Temporary,
    (directory, name): (&Node, &str),
    (target, replaced): (&Node, &Node),
    from: Option<&(Node, String)>,
) -> Result<(), Refusal> {
    let refuse = |errno| Refusal::io(errno, "renaming", name);
    lock(target);
    temporary.exchange(directory, name, target.kind()).map_err(refuse)?;
    if let Some((_, old)) = from {
        if let Err(why) = temporary.become_new(old) {
            temporary.exchange(directory, name, replaced.kind()).map_err(refuse)?;
            unlock(target);
            return Err(why);
        }
        unlock(target);
    }
    unlock(replaced);
    Ok(())
}

/// Gives the replaced object a free name in the directory of the new object, and returns the name.
fn keep_beside(
    mut temporary: Temporary,
    replaced: &Node,
    directory: &Node,
    name: &str,
) -> Result<String, Refusal> {
    for free in free_names(name) {
        match temporary.move_to(directory, &free) {
            Ok(()) => {
                unlock(replaced);
                directory.sync()?;
                return Ok(free);
            }
            Err(Errno::EXIST | Errno::NAMETOOLONG) => {}
            Err(errno) => return Err(Refusal::io(errno, "renaming", name)),
        }
    }
    Err(Refusal::Exists(name.to_owned()))
}

/// The names that are tried for an object: the name itself, and then similar names.
fn free_names(name: &str) -> impl Iterator<Item = String> {
    let short: String = name.chars().take(100).collect();
    std::iter::once(name.to_owned()).chain((1..NAMES_MAX).map(move |n| format!("{short} (kept {n})")))
}

/// Gives `target` another name. `replaced` is the object that has the new name now, and loses the name. `judge` is the caller's last check, right
/// before the names change. Right after a change that can be undone, `still_there` is called ([`Relocated::still_there`]), before another thread can
/// change names.
///
/// # Refuses
/// [`Refusal::ChangedMeanwhile`] when a name no longer leads to the expected object, [`Refusal::Exists`] when the new name is taken,
/// [`Refusal::WithinItself`] when a directory would be moved into itself; and the refusals of `judge`.
pub fn rename<E: From<Refusal>>(
    (permit, target, from): (&AccessPermit, &Node, EntryRef<'_>),
    (making, to): (&AccessPermit, EntryRef<'_>),
    replaced: Option<(&AccessPermit, &Node)>,
    judge: impl FnOnce() -> Result<(), E>,
    still_there: impl FnOnce() -> Result<(), Refusal>,
) -> Result<Relocated, E> {
    target.covered(permit, AccessMask::DELETE)?;
    to.directory.covered(making, right_to_make(target.kind()))?;
    if let Some((permit, replaced)) = replaced {
        replaced.covered(permit, AccessMask::DELETE)?;
    }
    relocate(target, from, to, replaced.map(|(_, node)| node), judge, still_there)
}

pub(crate) fn right_to_make(kind: NodeKind) -> AccessMask {
    match kind {
        NodeKind::File => AccessMask::ADD_FILE,
        NodeKind::Directory => AccessMask::ADD_SUBDIRECTORY,
    }
}

/// Does the same as [`rename`], but does not check the permits.
pub(crate) fn relocate<E: From<Refusal>>(
    target: &Node,
    from: EntryRef<'_>,
    to: EntryRef<'_>,
    replaced: Option<&Node>,
    judge: impl FnOnce() -> Result<(), E>,
    still_there: impl FnOnce() -> Result<(), Refusal>,
) -> Result<Relocated, E> {
    entry_name(from.name)?;
    entry_name(to.name)?;
    let (hidden, still_there, reserved) = {
        let mut turn = target.turn().take();
        judge()?;
        turn.may_change(from.directory, from.name)?;
        turn.may_change(to.directory, to.name)?;
        from.directory.still_is(from.name, target)?;
        if let Some(replaced) = replaced {
            to.directory.still_is(to.name, replaced)?;
        }
        let hidden = change_names(target, from, to, replaced)?;
        // A change that replaced a file, or that removed one of two names of the same file, cannot be undone.
        let goes_back = replaced.is_none() || hidden.is_some();
        let still_there = if goes_back { still_there() } else { Ok(()) };
        let (old, new) = ((from.directory, from.name), (to.directory, to.name));
        (hidden, still_there, goes_back.then(|| turn.reserve(target, old, new)))
    };
    to.directory.sync()?;
    if from.directory.object() != to.directory.object() {
        from.directory.sync()?;
    }
    Ok(Relocated {
        target: target.clone(),
        from: Some((from.directory.clone(), from.name.to_owned())),
        to: (to.directory.clone(), to.name.to_owned()),
        replaced: hidden.zip(replaced.cloned()),
        still_there,
        reserved,
    })
}

/// Changes the names. The caller must hold the mutex for name changes. Returns the replaced object with its reserved name, unless the object was
/// removed together with its name.
fn change_names(
    target: &Node,
    from: EntryRef<'_>,
    to: EntryRef<'_>,
    replaced: Option<&Node>,
) -> Result<Option<Temporary>, Refusal> {
    let (here, there) = (from.directory.fd(), to.directory.fd());
    let rename = |flags| {
        io::retry_on_intr(|| renameat_with(here, from.name, there, to.name, flags))
            .map_err(|errno| refused(errno, to.name))
    };
    match replaced {
        None => rename(RenameFlags::NOREPLACE).map(|()| None),
        // Both names lead to the same file. A rename of one name to the other would have no effect (rename(2)). So the old name is removed.
        Some(replaced) if replaced.object() == target.object() => {
            io::retry_on_intr(|| unlinkat(here, from.name, removal(target.kind())))
                .map_err(|errno| Refusal::io(errno, "removing the old name", from.name))?;
            Ok(None)
        }
        Some(replaced) if (target.kind(), replaced.kind()) == (NodeKind::File, NodeKind::File) => {
            rename(RenameFlags::empty()).map(|()| None)
        }
        // The two names are exchanged, because then both names exist at every moment. Afterwards the replaced object has the old name of `target`,
        // and then gets a reserved name.
        Some(replaced) => {
            lock(replaced);
            rename(RenameFlags::EXCHANGE)?;
            Temporary::take_over(from.directory, from.name, replaced).map(Some)
        }
    }
}

fn refused(errno: Errno, name: &str) -> Refusal {
    match errno {
        Errno::EXIST | Errno::NOTEMPTY => Refusal::Exists(name.to_owned()),
        // The rename would move a directory into itself.
        Errno::INVAL => Refusal::WithinItself,
        Errno::NOENT | Errno::ISDIR | Errno::NOTDIR => Refusal::ChangedMeanwhile(name.to_owned()),
        errno => Refusal::io(errno, "renaming to", name),
    }
}

/// An incomplete copy of a directory. Clients cannot reach the copy until it has its final name. If a `Draft` is dropped before that, the copy is
/// removed.
#[derive(Debug)]
pub struct Draft {
    directory: Option<Temporary>,
    node: Node,
}

impl Draft {
    /// Creates a directory with a reserved name in `directory`. The new directory gets the ACL and owner that it inherits from `directory`. The
    /// caller can use the new directory like any other directory.
    ///
    /// # Refuses
    /// [`Refusal::AclNotWritable`] when its ACL cannot be stored.
    pub fn begin(
        permit: &AccessPermit,
        directory: &Node,
        from_start: &Inheritance,
    ) -> Result<Draft, Refusal> {
        directory.covered(permit, AccessMask::ADD_SUBDIRECTORY)?;
        directory.needs(NodeKind::Directory, "making a directory")?;
        let (temporary, node) = Temporary::directory(directory)?;
        crate::acl_write::apply_initial_acl(&node, from_start)?;
        Ok(Draft { directory: Some(temporary), node })
    }

    /// The directory that is being filled.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Gives the new directory its name. `replaced` is the object that has the name now, and loses the name. `judge` is the caller's last check,
    /// right before the names change. Right after a change that can be undone, `still_there` is called, before another thread can change names.
    ///
    /// # Refuses
    /// As [`rename`].
    pub fn finish<E: From<Refusal>>(
        mut self,
        name: &str,
        replaced: Option<(&AccessPermit, &Node)>,
        judge: impl FnOnce() -> Result<(), E>,
        still_there: impl FnOnce() -> Result<(), Refusal>,
    ) -> Result<Relocated, E> {
        self.node.sync()?;
        let gone = || Refusal::ChangedMeanwhile(name.to_owned());
        let temporary = self.directory.as_mut().ok_or_else(gone)?;
        let (is_kept, still_there) = give_name((temporary, &self.node), name, replaced, judge, still_there)?;
        let directory = temporary.place().clone();
        let kept = self.directory.take().filter(|_| is_kept);
        directory.sync()?;
        Ok(Relocated {
            target: self.node.clone(),
            from: None,
            to: (directory, name.to_owned()),
            replaced: kept.zip(replaced.map(|(_, node)| node.clone())),
            still_there,
            reserved: None,
        })
    }
}

/// Renames an object from its reserved name to `name`, in the place of `replaced`. Returns whether the two objects exchanged their names, and the
/// result of `still_there`. After an exchange, `replaced` has the reserved name.
fn give_name<E: From<Refusal>>(
    (temporary, target): (&mut Temporary, &Node),
    name: &str,
    replaced: Option<(&AccessPermit, &Node)>,
    judge: impl FnOnce() -> Result<(), E>,
    still_there: impl FnOnce() -> Result<(), Refusal>,
) -> Result<(bool, Result<(), Refusal>), E> {
    entry_name(name)?;
    if let Some((permit, replaced)) = replaced {
        replaced.covered(permit, AccessMask::DELETE)?;
    }
    let directory = temporary.place().clone();
    let turn = directory.turn().take();
    judge()?;
    turn.may_change(&directory, name)?;
    let Some((_, replaced)) = replaced else {
        temporary.become_new(name)?;
        return Ok((false, still_there()));
    };
    directory.still_is(name, replaced)?;
    if (target.kind(), replaced.kind()) == (NodeKind::File, NodeKind::File) {
        temporary.become_instead(name)?;
        return Ok((false, Ok(())));
    }
    lock(replaced);
    temporary.exchange(&directory, name, replaced.kind()).map_err(|errno| refused(errno, name))?;
    unlock(target);
    Ok((true, still_there()))
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(temporary) = self.directory.take() {
            let _ = removal_of_tree(temporary, &self.node);
        }
    }
}

/// Copies the dead properties of an object, if the permit allows reading them. Otherwise the copy has no dead properties.
///
/// # Refuses
/// [`Refusal::Io`] when the properties cannot be read or written.
pub fn copy_properties(permit: &AccessPermit, from: &Node, to: &Node) -> Result<(), Refusal> {
    match permit.covers(from.object(), AccessMask::READ_NAMED_ATTRIBUTES) {
        true => properties::copy(from, to),
        false => Ok(()),
    }
}

impl Upload {
    /// Copies the dead properties of the file of `reader` to the upload, if the caller may read them.
    ///
    /// # Refuses
    /// [`Refusal::Io`] when the properties cannot be read or written.
    pub fn copy_properties(&self, reader: &Reader) -> Result<(), Refusal> {
        match reader.reads_properties() {
            true => properties::copy(reader.node(), self.file()),
            false => Ok(()),
        }
    }

    /// Gives the file its name once every byte is on the disk. `replaced` is the object that has the name now, and loses the name. `judge` is the
    /// caller's last check, right before the names change. Right after a change that can be undone, `still_there` is called, before another thread
    /// can change names.
    ///
    /// # Refuses
    /// As [`rename`].
    pub fn finish_instead<E: From<Refusal>>(
        self,
        replaced: (&AccessPermit, &Node),
        judge: impl FnOnce() -> Result<(), E>,
        still_there: impl FnOnce() -> Result<(), Refusal>,
    ) -> Result<Relocated, E> {
        self.file().sync()?;
        let (mut temporary, file, name) = self.into_parts();
        let (is_kept, still_there) =
            give_name((&mut temporary, &file), &name, Some(replaced), judge, still_there)?;
        let directory = temporary.place().clone();
        let kept = Some(temporary).filter(|_| is_kept);
        directory.sync()?;
        let replaced = kept.zip(Some(replaced.1.clone()));
        Ok(Relocated {
            target: file,
            from: None,
            to: (directory, name),
            replaced,
            still_there,
            reserved: None,
        })
    }
}
