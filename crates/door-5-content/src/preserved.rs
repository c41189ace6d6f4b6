//! The metadata that a file keeps when its content is replaced: its owner, rights and extended attributes.

use crate::acl_read::AclPlace;
use crate::acl_write::NEEDED;
use crate::attributes::{attribute, set_attribute};
use crate::capable;
use crate::node::Node;
use crate::refuse::Refusal;
use enfilade_facts::limits;
use enfilade_facts::vocabulary::AclDialect;
use rustix::buffer::spare_capacity;
use rustix::fd::BorrowedFd;
use rustix::fs::{Gid, Mode, Uid, fchmod, fchown, flistxattr, fremovexattr};
use rustix::io::{self, Errno};
use std::collections::BTreeMap;

/// The name of the extended attribute that contains the POSIX ACL of a file. If a file has a POSIX ACL, the group bits of its mode are not the rights
/// of the group. So the mode must not be copied without the ACL.
const POSIX_ACL: &str = "system.posix_acl_access";

/// The maximum total size of the preserved attributes of a file, in bytes. The size is limited because all preserved attributes are in memory at the
/// same time.
const ATTRIBUTES_BYTES_MAX: usize = 1024 * 1024;

/// The longest list of attribute names that the kernel returns, in bytes.
const NAMES_BYTES_MAX: usize = 64 * 1024;

/// Owner, mode, POSIX ACL, the ACL of this server (in `security.` or `user.`), and every other `user.` attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Preserved {
    uid: u32,
    gid: u32,
    mode: u32,
    posix: Option<Vec<u8>>,
    attributes: BTreeMap<String, Vec<u8>>,
}

impl Preserved {
    /// Reads owner, mode, ACLs and `user.` attributes of `target`.
    pub(crate) fn of(target: &Node) -> Result<Preserved, Refusal> {
        let refuse = |errno| Refusal::io(errno, "reading the attributes of", &target.label());
        let now = target.again()?;
        let mut attributes = BTreeMap::new();
        let mut left = ATTRIBUTES_BYTES_MAX;
        for name in names(target.fd()).map_err(refuse)? {
            let Some(value) = attribute(target.fd(), &name, limits::ACL_BYTES_MAX).map_err(refuse)? else {
                continue;
            };
            left = left.checked_sub(value.len()).ok_or_else(|| refuse(Errno::TOOBIG))?;
            attributes.insert(name, value);
        }
        let posix = attribute(target.fd(), POSIX_ACL, limits::ACL_BYTES_MAX).map_err(refuse)?;
        // The set-uid and set-gid bits are left out, because an upload must not produce a program with these bits.
        Ok(Preserved {
            uid: now.meta().uid,
            gid: now.meta().gid,
            mode: now.meta().mode & 0o777,
            posix,
            attributes,
        })
    }

    /// Writes the stored owner, mode, ACLs and `user.` attributes to `file`, and removes the attributes that only `file` has.
    pub(crate) fn give(&self, file: &Node) -> Result<(), Refusal> {
        let fd = file.fd();
        let refuse = |errno| Refusal::io(errno, "writing the attributes of", &file.label());
        // The mode is set before the attributes, because even the owner of a read-only file cannot write its attributes.
        io::retry_on_intr(|| fchmod(fd, Mode::RUSR | Mode::WUSR)).map_err(refuse)?;
        for name in names(fd).map_err(refuse)?.iter().filter(|name| !self.attributes.contains_key(*name)) {
            capable::remove_attribute(file, name).map_err(|errno| not_preserved(errno, name, file))?;
        }
        for (name, value) in &self.attributes {
            capable::set_acl_attribute(file, name, value)
                .map_err(|errno| not_preserved(errno, name, file))?;
        }
        let group_is_right = self.own(fd).map_err(refuse)?;
        let posix_is_right = self.give_posix(fd).map_err(refuse)?;
        let mode = if group_is_right && posix_is_right { self.mode } else { narrowed(self.mode) };
        io::retry_on_intr(|| fchmod(fd, Mode::from_raw_mode(mode))).map_err(refuse)
    }

    /// Sets owner and group, as far as this process itself may set them. Returns whether the file now has the stored group. The helper is not asked:
    /// if the helper gave the file to another user, this process could not change the mode of the file afterwards.
    fn own(&self, fd: BorrowedFd<'_>) -> io::Result<bool> {
        let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        for owner in [Some(uid), None] {
            match io::retry_on_intr(|| fchown(fd, owner, Some(gid))) {
                Ok(()) => return Ok(true),
                // EINVAL means that the id is not mapped in the user namespace of this process.
                Err(Errno::PERM | Errno::INVAL | Errno::OPNOTSUPP) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(false)
    }

    /// Gives the file the stored POSIX ACL. If no POSIX ACL is stored, removes the POSIX ACL that the new file inherited from its directory. Returns
    /// false if the POSIX ACL could not be set or removed.
    fn give_posix(&self, fd: BorrowedFd<'_>) -> io::Result<bool> {
        let given = match &self.posix {
            Some(acl) => set_attribute(fd, POSIX_ACL, acl),
            None => match io::retry_on_intr(|| fremovexattr(fd, POSIX_ACL)) {
                Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(()),
                result => result,
            },
        };
        match given {
            Ok(()) => Ok(true),
            Err(Errno::PERM | Errno::OPNOTSUPP | Errno::INVAL) => Ok(false),
            Err(errno) => Err(errno),
        }
    }
}

/// The mode for a file that could not get the old group or the old POSIX ACL. The group of the file gets only the rights that everybody has.
fn narrowed(mode: u32) -> u32 {
    mode & (0o707 | ((mode & 0o7) << 3))
}

fn not_preserved(errno: Errno, name: &str, file: &Node) -> Refusal {
    match errno {
        Errno::PERM | Errno::ACCESS if is_acl(name) => Refusal::AclNotWritable {
            what: file.label(),
            why: format!(
                "the ACL of the old file is in the attribute {name}, and only a process with CAP_SYS_ADMIN may write this attribute; {NEEDED}"
            ),
        },
        Errno::NOTCONN => Refusal::AclNotWritable { what: file.label(), why: capable::no_help() },
        errno => Refusal::io(errno, &format!("storing the attribute {name} of"), &file.label()),
    }
}

/// The names of the attributes that are preserved.
fn names(fd: BorrowedFd<'_>) -> io::Result<Vec<String>> {
    let mut list: Vec<u8> = Vec::with_capacity(NAMES_BYTES_MAX);
    match io::retry_on_intr(|| flistxattr(fd, spare_capacity(&mut list))) {
        Ok(_) => {}
        Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
        Err(errno) => return Err(errno),
    }
    let names = list.split(|byte| *byte == 0).filter_map(|name| std::str::from_utf8(name).ok());
    Ok(names.filter(|name| name.starts_with("user.") || is_acl(name)).map(str::to_owned).collect())
}

fn is_acl(name: &str) -> bool {
    [AclDialect::Ntacl, AclDialect::Nfs4].iter().any(|dialect| AclPlace::Security.name(*dialect) == name)
}

#[cfg(test)]
mod tests {
    use super::narrowed;

    #[test]
    fn another_group_gets_no_more_than_everybody() {
        for (mode, expected) in
            [(0o660, 0o600), (0o664, 0o644), (0o640, 0o600), (0o777, 0o777), (0o604, 0o604)]
        {
            assert_eq!(narrowed(mode), expected, "{mode:o}");
        }
    }
}
