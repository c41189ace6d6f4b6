//! The place where the ACL of a file or directory is stored, and the functions that read the ACL.

use crate::attributes::attribute;
use enfilade_access::StoredAcl;
use enfilade_facts::vocabulary::AclDialect;
use enfilade_xattrat::getxattrat;
use rustix::fd::BorrowedFd;
use rustix::io::{self, Errno};
use rustix::path::Arg as _;

/// The namespace of the extended attribute that contains an ACL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AclPlace {
    /// In `security.`: only privileged processes can write the attribute, and Samba reads it.
    Security,
    /// In `user.`: each user who may write the file can also write the attribute.
    User,
}

impl AclPlace {
    /// The extended attribute's name.
    pub fn name(self, dialect: AclDialect) -> &'static str {
        match (self, dialect) {
            (AclPlace::Security, AclDialect::Ntacl) => "security.NTACL",
            (AclPlace::User, AclDialect::Ntacl) => "user.NTACL",
            (AclPlace::Security, AclDialect::Nfs4) => "security.nfs4acl_xdr",
            (AclPlace::User, AclDialect::Nfs4) => "user.nfs4acl_xdr",
        }
    }
}

/// The present ACL of an object. If the ACL is longer than `bytes_max` bytes or cannot be read, the result is `Unreadable`, and not `Absent`.
pub(crate) fn stored_up_to(file: BorrowedFd<'_>, dialect: AclDialect, bytes_max: usize) -> StoredAcl {
    for place in [AclPlace::Security, AclPlace::User] {
        let name = place.name(dialect);
        match attribute(file, name, bytes_max) {
            Ok(None) => {}
            Ok(Some(acl)) => return StoredAcl::of(dialect, acl),
            Err(Errno::RANGE | Errno::TOOBIG) => {
                return StoredAcl::Unreadable(format!("{name} is larger than {bytes_max} bytes"));
            }
            Err(errno) => return StoredAcl::Unreadable(format!("{name} cannot be read: {errno}")),
        }
    }
    StoredAcl::Absent
}

/// Reads the NTACL of the entry `name` in a directory, without opening the entry; `None` if the entry has no NTACL. `room` is the buffer for the
/// NTACL. Fails if the NTACL does not fit into `room`.
pub(crate) fn stored_by_name(
    directory: BorrowedFd<'_>,
    name: &str,
    room: &mut [u8],
) -> io::Result<Option<Vec<u8>>> {
    name.into_with_c_str(|name| {
        for attribute in [c"security.NTACL", c"user.NTACL"] {
            match getxattrat(directory, name, attribute, room) {
                Ok(bytes) => return Ok(room.get(..bytes).map(<[u8]>::to_vec)),
                Err(why) => match Errno::from_io_error(&why) {
                    Some(Errno::NODATA | Errno::OPNOTSUPP) => {}
                    errno => return Err(errno.unwrap_or(Errno::IO)),
                },
            }
        }
        Ok(None)
    })
}
