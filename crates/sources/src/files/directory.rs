//! Making directories that are still there after a power cut, and giving what is in them to a group.

use super::atomic::sync_directory;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Makes a directory that only its owner can enter, and those above it that are missing, and syncs the directory above each new one. Each one
/// that was made is added to `made`, outermost first, also when a later step fails.
///
/// The first directory that is there is synced, too, where that is possible: a process may have made it and ended before it could do so
/// itself. Those above that one were synced before it was made.
///
/// # Errors
/// When one cannot be made or synced.
pub fn make(path: &Path, made: &mut Vec<PathBuf>) -> io::Result<()> {
    let is_missing = |above: &&Path| !above.as_os_str().is_empty() && !above.exists();
    let mut missing: Vec<&Path> = path.ancestors().take_while(is_missing).collect();
    let there = path.ancestors().nth(missing.len());
    if let Some(there) = there.filter(|there| there.file_name().is_some()) {
        // The one above may belong to somebody else, on a file system that syncs no directories.
        let _ = sync_directory(there);
    }
    while let Some(directory) = missing.pop() {
        match DirBuilder::new().mode(0o700).create(directory) {
            Ok(()) => made.push(directory.to_owned()),
            // Another process made it just now.
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists && directory.is_dir() => {}
            Err(why) => return Err(why),
        }
        sync_directory(directory)?;
    }
    Ok(())
}

/// The same for a directory whose members of a group may use it like its owner, where a group is named. One that was there stays as it is.
///
/// # Errors
/// As [`make`], and when it cannot be given to the group.
pub fn make_for(path: &Path, group: Option<u32>) -> io::Result<()> {
    let is_new = !path.exists();
    make(path, &mut Vec::new())?;
    match is_new && group.is_some() {
        true => share(path, group, 0o770),
        false => Ok(()),
    }
}

/// Lets the members of a group read and write a file, where a group is named.
///
/// # Errors
/// When it cannot be given to the group.
pub fn share_file(path: &Path, group: Option<u32>) -> io::Result<()> {
    if group.is_some() { share(path, group, 0o660) } else { Ok(()) }
}

/// Only the owner can; for everybody else it is right already, or they could not have opened it.
pub(crate) fn share(path: &Path, group: Option<u32>, mode: u32) -> io::Result<()> {
    let meta = std::fs::metadata(path)?;
    if meta.uid() != rustix::process::geteuid().as_raw() && !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    if group.is_some_and(|group| group != meta.gid()) {
        std::os::unix::fs::chown(path, None, group)?;
    }
    if meta.mode() & 0o777 != mode {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn makes_what_is_missing_and_tells_of_it() {
        let scratch = Scratch::new();
        let (outer, inner) = (scratch.path().join("a"), scratch.path().join("a/b"));
        let mut made = Vec::new();
        make(&inner, &mut made).unwrap();
        make(&inner, &mut made).unwrap();
        assert_eq!(made, [outer, inner.clone()]);
        std::fs::write(inner.join("file"), "").unwrap();
        assert!(make(&inner.join("file/c"), &mut made).is_err());
    }
}
