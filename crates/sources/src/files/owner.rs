//! Sets the owner of new files. A file that root makes gets the owner of its directory.

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Uid};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// If root owns a file or directory, sets its owner and group to the owner and group of `directory`. Without this change, a server that runs as the
/// owner of `directory` could not open a file that root made with a command. If the caller is not root, nothing is changed.
///
/// # Errors
/// When the owner cannot be read or changed.
pub fn give(path: &Path, directory: &Path) -> io::Result<()> {
    if rustix::process::geteuid().is_root() { give_opened(&opened(path)?, directory) } else { Ok(()) }
}

/// Does the same as [`give`] for an open file.
pub(crate) fn give_opened(file: impl AsFd, directory: &Path) -> io::Result<()> {
    if !rustix::process::geteuid().is_root() || rustix::fs::fstat(&file)?.st_uid != 0 {
        return Ok(());
    }
    let owner = std::fs::metadata(directory)?;
    if owner.uid() == 0 {
        return Ok(());
    }
    let (user, group) = (Uid::from_raw(owner.uid()), Gid::from_raw(owner.gid()));
    Ok(rustix::fs::chownat(file, "", Some(user), Some(group), AtFlags::EMPTY_PATH)?)
}

/// The directory that contains `path`.
pub(crate) fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Opens a file or directory to set its owner. A symbolic link is refused: a member of the group may have made the link, and it may point to another
/// file of the owner.
///
/// The descriptor is opened with `O_PATH`, because closing a readable descriptor would release the locks that LMDB has on the file (fcntl(2)).
pub(super) fn opened(path: &Path) -> io::Result<OwnedFd> {
    let file = rustix::fs::open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    if FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) == FileType::Symlink {
        let text = format!(
            "`{}` is a symbolic link, expected a file of this data directory: remove the link",
            path.display()
        );
        return Err(io::Error::other(text));
    }
    Ok(file)
}
