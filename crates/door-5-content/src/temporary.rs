//! Files and directories that are being made. Each file or directory is in its final parent directory, under a reserved name that no request can
//! contain. The file or directory is removed unless it gets its final name. Objects that are being replaced or removed also have a reserved name.

use crate::beneath::{NODE_FLAGS, open_beneath};
use crate::node::Node;
use crate::refuse::Refusal;
use enfilade_access::NodeKind;
use rustix::fd::OwnedFd;
use rustix::fs::{
    AtFlags, FlockOperation, Mode, OFlags, RenameFlags, flock, linkat, mkdirat, renameat, renameat_with,
    unlinkat,
};
use rustix::io::{self, Errno};

/// The prefix of every reserved name.
pub(crate) const RESERVED: &str = ".enfilade-";

/// The name of the directory of the trash (`trash.rs`), in the root of a datastore. It begins with [`RESERVED`], so no request can contain it.
pub(crate) const TRASH: &str = ".enfilade-trash";

/// The name of the directory of unfinished uploads (`kept_upload.rs`), in the root of a datastore. It begins with [`RESERVED`], so no request can
/// contain it.
pub(crate) const UPLOADS: &str = ".enfilade-uploads";

/// How many random names are tried. A name has 64 random bits, so a second try is almost never needed.
const TRIES_MAX: usize = 4;

/// A file or directory under a reserved name.
#[derive(Debug)]
pub(crate) struct Temporary {
    directory: Node,
    name: String,
    kind: NodeKind,
    /// Whether the entry with the reserved name is removed when this value is dropped. The field is false once the object was renamed to its final
    /// name, or if the object must be kept.
    to_remove: bool,
}

