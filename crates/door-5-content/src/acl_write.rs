//! Writes the ACL of a file or directory to the extended attribute `security.NTACL` or `security.nfs4acl_xdr`, where Samba also stores ACLs. If this
//! process may not write `security.NTACL`, the helper process writes it, if there is a helper (`capable.rs`). If there is no helper, or if this
//! process may not write `security.nfs4acl_xdr`, the ACL is written to the attribute of the same name in `user.`. Exception: if the object already
//! has an ACL in `security.`, the write is refused. If an object has both attributes, the attribute in `security.` counts, because only privileged
//! processes can write this attribute.

use crate::acl_read::AclPlace;
use crate::attributes::{attribute, set_attribute};
use crate::capable;
use crate::list::anything_in;
use crate::node::Node;
use crate::patience::Blocking;
use crate::properties;
use crate::refuse::Refusal;
use crate::root::Root;
use crate::temporary::Temporary;
use enfilade_access::{AccessPermit, Inheritance, Owner, SecurityDescriptor, StoredAcl};
use enfilade_facts::limits;
use enfilade_facts::vocabulary::{AccessMask, AclDialect, StorePath};
use rustix::fd::BorrowedFd;
use rustix::fs::{fremovexattr, fstatvfs};
use rustix::io::{self, Errno};
use std::path::Path;

/// Writes a node's ACL.
///
/// # Refuses
/// [`Refusal::AclNotWritable`] when the file system or the process's rights do not allow the change, [`Refusal::NoSpace`] when the ACL does not fit,
/// [`Refusal::ChangedMeanwhile`] when the node lost its last name while the ACL was written.
pub fn set_acl(permit: &AccessPermit, node: &Node, acl: &[u8]) -> Result<AclPlace, Refusal> {
    node.covered(permit, AccessMask::WRITE_ACL)?;
    change(node, acl)
}

/// Writes a node's ACL for the operator of the machine: the kernel checks what the operator's process may do. This function is never called for a
/// client.
///
/// # Refuses
/// As [`set_acl`].
pub fn set_acl_as_operator(node: &Node, acl: &[u8]) -> Result<AclPlace, Refusal> {
    change(node, acl)
}

/// Writes the first ACL of a datastore's root directory.
///
/// # Refuses
/// [`Refusal::NotEmpty`] when the directory contains anything (a file system's own `lost+found` does not count), [`Refusal::Exists`] when the
/// directory has an ACL; and the refusals of [`set_acl`].
pub fn seed_acl(root: &Root, acl: &[u8]) -> Result<AclPlace, Refusal> {
    let node = root.find(&StorePath::root(), Blocking)?;
    if anything_in(&node)? {
        return Err(Refusal::NotEmpty("/".to_owned()));
    }
    match node.subject().acl {
        StoredAcl::Absent => change(&node, acl),
        _ => Err(Refusal::Exists("/ (its ACL)".to_owned())),
    }
}

/// Makes a temporary file in a directory, to find out in which attribute this process may write ACLs there. Returns `None` if the process may not
/// write any of the attributes, or cannot make a file in the directory.
pub fn acl_place(directory: &Path) -> Option<AclPlace> {
    let node = Root::open_own(directory.to_str()?, AclDialect::default())
        .ok()?
        .find(&StorePath::root(), Blocking)
        .ok()?;
    let (_removed_when_dropped, file) = Temporary::file(&node).ok()?;
    store(&file, &SecurityDescriptor::default().to_ntacl().ok()?).ok()
}

/// Dead properties can leave no space for an ACL. This type says whether they stay or are removed in that case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Properties {
    Stay,
    GiveWay,
}

/// [`set_acl`] without the check of the permit.
pub(crate) fn change(node: &Node, acl: &[u8]) -> Result<AclPlace, Refusal> {
    change_beside(node, acl, Properties::GiveWay)
}

/// As [`change`]; `properties` says whether dead properties that leave no space for the ACL stay or are removed.
pub(crate) fn change_beside(node: &Node, acl: &[u8], properties: Properties) -> Result<AclPlace, Refusal> {
    let place = {
        let _turn = node.turn().take();
        let place = store_beside(node, acl, properties)?;
        // An upload of another process may just have replaced the file by a new file. The new file then has a copy of the old ACL, and not the ACL
        // that was written here.
        if node.again()?.meta().links == 0 {
            return Err(Refusal::ChangedMeanwhile(node.label()));
        }
        place
    };
    node.sync()?;
    Ok(place)
}

/// Like [`change`], but does not lock the mutex for name changes, and does not sync, because the object does not have its final name yet, and no
/// client can reach it.
fn store(node: &Node, acl: &[u8]) -> Result<AclPlace, Refusal> {
    store_beside(node, acl, Properties::GiveWay)
}

