//! Extended attributes of open files and directories.

use rustix::buffer::spare_capacity;
use rustix::fd::BorrowedFd;
use rustix::fs::{XattrFlags, fgetxattr, fsetxattr};
use rustix::io::{self, Errno};

/// The size of the first buffer for a value. A usual ACL fits into this buffer, so one system call reads the ACL. The buffer is not larger, because
/// at each call the kernel clears a buffer of the same size.
pub(crate) const USUAL_BYTES: usize = 1024;

/// The value of an extended attribute; `None` if the file does not have the attribute or the file system has no attributes; [`Errno::RANGE`] if the
/// attribute is longer than `bytes_max`.
pub(crate) fn attribute(file: BorrowedFd<'_>, name: &str, bytes_max: usize) -> io::Result<Option<Vec<u8>>> {
    let mut value = Vec::with_capacity(USUAL_BYTES.min(bytes_max));
    let read = |value: &mut Vec<u8>| io::retry_on_intr(|| fgetxattr(file, name, spare_capacity(value)));
    let found = match read(&mut value) {
        Err(Errno::RANGE) if value.capacity() < bytes_max => {
            value.reserve_exact(bytes_max);
            read(&mut value)
        }
        result => result,
    };
    match found {
        Ok(_) => Ok(Some(value)),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Writes an extended attribute.
pub(crate) fn set_attribute(file: BorrowedFd<'_>, name: &str, value: &[u8]) -> io::Result<()> {
    io::retry_on_intr(|| fsetxattr(file, name, value, XattrFlags::empty()))
}