impl Temporary {
    /// Makes an empty file that only the user of this process can open. The file is locked during the upload, so no process treats the file as
    /// abandoned.
    pub(crate) fn file(directory: &Node) -> Result<(Temporary, Node), Refusal> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        Self::locked(directory, || {
            Self::make(directory, NodeKind::File, |name| open_beneath(directory.fd(), name, flags, mode))
        })
    }

    /// Makes an empty directory that only the user of this process can enter, and locks the directory as [`Temporary::file`] locks a file.
    pub(crate) fn directory(directory: &Node) -> Result<(Temporary, Node), Refusal> {
        Self::locked(directory, || {
            let (temporary, ()) = Self::make(directory, NodeKind::Directory, |name| {
                io::retry_on_intr(|| mkdirat(directory.fd(), name, Mode::RWXU))
            })?;
            let flags = NODE_FLAGS | OFlags::DIRECTORY;
            let opened = open_beneath(directory.fd(), &temporary.name, flags, Mode::empty());
            let opened = opened.map_err(|errno| Refusal::io(errno, "opening", &temporary.name))?;
            Ok((temporary, opened))
        })
    }

    /// Makes a file or directory, and locks it. Before this process locks the object, another process can treat the object as abandoned, and can lock
    /// it or remove its name. If that happens, another file or directory is made.
    fn locked(
        directory: &Node,
        make: impl Fn() -> Result<(Temporary, OwnedFd), Refusal>,
    ) -> Result<(Temporary, Node), Refusal> {
        let mut tries = 1;
        loop {
            let (temporary, opened) = make()?;
            // Other errors of `flock` are ignored. On a file system without locks, the server cannot distinguish abandoned objects from objects in
            // use, and removes none of them as abandoned.
            let is_taken = flock(&opened, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK);
            let node = directory.describe_beneath(opened, &temporary.name)?;
            if !is_taken && node.meta().links > 0 || tries >= TRIES_MAX {
                return Ok((temporary, node));
            }
            tries += 1;
        }
    }

    fn make<T>(
        directory: &Node,
        kind: NodeKind,
        mut with: impl FnMut(&str) -> io::Result<T>,
    ) -> Result<(Temporary, T), Refusal> {
        let mut tries = 1;
        loop {
            let name = reserved_name()?;
            match with(&name) {
                Ok(made) => {
                    return Ok((
                        Temporary { directory: directory.clone(), name, kind, to_remove: true },
                        made,
                    ));
                }
                Err(Errno::EXIST) if tries < TRIES_MAX => tries += 1,
                Err(Errno::NOENT) => return Err(Refusal::ParentAbsent(directory.label())),
                Err(errno) => return Err(Refusal::io(errno, "making an entry in", &directory.label())),
            }
        }
    }

    /// Renames an object from its own name to a reserved name.
    pub(crate) fn take_over(directory: &Node, name: &str, node: &Node) -> Result<Temporary, Refusal> {
        let fd = directory.fd();
        let (temporary, ()) = Self::make(directory, node.kind(), |reserved| {
            io::retry_on_intr(|| renameat_with(fd, name, fd, reserved, RenameFlags::NOREPLACE))
        })?;
        Ok(temporary)
    }

    /// Exchanges the reserved name with the name of an object in `directory`. Afterwards that object has the reserved name. The caller must hold the
    /// mutex for name changes.
    pub(crate) fn exchange(&mut self, directory: &Node, name: &str, kind: NodeKind) -> io::Result<()> {
        let (here, there) = (self.directory.fd(), directory.fd());
        io::retry_on_intr(|| renameat_with(here, &self.name, there, name, RenameFlags::EXCHANGE))?;
        self.kind = kind;
        Ok(())
    }

    /// Gives the object a free name in another directory. The caller must hold the mutex for name changes.
    pub(crate) fn move_to(&mut self, directory: &Node, name: &str) -> io::Result<()> {
        let (here, there) = (self.directory.fd(), directory.fd());
        io::retry_on_intr(|| renameat_with(here, &self.name, there, name, RenameFlags::NOREPLACE))?;
        self.to_remove = false;
        Ok(())
    }

    /// Replaces the file of this value by the file that has the name `name` in another directory. The other file gets the reserved name. The caller
    /// must hold the mutex for name changes.
    pub(crate) fn take_in(&self, directory: &Node, name: &str) -> io::Result<()> {
        io::retry_on_intr(|| renameat(directory.fd(), name, self.directory.fd(), &*self.name))
    }

    /// Marks the object as content: the object is not removed when this value is dropped.
    pub(crate) fn keep(&mut self) {
        self.to_remove = false;
    }

    /// Marks the object for removal: the object is removed when this value is dropped.
    pub(crate) fn let_go(mut self) -> Self {
        self.to_remove = true;
        self
    }

    /// The directory that contains the object.
    pub(crate) fn place(&self) -> &Node {
        &self.directory
    }

    /// Gives the object a free name in the same directory. The caller must hold the mutex for name changes.
    pub(crate) fn become_new(&mut self, name: &str) -> Result<(), Refusal> {
        let directory = self.directory.fd();
        let renamed = io::retry_on_intr(|| {
            renameat_with(directory, &self.name, directory, name, RenameFlags::NOREPLACE)
        });
        match renamed {
            Ok(()) => self.to_remove = false,
            Err(Errno::EXIST) => return Err(Refusal::Exists(name.to_owned())),
            // Some file systems (ZFS before 2.2, and NFS) do not support `RENAME_NOREPLACE`.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                return self.become_new_without_noreplace(name);
            }
            Err(errno) => return Err(self.unnamed(errno, name)),
        }
        Ok(())
    }

    /// As [`Temporary::become_new`], but the object loses the name again if `still_there` refuses. Exception: a directory that is no longer empty
    /// keeps its name, and the result is `Ok`.
    pub(crate) fn become_new_if(
        &mut self,
        name: &str,
        node: &Node,
        still_there: impl FnOnce() -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        self.become_new(name)?;
        let Err(why) = still_there() else { return Ok(()) };
        self.directory.still_is(name, node)?;
        match io::retry_on_intr(|| unlinkat(self.directory.fd(), name, removal(self.kind))) {
            Ok(()) => Err(why),
            Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(()),
            Err(errno) => Err(Refusal::io(errno, "removing", name)),
        }
    }

    /// Does the work of [`Temporary::become_new`] on file systems without `RENAME_NOREPLACE`. A file gets the name as a hard link, because `link`
    /// never replaces an existing entry. Directories cannot have hard links, so the name of a directory is looked up before the rename. If another
    /// process takes the name in between, the rename can replace only an empty directory.
    fn become_new_without_noreplace(&mut self, name: &str) -> Result<(), Refusal> {
        let directory = self.directory.fd();
        let named = match self.kind {
            NodeKind::File => {
                io::retry_on_intr(|| linkat(directory, &self.name, directory, name, AtFlags::empty()))
            }
            NodeKind::Directory if self.directory.entry(name)?.is_some() => Err(Errno::EXIST),
            NodeKind::Directory => io::retry_on_intr(|| renameat(directory, &self.name, directory, name)),
        };
        match named {
            // A file now has two names. The reserved name is removed when this value is dropped.
            Ok(()) => self.to_remove = self.kind == NodeKind::File,
            Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => {
                return Err(Refusal::Exists(name.to_owned()));
            }
            Err(errno) => return Err(self.unnamed(errno, name)),
        }
        Ok(())
    }

    /// Gives the object the name of the object that it replaces. The caller must hold the mutex for name changes, and must have checked that the name
    /// still belongs to that object.
    pub(crate) fn become_instead(&mut self, name: &str) -> Result<(), Refusal> {
        let directory = self.directory.fd();
        io::retry_on_intr(|| renameat(directory, &self.name, directory, name))
            .map_err(|errno| self.unnamed(errno, name))?;
        self.to_remove = false;
        Ok(())
    }

    fn unnamed(&self, errno: Errno, name: &str) -> Refusal {
        match errno {
            // The reserved name or the parent directory was removed, or the final name belongs to a directory now.
            Errno::NOENT | Errno::ISDIR => Refusal::ChangedMeanwhile(name.to_owned()),
            errno => Refusal::io(errno, "naming", name),
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if self.to_remove {
            let flags = removal(self.kind);
            let _ = io::retry_on_intr(|| unlinkat(self.directory.fd(), &self.name, flags));
        }
    }
}