fn store_beside(node: &Node, acl: &[u8], properties: Properties) -> Result<AclPlace, Refusal> {
    let (file, what, dialect) = (node.fd(), &node.label(), node.acls());
    let (ours, users) = (AclPlace::Security.name(dialect), AclPlace::User.name(dialect));
    let refuse = |why: String| Refusal::AclNotWritable { what: what.to_owned(), why };
    if acl.len() > limits::ACL_BYTES_MAX {
        return Err(refuse(format!(
            "the ACL has {} bytes, more than the limit of {} bytes",
            acl.len(),
            limits::ACL_BYTES_MAX
        )));
    }
    match set_acl_attribute(node, ours, acl, properties) {
        Ok(()) => {
            // The ACL in `user.` is removed. Otherwise the ACL in `user.` would apply again after a program removed the ACL in `security.`.
            let _ = io::retry_on_intr(|| fremovexattr(file, users));
            return Ok(AclPlace::Security);
        }
        Err(errno) if refused(errno) => {}
        Err(errno) => return Err(unstored(file, what, acl, errno)),
    }
    match attribute(file, ours, limits::ACL_BYTES_MAX) {
        Ok(None) => {}
        _ => {
            return Err(refuse(format!(
                "the present ACL is in the attribute {ours}, and only a process with CAP_SYS_ADMIN may write this attribute; {NEEDED}"
            )));
        }
    }
    match set_acl_attribute(node, users, acl, properties) {
        Ok(()) => Ok(AclPlace::User),
        Err(errno) => Err(unstored(file, what, acl, errno)),
    }
}

/// Writes an ACL to an attribute. File systems limit the total size of all attributes of a file (ext4: 4 KiB). A user who may write dead properties
/// could use up that space. So if the ACL does not fit, the properties are removed, unless the caller passes [`Properties::Stay`]. If the ACL still
/// does not fit, the properties are written again.
fn set_acl_attribute(node: &Node, name: &str, acl: &[u8], properties: Properties) -> io::Result<()> {
    let file = node.fd();
    match capable::set_acl_attribute(node, name, acl) {
        Err(Errno::NOSPC) if properties == Properties::GiveWay => {}
        done => return done,
    }
    let Some(properties) = attribute(file, properties::ATTRIBUTE, limits::PROPERTIES_BYTES_MAX)? else {
        return Err(Errno::NOSPC);
    };
    io::retry_on_intr(|| fremovexattr(file, properties::ATTRIBUTE))?;
    let done = capable::set_acl_attribute(node, name, acl);
    if done.is_err() {
        let _ = set_attribute(file, properties::ATTRIBUTE, &properties);
    }
    done
}

/// Sets the ACL of a new object. If the ACL refers to the owner, also sets the owner.
pub(crate) fn apply_initial_acl(node: &Node, from_start: &Inheritance) -> Result<(), Refusal> {
    // The ACL is written before the owner is set, because this process may not be able to write the attributes of a file of another user.
    store(node, &from_start.acl)?;
    let Some(Owner { uid, gid }) = from_start.owner else { return Ok(()) };
    capable::give(node, uid, gid).map_err(|errno| {
        let advice = match errno {
            Errno::NOTCONN => capable::no_help(),
            Errno::PERM => "set `[privileges] helper`, or give the process CAP_CHOWN".to_owned(),
            errno => errno.to_string(),
        };
        let why = format!(
            "the owner and group of the new file or directory cannot be set to {uid}:{gid}, and its NFSv4 ACL refers to this owner and group: {advice}"
        );
        Refusal::AclNotWritable { what: node.label(), why }
    })
}

/// The advice for a server that may not write the ACL attribute of Samba.
pub(crate) const NEEDED: &str = "set `[privileges] helper`, or give the process CAP_SYS_ADMIN";

/// The refusal for an ACL that was not stored. It contains the reason, and advice for the operator.
fn unstored(file: BorrowedFd<'_>, what: &str, acl: &[u8], errno: Errno) -> Refusal {
    let why = match errno {
        // The kernel returns ENOSPC in two cases: if the disk is full, and if the attributes of one file take too much space.
        Errno::NOSPC if fstatvfs(file).is_ok_and(|found| found.f_bavail > 0) => {
            let errno = format!(
                "the ACL of {} bytes and the other attributes of the file exceed the limit (4 KiB per file on ext4 without the feature `ea_inode`)",
                acl.len()
            );
            return Refusal::NoSpace { what: format!("writing the ACL of `{what}`"), errno };
        }
        Errno::OPNOTSUPP => {
            "the file system stores no extended attributes; use another file system, or change the mount options"
                .to_owned()
        }
        Errno::PERM | Errno::ACCESS => {
            format!("{errno}; {NEEDED}, or write access to the datastore's files")
        }
        Errno::NOTCONN => capable::no_help(),
        Errno::ROFS | Errno::TOOBIG | Errno::RANGE => errno.to_string(),
        errno => return Refusal::io(errno, "writing the ACL of", what),
    };
    Refusal::AclNotWritable { what: what.to_owned(), why }
}

/// Whether the error means that this process may not write the attribute, or that the file system does not store it. Another attribute may still be
/// writable.
fn refused(errno: Errno) -> bool {
    matches!(errno, Errno::PERM | Errno::ACCESS | Errno::OPNOTSUPP)
}
