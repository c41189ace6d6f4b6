//! A datastore's root directory. Every other object in the datastore is opened beneath the descriptor of the root directory.

use crate::beneath::{NODE_FLAGS, open_beneath, open_cached};
use crate::file_systems::stamping_file_system;
use crate::kinds::{OPENING_NOTHING, is_file};
use crate::node::{Node, object_at};
use crate::patience::{Blocking, Cached, Patience};
use crate::refuse::{Refusal, is_absent};
use crate::reserved::{ReservedPaths, path_of};
use crate::tree::{Tree, TreeState};
use crate::watch::mount_of;
use enfilade_access::NodeKind;
use enfilade_facts::vocabulary::{AclDialect, StorePath};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, fstatvfs, openat};
use rustix::io::{self, Errno};
use std::sync::Arc;

/// The open root directory of a datastore. A clone has the same descriptor. While a `Root` exists, the file system cannot be unmounted.
#[derive(Clone, Debug)]
pub struct Root {
    directory: Arc<OwnedFd>,
    tree: Tree,
}

/// The size and the free space of a file system, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// The size of the file system.
    pub total: u64,
    /// The used bytes.
    pub used: u64,
    /// The free bytes for processes without root's privileges.
    pub available: u64,
}

impl Root {
    /// Opens a datastore's directory. `acls` is the dialect of the ACLs in the datastore. Links in `path` itself are followed, because the operator
    /// configured the path. The server compares the opened directory, and not `path`, with the reserved paths.
    ///
    /// # Refuses
    /// [`Refusal::RootUnavailable`] when `path` does not exist or is not a directory, [`Refusal::Reserved`] when the directory overlaps
    /// with a reserved path, [`Refusal::NeedsRestart`] when the server can open files in the directory only after a restart.
    // INVARIANT: S8. No client can reach files of the server itself through a datastore.
    pub fn open(path: &str, acls: AclDialect, reserved: &ReservedPaths) -> Result<Root, Refusal> {
        let root = Root::open_own(path, acls)?;
        let fd = root.directory.as_fd();
        let unavailable =
            |errno: Errno| Refusal::RootUnavailable { path: path.to_owned(), errno: errno.to_string() };
        if let Some(own) = reserved.overlap(fd).map_err(unavailable)? {
            return Err(Refusal::Reserved { path: path.to_owned(), reserved: own.display().to_string() });
        }
        match reserved.is_openable(fd).map_err(unavailable)? {
            true => Ok(root),
            false => Err(Refusal::NeedsRestart(path.to_owned())),
        }
    }