/// Locks an object that will get a reserved name. Because of the lock, no other process treats the object as abandoned.
pub(crate) fn lock(node: &Node) {
    // Errors are ignored. On a file system without locks, the server cannot distinguish abandoned objects from objects in use.
    let _ = flock(node.fd(), FlockOperation::NonBlockingLockExclusive);
}

/// Unlocks an object that has its final name.
pub(crate) fn unlock(node: &Node) {
    let _ = flock(node.fd(), FlockOperation::Unlock);
}

/// The flags with which `unlinkat` removes an object of this kind.
pub(crate) fn removal(kind: NodeKind) -> AtFlags {
    match kind {
        NodeKind::File => AtFlags::empty(),
        NodeKind::Directory => AtFlags::REMOVEDIR,
    }
}

fn reserved_name() -> Result<String, Refusal> {
    let random = getrandom::u64().map_err(|error| Refusal::Io {
        what: "asking for random bytes".to_owned(),
        errno: error.to_string(),
    })?;
    Ok(format!("{RESERVED}{random:016x}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{Scratch, code, names_on_disk};

    #[test]
    fn without_the_kernels_help_nothing_is_replaced_either() {
        let scratch = Scratch::new();
        scratch.write("file", "old");
        scratch.write("full/x", "");
        scratch.directory("empty");
        let root = scratch.node("");
        for name in ["file", "full", "empty"] {
            let (mut file, _) = Temporary::file(&root).unwrap();
            assert_eq!(code(file.become_new_without_noreplace(name)), "CT03", "{name}");
            let (mut directory, _) = Temporary::directory(&root).unwrap();
            assert_eq!(code(directory.become_new_without_noreplace(name)), "CT03", "{name}");
        }
        Temporary::file(&root).unwrap().0.become_new_without_noreplace("new-file").unwrap();
        Temporary::directory(&root).unwrap().0.become_new_without_noreplace("new-directory").unwrap();
        assert_eq!(names_on_disk(&scratch.at("")), ["empty", "file", "full", "new-directory", "new-file"]);
    }

    #[test]
    fn what_is_under_way_is_locked() {
        let scratch = Scratch::new();
        let (_temporary, file) = Temporary::file(&scratch.node("")).unwrap();
        let name = names_on_disk(&scratch.at("")).remove(0);
        let other = std::fs::File::open(scratch.at(&name)).unwrap();
        let lock = || flock(&other, FlockOperation::NonBlockingLockExclusive);
        assert_eq!(lock(), Err(Errno::WOULDBLOCK));
        drop(file);
        assert_eq!(lock(), Ok(()), "no process writes to the pipe");
    }
}
