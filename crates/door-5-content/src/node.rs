//! An open file or directory. Door 4 judges the object, and door 5 serves the object, through the same descriptor (invariant S5).

use crate::acl_read::stored_up_to;
use crate::beneath::{NODE_FLAGS, open_beneath, open_cached};
use crate::kinds::is_served;
use crate::refuse::Refusal;
use crate::tree::{Tree, TreeState, Turn};
use enfilade_access::{AccessPermit, NodeKind, ObjectId, PropagationPermit, StoredAcl, Subject, Version};
use enfilade_facts::limits;
use enfilade_facts::vocabulary::{AccessMask, AclDialect, PathRefused, check_entry_name};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Statx, StatxFlags, StatxTimestamp, makedev, statx};
use rustix::io::{self, Errno};
use std::sync::Arc;

/// An open file or directory. A `Node` is never an object of another kind. A clone has the same descriptor.
#[derive(Clone, Debug)]
pub struct Node {
    file: Arc<OwnedFd>,
    meta: Meta,
    tree: Tree,
}

/// The metadata of an object at the time when the node was opened, or when [`Node::again`] read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// Size of a file, in bytes.
    pub bytes: u64,
    /// When the bytes were last written, in seconds and nanoseconds.
    pub modified: (i64, u32),
    /// When bytes or metadata last changed, in seconds and nanoseconds.
    pub changed: (i64, u32),
    /// When the object was created, in seconds and nanoseconds; `None` if the file system does not record this time.
    pub born: Option<(i64, u32)>,
    /// The device and inode of the object.
    pub object: ObjectId,
    /// A file or a directory.
    pub kind: NodeKind,
    /// The owner.
    pub uid: u32,
    /// The owning group.
    pub gid: u32,
    /// The permission bits.
    pub mode: u32,
    /// How many names (hard links) the object has. The number is 0 after the last name was removed.
    pub links: u32,
}

impl Meta {
    /// Content of a strong entity tag, without the quotes. The tag contains all metadata that can distinguish two states of the bytes. The tag
    /// includes the time of the last change, because a program can set back the time of the last write. Two states can get the same tag if both are
    /// within one step of the kernel's clock for files. A step is a nanosecond from Linux 6.13 on, and about 4 ms before Linux 6.13.
    pub fn validator(&self) -> String {
        let mut text = String::with_capacity(64);
        self.push_validator(&mut text);
        text
    }

    /// Appends the validator to a text.
    pub fn push_validator(&self, to: &mut String) {
        let ((written, written_ns), (changed, changed_ns)) = (self.modified, self.changed);
        let parts = [
            ("", self.bytes),
            ("-", written as u64),
            (".", written_ns.into()),
            ("-", changed as u64),
            (".", changed_ns.into()),
            ("-", mixed(self.object.inode)),
        ];
        for (before, number) in parts {
            to.push_str(before);
            push_hex(to, number);
        }
    }

    /// Describes the object for door 4.
    pub(crate) fn subject(&self, version: Option<Version>, acl: StoredAcl) -> Subject {
        let Meta { object, kind, uid, gid, mode, .. } = *self;
        Subject { object, kind, uid, gid, mode, version, acl }
    }

    /// The metadata from the result of `statx`; `None` for anything but a file or a directory.
    pub(crate) fn of(found: &Statx) -> Option<Self> {
        match FileType::from_raw_mode(found.stx_mode.into()) {
            FileType::RegularFile => Some(Self::of_kind(found, NodeKind::File)),
            FileType::Directory => Some(Self::of_kind(found, NodeKind::Directory)),
            _ => None,
        }
    }

    fn of_kind(found: &Statx, kind: NodeKind) -> Self {
        let time = |stamp: StatxTimestamp| (stamp.tv_sec, stamp.tv_nsec);
        let knows_birth = found.stx_mask & StatxFlags::BTIME.bits() != 0;
        Meta {
            bytes: found.stx_size,
            modified: time(found.stx_mtime),
            changed: time(found.stx_ctime),
            born: knows_birth.then(|| time(found.stx_btime)),
            object: object_of(found),
            kind,
            uid: found.stx_uid,
            gid: found.stx_gid,
            mode: u32::from(found.stx_mode) & 0o7777,
            links: found.stx_nlink,
        }
    }
}

