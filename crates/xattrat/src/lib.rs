//! `getxattrat` (Linux 6.13): an extended attribute of what has a name in a directory, which need not be opened for it.
//!
//! It goes as soon as rustix has it (bytecodealliance/rustix#1446); until then the one pointer to a pointer is here, and the door that
//! needs it stays free of `unsafe`.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

/// Its number is the same on every machine Linux runs on (asm-generic/unistd.h), but for Alpha.
const GETXATTRAT: libc::c_long = 464;

/// `struct xattr_args` (linux/xattr.h): where the value goes, and how much of it.
#[repr(C, align(8))]
struct Args {
    value: u64,
    size: u32,
    flags: u32,
}

/// Reads the extended attribute `attribute` of what is called `name` in a directory, and says how many bytes it has. A link is not
/// followed, and something that is mounted there hides what is beneath it.
///
/// # Errors
/// As getxattr(2): `ENODATA` where there is none, `ERANGE` where it is larger than `value`; and `ENOSYS` before Linux 6.13.
#[expect(unsafe_code, reason = "the kernel is given pointers")]
pub fn getxattrat(
    directory: BorrowedFd<'_>,
    name: &CStr,
    attribute: &CStr,
    value: &mut [u8],
) -> io::Result<usize> {
    let size = u32::try_from(value.len()).unwrap_or(u32::MAX);
    let args = Args { value: value.as_mut_ptr() as u64, size, flags: 0 };
    // SAFETY: both names end with a zero, the arguments are as long as is said, and at most `size` bytes, which are all of `value` or
    // less of it, are written to where they say. All of that is borrowed until the call is over.
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
                "not asserted: this kernel has no getxattrat, or this file system no attributes"
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
        // SAFETY: both names end with a zero, and the value is as long as is said.
        unsafe {
            libc::setxattr(path.as_ptr(), attribute.as_ptr(), value.as_ptr().cast(), value.len(), 0) == 0
        }
    }
}
