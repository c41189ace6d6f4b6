//! `getxattrat` (Linux 6.13): reads an extended attribute of an entry of a directory by the entry's name, without opening the entry.
//!
//! This crate contains the `unsafe` code of the system call, so that the crate of door 5 needs no `unsafe` code. The crate can be removed when rustix
//! supports the call (bytecodealliance/rustix#1446).

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

/// The number of the system call on x86-64, ARM64, RISC-V and most other architectures (asm-generic/unistd.h). Alpha and MIPS have other numbers.
const GETXATTRAT: libc::c_long = 464;

/// `struct xattr_args` (linux/xattr.h): the address and the size of the buffer for the value, and flags.
#[repr(C, align(8))]
struct Args {
    value: u64,
    size: u32,
    flags: u32,
}

/// Reads the extended attribute `attribute` of the entry `name` of a directory into `value`, and returns the length in bytes. A symbolic link is not
/// followed. If a file system is mounted on the entry, the attribute of the mounted root is read.
///
/// # Errors
/// The errors of getxattr(2): `ENODATA` if the entry does not have the attribute, `ERANGE` if the attribute is larger than `value`. Before Linux
/// 6.13, the error is `ENOSYS`.
#[expect(unsafe_code, reason = "a system call with pointers as arguments")]
pub fn getxattrat(
    directory: BorrowedFd<'_>,
    name: &CStr,
    attribute: &CStr,
    value: &mut [u8],
) -> io::Result<usize> {
    let size = u32::try_from(value.len()).unwrap_or(u32::MAX);
    let args = Args { value: value.as_mut_ptr() as u64, size, flags: 0 };
    // SAFETY: both names end with a zero byte. The last argument is the length of `args`. The kernel writes at most `size` bytes to `value`, and
    // `value` has at least `size` bytes. All of these are borrowed until the call returns.
    let read = unsafe {
        libc::syscall(
            GETXATTRAT,
            directory.as_raw_fd(),
            name.as_ptr(),
            libc::AT_SYMLINK_NOFOLLOW,
            attribute.as_ptr(),
            &raw const args,
            size_of::<Args>(),
        )
    };
    usize::try_from(read).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd as _;

    #[test]
    fn what_is_read_by_name_is_what_setfattr_wrote() {
        let place = std::env::temp_dir().join(format!("enfilade-xattrat-{}", std::process::id()));
        std::fs::create_dir_all(&place).unwrap();
        std::fs::write(place.join("file"), "").unwrap();
        std::os::unix::fs::symlink("file", place.join("link")).unwrap();
        let directory = std::fs::File::open(&place).unwrap();
        let mut value = [0; 16];
        let mut read = |name: &CStr, most: usize| {
            let found = getxattrat(directory.as_fd(), name, c"user.enfilade", &mut value[..most]);
            found.map(|count| value[..count].to_vec()).map_err(|why| why.raw_os_error())
        };
        let before = read(c"file", 16);
        let set = xattr(&place.join("file"), c"user.enfilade", b"twelve bytes");
        let results =
            [read(c"file", 16), read(c"file", 12), read(c"file", 3), read(c"link", 16), read(c"gone", 16)];
        std::fs::remove_dir_all(&place).unwrap();
        if before == Err(Some(libc::ENOSYS)) || !set {
            return println!(
                "not asserted: this kernel has no getxattrat, or this file system has no attributes"
            );
        }
        let whole = Ok(b"twelve bytes".to_vec());
        let (none, range, absent) =
            (Err(Some(libc::ENODATA)), Err(Some(libc::ERANGE)), Err(Some(libc::ENOENT)));
        assert_eq!(before, none);
        assert_eq!(results, [whole.clone(), whole, range, none, absent]);
    }

    #[expect(unsafe_code, reason = "the kernel is given pointers")]
    fn xattr(path: &std::path::Path, attribute: &CStr, value: &[u8]) -> bool {
        let path = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).unwrap();
        // SAFETY: both names end with a zero byte, and the length argument is the length of the value.
        unsafe {
            libc::setxattr(path.as_ptr(), attribute.as_ptr(), value.as_ptr().cast(), value.len(), 0) == 0
        }
    }
}