fn push_hex(to: &mut String, number: u64) {
    let digits = (64 - number.leading_zeros()).div_ceil(4).max(1);
    for place in (0..digits).rev() {
        let digit = (number >> (4 * place)) as u8 & 0xf;
        to.push(char::from(if digit < 10 { b'0' + digit } else { b'a' - 10 + digit }));
    }
}

/// Scrambles an inode number with one step of the generator splitmix64. The state of the generator is the inode number. The function is one-to-one,
/// so two inode numbers never have the same result. The validator contains the result, so that entity tags do not show inode numbers directly. But a
/// client can compute the inode number from the result, because the function can be inverted.
fn mixed(inode: u64) -> u64 {
    let n = inode.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

impl Node {
    /// Describes an opened file or directory. `said` returns the name of the file or directory for messages to the operator.
    pub(crate) fn describe(
        file: Arc<OwnedFd>,
        tree: Tree,
        said: &dyn Fn() -> String,
    ) -> Result<Node, Refusal> {
        let found =
            stat(file.as_fd(), "", AtFlags::EMPTY_PATH).map_err(|e| Refusal::io(e, "describing", &said()))?;
        let meta = Meta::of(&found).ok_or_else(|| Refusal::Special(said()))?;
        Ok(Node { meta, file, tree })
    }

    /// Reads the present metadata of the object. Returns a node with the same descriptor and with this metadata.
    ///
    /// # Refuses
    /// [`Refusal::Io`] when the metadata cannot be read.
    pub fn again(&self) -> Result<Node, Refusal> {
        Node::describe(self.file.clone(), self.tree.clone(), &|| self.label())
    }

    /// Describes the object for door 4: its identity, owner, mode, and present ACL.
    pub fn subject(&self) -> Subject {
        self.meta.subject(None, stored_up_to(self.fd(), self.acls(), limits::ACL_BYTES_MAX))
    }

    /// The device and inode of the object.
    pub fn object(&self) -> ObjectId {
        self.meta.object
    }

    /// A file or a directory.
    pub fn kind(&self) -> NodeKind {
        self.meta.kind
    }

    /// The metadata of the object at the time when the node was opened, or when [`Node::again`] read it.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// By how many bytes the datastore's content shrinks when this object loses a name.
    pub fn content_bytes(&self) -> u64 {
        if self.kind() == NodeKind::File && self.meta.links == 1 { self.meta.bytes } else { 0 }
    }

    /// Opens an entry of this directory.
    ///
    /// # Refuses
    /// [`Refusal::Absent`] when there is no such entry, and also for a name that no entry may have; [`Refusal::Special`] when the entry is of a kind
    /// that is never served: a link, a mount, a pipe, a socket, a device.
    pub fn child(&self, name: &str) -> Result<Node, Refusal> {
        entry_name(name).map_err(|_| Refusal::Absent(name.to_owned()))?;
        // The kind is checked before the entry is opened, because a pipe or a device must not be opened.
        let checked = is_served(self.fd(), name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT);
        let file = checked.and_then(|()| open_beneath(self.fd(), name, NODE_FLAGS, Mode::empty()));
        let file = file.map_err(|errno| match errno {
            Errno::LOOP | Errno::XDEV => Refusal::Special(name.to_owned()),
            errno => Refusal::lookup(errno, name),
        })?;
        self.describe_beneath(file, name)
    }

    /// Describes a descriptor that was opened beneath this directory.
    pub(crate) fn describe_beneath(&self, file: OwnedFd, name: &str) -> Result<Node, Refusal> {
        Node::describe(Arc::new(file), self.tree.clone(), &|| name.to_owned())
    }

    /// The descriptor.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// The dialect of ACLs in the object's tree.
    pub fn acls(&self) -> AclDialect {
        self.tree.acls
    }

    /// The id of the file system, if this file system sets a time stamp at every change (`file_systems.rs`).
    pub(crate) fn stamping(&self) -> Option<u64> {
        self.tree.state.stamping
    }

    /// The id of the mount that contains the object.
    pub(crate) fn mount(&self) -> Option<u64> {
        self.tree.state.mount
    }

    /// The mutex for changes of names.
    pub(crate) fn turn(&self) -> &Turn {
        &self.tree.state.turn
    }

    /// The state that all nodes beneath the same open root share.
    pub(crate) fn tree_state(&self) -> &Arc<TreeState> {
        &self.tree.state
    }

    /// The text that identifies the object in messages to the operator: device and inode. The operator can find the object with `find -inum`.
    pub(crate) fn label(&self) -> String {
        format!("device {} inode {}", self.meta.object.device, self.meta.object.inode)
    }

    // INVARIANT: S5. A function acts on an object only with a permit for exactly that object.
    /// Whether the permit grants `wanted` on the object of this node.
    pub(crate) fn covered(&self, permit: &AccessPermit, wanted: AccessMask) -> Result<(), Refusal> {
        match permit.covers(self.object(), wanted) {
            true => Ok(()),
            false => Err(Refusal::NotCovered { wanted, object: self.object() }),
        }
    }

    /// Whether the permit allows changes of the inherited entries in the ACL of the object of this node.
    pub(crate) fn covered_to_propagate(&self, permit: &PropagationPermit) -> Result<(), Refusal> {
        match permit.covers(self.object()) {
            true => Ok(()),
            false => Err(Refusal::NotCovered { wanted: AccessMask::READ_DATA, object: self.object() }),
        }
    }

    /// Checks that this node has the kind that the operation `what` needs.
    pub(crate) fn needs(&self, kind: NodeKind, what: &'static str) -> Result<(), Refusal> {
        let needed = match kind {
            NodeKind::File => "file",
            NodeKind::Directory => "directory",
        };
        if self.kind() == kind { Ok(()) } else { Err(Refusal::WrongKind { what, needed }) }
    }

    /// The metadata of an entry of this directory. `None` if the kernel would have to wait for a disk, if there is no such entry, or if the entry is
    /// of a kind that is never served.
    pub(crate) fn stat_cached(&self, name: &str) -> Option<Meta> {
        let file = open_cached(self.fd(), name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC).ok()?;
        Meta::of(&stat(file.as_fd(), "", AtFlags::EMPTY_PATH).ok()?)
    }

    /// The object that has the name `name` in this directory. The object can be of any kind. `None` when there is no such entry.
    pub(crate) fn entry(&self, name: &str) -> Result<Option<ObjectId>, Refusal> {
        match stat_entry(self.fd(), name) {
            Ok(found) => Ok(Some(object_of(&found))),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(Refusal::io(errno, "describing", name)),
        }
    }

    /// Checks that the entry `name` of this directory still is `target`.
    pub(crate) fn still_is(&self, name: &str, target: &Node) -> Result<(), Refusal> {
        match self.entry(name)? {
            Some(object) if object == target.object() => Ok(()),
            _ => Err(Refusal::ChangedMeanwhile(name.to_owned())),
        }
    }

    /// Waits until all changes of this file or directory have reached the disk.
    pub(crate) fn sync(&self) -> Result<(), Refusal> {
        let fsync = || io::retry_on_intr(|| rustix::fs::fsync(self.fd()));
        let synced = match self.kind() {
            NodeKind::File => fsync(),
            NodeKind::Directory => self.tree.state.syncs.sync(self.object(), fsync),
        };
        synced.map_err(|errno| Refusal::io(errno, "syncing", &self.label()))
    }
}

/// Returns the name if an entry of a directory may have this name.
pub(crate) fn entry_name(name: &str) -> Result<&str, Refusal> {
    match check_entry_name(name) {
        Ok(()) => Ok(name),
        Err(PathRefused::Length) => Err(Refusal::TooLong(name.to_owned())),
        Err(why) => Err(Refusal::BadName { name: name.to_owned(), why }),
    }
}

/// The metadata of an entry of a directory, of any kind; links are not followed.
pub(crate) fn stat_entry(directory: BorrowedFd<'_>, name: &str) -> io::Result<Statx> {
    stat(directory, name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT)
}

fn stat(directory: BorrowedFd<'_>, name: &str, flags: AtFlags) -> io::Result<Statx> {
    io::retry_on_intr(|| statx(directory, name, flags, StatxFlags::BASIC_STATS | StatxFlags::BTIME))
}

/// The object of a descriptor, of any kind.
pub(crate) fn object_at(file: BorrowedFd<'_>) -> io::Result<ObjectId> {
    Ok(object_of(&stat(file, "", AtFlags::EMPTY_PATH)?))
}

fn object_of(found: &Statx) -> ObjectId {
    ObjectId { device: makedev(found.stx_dev_major, found.stx_dev_minor), inode: found.stx_ino }
}