    /// As [`Root::open`], but for any directory, even a reserved directory. Without a further check, the caller must not serve clients from this
    /// directory.
    ///
    /// # Refuses
    /// [`Refusal::RootUnavailable`] when `path` does not exist or is not a directory.
    pub(crate) fn open_own(path: &str, acls: AclDialect) -> Result<Root, Refusal> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = io::retry_on_intr(|| openat(CWD, path, flags, Mode::empty()));
        let directory = opened
            .map_err(|errno| Refusal::RootUnavailable { path: path.to_owned(), errno: errno.to_string() })?;
        let (stamping, mount) = (stamping_file_system(directory.as_fd()), mount_of(directory.as_fd()));
        let directory = Arc::new(directory);
        let of_state = Some(Arc::clone(&directory));
        let state = Arc::new(TreeState { stamping, mount, directory: of_state, ..TreeState::default() });
        Ok(Root { directory, tree: Tree { state, acls } })
    }

    /// The dialect of the ACLs beneath this root.
    pub fn acls(&self) -> AclDialect {
        self.tree.acls
    }

    /// The same directory with another dialect of ACLs. Both values share one mutex for name changes.
    #[must_use]
    pub fn with_acls(&self, acls: AclDialect) -> Root {
        Root { tree: Tree { acls, ..self.tree.clone() }, ..self.clone() }
    }

    /// The size and the free space of the file system of this directory.
    ///
    /// # Refuses
    /// [`Refusal::RootUnavailable`] when the system call fails.
    pub fn usage(&self) -> Result<Usage, Refusal> {
        let found = io::retry_on_intr(|| fstatvfs(&self.directory));
        let found = found.map_err(|errno| {
            let path = path_of(self.directory.as_fd()).unwrap_or_default();
            Refusal::RootUnavailable { path: path.display().to_string(), errno: errno.to_string() }
        })?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        let used = found.f_blocks.saturating_sub(found.f_bfree);
        Ok(Usage { total: bytes(found.f_blocks), used: bytes(used), available: bytes(found.f_bavail) })
    }

    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.directory
    }

    /// Opens the object at `path`. With [`CachedOnly`](crate::CachedOnly), opens the object only if the kernel need not wait for a disk.
    ///
    /// # Refuses
    /// [`Refusal::Absent`] when there is no such object, and also when `path` leads through a link or into another file system; [`Refusal::Special`]
    /// when the object is a pipe, a socket or a device.
    pub fn find<P: Patience>(&self, path: &StorePath, _: P) -> Result<P::Of<Node>, Refusal> {
        let relative = if path.is_root() { "." } else { path.as_str() };
        P::choose(
            relative,
            |relative| self.find_blocking(path, relative),
            |relative| self.find_cached(path, relative),
        )
    }

    fn find_blocking(&self, path: &StorePath, relative: &str) -> Result<Node, Refusal> {
        let open = |flags| open_beneath(&*self.directory, relative, flags, Mode::empty());
        let opened = self.tree.state.known.check(relative, || open(OPENING_NOTHING));
        let opened = opened.and_then(|()| open(NODE_FLAGS));
        let file = opened.map_err(|errno| Refusal::lookup(errno, &path.to_string()))?;
        self.describe(file, path, relative)
    }

    fn find_cached(&self, path: &StorePath, relative: &str) -> Result<Cached<Node>, Refusal> {
        if self.tree.state.stamping.is_none() {
            return Ok(Cached::WouldWait);
        }
        let open = |flags| open_cached(self.directory.as_fd(), relative, flags);
        let opened = self.tree.state.known.check(relative, || open(OPENING_NOTHING));
        match opened.and_then(|()| open(NODE_FLAGS)) {
            // If a component before the last component is a file, the kernel always returns EAGAIN here. But such a path must be refused as fast as a
            // path with an absent component, because otherwise the time would reveal a hidden file.
            Err(Errno::AGAIN) if self.leads_through_a_file(path) => Err(Refusal::Absent(path.to_string())),
            // The kernel does not have the whole path in memory, or does not support the flag (before Linux 5.12).
            Err(Errno::AGAIN | Errno::INVAL | Errno::INTR) => Ok(Cached::WouldWait),
            Err(errno) => Err(Refusal::lookup(errno, &path.to_string())),
            Ok(file) => self.describe(file, path, relative).map(Cached::Ready),
        }
    }

    fn describe(&self, file: OwnedFd, path: &StorePath, relative: &str) -> Result<Node, Refusal> {
        let node = Node::describe(Arc::new(file), self.tree.clone(), &|| path.to_string());
        if matches!(node, Err(Refusal::Special(_))) {
            self.tree.state.known.forget(relative);
        }
        node
    }

    /// Whether a component of a path before the last component is a file. Examines only components that the kernel has in memory.
    fn leads_through_a_file(&self, path: &StorePath) -> bool {
        let mut above = path.split().map(|(parent, _)| parent);
        while let Some(path) = above.filter(|path| !path.is_root()) {
            match open_cached(self.directory.as_fd(), path.as_str(), OPENING_NOTHING) {
                Ok(found) => return is_file(found.as_fd()),
                Err(Errno::AGAIN) => above = path.split().map(|(parent, _)| parent),
                Err(_) => return false,
            }
        }
        false
    }

    /// Whether `path` still leads to `node`, which was found at this path.
    ///
    /// # Refuses
    /// [`Refusal::ChangedMeanwhile`] when `path` leads to another object, or to no object.
    pub fn still_leads_to(&self, path: &StorePath, node: &Node) -> Result<(), Refusal> {
        let relative = if path.is_root() { "." } else { path.as_str() };
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = open_beneath(&*self.directory, relative, flags, Mode::empty());
        let found = found.and_then(|found| object_at(found.as_fd()));
        match found {
            Ok(object) if object == node.object() => Ok(()),
            Ok(_) => Err(Refusal::ChangedMeanwhile(path.to_string())),
            Err(errno) if is_absent(errno) => Err(Refusal::ChangedMeanwhile(path.to_string())),
            Err(errno) => Err(Refusal::io(errno, "opening", &path.to_string())),
        }
    }

    /// Calls `work` while no other thread of this process can change a name in the datastore.
    pub fn in_turn<R>(&self, work: impl FnOnce() -> R) -> R {
        let _turn = self.tree.state.turn.take();
        work()
    }

    /// Opens the parent directory of `path`, even if `path` does not exist. Also returns the name in that directory.
    ///
    /// # Refuses
    /// [`Refusal::ParentAbsent`] when there is no such directory, [`Refusal::IsRoot`] for the root.
    pub fn find_parent<'p>(&self, path: &'p StorePath) -> Result<(Node, &'p str), Refusal> {
        let (parent, name) = path.split().ok_or(Refusal::IsRoot)?;
        let absent = || Refusal::ParentAbsent(path.to_string());
        match self.find(&parent, Blocking) {
            Ok(node) if node.kind() == NodeKind::Directory => Ok((node, name)),
            Ok(_) | Err(Refusal::Absent(_) | Refusal::Special(_)) => Err(absent()),
            Err(refusal) => Err(refusal),
        }
    }
}
